//! The budget of one rendering: steps, bytes alive, and depth of calls.
//!
//! Everything a template can make grow is built by [`TextBuilder`] or `ListBuilder` or holds a [`Charge`], so the
//! bytes are asked for before they are taken and given back when they are dropped. Work in bulk pays by its size,
//! so that no step lasts long.

use std::cell::Cell;
use std::rc::Rc;

use crate::error::{Result, TemplateError};

/// Bytes that one step may copy.
const COPIED_PER_STEP: usize = 64;
/// Bytes that one step may look at one by one.
const SCANNED_PER_STEP: usize = 16;

/// How deep evaluation may nest: expressions in expressions, blocks in blocks, macros in macros.
pub(crate) const MAX_DEPTH: usize = 600;

/// Bytes of the stack that evaluation may take, whatever the compiler made of a level: below the 2 MiB that threads
/// have, with room for what the last level calls.
const STACK_BYTES: usize = 512 << 10;

/// Where the stack is now, about.
fn stack_address() -> usize {
    let here = 0u8;
    (&raw const here).addr()
}

/// What is left of the budget.
#[derive(Debug)]
pub(crate) struct Meter {
    depth: Cell<usize>,
    /// Where the stack was when the rendering began.
    stack: usize,
    steps: Cell<u64>,
    steps_limit: Cell<u64>,
    bytes: Cell<usize>,
    bytes_limit: Cell<usize>,
}

impl Meter {
    /// No limits for now: the input comes first.
    pub fn new() -> Rc<Self> {
        Rc::new(Meter {
            depth: Cell::new(0),
            stack: stack_address(),
            steps: Cell::new(0),
            steps_limit: Cell::new(u64::MAX),
            bytes: Cell::new(0),
            bytes_limit: Cell::new(usize::MAX),
        })
    }

    /// Begins the budget: what is in use is the input. Allows `fixed` bytes beyond it and `factor` times its size, and
    /// `steps` and two more for each of its bytes.
    pub fn begin(&self, steps: u64, fixed: usize, factor: usize) {
        let input = self.bytes.get();
        let limit = input.saturating_mul(factor + 1).saturating_add(fixed);
        self.bytes_limit.set(limit);
        self.steps_limit.set(steps.saturating_add(2 * input as u64));
        self.steps.set(0);
    }

    /// Pays for `n` steps.
    pub fn work(&self, n: usize) -> Result<()> {
        let steps = self.steps.get().saturating_add(n as u64);
        self.steps.set(steps);
        let limit = self.steps_limit.get();
        if steps > limit {
            return Err(TemplateError::Steps { line: 0, limit });
        }
        Ok(())
    }

    /// Runs a part that may run itself, one level deeper. After an error the depth is not restored: the rendering
    /// has ended.
    pub fn nested<T>(&self, part: impl FnOnce() -> Result<T>) -> Result<T> {
        let depth = self.depth.get() + 1;
        if depth > MAX_DEPTH || self.stack.abs_diff(stack_address()) > STACK_BYTES {
            return Err(TemplateError::Depth {
                line: 0,
                what: "calls are",
                limit: depth - 1,
            });
        }
        self.depth.set(depth);
        let result = part()?;
        self.depth.set(depth - 1);
        Ok(result)
    }

    /// Pays for copying `n` bytes.
    pub fn copy(&self, n: usize) -> Result<()> {
        self.work(1 + n / COPIED_PER_STEP)
    }

    /// Pays for looking at `n` bytes one by one.
    pub fn scan(&self, n: usize) -> Result<()> {
        self.work(1 + n / SCANNED_PER_STEP)
    }

    fn take(&self, n: usize) -> Result<()> {
        let bytes = self.bytes.get().saturating_add(n);
        let limit = self.bytes_limit.get();
        if bytes > limit {
            return Err(TemplateError::Memory { line: 0, limit });
        }
        self.bytes.set(bytes);
        Ok(())
    }

    /// Asks for `n` bytes.
    pub fn charge(self: &Rc<Self>, n: usize) -> Result<Charge> {
        self.take(n)?;
        Ok(Charge {
            meter: Rc::clone(self),
            bytes: n,
        })
    }
}

/// Bytes that were granted; they return when it is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    meter: Rc<Meter>,
    bytes: usize,
}

impl Charge {
    /// Asks for more, or gives back, so that `n` bytes are held.
    pub fn resize(&mut self, n: usize) -> Result<()> {
        if n > self.bytes {
            self.meter.take(n - self.bytes)?;
        } else {
            let rest = self.meter.bytes.get().saturating_sub(self.bytes - n);
            self.meter.bytes.set(rest);
        }
        self.bytes = n;
        Ok(())
    }

    /// Asks for `n` more bytes.
    pub fn grow(&mut self, n: usize) -> Result<()> {
        self.resize(self.bytes.saturating_add(n))
    }

    /// The budget this belongs to.
    pub fn meter(&self) -> &Rc<Meter> {
        &self.meter
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let rest = self.meter.bytes.get().saturating_sub(self.bytes);
        self.meter.bytes.set(rest);
    }
}

/// A text under construction.
#[derive(Debug)]
pub(crate) struct TextBuilder {
    text: String,
    charge: Charge,
}

impl TextBuilder {
    pub fn new(meter: &Rc<Meter>) -> Result<Self> {
        Ok(TextBuilder {
            text: String::new(),
            charge: meter.charge(0)?,
        })
    }

    fn make_room(&mut self, n: usize) -> Result<()> {
        let needed = self.text.len().saturating_add(n);
        if needed > self.text.capacity() {
            let capacity = needed.max(self.text.capacity() * 2).max(32);
            self.charge.resize(capacity)?;
            self.text.reserve_exact(capacity - self.text.len());
        }
        Ok(())
    }

    /// Appends, paying for the copy.
    pub fn push_str(&mut self, text: &str) -> Result<()> {
        self.charge.meter.copy(text.len())?;
        self.make_room(text.len())?;
        self.text.push_str(text);
        Ok(())
    }

    /// Appends one character; who calls it in a loop pays for the loop.
    pub fn push(&mut self, character: char) -> Result<()> {
        self.make_room(character.len_utf8())?;
        self.text.push(character);
        Ok(())
    }

    /// Appends a text `n` times.
    pub fn push_repeated(&mut self, text: &str, n: usize) -> Result<()> {
        let length = text.len().saturating_mul(n);
        self.make_room(length)?;
        self.charge.meter.copy(length)?;
        for _ in 0..if text.is_empty() { 0 } else { n } {
            self.text.push_str(text);
        }
        Ok(())
    }

    /// The budget it is paid from.
    pub fn meter(&self) -> &Rc<Meter> {
        &self.charge.meter
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text alone.
    pub fn into_string(self) -> String {
        self.text
    }

    /// The text and what it holds of the budget, with little room to spare.
    pub fn finish(mut self) -> Result<(String, Charge)> {
        if self.text.capacity() > self.text.len() + self.text.len() / 4 + 32 {
            self.text.shrink_to_fit();
        }
        self.charge.resize(self.text.capacity())?;
        Ok((self.text, self.charge))
    }
}
