//! `perplexity`: how well a model foretells a text, alone or beside its base.

mod output;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use gristmill_engine::{CONTEXT_MAX, Model};
use gristmill_gguf::WriteOptions;
use gristmill_measure::MeasureError;
use gristmill_measure::perplexity::{
    LogitsReader, LogitsWriter, N_CTX_MIN, Options, divergence, n_chunks_of, perplexity,
};
use gristmill_tokenizer::EncodeOptions;
use indicatif::ProgressBar;

use super::run::placing::PlacingFlags;
use super::run::rope::RopeFlags;
use super::run::{flags, input, of_model, outputs};
use super::{Invocation, Run};
use crate::adapters::AdapterFlags;
use crate::failure::Hint;
use crate::gpu::GpuFlags;
use crate::model_path::ModelPath;
use crate::{numbers, progress, stdout};
use output::{Rows, Subject};

/// Tokens of a window, where nobody says otherwise.
const N_CTX: usize = 512;

/// Arguments of `perplexity`.
#[derive(clap::Args)]
pub struct Perplexity {
    #[command(flatten)]
    model: ModelPath,
    #[command(flatten)]
    prompt: flags::PromptFlags,
    /// Tokens of a window [default: 512, or as in the file of --kl-divergence]
    #[arg(long, short, help_heading = "Measure", value_name = "N", value_parser = numbers::count(N_CTX_MIN..=CONTEXT_MAX))]
    ctx_size: Option<usize>,
    /// The most windows; -1 takes as many as the text has
    #[arg(long, help_heading = "Measure", value_name = "N", default_value_t = -1, allow_negative_numbers = true, value_parser = chunks)]
    chunks: i64,
    /// The file of a base model's predictions: written, or read with --kl-divergence
    #[arg(
        long,
        visible_alias = "kl-divergence-base",
        help_heading = "Measure",
        value_name = "FILE"
    )]
    save_all_logits: Option<PathBuf>,
    /// Compare with the predictions that --save-all-logits names; they hold the text, too
    #[arg(
        long,
        help_heading = "Measure",
        requires = "save_all_logits",
        conflicts_with_all = ["prompt", "file_flag", "binary_file", "force", "ppl_output_type"]
    )]
    kl_divergence: bool,
    /// Rows of the running perplexity (0), or with position, mean and error of the negative log-likelihood (1)
    #[arg(long, help_heading = "Measure", value_name = "0|1", default_value_t = 0, value_parser = numbers::whole(0..=1))]
    ppl_output_type: i64,
    /// Replace the file that --save-all-logits names
    #[arg(long, help_heading = "Measure")]
    force: bool,
    /// Print everything as one JSON object
    #[arg(long, help_heading = "Measure")]
    json: bool,
    #[command(flatten)]
    compute: flags::ComputeFlags,
    #[command(flatten)]
    placing: PlacingFlags,
    #[command(flatten)]
    rope: RopeFlags,
    #[command(flatten)]
    adapters: AdapterFlags,
    #[command(flatten)]
    gpu: GpuFlags,
    #[command(flatten)]
    ignored: flags::IgnoredFlags,
}

/// A number of windows; 0 would measure nothing.
fn chunks(text: &str) -> Result<i64, String> {
    match numbers::whole(-1..=i64::from(i32::MAX))(text)? {
        0 => Err("it must be 1 or more, or -1 for all".to_owned()),
        n => Ok(n),
    }
}

impl Run for Perplexity {
    const NAME: &'static str = "perplexity";
    const ABOUT: &'static str =
        "Measure how well a model foretells a text, alone or beside its base";
    const EXAMPLES: &'static str = "gristmill perplexity -m model.gguf -f text.txt
        gristmill perplexity -m base.gguf -f text.txt --save-all-logits base.logits
        gristmill perplexity -m quantized.gguf --save-all-logits base.logits --kl-divergence --json";
    const REFERENCE_NAMES: &'static [&'static str] = &["llama-perplexity"];

    fn more_help() -> String {
        "\n\nThe text is cut into windows that do not overlap. Each begins with the beginning-of-text token where the vocabulary \
         has one, and the predictions of its second half count. Perplexities compare only where text, window and tokenizer are the \
         same. Results are the same for every number of threads and every size of a batch."
            .to_owned()
    }

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        self.gpu.note();
        self.placing.note();
        self.model.fetch()?;
        // A file that cannot be used is told before a model is loaded.
        let base = match (&self.save_all_logits, self.kl_divergence) {
            (Some(path), true) => Some(LogitsReader::open(path)?),
            (Some(path), false) => {
                outputs::check(path)?;
                None
            }
            (None, _) => None,
        };
        let n_ctx = self.n_ctx(base.as_ref())?;
        let path = self.model.path();
        let mut load = self.compute.options();
        load.n_ctx = Some(n_ctx);
        load.rope = self.rope.overrides();
        let text = match &base {
            Some(_) => None,
            None => Some(self.text()?),
        };
        let model = self.placing.load(path, &load)?;
        let warnings = model.tokenizer().warnings();
        warnings
            .iter()
            .for_each(|warning| say!("warning: {warning}"));
        let options = Options {
            n_ctx,
            n_chunks: usize::try_from(self.chunks).ok(),
            adapters: self.adapters.load(&model)?,
            load,
        };
        let result = match (base, text) {
            (Some(base), _) => self.compare(&model, base, &options),
            (None, text) => self.measure(&model, &text.unwrap_or_default(), &options),
        };
        result.map_err(|error| match error.downcast::<MeasureError>() {
            Ok(MeasureError::Engine(error)) => of_model(error, path),
            Ok(error @ (MeasureError::NotNumbers { .. } | MeasureError::TextTooShort { .. })) => {
                anyhow::Error::new(error).context(path.display().to_string())
            }
            Ok(error) => error.into(),
            Err(error) => error,
        })
    }
}

impl Perplexity {
    fn n_ctx(&self, base: Option<&LogitsReader>) -> anyhow::Result<usize> {
        match (base, self.ctx_size) {
            (Some(base), Some(asked)) if asked != base.n_ctx() => Err(anyhow::anyhow!(
                "{}: was made with windows of {} tokens, and --ctx-size asks for {asked}",
                base.path().display(),
                base.n_ctx()
            )
            .context(Hint::new(
                "leave --ctx-size out, or save the predictions again",
            ))),
            (Some(base), _) => Ok(base.n_ctx()),
            (None, asked) => Ok(asked.unwrap_or(N_CTX)),
        }
    }

    fn text(&self) -> anyhow::Result<Vec<u8>> {
        let none = || {
            anyhow::anyhow!("there is no text to foretell")
                .context(Hint::new("give one with -f or -p, or through a pipe"))
        };
        match self.prompt.read(self.prompt.escapes(false))? {
            Some(text) => Ok(text),
            None => input::piped()?.ok_or_else(none),
        }
    }

    fn measure(&self, model: &Arc<Model>, text: &[u8], options: &Options) -> anyhow::Result<()> {
        let ids = model.tokenizer().encode(
            text,
            EncodeOptions {
                add_special: true,
                ..EncodeOptions::default()
            },
        );
        let n_chunks = n_chunks_of(ids.len(), options)?;
        let subject = self.subject(model, options.n_ctx, n_chunks);
        subject.tell();
        let mut writer = match &self.save_all_logits {
            Some(path) => {
                let measured = &ids[..n_chunks * options.n_ctx];
                Some(self.writer(path, model, measured, options)?)
            }
            None => None,
        };
        let mut rows = Rows::new(self.json, self.ppl_output_type == 1);
        let mut clock = Clock::new(n_chunks, self.json);
        let found = perplexity(model, &ids, options, writer.as_mut(), &mut |progress| {
            clock.tick(progress.n_done);
            rows.perplexity(&progress, options.n_ctx)
                .map_err(MeasureError::Output)
        })?;
        clock.end();
        if let Some(writer) = writer {
            writer.finish()?;
        }
        rows.end_of_perplexity(&subject, &found)?;
        Ok(())
    }

    fn writer(
        &self,
        path: &std::path::Path,
        model: &Model,
        ids: &[u32],
        options: &Options,
    ) -> anyhow::Result<LogitsWriter> {
        let shards = model.file().shards().iter();
        let inputs: Vec<PathBuf> = shards.map(|shard| shard.path().to_owned()).collect();
        let write = WriteOptions {
            force: self.force,
            inputs,
            ..WriteOptions::default()
        };
        let n_vocab = model.n_vocab();
        Ok(LogitsWriter::create(
            path,
            ids,
            options.n_ctx,
            n_vocab,
            &write,
        )?)
    }

    fn compare(
        &self,
        model: &Arc<Model>,
        mut base: LogitsReader,
        options: &Options,
    ) -> anyhow::Result<()> {
        let n_chunks = options.n_chunks.unwrap_or(usize::MAX).min(base.n_chunks());
        if options.n_chunks.is_some_and(|asked| asked > n_chunks) {
            say!(
                "note: {} holds {n_chunks} windows; all of them are compared",
                base.path().display()
            );
        }
        let subject = self.subject(model, options.n_ctx, n_chunks);
        subject.tell();
        let mut rows = Rows::new(self.json, false);
        let mut clock = Clock::new(n_chunks, self.json);
        let found = divergence(model, &mut base, options, &mut |progress| {
            clock.tick(progress.n_done);
            rows.divergence(&progress).map_err(MeasureError::Output)
        })?;
        clock.end();
        rows.end_of_divergence(&subject, &found)?;
        Ok(())
    }

    fn subject(&self, model: &Model, n_ctx: usize, n_chunks: usize) -> Subject {
        let tokenizer = model.tokenizer();
        Subject {
            model: self.model.path().to_owned(),
            tokenizer: tokenizer.kind(),
            pre_tokenizer: tokenizer.pre_tokenizer(),
            adds_bos: tokenizer.add_bos(),
            n_ctx,
            n_chunks,
        }
    }
}

/// Tells how long it takes: once in a line, or by a bar where the terminal shows no rows.
struct Clock {
    started: Instant,
    n_chunks: usize,
    bar: Option<ProgressBar>,
}

impl Clock {
    fn new(n_chunks: usize, json: bool) -> Clock {
        let has_bar = json || !stdout::is_terminal();
        Clock {
            started: Instant::now(),
            n_chunks,
            bar: has_bar.then(|| progress::windows(n_chunks)),
        }
    }

    fn tick(&mut self, n_done: usize) {
        match &self.bar {
            Some(bar) => bar.set_position(n_done as u64),
            None if n_done == 1 => {
                let seconds = self.started.elapsed().as_secs_f64();
                let minutes = seconds * self.n_chunks as f64 / 60.0;
                say!("{seconds:.2} seconds per step, about {minutes:.2} minutes in all");
            }
            None => {}
        }
    }

    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
