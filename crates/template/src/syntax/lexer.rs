//! Text to tokens, with the white space around tags trimmed as `transformers` sets Jinja: the line end behind a block
//! goes, and so do the blanks before it where it starts a line.

use super::token::{Token, TokenKind};
use crate::error::{Result, TemplateError};

const OPERATORS: [&str; 26] = [
    "**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}",
    ">", "<", "=", ".", ":", "|", ",", ";",
];

/// Splits a template.
///
/// Errors: with the line of what is no token.
pub(super) fn tokens(source: &str) -> Result<Vec<Token>> {
    let mut lexer = Lexer {
        source,
        at: 0,
        line: 1,
        counted: 0,
        tokens: Vec::new(),
    };
    while lexer.at < source.len() {
        lexer.data()?;
    }
    lexer.push(TokenKind::End);
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line: usize,
    /// Up to where lines are counted.
    counted: usize,
    tokens: Vec<Token>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    /// The line of the present place.
    fn line(&mut self) -> usize {
        let passed = &self.source.as_bytes()[self.counted..self.at];
        self.line += passed.iter().filter(|&&byte| byte == b'\n').count();
        self.counted = self.at;
        self.line
    }

    fn push(&mut self, kind: TokenKind) {
        let line = self.line();
        self.tokens.push(Token { line, kind });
    }

    fn error(&mut self, message: impl Into<String>) -> TemplateError {
        TemplateError::Syntax {
            line: self.line(),
            message: message.into(),
        }
    }

    /// Text up to the next tag, and the tag.
    fn data(&mut self) -> Result<()> {
        let rest = self.rest();
        let mut starts = rest.match_indices('{').map(|(start, _)| start);
        let start = starts
            .find(|&start| matches!(rest.as_bytes().get(start + 1), Some(b'{' | b'%' | b'#')));
        let Some(start) = start else {
            self.text(rest);
            self.at = self.source.len();
            return Ok(());
        };
        let tag = rest.as_bytes()[start + 1];
        let sign = rest.as_bytes().get(start + 2).copied();
        self.text(self.before_tag(&rest[..start], tag, sign));
        self.at += start;
        match tag {
            b'{' => self.code(2, TokenKind::EmitStart, TokenKind::EmitEnd),
            b'#' => self.comment(),
            _ => match self.raw_start() {
                Some(length) => self.raw(length),
                None => self.code(2, TokenKind::TagStart, TokenKind::TagEnd),
            },
        }
    }

    fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.push(TokenKind::Data(text.to_owned()));
        }
    }

    /// The text before a tag, trimmed at its end.
    fn before_tag<'t>(&self, text: &'t str, tag: u8, sign: Option<u8>) -> &'t str {
        match sign {
            Some(b'-') => text.trim_end(),
            Some(b'+') => text,
            _ if tag == b'{' => text,
            _ => {
                let line_start = text.rfind('\n').map_or(0, |place| place + 1);
                let starts_line =
                    line_start > 0 || self.at == 0 || self.source.as_bytes()[self.at - 1] == b'\n';
                if starts_line && text[line_start..].trim_start().is_empty() {
                    &text[..line_start]
                } else {
                    text
                }
            }
        }
    }

    /// Goes past the end of a tag and what it trims.
    fn after_tag(&mut self, length: usize, sign: u8, trims_line_end: bool) {
        self.at += length;
        let rest = self.rest();
        if sign == b'-' {
            self.at += rest.len() - rest.trim_start().len();
        } else if sign != b'+' && trims_line_end && rest.starts_with('\n') {
            self.at += 1;
        }
    }

    fn comment(&mut self) -> Result<()> {
        let Some(end) = self.rest()[2..].find("#}") else {
            return Err(self.error("a comment does not end"));
        };
        self.at += 2 + end;
        let sign = match end {
            0 => 0,
            _ => self.source.as_bytes()[self.at - 1],
        };
        self.after_tag(2, sign, true);
        Ok(())
    }

    /// The length of `{% raw %}`, where it stands here.
    fn raw_start(&self) -> Option<usize> {
        let rest = self.rest();
        let inner = rest[2..].strip_prefix(['-', '+']).unwrap_or(&rest[2..]);
        let inner = inner.trim_start().strip_prefix("raw")?.trim_start();
        let after = inner.strip_prefix("-%}").or(inner.strip_prefix("%}"))?;
        Some(rest.len() - after.len())
    }

    /// Text between `{% raw %}` and `{% endraw %}`.
    fn raw(&mut self, length: usize) -> Result<()> {
        let sign = self.rest().as_bytes()[length - 3];
        self.after_tag(length, sign, false);
        let rest = self.rest();
        for (start, _) in rest.match_indices("{%") {
            let sign = rest.as_bytes().get(start + 2).copied();
            let inner = &rest[start + 2..];
            let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner);
            let Some(inner) = inner.trim_start().strip_prefix("endraw") else {
                continue;
            };
            let inner = inner.trim_start();
            let end_sign = inner.bytes().next().unwrap_or(0);
            let Some(after) = inner.trim_start_matches(['-', '+']).strip_prefix("%}") else {
                continue;
            };
            self.text(self.before_tag(&rest[..start], b'%', sign));
            self.at += start;
            self.after_tag(rest.len() - start - after.len(), end_sign, true);
            return Ok(());
        }
        Err(self.error("'raw' has no 'endraw'"))
    }

    /// The tokens of a tag.
    fn code(&mut self, length: usize, start: TokenKind, end: TokenKind) -> Result<()> {
        let is_tag = end == TokenKind::TagEnd;
        self.push(start);
        self.at += length;
        if self.rest().starts_with(['-', '+']) {
            self.at += 1;
        }
        let mut open = 0usize;
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start().len();
            let rest = self.rest();
            if rest.is_empty() {
                return Err(self.error("a tag does not end"));
            }
            if open == 0 {
                let signs: &[char] = if is_tag { &['-', '+'] } else { &['-'] };
                let after_sign = rest.strip_prefix(signs).unwrap_or(rest);
                if after_sign.starts_with(if is_tag { "%}" } else { "}}" }) {
                    let sign = rest.as_bytes()[0];
                    self.push(end);
                    self.after_tag(rest.len() - after_sign.len() + 2, sign, is_tag);
                    return Ok(());
                }
            }
            self.token()?;
            match self.tokens.last().map(|token| &token.kind) {
                Some(TokenKind::Operator("(" | "[" | "{")) => open += 1,
                Some(TokenKind::Operator(")" | "]" | "}")) => open = open.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// One token of a tag.
    fn token(&mut self) -> Result<()> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok(());
        };
        if first == '_' || first.is_alphabetic() {
            let end = rest.find(|c: char| c != '_' && !c.is_alphanumeric());
            let name = &rest[..end.unwrap_or(rest.len())];
            self.push(TokenKind::Name(name.to_owned()));
            self.at += name.len();
            Ok(())
        } else if first.is_ascii_digit() {
            self.number()
        } else if first == '"' || first == '\'' {
            self.string(first)
        } else if let Some(operator) = OPERATORS.iter().find(|&&op| rest.starts_with(op)) {
            self.push(TokenKind::Operator(operator));
            self.at += operator.len();
            Ok(())
        } else {
            Err(self.error(format!("'{}' means nothing here", first.escape_default())))
        }
    }

    fn number(&mut self) -> Result<()> {
        let rest = self.rest();
        let radix = match rest.as_bytes().get(1).map(u8::to_ascii_lowercase) {
            Some(b'x') => 16,
            Some(b'o') => 8,
            Some(b'b') => 2,
            _ => 10,
        };
        let (start, length) = match radix {
            10 => (0, digits(rest)),
            _ => (
                2,
                2 + rest[2..]
                    .bytes()
                    .take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
                    .count(),
            ),
        };
        let after_dot = matches!(
            self.tokens.last().map(|token| &token.kind),
            Some(TokenKind::Operator("."))
        );
        let float_length = if radix == 10 && !after_dot {
            length + fraction(&rest[length..])
        } else {
            length
        };
        let text = rest[start..float_length].replace('_', "");
        let kind = if float_length > length {
            text.parse().ok().map(TokenKind::Float)
        } else {
            i128::from_str_radix(&text, radix)
                .ok()
                .map(TokenKind::Integer)
        };
        let Some(kind) = kind else {
            return Err(self.error(format!("'{}' is no number", &rest[..float_length])));
        };
        self.push(kind);
        self.at += float_length;
        Ok(())
    }

    fn string(&mut self, quote: char) -> Result<()> {
        let rest = self.rest();
        let mut text = String::new();
        let mut characters = rest.char_indices().skip(1);
        while let Some((place, character)) = characters.next() {
            if character == quote {
                self.push(TokenKind::Text(text));
                self.at += place + 1;
                return Ok(());
            }
            if character != '\\' {
                text.push(character);
                continue;
            }
            let Some((_, escaped)) = characters.next() else {
                break;
            };
            let n_digits = match escaped {
                'x' => 2,
                'u' => 4,
                'U' => 8,
                _ => {
                    push_escaped(escaped, &mut text);
                    continue;
                }
            };
            let digits: String = characters.by_ref().take(n_digits).map(|(_, c)| c).collect();
            let code = u32::from_str_radix(&digits, 16).ok();
            if digits.len() != n_digits || code.is_none() {
                return Err(self.error("a string has an escape with too few digits"));
            }
            text.push(code.and_then(char::from_u32).unwrap_or('\u{fffd}'));
        }
        Err(self.error("a string does not end"))
    }
}

/// The character that a backslash and this one mean; where it means nothing the backslash stays.
fn push_escaped(character: char, text: &mut String) {
    let meant = match character {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        '0' => '\0',
        '\n' => return,
        '\\' | '\'' | '"' => character,
        _ => {
            text.push('\\');
            character
        }
    };
    text.push(meant);
}

/// The length of a row of digits, single underscores between them.
fn digits(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut length = 0;
    while length < bytes.len() {
        let underscore = usize::from(length > 0 && bytes[length] == b'_');
        match bytes.get(length + underscore) {
            Some(byte) if byte.is_ascii_digit() => length += underscore + 1,
            _ => break,
        }
    }
    length
}

/// The length of a fraction and an exponent.
fn fraction(text: &str) -> usize {
    let mut length = 0;
    if let Some(after) = text.strip_prefix('.') {
        match digits(after) {
            0 => return 0,
            n => length += 1 + n,
        }
    }
    if let Some(after) = text[length..].strip_prefix(['e', 'E']) {
        let unsigned = after.strip_prefix(['+', '-']).unwrap_or(after);
        if digits(unsigned) > 0 {
            length += 1 + (after.len() - unsigned.len()) + digits(unsigned);
        }
    }
    length
}
