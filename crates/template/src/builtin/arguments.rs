//! Arguments of a call.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::error::{Result, TemplateError};
use crate::meter::{Charge, Meter};
use crate::value::{Text, VALUE_BYTES, Value};

/// Values given in a call, which the callee takes one after the other.
pub(crate) struct Arguments {
    positional: VecDeque<Value>,
    named: Vec<(Rc<Text>, Value)>,
    charge: Charge,
}

impl Arguments {
    pub fn new(meter: &Rc<Meter>) -> Result<Self> {
        Ok(Arguments {
            positional: VecDeque::new(),
            named: Vec::new(),
            charge: meter.charge(0)?,
        })
    }

    pub fn meter(&self) -> &Rc<Meter> {
        self.charge.meter()
    }

    pub fn push(&mut self, value: Value) -> Result<()> {
        self.meter().work(1)?;
        // twice, as the queue grows by doubling
        self.charge.grow(2 * VALUE_BYTES)?;
        self.positional.push_back(value);
        Ok(())
    }

    pub fn push_named(&mut self, name: Rc<Text>, value: Value) -> Result<()> {
        self.meter().work(1 + self.named.len() / 8)?;
        if self
            .named
            .iter()
            .any(|(other, _)| other.as_str() == name.as_str())
        {
            return Err(TemplateError::operation(format!(
                "the argument '{}' is given twice",
                name.as_str()
            )));
        }
        self.charge.grow(4 * VALUE_BYTES)?;
        self.named.push((name, value));
        Ok(())
    }

    /// The next argument by place, or the one of this name.
    pub fn next(&mut self, name: &str) -> Option<Value> {
        self.positional.pop_front().or_else(|| self.named(name))
    }

    /// The argument of a name, which has no place.
    pub fn named(&mut self, name: &str) -> Option<Value> {
        let place = self
            .named
            .iter()
            .position(|(key, _)| key.as_str() == name)?;
        Some(self.named.remove(place).1)
    }

    /// The next argument.
    ///
    /// Errors: where it is missing.
    pub fn required(&mut self, name: &str) -> Result<Value> {
        self.next(name)
            .ok_or_else(|| TemplateError::operation(format!("the argument '{name}' is missing")))
    }

    /// The next argument, a string.
    pub fn text(&mut self, name: &str) -> Result<Rc<Text>> {
        match self.required(name)? {
            Value::Text(text) => Ok(text),
            other => Err(wrong(name, "string", &other)),
        }
    }

    /// The next argument, a string or not given.
    pub fn optional_text(&mut self, name: &str) -> Result<Option<Rc<Text>>> {
        match self.next(name) {
            Some(Value::Text(text)) => Ok(Some(text)),
            None | Some(Value::None | Value::Undefined) => Ok(None),
            Some(other) => Err(wrong(name, "string", &other)),
        }
    }

    /// The next argument, an integer or not given.
    pub fn optional_integer(&mut self, name: &str) -> Result<Option<i128>> {
        match self.next(name) {
            None | Some(Value::None | Value::Undefined) => Ok(None),
            Some(value) => match value.as_integer() {
                Some(n) => Ok(Some(n)),
                None => Err(wrong(name, "integer", &value)),
            },
        }
    }

    /// The next argument, a length or count; below 0 it is 0.
    pub fn count(&mut self, name: &str, default: usize) -> Result<usize> {
        Ok(match self.optional_integer(name)? {
            Some(n) => usize::try_from(n.max(0)).unwrap_or(usize::MAX),
            None => default,
        })
    }

    /// The truth of the next argument.
    pub fn flag(&mut self, name: &str, default: bool) -> bool {
        self.next(name).map_or(default, |value| value.is_true())
    }

    /// What is left by place.
    pub fn rest(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.positional).into()
    }

    /// What is left by name.
    pub fn rest_named(&mut self) -> Vec<(Rc<Text>, Value)> {
        std::mem::take(&mut self.named)
    }

    /// Errors: where something is left.
    pub fn finish(self, callee: &str) -> Result<()> {
        let message = match (self.positional.len(), self.named.first()) {
            (0, None) => return Ok(()),
            (0, Some((name, _))) => format!("'{callee}' takes no argument '{}'", name.as_str()),
            _ => format!("'{callee}' was given too many arguments"),
        };
        Err(TemplateError::operation(message))
    }
}

fn wrong(name: &str, wanted: &str, value: &Value) -> TemplateError {
    TemplateError::operation(format!(
        "the argument '{name}' is a {}, not the {wanted} it must be",
        value.kind()
    ))
}
