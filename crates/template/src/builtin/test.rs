//! Tests: what stands behind `is`.

use super::{Arguments, FILTERS};
use crate::error::{Result, TemplateError};
use crate::value::{Number, Value, contains, equal, less};

/// Names of tests, for the test `test`.
static TESTS: &[&str] = &[
    "boolean",
    "callable",
    "containing",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "startingwith",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
];

/// Whether a value is what a test asks for.
///
/// Errors: for an unknown test, and values it is not for.
pub(super) fn test(name: &str, value: &Value, arguments: &mut Arguments) -> Result<bool> {
    if let Some(holds) = of_kind(name, value) {
        return Ok(holds);
    }
    Ok(match name {
        "odd" => remainder(value, 2)? != 0,
        "even" => remainder(value, 2)? == 0,
        "divisibleby" => {
            let divisor = arguments.optional_integer("num")?.unwrap_or(0);
            remainder(value, divisor)? == 0
        }
        "lower" | "upper" => {
            let text = value.as_str().unwrap_or_default();
            arguments.meter().scan(text.len())?;
            let wrong = match name {
                "lower" => char::is_uppercase,
                _ => char::is_lowercase,
            };
            text.chars().any(char::is_alphabetic) && !text.chars().any(wrong)
        }
        "startingwith" | "endingwith" | "containing" => {
            let part = arguments.required("other")?;
            let meter = arguments.meter();
            match (name, value.as_str(), part.as_str()) {
                ("startingwith", Some(text), Some(part)) => text.starts_with(part),
                ("endingwith", Some(text), Some(part)) => text.ends_with(part),
                _ => contains(value, &part, meter)?,
            }
        }
        "filter" | "test" => {
            let known = value.as_str().is_some_and(|text| match name {
                "filter" => FILTERS
                    .binary_search_by_key(&text, |(name, _)| name)
                    .is_ok(),
                _ => TESTS.binary_search(&text).is_ok(),
            });
            return Ok(known);
        }
        _ => return compared(name, value, arguments),
    })
}

fn of_kind(name: &str, value: &Value) -> Option<bool> {
    Some(match name {
        "defined" => !value.is_undefined(),
        "undefined" => value.is_undefined(),
        "none" => matches!(value, Value::None),
        "boolean" => matches!(value, Value::Bool(_)),
        "true" => matches!(value, Value::Bool(true)),
        "false" => matches!(value, Value::Bool(false)),
        "integer" => matches!(value, Value::Integer(_)),
        "float" => matches!(value, Value::Float(_)),
        "number" => Number::of(value).is_some(),
        "string" => matches!(value, Value::Text(_)),
        "mapping" => matches!(value, Value::Map(_)),
        "sequence" => matches!(
            value,
            Value::Text(_) | Value::List(_) | Value::Map(_) | Value::Undefined
        ),
        "iterable" => matches!(
            value,
            Value::Text(_) | Value::List(_) | Value::Map(_) | Value::Undefined | Value::Loop(_)
        ),
        "callable" => matches!(
            value,
            Value::Macro(_)
                | Value::Function(_)
                | Value::Method(_)
                | Value::Joiner(_)
                | Value::Undefined
        ),
        "escaped" => false,
        _ => return None,
    })
}

fn remainder(value: &Value, divisor: i128) -> Result<i128> {
    let number = value.as_integer();
    number
        .and_then(|number| number.checked_rem(divisor))
        .ok_or_else(|| TemplateError::operation(format!("a {} cannot be divided so", value.kind())))
}

fn compared(name: &str, value: &Value, arguments: &mut Arguments) -> Result<bool> {
    let known = TESTS.binary_search(&name).is_ok();
    if !known {
        return Err(TemplateError::operation(format!(
            "the test '{name}' is unknown"
        )));
    }
    let other = arguments.required("other")?;
    let meter = arguments.meter();
    match name {
        "eq" | "equalto" => equal(value, &other, meter),
        "ne" => Ok(!equal(value, &other, meter)?),
        // numbers and strings are one object only if Python says so; equality of kind and value comes closest
        "sameas" => Ok(value.kind() == other.kind() && equal(value, &other, meter)?),
        "lt" | "lessthan" => less(value, &other, false, meter),
        "le" => less(value, &other, true, meter),
        "gt" | "greaterthan" => less(&other, value, false, meter),
        "ge" => less(&other, value, true, meter),
        _ => contains(&other, value, meter),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted() {
        assert!(TESTS.is_sorted());
    }
}
