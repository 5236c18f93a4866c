//! Expressions.

use std::rc::Rc;

use super::Renderer;
use super::operator::{binary, compare};
use super::slice::slice;
use crate::builtin;
use crate::error::{Result, TemplateError};
use crate::syntax::{Expression, ExpressionKind};
use crate::value::{ListBuilder, MapBuilder, Method, Number, Value};

impl<'t> Renderer<'t> {
    pub(super) fn expression(&mut self, expression: &'t Expression) -> Result<Value> {
        // leaves first: they are the most, and go no deeper
        match &expression.kind {
            ExpressionKind::Constant(index) => {
                self.meter.work(1)?;
                Ok(self.constants[*index].clone())
            }
            ExpressionKind::Name(name) => {
                self.meter.work(1)?;
                self.variable(*name)
            }
            _ => {
                self.meter.work(1)?;
                let meter = Rc::clone(&self.meter);
                meter
                    .nested(|| self.compound(expression))
                    .map_err(|error| error.at(expression.line))
            }
        }
    }

    fn compound(&mut self, expression: &'t Expression) -> Result<Value> {
        match &expression.kind {
            ExpressionKind::Constant(_) | ExpressionKind::Name(_) => self.expression(expression),
            ExpressionKind::List(items) => self.list(items)?.value(),
            ExpressionKind::Tuple(items) => self.list(items)?.tuple(),
            ExpressionKind::Map(entries) => self.map(entries),
            ExpressionKind::Attribute(value, name) => {
                let receiver = self.expression(value)?;
                let name = self.constants[*name].clone();
                self.attribute(value, &receiver, &name)
            }
            ExpressionKind::Item(value, key) => {
                let receiver = self.expression(value)?;
                let key = self.expression(key)?;
                self.item(value, &receiver, &key)
            }
            ExpressionKind::Slice(value, parts) => {
                let value = self.expression(value)?;
                let [start, stop, step] = &**parts;
                let parts = [self.part(start)?, self.part(stop)?, self.part(step)?];
                slice(&value, parts, &self.meter)
            }
            ExpressionKind::Binary(operator, left, right) => {
                let left = self.expression(left)?;
                let right = self.expression(right)?;
                binary(operator, &left, &right, &self.meter)
            }
            ExpressionKind::Compare(first, rest) => self.comparison(first, rest),
            ExpressionKind::Test {
                value,
                name,
                arguments,
                negated,
            } => {
                let value = self.expression(value)?;
                let arguments = self.arguments(arguments)?;
                let holds = builtin::test(name, &value, arguments)?;
                Ok(Value::Bool(holds != *negated))
            }
            ExpressionKind::Filter(value, filter) => {
                let value = self.expression(value)?;
                self.filter(value, filter)
            }
            ExpressionKind::Call(callee, arguments) => self.call(callee, arguments),
            other => self.logic(other),
        }
    }

    /// Operators of truth and sign.
    fn logic(&mut self, kind: &'t ExpressionKind) -> Result<Value> {
        match kind {
            ExpressionKind::Not(value) => Ok(Value::Bool(!self.expression(value)?.is_true())),
            ExpressionKind::Negative(value) => {
                let value = self.expression(value)?;
                match value {
                    Value::Float(x) => Ok(Value::Float(-x)),
                    value => binary("-", &Value::Integer(0), &value, &self.meter),
                }
            }
            ExpressionKind::Positive(value) => {
                let value = self.expression(value)?;
                let number = Number::of(&value).map(Number::value);
                number.ok_or_else(|| TemplateError::operation(format!("+ of a {}", value.kind())))
            }
            ExpressionKind::And(left, right) => {
                let left = self.expression(left)?;
                if left.is_true() {
                    self.expression(right)
                } else {
                    Ok(left)
                }
            }
            ExpressionKind::Or(left, right) => {
                let left = self.expression(left)?;
                if left.is_true() {
                    Ok(left)
                } else {
                    self.expression(right)
                }
            }
            ExpressionKind::Conditional {
                condition,
                value,
                otherwise,
            } => match (self.expression(condition)?.is_true(), otherwise) {
                (true, _) => self.expression(value),
                (false, Some(otherwise)) => self.expression(otherwise),
                (false, None) => Ok(Value::Undefined),
            },
            // the others are done before
            _ => Ok(Value::Undefined),
        }
    }

    fn list(&mut self, items: &'t [Expression]) -> Result<ListBuilder> {
        let mut list = ListBuilder::new(&self.meter)?;
        for item in items {
            list.push(self.expression(item)?)?;
        }
        Ok(list)
    }

    fn map(&mut self, entries: &'t [(Expression, Expression)]) -> Result<Value> {
        let mut map = MapBuilder::new(&self.meter)?;
        for (key, value) in entries {
            map.insert(self.expression(key)?, self.expression(value)?)?;
        }
        map.value()
    }

    fn part(&mut self, part: &'t Option<Expression>) -> Result<Option<i128>> {
        let Some(part) = part else { return Ok(None) };
        match self.expression(part)? {
            Value::None => Ok(None),
            value => value.as_integer().map(Some).ok_or_else(|| {
                TemplateError::operation(format!("a slice cannot go by a {}", value.kind()))
            }),
        }
    }

    fn comparison(
        &mut self,
        first: &'t Expression,
        rest: &'t [(&'static str, Expression)],
    ) -> Result<Value> {
        let mut left = self.expression(first)?;
        for (operator, right) in rest {
            let right = self.expression(right)?;
            if !compare(operator, &left, &right, &self.meter)? {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    /// `value.name`: a method before an entry, as Python has it.
    pub(super) fn attribute(
        &self,
        node: &Expression,
        value: &Value,
        name: &Value,
    ) -> Result<Value> {
        let Value::Text(text) = name else {
            return Ok(Value::Undefined);
        };
        match value {
            Value::Undefined => Err(self.undefined(node, text)),
            Value::Namespace(namespace) => Ok(namespace.get(text).unwrap_or(Value::Undefined)),
            Value::Loop(state) => Ok(state.attribute(text)),
            Value::Cycler(cycler) if text.as_str() == "current" => Ok(cycler.current()),
            _ if builtin::has_method(value, text) => {
                Method::value(value.clone(), Rc::clone(text), &self.meter)
            }
            Value::Map(map) => Ok(map.get(name)?.cloned().unwrap_or(Value::Undefined)),
            // the pairs of `groupby` have names for their items
            Value::List(list) => Ok(match (list.items(), text.as_str()) {
                ([grouper, _], "grouper") if list.is_tuple() => grouper.clone(),
                ([_, list], "list") => list.clone(),
                _ => Value::Undefined,
            }),
            _ => Ok(Value::Undefined),
        }
    }

    /// `value[key]`: an entry before an attribute; undefined where there is neither.
    fn item(&self, node: &Expression, value: &Value, key: &Value) -> Result<Value> {
        match (value, key) {
            (Value::Undefined, key) => Err(self.undefined(node, key.as_str().unwrap_or("[…]"))),
            (Value::Map(map), key) => match map.get(key)? {
                Some(value) => Ok(value.clone()),
                None => self.attribute(node, value, key),
            },
            (Value::List(list), key) if key.as_integer().is_some() => {
                let index = key.as_integer().and_then(|n| place(n, list.items().len()));
                let item = index.map(|index| list.items()[index].clone());
                Ok(item.unwrap_or(Value::Undefined))
            }
            (Value::Text(text), key) if key.as_integer().is_some() => {
                self.meter.scan(text.len())?;
                let n = key.as_integer().unwrap_or_default();
                let index = match n {
                    0.. => place(n, usize::MAX),
                    _ => place(n, text.chars().count()),
                };
                let character = index.and_then(|index| text.chars().nth(index));
                match character {
                    Some(character) => Value::text(&self.meter, character.encode_utf8(&mut [0; 4])),
                    None => Ok(Value::Undefined),
                }
            }
            _ => self.attribute(node, value, key),
        }
    }

    fn undefined(&self, node: &Expression, attribute: &str) -> TemplateError {
        let attribute: String = attribute.chars().take(100).collect();
        TemplateError::operation(match self.describe(node) {
            Some(name) => format!("'{name}' is undefined, so it has no '{attribute}'"),
            None => format!("an undefined value has no '{attribute}'"),
        })
    }

    /// What an error calls an expression, where it is simple.
    pub(super) fn describe(&self, node: &Expression) -> Option<String> {
        match &node.kind {
            ExpressionKind::Name(name) => Some(self.program.names[*name].clone()),
            ExpressionKind::Attribute(value, name) => {
                let value = self.describe(value)?;
                Some(format!("{value}.{}", self.text_constant(*name)))
            }
            _ => None,
        }
    }
}

/// The place of an index of Python's, which counts from the end where it is negative.
fn place(index: i128, length: usize) -> Option<usize> {
    let index = match index {
        0.. => index,
        _ => index + length as i128,
    };
    usize::try_from(index).ok().filter(|&index| index < length)
}
