//! The conversation.

use std::io::Write as _;

use anyhow::Context as _;
use gristmill_engine::chat::{ChatTemplate, Message, RenderInput};
use gristmill_engine::sampling::RANDOM_SEED;
use gristmill_engine::{
    ChatPrompt, EngineError, GenerateOptions, Session, StopReason, chat_prompt,
};

use super::command::{self, Command};
use super::flags::ChatFlags;
use super::input::{self, Messages, Said};
use super::output::{self, OutputFlags};
use crate::failure::{self, Hint};
use crate::interrupt;

/// A conversation with a model.
pub struct Chat<'a> {
    session: Session,
    template: ChatTemplate,
    /// Where the template comes from, for messages.
    origin: String,
    variables: serde_json::Map<String, serde_json::Value>,
    parse_special: bool,
    multiline: bool,
    options: GenerateOptions,
    output: &'a OutputFlags,
    messages: Vec<Message>,
    /// Messages that every conversation begins with.
    n_fixed: usize,
    /// The answer that `/regen` asked to replace; it comes back where that fails.
    replaced: Vec<Message>,
    /// Text read by `/read`, for the next message.
    attached: String,
}

/// What follows a turn.
enum Next {
    Message(String),
    Answer,
    Nothing,
    Leave,
}

impl<'a> Chat<'a> {
    pub fn new(
        session: Session,
        (template, origin): (ChatTemplate, String),
        flags: &ChatFlags,
        options: GenerateOptions,
        output: &'a OutputFlags,
    ) -> Self {
        Chat {
            session,
            template,
            origin,
            variables: flags.variables(),
            parse_special: flags.parse_special,
            multiline: flags.multiline_input,
            options,
            output,
            n_fixed: 0,
            messages: Vec::new(),
            replaced: Vec::new(),
            attached: String::new(),
        }
    }

    /// The conversation under instructions, where there are some.
    pub fn instructed(mut self, system: Option<String>) -> Self {
        self.messages
            .extend(system.map(|text| Message::new("system", text)));
        self.n_fixed = self.messages.len();
        self
    }

    /// Answers the prompt, if there is one, and then every message, until the input ends.
    pub fn talk(mut self, prompt: Option<Vec<u8>>, single: bool) -> anyhow::Result<()> {
        let mut messages = Messages::new(self.multiline)?;
        // Of a pipe, a single turn takes all: the lines after the first would be lost.
        let prompt = match single && !messages.is_terminal() {
            true if prompt.is_none() => {
                input::piped()?.filter(|text| !text.trim_ascii().is_empty())
            }
            _ => prompt,
        };
        if let Some(prompt) = prompt {
            self.say(
                String::from_utf8_lossy(&prompt).into_owned(),
                messages.is_terminal() && !single,
            )?;
            if single {
                return Ok(());
            }
        }
        if messages.is_terminal() && !self.output.quiet() {
            say!("Ctrl-C stops an answer, Ctrl-D at the prompt leaves, /help tells more.");
        }
        loop {
            let text = match messages.next()? {
                Said::Text(text) => text,
                Said::End => return Ok(()),
                Said::Stop => interrupt::leave(),
            };
            // Text through a pipe is never a command: nobody chose to run it.
            let next = match messages.is_terminal() {
                true => self.follow(Command::of(text)),
                false => Next::Message(text),
            };
            match next {
                Next::Message(text) => self.say(text, messages.is_terminal())?,
                Next::Answer => self.answer(messages.is_terminal())?,
                Next::Nothing => {}
                Next::Leave => return Ok(()),
            }
            if single {
                return Ok(());
            }
        }
    }

    fn follow(&mut self, command: Command) -> Next {
        match command {
            Command::Message(text) => return Next::Message(text),
            Command::Exit => return Next::Leave,
            Command::Clear => {
                self.messages.truncate(self.n_fixed);
                self.attached.clear();
                say!("the conversation is forgotten");
            }
            Command::Regen => {
                let last = self
                    .messages
                    .iter()
                    .rposition(|message| message.role == "user");
                if let Some(last) = last {
                    self.replaced = self.messages.split_off(last + 1);
                    let seed = &mut self.options.sampling.seed;
                    if *seed != RANDOM_SEED {
                        // the same seed would say the same again
                        *seed = seed.wrapping_add(1);
                    }
                    return Next::Answer;
                }
                say!("there is nothing to answer yet");
            }
            Command::Read(path) => match command::read_text(&path) {
                Ok(file) => {
                    self.attached.push_str(&file);
                    say!("read {} bytes for the next message", file.len());
                }
                Err(error) => failure::print(&error),
            },
            Command::Say(lines) => lines.lines().for_each(|line| say!("{line}")),
        }
        Next::Nothing
    }

    fn say(&mut self, text: String, go_on: bool) -> anyhow::Result<()> {
        let text = match std::mem::take(&mut self.attached) {
            attached if attached.is_empty() => text,
            attached => format!("{attached}\n{text}"),
        };
        self.messages.push(Message::new("user", text));
        self.answer(go_on)
    }

    /// Answers the last message. With `go_on`, what is wrong with the message is said and the chat goes on.
    fn answer(&mut self, go_on: bool) -> anyhow::Result<()> {
        let Err(error) = self.try_answer(go_on) else {
            self.replaced.clear();
            return Ok(());
        };
        let known = error.downcast_ref::<EngineError>();
        if let (true, Some(known)) = (go_on, known) {
            let longer = known.fits_longer_context();
            let error = match self.is_crowded(known) {
                true => error.context(Hint::new(match longer {
                    true => {
                        "/clear forgets the conversation; or start again with a longer context (-c)"
                    }
                    false => "/clear forgets the conversation",
                })),
                false => error,
            };
            failure::print(&error);
            match std::mem::take(&mut self.replaced) {
                // The message was never answered, and the next one would stand beside it.
                none if none.is_empty() => drop(self.messages.pop()),
                answered => self.messages.extend(answered),
            }
            return Ok(());
        }
        Err(error)
    }

    /// Whether the last message alone would fit, and only what was said before it does not leave the room.
    fn is_crowded(&self, error: &EngineError) -> bool {
        let n_ctx = match error {
            EngineError::PromptTooLong { n_ctx, .. } => *n_ctx,
            EngineError::ContextFull { .. } => self.session.context().n_ctx(),
            _ => return false,
        };
        let (fixed, said) = self.messages.split_at(self.n_fixed);
        let Some((last, _)) = said.split_last().filter(|(_, before)| !before.is_empty()) else {
            return false;
        };
        let alone = [fixed, std::slice::from_ref(last)].concat();
        self.prompt(&alone)
            .is_ok_and(|prompt| prompt.ids.len() < n_ctx)
    }

    fn prompt(&self, messages: &[Message]) -> anyhow::Result<ChatPrompt> {
        let mut input = RenderInput::new(messages);
        input.extra = self.variables.clone();
        let tokenizer = self.session.context().model().tokenizer();
        chat_prompt(tokenizer, &self.template, &input, self.parse_special)
            .with_context(|| self.origin.clone())
    }

    /// Answers the last message. Where nobody is there to go on, an interrupt ends the program after what was said so far.
    fn try_answer(&mut self, go_on: bool) -> anyhow::Result<()> {
        if let Some(last) = self.messages.last() {
            // Templates trim messages.
            self.session.check_text(last.content.trim().len())?;
        }
        let model = self.session.context().model().clone();
        let prompt = self.prompt(&self.messages)?;
        self.output.show_tokens(&prompt.ids, model.tokenizer());
        let listener = interrupt::Listener::new();
        let answer = output::generate(
            &mut self.session,
            &prompt.ids,
            &self.options,
            &listener,
            self.output,
        )?;
        self.output
            .finish(&answer, &prompt.ids, model.tokenizer())?;
        if answer.reason == StopReason::ContextFull {
            say!(
                "note: the context of {} tokens is full",
                self.session.context().n_ctx()
            );
        }
        crate::stdout::stream()
            .flush()
            .context("cannot write the answer")?;
        if listener.interrupted() && !go_on {
            interrupt::leave();
        }
        self.messages.push(Message::new("assistant", answer.text));
        Ok(())
    }
}
