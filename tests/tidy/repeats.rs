//! Passages that stand twice: where the logic is the same, one piece of code serves both places.

use std::collections::HashMap;

use super::source::Source;

/// How many lines of one function's body make a passage; lines of brackets alone do not count. Signatures and tables of
/// data may be alike.
const PASSAGE_LINES: usize = 6;

/// Passages that may stand in both files (or twice in one), each with the reason.
const EXPLAINED: &[(&str, &str, &str)] = &[
    (
        "crates/gguf/src/edit/draft.rs",
        "crates/gguf/src/writer.rs",
        "one call, with arguments of the same names",
    ),
    (
        "crates/quant/src/search.rs",
        "crates/quant/src/search.rs",
        "a search with and one without a minimum: the inner loop stores other things",
    ),
    (
        "crates/quant/src/types/iq2_xs.rs",
        "crates/quant/src/types/iq2_xxs.rs",
        "a shared loop would take a closure, which is compiled without the instruction set: thirty times slower",
    ),
    (
        "src/cmd/merge.rs",
        "src/cmd/split.rs",
        "the reference merges under `split --merge`: the same flags become the same options",
    ),
];

/// A line of code in a function that is no test.
struct Line {
    number: usize,
    /// Index of the innermost function.
    function: usize,
    text: String,
}

fn telling_lines(source: &Source) -> Vec<Line> {
    let functions = source.functions();
    let mut at = 0;
    let mut lines = Vec::new();
    for (index, line) in source.text.lines().enumerate() {
        let code = source.code[at..at + line.len()].trim();
        let function = functions
            .iter()
            .rposition(|function| function.body.contains(&at));
        if let Some(function) = function
            && !functions[function].is_test
            && code.chars().any(char::is_alphanumeric)
        {
            let (number, text) = (index + 1, line.trim().to_owned());
            lines.push(Line {
                number,
                function,
                text,
            });
        }
        at += line.len() + 1;
    }
    lines
}

/// Every passage that stands twice, as a violation.
pub fn repeats(sources: &[Source], explained: &[(&str, &str, &str)]) -> Vec<String> {
    let files: Vec<_> = sources.iter().map(telling_lines).collect();
    // Where a passage stands first: its file, and its lines from there on to the end of the function.
    let mut first: HashMap<Vec<&str>, (usize, &[Line])> = HashMap::new();
    let mut found = Vec::new();
    for (file, lines) in files.iter().enumerate() {
        for body in lines.chunk_by(|a, b| a.function == b.function) {
            let mut skip = 0;
            for (start, window) in body.windows(PASSAGE_LINES).enumerate() {
                let passage: Vec<_> = window.iter().map(|line| line.text.as_str()).collect();
                let (other, there) = *first.entry(passage).or_insert((file, &body[start..]));
                let overlaps = there[0].function == window[0].function
                    && other == file
                    && there[0].number + PASSAGE_LINES > window[0].number;
                if start < skip || overlaps {
                    continue;
                }
                let pairs = there.iter().zip(&body[start..]);
                let common = pairs.take_while(|(a, b)| a.text == b.text).count();
                skip = start + common;
                let (a, b) = (&sources[other].path, &sources[file].path);
                if !explained.iter().any(|(x, y, _)| x == a && y == b) {
                    let (there, here) = (there[0].number, window[0].number);
                    found.push(format!("{a}:{there} ~ {b}:{here}: {common} lines"));
                }
            }
        }
    }
    found
}

#[test]
fn no_passage_stands_twice() {
    super::report(repeats(&super::sources(&super::root()), EXPLAINED));
}

#[test]
fn a_passage_that_stands_twice_is_found() {
    let body = |name: &str| {
        let lines: Vec<String> = (0..9).map(|n| format!("    step_{n}(x)?;")).collect();
        format!("fn {name}(x: u32) {{\n{}\n}}\n", lines.join("\n"))
    };
    let two = [
        Source::new("src/a.rs", &body("a")),
        Source::new("src/b.rs", &body("b")),
    ];
    assert_eq!(repeats(&two, &[]), ["src/a.rs:2 ~ src/b.rs:2: 9 lines"]);
    assert_eq!(
        repeats(&two, &[("src/a.rs", "src/b.rs", "planted")]),
        [""; 0]
    );
    let one = [Source::new("src/a.rs", &(body("a") + &body("b")))];
    assert_eq!(repeats(&one, &[]).len(), 1);
    let tests = [
        Source::new("src/a.rs", &body("a")),
        Source::new("tests/b.rs", &body("b")),
    ];
    assert_eq!(repeats(&tests, &[]), [""; 0]);
}
