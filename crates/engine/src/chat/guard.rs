//! Keeps the text of messages from turning into control tokens.
//!
//! The scaffold of a template is tokenized with control tokens, what people wrote is not: a user who types
//! `<|im_end|>` means these ten characters. Templates trim, split and compare the content, so the text is
//! marked only where it spells a control token: a character that cannot occur in text is put behind the
//! first character of the spelling, carried through the template, and taken out again. The place it was
//! found at is where no control token may start.

use serde_json::Value;

use super::{ChatTemplate, RenderInput};
use crate::error::EngineError;

/// A rendered conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardedText {
    /// The text.
    pub text: String,
    /// Byte offsets in the text, rising, where a control token is spelled but not meant.
    pub plain_starts: Vec<usize>,
}

/// Renders with every string of the messages, tools and extra variables guarded against `controls`, the
/// texts of the control tokens.
///
/// Errors: as [`ChatTemplate::render`].
pub fn guarded(
    template: &ChatTemplate,
    input: &RenderInput,
    controls: &Controls,
) -> Result<GuardedText, EngineError> {
    let mut input = input.clone();
    let mark = free_mark(&input, template.source());
    let mut n_marks = 0;
    let mut guard = |value: &mut Value| guard_value(value, controls, mark, &mut n_marks);
    guard(&mut input.messages);
    input.tools.iter_mut().for_each(&mut guard);
    input.extra.values_mut().for_each(&mut guard);
    let text = template.render(&input)?;
    Ok(if n_marks == 0 {
        GuardedText {
            text,
            plain_starts: Vec::new(),
        }
    } else {
        unmark(&text, mark)
    })
}

/// The texts of the control tokens, by their first byte.
pub struct Controls {
    by_first: Vec<Vec<Box<[u8]>>>,
}

impl Controls {
    /// Collects the texts; empty ones are left out.
    pub fn new<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut by_first = vec![Vec::new(); 256];
        for text in texts {
            if let Some(&first) = text.first() {
                by_first[usize::from(first)].push(Box::from(text));
            }
        }
        Controls { by_first }
    }

    fn starts(&self, text: &[u8]) -> bool {
        text.first().is_some_and(|&first| {
            self.by_first[usize::from(first)]
                .iter()
                .any(|control| text.starts_with(control))
        })
    }
}

/// A noncharacter of Unicode that neither the conversation nor the template contains.
fn free_mark(input: &RenderInput, template: &str) -> char {
    let values = [&input.messages]
        .into_iter()
        .chain(&input.tools)
        .chain(input.extra.values());
    let mut used = std::collections::HashSet::new();
    let mut note = |text: &str| used.extend(text.chars().filter(|&c| c as u32 >= 0xfdd0));
    values.for_each(|value| each_string(value, &mut note));
    note(template);
    let noncharacters = ('\u{fdd0}'..='\u{fdef}').chain('\u{f0000}'..='\u{10ffff}');
    // a text that uses every one of 131,104 such characters has nothing to lose
    noncharacters
        .into_iter()
        .find(|mark| !used.contains(mark))
        .unwrap_or('\u{fdd0}')
}

fn each_string(value: &Value, note: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => note(text),
        Value::Array(items) => items.iter().for_each(|item| each_string(item, note)),
        Value::Object(entries) => {
            for (key, item) in entries {
                note(key);
                each_string(item, note);
            }
        }
        _ => {}
    }
}

fn guard_value(value: &mut Value, controls: &Controls, mark: char, n_marks: &mut usize) {
    match value {
        Value::String(text) => {
            if let Some(guarded) = guard_text(text, controls, mark, n_marks) {
                *text = guarded;
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| guard_value(item, controls, mark, n_marks)),
        Value::Object(entries) => {
            entries
                .values_mut()
                .for_each(|item| guard_value(item, controls, mark, n_marks));
        }
        _ => {}
    }
}

fn guard_text(text: &str, controls: &Controls, mark: char, n_marks: &mut usize) -> Option<String> {
    let mut guarded = String::new();
    let mut copied = 0;
    for (index, character) in text.char_indices() {
        if controls.starts(&text.as_bytes()[index..]) {
            let behind = index + character.len_utf8();
            guarded.push_str(&text[copied..behind]);
            guarded.push(mark);
            copied = behind;
            *n_marks += 1;
        }
    }
    (copied > 0).then(|| guarded + &text[copied..])
}

fn unmark(text: &str, mark: char) -> GuardedText {
    let mut result = GuardedText::default();
    let mut start = 0;
    for character in text.chars() {
        if character == mark {
            result.plain_starts.push(start);
        } else {
            start = result.text.len();
            result.text.push(character);
        }
    }
    result
}
