//! How much each column of a tensor matters.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use gristmill_gguf::{Imatrix, Text, Value};
use gristmill_quant::TensorType;

use super::pruning::Pruning;
use crate::error::{ConvertError, Result};
use crate::recipe::{Plan, SourceTensor, TensorKind};

/// What the largest weight of a matrix may be: beyond, the products of the searches for scales leave the range of f32, and
/// what they find loses more than without weights. Mean squares of activations are far inside.
const WEIGHTS: std::ops::RangeInclusive<f32> = 1e-17..=1e15;

/// Bytes that the reference keeps of a name of a file or text in the metadata.
const NAME_BYTES: usize = 127;

/// An importance matrix and the file it comes from: weights for the columns of tensors.
#[derive(Clone, Debug)]
pub struct Importance {
    path: PathBuf,
    /// What was read: the shards of a set, or the file alone.
    files: Vec<PathBuf>,
    imatrix: Imatrix,
    /// Entries that were chosen, for the metadata.
    n_entries: usize,
    /// What is to be said of the filter.
    filter_warnings: Vec<String>,
}

/// Which entries of an importance matrix are used, by parts of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ImportanceFilter {
    /// All.
    #[default]
    All,
    /// Those that have one of the parts in their name.
    Including(Vec<String>),
    /// Those that have none of them.
    Excluding(Vec<String>),
}

impl ImportanceFilter {
    fn takes(&self, name: &str) -> bool {
        let any = |parts: &[String]| parts.iter().any(|part| name.contains(part.as_str()));
        match self {
            ImportanceFilter::All => true,
            ImportanceFilter::Including(parts) => any(parts),
            ImportanceFilter::Excluding(parts) => !any(parts),
        }
    }

    /// A line for each part that no entry has in its name.
    fn without_effect(&self, imatrix: &Imatrix) -> Vec<String> {
        let (flag, parts) = match self {
            ImportanceFilter::All => return Vec::new(),
            ImportanceFilter::Including(parts) => ("--include-weights", parts),
            ImportanceFilter::Excluding(parts) => ("--exclude-weights", parts),
        };
        let is_found = |part: &&String| imatrix.iter().any(|(name, _)| name.contains(&***part));
        let unused = parts.iter().filter(|part| !is_found(part));
        unused
            .map(|part| {
                format!("`{flag} {part}` found no entry of the importance matrix: it has no effect")
            })
            .collect()
    }
}

impl Importance {
    /// Reads a file of either form; any shard of a set opens all of it.
    ///
    /// # Errors
    /// Those of [`Imatrix::open`]; [`ConvertError::ImportanceEmpty`] where the filter leaves nothing.
    pub fn open(path: &Path, filter: &ImportanceFilter) -> Result<Self> {
        let (mut imatrix, files) = Imatrix::open_files(path)?;
        let filter_warnings = filter.without_effect(&imatrix);
        imatrix.retain(|name| filter.takes(name));
        if imatrix.is_empty() {
            return Err(ConvertError::ImportanceEmpty {
                path: path.to_owned(),
            });
        }
        Ok(Importance {
            files,
            filter_warnings,
            ..Self::new(path, imatrix)
        })
    }

    /// Takes what was read; `path` is for messages and the metadata.
    pub fn new(path: impl Into<PathBuf>, imatrix: Imatrix) -> Self {
        let path = path.into();
        Importance {
            files: vec![path.clone()],
            path,
            n_entries: imatrix.len(),
            imatrix,
            filter_warnings: Vec::new(),
        }
    }

    /// Number of tensors with weights.
    pub fn len(&self) -> usize {
        self.imatrix.len()
    }

    /// Whether no tensor has weights.
    pub fn is_empty(&self) -> bool {
        self.imatrix.is_empty()
    }

    /// The tensors with weights, by name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.imatrix.iter().map(|(name, _)| name)
    }

    /// A hash of everything that the bytes of an output depend on.
    pub(super) fn fingerprint(&self) -> String {
        self.imatrix.fingerprint()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All files that were read: more than one for a set of shards.
    pub(super) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The same with other names for tensors; those without one are left out.
    pub(super) fn renamed(&self, rename: impl Fn(&str) -> Option<String>) -> Importance {
        let mut imatrix = Imatrix::default();
        imatrix.datasets.clone_from(&self.imatrix.datasets);
        imatrix.n_chunks = self.imatrix.n_chunks;
        imatrix.chunk_size = self.imatrix.chunk_size;
        for (name, entry) in self.imatrix.iter() {
            if let Some(name) = rename(name) {
                imatrix.insert(name, entry.clone());
            }
        }
        Importance {
            imatrix,
            ..self.clone()
        }
    }

    /// Whether a tensor has weights.
    ///
    /// # Errors
    /// [`ConvertError::ImportanceLength`], except for a token embedding, which old files hold in another form.
    pub(super) fn covers(&self, tensor: &SourceTensor) -> Result<bool> {
        let Some(entry) = self.imatrix.get(&tensor.name) else {
            return Ok(false);
        };
        let row_len = tensor.dims.first().copied().unwrap_or(0);
        let stacked = tensor.dims.iter().skip(2);
        let expected = stacked.fold(row_len, |n, &dim| n.saturating_mul(dim));
        let found = entry.sums().len();
        if found as u64 == expected {
            return Ok(true);
        }
        match TensorKind::of(&tensor.name) {
            TensorKind::TokenEmbedding => Ok(false),
            _ => Err(ConvertError::ImportanceLength {
                path: self.path.clone(),
                tensor: tensor.name.clone(),
                expected,
                found,
            }),
        }
    }

    /// The weights of a tensor that is to get a type, `row_len` for each stacked matrix; `None` where there are none.
    ///
    /// Columns that no text ever used would weigh nothing. Where that holds for all columns of a block, its search for
    /// a scale would divide by nothing, so such a block counts all its columns alike; see [`is_unused`].
    pub(super) fn weights(
        &self,
        tensor: &SourceTensor,
        ty: TensorType,
    ) -> Result<Option<Vec<f32>>> {
        if !self.covers(tensor)? {
            return Ok(None);
        }
        let row_len = tensor.dims.first().copied().unwrap_or(0);
        let Some(mut weights) = self.imatrix.get(&tensor.name).map(|entry| entry.weights()) else {
            return Ok(None);
        };
        // The length was compared with it, so it fits.
        for row in weights.chunks_mut((row_len as usize).max(1)) {
            for block in row.chunks_mut(ty.block_len()) {
                if is_unused(block) {
                    block.fill(1.0);
                }
            }
        }
        Ok(Some(weights))
    }

    /// Columns of a tensor that lie in blocks which no text used, and all its columns.
    fn unused_columns(&self, tensor: &SourceTensor, ty: TensorType) -> (usize, usize) {
        let entry = self.imatrix.get(&tensor.name);
        let Some(entry) = entry.filter(|_| self.covers(tensor).is_ok_and(|covers| covers)) else {
            return (0, 0);
        };
        // Those of a matrix that saw no text at all are 1, and it is told of by itself.
        let weights = entry.weights();
        let rows = weights.chunks((weights.len() / entry.counts().len()).max(1));
        let blocks = rows.flat_map(|row| row.chunks(ty.block_len().max(1)));
        let unused = blocks.filter(|block| is_unused(block));
        (unused.map(<[f32]>::len).sum(), weights.len())
    }

    /// Refuses weights that no search can compute with.
    fn check_range(&self, tensor: &SourceTensor) -> Result<()> {
        let entry = self.imatrix.get(&tensor.name);
        let Some(entry) = entry.filter(|_| self.covers(tensor).is_ok_and(|covers| covers)) else {
            return Ok(());
        };
        let weights = entry.weights();
        let n_columns = weights.len() / entry.counts().len();
        for matrix in weights.chunks(n_columns.max(1)) {
            let largest = matrix.iter().copied().fold(0.0, f32::max);
            if largest > 0.0 && !WEIGHTS.contains(&largest) {
                return Err(ConvertError::ImportanceRange {
                    path: self.path.clone(),
                    tensor: tensor.name.clone(),
                    largest,
                });
            }
        }
        Ok(())
    }

    /// The entries that the result tells of the matrix, as the reference writes them.
    pub(super) fn metadata(&self) -> Vec<(String, Value)> {
        let cut = |bytes: &[u8]| {
            Value::String(Text::from_bytes(
                bytes[..bytes.len().min(NAME_BYTES)].to_vec(),
            ))
        };
        let number = |n: usize| Value::U32(u32::try_from(n).unwrap_or(u32::MAX));
        let mut entries = vec![(
            "quantize.imatrix.file".to_owned(),
            cut(self.path.as_os_str().as_encoded_bytes()),
        )];
        if let Some(dataset) = self.imatrix.datasets.first() {
            let key = "quantize.imatrix.dataset".to_owned();
            entries.push((key, cut(dataset.as_bytes())));
        }
        let key = "quantize.imatrix.entries_count".to_owned();
        entries.push((key, number(self.n_entries)));
        if self.imatrix.n_chunks > 0 {
            let key = "quantize.imatrix.chunks_count".to_owned();
            entries.push((key, Value::U32(self.imatrix.n_chunks)));
        }
        entries
    }

    /// Refuses a matrix of another model; a warning where only some entries are foreign.
    fn check_foreign(&self, sources: &[SourceTensor]) -> Result<Option<String>> {
        let names: HashSet<&str> = sources.iter().map(|tensor| &*tensor.name).collect();
        let foreign: Vec<&str> = self
            .imatrix
            .iter()
            .map(|(name, _)| name)
            .filter(|name| !names.contains(name))
            .collect();
        if foreign.len() == self.imatrix.len() {
            return Err(ConvertError::ImportanceForeign {
                path: self.path.clone(),
                name: foreign.first().copied().unwrap_or_default().to_owned(),
            });
        }
        Ok(foreign.first().map(|first| {
            format!(
                "{} of {} entries of the importance matrix belong to no tensor of the model (the first is {first:?})",
                foreign.len(),
                self.imatrix.len()
            )
        }))
    }

    /// What does not fit between matrix and model without being wrong.
    ///
    /// # Errors
    /// [`ConvertError::ImportanceForeign`] where no entry belongs to the model, [`ConvertError::ImportanceRange`].
    pub(super) fn check_names(&self, sources: &[SourceTensor], plan: &Plan) -> Result<Vec<String>> {
        let mut warnings = self.filter_warnings.clone();
        warnings.extend(self.check_foreign(sources)?);
        let quantized = sources
            .iter()
            .zip(&plan.tensors)
            .filter(|(tensor, planned)| tensor.ty != planned.ty && planned.ty.is_quantized());
        let mut uncovered = Vec::new();
        let (mut n_unseen, mut first_unseen) = (0, None);
        let (mut n_unused, mut first_unused) = (0, None);
        for (tensor, planned) in quantized {
            self.check_range(tensor)?;
            if !planned.ty.takes_importance() {
                continue;
            }
            if let (unused @ 1.., all) = self.unused_columns(tensor, planned.ty) {
                n_unused += 1;
                first_unused.get_or_insert((&*tensor.name, unused, all));
            }
            match self.imatrix.get(&tensor.name) {
                None if is_rarely_collected(TensorKind::of(&tensor.name)) => {}
                None => uncovered.push(&*tensor.name),
                Some(entry) if entry.n_unseen() > 0 => {
                    n_unseen += entry.n_unseen();
                    first_unseen.get_or_insert((
                        &*tensor.name,
                        entry.n_unseen(),
                        entry.counts().len(),
                    ));
                }
                Some(_) => {}
            }
        }
        if let Some(first) = uncovered.first() {
            let (n, have) = (
                uncovered.len(),
                if uncovered.len() == 1 {
                    " has"
                } else {
                    "s have"
                },
            );
            warnings.push(format!(
                "{n} tensor{have} no importance data (the first is {first:?}): quantized without"
            ));
        }
        if let Some((name, n, of)) = first_unseen {
            let matrices = if n_unseen == 1 { "matrix" } else { "matrices" };
            warnings.push(format!(
                "{n_unseen} {matrices} saw no text (the first: {n} of {of} of {name:?}): quantized with equal weights"
            ));
        }
        warnings.extend(first_unused.map(|first| unused_columns_warning(n_unused, first)));
        Ok(warnings)
    }
}

/// Of how many tensors some blocks of columns were never used, and the first: its name, these columns, all columns.
fn unused_columns_warning(n: usize, (name, unused, all): (&str, usize, usize)) -> String {
    let (tensors, which) = match n {
        1 => ("1 tensor has".to_owned(), ""),
        n => (format!("{n} tensors have"), "the first: "),
    };
    let share = unused as f64 * 100.0 / all.max(1) as f64;
    format!(
        "{tensors} whole blocks of columns that no text used ({which}{unused} of {all} columns, {share:.1} %, of {name:?}): quantized there with equal weights"
    )
}

/// Whether no column of a block was used, as far as a search could tell: all weights are below what it can compute with.
fn is_unused(block: &[f32]) -> bool {
    block.iter().all(|weight| weight < WEIGHTS.start())
}

/// Collectors leave these two out unless they are asked for them.
fn is_rarely_collected(kind: TensorKind) -> bool {
    matches!(kind, TensorKind::TokenEmbedding | TensorKind::Output)
}

/// The importance matrix under the names that tensors have in the result.
pub(super) fn under_new_names<'a>(
    importance: Option<&'a Importance>,
    pruning: Option<&Pruning>,
) -> Option<Cow<'a, Importance>> {
    let importance = importance?;
    let renamed = match pruning {
        Some(pruning) => Cow::Owned(importance.renamed(|name| pruning.rename(name))),
        None => Cow::Borrowed(importance),
    };
    // Pruning may leave nothing.
    Some(renamed).filter(|importance| !importance.is_empty())
}
