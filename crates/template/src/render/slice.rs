//! Slices as Python has them.

use std::rc::Rc;

use crate::error::{Result, TemplateError};
use crate::meter::{Meter, TextBuilder};
use crate::value::{ListBuilder, Value};

/// `value[start:stop:step]` of a text, by characters, or of a list.
///
/// Errors: for a step of 0, and other values.
pub(super) fn slice(
    value: &Value,
    [start, stop, step]: [Option<i128>; 3],
    meter: &Rc<Meter>,
) -> Result<Value> {
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(TemplateError::operation("a slice cannot go in steps of 0"));
    }
    match value {
        Value::Text(text) => {
            meter.scan(text.len())?;
            let length = text.chars().count();
            let places = places(start, stop, step, length);
            let mut sliced = TextBuilder::new(meter)?;
            if step == 1 || text.is_ascii() {
                contiguous_or_ascii(text, places, &mut sliced)?;
            } else {
                let mut charge = meter.charge(0)?;
                charge.grow(length * size_of::<char>())?;
                let characters: Vec<char> = text.chars().collect();
                for place in places {
                    sliced.push(characters[place])?;
                }
            }
            Value::from_builder(sliced)
        }
        Value::List(list) => {
            let items = list.items();
            let mut sliced = ListBuilder::new(meter)?;
            for place in places(start, stop, step, items.len()) {
                sliced.push(items[place].clone())?;
            }
            if list.is_tuple() {
                sliced.tuple()
            } else {
                sliced.value()
            }
        }
        Value::Undefined => ListBuilder::new(meter)?.value(),
        other => Err(TemplateError::operation(format!(
            "a {} cannot be sliced",
            other.kind()
        ))),
    }
}

fn contiguous_or_ascii(text: &str, places: Places, out: &mut TextBuilder) -> Result<()> {
    if places.step != 1 {
        for place in places {
            out.push(char::from(text.as_bytes()[place]))?;
        }
        return Ok(());
    }
    let byte = |place: usize| match text.is_ascii() {
        true => place,
        false => text
            .char_indices()
            .nth(place)
            .map_or(text.len(), |(byte, _)| byte),
    };
    let start = byte(places.next);
    let stop = byte(places.next + places.left);
    out.push_str(&text[start..stop])
}

/// Places in a sequence, all of them inside.
struct Places {
    next: usize,
    step: i128,
    left: usize,
}

impl Iterator for Places {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let place = self.next;
        if self.left > 0 {
            // the next one is inside, as it is counted
            self.next = (place as i128 + self.step) as usize;
        }
        Some(place)
    }
}

fn places(start: Option<i128>, stop: Option<i128>, step: i128, length: usize) -> Places {
    let length = length as i128;
    let (low, high) = if step > 0 {
        (0, length)
    } else {
        (-1, length - 1)
    };
    let bound = |bound: i128| {
        let bound = if bound < 0 {
            bound.saturating_add(length)
        } else {
            bound
        };
        bound.clamp(low, high)
    };
    let (first, last) = if step > 0 { (low, high) } else { (high, low) };
    let start = start.map_or(first, bound);
    let stop = stop.map_or(last, bound);
    let distance = if step > 0 { stop - start } else { start - stop };
    let n = match distance {
        1.. => (distance - 1) / step.unsigned_abs().min(i128::MAX as u128) as i128 + 1,
        _ => 0,
    };
    Places {
        next: start.max(0) as usize,
        step,
        left: n as usize,
    }
}
