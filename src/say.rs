//! Lines on standard error.

/// Writes a line to standard error, as `eprintln!` does. Where it cannot be written (a full disk, a closed pipe) the work
/// goes on: nobody would hear of the failure either, and `eprintln!` would panic.
macro_rules! say {
    ($($argument:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($argument)*);
    }};
}
