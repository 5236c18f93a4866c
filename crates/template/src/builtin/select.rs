//! Filters that look into items: map, select and their kin.

use std::rc::Rc;

use super::{Arguments, filter, test};
use crate::error::{Result, TemplateError};
use crate::meter::Meter;
use crate::value::{List, ListBuilder, Value};

/// The entry of a value, by a name with dots, or by an index; without a path the value itself.
pub(super) fn attribute_of(
    value: &Value,
    path: Option<&Value>,
    meter: &Rc<Meter>,
) -> Result<Value> {
    let Some(path) = path else {
        return Ok(value.clone());
    };
    let Some(text) = path.as_str() else {
        return Ok(entry(value, path)?.unwrap_or(Value::Undefined));
    };
    meter.scan(text.len())?;
    if !text.contains('.') {
        return Ok(entry(value, path)?.unwrap_or(Value::Undefined));
    }
    let mut value = value.clone();
    for part in text.split('.') {
        let key = match part.parse() {
            Ok(index) => Value::Integer(index),
            Err(_) => Value::text(meter, part)?,
        };
        value = entry(&value, &key)?.unwrap_or(Value::Undefined);
    }
    Ok(value)
}

fn entry(value: &Value, key: &Value) -> Result<Option<Value>> {
    Ok(match (value, key) {
        (Value::Map(map), _) => map.get(key)?.cloned(),
        (Value::Namespace(namespace), Value::Text(name)) => namespace.get(name),
        (Value::Loop(state), Value::Text(name)) => Some(state.attribute(name)),
        (Value::Cycler(cycler), Value::Text(name)) if name.as_str() == "current" => {
            Some(cycler.current())
        }
        (Value::List(list), _) => key
            .as_integer()
            .and_then(|index| usize::try_from(index).ok())
            .and_then(|index| list.items().get(index).cloned()),
        _ => None,
    })
}

/// `attr(name)`
pub(super) fn attr(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let name = arguments.required("name")?;
    Ok(entry(value, &name)?.unwrap_or(Value::Undefined))
}

/// The items of a value; whatever is false has none here, as in Jinja.
fn items_of(value: &Value, meter: &Rc<Meter>) -> Result<Rc<List>> {
    match value.is_true() {
        true => value.items(meter),
        false => Value::Undefined.items(meter),
    }
}

/// Hands the arguments that are left to a filter or test of each item.
fn inner(rest: &[Value], arguments: &Arguments) -> Result<Arguments> {
    let mut inner = Arguments::new(arguments.meter())?;
    rest.iter()
        .try_for_each(|value| inner.push(value.clone()))?;
    Ok(inner)
}

/// `map(filter, …)`, or `map(attribute=…, default=…)`.
pub(super) fn map(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let attribute = arguments.named("attribute");
    let meter = Rc::clone(arguments.meter());
    let mut mapped = ListBuilder::new(&meter)?;
    let items = items_of(value, &meter)?;
    if let Some(attribute) = attribute {
        let default = arguments.named("default").unwrap_or(Value::Undefined);
        for item in items.items() {
            let found = attribute_of(item, Some(&attribute), &meter)?;
            let undefined = found.is_undefined();
            mapped.push(if undefined { default.clone() } else { found })?;
        }
        return mapped.value();
    }
    let name = arguments.text("filter")?;
    let rest = arguments.rest();
    let named = arguments.rest_named();
    for item in items.items() {
        let mut inner = inner(&rest, arguments)?;
        for (name, value) in &named {
            inner.push_named(Rc::clone(name), value.clone())?;
        }
        // a map may map by map
        let result = meter.nested(|| filter(&name, item.clone(), inner, &meter))?;
        mapped.push(result)?;
    }
    mapped.value()
}

/// Keeps the items of which a test, or their truth, is `wanted`.
fn keep(
    value: &Value,
    arguments: &mut Arguments,
    attribute: Option<Value>,
    wanted: bool,
) -> Result<Value> {
    let meter = Rc::clone(arguments.meter());
    let name = arguments.next("test");
    let rest = arguments.rest();
    let mut kept = ListBuilder::new(&meter)?;
    for item in items_of(value, &meter)?.items() {
        meter.work(1)?;
        let looked_at = attribute_of(item, attribute.as_ref(), &meter)?;
        let holds = match &name {
            None => looked_at.is_true(),
            Some(Value::Text(name)) => test(name, &looked_at, inner(&rest, arguments)?)?,
            Some(_) => return Err(TemplateError::operation("the name of a test is a string")),
        };
        if holds == wanted {
            kept.push(item.clone())?;
        }
    }
    kept.value()
}

pub(super) fn select(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    keep(value, arguments, None, true)
}

pub(super) fn reject(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    keep(value, arguments, None, false)
}

pub(super) fn selectattr(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let attribute = arguments.required("attribute")?;
    keep(value, arguments, Some(attribute), true)
}

pub(super) fn rejectattr(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let attribute = arguments.required("attribute")?;
    keep(value, arguments, Some(attribute), false)
}
