//! A text that is continued, and what is typed between its parts.

use std::io::Write as _;

use gristmill_engine::{GenerateOptions, Session, StopReason, raw_prompt};
use gristmill_tokenizer::EncodeOptions;

use super::flags::AnswerFlags;
use super::input::{self, Messages, Said};
use super::output::{self, OutputFlags};
use super::prompt_cache::PromptCache;
use crate::failure::Hint;
use crate::interrupt;

/// How a text is continued.
pub struct Completion<'a> {
    pub session: Session,
    pub options: GenerateOptions,
    pub flags: &'a AnswerFlags,
    pub output: &'a OutputFlags,
    /// A file for what is computed.
    pub cache: PromptCache,
    /// Whether escape sequences around typed text are processed.
    pub escape: bool,
    /// How lines are read: several to a text, and without an editor.
    pub lines: (bool, bool),
    /// Whether a stop string that ended an answer is shown, as a part of the text.
    pub shows_stop: bool,
    /// Whether the model would chat if it had a template.
    pub lacks_template: bool,
}

/// The error of a run that has nothing to continue.
pub fn no_prompt(lacks_template: bool) -> anyhow::Error {
    match lacks_template {
        true => anyhow::anyhow!(
            "there is no prompt to continue, and the model has no chat template to chat by"
        )
        .context(Hint::new(
            "give a prompt with -p or -f, or through a pipe; -i lets you type between answers, and --chat-template names a template to chat by",
        )),
        false => anyhow::anyhow!("there is no prompt to continue").context(Hint::new(
            "give one with -p or -f, or through a pipe; -i lets you type it",
        )),
    }
}

impl Completion<'_> {
    /// Continues the prompt, or what comes through a pipe where there is none, or else the saved session.
    pub fn run(mut self, prompt: Option<Vec<u8>>) -> anyhow::Result<()> {
        let is_interactive = self.flags.is_interactive();
        let model = self.session.context().model().clone();
        let prompt = match prompt {
            None if !is_interactive => input::piped()?.filter(|text| !text.is_empty()),
            prompt => prompt,
        };
        let is_none = prompt.is_none();
        let prompt = prompt.unwrap_or_default();
        self.session.check_text(prompt.len())?;
        let saved = self.session.tokens();
        let ids = match prompt.is_empty() && !saved.is_empty() {
            true => saved.to_vec(),
            false if is_none => Vec::new(),
            false => raw_prompt(model.tokenizer(), &prompt),
        };
        if is_interactive {
            return self.by_turns(&prompt, ids);
        }
        if ids.is_empty() {
            return Err(no_prompt(self.lacks_template));
        }
        self.session.check(&ids, &self.options)?;
        self.output.show_prompt(&prompt, &ids, model.tokenizer())?;
        let listener = interrupt::Listener::new();
        self.part(&ids, &listener)?;
        if listener.interrupted() {
            interrupt::leave();
        }
        Ok(())
    }

    /// Generates a part, and gives its tokens and what ended it.
    fn part(
        &mut self,
        ids: &[u32],
        listener: &interrupt::Listener,
    ) -> anyhow::Result<(Vec<u32>, StopReason)> {
        let show = self.output.show(None);
        let said = self.cache.generate(
            &mut self.session,
            ids,
            &self.options,
            None,
            show,
            listener,
            self.output,
        )?;
        let model = self.session.context().model().clone();
        if let (StopReason::StopString(stop), false) = (&said.0.reason, self.output.is_json()) {
            // It is part of the text, which goes on behind it.
            if self.shows_stop {
                write!(crate::stdout::stream(), "{stop}")?;
            }
        }
        self.output.finish(&said, ids, model.tokenizer())?;
        Ok((said.0.ids, said.0.reason))
    }

    /// The model and whoever types go on by turns, until the input ends.
    fn by_turns(mut self, prompt: &[u8], mut ids: Vec<u32>) -> anyhow::Result<()> {
        let model = self.session.context().model().clone();
        let mut lines = Messages::new(self.lines.0, self.lines.1)?;
        let mut is_typed = self.flags.interactive_first || prompt.is_empty();
        if !prompt.is_empty() {
            self.output.show_prompt(prompt, &ids, model.tokenizer())?;
        }
        loop {
            if is_typed {
                let text = match lines.next()? {
                    Said::Text(text) => text,
                    Said::End => return Ok(()),
                };
                self.session.check_text(text.len())?;
                self.append(&text, &mut ids);
                if let Some(keep) = self.options.context_shift {
                    self.session.shift(&mut ids, keep)?;
                }
            }
            is_typed = true;
            let listener = interrupt::Listener::new();
            let (answer, reason) = self.part(&ids, &listener)?;
            let shift = &mut self.options.context_shift;
            output::follow(&self.session, &mut ids, shift, &answer);
            if matches!(reason, StopReason::ContextFull) {
                say!(
                    "note: the context of {} tokens is full",
                    self.session.context().n_ctx()
                );
                return Ok(());
            }
            if listener.interrupted() && !lines.is_terminal() {
                interrupt::leave();
            }
        }
    }

    /// Adds typed text in its frame. Control tokens are parsed in the frame alone.
    fn append(&self, text: &str, ids: &mut Vec<u32>) {
        let tokenizer = self.session.context().model().tokenizer();
        let encode = |text: &[u8], parse_special| {
            let options = EncodeOptions {
                add_special: false,
                parse_special,
            };
            tokenizer.encode(text, options)
        };
        let (prefix, suffix) = self.flags.frame(self.escape);
        if self.flags.in_prefix_bos || (ids.is_empty() && tokenizer.add_bos()) {
            ids.extend(tokenizer.bos());
        }
        ids.extend(encode(&prefix, true));
        ids.extend(encode(text.as_bytes(), false));
        ids.extend(encode(&suffix, true));
    }
}
