//! Lines on standard error.

use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

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

/// How lines look.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Whether they begin with a letter for their level.
    pub prefix: bool,
    /// Whether they begin with the time since the start.
    pub time: bool,
    /// Whether warnings and errors are coloured on standard error.
    pub color: bool,
}

/// The style of all further lines, and when it was set.
static STYLE: OnceLock<(Style, Instant)> = OnceLock::new();

/// Has lines look so from now on.
pub fn set_style(style: Style) {
    // It is set once, at the start.
    let _ = STYLE.set((style, Instant::now()));
}

/// What stands before a line, and the number of its colour.
fn styled(text: &str) -> (String, Option<u8>) {
    let Some((style, start)) = STYLE.get() else {
        return (String::new(), None);
    };
    let (level, color) = match text.split(':').next() {
        Some("error") => ('E', Some(31)),
        Some("warning") => ('W', Some(33)),
        _ => ('I', None),
    };
    let mut before = String::new();
    if style.time {
        let (micros, second) = (start.elapsed().as_micros(), 1_000_000);
        before = format!(
            "{}.{:02}.{:03}.{:03} ",
            micros / (60 * second),
            micros / second % 60,
            micros / 1000 % 1000,
            micros % 1000
        );
    }
    if style.prefix {
        before.push(level);
        before.push(' ');
    }
    (before, color.filter(|_| style.color))
}

/// What [`say!`] does. Whatever of a file or an argument is in the line, it stays one line and does not steer the terminal.
pub fn line(text: fmt::Arguments<'_>) {
    let text = text.to_string();
    let text = crate::display::printable(&text);
    let (before, color) = styled(&text);
    let text = before + &text;
    let _ = match color {
        Some(color) => writeln!(std::io::stderr(), "\u{1b}[{color}m{text}\u{1b}[0m"),
        None => writeln!(std::io::stderr(), "{text}"),
    };
    if let Some(Ok(mut file)) = LOG.get().map(Mutex::lock) {
        let _ = writeln!(file, "{text}");
    }
}
