//! Functions.

use std::rc::Rc;

use super::Arguments;
use crate::error::{Result, TemplateError};
use crate::meter::TextBuilder;
use crate::value::{Cycler, Joiner, ListBuilder, MapBuilder, Namespace, Value, display};

/// The longest range, as in Jinja's sandbox.
const RANGE_MAX: i128 = 100_000;

/// `range([start,] stop[, step])`
pub(super) fn range(arguments: &mut Arguments) -> Result<Value> {
    let missing = || TemplateError::operation("range takes integers");
    let first = arguments.optional_integer("start")?.ok_or_else(missing)?;
    let second = arguments.optional_integer("stop")?;
    let step = arguments.optional_integer("step")?.unwrap_or(1);
    let (start, stop) = match second {
        Some(stop) => (first, stop),
        None => (0, first),
    };
    let distance = if step > 0 {
        stop.checked_sub(start)
    } else {
        start.checked_sub(stop)
    };
    let (Some(distance), Some(width)) = (distance, step.checked_abs().filter(|&step| step > 0))
    else {
        return Err(TemplateError::operation("range: the step cannot be 0"));
    };
    let n = if distance > 0 {
        (distance - 1) / width + 1
    } else {
        0
    };
    if n > RANGE_MAX {
        return Err(TemplateError::operation(format!(
            "range: {n} items are more than {RANGE_MAX}"
        )));
    }
    let mut list = ListBuilder::new(arguments.meter())?;
    for index in 0..n {
        list.push(Value::Integer(start + index * step))?;
    }
    list.value()
}

/// `raise_exception(message)`
pub(super) fn raise_exception(arguments: &mut Arguments) -> Result<Value> {
    let message = arguments.required("message")?;
    let mut text = TextBuilder::new(arguments.meter())?;
    display(&message, &mut text)?;
    Err(TemplateError::Refused {
        message: text.as_str().to_owned(),
    })
}

/// `namespace(name=value, …)`, or with a map first.
pub(super) fn namespace(mut arguments: Arguments) -> Result<Value> {
    let namespace = Namespace::new(arguments.meter())?;
    if let Some(Value::Map(map)) = arguments.next("") {
        for (key, value) in map.entries() {
            if let Value::Text(key) = key {
                namespace.set(key, value.clone())?;
            }
        }
    }
    for (name, value) in arguments.rest_named() {
        namespace.set(&name, value)?;
    }
    arguments.finish("namespace")?;
    Ok(Value::Namespace(Rc::new(namespace)))
}

/// `cycler(item, …)`
pub(super) fn cycler(arguments: &mut Arguments) -> Result<Value> {
    let mut items = ListBuilder::new(arguments.meter())?;
    items.extend(&arguments.rest())?;
    let cycler = Cycler::new(items.finish(true)?);
    let cycler = cycler.ok_or_else(|| TemplateError::operation("cycler: no items"))?;
    Ok(Value::Cycler(Rc::new(cycler)))
}

/// `joiner(sep=', ')`
pub(super) fn joiner(arguments: &mut Arguments) -> Result<Value> {
    let separator = match arguments.next("sep") {
        Some(separator) => separator,
        None => Value::text(arguments.meter(), ", ")?,
    };
    let joiner = Joiner::new(separator, arguments.meter())?;
    Ok(Value::Joiner(Rc::new(joiner)))
}

/// `dict(name=value, …)`, or with a map first.
pub(super) fn dict(mut arguments: Arguments) -> Result<Value> {
    let mut built = MapBuilder::new(arguments.meter())?;
    match arguments.next("") {
        Some(Value::Map(map)) => {
            for (key, value) in map.entries() {
                built.insert(key.clone(), value.clone())?;
            }
        }
        Some(value) => {
            let meter = arguments.meter();
            for pair in value.items(meter)?.items() {
                match pair.items(meter)?.items() {
                    [key, value] => built.insert(key.clone(), value.clone())?,
                    _ => return Err(TemplateError::operation("dict takes pairs")),
                }
            }
        }
        None => {}
    }
    for (name, value) in arguments.rest_named() {
        built.insert(Value::Text(name), value)?;
    }
    arguments.finish("dict")?;
    built.value()
}
