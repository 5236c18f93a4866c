//! Standard output, the only way to it. A reader that closes the pipe has read enough: that is no failure, and neither
//! does it hide one, so the exit code stays that of the work whatever a command does with its errors.

use std::fmt;
use std::io::{self, IsTerminal as _, StdoutLock, Write};
use std::path::Path;

/// Standard output, locked.
pub struct Stdout {
    out: StdoutLock<'static>,
    is_stream: bool,
}

/// For what a command found or did. Once the reader has gone, the rest is dropped.
pub fn lock() -> Stdout {
    let out = io::stdout().lock();
    Stdout {
        out,
        is_stream: false,
    }
}

/// For text that is made as long as somebody reads it: a reader that has gone is an error, which ends the work.
pub fn stream() -> Stdout {
    let out = io::stdout().lock();
    Stdout {
        out,
        is_stream: true,
    }
}

/// Whether it is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Tells of work that stands whether it can be told or not; the error begins with `done`, as in "a.gguf: is written".
/// `None` where nothing was done.
pub fn tell(
    done: Option<impl fmt::Display>,
    write: impl FnOnce(&mut Stdout) -> io::Result<()>,
) -> anyhow::Result<()> {
    let mut out = lock();
    let told = write(&mut out).and_then(|()| out.flush());
    told.map_err(|error| match done {
        Some(done) => anyhow::anyhow!("{done}, but {error}"),
        None => error.into(),
    })
}

/// What [`tell`] takes for files that were written, of which a dry run writes none.
pub fn written<'a>(files: impl IntoIterator<Item = &'a Path>, dry_run: bool) -> Option<String> {
    let mut files = files.into_iter();
    let first = files.next().filter(|_| !dry_run)?.display();
    Some(match files.count() {
        0 => format!("{first}: is written"),
        n => format!("{first} and {n} more: are written"),
    })
}

/// The error of a write that failed, which says what could not be written.
pub fn failed(source: io::Error) -> io::Error {
    let kind = source.kind();
    io::Error::new(kind, format!("standard output cannot be written: {source}"))
}

impl Stdout {
    fn outcome<T>(&self, written: io::Result<T>, of_dropped: T) -> io::Result<T> {
        written.or_else(|error| match error.kind() {
            io::ErrorKind::BrokenPipe if !self.is_stream => Ok(of_dropped),
            io::ErrorKind::Interrupted => Err(error),
            _ => Err(failed(error)),
        })
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes);
        self.outcome(written, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.out.flush();
        self.outcome(flushed, ())
    }
}
