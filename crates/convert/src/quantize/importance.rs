//! How much each column of a tensor matters.

use std::collections::HashMap;

use crate::error::{ConvertError, Result};
use crate::recipe::{SourceTensor, TensorKind};

/// Weights for the columns of tensors, by tensor name: `row_len` values for each stacked matrix.
#[derive(Clone, Debug, Default)]
pub struct Importance {
    entries: HashMap<String, Vec<f32>>,
}

impl Importance {
    /// Takes the weights of each tensor.
    ///
    /// # Errors
    /// [`ConvertError::ImportanceNotFinite`].
    pub fn new(entries: impl IntoIterator<Item = (String, Vec<f32>)>) -> Result<Self> {
        let entries: HashMap<_, _> = entries.into_iter().collect();
        // The first by name, so that the message does not depend on a hash.
        let bad = entries
            .iter()
            .filter(|(_, values)| values.iter().any(|value| !value.is_finite()));
        match bad.map(|(name, _)| name).min() {
            Some(tensor) => Err(ConvertError::ImportanceNotFinite {
                tensor: tensor.clone(),
            }),
            None => Ok(Importance { entries }),
        }
    }

    /// Number of tensors with weights.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no tensor has weights.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The weights of a tensor, `None` where there are none.
    ///
    /// # Errors
    /// [`ConvertError::ImportanceLength`], except for a token embedding, which old files hold in another form.
    pub(super) fn of(&self, tensor: &SourceTensor) -> Result<Option<&[f32]>> {
        let Some(values) = self.entries.get(&tensor.name) else {
            return Ok(None);
        };
        let row_len = tensor.dims.first().copied().unwrap_or(0);
        let expected = row_len.saturating_mul(tensor.dims.get(2).copied().unwrap_or(1));
        if values.len() as u64 == expected {
            return Ok(Some(values));
        }
        match TensorKind::of(&tensor.name) {
            TensorKind::TokenEmbedding => Ok(None),
            _ => Err(ConvertError::ImportanceLength {
                tensor: tensor.name.clone(),
                expected,
                found: values.len(),
            }),
        }
    }
}
