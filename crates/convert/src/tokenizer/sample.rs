//! The vocabulary of the finished file beside the definition that it was made from: a sample of texts is turned to tokens
//! by both. What a GGUF file cannot say, and what was read wrongly, shows as a difference.
//!
//! The definition is carried out by the library that it was written for. It may come from anyone: what could ask for much
//! memory is taken out first, expressions are bounded by that library, and should it panic, the comparison ends.

use std::panic::AssertUnwindSafe;
use std::path::Path;

use gristmill_tokenizer::{EncodeOptions, Tokenizer};
use serde_json::Value;

use crate::ConvertError;
use crate::small_file::read_json;

/// Texts that tell tokenizers apart, by name.
const SAMPLE: &[(&str, &str)] = &[
    ("English", "The quick brown fox jumps over the lazy dog."),
    ("contractions", "It's what we'll DON'T they've I'M he'd"),
    ("numbers", "1 22 333 4444 55555 3.14 1,000,000 x2y3"),
    ("a space in front", " leading"),
    ("spaces", "two  three   four    and at the end   "),
    ("line breaks", "one\ntwo\n\nthree\r\n\n  \n\tfour\n"),
    ("code", "def f(x):\n\treturn x**2  # {a: [1], \"b\": 'c'}\n"),
    (
        "punctuation",
        "...!!!??? -- ------ ======= (a)[b]{c} \u{201c}quoted\u{201d} \u{2014} \u{2026}",
    ),
    (
        "an address",
        "https://example.org/a_b?c=1&d=%20#e, me@example.org",
    ),
    ("capitals", "HelloWorld HTTPServer iPhone McDonald ÄÖÜ"),
    ("French", "Où êtes-vous ? L'été, ça va \u{ab} bien \u{bb}."),
    ("German", "Größe, Straße, Übermut tut selten gut"),
    (
        "accents by themselves",
        "e\u{301}te\u{301} n\u{303} o\u{308}",
    ),
    ("Greek", "Καλημέρα κόσμε"),
    ("Russian", "нещо на Български, Ёлка"),
    ("Arabic", "مَرحَبًا بالعالم ١٢٣"),
    ("Hebrew", "שָׁלוֹם עולם"),
    ("Hindi", "नमस्ते दुनिया क्षत्रिय"),
    ("Thai", "สวัสดีชาวโลก"),
    ("Khmer", "កាន់តែពិសេសអាច"),
    ("Chinese", "我想在apple工作1314151天～，好吗？"),
    ("Japanese", "東京タワーへ行きました。ｶﾀｶﾅ"),
    ("Korean", "안녕하세요 세계"),
    (
        "emoji",
        "🚀 (normal) 😶\u{200d}🌫️ 👩\u{200d}👩\u{200d}👧 ✅ 🦙🦙",
    ),
    ("symbols", "½ ² ™ € № ∑ → ﬁ Ⅳ"),
    (
        "rare characters",
        "\u{7}bell \u{a0}hard\u{3000}wide\u{200b}zero \u{feff}mark 𝒳 \u{10ffff}",
    ),
    (
        "one long word",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ),
];

/// Most added tokens that are tried within a text.
const ADDED_MAX: usize = 16;

/// Ids of a text that are shown.
const SHOWN_MAX: usize = 16;

/// Whether the file's tokenizer gives the ids of the folder's `tokenizer.json`, where there is one; a sentence if not.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn compare(folder: &Path, ours: &Tokenizer) -> Result<Option<String>, ConvertError> {
    let Some(mut definition) = read_json::<Value>(&folder.join("tokenizer.json"))? else {
        return Ok(None);
    };
    if let Some(parts) = definition.as_object_mut() {
        // What a text is filled up to or cut off at.
        for part in ["padding", "truncation", "post_processor"] {
            parts.insert(part.to_owned(), Value::Null);
        }
    }
    let work = AssertUnwindSafe(|| differences(&definition, ours));
    Ok(match std::panic::catch_unwind(work) {
        Ok(Ok(None)) => None,
        Ok(Ok(Some(sentence))) => Some(sentence),
        Ok(Err(reason)) => Some(format!(
            "tokenizer.json could not be tried on the sample texts: {reason}"
        )),
        Err(_) => Some(
            "tokenizer.json could not be tried on the sample texts: the tokenizers library failed"
                .to_owned(),
        ),
    })
}

fn differences(definition: &Value, ours: &Tokenizer) -> Result<Option<String>, String> {
    let text = definition.to_string();
    let theirs: tokenizers::Tokenizer = text
        .parse()
        .map_err(|error: tokenizers::Error| error.to_string())?;
    let plain = SAMPLE.iter();
    let mut texts: Vec<(String, String)> = plain
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect();
    texts.extend(around_added(definition));
    let options = EncodeOptions {
        add_special: false,
        parse_special: true,
    };
    let (mut n_different, mut first) = (0, None);
    for (name, text) in &texts {
        let by_definition = theirs
            .encode(text.as_str(), false)
            .map_err(|error| error.to_string())?;
        let in_file = ours.encode(text, options);
        if by_definition.get_ids() != in_file {
            n_different += 1;
            first.get_or_insert_with(|| {
                format!(
                    "{name}: {text:?} has the ids {} by tokenizer.json, and {} in the file",
                    shown(by_definition.get_ids()),
                    shown(&in_file)
                )
            });
        }
    }
    let more = match definition["model"]["type"].as_str() {
        Some("WordPiece") => {
            " (for WordPiece, programs drop every mark, keep the first letter of a Hangul syllable and take no word for too long)"
        }
        _ => normalization(&definition["normalizer"]),
    };
    Ok(first.map(|first| {
        format!(
            "{n_different} of {} sample texts get other tokens than by tokenizer.json; the first, {first}{more}",
            texts.len()
        )
    }))
}

/// Texts with an added token in the middle, for those whose surroundings or case matter.
fn around_added(definition: &Value) -> Vec<(String, String)> {
    let added = definition.get("added_tokens").and_then(Value::as_array);
    let matters = |token: &&Value| {
        let is_on = |key: &str| token.get(key) == Some(&Value::Bool(true));
        ["lstrip", "rstrip", "single_word"].into_iter().any(is_on) || !is_on("special")
    };
    let tokens = added.into_iter().flatten().filter(matters);
    let texts = tokens.filter_map(|token| token.get("content")?.as_str());
    let texts = texts.take(ADDED_MAX);
    texts
        .map(|token| {
            let name = format!("the added token {token:?}");
            (name, format!("a {token} b{token}c"))
        })
        .collect()
}

/// What a definition does to a text first and no program does to a GGUF file's.
fn normalization(normalizer: &Value) -> &'static str {
    let text = normalizer.to_string();
    let forms = ["\"NFC\"", "\"NFD\"", "\"NFKC\"", "\"NFKD\""];
    match forms.iter().any(|form| text.contains(form)) {
        true => {
            " (tokenizer.json normalizes text to a Unicode form, which programs do for no GGUF file)"
        }
        false => "",
    }
}

fn shown(ids: &[u32]) -> String {
    let numbers = ids.iter().take(SHOWN_MAX).map(u32::to_string);
    let numbers = numbers.collect::<Vec<_>>().join(", ");
    match ids.len() > SHOWN_MAX {
        true => format!("[{numbers}, …]"),
        false => format!("[{numbers}]"),
    }
}
