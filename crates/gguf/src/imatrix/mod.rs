//! The importance matrix: how much the columns of a model's matrices matter, measured on text.
//!
//! For each tensor it holds, per stacked matrix (expert), the sum of the squares of every input column over the rows that
//! were seen, and how many rows that were. There are two forms on disk, told apart by their first bytes: a GGUF file, and
//! the older bare list (`.dat`), which has one count for all experts of a tensor.

mod container;
mod legacy;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::hash::hexadecimal;
use crate::model::Model;
use crate::output::WriteOptions;

/// Rows of a chunk where nobody says how many: the context in which the reference collects.
const CHUNK_SIZE: u32 = 512;

/// The sums of all tensors, and where they come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imatrix {
    /// The texts that were read, as the collector named them.
    pub datasets: Vec<String>,
    /// Chunks of text that were read.
    pub n_chunks: u32,
    /// Rows of a chunk; 0 where the file does not tell, as in the older form. Counts are of chunks then.
    pub chunk_size: u32,
    entries: BTreeMap<String, ImatrixEntry>,
}

/// The sums of one tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct ImatrixEntry {
    sums: Vec<f32>,
    counts: Vec<f32>,
    activations: Option<Vec<f32>>,
}

/// A form on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImatrixForm {
    /// A GGUF file: counts of every expert.
    Gguf,
    /// The older bare list: one count for a tensor.
    Legacy,
}

/// What the older form could not hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacyLoss {
    /// Tensors of which no row was seen: left out.
    pub left_out: Vec<String>,
    /// Tensors whose experts had counts of their own: the weights stay, the counts are gone.
    pub flattened: Vec<String>,
}

impl ImatrixEntry {
    /// Sums of squares `[n_columns, n_matrices]` (columns contiguous), rows seen `[n_matrices]`, and where the collector
    /// kept them the plain sums, of the shape of `sums`.
    ///
    /// # Errors
    /// What is wrong with them, in words: shapes that do not belong together, or what no sum and no count can be.
    pub fn new(
        sums: Vec<f32>,
        counts: Vec<f32>,
        activations: Option<Vec<f32>>,
    ) -> Result<ImatrixEntry, String> {
        if sums.is_empty() || counts.is_empty() || !sums.len().is_multiple_of(counts.len()) {
            return Err(format!(
                "{} sums do not divide among {} counts",
                sums.len(),
                counts.len()
            ));
        }
        if let Some(activations) = &activations
            && activations.len() != sums.len()
        {
            return Err(format!(
                "{} plain sums stand beside {} sums of squares",
                activations.len(),
                sums.len()
            ));
        }
        let n_columns = sums.len() / counts.len();
        let place = |index: usize| match counts.len() {
            1 => format!("column {index}"),
            _ => format!(
                "column {} of matrix {}",
                index % n_columns,
                index / n_columns
            ),
        };
        let sum = |value: &f32| !value.is_finite() || *value < 0.0;
        if let Some(index) = sums.iter().position(sum) {
            return Err(format!(
                "the sum of squares of {} is {}",
                place(index),
                sums[index]
            ));
        }
        // Some collectors count in fractions of a chunk; what rounds to none although it is some is damage.
        let count = |value: &f32| sum(value) || (*value > 0.0 && value.round() == 0.0);
        if let Some(index) = counts.iter().position(count) {
            return Err(format!("the count of matrix {index} is {}", counts[index]));
        }
        let plain = activations.as_deref().unwrap_or_default();
        if let Some(index) = plain.iter().position(|value| !value.is_finite()) {
            return Err(format!("the sum of {} is {}", place(index), plain[index]));
        }
        Ok(ImatrixEntry {
            sums,
            counts: counts.into_iter().map(f32::round).collect(),
            activations,
        })
    }

    /// Sums of squares `[n_columns, n_matrices]`, columns contiguous.
    pub fn sums(&self) -> &[f32] {
        &self.sums
    }

    /// Rows seen of each matrix, whole numbers. The older form has one for all.
    pub fn counts(&self) -> &[f32] {
        &self.counts
    }

    /// Plain sums of the shape of [`ImatrixEntry::sums`], where the collector kept them.
    pub fn activations(&self) -> Option<&[f32]> {
        self.activations.as_deref()
    }

    /// The weights of the columns, of the shape of [`ImatrixEntry::sums`]: mean squares, and 1 for a matrix that no row
    /// went through. All are finite and none is negative.
    pub fn weights(&self) -> Vec<f32> {
        let n_columns = self.sums.len() / self.counts.len();
        let mut weights = self.sums.clone();
        for (weights, &count) in weights.chunks_exact_mut(n_columns).zip(&self.counts) {
            let seen = count > 0.0;
            weights
                .iter_mut()
                .for_each(|weight| *weight = if seen { *weight / count } else { 1.0 });
        }
        weights
    }

    /// Matrices that no row went through.
    pub fn n_unseen(&self) -> usize {
        self.counts.iter().filter(|count| **count == 0.0).count()
    }
}

impl Imatrix {
    /// Reads a file of either form: its first bytes decide, whatever its name. Any shard of a set opens all of it.
    ///
    /// # Errors
    /// [`Error::NoImatrix`] where there is no file, [`Error::NotImatrix`] for another kind of file, [`Error::BadImatrix`] for
    /// data that no collector writes, [`Error::Truncated`], and those of [`Model::open`].
    pub fn open(path: &Path) -> Result<Imatrix> {
        Imatrix::open_files(path).map(|(imatrix, _)| imatrix)
    }

    /// Like [`Imatrix::open`], with the files that were read.
    ///
    /// # Errors
    /// Those of [`Imatrix::open`].
    pub fn open_files(path: &Path) -> Result<(Imatrix, Vec<PathBuf>)> {
        if !has_magic(path)? {
            return Ok((legacy::read(path)?, vec![path.to_owned()]));
        }
        let model = Model::open(path)?;
        let files = model.shards().iter().map(|shard| shard.path().to_owned());
        Ok((container::of_model(&model)?, files.collect()))
    }

    /// Reads the older form from bytes in memory; `path` is only a name for messages.
    ///
    /// # Errors
    /// Those of [`Imatrix::open`].
    pub fn from_legacy_bytes(bytes: &[u8], path: &Path) -> Result<Imatrix> {
        legacy::parse(bytes, path)
    }

    /// Reads the GGUF form from a file, or a set of shards, that is open already.
    ///
    /// # Errors
    /// Those of [`Imatrix::open`].
    pub fn of_model(model: &Model) -> Result<Imatrix> {
        container::of_model(model)
    }

    /// Adds a tensor, or replaces what was known of it.
    pub fn insert(&mut self, tensor: impl Into<String>, entry: ImatrixEntry) {
        self.entries.insert(tensor.into(), entry);
    }

    /// What is known of a tensor.
    pub fn get(&self, tensor: &str) -> Option<&ImatrixEntry> {
        self.entries.get(tensor)
    }

    /// All tensors, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &ImatrixEntry)> + '_ {
        self.entries
            .iter()
            .map(|(name, entry)| (name.as_str(), entry))
    }

    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no tensor.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Keeps the tensors for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.entries.retain(|name, _| keep(name));
    }

    /// A hash of all names, sums and counts, in hexadecimal: of two matrices with the same one, a model becomes the same.
    pub fn fingerprint(&self) -> String {
        let mut hasher = Sha256::new();
        for (name, entry) in self.iter() {
            for length in [name.len(), entry.sums.len(), entry.counts.len()] {
                hasher.update((length as u64).to_le_bytes());
            }
            hasher.update(name);
            for number in entry.sums.iter().chain(&entry.counts) {
                hasher.update(number.to_le_bytes());
            }
        }
        hexadecimal(&hasher.finalize())
    }

    /// Writes a file, which appears whole or not at all. Tells what the older form could not hold.
    ///
    /// # Errors
    /// [`Error::BadImatrix`] for more than the older form can count, and those of [`crate::Writer`].
    pub fn save(
        &self,
        path: &Path,
        form: ImatrixForm,
        options: &WriteOptions,
    ) -> Result<LegacyLoss> {
        match form {
            ImatrixForm::Gguf => {
                container::write(self, path, options).map(|()| LegacyLoss::default())
            }
            ImatrixForm::Legacy => legacy::write(self, path, options),
        }
    }
}

/// Whether a file begins as GGUF does.
fn has_magic(path: &Path) -> Result<bool> {
    let about = std::fs::metadata(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => Error::NoImatrix {
            path: path.to_owned(),
        },
        _ => Error::io(path, "look at the file", source),
    })?;
    if about.is_dir() {
        return Err(Error::NotImatrix {
            path: path.to_owned(),
            reason: "it is a folder".to_owned(),
        });
    }
    if !about.is_file() {
        return Err(Error::NotRegular {
            path: path.to_owned(),
        });
    }
    let mut magic = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(4).read_to_end(&mut magic))
        .map_err(|source| Error::io(path, "read", source))?;
    Ok(magic == *b"GGUF")
}
