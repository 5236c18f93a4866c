//! Maps in the order of insertion.

// a key's text never changes; what does is the budget behind its charge, which takes no part in the hash
#![allow(clippy::mutable_key_type)]

use std::collections::HashMap;
use std::rc::Rc;

use super::{List, ListBuilder, Nest, NestLimit, Text, VALUE_BYTES, Value};
use crate::error::{Result, TemplateError};
use crate::meter::{Charge, Meter};

/// Maps up to this size are searched entry by entry.
const SEARCHED_MAX: usize = 8;

/// What keys are compared by; as in Python, true is 1 and 1.0 is 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    None,
    Integer(i128),
    Float(u64),
    Text(KeyText),
}

#[derive(Clone, Debug)]
struct KeyText(Rc<Text>);

impl PartialEq for KeyText {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for KeyText {}

impl std::hash::Hash for KeyText {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.as_str().hash(state);
    }
}

impl Key {
    fn new(value: &Value) -> Option<Key> {
        Some(match value {
            Value::None => Key::None,
            Value::Bool(_) | Value::Integer(_) => Key::Integer(value.as_integer()?),
            Value::Float(x) if x.fract() == 0.0 && x.abs() < 1e18 => Key::Integer(*x as i128),
            Value::Float(x) => Key::Float(x.to_bits()),
            Value::Text(text) => Key::Text(KeyText(Rc::clone(text))),
            _ => return None,
        })
    }
}

/// Steps that an entry takes: it is hashed, and moved where the table grows.
const STEPS_PER_ENTRY: usize = 8;

/// A map of scalar keys.
#[derive(Debug)]
pub(crate) struct Map {
    entries: Vec<(Value, Value)>,
    /// Places of the keys, where there are many.
    places: HashMap<Key, usize>,
    nest: Nest,
    charge: Charge,
}

impl Map {
    pub fn entries(&self) -> &[(Value, Value)] {
        &self.entries
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn nest(&self) -> Nest {
        self.nest
    }

    /// The value of a key; a key that no map can have is in none.
    pub fn get(&self, key: &Value) -> Result<Option<&Value>> {
        let meter = self.charge.meter();
        if let Value::Text(text) = key {
            meter.scan(text.len())?;
        }
        Ok(place(&self.entries, &self.places, key).map(|place| &self.entries[place].1))
    }

    /// A list of tuples of key and value.
    pub fn pairs(&self) -> Result<Rc<List>> {
        let meter = self.charge.meter();
        let mut pairs = ListBuilder::new(meter)?;
        for (key, value) in &self.entries {
            let mut pair = ListBuilder::new(meter)?;
            pair.push(key.clone())?;
            pair.push(value.clone())?;
            pairs.push(pair.tuple()?)?;
        }
        Ok(Rc::new(pairs.finish(false)?))
    }
}

fn place(entries: &[(Value, Value)], places: &HashMap<Key, usize>, key: &Value) -> Option<usize> {
    if let (Value::Text(text), true) = (key, places.is_empty()) {
        return entries
            .iter()
            .position(|(other, _)| other.as_str() == Some(text.as_str()));
    }
    let key = Key::new(key)?;
    if places.is_empty() {
        return entries
            .iter()
            .position(|(other, _)| Key::new(other).as_ref() == Some(&key));
    }
    places.get(&key).copied()
}

/// A map under construction.
pub(crate) struct MapBuilder {
    entries: Vec<(Value, Value)>,
    places: HashMap<Key, usize>,
    nest: NestLimit,
    charge: Charge,
}

impl MapBuilder {
    pub fn new(meter: &Rc<Meter>) -> Result<Self> {
        Ok(MapBuilder {
            entries: Vec::new(),
            places: HashMap::new(),
            nest: NestLimit::default(),
            charge: meter.charge(size_of::<Map>() + 16)?,
        })
    }

    /// Sets an entry; a key that is there keeps its place.
    ///
    /// Errors: for a key that Python could not hash, and tuples.
    pub fn insert(&mut self, key: Value, value: Value) -> Result<()> {
        let meter = self.charge.meter();
        meter.work(STEPS_PER_ENTRY)?;
        meter.scan(key.as_str().map_or(0, str::len))?;
        let Some(compared) = Key::new(&key) else {
            return Err(TemplateError::operation(format!(
                "a {} cannot be the key of a map",
                key.kind()
            )));
        };
        self.nest.add(&value)?;
        if let Some(place) = place(&self.entries, &self.places, &key) {
            self.entries[place].1 = value;
            return Ok(());
        }
        // twice the entry, as vectors and tables grow by doubling
        self.charge.grow(8 * VALUE_BYTES)?;
        self.entries.push((key, value));
        if !self.places.is_empty() {
            self.places.insert(compared, self.entries.len() - 1);
        } else if self.entries.len() > SEARCHED_MAX {
            let keys = self.entries.iter().enumerate();
            self.places = keys
                .filter_map(|(place, (key, _))| Some((Key::new(key)?, place)))
                .collect();
        }
        Ok(())
    }

    pub fn value(self) -> Result<Value> {
        Ok(Value::Map(Rc::new(Map {
            entries: self.entries,
            places: self.places,
            nest: self.nest.finish(),
            charge: self.charge,
        })))
    }
}
