//! Values of the flags of `quantize`.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use gristmill_convert::recipe::{TensorOverride, tensor_type};
use gristmill_gguf::Value;
use gristmill_quant::TensorType;

/// Bytes of a file of overrides, far above any use.
const OVERRIDE_BYTES: u64 = 16 << 20;

/// What is wrong with a value, and the remedy.
fn with_remedy(error: gristmill_convert::ConvertError) -> String {
    match error.hint() {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    }
}

pub fn tensor_type_of(name: &str) -> Result<TensorType, String> {
    tensor_type(name).map_err(with_remedy)
}

pub fn tensor_override(text: &str) -> Result<TensorOverride, String> {
    text.parse().map_err(with_remedy)
}

/// The items of a file, separated by spaces or lines.
pub fn tensor_type_file(path: &Path) -> anyhow::Result<Vec<TensorOverride>> {
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(OVERRIDE_BYTES + 1).read_to_string(&mut text))
        .with_context(|| format!("{}: cannot read the types of tensors", path.display()))?;
    if text.len() as u64 > OVERRIDE_BYTES {
        return Err(anyhow!(
            "{}: more than {OVERRIDE_BYTES} bytes",
            path.display()
        ));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let items = text.split_ascii_whitespace();
    items
        .map(|item| {
            let parsed = item.parse();
            parsed.with_context(|| path.display().to_string())
        })
        .collect()
}

/// Bits per weight: a positive number.
pub fn bits_per_weight(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim().parse().ok();
    number
        .filter(|bits| bits.is_finite() && (0.1..=64.0).contains(bits))
        .ok_or_else(|| "it must be a number from 0.1 to 64".to_owned())
}

/// `KEY=TYPE:VALUE`. Integers are written as the reference writes them: UINT32 of the absolute value.
pub fn override_entry(text: &str) -> Result<(String, Value), String> {
    let form = "write it as KEY=TYPE:VALUE, for example llama.context_length=int:4096";
    let (key, typed) = text.split_once('=').ok_or(form)?;
    let (ty, value) = typed.split_once(':').ok_or(form)?;
    let bad = |expected: &str| format!("{value:?} is no {ty}: {expected}");
    let value = match ty {
        "int" => {
            let number: i64 = value.parse().map_err(|_| bad("write a whole number"))?;
            let magnitude = u32::try_from(number.unsigned_abs());
            Value::U32(magnitude.map_err(|_| bad("at most 4294967295 can be stored"))?)
        }
        "float" => {
            let number: Option<f32> = value.parse().ok();
            let number = number.filter(|number| number.is_finite());
            Value::F32(number.ok_or_else(|| bad("write a number of up to 3.4e38"))?)
        }
        "bool" => Value::Bool(value.parse().map_err(|_| bad("write true or false"))?),
        "str" => Value::String(value.into()),
        _ => {
            return Err(format!(
                "{ty:?} is none of the types int, float, bool and str"
            ));
        }
    };
    Ok((key.into(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_a_positive_number() {
        assert_eq!(bits_per_weight("4.5"), Ok(4.5));
        assert!(bits_per_weight("nan").is_err() && bits_per_weight("0").is_err());
    }

    #[test]
    fn overrides_are_typed() {
        assert_eq!(
            override_entry("a.b=int:-7"),
            Ok(("a.b".into(), Value::U32(7)))
        );
        assert_eq!(
            override_entry("a=float:0.5"),
            Ok(("a".into(), Value::F32(0.5)))
        );
        assert_eq!(
            override_entry("a=str:x=y:z"),
            Ok(("a".into(), Value::String("x=y:z".into())))
        );
        assert_eq!(
            override_entry("a=bool:yes"),
            Err("\"yes\" is no bool: write true or false".into())
        );
        for value in ["float:nan", "float:1e400", "int:4294967296", "int:x"] {
            assert!(override_entry(&format!("a={value}")).is_err(), "{value}");
        }
        assert!(override_entry("a=list:1").is_err() && override_entry("a").is_err());
    }
}
