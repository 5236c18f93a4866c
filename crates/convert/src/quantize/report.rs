//! What a quantization did, or would do.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gristmill_gguf::tensor_bytes;
use gristmill_quant::{QuantError, Readers, TensorType};

use super::{Quality, QuantizeOptions, Target};
use crate::error::{ConvertError, Result};
use crate::recipe::{Plan, SourceTensor, TensorOverride, Unused, UnusedOverride};

/// One tensor of the result.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantizedTensor {
    /// Its name.
    pub name: String,
    /// Dimensions, the row length first.
    pub dims: Vec<u64>,
    /// The type in the source.
    pub from: TensorType,
    /// The type in the result.
    pub to: TensorType,
    /// Bytes in the source.
    pub source_bytes: u64,
    /// Bytes in the result.
    pub bytes: u64,
    /// The type that the recipe wanted but the row length did not allow.
    pub fallback_from: Option<TensorType>,
    /// What it lost, where that was measured.
    pub quality: Option<Quality>,
}

/// Tensors that took another type for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallbacks<'a> {
    /// The type that the recipe wanted.
    pub wanted: TensorType,
    /// The type that they got.
    pub got: TensorType,
    /// Elements per row.
    pub row_len: u64,
    /// Their names.
    pub tensors: Vec<&'a str>,
    /// Their weights.
    pub n_elements: u64,
}

/// What a quantization did, or would do.
#[derive(Clone, Debug)]
pub struct QuantizeReport {
    /// The output; with shards kept, the beginning of their names.
    pub path: PathBuf,
    /// The files of the output, with tensors and bytes of each.
    pub files: Vec<(PathBuf, usize, u64)>,
    /// The recipe's name; `COPY` without one. Where types were chosen for a size, the one that the file is named after.
    pub recipe: &'static str,
    /// The size that types were chosen for.
    pub target: Option<Target>,
    /// Tensors that were found done from an earlier run.
    pub n_resumed: usize,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// In the order of the file.
    pub tensors: Vec<QuantizedTensor>,
    /// Weights of the model.
    pub n_elements: u64,
    /// Size of the output, in bytes.
    pub file_bytes: u64,
    /// What the user should look at.
    pub warnings: Vec<String>,
}

/// What is told of an override that decides nothing.
fn decides_nothing(unused: UnusedOverride, overrides: &[TensorOverride]) -> String {
    let entry = |index: usize| {
        let entry = &overrides[index];
        format!("`{}={}`", entry.pattern, entry.ty)
    };
    let reason = match unused.reason {
        Unused::NotFound => "found no tensor".to_owned(),
        Unused::Kept => "finds only tensors whose type never changes".to_owned(),
        Unused::Unquantized => {
            "decides nothing: overrides count only with a recipe that quantizes".to_owned()
        }
        Unused::Earlier(earlier) => format!(
            "decides nothing: an earlier one, as {}, comes first for each of its tensors",
            entry(earlier)
        ),
        Unused::Outranked => "decides nothing: another option decides for its tensors".to_owned(),
    };
    format!("the override {} {reason}", entry(unused.index))
}

impl QuantizeReport {
    pub(super) fn new(
        options: &QuantizeOptions,
        recipe: &'static str,
        sources: &[SourceTensor],
        plan: &Plan,
    ) -> Result<Self> {
        let tensors: Result<Vec<_>> = sources
            .iter()
            .zip(&plan.tensors)
            .map(|(tensor, planned)| {
                Ok(QuantizedTensor {
                    name: tensor.name.clone(),
                    dims: tensor.dims.clone(),
                    from: tensor.ty,
                    to: planned.ty,
                    source_bytes: size(tensor, tensor.ty)?,
                    bytes: size(tensor, planned.ty)?,
                    fallback_from: planned.fallback_from,
                    quality: None,
                })
            })
            .collect();
        let elements = |tensor: &SourceTensor| {
            tensor
                .dims
                .iter()
                .fold(1u64, |n, &dim| n.saturating_mul(dim))
        };
        let mut report = QuantizeReport {
            path: options.output.clone(),
            files: Vec::new(),
            recipe,
            target: options.target,
            n_resumed: 0,
            dry_run: options.dry_run,
            tensors: tensors?,
            n_elements: sources.iter().map(elements).fold(0, u64::saturating_add),
            file_bytes: 0,
            warnings: Vec::new(),
        };
        let overrides = &options.plan.tensor_types;
        let unused = plan.unused_overrides.iter();
        let unused = unused.map(|unused| decides_nothing(*unused, overrides));
        report.warnings.extend(unused);
        Ok(report)
    }

    /// Tensors that took another type because of their row length.
    pub fn fallbacks(&self) -> impl Iterator<Item = &QuantizedTensor> {
        self.tensors
            .iter()
            .filter(|tensor| tensor.fallback_from.is_some())
    }

    /// The same, together where the reason is the same, in the order of the first of each.
    pub fn fallback_kinds(&self) -> Vec<Fallbacks<'_>> {
        fallback_kinds(self.tensors.iter().filter_map(|tensor| {
            Some((
                &*tensor.name,
                &*tensor.dims,
                tensor.fallback_from?,
                tensor.to,
            ))
        }))
    }

    /// The types in the result that older programs do not read, with the names of the instruction sets that this program
    /// has a kernel of its own for (none: the plain one works everywhere, slowly).
    pub fn newest_formats(&self) -> Vec<(TensorType, Vec<&'static str>)> {
        let histogram = self.histogram();
        let newest = histogram
            .into_keys()
            .filter(|ty| ty.policy().readers != Readers::All);
        newest
            .map(|ty| (ty, gristmill_kernels::isas_with_product(ty)))
            .collect()
    }

    /// What all tensors lost together, where that was measured; tensors that were copied lost nothing.
    pub fn quality(&self) -> Option<Quality> {
        let mut measured = self.tensors.iter().filter_map(|tensor| tensor.quality);
        let mut sum = measured.next()?;
        measured.for_each(|quality| sum.add(&quality));
        Some(sum)
    }

    /// Bytes of tensor data in the source.
    pub fn source_bytes(&self) -> u64 {
        self.tensors
            .iter()
            .map(|tensor| tensor.source_bytes)
            .fold(0, u64::saturating_add)
    }

    /// Bytes of tensor data in the result.
    pub fn bytes(&self) -> u64 {
        self.tensors
            .iter()
            .map(|tensor| tensor.bytes)
            .fold(0, u64::saturating_add)
    }

    /// Bits per weight of the source.
    pub fn source_bits_per_weight(&self) -> f64 {
        self.source_bytes() as f64 * 8.0 / self.n_elements.max(1) as f64
    }

    /// Bits per weight of the result.
    pub fn bits_per_weight(&self) -> f64 {
        self.bytes() as f64 * 8.0 / self.n_elements.max(1) as f64
    }

    /// Types in the result, with number of tensors and bytes.
    pub fn histogram(&self) -> BTreeMap<TensorType, (usize, u64)> {
        let mut histogram = BTreeMap::new();
        for tensor in &self.tensors {
            let entry: &mut (usize, u64) = histogram.entry(tensor.to).or_default();
            *entry = (entry.0 + 1, entry.1.saturating_add(tensor.bytes));
        }
        histogram
    }
}

/// Groups tensors (name, dimensions, type wanted, type given) by what happened to them.
pub(super) fn fallback_kinds<'a>(
    tensors: impl Iterator<Item = (&'a str, &'a [u64], TensorType, TensorType)>,
) -> Vec<Fallbacks<'a>> {
    let mut kinds: Vec<Fallbacks<'a>> = Vec::new();
    for (name, dims, wanted, got) in tensors {
        let row_len = dims.first().copied().unwrap_or(0);
        let same =
            |kind: &Fallbacks<'_>| (kind.wanted, kind.got, kind.row_len) == (wanted, got, row_len);
        let index = kinds.iter().position(same).unwrap_or_else(|| {
            kinds.push(Fallbacks {
                wanted,
                got,
                row_len,
                tensors: Vec::new(),
                n_elements: 0,
            });
            kinds.len() - 1
        });
        let n_elements = dims.iter().fold(1, |n: u64, &dim| n.saturating_mul(dim));
        kinds[index].tensors.push(name);
        kinds[index].n_elements = kinds[index].n_elements.saturating_add(n_elements);
    }
    kinds
}

impl Fallbacks<'_> {
    /// The reason and the tensors in one line.
    pub(super) fn note(&self) -> String {
        let (n, first) = (self.tensors.len(), self.tensors.first().unwrap_or(&""));
        let what = if n == 1 {
            format!("{first}:")
        } else {
            format!("{n} tensors (the first is {first}):")
        };
        format!(
            "{what} rows of {} elements do not divide into {} blocks; {} instead",
            self.row_len, self.wanted, self.got
        )
    }
}

fn size(tensor: &SourceTensor, ty: TensorType) -> Result<u64> {
    tensor_bytes(ty, &tensor.dims).map_err(|_| ConvertError::Quant {
        tensor: tensor.name.clone(),
        source: QuantError::Overflow {
            ty,
            n: tensor.dims.first().copied().unwrap_or(0),
        },
    })
}
