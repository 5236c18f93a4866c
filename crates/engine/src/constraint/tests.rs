use super::*;
use crate::generate::tests::{EOS, FIRST_BYTE, FIRST_PIECE, tokenizer};

/// A compiler for a vocabulary of all bytes and these pieces.
pub(super) fn compiler(pieces: &[&str]) -> ConstraintCompiler {
    ConstraintCompiler::new(&tokenizer(pieces)).unwrap()
}

/// A place in a constrained text.
pub(super) struct Walk(Matcher);

impl Walk {
    pub(super) fn new(constraint: &Constraint) -> Self {
        Walk(constraint.matcher.deep_clone())
    }

    fn allows(&self, id: u32) -> bool {
        let mut matcher = self.0.clone();
        let allowed = matcher.compute_mask_or_eos();
        allowed.is_ok_and(|allowed| allowed.is_allowed(id))
    }

    pub(super) fn may_end(&self) -> bool {
        self.allows(EOS)
    }

    pub(super) fn allows_piece(&self, piece: u32) -> bool {
        self.allows(FIRST_PIECE + piece)
    }

    /// The place behind a byte, if that is allowed.
    pub(super) fn after(&self, byte: u8) -> Option<Walk> {
        let id = FIRST_BYTE + u32::from(byte);
        let mut matcher = self.0.clone();
        let is_allowed = self.allows(id);
        let taken = is_allowed.then(|| matcher.consume_token(id))?;
        taken.ok().map(|()| Walk(matcher))
    }

    fn text(&self, text: &str) -> Option<Walk> {
        let start = Walk(self.0.clone());
        text.bytes().try_fold(start, |walk, byte| walk.after(byte))
    }
}

fn walk(source: ConstraintSource) -> Walk {
    Walk::new(&compiler(&[]).compile(&source).unwrap())
}

/// Whether a text is a whole one.
fn is_whole(walk: &Walk, text: &str) -> bool {
    walk.text(text).is_some_and(|walk| walk.may_end())
}

fn schema(schema: &str) -> ConstraintSource {
    ConstraintSource::JsonSchema(schema.into())
}

fn refusal(source: ConstraintSource) -> String {
    let refused = compiler(&[]).compile(&source);
    refused.expect_err("it is refused").to_string()
}

#[test]
fn every_form_of_constraint_is_kept() {
    let grammar = walk(ConstraintSource::grammar("root ::= \"é\"+ [x-z]".into()));
    assert!(is_whole(&grammar, "ééy") && !is_whole(&grammar, "é") && !is_whole(&grammar, "éa"));
    let regex = walk(ConstraintSource::Regex(r"[0-9]{2}/\w+".into()));
    assert!(is_whole(&regex, "12/ab") && !is_whole(&regex, "1/ab") && !is_whole(&regex, "12/"));
    let lark = "start: \"(\" start \")\" | \"x\"";
    for lark in [
        walk(ConstraintSource::Lark(lark.into())),
        walk(ConstraintSource::grammar(format!(
            "%llguidance {{}}\n{lark}"
        ))),
    ] {
        assert!(is_whole(&lark, "((x))") && !is_whole(&lark, "((x)"));
    }
    let object = walk(schema(
        r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#,
    ));
    assert!(is_whole(&object, r#"{"n": -12}"#) && !is_whole(&object, r#"{"n": 1.5}"#));
    assert!(!is_whole(&object, "{}"));
    // As for the reference, an empty schema is any object.
    let any = walk(schema("{}"));
    assert!(is_whole(&any, r#"{"a":[1,null]}"#) && !is_whole(&any, "1"));
}

#[test]
fn control_tokens_are_no_text() {
    // Token 1 is `<s>`, a control token, and a grammar that spells it means its characters.
    let spelled = walk(ConstraintSource::Gbnf("root ::= \"<s>\"".into()));
    assert!(!spelled.allows(1) && is_whole(&spelled, "<s>"));
    // A grammar may name it.
    for grammar in ["root ::= <[1]> \"a\"", "root ::= <s> \"a\""] {
        let named = walk(ConstraintSource::Gbnf(grammar.into()));
        assert!(named.allows(1) && named.text("<").is_none(), "{grammar}");
    }
    let open = walk(ConstraintSource::Regex("(?s:.)*".into()));
    assert!(!open.allows(0) && !open.allows(1) && open.may_end());
}

#[test]
fn what_cannot_be_read_is_told_with_its_place_or_its_name() {
    assert_eq!(
        refusal(ConstraintSource::Gbnf(
            "# JSON\nroot ::= \"é\" [z-a]".into()
        )),
        "GBNF grammar, line 2, column 15: the range 'z' to 'a' is empty"
    );
    assert_eq!(
        refusal(schema("{\n\"type\": }")),
        "JSON Schema, line 2, column 9: expected value"
    );
    for (source, words) in [
        (schema(r#"{"not": {"type": "string"}}"#), "not"),
        (
            schema(r#"{"type": "array", "uniqueItems": true}"#),
            "uniqueItems",
        ),
        (schema(r#"{"type": "array", "contains": {}}"#), "contains"),
        (
            schema(r#"{"type": "string", "format": "no-such"}"#),
            "no-such",
        ),
        (ConstraintSource::Regex("(a".into()), "unclosed group"),
        (ConstraintSource::Regex("a(?=b)".into()), "look-around"),
        (ConstraintSource::Lark("start: nothing".into()), "nothing"),
        (ConstraintSource::Lark("start: \"a\"\nb: (".into()), "line"),
    ] {
        let refused = refusal(source);
        assert!(
            refused.contains(words) && !refused.contains('\n'),
            "{refused}"
        );
    }
}

#[test]
fn case_b78_counts_are_counted_and_not_written_out() {
    let start = std::time::Instant::now();
    for length in [1999, 2000, 2001, 100_000] {
        let string = walk(schema(&format!(
            r#"{{"type":"string","maxLength":{length}}}"#
        )));
        let mut walk = string.after(b'"').unwrap();
        for _ in 0..100 {
            walk = walk.after(b'x').unwrap();
        }
        assert!(is_whole(&walk, "\""), "{length}");
    }
    let exact = walk(schema(r#"{"type":"string","maxLength":3}"#));
    assert!(is_whole(&exact, "\"abc\"") && !is_whole(&exact, "\"abcd\""));
    let items = walk(schema(
        r#"{"type":"array","maxItems":1000,"items":{"type":"null"}}"#,
    ));
    assert!(is_whole(&items, "[null,null]"));
    let empty = walk(schema(
        r#"{"type":"object","properties":{},"additionalProperties":false}"#,
    ));
    assert!(is_whole(&empty, "{}") && !is_whole(&empty, r#"{"a":1}"#));
    let open = walk(schema(
        r#"{"type":"object","properties":{},"additionalProperties":true}"#,
    ));
    assert!(is_whole(&open, "{}") && is_whole(&open, r#"{"a":1}"#));
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[test]
fn case_b79_recursion_has_an_end_or_is_refused() {
    let tree = walk(schema(
        r##"{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["children"],"additionalProperties":false}}}"##,
    ));
    assert!(is_whole(&tree, r#"{"children":[{"children":[]}]}"#));
    assert!(!is_whole(&tree, r#"{"children":[1]}"#));
    let other = walk(schema(
        r##"{"properties":{"x":{"type":"integer"},"y":{"$ref":"#/properties/x"}},"additionalProperties":false}"##,
    ));
    assert!(is_whole(&other, r#"{"x":1,"y":2}"#) && !is_whole(&other, r#"{"y":"a"}"#));
    let item = walk(schema(
        r##"{"prefixItems":[{"type":"null"},{"$ref":"#/prefixItems/0"}],"items":false,"type":"array"}"##,
    ));
    assert!(is_whole(&item, "[null,null]") && !is_whole(&item, "[null,1]"));
    let nested = format!("{}1{}", r#"{"items":"#.repeat(10_000), "}".repeat(10_000));
    assert!(refusal(schema(&nested)).contains("recursion limit"));
    let pattern = format!(
        r#"{{"type":"string","pattern":"{}a{}"}}"#,
        "(".repeat(10_000),
        ")".repeat(10_000)
    );
    refusal(schema(&pattern));
    for endless in [
        r##"{"$ref":"#"}"##,
        r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}"##,
        r##"{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}"##,
    ] {
        let refused = refusal(schema(endless));
        assert!(refused.contains("leads back to itself"), "{refused}");
    }
    let lark = format!("start: {}\"a\"", "(".repeat(60_000));
    assert!(refusal(ConstraintSource::Lark(lark)).contains("groups within each other"));
}

#[test]
fn white_space_in_json_is_a_space_or_a_line_with_its_indent() {
    let nested = r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{"type":"null"}},"required":["b"]}}},"required":["a"]}"#;
    let indent = format!("\n{}", " \t".repeat(10));
    for source in [
        nested,
        "{}",
        r##"{"$ref":"#/$defs/d","$defs":{"d":{}}}"##,
        "true",
    ] {
        let walk = walk(schema(source));
        for space in ["", " ", "\n", "\n  ", &indent] {
            let text = format!(
                r#"{{{space}"a"{space}:{space}[{space}{{{space}"b":{space}null}}{space}]{space}}}"#
            );
            assert!(is_whole(&walk, &text), "{source}: {text:?}");
        }
        for space in ["  ", "\t", "\n\n", " \n", "\r\n", &format!("{indent} ")] {
            for text in [
                format!("{{{space}"),
                format!("{{\"a\"{space}"),
                format!("{{\"a\":{space}"),
                format!("{{\"a\":[{space}"),
                format!("{{\"a\":[{{{space}"),
                format!("{{\"a\":[]{space}"),
            ] {
                assert!(walk.text(&text).is_none(), "{source}: {text:?}");
            }
        }
    }
    refusal(schema("false"));
    // A schema may say so itself.
    let own = walk(schema(
        r#"{"type":"object","x-guidance":{"whitespace_flexible":false}}"#,
    ));
    assert!(is_whole(&own, "{}") && own.text("{ ").is_none());
}

#[test]
fn properties_without_a_name_are_those_that_the_schema_asks_for() {
    let open = |text: &str| {
        let mut compiler = compiler(&[]);
        compiler.allow_unnamed_properties(true);
        Walk::new(&compiler.compile(&schema(text)).unwrap())
    };
    let one = r#"{"type":"object","properties":{"a":{"type":"null"}}}"#;
    let two = r#"{"allOf":[{"type":"object","properties":{"a":{"type":"null"}},"required":["a"]},{"type":"object","properties":{"b":{"type":"null"}}}]}"#;
    let with_reference = r##"{"type":"object","properties":{"a":{"type":"null"}},"$ref":"#/$defs/d","$defs":{"d":{"type":"object","properties":{"b":{"type":"null"}}}}}"##;
    let either = r#"{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}"#;
    for (source, whole) in [
        (one, r#"{"a":null}"#),
        (two, r#"{"a":null,"b":null}"#),
        (with_reference, r#"{"a":null,"b":null}"#),
        (with_reference, r#"{"a":null}"#),
        (either, r#"{"a":null,"b":null}"#),
    ] {
        let more = whole.replace('}', r#","c":1}"#);
        let closed = walk(schema(source));
        assert!(is_whole(&closed, whole), "{source}: {whole}");
        assert!(!is_whole(&closed, &more), "{source}: {more}");
        assert!(is_whole(&open(source), &more), "{source}: {more}");
    }
    let asked = one.replacen('{', r#"{"additionalProperties":true,"#, 1);
    assert!(is_whole(&walk(schema(&asked)), r#"{"a":null,"c":1}"#));
}
