//! The architecture's tensor table against the tensors that are there, and experts by their counts.

use std::collections::{BTreeMap, HashMap};

use gristmill_gguf::{Kind, TensorInfo};
use gristmill_model::{Hyperparameters, ModelError, Slot, TensorSpec, tensor_specs};

use super::{Group, without_metadata};
use crate::MeasureError;
use crate::check::finding::{Code, Findings, Place};
use crate::check::subject::Subject;

pub(crate) static GROUP: Group = Group {
    name: "tensors",
    about: "missing, unknown and misshapen tensors by the architecture's table, expert counts",
    codes: &[
        &MISSING,
        &LAYER_MISSING,
        &UNKNOWN,
        &SHAPE,
        &VOCABULARY,
        &EXPERTS,
        &EXPERTS_UNCHECKED,
        &TABLE_UNCHECKED,
    ],
    skip,
    run,
};

static MISSING: Code = Code::error(
    "tensor-missing",
    "a tensor that the architecture needs is not there",
    "the conversion lost it, or the tool that made the file names it otherwise; convert the model again with a current tool",
);
static LAYER_MISSING: Code = Code::error(
    "layer-missing",
    "all tensors of a layer are missing",
    "the metadata counts more layers than there are: `block_count` was edited, layers were pruned, or a shard is missing from a set that was put together by hand",
);
static UNKNOWN: Code = Code::error(
    "tensor-unknown",
    "a tensor that the architecture has no place for, so that engines refuse the file",
    "it belongs to another architecture or to more layers than the metadata counts; convert the model again, or update gristmill if the model is newer",
);
static SHAPE: Code = Code::error(
    "tensor-shape",
    "a tensor of another shape than the metadata asks for",
    "metadata and weights are of different models, or a value was edited; convert the model again",
);
static VOCABULARY: Code = Code::error(
    "vocabulary-size",
    "the vocabulary and the embedding matrix are of different sizes",
    "tokens were added without resizing the model, or the tokenizer is another model's; convert again with the tokenizer of the checkpoint",
);
static EXPERTS: Code = Code::error(
    "expert-count",
    "a tensor of experts has another number of them than the metadata",
    "experts were lost or pruned without changing `expert_count`; convert the model again",
);
pub(crate) static EXPERTS_UNCHECKED: Code = Code::note(
    "experts-unchecked",
    "gristmill's table of this architecture has no experts: only their counts were checked",
    "update gristmill; another engine may run the file",
);
static TABLE_UNCHECKED: Code = Code::note(
    "tensors-unchecked",
    "the tensors were not compared with the table, since the file could not be read as a whole",
    "mend the errors above first",
);

fn skip(subject: &Subject) -> Option<&'static str> {
    if let Some(reason) = without_metadata(subject) {
        return Some(reason);
    }
    match subject.kind() {
        Kind::Model => None,
        Kind::Vocabulary => Some("the file holds a vocabulary and no weights"),
        _ => Some("the file is not a model by itself"),
    }
}

fn experts_unchecked(subject: &Subject, findings: &mut Findings) {
    let name = subject.architecture().unwrap_or_default();
    let text = format!("the table of \"{name}\" has no experts; tensors were not compared with it");
    findings.add(&EXPERTS_UNCHECKED, Place::whole(), text);
    vocabulary(subject, findings);
}

fn run(subject: &Subject, findings: &mut Findings) -> Result<(), MeasureError> {
    let has_experts = experts(subject, findings);
    let Some(metadata) = subject.metadata() else {
        return Ok(());
    };
    let hparams = match Hyperparameters::from_metadata(metadata) {
        Ok(hparams) => hparams,
        Err(ModelError::Experts { .. }) => {
            experts_unchecked(subject, findings);
            return Ok(());
        }
        // What is wrong with them was found by the group `metadata`.
        Err(_) => {
            vocabulary(subject, findings);
            return Ok(());
        }
    };
    let specs = tensor_specs(&hparams);
    let knows_experts = specs.iter().any(|spec| spec.name.contains("_exps."));
    if has_experts && !knows_experts {
        experts_unchecked(subject, findings);
    } else if subject.is_whole() {
        compare(subject, &hparams, &specs, findings);
    } else {
        findings.add(
            &TABLE_UNCHECKED,
            Place::whole(),
            "parts of the file cannot be read, so what is missing cannot be told",
        );
    }
    Ok(())
}

/// Every difference between the table and the file.
fn compare(
    subject: &Subject,
    hparams: &Hyperparameters,
    specs: &[TensorSpec],
    findings: &mut Findings,
) {
    let mut found: HashMap<&str, &TensorInfo> = subject
        .tensors()
        .map(|(_, tensor)| (tensor.name.as_str(), tensor))
        .collect();
    let mut missing: Vec<&TensorSpec> = Vec::new();
    let mut layers_with_tensors = vec![false; hparams.n_layers()];
    for spec in specs {
        match found.remove(spec.name.as_str()) {
            Some(tensor) => {
                if let Some(layer) = spec
                    .layer
                    .and_then(|layer| layers_with_tensors.get_mut(layer))
                {
                    *layer = true;
                }
                shape(spec, tensor, hparams, findings);
            }
            None if spec.required => missing.push(spec),
            None => {}
        }
    }
    let is_empty = |spec: &&TensorSpec| spec.layer.is_some_and(|layer| !layers_with_tensors[layer]);
    for (layer, _) in layers_with_tensors
        .iter()
        .enumerate()
        .filter(|(_, has)| !**has)
    {
        let text = format!("layer {layer} of {} has no tensor", hparams.n_layers());
        findings.add(&LAYER_MISSING, Place::tensor(format!("blk.{layer}")), text);
    }
    for spec in missing.iter().filter(|spec| !is_empty(spec)) {
        let text = format!("{} of shape {:?} is not there", spec.name, spec.dims);
        findings.add(&MISSING, Place::tensor(&spec.name), text);
    }
    // By name, so that the order does not depend on a hash.
    let unknown: BTreeMap<&str, &TensorInfo> = found.into_iter().collect();
    for (name, tensor) in unknown {
        findings.add(
            &UNKNOWN,
            Place::tensor(name),
            unknown_text(name, tensor, hparams),
        );
    }
}

fn unknown_text(name: &str, tensor: &TensorInfo, hparams: &Hyperparameters) -> String {
    let layer = name
        .strip_prefix("blk.")
        .and_then(|rest| rest.split_once('.'));
    let layer = layer.and_then(|(number, _)| number.parse::<usize>().ok());
    match layer {
        Some(layer) if layer >= hparams.n_layers() => format!(
            "{name} belongs to layer {layer}, but the metadata counts {} layers, from 0",
            hparams.n_layers()
        ),
        _ => format!(
            "{name} of shape {:?} has no place in the architecture \"{}\"",
            tensor.dims, hparams.architecture.name
        ),
    }
}

fn shape(
    spec: &TensorSpec,
    tensor: &TensorInfo,
    hparams: &Hyperparameters,
    findings: &mut Findings,
) {
    if spec.check_shape(&tensor.dims).is_ok() {
        return;
    }
    let place = Place::tensor(&spec.name);
    let n_rows = tensor.dims.get(1).copied().unwrap_or(1);
    let of_vocabulary = matches!(spec.slot, Slot::TokenEmbd | Slot::Output);
    if of_vocabulary && tensor.dims.first() == spec.dims.first() && tensor.dims.len() == 2 {
        let text = format!(
            "{} has {n_rows} rows, but the vocabulary has {} tokens",
            spec.name, hparams.n_vocab
        );
        findings.add(&VOCABULARY, place, text);
    } else {
        let text = format!(
            "{} has the shape {:?}, but the metadata asks for {:?}",
            spec.name, tensor.dims, spec.dims
        );
        findings.add(&SHAPE, place, text);
    }
}

/// Rows of the embeddings against tokens, where no table says what shape they have.
fn vocabulary(subject: &Subject, findings: &mut Findings) {
    let tokens = subject
        .metadata()
        .and_then(|metadata| metadata.array("tokenizer.ggml.tokens").ok()?);
    let Some(n_tokens) = tokens.map(|tokens| tokens.len() as u64) else {
        return;
    };
    let embeddings = subject
        .tensors()
        .find(|(_, tensor)| tensor.name == "token_embd.weight");
    let n_rows = embeddings.and_then(|(_, tensor)| tensor.dims.get(1).copied());
    if let Some(n_rows) = n_rows.filter(|&n_rows| n_rows != n_tokens) {
        let text = format!(
            "token_embd.weight has {n_rows} rows, but the vocabulary has {n_tokens} tokens"
        );
        findings.add(&VOCABULARY, Place::tensor("token_embd.weight"), text);
    }
}

/// Whether there are experts; their number in every tensor of theirs against the metadata, for every architecture:
/// stacked experts are the third dimension, and the router has a row for each.
fn experts(subject: &Subject, findings: &mut Findings) -> bool {
    let key = subject
        .architecture()
        .map(|name| format!("{name}.expert_count"));
    let count = key.as_ref().zip(subject.metadata());
    let count = count
        .and_then(|(key, metadata)| metadata.u64(key).ok()?)
        .unwrap_or(0);
    let mut has_experts = count > 0;
    for (_, tensor) in subject.tensors() {
        let n_experts = if tensor.name.ends_with("_exps.weight") {
            tensor.dims.get(2).copied().unwrap_or(1)
        } else if tensor.name.ends_with("ffn_gate_inp.weight") {
            tensor.dims.get(1).copied().unwrap_or(1)
        } else {
            continue;
        };
        has_experts = true;
        if n_experts != count {
            let text = format!(
                "{} has {n_experts} experts, but the metadata counts {count}",
                tensor.name
            );
            findings.add(&EXPERTS, Place::tensor(&tensor.name), text);
        }
    }
    has_experts
}
