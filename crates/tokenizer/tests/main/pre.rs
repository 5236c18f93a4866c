//! Pre-tokenizers against the regular expressions that they stand for.

use gristmill_tokenizer::pre::{self, PRE_TOKENIZERS, PreTokenizer};

/// Characters of every class that a pattern tells apart, the frequent ones several times.
const ALPHABET: &[&str] = &[
    " ", " ", " ", " ", "  ", "\n", "\n", "\r\n", "\t", "\u{A0}", "\u{85}", "\u{2028}", "a", "a",
    "b", "s", "t", "re", "E", "LL", "d", "Z", "é", "É", "ß", "ǅ", "Ж", "ж", "中", "文", "あ", "カ",
    "가", "ʰ", "ª", "\u{301}", "\u{93F}", "क", "ि", "1", "2", "3", "45", "٣", "Ⅷ", "½", "'", "'",
    "’", ".", ",", "!", "?", "-", "/", "(", ")", "_", "\"", "<", "|", ">", "=", "+", "$", "^", "~",
    "`", "€", "。", "，", "！", "…", "«", "😀", "\u{200D}", "\u{200B}", "\u{FE0F}", "\0", "\u{1}",
    "\u{E000}", "\u{378}",
];

pub(crate) fn random_text(state: &mut u64, n_most: u64) -> String {
    let mut next = |n: u64| {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % n
    };
    let n = next(n_most) + 1;
    (0..n)
        .map(|_| ALPHABET[next(ALPHABET.len() as u64) as usize])
        .collect()
}

fn split(pre: &PreTokenizer, text: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    pre.split(text, &mut |word| words.push(word.to_vec()));
    words
}

/// What `tokenizer.json` means: each expression isolates its matches in the pieces of the one before.
fn split_by_patterns(patterns: &[fancy_regex::Regex], text: &str) -> Vec<Vec<u8>> {
    let mut pieces = vec![text.to_owned()];
    for pattern in patterns {
        let mut next = Vec::new();
        for piece in pieces {
            let mut at = 0;
            for found in pattern.find_iter(&piece) {
                let found = found.unwrap();
                next.push(piece[at..found.start()].to_owned());
                next.push(found.as_str().to_owned());
                at = found.end();
            }
            next.push(piece[at..].to_owned());
        }
        pieces = next;
        pieces.retain(|piece| !piece.is_empty());
    }
    pieces.into_iter().map(String::into_bytes).collect()
}

#[test]
fn scanners_cut_as_their_regular_expressions() {
    for pre in PRE_TOKENIZERS {
        let name = pre.names[0].name;
        if matches!(name, "superbpe" | "tiny_aya") {
            // As in the reference, all numbers count as digits, and what follows a number does not matter.
            continue;
        }
        for patterns in pre.patterns {
            if name == "deepseek-llm" && *patterns.last().unwrap() == r"\p{N}" {
                // A second spelling that files use for the same name.
                continue;
            }
            let compiled: Vec<fancy_regex::Regex> = patterns
                .iter()
                // Possessive quantifiers are not known here; greedy ones match the same in this pattern.
                .map(|pattern| pattern.replace("?+", "?").replace("++", "+"))
                .map(|pattern| fancy_regex::Regex::new(&pattern).unwrap())
                .collect();
            let mut state = 7;
            for _ in 0..3000 {
                let text = random_text(&mut state, 24);
                let expected = split_by_patterns(&compiled, &text);
                let ours = split(pre, text.as_bytes());
                assert_eq!(show(&ours), show(&expected), "{name}: {text:?}");
            }
        }
    }
}

fn show(words: &[Vec<u8>]) -> Vec<String> {
    words
        .iter()
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

#[test]
fn words_are_never_empty_and_join_to_the_text() {
    let mut state = 3;
    for pre in PRE_TOKENIZERS {
        for n in 0..2000 {
            let mut text = random_text(&mut state, 16).into_bytes();
            if n % 2 == 0 {
                let at = n % text.len();
                text[at] ^= 0xA5;
                text.truncate(text.len().saturating_sub(n % 3));
            }
            let words = split(pre, &text);
            assert!(
                words.iter().all(|word| !word.is_empty()),
                "{}",
                pre.names[0].name
            );
            assert_eq!(words.concat(), text, "{}", pre.names[0].name);
        }
    }
}

#[test]
fn names_are_unique_and_found() {
    let mut names: Vec<&str> = PRE_TOKENIZERS
        .iter()
        .flat_map(|pre| pre.names)
        .map(|name| name.name)
        .collect();
    for name in &names {
        assert_eq!(pre::by_name(name).unwrap().1.name, *name);
    }
    let n_names = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), n_names);
}

#[test]
fn patterns_find_the_first_name_of_their_group() {
    for pre in PRE_TOKENIZERS {
        for patterns in pre.patterns {
            let first = &pre.names[0];
            let found = pre::by_patterns(patterns, first.ignore_merges).unwrap();
            assert_eq!(found.name, first.name);
            let (nearest, _) = pre::by_name(pre::nearest(patterns)).unwrap();
            assert!(nearest.patterns.contains(patterns));
        }
    }
    assert_eq!(pre::by_patterns(&["x"], false), None);
    let nearly = [
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+",
    ];
    assert_eq!(pre::nearest(&nearly), "qwen2");
}

/// Case B52: vowel signs stay in their words under the pattern of GPT-4o.
#[test]
fn b52_combining_marks_stay_in_words() {
    let (pre, _) = pre::by_name("gpt-4o").unwrap();
    assert_eq!(
        show(&split(pre, "नमस्ते दुनिया".as_bytes())),
        ["नमस्ते", " दुनिया"]
    );
}

/// Case B50: the bytes of a cut character stay together in one word.
#[test]
fn b50_a_cut_character_is_one_word() {
    for name in ["gpt-2", "llama-bpe", "qwen2", "smollm", "default"] {
        let (pre, _) = pre::by_name(name).unwrap();
        assert_eq!(split(pre, b"a\xE6\xAD"), [&b"a"[..], b"\xE6\xAD"], "{name}");
    }
}
