//! The conversation.

use std::io::Write as _;

use anyhow::Context as _;
use gristmill_engine::chat::{ChatTemplate, Message, RenderInput};
use gristmill_engine::sampling::RANDOM_SEED;
use gristmill_engine::{EngineError, GenerateOptions, Session, StopReason, chat_prompt};

use super::flags::ChatFlags;
use super::input::{self, Messages, Said};
use super::output::{self, OutputFlags};
use crate::failure::{self, Hint};
use crate::interrupt;

const HELP: &str = "/exit        leave (as Ctrl-D)
/clear       forget the conversation
/regen       another answer to the last message
/read FILE   put a file's text before the next message
Ctrl-C stops an answer; a second one leaves";

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
    ) -> anyhow::Result<Self> {
        let messages: Vec<Message> = flags
            .system()?
            .map(|text| Message::new("system", text))
            .into_iter()
            .collect();
        Ok(Chat {
            session,
            template,
            origin,
            variables: flags.variables(),
            parse_special: flags.parse_special,
            multiline: flags.multiline_input,
            options,
            output,
            n_fixed: messages.len(),
            messages,
            replaced: Vec::new(),
            attached: String::new(),
        })
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
            say!("Ctrl-C stops an answer, Ctrl-D leaves, /help tells more.");
        }
        loop {
            let text = match messages.next()? {
                Said::Text(text) => text,
                Said::End => return Ok(()),
                Said::Stop => interrupt::leave(),
            };
            // Text through a pipe is never a command: nobody chose to run it.
            let next = match messages.is_terminal() {
                true => self.command(text),
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

    fn command(&mut self, text: String) -> Next {
        if text.trim().contains('\n') {
            // Pasted lines are never commands.
            return Next::Message(text);
        }
        let (word, argument) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        match word {
            "/exit" | "/quit" => return Next::Leave,
            "/clear" => {
                self.messages.truncate(self.n_fixed);
                self.attached.clear();
            }
            "/help" => HELP.lines().for_each(|line| say!("{line}")),
            "/regen" => {
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
            "/read" if argument.trim().is_empty() => say!("/read takes the name of a file"),
            "/read" => match std::fs::read_to_string(argument.trim()) {
                Ok(file) => {
                    self.attached.push_str(&file);
                    say!("read {} bytes for the next message", file.len());
                }
                Err(error) => say!("error: {}: {error}", argument.trim()),
            },
            // One word of letters is a slip of the pen, and no message that begins with a path.
            command
                if argument.is_empty()
                    && command.strip_prefix('/').is_some_and(|word| {
                        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphabetic())
                    }) =>
            {
                say!("there is no command {command}; /help lists them");
            }
            _ => return Next::Message(text),
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
            let is_full = matches!(
                known,
                EngineError::PromptTooLong { .. } | EngineError::ContextFull { .. }
            );
            // The message alone would fit; what was said before it does not leave the room.
            let error = match is_full && self.messages.len() > self.n_fixed + 1 {
                true => error.context(Hint::new(
                    "/clear forgets the conversation; or start again with a longer context (-c)",
                )),
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

    /// Answers the last message. Where nobody is there to go on, an interrupt ends the program after what was said so far.
    fn try_answer(&mut self, go_on: bool) -> anyhow::Result<()> {
        if let Some(last) = self.messages.last() {
            // Templates trim messages.
            self.session.check_text(last.content.trim().len())?;
        }
        let model = self.session.context().model().clone();
        let mut input = RenderInput::new(&self.messages);
        input.extra = self.variables.clone();
        let prompt = chat_prompt(
            model.tokenizer(),
            &self.template,
            &input,
            self.parse_special,
        )
        .with_context(|| self.origin.clone())?;
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
        std::io::stdout()
            .flush()
            .context("cannot write the answer")?;
        if listener.interrupted() && !go_on {
            interrupt::leave();
        }
        self.messages.push(Message::new("assistant", answer.text));
        Ok(())
    }
}
