//! How an answer is shown as it comes.

use std::io::{self, Write as _};

use gristmill_engine::reply::{Reply, ReplyEvent, ReplyParser};

use crate::stdout;

/// Faint text on a terminal, and back.
const FAINT: &str = "\u{1b}[2m";
const PLAIN: &str = "\u{1b}[0m";

/// Where reasoning is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thoughts {
    /// Nowhere.
    Hidden,
    /// With the answer, in faint letters.
    Faint,
    /// With the answer, between lines that say so.
    Framed,
    /// On standard error, since standard output is for the answer alone.
    Apart,
}

/// What stands at the end of what is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Start,
    Thought,
    Text,
    Call,
}

/// Takes an answer and shows it.
pub struct Show {
    parser: Option<ReplyParser>,
    /// What was taken so far.
    reply: Reply,
    events: Vec<ReplyEvent>,
    thoughts: Thoughts,
    /// Whether anything is shown at all.
    is_shown: bool,
    at: At,
    /// Pieces of reasoning: one for each of its tokens.
    n_thoughts: usize,
    /// Nobody reads on after a failed write.
    failure: Option<io::Error>,
}

impl Show {
    /// Without a parser all of the answer is content.
    pub fn new(parser: Option<ReplyParser>, thoughts: Thoughts, is_shown: bool) -> Self {
        let mut show = Show {
            parser,
            reply: Reply::default(),
            events: Vec::new(),
            thoughts,
            is_shown,
            at: At::Start,
            n_thoughts: 0,
            failure: None,
        };
        // The prompt may have opened the reasoning.
        show.feed("");
        show
    }

    /// Takes a piece of the answer: the text of a token.
    pub fn take(&mut self, piece: &str) {
        self.n_thoughts += usize::from(self.is_thinking());
        self.feed(piece);
    }

    /// Takes text that no token of the model's stands for.
    pub fn feed(&mut self, text: &str) {
        match &mut self.parser {
            Some(parser) => parser.push(text, &mut self.events),
            None if text.is_empty() => {}
            None => self.events.push(ReplyEvent::Content(text.to_owned())),
        }
        self.show();
    }

    /// The end of the answer.
    pub fn finish(&mut self) {
        if let Some(parser) = &mut self.parser {
            parser.finish(&mut self.events);
        }
        self.show();
        if self.at == At::Thought {
            self.end_thought("");
        }
    }

    /// Whether the model thinks now.
    pub fn is_thinking(&self) -> bool {
        self.parser.as_ref().is_some_and(ReplyParser::is_reasoning)
    }

    /// Tokens of reasoning.
    pub fn n_thoughts(&self) -> usize {
        self.n_thoughts
    }

    /// Whether a write failed.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// The answer as it was taken.
    pub fn into_reply(self) -> io::Result<Reply> {
        match self.failure {
            Some(error) => Err(error),
            None => Ok(self.reply),
        }
    }

    fn show(&mut self) {
        for event in std::mem::take(&mut self.events) {
            let n_calls = self.reply.calls.len();
            self.reply.take(&event);
            if !self.is_shown {
                continue;
            }
            match event {
                ReplyEvent::Reasoning(text) => self.think(&text),
                ReplyEvent::Content(text) => self.say(&text),
                ReplyEvent::CallEnd { .. } => {
                    if let Some(call) = self.reply.calls.get(n_calls) {
                        let line = format!("[call {} {}]", call.name, call.arguments);
                        self.call(&line);
                    }
                }
                _ => {}
            }
        }
    }

    fn think(&mut self, text: &str) {
        if self.at != At::Thought {
            let start = match self.thoughts {
                Thoughts::Faint => FAINT,
                Thoughts::Framed => "[thinking]\n",
                _ => "",
            };
            self.write(start);
            self.at = At::Thought;
        }
        match self.thoughts {
            Thoughts::Hidden => {}
            Thoughts::Apart => {
                let mut err = io::stderr();
                // Where it cannot be written the answer goes on, as with all messages.
                let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
            }
            Thoughts::Faint | Thoughts::Framed => self.write(text),
        }
    }

    fn end_thought(&mut self, gap: &str) {
        match self.thoughts {
            Thoughts::Hidden => {}
            Thoughts::Apart => {
                let _ = writeln!(io::stderr());
            }
            Thoughts::Faint => self.write(&format!("{PLAIN}{gap}")),
            Thoughts::Framed => self.write("\n[answer]\n"),
        }
        self.at = At::Start;
    }

    fn say(&mut self, text: &str) {
        match self.at {
            At::Thought => self.end_thought("\n\n"),
            At::Call => self.write("\n"),
            At::Start | At::Text => {}
        }
        self.at = At::Text;
        self.write(text);
    }

    fn call(&mut self, line: &str) {
        match self.at {
            At::Thought => self.end_thought("\n\n"),
            At::Call | At::Text => self.write("\n"),
            At::Start => {}
        }
        self.at = At::Call;
        self.write(line);
    }

    fn write(&mut self, text: &str) {
        if text.is_empty() || self.failure.is_some() {
            return;
        }
        let mut out = stdout::stream();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        self.failure = written.err();
    }
}
