//! The ten questions to ask of a model file before it is used: what the file itself answers, and what it cannot.

use gristmill_gguf::{FileType, Metadata};
use gristmill_model::Hyperparameters;
use gristmill_quant::TensorType;
use serde::Serialize;

use super::Severity;
use super::finding::Findings;
use super::group::checksums;
use super::subject::Subject;

/// Ten questions with their answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Review {
    /// In the order in which one asks.
    pub answers: Vec<Answer>,
}

/// A question, and what the file says to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The question.
    pub question: &'static str,
    /// Whether the file answers it.
    pub answered: bool,
    /// What it says, or what would answer it.
    pub text: String,
}

pub(crate) fn review(
    subject: &Subject,
    findings: &Findings,
    skipped: &[(&'static str, &'static str)],
) -> Review {
    let empty = Metadata::new();
    let metadata = subject.metadata().unwrap_or(&empty);
    let of = |question: &'static str, (answered, text): (bool, String)| Answer {
        question,
        answered,
        text,
    };
    let cannot = |text: &str| (false, text.to_owned());
    Review {
        answers: vec![
            of(
                "Where does the model come from, in which revision?",
                source(metadata),
            ),
            of("Who converted it, and with what?", author(metadata)),
            of("Is the file complete?", complete(findings, skipped)),
            of(
                "Does it answer as the original does?",
                cannot(
                    "the file cannot tell: compare token ids, logits and answers with the original (`gristmill tokenize`, `gristmill logits`)",
                ),
            ),
            of(
                "Which recipe made it, and which types does it really have?",
                recipe(subject, metadata),
            ),
            of(
                "Was an importance matrix used, from which data?",
                imatrix(subject, metadata),
            ),
            of(
                "Do hash, licence and source agree with what was published?",
                provenance(metadata, findings),
            ),
            of(
                "Does the backend have kernels for all its types?",
                kernels(subject),
            ),
            of(
                "Does it fit the memory, with the context that is wanted?",
                memory(subject, metadata),
            ),
            of(
                "Does it pass the gates of speed and quality?",
                cannot(
                    "the file cannot tell: measure prompt and decode speed and the task's own tests on the machine that will run it",
                ),
            ),
        ],
    }
}

/// The texts of the keys that are there: `key: value; …`.
fn texts(metadata: &Metadata, keys: &[&str]) -> Option<String> {
    let entry = |key: &&str| {
        let text = metadata.get(key)?.as_text()?.to_str_escaped().into_owned();
        let name = key.strip_prefix("general.").unwrap_or(key);
        (!text.is_empty()).then(|| format!("{name}: {text}"))
    };
    let found: Vec<String> = keys.iter().filter_map(entry).collect();
    (!found.is_empty()).then(|| found.join("; "))
}

fn source(metadata: &Metadata) -> (bool, String) {
    let keys = [
        "general.name",
        "general.version",
        "general.organization",
        "general.source.url",
        "general.source.repo_url",
        "general.source.huggingface.repository",
        "general.url",
        "general.repo_url",
        "general.base_model.0.name",
        "general.base_model.0.version",
        "general.base_model.0.repo_url",
    ];
    let named = keys
        .iter()
        .any(|key| key.contains("url") && metadata.contains(key));
    match texts(metadata, &keys) {
        Some(text) if named => (
            true,
            format!("{text}; a revision has no key of its own: pin it by the hash"),
        ),
        Some(text) => (false, format!("{text}; no address of the source is given")),
        None => (false, "the file names no source".to_owned()),
    }
}

fn author(metadata: &Metadata) -> (bool, String) {
    let keys = [
        "general.quantized_by",
        "general.author",
        "general.organization",
    ];
    let told = metadata.contains("general.quantized_by");
    match texts(metadata, &keys) {
        Some(text) => (told, text),
        None => (
            false,
            "the file does not say; tools leave no version in it".to_owned(),
        ),
    }
}

fn complete(findings: &Findings, skipped: &[(&'static str, &'static str)]) -> (bool, String) {
    let n_errors = findings
        .list
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .count();
    let not_run: Vec<&str> = skipped
        .iter()
        .map(|(group, _)| *group)
        .filter(|group| matches!(*group, "data" | "checksums"))
        .collect();
    let rest = if not_run.is_empty() {
        String::new()
    } else {
        format!("; not looked at: {}", not_run.join(", "))
    };
    if n_errors == 0 {
        (
            true,
            format!("nothing is missing that its own directory counts{rest}"),
        )
    } else {
        let errors = if n_errors == 1 { "error" } else { "errors" };
        (true, format!("no: {n_errors} {errors}{rest}"))
    }
}

fn recipe(subject: &Subject, metadata: &Metadata) -> (bool, String) {
    let label = metadata.u32("general.file_type").ok().flatten();
    let label = label
        .and_then(|id| FileType::from_id(id).name)
        .unwrap_or("no recipe");
    let types = types(subject);
    let shown: Vec<String> = types.iter().map(|(ty, n)| format!("{ty} × {n}")).collect();
    (
        !types.is_empty(),
        format!(
            "labelled {label}; tensors: {}",
            if shown.is_empty() {
                "none".to_owned()
            } else {
                shown.join(", ")
            }
        ),
    )
}

/// Tensor types with how many tensors have each, the most frequent first.
fn types(subject: &Subject) -> Vec<(TensorType, usize)> {
    let mut types: Vec<(TensorType, usize)> = Vec::new();
    for (_, tensor) in subject.tensors() {
        match types.iter_mut().find(|(ty, _)| *ty == tensor.ty) {
            Some((_, n)) => *n += 1,
            None => types.push((tensor.ty, 1)),
        }
    }
    types.sort_by_key(|&(ty, n)| (std::cmp::Reverse(n), ty));
    types
}

fn imatrix(subject: &Subject, metadata: &Metadata) -> (bool, String) {
    let keys = ["quantize.imatrix.file", "quantize.imatrix.dataset"];
    let is_weighed = subject
        .tensors()
        .any(|(_, tensor)| tensor.ty.takes_importance());
    match texts(metadata, &keys) {
        Some(text) if is_weighed => (
            true,
            format!("{text}; quantized again without one, a file keeps what it named before"),
        ),
        Some(text) => (
            false,
            format!(
                "{text}; but no tensor is of a type that takes importance, so none was weighted by it"
            ),
        ),
        None => (
            false,
            "the file names none; a tool that leaves no trace may have used one".to_owned(),
        ),
    }
}

fn provenance(metadata: &Metadata, findings: &Findings) -> (bool, String) {
    let license = texts(
        metadata,
        &[
            "general.license",
            "general.license.name",
            "general.license.link",
        ],
    );
    let license = license.unwrap_or_else(|| "no licence is given".to_owned());
    if findings.has(&checksums::MISMATCH) || findings.has(&checksums::SIZE) {
        (
            true,
            format!("{license}; the hash does not agree with the list"),
        )
    } else if findings.has(&checksums::MATCH) {
        (true, format!("{license}; the hash agrees with the list"))
    } else {
        (
            false,
            format!("{license}; no list of hashes was compared with (--checksums)"),
        )
    }
}

fn kernels(subject: &Subject) -> (bool, String) {
    let types = types(subject);
    let missing: Vec<&str> = types
        .iter()
        .map(|(ty, _)| *ty)
        .filter(|ty| !ty.can_decode())
        .map(TensorType::name)
        .collect();
    if types.is_empty() {
        (false, "there are no tensors".to_owned())
    } else if missing.is_empty() {
        (true, "gristmill's CPU backend computes with all of them; other backends say so when they load the file".to_owned())
    } else {
        (
            true,
            format!("gristmill does not compute with {} yet", missing.join(", ")),
        )
    }
}

fn memory(subject: &Subject, metadata: &Metadata) -> (bool, String) {
    let weights = subject
        .tensors()
        .fold(0u64, |sum, (_, tensor)| sum.saturating_add(tensor.bytes));
    let Ok(hparams) = Hyperparameters::from_metadata(metadata) else {
        return (
            false,
            format!(
                "weights take {}; the cache cannot be computed for this architecture",
                mib(weights)
            ),
        );
    };
    let per_head = (hparams.key_length + hparams.value_length) as u64 * 2;
    let heads = hparams
        .layers
        .iter()
        .map(|layer| layer.n_head_kv as u64)
        .sum::<u64>();
    let per_token = per_head.saturating_mul(heads);
    let n_ctx = hparams.n_context_train as u64;
    let whole = mib(per_token.saturating_mul(n_ctx));
    (
        true,
        format!(
            "weights take {}, the cache in f16 {per_token} bytes a token: {whole} for the {n_ctx} tokens it was trained for; buffers come on top",
            mib(weights)
        ),
    )
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
