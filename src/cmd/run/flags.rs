//! Flags, and what they mean to the engine. Names and defaults are the reference's.

use std::path::PathBuf;

use anyhow::Context as _;
use gristmill_engine::sampling::{DEFAULT_ORDER, RANDOM_SEED, SAMPLERS, SamplingOptions};
use gristmill_engine::{CacheTypes, GenerateOptions, Limit, LoadOptions};

use crate::escapes::unescape;
use crate::failure::Hint;

#[derive(clap::Args)]
#[command(next_help_heading = "Prompt")]
pub struct PromptFlags {
    /// The text to continue, or the first message of a chat
    #[arg(long, short, allow_hyphen_values = true, conflicts_with_all = ["file_flag", "binary_file"])]
    prompt: Option<String>,
    /// Read the prompt from a file; one newline at its end is dropped
    #[arg(long = "file", short = 'f', id = "file_flag", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Read the prompt from a file, byte for byte (-bf)
    #[arg(long, value_name = "FILE", conflicts_with = "file_flag")]
    binary_file: Option<PathBuf>,
    /// Process escape sequences (\n, \t, …) in --prompt and --system-prompt
    #[arg(long, short)]
    escape: bool,
    /// Take backslashes as they are: the default, except under a reference name
    #[arg(long, conflicts_with = "escape")]
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
    /// Chat, also where the prompt could be answered alone (-cnv); the default for a model with a chat template
    #[arg(long, conflicts_with = "no_conversation")]
    pub conversation: bool,
    /// Continue the prompt as plain text (-no-cnv)
    #[arg(long)]
    pub no_conversation: bool,
    /// End after the first answer (-st)
    #[arg(long, conflicts_with = "no_conversation")]
    pub single_turn: bool,
    /// Instructions to the model (-sys)
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub system_prompt: Option<String>,
    /// The same from a file (-sysf)
    #[arg(long, value_name = "FILE", conflicts_with = "system_prompt")]
    pub system_prompt_file: Option<PathBuf>,
    /// Chat template: the name of a built-in one, or Jinja text
    #[arg(long, value_name = "NAME|JINJA", conflicts_with = "chat_template_file")]
    pub chat_template: Option<String>,
    /// Chat template from a file
    #[arg(long, value_name = "FILE")]
    pub chat_template_file: Option<PathBuf>,
    /// Variables for the template, as a JSON object
    #[arg(long, value_name = "JSON")]
    pub chat_template_kwargs: Option<String>,
    /// Whether the model shall think before it answers, where its template knows `enable_thinking` (-rea)
    #[arg(long, value_name = "on|off|auto", default_value = "auto")]
    pub reasoning: Reasoning,
    /// Let control tokens in messages be parsed as such
    #[arg(long)]
    pub parse_special: bool,
    /// A string that ends an answer; may be given more than once
    #[arg(long, short, value_name = "TEXT", allow_hyphen_values = true)]
    pub reverse_prompt: Vec<String>,
    /// A line ends with a backslash to go on in the next one (-mli)
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

    /// The template's variables.
    pub fn variables(&self) -> anyhow::Result<serde_json::Map<String, serde_json::Value>> {
        let mut variables = match &self.chat_template_kwargs {
            Some(json) => {
                serde_json::from_str(json).context("--chat-template-kwargs is no JSON object")?
            }
            None => serde_json::Map::new(),
        };
        if self.reasoning != Reasoning::Auto {
            variables.insert(
                "enable_thinking".into(),
                (self.reasoning == Reasoning::On).into(),
            );
        }
        Ok(variables)
    }
}

#[derive(clap::Args)]
#[command(next_help_heading = "Answer")]
pub struct AnswerFlags {
    /// Tokens to generate; -1 for no limit, -2 until the context is full
    #[arg(long = "predict", short = 'n', visible_alias = "n-predict", value_name = "N", default_value_t = -1)]
    predict: i64,
    /// Never end by itself
    #[arg(long)]
    ignore_eos: bool,
    /// Show control tokens in the answer (-sp)
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
            sampling,
            stops: Vec::new(),
            ignore_eos: self.ignore_eos,
            special: self.special,
            n_probabilities,
        })
    }
}

#[derive(clap::Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingFlags {
    /// Temperature; 0 takes the most probable token
    #[arg(
        long,
        visible_alias = "temperature",
        value_name = "N",
        default_value_t = 0.8
    )]
    temp: f32,
    /// Keep the N best tokens; 0 keeps all
    #[arg(long, value_name = "N", default_value_t = 40)]
    top_k: i64,
    /// Keep the fewest best tokens that reach this probability; 1 keeps all
    #[arg(long, value_name = "P", default_value_t = 0.95)]
    top_p: f32,
    /// Drop tokens below this share of the best one's probability; 0 drops none
    #[arg(long, value_name = "P", default_value_t = 0.05)]
    min_p: f32,
    /// Last tokens that the penalties see; 0 turns them off, -1 takes all
    #[arg(long, value_name = "N", default_value_t = 64)]
    repeat_last_n: i64,
    /// Penalty on repeated tokens; 1 is off
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    repeat_penalty: f32,
    /// Penalty on tokens that occurred; 0 is off
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    presence_penalty: f32,
    /// Penalty per occurrence; 0 is off
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    frequency_penalty: f32,
    /// Change a token's logit: ID+BIAS or ID-BIAS (15043+1, 15043-inf); may be given more than once
    #[arg(long, short, value_name = "ID(+/-)BIAS", value_parser = logit_bias)]
    logit_bias: Vec<(u32, f32)>,
    /// Stages in order, separated by semicolons
    #[arg(long, value_name = "NAMES", default_value_t = DEFAULT_ORDER.join(";"))]
    samplers: String,
    /// The same by letters
    #[arg(
        long,
        visible_alias = "sampling-seq",
        value_name = "LETTERS",
        conflicts_with = "samplers"
    )]
    sampler_seq: Option<String>,
    /// Seed; -1 takes a fresh one
    #[arg(long, short, value_name = "N", default_value_t = -1)]
    seed: i64,
}

fn logit_bias(text: &str) -> Result<(u32, f32), String> {
    let at = text.find(['+', '-']).ok_or("no sign after the token id")?;
    let (id, bias) = text.split_at(at);
    let id = id
        .trim()
        .parse()
        .map_err(|_| format!("'{id}' is no token id"))?;
    let bias = bias
        .trim()
        .parse()
        .map_err(|_| format!("'{bias}' is no number"))?;
    Ok((id, bias))
}

impl SamplingFlags {
    pub fn options(&self) -> anyhow::Result<SamplingOptions> {
        let seed = match self.seed {
            -1 => RANDOM_SEED,
            seed => u32::try_from(seed)
                .with_context(|| format!("--seed {seed} is not from -1 to {}", u32::MAX))?,
        };
        let samplers = match &self.sampler_seq {
            Some(letters) => letters
                .chars()
                .map(sampler_of_letter)
                .collect::<anyhow::Result<_>>()?,
            None => self
                .samplers
                .split(';')
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
        };
        Ok(SamplingOptions {
            seed,
            temperature: self.temp,
            top_k: usize::try_from(self.top_k).unwrap_or(0),
            top_p: self.top_p,
            min_p: self.min_p,
            repeat_last_n: usize::try_from(self.repeat_last_n).unwrap_or(usize::MAX),
            repeat_penalty: self.repeat_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            logit_bias: self.logit_bias.clone(),
            samplers,
        })
    }
}

fn sampler_of_letter(letter: char) -> anyhow::Result<String> {
    let found = SAMPLERS.iter().find(|kind| kind.letter == letter);
    found.map(|kind| kind.name.to_owned()).with_context(|| {
        let known: Vec<String> = SAMPLERS
            .iter()
            .map(|kind| format!("{} ({})", kind.letter, kind.name))
            .collect();
        format!(
            "--sampler-seq: no sampler has the letter '{letter}'; there are {}",
            known.join(", ")
        )
    })
}

#[derive(clap::Args)]
#[command(next_help_heading = "Model")]
pub struct LoadFlags {
    /// Positions of the context; 0 takes the model's own, cut so that the KV cache stays within 4 GiB
    #[arg(long, short, value_name = "N", default_value_t = 0)]
    ctx_size: usize,
    /// Threads; -1 takes one per processor
    #[arg(long, short, value_name = "N", default_value_t = -1)]
    threads: i64,
    /// Tokens computed at once (-ub)
    #[arg(long, value_name = "N", default_value_t = 512)]
    ubatch_size: usize,
    /// Type of the KV cache's keys: f16 or f32 (-ctk)
    #[arg(long, value_name = "TYPE", default_value = "f16")]
    cache_type_k: String,
    /// Type of its values (-ctv)
    #[arg(long, value_name = "TYPE", default_value = "f16")]
    cache_type_v: String,
}

impl LoadFlags {
    pub fn options(&self) -> anyhow::Result<LoadOptions> {
        Ok(LoadOptions {
            n_threads: usize::try_from(self.threads).ok().filter(|&n| n > 0),
            n_ctx: Some(self.ctx_size).filter(|&n| n > 0),
            cache: CacheTypes {
                k: cache_type("--cache-type-k", &self.cache_type_k)?,
                v: cache_type("--cache-type-v", &self.cache_type_v)?,
            },
            n_ubatch: self.ubatch_size,
        })
    }
}

fn cache_type(flag: &str, name: &str) -> anyhow::Result<gristmill_quant::TensorType> {
    let supported = [gristmill_quant::F16, gristmill_quant::F32];
    let found = gristmill_quant::TensorType::from_name(name).filter(|ty| supported.contains(ty));
    found.ok_or_else(|| {
        anyhow::anyhow!("{flag}: the KV cache cannot have the type '{name}'")
            .context(Hint::new("f16 and f32 are supported"))
    })
}

/// Flags of the reference that change nothing here; accepted so that command lines carry over.
#[derive(clap::Args)]
#[command(next_help_heading = "Accepted for compatibility, without effect")]
pub struct IgnoredFlags {
    /// Attention is always computed block by block (-fa)
    #[arg(long, value_name = "on|off|auto", num_args = 0..=1, default_missing_value = "on")]
    flash_attn: Option<String>,
    /// Batches are cut by --ubatch-size
    #[arg(long, short, value_name = "N")]
    batch_size: Option<usize>,
    /// Prompts run on the same threads (-tb)
    #[arg(long, value_name = "N")]
    threads_batch: Option<i64>,
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
    /// Output has no colours (-co)
    #[arg(long, value_name = "on|off|auto", num_args = 0..=1)]
    color: Option<String>,
    /// The context is never shifted
    #[arg(long)]
    no_context_shift: bool,
    /// Timings are shown by --show-timings
    #[arg(long)]
    perf: bool,
}

impl IgnoredFlags {
    /// Says what could surprise.
    pub fn note(&self) {
        if self.mlock {
            eprintln!("note: --mlock changes nothing; pages stay as long as the system keeps them");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logit_bias_has_an_id_a_sign_and_a_number() {
        assert_eq!(logit_bias("15043+1"), Ok((15043, 1.0)));
        assert_eq!(logit_bias("3-0.5"), Ok((3, -0.5)));
        assert_eq!(logit_bias("3-inf"), Ok((3, f32::NEG_INFINITY)));
        assert!(
            logit_bias("3").is_err() && logit_bias("x+1").is_err() && logit_bias("3+y").is_err()
        );
    }
}
