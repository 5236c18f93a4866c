//! `run`: continue a text, or chat.

mod chat;
mod chat_flags;
mod command;
mod completion;
mod constraint;
pub(super) mod draft_model;
pub(super) mod flags;
mod history;
pub(super) mod input;
mod output;
pub(super) mod outputs;
mod pipe;
pub(super) mod placing;
mod prompt_cache;
pub(super) mod rope;
mod sampling;
mod show;
mod speculative;
mod template;

use std::io::IsTerminal as _;
use std::sync::Arc;

use gristmill_engine::reply::{Reasoning, ReplyFormat};
use gristmill_engine::sampling::ModelSampling;
use gristmill_engine::{
    Adapters, EngineError, GenerateOptions, LoadOptions, LoadReport, Model, Session,
};

use super::{Invocation, Run as Command};
use crate::adapters::AdapterFlags;
use crate::failure::Hint;
use crate::gpu::GpuFlags;
use crate::memory;
use crate::model_path::ModelPath;
use chat::Rules;
use history::Conversation;
use pipe::Pipe;

/// Arguments of `run`.
#[derive(clap::Args)]
pub struct Run {
    #[command(flatten)]
    model: ModelPath,
    #[command(flatten)]
    prompt: flags::PromptFlags,
    #[command(flatten)]
    chat: chat_flags::ChatFlags,
    #[command(flatten)]
    template: chat_flags::TemplateFlags,
    #[command(flatten)]
    reasoning: chat_flags::ReasoningFlags,
    #[command(flatten)]
    answer: flags::AnswerFlags,
    #[command(flatten)]
    sampling: sampling::SamplingFlags,
    #[command(flatten)]
    constraint: constraint::ConstraintFlags,
    #[command(flatten)]
    load: flags::LoadFlags,
    #[command(flatten)]
    placing: placing::PlacingFlags,
    #[command(flatten)]
    speculative: speculative::SpeculativeFlags,
    #[command(flatten)]
    prompt_cache: prompt_cache::PromptCacheFlags,
    #[command(flatten)]
    rope: rope::RopeFlags,
    #[command(flatten)]
    output: output::OutputFlags,
    #[command(flatten)]
    adapters: AdapterFlags,
    #[command(flatten)]
    gpu: GpuFlags,
    #[command(flatten)]
    log: flags::LogFlags,
    #[command(flatten)]
    ignored: flags::IgnoredFlags,
}

/// What a run does with the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Continues it.
    Completion,
    /// Takes it for the first message; ends after one answer if `single`.
    Chat { single: bool },
}

impl Command for Run {
    const NAME: &'static str = "run";
    const ABOUT: &'static str = "Continue a text, or chat with a model";
    const EXAMPLES: &'static str = "gristmill run -m model.gguf
        gristmill run -m model.gguf -p 'Name three rivers.' -st
        gristmill run -m model.gguf -no-cnv -p 'Once upon a time' -n 64 --temp 0
        gristmill run -m model.gguf -st -p 'Three rivers, as JSON.' -j '{\"items\": {\"type\": \"string\"}, \"type\": \"array\"}'
        gristmill run -m model.gguf -sys 'Answer in one sentence.' --context-shift
        gristmill run -m model.gguf -f letter.txt -st --json --temp 0
        gristmill run -m model.gguf --history talk.json --tools functions.json
        gristmill run -m model.gguf -st -p 'Is water wet?' --regex '(Yes|No)\\.'
        gristmill run -m model.gguf -no-cnv -f list.txt --grammar-file list.gbnf
        gristmill run -m model.gguf -st -f book.txt --prompt-cache book.session -c 32768 -ctk q8_0 -ctv q8_0
        gristmill run -m model.gguf -st -f code.rs --spec-type ngram-simple
        gristmill run -hf ggml-org/gemma-3-270m-it-GGUF:Q8_0
        gristmill run -m model.gguf -md smaller.gguf -p 'Name three rivers.' -st
        gristmill run -m model.gguf --lora-scaled adapter.gguf:0.5 -p 'Name three rivers.' -st
        gristmill run -m model.gguf --control-vector-scaled happy.gguf:0.8 -p 'How are you?' -st";
    const REFERENCE_NAMES: &'static [&'static str] = &["llama-cli", "llama-completion"];

    fn run(self, invocation: &Invocation) -> anyhow::Result<()> {
        let reference = invocation.reference;
        self.begin(reference)?;
        // What is read from files comes first: loading a model takes time.
        let escape = self.prompt.escapes(reference.is_some());
        let prompt = self.prompt.read(escape)?;
        let said = self.said(escape)?;
        let held_to = self.constraint.asked()?;
        let mut options = self.load.options();
        options.rope = self.rope.overrides();
        let quiet = self.output.quiet();
        let mut drafts = self.speculative.drafts(&self.load, quiet)?;
        self.note();
        let needs_prompt = self.needs_prompt(prompt.is_some());
        if needs_prompt && self.is_plain() {
            return Err(completion::no_prompt(false));
        }
        let pipe = self.pipe(reference);
        self.model.fetch()?;
        drafts.fetch(&self.model)?;
        let path = self.model.path();
        if needs_prompt && !self.has_template(&said, path, reference)? {
            return Err(completion::no_prompt(true));
        }
        let beside = memory::bytes_beside(self.adapters.paths());
        // What is wrong with one is said where it is loaded.
        let beside = beside.unwrap_or(0);
        let model = load(path, beside, &mut options, &self.placing, &drafts, quiet)?;
        let adapters = self.adapters.load(&model)?;
        let mut answer = self.answer(&model, escape)?;
        let held_to = held_to.map(|asked| asked.compiled(model.tokenizer()));
        answer.constraint = held_to.transpose()?;
        let template = self.template_of(&model, said.template, said.tools.is_some())?;
        let mode = self.mode(reference, template.is_some(), prompt.is_some());
        let mut session = self.session(&model, &adapters, options)?;
        drafts.apply(&mut session, &options, &self.placing, quiet)?;
        let cache = self.prompt_cache.load(&mut session, quiet)?;
        let prompt = pipe::behind(pipe, prompt, quiet)?;
        let done = match (mode, template) {
            (Mode::Completion, _) => completion::Completion {
                session,
                options: answer,
                flags: &self.answer,
                output: &self.output,
                cache,
                escape,
                lines: (self.chat.multiline_input, self.chat.simple_io),
                shows_stop: self.answer.is_interactive() || reference == Some("llama-completion"),
                lacks_template: !self.is_plain(),
            }
            .run(prompt),
            (Mode::Chat { single }, Some(template)) => {
                let rules = self.rules(template, said.tools);
                chat::Chat::new(session, rules, answer, &self.output)
                    .begun(said.history, said.system)
                    .cached(cache)
                    .talk(prompt, single)
            }
            (Mode::Chat { .. }, None) => Err(template::missing(path)),
        };
        output::report_peak(&self.output);
        done
    }
}

/// What is read from files before the model is loaded.
struct SaidBefore {
    template: Option<template::Origin>,
    system: Option<String>,
    tools: Option<serde_json::Value>,
    history: Conversation,
}

/// Opens and loads a model; errors name the file once.
pub(super) fn open(path: &std::path::Path, options: &LoadOptions) -> anyhow::Result<Arc<Model>> {
    loaded(gristmill_gguf::Model::open(path)?, path, options)
}

fn loaded(
    file: gristmill_gguf::Model,
    path: &std::path::Path,
    options: &LoadOptions,
) -> anyhow::Result<Arc<Model>> {
    Model::load(file, options).map_err(|error| match error {
        EngineError::Gguf(_) => error.into(),
        error => anyhow::Error::new(error).context(format!("{}: cannot load it", path.display())),
    })
}

/// What went wrong in computing with a model; where the file may be at fault, it is named.
pub(super) fn of_model(error: EngineError, path: &std::path::Path) -> anyhow::Error {
    of_adapted(error, path, None)
}

/// The same of a model with adapters, which may be at fault as well.
pub(super) fn of_adapted(
    error: EngineError,
    path: &std::path::Path,
    adapters: Option<&Adapters>,
) -> anyhow::Error {
    let beside = adapters.map(Adapters::paths).unwrap_or_default();
    let beside: Vec<String> = beside
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let path = path.display().to_string();
    match error {
        error if error.is_of_numbers() && !beside.is_empty() => anyhow::Error::new(error)
            .context(format!("{path} with {}", beside.join(", ")))
            .context(Hint::new(
                "no value of the adapters is NaN or infinite, but they or their scales may be too large: give smaller ones with --lora-scaled or --control-vector-scaled; if it is the same without them, `gristmill check` tells what is wrong with the model",
            )),
        error @ (EngineError::NoCandidates | EngineError::Model(_) | EngineError::Compute(_)) => {
            anyhow::Error::new(error).context(path)
        }
        error if error.is_of_numbers() => anyhow::Error::new(error).context(path),
        error => error.into(),
    }
}

fn load(
    path: &std::path::Path,
    beside: u64,
    options: &mut LoadOptions,
    placing: &placing::PlacingFlags,
    drafts: &speculative::Drafts<'_>,
    quiet: bool,
) -> anyhow::Result<Arc<Model>> {
    let file = gristmill_gguf::Model::open(path)?;
    let draft = match drafts.model(options) {
        Some((path, options)) => Some((gristmill_gguf::Model::open(path)?, options)),
        None => None,
    };
    memory::before_loading(&file, (beside, draft), options, placing.demand(), quiet)?;
    let model = placing.load_file(file, path, options)?;
    if !quiet {
        let warnings = model.tokenizer().warnings().iter();
        warnings.for_each(|warning| say!("warning: {warning}"));
    }
    Ok(model)
}

impl Run {
    /// How to answer: what the flags say, else what the model recommends.
    fn answer(&self, model: &Model, escape: bool) -> anyhow::Result<GenerateOptions> {
        let recommended = ModelSampling::of(model.file().metadata());
        if !self.output.quiet() {
            let warnings = recommended.warnings.iter();
            warnings.for_each(|warning| say!("warning: {warning}"));
            let words = recommended.wishes.words();
            if !words.is_empty() {
                say!("sampling: the model recommends {words}; flags go before it");
            }
        }
        let sampling = self.sampling.options(&recommended.wishes);
        let answer = self.answer.options(sampling)?;
        let mut answer = self.output.noting(answer);
        answer.stops.extend(self.chat.stops(escape));
        Ok(answer)
    }

    /// A place for what is said, and what was loaded is told.
    fn session(
        &self,
        model: &Arc<Model>,
        adapters: &Adapters,
        options: LoadOptions,
    ) -> anyhow::Result<Session> {
        let session = Session::new(Arc::clone(model), &options);
        let mut session = session.map_err(|error| of_model(error, self.model.path()))?;
        session.set_adapters(adapters)?;
        if !self.output.quiet() {
            let report = LoadReport::new(session.context(), options.cache);
            output::report(&report, self.output.verbose());
        }
        Ok(session)
    }

    /// Standard input beside a prompt, where its text goes behind that one.
    fn pipe(&self, reference: Option<&str>) -> Option<Pipe> {
        let by_turns = match self.is_plain() {
            true => self.answer.is_interactive(),
            false => {
                (self.chat.conversation || self.answer.is_interactive()) && !self.chat.single_turn
            }
        };
        match by_turns {
            true => None,
            false => Pipe::beside(self.prompt.beside(), reference, self.output.quiet()),
        }
    }

    /// Whether a text is continued whatever template there is.
    fn is_plain(&self) -> bool {
        self.chat.no_conversation || self.answer.replaces_template()
    }

    /// Opens what is written, where that can be.
    fn begin(&self, reference: Option<&str>) -> anyhow::Result<()> {
        self.log.apply();
        if reference == Some("llama-cli") && self.chat.no_conversation {
            return Err(anyhow::anyhow!(
                "llama-cli only chats: --no-conversation is not supported"
            )
            .context(Hint::new("use llama-completion to continue a text")));
        }
        let written = [self.prompt_cache.written(), self.chat.history.as_deref()];
        written.into_iter().flatten().try_for_each(outputs::check)?;
        self.output.open()
    }

    /// The template to chat by: the given one, else the model's.
    fn template_of(
        &self,
        model: &Model,
        given: Option<template::Origin>,
        has_tools: bool,
    ) -> anyhow::Result<Option<template::Origin>> {
        match given {
            _ if self.is_plain() => Ok(None),
            Some(given) => Ok(Some(given)),
            None => self.template.of_model(model, has_tools),
        }
    }

    /// Whether there is nothing to continue, so that only a chat could begin: known before the model is loaded where nothing
    /// can come through a pipe.
    fn needs_prompt(&self, has_prompt: bool) -> bool {
        let is_given = has_prompt || self.answer.is_interactive() || self.prompt_cache.is_given();
        !is_given && std::io::stdin().is_terminal()
    }

    /// Whether there will be a chat, or an error that tells why not.
    fn has_template(
        &self,
        said: &SaidBefore,
        path: &std::path::Path,
        reference: Option<&str>,
    ) -> anyhow::Result<bool> {
        let is_given = said.template.is_some() || self.template.chat_template.is_some();
        if is_given || self.is_asked_to_chat(reference) {
            return Ok(true);
        }
        let header = gristmill_gguf::Model::open_header(path)?;
        let mut keys = header.metadata().iter().map(|(key, _)| key);
        Ok(keys.any(|key| key.starts_with("tokenizer.chat_template")))
    }

    fn is_asked_to_chat(&self, reference: Option<&str>) -> bool {
        self.chat.conversation || self.chat.single_turn || reference == Some("llama-cli")
    }

    fn said(&self, escape: bool) -> anyhow::Result<SaidBefore> {
        let template = match self.is_plain() {
            true => None,
            false => self.template.of_file()?,
        };
        let history = self.chat.history.as_deref();
        let history =
            history.map_or_else(|| Ok(Conversation::default()), Conversation::read_or_new);
        Ok(SaidBefore {
            template,
            system: self.chat.system(escape)?,
            tools: self.chat.tools()?,
            history: history?,
        })
    }

    /// Says what has no effect.
    fn note(&self) {
        if self.output.quiet() {
            return;
        }
        if self.is_plain() {
            self.note_without_chat(self.chat.plain_cause());
        }
        self.answer.note();
        self.ignored.note();
        self.reasoning.note(self.template.skip_chat_parsing);
        self.gpu.note();
        self.output.note();
        self.prompt_cache.note();
        self.placing.note();
        self.speculative.note();
        crate::environment::note();
    }

    /// Says what belongs to a chat, where there is none.
    fn note_without_chat(&self, cause: &str) {
        self.chat.note_plain(cause, &self.template, &self.reasoning);
    }

    fn rules(
        &self,
        (template, origin): template::Origin,
        tools: Option<serde_json::Value>,
    ) -> Rules {
        let source = template.source();
        let given = self.template.chat_template_kwargs.as_ref();
        let quiet = self.output.quiet();
        let format = ReplyFormat::detect(source, tools.as_ref(), self.reasoning.form());
        if tools.is_some() && !quiet {
            if !source.contains("tools") {
                say!(
                    "note: the chat template shows no tools to the model; --tools changes nothing"
                );
            } else if format.family().is_empty() {
                say!(
                    "note: how this template has functions called is not known; calls stay in the text"
                );
            }
        }
        if self.reasoning.budget().is_some() && !Reasoning::is_shown(source) && !quiet {
            say!(
                "note: the chat template shows no reasoning; --reasoning-budget counts only what the model puts between {} and {}",
                format.reasoning().start,
                format.reasoning().end
            );
        }
        let message = &self.reasoning.reasoning_budget_message;
        let variables = self.reasoning.variables(given, source, quiet);
        Rules {
            is_thinking_off: self.reasoning.is_off(&variables),
            variables,
            format: Some(format).filter(|_| !self.template.skip_chat_parsing),
            budget: self.reasoning.budget().map(|n| (n, message.clone())),
            history: self.chat.history.clone(),
            parse_special: self.chat.parse_special,
            multiline: self.chat.multiline_input,
            simple_io: self.chat.simple_io,
            template,
            origin,
            tools,
        }
    }

    fn mode(&self, reference: Option<&str>, has_template: bool, has_prompt: bool) -> Mode {
        let asked = self.is_asked_to_chat(reference);
        if self.is_plain() {
            return Mode::Completion;
        }
        if !(asked || has_template) {
            if !self.output.quiet() {
                self.note_without_chat("a model without a chat template");
            }
            return Mode::Completion;
        }
        // A prompt without anybody there to go on ends after the answer.
        let goes_on = self.chat.conversation || self.answer.is_interactive();
        let alone = has_prompt && !goes_on && !std::io::stdin().is_terminal();
        Mode::Chat {
            single: self.chat.single_turn || alone,
        }
    }
}
