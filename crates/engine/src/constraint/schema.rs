//! JSON Schemas that no finite text satisfies: a reference that leads back to itself without a way out.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

type Keys = serde_json::Map<String, Value>;

/// A question whether something finite satisfies a schema or a part of one.
struct Gate {
    /// Of the gates it waits for, so many more must say yes.
    n_needed: usize,
    /// Gates that wait for it.
    waiting: Vec<usize>,
}

/// The gates of a schema. Each says yes at most once, so that all are answered in time that grows with the schema alone.
struct Gates<'a> {
    root: &'a Value,
    gates: Vec<Gate>,
    /// The gates of schemas, by their addresses.
    of_schema: HashMap<*const Value, usize>,
    /// Schemas whose gates wait for nothing yet.
    unbuilt: Vec<(usize, &'a Value)>,
}

/// The reference that leads back to itself so that the text would have no end, if there is one.
pub(super) fn endless_reference(schema: &Value) -> Option<&str> {
    let mut references = BTreeSet::new();
    collect(schema, &mut references);
    let mut gates = Gates {
        root: schema,
        gates: Vec::new(),
        of_schema: HashMap::new(),
        unbuilt: Vec::new(),
    };
    let whole = gates.schema(schema);
    let targets: Vec<(&str, usize)> = references
        .into_iter()
        .filter_map(|reference| Some((reference, gates.target(reference)?)))
        .collect();
    gates.build();
    let ends = gates.answers();
    if ends[whole] {
        return None;
    }
    let endless = targets.into_iter().find(|(_, gate)| !ends[*gate]);
    endless.map(|(reference, _)| reference)
}

/// Finds all references.
fn collect<'a>(value: &'a Value, references: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(entries) => {
            if let Some(Value::String(reference)) = entries.get("$ref") {
                references.insert(reference);
            }
            let values = entries.values();
            values.for_each(|value| collect(value, references));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, references)),
        _ => {}
    }
}

impl<'a> Gates<'a> {
    /// A new gate, which waits for nothing yet.
    fn gate(&mut self) -> usize {
        self.gates.push(Gate {
            n_needed: 0,
            waiting: Vec::new(),
        });
        self.gates.len() - 1
    }

    /// The gate of a schema.
    fn schema(&mut self, schema: &'a Value) -> usize {
        let address = std::ptr::from_ref(schema);
        if let Some(&known) = self.of_schema.get(&address) {
            return known;
        }
        let gate = self.gate();
        self.of_schema.insert(address, gate);
        self.unbuilt.push((gate, schema));
        gate
    }

    /// The gate of what a reference names; what cannot be found here is for the compiler to judge.
    fn target(&mut self, reference: &str) -> Option<usize> {
        let target = self.root.pointer(reference.strip_prefix('#')?)?;
        Some(self.schema(target))
    }

    /// Makes a gate wait for all of these too.
    fn all(&mut self, gate: usize, inputs: impl IntoIterator<Item = usize>) {
        for input in inputs {
            self.gates[input].waiting.push(gate);
            self.gates[gate].n_needed += 1;
        }
    }

    /// Makes a gate wait for one of these too.
    fn any(&mut self, gate: usize, inputs: Vec<usize>) {
        let one = self.gate();
        self.gates[one].n_needed = 1;
        for input in inputs {
            self.gates[input].waiting.push(one);
        }
        self.all(gate, [one]);
    }

    fn build(&mut self) {
        while let Some((gate, schema)) = self.unbuilt.pop() {
            if let Value::Object(keys) = schema {
                self.keys(gate, keys);
            }
        }
    }

    fn keys(&mut self, gate: usize, keys: &'a Keys) {
        let reference = keys.get("$ref").and_then(Value::as_str);
        let target = reference.and_then(|reference| self.target(reference));
        self.all(gate, target);
        for (key, needs_all) in [("anyOf", false), ("oneOf", false), ("allOf", true)] {
            let Some(Value::Array(items)) = keys.get(key) else {
                continue;
            };
            let items: Vec<usize> = items.iter().map(|item| self.schema(item)).collect();
            match needs_all {
                true => self.all(gate, items),
                false => self.any(gate, items),
            }
        }
        let types: Vec<&str> = match keys.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
            _ => return,
        };
        let types = types.iter().map(|ty| {
            let inputs = match *ty {
                "object" => self.object(keys),
                "array" => self.array(keys),
                _ => Vec::new(),
            };
            let of_type = self.gate();
            self.all(of_type, inputs);
            of_type
        });
        let types = types.collect();
        self.any(gate, types);
    }

    /// What every object has.
    fn object(&mut self, keys: &'a Keys) -> Vec<usize> {
        let required = keys.get("required").and_then(Value::as_array);
        let names = required.into_iter().flatten().filter_map(Value::as_str);
        let required = names.filter_map(|name| keys.get("properties")?.get(name));
        required.map(|property| self.schema(property)).collect()
    }

    /// What every list has.
    fn array(&mut self, keys: &'a Keys) -> Vec<usize> {
        let n_least = keys.get("minItems").and_then(Value::as_u64).unwrap_or(0) as usize;
        let first = keys.get("prefixItems").and_then(Value::as_array);
        let n_first = first.map_or(0, Vec::len);
        let first = first.into_iter().flatten().take(n_least);
        let rest = keys.get("items").filter(|_| n_least > n_first);
        first.chain(rest).map(|item| self.schema(item)).collect()
    }

    /// Which gates say yes.
    fn answers(&mut self) -> Vec<bool> {
        let mut says = vec![false; self.gates.len()];
        let free = self.gates.iter().enumerate();
        let free = free.filter(|(_, gate)| gate.n_needed == 0);
        let mut ready: Vec<usize> = free.map(|(index, _)| index).collect();
        while let Some(gate) = ready.pop() {
            says[gate] = true;
            for next in std::mem::take(&mut self.gates[gate].waiting) {
                let n_needed = &mut self.gates[next].n_needed;
                if *n_needed == 1 {
                    ready.push(next);
                }
                *n_needed = n_needed.saturating_sub(1);
            }
        }
        says
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

    #[test]
    fn a_long_chain_of_references_is_followed_in_one_go() {
        let n = 20_000;
        let chain = |end: Value| {
            let mut definitions = serde_json::Map::new();
            for index in 0..n {
                let next = json!({"$ref": format!("#/$defs/{}", index + 1)});
                definitions.insert(index.to_string(), next);
            }
            definitions.insert(n.to_string(), end);
            json!({"$ref": "#/$defs/0", "$defs": definitions})
        };
        let start = std::time::Instant::now();
        assert_eq!(endless_reference(&chain(json!({"type": "null"}))), None);
        let cycle = chain(json!({"$ref": "#/$defs/7"}));
        assert_eq!(endless_reference(&cycle), Some("#/$defs/0"));
        // Looking at all of them again for each would take more than a minute.
        assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
    }
}
