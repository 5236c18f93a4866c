//! Filters of numbers.

use super::{Arguments, select};
use crate::error::{Result, TemplateError};
use crate::value::{Number, Value};

pub(super) fn abs(value: &Value, _: &mut Arguments) -> Result<Value> {
    match Number::of(value) {
        Some(Number::Integer(n)) if n != i128::MIN => Ok(Value::Integer(n.abs())),
        Some(number) => Ok(Value::Float(number.to_f64().abs())),
        None => Err(TemplateError::operation(format!(
            "abs of a {}",
            value.kind()
        ))),
    }
}

pub(super) fn bool(value: &Value, _: &mut Arguments) -> Result<Value> {
    Ok(Value::Bool(value.is_true()))
}

/// A number, or what a string spells; else `default`.
pub(super) fn int(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let default = arguments.next("default").unwrap_or(Value::Integer(0));
    let base = arguments.optional_integer("base")?.unwrap_or(10);
    let number = match value {
        Value::Float(x) if x.is_finite() && x.abs() < 1e38 => Some(x.trunc() as i128),
        Value::Text(text) => {
            arguments.meter().scan(text.len())?;
            spelled(text, base)
        }
        other => other.as_integer(),
    };
    Ok(number.map_or(default, Value::Integer))
}

fn spelled(text: &str, base: i128) -> Option<i128> {
    let text = text.trim();
    let (digits, negative) = match text.strip_prefix('-') {
        Some(rest) => (rest, true),
        None => (text.strip_prefix('+').unwrap_or(text), false),
    };
    let prefix = match base {
        16 => Some(["0x", "0X"]),
        8 => Some(["0o", "0O"]),
        2 => Some(["0b", "0B"]),
        _ => None,
    };
    let stripped = prefix.and_then(|prefix| prefix.iter().find_map(|p| digits.strip_prefix(p)));
    let digits = stripped.unwrap_or(digits);
    let radix = u32::try_from(base)
        .ok()
        .filter(|base| (2..=36).contains(base))?;
    if digits.len() > 200 || !digits.starts_with(|c: char| c.is_alphanumeric()) {
        return None;
    }
    let number = i128::from_str_radix(&digits.replace('_', ""), radix).ok();
    // as Jinja does, a float in a string counts
    let number = number.or_else(|| {
        let float: f64 = digits.parse().ok()?;
        (float.is_finite() && float.abs() < 1e38).then_some(float.trunc() as i128)
    })?;
    Some(if negative { -number } else { number })
}

pub(super) fn float(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let default = arguments.next("default").unwrap_or(Value::Float(0.0));
    let number = match value {
        Value::Text(text) => {
            arguments.meter().scan(text.len())?;
            text.trim().parse().ok()
        }
        other => Number::of(other).map(Number::to_f64),
    };
    Ok(number.map_or(default, Value::Float))
}

/// `filesizeformat(binary=false)`: a number of bytes in words.
pub(super) fn filesizeformat(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let is_binary = arguments.flag("binary", false);
    let meter = arguments.meter();
    let bytes = match value {
        Value::Text(text) => {
            meter.scan(text.len())?;
            text.trim().parse().ok()
        }
        other => Number::of(other).map(Number::to_f64),
    };
    let bytes: f64 = bytes
        .ok_or_else(|| TemplateError::operation(format!("filesizeformat of a {}", value.kind())))?;
    let (base, infix) = if is_binary {
        (1024f64, "i")
    } else {
        (1000f64, "")
    };
    if bytes == 1.0 {
        return Value::text(meter, "1 Byte");
    }
    if bytes < base {
        return Value::text(meter, &format!("{:.0} Bytes", bytes.trunc() + 0.0));
    }
    let first = if is_binary { "K" } else { "k" };
    let mut unit = base * base;
    let mut prefix = first;
    for larger in ["M", "G", "T", "P", "E", "Z", "Y"] {
        if bytes < unit {
            break;
        }
        unit *= base;
        prefix = larger;
    }
    let number = base * bytes / unit;
    Value::text(meter, &format!("{number:.1} {prefix}{infix}B"))
}

/// `round(precision=0, method='common')`, to even halves as Python does.
pub(super) fn round(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let precision = arguments.optional_integer("precision")?.unwrap_or(0);
    let method = arguments.optional_text("method")?;
    let Some(number) = Number::of(value) else {
        return Err(TemplateError::operation(format!(
            "round of a {}",
            value.kind()
        )));
    };
    let method = method.as_ref().map_or("common", |method| method.as_str());
    let precision = precision.clamp(-300, 300) as i32;
    if let (Number::Integer(n), "common", 0..) = (number, method, precision) {
        return Ok(Value::Integer(n));
    }
    let x = number.to_f64();
    let factor = 10f64.powi(precision);
    Ok(Value::Float(match method {
        "ceil" => (x * factor).ceil() / factor,
        "floor" => (x * factor).floor() / factor,
        // the decimal expansion is exact, so this rounds the value and not its neighbour
        "common" if precision >= 0 => {
            let digits = usize::from(precision.unsigned_abs() as u16);
            format!("{x:.digits$}").parse().unwrap_or(x)
        }
        "common" => {
            let rounded = (x * factor).round_ties_even() / factor;
            return Ok(match number {
                Number::Integer(_) if rounded.abs() < 1e15 => Value::Integer(rounded as i128),
                _ => Value::Float(rounded),
            });
        }
        other => {
            let other: String = other.chars().take(50).collect();
            return Err(TemplateError::operation(format!(
                "round: no method '{other}'"
            )));
        }
    }))
}

/// `sum(attribute=none, start=0)`
pub(super) fn sum(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let attribute = arguments.next("attribute").filter(Value::is_given);
    let start = arguments.next("start").unwrap_or(Value::Integer(0));
    let meter = arguments.meter();
    let not_summed = |value: &Value| TemplateError::operation(format!("sum of a {}", value.kind()));
    let mut total = Number::of(&start).ok_or_else(|| not_summed(&start))?;
    for item in value.items(meter)?.items() {
        meter.work(1)?;
        let item = select::attribute_of(item, attribute.as_ref(), meter)?;
        let number = Number::of(&item).ok_or_else(|| not_summed(&item))?;
        total = total.apply("+", number)?;
    }
    Ok(total.value())
}
