//! What a model's name says about it: base name, size, fine-tune, version.

use super::Size;
use std::collections::BTreeSet;

/// The parts of a name such as `org/Base-7B-Chat-v0.3`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ModelId {
    pub name: Option<String>,
    pub organization: Option<String>,
    pub basename: Option<String>,
    pub finetune: Option<String>,
    pub version: Option<String>,
    pub size_label: Option<String>,
}

/// What a part of a name may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Basename,
    SizeLabel,
    Finetune,
    Version,
    Type,
}

struct Part {
    text: String,
    kinds: BTreeSet<Kind>,
}

impl ModelId {
    /// Takes a name apart. The size of the model at hand tells sizes from context lengths.
    pub fn parse(id: &str, size: Size) -> Self {
        if id.contains(' ') {
            // A sentence, not an identifier.
            return Self {
                name: Some(id.to_owned()),
                ..Self::default()
            };
        }
        let (organization, name) = match id.split_once('/') {
            Some((organization, name)) => (Some(organization), name),
            None => (None, id),
        };
        let organization = organization.filter(|organization| !organization.starts_with('.'));
        let parts = parts(name, size);
        let joined = |wanted: &dyn Fn(&BTreeSet<Kind>) -> bool| {
            let texts: Vec<&str> = parts
                .iter()
                .filter(|part| wanted(&part.kinds))
                .map(|part| part.text.as_str())
                .collect();
            (!texts.is_empty()).then(|| texts.join("-"))
        };
        let finetune = joined(&|kinds| kinds.contains(&Kind::Finetune));
        let version =
            joined(&|kinds| kinds.contains(&Kind::Version) && !kinds.contains(&Kind::Basename));
        let size_label = size_label(&parts);
        let basename = joined(&|kinds| kinds.contains(&Kind::Basename));
        // A base name alone may be anything.
        let telling = size_label.is_some() || finetune.is_some() || version.is_some();
        Self {
            name: Some(name.to_owned()),
            organization: organization.map(str::to_owned),
            basename: basename.filter(|_| telling),
            finetune,
            version,
            size_label,
        }
    }
}

fn size_label(parts: &[Part]) -> Option<String> {
    let mut labels: Vec<&str> = Vec::new();
    for part in parts
        .iter()
        .filter(|part| part.kinds.contains(&Kind::SizeLabel))
    {
        if !labels.contains(&part.text.as_str()) {
            labels.push(&part.text);
        }
    }
    (!labels.is_empty()).then(|| labels.join("-"))
}

fn parts(name: &str, known: Size) -> Vec<Part> {
    let texts = name.split('-').filter(|text| !text.is_empty()).enumerate();
    let mut parts: Vec<Part> = texts
        .map(|(index, text)| annotated(index, text, known))
        .collect();
    let is_size = |part: &Part| part.kinds.contains(&Kind::SizeLabel);
    // A word for a size counts only where no number does.
    if parts
        .iter()
        .any(|part| is_size(part) && part.text.contains(|char: char| char.is_ascii_digit()))
    {
        for part in parts
            .iter_mut()
            .filter(|part| part.text.chars().all(char::is_alphabetic))
        {
            part.kinds.remove(&Kind::SizeLabel);
        }
    }
    let mut at_start = true;
    for part in &mut parts {
        let nameless = part.kinds.is_empty() && part.text.starts_with(char::is_alphabetic);
        if at_start && (nameless || part.kinds.contains(&Kind::Version)) {
            part.kinds.insert(Kind::Basename);
        } else {
            at_start = false;
            if part.kinds.is_empty() {
                part.kinds.insert(Kind::Finetune);
            }
        }
    }
    // A version at the end is not part of the base name.
    for part in parts.iter_mut().rev() {
        if part.kinds.len() < 2 || !part.kinds.remove(&Kind::Basename) {
            break;
        }
    }
    parts
}

fn annotated(index: usize, text: &str, known: Size) -> Part {
    let lower = text.to_ascii_lowercase();
    let (kind, text) = if is_version(&lower) {
        (Some(Kind::Version), text.to_owned())
    } else if is_type(&lower) {
        (Some(Kind::Type), text.to_uppercase())
    } else if index > 0 && is_size(&lower) {
        let (kind, text) = size(text, known);
        (Some(kind), text)
    } else if known.is_part && index > 0 && lower == "lora" {
        // Of an adapter's name no news.
        (Some(Kind::Type), text.to_owned())
    } else if index > 0 && ["chat", "instruct", "vision", "lora"].contains(&lower.as_str()) {
        (Some(Kind::Finetune), text.to_owned())
    } else {
        (None, text.to_owned())
    };
    Part {
        text,
        kinds: kind.into_iter().collect(),
    }
}

/// `v0.3`, `iter2`, `2.5`
fn is_version(text: &str) -> bool {
    let number = text
        .strip_prefix("iter")
        .or_else(|| text.strip_prefix('v'))
        .unwrap_or(text);
    !number.is_empty() && number.split('.').all(is_digits)
}

/// `q4_k_m`, `iq3_s`, `bf16`, `fp32`
fn is_type(text: &str) -> bool {
    let float = text.strip_prefix('b').unwrap_or(text);
    let float = float
        .strip_prefix('f')
        .map(|rest| rest.strip_prefix('p').unwrap_or(rest));
    if matches!(float, Some("16" | "32")) {
        return true;
    }
    let quantized = text.strip_prefix('i').unwrap_or(text).strip_prefix('q');
    quantized.is_some_and(|rest| {
        let mut groups = rest.split('_');
        let bits = groups.next().unwrap_or("");
        let single =
            |group: &str| group.chars().count() == 1 && group.chars().all(char::is_alphanumeric);
        bits.len() == 1 && is_digits(bits) && groups.all(single)
    })
}

/// `7b`, `0.5b`, `8x7b`, `a3b`, `7b1`, `small`, `xl`
fn is_size(text: &str) -> bool {
    if ["small", "mini", "medium", "large", "xl", "xxl"].contains(&text) {
        return true;
    }
    let number_and_unit = |text: &str| {
        let end = text.trim_end_matches(|char: char| char.is_ascii_digit());
        let unit = if text.len() - end.len() <= 1 {
            end
        } else {
            text
        };
        let Some(number) = unit.strip_suffix(['k', 'm', 'b', 't']) else {
            return false;
        };
        let mut halves = number.splitn(2, ['.', '_']);
        halves.next().is_some_and(is_digits) && halves.next().is_none_or(is_digits)
    };
    let after_count = text
        .split_once('x')
        .filter(|(count, _)| is_digits(count))
        .map(|(_, rest)| rest);
    number_and_unit(text)
        || text.strip_prefix('a').is_some_and(number_and_unit)
        || after_count.is_some_and(number_and_unit)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A size in its usual spelling; or, where it is far from the size of the model, a context length, which belongs to the
/// fine-tune.
fn size(text: &str, known: Size) -> (Kind, String) {
    let mut chars: Vec<char> = text.replace('_', ".").chars().collect();
    // `7b1` is 7.1 billion.
    if let [.., _, unit, digit] = chars[..]
        && digit.is_ascii_digit()
    {
        chars.truncate(chars.len() - 2);
        chars.extend(['.', digit, unit]);
    }
    let n = chars.len();
    if n > 1 && chars[n - 2].is_ascii_digit() {
        chars[n - 1].make_ascii_uppercase();
    }
    let number: String = chars[..n.saturating_sub(1)].iter().collect();
    let exponent = chars
        .last()
        .and_then(|unit| "KMBT".find(*unit))
        .map(|at| at as i32 + 1);
    if let (Ok(number), Some(exponent), true) =
        (number.parse::<f64>(), exponent, known.n_params != 0)
    {
        let label = number * 1000f64.powi(exponent);
        let n_params = known.n_params as f64;
        let is_far = match known.is_part {
            true => label < (known.n_params / 8) as f64,
            false => (label - n_params).abs() > (u128::from(known.n_params) * 7 / 8) as f64,
        };
        if is_far {
            chars[n - 1].make_ascii_lowercase();
            return (Kind::Finetune, chars.into_iter().collect());
        }
    }
    (Kind::SizeLabel, chars.into_iter().collect())
}

/// Words with capitals, numbers and versions left alone: `tiny-llama v0.2` becomes `Tiny Llama v0.2`.
pub(super) fn title(id: &str) -> String {
    let id = id.replace('-', " ");
    let words = id.split_whitespace().map(|word| {
        let is_lower =
            word.chars().any(char::is_lowercase) && !word.chars().any(char::is_uppercase);
        let is_version = word
            .strip_prefix('v')
            .is_some_and(|rest| rest.split('.').all(is_digits));
        let is_number = word.starts_with(|char: char| char.is_ascii_digit());
        if is_lower && !is_version && !is_number {
            capitalized(word)
        } else {
            word.to_owned()
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A capital wherever a letter follows something that is none.
fn capitalized(word: &str) -> String {
    let mut after_letter = false;
    let mut out = String::with_capacity(word.len());
    for char in word.chars() {
        let is_letter = char.is_lowercase() || char.is_uppercase();
        if is_letter && !after_letter {
            out.extend(char.to_uppercase());
        } else {
            out.push(char);
        }
        after_letter = is_letter;
    }
    out
}

/// The number of parameters in two digits or more: `1.4M`, `143K`, `7.2B`.
pub(super) fn size_of(n_params: u64) -> String {
    let n = n_params as f64;
    let (scaled, unit) = match n {
        _ if n > 1e12 => (n * 1e-12, 'T'),
        _ if n > 1e9 => (n * 1e-9, 'B'),
        _ if n > 1e6 => (n * 1e-6, 'M'),
        _ => (n * 1e-3, 'K'),
    };
    // Ties go to even, as in the format below.
    let whole = format!("{scaled:.0}");
    let n_digits = whole.trim_start_matches('0').len();
    format!("{scaled:.*}{unit}", 2usize.saturating_sub(n_digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(id: &str, n_params: u64) -> [Option<String>; 5] {
        let id = ModelId::parse(id, n_params.into());
        [
            id.organization,
            id.basename,
            id.finetune,
            id.version,
            id.size_label,
        ]
    }

    fn expected(parts: [&str; 5]) -> [Option<String>; 5] {
        parts.map(|part| (!part.is_empty()).then(|| part.to_owned()))
    }

    /// Right values: the reference's own answers.
    #[test]
    fn names_are_taken_apart() {
        let cases = [
            (
                "Mistral-7B-Merge-14-v0.1",
                0,
                ["", "Mistral", "Merge", "14-v0.1", "7B"],
            ),
            ("Mixtral-8x7B-v0.1", 0, ["", "Mixtral", "", "v0.1", "8x7B"]),
            (
                "meta-llama/Llama-2-7b-hf",
                0,
                ["meta-llama", "Llama-2", "hf", "", "7B"],
            ),
            (
                "bigscience/bloom-7b1-petals",
                0,
                ["bigscience", "bloom", "petals", "", "7.1B"],
            ),
            (
                "smallthinker-4b-a0.6b-instruct",
                0,
                ["", "smallthinker", "instruct", "", "4B-a0.6B"],
            ),
            (
                "Qwen2.5-7B-Instruct",
                7_600_000_000,
                ["", "Qwen2.5", "Instruct", "", "7B"],
            ),
            (
                "Llama-3-8B-Instruct-262k",
                8_000_000_000,
                ["", "Llama-3", "Instruct-262k", "", "8B"],
            ),
            (
                "Tiny-Llama-0.2M-Chat-v0.3",
                228_352,
                ["", "Tiny-Llama", "Chat", "v0.3", "0.2M"],
            ),
            (
                "Phi-3-mini-4k-instruct",
                3_800_000_000,
                ["", "Phi-3", "4k-instruct", "", "mini"],
            ),
            ("v2-base-Large-7B", 0, ["", "v2-base-Large", "", "", "7B"]),
            (
                "foo-2-bar-iter3-7b",
                0,
                ["", "foo-2-bar-iter3", "", "", "7B"],
            ),
            ("model-q4_K_M-x", 0, ["", "model", "x", "", ""]),
            ("x-1_5b", 0, ["", "x", "", "", "1.5B"]),
            ("Qwen3-30B-A3B", 0, ["", "Qwen3", "", "", "30B-A3B"]),
            ("hf", 1_000_000, ["", "", "", "", ""]),
            ("a sentence about 7B models", 0, ["", "", "", "", ""]),
            ("./hf", 0, ["", "", "", "", ""]),
        ];
        for (id, n_params, parts) in cases {
            assert_eq!(parsed(id, n_params), expected(parts), "{id}");
        }
        for odd in [
            "", "-", "/", "//", "7", "x-7b1", "x-b", "x-1xb", "ü-7b", "x-xl", "v-v1", "x-1_5b",
            "a/b/c-1b",
        ] {
            ModelId::parse(odd, 1.into());
        }
    }

    #[test]
    fn titles_and_sizes() {
        assert_eq!(title("tiny-llama-v0.2-chat"), "Tiny Llama v0.2 Chat");
        assert_eq!(
            title("smollm2-135M-8k-lc100k-Mix1-ep2"),
            "Smollm2 135M 8k Lc100K Mix1 Ep2"
        );
        let sizes = [
            (1_385_728, "1.4M"),
            (143_424, "143K"),
            (228_352, "228K"),
            (109_120, "109K"),
            (999, "1.0K"),
            (5, "0.01K"),
            (7_241_732_096, "7.2B"),
            (134_515_008, "135M"),
        ];
        for (n_params, label) in sizes {
            assert_eq!(size_of(n_params), label, "{n_params}");
        }
    }
}
