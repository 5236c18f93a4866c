//! One validated file.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::byte_order;
use crate::cursor::Endian;
use crate::diagnose::diagnose;
use crate::directory::{self, DataSection, TensorInfo};
use crate::edit;
use crate::error::{Error, Result};
use crate::faults::Faults;
use crate::kind::Kind;
use crate::limits;
use crate::mapping::Mapping;
use crate::metadata::Metadata;
use crate::parse::{Parsed, parse};
use crate::source::{Identity, Source};

/// A file as far as it can be read, with everything that was found wrong on the way.
#[derive(Debug)]
pub struct Survey {
    /// The file without the entries and tensors that are at fault; none where nothing could be read. What it has is
    /// as sound as in a file that was opened, but tensors may overlap.
    pub file: Option<File>,
    /// What is wrong, in the order of the file; the last one may be where reading ended.
    pub faults: Vec<Error>,
}

/// One GGUF file: parsed, validated, and mapped. Nothing that is asked of it afterwards can fail.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    region: Arc<Mapping>,
    /// Of a file on a disk.
    identity: Option<Identity>,
    size: u64,
    version: u32,
    endian: Endian,
    alignment: u64,
    directory_end: u64,
    data_offset: u64,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    places: HashMap<String, usize>,
}

impl File {
    /// Opens and validates a file. Weights are not touched: a file of any size opens in the time
    /// that its metadata takes. (A big-endian file is read whole, since its numbers are turned
    /// around in memory.)
    ///
    /// A file whose last edit was cut short is not opened: see [`edit::recover_on_open`].
    ///
    /// # Errors
    /// Every fault has its own [`Error`] variant; see there.
    pub fn open(path: &Path) -> Result<File> {
        // Held until the header is parsed: nobody changes it meanwhile.
        let (region, held) = map(path)?;
        File::of_region(
            region,
            Some(held.id),
            path,
            Data::Turned,
            &mut Faults::Refuse,
        )
    }

    /// Opens and validates the header of a file whose data may be missing in part or as a whole: the first bytes of one that
    /// is elsewhere. [`File::size`] is what the file would have at least, and [`File::data`] of what is missing is empty.
    ///
    /// # Errors
    /// Those of [`File::open`] that are about the header; [`Error::Truncated`] where not all of it is there.
    pub fn open_header(path: &Path) -> Result<File> {
        let (region, held) = map(path)?;
        let id = Some(held.id);
        File::of_region(region, id, path, Data::Absent, &mut Faults::Refuse)
    }

    /// Opens and validates a file of whichever byte order in the time that its metadata takes: the data of a
    /// big-endian file stays as it is stored, so [`File::data`] is to be read with [`File::endian`] in mind.
    ///
    /// # Errors
    /// Those of [`File::open`].
    pub fn open_stored(path: &Path) -> Result<File> {
        File::open_held(path).map(|(file, _)| file)
    }

    /// [`File::open_stored`], and the lock under which it was read: as long as it is held nobody changes the header, so
    /// that what the mapping shows is what was parsed.
    pub(crate) fn open_held(path: &Path) -> Result<(File, edit::Settled)> {
        let (region, held) = map(path)?;
        let id = Some(held.id);
        let file = File::of_region(region, id, path, Data::Stored, &mut Faults::Refuse)?;
        Ok((file, held.lock))
    }

    /// Reads as much of a file as can be read, and collects what is wrong with it, where [`File::open`] ends at the
    /// first fault. For looking for faults; what comes of a file with any is not to be worked with. Tensor data is not
    /// touched: that of a big-endian file stays as it is stored, so [`File::data`] is to be read with [`File::endian`]
    /// in mind.
    pub fn survey(path: &Path) -> Survey {
        let mut faults = Faults::collect();
        let file = map(path).and_then(|(region, held)| {
            File::of_region(region, Some(held.id), path, Data::Stored, &mut faults)
        });
        let mut collected = faults.collected();
        let file = file.map_err(|error| collected.push(error)).ok();
        Survey {
            file,
            faults: collected,
        }
    }

    /// Reads a mapped file into memory of this process, where nothing that happens to the file reaches it.
    ///
    /// # Errors
    /// [`Error::Changed`] where the file is another one by now, [`Error::Io`].
    pub(crate) fn read_into_memory(&mut self) -> Result<()> {
        let len = (*self.region).as_ref().len();
        if self.region.is_mapped() {
            let source = Source::of(self)?;
            self.region = Arc::new(Mapping::read(&source, len, &self.path)?);
        }
        Ok(())
    }

    /// Validates bytes in memory as a file; `path` is only a name for messages.
    ///
    /// # Errors
    /// Those of [`File::open`] that are about bytes.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<File> {
        File::of_region(
            Mapping::of_bytes(bytes),
            None,
            path,
            Data::Turned,
            &mut Faults::Refuse,
        )
    }

    /// [`File::from_bytes`] with the data of a big-endian file as it is stored.
    pub(crate) fn from_stored_bytes(bytes: &[u8], path: &Path) -> Result<File> {
        File::of_region(
            Mapping::of_bytes(bytes),
            None,
            path,
            Data::Stored,
            &mut Faults::Refuse,
        )
    }

    fn of_region(
        mut region: Mapping,
        identity: Option<Identity>,
        path: &Path,
        data: Data,
        faults: &mut Faults,
    ) -> Result<File> {
        let Parsed {
            version,
            endian,
            metadata,
            tensors,
            directory_end,
        } = parse(region.as_ref(), path, faults)?;
        let alignment = faults
            .pass(directory::alignment(&metadata, path))?
            .unwrap_or(limits::DEFAULT_ALIGNMENT);
        let data_offset = directory::data_offset(directory_end, tensors.len(), alignment);
        let section = DataSection {
            alignment,
            offset: data_offset,
            file_size: match data {
                Data::Absent => i64::MAX as u64,
                Data::Turned | Data::Stored => region.as_ref().len() as u64,
            },
        };
        let tensors = directory::validate(tensors, path, section, faults)?;
        let ends = tensors.iter().map(|tensor| tensor.offset + tensor.bytes);
        let size = match data {
            Data::Absent => data_offset + ends.max().unwrap_or(0),
            Data::Turned | Data::Stored => section.file_size,
        };
        if endian == Endian::Big && data == Data::Turned {
            region = byte_order::to_little(region, path, data_offset, &tensors)?;
        }
        let places = tensors
            .iter()
            .enumerate()
            .map(|(place, tensor)| (tensor.name.clone(), place))
            .collect();
        let path = path.to_owned();
        let region = Arc::new(region);
        Ok(File {
            path,
            region,
            identity,
            size,
            version,
            endian,
            alignment,
            directory_end,
            data_offset,
            metadata,
            tensors,
            places,
        })
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// What tells it from another file of its name; none for bytes in memory.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.identity
    }

    /// The version of the container: 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The byte order in the file, and where the file was opened as it is stored, of the data seen through
    /// [`File::data`]; what [`File::open`] opened is seen as little-endian in any case.
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Tensors start at multiples of this.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// Where the tensor directory ends.
    pub fn directory_end(&self) -> u64 {
        self.directory_end
    }

    /// Where the data section starts. In a file without tensors that is where the directory ends.
    pub fn data_offset(&self) -> u64 {
        self.data_offset
    }

    /// The metadata, in the order of the file.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The tensors, in the order of the directory.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.places.get(name).map(|&place| &self.tensors[place])
    }

    /// The data of one of this file's tensors: `info.bytes` bytes, little-endian unless the file is big-endian and was
    /// opened as it is stored ([`File::open_stored`], [`File::survey`]).
    ///
    /// For a `TensorInfo` that did not come from this file the answer means nothing, and is empty
    /// where it would lie outside.
    pub fn data(&self, info: &TensorInfo) -> &[u8] {
        let start = self.data_offset.saturating_add(info.offset);
        let end = start.saturating_add(info.bytes);
        // Both were checked to lie inside the region, so they fit in `usize`.
        self.bytes()
            .get(start as usize..end as usize)
            .unwrap_or_default()
    }

    /// All bytes of the file. Those of a big-endian file that [`File::open`] opened end with the last tensor, and the data
    /// of the tensors has been turned around.
    pub fn bytes(&self) -> &[u8] {
        (*self.region).as_ref()
    }

    /// The mapped region, to hand to those who keep weights in place.
    pub fn region(&self) -> Arc<Mapping> {
        Arc::clone(&self.region)
    }

    /// What the file is for.
    pub fn kind(&self) -> Kind {
        Kind::of(&self.metadata, self.tensors.len())
    }
}

/// What becomes of the data of tensors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    /// It is seen as little-endian.
    Turned,
    /// It stays as it is stored.
    Stored,
    /// It may be missing, and is not looked at.
    Absent,
}

/// A file that is locked against changes of its header.
struct Held {
    id: Identity,
    lock: edit::Settled,
}

/// The mapped file, and the lock on it.
fn map(path: &Path) -> Result<(Mapping, Held)> {
    let about =
        std::fs::metadata(path).map_err(|source| Error::io(path, "look at the file", source))?;
    if about.is_dir() {
        return Err(Error::IsFolder {
            path: path.to_owned(),
        });
    }
    if !about.is_file() {
        return Err(Error::NotRegular {
            path: path.to_owned(),
        });
    }
    let file = edit::open_settled(path)?;
    let about = file
        .file()
        .metadata()
        .map_err(|source| Error::io(path, "look at the file", source))?;
    if about.len() == 0 {
        // Files of the system have no size, and bytes all the same.
        let mut first = [0; 1];
        let holds_bytes = matches!(file.file().read(&mut first), Ok(1));
        return Err(match holds_bytes {
            true => Error::NotRegular {
                path: path.to_owned(),
            },
            false => diagnose(&[], path),
        });
    }
    let region = Mapping::of_file(file.file(), path)?;
    let held = Held {
        id: Identity::of(&about),
        lock: file,
    };
    Ok((region, held))
}
