//! Writing a model so that a later run can go on where this one was stopped.
//!
//! The files grow under fixed names beside the outputs (`model.gguf.partial`); a journal (`model.gguf.resume`) tells which
//! tensors are complete:
//!
//! ```text
//! gristmill resume 3 FINGERPRINT PID  what is written, from what: SHA-256 of heads and the caller's description; and by whom
//! SHA-256 XXH64 NOTE                  one line per complete tensor: of its data with the padding behind it, and of the
//!                                     data that it was made from
//! ```
//!
//! Nothing in either is trusted: a tensor counts as done if its bytes have the hash of its line, and the source still has
//! the bytes that it was made from. Everything after the first that has not is written again. The first line of the journal
//! is there before a file is, so a file without it is somebody else's and stays as it is.
//!
//! While it writes, a run looks at the state of its file before each write and at the end. What others have removed, replaced or
//! given another size is an error; what they may have written to is read again before it gets its name. A write of theirs within
//! the same tick of the file system's clock as one of ours is not seen, nor one that puts the old time back.
//!
//! A run that was killed while its files got their names leaves some of them under these names; they are ours if all
//! tensors are done and they have their hashes.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use xxhash_rust::xxh64::Xxh64;

use crate::directory;
use crate::error::{Error, Result};
use crate::file_state::{FileState, written_to};
use crate::hash::hexadecimal;
use crate::journal::{self, JOURNAL, Journal, Line, NOTE_BYTES, being_written, open_own, refused};
use crate::output::{self, StagedFile, WriteOptions, beside};
use crate::replaced;
use crate::runs;
use crate::shard_writer::{ShardPlan, commit_set};
use crate::writer;

/// What the names of files have behind those of the outputs.
const PARTIAL: &str = ".partial";
/// Bytes of a line, about, where the note is as long as those of a quantization.
const JOURNAL_LINE_BYTES: u64 = 160;
/// Bytes that are read at once to verify what is there.
const PIECE_BYTES: usize = 1 << 20;

/// Writes the files of a plan like a [`crate::ShardWriter`], but leaves what is done when it is dropped, and goes on
/// there when it is opened again with the same plan and description.
pub struct ResumableWriter {
    files: Vec<Shard>,
    tensors: Vec<Place>,
    /// One for each tensor that is done.
    notes: Vec<String>,
    /// Of the same.
    hashes: Vec<String>,
    spoilt: Option<Spoilt>,
    journal: Journal,
    /// The file of the current tensor, and its number.
    out: File,
    out_index: usize,
    /// Bytes and hash of the current tensor.
    written: u64,
    hasher: Sha256,
    /// Of what the current tensor is made from.
    source: Xxh64,
    force: bool,
}

impl fmt::Debug for ResumableWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResumableWriter")
            .field("files", &self.files)
            .field("n_done", &self.notes.len())
            .finish_non_exhaustive()
    }
}

/// Why what an earlier run had done is written again, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spoilt {
    /// What is at fault.
    pub fault: Fault,
    /// The file that is at fault; for a source, the one that was made from it.
    pub path: PathBuf,
    /// The tensor at which it was found.
    pub found_at: String,
    /// The first tensor that is written again.
    pub tensor: String,
    /// Its number, from 0.
    pub index: usize,
    /// Tensors of the output.
    pub n_tensors: usize,
}

/// What is wrong with what an earlier run left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The unfinished file is not there, or cannot be opened.
    Missing,
    /// The file begins with another header than the one that was written.
    Head,
    /// The file ends before the tensor does.
    Short,
    /// The tensor's data is not what was written.
    Data,
    /// The tensor was made from other data than the source has now.
    Source,
    /// The journal's line of the tensor is none.
    Line,
    /// The file has its name already, and differs from what was written: it may be an older one.
    Named,
}

impl fmt::Display for Spoilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, found_at) = (self.path.display(), self.found_at.escape_debug());
        match self.fault {
            Fault::Missing => write!(f, "{path}: was removed, or cannot be read")?,
            Fault::Head => write!(f, "{path}: its header is damaged")?,
            Fault::Short => write!(f, "{path}: ends inside tensor {found_at}")?,
            Fault::Data => write!(f, "{path}: the data of tensor {found_at} is damaged")?,
            Fault::Source => write!(f, "{path}: the source of tensor {found_at} has changed")?,
            Fault::Line => write!(f, "{path}: the line of tensor {found_at} is damaged")?,
            Fault::Named => write!(f, "{path}: differs from the file that was written")?,
        }
        let tensor = self.tensor.escape_debug();
        let (number, n_tensors) = (self.index + 1, self.n_tensors);
        write!(
            f,
            "; everything from tensor {tensor} ({number} of {n_tensors}) on is written again"
        )
    }
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
    /// Whether it has its own name already.
    named: bool,
    /// The unfinished file as it was left after what was last written to it.
    state: Option<FileState>,
    /// Whether others may have written to it since this run began.
    is_touched: bool,
}

impl Shard {
    /// Where its data is, if it is anywhere.
    fn place(&self) -> &Path {
        match fs::symlink_metadata(&self.partial) {
            Err(_) => &self.path,
            Ok(_) => &self.partial,
        }
    }

    /// Refuses what others have made of the unfinished file.
    fn look(&mut self) -> Result<()> {
        if let Some(state) = &self.state {
            self.is_touched |= state.check(&self.partial)?;
        }
        Ok(())
    }

    /// Refuses what others have made of the file that is open.
    fn look_at(&mut self, file: &File) -> Result<()> {
        if let Some(state) = &self.state {
            self.is_touched |= state.check_open(file, &self.partial)?;
        }
        Ok(())
    }

    /// Opens the unfinished file, which is still the one that was left there.
    fn reopen(&mut self) -> Result<File> {
        self.look()?;
        let file = open_own(&self.partial, false)?;
        self.look_at(&file)?;
        Ok(file)
    }

    /// Takes note of the file after something was written to it.
    fn left(&mut self, file: &File) -> Result<FileState> {
        let state = FileState::of(file);
        let state = state.map_err(|source| Error::io(&self.partial, "look at", source))?;
        self.state = Some(state);
        Ok(state)
    }

    /// Whether a file of its size, that begins with its head, stands at its name.
    fn has_its_name(&self) -> bool {
        let about = fs::symlink_metadata(&self.path);
        let file = about.is_ok_and(|about| about.is_file() && about.len() == self.size);
        file && File::open(&self.path).is_ok_and(|mut file| self.heads(&mut file))
    }

    /// Whether a file, which is at its start, begins with the head and the zeros behind it.
    fn heads(&self, file: &mut File) -> bool {
        let mut found = Vec::new();
        let n_bytes = self.head.len() as u64 + self.padding;
        let read = file.take(n_bytes).read_to_end(&mut found);
        let is_whole = read.is_ok() && found.len() as u64 == n_bytes;
        let padding = found.strip_prefix(&*self.head);
        is_whole && padding.is_some_and(|padding| padding.iter().all(|byte| *byte == 0))
    }
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

/// The names beside those of a plan at which an unfinished run keeps its work.
pub fn resume_paths(plan: &[ShardPlan]) -> Vec<PathBuf> {
    let journal = plan.first().map(|shard| beside(&shard.path, JOURNAL));
    let partial = plan.iter().map(|shard| beside(&shard.path, PARTIAL));
    journal.into_iter().chain(partial).collect()
}

impl ResumableWriter {
    /// Checks the plan, the targets and the free space, and verifies what an earlier run left. `description` tells
    /// everything that the bytes depend on beside the plan and the data that tensors are made from. Of a tensor that may be
    /// done, given its number, `read_source` hands over that data, in pieces of any size.
    ///
    /// # Errors
    /// Those of [`crate::ShardWriter::create`]; [`Error::BeingWritten`] where another run is writing one of the files, with or
    /// without a journal; [`Error::Resume`] where what is there belongs to another run or to somebody else, and
    /// [`Error::ResumeFormat`] where to another version; [`Error::OutputDisturbed`] where an unfinished file is removed, replaced
    /// or given another size meanwhile; [`Error::OutputRefused`] where a file cannot be opened, and [`Error::Io`]. What is refused
    /// is as it was; after a failure of the system the same call goes on.
    pub fn open(
        plan: &[ShardPlan],
        options: &WriteOptions,
        description: &str,
        read_source: impl FnMut(usize, &mut dyn FnMut(&[u8])),
    ) -> Result<ResumableWriter> {
        let (files, tensors) = layout(plan, options)?;
        let Some(first) = files.first() else {
            return Err(Error::PlanMismatch {
                path: PathBuf::new(),
                reason: "there is no file to write".to_owned(),
            });
        };
        let (output, journal_path) = (first.path.clone(), beside(&first.path, JOURNAL));
        let is_new = fs::symlink_metadata(&journal_path).is_err();
        if is_new {
            for shard in &files {
                output::check_target(&shard.path, options)?;
            }
        }
        check_own(&journal_path, &options.inputs)?;
        let mut hasher = Sha256::new();
        hasher.update(description);
        files.iter().for_each(|file| hasher.update(&file.head));
        let journal = Journal::open(&output, &hexadecimal(&hasher.finalize()))?;
        let mut begun = Begun {
            files,
            tensors,
            journal,
        };
        match begun.go_on(options, read_source) {
            Ok((lines, spoilt)) => begun.into_writer(lines, spoilt, options.force),
            Err(error) => {
                begun.journal.give_up();
                Err(error)
            }
        }
    }

    /// The notes of the tensors that were found done, in order: writing goes on with the tensor after them.
    pub fn done(&self) -> &[String] {
        &self.notes
    }

    /// Why tensors that an earlier run had done are written again, if some are.
    pub fn spoilt(&self) -> Option<&Spoilt> {
        self.spoilt.as_ref()
    }

    /// Takes note of the next bytes that the current tensor is made from.
    pub fn read(&mut self, data: &[u8]) {
        self.source.update(data);
    }

    /// Writes the next bytes of the current tensor.
    ///
    /// # Errors
    /// [`Error::PlanMismatch`] for more bytes than the tensor has, [`Error::OutputDisturbed`], [`Error::Io`].
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
    /// [`Error::PlanMismatch`] if data is missing, [`Error::OutputDisturbed`] where the file was removed, replaced or given
    /// another size, or the next one was, [`Error::OutputRefused`] where that cannot be opened, [`Error::Io`].
    pub fn finish_tensor(&mut self, note: &str) -> Result<()> {
        let place = self.tensors.get(self.notes.len());
        let Some(place) = place.filter(|place| place.bytes == self.written) else {
            return Err(self.mismatch("a tensor ends before its data".to_owned()));
        };
        // Less than the alignment.
        let padding = vec![0; (place.padded - place.bytes) as usize];
        self.put(&padding)?;
        self.files[self.out_index].look()?;
        let hash = hexadecimal(&std::mem::take(&mut self.hasher).finalize());
        let source = std::mem::replace(&mut self.source, Xxh64::new(0)).digest();
        let end = note.find('\n').unwrap_or(note.len()).min(NOTE_BYTES);
        let line = Line {
            hash,
            source: format!("{source:016x}"),
            note: note[..note.floor_char_boundary(end)].to_owned(),
        };
        self.journal.add(&line)?;
        self.notes.push(line.note);
        self.hashes.push(line.hash);
        self.written = 0;
        self.advance()
    }

    /// Brings all files to the disk, gives them their names, and removes the journal.
    ///
    /// # Errors
    /// [`Error::PlanMismatch`] if data is missing, [`Error::OutputDisturbed`] where a file is no longer what was written,
    /// [`Error::OutputRefused`] where it cannot be opened, and those of [`crate::ShardWriter::finish`]; what is done stays.
    pub fn finish(mut self) -> Result<()> {
        if self.notes.len() < self.tensors.len() {
            return Err(self.mismatch("tensors are missing".to_owned()));
        }
        // Some systems let no other handle read what is locked. The journal's lock keeps others off.
        let _ = self.out.unlock();
        let (mut staged, mut paths) = (Vec::new(), Vec::new());
        for index in 0..self.files.len() {
            let shard = &mut self.files[index];
            if shard.named {
                continue;
            }
            let mut file = shard.reopen()?;
            let synced = file.sync_all();
            synced.map_err(|source| {
                Error::io(&shard.partial, "bring the data to the disk", source)
            })?;
            if shard.is_touched {
                self.verify_again(index, &mut file)?;
            }
            let shard = &mut self.files[index];
            replaced::take_over(&shard.path, &file)?;
            let state = shard.left(&file)?;
            let (path, force) = (&shard.path, self.force);
            staged.push(StagedFile::kept(path, &shard.partial, state, force));
            paths.push(path.clone());
        }
        commit_set(staged, &paths, self.force)?;
        // The files are whole and have their names; the same command finds a journal that stays, and removes it.
        let _ = fs::remove_file(self.journal.path());
        Ok(())
    }

    /// Reads a file that others may have written to: it has to hold what was written all the same.
    fn verify_again(&self, index: usize, file: &mut File) -> Result<()> {
        let shard = &self.files[index];
        let start = file.rewind();
        start.map_err(|source| Error::io(&shard.partial, "read", source))?;
        if !shard.heads(file) {
            return Err(written_to(&shard.partial, "its header is damaged"));
        }
        for (place, hash) in self.tensors.iter().zip(&self.hashes) {
            if place.file == index && hash_of(file, place).as_ref() != Some(hash) {
                let name = place.name.escape_debug();
                let what = format!("the data of tensor {name} is damaged");
                return Err(written_to(&shard.partial, &what));
            }
        }
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
        let shard = &mut self.files[index];
        self.out_index = index;
        if shard.named {
            return Ok(());
        }
        self.out = shard.reopen()?;
        // Even where the journal has been removed, no other run takes the file for nobody's.
        runs::lock(&self.out);
        let io = |source| Error::io(&shard.partial, "write", source);
        if self.out.seek(SeekFrom::End(0)).map_err(io)? == 0 {
            self.out.write_all(&shard.head).map_err(io)?;
            writer::write_zeros(shard.padding, &mut self.out).map_err(io)?;
            shard.left(&self.out)?;
        }
        Ok(())
    }

    fn put(&mut self, data: &[u8]) -> Result<()> {
        let shard = &mut self.files[self.out_index];
        shard.look_at(&self.out)?;
        self.hasher.update(data);
        let written = self.out.write_all(data);
        written.map_err(|source| Error::io(&shard.partial, "write", source))?;
        shard.left(&self.out).map(drop)
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

/// A journal that is open, and not read yet.
struct Begun {
    files: Vec<Shard>,
    tensors: Vec<Place>,
    journal: Journal,
}

impl Begun {
    /// Reads the journal, verifies what it tells, and gets the files ready for the next tensor.
    fn go_on(
        &mut self,
        options: &WriteOptions,
        read_source: impl FnMut(usize, &mut dyn FnMut(&[u8])),
    ) -> Result<(Vec<Line>, Option<Spoilt>)> {
        self.check_alone()?;
        let lines = self.journal.read(self.tensors.len())?;
        for shard in &mut self.files {
            check_own(&shard.partial, &options.inputs)?;
            shard.state = FileState::at(&shard.partial)?;
            if lines.is_none() && shard.state.is_some() {
                let reason = "it is there, and no journal tells that an interrupted run left it";
                return Err(refused(&shard.partial, reason));
            }
        }
        let lines = lines.unwrap_or_default();
        let (mut verified, fault) = verify(&self.files, &self.tensors, lines, read_source);
        let n_verified = verified.len();
        let unknown = self.settle_named(&mut verified, options)?;
        let found = match (fault, unknown) {
            (Some(fault), _) => Some((fault, n_verified)),
            (None, Some(at)) if n_verified == self.tensors.len() => Some((Fault::Named, at)),
            // Files get their names when all is done, of which the journal does not tell.
            (None, Some(_)) => Some((Fault::Line, n_verified)),
            (None, None) => None,
        };
        let spoilt = found.map(|(fault, at)| self.spoilt(fault, at, verified.len()));
        prepare(&mut self.files, &self.tensors, verified.len(), || {
            self.journal.cut(&verified)
        })?;
        Ok((verified, spoilt))
    }

    /// Refuses files that other runs are writing: alone, in another set, without a journal, or with one that was removed.
    fn check_alone(&self) -> Result<()> {
        for shard in &self.files {
            journal::check_others(&shard.path, self.journal.path())?;
            if runs::patiently(|| runs::being_written(&shard.partial)).is_some() {
                return Err(being_written(&shard.path, None));
            }
        }
        runs::check_temporary(self.files.iter().map(|shard| &*shard.path))
    }

    fn into_writer(
        self,
        done: Vec<Line>,
        spoilt: Option<Spoilt>,
        force: bool,
    ) -> Result<ResumableWriter> {
        let first = self.files[0].place();
        let out = File::open(first).map_err(|source| Error::io(first, "open", source))?;
        let (notes, hashes) = done.into_iter().map(|line| (line.note, line.hash)).unzip();
        let mut writer = ResumableWriter {
            out,
            notes,
            hashes,
            spoilt,
            files: self.files,
            tensors: self.tensors,
            journal: self.journal,
            out_index: usize::MAX,
            written: 0,
            hasher: Sha256::new(),
            source: Xxh64::new(0),
            force,
        };
        // Files without tensors before the current one get their heads on the way.
        for index in 0..=writer.current() {
            writer.enter(index)?;
        }
        Ok(writer)
    }

    /// A fault at the tensor of number `at`, for which that of number `index` and all behind it are written again.
    fn spoilt(&self, fault: Fault, at: usize, index: usize) -> Spoilt {
        let path = match fault {
            Fault::Line => self.journal.path(),
            Fault::Missing => &self.files[self.tensors[at].file].partial,
            _ => self.files[self.tensors[at].file].place(),
        };
        Spoilt {
            fault,
            path: path.to_owned(),
            found_at: self.tensors[at].name.clone(),
            tensor: self.tensors[index].name.clone(),
            index,
            n_tensors: self.tensors.len(),
        }
    }

    /// Finds the files that have their own names already. They are ours only if everything is done; else what stands
    /// there is checked as before any run, and their tensors are written again; the first tensor of a file that is not ours
    /// is told then.
    fn settle_named(
        &mut self,
        verified: &mut Vec<Line>,
        options: &WriteOptions,
    ) -> Result<Option<usize>> {
        let all_done = verified.len() == self.tensors.len();
        for shard in &mut self.files {
            shard.named = all_done && shard.place() == shard.path && shard.has_its_name();
        }
        let is_lost = |files: &[Shard], place: &Place| {
            let shard = &files[place.file];
            !shard.named && shard.place() == shard.path
        };
        let first_lost =
            |files: &[Shard]| self.tensors.iter().position(|place| is_lost(files, place));
        // One file that is not ours makes all of them be written again, so that none keeps its name.
        let not_ours = first_lost(&self.files);
        if not_ours.is_some() {
            self.files.iter_mut().for_each(|shard| shard.named = false);
        }
        for shard in self.files.iter().filter(|shard| !shard.named) {
            output::check_unlocked_target(&shard.path, options)?;
        }
        let first = first_lost(&self.files).filter(|first| *first < verified.len());
        verified.truncate(first.unwrap_or(verified.len()));
        Ok(not_ours.filter(|_| first.is_some()))
    }
}

/// Cuts the files behind the tensors that are done and makes those that are missing, once `begin` has told the journal; not
/// before all that are there could be opened.
fn prepare(
    files: &mut [Shard],
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
    let journal = (tensors.len() - n_done) as u64 * JOURNAL_LINE_BYTES;
    let needed = size.saturating_sub(present).saturating_add(journal);
    output::check_space(&files[0].path, needed)?;
    let is_kept = |shard: &Shard| !shard.named && shard.state.is_some();
    for shard in files.iter_mut().filter(|shard| is_kept(shard)) {
        shard.reopen()?;
    }
    begin()?;
    for (shard, end) in files.iter_mut().zip(ends) {
        if shard.named {
            continue;
        }
        let file = match shard.state {
            Some(_) => shard.reopen()?,
            None => {
                let file = make_own(&shard.partial)?;
                replaced::take_over_opened(&shard.path, &file)?;
                file
            }
        };
        let cut = file.set_len(end);
        cut.map_err(|source| Error::io(&shard.partial, "cut", source))?;
        shard.left(&file)?;
    }
    Ok(())
}

/// Makes a file that was not there when the run began.
fn make_own(path: &Path) -> Result<File> {
    File::create_new(path).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => refused(path, "another program has just made it"),
        _ => Error::OutputRefused {
            path: path.to_owned(),
            source,
        },
    })
}

fn layout(plan: &[ShardPlan], options: &WriteOptions) -> Result<(Vec<Shard>, Vec<Place>)> {
    let (mut files, mut tensors) = (Vec::new(), Vec::new());
    for (number, shard) in plan.iter().enumerate() {
        let options = WriteOptions {
            pad_head: options.pad_head || plan.len() > 1,
            ..options.of_file(number)
        };
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
            partial: beside(&shard.path, PARTIAL),
            head: layout.head,
            padding: layout.padding,
            size: layout.size,
            named: false,
            state: None,
            is_touched: false,
        });
    }
    Ok((files, tensors))
}

/// The lines whose tensors are there and made from what the source holds now, up to the first that is not, and what is
/// wrong with that one.
fn verify(
    files: &[Shard],
    tensors: &[Place],
    lines: Vec<Option<Line>>,
    mut read_source: impl FnMut(usize, &mut dyn FnMut(&[u8])),
) -> (Vec<Line>, Option<Fault>) {
    let mut verified = Vec::new();
    let mut open: Option<(usize, File)> = None;
    for (index, (place, line)) in tensors.iter().zip(lines).enumerate() {
        let checked = match line {
            None => Err(Fault::Line),
            Some(line) => verify_one(&files[place.file], place, &mut open, &line)
                .and_then(|()| {
                    let mut source = Xxh64::new(0);
                    read_source(index, &mut |piece| source.update(piece));
                    let is_same = format!("{:016x}", source.digest()) == line.source;
                    is_same.then_some(()).ok_or(Fault::Source)
                })
                .map(|()| line),
        };
        match checked {
            Ok(line) => verified.push(line),
            Err(fault) => return (verified, Some(fault)),
        }
    }
    (verified, None)
}

/// Whether a tensor is there as its line tells; the file that is open is that of the tensor before.
fn verify_one(
    shard: &Shard,
    place: &Place,
    open: &mut Option<(usize, File)>,
    line: &Line,
) -> Result<(), Fault> {
    let file = match open {
        Some((index, file)) if *index == place.file => file,
        open => {
            let mut file = File::open(shard.place()).map_err(|_| Fault::Missing)?;
            if !shard.heads(&mut file) {
                let is_named = shard.place() == shard.path;
                return Err(if is_named { Fault::Named } else { Fault::Head });
            }
            &mut open.insert((place.file, file)).1
        }
    };
    match hash_of(file, place) {
        None => Err(Fault::Short),
        Some(hash) if hash == line.hash => Ok(()),
        Some(_) => Err(Fault::Data),
    }
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
