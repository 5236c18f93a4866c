//! The plan of a conversion: every tensor of the output, before a byte of weights is read.

use crate::ConvertError;
use crate::authorship::Size;
use crate::checkpoint::{Checkpoint, CheckpointTensor};
use crate::expert_plan::ExpertPlan;
use crate::output::Uniform;
use crate::quantize;
use crate::recipe::{self, ModelFacts, PlanOptions, Recipe, SourceTensor, sort_tensors};
use crate::safetensors_file::Entry;
use crate::scaled::check_elements;
use gristmill_gguf::TensorPlan;
use gristmill_model::{
    Config, Hyperparameters, RowTransform, Slot, SpecSource, TensorSpec, TextPart, tensor_specs,
};
use gristmill_quant::{F32, TensorType};
use safetensors::Dtype;
use std::collections::{BTreeSet, HashMap};

/// A tensor to write.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub spec: TensorSpec,
    pub origin: Origin,
    /// The type that the conversion gives it; before a recipe F32 where an adapter is merged.
    pub float: TensorType,
    /// The type in the output: another one only where a recipe is applied.
    pub ty: TensorType,
}

/// Where its values come from.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// The checkpoint's tensor of this index.
    Checkpoint(usize),
    /// Rows of the checkpoint's tensors, of each expert as many.
    Experts(Vec<Piece>),
    /// Computed from the configuration.
    Computed(Vec<f32>),
}

/// Rows of a tensor of the checkpoint, from one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Index of the tensor.
    pub tensor: usize,
    /// The first of the rows.
    pub first_row: usize,
}

impl Origin {
    /// Index of the first of the checkpoint's tensors that it is read from.
    pub fn first_tensor(&self) -> Option<usize> {
        match self {
            Origin::Checkpoint(index) => Some(*index),
            Origin::Experts(pieces) => pieces.first().map(|piece| piece.tensor),
            Origin::Computed(_) => None,
        }
    }
}

/// All tensors to write, in order: computed ones, then the checkpoint's in its order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub tensors: Vec<Planned>,
    /// Names in the checkpoint that the architecture has no use for.
    pub unknown: Vec<String>,
    /// Names that belong to other parts, such as a vision tower, or can be computed.
    pub left_out: Vec<String>,
    /// Index of an output projection that may be the embeddings once more.
    pub maybe_tied: Option<usize>,
}

impl Plan {
    /// Matches a checkpoint with the tensor table.
    ///
    /// # Errors
    /// A tensor that is missing, has another shape, or elements that cannot be converted.
    pub fn new(
        checkpoint: &Checkpoint,
        hparams: &Hyperparameters,
        output: Uniform,
    ) -> Result<Self, ConvertError> {
        let mut plan = Self::default();
        let mut wanted = HashMap::new();
        let mut experts = ExpertPlan::default();
        let mut beyond = Vec::new();
        for spec in tensor_specs(hparams) {
            match &spec.source {
                SpecSource::Computed(compute) => {
                    if let Some(values) = compute(&checkpoint.config, hparams)? {
                        plan.push(spec, Origin::Computed(values), output);
                    }
                }
                SpecSource::Checkpoint(name) => {
                    wanted.insert(name.clone(), spec);
                }
                SpecSource::Experts(_) => experts.want(spec),
            }
        }
        for (index, tensor) in checkpoint.tensors.iter().enumerate() {
            let name = &tensor.entry.name;
            let text_part = hparams.architecture.text_part.as_ref();
            let Some(known) = text_name(name, text_part) else {
                plan.left_out.push(name.clone());
                continue;
            };
            if let Some(complete) = experts
                .take(&known, index, tensor)
                .map_err(|error| error.of(checkpoint.file_of(Some(index))))?
            {
                for (spec, pieces) in complete {
                    plan.push(spec, Origin::Experts(pieces), output);
                }
                continue;
            }
            match wanted.remove(&known) {
                Some(spec) => {
                    check(tensor, &spec)
                        .map_err(|error| error.of(checkpoint.file_of(Some(index))))?;
                    if spec.slot == Slot::Output && checkpoint.config.ties_embeddings() {
                        plan.maybe_tied = Some(plan.tensors.len());
                    }
                    plan.push(spec, Origin::Checkpoint(index), output);
                }
                None => match hparams.architecture.layer_of(&known) {
                    Some(layer) if layer >= hparams.n_layers() => beyond.push((layer, name)),
                    _ if hparams.architecture.names(&known) => plan.left_out.push(name.clone()),
                    _ => plan.unknown.push(name.clone()),
                },
            }
        }
        let extra = check_layers(&checkpoint.config, hparams, &beyond)?;
        plan.left_out.extend(extra.cloned());
        match experts.missing().or_else(|| first_missing(wanted)) {
            Some(error) => Err(error),
            None => Ok(plan),
        }
    }

    fn push(&mut self, spec: TensorSpec, origin: Origin, output: Uniform) {
        let ty = output.type_of(&spec.name, &spec.dims);
        self.tensors.push(Planned {
            spec,
            origin,
            float: ty,
            ty,
        });
    }

    /// Gives tensors that are FP8 in the checkpoint the type that a conversion to Q8_0 would. Returns how many there are.
    pub fn keep_fp8(&mut self, checkpoint: &Checkpoint) -> usize {
        let is_fp8 = |tensor: &Planned| {
            let source = tensor.origin.first_tensor();
            let source = source.and_then(|index| checkpoint.tensors.get(index));
            let dtype = source.map(|source| source.entry.dtype);
            matches!(dtype, Some(Dtype::F8_E4M3 | Dtype::F8_E5M2))
        };
        let kept = self.tensors.iter_mut().filter(|tensor| is_fp8(tensor));
        kept.map(|tensor| {
            tensor.ty = Uniform::Q8_0.type_of(&tensor.spec.name, &tensor.spec.dims);
            tensor.float = tensor.ty;
        })
        .count()
    }

    /// Keeps tensors that adapters change in F32 until a recipe gives them their type, so that what is added to them is rounded
    /// once, by the recipe.
    pub fn widen(&mut self, changed: &BTreeSet<&str>) {
        for tensor in &mut self.tensors {
            if changed.contains(tensor.spec.name.as_str()) && !tensor.float.is_quantized() {
                tensor.float = F32;
                tensor.ty = F32;
            }
        }
    }

    /// Gives every tensor the type and the place that quantizing the converted file would give it.
    /// Returns what the user should know.
    ///
    /// # Errors
    /// Those of `recipe::plan`, and of `quantize::check_types`.
    pub fn apply(
        &mut self,
        recipe: &'static Recipe,
        model: &ModelFacts,
    ) -> Result<Vec<String>, ConvertError> {
        sort_tensors(&mut self.tensors, |tensor| &tensor.spec.name);
        let source = |tensor: &Planned| SourceTensor {
            name: tensor.spec.name.clone(),
            dims: tensor.spec.dims.clone(),
            ty: tensor.float,
        };
        let sources: Vec<SourceTensor> = self.tensors.iter().map(source).collect();
        let plan = recipe::plan(recipe, model, &sources, &PlanOptions::default())?;
        quantize::check_types(&sources, &plan, None).map_err(|error| match error {
            ConvertError::ImportanceRequired { tensors } => {
                ConvertError::ImportanceInOneStep { tensors }
            }
            error => error,
        })?;
        for (tensor, planned) in self.tensors.iter_mut().zip(&plan.tensors) {
            tensor.ty = planned.ty;
        }
        Ok(quantize::fallback_notes(&sources, &plan))
    }

    /// Names of the tensors to write.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.iter().map(|tensor| tensor.spec.name.as_str())
    }

    /// Number of parameters.
    pub fn n_params(&self) -> u64 {
        let sizes = self.tensors.iter().map(|tensor| {
            tensor
                .spec
                .dims
                .iter()
                .fold(1u64, |n, &d| n.saturating_mul(d))
        });
        sizes.fold(0, u64::saturating_add)
    }

    /// The size that a name tells.
    pub fn size(&self) -> Size {
        Size {
            experts: self.experts(),
            ..Size::from(self.n_params())
        }
    }

    /// The number of experts, where there are any, and the parameters of the model with one of them.
    fn experts(&self) -> Option<(u64, u64)> {
        let mut n_params = self.n_params();
        let mut counts = Vec::new();
        for tensor in &self.tensors {
            if let (true, [rest @ .., n_experts]) = (
                tensor.spec.name.contains("_exps."),
                tensor.spec.dims.as_slice(),
            ) {
                let one = rest
                    .iter()
                    .fold(1u64, |n, &extent| n.saturating_mul(extent));
                n_params = n_params.saturating_sub(one.saturating_mul(n_experts.saturating_sub(1)));
                counts.push(*n_experts);
            }
        }
        let sum: u64 = counts.iter().sum();
        Some((sum.checked_div(counts.len() as u64)?, n_params))
    }

    /// The plan as the writer takes it.
    pub fn layout(&self) -> Vec<TensorPlan> {
        let plan = |tensor: &Planned| TensorPlan {
            name: tensor.spec.name.clone(),
            dims: tensor.spec.dims.clone(),
            ty: tensor.ty,
        };
        self.tensors.iter().map(plan).collect()
    }
}

/// The error for a required tensor that was not there: the first by name, so that it does not depend on a hash.
fn first_missing(wanted: HashMap<String, TensorSpec>) -> Option<ConvertError> {
    let missing = wanted.into_iter().filter(|(_, spec)| spec.required);
    let (source_name, spec) = missing.min_by(|a, b| a.0.cmp(&b.0))?;
    Some(ConvertError::MissingTensor {
        source_name,
        name: spec.name,
        expected: spec.dims,
    })
}

/// Refuses tensors of layers that the configuration does not count, but for those behind the last that only predict
/// further tokens. Gives the names of these, which are left out.
fn check_layers<'a>(
    config: &Config,
    hparams: &Hyperparameters,
    beyond: &[(usize, &'a String)],
) -> Result<impl Iterator<Item = &'a String>, ConvertError> {
    let n_layers = hparams.n_layers();
    let n_extra = config.integer("num_nextn_predict_layers")?.unwrap_or(0) as usize;
    let last = beyond.iter().map(|(layer, _)| *layer).max();
    match (last, beyond.iter().min()) {
        (Some(last), Some((_, tensor))) if last >= n_layers.saturating_add(n_extra) => {
            let key = config.origin(&format!("{}.block_count", config.architecture.name));
            Err(ConvertError::UncountedLayers {
                key: key.unwrap_or("num_hidden_layers"),
                n_layers,
                found: last.saturating_add(1),
                tensor: (*tensor).clone(),
            })
        }
        _ => Ok(beyond.iter().map(|(_, name)| *name)),
    }
}

/// The name of a tensor in a text model, or `None` for what belongs to other parts or is computed anyway.
pub(crate) fn text_name(name: &str, text_part: Option<&TextPart>) -> Option<String> {
    const COMPUTED: &[&str] = &[
        ".attention.masked_bias",
        ".attention.bias",
        ".attn.masked_bias",
        ".attn.bias",
        ".rotary_emb.inv_freq",
        ".position_ids",
        ".input_scale",
        ".activation_scale",
    ];
    if COMPUTED.iter().any(|suffix| name.ends_with(suffix)) {
        return None;
    }
    let Some(part) = text_part else {
        return Some(name.to_owned());
    };
    let mut others = part.other_prefixes.iter();
    let is_other = others.any(|prefix| name.starts_with(prefix));
    let name = name.replace(part.infix, "");
    // The oldest names of a norm's tensors.
    let name = match name.rsplit_once('.') {
        Some((start, "gamma")) => format!("{start}.weight"),
        Some((start, "beta")) => format!("{start}.bias"),
        _ => name,
    };
    (!is_other).then_some(name)
}

/// Refuses elements that are no floats.
pub(crate) fn check_dtype(entry: &Entry) -> Result<(), ConvertError> {
    match entry.dtype {
        Dtype::F32 | Dtype::F16 | Dtype::BF16 | Dtype::F64 => Ok(()),
        dtype => Err(ConvertError::ElementType {
            tensor: entry.name.clone(),
            dtype: dtype.to_string(),
        }),
    }
}

fn check(tensor: &CheckpointTensor, spec: &TensorSpec) -> Result<(), ConvertError> {
    let entry = &tensor.entry;
    // Whose rows are no rows of the checkpoint, and whose scales would count for others.
    let is_transposed = spec.transform == RowTransform::Transposed;
    match &tensor.scale {
        Some(_) if is_transposed => check_dtype(entry)?,
        _ => check_elements(tensor)?,
    }
    let mut expected: Vec<u64> = spec.dims.iter().rev().copied().collect();
    if is_transposed {
        expected.reverse();
    }
    if entry.shape == expected {
        return Ok(());
    }
    let same_rows =
        entry.shape.len() == expected.len() && entry.shape.get(1..) == expected.get(1..);
    match (spec.slot, entry.shape.first()) {
        (Slot::TokenEmbd | Slot::Output, Some(&n_rows)) if same_rows && n_rows < expected[0] => {
            Err(ConvertError::VocabularySize {
                tensor: entry.name.clone(),
                n_tokens: expected[0],
                n_rows,
            })
        }
        (_, Some(&n_rows))
            if same_rows && n_rows > expected[0] && spec.transform == RowTransform::FirstRows =>
        {
            Ok(())
        }
        _ => Err(ConvertError::TensorShape {
            tensor: entry.name.clone(),
            expected,
            found: entry.shape.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::text_name;

    #[test]
    fn the_text_model_of_a_multimodal_checkpoint_is_found() {
        let gemma3 = gristmill_model::architecture("gemma3").unwrap();
        let text_name = |name| text_name(name, gemma3.text_part.as_ref());
        let norm = Some("model.norm.weight".to_owned());
        for name in [
            "model.norm.weight",
            "language_model.model.norm.weight",
            "model.language_model.norm.weight",
        ] {
            assert_eq!(text_name(name), norm, "{name}");
        }
        for name in [
            "vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight",
            "multi_modal_projector.mm_input_projection_weight",
            "model.vision_tower.embeddings.weight",
            "model.layers.0.self_attn.rotary_emb.inv_freq",
        ] {
            assert_eq!(text_name(name), None, "{name}");
        }
    }

    /// The oldest checkpoints have no prefix, and store the mask that every model computes.
    #[test]
    fn names_of_all_generations_of_gpt2_are_known() {
        let gpt2 = gristmill_model::architecture("gpt2").unwrap();
        let text_name = |name: &str| text_name(name, gpt2.text_part.as_ref());
        let bias = Some("h.0.attn.c_attn.bias".to_owned());
        for prefix in ["", "transformer."] {
            let name = |end: &str| format!("{prefix}h.0.attn.{end}");
            assert_eq!(text_name(&name("c_attn.bias")), bias);
            assert_eq!(text_name(&name("bias")), None);
        }
    }
}
