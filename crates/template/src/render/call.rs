//! Calls: macros, functions, methods.

use std::rc::Rc;

use super::Renderer;
use crate::builtin::{self, Arguments};
use crate::error::{Result, TemplateError};
use crate::syntax::{self, Expression, ExpressionKind};
use crate::value::{ListBuilder, MacroValue, MapBuilder, Value, display};

impl<'t> Renderer<'t> {
    /// Evaluates arguments.
    pub(super) fn arguments(&mut self, nodes: &'t syntax::Arguments) -> Result<Arguments> {
        let mut arguments = Arguments::new(&self.meter)?;
        for node in &nodes.positional {
            arguments.push(self.expression(node)?)?;
        }
        if let Some(node) = &nodes.unpacked {
            for value in self.expression(node)?.items(&self.meter)?.items() {
                arguments.push(value.clone())?;
            }
        }
        for (name, node) in &nodes.named {
            let value = self.expression(node)?;
            if let Value::Text(name) = &self.constants[*name] {
                arguments.push_named(Rc::clone(name), value)?;
            }
        }
        if let Some(node) = &nodes.unpacked_named {
            let Value::Map(map) = self.expression(node)? else {
                return Err(TemplateError::operation("** takes a dict"));
            };
            for (key, value) in map.entries() {
                let Value::Text(name) = key else {
                    return Err(TemplateError::operation("** takes a dict of strings"));
                };
                arguments.push_named(Rc::clone(name), value.clone())?;
            }
        }
        Ok(arguments)
    }

    pub(super) fn call(
        &mut self,
        callee: &'t Expression,
        nodes: &'t syntax::Arguments,
    ) -> Result<Value> {
        let function = if let ExpressionKind::Attribute(node, name) = &callee.kind {
            let receiver = self.expression(node)?;
            let name = self.constants[*name].clone();
            if let Value::Text(name) = &name
                && (builtin::has_method(&receiver, name) || matches!(receiver, Value::Loop(_)))
            {
                let arguments = self.arguments(nodes)?;
                return builtin::method(&receiver, name, arguments);
            }
            let function = self.attribute(node, &receiver, &name)?;
            if function.is_undefined() {
                return Err(TemplateError::operation(format!(
                    "a {} has no method '{}'",
                    receiver.kind(),
                    name.as_str().unwrap_or_default()
                )));
            }
            function
        } else {
            self.expression(callee)?
        };
        if function.is_undefined() {
            let name = self.describe(callee).unwrap_or_else(|| "the value".into());
            return Err(TemplateError::operation(format!(
                "'{name}' is undefined, so it cannot be called"
            )));
        }
        let arguments = self.arguments(nodes)?;
        self.call_value(&function, arguments, None)
    }

    /// Calls a value, with the body of a call block where there is one.
    fn call_value(
        &mut self,
        function: &Value,
        mut arguments: Arguments,
        caller: Option<MacroValue>,
    ) -> Result<Value> {
        match function {
            Value::Macro(value) => self.call_macro(*value, arguments, caller),
            Value::Function("strftime_now") => {
                let format = arguments.text("format")?;
                self.meter.scan(format.len() * 8)?;
                let _room = self.meter.charge(format.len().saturating_mul(8))?;
                Value::text(&self.meter, &(self.now)(&format))
            }
            Value::Function(name) => builtin::call(name, arguments),
            Value::Method(method) => builtin::method(&method.receiver, &method.name, arguments),
            Value::Loop(state) => self.loop_again(state, &mut arguments),
            Value::Joiner(joiner) => {
                arguments.finish("joiner")?;
                joiner.next(&self.meter)
            }
            other => Err(TemplateError::operation(format!(
                "a {} cannot be called",
                other.kind()
            ))),
        }
    }

    fn call_macro(
        &mut self,
        value: MacroValue,
        mut arguments: Arguments,
        caller: Option<MacroValue>,
    ) -> Result<Value> {
        let program = self.program;
        let node = &program.macros[value.index];
        let back = self.scopes.current();
        self.scopes.push(value.frame)?;
        for (name, default) in &node.parameters {
            let argument = arguments.next(&program.names[*name]);
            let argument = match (argument, default) {
                (Some(argument), _) => argument,
                (None, Some(default)) => self.expression(default)?,
                (None, None) => Value::Undefined,
            };
            self.scopes.set(*name, argument)?;
        }
        self.bind_rest(&node.name, arguments, caller)?;
        let text = self.captured(|renderer| renderer.block(&node.body))?;
        self.scopes.pop_to(back);
        Ok(text)
    }

    /// Binds `varargs`, `kwargs` and `caller`, where the template reads them.
    fn bind_rest(
        &mut self,
        name: &str,
        mut arguments: Arguments,
        caller: Option<MacroValue>,
    ) -> Result<()> {
        if let Some(varargs) = self.scopes.index("varargs") {
            let mut list = ListBuilder::new(&self.meter)?;
            list.extend(&arguments.rest())?;
            self.scopes.set(varargs, list.tuple()?)?;
        }
        if let Some(kwargs) = self.scopes.index("kwargs") {
            let mut map = MapBuilder::new(&self.meter)?;
            for (key, value) in arguments.rest_named() {
                map.insert(Value::Text(key), value)?;
            }
            self.scopes.set(kwargs, map.value()?)?;
        }
        if let Some(index) = self.scopes.index("caller") {
            let caller = caller.map_or(Value::Undefined, Value::Macro);
            self.scopes.set(index, caller)?;
        }
        arguments.finish(name)
    }

    /// `{% call %}`: what the called macro writes, with the block as its `caller`.
    pub(super) fn call_block(&mut self, call: &'t Expression, body: usize) -> Result<()> {
        let ExpressionKind::Call(callee, nodes) = &call.kind else {
            return Err(TemplateError::operation("'call' takes a call"));
        };
        let function = self.expression(callee)?;
        let arguments = self.arguments(nodes)?;
        let caller = MacroValue {
            index: body,
            frame: self.scopes.current(),
        };
        let value = self.call_value(&function, arguments, Some(caller))?;
        display(&value, &mut self.out)
    }
}
