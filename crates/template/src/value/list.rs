//! Lists and tuples.

use std::rc::Rc;

use super::{MAX_NESTING, Nest, VALUE_BYTES, Value};
use crate::error::{Result, TemplateError};
use crate::meter::{Charge, Meter};

/// A list, or a tuple, which differs in how it prints.
#[derive(Debug)]
pub(crate) struct List {
    items: Vec<Value>,
    tuple: bool,
    nest: Nest,
    _charge: Charge,
}

impl List {
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    pub fn is_tuple(&self) -> bool {
        self.tuple
    }

    pub fn nest(&self) -> Nest {
        self.nest
    }
}

pub(super) fn too_deep() -> TemplateError {
    TemplateError::Depth {
        line: 0,
        what: "lists and maps are",
        limit: usize::from(MAX_NESTING),
    }
}

/// Follows the nesting of a container's items.
#[derive(Default)]
pub(crate) struct NestLimit(Nest);

impl NestLimit {
    pub fn add(&mut self, value: &Value) -> Result<()> {
        let nest = value.nest();
        self.0.holds_namespace |= nest.holds_namespace;
        if nest.depth >= MAX_NESTING {
            return Err(too_deep());
        }
        self.0.depth = self.0.depth.max(nest.depth);
        Ok(())
    }

    /// The nesting of the container.
    pub fn finish(self) -> Nest {
        Nest {
            depth: self.0.depth + 1,
            ..self.0
        }
    }
}

/// A list under construction: pays for its items before it takes them.
pub(crate) struct ListBuilder {
    items: Vec<Value>,
    nest: NestLimit,
    charge: Charge,
}

impl ListBuilder {
    pub fn new(meter: &Rc<Meter>) -> Result<Self> {
        Ok(ListBuilder {
            items: Vec::new(),
            nest: NestLimit::default(),
            charge: meter.charge(0)?,
        })
    }

    pub fn push(&mut self, value: Value) -> Result<()> {
        self.charge.meter().work(1)?;
        self.nest.add(&value)?;
        if self.items.len() == self.items.capacity() {
            let capacity = (self.items.capacity() * 2).max(4);
            self.charge.resize(capacity * VALUE_BYTES)?;
            self.items.reserve_exact(capacity - self.items.len());
        }
        self.items.push(value);
        Ok(())
    }

    pub fn extend(&mut self, values: &[Value]) -> Result<()> {
        values.iter().try_for_each(|value| self.push(value.clone()))
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn items(&self) -> &[Value] {
        &self.items
    }

    pub fn reverse(&mut self) {
        self.items.reverse();
    }

    pub fn finish(mut self, tuple: bool) -> Result<List> {
        self.items.shrink_to_fit();
        self.charge
            .resize(self.items.capacity() * VALUE_BYTES + size_of::<List>() + 16)?;
        Ok(List {
            items: self.items,
            tuple,
            nest: self.nest.finish(),
            _charge: self.charge,
        })
    }

    /// The list as a value.
    pub fn value(self) -> Result<Value> {
        Ok(Value::List(Rc::new(self.finish(false)?)))
    }

    /// The tuple as a value.
    pub fn tuple(self) -> Result<Value> {
        Ok(Value::List(Rc::new(self.finish(true)?)))
    }
}
