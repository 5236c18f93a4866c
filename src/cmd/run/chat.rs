//! The conversation.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use gristmill_engine::chat::{ChatTemplate, Message, RenderInput};
use gristmill_engine::reply::{ReasoningForm, ReplyFormat, ReplyParser};
use gristmill_engine::sampling::RANDOM_SEED;
use gristmill_engine::{
    ChatPrompt, EngineError, GenerateOptions, Session, StopReason, Thinking, chat_prompt,
};
use gristmill_tokenizer::EncodeOptions;
use serde_json::Value;

use super::chat_flags::JsonObject;
use super::command::{self, Command};
use super::history::Conversation;
use super::input::{self, Messages, Said};
use super::output::{Budget, OutputFlags};
use super::prompt_cache::PromptCache;
use crate::failure::{self, Hint};
use crate::interrupt;

/// What a conversation is held by.
pub struct Rules {
    pub template: ChatTemplate,
    /// Where the template comes from, for messages.
    pub origin: String,
    pub variables: JsonObject,
    pub tools: Option<Value>,
    pub parse_special: bool,
    /// How answers are taken apart; none where they stay as they are.
    pub format: Option<ReplyFormat>,
    /// Whether the model shall not think.
    pub is_thinking_off: bool,
    /// Most tokens of reasoning, and what is said where it is cut off.
    pub budget: Option<(usize, String)>,
    /// The file that keeps the conversation.
    pub history: Option<PathBuf>,
    pub multiline: bool,
    pub simple_io: bool,
}

/// Whether a message, or all that was said with it, is too long.
fn is_misfit(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::PromptTooLong { .. }
            | EngineError::TextTooLong { .. }
            | EngineError::ContextFull { .. }
    )
}

/// The remedy where only what was said before leaves no room.
fn hint_where_crowded(asker: Asker, fits_longer_context: bool) -> &'static str {
    match (asker, fits_longer_context) {
        (Asker::Person, true) => {
            "/clear forgets the conversation; or start again with a longer context (-c)"
        }
        (Asker::Person, false) => "/clear forgets the conversation",
        (_, true) => {
            "give a longer context with -c; or --context-shift, which leaves the oldest messages out"
        }
        (_, false) => "--context-shift leaves the oldest messages out",
    }
}

/// The first of these starts, in rising order, from which a conversation takes at most half of the context; where there is none, the
/// last that fits. What begins later is shorter, so it is found by halves: each try costs as much as the conversation is long.
fn first_fitting<T>(
    starts: &[usize],
    n_ctx: usize,
    mut render: impl FnMut(usize) -> anyhow::Result<(usize, T)>,
) -> anyhow::Result<Option<(usize, T)>> {
    let (mut low, mut high) = (0, starts.len());
    let (mut short, mut fitting) = (None, None);
    while low < high {
        let middle = low + (high - low) / 2;
        let start = starts[middle];
        let (n_tokens, rendered) = render(start)?;
        if n_tokens <= n_ctx / 2 {
            short = Some((start, rendered));
            high = middle;
        } else {
            if n_tokens < n_ctx {
                fitting = Some((start, rendered));
            }
            low = middle + 1;
        }
    }
    Ok(short.or(fitting))
}

/// A conversation with a model.
pub struct Chat<'a> {
    session: Session,
    rules: Rules,
    options: GenerateOptions,
    output: &'a OutputFlags,
    cache: PromptCache,
    messages: Vec<Message>,
    /// The conversation as the file that keeps it has it, and that of the file that was loaded since.
    kept: Conversation,
    loaded: Option<Conversation>,
    /// Messages that every conversation begins with.
    n_fixed: usize,
    /// The answer that `/regen` asked to replace; it comes back where that fails.
    replaced: Vec<Message>,
    /// Text read by `/read`, for the next message.
    attached: String,
    /// Calls so far, for ids of new ones.
    n_calls: usize,
    /// Messages so far, and those of a pipe that did not fit.
    n_said: usize,
    n_unanswered: usize,
}

/// Who waits for an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asker {
    /// A person at a terminal, who goes on.
    Person,
    /// A pipe, whose next line may be another message.
    Lines,
    /// Nobody goes on behind it.
    Nobody,
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
        rules: Rules,
        mut options: GenerateOptions,
        output: &'a OutputFlags,
    ) -> Self {
        if let Some(format) = &rules.format {
            options.shown = format.shown(session.context().model().tokenizer());
        }
        Chat {
            session,
            rules,
            options,
            output,
            cache: PromptCache::default(),
            n_fixed: 0,
            messages: Vec::new(),
            kept: Conversation::default(),
            loaded: None,
            replaced: Vec::new(),
            attached: String::new(),
            n_calls: 0,
            n_said: 0,
            n_unanswered: 0,
        }
    }

    /// The conversation so far, under instructions where there are some: they take the place of those it had.
    pub fn begun(mut self, kept: Conversation, system: Option<String>) -> Self {
        self.messages = kept.messages();
        self.kept = kept;
        self.note_roles();
        self.n_fixed = self.n_instructions();
        if let Some(text) = system {
            self.instruct(text);
        }
        self
    }

    /// Says which roles the template does not name: it may leave such messages out, or take them for another's.
    fn note_roles(&self) {
        let source = self.rules.template.source();
        const USUAL: [&str; 4] = ["system", "user", "assistant", "tool"];
        let is_known = |role: &str| USUAL.contains(&role) || source.contains(role);
        let unknown = self.messages.iter().enumerate();
        let mut unknown = unknown.filter(|(_, message)| !is_known(&message.role));
        if let Some((index, message)) = unknown.next().filter(|_| !self.output.quiet()) {
            say!(
                "note: message {index} has the role {:?}, which the chat template does not name",
                message.role
            );
        }
    }

    fn n_instructions(&self) -> usize {
        let mut messages = self.messages.iter();
        let other = messages.position(|message| message.role != "system");
        other.unwrap_or(self.messages.len())
    }

    fn instruct(&mut self, text: String) {
        let instructions = Message::new("system", text);
        self.messages.splice(..self.n_fixed, [instructions]);
        self.n_fixed = 1;
    }

    /// With a file for what is computed.
    pub fn cached(mut self, cache: PromptCache) -> Self {
        self.cache = cache;
        self
    }

    /// Answers the prompt, if there is one, and then every message, until the input ends.
    pub fn talk(mut self, prompt: Option<Vec<u8>>, single: bool) -> anyhow::Result<()> {
        let mut messages =
            Messages::new(self.rules.multiline, self.rules.simple_io)?.with_commands();
        // Of a pipe, a single turn takes all: the lines after the first would be lost.
        let prompt = match single && !messages.is_terminal() {
            true if prompt.is_none() => {
                input::piped()?.filter(|text| !text.trim_ascii().is_empty())
            }
            _ => prompt,
        };
        let asker = match (single, messages.is_terminal()) {
            (true, _) => Asker::Nobody,
            (false, true) => Asker::Person,
            (false, false) => Asker::Lines,
        };
        if asker == Asker::Person && !self.output.quiet() {
            say!("Ctrl-C stops an answer, Ctrl-D at the prompt leaves, /help tells more.");
        }
        if let Some(prompt) = prompt {
            self.say(String::from_utf8_lossy(&prompt).into_owned(), asker)?;
            if single {
                return Ok(());
            }
        }
        loop {
            let text = match messages.next()? {
                Said::Text(text) => text,
                // What was wrong is told already.
                Said::End if self.n_unanswered > 0 => return Err(failure::Exit(1).into()),
                Said::End => return Ok(()),
            };
            // Text through a pipe is never a command: nobody chose to run it.
            let next = match messages.is_terminal() {
                true => self.follow(Command::of(text)),
                false => Next::Message(text),
            };
            match next {
                Next::Message(text) => self.say(text, asker)?,
                Next::Answer => self.answer(asker)?,
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
            Command::Regen => return self.regenerate(),
            Command::Result(text) => return self.take_result(text),
            Command::Say(lines) => lines.lines().for_each(|line| say!("{line}")),
            command => {
                if let Err(error) = self.work(command) {
                    failure::print(&error);
                }
            }
        }
        Next::Nothing
    }

    fn regenerate(&mut self) -> Next {
        let asks = |message: &Message| message.role == "user" || message.role == "tool";
        let Some(last) = self.messages.iter().rposition(asks) else {
            say!("there is nothing to answer yet");
            return Next::Nothing;
        };
        self.replaced = self.messages.split_off(last + 1);
        let seed = &mut self.options.sampling.seed;
        if *seed != RANDOM_SEED {
            // the same seed would say the same again
            *seed = seed.wrapping_add(1);
        }
        Next::Answer
    }

    /// The calls of the last answer that nobody answered yet.
    fn open_calls(&self) -> Vec<Value> {
        let answered = |message: &&Message| message.role == "tool";
        let n_results = self.messages.iter().rev().take_while(answered).count();
        let last = self.messages.iter().rev().nth(n_results);
        let calls = last.into_iter().flat_map(Message::calls);
        calls.skip(n_results).cloned().collect()
    }

    /// Takes what a function answered; once all have, the model goes on.
    fn take_result(&mut self, text: String) -> Next {
        let open = self.open_calls();
        let Some(call) = open.first() else {
            say!("the model waits for no function");
            return Next::Nothing;
        };
        self.messages.push(Message::result(call, text));
        match open.get(1) {
            Some(next) => {
                let name = next.pointer("/function/name").and_then(Value::as_str);
                say!("now /result for {}", name.unwrap_or("the next call"));
                Next::Nothing
            }
            None => Next::Answer,
        }
    }

    /// Commands that read and write.
    fn work(&mut self, command: Command) -> anyhow::Result<()> {
        match command {
            Command::Read(path) => self.attach(&[path])?,
            Command::Glob(pattern) => self.attach(&command::files_of(&pattern)?)?,
            Command::System(text) if text.is_empty() => match self.messages.first() {
                Some(first) if self.n_fixed > 0 => say!("{}", first.content),
                _ => say!("there are no instructions"),
            },
            Command::System(text) => {
                self.instruct(text);
                say!("the instructions are changed");
            }
            Command::Save(path) => {
                if path.exists() {
                    let shown = path.display();
                    return Err(anyhow::anyhow!("{shown}: exists already")
                        .context(Hint::new("give the name of a new file")));
                }
                let form = self.loaded.as_ref().unwrap_or(&self.kept);
                form.write(&path, &self.messages, false)?;
                say!("wrote {} messages", self.messages.len());
            }
            Command::Load(path) => {
                let loaded = Conversation::read(&path)?;
                self.messages = loaded.messages();
                self.kept.learn(&loaded);
                self.loaded = Some(loaded);
                self.note_roles();
                self.n_fixed = self.n_instructions();
                say!("the conversation has {} messages", self.messages.len());
            }
            _ => {}
        }
        Ok(())
    }

    fn attach(&mut self, paths: &[PathBuf]) -> anyhow::Result<()> {
        let texts: anyhow::Result<Vec<String>> =
            paths.iter().map(|path| command::read_text(path)).collect();
        let text = texts?.concat();
        let n_files = match paths {
            [_] => String::new(),
            _ => format!(" of {} files", paths.len()),
        };
        say!("read {} bytes{n_files} for the next message", text.len());
        self.attached.push_str(&text);
        Ok(())
    }

    fn say(&mut self, text: String, asker: Asker) -> anyhow::Result<()> {
        let text = std::mem::take(&mut self.attached) + &text;
        self.messages.push(Message::new("user", text));
        self.n_said += 1;
        self.answer(asker)
    }

    /// Answers the last message. Where a person goes on, what is wrong with the message is said and the chat goes on; where a
    /// pipe does, if the message does not fit.
    fn answer(&mut self, asker: Asker) -> anyhow::Result<()> {
        let Err(error) = self.try_answer(asker == Asker::Person) else {
            self.replaced.clear();
            return Ok(());
        };
        let known = error.downcast_ref::<EngineError>();
        let known = known.filter(|known| match asker {
            Asker::Person => true,
            Asker::Lines => is_misfit(known),
            Asker::Nobody => false,
        });
        if let Some(known) = known {
            let hint = hint_where_crowded(asker, known.fits_longer_context());
            let error = match self.is_crowded(known) {
                true => error.context(Hint::new(hint)),
                false => error,
            };
            if asker == Asker::Lines {
                self.n_unanswered += 1;
                failure::print(&error.context(format!("message {}", self.n_said)));
            } else {
                failure::print(&error);
            }
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
        let rules = &self.rules;
        let mut input = RenderInput::new(messages);
        input.extra = rules.variables.clone();
        input.tools = rules.tools.clone();
        let tokenizer = self.session.context().model().tokenizer();
        chat_prompt(tokenizer, &rules.template, &input, rules.parse_special)
            .with_context(|| rules.origin.clone())
    }

    /// The prompt of the conversation; where contexts are shifted and it does not fit, without its oldest turns, so that at most
    /// half of the context is taken, or without all but the last where that alone takes more.
    fn fitting_prompt(&self) -> anyhow::Result<ChatPrompt> {
        let n_ctx = self.session.context().n_ctx();
        let whole = self.prompt(&self.messages)?;
        let fits = |prompt: &ChatPrompt| {
            prompt.ids.len() < n_ctx && self.session.check(&prompt.ids, &self.options).is_ok()
        };
        if self.options.context_shift.is_none() || fits(&whole) {
            return Ok(whole);
        }
        let (fixed, said) = self.messages.split_at(self.n_fixed);
        let asks = |&index: &usize| index > 0 && said[index].role == "user";
        let starts: Vec<usize> = (0..said.len()).filter(asks).collect();
        let fitting = first_fitting(&starts, n_ctx, |start| {
            let prompt = self.prompt(&[fixed, &said[start..]].concat())?;
            let n_prompt = prompt.ids.len();
            // What leaves nothing to shift does not fit either.
            let n_taken = if fits(&prompt) {
                n_prompt
            } else {
                n_prompt.max(n_ctx)
            };
            Ok((n_taken, prompt))
        })?;
        let Some((n_left, prompt)) = fitting else {
            return Ok(whole);
        };
        if !self.output.quiet() {
            say!(
                "note: the context of {n_ctx} tokens is full; the model no longer sees the oldest {n_left} messages"
            );
        }
        Ok(prompt)
    }

    /// What a model that thinks first has before the form of its answer, to which it is not held while it does.
    fn thinking(&self, prompt: &str) -> Option<Thinking> {
        let rules = &self.rules;
        let form = ReasoningForm::default();
        let thinking = ReplyFormat::detect(rules.template.source(), None, form).thinking(prompt)?;
        // Where it is off, or its end would end the answer too, the model does not begin it.
        let options = EncodeOptions {
            add_special: false,
            parse_special: true,
        };
        let tokenizer = self.session.context().model().tokenizer();
        let end = tokenizer.encode(&thinking.end, options);
        let is_off = rules.is_thinking_off || end.iter().any(|&id| tokenizer.is_eog(id));
        (thinking.start.is_none() || !is_off).then_some(thinking)
    }

    /// The limit of reasoning, in tokens of this model.
    fn budget(&self) -> Option<Budget> {
        let (n_tokens, message) = self.rules.budget.as_ref()?;
        let format = self.rules.format.as_ref()?;
        let text = format!("{message}{}\n", format.reasoning().end);
        let options = EncodeOptions {
            add_special: false,
            parse_special: true,
        };
        let tokenizer = self.session.context().model().tokenizer();
        Some(Budget {
            n_tokens: *n_tokens,
            ids: tokenizer.encode(&text, options),
            text,
        })
    }

    /// Answers the last message. Where nobody is there to go on, an interrupt ends the program after what was said so far.
    fn try_answer(&mut self, go_on: bool) -> anyhow::Result<()> {
        if let Some(last) = self.messages.last() {
            // Templates trim messages.
            self.session.check_text(last.content.trim().len())?;
        }
        let model = self.session.context().model().clone();
        let prompt = self.fitting_prompt()?;
        self.output
            .tell_prompt(&prompt.text, &prompt.ids, model.tokenizer());
        let budget = self.budget();
        let format = self.rules.format.clone();
        let parser = format.map(|format| ReplyParser::new(format, &prompt.text, self.n_calls));
        let options = GenerateOptions {
            constraint_after: self.thinking(&prompt.text),
            ..self.options.clone()
        };
        let listener = interrupt::Listener::new();
        let said = self.cache.generate(
            &mut self.session,
            &prompt.ids,
            &options,
            budget.as_ref(),
            self.output.show(parser),
            &listener,
            self.output,
        )?;
        self.output.finish(&said, &prompt.ids, model.tokenizer())?;
        let (answer, reply) = said;
        if answer.reason == StopReason::ContextFull {
            say!(
                "note: the context of {} tokens is full",
                self.session.context().n_ctx()
            );
        }
        crate::stdout::stream()
            .flush()
            .context("cannot write the answer")?;
        self.n_calls += reply.calls.len();
        self.messages.push(Message::answer(&reply));
        if let Some(path) = &self.rules.history {
            self.kept.write(path, &self.messages, true)?;
        }
        if listener.interrupted() && !go_on {
            interrupt::leave();
        }
        if go_on && !reply.calls.is_empty() {
            say!("/result TEXT tells the model what the function answered");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As [`first_fitting`], but tries one start after the other.
    fn by_turns(
        starts: &[usize],
        n_ctx: usize,
        n_tokens: impl Fn(usize) -> usize,
    ) -> Option<usize> {
        let mut fitting = None;
        for &start in starts {
            let n = n_tokens(start);
            if n < n_ctx {
                fitting = Some(start);
            }
            if n <= n_ctx / 2 {
                break;
            }
        }
        fitting
    }

    #[test]
    fn what_is_left_out_is_found_in_few_tries() {
        for n_messages in [1, 2, 3, 50, 4001] {
            let starts: Vec<usize> = (2..n_messages).step_by(2).collect();
            for (n_fixed, n_ctx) in [(0, 1), (3, 40), (10, 64), (10, 65), (500, 900), (900, 9000)] {
                // Messages have 3 and 10 tokens, the last one 27.
                let n_tokens = |start: usize| n_fixed + 27 + (n_messages - start) / 2 * 13;
                let mut n_tries = 0;
                let found = first_fitting(&starts, n_ctx, |start| {
                    n_tries += 1;
                    Ok((n_tokens(start), start))
                });
                let found = found.expect("nothing fails");
                let expected = by_turns(&starts, n_ctx, n_tokens);
                assert_eq!(found, expected.map(|start| (start, start)));
                assert!(n_tries <= 12, "{n_tries} of {n_messages}");
            }
        }
    }
}
