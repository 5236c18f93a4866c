//! Python's numbers.

use super::Value;
use crate::error::{Result, TemplateError};

/// An integer or a float.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Integer(i128),
    Float(f64),
}

impl Number {
    /// The number, where the value is one; booleans are 0 and 1.
    pub fn of(value: &Value) -> Option<Number> {
        match value {
            Value::Float(x) => Some(Number::Float(*x)),
            other => other.as_integer().map(Number::Integer),
        }
    }

    pub fn to_f64(self) -> f64 {
        match self {
            Number::Integer(n) => n as f64,
            Number::Float(x) => x,
        }
    }

    pub fn value(self) -> Value {
        match self {
            Number::Integer(n) => Value::Integer(n),
            Number::Float(x) => Value::Float(x),
        }
    }

    /// By exact value; none where one is not a number.
    pub fn compare(self, other: Number) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Number::Integer(a), Number::Integer(b)) => Some(a.cmp(&b)),
            _ => self.to_f64().partial_cmp(&other.to_f64()),
        }
    }

    /// A total order: by value, then integers before floats, so that sorting always has one.
    pub fn total_order(self, other: Number) -> std::cmp::Ordering {
        let exact = |number| match number {
            Number::Integer(n) => (false, n),
            Number::Float(_) => (true, 0),
        };
        let by_value = self.to_f64().total_cmp(&other.to_f64());
        by_value.then_with(|| exact(self).cmp(&exact(other)))
    }

    /// One of `+`, `-`, `*`, `/`, `//`, `%` and `**`.
    ///
    /// Errors: division by zero, and integers beyond 128 bits.
    pub fn apply(self, operator: &'static str, other: Number) -> Result<Number> {
        match (self, other) {
            (Number::Integer(a), Number::Integer(b)) => integers(operator, a, b),
            _ => floats(operator, self.to_f64(), other.to_f64()),
        }
    }
}

fn by_zero() -> TemplateError {
    TemplateError::operation("division by zero")
}

fn integers(operator: &'static str, a: i128, b: i128) -> Result<Number> {
    if b == 0 && matches!(operator, "/" | "//" | "%") {
        return Err(by_zero());
    }
    let result = match operator {
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        "/" => return Ok(Number::Float(a as f64 / b as f64)),
        "//" => a
            .checked_div_euclid(b)
            .map(|quotient| quotient - i128::from(b < 0 && a.checked_rem_euclid(b) != Some(0))),
        "%" => a
            .checked_rem_euclid(b)
            .map(|rest| if b < 0 && rest != 0 { rest + b } else { rest }),
        _ if b < 0 => return floats(operator, a as f64, b as f64),
        _ => u32::try_from(b)
            .ok()
            .and_then(|b| a.checked_pow(b))
            .or((a == 0 || a == 1).then_some(a)),
    };
    result
        .map(Number::Integer)
        .ok_or_else(|| TemplateError::operation(format!("{operator}: the integer is too large")))
}

fn floats(operator: &'static str, a: f64, b: f64) -> Result<Number> {
    if b == 0.0 && matches!(operator, "/" | "//" | "%") {
        return Err(by_zero());
    }
    // the remainder has the sign of the divisor
    let mut rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) {
        rest += b;
    }
    Ok(Number::Float(match operator {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" => a / b,
        "//" => ((a - rest) / b).round(),
        "%" => rest,
        _ if a == 0.0 && b < 0.0 => return Err(by_zero()),
        _ => a.powf(b),
    }))
}

/// Python's `repr` of a float: the shortest digits, an exponent below 1e-4 and from 1e16 on. Infinities and NaN are
/// for the caller.
pub(crate) fn write_float(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e16).contains(&magnitude) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        format!("{digits}e{sign}{exponent:0>2}")
    } else {
        format!("{value:?}")
    }
}
