//! One file, from the network to the disk: in parts, several at once, each of which goes on where it was cut; checked when
//! all of them are there.
//!
//! While it grows, a file lies beside its final name with `.gristmill-part` behind it, and `.gristmill-parts` lists the parts
//! that are complete. (Other programs take a file of a fixed name for its beginning, and go on at its end.)

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cache::make_parent;
use crate::error::HubError;
use crate::http::{Client, transport};
use crate::listing::Digest;
use crate::settings::Settings;
use crate::{Event, Report, Result};

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 18;
/// So many bytes show that a connection works, and earlier failures count no more.
const PROGRESS_BYTES: u64 = 1 << 16;

/// A file to fetch.
pub(crate) struct Transfer<'a> {
    pub client: &'a Client,
    pub settings: &'a Settings,
    pub url: &'a str,
    /// The file, as messages name it.
    pub name: &'a str,
    pub bytes: u64,
    /// The hash that it must have, where one is known.
    pub digest: Option<&'a Digest>,
    /// What tells this version of the file from another, in one line.
    pub identity: &'a str,
    pub report: Report<'a>,
}

/// What is shared by the threads that fetch parts.
struct Parts<'a> {
    out: &'a File,
    path: &'a Path,
    missing: Mutex<VecDeque<u64>>,
    journal: Mutex<File>,
    journal_path: &'a Path,
    /// Set by a failure: the others end too.
    stopped: AtomicBool,
}

/// How a server answers to a range.
#[derive(PartialEq, Eq)]
enum Answer {
    Range,
    /// With the whole file.
    Whole,
}

impl Transfer<'_> {
    /// Fetches the file and gives it its name, in a folder that is made where it is missing.
    ///
    /// # Errors
    /// What the server, the network or the disk says, `WrongHash`. But for the last, what came is kept for the next attempt.
    pub fn run(&self, target: &Path) -> Result<()> {
        make_parent(target)?;
        let path = beside(target, ".gristmill-part");
        let journal_path = beside(target, ".gristmill-parts");
        let (journal, done) = self.open_journal(&journal_path, &path)?;
        let open = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let out = open.map_err(HubError::io(&path, "make the file"))?;
        let sized = out.set_len(self.bytes);
        sized.map_err(HubError::io(&path, "give the file its length"))?;
        let missing: VecDeque<u64> = (0..self.n_parts())
            .filter(|part| !done.get(*part as usize).is_some_and(|done| *done))
            .collect();
        let to_come: u64 = missing.iter().map(|part| span(&self.part(*part))).sum();
        (self.report)(Event::Start {
            file: self.name,
            bytes: self.bytes,
            present: self.bytes - to_come,
        });
        self.fetch(&Parts {
            out: &out,
            path: &path,
            missing: Mutex::new(missing),
            journal: Mutex::new(journal),
            journal_path: &journal_path,
            stopped: AtomicBool::new(false),
        })?;
        out.sync_all()
            .map_err(HubError::io(&path, "bring the data to the disk"))?;
        self.check(&out, &path, &journal_path)?;
        fs::rename(&path, target).map_err(HubError::io(target, "give the file its name"))?;
        // What is left of it would be read by nobody.
        let _ = fs::remove_file(&journal_path);
        (self.report)(Event::Done { file: self.name });
        Ok(())
    }

    fn part_bytes(&self) -> u64 {
        self.settings.part_bytes.max(1)
    }

    fn n_parts(&self) -> u64 {
        self.bytes.div_ceil(self.part_bytes())
    }

    fn part(&self, part: u64) -> Range<u64> {
        let start = part * self.part_bytes();
        start..self.bytes.min(start + self.part_bytes())
    }

    /// The list of complete parts: what an earlier run left, where it was of this very file and its bytes are still there.
    fn open_journal(&self, journal: &Path, part: &Path) -> Result<(File, Vec<bool>)> {
        let head = format!(
            "gristmill-parts 1 {} {} {}\n",
            self.bytes,
            self.part_bytes(),
            self.identity
        );
        let text = fs::read_to_string(journal).unwrap_or_default();
        let lines = text.strip_prefix(&head);
        let is_whole = fs::metadata(part).is_ok_and(|about| about.len() == self.bytes);
        let io = |action| HubError::io(journal, action);
        let Some(lines) = lines.filter(|_| is_whole) else {
            let _ = fs::remove_file(part);
            let mut file = File::create(journal).map_err(io("make the file"))?;
            file.write_all(head.as_bytes()).map_err(io("write"))?;
            return Ok((file, Vec::new()));
        };
        let mut done = vec![false; self.n_parts() as usize];
        // A line that a kill cut short ends without a line break and counts for nothing.
        let complete = lines
            .split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n'));
        for index in complete.filter_map(|line| line.parse::<usize>().ok()) {
            if let Some(done) = done.get_mut(index) {
                *done = true;
            }
        }
        let mut file = File::options()
            .append(true)
            .open(journal)
            .map_err(io("open the file"))?;
        // Ends a line that was cut short, and is no number: it counts for nothing in later runs either.
        file.write_all(b"-\n").map_err(io("write"))?;
        Ok((file, done))
    }

    /// Fetches all missing parts. The first comes alone: it tells whether the server knows ranges, and fails once for all.
    fn fetch(&self, parts: &Parts<'_>) -> Result<()> {
        let Some(first) = parts.next() else {
            return Ok(());
        };
        if self.fetch_part(parts, first, true)? == Answer::Whole {
            return Ok(());
        }
        parts.complete(first)?;
        let n_threads = self.settings.connections.clamp(1, 64);
        let work = || {
            let result = self.fetch_parts(parts);
            if result.is_err() {
                parts.stopped.store(true, Ordering::Relaxed);
            }
            result
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (1..n_threads.min(parts.n_missing()))
                .map(|_| scope.spawn(work))
                .collect();
            let mut result = work();
            for thread in threads {
                // A thread that panics has a fault of ours, and the panic goes on here.
                let ended = thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                result = result.and(ended);
            }
            result
        })
    }

    fn fetch_parts(&self, parts: &Parts<'_>) -> Result<()> {
        while !parts.stopped.load(Ordering::Relaxed) {
            let Some(part) = parts.next() else {
                break;
            };
            self.fetch_part(parts, part, false)?;
            if !parts.stopped.load(Ordering::Relaxed) {
                parts.complete(part)?;
            }
        }
        Ok(())
    }

    /// Fetches one part, or the whole file where the server knows no ranges and this is the first.
    fn fetch_part(&self, parts: &Parts<'_>, part: u64, is_first: bool) -> Result<Answer> {
        let Range { start, end } = self.part(part);
        let mut at = start;
        let mut n_failures = 0;
        loop {
            let before = at;
            let mut answer = Answer::Range;
            match self.stream(parts, &mut at, end, is_first, &mut answer) {
                Ok(()) => return Ok(answer),
                Err(error) => {
                    if answer == Answer::Whole {
                        self.received(-(at as i64));
                        at = start;
                    } else if at - before >= PROGRESS_BYTES {
                        n_failures = 0;
                    }
                    let waited = self.client.pause_after(error, &mut n_failures, self.report);
                    waited?;
                }
            }
        }
    }

    /// One request: bytes from `at` on, which moves with them.
    fn stream(
        &self,
        parts: &Parts<'_>,
        at: &mut u64,
        mut end: u64,
        is_first: bool,
        answer: &mut Answer,
    ) -> Result<()> {
        let reply = self.client.get(self.url, Some(*at..end))?;
        let wrong_length = |found| HubError::WrongLength {
            file: self.name.to_owned(),
            expected: self.bytes,
            found,
        };
        let wrong_range = || HubError::WrongRange {
            file: self.name.to_owned(),
        };
        if reply.is_partial() {
            let (first, whole) = reply.range().ok_or_else(wrong_range)?;
            if let Some(found) = whole.filter(|whole| *whole != self.bytes) {
                return Err(wrong_length(found));
            }
            if first != *at {
                return Err(wrong_range());
            }
        } else {
            if let Some(found) = reply.length().filter(|length| *length != self.bytes) {
                return Err(wrong_length(found));
            }
            if !is_first {
                return Err(wrong_range());
            }
            // What is there already comes again with the rest.
            self.received(-(*at as i64));
            *answer = Answer::Whole;
            (*at, end) = (0, self.bytes);
        }
        let url = reply.url.clone();
        let mut reader = reply.into_reader();
        let mut buffer = vec![0; BUFFER_BYTES];
        while *at < end {
            if parts.stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
            let wanted = buffer
                .len()
                .min(usize::try_from(end - *at).unwrap_or(usize::MAX));
            let n_bytes = match reader.read(&mut buffer[..wanted]) {
                Ok(0) => {
                    return Err(HubError::Cut {
                        file: self.name.to_owned(),
                        missing: end - *at,
                    });
                }
                Ok(n_bytes) => n_bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(transport(&url, error.into())),
            };
            write_all_at(parts.out, &buffer[..n_bytes], *at)
                .map_err(HubError::io(parts.path, "write"))?;
            *at += n_bytes as u64;
            self.received(n_bytes as i64);
        }
        Ok(())
    }

    fn received(&self, bytes: i64) {
        (self.report)(Event::Received { bytes });
    }

    /// Compares what came with the hash; what is wrong is removed, for another attempt would only add to it.
    fn check(&self, mut out: &File, path: &Path, journal: &Path) -> Result<()> {
        let Some(digest) = self.digest else {
            return Ok(());
        };
        (self.report)(Event::Checking { file: self.name });
        let io = || HubError::io(path, "read");
        io::Seek::rewind(&mut out).map_err(io())?;
        let mut hasher = digest.start(self.bytes);
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match out.read(&mut buffer).map_err(io())? {
                0 => break,
                n_bytes => hasher.update(&buffer[..n_bytes]),
            }
        }
        let found = hasher.finish();
        if found == digest.hex() {
            return Ok(());
        }
        let removed = fs::remove_file(path).and_then(|()| fs::remove_file(journal));
        removed.map_err(HubError::io(path, "remove"))?;
        Err(HubError::WrongHash {
            file: self.name.to_owned(),
            kind: digest.kind(),
            expected: digest.hex().to_owned(),
            found,
        })
    }
}

impl Parts<'_> {
    fn missing(&self) -> MutexGuard<'_, VecDeque<u64>> {
        // The list is valid after every statement, so a panic elsewhere does not spoil it.
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<u64> {
        self.missing().pop_front()
    }

    fn n_missing(&self) -> usize {
        self.missing().len()
    }

    /// Notes that a part is there.
    fn complete(&self, part: u64) -> Result<()> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let written = journal.write_all(format!("{part}\n").as_bytes());
        written.map_err(HubError::io(self.journal_path, "write"))
    }
}

fn span(range: &Range<u64>) -> u64 {
    range.end - range.start
}

/// The path of a file with something behind its name.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().map(OsString::from).unwrap_or_default();
    name.push(ending);
    path.with_file_name(name)
}

/// Bytes that an earlier run left of a file, about: complete parts only.
pub(crate) fn present_bytes(target: &Path, bytes: u64) -> u64 {
    let text = fs::read_to_string(beside(target, ".gristmill-parts")).unwrap_or_default();
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let part_bytes = match head[..] {
        ["gristmill-parts", "1", whole, part, ..] if whole.parse() == Ok(bytes) => part.parse(),
        _ => return 0,
    };
    let n_parts = lines.filter(|line| line.parse::<u64>().is_ok()).count() as u64;
    n_parts.saturating_mul(part_bytes.unwrap_or(0)).min(bytes)
}

#[cfg(unix)]
fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let n_bytes = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
        if n_bytes == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        offset += n_bytes as u64;
        bytes = &bytes[n_bytes..];
    }
    Ok(())
}
