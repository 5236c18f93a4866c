//! Flags of sampling: one for each parameter of the engine's stages, and those of the chain.

use gristmill_engine::sampling::{
    Domain, LogitBias, Parameter, ParameterValues, RANDOM_SEED, SamplingOptions, SamplingWishes,
    asked_sampler, default_order, parameters, sampler_name, supported_samplers,
};

use crate::escapes::unescape;
use crate::numbers;

#[derive(clap::Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingFlags {
    #[command(flatten)]
    parameters: ParameterFlags,
    /// Change a token's logit: ID+BIAS or ID-BIAS (15043+1, 15043-inf), or as JSON {"ID": BIAS} or [["TEXT", BIAS]], where
    /// false forbids and each token of a text is changed; may be given more than once
    #[arg(long, short, value_name = "ID(+/-)BIAS", value_parser = logit_bias)]
    logit_bias: Vec<Biases>,
    /// A text behind which DRY sees no repetition, in place of those it knows (newline, colon, double quote, asterisk);
    /// escapes such as \n are processed; `none` for no text at all; may be given more than once
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    dry_sequence_breaker: Vec<String>,
    #[arg(long, help = samplers_help(), value_name = "NAMES", value_parser = sampler_names, overrides_with = "sampler_seq")]
    samplers: Option<String>,
    /// The same by letters
    #[arg(
        long,
        visible_alias = "sampling-seq",
        value_name = "LETTERS",
        value_parser = sampler_letters,
        overrides_with = "samplers"
    )]
    sampler_seq: Option<String>,
    /// Seed; -1 takes a fresh one
    #[arg(long, short, value_name = "N", default_value_t = -1,
        value_parser = numbers::whole(-1..=i64::from(u32::MAX)))]
    seed: i64,
}

fn samplers_help() -> String {
    format!(
        "Stages in order, separated by semicolons [default: the model's own, or {}]",
        default_order().join(";")
    )
}

/// A flag for each parameter of the engine's stages.
struct ParameterFlags(ParameterValues);

impl clap::Args for ParameterFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(parameters().map(argument))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for ParameterFlags {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let given = parameters().filter_map(|parameter| matches.get_one(parameter.flag));
        let values = given.fold(ParameterValues::default(), ParameterValues::or);
        Ok(ParameterFlags(values))
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The flag of a parameter.
fn argument(parameter: &'static Parameter) -> clap::Arg {
    let default = parameter.show(parameter.default());
    let default = match parameter.key {
        Some(_) => format!("the model's own, or {default}"),
        None => default,
    };
    clap::Arg::new(parameter.flag)
        .long(parameter.flag)
        .visible_aliases(parameter.aliases)
        .value_name(parameter.value_name)
        .help(format!("{} [default: {default}]", parameter.help))
        .value_parser(|text: &str| value(parameter, text))
}

/// The number that a flag gives its parameter.
fn value(parameter: &Parameter, text: &str) -> Result<ParameterValues, String> {
    let number = match parameter.domain {
        Domain::Float { .. } => text.trim().parse::<f32>().ok().map(f64::from),
        Domain::Whole { .. } => text.trim().parse::<i64>().ok().map(|number| number as f64),
    };
    let mut values = ParameterValues::default();
    let set = number.and_then(|number| values.set(parameter, number).ok());
    match set {
        Some(()) => Ok(values),
        None => {
            let counts_tokens = parameter.flag.ends_with("last-n");
            let remedy = match counts_tokens && number == Some(-1.0) {
                true => "; for the whole context give its length",
                false => "",
            };
            Err(format!("it must be {}{remedy}", parameter.expected()))
        }
    }
}

/// What one flag says.
type Biases = std::sync::Arc<[LogitBias]>;

fn logit_bias(text: &str) -> Result<Biases, String> {
    let biases = LogitBias::parse(text).map(Biases::from);
    biases.map_err(|error| match error.hint() {
        Some(hint) => format!("{error}: {hint}"),
        None => error.to_string(),
    })
}

/// The texts that are given; as in the reference, `none` takes back those before it.
fn breakers(given: &[String]) -> Vec<Vec<u8>> {
    let last_none = given.iter().rposition(|text| text == "none");
    let texts = given[last_none.map_or(0, |index| index + 1)..].iter();
    texts.map(|text| unescape(text.as_bytes())).collect()
}

fn sampler_names(text: &str) -> Result<String, String> {
    let names = text.split(';').filter(|name| !name.is_empty());
    for name in names {
        asked_sampler(name).map_err(|error| format!("{error}; {}", supported_samplers()))?;
    }
    Ok(text.to_owned())
}

/// The names, separated by semicolons, that a sequence of letters stands for.
fn sampler_letters(text: &str) -> Result<String, String> {
    let name = |letter| {
        let none = || {
            format!(
                "no sampler has the letter '{letter}'; {}",
                supported_samplers()
            )
        };
        sampler_name(letter).ok_or_else(none)
    };
    let names: Result<Vec<&str>, String> = text.chars().map(name).collect();
    sampler_names(&names?.join(";"))
}

impl SamplingFlags {
    /// What the user asks for, over what the model recommends, over the program's defaults.
    pub fn options(&self, model: &SamplingWishes) -> SamplingOptions {
        let names = self.sampler_seq.as_ref().or(self.samplers.as_ref());
        let samplers = names.map(|names| {
            let names = names.split(';').filter(|name| !name.is_empty());
            names.map(str::to_owned).collect()
        });
        let asked = SamplingWishes {
            values: self.parameters.0.clone(),
            samplers,
        };
        let program = SamplingOptions::default();
        let sequence_breakers = match self.dry_sequence_breaker.is_empty() {
            true => program.sequence_breakers.clone(),
            false => breakers(&self.dry_sequence_breaker),
        };
        asked.or(model).applied_to(SamplingOptions {
            // -1 is the one number outside, and asks for a fresh seed
            seed: u32::try_from(self.seed).unwrap_or(RANDOM_SEED),
            logit_bias: self
                .logit_bias
                .iter()
                .flat_map(|biases| biases.to_vec())
                .collect(),
            sequence_breakers,
            ..program
        })
    }
}
