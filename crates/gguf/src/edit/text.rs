//! Values from text, as a command line has them.

use std::str::FromStr;

use crate::value::{Value, ValueType};

/// A value type by its short name (`u32`, `str`, …) or by the specification's (`UINT32`), in any
/// case. `arr` is left out: an array is written as its element type and JSON.
pub fn value_type_of(name: &str) -> Option<ValueType> {
    Some(match name.to_ascii_lowercase().as_str() {
        "u8" | "uint8" => ValueType::U8,
        "i8" | "int8" => ValueType::I8,
        "u16" | "uint16" => ValueType::U16,
        "i16" | "int16" => ValueType::I16,
        "u32" | "uint32" => ValueType::U32,
        "i32" | "int32" => ValueType::I32,
        "u64" | "uint64" => ValueType::U64,
        "i64" | "int64" => ValueType::I64,
        "f32" | "float32" => ValueType::F32,
        "f64" | "float64" => ValueType::F64,
        "bool" => ValueType::Bool,
        "str" | "string" => ValueType::String,
        _ => return None,
    })
}

/// The value of this type that a text means. Numbers must fit exactly (integers) or be
/// representable as something finite (floats, unless `inf` or `nan` is written); a string is taken
/// as it is.
///
/// # Errors
/// What is wrong with the text, for a message.
pub fn value_of(text: &str, ty: ValueType) -> Result<Value, String> {
    Ok(match ty {
        ValueType::U8 => Value::U8(integer(text, ty)?),
        ValueType::I8 => Value::I8(integer(text, ty)?),
        ValueType::U16 => Value::U16(integer(text, ty)?),
        ValueType::I16 => Value::I16(integer(text, ty)?),
        ValueType::U32 => Value::U32(integer(text, ty)?),
        ValueType::I32 => Value::I32(integer(text, ty)?),
        ValueType::U64 => Value::U64(integer(text, ty)?),
        ValueType::I64 => Value::I64(integer(text, ty)?),
        ValueType::F32 => {
            let value: f32 = number(text, ty)?;
            finite(text, value.is_finite(), ty)?;
            Value::F32(value)
        }
        ValueType::F64 => {
            let value: f64 = number(text, ty)?;
            finite(text, value.is_finite(), ty)?;
            Value::F64(value)
        }
        ValueType::Bool => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => Value::Bool(true),
            "false" | "0" => Value::Bool(false),
            _ => return Err(format!("{text:?} is neither true nor false")),
        },
        ValueType::String => text.into(),
        ValueType::Array => return Err("an array is written as JSON".to_owned()),
    })
}

fn integer<T: TryFrom<i128>>(text: &str, ty: ValueType) -> Result<T, String> {
    let number = i128::from_str(text.trim())
        .map_err(|_| format!("{text:?} is no integer; write it in digits alone, as in 2048"))?;
    T::try_from(number).map_err(|_| match integer_range(ty) {
        Some((least, most)) => format!("{number} does not fit in {ty} ({least} to {most})"),
        None => format!("{number} does not fit in {ty}"),
    })
}

/// The least and the most that an integer type holds.
pub fn integer_range(ty: ValueType) -> Option<(i128, i128)> {
    let bits = match ty {
        ValueType::U8 | ValueType::I8 => 8,
        ValueType::U16 | ValueType::I16 => 16,
        ValueType::U32 | ValueType::I32 => 32,
        ValueType::U64 | ValueType::I64 => 64,
        _ => return None,
    };
    let is_signed = matches!(
        ty,
        ValueType::I8 | ValueType::I16 | ValueType::I32 | ValueType::I64
    );
    let half = 1i128 << (bits - 1);
    Some(if is_signed {
        (-half, half - 1)
    } else {
        (0, 2 * half - 1)
    })
}

fn number<T: FromStr>(text: &str, ty: ValueType) -> Result<T, String> {
    T::from_str(text.trim()).map_err(|_| format!("{text:?} is no {ty}"))
}

fn finite(text: &str, is_finite: bool, ty: ValueType) -> Result<(), String> {
    // "inf", "-infinity" and "nan" hold an n; a number never does.
    if is_finite || text.to_ascii_lowercase().contains('n') {
        return Ok(());
    }
    Err(format!("{text} does not fit in {ty}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_must_fit() {
        for (text, ty, expected) in [
            ("255", ValueType::U8, Ok(Value::U8(255))),
            (
                "256",
                ValueType::U8,
                Err("256 does not fit in UINT8 (0 to 255)"),
            ),
            (
                "-1",
                ValueType::U32,
                Err("-1 does not fit in UINT32 (0 to 4294967295)"),
            ),
            ("-128", ValueType::I8, Ok(Value::I8(-128))),
            (
                "1.5",
                ValueType::I32,
                Err("\"1.5\" is no integer; write it in digits alone, as in 2048"),
            ),
            ("1e4", ValueType::F32, Ok(Value::F32(1e4))),
            ("1e39", ValueType::F32, Err("1e39 does not fit in FLOAT32")),
            ("1e39", ValueType::F64, Ok(Value::F64(1e39))),
            ("-inf", ValueType::F32, Ok(Value::F32(f32::NEG_INFINITY))),
            ("true", ValueType::Bool, Ok(Value::Bool(true))),
            (
                "yes",
                ValueType::Bool,
                Err("\"yes\" is neither true nor false"),
            ),
            (" a:b ", ValueType::String, Ok(" a:b ".into())),
        ] {
            assert_eq!(
                value_of(text, ty),
                expected.map_err(str::to_owned),
                "{text}"
            );
        }
    }

    #[test]
    fn both_spellings_of_every_type_are_known() {
        for ty in ValueType::ALL
            .into_iter()
            .filter(|&ty| ty != ValueType::Array)
        {
            assert_eq!(value_type_of(ty.name()), Some(ty));
        }
        assert_eq!(value_type_of("u16"), Some(ValueType::U16));
        assert_eq!(value_type_of("https"), None);
    }
}
