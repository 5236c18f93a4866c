//! `wordwrap`, which breaks lines as Python's `textwrap` does.

use std::ops::Range;

use super::Arguments;
use super::text::text_of;
use super::text_method::{is_space, lines_of};
use crate::error::{Result, TemplateError};
use crate::meter::TextBuilder;
use crate::value::Value;

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

fn is_letter(c: char) -> bool {
    c == '_' || (c.is_alphanumeric() && !c.is_numeric())
}

fn is_word_punctuation(c: char) -> bool {
    is_word(c) || "!\"'&.,?".contains(c)
}
