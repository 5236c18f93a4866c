//! Checking a file's tensors against the table, and binding them.

use crate::tensors::{Slot, TensorSpec, Weights, tensor_specs};
use crate::{Hyperparameters, ModelError};
use gristmill_compute::Tensor;
use std::collections::HashMap;

/// Checks that the tensors of a file (names and shapes) are those of the model: all that are required, in the right
/// shape, and none that is unknown. Returns the specs of those that are there, in table order.
///
/// # Errors
/// `VocabularyOnly`, `MissingTensor`, `TensorShape` or `UnknownTensor`.
pub fn check_tensors<'a>(
    hparams: &Hyperparameters,
    tensors: impl IntoIterator<Item = (&'a str, &'a [u64])>,
) -> Result<Vec<TensorSpec>, ModelError> {
    let mut found: HashMap<&str, &[u64]> = tensors.into_iter().collect();
    if found.is_empty() {
        return Err(ModelError::VocabularyOnly);
    }
    let mut present = Vec::with_capacity(found.len());
    for spec in tensor_specs(hparams) {
        match found.remove(spec.name.as_str()) {
            Some(dims) => {
                spec.check_shape(dims)?;
                present.push(spec);
            }
            None if spec.required => return Err(missing(&spec)),
            None => {}
        }
    }
    // The first by name, so that the message does not depend on a hash.
    match found.into_iter().min() {
        Some((name, dims)) => Err(ModelError::UnknownTensor {
            name: name.to_owned(),
            architecture: hparams.architecture.name,
            found: dims.to_vec(),
            n_layers: hparams.n_layers(),
        }),
        None => Ok(present),
    }
}

impl Weights {
    /// Binds the tensors of a model: `lookup` gives the handle of a tensor, or nothing if the file lacks it.
    ///
    /// # Errors
    /// `MissingTensor` and `TensorShape`.
    pub fn bind(
        hparams: &Hyperparameters,
        mut lookup: impl FnMut(&TensorSpec) -> Option<Tensor>,
    ) -> Result<Self, ModelError> {
        let mut weights = Self {
            blocks: vec![Default::default(); hparams.n_layers()],
            ..Self::default()
        };
        for spec in tensor_specs(hparams) {
            match lookup(&spec) {
                Some(tensor) => {
                    let dims = tensor.shape.dims().map(|extent| extent as u64);
                    spec.check_shape(&dims)?;
                    weights.place(spec.slot, spec.layer, tensor);
                }
                None if spec.required => return Err(missing(&spec)),
                None => {}
            }
        }
        Ok(weights)
    }
}

impl TensorSpec {
    /// Checks a shape, contiguous dimension first; trailing ones do not matter.
    ///
    /// # Errors
    /// `TensorShape`.
    pub fn check_shape(&self, dims: &[u64]) -> Result<(), ModelError> {
        if trimmed(dims) == trimmed(&self.dims) {
            return Ok(());
        }
        Err(ModelError::TensorShape {
            name: self.name.clone(),
            expected: self.dims.clone(),
            found: trimmed(dims).to_vec(),
        })
    }
}

/// A shape without the ones at its end.
pub(crate) fn trimmed(dims: &[u64]) -> &[u64] {
    let end = dims
        .iter()
        .rposition(|&extent| extent != 1)
        .map_or(1, |last| last + 1);
    &dims[..end.min(dims.len())]
}

fn missing(spec: &TensorSpec) -> ModelError {
    ModelError::MissingTensor {
        name: spec.name.clone(),
        expected: spec.dims.clone(),
    }
}

/// A tensor that the graph needs; `bind` has made sure of it for weights that come from there.
pub(crate) trait Have {
    /// The tensor.
    fn have(&self, slot: Slot) -> Result<&Tensor, ModelError>;
}

impl Have for Option<Tensor> {
    fn have(&self, slot: Slot) -> Result<&Tensor, ModelError> {
        let missing = || ModelError::MissingTensor {
            name: slot.name().to_owned(),
            expected: Vec::new(),
        };
        self.as_ref().ok_or_else(missing)
    }
}
