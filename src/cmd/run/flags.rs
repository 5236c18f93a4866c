//! Flags, and what they mean to the engine. Names and defaults are the reference's.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gristmill_convert::{TemplateFault, TemplateText, template_text};
use gristmill_engine::chat::ChatTemplate;
use gristmill_engine::sampling::SamplingOptions;
use gristmill_engine::{CONTEXT_MAX, CacheTypes, GenerateOptions, Keep, Limit, LoadOptions};
use gristmill_quant::TensorType;

use crate::escapes::unescape;
use crate::failure::Hint;
use crate::numbers::{self, Threads};

#[derive(clap::Args)]
#[command(next_help_heading = "Prompt")]
pub struct PromptFlags {
    /// The text to continue, or the first message of a chat
    #[arg(long, short, allow_hyphen_values = true, overrides_with_all = ["file_flag", "binary_file"])]
    prompt: Option<String>,
    /// Read the prompt from a file; one newline at its end is dropped
    #[arg(long = "file", short = 'f', id = "file_flag", value_name = "FILE", overrides_with_all = ["prompt", "binary_file"])]
    file: Option<PathBuf>,
    /// Read the prompt from a file, byte for byte
    #[arg(long, value_name = "FILE", overrides_with_all = ["prompt", "file_flag"])]
    binary_file: Option<PathBuf>,
    /// Process escape sequences (\n, \t, …) in --prompt and --system-prompt
    #[arg(long, short, overrides_with = "no_escape")]
    escape: bool,
    /// Take backslashes as they are: the default, except under a reference name
    #[arg(long, overrides_with = "escape")]
    no_escape: bool,
}

impl PromptFlags {
    /// The prompt, if one is given. Files are never unescaped.
    pub fn read(&self, by_default: bool) -> anyhow::Result<Option<Vec<u8>>> {
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
        let escape = self.escape || (by_default && !self.no_escape);
        Ok(self.prompt.as_ref().map(|prompt| match escape {
            true => unescape(prompt.as_bytes()),
            false => prompt.clone().into_bytes(),
        }))
    }
}

#[derive(clap::Args)]
#[command(next_help_heading = "Chat")]
pub struct ChatFlags {
    /// Chat, also where the prompt could be answered alone; the default for a model with a chat template
    #[arg(long, overrides_with = "no_conversation")]
    pub conversation: bool,
    /// Continue the prompt as plain text
    #[arg(long, overrides_with = "conversation")]
    pub no_conversation: bool,
    /// End after the first answer
    #[arg(long)]
    pub single_turn: bool,
    /// Instructions to the model
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        overrides_with = "system_prompt_file"
    )]
    pub system_prompt: Option<String>,
    /// The same from a file
    #[arg(long, value_name = "FILE", overrides_with = "system_prompt")]
    pub system_prompt_file: Option<PathBuf>,
    /// Chat template: the name of a built-in one, or Jinja text
    #[arg(long, value_name = "NAME|JINJA", overrides_with = "chat_template_file")]
    pub chat_template: Option<String>,
    /// Chat template from a file
    #[arg(long, value_name = "FILE", overrides_with = "chat_template")]
    pub chat_template_file: Option<PathBuf>,
    /// Variables for the template, as a JSON object
    #[arg(long, value_name = "JSON", value_parser = json_object)]
    pub chat_template_kwargs: Option<JsonObject>,
    /// Whether the model shall think before it answers, where its template knows `enable_thinking`
    #[arg(long, value_name = "on|off|auto", default_value = "auto")]
    pub reasoning: Reasoning,
    /// Let control tokens in messages be parsed as such
    #[arg(long)]
    pub parse_special: bool,
    /// A string that ends an answer; may be given more than once
    #[arg(long, short, value_name = "TEXT", allow_hyphen_values = true)]
    pub reverse_prompt: Vec<String>,
    /// A line ends with a backslash to go on in the next one
    #[arg(long)]
    pub multiline_input: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Reasoning {
    On,
    Off,
    Auto,
}

impl ChatFlags {
    pub fn system(&self) -> anyhow::Result<Option<String>> {
        match &self.system_prompt_file {
            Some(path) => std::fs::read_to_string(path)
                .map(|text| Some(text.strip_suffix('\n').unwrap_or(&text).to_owned()))
                .with_context(|| format!("{}: cannot read the system prompt", path.display())),
            None => Ok(self.system_prompt.clone()),
        }
    }

    /// The template of a file, and where it comes from.
    pub fn template_file(&self) -> anyhow::Result<Option<(ChatTemplate, String)>> {
        let Some(path) = self
            .chat_template_file
            .as_ref()
            .filter(|_| !self.no_conversation)
        else {
            return Ok(None);
        };
        let origin = path.display().to_string();
        let source =
            std::fs::read(path).with_context(|| format!("{origin}: cannot read the template"))?;
        let source = one_template(&source).map_err(|fault| {
            anyhow::anyhow!("{origin}: {fault}").context(Hint::new(TemplateFault::REMEDY))
        })?;
        let template = ChatTemplate::new(&source).with_context(|| origin.clone())?;
        Ok(Some((template, origin)))
    }

    /// Says what has no effect.
    pub fn note(&self) {
        let has_system = self.system_prompt.is_some() || self.system_prompt_file.is_some();
        if self.no_conversation && has_system {
            say!(
                "note: the system prompt belongs to a chat; with --no-conversation it changes nothing"
            );
        }
    }

    /// The template's variables.
    pub fn variables(&self) -> JsonObject {
        let mut variables = self.chat_template_kwargs.clone().unwrap_or_default();
        if self.reasoning != Reasoning::Auto {
            variables.insert(
                "enable_thinking".into(),
                (self.reasoning == Reasoning::On).into(),
            );
        }
        variables
    }
}

/// The template of a file; of several in JSON that of the model.
fn one_template(bytes: &[u8]) -> Result<String, TemplateFault> {
    let held = match template_text(bytes)? {
        TemplateText::Jinja(text) => return Ok(text.to_owned()),
        TemplateText::Json(held) => held,
    };
    let of_model = |item: &&serde_json::Value| item["name"] == "default";
    let mut named = held.as_array().into_iter().flatten();
    let text = match held.as_str() {
        Some(text) => Some(text),
        None => named
            .find(of_model)
            .and_then(|item| item["template"].as_str()),
    };
    let none = TemplateFault::Json("JSON without a template named `default`");
    text.map(str::to_owned).ok_or(none)
}

type JsonObject = serde_json::Map<String, serde_json::Value>;

fn json_object(text: &str) -> Result<JsonObject, String> {
    serde_json::from_str(text).map_err(|error| {
        format!("it must be a JSON object, such as {{\"enable_thinking\": false}} ({error})")
    })
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
    /// Never end by itself
    #[arg(long)]
    ignore_eos: bool,
    /// Show control tokens in the answer
    #[arg(long)]
    special: bool,
}

impl AnswerFlags {
    pub fn options(
        &self,
        sampling: SamplingOptions,
        n_probabilities: usize,
    ) -> anyhow::Result<GenerateOptions> {
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
            n_probabilities,
        })
    }
}

#[derive(clap::Args)]
#[command(next_help_heading = "Model")]
pub struct LoadFlags {
    /// Positions of the context; 0 takes the model's own, cut so that the KV cache stays within 4 GiB
    #[arg(long, short, value_name = "N", default_value_t = 0, value_parser = numbers::count(0..=CONTEXT_MAX))]
    ctx_size: usize,
    /// Threads; 0 or less takes one per processor
    #[arg(long, short, value_name = "N", default_value = "-1", value_parser = numbers::threads)]
    threads: Threads,
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
}

impl LoadFlags {
    pub fn options(&self) -> LoadOptions {
        let n_ubatch = match self.ubatch_size {
            0 => self.batch_size,
            n => n.min(self.batch_size),
        };
        LoadOptions {
            n_threads: self.threads.asked(),
            n_ctx: Some(self.ctx_size).filter(|&n| n > 0),
            cache: CacheTypes {
                k: self.cache_type_k,
                v: self.cache_type_v,
            },
            n_ubatch,
            keeps_all: self.swa_full,
            ..LoadOptions::default()
        }
    }
}

/// The types that a KV cache may have, by name.
fn cache_types() -> impl TypedValueParser<Value = TensorType> {
    let names = TensorType::for_cache().map(TensorType::name);
    PossibleValuesParser::new(names).try_map(|name| TensorType::from_name(&name).ok_or("no type"))
}

/// Flags of the reference that change nothing here; accepted so that command lines carry over.
#[derive(clap::Args)]
#[command(next_help_heading = "Accepted for compatibility, without effect")]
pub struct IgnoredFlags {
    /// Attention is always computed block by block
    #[arg(long, value_name = "on|off|auto", num_args = 0..=1, default_missing_value = "on")]
    flash_attn: Option<String>,
    /// Prompts run on the same threads
    #[arg(long, value_name = "N", value_parser = numbers::threads)]
    threads_batch: Option<Threads>,
    /// Files are always mapped
    #[arg(long, visible_alias = "no-mmap")]
    mmap: bool,
    /// Pages are not locked in memory
    #[arg(long)]
    mlock: bool,
    /// Templates are always Jinja
    #[arg(long)]
    jinja: bool,
    /// Nothing runs before the prompt
    #[arg(long, visible_alias = "no-warmup")]
    warmup: bool,
    /// Output is always plain where it is no terminal
    #[arg(long)]
    simple_io: bool,
    /// Output has no colours
    #[arg(long, value_name = "on|off|auto", num_args = 0..=1)]
    color: Option<String>,
    /// Timings are shown by --show-timings
    #[arg(long)]
    perf: bool,
}

impl IgnoredFlags {
    /// Says what could surprise.
    pub fn note(&self) {
        if self.mlock {
            say!("note: --mlock changes nothing; pages stay as long as the system keeps them");
        }
    }
}
