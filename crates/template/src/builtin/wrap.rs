//! `wordwrap`, which breaks lines as Python's `textwrap` does.

use std::ops::Range;

use super::Arguments;
use super::text::text_of;
use super::text_method::{is_space, lines_of};
use crate::error::{Result, TemplateError};
use crate::meter::TextBuilder;
use crate::value::Value;

/// The zero of every ten decimal digits (category Nd of Unicode 16), ascending.
const ZEROS: [u32; 76] = [
    0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66,
    0xde6, 0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90,
    0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10,
    0x1_04a0, 0x1_0d30, 0x1_0d40, 0x1_1066, 0x1_10f0, 0x1_1136, 0x1_11d0, 0x1_12f0, 0x1_1450,
    0x1_14d0, 0x1_1650, 0x1_16c0, 0x1_16d0, 0x1_16da, 0x1_1730, 0x1_18e0, 0x1_1950, 0x1_1bf0,
    0x1_1c50, 0x1_1d50, 0x1_1da0, 0x1_1f50, 0x1_6130, 0x1_6a60, 0x1_6ac0, 0x1_6b50, 0x1_6d70,
    0x1_ccf0, 0x1_d7ce, 0x1_d7d8, 0x1_d7e2, 0x1_d7ec, 0x1_d7f6, 0x1_e140, 0x1_e2f0, 0x1_e4f0,
    0x1_e5f1, 0x1_e950, 0x1_fbf0,
];

/// How lines are broken.
struct Style {
    width: usize,
    break_long_words: bool,
    break_on_hyphens: bool,
}

/// `wordwrap(width=79, break_long_words=true, wrapstring='\n', break_on_hyphens=true)`
pub(super) fn wordwrap(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let text = text_of(value, arguments.meter())?;
    let width = arguments.count("width", 79)?;
    let break_long_words = arguments.flag("break_long_words", true);
    let between = arguments.optional_text("wrapstring")?;
    let between = between.as_ref().map_or("\n", |between| between.as_str());
    let style = Style {
        width,
        break_long_words,
        break_on_hyphens: arguments.flag("break_on_hyphens", true),
    };
    let meter = arguments.meter();
    // Characters, and at most one chunk for each of them.
    let per_byte = size_of::<char>() + 2 * size_of::<Range<usize>>();
    let _room = meter.charge(text.len().saturating_mul(per_byte))?;
    let mut wrapped = TextBuilder::new(meter)?;
    for (index, (line, _)) in lines_of(&text).enumerate() {
        if index > 0 {
            wrapped.push_str(between)?;
        }
        if width == 0 {
            return Err(TemplateError::operation(
                "wordwrap: the width must be above 0",
            ));
        }
        let characters: Vec<char> = line.chars().collect();
        Paragraph::new(&characters, &style).wrap(between, &mut wrapped)?;
    }
    Value::from_builder(wrapped)
}

/// A line to be broken into lines.
struct Paragraph<'a> {
    characters: &'a [char],
    style: &'a Style,
    /// Words, parts of hyphenated words, and the spaces between them, in order.
    chunks: Vec<Range<usize>>,
    /// The first chunk that is on no line yet.
    next: usize,
}

impl<'a> Paragraph<'a> {
    fn new(characters: &'a [char], style: &'a Style) -> Self {
        let mut chunks = Vec::new();
        let mut start = 0;
        while start < characters.len() {
            let end = chunk_end(characters, start, style.break_on_hyphens);
            chunks.push(start..end);
            start = end;
        }
        Paragraph {
            characters,
            style,
            chunks,
            next: 0,
        }
    }

    fn wrap(mut self, between: &str, out: &mut TextBuilder) -> Result<()> {
        let mut is_first = true;
        while self.next < self.chunks.len() {
            out.meter().work(1)?;
            if !is_first && self.is_blank(&self.chunks[self.next]) {
                self.next += 1;
            }
            let line = self.line();
            if line.is_empty() {
                continue;
            }
            if !is_first {
                out.push_str(between)?;
            }
            is_first = false;
            for &character in &self.characters[line] {
                out.push(character)?;
            }
        }
        Ok(())
    }

    /// Takes what fits the next line, without a blank chunk at its end.
    fn line(&mut self) -> Range<usize> {
        let Some(first) = self.chunks.get(self.next) else {
            return 0..0;
        };
        let (start, mut end) = (first.start, first.start);
        let mut last = None;
        while let Some(chunk) = self.chunks.get(self.next) {
            if chunk.end - start > self.style.width {
                break;
            }
            end = chunk.end;
            last = Some(chunk.clone());
            self.next += 1;
        }
        let long = self.chunks.get(self.next);
        if let Some(long) = long.filter(|chunk| chunk.len() > self.style.width).cloned() {
            if self.style.break_long_words {
                let cut = long.start + self.room_in(&long, self.style.width - (end - start));
                self.chunks[self.next].start = cut;
                last = Some(long.start..cut);
                end = cut;
            } else if last.is_none() {
                self.next += 1;
                end = long.end;
                last = Some(long);
            }
        }
        match last {
            Some(last) if self.is_blank(&last) => start..last.start,
            _ => start..end,
        }
    }

    /// How many characters of a chunk that is too long go where there is room for so many: to behind a hyphen, if there is one.
    fn room_in(&self, chunk: &Range<usize>, room: usize) -> usize {
        if self.style.break_on_hyphens && chunk.len() > room {
            let characters = &self.characters[chunk.clone()];
            let hyphen = characters[..room].iter().rposition(|&c| c == '-');
            if let Some(hyphen) = hyphen.filter(|&at| characters[..at].iter().any(|&c| c != '-')) {
                return hyphen + 1;
            }
        }
        room
    }

    fn is_blank(&self, chunk: &Range<usize>) -> bool {
        self.characters[chunk.clone()].iter().all(|&c| is_space(c))
    }
}

/// The end of the chunk that starts here: a run of spaces, a dash between words, or a word up to where it may be broken.
fn chunk_end(text: &[char], start: usize, break_on_hyphens: bool) -> usize {
    let run = |from: usize, holds: fn(char) -> bool| {
        let rest = text[from..].iter();
        from + rest.take_while(|&&c| holds(c)).count()
    };
    if is_blank(text[start]) {
        return run(start, is_blank);
    }
    if !break_on_hyphens {
        return run(start, |c| !is_blank(c));
    }
    let is = |at: usize, holds: fn(char) -> bool| text.get(at).is_some_and(|&c| holds(c));
    let before = |at: usize, n: usize, holds: fn(char) -> bool| at >= n && is(at - n, holds);
    // A dash of at least two hyphens between words.
    let dash_end = |at: usize| {
        if !before(at, 1, is_word_punctuation) {
            return None;
        }
        let end = run(at, |c| c == '-');
        (end - at >= 2 && is(end, is_word)).then_some(end)
    };
    if let Some(end) = dash_end(start) {
        return end;
    }
    let is_hyphen = |c: char| c == '-';
    let mut at = start + 1;
    loop {
        if is(at, is_hyphen) {
            // Two letters in front, or one that stands between hyphens behind another one.
            let behind_letters = before(at, 1, is_letter)
                && (before(at, 2, is_letter)
                    || (before(at, 2, is_hyphen) && before(at, 3, is_letter)));
            let goes_on = is(at + 1, is_letter)
                && (is(at + 2, is_letter) || (is(at + 2, is_hyphen) && is(at + 3, is_letter)));
            if behind_letters && goes_on {
                return at + 1;
            }
        }
        if at >= text.len() || is_blank(text[at]) || dash_end(at).is_some() {
            return at;
        }
        at += 1;
    }
}

/// The white space that separates words.
fn is_blank(c: char) -> bool {
    matches!(c, '\t'..='\r' | ' ')
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// A character of a word that is no decimal digit.
fn is_letter(c: char) -> bool {
    is_word(c) && !is_decimal_digit(c)
}

fn is_decimal_digit(c: char) -> bool {
    let code = u32::from(c);
    let zero = ZEROS[..ZEROS.partition_point(|zero| *zero <= code)].last();
    zero.is_some_and(|zero| code - zero < 10)
}

fn is_word_punctuation(c: char) -> bool {
    is_word(c) || "!\"'&.,?".contains(c)
}
