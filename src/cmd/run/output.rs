//! What a run shows.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use gristmill_engine::reply::{Reply, ReplyParser};
use gristmill_engine::{
    Answer, DraftCounts, EngineError, GenerateOptions, Keep, Limit, Listener, LoadReport, Session,
    Step, StopReason, Timings,
};
use gristmill_gguf::{Error, WriteOptions, check_target};
use gristmill_tokenizer::Tokenizer;
use serde_json::json;

use super::outputs;
use super::show::{Show, Thoughts};
use crate::display::printable;
use crate::failure::Hint;
use crate::interrupt;
use crate::memory;
use crate::numbers;
use crate::progress::PromptBar;
use crate::stdout;

#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
pub struct OutputFlags {
    /// Do not repeat the prompt before its continuation
    #[arg(long, overrides_with = "display_prompt")]
    no_display_prompt: bool,
    /// Repeat it: the default
    #[arg(long, overrides_with = "no_display_prompt")]
    display_prompt: bool,
    /// Text as it comes, or one JSON object per answer with ids, log probabilities and timings
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    output_format: OutputFormat,
    /// The same as --output-format json
    #[arg(long)]
    json: bool,
    /// Write the answers to a new file too
    #[arg(long, short, visible_alias = "output-file", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Note the N most probable tokens of each step (with --output-format json); 0 leaves out the tokens too, which are noted
    /// without this flag
    #[arg(long, visible_alias = "logprobs", value_name = "N", value_parser = numbers::count(0..=i32::MAX as usize))]
    n_probs: Option<usize>,
    /// Probabilities as the sampling stages leave them, not the model's own (with --output-format json)
    #[arg(long)]
    post_sampling_probs: bool,
    /// Whether to show the speed after each answer
    #[arg(long, value_name = "on|off", default_value = "on", num_args = 0..=1, default_missing_value = "on", overrides_with = "no_show_timings")]
    show_timings: Switch,
    /// Do not show it
    #[arg(long, overrides_with = "show_timings")]
    no_show_timings: bool,
    /// Faint reasoning and a coloured prompt; `auto` where standard output is a terminal and NO_COLOR is not set
    #[arg(long, value_name = "on|off|auto", default_value = "auto", num_args = 0..=1, default_missing_value = "on")]
    color: Color,
    /// Tell every prompt, as text and as tokens
    #[arg(long)]
    verbose_prompt: bool,
    /// Tell more: every prompt as tokens, the types of tensors, and how much memory it took
    #[arg(long, short, visible_alias = "log-verbose")]
    verbose: bool,
    /// How much to tell: 0 and 1 errors alone, 2 and 3 what is usual, 4 and more as --verbose
    #[arg(long, visible_alias = "log-verbosity", value_name = "N", default_value_t = 3, value_parser = numbers::whole(0..=i64::from(i32::MAX)))]
    verbosity: i64,
    /// Show nothing but answers and errors
    #[arg(long)]
    log_disable: bool,
    /// Write what is told to a file too
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,
    /// Whether an answer is in the file of answers.
    #[arg(skip)]
    is_begun: Cell<bool>,
}

/// Whether a file is there that begins as a GGUF file does.
fn is_gguf(path: &Path) -> bool {
    let mut start = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && matches!(&start, b"GGUF" | b"UNDO")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Color {
    On,
    Off,
    Auto,
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
        self.log_disable || self.verbosity < 2
    }

    /// Opens the file that messages go to; that of the answers is made for the first one, so that a failure leaves none.
    ///
    /// # Errors
    /// Files that cannot be written, or that are something else.
    pub fn open(&self) -> anyhow::Result<()> {
        if let Some(path) = &self.output {
            outputs::check(path)?;
            check_target(path, &WriteOptions::default()).map_err(|error| {
                // There is no `--force` here.
                let hint = matches!(error, Error::OutputExists { .. })
                    .then(|| Hint::new("name another file for the answers, or remove this one"));
                let error = anyhow::Error::new(error);
                match hint {
                    Some(hint) => error.context(hint),
                    None => error,
                }
            })?;
        }
        if let Some(path) = &self.log_file {
            outputs::check(path)?;
            if is_gguf(path) {
                return Err(anyhow::anyhow!(
                    "{}: is a GGUF file, and messages would replace it",
                    path.display()
                )
                .context(Hint::new("write them to another file")));
            }
            let file = File::create(path)
                .with_context(|| format!("{}: cannot write messages to it", path.display()))?;
            crate::say::also_to(file);
        }
        Ok(())
    }

    fn has_color(&self) -> bool {
        match self.color {
            Color::On => true,
            Color::Off => false,
            Color::Auto => stdout::is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        }
    }

    /// A place to show an answer.
    pub fn show(&self, parser: Option<ReplyParser>) -> Show {
        let thoughts = match (self.has_color(), stdout::is_terminal()) {
            (true, _) => Thoughts::Faint,
            (false, true) => Thoughts::Framed,
            (false, false) if self.quiet() => Thoughts::Hidden,
            (false, false) => Thoughts::Apart,
        };
        Show::new(parser, thoughts, !self.is_json())
    }

    /// Says what has no effect.
    pub fn note(&self) {
        for (flag, is_given) in [
            ("--n-probs", self.n_probs.is_some()),
            ("--post-sampling-probs", self.post_sampling_probs),
        ] {
            if is_given && !self.is_json() {
                say!("note: {flag} changes nothing without --output-format json");
            }
        }
    }

    pub fn verbose(&self) -> bool {
        self.verbose || self.verbosity > 3
    }

    pub fn is_json(&self) -> bool {
        self.json || self.output_format == OutputFormat::Json
    }

    /// Options with what the engine has to note.
    pub fn noting(&self, options: GenerateOptions) -> GenerateOptions {
        GenerateOptions {
            n_probabilities: match self.is_json() {
                true => self.n_probs.unwrap_or(1),
                false => 0,
            },
            post_sampling: self.post_sampling_probs,
            ..options
        }
    }

    /// Shows the prompt before its continuation, and its tokens where more is asked for.
    pub fn show_prompt(&self, prompt: &[u8], ids: &[u32], tokenizer: &Tokenizer) -> io::Result<()> {
        self.tell_prompt(&String::from_utf8_lossy(prompt), ids, tokenizer);
        if self.no_display_prompt || self.is_json() {
            return Ok(());
        }
        let mut out = stdout::stream();
        let (before, behind) = match self.has_color() {
            true => ("\u{1b}[33m", "\u{1b}[0m"),
            false => ("", ""),
        };
        out.write_all(before.as_bytes())?;
        out.write_all(prompt)?;
        out.write_all(behind.as_bytes())?;
        out.flush()
    }

    /// Tells a prompt as text and tokens, where more is asked for.
    pub fn tell_prompt(&self, text: &str, ids: &[u32], tokenizer: &Tokenizer) {
        if self.verbose_prompt {
            say!("prompt: {text:?}");
        }
        if self.verbose_prompt || (self.verbose() && !self.quiet()) {
            say!("prompt: {} tokens", ids.len());
            for &id in ids {
                say!(
                    "{id:>8} {:?}",
                    String::from_utf8_lossy(tokenizer.piece(id, true))
                );
            }
        }
    }

    /// The steps of an answer, under the names of the reference's server.
    fn steps(&self, answer: &Answer, tokenizer: &Tokenizer) -> Vec<serde_json::Value> {
        let (of_token, of_all) = match self.post_sampling_probs {
            true => ("prob", "top_probs"),
            false => ("logprob", "top_logprobs"),
        };
        let token = |id: u32, log_probability: f32| {
            let bytes = tokenizer.piece(id, true);
            let number = match self.post_sampling_probs {
                true => log_probability.exp(),
                false => log_probability,
            };
            json!({"id": id, "token": String::from_utf8_lossy(bytes), "bytes": bytes, of_token: number})
        };
        let steps = answer.steps.iter().map(|step| {
            let top = step.top.iter().take(self.n_probs.unwrap_or(0));
            let top = top.map(|found| token(found.id, found.log_probability));
            let mut shown = token(step.id, step.log_probability);
            shown[of_all] = top.collect();
            shown
        });
        steps.collect()
    }

    /// Ends an answer: a newline and the speed, or the JSON object.
    pub fn finish(
        &self,
        (answer, reply): &(Answer, Reply),
        prompt: &[u32],
        tokenizer: &Tokenizer,
    ) -> anyhow::Result<()> {
        let mut out = stdout::stream();
        let line = match self.is_json() {
            true => {
                let mut shown = object(answer, reply, prompt);
                if self.n_probs != Some(0) {
                    shown["completion_probabilities"] = self.steps(answer, tokenizer).into();
                }
                shown.to_string()
            }
            false => String::new(),
        };
        writeln!(out, "{line}")?;
        out.flush()?;
        if let Some(path) = &self.output {
            let text = if self.is_json() {
                &line
            } else {
                &reply.content
            };
            let is_first = !self.is_begun.replace(true);
            let file = File::options().append(true).create_new(is_first).open(path);
            file.and_then(|mut file| writeln!(file, "{text}"))
                .with_context(|| format!("{}: cannot write the answer", path.display()))?;
        }
        let shows = self.show_timings == Switch::On && !self.no_show_timings;
        if shows && !self.quiet() {
            let timings = &answer.timings;
            say!(
                "[ Prompt: {:.1} t/s | Generation: {:.1} t/s | {}{} + {} tokens, seed {}, ended by {} ]",
                timings.prompt_per_second(),
                timings.decode_per_second(),
                timings.drafts.as_ref().map_or(String::new(), drafted),
                timings.n_prompt,
                answer.ids.len(),
                answer.seed,
                ending(&answer.reason),
            );
        }
        Ok(())
    }
}

/// What came of drafts, in words.
fn drafted(drafts: &DraftCounts) -> String {
    let (n_accepted, n_drafted) = (drafts.n_accepted, drafts.n_drafted);
    let percent = drafts.acceptance() * 100.0;
    let seconds = drafts.time.as_secs_f64();
    format!(
        "Drafts: {n_accepted} of {n_drafted} tokens accepted ({percent:.0}%), made in {seconds:.2} s | "
    )
}

/// What ended an answer, in words.
fn ending(reason: &StopReason) -> &'static str {
    match reason {
        StopReason::EndOfGeneration(_) => "the model",
        StopReason::StopString(_) => "a stop string",
        StopReason::ConstraintComplete => "the constraint, which is complete",
        StopReason::Limit => "the limit of tokens",
        StopReason::ContextFull => "the full context",
        StopReason::Interrupted => "an interrupt",
        _ => "an unknown cause",
    }
}

fn object(answer: &Answer, reply: &Reply, prompt: &[u32]) -> serde_json::Value {
    let calls = reply.calls.iter().map(|call| {
        let function = json!({"name": call.name, "arguments": call.arguments});
        json!({"id": call.id, "type": "function", "function": function})
    });
    json!({
        "text": answer.text,
        "content": reply.content,
        "reasoning": reply.reasoning,
        "tool_calls": calls.collect::<Vec<_>>(),
        "ids": answer.ids,
        "prompt_ids": prompt,
        "stop": answer.reason.word(),
        "seed": answer.seed,
        "timings": times(answer),
    })
}

/// Times under the names of the reference's server, which has those of drafts where there is a drafter. As there, the answer's
/// first token counts, which the prompt's time gave; the rate is that of those behind it.
fn times(answer: &Answer) -> serde_json::Value {
    let timings = &answer.timings;
    let mut times = json!({
        "prompt_n": timings.n_prompt,
        "prompt_ms": timings.prompt.as_secs_f64() * 1e3,
        "prompt_per_second": timings.prompt_per_second(),
        "predicted_n": answer.ids.len(),
        "predicted_ms": timings.decode.as_secs_f64() * 1e3,
        "predicted_per_second": timings.decode_per_second(),
    });
    if let Some(drafts) = &timings.drafts {
        times["draft_n"] = drafts.n_drafted.into();
        times["draft_n_accepted"] = drafts.n_accepted.into();
        times["draft_ms"] = (drafts.time.as_secs_f64() * 1e3).into();
    }
    times
}

/// The most reasoning that is waited for.
pub struct Budget {
    /// Tokens of it.
    pub n_tokens: usize,
    /// What ends it then.
    pub text: String,
    /// The same as tokens.
    pub ids: Vec<u32>,
}

/// Generates an answer and shows it as it comes, unless it will be one JSON object. Ctrl-C stops it. Reasoning beyond the
/// budget is ended, and the answer goes on behind it.
pub fn generate(
    session: &mut Session,
    prompt: &[u32],
    options: &GenerateOptions,
    budget: Option<&Budget>,
    mut show: Show,
    listener: &interrupt::Listener,
    output: &OutputFlags,
) -> anyhow::Result<(Answer, Reply)> {
    let path = session.context().model().file().path().to_owned();
    let failed = |error| super::of_model(error, &path);
    let mut ids = prompt.to_vec();
    let mut options = options.clone();
    let mut budget = budget;
    let mut before: Option<Answer> = None;
    loop {
        let n_tokens = budget.map_or(usize::MAX, |budget| budget.n_tokens);
        let is_spent = |show: &Show| show.is_thinking() && show.n_thoughts() >= n_tokens;
        let part = match is_spent(&show) {
            true => {
                session.check(&ids, &options).map_err(failed)?;
                None
            }
            false => {
                let stops =
                    |show: &Show| listener.interrupted() || show.has_failed() || is_spent(show);
                let part = step(session, &ids, &options, &mut show, &stops, output);
                tell_draft_failures(session, output);
                Some(part.map_err(|error| super::of_adapted(error, &path, session.adapters()))?)
            }
        };
        let is_stopped = part
            .as_ref()
            .is_none_or(|part| part.reason == StopReason::Interrupted);
        if let Some(part) = &part {
            // What follows is of the seed that is told.
            options.sampling.seed = part.seed;
            follow(session, &mut ids, &mut options.context_shift, &part.ids);
            if let Limit::Tokens(n) = &mut options.limit {
                *n = n.saturating_sub(part.ids.len());
            }
        }
        before = joined(before, part);
        let ended = budget.take_if(|_| is_stopped && is_spent(&show) && !listener.interrupted());
        let Some(ended) = ended else { break };
        show.feed(&ended.text);
        ids.extend(&ended.ids);
        // A form that waited for the end of the reasoning starts here.
        options.constraint_after = None;
        let mut forced = forced(ended, &options);
        let is_full = !has_room(session, &mut ids, &options).map_err(failed)?;
        if is_full {
            forced.reason = StopReason::ContextFull;
        }
        before = joined(before, Some(forced));
        if is_full {
            break;
        }
    }
    show.finish();
    let reply = show.into_reply()?;
    // The loop ends behind a part.
    let answer = before.ok_or_else(|| anyhow::anyhow!("nothing was generated"))?;
    Ok((answer, reply))
}

/// Says which drafters failed: the answer is the same without them, and slower.
fn tell_draft_failures(session: &mut Session, output: &OutputFlags) {
    for failure in session.take_draft_failures() {
        if !output.quiet() {
            say!("warning: {failure}");
            failure.hint().iter().for_each(|hint| say!("hint: {hint}"));
        }
    }
}

/// Adds an answer to a text. Where the context was shifted, the text is what is left in it; and what is kept of a prompt is
/// that of the first one.
pub fn follow(session: &Session, ids: &mut Vec<u32>, shift: &mut Option<Keep>, answer: &[u32]) {
    let Some(keep) = shift else {
        return ids.extend(answer);
    };
    let bos = session.context().model().tokenizer().bos();
    let has_bos = bos.is_some() && ids.first().copied() == bos;
    let n_prompt = ids.len() - usize::from(has_bos);
    *keep = Keep::Tokens(match *keep {
        Keep::Prompt => n_prompt,
        Keep::Tokens(n) => n.min(n_prompt),
    });
    if let Some(&last) = answer.last() {
        // The last token is picked, and not computed yet.
        *ids = session.tokens().to_vec();
        ids.push(last);
    }
}

/// What ends the reasoning, as a part of the answer. It is not the model's and does not count for the limit; nothing was picked,
/// so its steps have no probability.
fn forced(ended: &Budget, options: &GenerateOptions) -> Answer {
    let noted = ended.ids.iter().filter(|_| options.n_probabilities > 0);
    let steps = noted.map(|&id| Step {
        id,
        log_probability: f32::NAN,
        top: Vec::new(),
    });
    Answer {
        ids: ended.ids.clone(),
        text: ended.text.clone(),
        reason: StopReason::Limit,
        seed: options.sampling.seed,
        steps: steps.collect(),
        timings: Timings::default(),
    }
}

/// Whether a text with what ends its reasoning leaves a place for what follows, once the context is shifted where it may be.
fn has_room(
    session: &mut Session,
    ids: &mut Vec<u32>,
    options: &GenerateOptions,
) -> Result<bool, EngineError> {
    let keep = options.context_shift;
    if let Some(keep) = keep.filter(|_| options.limit != Limit::Context) {
        session.shift(ids, keep)?;
    }
    Ok(ids.len() < session.context().n_ctx())
}

/// One answer, or its part behind another.
fn joined(before: Option<Answer>, part: Option<Answer>) -> Option<Answer> {
    match (before, part) {
        (Some(mut before), Some(part)) => {
            before.ids.extend(part.ids);
            before.text.push_str(&part.text);
            before.steps.extend(part.steps);
            before.reason = part.reason;
            before.seed = part.seed;
            before.timings += part.timings;
            Some(before)
        }
        (before, part) => part.or(before),
    }
}

/// Generates until the model, or `stops`, ends it.
fn step(
    session: &mut Session,
    prompt: &[u32],
    options: &GenerateOptions,
    show: &mut Show,
    stops: &dyn Fn(&Show) -> bool,
    output: &OutputFlags,
) -> Result<Answer, EngineError> {
    let show = RefCell::new(show);
    let mut bar = None;
    let mut on_prompt = |n_computed: usize, n: usize| {
        if n_computed == n || output.quiet() {
            bar = None;
        } else {
            bar.get_or_insert_with(|| PromptBar::new(n)).set(n_computed);
        }
    };
    session.generate(
        prompt,
        options,
        &mut Listener {
            on_text: &mut |text| show.borrow_mut().take(text),
            on_step: &mut |_| {},
            on_prompt: &mut on_prompt,
            interrupted: &|| stops(&show.borrow()),
        },
    )
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
        "buffers: weights {:.1} MiB {}, KV cache {:.1} MiB, compute {:.1} MiB",
        mib(report.weight_bytes),
        if report.is_mapped { "mapped" } else { "read" },
        mib(report.cache_bytes),
        mib(report.compute_bytes)
    );
    let template = if report.has_template {
        "in the file"
    } else {
        "none"
    };
    say!("tokenizer: {}; chat template: {template}", report.tokenizer);
    report_machine(report);
    if report.n_ctx > report.n_context_train {
        say!("warning: the context is longer than the model was trained on");
    }
    if verbose {
        for (name, n, bytes) in &report.types {
            say!("type {name}: {n} tensors, {:.1} MiB", mib(*bytes));
        }
    }
}

/// Tells on standard error how much memory it took, where more is asked for.
pub fn report_peak(output: &OutputFlags) {
    if let Some(usage) = memory::usage().filter(|_| output.verbose() && !output.quiet()) {
        let mib = usage.peak as f64 / f64::from(1 << 20);
        say!("memory: {mib:.1} MiB resident at most, files and anonymous");
    }
}

/// What the process holds of the machine.
fn report_machine(report: &LoadReport) {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    if let Some(usage) = memory::usage() {
        say!(
            "memory: {:.1} MiB of files resident, {:.1} MiB anonymous, {:.1} MiB locked",
            mib(usage.files),
            mib(usage.anonymous),
            mib(usage.locked)
        );
    }
    let for_prompts = match report.n_threads_batch {
        n if n == report.n_threads => String::new(),
        n => format!(", {n} for prompts"),
    };
    say!(
        "backend: {} ({}), {} threads{for_prompts}",
        report.backend,
        report.isa,
        report.n_threads
    );
}
