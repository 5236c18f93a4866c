//! The text of a GBNF grammar, read.

use std::collections::HashMap;

use super::characters::Characters;
use super::{Fault, Fragment};

/// Groups within groups.
const DEPTH_MAX: usize = 100;
/// The largest number in braces.
const REPEAT_MAX: u32 = 1_000_000;

/// A rule.
pub struct Rule {
    /// Its name.
    pub name: String,
    /// Where the name stands, in bytes.
    pub at: usize,
    /// What it stands for.
    pub body: Fragment,
}

/// What a grammar asks of the vocabulary: the one token that a text is.
pub type FindToken<'a> = dyn Fn(&str) -> Option<u32> + 'a;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    find_token: &'a FindToken<'a>,
    /// Numbers of the rules, by name, in the order in which they are first named.
    numbers: HashMap<&'a str, usize>,
    rules: Vec<Named<'a>>,
}

/// A rule that is named somewhere.
struct Named<'a> {
    name: &'a str,
    /// The first place that names it.
    named_at: usize,
    /// Where it stands and what it stands for, once that is known.
    body: Option<(usize, Fragment)>,
}

/// The rules of a grammar, the first of which is `root`.
pub fn parse(text: &str, find_token: &FindToken<'_>) -> Result<Vec<Rule>, Fault> {
    let mut parser = Parser {
        text,
        at: 0,
        find_token,
        numbers: HashMap::new(),
        rules: Vec::new(),
    };
    parser.number("root", text.len());
    parser.space(true);
    while parser.at < text.len() {
        parser.rule()?;
    }
    let rules = parser.rules.into_iter().map(|rule| {
        let missing = || match rule.name {
            "root" => Fault::at(0, "there is no rule `root`, where a text begins".into()),
            name => Fault::at(rule.named_at, format!("there is no rule `{name}`")),
        };
        let name = rule.name.to_owned();
        let (at, body) = rule.body.ok_or_else(missing)?;
        Ok(Rule { name, at, body })
    });
    rules.collect()
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

impl<'a> Parser<'a> {
    fn number(&mut self, name: &'a str, at: usize) -> usize {
        let next = self.rules.len();
        let number = *self.numbers.entry(name).or_insert(next);
        if number == next {
            self.rules.push(Named {
                name,
                named_at: at,
                body: None,
            });
        }
        number
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn fault<T>(&self, message: impl Into<String>) -> Result<T, Fault> {
        Err(Fault::at(self.at, message.into()))
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn need(&mut self, byte: u8) -> Result<(), Fault> {
        match self.take(byte) {
            true => Ok(()),
            false => self.fault(format!("expected `{}`", byte as char)),
        }
    }

    /// Passes over spaces and comments, and over ends of lines where a rule may go on in the next one.
    fn space(&mut self, newlines: bool) {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' => self.at += 1,
                b'\r' | b'\n' if newlines => self.at += 1,
                b'#' => {
                    let rest = &self.text[self.at..];
                    self.at += rest.find(['\r', '\n']).unwrap_or(rest.len());
                }
                _ => break,
            }
        }
    }

    fn name(&mut self) -> Result<&'a str, Fault> {
        let rest = &self.text.as_bytes()[self.at..];
        let length = rest.iter().take_while(|&&byte| is_name(byte)).count();
        if length == 0 {
            return self.fault("expected the name of a rule");
        }
        let name = &self.text[self.at..self.at + length];
        self.at += length;
        Ok(name)
    }

    fn rule(&mut self) -> Result<(), Fault> {
        let at = self.at;
        let name = self.name()?;
        self.space(false);
        if !self.text[self.at..].starts_with("::=") {
            return self.fault("expected `::=` after the name of a rule");
        }
        self.at += 3;
        self.space(true);
        let body = self.alternatives(0)?;
        if !matches!(self.peek(), None | Some(b'\r' | b'\n')) {
            return self.fault("expected an item, `|` or the end of the line");
        }
        self.space(true);
        let number = self.number(name, at);
        if self.rules[number].body.replace((at, body)).is_some() {
            return Err(Fault::at(at, format!("the rule `{name}` is there twice")));
        }
        Ok(())
    }

    /// Within a group lines may end anywhere.
    fn alternatives(&mut self, depth: usize) -> Result<Fragment, Fault> {
        if depth > DEPTH_MAX {
            return self.fault(format!("more than {DEPTH_MAX} groups within each other"));
        }
        let mut choices = vec![self.sequence(depth)?];
        while self.take(b'|') {
            self.space(true);
            choices.push(self.sequence(depth)?);
        }
        Ok(match choices.len() {
            1 => choices.remove(0),
            _ => Fragment::Choice(choices),
        })
    }

    fn sequence(&mut self, depth: usize) -> Result<Fragment, Fault> {
        let mut items: Vec<Fragment> = Vec::new();
        while let Some(byte) = self.peek() {
            let item = match byte {
                b'"' => self.literal()?,
                b'[' => self.class()?,
                b'<' | b'!' => self.token()?,
                b'.' => {
                    self.at += 1;
                    Fragment::Characters(Characters::none().negated())
                }
                b'(' => {
                    self.at += 1;
                    self.space(true);
                    let group = self.alternatives(depth + 1)?;
                    self.need(b')')?;
                    group
                }
                b'*' | b'+' | b'?' | b'{' => {
                    let (min, max) = self.counts(depth > 0)?;
                    let Some(item) = items.pop() else {
                        return self.fault("expected an item before `*`, `+`, `?` or `{`");
                    };
                    Fragment::repeat(item, min, max)
                }
                byte if is_name(byte) => {
                    let at = self.at;
                    let name = self.name()?;
                    Fragment::Rule(self.number(name, at))
                }
                _ => break,
            };
            items.push(item);
            self.space(depth > 0);
        }
        Ok(match items.len() {
            1 => items.remove(0),
            _ => Fragment::Sequence(items),
        })
    }

    /// How often the item before is there, from here on.
    fn counts(&mut self, newlines: bool) -> Result<(u32, Option<u32>), Fault> {
        let sign = self.peek();
        let start = self.at;
        self.at += 1;
        match sign {
            Some(b'*') => return Ok((0, None)),
            Some(b'+') => return Ok((1, None)),
            Some(b'?') => return Ok((0, Some(1))),
            _ => self.space(newlines),
        }
        let min = self.count()?;
        self.space(newlines);
        let mut max = Some(min);
        if self.take(b',') {
            self.space(newlines);
            let open = self.peek() == Some(b'}');
            max = if open { None } else { Some(self.count()?) };
            self.space(newlines);
        }
        self.need(b'}')?;
        match max {
            Some(max) if max < min => Err(Fault::at(start, format!("{min} is more than {max}"))),
            max => Ok((min, max)),
        }
    }

    fn count(&mut self) -> Result<u32, Fault> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        let count = self.text[start..self.at].parse().ok();
        let count = count.filter(|&count: &u32| count <= REPEAT_MAX);
        count.ok_or_else(|| Fault::at(start, format!("expected a number of at most {REPEAT_MAX}")))
    }

    fn literal(&mut self) -> Result<Fragment, Fault> {
        let start = self.at;
        self.at += 1;
        let mut characters = Vec::new();
        while !self.take(b'"') {
            let character = self.character(start)?;
            characters.push(Fragment::Characters(Characters::of([(
                character, character,
            )])));
        }
        Ok(Fragment::Sequence(characters))
    }

    fn class(&mut self) -> Result<Fragment, Fault> {
        let start = self.at;
        self.at += 1;
        let is_negated = self.take(b'^');
        let mut ranges = Vec::new();
        while !self.take(b']') {
            let at = self.at;
            let from = self.character(start)?;
            let is_range =
                self.text[self.at..].starts_with('-') && !self.text[self.at..].starts_with("-]");
            self.at += usize::from(is_range);
            let to = if is_range {
                self.character(start)?
            } else {
                from
            };
            if to < from {
                let message = format!("the range {from:?} to {to:?} is empty");
                return Err(Fault::at(at, message));
            }
            ranges.push((from, to));
        }
        let characters = Characters::of(ranges);
        let characters = if is_negated {
            characters.negated()
        } else {
            characters
        };
        match characters.is_empty() {
            true => Err(Fault::at(start, "this class has no character".into())),
            false => Ok(Fragment::Characters(characters)),
        }
    }

    /// A character of the literal or class that begins at `start`.
    fn character(&mut self, start: usize) -> Result<char, Fault> {
        let Some(character) = self.text[self.at..].chars().next() else {
            return Err(Fault::at(start, "this has no end".into()));
        };
        let at = self.at;
        self.at += character.len_utf8();
        if character != '\\' {
            return Ok(character);
        }
        let escaped = self.peek();
        self.at += 1;
        let n_digits = match escaped {
            Some(b't') => return Ok('\t'),
            Some(b'r') => return Ok('\r'),
            Some(b'n') => return Ok('\n'),
            Some(byte @ (b'\\' | b'"' | b'[' | b']' | b'-')) => return Ok(byte as char),
            Some(b'x') => 2,
            Some(b'u') => 4,
            Some(b'U') => 8,
            _ => return Err(Fault::at(at, "this escape means nothing".into())),
        };
        let digits = self.text.get(self.at..self.at + n_digits);
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        self.at += n_digits;
        let expected = || {
            Fault::at(
                at,
                format!("expected a character's code in {n_digits} digits"),
            )
        };
        code.and_then(char::from_u32).ok_or_else(expected)
    }

    /// `<[id]>` or `<text>`, behind `!` all others.
    fn token(&mut self) -> Result<Fragment, Fault> {
        let is_negated = self.take(b'!');
        let start = self.at;
        self.need(b'<')?;
        let Some(length) = self.text[self.at..].find('>') else {
            return Err(Fault::at(start, "this has no end".into()));
        };
        let text = &self.text[start..self.at + length + 1];
        self.at += length + 1;
        let number = text
            .strip_prefix("<[")
            .and_then(|text| text.strip_suffix("]>"));
        let id = match number {
            Some(number) => number.parse().ok(),
            None => (self.find_token)(text),
        };
        match id {
            Some(id) => Ok(Fragment::Token { id, is_negated }),
            None => Err(Fault::at(start, format!("{text} is not one token"))),
        }
    }
}
