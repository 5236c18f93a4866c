//! Operators of two values.

use std::rc::Rc;

use crate::builtin::printf;
use crate::error::{Result, TemplateError};
use crate::meter::{Meter, TextBuilder};
use crate::value::{ListBuilder, Number, Value, contains, display, equal, less};

/// `+`, `-`, `*`, `/`, `//`, `%`, `**` and `~`.
///
/// Errors: for values the operator does not take.
pub(super) fn binary(
    operator: &'static str,
    left: &Value,
    right: &Value,
    meter: &Rc<Meter>,
) -> Result<Value> {
    match (operator, left, right) {
        ("~", ..) => {
            let mut text = TextBuilder::new(meter)?;
            display(left, &mut text)?;
            display(right, &mut text)?;
            Value::from_builder(text)
        }
        ("+", Value::Text(a), Value::Text(b)) => {
            let mut text = TextBuilder::new(meter)?;
            text.push_str(a)?;
            text.push_str(b)?;
            Value::from_builder(text)
        }
        ("+", Value::List(a), Value::List(b)) if a.is_tuple() == b.is_tuple() => {
            let mut list = ListBuilder::new(meter)?;
            list.extend(a.items())?;
            list.extend(b.items())?;
            if a.is_tuple() {
                list.tuple()
            } else {
                list.value()
            }
        }
        ("%", Value::Text(format), _) => printf(format, right, meter),
        ("*", Value::Text(_) | Value::List(_), other) if other.as_integer().is_some() => {
            repeat(left, other.as_integer().unwrap_or(0), meter)
        }
        ("*", other, Value::Text(_) | Value::List(_)) if other.as_integer().is_some() => {
            repeat(right, other.as_integer().unwrap_or(0), meter)
        }
        _ => match (Number::of(left), Number::of(right)) {
            (Some(a), Some(b)) => Ok(a.apply(operator, b)?.value()),
            _ => Err(TemplateError::operation(format!(
                "{operator} of a {} and a {}",
                left.kind(),
                right.kind()
            ))),
        },
    }
}

/// A text or list `n` times; below 1 nothing.
fn repeat(value: &Value, n: i128, meter: &Rc<Meter>) -> Result<Value> {
    let n = usize::try_from(n.max(0)).unwrap_or(usize::MAX);
    if let Value::List(list) = value {
        let mut repeated = ListBuilder::new(meter)?;
        for _ in 0..if list.items().is_empty() { 0 } else { n } {
            repeated.extend(list.items())?;
        }
        return if list.is_tuple() {
            repeated.tuple()
        } else {
            repeated.value()
        };
    }
    let mut text = TextBuilder::new(meter)?;
    text.push_repeated(value.as_str().unwrap_or_default(), n)?;
    Value::from_builder(text)
}

/// A comparison, `in` and `not in`.
///
/// Errors: for values without an order, or no container.
pub(super) fn compare(
    operator: &'static str,
    left: &Value,
    right: &Value,
    meter: &Meter,
) -> Result<bool> {
    match operator {
        "==" => equal(left, right, meter),
        "!=" => Ok(!equal(left, right, meter)?),
        "<" => less(left, right, false, meter),
        "<=" => less(left, right, true, meter),
        ">" => less(right, left, false, meter),
        ">=" => less(right, left, true, meter),
        "in" => contains(right, left, meter),
        _ => Ok(!contains(right, left, meter)?),
    }
}
