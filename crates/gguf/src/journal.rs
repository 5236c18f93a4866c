//! The journal of a run that a later one may continue: its lines, and who is writing them. [`crate::resumable`] says what
//! they mean.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::file_state::removed;
use crate::output::{beside, has_name};
use crate::runs::{self, N_TRIES, PAUSE, first_of_set};

/// What every journal begins with; a blank and the number of its format follow.
const TITLE: &str = "gristmill resume";
const FORMAT: &str = "3";
/// What the name of a journal has behind that of the output.
pub(crate) const JOURNAL: &str = ".resume";
/// Digits of the process that writes.
const PROCESS_BYTES: usize = 10;
/// Longest note of a tensor, in bytes.
pub(crate) const NOTE_BYTES: usize = 1024;
/// Bytes of a line around its note: two hashes, a blank behind each, a line break.
const LINE_BYTES: usize = 64 + 1 + 16 + 1 + 1;
/// A journal that this process alone writes: it is locked until it is closed, which the end of a process does too.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    /// Its first line up to the process.
    start: String,
    /// Whether it is this process that made it.
    made: bool,
    /// Its first line as it was found, where it was whole.
    found: Vec<u8>,
}

/// What the journal tells of a complete tensor.
pub(crate) struct Line {
    pub hash: String,
    pub source: String,
    pub note: String,
}

impl Journal {
    /// Opens the journal of an output, or makes it, for what has this fingerprint. Who holds its lock may be refused yet, and
    /// is waited for a moment.
    ///
    /// # Errors
    /// [`Error::BeingWritten`], [`Error::OutputRefused`].
    pub fn open(output: &Path, fingerprint: &str) -> Result<Journal> {
        let path = beside(output, JOURNAL);
        // Whatever else stands in the way of that is told when it is opened.
        let mut made = File::create_new(&path).is_ok();
        let mut file = open_own(&path, true)?;
        let mut was_locked = false;
        for _ in 0..N_TRIES {
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => was_locked |= runs::is_locked(&file),
                // Some network file systems have no locks.
                Ok(()) | Err(TryLockError::Error(_)) if is_named(&file, &path) => {
                    let start = format!("{TITLE} {FORMAT} {fingerprint} ");
                    let found = Vec::new();
                    return Ok(Journal {
                        file,
                        path,
                        start,
                        made,
                        found,
                    });
                }
                // Who held the lock is done, and has removed the journal.
                Ok(()) | Err(TryLockError::Error(_)) if was_locked => break,
                // The same before it was asked for: this lock keeps nobody off.
                Ok(()) | Err(TryLockError::Error(_)) => {
                    made |= File::create_new(&path).is_ok();
                    file = open_own(&path, true)?;
                }
            }
            std::thread::sleep(PAUSE);
        }
        Err(busy(output, &file))
    }

    /// Leaves the journal as it was found, where no run has come of it: still under the lock, so that it is nobody else's.
    pub fn give_up(&mut self) {
        if self.made {
            remove_empty(&self.file, &self.path);
        }
        // There is nobody to tell of a failure.
        let restored = self.file.seek(SeekFrom::Start(0));
        let _ = restored.and_then(|_| self.file.write_all(&self.found));
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The lines of complete tensors; `None` for one that is damaged. Nothing where the first line of the journal is missing
    /// or was cut short.
    ///
    /// # Errors
    /// [`Error::Resume`], [`Error::ResumeFormat`] for what is not continued; [`Error::Io`].
    pub fn read(&mut self, n_tensors: usize) -> Result<Option<Vec<Option<Line>>>> {
        let title_bytes = self.start.len() + PROCESS_BYTES + 1;
        let limit = (title_bytes + n_tensors * (NOTE_BYTES + LINE_BYTES)) as u64;
        let mut bytes = Vec::new();
        (&self.file)
            .take(limit + 1)
            .read_to_end(&mut bytes)
            .map_err(|source| Error::io(&self.path, "read", source))?;
        if bytes.len() as u64 > limit {
            let reason = "it is longer than any journal of this output";
            return Err(refused(&self.path, reason));
        }
        let start = self.start.as_bytes();
        if !bytes.starts_with(&start[..start.len().min(bytes.len())]) {
            return Err(self.foreign(&bytes));
        }
        // A title that was cut short says nothing of what follows, and nothing does.
        let Some((title, lines)) = bytes.split_at_checked(title_bytes) else {
            return Ok(None);
        };
        self.found = title.to_owned();
        // Before anything takes long: who asks for the lock is told of this process.
        self.sign().map_err(|error| self.not_written(error))?;
        let lines = lines.split_inclusive(|byte| *byte == b'\n');
        let complete = lines.filter_map(|line| line.strip_suffix(b"\n"));
        let complete = complete.map(|text| line(std::str::from_utf8(text).ok()?));
        Ok(Some(complete.take(n_tensors).collect()))
    }

    /// Why what begins so is not continued.
    fn foreign(&self, bytes: &[u8]) -> Error {
        let rest = bytes.strip_prefix(TITLE.as_bytes());
        let rest = rest.and_then(|rest| rest.strip_prefix(b" "));
        let format: Option<String> = rest.map(|rest| {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
            digits.map(|&byte| char::from(byte)).take(9).collect()
        });
        match format.as_deref() {
            None | Some("") => refused(&self.path, "it is not the journal of an interrupted run"),
            Some(FORMAT) => refused(
                &self.path,
                "it belongs to a run with another source, type or option",
            ),
            Some(format) => Error::ResumeFormat {
                path: self.path.clone(),
                found: format.to_owned(),
                known: FORMAT,
            },
        }
    }

    /// Writes the first line.
    fn sign(&mut self) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        let (start, process) = (&self.start, std::process::id());
        // What stands there begins with these very bytes, or is less than they are; only the process may be another.
        let title = format!("{start}{process:0PROCESS_BYTES$}\n");
        self.file.write_all(title.as_bytes())
    }

    /// Cuts the journal behind the lines that hold; a journal without its first line gets it.
    pub fn cut(&mut self, lines: &[Line]) -> Result<()> {
        let lines: usize = lines.iter().map(|line| LINE_BYTES + line.note.len()).sum();
        let end = self.start.len() + PROCESS_BYTES + 1 + lines;
        let cut = self.sign().and_then(|()| {
            self.file.set_len(end as u64)?;
            self.file.seek(SeekFrom::End(0))
        });
        cut.map(drop).map_err(|error| self.not_written(error))
    }

    /// Adds a line.
    pub fn add(&mut self, line: &Line) -> Result<()> {
        let text = format!("{} {} {}\n", line.hash, line.source, line.note);
        let added = self.file.write_all(text.as_bytes());
        added.map_err(|error| self.not_written(error))
    }

    fn not_written(&self, source: io::Error) -> Error {
        Error::io(&self.path, "write", source)
    }
}

/// A line of the journal, without its break.
fn line(text: &str) -> Option<Line> {
    let (hash, rest) = text.split_once(' ')?;
    let (source, note) = rest.split_once(' ')?;
    // Where the journal is cut is counted from these lengths.
    (hash.len() == 64 && source.len() == 16).then(|| Line {
        hash: hash.to_owned(),
        source: source.to_owned(),
        note: note.to_owned(),
    })
}

/// Refuses an output that a run with a journal is writing, alone or in its set.
pub(crate) fn check_unlocked(output: &Path) -> Result<()> {
    match locked(output, None) {
        None => Ok(()),
        Some(journal) => Err(busy(output, &journal)),
    }
}

/// The same for a run that has the lock of its own journal.
pub(crate) fn check_others(output: &Path, own: &Path) -> Result<()> {
    match runs::patiently(|| locked(output, Some(own))) {
        None => Ok(()),
        Some(journal) => Err(busy(output, &journal)),
    }
}

/// The journal of another run that is writing an output, alone or in its set.
pub(crate) fn locked(output: &Path, own: Option<&Path>) -> Option<File> {
    let first = first_of_set(output);
    let journals = [beside(output, JOURNAL), beside(&first, JOURNAL)];
    let mut others = journals.iter().filter(|path| own != Some(path));
    others.find_map(|path| runs::being_written(path))
}

/// Removes a journal of which nothing has come. There is nobody to tell of a failure.
fn remove_empty(file: &File, path: &Path) {
    if file.metadata().is_ok_and(|about| about.len() == 0) {
        let _ = fs::remove_file(path);
    }
}

fn is_named(file: &File, path: &Path) -> bool {
    file.metadata().is_ok_and(|about| has_name(&about, path))
}

/// Another run holds the lock of this output's journal.
pub(crate) fn busy(output: &Path, journal: &File) -> Error {
    for _ in 0..N_TRIES {
        if let Some(process) = process(journal) {
            return being_written(output, Some(process));
        }
        // It has only just begun.
        std::thread::sleep(PAUSE);
    }
    being_written(output, None)
}

/// The process that the first line of a journal tells. Some systems let nobody else read what is locked.
fn process(mut journal: &File) -> Option<u32> {
    let mut title = Vec::new();
    journal.seek(SeekFrom::Start(0)).ok()?;
    journal.take(512).read_to_end(&mut title).ok()?;
    let (title, _) = std::str::from_utf8(&title).ok()?.split_once('\n')?;
    let title = title.starts_with(TITLE).then_some(title)?;
    title.split(' ').nth(4)?.parse().ok()
}

pub(crate) fn being_written(output: &Path, process: Option<u32>) -> Error {
    Error::BeingWritten {
        path: output.to_owned(),
        process,
    }
}

pub(crate) fn refused(path: &Path, reason: &str) -> Error {
    Error::Resume {
        path: path.to_owned(),
        reason: reason.to_owned(),
    }
}

/// Opens a file of the run, to read and to write it; links are not followed.
pub(crate) fn open_own(path: &Path, create: bool) -> Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(create)
        .truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    }
    options.open(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound if !create => removed(path),
        _ => Error::OutputRefused {
            path: path.to_owned(),
            source,
        },
    })
}
