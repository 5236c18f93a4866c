//! Equality and order, as Python has them.

use std::cmp::Ordering;
use std::rc::Rc;

use super::{Number, Text, Value};
use crate::error::{Result, TemplateError};
use crate::meter::{Charge, Meter};

/// Python's `==`. The recursion ends at the limit of nesting.
pub(crate) fn equal(a: &Value, b: &Value, meter: &Meter) -> Result<bool> {
    meter.work(1)?;
    if let (Some(a), Some(b)) = (Number::of(a), Number::of(b)) {
        return Ok(a.compare(b) == Some(Ordering::Equal));
    }
    Ok(match (a, b) {
        (Value::Undefined, Value::Undefined) | (Value::None, Value::None) => true,
        (Value::Text(a), Value::Text(b)) => {
            meter.copy(a.len().min(b.len()))?;
            a.as_str() == b.as_str()
        }
        (Value::List(a), Value::List(b)) => {
            let tuples = (a.is_tuple(), b.is_tuple());
            let (a, b) = (a.items(), b.items());
            if a.len() != b.len() || tuples.0 != tuples.1 {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b) {
                if !equal(a, b, meter)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(a), Value::Map(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (key, value) in a.entries() {
                match b.get(key)? {
                    Some(other) if equal(value, other, meter)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        (Value::Namespace(a), Value::Namespace(b)) => Rc::ptr_eq(a, b),
        (Value::Loop(a), Value::Loop(b)) => Rc::ptr_eq(a, b),
        (Value::Cycler(a), Value::Cycler(b)) => Rc::ptr_eq(a, b),
        (Value::Joiner(a), Value::Joiner(b)) => Rc::ptr_eq(a, b),
        (Value::Function(a), Value::Function(b)) => a == b,
        (Value::Macro(a), Value::Macro(b)) => a.index == b.index,
        _ => false,
    })
}

/// Python's order.
///
/// Errors: for values without one.
fn order(a: &Value, b: &Value, meter: &Meter) -> Result<Option<Ordering>> {
    meter.work(1)?;
    if let (Some(a), Some(b)) = (Number::of(a), Number::of(b)) {
        return Ok(a.compare(b));
    }
    match (a, b) {
        (Value::Text(a), Value::Text(b)) => {
            meter.copy(a.len().min(b.len()))?;
            Ok(Some(a.as_str().cmp(b.as_str())))
        }
        (Value::List(a), Value::List(b)) => {
            for (a, b) in a.items().iter().zip(b.items()) {
                if !equal(a, b, meter)? {
                    return order(a, b, meter);
                }
            }
            Ok(Some(a.items().len().cmp(&b.items().len())))
        }
        _ => Err(TemplateError::operation(format!(
            "a {} and a {} have no order",
            a.kind(),
            b.kind()
        ))),
    }
}

/// Python's `<`, or with `or_equal` `<=`.
pub(crate) fn less(a: &Value, b: &Value, or_equal: bool, meter: &Meter) -> Result<bool> {
    Ok(match order(a, b, meter)? {
        Some(Ordering::Less) => true,
        Some(Ordering::Equal) => or_equal,
        _ => false,
    })
}

/// Python's `in`.
///
/// Errors: for containers that are none.
pub(crate) fn contains(container: &Value, item: &Value, meter: &Meter) -> Result<bool> {
    match (container, item) {
        (Value::Text(text), Value::Text(part)) => {
            meter.scan(text.len() + part.len())?;
            Ok(text.contains(part.as_str()))
        }
        (Value::List(list), _) => {
            for other in list.items() {
                if equal(other, item, meter)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (Value::Map(map), _) => Ok(map.get(item)?.is_some()),
        (Value::Undefined, _) => Ok(false),
        _ => Err(TemplateError::operation(format!(
            "a {} cannot be in a {}",
            item.kind(),
            container.kind()
        ))),
    }
}

/// What items are sorted by: a total order, so that sorting cannot fail half-way.
pub(crate) enum SortKey {
    Number(Number),
    Text(Rc<Text>),
    Folded(String),
}

impl SortKey {
    /// The key of a scalar, letters without their case on wish; `charge` pays for what it holds.
    ///
    /// Errors: for values without an order.
    pub fn new(value: &Value, fold: bool, charge: &mut Charge) -> Result<SortKey> {
        charge.grow(size_of::<SortKey>())?;
        if let Some(number) = Number::of(value) {
            return Ok(SortKey::Number(number));
        }
        match value {
            Value::Text(text) if fold => {
                charge.meter().scan(text.len())?;
                charge.grow(text.len() * 3)?; // no letter grows more
                Ok(SortKey::Folded(text.to_lowercase()))
            }
            Value::Text(text) => Ok(SortKey::Text(Rc::clone(text))),
            other => Err(TemplateError::operation(format!(
                "a {} cannot be sorted",
                other.kind()
            ))),
        }
    }

    fn as_str(&self) -> Option<&str> {
        match self {
            SortKey::Number(_) => None,
            SortKey::Text(text) => Some(text),
            SortKey::Folded(text) => Some(text),
        }
    }

    /// Bytes that a comparison looks at.
    pub fn len(&self) -> usize {
        self.as_str().map_or(0, str::len)
    }

    pub fn is_text(&self) -> bool {
        self.as_str().is_some()
    }

    pub fn compare(&self, other: &SortKey) -> Ordering {
        match (self, other) {
            (SortKey::Number(a), SortKey::Number(b)) => a.total_order(*b),
            _ => self.as_str().cmp(&other.as_str()),
        }
    }
}
