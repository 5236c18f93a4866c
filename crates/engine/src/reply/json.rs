//! JSON as it grows: how far a value reaches in a text that may go on.

use super::scan::{DEPTH_MAX, Stop};

/// Why a value ended early.
pub type Value<T> = Result<T, Stop>;

/// Reads a value. What is sure of it goes to `out` as far as it goes, in the same characters, but for control characters
/// inside strings, which models write and JSON forbids: they are escaped.
pub struct Reader<'a, 'o> {
    text: &'a str,
    at: usize,
    /// Whether nothing follows the text.
    is_all: bool,
    out: &'o mut String,
}

impl<'a, 'o> Reader<'a, 'o> {
    /// A reader of the text from `at` on.
    pub fn new(text: &'a str, at: usize, is_all: bool, out: &'o mut String) -> Self {
        Reader {
            text,
            at,
            is_all,
            out,
        }
    }

    /// Reads one value and gives the place behind it.
    pub fn value(mut self) -> Value<usize> {
        self.any(0)?;
        Ok(self.at)
    }

    fn peek(&self) -> Value<u8> {
        self.text.as_bytes().get(self.at).copied().ok_or(Stop::More)
    }

    fn copy(&mut self, n: usize) {
        self.out.push_str(&self.text[self.at..self.at + n]);
        self.at += n;
    }

    fn space(&mut self) {
        let rest = &self.text[self.at..];
        let n = rest.len() - rest.trim_start_matches([' ', '\n', '\r', '\t']).len();
        self.copy(n);
    }

    fn any(&mut self, depth: usize) -> Value<()> {
        match self.peek()? {
            b'{' | b'[' if depth == DEPTH_MAX => Err(Stop::Bad),
            b'{' => self.members(b'}', depth),
            b'[' => self.members(b']', depth),
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            _ => self.literal(),
        }
    }

    fn members(&mut self, end: u8, depth: usize) -> Value<()> {
        self.copy(1);
        self.space();
        if self.peek()? == end {
            self.copy(1);
            return Ok(());
        }
        loop {
            if end == b'}' {
                if self.peek()? != b'"' {
                    return Err(Stop::Bad);
                }
                self.string()?;
                self.space();
                if self.peek()? != b':' {
                    return Err(Stop::Bad);
                }
                self.copy(1);
                self.space();
            }
            self.any(depth + 1)?;
            self.space();
            match self.peek()? {
                b',' => self.copy(1),
                byte if byte == end => {
                    self.copy(1);
                    return Ok(());
                }
                _ => return Err(Stop::Bad),
            }
            self.space();
        }
    }

    fn string(&mut self) -> Value<()> {
        self.copy(1);
        loop {
            match self.peek()? {
                b'"' => {
                    self.copy(1);
                    return Ok(());
                }
                b'\\' => {
                    let n = escape_length(&self.text.as_bytes()[self.at..])?;
                    self.copy(n);
                }
                byte @ 0..0x20 => {
                    self.out.push_str(&format!("\\u{byte:04x}"));
                    self.at += 1;
                }
                _ => {
                    let rest = &self.text[self.at..];
                    let n = rest.find(|c: char| c < ' ' || c == '"' || c == '\\');
                    self.copy(n.unwrap_or(rest.len()));
                }
            }
        }
    }

    fn number(&mut self) -> Value<()> {
        let rest = &self.text[self.at..];
        let is_part = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
        let n = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        if n == rest.len() && !self.is_all {
            return Err(Stop::More);
        }
        if serde_json::from_str::<serde_json::Number>(&rest[..n]).is_err() {
            return Err(Stop::Bad);
        }
        self.copy(n);
        Ok(())
    }

    fn literal(&mut self) -> Value<()> {
        let rest = &self.text[self.at..];
        for word in ["true", "false", "null"] {
            if rest.starts_with(word) {
                self.copy(word.len());
                return Ok(());
            }
            if word.starts_with(rest) {
                return Err(Stop::More);
            }
        }
        Err(Stop::Bad)
    }
}

/// The bytes of an escape at the beginning of a text.
fn escape_length(text: &[u8]) -> Value<usize> {
    match text.get(1).ok_or(Stop::More)? {
        b'u' => {
            let digits = &text[2..text.len().min(6)];
            match digits.iter().all(u8::is_ascii_hexdigit) {
                true if digits.len() == 4 => Ok(6),
                true => Err(Stop::More),
                false => Err(Stop::Bad),
            }
        }
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(2),
        _ => Err(Stop::Bad),
    }
}
