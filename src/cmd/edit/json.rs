//! Metadata values from JSON and to it.

use std::collections::HashSet;
use std::fmt;

use super::value::TYPES;
use crate::value_json::bytes_of;
use gristmill_gguf::edit::{integer_range, value_of, value_type_of};
use gristmill_gguf::{Array, KnownType, Text, Value, ValueType};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value as Json, json};

/// The value that a JSON value means for a key whose type may be `known`. An object says its type itself:
/// `{"type": "UINT32", "value": 5}`, or `{"type": "ARRAY", "element_type": "STRING", "value": […]}`; the arrays that
/// `inspect --json --full` prints are understood too.
pub fn value(json: &Json, known: Option<KnownType>) -> Result<Value, String> {
    if let Some(object) = json.as_object().filter(|_| !is_string(json)) {
        let Some(value) = object.get("value") else {
            return Err(match object.contains_key("preview") {
                true => "a \"preview\" is not the whole array; `inspect --json --full` prints it"
                    .to_owned(),
                false => "an object without \"value\"".to_owned(),
            });
        };
        let text = |object: &Map<String, Json>, name: &str| {
            object.get(name).and_then(Json::as_str).map(str::to_owned)
        };
        let ty = text(object, "type").ok_or("an object without \"type\"")?;
        if !ty.eq_ignore_ascii_case("array") {
            return scalar(value, type_named(&ty)?);
        }
        let nested = value.as_object();
        let element = text(object, "element_type")
            .or_else(|| nested.and_then(|nested| text(nested, "element_type_name")))
            .ok_or("an array without \"element_type\"")?;
        let items = nested.and_then(|nested| nested.get("items"));
        return array(items.unwrap_or(value), type_named(&element)?);
    }
    match known {
        Some(KnownType::List(element)) => array(json, element),
        Some(KnownType::One(ty)) => scalar(json, ty),
        None => new_value(json),
    }
}

fn type_named(name: &str) -> Result<ValueType, String> {
    if name.eq_ignore_ascii_case("array") {
        return Err(NESTED.to_owned());
    }
    value_type_of(name).ok_or_else(|| format!("{name:?} is no type; the types are {TYPES}"))
}

const NESTED: &str = "arrays of arrays cannot be set: no reader takes them";

/// Of a new key: what JSON says without doubt. A number may have any of ten types.
fn new_value(json: &Json) -> Result<Value, String> {
    let example = match json {
        _ if is_string(json) => return scalar(json, ValueType::String),
        Json::Bool(_) => return scalar(json, ValueType::Bool),
        Json::Array(items) => match element_type(items)? {
            ty @ (ValueType::String | ValueType::Bool) if !items.is_empty() => {
                return array(json, ty);
            }
            ty => json!({ "type": "ARRAY", "element_type": ty.name(), "value": json }),
        },
        Json::Number(_) => {
            let ty = element_type(std::slice::from_ref(json))?;
            json!({ "type": ty.name(), "value": json })
        }
        _ => return Err("null is no value: the format has none".to_owned()),
    };
    Err(format!(
        "the key is new, so its type must be said: {example}"
    ))
}

/// The type that the elements of an array look like (without any, text); the error says why they look like none.
pub fn element_type(items: &[Json]) -> Result<ValueType, String> {
    let all = |is: fn(&Json) -> bool| items.iter().all(is);
    let least = items.iter().filter_map(Json::as_i64).min().unwrap_or(0);
    let most = items.iter().filter_map(Json::as_u64).max().unwrap_or(0);
    let fits = |ty| {
        integer_range(ty)
            .is_some_and(|(low, high)| low <= i128::from(least) && i128::from(most) <= high)
    };
    let integers = [
        ValueType::U32,
        ValueType::I32,
        ValueType::U64,
        ValueType::I64,
    ];
    match items {
        _ if all(is_string) => Ok(ValueType::String),
        _ if all(Json::is_boolean) => Ok(ValueType::Bool),
        _ if all(|item| item.is_u64() || item.is_i64()) => {
            let found = integers.into_iter().find(|&ty| fits(ty));
            found.ok_or_else(|| "no integer type holds all of its elements".to_owned())
        }
        _ if all(Json::is_number) => Ok(ValueType::F32),
        _ if items.iter().any(Json::is_array) => Err(NESTED.to_owned()),
        _ => Err(
            "the elements of an array are of one type: texts, numbers, or true and false"
                .to_owned(),
        ),
    }
}

/// Whether it means a string: text, or bytes that are none.
fn is_string(json: &Json) -> bool {
    json.is_string() || bytes_of(json).is_some()
}

fn scalar(json: &Json, ty: ValueType) -> Result<Value, String> {
    if let (Some(bytes), ValueType::String) = (bytes_of(json), ty) {
        return Ok(Text::from_bytes(bytes?).into());
    }
    match (json, ty) {
        (Json::String(text), ValueType::String) => Ok(text.as_str().into()),
        (Json::Bool(value), ValueType::Bool) => Ok((*value).into()),
        // What no 64 bits hold comes as a float, which has lost its digits.
        (Json::Number(number), ty)
            if number.is_f64() && number.as_f64().is_some_and(|wide| wide.fract() == 0.0) =>
        {
            match integer_range(ty) {
                Some((least, most)) => {
                    Err(format!("{number} does not fit in {ty} ({least} to {most})"))
                }
                None => value_of(&number.to_string(), ty),
            }
        }
        (Json::Number(number), ty) if ty != ValueType::String => value_of(&number.to_string(), ty),
        // JSON has no infinities; as text they are clear enough.
        (Json::String(text), ValueType::F32 | ValueType::F64) => value_of(text, ty),
        _ => Err(format!("{json} is no {ty}")),
    }
}

/// An array of one element type.
pub fn array(json: &Json, element: ValueType) -> Result<Value, String> {
    let Json::Array(items) = json else {
        return Err(format!("{json} is no array"));
    };
    let mut array = empty(element)?;
    for item in items {
        push(&mut array, scalar(item, element)?);
    }
    Ok(array.into())
}

fn empty(element: ValueType) -> Result<Array, String> {
    Ok(match element {
        ValueType::U8 => Array::U8(Vec::new()),
        ValueType::I8 => Array::I8(Vec::new()),
        ValueType::U16 => Array::U16(Vec::new()),
        ValueType::I16 => Array::I16(Vec::new()),
        ValueType::U32 => Array::U32(Vec::new()),
        ValueType::I32 => Array::I32(Vec::new()),
        ValueType::F32 => Array::F32(Vec::new()),
        ValueType::Bool => Array::Bool(Vec::new()),
        ValueType::String => Array::String(Default::default()),
        ValueType::U64 => Array::U64(Vec::new()),
        ValueType::I64 => Array::I64(Vec::new()),
        ValueType::F64 => Array::F64(Vec::new()),
        ValueType::Array => return Err(NESTED.to_owned()),
    })
}

/// Adds an element, which has the array's type.
fn push(array: &mut Array, value: Value) {
    match (array, value) {
        (Array::U8(items), Value::U8(value)) => items.push(value),
        (Array::I8(items), Value::I8(value)) => items.push(value),
        (Array::U16(items), Value::U16(value)) => items.push(value),
        (Array::I16(items), Value::I16(value)) => items.push(value),
        (Array::U32(items), Value::U32(value)) => items.push(value),
        (Array::I32(items), Value::I32(value)) => items.push(value),
        (Array::F32(items), Value::F32(value)) => items.push(value),
        (Array::Bool(items), Value::Bool(value)) => items.push(value),
        (Array::String(items), Value::String(text)) => items.push(text.as_bytes()),
        (Array::U64(items), Value::U64(value)) => items.push(value),
        (Array::I64(items), Value::I64(value)) => items.push(value),
        (Array::F64(items), Value::F64(value)) => items.push(value),
        _ => {}
    }
}

/// The entries of an object, in their order; a key that is there twice is refused, as nobody knows which one counts.
pub struct Entries(pub Vec<(String, Json)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entries, D::Error> {
        struct OfObject;
        impl<'de> Visitor<'de> for OfObject {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
                let (mut seen, mut entries) = (HashSet::new(), Vec::new());
                while let Some((key, value)) = map.next_entry::<String, Json>()? {
                    if !seen.insert(key.clone()) {
                        return Err(A::Error::custom(format!("{key:?} is there twice")));
                    }
                    entries.push((key, value));
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(OfObject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, existing: Option<Value>) -> Result<Value, String> {
        let json = serde_json::from_str(text).expect("it is JSON");
        value(&json, existing.as_ref().map(KnownType::of))
    }

    #[test]
    fn a_value_keeps_the_type_of_its_key() {
        assert_eq!(of("5", Some(1u16.into())), Ok(5u16.into()));
        assert_eq!(of("5", Some(1f32.into())), Ok(5f32.into()));
        assert_eq!(
            of("[1, 2]", Some(vec![0u8].into())),
            Ok(vec![1u8, 2].into())
        );
        let error = of("70000", Some(1u16.into())).expect_err("it does not fit");
        assert_eq!(error, "70000 does not fit in UINT16 (0 to 65535)");
        let error = of("\"x\"", Some(1u16.into())).expect_err("it is text");
        assert_eq!(error, "\"x\" is no UINT16");
        assert!(of("[1, \"x\"]", Some(vec![0u8].into())).is_err());
    }

    #[test]
    fn entries_are_there_once_and_numbers_fit() {
        let entries = |text: &str| serde_json::from_str::<Entries>(text);
        let twice = entries(r#"{"a": "x", "a": "y"}"#)
            .err()
            .expect("it is there twice");
        assert!(
            twice.to_string().contains("\"a\" is there twice"),
            "{twice}"
        );
        let keys = entries(r#"{"b": 1, "a": 2}"#).expect("good").0;
        assert_eq!(
            keys.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(),
            ["b", "a"]
        );
        let error = of("18446744073709551616", Some(1u64.into())).expect_err("one too many");
        assert!(
            error.contains("does not fit in UINT64 (0 to 18446744073709551615)"),
            "{error}"
        );
    }

    #[test]
    fn a_new_key_says_its_type_where_json_does_not() {
        assert_eq!(of("\"x\"", None), Ok("x".into()));
        assert_eq!(of("true", None), Ok(true.into()));
        assert_eq!(of("[\"x\"]", None), Ok(vec!["x".to_owned()].into()));
        for unclear in ["5", "-5", "0.5", "[]", "[1]", "[1, -2.5]"] {
            let error = of(unclear, None).expect_err(unclear);
            let (_, example) = error.split_once("must be said: ").expect("an example");
            let followed = of(example, None).map(|value| value.type_name());
            assert!(followed.is_ok(), "{unclear}: {error}: {followed:?}");
        }
        let error = of("null", None).expect_err("there is no null");
        assert!(error.contains("null is no value"), "{error}");
        assert_eq!(of(r#"{"type": "u64", "value": 5}"#, None), Ok(5u64.into()));
        assert_eq!(
            of(r#"{"type": "f32", "value": "inf"}"#, None),
            Ok(f32::INFINITY.into())
        );
        for array in [
            r#"{"type": "ARRAY", "element_type": "INT8", "value": [-1, 2]}"#,
            // As `inspect --json --full` prints it.
            r#"{"type": "ARRAY", "value": {"element_type": 1, "element_type_name": "INT8", "items": [-1, 2]}}"#,
        ] {
            assert_eq!(of(array, None), Ok(vec![-1i8, 2].into()), "{array}");
        }
        let bytes: Value = Text::from_bytes([0xc3, 0xff]).into();
        for json in [
            r#"{"bytes": "c3FF"}"#,
            r#"{"type": "STRING", "value": {"bytes": "c3ff"}}"#,
        ] {
            assert_eq!(of(json, None), Ok(bytes.clone()), "{json}");
        }
        for json in [r#"{"bytes": "c3f"}"#, r#"{"bytes": "zz"}"#] {
            assert!(of(json, None).is_err(), "{json}");
        }
        assert!(of(r#"{"type": "u8"}"#, None).is_err());
        for (wrong, says) in [
            (
                r#"{"type": "ARRAY", "element_type": "ARRAY", "value": []}"#,
                "arrays of arrays",
            ),
            (r#"{"type": "FOO", "value": 1}"#, "the types are u8 "),
            (
                r#"{"type": "ARRAY", "element_type": "UINT8", "preview": [1]}"#,
                "not the whole array",
            ),
        ] {
            let error = of(wrong, None).expect_err(wrong);
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }
}
