//! Experts on their way into one tensor: each in a tensor of its own in the checkpoint, or several together.

use crate::ConvertError;
use crate::checkpoint::CheckpointTensor;
use crate::plan::Piece;
use crate::scaled::check_elements;
use gristmill_model::{ExpertPart, SpecSource, TensorSpec};
use std::collections::HashMap;

/// The experts of all layers, as far as their tensors were seen.
#[derive(Default)]
pub(crate) struct ExpertPlan {
    layers: Vec<Layer>,
    /// What a tensor of the checkpoint is good for, by its name.
    purposes: HashMap<String, Vec<Purpose>>,
}

/// The tensors of one layer that experts are stacked in.
struct Layer {
    number: Option<usize>,
    stacks: Vec<Stack>,
}

struct Stack {
    spec: TensorSpec,
    /// Of each expert, where its rows are.
    pieces: Vec<Option<Piece>>,
}

#[derive(Clone, Copy)]
struct Purpose {
    layer: usize,
    stack: usize,
    of: Experts,
}

#[derive(Clone, Copy)]
enum Experts {
    /// The tensor is one expert's.
    One(usize),
    /// It has all of them.
    All(ExpertPart),
}

/// A tensor to write, and where the rows of each of its experts are.
pub(crate) type Stacked = (TensorSpec, Vec<Piece>);

impl ExpertPlan {
    /// Adds a tensor that experts are to be stacked in. Those of a layer follow each other.
    pub fn want(&mut self, spec: TensorSpec) {
        let SpecSource::Experts(names) = &spec.source else {
            return;
        };
        if self
            .layers
            .last()
            .is_none_or(|layer| layer.number != spec.layer)
        {
            self.layers.push(Layer {
                number: spec.layer,
                stacks: Vec::new(),
            });
        }
        let layer = self.layers.len() - 1;
        let stacks = &mut self.layers[layer].stacks;
        let stack = stacks.len();
        let apart = names.apart.iter().enumerate();
        let apart = apart.map(|(expert, name)| (name.clone(), Experts::One(expert)));
        let together = names.together.iter().flat_map(|(name, part)| {
            let names = [name.clone(), format!("{name}.weight")];
            names.map(|name| (name, Experts::All(*part)))
        });
        for (name, of) in apart.chain(together) {
            let purposes = self.purposes.entry(name).or_default();
            purposes.push(Purpose { layer, stack, of });
        }
        let pieces = vec![None; names.apart.len()];
        stacks.push(Stack { spec, pieces });
    }

    /// Takes a tensor of the checkpoint; `None` if it is no expert's, or one that was there in another form. When a layer's
    /// last one is there, gives what to write.
    ///
    /// # Errors
    /// Another shape than the experts have, elements that cannot be converted.
    pub fn take(
        &mut self,
        name: &str,
        index: usize,
        tensor: &CheckpointTensor,
    ) -> Result<Option<Vec<Stacked>>, ConvertError> {
        let Some(purposes) = self.purposes.remove(name) else {
            return Ok(None);
        };
        check_elements(tensor)?;
        for purpose in &purposes {
            let stack = &mut self.layers[purpose.layer].stacks[purpose.stack];
            if !stack.fill(purpose.of, index, tensor)? {
                return Ok(None);
            }
        }
        let layer = purposes.first().map(|purpose| &self.layers[purpose.layer]);
        let complete = layer.and_then(|layer| {
            let stacks = layer.stacks.iter();
            let stacks = stacks.map(|stack| {
                let pieces: Option<Vec<Piece>> = stack.pieces.iter().copied().collect();
                Some((stack.spec.clone(), pieces?))
            });
            stacks.collect::<Option<Vec<_>>>()
        });
        Ok(Some(complete.unwrap_or_default()))
    }

    /// The error for the first expert that was not there.
    pub fn missing(&self) -> Option<ConvertError> {
        let mut stacks = self.layers.iter().flat_map(|layer| &layer.stacks);
        stacks.find_map(|stack| {
            let expert = stack.pieces.iter().position(Option::is_none)?;
            let source_name = match &stack.spec.source {
                SpecSource::Experts(names) => names.apart.get(expert)?.clone(),
                _ => return None,
            };
            Some(ConvertError::MissingTensor {
                source_name,
                name: stack.spec.name.clone(),
                expected: stack.expert_dims().to_vec(),
            })
        })
    }
}

impl Stack {
    /// Shape of one expert, contiguous dimension first.
    fn expert_dims(&self) -> &[u64] {
        self.spec.dims.get(..2).unwrap_or_default()
    }

    /// Notes where rows are; false if they were there before.
    ///
    /// # Errors
    /// Another shape than the experts have.
    fn fill(
        &mut self,
        of: Experts,
        index: usize,
        tensor: &CheckpointTensor,
    ) -> Result<bool, ConvertError> {
        let &[n_in, n_rows] = self.expert_dims() else {
            return Ok(false);
        };
        let n_experts = self.pieces.len() as u64;
        let (expected, rows_each, first_row) = match of {
            Experts::One(_) => (vec![n_rows, n_in], n_rows, 0),
            Experts::All(ExpertPart::Whole) => (vec![n_experts, n_rows, n_in], n_rows, 0),
            Experts::All(part) => {
                let both = n_rows.saturating_mul(2);
                let skipped = if part == ExpertPart::FirstHalf {
                    0
                } else {
                    n_rows
                };
                (vec![n_experts, both, n_in], both, skipped)
            }
        };
        if tensor.entry.shape != expected {
            return Err(ConvertError::TensorShape {
                tensor: tensor.entry.name.clone(),
                expected,
                found: tensor.entry.shape.clone(),
            });
        }
        let pieces = match of {
            Experts::One(expert) => self.pieces.get_mut(expert..=expert),
            Experts::All(_) => self.pieces.get_mut(..),
        };
        let pieces = pieces.unwrap_or_default();
        if pieces.iter().any(Option::is_some) {
            return Ok(false);
        }
        // The tensor has this shape, so its rows can be counted.
        for (number, place) in pieces.iter_mut().enumerate() {
            *place = Some(Piece {
                tensor: index,
                first_row: number * rows_each as usize + first_row as usize,
            });
        }
        Ok(true)
    }
}
