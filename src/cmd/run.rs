//! `run`: continue a text, or chat.

mod chat;
mod command;
pub(super) mod flags;
pub(super) mod input;
mod output;
mod sampling;

use std::io::IsTerminal as _;
use std::sync::Arc;

use anyhow::Context as _;
use gristmill_engine::chat::{ChatTemplate, builtin};
use gristmill_engine::sampling::ModelSampling;
use gristmill_engine::{
    EngineError, GenerateOptions, LoadOptions, LoadReport, Model, Session, raw_prompt,
};

use super::{Invocation, Run as Command};
use crate::failure::Hint;
use crate::gpu::GpuFlags;
use crate::interrupt;
use crate::memory;
use crate::model_path::ModelPath;

/// Arguments of `run`.
#[derive(clap::Args)]
pub struct Run {
    #[command(flatten)]
    model: ModelPath,
    #[command(flatten)]
    prompt: flags::PromptFlags,
    #[command(flatten)]
    chat: flags::ChatFlags,
    #[command(flatten)]
    answer: flags::AnswerFlags,
    #[command(flatten)]
    sampling: sampling::SamplingFlags,
    #[command(flatten)]
    load: flags::LoadFlags,
    #[command(flatten)]
    output: output::OutputFlags,
    #[command(flatten)]
    gpu: GpuFlags,
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
        gristmill run -hf ggml-org/gemma-3-270m-it-GGUF:Q8_0";
    const REFERENCE_NAMES: &'static [&'static str] = &["llama-cli", "llama-completion"];

    fn run(self, invocation: &Invocation) -> anyhow::Result<()> {
        let reference = invocation.reference;
        if reference == Some("llama-cli") && self.chat.no_conversation {
            return Err(anyhow::anyhow!(
                "llama-cli only chats: --no-conversation is not supported"
            )
            .context(Hint::new("use llama-completion to continue a text")));
        }
        // What is read from files comes first: loading a model takes time.
        let prompt = self.prompt.read(reference.is_some())?;
        let system = self.chat.system()?;
        let given = self.chat.template_file()?;
        let mut options = self.load.options();
        let quiet = self.output.quiet();
        if !quiet {
            self.chat.note();
            self.gpu.note();
            self.ignored.note();
            self.output.note();
            crate::environment::note();
        }
        self.model.fetch()?;
        let path = self.model.path();
        let model = load(path, &options, quiet)?;
        let answer = self.answer(&model)?;
        let template = match given {
            Some(given) => Some(given),
            None => self.template(&model)?,
        };
        let mode = self.mode(reference, template.is_some(), prompt.is_some());
        memory::fit_context(&model, &mut options)?;
        let session =
            Session::new(model.clone(), &options).map_err(|error| of_model(error, path))?;
        if !quiet {
            output::report(
                &LoadReport::new(session.context(), options.cache),
                self.output.verbose(),
            );
        }
        match (mode, template) {
            (Mode::Completion, _) => complete(session, prompt, &answer, &self.output),
            (Mode::Chat { single }, Some((template, origin))) => {
                let template = (template, origin);
                chat::Chat::new(session, template, &self.chat, answer, &self.output)
                    .instructed(system)
                    .talk(prompt, single)
            }
            (Mode::Chat { .. }, None) => Err(anyhow::anyhow!(
                "{}: the model has no chat template, so it may not be made for chatting",
                path.display()
            )
            .context(Hint::new(
                "name one with --chat-template or --chat-template-file, or continue a text with --no-conversation",
            ))),
        }
    }
}

/// Opens and loads a model; errors name the file once.
pub(super) fn open(path: &std::path::Path, options: &LoadOptions) -> anyhow::Result<Arc<Model>> {
    let file = gristmill_gguf::Model::open(path)?;
    Model::load(file, options).map_err(|error| match error {
        EngineError::Gguf(_) => error.into(),
        error => anyhow::Error::new(error).context(format!("{}: cannot load it", path.display())),
    })
}

/// What went wrong in computing with a model; where the file may be at fault, it is named.
pub(super) fn of_model(error: EngineError, path: &std::path::Path) -> anyhow::Error {
    match error {
        EngineError::BadLogits { .. }
        | EngineError::LogitNotFinite { .. }
        | EngineError::NoCandidates
        | EngineError::Model(_)
        | EngineError::Compute(_) => anyhow::Error::new(error).context(path.display().to_string()),
        error => error.into(),
    }
}

fn load(path: &std::path::Path, options: &LoadOptions, quiet: bool) -> anyhow::Result<Arc<Model>> {
    let model = open(path, options)?;
    if !quiet {
        let warnings = model.tokenizer().warnings().iter();
        warnings.for_each(|warning| say!("warning: {warning}"));
    }
    Ok(model)
}

impl Run {
    /// How to answer: what the flags say, else what the model recommends.
    fn answer(&self, model: &Model) -> anyhow::Result<GenerateOptions> {
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
        let mut answer = self
            .answer
            .options(sampling, self.output.n_probabilities())?;
        let stops = self.chat.reverse_prompt.iter();
        answer.stops.extend(stops.cloned());
        Ok(answer)
    }

    fn mode(&self, reference: Option<&str>, has_template: bool, has_prompt: bool) -> Mode {
        let asked =
            self.chat.conversation || self.chat.single_turn || reference == Some("llama-cli");
        if self.chat.no_conversation || !(asked || has_template) {
            return Mode::Completion;
        }
        // A prompt without anybody there to go on ends after the answer.
        let alone = has_prompt && !self.chat.conversation && !std::io::stdin().is_terminal();
        Mode::Chat {
            single: self.chat.single_turn || alone,
        }
    }

    /// The template to chat with, given by name or as text, else the model's own; and where it comes from.
    fn template(&self, model: &Model) -> anyhow::Result<Option<(ChatTemplate, String)>> {
        if self.chat.no_conversation {
            return Ok(None);
        }
        let compiled = |source: &str, origin: String| {
            let template = ChatTemplate::new(source).with_context(|| origin.clone())?;
            Ok(Some((template, origin)))
        };
        let file = model.file().path().display();
        let Some(given) = &self.chat.chat_template else {
            let own = model.template_source(None);
            return own.map_or(Ok(None), |source| compiled(&source, file.to_string()));
        };
        if let Some(template) = builtin(given) {
            return Ok(Some((template, format!("--chat-template {given}"))));
        }
        if let Some(source) = model.template_source(Some(given)) {
            return compiled(&source, format!("{file}: template {given}"));
        }
        if given.contains('{') {
            return compiled(given, "--chat-template".into());
        }
        let names = gristmill_engine::chat::BUILTIN_TEMPLATES
            .iter()
            .map(|template| template.name);
        let names: Vec<&str> = names.collect();
        Err(
            anyhow::anyhow!("no chat template has the name '{given}'").context(Hint::new(format!(
                "built in are {}; --chat-template-file takes a file",
                names.join(", ")
            ))),
        )
    }
}

/// Continues the prompt, or what comes through a pipe where there is none.
fn complete(
    mut session: Session,
    prompt: Option<Vec<u8>>,
    options: &GenerateOptions,
    output: &output::OutputFlags,
) -> anyhow::Result<()> {
    let none = || {
        anyhow::anyhow!("there is no prompt to continue")
            .context(Hint::new("give one with -p or -f, or through a pipe"))
    };
    let prompt = match prompt {
        Some(prompt) => prompt,
        None => input::piped()?
            .filter(|text| !text.is_empty())
            .ok_or_else(none)?,
    };
    let model = session.context().model().clone();
    session.check_text(prompt.len())?;
    let ids = raw_prompt(model.tokenizer(), &prompt);
    if ids.is_empty() {
        return Err(none());
    }
    session.check(&ids, options)?;
    output.show_prompt(&prompt, &ids, model.tokenizer())?;
    let listener = interrupt::Listener::new();
    let answer = output::generate(&mut session, &ids, options, &listener, output)?;
    output.finish(&answer, &ids, model.tokenizer())?;
    if listener.interrupted() {
        interrupt::leave();
    }
    Ok(())
}
