//! Parameters of the stages, declared as data: flags, recommendations of models and checks are made from the declarations.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// A number that steers a stage.
#[derive(Debug)]
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

    /// What a number must be, as in "a number above 0".
    pub fn expected(&self) -> String {
        match &self.domain {
            Domain::Float { rule: "", .. } => "a number that is finite".to_owned(),
            Domain::Float { rule, .. } => {
                let rule = rule.split(';').next().unwrap_or(rule);
                format!("a number {rule}")
            }
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

    /// Gives a parameter a number; [`Parameter::accept`] says which it takes.
    pub fn set(&mut self, parameter: &Parameter, number: f64) {
        self.0.insert(parameter.flag, number);
    }

    /// These where they are, `others` where they are not.
    pub fn or(mut self, others: &ParameterValues) -> Self {
        for (flag, number) in &others.0 {
            self.0.entry(flag).or_insert(*number);
        }
        self
    }
}
