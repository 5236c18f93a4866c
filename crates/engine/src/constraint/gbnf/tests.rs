use std::collections::BTreeSet;

use super::super::ConstraintSource;
use super::super::tests::{Walk, compiler};
use super::parse::{Rule, parse};
use super::*;

/// Where a fragment that begins at `start` may end: all ways are tried.
fn ends(rules: &[Rule], fragment: &Fragment, text: &[char], start: usize) -> BTreeSet<usize> {
    let from_all = |starts: BTreeSet<usize>, item: &Fragment| -> BTreeSet<usize> {
        let each = starts.into_iter();
        each.flat_map(|start| ends(rules, item, text, start))
            .collect()
    };
    match fragment {
        Fragment::Characters(characters) => {
            let next = text.get(start).map(|&next| Characters::of([(next, next)]));
            let is_there = next.is_some_and(|next| next.meets(characters));
            is_there.then_some(start + 1).into_iter().collect()
        }
        Fragment::Sequence(items) => items.iter().fold([start].into(), from_all),
        Fragment::Choice(items) => {
            let each = items.iter();
            each.flat_map(|item| ends(rules, item, text, start))
                .collect()
        }
        Fragment::Repeat(item, min, max) => {
            let mut starts: BTreeSet<usize> = [start].into();
            let mut found = BTreeSet::new();
            // What is longer than the text is empty in between.
            let rounds = max.unwrap_or(u32::MAX).min(min + text.len() as u32 + 1);
            for round in 0..=rounds {
                if round >= *min {
                    found.extend(&starts);
                }
                starts = from_all(starts, item);
            }
            found
        }
        Fragment::Rule(rule) => ends(rules, &rules[*rule].body, text, start),
        Fragment::Token { .. } => BTreeSet::new(),
    }
}

const LETTERS: [char; 3] = ['a', 'b', 'c'];
const LENGTH_MAX: usize = 6;

/// All texts of these letters up to a length.
fn texts() -> Vec<String> {
    let mut texts = vec![String::new()];
    let mut begin = 0;
    for _ in 0..LENGTH_MAX {
        let end = texts.len();
        for index in begin..end {
            let longer = LETTERS.map(|letter| format!("{}{letter}", texts[index]));
            texts.extend(longer);
        }
        begin = end;
    }
    texts
}

/// Collects the texts that may end where the walk is, and those that go on from there.
fn collect(walk: &Walk, text: &mut String, found: &mut BTreeSet<String>) {
    if walk.may_end() {
        found.insert(text.clone());
    }
    // A token of two letters is allowed where its letters are, one after another.
    let is_short = text.len() < 3;
    for (index, first) in LETTERS.iter().enumerate().filter(|_| is_short) {
        for (next_index, next) in LETTERS.iter().enumerate() {
            let by_letters = walk
                .after(*first as u8)
                .and_then(|walk| walk.after(*next as u8));
            let pair = (index * LETTERS.len() + next_index) as u32;
            assert_eq!(
                walk.allows_piece(pair),
                by_letters.is_some(),
                "{text}{first}{next}"
            );
        }
    }
    let is_shorter = text.len() < LENGTH_MAX;
    for letter in LETTERS.iter().filter(|_| is_shorter) {
        if let Some(next) = walk.after(*letter as u8) {
            text.push(*letter);
            collect(&next, text, found);
            text.pop();
        }
    }
}

#[test]
fn every_grammar_has_the_texts_that_all_ways_of_reading_it_give() {
    let pairs = LETTERS
        .iter()
        .flat_map(|a| LETTERS.iter().map(move |b| format!("{a}{b}")));
    let pairs: Vec<String> = pairs.collect();
    let pairs: Vec<&str> = pairs.iter().map(String::as_str).collect();
    let compiler = compiler(&pairs);
    for grammar in [
        r#"root ::= [a-b]+ "b""#,
        r#"root ::= "a" root "b" | """#,
        "root ::= x \"b\" | \"ab\" x \"a\"\nx ::= \"a\" x | \"a\"",
        r#"root ::= [a-b] "b" root | "abc" | [^a]"#,
        // Spaces next to each other, one of which could take all.
        "root ::= \"a\" s root s \"c\" | s \"c\" s\ns ::= \"b\"*",
        "root ::= (x | y) root?\nx ::= \"a\" | \"ab\"\ny ::= \"b\" \"a\"?",
        r#"root ::= ("" | "a")* "b" ("" | root)"#,
        "root ::= s s\ns ::= \"a\" s \"b\" | \"ab\"*",
        r#"root ::= "c" root "c" | ("a" | "ab"){1,3}"#,
        "root ::= \"a\"{2} root | \"a\"{3} end\nend ::= [bc]{0,2} \"b\"?",
        "root ::= word (\"c\" word)* tail\nword ::= [ab]+\ntail ::= \"ab\" tail | \"\"",
        "root ::= . root . | \"b\"",
        // A keyword within what a name may be.
        "root ::= item (\"c\" root)?\nitem ::= \"ab\" root | name\nname ::= [ab]{1,2}",
    ] {
        let rules = parse(grammar, &|_| None).unwrap();
        let is_text = |text: &String| {
            let letters: Vec<char> = text.chars().collect();
            ends(&rules, &rules[0].body, &letters, 0).contains(&letters.len())
        };
        let expected: BTreeSet<String> = texts().into_iter().filter(is_text).collect();
        assert!(!expected.is_empty());
        let constraint = compiler.compile(&ConstraintSource::Gbnf(grammar.into()));
        let constraint = constraint.unwrap_or_else(|error| panic!("{grammar}: {error}"));
        let mut found = BTreeSet::new();
        collect(&Walk::new(&constraint), &mut String::new(), &mut found);
        assert_eq!(
            found,
            expected,
            "{grammar}\n{}",
            to_lark(grammar, &|_| None).unwrap()
        );
    }
}

#[test]
fn what_loses_no_text_becomes_one_lexeme() {
    let lark = |grammar: &str| to_lark(grammar, &|_| None).unwrap();
    // No recursion: one regular expression.
    let date = "root ::= year \"-\" part \"-\" part\nyear ::= [0-9]{4}\npart ::= [0-9]{2}";
    assert_eq!(
        lark(date),
        "start: r0\nr0: /(?:(?:[\\x{30}-\\x{39}]){4,4}(?:[\\x{2D}])(?:[\\x{30}-\\x{39}]){2,2}(?:[\\x{2D}])(?:[\\x{30}-\\x{39}]){2,2})/\n"
    );
    // Strings and numbers of JSON stay whole, also where arrays and objects are recursive.
    let json = lark(JSON);
    for parts in [["\\x{22}", "\\x{75}"], ["\\x{2D}", "[\\x{45}\\x{65}]"]] {
        let mut lexemes = json.split('/');
        let is_whole = lexemes.any(|lexeme| parts.iter().all(|part| lexeme.contains(part)));
        assert!(is_whole, "{json}");
    }
}

/// JSON with spaces, as grammars for it are written.
pub(super) const JSON: &str = r##"
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws ( string ":" ws value ("," ws string ":" ws value)* )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= "\"" ( [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20} # a comment
"##;

#[test]
fn case_b84_faults_have_a_place_and_come_in_time() {
    let start = std::time::Instant::now();
    let fault = |grammar: &str| {
        let fault = to_lark(grammar, &|_| None).expect_err(grammar);
        (fault.at, fault.message)
    };
    let nested = format!("root ::= {}\"a\"", "(".repeat(60_000));
    for (grammar, at, message) in [
        (
            "root ::= root \"a\"\na ::= (\"\" | \"x\")*",
            0,
            "the rule `root` begins with itself (left recursion)",
        ),
        (
            "root ::= \"x\"\na ::= b* c\nb ::= \"b\"\nc ::= \"\" a | \"c\"",
            34,
            "the rule `c` begins with itself (left recursion)",
        ),
        (&nested, 110, "more than 100 groups within each other"),
        (
            "a ::= \"b\"",
            0,
            "there is no rule `root`, where a text begins",
        ),
        ("", 0, "there is no rule `root`, where a text begins"),
        ("root ::= \"a\" b", 13, "there is no rule `b`"),
        (
            r#"root ::= "\u12G4""#,
            10,
            "expected a character's code in 4 digits",
        ),
        (
            r#"root ::= "\uD800""#,
            10,
            "expected a character's code in 4 digits",
        ),
        (r#"root ::= "\q""#, 10, "this escape means nothing"),
        ("root ::= [z-a]", 10, "the range 'z' to 'a' is empty"),
        ("root ::= []", 9, "this class has no character"),
        ("root ::= [a", 9, "this has no end"),
        ("root ::= \"a", 9, "this has no end"),
        ("root ::= \"é\\", 12, "this escape means nothing"),
        (
            "root ::= *",
            10,
            "expected an item before `*`, `+`, `?` or `{`",
        ),
        ("root ::= \"a\"{3,2}", 12, "3 is more than 2"),
        (
            "root ::= \"a\"{99999999}",
            13,
            "expected a number of at most 1000000",
        ),
        (
            "root ::= \"a\"{1,",
            15,
            "expected a number of at most 1000000",
        ),
        ("root ::= (\"a\"", 13, "expected `)`"),
        (
            "root ::= \"a\" )",
            13,
            "expected an item, `|` or the end of the line",
        ),
        ("root = \"a\"", 5, "expected `::=` after the name of a rule"),
        (
            "root ::= \"a\"\nroot ::= \"b\"",
            13,
            "the rule `root` is there twice",
        ),
        (
            "root ::= <no-such-token>",
            9,
            "<no-such-token> is not one token",
        ),
        ("root ::= <[1", 9, "this has no end"),
    ] {
        assert_eq!(fault(grammar), (at, message.to_owned()), "{grammar:.40}");
    }
    assert!(start.elapsed().as_secs() < 2, "{:?}", start.elapsed());
}

#[test]
fn case_b84_bombs_are_compiled_or_refused_in_time() {
    let compiler = compiler(&[]);
    let chain: String = (0..5000)
        .map(|n| format!("r{n} ::= r{}\n", n + 1))
        .collect();
    let chain = format!("root ::= r0 | \"(\" root \")\"\n{chain}r5000 ::= \"a\"");
    let empty = "root ::= \"(\" root \")\" | a\na ::= (\"\" | \"a\")*".to_owned();
    let counts = "root ::= \"a\"{0,1000}{0,1000}".to_owned();
    let deep_counts =
        "root ::= ((((\"a\"{0,1000}){0,1000}){0,1000} \"b\"){0,1000} root)?".to_owned();
    let start = std::time::Instant::now();
    for grammar in [chain, empty, counts, deep_counts] {
        let constraint = compiler.compile(&ConstraintSource::Gbnf(grammar.clone()));
        match constraint {
            Ok(constraint) => {
                let walk = Walk::new(&constraint);
                let mut walk = walk.after(b'a').unwrap_or_else(|| panic!("{grammar:.40}"));
                for _ in 0..20 {
                    walk = match walk.after(b'a') {
                        Some(next) => next,
                        None => break,
                    };
                }
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        println!("{grammar:.40}: {:?}", start.elapsed());
    }
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}
