//! Conversations in files.

use std::io::{self, Write as _};
use std::ops::Range;
use std::path::Path;

use anyhow::Context as _;
use gristmill_engine::chat::Message;
use gristmill_gguf::{OutputFile, WriteOptions};
use serde_json::Value;

use super::chat_flags::NO_JSON;
use crate::failure::Hint;

/// What stands around and between the messages of a new file.
const AROUND: [&str; 2] = ["{\n  \"messages\": ", "\n}\n"];
const INDENT: &str = "    ";

/// A saved conversation as its file has it, so that nothing of the file is lost when it is written anew: what stands around
/// the messages, and the text of each message.
pub struct Conversation {
    before: String,
    after: String,
    messages: Vec<(Message, String)>,
}

impl Default for Conversation {
    fn default() -> Self {
        let [before, after] = AROUND.map(str::to_owned);
        Conversation {
            before,
            after,
            messages: Vec::new(),
        }
    }
}

impl Conversation {
    /// Reads a file, which is a list of messages or an object with one under `messages`.
    ///
    /// # Errors
    /// Files that cannot be read, or are something else.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| cannot_read(path))?;
        Conversation::parse(&text).map_err(|error| error.context(shown.to_string()))
    }

    /// The same of a file that is made where it is not there; an empty one is a new one.
    ///
    /// # Errors
    /// Those of [`Conversation::read`].
    pub fn read_or_new(path: &Path) -> anyhow::Result<Self> {
        match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Conversation::default()),
            Ok(about) if about.is_file() && about.len() == 0 => Ok(Conversation::default()),
            Err(error) => Err(error).with_context(|| cannot_read(path)),
            Ok(_) => Conversation::read(path),
        }
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let held: Value = serde_json::from_str(text).map_err(|error| {
            let error = anyhow::Error::new(error).context("is no JSON");
            error.context(Hint::new(NO_JSON))
        })?;
        let list = list_in(text).ok_or_else(|| {
            anyhow::anyhow!("is no conversation").context(Hint::new(
                "give a JSON list of messages, each {\"role\": …, \"content\": …}",
            ))
        })?;
        let values = held.get("messages").unwrap_or(&held);
        let values = values.as_array().map(Vec::as_slice).unwrap_or_default();
        let texts = pieces(text, list.start + 1..list.end - 1);
        let messages = values.iter().zip(texts).enumerate();
        let messages = messages.map(|(index, (value, place))| {
            let message = Message::from_json(value);
            let message = message.map_err(|wrong| anyhow::anyhow!("message {index}: {wrong}"))?;
            Ok((message, text[place].to_owned()))
        });
        Ok(Conversation {
            messages: messages.collect::<anyhow::Result<_>>()?,
            before: text[..list.start].to_owned(),
            after: text[list.end..].to_owned(),
        })
    }

    /// What is said in it.
    pub fn messages(&self) -> Vec<Message> {
        let messages = self.messages.iter();
        messages.map(|(message, _)| message.clone()).collect()
    }

    /// Takes over how another file has its messages.
    pub fn learn(&mut self, other: &Conversation) {
        self.messages.extend_from_slice(&other.messages);
    }

    /// The text of the file with other messages. Those that it had are as they were in it.
    fn with(&self, messages: &[Message]) -> anyhow::Result<String> {
        let mut known = self.messages.as_slice();
        let mut text = self.before.clone();
        for (index, message) in messages.iter().enumerate() {
            text.push_str(if index == 0 { "[\n" } else { ",\n" });
            text.push_str(INDENT);
            match known.iter().position(|(known, _)| known == message) {
                Some(place) => {
                    text.push_str(&known[place].1);
                    known = &known[place + 1..];
                }
                None => {
                    let object = serde_json::to_string_pretty(&message.to_json())?;
                    text.push_str(&object.replace('\n', &format!("\n{INDENT}")));
                }
            }
        }
        text.push_str(if messages.is_empty() { "[]" } else { "\n  ]" });
        Ok(text + &self.after)
    }

    /// Writes a file of this form with these messages, whole or not at all; over an older one only where that is said.
    ///
    /// # Errors
    /// Those of [`OutputFile`].
    pub fn write(&self, path: &Path, messages: &[Message], force: bool) -> anyhow::Result<()> {
        let text = self.with(messages)?;
        let options = WriteOptions {
            force,
            through_links: true,
            ..WriteOptions::default()
        };
        let mut file = OutputFile::create(path, text.len() as u64, &options)?;
        let written = file.write_all(text.as_bytes());
        written.with_context(|| format!("{}: cannot write the conversation", path.display()))?;
        Ok(file.commit()?)
    }
}

fn cannot_read(path: &Path) -> String {
    format!("{}: cannot read it", path.display())
}

/// Where the list of messages stands in a text, which must be JSON.
fn list_in(text: &str) -> Option<Range<usize>> {
    let whole = trimmed(text, 0..text.len());
    let found = match text.as_bytes().get(whole.start)? {
        b'[' => whole,
        b'{' => {
            let entries = pieces(text, whole.start + 1..whole.end - 1).into_iter();
            // Of several with one name the last one counts, as it does for those that read JSON.
            let mut values = entries.filter_map(|entry| {
                let name = string_in(text, entry.start)?;
                let key = serde_json::from_str::<String>(&text[name.clone()]);
                let colon = trimmed(text, name.end..entry.end);
                let value = trimmed(text, colon.start + 1..entry.end);
                (key.ok()? == "messages").then_some(value)
            });
            values.next_back()?
        }
        _ => return None,
    };
    text[found.clone()].starts_with('[').then_some(found)
}

/// The elements of a list, or the entries of an object, whose inside this is.
fn pieces(text: &str, inside: Range<usize>) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut start, mut at, mut depth) = (inside.start, inside.start, 0usize);
    while at < inside.end {
        match bytes[at] {
            b'"' => at = string_in(text, at).map_or(inside.end, |string| string.end) - 1,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                found.push(trimmed(text, start..at));
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    found.push(trimmed(text, start..inside.end));
    found.retain(|piece| !piece.is_empty());
    found
}

/// The string that begins here, with its quotes.
fn string_in(text: &str, start: usize) -> Option<Range<usize>> {
    let mut escaped = false;
    let end = text.get(start..)?.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        is_end
    });
    end.map(|length| start..start + length + 2)
}

/// A place without the white space at both ends.
fn trimmed(text: &str, place: Range<usize>) -> Range<usize> {
    let inside = &text[place.clone()];
    let start = place.start + inside.len() - inside.trim_start().len();
    start..start + inside.trim().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_given_back_whole() {
        // Names twice, numbers that no float holds, escapes, a list of parts, and what looks like borders.
        let first = r#"{"content": [{"text": "a\",]\\", "x": 12345678901234567890.123}], "role":"user", "id": 1, "id": 2}"#;
        let text = format!(
            "{{ \"title\": \"\\u0041 \\\" [{{\", \"messages\": 3,\n\"mess\\u0061ges\":[ {first} ,{{\"role\":\"assistant\",\"content\":null}}\n], \"n\": 1.10 }}"
        );
        let read = Conversation::parse(&text).unwrap();
        let mut messages = read.messages();
        assert_eq!(messages[0].content, "a\",]\\");
        assert_eq!(messages[1].content, "");
        messages.push(Message::new("user", "b\nc"));
        let list = format!(
            "[\n    {first},\n    {{\"role\":\"assistant\",\"content\":null}},\n    {{\n      \"role\": \"user\",\n      \"content\": \"b\\nc\"\n    }}\n  ]"
        );
        let before = &text[..text.find("[ {\"content\"").unwrap()];
        let expected = format!("{before}{list}, \"n\": 1.10 }}");
        let written = read.with(&messages).unwrap();
        assert_eq!(written, expected);
        // Written again it is the same.
        let again = Conversation::parse(&written).unwrap();
        assert_eq!(again.with(&again.messages()).unwrap(), written);
        // A list alone stays one, and of what it had only the messages that are gone are.
        let list = Conversation::parse(&format!(" [{first}]\n")).unwrap();
        assert_eq!(
            list.with(&list.messages()).unwrap(),
            format!(" [\n    {first}\n  ]\n")
        );
        assert_eq!(list.with(&[]).unwrap(), " []\n");
    }

    #[test]
    fn what_is_no_conversation_is_told() {
        for (text, expected) in [
            ("", "is no JSON"),
            ("3", "is no conversation"),
            ("{}", "is no conversation"),
            (r#"{"messages": {}}"#, "is no conversation"),
            ("[1]", "message 0: a message must be an object"),
            (r#"{"a": {"messages": []}}"#, "is no conversation"),
        ] {
            let error = Conversation::parse(text).err().unwrap();
            assert!(format!("{error:#}").contains(expected), "{text}: {error:#}");
        }
        assert!(Conversation::parse("[]").unwrap().messages().is_empty());
        assert!(
            Conversation::parse("{\"messages\":[ ]}")
                .unwrap()
                .messages()
                .is_empty()
        );
    }
}
