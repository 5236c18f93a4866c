//! Variables.

use std::collections::HashMap;
use std::rc::Rc;

use crate::error::Result;
use crate::meter::{Charge, Meter};
use crate::syntax::{NameIndex, Program};
use crate::value::{VALUE_BYTES, Value};

/// Variables of one block, and the frame around it.
struct Frame {
    variables: Vec<(NameIndex, Value)>,
    parent: usize,
    charge: Charge,
}

/// The scopes of a rendering. Frame 0 is the template's own and holds a place for every name; the others lie on a
/// stack, each with the frame it sees beyond itself.
pub(super) struct Scopes {
    outermost: Vec<Option<Value>>,
    /// Frames from 1 on.
    frames: Vec<Frame>,
    current: usize,
    names: HashMap<String, NameIndex>,
    charge: Charge,
}

impl Scopes {
    pub fn new(program: &Program, meter: &Rc<Meter>) -> Result<Self> {
        let names = program.names.iter().cloned().enumerate();
        Ok(Scopes {
            outermost: vec![None; program.names.len()],
            frames: Vec::new(),
            current: 0,
            names: names.map(|(index, name)| (name, index)).collect(),
            charge: meter.charge(program.names.len() * 4 * VALUE_BYTES)?,
        })
    }

    /// The place of a name, where the template has it.
    pub fn index(&self, name: &str) -> Option<NameIndex> {
        self.names.get(name).copied()
    }

    /// The frame in which statements run.
    pub fn current(&self) -> usize {
        self.current
    }

    /// Enters a new frame that sees `parent`; one that is gone is replaced by the outermost.
    pub fn push(&mut self, parent: usize) -> Result<()> {
        let parent = if parent > self.frames.len() {
            0
        } else {
            parent
        };
        let bytes = 2 * size_of::<Frame>();
        self.frames.push(Frame {
            variables: Vec::new(),
            parent,
            charge: self.charge.meter().charge(bytes)?,
        });
        self.current = self.frames.len();
        Ok(())
    }

    /// Leaves the newest frame for the one it was entered from, which it sees.
    pub fn pop(&mut self) {
        if let Some(frame) = self.frames.pop() {
            self.current = frame.parent;
        }
    }

    /// Leaves the newest frame for another, from which a macro was called.
    pub fn pop_to(&mut self, frame: usize) {
        self.frames.pop();
        self.current = frame;
    }

    /// Forgets the variables of the newest frame.
    pub fn clear(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            frame.variables.clear();
        }
    }

    /// Sets a variable in the present frame.
    pub fn set(&mut self, name: NameIndex, value: Value) -> Result<()> {
        if self.current == 0 {
            self.outermost[name] = Some(value);
            return Ok(());
        }
        let frame = &mut self.frames[self.current - 1];
        frame.charge.meter().work(frame.variables.len() / 8)?;
        match frame.variables.iter_mut().find(|(key, _)| *key == name) {
            Some(variable) => variable.1 = value,
            None => {
                if frame.variables.len() == frame.variables.capacity() {
                    let more = frame.variables.len().max(4);
                    frame.charge.grow(more * 2 * VALUE_BYTES)?;
                    frame.variables.reserve_exact(more);
                }
                frame.variables.push((name, value));
            }
        }
        Ok(())
    }

    /// A variable, searched from the present frame outwards.
    pub fn get(&self, name: NameIndex) -> Result<Option<&Value>> {
        let mut current = self.current;
        let mut n_searched = 0;
        while current > 0 {
            let frame = &self.frames[current - 1];
            if let Some((_, value)) = frame.variables.iter().find(|(key, _)| *key == name) {
                return Ok(Some(value));
            }
            n_searched += 1 + frame.variables.len();
            current = frame.parent;
        }
        self.charge.meter().work(n_searched / 8)?;
        Ok(self.outermost[name].as_ref())
    }
}
