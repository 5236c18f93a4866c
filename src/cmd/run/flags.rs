//! Flags, and what they mean to the engine. Names and defaults are the reference's.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gristmill_engine::sampling::SamplingOptions;
use gristmill_engine::{CONTEXT_MAX, CacheTypes, GenerateOptions, Keep, Limit, LoadOptions};
use gristmill_quant::TensorType;

use super::pipe::{self, Beside};
use crate::arithmetic::ArithmeticFlag;
use crate::escapes::unescape;
use crate::numbers::{self, Threads};

#[derive(clap::Args)]
#[command(next_help_heading = "Prompt")]
pub struct PromptFlags {
    /// The text to continue, or the first message of a chat; the text of a pipe goes behind it
    #[arg(long, short, allow_hyphen_values = true, overrides_with_all = ["file_flag", "binary_file"])]
    prompt: Option<String>,
    /// Read the prompt from a file; one newline at its end is dropped
    #[arg(long = "file", short = 'f', id = "file_flag", value_name = "FILE", overrides_with_all = ["prompt", "binary_file"])]
    file: Option<PathBuf>,
    /// Read the prompt from a file, byte for byte
    #[arg(long, value_name = "FILE", overrides_with_all = ["prompt", "file_flag"])]
    binary_file: Option<PathBuf>,
    /// Process escape sequences (\n, \t, …) in --prompt, --system-prompt, --reverse-prompt and what stands around typed text
    #[arg(long, short, overrides_with = "no_escape")]
    escape: bool,
    /// Take backslashes as they are: the default, except under a reference name
    #[arg(long, overrides_with = "escape")]
    no_escape: bool,
}

impl PromptFlags {
    /// Whether escape sequences are processed.
    pub fn escapes(&self, by_default: bool) -> bool {
        self.escape || (by_default && !self.no_escape)
    }

    /// Whether the prompt is given, and what becomes of text from standard input beside it.
    pub fn beside(&self) -> Beside {
        match (&self.prompt, &self.file, &self.binary_file) {
            (_, _, Some(_)) => Beside::Unread,
            (_, Some(file), _) if pipe::is_standard_input(file) => Beside::Nothing,
            (None, None, None) => Beside::Nothing,
            _ => Beside::Behind,
        }
    }

    /// The prompt, if one is given. Files are never unescaped.
    pub fn read(&self, escape: bool) -> anyhow::Result<Option<Vec<u8>>> {
        let read = |path: &PathBuf| {
            std::fs::read(path)
                .with_context(|| format!("{}: cannot read the prompt", path.display()))
        };
        if let Some(path) = &self.file {
            let mut text = read(path)?;
            if text.last() == Some(&b'\n') {
                text.pop();
            }
            return Ok(Some(text));
        }
        if let Some(path) = &self.binary_file {
            return Ok(Some(read(path)?));
        }
        Ok(self.prompt.as_ref().map(|prompt| match escape {
            true => unescape(prompt.as_bytes()),
            false => prompt.clone().into_bytes(),
        }))
    }
}

#[derive(clap::Args)]
#[command(next_help_heading = "Answer")]
pub struct AnswerFlags {
    /// Tokens to generate; -1 for no limit, -2 until the context is full
    #[arg(long = "predict", short = 'n', visible_alias = "n-predict", value_name = "N", default_value_t = -1, value_parser = numbers::whole(-2..=i64::from(i32::MAX)))]
    predict: i64,
    /// When the context is full, drop half of what --keep does not keep and go on
    #[arg(long, overrides_with = "no_context_shift")]
    context_shift: bool,
    /// When the context is full, end the answer: the default
    #[arg(long, overrides_with = "context_shift")]
    no_context_shift: bool,
    /// Tokens of the prompt that a context shift keeps, behind the BOS; -1 for all
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = numbers::whole(-1..=i64::from(i32::MAX)))]
    keep: i64,
    /// Hand over after each answer, to type what follows; without a chat template
    #[arg(long, short)]
    pub interactive: bool,
    /// The same, and begin with what is typed
    #[arg(long)]
    pub interactive_first: bool,
    /// What stands before typed text; it stands in for a chat template
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    in_prefix: Option<String>,
    /// What stands behind it
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    in_suffix: Option<String>,
    /// Begin typed text with the begin-of-sequence token
    #[arg(long)]
    pub in_prefix_bos: bool,
    /// Never end by itself
    #[arg(long)]
    ignore_eos: bool,
    /// Show control tokens in the answer
    #[arg(long)]
    special: bool,
}

impl AnswerFlags {
    /// Whether text is typed between answers, outside a chat.
    pub fn is_interactive(&self) -> bool {
        self.interactive || self.interactive_first || self.replaces_template()
    }

    /// Whether what stands around typed text takes the place of a chat template.
    pub fn replaces_template(&self) -> bool {
        self.in_prefix.is_some() || self.in_suffix.is_some() || self.in_prefix_bos
    }

    /// What stands before and behind typed text.
    pub fn frame(&self, escape: bool) -> (Vec<u8>, Vec<u8>) {
        let text = |text: &Option<String>| {
            let text = text.as_deref().unwrap_or_default().as_bytes();
            if escape {
                unescape(text)
            } else {
                text.to_vec()
            }
        };
        (text(&self.in_prefix), text(&self.in_suffix))
    }

    /// Says what has no effect.
    pub fn note(&self) {
        if self.keep != 0 && !self.context_shift {
            say!("note: --keep changes nothing without --context-shift");
        }
    }

    pub fn options(&self, sampling: SamplingOptions) -> anyhow::Result<GenerateOptions> {
        Ok(GenerateOptions {
            limit: Limit::from_number(self.predict)?,
            context_shift: match self.context_shift {
                true => Some(Keep::from_number(self.keep)?),
                false => None,
            },
            sampling,
            stops: Vec::new(),
            ignore_eos: self.ignore_eos,
            special: self.special,
            shown: Vec::new(),
            ..GenerateOptions::default()
        })
    }
}

#[derive(clap::Args)]
#[command(next_help_heading = "Model")]
pub struct LoadFlags {
    /// Positions of the context; 0 takes the model's own, cut so that the KV cache stays within 4 GiB
    #[arg(long, short, alias = "context", value_name = "N", default_value_t = 0, value_parser = numbers::count(0..=CONTEXT_MAX))]
    ctx_size: usize,
    #[command(flatten)]
    compute: ComputeFlags,
}

/// How a model is computed, whatever the length of its context.
#[derive(clap::Args)]
#[command(next_help_heading = "Model")]
pub struct ComputeFlags {
    /// Threads; 0 or less takes one per processor
    #[arg(long, short, value_name = "N", default_value = "-1", value_parser = numbers::threads)]
    threads: Threads,
    /// Threads for prompts; without it as many as for answers
    #[arg(long, value_name = "N", value_parser = numbers::threads)]
    threads_batch: Option<Threads>,
    /// Most tokens of a prompt that are computed at once
    #[arg(long, short, value_name = "N", default_value_t = 2048, value_parser = numbers::count(1..=i32::MAX as usize))]
    batch_size: usize,
    /// The same, where it is smaller; 0 takes --batch-size
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = numbers::count(0..=i32::MAX as usize))]
    ubatch_size: usize,
    /// Type of the KV cache's keys
    #[arg(long, value_name = "TYPE", default_value = "f16", value_parser = cache_types())]
    cache_type_k: TensorType,
    /// Type of its values
    #[arg(long, value_name = "TYPE", default_value = "f16", value_parser = cache_types())]
    cache_type_v: TensorType,
    /// Keep the whole past in layers with a window too, so that an answer can be taken back at any length
    #[arg(long)]
    swa_full: bool,
    #[command(flatten)]
    arithmetic: ArithmeticFlag,
}

impl LoadFlags {
    /// As [`ComputeFlags::batch`].
    pub fn batch(&self) -> (&'static str, usize) {
        self.compute.batch()
    }

    pub fn options(&self) -> LoadOptions {
        LoadOptions {
            n_ctx: Some(self.ctx_size).filter(|&n| n > 0),
            ..self.compute.options()
        }
    }
}

impl ComputeFlags {
    /// Most tokens that are computed at once, and the flag that says so.
    pub fn batch(&self) -> (&'static str, usize) {
        match self.ubatch_size {
            n if n == 0 || n > self.batch_size => ("--batch-size", self.batch_size),
            n => ("--ubatch-size", n),
        }
    }

    pub fn options(&self) -> LoadOptions {
        LoadOptions {
            n_threads: self.threads.asked(),
            n_threads_batch: self.threads_batch.and_then(Threads::asked),
            cache: CacheTypes {
                k: self.cache_type_k,
                v: self.cache_type_v,
            },
            n_ubatch: self.batch().1,
            keeps_all: self.swa_full,
            arithmetic: self.arithmetic.get(),
            ..LoadOptions::default()
        }
    }
}

/// The types that a KV cache may have, by name.
pub fn cache_types() -> impl TypedValueParser<Value = TensorType> {
    let names = TensorType::for_cache().map(TensorType::name);
    PossibleValuesParser::new(names).try_map(|name| TensorType::from_name(&name).ok_or("no type"))
}

/// Flags of the reference that change nothing here; accepted so that command lines carry over. [`IgnoredFlags::note`] tells
/// each that asks for what is not done.
#[derive(clap::Args)]
#[command(next_help_heading = "Accepted for compatibility, without effect")]
pub struct IgnoredFlags {
    /// Attention is always computed block by block
    #[arg(long, value_name = "on|off|auto", num_args = 0..=1, default_missing_value = "on")]
    flash_attn: Option<FlashAttention>,
    /// Templates are always Jinja, those of names too
    #[arg(long)]
    jinja: bool,
    /// The same
    #[arg(long)]
    no_jinja: bool,
    /// Nothing runs before the prompt
    #[arg(long)]
    warmup: bool,
    /// The same
    #[arg(long)]
    no_warmup: bool,
    /// Timings are shown by --show-timings
    #[arg(long)]
    perf: bool,
    /// The same
    #[arg(long)]
    no_perf: bool,
    /// Weights are used as they lie in the file
    #[arg(long)]
    repack: bool,
    /// The same
    #[arg(long)]
    no_repack: bool,
    /// Nothing is computed elsewhere
    #[arg(long)]
    op_offload: bool,
    /// The same
    #[arg(long)]
    no_op_offload: bool,
    /// Memory of the host is all there is
    #[arg(long)]
    no_host: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FlashAttention {
    #[value(aliases = ["1", "true", "enabled"])]
    On,
    #[value(aliases = ["0", "false", "disabled"])]
    Off,
    #[value(alias = "-1")]
    Auto,
}

impl IgnoredFlags {
    /// Names the flags that ask for what is not done; those that ask for what is done anyway have their way.
    pub fn note(&self) {
        let no_flash = self.flash_attn == Some(FlashAttention::Off);
        for (flag, is_given, reason) in [
            (
                "--flash-attn off",
                no_flash,
                "attention is always computed block by block",
            ),
            ("--no-jinja", self.no_jinja, "templates are always Jinja"),
            ("--warmup", self.warmup, "nothing runs before the prompt"),
            ("--perf", self.perf, "--show-timings shows timings"),
            (
                "--repack",
                self.repack,
                "weights are used as they lie in the file",
            ),
            (
                "--op-offload",
                self.op_offload,
                "no GPU backend is built in",
            ),
            (
                "--no-host",
                self.no_host,
                "memory of the host is all there is",
            ),
        ] {
            if is_given {
                say!("note: {flag} changes nothing: {reason}");
            }
        }
    }
}

/// How messages look.
#[derive(clap::Args)]
#[command(next_help_heading = "Messages")]
pub struct LogFlags {
    /// Begin each message with its level: I, W or E
    #[arg(long, overrides_with = "no_log_prefix")]
    log_prefix: bool,
    /// Do not: the default
    #[arg(long, overrides_with = "log_prefix")]
    no_log_prefix: bool,
    /// Begin each message with the time since the start, in minutes, seconds, thousandths and millionths
    #[arg(long, overrides_with = "no_log_timestamps")]
    log_timestamps: bool,
    /// Do not: the default
    #[arg(long, overrides_with = "log_timestamps")]
    no_log_timestamps: bool,
    /// Colour warnings and errors; `auto` where standard error is a terminal and NO_COLOR is not set [default: off]
    #[arg(long, value_name = "on|off|auto", num_args = 0..=1, default_missing_value = "on", hide_possible_values = true)]
    log_colors: Option<LogColors>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LogColors {
    On,
    Off,
    Auto,
}

impl LogFlags {
    /// Has all further messages look so.
    pub fn apply(&self) {
        let is_terminal = || std::io::stderr().is_terminal();
        crate::say::set_style(crate::say::Style {
            prefix: self.log_prefix,
            time: self.log_timestamps,
            color: match self.log_colors {
                None | Some(LogColors::Off) => false,
                Some(LogColors::On) => true,
                Some(LogColors::Auto) => is_terminal() && std::env::var_os("NO_COLOR").is_none(),
            },
        });
    }
}
