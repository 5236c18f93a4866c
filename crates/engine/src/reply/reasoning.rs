//! The marks around reasoning.

/// A mark before and one behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reasoning {
    /// The mark before.
    pub start: &'static str,
    /// The mark behind.
    pub end: &'static str,
}

const fn marks(start: &'static str, end: &'static str) -> Reasoning {
    Reasoning { start, end }
}

/// Every pair; a template has the first one whose marks it names. The last one is that of a template that names none,
/// since models that learned to think use it under templates of others.
pub static REASONING: &[Reasoning] = &[
    marks("<|channel|>analysis<|message|>", "<|end|>"),
    marks("<|channel>thought", "<channel|>"),
    marks("<|START_THINKING|>", "<|END_THINKING|>"),
    marks("<|inner_prefix|>", "<|inner_suffix|>"),
    marks("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    marks("<|begin|>assistant<|think|>", "<|end|>"),
    marks("<|start|>assistant to=self<|message|>", "<|eom|>"),
    marks("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
    marks("[THINK]", "[/THINK]"),
    marks("<seed:think>", "</seed:think>"),
    marks("<mm:think>", "</mm:think>"),
    marks("◁think▷", "◁/think▷"),
    marks("<think>", "</think>"),
];

impl Reasoning {
    /// The marks that a template names. Parts of the marks are enough: templates put them together.
    pub fn of_template(template: &str) -> Self {
        Self::named_by(template).unwrap_or(marks("<think>", "</think>"))
    }

    /// Whether a template shows how reasoning is marked; the mark behind is enough, by which many leave it out of earlier answers.
    pub fn is_shown(template: &str) -> bool {
        Self::named_by(template).is_some() || template.contains("</think>")
    }

    /// The same; nothing where it names none.
    pub(super) fn named_by(template: &str) -> Option<Self> {
        let names = |text: &str| parts(text).all(|part| template.contains(part));
        let mut pairs = REASONING.iter();
        let found = pairs.find(|pair| names(pair.start) && names(pair.end));
        found.copied()
    }
}

/// The tokens in angle brackets that a mark is made of, and the words between them.
fn parts(mark: &str) -> impl Iterator<Item = &str> {
    let pieces = mark.split_inclusive("|>");
    pieces.flat_map(|piece| match piece.find("<|") {
        Some(at) if at > 0 => vec![&piece[..at], &piece[at..]],
        _ => vec![piece],
    })
}
