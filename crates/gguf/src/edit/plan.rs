//! From edits to a new header, and the way it gets into the file.

use std::path::{Path, PathBuf};

use super::backup::Backup;
use super::draft::{Change, Draft, TWO_EDITS};
use super::reserve::{RESERVED_KEY, fill, room};
use super::rewrite::Piece;
use super::{Edit, Settled, danger, digest, in_place, lock, rewrite, undo};
use crate::directory::{align_up, data_offset, written_alignment};
use crate::error::{Error, Result};
use crate::file::File;
use crate::metadata::Metadata;
use crate::output::{WriteOptions, check_target};

/// How to edit.
#[derive(Clone, Debug, Default)]
pub struct EditOptions {
    /// Write another file and leave this one as it is.
    pub output: Option<PathBuf>,
    /// The room that later edits shall have, in bytes; 0 for none. Without a word of it, the room
    /// that is there is used, and kept where the file has to be rewritten.
    pub reserve: Option<u64>,
    /// Allow edits of what decides how the file is read, replace an existing `output`, and write to
    /// a write-protected file.
    pub force: bool,
    /// Keep the old file as `NAME.bak`.
    pub backup: bool,
}

/// The longest name that common file systems take.
const NAME_BYTES_MAX: usize = 255;

/// How a new header gets into the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// Not at all: it is the old one.
    Unchanged,
    /// It takes the old one's place; the tensor data is not touched.
    InPlace,
    /// A new file is written and takes the old one's name, or that of the output.
    Rewrite {
        /// Why it does not go in place.
        reason: String,
    },
}

/// A file whose metadata is to be edited: its header is read, its weights are not.
#[derive(Debug)]
pub struct Editor {
    file: File,
    /// The file itself, links followed.
    real: PathBuf,
    /// Keeps other editors out until the plan is made: a plan of a header that another one changes would undo that
    /// change. None of bytes in memory.
    _lock: Option<Settled>,
}

/// Edits, worked out and checked; nothing is written yet.
#[derive(Debug)]
pub struct Plan {
    pub(super) real: PathBuf,
    pub(super) output: Option<PathBuf>,
    pub(super) force: bool,
    pub(super) backup: bool,
    changes: Vec<Change>,
    way: Way,
    pub(super) file_bytes: u64,
    pub(super) old: Vec<u8>,
    pub(super) new: Vec<u8>,
    /// What follows the header in a rewritten file.
    pub(super) pieces: Vec<Piece>,
    /// The room in the reserve, where there is one: before and after.
    rooms: (Option<u64>, Option<u64>),
    dangers: Vec<String>,
}

/// What [`Plan::apply`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The file that holds the new metadata.
    pub path: PathBuf,
    /// Bytes that were written, undo file and backup left out.
    pub bytes_written: u64,
    /// Where the old file is kept.
    pub backup: Option<PathBuf>,
}

impl Editor {
    /// Opens a file of any size, in either byte order, in the time that its metadata takes. Other editors of the file
    /// wait until the plan is made.
    ///
    /// # Errors
    /// Those of [`File::open`].
    pub fn open(path: &Path) -> Result<Editor> {
        let (file, lock) = File::open_held(path)?;
        Ok(Editor {
            file,
            real: undo::real_path(path),
            _lock: Some(lock),
        })
    }

    /// Validates bytes in memory as a file that is to be edited; `path` is only a name for messages, and
    /// the plan can be turned into bytes again ([`Plan::to_bytes`]).
    ///
    /// # Errors
    /// Those of [`File::from_bytes`].
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Editor> {
        let file = File::from_stored_bytes(bytes, path)?;
        Ok(Editor {
            file,
            real: path.to_owned(),
            _lock: None,
        })
    }

    /// The metadata as it is.
    pub fn metadata(&self) -> &Metadata {
        self.file.metadata()
    }

    /// Works out what the edits come to, in their order.
    ///
    /// # Errors
    /// [`Error::BadEdit`] and [`Error::BadEntry`] for one that cannot be made,
    /// [`Error::DangerousEdit`] and [`Error::WriteProtected`] without `force`,
    /// [`Error::NotFirstShard`].
    pub fn plan(self, edits: &[Edit], options: &EditOptions) -> Result<Plan> {
        self.check_shard(edits)?;
        // The padding of the old header is kept in memory beside that of the new one.
        written_alignment(self.metadata(), self.file.path())?;
        let mut options = options.clone();
        let mut draft = Draft::of(&self.file)?;
        for edit in edits {
            match edit {
                Edit::Remove { key } if key == RESERVED_KEY && draft.room().is_some() => {
                    if options.reserve.replace(0).is_some() {
                        return draft.bad(key, TWO_EDITS);
                    }
                }
                edit => draft.apply(edit)?,
            }
        }
        let dangers = self.dangers(draft.changes());
        if !options.force {
            self.check_danger(&dangers, &options)?;
        }
        let changes = draft.changes().to_vec();
        let (way, new, pieces) = self.header(&mut draft, &options)?;
        let rooms = (self.metadata().get(RESERVED_KEY).map(room), draft.room());
        drop(draft);
        let size = new.len() as u64 + pieces.iter().map(Piece::n_bytes).sum::<u64>();
        if undo::data_start(&new, &self.real, size)? != new.len() as u64 {
            return Err(Error::PlanMismatch {
                path: self.real,
                reason: "the new header does not end where the data starts".to_owned(),
            });
        }
        // The header lies inside the file, so its length fits in `usize`.
        let old = self.file.bytes()[..self.file.data_offset() as usize].to_vec();
        Ok(Plan {
            file_bytes: self.file.size(),
            real: self.real,
            output: options.output,
            force: options.force,
            backup: options.backup,
            changes,
            way,
            old,
            new,
            pieces,
            rooms,
            dangers,
        })
    }

    /// Only the first shard holds the model's metadata; the others have `split.*` alone.
    fn check_shard(&self, edits: &[Edit]) -> Result<()> {
        let number = self.metadata().u64("split.no").ok().flatten().unwrap_or(0);
        let count = self
            .metadata()
            .u64("split.count")
            .ok()
            .flatten()
            .unwrap_or(0);
        let of_set = |key: &String| key.starts_with("split.") || key == RESERVED_KEY;
        let all_of_set = edits.iter().all(|edit| match edit {
            Edit::Set { key, .. } | Edit::Add { key, .. } | Edit::Remove { key } => of_set(key),
            Edit::Rename { from, to } => of_set(from) && of_set(to),
        });
        if number == 0 || count <= 1 || all_of_set {
            return Ok(());
        }
        Err(Error::NotFirstShard {
            path: self.file.path().to_owned(),
            number: number.saturating_add(1),
        })
    }

    /// What may break, for each change that can break something.
    fn dangers(&self, changes: &[Change]) -> Vec<String> {
        let reasons = |change| danger::reasons(change, self.metadata());
        changes.iter().flat_map(reasons).collect()
    }

    fn check_danger(&self, dangers: &[String], options: &EditOptions) -> Result<()> {
        let path = || self.file.path().to_owned();
        if !dangers.is_empty() {
            let (path, reasons) = (path(), dangers.to_vec());
            return Err(Error::DangerousEdit { path, reasons });
        }
        if options.output.is_none() && is_protected(&self.real) {
            return Err(Error::WriteProtected { path: path() });
        }
        Ok(())
    }

    /// The way, the new header up to the data, and what follows it in a rewritten file.
    fn header(
        &self,
        draft: &mut Draft<'_>,
        options: &EditOptions,
    ) -> Result<(Way, Vec<u8>, Vec<Piece>)> {
        let start = self.file.data_offset();
        let alignment = draft.alignment()?;
        let rest = || vec![Piece::of(start..self.file.size())];
        // A file that has the room already is left alone; an entry without any room is one that can go.
        let has_room = |n: u64| match draft.room() {
            Some(room) => n > 0 && room >= n,
            None => n == 0,
        };
        let has_changes = !draft.changes().is_empty() || options.output.is_some();
        if !has_changes && options.reserve.is_none_or(has_room) {
            let header = self.file.bytes()[..start as usize].to_vec();
            return Ok((Way::Unchanged, header, rest()));
        }
        if let Some(n) = options.reserve {
            draft.set_room(n)?;
        }
        let reason = match self.not_in_place(draft, options, alignment) {
            None => {
                let mut header = draft.encode(None);
                header.resize(start as usize, 0);
                return Ok((Way::InPlace, header, rest()));
            }
            Some(reason) => reason,
        };
        let way = Way::Rewrite { reason };
        if alignment == self.file.alignment() || self.file.tensors().is_empty() {
            let mut header = draft.encode(None);
            let end = header.len() as u64;
            let padded = data_offset(end, self.file.tensors().len(), alignment);
            header.resize(padded as usize, 0);
            return Ok((way, header, self.after_header(end, alignment)));
        }
        let (offsets, pieces) = self.realigned(alignment);
        let mut header = draft.encode(Some(&offsets));
        let padded = align_up(header.len() as u64, alignment).unwrap_or(u64::MAX);
        header.resize(padded as usize, 0);
        Ok((way, header, pieces))
    }

    /// Why the header cannot take the old one's place; where it can, the reserve is made to fit.
    fn not_in_place(
        &self,
        draft: &mut Draft<'_>,
        options: &EditOptions,
        alignment: u64,
    ) -> Option<String> {
        if options.output.is_some() {
            return Some("another file is asked for".to_owned());
        }
        if self.file.tensors().is_empty() {
            return Some("without tensors the header is the whole file".to_owned());
        }
        if self.file.data_offset() > undo::HEADER_BYTES_MAX {
            return Some("the header is too long to be kept beside the file".to_owned());
        }
        if alignment != self.file.alignment() {
            return Some("the alignment changes, so the tensors move".to_owned());
        }
        if is_protected(&self.real) {
            return Some("the file is write-protected".to_owned());
        }
        if undo::path_of(&self.real)
            .file_name()
            .is_some_and(|name| name.len() > NAME_BYTES_MAX)
        {
            return Some("its name is too long for an undo file beside it".to_owned());
        }
        let n_names = n_names(&self.real);
        if n_names > 1 {
            return Some(format!(
                "the file has {n_names} names (hard links), and only this one would know of a cut edit"
            ));
        }
        let (needed, start) = (draft.bytes_without_reserve(), self.file.data_offset());
        let filled = start
            .checked_sub(needed)
            .and_then(|gap| fill(gap, alignment, draft.room().is_some()));
        let Some(filled) = filled else {
            return Some(format!(
                "the header needs {needed} bytes, and its place has {start}"
            ));
        };
        let wanted = options.reserve;
        let room = filled.room();
        if wanted.is_some_and(|wanted| room < wanted || wanted == 0 && !filled.is_padding()) {
            return Some(match wanted {
                Some(0) => "the room for later edits is to go".to_owned(),
                _ => format!(
                    "later edits shall have {} bytes of room, and in the header's place there are {room}",
                    wanted.unwrap_or_default()
                ),
            });
        }
        draft.fill(filled);
        None
    }

    /// What follows a header that ends at `end`, where no tensor moves within the data.
    fn after_header(&self, end: u64, alignment: u64) -> Vec<Piece> {
        let (start, size) = (self.file.data_offset(), self.file.size());
        let rest = &self.file.bytes()[start as usize..];
        let was_padded = align_up(start, alignment) == Some(size) && rest.iter().all(|&b| b == 0);
        if !self.file.tensors().is_empty() || !was_padded {
            return vec![Piece::of(start..size)];
        }
        // Padding after the directory of a file without data: as much as is needed now.
        let padded = align_up(end, alignment).unwrap_or(end);
        vec![Piece {
            range: size..size,
            zeros: padded - end,
        }]
    }

    /// Offsets and data of the tensors under another alignment, in the order of the directory.
    fn realigned(&self, alignment: u64) -> (Vec<u64>, Vec<Piece>) {
        let start = self.file.data_offset();
        let (mut offsets, mut pieces) = (Vec::new(), Vec::new());
        let (mut offset, mut end) = (0u64, start);
        for tensor in self.file.tensors() {
            // Tensors lie inside a file and the alignment has 32 bits: no sum overflows in practice,
            // and a wrong one would be found by the check of the header.
            let padded = align_up(tensor.bytes, alignment).unwrap_or(u64::MAX);
            let first = start + tensor.offset;
            offsets.push(offset);
            pieces.push(Piece {
                range: first..first + tensor.bytes,
                zeros: padded.saturating_sub(tensor.bytes),
            });
            offset = offset.saturating_add(padded);
            let old_padded = align_up(tensor.bytes, self.file.alignment()).unwrap_or(u64::MAX);
            end = end.max(first.saturating_add(old_padded));
        }
        // What somebody put behind the data stays behind it.
        pieces.push(Piece::of(end.min(self.file.size())..self.file.size()));
        (offsets, pieces)
    }
}

impl Plan {
    /// The file itself, links followed.
    pub fn path(&self) -> &Path {
        &self.real
    }

    /// What changes, in the order of the edits; edits that change nothing are left out.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// How the new header gets into the file.
    pub fn way(&self) -> &Way {
        &self.way
    }

    /// The bytes before the data: before and after.
    pub fn header_bytes(&self) -> (u64, u64) {
        (self.old.len() as u64, self.new.len() as u64)
    }

    /// The SHA-256 of the bytes before the data, in hexadecimal: before and after.
    pub fn header_sha256(&self) -> (String, String) {
        let sum = |bytes: &[u8]| digest::hexadecimal(&digest::of_bytes(bytes));
        (sum(&self.old), sum(&self.new))
    }

    /// The size of the file: before and after.
    pub fn file_bytes(&self) -> (u64, u64) {
        let pieces: u64 = self.pieces.iter().map(Piece::n_bytes).sum();
        (self.file_bytes, self.new.len() as u64 + pieces)
    }

    /// The most bytes that [`Plan::apply`] will write, undo file included, backup left out.
    pub fn bytes_to_write(&self) -> u64 {
        match self.way {
            Way::Unchanged => 0,
            Way::InPlace => in_place::bytes_to_write(&self.old, &self.new),
            Way::Rewrite { .. } => self.file_bytes().1,
        }
    }

    /// Whether there is an entry [`RESERVED_KEY`], which edits need for room: before and after.
    pub fn has_reserve(&self) -> (bool, bool) {
        (self.rooms.0.is_some(), self.rooms.1.is_some())
    }

    /// What the changes may break, and was allowed by `force`.
    pub fn dangers(&self) -> &[String] {
        &self.dangers
    }

    /// The room for later edits that the file has, in bytes.
    pub fn room_before(&self) -> u64 {
        self.rooms.0.unwrap_or(0)
    }

    /// The room for later edits that the file will have, in bytes.
    pub fn room(&self) -> u64 {
        self.rooms.1.unwrap_or(0)
    }

    /// The bytes of the edited file, made of those of the file that was opened. For small files; the
    /// answer means nothing for other bytes.
    pub fn to_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = self.new.clone();
        for piece in &self.pieces {
            // Pieces lie inside the file, so their ends fit in `usize`.
            let range = piece.range.start as usize..piece.range.end as usize;
            out.extend_from_slice(bytes.get(range).unwrap_or_default());
            out.resize(out.len() + piece.zeros as usize, 0);
        }
        out
    }

    /// Whether the output could be opened, if another file is to be written; for those who only look at the plan.
    ///
    /// # Errors
    /// Those of [`crate::check_target`].
    pub fn check_output(&self) -> Result<()> {
        match &self.output {
            None => Ok(()),
            Some(output) => check_target(output, &self.write_options()),
        }
    }

    /// How a rewritten file is written.
    pub(super) fn write_options(&self) -> WriteOptions {
        WriteOptions {
            force: self.force || self.output.is_none(),
            inputs: self.output.iter().map(|_| self.real.clone()).collect(),
            ..WriteOptions::default()
        }
    }

    /// Does it. `progress` hears of the bytes of a rewritten file as they are written.
    ///
    /// # Errors
    /// [`Error::ChangedMeanwhile`], [`Error::Busy`], those of [`crate::Writer`] for a rewritten
    /// file, [`Error::Io`]; the file is as it was then. [`Error::RestoreFailed`] where writing in place
    /// failed and putting the header back failed too; the undo file is there then.
    pub fn apply(&self, progress: &mut dyn FnMut(u64)) -> Result<Outcome> {
        match self.way {
            Way::Unchanged => Ok(Outcome {
                path: self.real.clone(),
                bytes_written: 0,
                backup: None,
            }),
            Way::InPlace => self.replace_header(&mut || ()),
            Way::Rewrite { .. } => rewrite::rewrite(self, progress),
        }
    }

    /// [`Plan::apply`] in place; `step` is called between any two steps.
    pub(super) fn replace_header(&self, step: &mut dyn FnMut()) -> Result<Outcome> {
        let mut file = rewrite::open_for_change(&self.real)?;
        // Before the lock, since a large file takes its time.
        let backup = Backup::copy(self.backup, &self.real)?;
        // Where there are no locks, the undo file itself keeps a second editor out.
        lock::to_write(file.file(), &self.real)?;
        rewrite::check_unchanged(self, &file)?;
        let (old, new, partial) = (&self.old, &self.new, backup.partial());
        let written =
            in_place::replace_header(&self.real, file.file_mut(), old, new, partial, step);
        match written {
            Ok(bytes_written) => Ok(Outcome {
                path: self.real.clone(),
                bytes_written,
                backup: backup.keep(),
            }),
            Err(error) => {
                if matches!(error, Error::RestoreFailed { .. } | Error::UndoLeft { .. }) {
                    // The file is not whole, or another one than before; all the better that there is a copy.
                    let _ = backup.keep();
                }
                Err(error)
            }
        }
    }
}

/// Whether nobody may write to a file.
fn is_protected(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|about| about.permissions().readonly())
}

/// How many names a file has.
#[cfg(unix)]
fn n_names(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).map_or(1, |about| about.nlink())
}

#[cfg(not(unix))]
fn n_names(_: &Path) -> u64 {
    1
}
