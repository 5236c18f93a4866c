//! What a quantization did, or would do.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gristmill_gguf::tensor_bytes;
use gristmill_quant::{QuantError, TensorType};

use super::QuantizeOptions;
use crate::error::{ConvertError, Result};
use crate::recipe::{Plan, SourceTensor};

/// One tensor of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
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
}

/// What a quantization did, or would do.
#[derive(Clone, Debug)]
pub struct QuantizeReport {
    /// The output; with shards kept, the beginning of their names.
    pub path: PathBuf,
    /// The files of the output, with tensors and bytes of each.
    pub files: Vec<(PathBuf, usize, u64)>,
    /// The recipe's name; `COPY` without one.
    pub recipe: &'static str,
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

impl QuantizeReport {
    pub(super) fn new(
        options: &QuantizeOptions,
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
            recipe: options.recipe.map_or("COPY", |recipe| recipe.name),
            dry_run: options.dry_run,
            tensors: tensors?,
            n_elements: sources.iter().map(elements).fold(0, u64::saturating_add),
            file_bytes: 0,
            warnings: Vec::new(),
        };
        for &index in &plan.unused_overrides {
            let pattern = &options.plan.tensor_types[index].pattern;
            report
                .warnings
                .push(format!("the override `{pattern}` found no tensor"));
        }
        report.warnings.extend(super::fallback_notes(sources, plan));
        Ok(report)
    }

    /// Tensors that took another type because of their row length.
    pub fn fallbacks(&self) -> impl Iterator<Item = &QuantizedTensor> {
        self.tensors
            .iter()
            .filter(|tensor| tensor.fallback_from.is_some())
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

fn size(tensor: &SourceTensor, ty: TensorType) -> Result<u64> {
    tensor_bytes(ty, &tensor.dims).map_err(|_| ConvertError::Quant {
        tensor: tensor.name.clone(),
        source: QuantError::Overflow {
            ty,
            n: tensor.dims.first().copied().unwrap_or(0),
        },
    })
}
