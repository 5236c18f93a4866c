//! Values from JSON.

use std::rc::Rc;

use super::{ListBuilder, MapBuilder, Value};
use crate::error::Result;
use crate::meter::Meter;

/// The value of a JSON text.
///
/// Errors: where it is nested too deeply; the recursion ends there.
pub(crate) fn from_json(json: &serde_json::Value, meter: &Rc<Meter>) -> Result<Value> {
    nested(json, 0, meter)
}

fn nested(json: &serde_json::Value, depth: u16, meter: &Rc<Meter>) -> Result<Value> {
    use serde_json::Value as Json;
    if depth > super::MAX_NESTING {
        return Err(super::list::too_deep());
    }
    Ok(match json {
        Json::Null => Value::None,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i128(), number.as_f64()) {
            (Some(n), _) => Value::Integer(n),
            (None, Some(x)) => Value::Float(x),
            (None, None) => Value::Undefined, // no number of JSON is neither
        },
        Json::String(text) => Value::text(meter, text)?,
        Json::Array(items) => {
            let mut list = ListBuilder::new(meter)?;
            for item in items {
                list.push(nested(item, depth + 1, meter)?)?;
            }
            list.value()?
        }
        Json::Object(entries) => {
            let mut map = MapBuilder::new(meter)?;
            for (key, item) in entries {
                map.insert(Value::text(meter, key)?, nested(item, depth + 1, meter)?)?;
            }
            map.value()?
        }
    })
}
