//! Which engines would load the file.

use gristmill_gguf::Kind;
use gristmill_model::architecture;
use gristmill_tokenizer::Tokenizer;
use serde::Serialize;

use super::finding::Findings;
use super::group::{GROUPS, Group, engines};
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

/// Architectures of llama.cpp b11434.
const LLAMA_ARCHITECTURES: &str = "afmoe apertus arcee arctic arwkv7 baichuan bailingmoe bailingmoe2 bailingmoe3 bert \
    bitnet bloom chameleon chatglm clef clip codeshell cogvlm cohere2 cohere2moe command-r dbrx deci deepseek deepseek2 \
    deepseek2-ocr deepseek32 deepseek4 dflash dots1 dots3note dream eagle3 ernie4_5 ernie4_5-moe eurobert exaone \
    exaone-moe exaone4 falcon falcon-h1 gemma gemma-embedding gemma2 gemma3 gemma3n gemma4 gemma4-assistant glm-dsa \
    glm4 glm4moe glm5-next gpt-oss gpt2 gptj gptneox granite granite_swa granitehybrid granitemoe graniteswitch grok \
    grovemoe hrm_text hunyuan-dense hunyuan-moe hunyuan_vl hy_v3 hy_v4 internlm2 jais jais2 jamba jina-bert-v2 \
    jina-bert-v3 kimi-k3 kimi-linear laguna lfm2 lfm2moe llada llada-moe llama llama-embed llama4 maincoder mamba \
    mamba2 maple mellum mimo2 minicpm minicpm3 minimax-01 minimax-m2 minimax-m3 mistral3 mistral4 modern-bert mpt \
    muse-glimmer nanbeige nemotron nemotron_h nemotron_h_moe neo-bert nomic-bert nomic-bert-moe olmo olmo2 olmoe \
    openelm orion paddleocr pangu-embedded phi2 phi3 phimoe plamo plamo2 plamo3 plm pockettts qwen qwen2 qwen2moe \
    qwen2vl qwen3 qwen35 qwen35moe qwen3moe qwen3next qwen3tts qwen3vl qwen3vlmoe qwen4exp refact rnd1 rwkv6 \
    rwkv6qwen2 rwkv7 seed_oss smallthinker smollm3 spark2_5 stablelm starcoder starcoder2 step35 t5 t5encoder talkie \
    wavtokenizer-dec xverse";

/// Errors in spite of which llama.cpp loads a file: it warns of an id out of range and goes on without it, and never
/// applies a merge that is none.
const LLAMA_TAKES: &[&str] = &["bad-merge", "nothing-to-add", "token-id"];

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
    let theirs = deciding().filter(|(_, code)| !LLAMA_TAKES.contains(code));
    let codes = |errors: &mut dyn Iterator<Item = (&str, &'static str)>| {
        let mut codes: Vec<String> = errors.map(|(_, code)| code.to_owned()).collect();
        codes.dedup();
        codes
    };
    let (ours, theirs) = (codes(&mut { ours }), codes(&mut { theirs }));
    let of = |engine: &str, (loads, reasons): (Loads, Vec<String>)| Verdict {
        engine: engine.to_owned(),
        loads,
        reasons,
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
            "the architecture \"{}\" is not supported",
            name.unwrap_or_default()
        )),
    }
    let has = |code: &str| findings.list.iter().any(|finding| finding.code == code);
    if has("tokenizer-kind") {
        reasons.push("the kind of tokenizer is not supported".to_owned());
    }
    if has("experts-unchecked") {
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
    let name = subject.architecture();
    let known = name.is_some_and(|name| {
        LLAMA_ARCHITECTURES
            .split_whitespace()
            .any(|known| known == name)
    });
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
    let has = |code: &str| findings.list.iter().any(|finding| finding.code == code);
    let unchecked = [
        "architecture-unknown",
        "experts-unchecked",
        "tokenizer-kind",
    ];
    if unchecked.iter().any(|code| has(code)) {
        return (
            Loads::Unknown,
            vec![
                "it knows the architecture, of which gristmill could not check everything"
                    .to_owned(),
            ],
        );
    }
    (Loads::Yes, reasons)
}
