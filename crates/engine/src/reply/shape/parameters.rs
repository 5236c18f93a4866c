//! Calls whose parameters stand between marks, one by one, as bare text:
//! `<function=NAME><parameter=KEY>VALUE</parameter></function>`.

use crate::reply::scan::{NAME_BYTES_MAX, Parsed, Scan, Stop};
use crate::reply::tools::{json_or_string, string};

/// What stands around name, keys and values.
#[derive(Clone, Copy)]
pub struct Parameters {
    /// Marks of which one begins a section of calls; none where each call stands alone.
    pub section: &'static [&'static str],
    /// The mark that begins a call.
    pub open: &'static str,
    /// The mark behind the name; where it is empty the name ends with the line or with the first parameter.
    pub name_end: &'static str,
    /// The end of what stands behind that mark and says nothing; often empty.
    pub name_rest: &'static str,
    /// The mark before a key.
    pub key: &'static str,
    /// The mark behind it.
    pub key_end: &'static str,
    /// The mark before a value, behind white space; often none.
    pub value: &'static str,
    /// The mark behind a value.
    pub value_end: &'static str,
    /// The mark that ends a call.
    pub close: &'static str,
    /// The mark that ends the section.
    pub section_end: &'static str,
    /// What says behind the key whether the value is a string, and what then follows up to the value.
    pub kind: Option<Kind>,
}

/// An attribute that tells strings from other values.
#[derive(Clone, Copy)]
pub struct Kind {
    /// The attribute of a string.
    pub string: &'static str,
    /// What stands behind the attribute.
    pub end: &'static str,
}

impl Parameters {
    /// Parses a call, or a section of them.
    pub fn parse(&self, scan: &mut Scan) -> Parsed<()> {
        if !self.section.is_empty() && scan.has_any(self.section)? {
            scan.space();
        }
        scan.mark(self.open)?;
        loop {
            self.call(scan)?;
            if self.section.is_empty() {
                return Ok(());
            }
            scan.space();
            if scan.has(self.section_end)? || !scan.has(self.open)? {
                return Ok(());
            }
        }
    }

    fn call(&self, scan: &mut Scan) -> Parsed<()> {
        scan.begin();
        let name = self.name(scan)?.to_owned();
        scan.call().name = Some(name.clone());
        loop {
            scan.space();
            if scan.has(self.close)? {
                break;
            }
            scan.mark(self.key)?;
            let (key, value) = self.parameter(scan, &name)?;
            scan.argument(&key, &value);
        }
        scan.close_arguments();
        scan.end()
    }

    fn name<'a>(&self, scan: &mut Scan<'a>) -> Parsed<&'a str> {
        if !self.name_end.is_empty() {
            let name = scan.name_until(self.name_end)?;
            attribute(scan, self.name_rest)?;
            return Ok(name);
        }
        let rest = scan.rest();
        let ends = ["\n", self.key, self.close];
        let found = ends.iter().filter_map(|end| rest.find(end)).min();
        let Some(end) = found else {
            return Err(if rest.len() > NAME_BYTES_MAX {
                Stop::Bad
            } else {
                Stop::More
            });
        };
        let name = rest[..end].trim();
        if name.is_empty() || name.contains(['<', '{', '"', ' ']) {
            return Err(Stop::Bad);
        }
        scan.advance(end);
        Ok(name)
    }

    fn parameter(&self, scan: &mut Scan, function: &str) -> Parsed<(String, String)> {
        let key = scan.name_until(self.key_end)?.to_owned();
        let mut is_string = None;
        if let Some(kind) = self.kind {
            is_string = Some(attribute(scan, kind.end)? == kind.string);
        }
        if !self.value.is_empty() {
            scan.space();
            scan.mark(self.value)?;
        }
        let text = bare(scan.until(self.value_end)?);
        let value = match is_string {
            Some(true) => string(text),
            Some(false) => json_or_string(text),
            None => scan.tools().json_of(function, &key, text),
        };
        Ok((key, value))
    }
}

/// What stands before a mark: nothing, or an attribute as in ` index="1"`.
fn attribute<'a>(scan: &mut Scan<'a>, end: &str) -> Parsed<&'a str> {
    let text = scan.until(end)?.trim();
    let is_word = |text: &str| text.chars().all(char::is_alphanumeric);
    let (key, value) = text.split_once('=').unwrap_or((text, "\"\""));
    let value = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'));
    match value.is_some_and(is_word) && is_word(key) {
        true => Ok(text),
        false => Err(Stop::Bad),
    }
}

/// A value without the line break that some templates put on either side of it, or the frame that XML has for such text.
fn bare(text: &str) -> &str {
    let text = text.strip_prefix('\n').unwrap_or(text);
    let text = text.strip_suffix('\n').unwrap_or(text);
    let inside = text.strip_prefix("<![CDATA[");
    inside
        .and_then(|text| text.strip_suffix("]]>"))
        .unwrap_or(text)
}
