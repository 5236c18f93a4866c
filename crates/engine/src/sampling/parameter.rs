//! Parameters of the stages, declared as data: flags, recommendations of models and checks are made from the declarations.
//!
//! Whoever takes numbers from outside (a command line, a request, a model's metadata) finds a parameter by name with
//! [`parameter`], or walks [`parameters`], and sets it with [`ParameterValues::set`], which checks its range.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::SAMPLERS;
use crate::error::EngineError;

/// A number that steers a stage.
#[derive(Debug)]
#[non_exhaustive]
pub struct Parameter {
    /// The flag of the command line without its dashes, as the reference spells it.
    pub flag: &'static str,
    /// Other spellings of the flag.
    pub aliases: &'static [&'static str],
    /// What stands for the number in help texts.
    pub value_name: &'static str,
    /// What it does, for help texts.
    pub help: &'static str,
    /// Where a model may recommend a number: the key's name below `general.sampling.`.
    pub key: Option<&'static str>,
    /// The numbers it takes.
    pub domain: Domain,
}

/// The numbers that a parameter takes, and the one it has when nobody says another.
#[derive(Debug)]
pub enum Domain {
    /// Finite numbers for which a rule holds.
    Float {
        /// The number when none is given.
        default: f32,
        /// The rule in words, as in "it must be a number {rule}"; a remark may follow behind a semicolon. Empty where
        /// all finite numbers do.
        rule: &'static str,
        /// The rule.
        holds: fn(f32) -> bool,
    },
    /// Whole numbers within a range.
    Whole {
        /// The number when none is given.
        default: i32,
        /// The range.
        range: RangeInclusive<i32>,
    },
}

/// The parameters of all stages, in the order of help texts.
pub fn parameters() -> impl Iterator<Item = &'static Parameter> {
    SAMPLERS
        .iter()
        .flat_map(|kind| kind.parameters.iter().copied())
}

/// Finds a parameter by its flag or another spelling of it; `-` and `_` are the same, as in `top_k`.
pub fn parameter(name: &str) -> Option<&'static Parameter> {
    let flag = name.replace('_', "-");
    parameters()
        .find(|parameter| parameter.flag == flag || parameter.aliases.contains(&flag.as_str()))
}

impl Parameter {
    /// Its name in messages.
    pub fn name(&self) -> String {
        self.flag.replace('-', "_")
    }

    /// The number when none is given.
    pub fn default(&self) -> f64 {
        match self.domain {
            Domain::Float { default, .. } => f64::from(default),
            Domain::Whole { default, .. } => f64::from(default),
        }
    }

    /// The number as the parameter takes it, rounded to `f32` or with its fraction cut off; nothing if it is outside.
    pub fn accept(&self, number: f64) -> Option<f64> {
        match &self.domain {
            Domain::Float { holds, .. } => Some(number as f32)
                .filter(|&number| number.is_finite() && holds(number))
                .map(f64::from),
            Domain::Whole { range, .. } => {
                let range = f64::from(*range.start())..=f64::from(*range.end());
                Some(number.trunc()).filter(|number| range.contains(number))
            }
        }
    }

    /// What a number must be, as in "a number above 0; 1 is off".
    pub fn expected(&self) -> String {
        match &self.domain {
            Domain::Float { rule: "", .. } => "a finite number".to_owned(),
            Domain::Float { rule, .. } => format!("a number {rule}"),
            Domain::Whole { range, .. } => {
                format!("a whole number from {} to {}", range.start(), range.end())
            }
        }
    }

    /// A number of this parameter in words.
    pub fn show(&self, number: f64) -> String {
        match self.domain {
            // In the digits of its own type, not in those of the wider one.
            Domain::Float { .. } => (number as f32).to_string(),
            Domain::Whole { .. } => number.to_string(),
        }
    }
}

/// Numbers of parameters, where they are not left to the defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParameterValues(BTreeMap<&'static str, f64>);

impl ParameterValues {
    /// The number of a parameter, where it has one.
    pub fn get(&self, parameter: &Parameter) -> Option<f64> {
        self.0.get(parameter.flag).copied()
    }

    /// Gives a parameter a number, as [`Parameter::accept`] takes it.
    ///
    /// ```
    /// use gristmill_engine::sampling::{SamplingOptions, parameter};
    ///
    /// let mut options = SamplingOptions::default();
    /// let top_k = parameter("top_k").expect("it is one of the parameters");
    /// options.values.set(top_k, 20.0)?;
    /// assert_eq!(options.whole(top_k), 20);
    ///
    /// let min_p = parameter("min_p").expect("it is one of the parameters");
    /// let error = options.values.set(min_p, 1.5).expect_err("it is outside");
    /// assert_eq!(error.to_string(), "sampling parameter min_p cannot be 1.5");
    /// # Ok::<(), gristmill_engine::EngineError>(())
    /// ```
    ///
    /// # Errors
    /// A number outside what the parameter takes; the one before stays.
    pub fn set(&mut self, parameter: &Parameter, number: f64) -> Result<(), EngineError> {
        let accepted = parameter.accept(number);
        let accepted = accepted.ok_or_else(|| EngineError::BadSamplingValue {
            name: parameter.name(),
            value: number,
            expected: parameter.expected(),
        })?;
        self.put(parameter, accepted);
        Ok(())
    }

    /// Gives a parameter a number that it takes.
    pub(super) fn put(&mut self, parameter: &Parameter, accepted: f64) {
        self.0.insert(parameter.flag, accepted);
    }

    /// Takes a parameter's number away.
    pub(super) fn remove(&mut self, parameter: &Parameter) {
        self.0.remove(parameter.flag);
    }

    /// These where they are, `others` where they are not.
    pub fn or(mut self, others: &ParameterValues) -> Self {
        for (flag, number) in &others.0 {
            self.0.entry(flag).or_insert(*number);
        }
        self
    }
}
