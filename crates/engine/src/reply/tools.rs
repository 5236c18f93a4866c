//! The functions that a model may call.

use serde_json::Value;

/// Names and parameters, as a template is given them.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    functions: Vec<(String, Value)>,
}

impl Tools {
    /// Reads a list of tools: functions, or objects that hold one under `function`. What has no name is left out.
    pub fn new(tools: &Value) -> Self {
        let items = tools.as_array().into_iter().flatten();
        let functions = items.filter_map(|item| {
            let function = item.get("function").unwrap_or(item);
            let name = function.get("name")?.as_str()?.to_owned();
            let schema = function.get("parameters").or(function.get("input_schema"));
            Some((name, schema.cloned().unwrap_or_default()))
        });
        Tools {
            functions: functions.collect(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Whether a function has this name.
    pub fn has(&self, name: &str) -> bool {
        self.functions.iter().any(|(known, _)| known == name)
    }

    /// The JSON of a parameter that a model wrote as bare text: a string where the schema says so or where it is no JSON.
    pub fn json_of(&self, function: &str, parameter: &str, text: &str) -> String {
        let mut known = self.functions.iter().filter(|(name, _)| name == function);
        let schema = known
            .next()
            .and_then(|(_, schema)| schema.get("properties")?.get(parameter));
        let is_string = schema
            .and_then(|schema| schema.get("type"))
            .is_some_and(|ty| match ty {
                Value::Array(types) => types.iter().any(|ty| ty == "string"),
                ty => ty == "string",
            });
        match is_string {
            true => string(text),
            false => json_or_string(text),
        }
    }
}

/// A string of JSON.
pub fn string(text: &str) -> String {
    Value::from(text).to_string()
}

/// The text itself where it is JSON, else a string.
pub fn json_or_string(text: &str) -> String {
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => text.trim().to_owned(),
        Err(_) => string(text),
    }
}
