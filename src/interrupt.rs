//! Ctrl-C: temporary files are removed and the program exits with 130, unless something that can stop by itself
//! (an answer that is being generated) has asked to be told instead.

use std::sync::atomic::{AtomicBool, Ordering};

static LISTENING: AtomicBool = AtomicBool::new(false);
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// The exit code of a program ended by SIGINT (128 + 2), as shells report it.
const EXIT_INTERRUPTED: i32 = 130;

/// Installs the handler; called once, first thing.
pub fn install() {
    // It fails only where a handler already stands or the system has none: then the default action stays.
    let _ = ctrlc::set_handler(|| {
        if LISTENING.load(Ordering::SeqCst) && !INTERRUPTED.swap(true, Ordering::SeqCst) {
            return;
        }
        leave();
    });
}

/// Ends the program as Ctrl-C does.
pub fn leave() -> ! {
    gristmill_gguf::remove_partial_outputs();
    std::process::exit(EXIT_INTERRUPTED)
}

/// While it lives, the first Ctrl-C only makes [`Listener::interrupted`] true; a second one ends the program.
pub struct Listener(());

impl Listener {
    /// Starts to listen; there is one listener at a time.
    pub fn new() -> Self {
        INTERRUPTED.store(false, Ordering::SeqCst);
        LISTENING.store(true, Ordering::SeqCst);
        Listener(())
    }

    /// Whether Ctrl-C was pressed since the listener was made.
    pub fn interrupted(&self) -> bool {
        INTERRUPTED.load(Ordering::SeqCst)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        LISTENING.store(false, Ordering::SeqCst);
    }
}
