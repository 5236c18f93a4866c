//! Lines on standard error.

use std::fmt;
use std::io::Write as _;

/// Writes a line to standard error. Where it cannot be written (a full disk, a closed pipe) the work goes on: nobody would
/// hear of the failure either, and the macro of the standard library would panic.
macro_rules! say {
    ($($argument:tt)*) => {
        $crate::say::line(format_args!($($argument)*))
    };
}

/// What [`say!`] does. Whatever of a file or an argument is in the line, it stays one line and does not steer the terminal.
pub fn line(text: fmt::Arguments<'_>) {
    let text = text.to_string();
    let _ = writeln!(std::io::stderr(), "{}", crate::display::printable(&text));
}
