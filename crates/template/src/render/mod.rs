//! Runs a template.

mod call;
mod expression;
mod loops;
mod operator;
mod scope;
mod slice;

use std::rc::Rc;

pub(crate) use loops::LoopState;

use crate::builtin;
use crate::error::{Result, TemplateError};
use crate::meter::{Meter, TextBuilder};
use crate::syntax::{
    Constant, ConstantIndex, Expression, Filter, Loop, Program, Statement, StatementKind, Target,
};
use crate::value::{MacroValue, Value, display, from_json};
use crate::{BYTES_FIXED, BYTES_PER_INPUT_BYTE, Input, STEPS};
use scope::Scopes;

/// What happens after a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

/// One rendering.
struct Renderer<'t> {
    program: &'t Program,
    constants: Vec<Value>,
    meter: Rc<Meter>,
    out: TextBuilder,
    scopes: Scopes,
    /// The loops that are running, the innermost last.
    loops: Vec<(Rc<LoopState>, &'t Loop)>,
    now: &'t dyn Fn(&str) -> String,
}

/// Renders a template.
pub(crate) fn render(program: &Program, input: &Input) -> Result<String> {
    let meter = Meter::new();
    let mut renderer = Renderer {
        program,
        constants: constants(program, &meter)?,
        out: TextBuilder::new(&meter)?,
        scopes: Scopes::new(program, &meter)?,
        meter,
        loops: Vec::new(),
        now: input.now,
    };
    for (name, json) in input.variables {
        if let Some(name) = renderer.scopes.index(name) {
            let value = from_json(json, &renderer.meter)?;
            renderer.scopes.set(name, value)?;
        }
    }
    renderer
        .meter
        .begin(STEPS, BYTES_FIXED, BYTES_PER_INPUT_BYTE);
    renderer.block(&program.body)?;
    Ok(renderer.out.into_string())
}

fn constants(program: &Program, meter: &Rc<Meter>) -> Result<Vec<Value>> {
    let constants = program.constants.iter();
    constants
        .map(|constant| {
            Ok(match constant {
                Constant::None => Value::None,
                Constant::Bool(value) => Value::Bool(*value),
                Constant::Integer(n) => Value::Integer(*n),
                Constant::Float(x) => Value::Float(*x),
                Constant::Text(text) => Value::text(meter, text)?,
            })
        })
        .collect()
}

impl<'t> Renderer<'t> {
    fn constant(&self, index: ConstantIndex) -> &Value {
        &self.constants[index]
    }

    /// The text of a constant that is one.
    fn text_constant(&self, index: ConstantIndex) -> &str {
        self.constants[index].as_str().unwrap_or_default()
    }

    /// Runs statements in the present scope.
    fn block(&mut self, statements: &'t [Statement]) -> Result<Flow> {
        let meter = Rc::clone(&self.meter);
        meter.nested(|| {
            for statement in statements {
                let flow = self
                    .statement(statement)
                    .map_err(|error| error.at(statement.line))?;
                if flow != Flow::Next {
                    return Ok(flow);
                }
            }
            Ok(Flow::Next)
        })
    }

    fn statement(&mut self, statement: &'t Statement) -> Result<Flow> {
        self.meter.work(1)?;
        match &statement.kind {
            StatementKind::Text(text) => {
                let text = self.constants[*text].as_str().unwrap_or_default();
                self.out.push_str(text)?;
            }
            StatementKind::Emit(expression) => {
                let value = self.expression(expression)?;
                display(&value, &mut self.out)?;
            }
            StatementKind::If {
                branches,
                otherwise,
            } => {
                for (condition, body) in branches {
                    if self.expression(condition)?.is_true() {
                        return self.block(body);
                    }
                }
                return self.block(otherwise);
            }
            StatementKind::For(node) => self.for_loop(node)?,
            StatementKind::Set(target, value) => {
                let value = self.expression(value)?;
                self.assign(target, value)?;
            }
            StatementKind::SetBlock {
                target,
                filters,
                body,
            } => {
                let value = self.captured(|renderer| renderer.scoped(body))?;
                let value = self.filtered(value, filters)?;
                self.assign(target, value)?;
            }
            StatementKind::Macro(name, index) => {
                let value = Value::Macro(MacroValue {
                    index: *index,
                    frame: self.scopes.current(),
                });
                self.scopes.set(*name, value)?;
            }
            StatementKind::CallBlock { call, body } => self.call_block(call, *body)?,
            StatementKind::FilterBlock { filters, body } => {
                let value = self.captured(|renderer| renderer.scoped(body))?;
                let value = self.filtered(value, filters)?;
                display(&value, &mut self.out)?;
            }
            StatementKind::With(assignments, body) => return self.with(assignments, body),
            StatementKind::Do(expression) => {
                self.expression(expression)?;
            }
            StatementKind::Break => return Ok(Flow::Break),
            StatementKind::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn with(
        &mut self,
        assignments: &'t [(Target, Expression)],
        body: &'t [Statement],
    ) -> Result<Flow> {
        let mut values = Vec::new();
        for (_, value) in assignments {
            values.push(self.expression(value)?);
        }
        self.scopes.push(self.scopes.current())?;
        for ((target, _), value) in assignments.iter().zip(values) {
            self.assign(target, value)?;
        }
        let flow = self.block(body)?;
        self.scopes.pop();
        Ok(flow)
    }

    /// Runs statements with variables of their own.
    fn scoped(&mut self, body: &'t [Statement]) -> Result<Flow> {
        self.with(&[], body)
    }

    /// What a part writes, as a value.
    fn captured<T>(&mut self, part: impl FnOnce(&mut Self) -> Result<T>) -> Result<Value> {
        let out = std::mem::replace(&mut self.out, TextBuilder::new(&self.meter)?);
        part(self)?;
        Value::from_builder(std::mem::replace(&mut self.out, out))
    }

    fn filtered(&mut self, mut value: Value, filters: &'t [Filter]) -> Result<Value> {
        for filter in filters {
            value = self.filter(value, filter)?;
        }
        Ok(value)
    }

    fn filter(&mut self, value: Value, filter: &'t Filter) -> Result<Value> {
        let arguments = self.arguments(&filter.arguments)?;
        builtin::filter(&filter.name, value, arguments, &self.meter)
            .map_err(|error| error.at(filter.line))
    }

    fn assign(&mut self, target: &'t Target, value: Value) -> Result<()> {
        match target {
            Target::Name(name) => self.scopes.set(*name, value),
            Target::Attribute(name, attribute) => {
                let (Value::Namespace(namespace), Value::Text(attribute)) =
                    (self.variable(*name)?, self.constant(*attribute))
                else {
                    return Err(TemplateError::operation(format!(
                        "'{}' is no namespace, so nothing can be set in it",
                        self.program.names[*name]
                    )));
                };
                namespace.set(attribute, value)
            }
            Target::Tuple(targets) => {
                let values = value.items(&self.meter)?;
                if values.items().len() != targets.len() {
                    return Err(TemplateError::operation(format!(
                        "{} values cannot be unpacked to {} variables",
                        values.items().len(),
                        targets.len()
                    )));
                }
                for (target, value) in targets.iter().zip(values.items()) {
                    self.assign(target, value.clone())?;
                }
                Ok(())
            }
        }
    }

    /// The value of a variable, undefined where there is none.
    fn variable(&self, name: usize) -> Result<Value> {
        Ok(match self.scopes.get(name)? {
            Some(value) => value.clone(),
            None => builtin::function(&self.program.names[name]),
        })
    }
}
