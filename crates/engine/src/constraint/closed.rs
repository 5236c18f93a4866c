//! The reference's reading of JSON Schemas: an object that names its properties has no others, unless `additionalProperties` says so.
//!
//! Objects that several schemas describe together (`allOf`, or what stands beside `properties`, `$ref`, `anyOf` or `oneOf`) may have the
//! properties that any of these names. Their parts stay open, since each knows some of the names alone.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

/// Keywords whose value is a map of schemas.
const MAPS: &[&str] = &["properties", "patternProperties", "$defs", "definitions"];
/// Keywords whose value is a list of schemas, or a schema.
const LISTS: &[&str] = &[
    "prefixItems",
    "items",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "oneOf",
];
/// Keywords whose schemas describe the value itself.
const PARTS: &[&str] = &["allOf", "anyOf", "oneOf"];
/// Keywords that decide about properties that are not named, or that count them or list whole values.
const DECIDES: &[&str] = &[
    "additionalProperties",
    "patternProperties",
    "minProperties",
    "const",
    "enum",
];
/// Schemas that are looked at for the names of others, at most; what is left stays open.
const VISITS_MAX: usize = 100_000;

type Keys = Map<String, Value>;

/// Forbids the properties that a schema does not name, wherever it does not speak of them.
pub(super) fn close(schema: &mut Value) {
    let closings = Places::new(schema).closings();
    for (place, closing) in closings.into_iter().flatten() {
        if let Some(Value::Object(keys)) = schema.pointer_mut(&place) {
            closing.apply(keys);
        }
    }
}

/// What closes an object.
enum Closing {
    /// Nothing but the schema itself describes it; required properties that it does not name.
    Alone(Vec<String>),
    /// All names of the schemas that describe it.
    Together(Vec<String>),
}

impl Closing {
    fn apply(self, keys: &mut Keys) {
        let any = |names: Vec<String>| names.into_iter().map(|name| (name, Value::Bool(true)));
        match self {
            Closing::Alone(unnamed) => {
                if let Some(Value::Object(properties)) = keys.get_mut("properties") {
                    properties.extend(any(unnamed));
                }
                keys.insert("additionalProperties".into(), Value::Bool(false));
            }
            Closing::Together(names) => {
                let properties: Keys = any(names).collect();
                let mut part = json!({"properties": properties, "additionalProperties": false});
                if let Some(types) = keys.get("type") {
                    part["type"] = types.clone();
                }
                let parts = keys.entry("allOf").or_insert_with(|| json!([]));
                if let Value::Array(parts) = parts {
                    parts.push(part);
                }
            }
        }
    }
}

/// The schemas of a document, by their pointers.
struct Places<'a> {
    root: &'a Value,
    /// In the order in which they were found.
    found: Vec<(String, &'a Keys)>,
    /// Whether references are read from other places than the root.
    has_bases: bool,
}

impl<'a> Places<'a> {
    fn new(root: &'a Value) -> Self {
        let mut places = Places {
            root,
            found: Vec::new(),
            has_bases: false,
        };
        let mut seen = HashSet::new();
        let mut waiting = vec![String::new()];
        while let Some(place) = waiting.pop() {
            let Some(Value::Object(keys)) = root.pointer(&place) else {
                continue;
            };
            if !seen.insert(place.clone()) {
                continue;
            }
            waiting.extend(places.target(keys).flatten());
            for (key, value) in keys {
                match value {
                    Value::Object(entries) if MAPS.contains(&key.as_str()) => waiting.extend(
                        entries
                            .keys()
                            .map(|name| format!("{place}/{key}/{}", escaped(name))),
                    ),
                    Value::Array(items) if LISTS.contains(&key.as_str()) => {
                        waiting
                            .extend((0..items.len()).map(|index| format!("{place}/{key}/{index}")));
                    }
                    Value::Object(_) if LISTS.contains(&key.as_str()) => {
                        waiting.push(format!("{place}/{key}"));
                    }
                    _ => {}
                }
            }
            places.has_bases |=
                !place.is_empty() && (keys.contains_key("$id") || keys.contains_key("id"));
            places.found.push((place, keys));
        }
        places
    }

    /// Where the schema's reference leads, if it has one; nothing inside where that cannot be told.
    fn target(&self, keys: &Keys) -> Option<Option<String>> {
        let reference = keys.get("$ref")?.as_str()?;
        let pointer = reference
            .strip_prefix('#')
            .filter(|pointer| !self.has_bases && !pointer.contains('%'));
        let found = pointer.filter(|pointer| self.root.pointer(pointer).is_some());
        Some(found.map(str::to_owned))
    }

    /// The schemas that describe the same value; nothing where one of them cannot be found.
    fn parts(&self, place: &str, keys: &Keys) -> Option<Vec<String>> {
        let mut parts = Vec::new();
        for key in PARTS {
            let n_items = keys.get(*key).and_then(Value::as_array).map_or(0, Vec::len);
            parts.extend((0..n_items).map(|index| format!("{place}/{key}/{index}")));
        }
        if let Some(target) = self.target(keys) {
            parts.push(target?);
        }
        Some(parts)
    }

    fn keys(&self, place: &str) -> Option<&'a Keys> {
        self.root.pointer(place).and_then(Value::as_object)
    }

    /// The places that others describe too; nothing where one of them cannot be found.
    fn open(&self) -> Option<HashSet<String>> {
        let mut open = HashSet::new();
        let mut waiting = Vec::new();
        for (place, keys) in self.found.iter().filter(|(_, keys)| is_combined(keys)) {
            waiting.extend(self.parts(place, keys)?);
        }
        while let Some(place) = waiting.pop() {
            let Some(keys) = self.keys(&place) else {
                continue;
            };
            if !open.contains(&place) {
                waiting.extend(self.parts(&place, keys)?);
                open.insert(place);
            }
        }
        Some(open)
    }

    /// What closes which object. A document whose references cannot be followed where that counts stays as it is.
    fn closings(&self) -> Option<Vec<(String, Closing)>> {
        let open = self.open()?;
        let mut n_visits = 0;
        let mut closings = Vec::new();
        for (place, keys) in &self.found {
            if open.contains(place) {
                continue;
            }
            let closing = match is_combined(keys) {
                true => self.together(place, &mut n_visits),
                false => alone(keys),
            };
            closings.extend(closing.map(|closing| (place.clone(), closing)));
        }
        Some(closings)
    }

    /// The names that the schemas of a value have, unless one of them decides about others itself.
    fn together(&self, place: &str, n_visits: &mut usize) -> Option<Closing> {
        let (mut names, mut seen, mut visited) = (Vec::new(), HashSet::new(), HashSet::new());
        let mut waiting = vec![place.to_owned()];
        while let Some(place) = waiting.pop() {
            let Some(keys) = self.keys(&place) else {
                continue;
            };
            if !visited.insert(place.clone()) {
                continue;
            }
            let named = named(keys);
            *n_visits += 1 + named.len();
            if *n_visits > VISITS_MAX || DECIDES.iter().any(|key| keys.contains_key(*key)) {
                return None;
            }
            names.extend(named.into_iter().filter(|name| seen.insert(name.clone())));
            waiting.extend(self.parts(&place, keys)?.into_iter().rev());
        }
        // Without a single property there is no object to close.
        (!names.is_empty()).then_some(Closing::Together(names))
    }
}

/// Whether more than one schema describes the value.
fn is_combined(keys: &Keys) -> bool {
    let n_all = keys
        .get("allOf")
        .and_then(Value::as_array)
        .map_or(0, Vec::len);
    let others = ["properties", "patternProperties", "$ref", "anyOf", "oneOf"];
    let n_others = others.iter().filter(|key| keys.contains_key(**key)).count();
    let is_own = keys.contains_key("properties") && keys.contains_key("patternProperties");
    n_all + n_others - usize::from(is_own) > 1
}

/// What closes an object that one schema alone describes.
fn alone(keys: &Keys) -> Option<Closing> {
    let properties = keys.get("properties")?.as_object()?;
    let decides = ["additionalProperties", "const", "enum"];
    if decides.iter().any(|key| keys.contains_key(*key)) {
        return None;
    }
    let names = named(keys);
    let n_least = keys.get("minProperties").and_then(Value::as_u64);
    if n_least.is_some_and(|n| n > names.len() as u64) {
        return None;
    }
    let unnamed = names
        .into_iter()
        .filter(|name| !properties.contains_key(name));
    Some(Closing::Alone(unnamed.collect()))
}

/// The properties that a schema names, the required ones behind.
fn named(keys: &Keys) -> Vec<String> {
    let properties = keys.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flat_map(Map::keys);
    let required = keys.get("required").and_then(Value::as_array);
    let required = required.into_iter().flatten().filter_map(Value::as_str);
    let mut seen = HashSet::new();
    properties
        .map(String::as_str)
        .chain(required)
        .filter(|name| seen.insert(*name))
        .map(str::to_owned)
        .collect()
}

/// A name as it stands in a pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(mut schema: Value) -> Value {
        close(&mut schema);
        schema
    }

    #[test]
    fn objects_that_name_properties_have_no_others() {
        let (a, b) = (json!({"type": "integer"}), json!({"type": "null"}));
        assert_eq!(
            closed(json!({"items": {"properties": {"a/b": {"properties": {"a": a}}}}})),
            json!({"items": {
                "properties": {"a/b": {"properties": {"a": a}, "additionalProperties": false}},
                "additionalProperties": false,
            }})
        );
        // A required property need not be named.
        assert_eq!(
            closed(json!({"properties": {"a": a}, "required": ["a", "b"]})),
            json!({
                "properties": {"a": a, "b": true}, "required": ["a", "b"], "additionalProperties": false,
            })
        );
        for unchanged in [
            json!({"type": "object"}),
            json!({"properties": {"a": a}, "additionalProperties": true}),
            json!({"properties": {"a": a}, "additionalProperties": b}),
            json!({"properties": {"a": a}, "enum": [{"b": 1}]}),
            json!({"properties": {"a": a}, "minProperties": 2}),
            // Data, and no schema.
            json!({"enum": [{"properties": {}}]}),
            json!(true),
        ] {
            assert_eq!(closed(unchanged.clone()), unchanged);
        }
    }

    #[test]
    fn objects_that_several_schemas_describe_have_the_names_of_all() {
        let part = |name: &str| json!({"properties": {name: {"type": "null"}}});
        let end = json!({"properties": {"a": true, "b": true}, "additionalProperties": false});
        assert_eq!(
            closed(json!({"allOf": [part("a"), part("b")]})),
            json!({"allOf": [part("a"), part("b"), end]})
        );
        let defs = json!({"d": part("b"), "e": part("e")});
        let with_reference = json!({
            "allOf": [part("a"), {"$ref": "#/$defs/d"}], "$defs": defs,
            "items": {"$ref": "#/$defs/e"},
        });
        let found = closed(with_reference);
        assert_eq!(found["allOf"][2], end);
        assert_eq!(found["$defs"]["d"], part("b"));
        // One that stands alone elsewhere is closed there.
        assert_eq!(found["$defs"]["e"]["additionalProperties"], false);
        let open = json!({"allOf": [part("a"), {"additionalProperties": true}]});
        assert_eq!(closed(open.clone()), open);
        // A part that cannot be found could name anything.
        let unknown = json!({"allOf": [part("a"), {"$ref": "#elsewhere"}]});
        assert_eq!(closed(unknown.clone()), unknown);
        // Alternatives stand alone.
        let either = closed(json!({"anyOf": [part("a"), part("b")]}));
        assert_eq!(either["anyOf"][0]["additionalProperties"], false);
        // One that leads back to itself is a part of itself.
        let cycle = json!({"properties": {"a": true}, "$ref": "#"});
        assert_eq!(closed(cycle.clone()), cycle);
    }
}
