//! Lines on standard error.

use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::sync::{Mutex, OnceLock};

/// Writes a line to standard error. Where it cannot be written (a full disk, a closed pipe) the work goes on: nobody would
/// hear of the failure either, and the macro of the standard library would panic.
macro_rules! say {
    ($($argument:tt)*) => {
        $crate::say::line(format_args!($($argument)*))
    };
}

/// A file that lines are written to as well.
static LOG: OnceLock<Mutex<File>> = OnceLock::new();

/// Has lines written to a file too.
pub fn also_to(file: File) {
    // It is set once, at the start.
    let _ = LOG.set(Mutex::new(file));
}

/// What [`say!`] does. Whatever of a file or an argument is in the line, it stays one line and does not steer the terminal.
pub fn line(text: fmt::Arguments<'_>) {
    let text = text.to_string();
    let text = crate::display::printable(&text);
    let _ = writeln!(std::io::stderr(), "{text}");
    if let Some(Ok(mut file)) = LOG.get().map(Mutex::lock) {
        let _ = writeln!(file, "{text}");
    }
}
