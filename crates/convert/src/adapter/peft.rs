//! The weights of an adapter as PEFT saves them, matched with the base model's tensor table.

use super::AdapterError;
use super::config::AdapterConfig;
use crate::ConvertError;
use crate::plan::{check_dtype, text_name};
use crate::safetensors_file::{Entry, read_header};
use crate::source::{LocalFile, Source};
use crate::stream::{HalvesToPairs, decode, transposed};
use gristmill_model::{Hyperparameters, RowTransform, SpecSource, TensorSpec, tensor_specs};
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
    /// Its rank; of experts the highest.
    pub rank: usize,
    /// Scale times rank.
    pub alpha: f64,
    /// What is in the file: one change, or those of some experts.
    parts: Vec<Part>,
}

/// The change of a matrix, or of one expert's.
struct Part {
    expert: usize,
    rank: usize,
    /// Scale times rank.
    alpha: f64,
    a: Entry,
    b: Entry,
}

impl Part {
    /// Scale times the rank of the whole.
    fn alpha_at(&self, rank: usize) -> f64 {
        match self.rank == rank {
            true => self.alpha,
            false => self.alpha * rank as f64 / self.rank as f64,
        }
    }

    /// What brings its scale to that of the whole.
    fn factor_in(&self, pair: &Pair) -> f32 {
        let alpha = self.alpha_at(pair.rank);
        match alpha == pair.alpha {
            true => 1.0,
            false => (alpha / pair.alpha) as f32,
        }
    }
}

impl Pair {
    /// The element type of its first matrix.
    pub fn dtype(&self) -> Dtype {
        // No pair is without a part.
        self.parts.first().map_or(Dtype::F32, |part| part.a.dtype)
    }

    /// Shapes of its two matrices in GGUF, contiguous extent first.
    pub fn dims(&self) -> [Vec<u64>; 2] {
        let rank = self.rank as u64;
        let [n_in, n_out] = [0, 1].map(|axis| self.spec.dims.get(axis).copied().unwrap_or(1));
        let (a, b) = match self.spec.slot.is_table() {
            true => ([rank, n_out], [rank, n_in]),
            false => ([n_in, rank], [rank, n_out]),
        };
        let experts = self.spec.dims.get(2..).unwrap_or_default();
        [a, b].map(|dims| [&dims, experts].concat())
    }

    /// Rank and alpha of all parts: the highest rank, with the first one's scale.
    fn take_highest_rank(&mut self) {
        let ranks = self.parts.iter().map(|part| part.rank);
        self.rank = ranks.max().unwrap_or(self.rank);
        let first = self.parts.first();
        self.alpha = first.map_or(self.alpha, |part| part.alpha_at(self.rank));
    }

    fn n_matrices(&self) -> usize {
        self.spec
            .dims
            .get(2)
            .map_or(1, |&n_experts| n_experts as usize)
    }
}

/// The two matrices of a pair as GGUF has them, rows one after the other.
pub(crate) struct Factors {
    /// `[n_in, rank]`, contiguous extent first; for tables `[rank, n_rows]`. Of experts as many matrices.
    pub a: Vec<f32>,
    /// `[rank, n_out]`, of experts as many
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
    /// `Io`; [`AdapterError::Values`].
    pub fn read(&self, pair: &Pair, factor: f32) -> Result<Factors, ConvertError> {
        let lengths = pair.dims().map(|dims| (dims[0] * dims[1]) as usize);
        let mut whole = Factors {
            a: Vec::new(),
            b: Vec::new(),
        };
        for (number, expert) in (1..).zip(0..pair.n_matrices()) {
            if let Some(part) = pair.parts.iter().find(|part| part.expert == expert) {
                let one = self.read_part(pair, part, factor)?;
                whole.a.extend(one.a);
                whole.b.extend(one.b);
            }
            // An expert without a change has one of zeros.
            let [a_len, b_len] = lengths;
            whole.a.resize(number * a_len, 0.0);
            whole.b.resize(number * b_len, 0.0);
        }
        Ok(whole)
    }

    fn read_part(&self, pair: &Pair, part: &Part, factor: f32) -> Result<Factors, ConvertError> {
        let mut a = self.values(&part.a)?;
        let mut b = self.values(&part.b)?;
        let n_rows = pair.spec.dims[1] as usize;
        if pair.spec.slot.is_table() {
            let n_rows_there = a.len() / part.rank;
            a = transposed(&a, n_rows_there);
            a.truncate(n_rows * part.rank);
        } else {
            b.truncate(n_rows * part.rank);
            if let RowTransform::HalvesToPairs { n_heads } = pair.spec.transform {
                b = paired(&b, part.rank, n_heads);
            }
        }
        let factor = factor * part.factor_in(pair);
        if factor != 1.0 {
            b.iter_mut().for_each(|value| *value *= factor);
            b = finite(b, self.path(), &part.b.name)?;
        }
        if part.rank < pair.rank {
            // Only experts, no tables, have ranks that differ. What `a` lacks are rows at its end.
            let wider = b.chunks_exact(part.rank).flat_map(|row| {
                let zeros = std::iter::repeat_n(0.0, pair.rank - part.rank);
                row.iter().copied().chain(zeros)
            });
            b = wider.collect();
        }
        Ok(Factors { a, b })
    }

    fn values(&self, entry: &Entry) -> Result<Vec<f32>, ConvertError> {
        // The header was checked to describe no more bytes than the file has.
        let mut raw = vec![0; entry.bytes as usize];
        self.source.read_at(entry.offset, &mut raw)?;
        let mut values = vec![0.0; raw.len() * 8 / entry.dtype.bitsize()];
        decode(entry.dtype, &raw, &mut values);
        finite(values, self.path(), &entry.name)
    }
}

/// The values of a matrix, if all are numbers.
pub(super) fn finite(values: Vec<f32>, path: &Path, name: &str) -> Result<Vec<f32>, ConvertError> {
    match values.iter().all(|value| value.is_finite()) {
        true => Ok(values),
        false => Err(ConvertError::Lora(AdapterError::Values {
            path: path.to_owned(),
            name: name.to_owned(),
        })),
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
        let specs = tensor_specs(self.hparams);
        let mut targets = targets(&specs);
        let mut full = Vec::new();
        let mut modules: Vec<(String, Option<Entry>, Option<Entry>)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for entry in entries {
            let Some((module, half)) = half(&entry.name) else {
                match is_copy(&entry, &specs, &targets) {
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
        let mut of_specs = HashMap::new();
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
            let target = targets.remove(&name).ok_or_else(|| self.foreign(&a))?;
            let spec = &specs[target.spec];
            let part = self.part(spec, target.expert, module, a, b)?;
            let known = of_specs.get(&target.spec).copied();
            match known.and_then(|index: usize| adapter.pairs.get_mut(index)) {
                Some(pair) => pair.parts.push(part),
                None => {
                    of_specs.insert(target.spec, adapter.pairs.len());
                    adapter.pairs.push(Pair {
                        spec: spec.clone(),
                        rank: part.rank,
                        alpha: part.alpha,
                        parts: vec![part],
                    });
                }
            }
        }
        adapter.pairs.iter_mut().for_each(Pair::take_highest_rank);
        match adapter.pairs.is_empty() {
            true => Err(ConvertError::Lora(AdapterError::Empty {
                path: self.path.to_owned(),
            })),
            false => Ok(()),
        }
    }

    /// Checks the shapes of a pair, contiguous dimension last: `[rank, n_in]` and `[n_out, rank]`.
    fn part(
        &self,
        spec: &TensorSpec,
        expert: usize,
        module: &str,
        a: Entry,
        b: Entry,
    ) -> Result<Part, ConvertError> {
        for entry in [&a, &b] {
            check_dtype(entry).map_err(|error| error.of(self.path))?;
        }
        let is_lookup = spec.slot.is_table();
        let (n_in, n_out) = match (&*spec.dims, is_lookup) {
            (&[n_in, n_out, ..], false) => (n_in, n_out),
            (&[n_embd, n_rows], true) => (n_rows, n_embd),
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
        Ok(Part {
            expert,
            alpha: self.config.alpha_of(module, rank),
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

    fn foreign(&self, a: &Entry) -> AdapterError {
        AdapterError::Foreign {
            path: self.path.to_owned(),
            name: a.name.clone(),
            architecture: self.hparams.architecture.name,
        }
    }
}

/// What a pair changes.
struct Target {
    /// Index of the tensor's spec.
    spec: usize,
    /// Which of its matrices.
    expert: usize,
}

/// The tensors of the checkpoint that pairs can be for, by name.
fn targets(specs: &[TensorSpec]) -> HashMap<String, Target> {
    let mut targets = HashMap::new();
    for (index, spec) in specs.iter().enumerate() {
        let names = match &spec.source {
            SpecSource::Checkpoint(name) => std::slice::from_ref(name),
            SpecSource::Experts(names) => &names.apart,
            SpecSource::Computed(_) => &[],
        };
        for (expert, name) in names.iter().enumerate() {
            let target = Target {
                spec: index,
                expert,
            };
            targets.insert(name.clone(), target);
        }
    }
    targets
}

/// A module's name without what PEFT puts around the model.
fn plain(module: &str) -> &str {
    module.strip_prefix("base_model.model.").unwrap_or(module)
}

/// Whether a tensor is the base's own, saved beside the pair that changes it, with the base's number of rows.
fn is_copy(entry: &Entry, specs: &[TensorSpec], targets: &HashMap<String, Target>) -> bool {
    let name = plain(&entry.name).replace(".base_layer.weight", ".weight");
    let target = targets.get(&name).filter(|_| name != plain(&entry.name));
    let matrix = target.and_then(|target| specs.get(target.spec)?.dims.get(..2));
    let shape = matrix.map(|dims| dims.iter().rev().copied().collect());
    shape.is_some_and(|shape: Vec<u64>| shape == entry.shape)
}
