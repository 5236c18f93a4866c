//! Tests of whole templates.

mod bounds;
mod hostile;

use serde_json::{Map, Value, json};

use super::*;

fn render(source: &str, variables: &Value) -> Result<String, TemplateError> {
    let empty = Map::new();
    let variables = variables.as_object().unwrap_or(&empty);
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .collect();
    Template::new(source)?.render(&Input {
        variables: &variables,
        now: &|format| format!("<{format}>"),
    })
}

#[track_caller]
fn renders(source: &str, variables: &Value, expected: &str) {
    match render(source, variables) {
        Ok(text) => assert_eq!(text, expected, "{source}"),
        Err(error) => panic!("{source}: {error}"),
    }
}

/// Every case of `fixtures/templates`, whose right values are Jinja2's.
#[test]
fn the_language_is_jinjas() {
    let cases = include_str!("../../../fixtures/templates/language.json");
    let cases: Value = serde_json::from_str(cases).unwrap();
    let mut wrong = Vec::new();
    let list = cases["cases"].as_array().unwrap();
    for case in list {
        let source = case[0].as_str().unwrap();
        let result = render(source, &cases["variables"]);
        let right = match (&result, &case[1]) {
            (Ok(text), Value::String(expected)) => text == expected,
            (Err(TemplateError::Refused { message }), Value::Object(expected)) => {
                expected["refused"] == message.as_str()
            }
            (Err(error), Value::Null) => !matches!(error, TemplateError::Refused { .. }),
            _ => false,
        };
        if !right {
            wrong.push(format!("{source}: {result:?}\nJinja2: {}", case[1]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(list.len() > 400, "{}", list.len());
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    for (source, expected) in [
        (
            "a\nb {% frobnicate x %}",
            "line 2: the tag 'frobnicate' is unknown",
        ),
        ("{{ a +\n }}", "line 2: '}}' instead of a value"),
        (
            "{% if a %}\n{{ a }}",
            "line 2: the template ends before 'elif' or 'else' or 'endif'",
        ),
        ("{{ 'a }}", "line 1: a string does not end"),
        (
            "\n{{ a.b.c }}",
            "line 2: 'a' is undefined, so it has no 'b'",
        ),
        (
            "{{ f(1) }}",
            "line 1: 'f' is undefined, so it cannot be called",
        ),
        ("{{ 1 | frob }}", "line 1: the filter 'frob' is unknown"),
        ("{{ 1 is frob }}", "line 1: the test 'frob' is unknown"),
        ("{{ 'a'.frob() }}", "line 1: a str has no method 'frob'"),
        (
            "{{ [1].append(2) }}",
            "line 1: 'append' changes its list, which a template cannot",
        ),
        ("{{ 'a' + 1 }}", "line 1: + of a str and a int"),
        ("{{ 1 / 0 }}", "line 1: division by zero"),
        (
            "{{ 'a' | trim(1, 2) }}",
            "line 1: the argument 'chars' is a int, not the string it must be",
        ),
        (
            "{{ 'a' | upper(2) }}",
            "line 1: 'upper' was given too many arguments",
        ),
        (
            "{% include 'a' %}",
            "line 1: 'include' is not possible: a chat template stands alone",
        ),
        (
            "{% set a.b = 1 %}",
            "line 1: 'a' is no namespace, so nothing can be set in it",
        ),
        // Case B59.
        (
            "{{ if .System }}<|system|>{{ .System }}{{ end }}",
            "line 1: '.' instead of a value: it is a Go template, as Ollama has them, not Jinja",
        ),
        (
            "{{- range .Messages }}{{ .Content }}{{ end }}",
            "line 1: '.' instead of a value: it is a Go template, as Ollama has them, not Jinja",
        ),
        (
            "{{ if $x }}{{ end }}",
            "line 1: '$' means nothing here: it is a Go template, as Ollama has them, not Jinja",
        ),
    ] {
        let error = render(source, &json!({})).unwrap_err();
        assert_eq!(error.to_string(), expected, "{source}");
    }
}

/// One search to the end for each opening would be 2^36 steps here.
#[test]
fn many_openings_before_one_end_take_no_longer_than_their_bytes() {
    let begin = std::time::Instant::now();
    for part in [
        "{%",
        "{{",
        "{#",
        "{% raw %}{%",
        "{%     ",
        "{% raw %}{% endraw %}",
    ] {
        let opened = part.repeat((1 << 20) / part.len());
        let _ = Template::new(&opened);
        let _ = Template::new(&format!("{{% raw %}}{}", &opened[10..]));
    }
    assert!(begin.elapsed() < std::time::Duration::from_secs(5));
}

#[test]
fn values_are_shared_and_not_copied() {
    let input = json!({"m": [{"k": "x".repeat(1000)}]});
    renders(
        "{% set a = m[0] %}{% set b = a.k %}{{ b | length }}{{ a['k'] == b }}",
        &input,
        "1000True",
    );
}
