//! A place in the text of a call, which may go on.

use super::json;
use super::tools::{Tools, string};

/// Why a parser of calls ends before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The text is the beginning of a call, as far as it goes.
    More,
    /// The text is no call.
    Bad,
}

/// What is parsed.
pub type Parsed<T> = Result<T, Stop>;

/// Deepest nesting of values.
pub const DEPTH_MAX: usize = 128;

/// The longest name of a function, in bytes.
pub const NAME_BYTES_MAX: usize = 256;

/// A call as far as it is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    /// The model's own id.
    pub id: Option<String>,
    /// The name, once it is sure.
    pub name: Option<String>,
    /// The beginning of the arguments, as JSON; it only ever grows.
    pub arguments: String,
    /// Where it ended, in bytes of the text.
    pub end: Option<usize>,
}

/// The text of calls and what was found in it. A parser is a function of the text alone, and what it finds in the
/// beginning of a text it finds in the whole: so the pieces that a text comes in make no difference.
pub struct Scan<'a> {
    text: &'a str,
    at: usize,
    is_all: bool,
    tools: &'a Tools,
    calls: Vec<Call>,
}

impl<'a> Scan<'a> {
    /// Begins at the mark that made it look like a call. `is_all` says that nothing follows the text.
    pub fn new(text: &'a str, is_all: bool, tools: &'a Tools) -> Self {
        Scan {
            text,
            at: 0,
            is_all,
            tools,
            calls: Vec::new(),
        }
    }

    /// The calls found so far; all but the last are complete.
    pub fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// Bytes consumed.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The functions that can be called.
    pub fn tools(&self) -> &'a Tools {
        self.tools
    }

    /// What is not consumed yet.
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Whether nothing is left and nothing follows.
    pub fn is_end(&self) -> bool {
        self.is_all && self.rest().is_empty()
    }

    /// Passes over so many bytes, which end with a character.
    pub fn advance(&mut self, n: usize) {
        self.at += n;
    }

    /// Goes back so many bytes, which were consumed as one.
    pub fn back(&mut self, n: usize) {
        self.at = self.at.saturating_sub(n);
    }

    /// The same place, to look ahead from.
    pub fn ahead(&self) -> Scan<'a> {
        Scan {
            at: self.at,
            ..Scan::new(self.text, self.is_all, self.tools)
        }
    }

    /// Passes over white space.
    pub fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Whether a mark stands here; it is consumed then.
    pub fn has(&mut self, mark: &str) -> Parsed<bool> {
        if self.rest().starts_with(mark) {
            self.at += mark.len();
            Ok(true)
        } else if mark.starts_with(self.rest()) && !self.is_all {
            Err(Stop::More)
        } else {
            Ok(false)
        }
    }

    /// The first of some marks that stands here, none of which begins another.
    pub fn has_any(&mut self, marks: &[&str]) -> Parsed<bool> {
        let mut undecided = false;
        for mark in marks {
            match self.has(mark) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(_) => undecided = true,
            }
        }
        if undecided {
            Err(Stop::More)
        } else {
            Ok(false)
        }
    }

    /// Consumes a mark that must stand here.
    pub fn mark(&mut self, mark: &str) -> Parsed<()> {
        match self.has(mark)? {
            true => Ok(()),
            false => Err(Stop::Bad),
        }
    }

    /// Consumes a mark behind white space, where it stands; a model may leave it out.
    pub fn close(&mut self, mark: &str) -> Parsed<()> {
        let before = self.at;
        self.space();
        if !self.has(mark)? {
            self.at = before;
        }
        Ok(())
    }

    /// The text before a mark, which is consumed too.
    pub fn until(&mut self, mark: &str) -> Parsed<&'a str> {
        let found = self.rest().find(mark).ok_or(Stop::More)?;
        let before = &self.rest()[..found];
        self.at += found + mark.len();
        Ok(before)
    }

    /// A name before a mark.
    pub fn name_until(&mut self, mark: &str) -> Parsed<&'a str> {
        let rest = self.rest();
        let end = rest.find(mark).unwrap_or(rest.len() - open_end(rest, mark));
        let name = rest[..end].trim();
        if end > NAME_BYTES_MAX || name.contains(['\n', '<', '{', '"']) {
            return Err(Stop::Bad);
        }
        self.until(mark)?;
        if name.is_empty() {
            return Err(Stop::Bad);
        }
        Ok(name)
    }

    /// A string of JSON, decoded.
    pub fn string(&mut self) -> Parsed<String> {
        if !self.rest().is_empty() && !self.rest().starts_with('"') {
            return Err(Stop::Bad);
        }
        let mut text = String::new();
        self.at = json::Reader::new(self.text, self.at, self.is_all, &mut text).value()?;
        serde_json::from_str(&text).map_err(|_| Stop::Bad)
    }

    /// Passes over a value of JSON.
    pub fn skip_value(&mut self) -> Parsed<()> {
        let mut ignored = String::new();
        self.at = json::Reader::new(self.text, self.at, self.is_all, &mut ignored).value()?;
        Ok(())
    }

    /// Begins a call.
    pub fn begin(&mut self) {
        self.calls.push(Call::default());
    }

    /// The call that was begun.
    pub fn call(&mut self) -> &mut Call {
        if self.calls.last().is_none_or(|call| call.end.is_some()) {
            self.begin();
        }
        let last = self.calls.len() - 1;
        &mut self.calls[last]
    }

    /// Takes the arguments of the call that was begun: an object of JSON, or a string that holds one.
    pub fn arguments(&mut self) -> Parsed<()> {
        match self.rest().bytes().next().ok_or(Stop::More)? {
            b'{' => {
                let (text, at, is_all) = (self.text, self.at, self.is_all);
                let out = &mut self.call().arguments;
                out.clear();
                self.at = json::Reader::new(text, at, is_all, out).value()?;
            }
            b'"' => {
                let held = self.string()?;
                let is_object = serde_json::from_str(&held).is_ok_and(|value| {
                    let value: serde_json::Value = value;
                    value.is_object()
                });
                if !is_object {
                    return Err(Stop::Bad);
                }
                self.call().arguments = held;
            }
            _ => {
                self.mark("null")?;
                self.call().arguments = "{}".into();
            }
        }
        Ok(())
    }

    /// Adds an argument, a value of JSON, to the call that was begun.
    pub fn argument(&mut self, key: &str, value: &str) {
        let arguments = &mut self.call().arguments;
        arguments.push_str(if arguments.is_empty() { "{" } else { ", " });
        arguments.push_str(&format!("{}: {value}", string(key)));
    }

    /// Closes the object that arguments were added to one by one.
    pub fn close_arguments(&mut self) {
        let arguments = &mut self.call().arguments;
        arguments.push_str(if arguments.is_empty() { "{}" } else { "}" });
    }

    /// Ends the call that was begun. One without a name is none.
    pub fn end(&mut self) -> Parsed<()> {
        let at = self.at;
        let call = self.call();
        if call.name.as_deref().is_none_or(str::is_empty) {
            return Err(Stop::Bad);
        }
        if call.arguments.is_empty() {
            call.arguments = "{}".into();
        }
        call.end = Some(at);
        Ok(())
    }
}

/// The length of the longest end of a text that a mark could begin with.
pub fn open_end(text: &str, mark: &str) -> usize {
    let longest = mark.len().saturating_sub(1).min(text.len());
    let lengths = (1..=longest).rev();
    lengths
        .filter(|n| text.is_char_boundary(text.len() - n))
        .find(|n| mark.starts_with(&text[text.len() - n..]))
        .unwrap_or(0)
}
