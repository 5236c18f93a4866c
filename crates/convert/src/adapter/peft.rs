//! The weights of an adapter as PEFT saves them, matched with the base model's tensor table.

use super::AdapterError;
use super::config::AdapterConfig;
use crate::ConvertError;
use crate::plan::{check_dtype, text_name};
use crate::safetensors_file::{Entry, read_header};
use crate::source::{LocalFile, Source};
use crate::stream::{HalvesToPairs, decode, transposed};
use gristmill_model::{Hyperparameters, RowTransform, Slot, SpecSource, TensorSpec, tensor_specs};
use safetensors::Dtype;
use std::collections::HashMap;
use std::path::Path;

/// An adapter's folder, checked as far as it can be without reading weights.
pub(crate) struct PeftAdapter {
    source: LocalFile,
    /// In the order of the file.
    pub pairs: Vec<Pair>,
    /// Names of what the text model has no use for: parts of others, and copies of the base's own weights.
    pub left_out: Vec<String>,
    /// The element type of 16 bits that a matrix of it has, if one has.
    pub half: Option<Dtype>,
}

/// A low-rank change of one tensor.
pub(crate) struct Pair {
    /// The tensor of the base.
    pub spec: TensorSpec,
    /// Its rank.
    pub rank: usize,
    /// Scale times rank.
    pub alpha: f64,
    a: Entry,
    b: Entry,
}

impl Pair {
    /// The element type of its first matrix.
    pub fn dtype(&self) -> Dtype {
        self.a.dtype
    }
}

/// The two matrices of a pair as GGUF has them, rows one after the other.
pub(crate) struct Factors {
    /// `[n_in, rank]`, contiguous extent first; for embeddings `[rank, n_vocab]`.
    pub a: Vec<f32>,
    /// `[rank, n_out]`
    pub b: Vec<f32>,
}

impl PeftAdapter {
    /// Opens the weights of a folder and matches them with a base model.
    ///
    /// # Errors
    /// A file that is missing or damaged, and whatever does not fit: see [`AdapterError`].
    pub fn open(
        folder: &Path,
        config: &AdapterConfig,
        hparams: &Hyperparameters,
    ) -> Result<Self, ConvertError> {
        let path = folder.join("adapter_model.safetensors");
        if !path.is_file() {
            return Err(ConvertError::Lora(AdapterError::NoWeights {
                path: folder.to_owned(),
                pickled: folder.join("adapter_model.bin").is_file(),
            }));
        }
        let source = LocalFile::open(&path)?;
        let mut adapter = Self {
            pairs: Vec::new(),
            left_out: Vec::new(),
            half: None,
            source,
        };
        let entries = read_header(&adapter.source)?;
        let matching = Matching {
            path: &path,
            hparams,
            config,
        };
        adapter.half = entries
            .iter()
            .map(|entry| entry.dtype)
            .find(|dtype| matches!(dtype, Dtype::BF16 | Dtype::F16));
        matching.fill(&mut adapter, entries)?;
        Ok(adapter)
    }

    /// The file of weights.
    pub fn path(&self) -> &Path {
        self.source.path()
    }

    /// Reads a pair. `factor` multiplies its second matrix.
    ///
    /// # Errors
    /// `Io`.
    pub fn read(&self, pair: &Pair, factor: f32) -> Result<Factors, ConvertError> {
        let mut a = self.values(&pair.a)?;
        let mut b = self.values(&pair.b)?;
        if pair.spec.slot == Slot::TokenEmbd {
            let n_rows = a.len() / pair.rank;
            a = transposed(&a, n_rows);
            a.truncate(pair.spec.dims[1] as usize * pair.rank);
        } else {
            b.truncate(pair.spec.dims[1] as usize * pair.rank);
            if let RowTransform::HalvesToPairs { n_heads } = pair.spec.transform {
                b = paired(&b, pair.rank, n_heads);
            }
        }
        if factor != 1.0 {
            b.iter_mut().for_each(|value| *value *= factor);
        }
        Ok(Factors { a, b })
    }

    fn values(&self, entry: &Entry) -> Result<Vec<f32>, ConvertError> {
        // The header was checked to describe no more bytes than the file has.
        let mut raw = vec![0; entry.bytes as usize];
        self.source.read_at(entry.offset, &mut raw)?;
        let mut values = vec![0.0; raw.len() * 8 / entry.dtype.bitsize()];
        decode(entry.dtype, &raw, &mut values);
        Ok(values)
    }
}

/// Rows in the order that the base's matrix has them in.
fn paired(values: &[f32], row_len: usize, n_heads: usize) -> Vec<f32> {
    let n_rows = values.len() / row_len;
    let order = HalvesToPairs {
        group_rows: n_rows / n_heads,
    };
    let row = |row: usize| &values[order.source_row(row) * row_len..][..row_len];
    (0..n_rows).flat_map(row).copied().collect()
}

/// A half of a pair by its name.
enum Half {
    A,
    B,
}

/// The module that a tensor belongs to and which half of a pair it is; `None` for what is no half.
fn half(name: &str) -> Option<(&str, Half)> {
    let endings = [
        (".lora_A.weight", Half::A),
        (".lora_B.weight", Half::B),
        (".lora_embedding_A", Half::A),
        (".lora_embedding_B", Half::B),
    ];
    let mut found = endings
        .into_iter()
        .filter_map(|(ending, half)| Some((name.strip_suffix(ending)?, half)));
    found.next()
}

struct Matching<'a> {
    path: &'a Path,
    hparams: &'a Hyperparameters,
    config: &'a AdapterConfig,
}

impl Matching<'_> {
    fn fill(&self, adapter: &mut PeftAdapter, entries: Vec<Entry>) -> Result<(), ConvertError> {
        let mut specs: HashMap<String, TensorSpec> = tensor_specs(self.hparams)
            .into_iter()
            .filter_map(|spec| match &spec.source {
                SpecSource::Checkpoint(name) => Some((name.clone(), spec)),
                SpecSource::Experts(_) | SpecSource::Computed(_) => None,
            })
            .collect();
        let mut full = Vec::new();
        let mut modules: Vec<(String, Option<Entry>, Option<Entry>)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for entry in entries {
            let Some((module, half)) = half(&entry.name) else {
                match is_copy(&entry, &specs) {
                    true => adapter.left_out.push(entry.name),
                    false => full.push(entry.name),
                }
                continue;
            };
            let index = *places.entry(module.to_owned()).or_insert_with(|| {
                modules.push((module.to_owned(), None, None));
                modules.len() - 1
            });
            let (_, a, b) = &mut modules[index];
            match half {
                Half::A => *a = Some(entry),
                Half::B => *b = Some(entry),
            }
        }
        if !full.is_empty() {
            let path = self.path.to_owned();
            return Err(AdapterError::FullWeights { path, names: full }.into());
        }
        for (module, a, b) in modules {
            let (a, b) = match (a, b) {
                (Some(a), Some(b)) => (a, b),
                (a, b) => return Err(self.unpaired(a.or(b)).into()),
            };
            let module = plain(&module);
            let weight = format!("{module}.weight");
            let Some(name) = text_name(&weight, self.hparams.architecture.text_part.as_ref())
            else {
                adapter.left_out.extend([a.name, b.name]);
                continue;
            };
            let spec = specs.remove(&name).ok_or_else(|| self.unknown(&name, &a))?;
            adapter.pairs.push(self.pair(spec, module, a, b)?);
        }
        match adapter.pairs.is_empty() {
            true => Err(ConvertError::Lora(AdapterError::Empty {
                path: self.path.to_owned(),
            })),
            false => Ok(()),
        }
    }

    /// Checks the shapes of a pair, contiguous dimension last: `[rank, n_in]` and `[n_out, rank]`.
    fn pair(
        &self,
        spec: TensorSpec,
        module: &str,
        a: Entry,
        b: Entry,
    ) -> Result<Pair, ConvertError> {
        for entry in [&a, &b] {
            check_dtype(entry).map_err(|error| error.of(self.path))?;
        }
        let is_lookup = spec.slot == Slot::TokenEmbd;
        let (n_in, n_out) = match (&*spec.dims, is_lookup) {
            (&[n_in, n_out], false) => (n_in, n_out),
            (&[n_embd, n_vocab], true) => (n_vocab, n_embd),
            _ => return Err(self.foreign(&a).into()),
        };
        if a.name.ends_with(".lora_embedding_A") != is_lookup {
            return Err(self.foreign(&a).into());
        }
        let rank = a.shape.first().copied().unwrap_or(0).max(1);
        // Rows that conversion drops from the base are dropped here too.
        let drops = spec.transform == RowTransform::FirstRows;
        let (drops_a, drops_b) = (drops && is_lookup, drops && !is_lookup);
        let fits = |found: u64, expected: u64, drops: bool| {
            found == expected || (drops && found > expected)
        };
        let a_fits = matches!(*a.shape, [r, n] if r == rank && fits(n, n_in, drops_a));
        let b_fits = matches!(*b.shape, [n, r] if r == rank && fits(n, n_out, drops_b));
        for (entry, fits, expected) in [(&a, a_fits, [rank, n_in]), (&b, b_fits, [n_out, rank])] {
            if !fits {
                return Err(ConvertError::Lora(AdapterError::Shape {
                    path: self.path.to_owned(),
                    name: entry.name.clone(),
                    expected: expected.to_vec(),
                    found: entry.shape.clone(),
                }));
            }
        }
        // An extent of a tensor in the file.
        let rank = rank as usize;
        Ok(Pair {
            alpha: self.config.alpha_of(module, rank),
            spec,
            rank,
            a,
            b,
        })
    }

    fn unpaired(&self, entry: Option<Entry>) -> AdapterError {
        AdapterError::Unpaired {
            path: self.path.to_owned(),
            name: entry.map(|entry| entry.name).unwrap_or_default(),
        }
    }

    /// The error for a pair that changes none of the tensors that take one: those of experts do not.
    fn unknown(&self, name: &str, a: &Entry) -> AdapterError {
        let is_of_expert = |spec: TensorSpec| match spec.source {
            SpecSource::Experts(names) => names.apart.iter().any(|known| known == name),
            SpecSource::Checkpoint(_) | SpecSource::Computed(_) => false,
        };
        match tensor_specs(self.hparams).into_iter().any(is_of_expert) {
            true => AdapterError::Expert {
                path: self.path.to_owned(),
                name: a.name.clone(),
            },
            false => self.foreign(a),
        }
    }

    fn foreign(&self, a: &Entry) -> AdapterError {
        AdapterError::Foreign {
            path: self.path.to_owned(),
            name: a.name.clone(),
            architecture: self.hparams.architecture.name,
        }
    }
}

/// A module's name without what PEFT puts around the model.
fn plain(module: &str) -> &str {
    module.strip_prefix("base_model.model.").unwrap_or(module)
}

/// Whether a tensor is the base's own, saved beside the pair that changes it, with the base's number of rows.
fn is_copy(entry: &Entry, specs: &HashMap<String, TensorSpec>) -> bool {
    let name = plain(&entry.name).replace(".base_layer.weight", ".weight");
    let spec = specs.get(&name).filter(|_| name != plain(&entry.name));
    let shape = spec.map(|spec| spec.dims.iter().rev().copied().collect());
    shape.is_some_and(|shape: Vec<u64>| shape == entry.shape)
}
