//! The entries of a file with edits made to them, before anything is written.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::reserve::{self, Fill, RESERVED_KEY};
use super::{Edit, spaces};
use crate::cursor::Number as _;
use crate::directory;
use crate::encode;
use crate::error::{Error, Result};
use crate::file::File;
use crate::metadata::Metadata;
use crate::value::Value;
use crate::writer;

/// What an edit changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The key, after a renaming the new one.
    pub key: String,
    /// The value before; `None` for a new entry.
    pub before: Option<Value>,
    /// The value after; `None` for a removed entry.
    pub after: Option<Value>,
    /// The key before, of a renamed entry.
    pub renamed_from: Option<String>,
}

/// No two edits may name one key: which one counts would be a guess.
pub(super) const TWO_EDITS: &str = "two edits name it; give one of them";
/// Magic number, version and counts.
const START_BYTES: u64 = 24;
/// Where the number of entries stands.
const COUNT_PLACE: Range<usize> = 16..24;

/// An entry to be.
struct Slot<'a> {
    key: String,
    body: Body<'a>,
}

/// Type and value of an entry.
enum Body<'a> {
    /// As it is in the file.
    Old { bytes: &'a [u8], value: &'a Value },
    /// To be encoded.
    New(Value),
}

impl Body<'_> {
    fn value(&self) -> &Value {
        match self {
            Body::Old { value, .. } => value,
            Body::New(value) => value,
        }
    }

    fn n_bytes(&self) -> u64 {
        match self {
            Body::Old { bytes, .. } => bytes.len() as u64,
            Body::New(value) => encode::typed_value_bytes(value),
        }
    }
}

/// The entries of a file and what is to become of them.
pub(super) struct Draft<'a> {
    file: &'a File,
    /// In the order of the file; `None` where one was removed.
    slots: Vec<Option<Slot<'a>>>,
    places: HashMap<String, usize>,
    /// The bytes of the tensor directory.
    directory: &'a [u8],
    /// Every key that an edit has named.
    named: HashSet<String>,
    changes: Vec<Change>,
}

impl<'a> Draft<'a> {
    /// The entries as they are.
    pub(super) fn of(file: &'a File) -> Result<Draft<'a>> {
        let bytes = file.bytes();
        let mut slots = Vec::with_capacity(file.metadata().len());
        let mut place = START_BYTES;
        for (key, value) in file.metadata().iter() {
            let start = place + 8 + key.len() as u64;
            place = start + encode::typed_value_bytes(value);
            slots.push((key, value, start..place));
        }
        let directory_bytes: u64 = file
            .tensors()
            .iter()
            .map(|tensor| encode::tensor_entry_bytes(&tensor.name, tensor.dims.len()))
            .sum();
        let end = file.directory_end();
        // Every value has one encoding only, so the places follow from the values.
        let known = place + directory_bytes == end && end <= bytes.len() as u64;
        if !known {
            return Err(Error::PlanMismatch {
                path: file.path().to_owned(),
                reason: format!(
                    "the entries end at byte {place}, which does not fit the directory"
                ),
            });
        }
        // Inside the file, as was just checked, so they fit in `usize`.
        let at = |range: Range<u64>| &bytes[range.start as usize..range.end as usize];
        let slots: Vec<Option<Slot<'a>>> = slots
            .into_iter()
            .map(|(key, value, range)| {
                let bytes = at(range);
                let key = key.to_owned();
                Some(Slot {
                    key,
                    body: Body::Old { bytes, value },
                })
            })
            .collect();
        let places = slots
            .iter()
            .enumerate()
            .filter_map(|(place, slot)| Some((slot.as_ref()?.key.clone(), place)))
            .collect();
        Ok(Draft {
            file,
            slots,
            places,
            directory: at(place..end),
            named: HashSet::new(),
            changes: Vec::new(),
        })
    }

    /// What the edits so far change, in their order.
    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// Makes one edit.
    pub(super) fn apply(&mut self, edit: &Edit) -> Result<()> {
        match edit {
            Edit::Set { key, value } => self.set(key, value, false),
            Edit::Add { key, value } => self.set(key, value, true),
            Edit::Rename { from, to } => self.rename(from, to),
            Edit::Remove { key } => self.remove(key),
        }
    }

    pub(super) fn bad<T>(&self, key: &str, reason: impl Into<String>) -> Result<T> {
        Err(Error::BadEdit {
            path: self.file.path().to_owned(),
            key: key.to_owned(),
            reason: reason.into(),
        })
    }

    fn name(&mut self, key: &str) -> Result<()> {
        if key == RESERVED_KEY {
            return self.bad(key, "it is room for edits; its size is set with --reserve");
        }
        if self.named.insert(key.to_owned()) {
            return Ok(());
        }
        self.bad(key, TWO_EDITS)
    }

    fn set(&mut self, key: &str, value: &Value, must_be_new: bool) -> Result<()> {
        self.name(key)?;
        writer::check_entry(self.file.path(), key, value)?;
        let before = self.places.get(key).copied();
        if must_be_new && before.is_some() {
            return self.bad(key, "it is there already; `--set` gives it another value");
        }
        let body = Body::New(value.clone());
        let Some(slot) = before.and_then(|place| self.slots[place].as_mut()) else {
            self.push(key, body);
            self.change(key, None, Some(value.clone()), None);
            return Ok(());
        };
        // Bit for bit: zero and minus zero are equal and not the same.
        if !encode::is_same(slot.body.value(), value) {
            let before = slot.body.value().clone();
            slot.body = body;
            self.change(key, Some(before), Some(value.clone()), None);
        }
        Ok(())
    }

    fn push(&mut self, key: &str, body: Body<'a>) {
        let key = key.to_owned();
        self.places.insert(key.clone(), self.slots.len());
        self.slots.push(Some(Slot { key, body }));
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        if from == to {
            return self.bad(from, "the new key is the old one");
        }
        self.name(from)?;
        self.name(to)?;
        if self.places.contains_key(to) {
            return self.bad(from, format!("{to:?} is there already"));
        }
        let Some(slot) = self
            .places
            .get(from)
            .and_then(|&place| self.slots[place].as_mut())
        else {
            return self.bad(from, "it is not there");
        };
        let value = slot.body.value().clone();
        writer::check_entry(self.file.path(), to, &value)?;
        slot.key = to.to_owned();
        if let Some(place) = self.places.remove(from) {
            self.places.insert(to.to_owned(), place);
        }
        self.change(to, Some(value.clone()), Some(value), Some(from.to_owned()));
        Ok(())
    }

    fn remove(&mut self, key: &str) -> Result<()> {
        self.name(key)?;
        let Some(slot) = self
            .places
            .remove(key)
            .and_then(|place| self.slots[place].take())
        else {
            return self.bad(key, "it is not there");
        };
        self.change(key, Some(slot.body.value().clone()), None, None);
        Ok(())
    }

    fn change(
        &mut self,
        key: &str,
        before: Option<Value>,
        after: Option<Value>,
        renamed_from: Option<String>,
    ) {
        self.changes.push(Change {
            key: key.to_owned(),
            before,
            after,
            renamed_from,
        });
    }

    /// The alignment by the entries as they will be.
    pub(super) fn alignment(&self) -> Result<u64> {
        let key = "general.alignment";
        let mut metadata = Metadata::new();
        if let Some(slot) = self.slot(key) {
            metadata.set(key, slot.body.value().clone());
        }
        match directory::written_alignment(&metadata, self.file.path()) {
            // The file has a good one, or it would not have been opened.
            Err(Error::BadAlignment { found, .. }) => self.bad(
                key,
                format!("{found} is no alignment; give a multiple of 8 as UINT32 (llama.cpp: a power of two)"),
            ),
            alignment => alignment,
        }
    }

    fn slot(&self, key: &str) -> Option<&Slot<'a>> {
        self.slots[*self.places.get(key)?].as_ref()
    }

    /// The room that the reserve has; `None` if there is none.
    pub(super) fn room(&self) -> Option<u64> {
        self.slot(RESERVED_KEY)
            .map(|slot| reserve::room(slot.body.value()))
    }

    /// The bytes of everything but the reserve, up to the end of the directory.
    pub(super) fn bytes_without_reserve(&self) -> u64 {
        let slots = self.slots.iter().flatten();
        let entries: u64 = slots
            .filter(|slot| slot.key != RESERVED_KEY)
            .map(|slot| 8 + slot.key.len() as u64 + slot.body.n_bytes())
            .sum();
        START_BYTES + entries + self.directory.len() as u64
    }

    /// Makes the reserve one of `n` bytes; with 0 it goes.
    pub(super) fn set_room(&mut self, n: u64) -> Result<()> {
        let most = crate::limits::STRING_BYTES;
        if n > most {
            let reason = format!("--reserve asks for {n} bytes, and a string has {most} at most");
            return self.bad(RESERVED_KEY, reason);
        }
        if n > 0 && self.file.tensors().is_empty() {
            let reason =
                "--reserve is of no use in a file without tensors: every edit writes it anew";
            return self.bad(RESERVED_KEY, reason);
        }
        self.fill(if n == 0 {
            Fill::Padding
        } else {
            Fill::Reserve(spaces(n))
        });
        Ok(())
    }

    /// Puts a filling in the place of the reserve.
    pub(super) fn fill(&mut self, fill: Fill) {
        let place = self.places.get(RESERVED_KEY).copied();
        match (fill, place) {
            (Fill::Padding, None) => {}
            (Fill::Padding, Some(place)) => {
                self.slots[place] = None;
                self.places.remove(RESERVED_KEY);
            }
            (Fill::Reserve(value), Some(place)) => {
                if let Some(slot) = &mut self.slots[place] {
                    slot.body = Body::New(value);
                }
            }
            (Fill::Reserve(value), None) => self.push(RESERVED_KEY, Body::New(value)),
        }
    }

    /// The header, without padding. The directory is that of the file, unless tensors move:
    /// `offsets` are their places then, in the order of the directory.
    pub(super) fn encode(&self, offsets: Option<&[u64]>) -> Vec<u8> {
        let endian = self.file.endian();
        let n_entries = self.slots.iter().flatten().count() as u64;
        // Magic number, version and the number of tensors stay.
        let mut out = self.file.bytes()[..COUNT_PLACE.start].to_vec();
        n_entries.write(endian, &mut out);
        for slot in self.slots.iter().flatten() {
            encode::string(slot.key.as_bytes(), endian, &mut out);
            match &slot.body {
                Body::Old { bytes, .. } => out.extend_from_slice(bytes),
                Body::New(value) => encode::typed_value(value, endian, &mut out),
            }
        }
        match offsets {
            None => out.extend_from_slice(self.directory),
            Some(offsets) => {
                for (tensor, &offset) in self.file.tensors().iter().zip(offsets) {
                    encode::tensor(
                        &tensor.name,
                        &tensor.dims,
                        tensor.ty,
                        offset,
                        endian,
                        &mut out,
                    );
                }
            }
        }
        out
    }
}
