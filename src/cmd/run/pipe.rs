//! Standard input beside a prompt that is given: what comes through a pipe goes behind the prompt.

use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::Context as _;

use crate::failure::Hint;

/// How long a pipe may give nothing, once the model is loaded. Programs hand on pipes that nobody writes to or closes, so
/// that to wait without end would be to hang.
const WAIT: Duration = Duration::from_secs(30);

/// How long nothing is said of waiting.
const SILENT: Duration = Duration::from_secs(1);

/// The longest text that is taken: more than any context holds.
const BYTES_MAX: usize = 256 << 20;

/// What becomes of standard input beside what the flags say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// There is no prompt, or it came from there.
    Nothing,
    /// The prompt is to be what it is, byte for byte.
    Unread,
    /// It goes behind the prompt.
    Behind,
}

/// What standard input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// A file, or a pipe of the shell.
    Text,
    /// What other programs give to those that they start, and often never close.
    Socket,
    /// A terminal, or a device that gives nothing.
    Nothing,
}

#[cfg(unix)]
mod system {
    use std::fs::{File, Metadata};
    use std::io;
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
    use std::path::Path;

    use super::Source;

    fn about() -> io::Result<Metadata> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        File::from(input).metadata()
    }

    pub(super) fn source() -> Source {
        match about().map(|about| about.file_type()) {
            Ok(kind) if kind.is_fifo() || kind.is_file() => Source::Text,
            Ok(kind) if kind.is_socket() => Source::Socket,
            _ => Source::Nothing,
        }
    }

    pub(super) fn is_standard_input(path: &Path) -> bool {
        let (Ok(one), Ok(other)) = (path.metadata(), about()) else {
            return false;
        };
        (one.dev(), one.ino()) == (other.dev(), other.ino())
    }
}

#[cfg(not(unix))]
mod system {
    use std::io::{self, IsTerminal as _};
    use std::path::Path;

    use super::Source;

    pub(super) fn source() -> Source {
        match io::stdin().is_terminal() {
            true => Source::Nothing,
            false => Source::Text,
        }
    }

    pub(super) fn is_standard_input(_path: &Path) -> bool {
        false
    }
}

/// Whether this is the file, or the pipe, that standard input is.
pub fn is_standard_input(path: &Path) -> bool {
    system::is_standard_input(path)
}

/// The prompt, with what comes through the pipe behind it.
///
/// # Errors
/// A text that cannot be read, or that is longer than any context.
pub fn behind(
    pipe: Option<Pipe>,
    prompt: Option<Vec<u8>>,
    quiet: bool,
) -> anyhow::Result<Option<Vec<u8>>> {
    match pipe {
        Some(pipe) => pipe.behind(prompt, WAIT, quiet),
        None => Ok(prompt),
    }
}

/// What the reader of a pipe tells.
enum Told {
    /// There is text, so that the rest is waited for.
    Begun,
    /// All of it.
    Whole(io::Result<Vec<u8>>),
}

/// A text that is read while the model is loaded.
pub struct Pipe {
    told: Receiver<Told>,
    n_bytes_max: usize,
}

impl Pipe {
    /// Begins to read standard input, where it is a pipe or a file whose text goes behind the prompt; where it does not, that
    /// is said.
    pub fn beside(prompt: Beside, reference: Option<&str>, quiet: bool) -> Option<Pipe> {
        let why = match (system::source(), prompt, reference) {
            (Source::Nothing, _, _) | (_, Beside::Nothing, _) => return None,
            (Source::Text, Beside::Behind, None) => return Some(Pipe::new(io::stdin(), BYTES_MAX)),
            // The reference is silent too.
            (Source::Socket, _, Some(_)) => return None,
            (Source::Text, _, Some(name)) => format!("{name} reads none beside a prompt"),
            (_, Beside::Unread, None) => "--binary-file is all of the prompt".into(),
            (Source::Socket, _, None) => "it is a socket, neither a pipe nor a file".into(),
        };
        if !quiet {
            say!("note: standard input is not read: {why}");
        }
        None
    }

    fn new(mut input: impl Read + Send + 'static, n_bytes_max: usize) -> Self {
        let (teller, told) = mpsc::channel();
        // Where nobody listens any more, nothing is to be done.
        std::thread::spawn(move || {
            let mut text = vec![0; 1 << 16];
            let begun = input.read(&mut text);
            let whole = begun.and_then(|n| {
                text.truncate(n);
                if n > 0 {
                    let _ = teller.send(Told::Begun);
                    input.take(n_bytes_max as u64).read_to_end(&mut text)?;
                }
                Ok(text)
            });
            let _ = teller.send(Told::Whole(whole));
        });
        Pipe { told, n_bytes_max }
    }

    /// The prompt with the text behind it, on a line of its own. A pipe that gives nothing within this time is not waited for.
    fn behind(
        self,
        prompt: Option<Vec<u8>>,
        wait: Duration,
        quiet: bool,
    ) -> anyhow::Result<Option<Vec<u8>>> {
        let Some(text) = self.text(wait, quiet)? else {
            return Ok(prompt);
        };
        let mut all = prompt.unwrap_or_default();
        if !all.is_empty() && !all.ends_with(b"\n") {
            all.push(b'\n');
        }
        all.extend(text.strip_suffix(b"\n").unwrap_or(&text));
        Ok(Some(all))
    }

    fn text(&self, wait: Duration, quiet: bool) -> anyhow::Result<Option<Vec<u8>>> {
        let silent = SILENT.min(wait);
        let mut told = self.told.recv_timeout(silent);
        if matches!(told, Err(RecvTimeoutError::Timeout)) {
            if !quiet {
                say!(
                    "note: waiting for standard input, whose text goes behind the prompt; with `< /dev/null` there is none"
                );
            }
            told = self.told.recv_timeout(wait.saturating_sub(silent));
        }
        if matches!(told, Ok(Told::Begun)) {
            told = self.told.recv().map_err(|_| RecvTimeoutError::Disconnected);
        }
        let text = match told {
            Ok(Told::Whole(text)) => text.context("cannot read standard input")?,
            _ => {
                if !quiet {
                    say!(
                        "warning: standard input is open and gave nothing in {} seconds; it is not read",
                        wait.as_secs()
                    );
                }
                return Ok(None);
            }
        };
        if text.len() > self.n_bytes_max {
            return Err(anyhow::anyhow!(
                "standard input has more than {} MiB",
                self.n_bytes_max >> 20
            )
            .context(Hint::new("pipe less text; no context holds as much")));
        }
        Ok(Some(text).filter(|text| !text.trim_ascii().is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Sender;

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(600);

    /// Never ends. Tells when it is asked for a text.
    struct Idle(Sender<()>);

    impl Read for Idle {
        fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
            self.0.send(()).expect("the test listens");
            loop {
                std::thread::park();
            }
        }
    }

    /// Gives a text long after it is asked for one. Tells when it is asked.
    struct Late(Sender<()>, io::Cursor<&'static str>);

    impl Read for Late {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            // Behind the text nobody may listen any more.
            let _ = self.0.send(());
            std::thread::sleep(SHORT * 10);
            self.1.read(buffer)
        }
    }

    fn behind(prompt: &str, pipe: Pipe, wait: Duration) -> String {
        let all = pipe.behind(Some(prompt.into()), wait, true);
        let all = all.expect("it can be read").expect("there is a prompt");
        String::from_utf8(all).expect("it is text")
    }

    #[test]
    fn a_pipe_that_nobody_writes_to_is_not_waited_for() {
        let (asked, is_asked) = mpsc::channel();
        let pipe = Pipe::new(Idle(asked), BYTES_MAX);
        is_asked.recv().expect("it is read");
        assert_eq!(behind("Q", pipe, SHORT), "Q");
    }

    #[test]
    fn a_pipe_that_began_is_read_to_its_end() {
        let (asked, is_asked) = mpsc::channel();
        let late = Late(asked, io::Cursor::new("b\nc\n"));
        let pipe = Pipe::new(io::Cursor::new("a").chain(late), BYTES_MAX);
        // Now the first text is there, and the second is not.
        is_asked.recv().expect("it is read");
        assert_eq!(behind("Q", pipe, SHORT), "Q\nab\nc");
    }

    #[test]
    fn text_stands_on_a_line_of_its_own() {
        let text = |text: &'static str| Pipe::new(io::Cursor::new(text), BYTES_MAX);
        assert_eq!(behind("Q", text("a\nb\n"), LONG), "Q\na\nb");
        assert_eq!(behind("Q\n", text("a"), LONG), "Q\na");
        assert_eq!(behind("", text("a\n\n"), LONG), "a\n");
        for nothing in ["", "\n", " \n \n"] {
            assert_eq!(behind("Q", text(nothing), LONG), "Q");
        }
    }

    #[test]
    fn an_endless_text_is_refused() {
        let endless = Pipe::new(io::repeat(b'a'), 1 << 20).behind(None, LONG, true);
        let error = endless.expect_err("it is longer than that");
        let mut causes = error.chain().map(ToString::to_string);
        assert!(
            causes.any(|cause| cause == "standard input has more than 1 MiB"),
            "{error:?}"
        );
        let just = Pipe::new(io::repeat(b'a').take(1 << 20), 1 << 20);
        assert_eq!(behind("", just, LONG).len(), 1 << 20);
    }
}
