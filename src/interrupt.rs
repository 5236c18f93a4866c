//! Signals that end the program: temporary files are removed first, and the exit code tells the signal. An answer that is
//! being generated can ask to be told of the first Ctrl-C instead. Signals that the program was started to ignore (by
//! `nohup`, or as a background job of a script) stay ignored.

use std::sync::atomic::{AtomicBool, Ordering};

static LISTENING: AtomicBool = AtomicBool::new(false);
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static RESUMABLE: AtomicBool = AtomicBool::new(false);
static LEAVING: AtomicBool = AtomicBool::new(false);

/// The number of SIGINT, which Ctrl-C sends.
const INTERRUPT: i32 = 2;

/// Installs the handler; called once, first thing.
pub fn install() {
    system::install(|signal| {
        let first = signal == INTERRUPT
            && LISTENING.load(Ordering::SeqCst)
            && !INTERRUPTED.swap(true, Ordering::SeqCst);
        if !first {
            leave_by(signal);
        }
    });
}

/// Ends the program as Ctrl-C does.
pub fn leave() -> ! {
    leave_by(INTERRUPT)
}

/// Whether [`suspend`] does anything.
pub const CAN_SUSPEND: bool = cfg!(unix);

/// Suspends the program, as Ctrl-Z does; goes on when the shell continues it.
pub fn suspend() {
    system::suspend();
}

/// Ends the program with the exit code by which shells report a signal.
fn leave_by(signal: i32) -> ! {
    LEAVING.store(true, Ordering::SeqCst);
    gristmill_gguf::remove_partial_outputs();
    let was_shown = crate::progress::clear();
    if RESUMABLE.load(Ordering::SeqCst) {
        say!("interrupted; the same command goes on from here");
    } else if was_shown {
        say!("interrupted");
    }
    std::process::exit(128 + signal)
}

/// Where a signal is ending the program, waits for that end: what fails meanwhile fails for want of the removed files, and
/// its error and exit code would hide the signal's.
pub fn wait_if_leaving() {
    while LEAVING.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// Says whether what is being done goes on later, by the same command.
pub fn resumable(is_resumable: bool) {
    RESUMABLE.store(is_resumable, Ordering::SeqCst);
}

#[cfg(unix)]
mod system {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
    use signal_hook::iterator::Signals;

    /// Calls `handler` for every signal that would end the program. Where no handler can be installed the default action
    /// stays.
    pub(super) fn install(handler: impl Fn(i32) + Send + 'static) {
        // A file above the size limit becomes an error of the write, which cleans up, in place of a killed process.
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let ignored = ignored(&status);
        let heard = [SIGHUP, SIGINT, SIGTERM]
            .into_iter()
            .filter(|signal| ignored & (1 << (signal - 1)) == 0);
        let Ok(mut signals) = Signals::new(heard) else {
            return;
        };
        let thread = std::thread::Builder::new().name("signals".into());
        let _ = thread.spawn(move || signals.forever().for_each(handler));
    }

    pub(super) fn suspend() {
        // Without a shell to continue it the system ignores the signal, so there is nothing to do about a failure.
        let _ = signal_hook::low_level::raise(signal_hook::consts::SIGTSTP);
    }

    /// The ignored signals, a bit for each from 1 on, as Linux tells them; none on other systems, which do not tell.
    pub(super) fn ignored(status: &str) -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .unwrap_or(0)
    }
}

#[cfg(not(unix))]
mod system {
    /// Calls `handler` for Ctrl-C. Where no handler can be installed the default action stays.
    pub(super) fn install(handler: impl Fn(i32) + Send + 'static) {
        let _ = ctrlc::set_handler(move || handler(super::INTERRUPT));
    }

    pub(super) fn suspend() {}
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

#[cfg(all(test, unix))]
mod tests {
    use super::system::ignored;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        let status = "Name:\tgristmill\nSigBlk:\t00000000ffffffff\nSigIgn:\t0000000000001001\n";
        assert_eq!(ignored(status), 0x1001);
        assert_eq!(ignored("SigIgn:\tnothing\n"), 0);
        assert_eq!(ignored(""), 0);
    }
}
