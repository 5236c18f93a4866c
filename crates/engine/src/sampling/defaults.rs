//! What a model says about how to sample from it: the entries below `general.sampling.`, which count where the user
//! says nothing.

use gristmill_gguf::{Metadata, Value};

use super::{
    Parameter, ParameterValues, Place, SAMPLERS, SamplerKind, SamplingOptions, asked_sampler,
    parameters,
};

/// Metadata keys of sampling defaults begin with this.
const PREFIX: &str = "general.sampling.";

/// Sampling values that are not left to the program: those a user gave, or those a model recommends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplingWishes {
    /// As [`SamplingOptions::values`].
    pub values: ParameterValues,
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
    /// These where they are, `others` where they are not. Samplers that are named here stand in place of one that `others` would
    /// run in place of all.
    pub fn or(self, others: &SamplingWishes) -> Self {
        let mut values = others.values.clone();
        let is_asked = |kind: &&&SamplerKind| {
            let mut parameters = kind.parameters.iter();
            parameters.any(|parameter| self.values.get(parameter).is_some())
        };
        if self.samplers.is_some() {
            let alone = SAMPLERS.iter().filter(|kind| kind.place == Place::Alone);
            let dropped = alone.filter(|kind| !is_asked(kind));
            let dropped = dropped.flat_map(|kind| kind.parameters);
            dropped.for_each(|parameter| values.remove(parameter));
        }
        SamplingWishes {
            values: self.values.or(&values),
            samplers: self.samplers.or_else(|| others.samplers.clone()),
        }
    }

    /// Options with these values, and what `options` has for the rest.
    pub fn applied_to(self, options: SamplingOptions) -> SamplingOptions {
        SamplingOptions {
            values: self.values.or(&options.values),
            samplers: self.samplers.unwrap_or(options.samplers),
            ..options
        }
    }

    /// The values in words, as in `top_k 20, temp 0.6`; nothing where there is none.
    pub fn words(&self) -> String {
        let samplers = self.samplers.iter();
        let samplers = samplers.map(|names| format!("samplers {}", names.join(";")));
        let numbers = parameters().filter_map(|parameter| {
            let number = self.values.get(parameter)?;
            Some(format!("{} {}", parameter.name(), parameter.show(number)))
        });
        samplers.chain(numbers).collect::<Vec<_>>().join(", ")
    }
}

impl ModelSampling {
    /// Reads a model's entries. Numbers may have any type, as for the reference; a value that no flag would take either is
    /// left out with a warning.
    pub fn of(metadata: &Metadata) -> Self {
        let mut found = ModelSampling::default();
        found.wishes.samplers = found.sequence(metadata);
        for parameter in parameters() {
            found.recommended(metadata, parameter);
        }
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
            names.partition(|name| asked_sampler(name).is_ok());
        if !unknown.is_empty() {
            let names: Vec<String> = unknown.iter().map(|name| format!("{name:?}")).collect();
            self.warnings.push(format!(
                "metadata key `{key}` names samplers that are not supported, which are left out: {}",
                names.join(", ")
            ));
        }
        (!known.is_empty()).then(|| known.into_iter().map(str::to_owned).collect())
    }

    /// Takes the number that the model recommends for a parameter. As the reference reads text, a fraction is cut off
    /// where there can be none.
    fn recommended(&mut self, metadata: &Metadata, parameter: &Parameter) {
        let key = parameter.key.map(|key| format!("{PREFIX}{key}"));
        let Some((value, key)) = key.and_then(|key| Some((metadata.get(&key)?, key))) else {
            return;
        };
        let set = |number| self.wishes.values.set(parameter, number).ok();
        if number(value).and_then(set).is_none() {
            self.refuse(&key, &shown(value), &parameter.expected());
        }
    }

    fn refuse(&mut self, key: &str, found: &str, expected: &str) {
        self.warnings.push(format!(
            "metadata key `{key}` is {found} and left out: it must be {expected}"
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
    use super::super::{mirostat, temperature, top_k, top_p};
    use super::*;

    fn entry(name: &str, value: impl Into<Value>) -> Metadata {
        let mut metadata = Metadata::new();
        metadata.set(format!("{PREFIX}{name}"), value);
        metadata
    }

    /// The wishes of one number.
    fn one(parameter: &Parameter, number: f64) -> SamplingWishes {
        let mut wishes = SamplingWishes::default();
        wishes.values.set(parameter, number).unwrap();
        wishes
    }

    #[test]
    fn every_key_changes_its_option() {
        let wish = |name, value: Value| {
            let found = ModelSampling::of(&entry(name, value));
            assert_eq!(found.warnings, Vec::<String>::new(), "{name}");
            found.wishes
        };
        let temp = |number: f32| one(&temperature::TEMPERATURE, f64::from(number));
        let top_k = |number| one(&top_k::TOP_K, number);
        assert_eq!(wish("temp", 0.6f32.into()), temp(0.6));
        assert_eq!(wish("temp", "0.6".into()), temp(0.6));
        assert_eq!(wish("top_k", 20i32.into()), top_k(20.0));
        assert_eq!(wish("top_k", 20.5f32.into()), top_k(20.0));
        assert_eq!(wish("top_k", (-1i32).into()), top_k(-1.0));
        // Every number that a flag takes is one that a model may recommend.
        for parameter in parameters() {
            let Some(key) = parameter.key else {
                continue;
            };
            for number in [0.0, 1.0, 0.5, -1.0].map(|number| parameter.accept(number)) {
                let Some(number) = number else {
                    continue;
                };
                assert_eq!(wish(key, number.into()), one(parameter, number), "{key}");
            }
        }
        assert_eq!(
            wish("penalty_last_n", (-1i32).into()).words(),
            "repeat_last_n -1"
        );
        assert_eq!(
            wish("penalty_repeat", 1.1f32.into()).words(),
            "repeat_penalty 1.1"
        );
        let samplers = wish("sequence", "dry;top-k;temperature".into()).samplers;
        assert_eq!(samplers.unwrap(), ["dry", "top-k", "temperature"]);
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
            ("sequence", "infill".into()),
            ("xtc_probability", (-0.5f32).into()),
            ("mirostat", 3i32.into()),
        ];
        for (name, value) in cases.iter().cloned() {
            let found = ModelSampling::of(&entry(name, value.clone()));
            assert_eq!(found.wishes, SamplingWishes::default(), "{name} {value:?}");
            let [warning] = &found.warnings[..] else {
                panic!("{name} {value:?}: {:?}", found.warnings);
            };
            assert!(warning.contains(&format!("`{PREFIX}{name}`")), "{warning}");
        }
    }

    /// A sampler that runs in place of all others does so where nobody named the others, or where it was asked for too.
    #[test]
    fn named_samplers_go_before_one_that_runs_alone() {
        let mirostat = one(&mirostat::VERSION, 2.0);
        let model = mirostat.clone().or(&one(&mirostat::ENTROPY, 3.0));
        let named = SamplingWishes {
            samplers: Some(vec!["top_k".to_owned()]),
            ..SamplingWishes::default()
        };
        assert_eq!(named.clone().or(&model).words(), "samplers top_k");
        let both = named.or(&mirostat).or(&mirostat);
        assert_eq!(both.values.get(&mirostat::VERSION), None);
        assert_eq!(SamplingWishes::default().or(&model), model);
        let asked = SamplingWishes {
            samplers: Some(vec!["top_k".to_owned()]),
            ..mirostat
        };
        assert_eq!(asked.or(&model).values, model.values);
    }

    #[test]
    fn what_the_user_says_goes_before_the_model_and_that_before_the_program() {
        let user = one(&top_k::TOP_K, 3.0);
        let temp = one(&temperature::TEMPERATURE, f64::from(0.6f32));
        let model = one(&top_k::TOP_K, 20.0).or(&temp);
        assert_eq!(model.words(), "top_k 20, temp 0.6");
        let options = user.or(&model).applied_to(SamplingOptions::default());
        assert_eq!(options.whole(&top_k::TOP_K), 3);
        assert_eq!(options.float(&temperature::TEMPERATURE), 0.6);
        assert_eq!(options.float(&top_p::TOP_P), 0.95);
    }
}
