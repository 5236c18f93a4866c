//! JSON Schemas that no finite text satisfies: a reference that leads back to itself without a way out.

use std::collections::HashMap;

use serde_json::Value;

/// What is known of the places that the references of a schema name: whether something finite satisfies them.
struct Endings<'a> {
    known: HashMap<&'a str, bool>,
}

/// The reference that leads back to itself so that the text would have no end, if there is one.
pub(super) fn endless_reference(schema: &Value) -> Option<&str> {
    let mut endings = Endings {
        known: HashMap::new(),
    };
    collect(schema, &mut endings.known);
    let references: Vec<&str> = endings.known.keys().copied().collect();
    loop {
        let mut changed = false;
        for &reference in &references {
            let target = reference.strip_prefix('#');
            let target = target.and_then(|pointer| schema.pointer(pointer));
            // What cannot be found here is for the compiler to judge.
            let ends = target.is_none_or(|target| endings.ends(target));
            changed |= endings.known.insert(reference, ends) != Some(ends);
        }
        if !changed {
            break;
        }
    }
    if endings.ends(schema) {
        return None;
    }
    let mut endless: Vec<&str> = endings
        .known
        .iter()
        .filter(|(_, ends)| !**ends)
        .map(|(reference, _)| *reference)
        .collect();
    endless.sort_unstable();
    endless.first().copied()
}

/// Finds all references, of which nothing is known yet.
fn collect<'a>(value: &'a Value, known: &mut HashMap<&'a str, bool>) {
    match value {
        Value::Object(entries) => {
            if let Some(Value::String(reference)) = entries.get("$ref") {
                known.insert(reference, false);
            }
            entries.values().for_each(|value| collect(value, known));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, known)),
        _ => {}
    }
}

impl Endings<'_> {
    fn ends(&self, schema: &Value) -> bool {
        let Value::Object(keys) = schema else {
            return true;
        };
        let list = |key: &str| keys.get(key).and_then(Value::as_array);
        let some =
            |key: &str| list(key).is_none_or(|items| items.iter().any(|item| self.ends(item)));
        let all =
            |key: &str| list(key).is_none_or(|items| items.iter().all(|item| self.ends(item)));
        let reference = keys.get("$ref").and_then(Value::as_str);
        let of_reference =
            reference.is_none_or(|reference| self.known.get(reference) != Some(&false));
        of_reference && some("anyOf") && some("oneOf") && all("allOf") && self.type_ends(keys)
    }

    /// Whether one of the types that are possible has something finite.
    fn type_ends(&self, keys: &serde_json::Map<String, Value>) -> bool {
        let types: Vec<&str> = match keys.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
            _ => return true,
        };
        types.iter().any(|ty| match *ty {
            "object" => self.object_ends(keys),
            "array" => self.array_ends(keys),
            _ => true,
        })
    }

    fn object_ends(&self, keys: &serde_json::Map<String, Value>) -> bool {
        let required = keys.get("required").and_then(Value::as_array);
        let names = required.into_iter().flatten().filter_map(Value::as_str);
        let mut required = names.filter_map(|name| keys.get("properties")?.get(name));
        required.all(|property| self.ends(property))
    }

    fn array_ends(&self, keys: &serde_json::Map<String, Value>) -> bool {
        let n_least = keys.get("minItems").and_then(Value::as_u64).unwrap_or(0) as usize;
        let first = keys.get("prefixItems").and_then(Value::as_array);
        let mut first = first.into_iter().flatten().take(n_least);
        let n_first = keys
            .get("prefixItems")
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        let rest = keys.get("items").filter(|_| n_least > n_first);
        first.all(|item| self.ends(item)) && rest.is_none_or(|item| self.ends(item))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn case_b79_a_cycle_needs_a_way_out() {
        let endless = |schema: Value| endless_reference(&schema).map(str::to_owned);
        for (schema, reference) in [
            (json!({"$ref": "#"}), "#"),
            (
                json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
                "#/$defs/a",
            ),
            (
                json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}),
                "#",
            ),
            (
                json!({"type": "array", "items": {"$ref": "#"}, "minItems": 1}),
                "#",
            ),
            (json!({"anyOf": [{"$ref": "#"}]}), "#"),
        ] {
            assert_eq!(
                endless(schema.clone()).as_deref(),
                Some(reference),
                "{schema}"
            );
        }
        for schema in [
            json!({"type": "object", "properties": {"a": {"$ref": "#"}}}),
            json!({"properties": {"a": {"$ref": "#"}}, "required": ["a"]}),
            json!({"type": "array", "items": {"$ref": "#"}}),
            json!({"anyOf": [{"$ref": "#"}, {"type": "null"}]}),
            json!({"type": ["object", "null"], "properties": {"next": {"$ref": "#"}}, "required": ["next"]}),
            json!({"$ref": "elsewhere"}),
            json!(true),
        ] {
            assert_eq!(endless(schema.clone()), None, "{schema}");
        }
    }
}
