//! What a model says about how to sample from it: the entries below `general.sampling.`, which count where the user
//! says nothing.

use gristmill_gguf::{Metadata, Value};

use super::{SamplingOptions, is_dormant, sampler};

/// Metadata keys of sampling defaults begin with this.
const PREFIX: &str = "general.sampling.";

/// Sampling values that are not left to the program: those a user gave, or those a model recommends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplingWishes {
    /// As [`SamplingOptions::temperature`].
    pub temperature: Option<f32>,
    /// As [`SamplingOptions::top_k`].
    pub top_k: Option<usize>,
    /// As [`SamplingOptions::top_p`].
    pub top_p: Option<f32>,
    /// As [`SamplingOptions::min_p`].
    pub min_p: Option<f32>,
    /// As [`SamplingOptions::repeat_last_n`].
    pub repeat_last_n: Option<usize>,
    /// As [`SamplingOptions::repeat_penalty`].
    pub repeat_penalty: Option<f32>,
    /// As [`SamplingOptions::samplers`].
    pub samplers: Option<Vec<String>>,
}

/// What a model recommends.
#[derive(Clone, Debug, Default)]
pub struct ModelSampling {
    /// The values that can be used.
    pub wishes: SamplingWishes,
    /// The entries that cannot be used and why, one sentence each; the program's own values stand in for them.
    pub warnings: Vec<String>,
}

impl SamplingWishes {
    /// These where they are, `others` where they are not.
    pub fn or(self, others: &SamplingWishes) -> Self {
        SamplingWishes {
            temperature: self.temperature.or(others.temperature),
            top_k: self.top_k.or(others.top_k),
            top_p: self.top_p.or(others.top_p),
            min_p: self.min_p.or(others.min_p),
            repeat_last_n: self.repeat_last_n.or(others.repeat_last_n),
            repeat_penalty: self.repeat_penalty.or(others.repeat_penalty),
            samplers: self.samplers.or_else(|| others.samplers.clone()),
        }
    }

    /// Options with these values, and what `options` has for the rest.
    pub fn applied_to(self, options: SamplingOptions) -> SamplingOptions {
        SamplingOptions {
            temperature: self.temperature.unwrap_or(options.temperature),
            top_k: self.top_k.unwrap_or(options.top_k),
            top_p: self.top_p.unwrap_or(options.top_p),
            min_p: self.min_p.unwrap_or(options.min_p),
            repeat_last_n: self.repeat_last_n.unwrap_or(options.repeat_last_n),
            repeat_penalty: self.repeat_penalty.unwrap_or(options.repeat_penalty),
            samplers: self.samplers.unwrap_or(options.samplers),
            ..options
        }
    }

    /// The values in words, as in `temp 0.6, top_k 20`; nothing where there is none.
    pub fn words(&self) -> String {
        let float = |name, value: Option<f32>| value.map(|value| format!("{name} {value}"));
        let count = |name, value: Option<usize>| {
            value.map(|value| match value {
                usize::MAX => format!("{name} -1"),
                value => format!("{name} {value}"),
            })
        };
        let samplers = self.samplers.as_ref();
        let words = [
            samplers.map(|names| format!("samplers {}", names.join(";"))),
            count("top_k", self.top_k),
            float("top_p", self.top_p),
            float("min_p", self.min_p),
            float("temp", self.temperature),
            count("repeat_last_n", self.repeat_last_n),
            float("repeat_penalty", self.repeat_penalty),
        ];
        words.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl ModelSampling {
    /// Reads a model's entries. Numbers may have any type, as for the reference; a value that no flag would take either is
    /// left out with a warning.
    pub fn of(metadata: &Metadata) -> Self {
        let mut found = ModelSampling::default();
        let always = |_| true;
        found.wishes = SamplingWishes {
            samplers: found.sequence(metadata),
            top_k: found
                .integer(metadata, "top_k", i64::from(i32::MIN))
                .map(|n| usize::try_from(n).unwrap_or(0)),
            top_p: found.float(metadata, "top_p", "of at least 0", |p| p >= 0.0),
            min_p: found.float(metadata, "min_p", "of at most 1", |p| p <= 1.0),
            temperature: found.float(metadata, "temp", "that is finite", always),
            repeat_last_n: found
                .integer(metadata, "penalty_last_n", -1)
                .map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
            repeat_penalty: found.float(metadata, "penalty_repeat", "above 0", |n| {
                n > 0.0 && (1.0 / n).is_finite()
            }),
        };
        found.unsupported(metadata);
        found
    }

    /// The stages that can be had, of those the model names.
    fn sequence(&mut self, metadata: &Metadata) -> Option<Vec<String>> {
        let key = format!("{PREFIX}sequence");
        let value = metadata.get(&key)?;
        let Some(text) = value.as_text().map(|text| text.to_str_lossy()) else {
            self.refuse(&key, &value.type_name(), "names separated by semicolons");
            return None;
        };
        let names = text.split(';').filter(|name| !name.trim().is_empty());
        let (known, unknown): (Vec<&str>, Vec<&str>) =
            names.partition(|name| sampler(name).is_some() || is_dormant(name));
        if !unknown.is_empty() {
            let names: Vec<String> = unknown.iter().map(|name| format!("{name:?}")).collect();
            self.warnings.push(format!(
                "metadata key `{key}` names samplers that are not supported, which are left out: {}",
                names.join(", ")
            ));
        }
        (!known.is_empty()).then(|| known.into_iter().map(str::to_owned).collect())
    }

    fn integer(&mut self, metadata: &Metadata, name: &str, min: i64) -> Option<i64> {
        let key = format!("{PREFIX}{name}");
        let value = metadata.get(&key)?;
        let number = number(value);
        // As the reference reads text, a fraction is cut off.
        let whole = number.filter(|number| number.is_finite()).map(f64::trunc);
        let range = min as f64..=f64::from(i32::MAX);
        let Some(whole) = whole.filter(|whole| range.contains(whole)) else {
            let what = format!("a whole number from {min} to {}", i32::MAX);
            self.refuse(&key, &shown(value), &what);
            return None;
        };
        Some(whole as i64)
    }

    fn float(
        &mut self,
        metadata: &Metadata,
        name: &str,
        rule: &str,
        holds: fn(f32) -> bool,
    ) -> Option<f32> {
        let key = format!("{PREFIX}{name}");
        let value = metadata.get(&key)?;
        let number = number(value).map(|number| number as f32);
        let number = number.filter(|number| number.is_finite() && holds(*number));
        if number.is_none() {
            self.refuse(&key, &shown(value), &format!("a number {rule}"));
        }
        number
    }

    /// Warns about what is switched on and cannot be had.
    fn unsupported(&mut self, metadata: &Metadata) {
        for (name, off) in [("xtc_probability", 0.0), ("mirostat", 0.0)] {
            let key = format!("{PREFIX}{name}");
            let value = metadata.get(&key);
            if let Some(value) = value.filter(|value| number(value) != Some(off)) {
                self.warnings.push(format!(
                    "metadata key `{key}` is {}, which asks for a sampler that is not supported: it is left out",
                    shown(value)
                ));
            }
        }
    }

    fn refuse(&mut self, key: &str, found: &str, expected: &str) {
        self.warnings.push(format!(
            "metadata key `{key}` is {found}, but must be {expected}: it is left out"
        ));
    }
}

/// A value as a number, text that says one included.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::F32(number) => Some(f64::from(*number)),
        Value::F64(number) => Some(*number),
        Value::String(text) => text.to_str()?.trim().parse().ok(),
        value => value.as_integer().map(|number| number as f64),
    }
}

/// A value for a message.
fn shown(value: &Value) -> String {
    match (number(value), value) {
        (_, Value::String(text)) => format!("{:?}", text.to_str_lossy()),
        // A float as it is written, not as a double shows it.
        (_, Value::F32(number)) => number.to_string(),
        (Some(number), _) => number.to_string(),
        (None, value) => format!("of type {}", value.type_name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, value: impl Into<Value>) -> Metadata {
        let mut metadata = Metadata::new();
        metadata.set(format!("{PREFIX}{name}"), value);
        metadata
    }

    #[test]
    fn every_key_changes_its_option() {
        let wish = |name, value: Value| {
            let found = ModelSampling::of(&entry(name, value));
            assert_eq!(found.warnings, Vec::<String>::new(), "{name}");
            found.wishes
        };
        let none = SamplingWishes::default;
        let (temperature, top_k) = (Some(0.6), Some(20));
        assert_eq!(
            wish("temp", 0.6f32.into()),
            SamplingWishes {
                temperature,
                ..none()
            }
        );
        assert_eq!(
            wish("temp", "0.6".into()),
            SamplingWishes {
                temperature,
                ..none()
            }
        );
        assert_eq!(
            wish("top_k", 20i32.into()),
            SamplingWishes { top_k, ..none() }
        );
        assert_eq!(
            wish("top_k", 20.5f32.into()),
            SamplingWishes { top_k, ..none() }
        );
        assert_eq!(wish("top_k", (-1i32).into()).top_k, Some(0));
        assert_eq!(wish("top_p", 0.9f32.into()).top_p, Some(0.9));
        assert_eq!(wish("min_p", 0.1f32.into()).min_p, Some(0.1));
        assert_eq!(wish("penalty_last_n", 32i32.into()).repeat_last_n, Some(32));
        assert_eq!(
            wish("penalty_last_n", (-1i32).into()).repeat_last_n,
            Some(usize::MAX)
        );
        assert_eq!(
            wish("penalty_repeat", 1.1f32.into()).repeat_penalty,
            Some(1.1)
        );
        let samplers = wish("sequence", "dry;top-k;temperature".into()).samplers;
        assert_eq!(samplers.unwrap(), ["dry", "top-k", "temperature"]);
        assert_eq!(wish("xtc_probability", 0.0f32.into()), none());
        assert_eq!(wish("mirostat", 0i32.into()), none());
    }

    #[test]
    fn a_value_no_flag_would_take_is_left_out_with_a_warning() {
        let cases: &[(&str, Value)] = &[
            ("temp", f32::NAN.into()),
            ("temp", f32::INFINITY.into()),
            ("temp", "warm".into()),
            ("top_p", (-0.1f32).into()),
            ("min_p", 1.5f32.into()),
            ("top_k", f32::NAN.into()),
            ("top_k", (1i64 << 40).into()),
            ("penalty_last_n", (-2i32).into()),
            ("penalty_repeat", 0.0f32.into()),
            ("penalty_repeat", (-1.0f32).into()),
            ("penalty_repeat", 1e-39f32.into()),
            ("sequence", 3i32.into()),
            ("sequence", "frob".into()),
            ("xtc_probability", 0.5f32.into()),
            ("mirostat", 2i32.into()),
        ];
        for (name, value) in cases {
            let found = ModelSampling::of(&entry(name, value.clone()));
            assert_eq!(found.wishes, SamplingWishes::default(), "{name} {value:?}");
            let [warning] = &found.warnings[..] else {
                panic!("{name} {value:?}: {:?}", found.warnings);
            };
            assert!(warning.contains(&format!("`{PREFIX}{name}`")), "{warning}");
        }
    }

    #[test]
    fn what_the_user_says_goes_before_the_model_and_that_before_the_program() {
        let user = SamplingWishes {
            top_k: Some(3),
            ..Default::default()
        };
        let model = SamplingWishes {
            top_k: Some(20),
            temperature: Some(0.6),
            ..Default::default()
        };
        assert_eq!(model.words(), "top_k 20, temp 0.6");
        let options = user.or(&model).applied_to(SamplingOptions::default());
        assert_eq!(
            (options.top_k, options.temperature, options.top_p),
            (3, 0.6, 0.95)
        );
    }
}
