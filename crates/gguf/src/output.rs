//! Output files that appear whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cursor::Endian;
use crate::edit;
use crate::error::{Error, Result};
use crate::file_state::{FileState, removed};
use crate::{journal, replaced, runs};

/// How to treat what is already there.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Replace an existing output.
    pub force: bool,
    /// Write the file that a symbolic link leads to. Else an output with the name of a link replaces the link, and the file
    /// that it leads to stays.
    pub through_links: bool,
    /// Files that are read meanwhile: an output that is one of them, by whatever name, is refused.
    pub inputs: Vec<PathBuf>,
    /// Write tensor names that the reference does not load, of more than
    /// [`crate::limits::NAME_BYTES`] bytes.
    pub long_names: bool,
    /// The byte order of the file. The data that is handed to the writer has to be in it already.
    pub endian: Endian,
    /// Pad the header of a file without tensors as well, as the reference does in a shard.
    pub pad_head: bool,
    /// Room for later edits of the metadata, in bytes: an entry [`crate::edit::RESERVED_KEY`] at the
    /// end of the metadata that [`crate::edit`] uses up. None where this is 0.
    pub reserve: u64,
}

impl WriteOptions {
    /// The options for file `number` (from 0) of a set: only the first has metadata to edit, and so
    /// room for that.
    pub fn of_file(&self, number: usize) -> WriteOptions {
        WriteOptions {
            reserve: if number == 0 { self.reserve } else { 0 },
            ..self.clone()
        }
    }

    /// Where an output of this name is written.
    fn place(&self, path: &Path) -> PathBuf {
        match self.through_links {
            true => replaced::behind_links(path),
            false => path.to_owned(),
        }
    }
}

/// A file that is written under a temporary name in its folder and gets its own name when it is
/// complete. Dropped before [`OutputFile::commit`], it leaves nothing behind.
///
/// Unbuffered: write in large pieces, or through a [`std::io::BufWriter`].
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    staged: StagedFile,
}

/// A complete file under its temporary name. Dropped before it is committed, it leaves nothing behind (unless it is to be
/// continued).
#[derive(Debug)]
pub struct StagedFile {
    path: PathBuf,
    temporary: PathBuf,
    /// The file that was written there.
    state: FileState,
    force: bool,
    committed: bool,
    /// Whether it stays when it is dropped before it is committed.
    kept: bool,
    /// Keeps the lock by which others see that it is being written.
    lock: Option<File>,
}

/// The temporary files of this process, so that an interrupt can remove them.
struct Partial {
    paths: Vec<PathBuf>,
    /// Set by an interrupt: from then on nothing is created or gets its name.
    closed: bool,
}

static PARTIAL: Mutex<Partial> = Mutex::new(Partial {
    paths: Vec::new(),
    closed: false,
});

fn partial() -> MutexGuard<'static, Partial> {
    // The list is valid after every statement, so a panic elsewhere does not spoil it.
    PARTIAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the temporary files of all outputs that are being written, and makes every later attempt
/// to create or complete one fail with [`Error::Interrupted`]. For a Ctrl-C handler, which ends the
/// process next. Returns how many files were removed.
pub fn remove_partial_outputs() -> usize {
    let mut partial = partial();
    partial.closed = true;
    // The last ones first: a folder was there before the files in it.
    partial
        .paths
        .drain(..)
        .rev()
        .filter(|path| remove(path))
        .count()
}

/// Removes a file, or a folder that is empty. There is nobody to tell of a failure.
fn remove(path: &Path) -> bool {
    fs::remove_file(path)
        .or_else(|_| fs::remove_dir(path))
        .is_ok()
}

/// A file or folder of work that is not finished. Dropped before [`PartialPath::rename`], it is removed, and so it is by
/// [`remove_partial_outputs`]; a folder only if it is empty by then, so that nothing of anybody else's goes with it.
#[derive(Debug)]
pub struct PartialPath {
    path: PathBuf,
    /// The file that was written there, once [`PartialPath::written`] has taken note of it.
    state: Option<FileState>,
}

impl PartialPath {
    /// Makes `work` create what is to stand at the path, of which it gets a copy, and leave nothing there where it fails;
    /// refused after an interrupt, which waits for its end.
    ///
    /// # Errors
    /// [`Error::Interrupted`], [`Error::OutputRefused`] with the answer of `work`.
    pub(crate) fn begin(
        path: &Path,
        work: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<PartialPath> {
        let mut partial = partial();
        if partial.closed {
            return Err(Error::Interrupted {
                path: path.to_owned(),
            });
        }
        work(path).map_err(|source| Error::OutputRefused {
            path: path.to_owned(),
            source,
        })?;
        partial.paths.push(path.to_owned());
        Ok(PartialPath {
            path: path.to_owned(),
            state: None,
        })
    }

    /// Makes a folder that is not there yet, in one that is.
    ///
    /// # Errors
    /// [`Error::Interrupted`] after an interrupt, [`Error::OutputRefused`] with the system's answer.
    pub fn create_folder(path: &Path) -> Result<PartialPath> {
        PartialPath::begin(path, |path| fs::create_dir(path))
    }

    /// Writes a small file that is not there yet.
    ///
    /// # Errors
    /// [`Error::Interrupted`] after an interrupt, [`Error::OutputRefused`] with the system's answer; then nothing is there.
    pub fn write(path: &Path, bytes: &[u8]) -> Result<PartialPath> {
        PartialPath::begin(path, |path| {
            fill_new(path, |file| {
                file.write_all(bytes).and_then(|()| file.sync_all())
            })
        })
    }

    /// Takes over a path at which nothing stands yet, and which others will write to.
    ///
    /// # Errors
    /// [`Error::Interrupted`] after an interrupt, [`Error::OutputRefused`] where something stands there.
    pub fn reserve(path: &Path) -> Result<PartialPath> {
        PartialPath::begin(path, |path| match fs::symlink_metadata(path) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        })
    }

    /// Where the work stands.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes note of the file that stands there, complete: no other one gets the final name.
    ///
    /// # Errors
    /// [`Error::OutputDisturbed`] where there is none, [`Error::Io`].
    pub fn written(&mut self) -> Result<()> {
        let state = FileState::at(&self.path)?;
        self.state = Some(state.ok_or_else(|| removed(&self.path))?);
        Ok(())
    }

    /// Gives the work mode and owner of what it is to take the place of, if anything is there.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn take_over(&self, older: &Path) -> Result<()> {
        match File::open(&self.path) {
            Ok(file) => replaced::take_over(older, &file),
            Err(_) => Ok(()),
        }
    }

    /// Leaves the work under the name that it has: it is finished.
    pub(crate) fn keep(mut self) -> PathBuf {
        let path = std::mem::take(&mut self.path);
        partial().paths.retain(|kept| *kept != path);
        path
    }

    /// Gives the work its final name, in the same folder. Replaces a file only with `force`, and a folder never.
    ///
    /// # Errors
    /// [`Error::Interrupted`] after an interrupt, [`Error::OutputExists`], [`Error::OutputDisturbed`] where another file stands
    /// there than [`PartialPath::written`] found, [`Error::Io`]; the work is removed then.
    pub fn rename(self, target: &Path, force: bool) -> Result<()> {
        let partial = partial();
        let path = target.to_owned();
        if partial.closed {
            return Err(Error::Interrupted { path });
        }
        if let Some(state) = &self.state {
            state.check(&self.path)?;
        }
        if force {
            self.take_over(target)?;
        }
        name(&self.path, target, force)?;
        // Dropped next, this finds nothing at the old name.
        drop(partial);
        sync_folder(target);
        if force {
            edit::forget(target);
        }
        Ok(())
    }
}

/// Makes a file of a name that is free, and removes it again where it cannot be filled: it is not partial work yet.
fn fill_new(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    fill(&mut file).inspect_err(|_| {
        // There is nobody to tell of another failure.
        let _ = fs::remove_file(path);
    })
}

impl Drop for PartialPath {
    fn drop(&mut self) {
        if self.path.as_os_str().is_empty() {
            return;
        }
        let mut partial = partial();
        partial.paths.retain(|path| *path != self.path);
        if self.state.is_none_or(|state| state.is_at(&self.path)) {
            remove(&self.path);
        }
    }
}

/// Runs `work` so that an interrupt waits for its end; refuses to begin after one. For steps that
/// take milliseconds and leave a mess where they are cut short. Once it is done, `settled` is no partial work any more.
pub(crate) fn uninterrupted<T>(
    path: &Path,
    settled: Option<&PartialPath>,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let mut partial = partial();
    if partial.closed {
        return Err(Error::Interrupted {
            path: path.to_owned(),
        });
    }
    let done = work()?;
    partial.settle(settled);
    Ok(done)
}

impl Partial {
    /// What stands there is finished together with what has just been done.
    fn settle(&mut self, settled: Option<&PartialPath>) {
        if let Some(settled) = settled {
            self.paths.retain(|path| *path != settled.path);
        }
    }
}

impl OutputFile {
    /// Opens a temporary file beside `path`, which must not exist yet (unless `options.force`: then it has the mode of that file
    /// from the start), must be none of the inputs, and must lie in a folder with `bytes` bytes free. Runs that can be resumed see that it is being
    /// written.
    ///
    /// # Errors
    /// [`Error::OutputExists`], [`Error::OutputIsInput`], [`Error::BeingWritten`], [`Error::NoFolder`] and the others of
    /// places that no file can be at, [`Error::NoSpace`], [`Error::OutputRefused`], [`Error::Interrupted`], [`Error::Io`].
    pub fn create(path: &Path, bytes: u64, options: &WriteOptions) -> Result<OutputFile> {
        let path = &*options.place(path);
        check_target(path, options)?;
        check_space(path, bytes)?;
        let mut partial = partial();
        if partial.closed {
            return Err(Error::Interrupted {
                path: path.to_owned(),
            });
        }
        let (file, temporary) = create_temporary(path)?;
        let state = FileState::of(&file).map_err(|source| Error::io(&temporary, "look at", source));
        let state = state.and_then(|state| match options.force {
            true => replaced::take_over(path, &file).map(|()| state),
            false => Ok(state),
        });
        // Others see this run now: of two that begin at once, this one gives way.
        let other = journal::locked(path, None);
        if state.is_err() || other.is_some() {
            // There is nobody to tell of a failure.
            let _ = fs::remove_file(&temporary);
        }
        if let Some(journal) = other {
            drop((file, partial));
            return Err(journal::busy(path, &journal));
        }
        let state = state?;
        partial.paths.push(temporary.clone());
        let staged = StagedFile {
            path: path.to_owned(),
            temporary,
            state,
            force: options.force,
            committed: false,
            kept: false,
            lock: None,
        };
        Ok(OutputFile { file, staged })
    }

    /// The name that the file will have.
    pub fn path(&self) -> &Path {
        &self.staged.path
    }

    /// The open file, for its permissions and its owner.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Brings the data to the disk and gives the file its name.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::OutputExists`] if the name was taken meanwhile, [`Error::OutputDisturbed`],
    /// [`Error::Interrupted`]; then nothing is there.
    pub fn commit(self) -> Result<()> {
        self.stage()?.commit()
    }

    /// Brings the data to the disk; the name comes later.
    ///
    /// # Errors
    /// [`Error::Io`]; then nothing is there.
    pub fn stage(self) -> Result<StagedFile> {
        let OutputFile { file, mut staged } = self;
        let synced = file.sync_all().and_then(|()| FileState::of(&file));
        let io = |source| Error::io(&staged.path, "bring the data to the disk", source);
        staged.state = synced.map_err(io)?;
        staged.lock = Some(file);
        Ok(staged)
    }
}

impl StagedFile {
    /// A complete file that stays where it is as long as it is not committed.
    pub(crate) fn kept(path: &Path, temporary: &Path, state: FileState, force: bool) -> StagedFile {
        StagedFile {
            path: path.to_owned(),
            temporary: temporary.to_owned(),
            state,
            force,
            committed: false,
            kept: true,
            lock: None,
        }
    }

    /// Closes the file: as one of many, of which another one is being written.
    pub(crate) fn closed(mut self) -> StagedFile {
        self.lock = None;
        self
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// [`Error::OutputExists`] if the name was taken meanwhile, [`Error::OutputDisturbed`], [`Error::Interrupted`],
    /// [`Error::Io`]; then nothing new is there.
    pub fn commit(self) -> Result<()> {
        commit_all(vec![self])
    }

    /// Gives the file its name, with which `settled` is finished too: no interrupt comes between.
    pub(crate) fn commit_with(self, settled: Option<&PartialPath>) -> Result<()> {
        commit_settling(vec![self], settled)
    }

    /// Gives the file its name, under which it is work that is not finished.
    pub(crate) fn commit_partial(mut self) -> Result<PartialPath> {
        let mut partial = partial();
        if partial.closed {
            let path = self.path.clone();
            return Err(Error::Interrupted { path });
        }
        self.state.check(&self.temporary)?;
        name(&self.temporary, &self.path, self.force)?;
        partial.paths.retain(|path| *path != self.temporary);
        partial.paths.push(self.path.clone());
        drop(partial);
        self.committed = true;
        sync_folder(&self.path);
        Ok(PartialPath {
            path: std::mem::take(&mut self.path),
            state: None,
        })
    }
}

/// Gives files their names, in one folder and together as far as a file system can: the last ones first, and the first
/// one, without which no set of shards opens, at the end. A kill on the way leaves an incomplete set; an error or an
/// interrupt leaves nothing new. An older first file is removed before the others change, so that old and new never
/// pass for one set.
pub(crate) fn commit_all(files: Vec<StagedFile>) -> Result<()> {
    commit_settling(files, None)
}

fn commit_settling(mut files: Vec<StagedFile>, settled: Option<&PartialPath>) -> Result<()> {
    let mut partial = partial();
    for file in &files {
        if partial.closed {
            let path = file.path.clone();
            return Err(Error::Interrupted { path });
        }
        if !file.force && fs::symlink_metadata(&file.path).is_ok() {
            let path = file.path.clone();
            return Err(Error::OutputExists { path });
        }
        // By its path it gets its name: what stands there has to be what was written.
        file.state.check(&file.temporary)?;
    }
    if let [first, _, ..] = &*files
        && first.force
        && fs::symlink_metadata(&first.path).is_ok()
    {
        fs::remove_file(&first.path)
            .map_err(|source| Error::io(&first.path, "replace the file", source))?;
    }
    for index in (0..files.len()).rev() {
        let file = &files[index];
        if let Err(error) = name(&file.temporary, &file.path, file.force) {
            for named in &files[index + 1..] {
                // There is nobody to tell of another failure; without the first file nothing opens them.
                let _ = match named.kept {
                    true => fs::rename(&named.path, &named.temporary),
                    false => fs::remove_file(&named.path),
                };
            }
            return Err(error);
        }
        partial.paths.retain(|path| *path != file.temporary);
        files[index].committed = true;
    }
    partial.settle(settled);
    drop(partial);
    if let Some(first) = files.first() {
        sync_folder(&first.path);
    }
    // What was half done to a file that had such a name before is of no more use to anyone.
    for replaced in files.iter().filter(|file| file.force) {
        edit::forget(&replaced.path);
    }
    Ok(())
}

/// Gives a file or folder another name; without `force`, only one that is free in the same moment, whoever else writes.
fn name(from: &Path, to: &Path, force: bool) -> Result<()> {
    let named = if force {
        fs::rename(from, to)
    } else {
        rename_new(from, to)
    };
    named.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists if !force => Error::OutputExists {
            path: to.to_owned(),
        },
        _ => Error::io(to, "give the file its name", source),
    })
}

/// Renames to a name that is free.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::PERM) => {}
            done => return Ok(done?),
        }
    }
    // A second name is given to a file only where it is free; not every file system has them, and no folder.
    match fs::hard_link(from, to) {
        Ok(()) => return fs::remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
        Err(_) => {}
    }
    match fs::symlink_metadata(to) {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(from, to),
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if !self.committed && !self.kept {
            let mut partial = partial();
            partial.paths.retain(|path| *path != self.temporary);
            // Gone already after an interrupt; and there is nobody to tell of another failure.
            if self.state.is_at(&self.temporary) {
                let _ = fs::remove_file(&self.temporary);
            }
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for OutputFile {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        self.file.seek(place)
    }
}

/// Makes the names in the folder of `path` survive a power cut. Some systems cannot sync a folder;
/// the files are complete all the same.
pub(crate) fn sync_folder(path: &Path) {
    if let Ok(folder) = File::open(folder_of(path)) {
        let _ = folder.sync_all();
    }
}

pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Whether an output could be opened at this path: its folder is there, it is none of the inputs, and nothing that may
/// not be replaced stands there, nor is another run writing it. What every output is checked for when it is opened; for plans that write nothing.
///
/// # Errors
/// [`Error::OutputExists`], [`Error::OutputIsInput`], [`Error::BeingWritten`] and the others of [`OutputFile::create`], save
/// for those of the disk.
pub fn check_target(path: &Path, options: &WriteOptions) -> Result<()> {
    let path = &*options.place(path);
    check_unlocked_target(path, options)?;
    journal::check_unlocked(path)
}

/// The same, for the run that is writing this output.
pub(crate) fn check_unlocked_target(path: &Path, options: &WriteOptions) -> Result<()> {
    check_place(path)?;
    // Inputs first: with or without `force`, that is the graver mistake.
    if let Some(input) = options.inputs.iter().find(|input| same_file(path, input)) {
        return Err(Error::OutputIsInput {
            path: path.to_owned(),
            input: input.clone(),
        });
    }
    match fs::symlink_metadata(path) {
        Ok(_) if !options.force => Err(Error::OutputExists {
            path: path.to_owned(),
        }),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(Error::OutputRefused {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Whether a file can be at this path at all.
fn check_place(path: &Path) -> Result<()> {
    if path.as_os_str().is_empty() {
        return Err(Error::OutputNameless);
    }
    // Through links: to replace the link to a device is not what is meant by naming it.
    match fs::metadata(path) {
        Ok(about) if about.is_dir() => {
            return Err(Error::OutputIsFolder {
                path: path.to_owned(),
            });
        }
        Ok(about) if !about.is_file() => {
            return Err(Error::OutputNotRegular {
                path: path.to_owned(),
            });
        }
        _ => {}
    }
    let folder = match path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        // `new/` names a folder, and there is none.
        true => path,
        false => folder_of(path),
    };
    if folder.is_dir() {
        return Ok(());
    }
    let (path, folder) = (path.to_owned(), folder.to_owned());
    let file = folder.ancestors().find(|above| above.exists());
    match file.filter(|above| !above.is_dir()).map(Path::to_owned) {
        Some(folder) => Err(Error::OutputBelowFile { path, folder }),
        None => Err(Error::NoFolder { path, folder }),
    }
}

/// A name beside a path: with something behind the name of the file.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// Whether two paths lead to one file, through whatever links. False when one of them leads nowhere.
pub fn same_file(one: &Path, other: &Path) -> bool {
    let (Ok(one_about), Ok(other_about)) = (fs::metadata(one), fs::metadata(other)) else {
        return false;
    };
    identity::same(&one_about, &other_about).unwrap_or_else(|| {
        matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
    })
}

/// Whether an open file still has this name: a file that was removed or replaced lives on while it is open.
pub(crate) fn has_name(about: &fs::Metadata, path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|named| identity::same(about, &named).unwrap_or(true))
}

#[cfg(unix)]
mod identity {
    use std::os::unix::fs::MetadataExt;

    pub(super) fn same(one: &std::fs::Metadata, other: &std::fs::Metadata) -> Option<bool> {
        Some(one.dev() == other.dev() && one.ino() == other.ino())
    }
}

#[cfg(not(unix))]
mod identity {
    /// The identity of a file is not to be had here without unsafe calls; paths decide.
    pub(super) fn same(_: &std::fs::Metadata, _: &std::fs::Metadata) -> Option<bool> {
        None
    }
}

#[cfg(unix)]
pub(crate) fn check_space(path: &Path, needed: u64) -> Result<()> {
    // A file system that cannot tell is no reason to refuse.
    let Ok(about) = rustix::fs::statvfs(folder_of(path)) else {
        return Ok(());
    };
    let available = about.f_bavail.saturating_mul(about.f_frsize);
    if needed > available && about.f_blocks > 0 {
        return Err(Error::NoSpace {
            path: path.to_owned(),
            needed,
            available,
        });
    }
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn check_space(_: &Path, _: u64) -> Result<()> {
    Ok(())
}

/// A new file in the folder of `path`, whose name no other process and no other output has, and which is locked.
fn create_temporary(path: &Path) -> Result<(File, PathBuf)> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    loop {
        let counter = COUNTER.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_file_name(runs::temporary_name(path, counter));
        match OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&temporary)
        {
            Ok(file) => {
                runs::lock(&file);
                return Ok((file, temporary));
            }
            // A leftover of a killed process with the same id.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(source) => {
                return Err(Error::OutputRefused {
                    path: path.to_owned(),
                    source,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_in_the_last_moment_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("mine"), "mine").unwrap();
        fs::write(path("theirs"), "theirs").unwrap();
        let error = rename_new(&path("mine"), &path("theirs")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        let refused = name(&path("mine"), &path("theirs"), false);
        assert!(matches!(refused, Err(Error::OutputExists { .. })));
        assert_eq!(fs::read(path("theirs")).unwrap(), b"theirs");
        assert_eq!(fs::read(path("mine")).unwrap(), b"mine");
        rename_new(&path("mine"), &path("free")).unwrap();
        assert!(!path("mine").exists());
        fs::create_dir(path("folder")).unwrap();
        fs::create_dir(path("empty")).unwrap();
        assert!(rename_new(&path("folder"), &path("empty")).is_err());
        rename_new(&path("folder"), &path("moved")).unwrap();
        name(&path("free"), &path("theirs"), true).unwrap();
        assert_eq!(fs::read(path("theirs")).unwrap(), b"mine");
    }

    #[test]
    fn a_file_that_cannot_be_filled_is_not_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("note");
        let full = |file: &mut File| {
            file.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        };
        let error = fill_new(&path, full).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(!path.exists());
        // What was there before stays.
        fs::write(&path, "before").unwrap();
        assert!(fill_new(&path, |_| Ok(())).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"before");
    }
}
