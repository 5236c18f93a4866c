//! Which engines would load the file.

use gristmill_gguf::Kind;
use gristmill_model::arch::names;
use gristmill_model::{REFERENCE_ARCHITECTURES, architecture};
use gristmill_quant::Readers;
use gristmill_tokenizer::Tokenizer;
use serde::Serialize;

use super::finding::{Code, Findings, cut};
use super::group::{GROUPS, Group, engines, metadata, structure, tensors, tokenizer};
use super::subject::Subject;
use super::{Finding, Severity};

/// Whether an engine would load a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Loads {
    /// Nothing was found that keeps it from it.
    Yes,
    /// It would refuse.
    No,
    /// It depends on what was not checked.
    Unknown,
}

/// What an engine would do, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The engine, with its version.
    pub engine: String,
    /// What it would do.
    pub loads: Loads,
    /// Why, in words; empty where nothing is to be said.
    pub reasons: Vec<String>,
}

/// Groups whose errors keep every engine from loading.
const DECIDING: &[&str] = &["structure", "shards", "metadata", "tensors", "tokenizer"];

/// Errors in spite of which llama.cpp loads a file: its reader takes any key that is not empty, and any byte for a truth
/// value; it warns of an id out of range and goes on without it, and never applies a merge that is none.
static LLAMA_TAKES: &[&Code] = &[
    &structure::KEY_FORM,
    &structure::BOOL,
    &tokenizer::BAD_MERGE,
    &tokenizer::NOTHING_TO_ADD,
    &tokenizer::ID_RANGE,
];

/// What gristmill and llama.cpp would do.
pub(crate) fn verdicts(subject: &Subject, findings: &Findings) -> Vec<Verdict> {
    let deciding = || {
        let errors = findings.list.iter();
        errors
            .filter(|finding| finding.severity == Severity::Error)
            .filter_map(|finding| Some((group_of(finding)?, finding.code)))
    };
    // Of a vocabulary that is odd, but usable, nothing is refused.
    let metadata = subject.metadata();
    let usable = metadata.is_some_and(|metadata| Tokenizer::from_metadata(metadata).is_ok());
    let ours = deciding().filter(|(group, _)| *group != "tokenizer" || !usable);
    let taken = |code: &str| LLAMA_TAKES.iter().any(|taken| taken.name == code);
    let theirs = deciding().filter(|(_, code)| !taken(code));
    let codes = |errors: &mut dyn Iterator<Item = (&str, &'static str)>| {
        let mut codes: Vec<String> = errors.map(|(_, code)| code.to_owned()).collect();
        codes.dedup();
        codes
    };
    let (ours, theirs) = (codes(&mut { ours }), codes(&mut { theirs }));
    let of = |engine: &str, (loads, mut reasons): (Loads, Vec<String>)| {
        reasons.iter_mut().for_each(cut);
        Verdict {
            engine: engine.to_owned(),
            loads,
            reasons,
        }
    };
    vec![
        of("gristmill", gristmill(subject, findings, ours)),
        of("llama.cpp b11434", llama(subject, findings, theirs)),
    ]
}

/// The deciding group that a finding is of.
fn group_of(finding: &Finding) -> Option<&'static str> {
    let mut groups = GROUPS.iter().filter(|group| DECIDING.contains(&group.name));
    let has = |group: &&&Group| group.codes.iter().any(|code| code.name == finding.code);
    groups.find(has).map(|group| group.name)
}

/// What both say of a file that is no model with weights.
fn by_kind(subject: &Subject) -> Option<(Loads, Vec<String>)> {
    match subject.kind() {
        Kind::Model => None,
        Kind::Vocabulary => Some((
            Loads::Yes,
            vec!["to tokenize only: it has no weights".to_owned()],
        )),
        kind => Some((
            Loads::No,
            vec![format!(
                "it is {}, to be given beside a model",
                kind.description()
            )],
        )),
    }
}

fn gristmill(subject: &Subject, findings: &Findings, errors: Vec<String>) -> (Loads, Vec<String>) {
    if !errors.is_empty() {
        return (Loads::No, errors);
    }
    if let Some(verdict) = by_kind(subject) {
        return verdict;
    }
    let mut reasons = Vec::new();
    match subject.architecture() {
        Some(name) if architecture(name).is_some() => {}
        name => reasons.push(format!(
            "the architecture \"{}\" is not supported (supported: {})",
            name.unwrap_or_default(),
            names().join(", ")
        )),
    }
    if findings.has(&tokenizer::KIND) {
        reasons.push("the kind of tokenizer is not supported".to_owned());
    }
    if findings.has(&tensors::EXPERTS_UNCHECKED) {
        reasons.push("experts are not supported in this architecture".to_owned());
    }
    let undecodable = subject
        .tensors()
        .map(|(_, tensor)| tensor.ty)
        .find(|ty| !ty.can_decode());
    reasons.extend(undecodable.map(|ty| format!("the tensor type {ty} is not computed with yet")));
    let loads = if reasons.is_empty() {
        Loads::Yes
    } else {
        Loads::No
    };
    (loads, reasons)
}

fn llama(subject: &Subject, findings: &Findings, errors: Vec<String>) -> (Loads, Vec<String>) {
    let mut reasons = errors;
    let refused = engines::REFUSED.iter().filter(|code| findings.has(code));
    reasons.extend(refused.map(|code| code.name.to_owned()));
    let type_of = |readers| {
        let mut types = subject.tensors().map(|(_, tensor)| tensor.ty);
        types.find(|ty| ty.policy().readers == readers)
    };
    let unreleased = type_of(Readers::Unreleased);
    reasons.extend(unreleased.map(|ty| format!("it has no tensor type {ty}")));
    let name = subject.architecture();
    let known = name.is_some_and(|name| REFERENCE_ARCHITECTURES.contains(&name));
    let kind = by_kind(subject);
    if let (Some(name), false, None) = (name, known, &kind) {
        reasons.push(format!("it has no architecture \"{name}\""));
    }
    if !reasons.is_empty() {
        return (Loads::No, reasons);
    }
    if let Some(kind) = kind {
        return kind;
    }
    let unchecked = [
        &metadata::ARCHITECTURE_UNKNOWN,
        &tensors::EXPERTS_UNCHECKED,
        &tokenizer::KIND,
    ];
    if unchecked.iter().any(|code| findings.has(code)) {
        return (
            Loads::Unknown,
            vec![
                "it knows the architecture, of which gristmill could not check everything"
                    .to_owned(),
            ],
        );
    }
    let newest = type_of(Readers::Newest).into_iter();
    let reasons = newest.map(|ty| format!("not every older build has the tensor type {ty}"));
    (Loads::Yes, reasons.collect())
}
