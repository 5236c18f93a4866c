//! Loops.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::{Flow, Renderer};
use crate::builtin::Arguments;
use crate::error::{Result, TemplateError};
use crate::syntax::Loop;
use crate::value::{List, ListBuilder, Value, equal};

/// What `loop` is inside a loop.
#[derive(Debug)]
pub(crate) struct LoopState {
    items: Rc<List>,
    index: Cell<usize>,
    /// Recursive loops around it.
    depth: usize,
    /// What `loop.changed` saw last.
    seen: RefCell<Option<Value>>,
}

impl LoopState {
    fn item(&self, index: Option<usize>) -> Value {
        let item = index.and_then(|index| self.items.items().get(index));
        item.cloned().unwrap_or(Value::Undefined)
    }

    /// An attribute; undefined where it has none of the name.
    pub fn attribute(&self, name: &str) -> Value {
        let index = self.index.get();
        let length = self.items.items().len();
        let number = |n: usize| Value::Integer(n as i128);
        match name {
            "index" => number(index + 1),
            "index0" => number(index),
            "revindex" => number(length - index),
            "revindex0" => number(length - index - 1),
            "first" => Value::Bool(index == 0),
            "last" => Value::Bool(index + 1 == length),
            "length" => number(length),
            "depth" => number(self.depth + 1),
            "depth0" => number(self.depth),
            "previtem" => self.item(index.checked_sub(1)),
            "nextitem" => self.item(Some(index + 1)),
            _ => Value::Undefined,
        }
    }

    /// `loop.cycle(…)` and `loop.changed(…)`; none for other names.
    pub fn method(&self, name: &str, arguments: &mut Arguments) -> Result<Option<Value>> {
        match name {
            "cycle" => {
                let values = arguments.rest();
                match self.index.get().checked_rem(values.len()) {
                    Some(place) => Ok(Some(values[place].clone())),
                    None => Err(TemplateError::operation("cycle: no items")),
                }
            }
            "changed" => {
                let mut list = ListBuilder::new(arguments.meter())?;
                list.extend(&arguments.rest())?;
                let value = list.value()?;
                if value.nest().holds_namespace {
                    return Err(TemplateError::operation("changed: cannot keep a namespace"));
                }
                let mut seen = self.seen.borrow_mut();
                let changed = match &*seen {
                    Some(seen) => !equal(seen, &value, arguments.meter())?,
                    None => true,
                };
                *seen = Some(value);
                Ok(Some(Value::Bool(changed)))
            }
            _ => Ok(None),
        }
    }
}

impl<'t> Renderer<'t> {
    pub(super) fn for_loop(&mut self, node: &'t Loop) -> Result<()> {
        let over = self.expression(&node.over)?;
        self.loop_over(node, &over, 0)
    }

    /// The same loop over children: `loop(children)`, whose output is the value.
    pub(super) fn loop_again(
        &mut self,
        state: &Rc<LoopState>,
        arguments: &mut Arguments,
    ) -> Result<Value> {
        let mut running = self.loops.iter();
        let found = running.find(|(running, _)| Rc::ptr_eq(running, state));
        let Some(&(_, node)) = found.filter(|(_, node)| node.recursive) else {
            return Err(TemplateError::operation("the loop is not recursive"));
        };
        let over = arguments.next("iterable").unwrap_or(Value::Undefined);
        let depth = state.depth + 1;
        self.captured(|renderer| renderer.loop_over(node, &over, depth))
    }

    fn loop_over(&mut self, node: &'t Loop, over: &Value, depth: usize) -> Result<()> {
        self.scopes.push(self.scopes.current())?;
        let mut items = over.items(&self.meter)?;
        if let Some(condition) = &node.condition {
            let mut kept = ListBuilder::new(&self.meter)?;
            for item in items.items() {
                self.assign(&node.target, item.clone())?;
                if self.expression(condition)?.is_true() {
                    kept.push(item.clone())?;
                }
            }
            items = Rc::new(kept.finish(false)?);
        }
        let empty = items.items().is_empty();
        let state = Rc::new(LoopState {
            items,
            index: Cell::new(0),
            depth,
            seen: RefCell::new(None),
        });
        self.loops.push((Rc::clone(&state), node));
        self.iterate(node, &state)?;
        self.loops.pop();
        self.scopes.pop();
        if empty {
            self.block(&node.otherwise)?;
        }
        Ok(())
    }

    fn iterate(&mut self, node: &'t Loop, state: &Rc<LoopState>) -> Result<()> {
        let loop_name = self.scopes.index("loop");
        for (index, item) in state.items.items().iter().enumerate() {
            self.meter.work(1)?;
            state.index.set(index);
            self.scopes.clear();
            if let Some(name) = loop_name {
                self.scopes.set(name, Value::Loop(Rc::clone(state)))?;
            }
            self.assign(&node.target, item.clone())?;
            if self.block(&node.body)? == Flow::Break {
                break;
            }
        }
        Ok(())
    }
}
