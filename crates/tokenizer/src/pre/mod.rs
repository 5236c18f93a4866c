//! Pre-tokenizers: how a text is cut into words before merges are applied.
//!
//! One file per group of names that cut alike. To add one: write its file and add its line to
//! [`PRE_TOKENIZERS`]; the loader, the converter's lookup and the tests loop over that slice.

mod bailingmoe;
mod bloom;
mod chatglm;
mod dbrx;
mod deepseek3;
mod deepseek_coder;
mod deepseek_llm;
mod default;
mod falcon;
mod gpt2;
mod gpt4o;
mod grok2;
mod kimi_k2;
mod laguna;
mod llama3;
mod minicpm5;
mod qwen2;
mod qwen35;
mod seed_coder;
mod starcoder;
mod superbpe;
mod tekken;
mod tiny_aya;
mod ufakzeka;
mod viking;

use crate::scan::Sink;

pub use crate::scan::{GPT2_PATTERN, PUNCTUATION_PATTERN};

/// All pre-tokenizers, alphabetical by file.
pub static PRE_TOKENIZERS: &[&PreTokenizer] = &[
    &bailingmoe::PRE,
    &bloom::PRE,
    &chatglm::PRE,
    &dbrx::PRE,
    &deepseek3::PRE,
    &deepseek_coder::PRE,
    &deepseek_llm::PRE,
    &default::PRE,
    &falcon::PRE,
    &gpt2::PRE,
    &gpt4o::PRE,
    &grok2::PRE,
    &kimi_k2::PRE,
    &laguna::PRE,
    &llama3::PRE,
    &minicpm5::PRE,
    &qwen2::PRE,
    &qwen35::PRE,
    &seed_coder::PRE,
    &starcoder::PRE,
    &superbpe::PRE,
    &tekken::PRE,
    &tiny_aya::PRE,
    &ufakzeka::PRE,
    &viking::PRE,
];

/// One stage of a pre-tokenizer: cuts a piece into smaller ones. It never hands out an empty piece, and
/// the pieces together are the text.
pub(crate) type Stage = fn(&[u8], &mut Sink<'_>);

/// A way to cut text into words, under one or more names.
pub struct PreTokenizer {
    /// Names in `tokenizer.ggml.pre`. The first is the one that a converter writes.
    pub names: &'static [Name],
    /// The regular expressions of `tokenizer.json` that mean this pre-tokenizer, each a sequence applied
    /// one after another (see [`by_patterns`]).
    pub patterns: &'static [&'static [&'static str]],
    /// Applied one after another, each to the pieces of the one before.
    pub(crate) stages: &'static [Stage],
}

/// A name of a pre-tokenizer, with what else the name implies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// The value of `tokenizer.ggml.pre`.
    pub name: &'static str,
    /// A word that is a token as a whole is taken as it is, whatever the merges say.
    pub ignore_merges: bool,
    /// `tokenizer.ggml.add_bos_token` when the file does not say.
    pub add_bos: bool,
    /// Detokenizing a whole text removes the space before `.`, `,`, `?`, `!` and some apostrophes.
    pub clean_spaces: bool,
    /// A vocabulary without `tokenizer.ggml.bos_token_id` has the usual one (11).
    pub has_default_bos: bool,
    /// The file can do without merges: words are tokens.
    pub merges_optional: bool,
    /// `<mask>` takes the white space before it.
    pub mask_strips_left: bool,
}

impl Name {
    /// A name with the usual flags: merges count, no beginning token, spaces cleaned.
    const fn new(name: &'static str) -> Name {
        Name {
            name,
            ignore_merges: false,
            add_bos: false,
            clean_spaces: true,
            has_default_bos: true,
            merges_optional: false,
            mask_strips_left: false,
        }
    }

    const fn ignore_merges(self) -> Name {
        Name {
            ignore_merges: true,
            ..self
        }
    }

    const fn add_bos(self) -> Name {
        Name {
            add_bos: true,
            ..self
        }
    }

    const fn keep_spaces(self) -> Name {
        Name {
            clean_spaces: false,
            ..self
        }
    }

    const fn merges_optional(self) -> Name {
        Name {
            merges_optional: true,
            ..self
        }
    }

    const fn mask_strips_left(self) -> Name {
        Name {
            mask_strips_left: true,
            ..self
        }
    }

    const fn no_default_bos(self) -> Name {
        Name {
            has_default_bos: false,
            ..self
        }
    }
}

impl PreTokenizer {
    /// Hands the words of `text` to `sink`, in order. Linear in the length of the text.
    pub fn split(&self, text: &[u8], sink: &mut dyn FnMut(&[u8])) {
        run(self.stages, text, sink);
    }
}

/// Applies the stages; the depth of the recursion is their number, never the text's length.
fn run(stages: &[Stage], piece: &[u8], sink: &mut Sink<'_>) {
    match stages {
        [] => sink(piece),
        [last] => last(piece, sink),
        [first, rest @ ..] => first(piece, &mut |part| run(rest, part, sink)),
    }
}

/// The pre-tokenizer with this name, for example `llama-bpe`.
pub fn by_name(name: &str) -> Option<(&'static PreTokenizer, &'static Name)> {
    PRE_TOKENIZERS
        .iter()
        .find_map(|pre| Some((*pre, pre.names.iter().find(|known| known.name == name)?)))
}

/// The name that a converter writes for a tokenizer which cuts by these regular expressions, one after
/// another. The GPT-2 expression of `ByteLevel` counts as one of them, `Digits` as `\p{N}` or `\p{N}+`.
/// Among groups with the same expressions, one with the same `ignore_merges` is preferred.
pub fn by_patterns<S: AsRef<str>>(patterns: &[S], ignore_merges: bool) -> Option<&'static Name> {
    let same = |known: &&[&str]| {
        known.len() == patterns.len() && known.iter().zip(patterns).all(|(a, b)| *a == b.as_ref())
    };
    let mut names = PRE_TOKENIZERS
        .iter()
        .filter(|pre| pre.patterns.iter().any(&same))
        .filter_map(|pre| pre.names.first());
    let first = names.next()?;
    let mut all = std::iter::once(first).chain(names);
    Some(
        all.find(|name| name.ignore_merges == ignore_merges)
            .unwrap_or(first),
    )
}

/// The known name whose regular expressions resemble these most, for error messages.
pub fn nearest<S: AsRef<str>>(patterns: &[S]) -> &'static str {
    let wanted: Vec<&str> = patterns.iter().map(AsRef::as_ref).collect();
    let wanted = wanted.join("\n");
    let score = |pre: &&PreTokenizer| {
        let known = pre
            .patterns
            .iter()
            .map(|known| similarity(&known.join("\n"), &wanted));
        known.max().unwrap_or(0)
    };
    let best = PRE_TOKENIZERS
        .iter()
        .filter(|pre| !pre.patterns.is_empty())
        .max_by_key(|pre| score(pre));
    best.and_then(|pre| pre.names.first())
        .map_or("default", |name| name.name)
}

/// The known name that resembles this one most, for error messages.
pub fn nearest_name(name: &str) -> &'static str {
    let names = PRE_TOKENIZERS.iter().flat_map(|pre| pre.names);
    names
        .max_by_key(|known| similarity(known.name, name))
        .map_or("default", |known| known.name)
}

/// How many of 1000 pairs of adjacent characters two strings share (Dice's coefficient).
fn similarity(a: &str, b: &str) -> usize {
    let pairs = |text: &str| {
        let bytes = text.as_bytes();
        let mut pairs: Vec<[u8; 2]> = bytes.windows(2).map(|pair| [pair[0], pair[1]]).collect();
        pairs.sort_unstable();
        pairs
    };
    let (a, b) = (pairs(a), pairs(b));
    let (mut i, mut j, mut n_shared) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                n_shared += 1;
                i += 1;
                j += 1;
            }
        }
    }
    2000 * n_shared / (a.len() + b.len()).max(1)
}
