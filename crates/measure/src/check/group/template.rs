//! The chat template: it compiles, renders a conversation, and fits the vocabulary.

use std::collections::BTreeSet;

use gristmill_engine::EngineError;
use gristmill_engine::chat::{ChatTemplate, Clock, Message, RenderInput};
use gristmill_gguf::{Metadata, escape_invalid};
use gristmill_tokenizer::{Attributes, EncodeOptions, Tokenizer};

use super::{Group, without_vocabulary};
use crate::MeasureError;
use crate::check::finding::{Code, Findings, Place};
use crate::check::subject::Subject;

pub(crate) static GROUP: Group = Group {
    name: "template",
    about: "the chat template compiles, renders a probe conversation and fits the vocabulary",
    codes: &[
        &NONE,
        &KIND,
        &LARGE,
        &SYNTAX,
        &RENDER,
        &REFUSES,
        &DROPS,
        &UNKNOWN_TOKEN,
        &TURN_END,
        &LIST,
    ],
    skip: without_vocabulary,
    run,
};

const KEY: &str = "tokenizer.chat_template";
/// The beginning of the keys of named templates, and the list of their names.
const NAMED: &str = "tokenizer.chat_template.";
const NAMES: &str = "tokenizer.chat_templates";
/// The largest template that is rendered: the largest of published models has about 20 KiB.
const BYTES_MAX: usize = 1 << 20;
const REPLACE: &str =
    "set another with `gristmill edit`, or give one to `run` with --chat-template-file";

static NONE: Code = Code::note(
    "no-template",
    "there is no chat template: fine for a base model, and a chat needs one",
    "for a chat model, set one with `gristmill edit`, or give one to `run` with --chat-template",
);
static KIND: Code = Code::error("template-kind", "the chat template is no text", REPLACE);
static LARGE: Code = Code::warning(
    "template-large",
    "a chat template of more than a MiB, which is not rendered",
    "no model needs one; do not trust the file",
);
static SYNTAX: Code = Code::error(
    "template-syntax",
    "the chat template cannot be parsed",
    REPLACE,
);
static RENDER: Code = Code::warning(
    "template-render",
    "the chat template fails on a plain conversation",
    REPLACE,
);
static REFUSES: Code = Code::note(
    "template-refuses",
    "the chat template refuses a kind of conversation, in its own words",
    "put what a system message would say into the first message of the user",
);
static DROPS: Code = Code::warning(
    "template-drops",
    "the rendered conversation lacks what was said in it",
    "the template is another program's, or broken: roles get confused and answers do not fit; set the model's own with `gristmill edit`",
);
static UNKNOWN_TOKEN: Code = Code::note(
    "template-token",
    "the template writes a marker that is no token of the vocabulary, so that the model sees it as pieces of text",
    "some models are trained so; if roles get confused, template and vocabulary are of different models: set the model's own template with `gristmill edit`",
);
static TURN_END: Code = Code::warning(
    "turn-end",
    "the token that closes an answer in the template does not end a generation",
    "answers run on into the next turn: set `tokenizer.ggml.eot_token_id` to that token with `gristmill edit`",
);

static LIST: Code = Code::warning(
    "template-list",
    "the list of named templates is not that of those in the file, so that some reader misses one",
    "set `tokenizer.chat_templates` to the names that are there with `gristmill edit`, or remove it with the last of them",
);

fn run(subject: &Subject, findings: &mut Findings) -> Result<(), MeasureError> {
    if let Some(metadata) = subject.metadata() {
        templates(metadata, findings);
    }
    Ok(())
}

/// All templates of a file, and the list of their names.
pub(crate) fn templates(metadata: &Metadata, findings: &mut Findings) {
    names(metadata, findings);
    let keys: Vec<&str> = metadata
        .iter()
        .map(|(key, _)| key)
        .filter(|key| *key == KEY || key.starts_with(NAMED))
        .collect();
    if keys.is_empty() {
        return findings.add(&NONE, Place::key(KEY), "there is no chat template");
    }
    let tokenizer = Tokenizer::from_metadata(metadata).ok();
    for key in keys {
        template(metadata, key, tokenizer.as_ref(), findings);
    }
}

/// The list of named templates holds those that are there.
fn names(metadata: &Metadata, findings: &mut Findings) {
    let listed: BTreeSet<String> = match metadata.strings(NAMES) {
        Ok(Some(names)) => names
            .iter()
            .map(|name| escape_invalid(name).into_owned())
            .collect(),
        _ => BTreeSet::new(),
    };
    for name in &listed {
        if !metadata.contains(&format!("{NAMED}{name}")) {
            let text = format!("{name:?} is listed, and there is no {NAMED}{name}");
            findings.add(&LIST, Place::key(NAMES), text);
        }
    }
    for name in metadata
        .iter()
        .filter_map(|(key, _)| key.strip_prefix(NAMED))
    {
        if !listed.contains(name) {
            let text = format!("{NAMED}{name} is there, and the list does not name it");
            findings.add(&LIST, Place::key(NAMES), text);
        }
    }
}

fn template(
    metadata: &Metadata,
    key: &str,
    tokenizer: Option<&Tokenizer>,
    findings: &mut Findings,
) {
    let place = || Place::key(key);
    let source = match metadata.str(key) {
        Ok(Some(source)) => source,
        Ok(None) => return,
        Err(error) => return findings.add(&KIND, place(), error.to_string()),
    };
    if source.len() > BYTES_MAX {
        return findings.add(
            &LARGE,
            place(),
            format!("the template has {} bytes", source.len()),
        );
    }
    let template = match ChatTemplate::new(source) {
        Ok(template) => template,
        Err(EngineError::TemplateSyntax { line, message }) => {
            return findings.add(&SYNTAX, place().at_line(line), message);
        }
        Err(error) => return findings.add(&SYNTAX, place(), error.to_string()),
    };
    let probe = Probe {
        template,
        tokenizer,
    };
    probe.run(key, findings);
}

/// What the people of the probe conversation say: words that no template has.
const QUESTION: &str = "Zwetschgenknoedel?";
const ANSWER: &str = "Palatschinken.";
const SYSTEM: &str = "Germknoedel only.";

struct Probe<'a> {
    template: ChatTemplate,
    tokenizer: Option<&'a Tokenizer>,
}

impl Probe<'_> {
    fn run(&self, key: &str, findings: &mut Findings) {
        let place = || Place::key(key);
        let user = Message::new("user", QUESTION);
        let assistant = Message::new("assistant", ANSWER);
        let system = Message::new("system", SYSTEM);
        let chat = [user.clone(), assistant.clone(), user.clone()];
        let rendered = match self.render(&chat, true) {
            Ok(text) => text,
            Err(EngineError::TemplateRefused { message }) => {
                let text = format!("a question, an answer and a question are refused: {message}");
                return findings.add(&REFUSES, place(), text);
            }
            Err(EngineError::TemplateRender { line, message }) => {
                return findings.add(&RENDER, place().at_line(line), message);
            }
            Err(error) => return findings.add(&RENDER, place(), error.to_string()),
        };
        let mut lost = vec![QUESTION, ANSWER];
        lost.retain(|said| !rendered.contains(said));
        if !lost.is_empty() {
            let lost: Vec<String> = lost.iter().map(|said| format!("{said:?}")).collect();
            let text = format!(
                "what was said in a conversation ({}) is not in what the template makes of it",
                lost.join(", ")
            );
            findings.add(&DROPS, place(), text);
        }
        match self.render(&[system, user.clone()], true) {
            Ok(text) if !text.contains(SYSTEM) => {
                findings.add(
                    &REFUSES,
                    place(),
                    "a system message is left out without a word",
                );
            }
            Ok(_) => {}
            Err(EngineError::TemplateRefused { message }) => {
                findings.add(
                    &REFUSES,
                    place(),
                    format!("a system message is refused: {message}"),
                );
            }
            Err(error) => findings.add(&RENDER, place(), error.to_string()),
        }
        self.markers(&rendered, place(), findings);
        if let Ok(closed) = self.render(&[user, assistant], false) {
            self.turn_end(&closed, place(), findings);
        }
    }

    fn render(&self, messages: &[Message], to_speak: bool) -> Result<String, EngineError> {
        let text = |id: Option<u32>| {
            let token = self
                .tokenizer
                .zip(id)
                .map(|(tokenizer, id)| tokenizer.text(id));
            String::from_utf8_lossy(token.unwrap_or_default()).into_owned()
        };
        let mut input = RenderInput::new(messages);
        input.add_generation_prompt = to_speak;
        input.bos_token = text(self.tokenizer.and_then(Tokenizer::bos));
        input.eos_token = text(self.tokenizer.and_then(Tokenizer::eos));
        // A date that does not change, so that equal files give equal reports.
        input.clock = Clock::Fixed(1_736_944_350);
        self.template.render(&input)
    }

    /// `<|…|>` in the rendered text that is no token.
    fn markers(&self, rendered: &str, place: Place, findings: &mut Findings) {
        let Some(tokenizer) = self.tokenizer else {
            return;
        };
        let unknown: BTreeSet<&str> = markers(rendered)
            .filter(|marker| tokenizer.token(marker).is_none())
            .collect();
        for marker in unknown {
            findings.add(
                &UNKNOWN_TOKEN,
                place.clone(),
                format!("{marker} is no token"),
            );
        }
    }

    /// The first control token behind an answer must end the generation of one.
    fn turn_end(&self, closed: &str, place: Place, findings: &mut Findings) {
        let Some((tokenizer, (_, behind))) = self.tokenizer.zip(closed.rsplit_once(ANSWER)) else {
            return;
        };
        let options = EncodeOptions {
            add_special: false,
            parse_special: true,
        };
        let ids = tokenizer.encode(behind, options);
        let control = ids
            .into_iter()
            .find(|&id| tokenizer.attributes(id).has(Attributes::CONTROL));
        if let Some(id) = control.filter(|&id| !tokenizer.is_eog(id)) {
            let token = escape_invalid(tokenizer.text(id)).into_owned();
            let text = format!(
                "an answer is closed by token {id}, {token:?}, which does not end a generation"
            );
            findings.add(&TURN_END, place, text);
        }
    }
}

/// Bytes of a word at most.
const WORD_BYTES_MAX: usize = 40;

/// Parts of a text of the form `<|word|>`. An end is looked for no further than the longest word, so that a text of
/// nothing but beginnings takes no longer.
fn markers(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("<|").filter_map(|(start, _)| {
        let rest = &text[start..];
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
        let word = rest.bytes().skip(2).take(WORD_BYTES_MAX + 1);
        let n = word.take_while(is_word).count();
        let is_marker = (1..=WORD_BYTES_MAX).contains(&n) && rest[2 + n..].starts_with("|>");
        is_marker.then(|| &rest[..n + 4])
    })
}

#[cfg(test)]
mod tests {
    use super::markers;

    #[test]
    fn markers_are_found() {
        let found: Vec<&str> = markers("<|im_start|>user <|a b|> <||> <|x <|end|>|> <|").collect();
        assert_eq!(found, ["<|im_start|>", "<|end|>"]);
    }

    #[test]
    fn a_mebibyte_of_beginnings_takes_no_time() {
        let text = "<|".repeat(1 << 19);
        let started = std::time::Instant::now();
        assert_eq!(markers(&text).count(), 0);
        // Each was once looked for an end of up to the end of the text: half an hour of it.
        assert!(started.elapsed() < std::time::Duration::from_secs(2));
        let longest = format!("<|{}|>", "x".repeat(40));
        let found: Vec<String> = [longest.clone(), format!("<|{}|>", "x".repeat(41))]
            .iter()
            .flat_map(|text| markers(text))
            .map(str::to_owned)
            .collect();
        assert_eq!(found, [longest]);
    }
}
