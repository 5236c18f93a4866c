//! A model as one file or as a set of shards.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::directory::TensorInfo;
use crate::error::{Error, Result};
use crate::file::File;
use crate::kind::Kind;
use crate::mapping::Mapping;
use crate::metadata::Metadata;
use crate::shards;

/// A whole model: one file, or a complete set of shards opened from any of them.
#[derive(Debug)]
pub struct Model {
    /// In the order of the set; never empty.
    shards: Vec<File>,
    tensors: Vec<TensorInfo>,
    /// The shard of each tensor, parallel to `tensors`.
    shard_of: Vec<usize>,
    places: HashMap<String, usize>,
}

/// A tensor with its bytes in place.
#[derive(Clone, Copy, Debug)]
pub struct TensorView<'a> {
    /// Name, dimensions, type.
    pub info: &'a TensorInfo,
    /// Its `info.bytes` bytes, little-endian unless the file is big-endian and was opened as it is stored
    /// ([`Model::open_stored`]).
    pub data: &'a [u8],
    /// The number of its shard, for [`Model::region`].
    pub shard: usize,
    /// Where its data starts, in bytes from the start of that shard's region.
    pub offset: u64,
}

impl Model {
    /// Opens a file; if it is part of a set, all of the set.
    ///
    /// # Errors
    /// Those of [`File::open`], and one for each way in which a set can be wrong. A file of another
    /// kind (vocabulary, imatrix, adapter, …) opens; see [`Model::require_weights`].
    pub fn open(path: &Path) -> Result<Model> {
        Model::of_shards(shards::open_set(File::open(path)?, File::open)?)
    }

    /// Like [`Model::open`], of files whose data may be missing: see [`File::open_header`].
    ///
    /// # Errors
    /// Those of [`File::open_header`], and one for each way in which a set can be wrong.
    pub fn open_header(path: &Path) -> Result<Model> {
        let file = File::open_header(path)?;
        Model::of_shards(shards::open_set(file, File::open_header)?)
    }

    /// Like [`Model::open`], with the data of big-endian files as it is stored; see [`File::open_stored`].
    ///
    /// # Errors
    /// Those of [`Model::open`].
    pub fn open_stored(path: &Path) -> Result<Model> {
        let file = File::open_stored(path)?;
        Model::of_shards(shards::open_set(file, File::open_stored)?)
    }

    /// Like [`Model::open_stored`], and where files of the set are missing, those that are there, with the error that tells
    /// which ones are not. To be looked at, not to be worked with: without the first file even the metadata is missing.
    ///
    /// # Errors
    /// Those of [`Model::open`] but [`Error::MissingShards`].
    pub fn open_present(path: &Path) -> Result<(Model, Option<Error>)> {
        match Model::open_stored(path) {
            Ok(model) => Ok((model, None)),
            Err(missing @ Error::MissingShards { .. }) => {
                let file = File::open_stored(path)?;
                let (shards, missing) = shards::open_present(file, File::open_stored, missing)?;
                Ok((Model::of_shards(shards)?, Some(missing)))
            }
            Err(error) => Err(error),
        }
    }

    /// A model in one file that is already open, be it a shard or not.
    ///
    /// # Errors
    /// None: names of tensors are unique in a file.
    pub fn of_file(file: File) -> Result<Model> {
        Model::of_shards(vec![file])
    }

    fn of_shards(shards: Vec<File>) -> Result<Model> {
        let mut tensors = Vec::new();
        let mut shard_of: Vec<usize> = Vec::new();
        let mut places = HashMap::new();
        for (shard, file) in shards.iter().enumerate() {
            for tensor in file.tensors() {
                if let Some(earlier) = places.insert(tensor.name.clone(), tensors.len()) {
                    return Err(Error::ShardTensorRepeated {
                        path: file.path().to_owned(),
                        tensor: tensor.name.clone(),
                        other: shards[shard_of[earlier]].path().to_owned(),
                    });
                }
                tensors.push(tensor.clone());
                shard_of.push(shard);
            }
        }
        Ok(Model {
            shards,
            tensors,
            shard_of,
            places,
        })
    }

    /// The metadata of the model: that of the first shard.
    pub fn metadata(&self) -> &Metadata {
        self.shards[0].metadata()
    }

    /// All tensors, shard by shard, in the order of their directories. `offset` counts from the data
    /// section of the tensor's own shard.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor of this name with its data.
    pub fn tensor(&self, name: &str) -> Option<TensorView<'_>> {
        self.views_at(*self.places.get(name)?)
    }

    /// All tensors with their data, in the order of [`Model::tensors`].
    pub fn views(&self) -> impl Iterator<Item = TensorView<'_>> + '_ {
        (0..self.tensors.len()).map_while(|place| self.views_at(place))
    }

    fn views_at(&self, place: usize) -> Option<TensorView<'_>> {
        let info = self.tensors.get(place)?;
        let shard = self.shard_of[place];
        let file = &self.shards[shard];
        // Both were checked to lie inside the file.
        let offset = file.data_offset() + info.offset;
        Some(TensorView {
            info,
            data: file.data(info),
            shard,
            offset,
        })
    }

    /// The files, in the order of the set.
    pub fn shards(&self) -> &[File] {
        &self.shards
    }

    /// The path of the first file.
    pub fn path(&self) -> &Path {
        self.shards[0].path()
    }

    /// The region of a shard, to hand to those who keep weights in place.
    pub fn region(&self, shard: usize) -> Option<Arc<Mapping>> {
        self.shards.get(shard).map(File::region)
    }

    /// Reads mapped files into memory of this process: a file that is cut short meanwhile is an error then, and not the end of
    /// the process. To be called before regions are handed out.
    ///
    /// # Errors
    /// [`crate::Error::Changed`] where another file has the name by now, [`crate::Error::Io`].
    pub fn read_into_memory(&mut self) -> Result<()> {
        self.shards.iter_mut().try_for_each(File::read_into_memory)
    }

    /// Asks the system to keep all files in memory, so that they are never swapped out.
    ///
    /// # Errors
    /// What the system says: most often that the limit of the user is reached.
    pub fn lock_in_memory(&self) -> std::io::Result<()> {
        self.shards.iter().try_for_each(|file| file.region().lock())
    }

    /// The size of the header of all files together, in bytes.
    pub fn header_size(&self) -> u64 {
        self.shards.iter().map(File::data_offset).sum()
    }

    /// The size of all files together, in bytes.
    pub fn size(&self) -> u64 {
        self.shards.iter().map(File::size).sum()
    }

    /// What the model is for.
    pub fn kind(&self) -> Kind {
        Kind::of(self.metadata(), self.tensors.len())
    }

    /// Refuses every kind but a model with weights, each with an error of its own.
    ///
    /// # Errors
    /// [`Error::VocabularyOnly`], [`Error::ImatrixNotModel`], [`Error::AdapterNotModel`], [`Error::ProjectorNotModel`],
    /// [`Error::ControlVectorNotModel`].
    pub fn require_weights(&self) -> Result<()> {
        let path = self.path().to_owned();
        match self.kind() {
            Kind::Model => Ok(()),
            Kind::Vocabulary => Err(Error::VocabularyOnly { path }),
            Kind::Imatrix => Err(Error::ImatrixNotModel { path }),
            Kind::Adapter => Err(Error::AdapterNotModel { path }),
            Kind::Projector => Err(Error::ProjectorNotModel { path }),
            Kind::ControlVector => Err(Error::ControlVectorNotModel { path }),
        }
    }

    /// Refuses every kind but models and vocabularies: what is needed to tokenize.
    ///
    /// # Errors
    /// Those of [`Model::require_weights`] but the first.
    pub fn require_vocabulary(&self) -> Result<()> {
        match self.kind() {
            Kind::Vocabulary => Ok(()),
            _ => self.require_weights(),
        }
    }
}
