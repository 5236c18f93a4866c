//! Where a fault is, where the parser does not say it: in a JSON Schema the smallest part that is refused in the same words, in a
//! regular expression what its message points at.

use serde_json::Value;

/// Parts of a schema that are tried at most: each costs a compilation.
const TRIES_MAX: usize = 200;

/// In longer schemas no fault is looked for, for the same reason.
pub(super) const SOURCE_BYTES_MAX: usize = 64 << 10;

/// Keywords whose value is a schema, a list of schemas, or schemas by names.
const KEYWORDS: [&str; 12] = [
    "properties",
    "patternProperties",
    "additionalProperties",
    "items",
    "prefixItems",
    "additionalItems",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "$defs",
    "definitions",
];

/// Keywords of the whole schema that its parts may need.
const SHARED: [&str; 3] = ["$schema", "$defs", "definitions"];

/// The pointer to the smallest part of a schema that is refused in these words; empty for the whole. `refusal` compiles a
/// schema, and tells in which words it is refused.
pub(super) fn of_fault(
    schema: &Value,
    words: &str,
    refusal: impl Fn(&Value) -> Option<String>,
) -> String {
    let mut n_tries = 0;
    let mut found = (String::new(), schema);
    loop {
        let smaller = parts(found.1).into_iter().find(|(_, part)| {
            n_tries += 1;
            let whole = alone(schema, part);
            n_tries <= TRIES_MAX && refusal(&whole).is_some_and(|refused| refused == words)
        });
        let Some((path, part)) = smaller else {
            return found.0;
        };
        found = (found.0 + &path, part);
    }
}

/// The schemas right inside a schema, with the pointers that lead to them.
fn parts(schema: &Value) -> Vec<(String, &Value)> {
    let mut parts = Vec::new();
    for keyword in KEYWORDS {
        let Some(value) = schema.get(keyword) else {
            continue;
        };
        let by_names = ["properties", "patternProperties", "$defs", "definitions"];
        match value {
            Value::Object(schemas) if by_names.contains(&keyword) => {
                let inside = schemas.iter().map(|(name, part)| {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    (format!("/{keyword}/{name}"), part)
                });
                parts.extend(inside);
            }
            Value::Object(_) => parts.push((format!("/{keyword}"), value)),
            Value::Array(schemas) => {
                let inside = schemas.iter().enumerate();
                parts.extend(inside.map(|(index, part)| (format!("/{keyword}/{index}"), part)));
            }
            _ => {}
        }
    }
    parts.retain(|(_, part)| part.is_object());
    parts
}

/// A part as a schema of its own, with what its references may lead to.
fn alone(schema: &Value, part: &Value) -> Value {
    let mut whole = part.clone();
    if let Value::Object(keys) = &mut whole {
        for keyword in SHARED {
            if let Some(shared) = schema.get(keyword) {
                keys.entry(keyword).or_insert_with(|| shared.clone());
            }
        }
    }
    whole
}

/// The column that a message on an expression of one line points at: the sign below the expression, which is shown with a
/// margin.
pub(super) fn of_sign(text: &str, error: &str) -> Option<usize> {
    let mut lines = error.lines();
    let shown = lines.find(|line| line.trim_start() == text.trim_start())?;
    let margin = shown.chars().count() - text.chars().count();
    let sign = lines.next()?;
    let at = sign.chars().position(|c| c == '^')?;
    let is_sign = sign.trim().chars().all(|c| c == '^');
    is_sign
        .then(|| at.checked_sub(margin))
        .flatten()
        .map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_smallest_part_is_found() {
        // Refuses every schema that holds the word.
        let refusal = |schema: &Value| {
            let mut without = schema.clone();
            if let Value::Object(keys) = &mut without {
                keys.remove("$defs");
            }
            let is_bad = without.to_string().contains("bad");
            is_bad.then(|| "it is bad".to_owned())
        };
        let at = |schema: Value| of_fault(&schema, "it is bad", refusal);
        assert_eq!(at(json!({"type": "bad"})), "");
        assert_eq!(
            at(
                json!({"properties": {"a": {}, "b/c": {"items": {"anyOf": [{}, {"type": "bad"}]}}}})
            ),
            "/properties/b~1c/items/anyOf/1"
        );
        let wide: serde_json::Map<String, Value> = (0..300)
            .map(|n| (format!("{n:03}"), json!({})))
            .chain([("z".to_owned(), json!({"type": "bad"}))])
            .collect();
        assert_eq!(
            at(json!({"properties": wide})),
            "",
            "it is looked for no longer"
        );
    }

    #[test]
    fn the_sign_below_an_expression_is_its_place() {
        let error = "regex parse error:\n    a(b\n     ^\nerror: unclosed group";
        assert_eq!(of_sign("a(b", error), Some(2));
        assert_eq!(of_sign("other", error), None);
        assert_eq!(of_sign("a(b", "regex parse error:\n    a(b"), None);
    }
}
