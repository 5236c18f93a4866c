//! Values of a template: immutable, but for namespaces and whose turn it is in a cycler or joiner, and never nested deeper
//! than [`MAX_NESTING`].

mod compare;
mod cycler;
mod display;
mod json;
mod list;
mod map;
mod number;

use std::cell::RefCell;
use std::rc::Rc;

pub(crate) use compare::{SortKey, contains, equal, less};
pub(crate) use cycler::{Cycler, Joiner};
pub(crate) use display::{display, repr};
pub(crate) use json::from_json;
pub(crate) use list::{List, ListBuilder, NestLimit};
pub(crate) use map::{Map, MapBuilder};
pub(crate) use number::{Number, write_float};

use crate::error::{Result, TemplateError};
use crate::meter::{Charge, Meter, TextBuilder};
use crate::render::LoopState;

/// How deep lists and maps may be nested.
pub(crate) const MAX_NESTING: u16 = 200;

/// Bytes that a value takes where it stands.
pub(crate) const VALUE_BYTES: usize = size_of::<Value>();

/// A value; copies share what is large.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Undefined,
    None,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(Rc<Text>),
    List(Rc<List>),
    Map(Rc<Map>),
    Namespace(Rc<Namespace>),
    /// A macro of the template, or the body of a call block.
    Macro(MacroValue),
    /// The name of one of [`crate::builtin::FUNCTIONS`].
    Function(&'static str),
    /// A method that waits for its call.
    Method(Rc<Method>),
    Loop(Rc<LoopState>),
    Cycler(Rc<Cycler>),
    Joiner(Rc<Joiner>),
}

/// A macro by its place in the template, and the frame it was defined in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MacroValue {
    pub index: usize,
    pub frame: usize,
}

/// A method taken off its value.
#[derive(Debug)]
pub(crate) struct Method {
    pub receiver: Value,
    pub name: Rc<Text>,
    _charge: Charge,
}

impl Method {
    pub fn value(receiver: Value, name: Rc<Text>, meter: &Rc<Meter>) -> Result<Value> {
        Ok(Value::Method(Rc::new(Method {
            receiver,
            name,
            _charge: meter.charge(size_of::<Method>() + 32)?,
        })))
    }
}

/// A string.
#[derive(Debug)]
pub(crate) struct Text {
    text: String,
    _charge: Charge,
}

impl Text {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn from_builder(builder: TextBuilder) -> Result<Rc<Text>> {
        let (text, mut charge) = builder.finish()?;
        charge.grow(size_of::<Text>() + 32)?;
        Ok(Rc::new(Text {
            text,
            _charge: charge,
        }))
    }
}

impl std::ops::Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// What `namespace()` makes: the only value whose contents change.
#[derive(Debug)]
pub(crate) struct Namespace {
    entries: RefCell<Vec<(Rc<Text>, Value)>>,
    charge: RefCell<Charge>,
}

impl Namespace {
    pub fn new(meter: &Rc<Meter>) -> Result<Self> {
        Ok(Namespace {
            entries: RefCell::new(Vec::new()),
            charge: RefCell::new(meter.charge(size_of::<Self>())?),
        })
    }

    pub fn get(&self, name: &str) -> Option<Value> {
        let entries = self.entries.borrow();
        let entry = entries.iter().find(|(key, _)| key.as_str() == name)?;
        Some(entry.1.clone())
    }

    /// Sets an attribute.
    ///
    /// Errors: for a value that holds a namespace, which could then hold itself, and for one nested too deeply.
    pub fn set(&self, name: &Rc<Text>, value: Value) -> Result<()> {
        let nest = value.nest();
        if nest.holds_namespace {
            return Err(TemplateError::operation(
                "a namespace cannot hold a namespace or a loop",
            ));
        }
        let mut entries = self.entries.borrow_mut();
        self.charge.borrow().meter().work(1 + entries.len() / 8)?;
        match entries
            .iter_mut()
            .find(|(key, _)| key.as_str() == name.as_str())
        {
            Some(entry) => entry.1 = value,
            None => {
                self.charge.borrow_mut().grow(4 * VALUE_BYTES)?;
                entries.push((Rc::clone(name), value));
            }
        }
        Ok(())
    }

    /// A copy of its entries.
    pub fn entries(&self) -> Vec<(Rc<Text>, Value)> {
        self.entries.borrow().clone()
    }
}

/// How a value is nested: what a container needs to know of its items.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Nest {
    pub depth: u16,
    /// Whether a namespace, or a loop, which may hold one, is in reach.
    pub holds_namespace: bool,
}

impl Value {
    pub fn text(meter: &Rc<Meter>, text: &str) -> Result<Value> {
        let mut builder = TextBuilder::new(meter)?;
        builder.push_str(text)?;
        Value::from_builder(builder)
    }

    pub fn from_builder(builder: TextBuilder) -> Result<Value> {
        Ok(Value::Text(Text::from_builder(builder)?))
    }

    /// The string, where it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The integer, where it is one; booleans count, as in Python.
    pub fn as_integer(&self) -> Option<i128> {
        match self {
            Value::Integer(n) => Some(*n),
            Value::Bool(value) => Some(i128::from(*value)),
            _ => None,
        }
    }

    pub fn is_undefined(&self) -> bool {
        matches!(self, Value::Undefined)
    }

    /// Whether it is neither none nor undefined.
    pub fn is_given(&self) -> bool {
        !matches!(self, Value::Undefined | Value::None)
    }

    /// Python's truth.
    pub fn is_true(&self) -> bool {
        match self {
            Value::Undefined | Value::None => false,
            Value::Bool(value) => *value,
            Value::Integer(n) => *n != 0,
            Value::Float(x) => *x != 0.0,
            Value::Text(text) => !text.is_empty(),
            Value::List(list) => !list.items().is_empty(),
            Value::Map(map) => map.len() > 0,
            _ => true,
        }
    }

    /// Python's name of the type.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Undefined => "undefined",
            Value::None => "none",
            Value::Bool(_) => "bool",
            Value::Integer(_) => "int",
            Value::Float(_) => "float",
            Value::Text(_) => "str",
            Value::List(list) if list.is_tuple() => "tuple",
            Value::List(_) => "list",
            Value::Map(_) => "dict",
            Value::Namespace(_) => "namespace",
            Value::Macro(_) => "macro",
            Value::Function(_) => "function",
            Value::Method(_) => "method",
            Value::Loop(_) => "loop",
            Value::Cycler(_) => "cycler",
            Value::Joiner(_) => "joiner",
        }
    }

    pub fn nest(&self) -> Nest {
        match self {
            Value::List(list) => list.nest(),
            Value::Map(map) => map.nest(),
            Value::Method(method) => method.receiver.nest(),
            Value::Cycler(cycler) => cycler.nest(),
            Value::Joiner(joiner) => joiner.nest(),
            // what is put into a namespace or a loop later is at most as deep as the limit
            Value::Namespace(_) | Value::Loop(_) => Nest {
                depth: 0,
                holds_namespace: true,
            },
            _ => Nest::default(),
        }
    }

    /// The values that a loop over it visits.
    ///
    /// Errors: for what cannot be looped over.
    pub fn items(&self, meter: &Rc<Meter>) -> Result<Rc<List>> {
        match self {
            Value::List(list) => Ok(Rc::clone(list)),
            Value::Undefined => Ok(Rc::new(ListBuilder::new(meter)?.finish(false)?)),
            Value::Map(map) => {
                let mut keys = ListBuilder::new(meter)?;
                for (key, _) in map.entries() {
                    keys.push(key.clone())?;
                }
                Ok(Rc::new(keys.finish(false)?))
            }
            Value::Text(text) => {
                let mut characters = ListBuilder::new(meter)?;
                let mut buffer = [0; 4];
                for character in text.chars() {
                    let text = character.encode_utf8(&mut buffer);
                    characters.push(Value::text(meter, text)?)?;
                }
                Ok(Rc::new(characters.finish(false)?))
            }
            other => Err(TemplateError::operation(format!(
                "a {} cannot be looped over",
                other.kind()
            ))),
        }
    }

    /// The number of items or characters.
    ///
    /// Errors: for what has none.
    pub fn length(&self, meter: &Meter) -> Result<usize> {
        match self {
            Value::Undefined => Ok(0),
            Value::Text(text) => {
                meter.scan(text.len())?;
                Ok(text.chars().count())
            }
            Value::List(list) => Ok(list.items().len()),
            Value::Map(map) => Ok(map.len()),
            other => Err(TemplateError::operation(format!(
                "a {} has no length",
                other.kind()
            ))),
        }
    }
}
