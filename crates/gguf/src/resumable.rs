//! Writing a model so that a later run can go on where this one was stopped.
//!
//! The files grow under fixed names beside the outputs (`model.gguf.partial`); a journal (`model.gguf.resume`) tells which
//! tensors are complete:
//!
//! ```text
//! gristmill resume 1 FINGERPRINT      what is written, from what: SHA-256 of heads and the caller's description
//! SHA-256 NOTE                        one line per complete tensor, of its data with the padding behind it
//! ```
//!
//! Nothing in either is trusted: a tensor counts as done if its bytes have the hash of its line, and everything after the
//! first that has not is written again. The first line of the journal is there before a file is, so a file without it is
//! somebody else's and stays as it is.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::directory;
use crate::error::{Error, Result};
use crate::hash::hexadecimal;
use crate::output::{self, StagedFile, WriteOptions};
use crate::shard_writer::ShardPlan;
use crate::writer;

const TITLE: &str = "gristmill resume 1";
/// Longest note of a tensor, in bytes.
const NOTE_BYTES: usize = 1024;
/// Bytes that are read at once to verify what is there.
const PIECE_BYTES: usize = 1 << 20;

/// Writes the files of a plan like a [`crate::ShardWriter`], but leaves what is done when it is dropped, and goes on
/// there when it is opened again with the same plan and description.
#[derive(Debug)]
pub struct ResumableWriter {
    files: Vec<Shard>,
    tensors: Vec<Place>,
    /// One for each tensor that is done.
    notes: Vec<String>,
    journal: File,
    journal_path: PathBuf,
    /// The file of the current tensor, and its number.
    out: File,
    out_index: usize,
    /// Bytes and hash of the current tensor.
    written: u64,
    hasher: Sha256,
    force: bool,
}

/// One of the files.
#[derive(Debug)]
struct Shard {
    path: PathBuf,
    partial: PathBuf,
    head: Vec<u8>,
    /// Zeros behind the head.
    padding: u64,
    size: u64,
}

/// Where a tensor's data goes.
#[derive(Debug)]
struct Place {
    name: String,
    file: usize,
    /// From the start of the file.
    offset: u64,
    bytes: u64,
    /// With the zeros behind it.
    padded: u64,
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(suffix);
    path.with_file_name(name)
}

impl ResumableWriter {
    /// Checks the plan, the targets and the free space, and verifies what an earlier run left. `description` tells
    /// everything that the bytes depend on beside the plan: the source, its state, and the options.
    ///
    /// # Errors
    /// Those of [`crate::ShardWriter::create`]; [`Error::Resume`] where what is there belongs to another run, to one that
    /// still goes on, or to somebody else.
    pub fn open(
        plan: &[ShardPlan],
        options: &WriteOptions,
        description: &str,
    ) -> Result<ResumableWriter> {
        let (files, tensors) = layout(plan, options)?;
        let Some(first) = files.first() else {
            return Err(Error::PlanMismatch {
                path: PathBuf::new(),
                reason: "there is no file to write".to_owned(),
            });
        };
        let mut hasher = Sha256::new();
        hasher.update(description);
        files.iter().for_each(|file| hasher.update(&file.head));
        let title = format!("{TITLE} {}\n", hexadecimal(&hasher.finalize()));
        let journal_path = beside(&first.path, ".resume");
        check_own(&journal_path, &options.inputs)?;
        let mut journal = open_own(&journal_path, true)?;
        // Some network file systems have no locks.
        if let Err(TryLockError::WouldBlock) = journal.try_lock() {
            return Err(refused(&journal_path, "another run is writing this output"));
        }
        let lines = read_journal(&journal, &journal_path, &title, tensors.len())?;
        for shard in &files {
            check_own(&shard.partial, &options.inputs)?;
            if lines.is_none() && fs::symlink_metadata(&shard.partial).is_ok() {
                let reason = "it is there, and no journal tells that an interrupted run left it";
                return Err(refused(&shard.partial, reason));
            }
        }
        let notes = verify(&files, &tensors, lines.unwrap_or_default())?;
        prepare(&files, &tensors, notes.len(), || {
            cut_journal(&mut journal, &title, &notes)
                .map_err(|source| Error::io(&journal_path, "write", source))
        })?;
        let out = open_own(&files[0].partial, false)?;
        let mut writer = ResumableWriter {
            notes: notes.into_iter().map(|(_, note)| note).collect(),
            files,
            tensors,
            journal,
            journal_path,
            out,
            out_index: usize::MAX,
            written: 0,
            hasher: Sha256::new(),
            force: options.force,
        };
        // Files without tensors before the current one get their heads on the way.
        for index in 0..=writer.current() {
            writer.enter(index)?;
        }
        Ok(writer)
    }

    /// The notes of the tensors that were found done, in order: writing goes on with the tensor after them.
    pub fn done(&self) -> &[String] {
        &self.notes
    }

    /// Writes the next bytes of the current tensor.
    ///
    /// # Errors
    /// [`Error::PlanMismatch`] for more bytes than the tensor has, [`Error::Io`].
    pub fn write(&mut self, data: &[u8]) -> Result<()> {
        let place = self.tensors.get(self.notes.len());
        let left = place.map_or(0, |place| place.bytes - self.written);
        if data.len() as u64 > left {
            return Err(self.mismatch(format!("{} bytes where {left} are due", data.len())));
        }
        self.put(data)?;
        self.written += data.len() as u64;
        Ok(())
    }

    /// Ends the current tensor, with a note that a later run gets back from [`ResumableWriter::done`]: one line, at most
    /// 1024 bytes of it.
    ///
    /// # Errors
    /// [`Error::PlanMismatch`] if data is missing, [`Error::Io`].
    pub fn finish_tensor(&mut self, note: &str) -> Result<()> {
        let place = self.tensors.get(self.notes.len());
        let Some(place) = place.filter(|place| place.bytes == self.written) else {
            return Err(self.mismatch("a tensor ends before its data".to_owned()));
        };
        // Less than the alignment.
        let padding = vec![0; (place.padded - place.bytes) as usize];
        self.put(&padding)?;
        let hash = hexadecimal(&std::mem::take(&mut self.hasher).finalize());
        let end = note.find('\n').unwrap_or(note.len()).min(NOTE_BYTES);
        let note = &note[..note.floor_char_boundary(end)];
        self.journal
            .write_all(format!("{hash} {note}\n").as_bytes())
            .map_err(|source| Error::io(&self.journal_path, "write", source))?;
        self.notes.push(note.to_owned());
        self.written = 0;
        self.advance()
    }

    /// Brings all files to the disk, gives them their names, and removes the journal.
    ///
    /// # Errors
    /// [`Error::PlanMismatch`] if data is missing, and those of [`crate::ShardWriter::finish`]; what is done stays.
    pub fn finish(self) -> Result<()> {
        if self.notes.len() < self.tensors.len() {
            return Err(self.mismatch("tensors are missing".to_owned()));
        }
        let mut staged = Vec::new();
        for shard in &self.files {
            let file = open_own(&shard.partial, false)?;
            let io = |source| Error::io(&shard.partial, "bring the data to the disk", source);
            file.sync_all().map_err(io)?;
            if file.metadata().map_err(io)?.len() != shard.size {
                return Err(Error::Changed {
                    path: shard.partial.clone(),
                });
            }
            staged.push(StagedFile::kept(&shard.path, &shard.partial, self.force));
        }
        output::commit_all(staged)?;
        // Without the files it tells of it means nothing, and there is nobody to tell of a failure.
        let _ = std::fs::remove_file(&self.journal_path);
        Ok(())
    }

    /// The file of the next tensor; behind the last tensor, the last file.
    fn current(&self) -> usize {
        let next = self.tensors.get(self.notes.len());
        next.map_or(self.files.len() - 1, |place| place.file)
    }

    /// Goes on to the current file.
    fn advance(&mut self) -> Result<()> {
        let index = self.current();
        while self.out_index != index {
            self.enter(self.out_index + 1)?;
        }
        Ok(())
    }

    /// Opens a file at its end, with its head in place.
    fn enter(&mut self, index: usize) -> Result<()> {
        let shard = &self.files[index];
        let io = |source| Error::io(&shard.partial, "write", source);
        self.out = open_own(&shard.partial, false)?;
        self.out_index = index;
        if self.out.seek(SeekFrom::End(0)).map_err(io)? == 0 {
            self.out.write_all(&shard.head).map_err(io)?;
            writer::write_zeros(shard.padding, &mut self.out).map_err(io)?;
        }
        Ok(())
    }

    fn put(&mut self, data: &[u8]) -> Result<()> {
        self.hasher.update(data);
        self.out
            .write_all(data)
            .map_err(|source| Error::io(&self.files[self.out_index].partial, "write", source))
    }

    fn mismatch(&self, reason: String) -> Error {
        let place = self.tensors.get(self.notes.len());
        let name = place.map_or("", |place| &place.name);
        Error::PlanMismatch {
            path: self.files[self.out_index].path.clone(),
            reason: format!("{reason} (tensor {name:?})"),
        }
    }
}

fn refused(path: &Path, reason: &str) -> Error {
    Error::Resume {
        path: path.to_owned(),
        reason: reason.to_owned(),
    }
}

/// Refuses a path at which something stands that no run of ours left: anything but a file, and an input under another
/// name.
fn check_own(path: &Path, inputs: &[PathBuf]) -> Result<()> {
    if let Some(input) = inputs.iter().find(|input| output::same_file(path, input)) {
        return Err(Error::OutputIsInput {
            path: path.to_owned(),
            input: input.clone(),
        });
    }
    match fs::symlink_metadata(path) {
        Ok(about) if !about.is_file() => Err(refused(path, "it is no regular file")),
        _ => Ok(()),
    }
}

/// Opens a file of the run, to read and to write it; links are not followed.
fn open_own(path: &Path, create: bool) -> Result<File> {
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
    let file = options.open(path);
    file.map_err(|source| Error::OutputRefused {
        path: path.to_owned(),
        source,
    })
}

/// Cuts the files behind the tensors that are done and makes those that are missing, once `begin` has told the journal.
fn prepare(
    files: &[Shard],
    tensors: &[Place],
    n_done: usize,
    begin: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let next = tensors.get(n_done);
    let current = next.map_or(files.len() - 1, |place| place.file);
    let end_of = |(index, shard): (usize, &Shard)| {
        // Of a file of which nothing is done, the head may be missing as well.
        let first = tensors.iter().position(|place| place.file == index);
        match (first, next) {
            (Some(first), _) if first >= n_done => 0,
            (Some(_), Some(place)) if index == current => place.offset,
            (Some(_), _) => shard.size,
            (None, _) => 0,
        }
    };
    let ends: Vec<u64> = files.iter().enumerate().map(end_of).collect();
    let size: u64 = files.iter().map(|shard| shard.size).sum();
    let present: u64 = ends.iter().sum();
    output::check_space(&files[0].path, size.saturating_sub(present))?;
    begin()?;
    for (shard, end) in files.iter().zip(ends) {
        open_own(&shard.partial, true)?
            .set_len(end)
            .map_err(|source| Error::io(&shard.partial, "cut", source))?;
    }
    Ok(())
}

/// Cuts the journal behind the lines that hold; a journal without its first line gets it.
fn cut_journal(journal: &mut File, title: &str, notes: &[(String, String)]) -> io::Result<()> {
    journal.seek(SeekFrom::Start(0))?;
    let lines = notes.iter();
    // A blank between hash and note, and a line break.
    let lines: usize = lines.map(|(hash, note)| hash.len() + note.len() + 2).sum();
    // What stands there begins with these very bytes, or is less than they are.
    journal.write_all(title.as_bytes())?;
    journal.set_len((title.len() + lines) as u64)?;
    journal.seek(SeekFrom::End(0))?;
    Ok(())
}

fn layout(plan: &[ShardPlan], options: &WriteOptions) -> Result<(Vec<Shard>, Vec<Place>)> {
    let (mut files, mut tensors) = (Vec::new(), Vec::new());
    for (number, shard) in plan.iter().enumerate() {
        let options = WriteOptions {
            pad_head: options.pad_head || plan.len() > 1,
            ..options.of_file(number)
        };
        output::check_target(&shard.path, &options)?;
        let layout = writer::layout(&shard.path, &shard.metadata, &shard.tensors, &options)?;
        let mut offset = layout.data_offset();
        for (tensor, bytes) in shard.tensors.iter().zip(layout.sizes) {
            // The sum was checked with the plan.
            let padded = directory::align_up(bytes, layout.alignment).unwrap_or(bytes);
            tensors.push(Place {
                name: tensor.name.clone(),
                file: number,
                offset,
                bytes,
                padded,
            });
            offset += padded;
        }
        files.push(Shard {
            path: shard.path.clone(),
            partial: beside(&shard.path, ".partial"),
            head: layout.head,
            padding: layout.padding,
            size: layout.size,
        });
    }
    Ok((files, tensors))
}

/// The lines of complete tensors: hash and note of each. Nothing where the first line is missing or was cut short.
fn read_journal(
    journal: &File,
    path: &Path,
    title: &str,
    n_tensors: usize,
) -> Result<Option<Vec<(String, String)>>> {
    let refuse = |reason: &str| Err(refused(path, reason));
    let limit = title.len() as u64 + n_tensors as u64 * (NOTE_BYTES as u64 + 66);
    let mut bytes = Vec::new();
    journal
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| Error::io(path, "read", source))?;
    if bytes.len() as u64 > limit {
        return refuse("it is longer than any journal of this output");
    }
    let Ok(text) = String::from_utf8(bytes) else {
        return refuse("it is not the journal of an interrupted run");
    };
    // A title that was cut short says nothing of what follows, and nothing does.
    if title.starts_with(&text) && text.len() < title.len() {
        return Ok(None);
    }
    let Some(lines) = text.strip_prefix(title) else {
        let known = text.starts_with(TITLE);
        return refuse(match known {
            true => "it belongs to a run with another source, type or option",
            false => "it is not the journal of an interrupted run",
        });
    };
    let complete = lines.rfind('\n').map_or("", |end| &lines[..end]);
    let lines = complete.split('\n').take(n_tensors);
    let lines = lines
        .map_while(|line| line.split_once(' '))
        .map(|(hash, note)| (hash.to_owned(), note.to_owned()));
    Ok(Some(lines.collect()))
}

/// The lines whose tensors are there, up to the first that is not.
fn verify(
    files: &[Shard],
    tensors: &[Place],
    lines: Vec<(String, String)>,
) -> Result<Vec<(String, String)>> {
    let mut verified = Vec::new();
    let mut open: Option<(usize, File)> = None;
    for (place, line) in tensors.iter().zip(lines) {
        if open.as_ref().is_none_or(|(index, _)| *index != place.file) {
            let shard = &files[place.file];
            let Ok(mut file) = File::open(&shard.partial) else {
                break;
            };
            let mut head = Vec::new();
            let read = (&mut file)
                .take(shard.head.len() as u64)
                .read_to_end(&mut head);
            if read.is_err() || head != shard.head {
                break;
            }
            open = Some((place.file, file));
        }
        let Some((_, file)) = &mut open else { break };
        if hash_of(file, place).is_none_or(|hash| hash != line.0) {
            break;
        }
        verified.push(line);
    }
    Ok(verified)
}

/// The hash of a tensor's data and padding; nothing where they are not there.
fn hash_of(file: &mut File, place: &Place) -> Option<String> {
    file.seek(SeekFrom::Start(place.offset)).ok()?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; (place.padded as usize).min(PIECE_BYTES)];
    let mut left = place.padded;
    while left > 0 {
        let length = left.min(buffer.len() as u64) as usize;
        file.read_exact(&mut buffer[..length]).ok()?;
        hasher.update(&buffer[..length]);
        left -= length as u64;
    }
    Some(hexadecimal(&hasher.finalize()))
}
