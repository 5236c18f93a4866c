//! What the file says of itself: architecture, hyperparameters, recipe.

use gristmill_gguf::{Error, FileType, Kind, Metadata, TensorInfo};
use gristmill_model::{Hyperparameters, ModelError, architecture};
use gristmill_quant::TensorType;

use super::{Group, without_metadata};
use crate::MeasureError;
use crate::check::finding::{Code, Findings, Place};
use crate::check::subject::Subject;

pub(crate) static GROUP: Group = Group {
    name: "metadata",
    about: "architecture and hyperparameters, the recipe against the types that are there",
    codes: &[
        &NO_ARCHITECTURE,
        &ARCHITECTURE_UNKNOWN,
        &KEY_MISSING,
        &KEY_TYPE,
        &KEY_VALUE,
        &EXPERTS_USED,
        &INVALID_TEXT,
        &RECIPE_UNKNOWN,
        &RECIPE_WRONG,
        &RECIPE_DILUTED,
        &QUANTIZATION_VERSION,
    ],
    skip: without_metadata,
    run,
};

const EDITED: &str = "the metadata is damaged or was edited; put the value back with `gristmill edit`, or convert the model again";

static NO_ARCHITECTURE: Code = Code::error(
    "no-architecture",
    "general.architecture is missing or no text: no engine knows how to run the file",
    "the file was made by a faulty tool; convert the model again",
);
pub(crate) static ARCHITECTURE_UNKNOWN: Code = Code::note(
    "architecture-unknown",
    "an architecture that gristmill has no table of: its keys and tensors are not checked",
    "update gristmill; another engine may run the file",
);
static KEY_MISSING: Code = Code::error(
    "key-missing",
    "a key that the architecture needs is missing",
    "convert the model again from its original checkpoint",
);
static KEY_TYPE: Code = Code::error(
    "key-type",
    "a key of another type than it must have",
    EDITED,
);
static KEY_VALUE: Code = Code::error("key-value", "a value that no model can have", EDITED);
static EXPERTS_USED: Code = Code::error(
    "experts-used",
    "more experts are used for a token than there are",
    EDITED,
);
static INVALID_TEXT: Code = Code::warning(
    "invalid-text",
    "a text that is not UTF-8, which the specification asks for",
    "readers in Python fail on it; set it anew with `gristmill edit`",
);
static RECIPE_UNKNOWN: Code = Code::warning(
    "recipe-unknown",
    "general.file_type is a number that names no recipe",
    "it is a label for people only; the types that the tensors have are the truth",
);
static RECIPE_WRONG: Code = Code::warning(
    "recipe-wrong",
    "general.file_type names a recipe whose type no tensor has",
    "the label was edited, or kept from another file; go by the types, and quantize again from the original if they are not what you want",
);
static RECIPE_DILUTED: Code = Code::note(
    "recipe-diluted",
    "most of the weights are not in the type that the recipe is named after, so the file is not of the size one expects",
    "rows that are no multiple of the block size fall back to another type, and embeddings count for much in a small model; `gristmill inspect` shows the types by role",
);
static QUANTIZATION_VERSION: Code = Code::warning(
    "quantization-version",
    "general.quantization_version is missing, or not 2, in a file with quantized tensors",
    "blocks of another version mean other numbers: fetch the model again, or quantize it again from its original; if only the value was edited, put 2 back with `gristmill edit`",
);

fn run(subject: &Subject, findings: &mut Findings) -> Result<(), MeasureError> {
    let Some(metadata) = subject.metadata() else {
        return Ok(());
    };
    texts(metadata, findings);
    if !matches!(subject.kind(), Kind::Model | Kind::Vocabulary) || subject.is_later_shard() {
        return Ok(());
    }
    match metadata.str("general.architecture") {
        Ok(Some(name)) if architecture(name).is_none() => {
            let text = format!(
                "gristmill has no table of the architecture \"{name}\": its hyperparameters and tensors were not checked"
            );
            findings.add(
                &ARCHITECTURE_UNKNOWN,
                Place::key("general.architecture"),
                text,
            );
        }
        Ok(Some(_)) if subject.kind() == Kind::Model => hyperparameters(metadata, findings),
        Ok(Some(_)) => {}
        Ok(None) => findings.add(
            &NO_ARCHITECTURE,
            Place::key("general.architecture"),
            "the key is missing",
        ),
        Err(error) => findings.add(
            &NO_ARCHITECTURE,
            Place::key("general.architecture"),
            error.to_string(),
        ),
    }
    experts_used(subject, metadata, findings);
    let tensors: Vec<&TensorInfo> = subject.tensors().map(|(_, tensor)| tensor).collect();
    if !tensors.is_empty() {
        recipe(metadata, &tensors, findings);
        quantization_version(metadata, &tensors, findings);
    }
    Ok(())
}

fn texts(metadata: &Metadata, findings: &mut Findings) {
    for (key, value) in metadata.iter() {
        let broken = value.as_text().is_some_and(|text| text.to_str().is_none());
        if broken {
            findings.add(
                &INVALID_TEXT,
                Place::key(key),
                format!("{key} is not valid UTF-8"),
            );
        }
    }
}

fn hyperparameters(metadata: &Metadata, findings: &mut Findings) {
    let Err(error) = Hyperparameters::from_metadata(metadata) else {
        return;
    };
    let text = error.to_string();
    match &error {
        ModelError::Metadata(Error::MissingKey { key }) => {
            findings.add(&KEY_MISSING, Place::key(key), text)
        }
        ModelError::Metadata(Error::WrongType { key, .. }) => {
            findings.add(&KEY_TYPE, Place::key(key), text)
        }
        // Sound, only not for us to run; the tensors' own check says how far it looked.
        ModelError::Experts { .. } => {}
        ModelError::Hyperparameter { key, .. } => findings.add(&KEY_VALUE, Place::key(key), text),
        _ => findings.add(&KEY_VALUE, Place::whole(), text),
    }
}

fn experts_used(subject: &Subject, metadata: &Metadata, findings: &mut Findings) {
    let Some(architecture) = subject.architecture() else {
        return;
    };
    let count = |name: &str| {
        metadata
            .u64(&format!("{architecture}.{name}"))
            .ok()
            .flatten()
    };
    let (n_experts, n_used) = (count("expert_count"), count("expert_used_count"));
    if let (Some(n_experts), Some(n_used)) = (n_experts, n_used)
        && n_used > n_experts
    {
        let place = Place::key(format!("{architecture}.expert_used_count"));
        findings.add(
            &EXPERTS_USED,
            place,
            format!("{n_used} experts are used of {n_experts}"),
        );
    }
}

/// The tensor type that a recipe is named after: `q4_K` of `Q4_K_M`. Three recipes are named after another type than
/// the one they mostly give.
fn type_of_recipe(name: &str) -> Option<TensorType> {
    let irregular = [
        ("IQ2_S", "iq2_xs"),
        ("IQ2_M", "iq2_s"),
        ("IQ3_XS", "iq3_s"),
        ("IQ3_M", "iq3_s"),
        ("MXFP4_MOE", "mxfp4"),
    ];
    if let Some((_, ty)) = irregular.iter().find(|(recipe, _)| *recipe == name) {
        return TensorType::from_name(ty);
    }
    TensorType::from_name(name).or_else(|| {
        let (base, mix) = name.rsplit_once('_')?;
        matches!(mix, "S" | "M" | "L").then(|| TensorType::from_name(base))?
    })
}

fn recipe(metadata: &Metadata, tensors: &[&TensorInfo], findings: &mut Findings) {
    let place = || Place::key("general.file_type");
    let Some(id) = metadata.u32("general.file_type").ok().flatten() else {
        return;
    };
    let file_type = FileType::from_id(id);
    let Some(name) = file_type.name else {
        let text = format!("general.file_type {id} names no recipe");
        findings.add(&RECIPE_UNKNOWN, place(), text);
        return;
    };
    let Some(ty) = type_of_recipe(name) else {
        return;
    };
    // Vectors keep their type under every recipe.
    let matrices = tensors.iter().filter(|tensor| tensor.dims.len() > 1);
    let elements = |of_type: bool| {
        let chosen = matrices
            .clone()
            .filter(|tensor| !of_type || tensor.ty == ty);
        chosen.fold(0u64, |sum, tensor| sum.saturating_add(tensor.n_elements()))
    };
    let (all, of_type) = (elements(false), elements(true));
    if all > 0 && of_type == 0 {
        let text = format!("the label says {name}, but no matrix has the type {ty}");
        findings.add(&RECIPE_WRONG, place(), text);
    } else if of_type < all / 2 {
        let percent = of_type as f64 * 100.0 / all as f64;
        let text = format!(
            "the label says {name}, but only {percent:.1}% of the weights have the type {ty}"
        );
        findings.add(&RECIPE_DILUTED, place(), text);
    }
}

fn quantization_version(metadata: &Metadata, tensors: &[&TensorInfo], findings: &mut Findings) {
    if !tensors.iter().any(|tensor| tensor.ty.is_quantized()) {
        return;
    }
    let key = "general.quantization_version";
    let text = match metadata.u32(key) {
        Ok(Some(2)) => return,
        Ok(Some(version)) => format!("{key} is {version}; blocks of version 2 are read"),
        Ok(None) => format!("{key} is missing"),
        Err(error) => error.to_string(),
    };
    findings.add(&QUANTIZATION_VERSION, Place::key(key), text);
}
