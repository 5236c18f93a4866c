//! What a run shows.

use std::cell::RefCell;
use std::io::{self, Write as _};

use gristmill_engine::{Answer, GenerateOptions, Listener, LoadReport, Session, StopReason};
use gristmill_tokenizer::Tokenizer;
use serde_json::json;

use crate::display::printable;
use crate::interrupt;
use crate::numbers;
use crate::progress::PromptBar;
use crate::stdout;

#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
pub struct OutputFlags {
    /// Do not repeat the prompt before its continuation
    #[arg(long)]
    no_display_prompt: bool,
    /// Text as it comes, or one JSON object per answer with ids, log probabilities and timings
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    output_format: OutputFormat,
    /// Note the N most probable tokens of each step (with --output-format json)
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = numbers::count(0..=i32::MAX as usize))]
    n_probs: usize,
    /// Whether to show the speed after each answer
    #[arg(long, value_name = "on|off", default_value = "on", num_args = 0..=1, default_missing_value = "on")]
    show_timings: Switch,
    /// Tell more: every prompt as tokens, and the types of tensors
    #[arg(long, short)]
    verbose: bool,
    /// Show nothing but answers and errors
    #[arg(long)]
    log_disable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OutputFormat {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Switch {
    On,
    Off,
}

impl OutputFlags {
    pub fn quiet(&self) -> bool {
        self.log_disable
    }

    /// Says what has no effect.
    pub fn note(&self) {
        if self.n_probs > 0 && !self.is_json() {
            say!("note: --n-probs changes nothing without --output-format json");
        }
    }

    pub fn verbose(&self) -> bool {
        self.verbose
    }

    pub fn is_json(&self) -> bool {
        self.output_format == OutputFormat::Json
    }

    /// How many probabilities the engine has to note.
    pub fn n_probabilities(&self) -> usize {
        match self.output_format {
            OutputFormat::Json => self.n_probs.max(1),
            OutputFormat::Text => 0,
        }
    }

    /// Shows the prompt before its continuation, and its tokens where more is asked for.
    pub fn show_prompt(&self, prompt: &[u8], ids: &[u32], tokenizer: &Tokenizer) -> io::Result<()> {
        self.show_tokens(ids, tokenizer);
        if self.no_display_prompt || self.is_json() {
            return Ok(());
        }
        let mut out = stdout::stream();
        out.write_all(prompt)?;
        out.flush()
    }

    /// Shows the tokens of a prompt, where more is asked for.
    pub fn show_tokens(&self, ids: &[u32], tokenizer: &Tokenizer) {
        if self.verbose && !self.log_disable {
            say!("prompt: {} tokens", ids.len());
            for &id in ids {
                say!(
                    "{id:>8} {:?}",
                    String::from_utf8_lossy(tokenizer.piece(id, true))
                );
            }
        }
    }

    /// Ends an answer: a newline and the speed, or the JSON object.
    pub fn finish(&self, answer: &Answer, prompt: &[u32], tokenizer: &Tokenizer) -> io::Result<()> {
        let mut out = stdout::stream();
        match self.output_format {
            OutputFormat::Json => {
                writeln!(out, "{}", object(answer, prompt, tokenizer, self.n_probs))?
            }
            OutputFormat::Text => writeln!(out)?,
        }
        out.flush()?;
        if self.show_timings == Switch::On && !self.log_disable {
            let timings = &answer.timings;
            say!(
                "[ Prompt: {:.1} t/s | Generation: {:.1} t/s | {} + {} tokens, seed {}, ended by {} ]",
                timings.prompt_per_second(),
                timings.decode_per_second(),
                timings.n_prompt,
                answer.ids.len(),
                answer.seed,
                ending(&answer.reason),
            );
        }
        Ok(())
    }
}

/// What ended an answer, in words.
fn ending(reason: &StopReason) -> &'static str {
    match reason {
        StopReason::EndOfGeneration(_) => "the model",
        StopReason::StopString(_) => "a stop string",
        StopReason::Limit => "the limit of tokens",
        StopReason::ContextFull => "the full context",
        StopReason::Interrupted => "an interrupt",
        _ => "an unknown cause",
    }
}

fn object(
    answer: &Answer,
    prompt: &[u32],
    tokenizer: &Tokenizer,
    n_probabilities: usize,
) -> serde_json::Value {
    let piece = |id: u32| String::from_utf8_lossy(tokenizer.piece(id, true)).into_owned();
    let steps = answer.steps.iter().map(|step| {
        let top = step.top.iter().take(n_probabilities);
        let top: Vec<_> = top
            .map(|token| json!([token.id, token.log_probability]))
            .collect();
        json!({"id": step.id, "piece": piece(step.id), "logprob": step.log_probability, "top": top})
    });
    let timings = &answer.timings;
    json!({
        "text": answer.text,
        "ids": answer.ids,
        "prompt_ids": prompt,
        "stop": answer.reason.word(),
        "seed": answer.seed,
        "steps": steps.collect::<Vec<_>>(),
        "timings": {
            "prompt_n": timings.n_prompt,
            "prompt_ms": timings.prompt.as_secs_f64() * 1e3,
            "prompt_per_second": timings.prompt_per_second(),
            "predicted_n": timings.n_decoded,
            "predicted_ms": timings.decode.as_secs_f64() * 1e3,
            "predicted_per_second": timings.decode_per_second(),
        },
    })
}

/// Generates an answer and streams it to standard output, unless it will be one JSON object. Ctrl-C stops it.
pub fn generate(
    session: &mut Session,
    prompt: &[u32],
    options: &GenerateOptions,
    listener: &interrupt::Listener,
    output: &OutputFlags,
) -> anyhow::Result<Answer> {
    let path = session.context().model().file().path().to_owned();
    // nobody reads on after a failed write, so the answer ends there
    let failure: RefCell<Option<io::Error>> = RefCell::new(None);
    let mut on_text = |text: &str| {
        let mut out = stdout::stream();
        if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            failure.borrow_mut().get_or_insert(error);
        }
    };
    let mut nothing = |_: &str| {};
    let mut bar = None;
    let mut on_prompt = |n_computed: usize, n: usize| {
        if n_computed == n || output.quiet() {
            bar = None;
        } else {
            bar.get_or_insert_with(|| PromptBar::new(n)).set(n_computed);
        }
    };
    let interrupted = || listener.interrupted() || failure.borrow().is_some();
    let answer = session.generate(
        prompt,
        options,
        &mut Listener {
            on_text: if output.is_json() {
                &mut nothing
            } else {
                &mut on_text
            },
            on_prompt: &mut on_prompt,
            interrupted: &interrupted,
        },
    );
    drop(bar);
    let answer = answer.map_err(|error| super::of_model(error, &path))?;
    match failure.into_inner() {
        Some(error) => Err(error.into()),
        None => Ok(answer),
    }
}

/// Tells on standard error what was loaded.
pub fn report(report: &LoadReport, verbose: bool) {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let types: Vec<String> = report
        .types
        .iter()
        .map(|(name, n, _)| format!("{n} {name}"))
        .collect();
    let name = printable(report.name.as_deref().unwrap_or("without a name"));
    let cut = if report.n_ctx < report.n_context_train {
        "cut from"
    } else {
        "trained on"
    };
    say!(
        "model: {name}, {}, {:.1} M parameters",
        report.architecture,
        report.n_parameters as f64 / 1e6
    );
    let recipe = report.recipe.and_then(|recipe| recipe.name);
    say!(
        "file: {:.1} MiB{}, recipe {}: {} tensors",
        mib(report.file_bytes),
        match report.n_shards {
            1 => String::new(),
            n => format!(" in {n} parts"),
        },
        recipe.unwrap_or("not stated"),
        types.join(", ")
    );
    say!(
        "context: {} tokens ({cut} {}), KV cache {}/{} {:.1} MiB",
        report.n_ctx,
        report.n_context_train,
        report.cache.0,
        report.cache.1,
        mib(report.cache_bytes)
    );
    say!(
        "buffers: weights {:.1} MiB mapped, KV cache {:.1} MiB, compute {:.1} MiB",
        mib(report.weight_bytes),
        mib(report.cache_bytes),
        mib(report.compute_bytes)
    );
    let template = if report.has_template {
        "in the file"
    } else {
        "none"
    };
    say!("tokenizer: {}; chat template: {template}", report.tokenizer);
    say!(
        "backend: {} ({}), {} threads",
        report.backend,
        report.isa,
        report.n_threads
    );
    if report.n_ctx > report.n_context_train {
        say!("warning: the context is longer than the model was trained on");
    }
    if verbose {
        for (name, n, bytes) in &report.types {
            say!("type {name}: {n} tensors, {:.1} MiB", mib(*bytes));
        }
    }
}
