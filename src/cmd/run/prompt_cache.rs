//! Saved sessions: what was computed of a prompt is kept in a file.

use std::fs::File;
use std::io::{self, BufReader, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use gristmill_engine::reply::Reply;
use gristmill_engine::{Answer, GenerateOptions, Limit, Session, StopReason};
use gristmill_gguf::{OutputFile, WriteOptions, check_target};

use super::output::{self, Budget, OutputFlags};
use super::show::Show;
use crate::interrupt;

#[derive(clap::Args)]
#[command(next_help_heading = "Saved session")]
pub struct PromptCacheFlags {
    /// Take what was computed of the prompt from this file, and keep it there; where the file does not hold the whole prompt,
    /// this prompt takes the place of what it holds
    #[arg(long, value_name = "FILE")]
    prompt_cache: Option<PathBuf>,
    /// Keep what is said and answered too, in place of what the file holds
    #[arg(long)]
    prompt_cache_all: bool,
    /// Take it from the file, but leave the file as it is
    #[arg(long)]
    prompt_cache_ro: bool,
}

/// The file of a session, if there is one.
#[derive(Default)]
pub struct PromptCache {
    path: Option<PathBuf>,
    keeps_all: bool,
    /// Tokens of the file, until it is told how many of them the first prompt begins with.
    n_loaded: Option<usize>,
    /// Whether the first prompt is still to be kept.
    keeps_prompt: bool,
    /// The model's files, which are never written over.
    inputs: Vec<PathBuf>,
    /// What the file had at the start, until it is written, where it is to be told what of that goes.
    found: Option<Vec<u32>>,
}

impl PromptCacheFlags {
    /// Says what has no effect.
    pub fn note(&self) {
        let alone = self.prompt_cache.is_none();
        for (flag, given) in [
            ("--prompt-cache-all", self.prompt_cache_all),
            ("--prompt-cache-ro", self.prompt_cache_ro),
        ] {
            if alone && given {
                say!("note: {flag} changes nothing without --prompt-cache");
            }
        }
    }

    /// Whether there is a file, which may hold a text to go on with.
    pub fn is_given(&self) -> bool {
        self.prompt_cache.is_some()
    }

    /// The file that is written.
    pub fn written(&self) -> Option<&Path> {
        self.prompt_cache
            .as_deref()
            .filter(|_| !self.prompt_cache_ro)
    }

    /// Loads the session from the file, if that is there.
    ///
    /// # Errors
    /// A file that is no session of this model, or a place that none can be written to.
    pub fn load(&self, session: &mut Session, quiet: bool) -> anyhow::Result<PromptCache> {
        let Some(path) = &self.prompt_cache else {
            return Ok(PromptCache::default());
        };
        let writes = !self.prompt_cache_ro;
        let shards = session.context().model().file().shards().iter();
        let mut cache = PromptCache {
            path: Some(path.clone()),
            n_loaded: None,
            keeps_all: writes && self.prompt_cache_all,
            keeps_prompt: writes,
            inputs: shards.map(|shard| shard.path().to_owned()).collect(),
            found: None,
        };
        if writes {
            check_target(path, &cache.write_options())?;
        }
        let n_tokens = load(path, session).with_context(|| path.display().to_string())?;
        if !quiet {
            cache.found = n_tokens.map(|_| session.tokens().to_vec());
            cache.n_loaded = n_tokens;
            match n_tokens {
                Some(n) => say!("saved session: {n} tokens from {}", path.display()),
                None if writes => say!("saved session: {} is new", path.display()),
                None => say!(
                    "note: {} is not there, and nothing is saved",
                    path.display()
                ),
            }
        }
        Ok(cache)
    }
}

/// The number of tokens loaded; none where there is no file, or an empty one.
fn load(path: &Path, session: &mut Session) -> anyhow::Result<Option<usize>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.context("cannot open the saved session")?,
    };
    if file.metadata().is_ok_and(|about| about.len() == 0) {
        return Ok(None);
    }
    Ok(Some(session.load(&mut BufReader::new(file))?))
}

impl PromptCache {
    fn write_options(&self) -> WriteOptions {
        WriteOptions {
            force: true,
            through_links: true,
            inputs: self.inputs.clone(),
            ..WriteOptions::default()
        }
    }

    /// As [`output::generate`], and keeps the prompt before the answer begins, or all behind it.
    #[expect(clippy::too_many_arguments, reason = "those of `output::generate`")]
    pub fn generate(
        &mut self,
        session: &mut Session,
        prompt: &[u32],
        options: &GenerateOptions,
        budget: Option<&Budget>,
        show: Show,
        listener: &interrupt::Listener,
        output: &OutputFlags,
    ) -> anyhow::Result<(Answer, Reply)> {
        if let Some(n) = self.n_loaded.take() {
            say!(
                "saved session: {} of {n} tokens used",
                session.n_known(prompt)
            );
        }
        let mut of_prompt = None;
        let is_new = session.n_known(prompt) < prompt.len();
        if std::mem::take(&mut self.keeps_prompt) && is_new && !prompt.is_empty() {
            session.check(prompt, options)?;
            let only = GenerateOptions {
                limit: Limit::Tokens(0),
                ..options.clone()
            };
            let nothing = output.show(None);
            let (computed, reply) =
                output::generate(session, prompt, &only, None, nothing, listener, output)?;
            if computed.reason == StopReason::Interrupted {
                return Ok((computed, reply));
            }
            self.save(session)?;
            of_prompt = Some(computed.timings);
        }
        let (mut answer, reply) =
            output::generate(session, prompt, options, budget, show, listener, output)?;
        if let Some(timings) = of_prompt {
            (answer.timings.n_prompt, answer.timings.prompt) = (timings.n_prompt, timings.prompt);
        }
        if self.keeps_all {
            self.save(session)?;
        }
        Ok((answer, reply))
    }

    /// Writes the session to its file, whole or not at all.
    fn save(&mut self, session: &Session) -> anyhow::Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        if let Some(found) = self.found.take() {
            let (n_known, n, shown) = (session.n_known(&found), found.len(), path.display());
            if n_known < n {
                say!(
                    "note: {shown} has {n} tokens, of which the first {n_known} are of this prompt; the others are replaced (--prompt-cache-ro keeps them)"
                );
            }
        }
        let mut file = OutputFile::create(path, 0, &self.write_options())?;
        let saved = session.save(&mut file).map_err(anyhow::Error::from);
        let flushed = saved.and_then(|()| Ok(file.flush()?));
        flushed.with_context(|| path.display().to_string())?;
        Ok(file.commit()?)
    }
}
