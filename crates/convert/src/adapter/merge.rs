//! Adapters merged into the weights of their base model, a tensor at a time.
//!
//! All arithmetic is f32: for each row of a matrix the change is summed over the ranks in their order, multiplied by the
//! scale, and added to the decoded weight; what follows rounds once.

use super::AdapterError;
use super::config::AdapterConfig;
use super::peft::{PeftAdapter, finite};
use crate::ConvertError;
use crate::quantize::in_kernel;
use crate::stream::transposed;
use gristmill_gguf::{Kind, Model};
use gristmill_kernels::decode_row;
use gristmill_model::{
    AdapterPair, Hyperparameters, Slot, TensorSpec, check_adapter, tensor_specs,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// An adapter to merge: a folder of PEFT or a GGUF file.
#[derive(Clone, Debug, PartialEq)]
pub struct MergeSource {
    /// Where it is.
    pub path: PathBuf,
    /// How much of it counts.
    pub scale: f32,
}

/// Opened adapters, checked against the base model.
#[derive(Default)]
pub(crate) struct Merge {
    adapters: Vec<Opened>,
    /// Whether the base model has an output projection, be it that its table of embeddings serves.
    projects: bool,
}

struct Opened {
    path: PathBuf,
    scale: f32,
    weights: Weights,
}

enum Weights {
    Folder(PeftAdapter),
    File(Model, Vec<AdapterPair>),
}

/// What is added to the rows of one tensor.
pub struct Change {
    scale: f32,
    rank: usize,
    row_len: usize,
    /// Rows of each of the stacked matrices.
    rows_per_matrix: usize,
    /// For each matrix `rank` rows of `row_len`.
    of_columns: Vec<f32>,
    /// `rank` values for each row.
    of_rows: Vec<f32>,
}

impl Change {
    /// Adds the change of rows, the first of which is row `first` of the tensor, to their values.
    pub fn add_to(&self, first: usize, values: &mut [f32]) {
        let mut sum = vec![0.0f32; self.row_len];
        for (row, values) in values.chunks_exact_mut(self.row_len.max(1)).enumerate() {
            let row = first + row;
            let matrix = row / self.rows_per_matrix.max(1) * self.rank * self.row_len;
            let of_columns = self.of_columns[matrix..].chunks_exact(self.row_len);
            let of_row = &self.of_rows[row * self.rank..][..self.rank];
            sum.fill(0.0);
            for (factor, columns) in of_row.iter().zip(of_columns) {
                for (sum, value) in sum.iter_mut().zip(columns) {
                    *sum += factor * value;
                }
            }
            for (value, sum) in values.iter_mut().zip(&sum) {
                *value += self.scale * sum;
            }
        }
    }
}

impl Merge {
    /// Opens adapters for a model.
    ///
    /// # Errors
    /// Whatever is wrong with an adapter or does not fit the model.
    pub fn open(sources: &[MergeSource], hparams: &Hyperparameters) -> Result<Self, ConvertError> {
        let open = |source: &MergeSource| {
            Ok(Opened {
                path: source.path.clone(),
                scale: source.scale,
                weights: match source.path.is_dir() {
                    true => folder(&source.path, hparams)?,
                    false => file(&source.path, hparams)?,
                },
            })
        };
        let adapters: Result<Vec<Opened>, ConvertError> = sources.iter().map(open).collect();
        let specs = tensor_specs(hparams);
        Ok(Self {
            adapters: adapters?,
            projects: specs.iter().any(|spec| spec.slot == Slot::Output),
        })
    }

    /// The files that it reads.
    pub fn inputs(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.adapters.iter().map(|adapter| match &adapter.weights {
            Weights::Folder(folder) => folder.path().to_owned(),
            Weights::File(..) => adapter.path.clone(),
        })
    }

    /// Names of the tensors that it changes.
    pub fn names(&self) -> BTreeSet<&str> {
        let specs = self.adapters.iter().flat_map(Opened::specs);
        specs.map(|spec| spec.name.as_str()).collect()
    }

    /// Refuses changes of tensors that the model does not have.
    ///
    /// # Errors
    /// [`AdapterError::NoTarget`].
    pub fn check<'a>(&self, tensors: impl Iterator<Item = &'a str>) -> Result<(), AdapterError> {
        let there: BTreeSet<&str> = tensors.collect();
        for adapter in &self.adapters {
            let mut names = adapter.specs().map(|spec| spec.name.as_str());
            if let Some(name) = names.find(|name| !there.contains(name)) {
                return Err(AdapterError::NoTarget {
                    path: adapter.path.clone(),
                    name: name.to_owned(),
                });
            }
        }
        Ok(())
    }

    /// A warning where the changed embeddings are the output projection too.
    pub fn warning<'a>(&self, mut tensors: impl Iterator<Item = &'a str>) -> Option<String> {
        let has_output = tensors.any(|name| name == Slot::Output.name());
        let changes = self.names().contains(Slot::TokenEmbd.name());
        (changes && self.projects && !has_output).then(|| {
            "the output projection of this model is its table of embeddings: the adapter, made for the latter, changes both"
                .to_owned()
        })
    }

    /// The changes of a tensor, read into memory.
    ///
    /// # Errors
    /// Those of reading and decoding; [`AdapterError::Values`] and [`AdapterError::NotFinite`].
    pub fn changes_of(&self, name: &str) -> Result<Vec<Change>, ConvertError> {
        let changes = self.adapters.iter().map(|adapter| adapter.change(name));
        changes.filter_map(Result::transpose).collect()
    }
}

fn folder(path: &Path, hparams: &Hyperparameters) -> Result<Weights, ConvertError> {
    let config = AdapterConfig::read(path)?;
    if !config.invocation_tokens.is_empty() {
        let path = path.to_owned();
        return Err(AdapterError::Activated { path }.into());
    }
    Ok(Weights::Folder(PeftAdapter::open(path, &config, hparams)?))
}

fn file(path: &Path, hparams: &Hyperparameters) -> Result<Weights, ConvertError> {
    let file = Model::open(path)?;
    if file.kind() != Kind::Adapter {
        return Err(ConvertError::Lora(AdapterError::NoAdapter {
            path: path.to_owned(),
            found: file.kind().description(),
        }));
    }
    let tensors = file.tensors().iter();
    let tensors = tensors.map(|tensor| (tensor.name.as_str(), tensor.dims.as_slice()));
    let checked = check_adapter(hparams, file.metadata(), tensors);
    let description = checked.map_err(|error| ConvertError::from(error).of(path))?;
    if !description.invocation_tokens.is_empty() {
        let path = path.to_owned();
        return Err(AdapterError::Activated { path }.into());
    }
    Ok(Weights::File(file, description.pairs))
}

impl Opened {
    fn specs(&self) -> Box<dyn Iterator<Item = &TensorSpec> + '_> {
        match &self.weights {
            Weights::Folder(folder) => Box::new(folder.pairs.iter().map(|pair| &pair.spec)),
            Weights::File(_, pairs) => Box::new(pairs.iter().map(|pair| &pair.spec)),
        }
    }

    fn change(&self, name: &str) -> Result<Option<Change>, ConvertError> {
        let (spec, rank, scale, a, b) = match &self.weights {
            Weights::Folder(folder) => {
                let Some(pair) = folder.pairs.iter().find(|pair| pair.spec.name == name) else {
                    return Ok(None);
                };
                let factors = folder.read(pair, 1.0)?;
                let scale = (pair.alpha / pair.rank as f64) as f32;
                (&pair.spec, pair.rank, scale, factors.a, factors.b)
            }
            Weights::File(file, pairs) => {
                let Some(pair) = pairs.iter().find(|pair| pair.spec.name == name) else {
                    return Ok(None);
                };
                let [a, b] = &pair.names;
                let (a, b) = (values(file, a)?, values(file, b)?);
                // An extent of tensors that were just decoded.
                (&pair.spec, pair.rank as usize, pair.scale, a, b)
            }
        };
        let dim = |axis: usize| spec.dims.get(axis).map_or(1, |&extent| extent as usize);
        let scale = scale * self.scale;
        let largest = |values: &[f32]| {
            let values = values.iter().map(|value| f64::from(value.abs()));
            values.fold(0.0, f64::max)
        };
        // No sum over the ranks can be larger.
        let bound = f64::from(scale).abs() * rank as f64 * largest(&a) * largest(&b);
        if !scale.is_finite() || bound > f64::from(f32::MAX) {
            return Err(ConvertError::Lora(AdapterError::NotFinite {
                path: self.path.clone(),
                name: name.to_owned(),
            }));
        }
        let (of_columns, of_rows) = match spec.slot.is_table() {
            true => (transposed(&b, rank), a),
            false => (a, b),
        };
        Ok(Some(Change {
            scale,
            rank,
            row_len: dim(0),
            rows_per_matrix: dim(1),
            of_columns,
            of_rows,
        }))
    }
}

/// A tensor of a file, decoded.
fn values(file: &Model, name: &str) -> Result<Vec<f32>, ConvertError> {
    let Some(view) = file.tensor(name) else {
        return Ok(Vec::new());
    };
    // The file was checked to hold so many elements, and the pair's shapes to be those of the model.
    let mut values = vec![0.0; view.info.n_elements() as usize];
    decode_row(view.info.ty, view.data, &mut values).map_err(|error| in_kernel(name, error))?;
    finite(values, file.path(), name)
}
