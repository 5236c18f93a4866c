//! An answer taken apart as it comes: reasoning, content and tool calls.
//!
//! How a model writes them is told by its chat template. A family ([`FAMILIES`]) is a form of tool calls, with the marks
//! around them; [`REASONING`] has the marks around reasoning.
//!
//! ```text
//! template, tools --ReplyFormat::detect--> ReplyFormat --ReplyParser::new--> push, push, …, finish --> ReplyEvent, …
//! ```
//!
//! The events do not depend on where the text is cut into pieces, and no text is lost: what turns out to be no call is
//! content.

mod family;
mod json;
mod reasoning;
mod scan;
mod shape;
mod stream;
mod tools;

use std::sync::Arc;

use gristmill_tokenizer::{Attributes, Tokenizer};
use serde_json::Value;

pub use family::FAMILIES;
pub use reasoning::{REASONING, Reasoning};
pub use stream::ReplyParser;

use crate::generate::Thinking;
use scan::{Parsed, Scan};
use tools::Tools;

/// How a family of models writes tool calls.
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// A template is of this family if it has all texts of one of these lists.
    pub evidence: &'static [&'static [&'static str]],
    /// Marks at which calls may begin.
    pub calls: &'static [&'static str],
    /// Such marks that count only at the beginning of an answer.
    pub first_calls: &'static [&'static str],
    /// Marks inside calls.
    pub within: &'static [&'static str],
    /// Marks around content, which are dropped.
    pub dropped: &'static [&'static str],
    /// The end of a prompt that belongs to the answer.
    pub lead: &'static str,
    /// The marks around its reasoning, where the template does not show them as they are.
    pub reasoning: Option<Reasoning>,
    /// Whether reasoning may come behind content.
    pub thinks_anywhere: bool,
    /// Parses what begins with one of the marks.
    parse: fn(&mut Scan) -> Parsed<()>,
}

impl Family {
    /// No calls at all.
    const NONE: Family = Family {
        name: "",
        evidence: &[],
        calls: &[],
        first_calls: &[],
        within: &[],
        dropped: &[],
        lead: "",
        reasoning: None,
        thinks_anywhere: false,
        parse: |_| Err(scan::Stop::Bad),
    };
}

/// What to do with reasoning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReasoningForm {
    /// It is content, with the marks around it.
    Content,
    /// It is told apart, and its marks are dropped.
    #[default]
    Apart,
    /// It is told apart, and stays in the content with its marks too.
    Both,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyEvent {
    /// More of the reasoning.
    Reasoning(String),
    /// More of the content.
    Content(String),
    /// A tool call begins.
    CallStart {
        /// Calls of an answer are counted from 0.
        index: usize,
        /// The model's own id, else one that is unique in the conversation.
        id: String,
        /// The function.
        name: String,
    },
    /// More of its arguments, which are an object of JSON.
    Arguments {
        /// The call.
        index: usize,
        /// The text.
        text: String,
    },
    /// It is complete.
    CallEnd {
        /// The call.
        index: usize,
    },
    /// It is none after all: its text follows as content.
    CallFailed {
        /// The call.
        index: usize,
    },
}

/// A call of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// Its id.
    pub id: String,
    /// The function.
    pub name: String,
    /// The arguments: an object of JSON.
    pub arguments: String,
}

/// A whole answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// What the model thought.
    pub reasoning: String,
    /// What it says.
    pub content: String,
    /// What it calls.
    pub calls: Vec<ToolCall>,
    /// The call that is not complete yet, and its index.
    open: Option<(usize, ToolCall)>,
}

impl Reply {
    /// Adds a part.
    pub fn take(&mut self, event: &ReplyEvent) {
        match event {
            ReplyEvent::Reasoning(text) => self.reasoning.push_str(text),
            ReplyEvent::Content(text) => self.content.push_str(text),
            ReplyEvent::CallStart { index, id, name } => {
                let call = ToolCall {
                    id: id.clone(),
                    name: name.clone(),
                    arguments: String::new(),
                };
                self.open = Some((*index, call));
            }
            ReplyEvent::Arguments { text, .. } => {
                if let Some((_, call)) = &mut self.open {
                    call.arguments.push_str(text);
                }
            }
            ReplyEvent::CallEnd { .. } => self.calls.extend(self.open.take().map(|(_, call)| call)),
            ReplyEvent::CallFailed { .. } => self.open = None,
        }
    }
}

/// How a model's answers are to be read.
#[derive(Clone)]
pub struct ReplyFormat {
    family: &'static Family,
    reasoning: Reasoning,
    knows_reasoning: bool,
    form: ReasoningForm,
    tools: Arc<Tools>,
}

impl ReplyFormat {
    /// The format of a template. Calls are looked for where there are tools to call.
    pub fn detect(template: &str, tools: Option<&Value>, form: ReasoningForm) -> Self {
        let has = |texts: &[&str]| texts.iter().all(|text| template.contains(text));
        let of_template = |family: &&&'static Family| family.evidence.iter().any(|list| has(list));
        let family = FAMILIES.iter().find(of_template).copied();
        let family = family.unwrap_or(&Family::NONE);
        let of_family = family.reasoning;
        ReplyFormat {
            family,
            reasoning: of_family.unwrap_or_else(|| Reasoning::of_template(template)),
            knows_reasoning: of_family.is_some() || Reasoning::named_by(template).is_some(),
            form,
            tools: Arc::new(tools.map(Tools::new).unwrap_or_default()),
        }
    }

    /// The family's name; empty where the template has no form of calls that is known.
    pub fn family(&self) -> &'static str {
        self.family.name
    }

    /// The marks around reasoning.
    pub fn reasoning(&self) -> Reasoning {
        self.reasoning
    }

    /// What the answer to a prompt has, or may have, before its content: the reasoning that the prompt began, or where template or
    /// family know any, one that the model begins itself, unless the prompt has ended it.
    pub fn thinking(&self, prompt: &str) -> Option<Thinking> {
        let Reasoning { start, end } = self.reasoning;
        let is_open = self.is_open(prompt);
        let is_ended = prompt.trim_end().ends_with(end.trim_end());
        let may_begin = self.knows_reasoning && !start.is_empty() && !is_ended;
        (is_open || may_begin).then(|| Thinking {
            start: (!is_open).then(|| start.to_owned()),
            end: end.to_owned(),
        })
    }

    /// What to do with reasoning.
    pub fn form(&self) -> ReasoningForm {
        self.form
    }

    /// Every mark that is looked for; control tokens in them have to be seen by the parser.
    pub fn marks(&self) -> impl Iterator<Item = &'static str> {
        let reasoning = [self.reasoning.start, self.reasoning.end];
        let reasoning = reasoning
            .into_iter()
            .filter(|_| self.form != ReasoningForm::Content);
        let family = self.family;
        let calls = [family.calls, family.first_calls, family.within];
        let calls = calls
            .into_iter()
            .flatten()
            .filter(|_| !self.tools.is_empty());
        reasoning
            .chain(family.dropped.iter().copied())
            .chain(calls.copied())
    }

    /// The control tokens that the parser has to see, in rising order: those that stand in a mark.
    pub fn shown(&self, tokenizer: &Tokenizer) -> Vec<u32> {
        let ids = 0..tokenizer.n_tokens() as u32;
        let is_part = |id: &u32| {
            let text = tokenizer.text(*id);
            let is_in = |mark: &str| mark.as_bytes().windows(text.len()).any(|part| part == text);
            text.len() > 2 && self.marks().any(is_in)
        };
        let controls = ids.filter(|&id| tokenizer.attributes(id).has(Attributes::CONTROL));
        controls
            .filter(|id| !tokenizer.is_eog(*id) && is_part(id))
            .collect()
    }

    /// Whether a prompt ends inside reasoning, so that the answer begins there.
    pub fn is_open(&self, prompt: &str) -> bool {
        !self.reasoning.start.is_empty()
            && prompt.trim_end().ends_with(self.reasoning.start.trim_end())
    }
}

#[cfg(test)]
mod tests;
