//! What `cycler()` and `joiner()` make: values whose items never change, but which remember whose turn it is.

use std::cell::Cell;
use std::rc::Rc;

use super::{List, Nest, NestLimit, Value};
use crate::error::Result;
use crate::meter::{Charge, Meter};

/// Items that take turns.
#[derive(Debug)]
pub(crate) struct Cycler {
    /// At least one.
    items: List,
    position: Cell<usize>,
}

impl Cycler {
    /// A cycler at its first item; none without items.
    pub fn new(items: List) -> Option<Self> {
        let position = Cell::new(0);
        (!items.items().is_empty()).then_some(Cycler { items, position })
    }

    pub fn current(&self) -> Value {
        // The position is always below the number of items.
        let item = self.items.items().get(self.position.get());
        item.cloned().unwrap_or(Value::Undefined)
    }

    /// The current item; the next one becomes current.
    pub fn next(&self) -> Value {
        let item = self.current();
        let next = self.position.get() + 1;
        self.position.set(next % self.items.items().len());
        item
    }

    pub fn reset(&self) {
        self.position.set(0);
    }

    pub(super) fn nest(&self) -> Nest {
        self.items.nest()
    }
}

/// A separator that is nothing the first time.
#[derive(Debug)]
pub(crate) struct Joiner {
    separator: Value,
    is_used: Cell<bool>,
    nest: Nest,
    _charge: Charge,
}

impl Joiner {
    pub fn new(separator: Value, meter: &Rc<Meter>) -> Result<Self> {
        let mut limit = NestLimit::default();
        limit.add(&separator)?;
        Ok(Joiner {
            separator,
            nest: limit.finish(),
            is_used: Cell::new(false),
            _charge: meter.charge(size_of::<Self>() + 16)?,
        })
    }

    /// The separator; an empty text the first time.
    pub fn next(&self, meter: &Rc<Meter>) -> Result<Value> {
        match self.is_used.replace(true) {
            true => Ok(self.separator.clone()),
            false => Value::text(meter, ""),
        }
    }

    pub(super) fn nest(&self) -> Nest {
        self.nest
    }
}
