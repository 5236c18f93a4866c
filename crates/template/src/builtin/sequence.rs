//! Filters of lists and of what can be made one.

use super::{Arguments, select};
use crate::error::{Result, TemplateError};
use crate::meter::TextBuilder;
use crate::value::{ListBuilder, Value, display};

/// `default(value='', boolean=false)`
pub(super) fn default(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let default = match arguments.next("default_value") {
        Some(default) => default,
        None => Value::text(arguments.meter(), "")?,
    };
    let by_truth = arguments.flag("boolean", false);
    Ok(
        match value.is_undefined() || (by_truth && !value.is_true()) {
            true => default,
            false => value.clone(),
        },
    )
}

pub(super) fn length(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    Ok(Value::Integer(value.length(arguments.meter())? as i128))
}

pub(super) fn list(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let items = value.items(arguments.meter())?;
    if !items.is_tuple() {
        return Ok(Value::List(items));
    }
    let mut list = ListBuilder::new(arguments.meter())?;
    list.extend(items.items())?;
    list.value()
}

pub(super) fn first(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    if let Value::Text(text) = value {
        let Some(first) = text.chars().next() else {
            return Ok(Value::Undefined);
        };
        return Value::text(arguments.meter(), first.encode_utf8(&mut [0; 4]));
    }
    let items = value.items(arguments.meter())?;
    Ok(items.items().first().cloned().unwrap_or(Value::Undefined))
}

pub(super) fn last(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    if let Value::Text(text) = value {
        let Some(last) = text.chars().next_back() else {
            return Ok(Value::Undefined);
        };
        return Value::text(arguments.meter(), last.encode_utf8(&mut [0; 4]));
    }
    let items = value.items(arguments.meter())?;
    Ok(items.items().last().cloned().unwrap_or(Value::Undefined))
}

pub(super) fn reverse(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let meter = arguments.meter();
    if let Value::Text(text) = value {
        meter.scan(text.len())?;
        let mut reversed = TextBuilder::new(meter)?;
        for character in text.chars().rev() {
            reversed.push(character)?;
        }
        return Value::from_builder(reversed);
    }
    let mut list = ListBuilder::new(meter)?;
    list.extend(value.items(meter)?.items())?;
    list.reverse();
    list.value()
}

/// Tuples of key and value.
pub(super) fn items(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    match value {
        Value::Map(map) => Ok(Value::List(map.pairs()?)),
        Value::Undefined => ListBuilder::new(arguments.meter())?.value(),
        other => Err(TemplateError::operation(format!(
            "a {} has no items of keys and values",
            other.kind()
        ))),
    }
}

/// `join(d='', attribute=none)`
pub(super) fn join(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let separator = arguments.next("d");
    let attribute = arguments.next("attribute").filter(Value::is_given);
    let meter = arguments.meter();
    let mut text = TextBuilder::new(meter)?;
    for (index, item) in value.items(meter)?.items().iter().enumerate() {
        if let (Some(separator), 1..) = (&separator, index) {
            display(separator, &mut text)?;
        }
        meter.work(1)?;
        let item = select::attribute_of(item, attribute.as_ref(), meter)?;
        display(&item, &mut text)?;
    }
    Value::from_builder(text)
}

/// `batch(linecount, fill_with=none)`: rows of so many items.
pub(super) fn batch(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let n = arguments.count("linecount", 0)?;
    let fill = arguments.next("fill_with").filter(Value::is_given);
    if n == 0 {
        return Err(TemplateError::operation("batch: rows of 0 items"));
    }
    let meter = arguments.meter();
    let mut rows = ListBuilder::new(meter)?;
    for items in value.items(meter)?.items().chunks(n) {
        let mut row = ListBuilder::new(meter)?;
        row.extend(items)?;
        if let Some(fill) = &fill {
            while row.len() < n {
                row.push(fill.clone())?;
            }
        }
        rows.push(row.value()?)?;
    }
    rows.value()
}

/// `slice(slices, fill_with=none)`: so many columns, the first ones longer.
pub(super) fn slice(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let n = arguments.count("slices", 0)?;
    let fill = arguments.next("fill_with").filter(Value::is_given);
    if n == 0 {
        return Err(TemplateError::operation("slice: into 0 columns"));
    }
    let meter = arguments.meter();
    let items = value.items(meter)?;
    let (short, n_long) = (items.items().len() / n, items.items().len() % n);
    let mut columns = ListBuilder::new(meter)?;
    let mut start = 0;
    for index in 0..n {
        let length = short + usize::from(index < n_long);
        let mut column = ListBuilder::new(meter)?;
        column.extend(&items.items()[start..start + length])?;
        if let (Some(fill), true) = (&fill, index >= n_long && n_long > 0) {
            column.push(fill.clone())?;
        }
        columns.push(column.value()?)?;
        start += length;
    }
    columns.value()
}
