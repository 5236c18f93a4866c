//! Methods of maps and lists. Those that would change them are known by name, to say that they cannot.

use std::rc::Rc;

use super::Arguments;
use crate::error::{Result, TemplateError};
use crate::value::{List, ListBuilder, Map, Value, equal};

pub(super) static MAP_METHODS: &[&str] = &[
    "clear",
    "copy",
    "get",
    "items",
    "keys",
    "pop",
    "popitem",
    "setdefault",
    "update",
    "values",
];

pub(super) static LIST_METHODS: &[&str] = &[
    "append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "sort",
];

fn changes(kind: &str, name: &str) -> TemplateError {
    TemplateError::operation(format!(
        "'{name}' changes its {kind}, which a template cannot"
    ))
}

/// Calls a method of a map.
pub(super) fn call(
    value: &Value,
    map: &Rc<Map>,
    name: &str,
    arguments: &mut Arguments,
) -> Result<Option<Value>> {
    let meter = Rc::clone(arguments.meter());
    Ok(Some(match name {
        "get" => {
            let key = arguments.required("key")?;
            let default = arguments.next("default").unwrap_or(Value::None);
            map.get(&key)?.cloned().unwrap_or(default)
        }
        "items" => Value::List(map.pairs()?),
        "keys" => Value::List(value.items(&meter)?),
        "values" => {
            let mut values = ListBuilder::new(&meter)?;
            for (_, value) in map.entries() {
                values.push(value.clone())?;
            }
            values.value()?
        }
        "copy" => value.clone(),
        name if MAP_METHODS.contains(&name) => return Err(changes("dict", name)),
        _ => return Ok(None),
    }))
}

/// Calls a method of a list.
pub(super) fn call_list(
    value: &Value,
    list: &Rc<List>,
    name: &str,
    arguments: &mut Arguments,
) -> Result<Option<Value>> {
    let meter = Rc::clone(arguments.meter());
    Ok(Some(match name {
        "copy" => value.clone(),
        "count" => {
            let wanted = arguments.required("value")?;
            let mut n = 0;
            for item in list.items() {
                n += i128::from(equal(item, &wanted, &meter)?);
            }
            Value::Integer(n)
        }
        "index" => {
            let wanted = arguments.required("value")?;
            for (index, item) in list.items().iter().enumerate() {
                if equal(item, &wanted, &meter)? {
                    return Ok(Some(Value::Integer(index as i128)));
                }
            }
            return Err(TemplateError::operation("the value is not in the list"));
        }
        name if LIST_METHODS.contains(&name) => return Err(changes("list", name)),
        _ => return Ok(None),
    }))
}
