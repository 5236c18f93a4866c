//! What is worth a warning about an output whose types are well: flags without effect, entries of an earlier quantization,
//! tensors that are missing.

use std::collections::{HashMap, HashSet};

use gristmill_model::{Hyperparameters, tensor_specs};

use super::job::Job;
use super::{Importance, PlannedTensor, SourceTensor};
use crate::recipe::TensorKind;

/// What the entries of the metadata that tell of an importance matrix begin with.
const IMPORTANCE_KEYS: &str = "quantize.imatrix.";

/// The tensors of a job with their plans.
fn tensors<'a>(job: &'a Job<'_>) -> impl Iterator<Item = (&'a SourceTensor, &'a PlannedTensor)> {
    job.sources.iter().zip(&job.plan.tensors)
}

/// A line for each flag about a tensor that the model does not have.
pub(super) fn without_effect(job: &Job<'_>) -> Vec<String> {
    let (options, recipe) = (&job.options.plan, job.options.recipe);
    let is_there = |kind| tensors(job).any(|(tensor, _)| TensorKind::of(&tensor.name) == kind);
    let embedding = tensors(job).find(|(tensor, _)| tensor.name == "token_embd.weight");
    let mut lines = Vec::new();
    if !is_there(TensorKind::Output) {
        if options.leave_output_tensor {
            let tied = embedding.map(|(tensor, _)| {
                format!(
                    "; the token embedding is the output, and `--token-embedding-type {}` leaves it as it is",
                    tensor.ty
                )
            });
            let tied = tied.unwrap_or_default();
            lines.push(format!(
                "`--leave-output-tensor` has no effect: there is no output.weight{tied}"
            ));
        }
        // A mix gives the type to the embedding that is the output.
        let mixes = !options.pure && recipe.is_some_and(|recipe| recipe.default.is_quantized());
        let decides = mixes && embedding.is_some_and(|(_, planned)| planned.by_recipe);
        if options.output_tensor_type.is_some() && !decides {
            lines
                .push("`--output-tensor-type` has no effect: there is no output.weight".to_owned());
        }
    }
    if options.token_embedding_type.is_some() && !is_there(TensorKind::TokenEmbedding) {
        let line = "`--token-embedding-type` has no effect: there is no token_embd.weight";
        lines.push(line.to_owned());
    }
    lines
}

/// Entries about an importance matrix that say nothing of the result. They stay, as in the reference.
pub(super) fn untrue_entries(job: &Job<'_>) -> Vec<String> {
    let is_copy = job.options.recipe.is_none() && job.options.target.is_none();
    let importance = job.options.importance.as_ref().filter(|_| !is_copy);
    let own = importance.map(Importance::metadata).unwrap_or_default();
    let own: HashSet<&str> = own
        .iter()
        .chain(&job.options.metadata)
        .map(|(key, _)| &**key)
        .collect();
    let is_stale = |key: &&str| key.starts_with(IMPORTANCE_KEYS) && !own.contains(key);
    let stale: Vec<&str> = job
        .model
        .metadata()
        .iter()
        .map(|(key, _)| key)
        .filter(is_stale)
        .collect();
    let mut quantized = tensors(job)
        .filter(|(tensor, planned)| tensor.ty != planned.ty && planned.ty.is_quantized())
        .peekable();
    let mut lines = Vec::new();
    if !stale.is_empty() && quantized.peek().is_some() {
        lines.push(format!(
            "the metadata keeps {} of an earlier quantization, which says nothing of this one; `gristmill edit --remove` takes entries out",
            stale.join(", ")
        ));
    }
    let weights = job.importance.as_deref();
    for (tensor, _) in quantized.filter(|(_, planned)| planned.ty.takes_importance()) {
        if weights.is_some_and(|weights| weights.covers(tensor).unwrap_or(true)) {
            return lines;
        }
    }
    if importance.is_none() {
        return lines;
    }
    lines.push(format!(
        "no tensor is quantized with the importance matrix, and the metadata names it all the same ({IMPORTANCE_KEYS}*)"
    ));
    lines
}

/// The first tensor that the output lacks, or that has another shape than its metadata asks for; nothing where that cannot be
/// told.
pub(super) fn incomplete(job: &Job<'_>) -> Option<String> {
    let hparams = Hyperparameters::from_metadata(&job.metadata).ok()?;
    let found: HashMap<&str, &[u64]> = tensors(job)
        .map(|(tensor, _)| (&*tensor.name, tensor.written_dims()))
        .collect();
    let mut faults = tensor_specs(&hparams).into_iter().filter_map(|spec| {
        let name = &spec.name;
        match found.get(&**name) {
            None if spec.required => Some(format!("there is no tensor {name:?}")),
            Some(dims) if spec.check_shape(dims).is_err() => Some(format!(
                "tensor {name:?} has shape {dims:?}, not {:?}",
                spec.dims
            )),
            _ => None,
        }
    });
    let first = faults.next()?;
    let more = match faults.count() {
        0 => String::new(),
        1 => "; 1 more tensor is missing or has another shape".to_owned(),
        n => format!("; {n} more tensors are missing or have another shape"),
    };
    Some(format!("the output will not load: {first}{more}"))
}
