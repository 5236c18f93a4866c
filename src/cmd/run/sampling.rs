//! Flags of sampling: one for each parameter of the engine's stages, and those of the chain.

use gristmill_engine::sampling::{
    Domain, Parameter, ParameterValues, RANDOM_SEED, SamplingOptions, SamplingWishes,
    asked_sampler, default_order, parameters, sampler_name, supported_samplers,
};

use crate::numbers;

#[derive(clap::Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingFlags {
    #[command(flatten)]
    parameters: ParameterFlags,
    /// Change a token's logit: ID+BIAS or ID-BIAS (15043+1, 15043-inf); may be given more than once
    #[arg(long, short, value_name = "ID(+/-)BIAS", value_parser = logit_bias)]
    logit_bias: Vec<(u32, f32)>,
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
        None => Err(format!("it must be {}", parameter.expected())),
    }
}

fn logit_bias(text: &str) -> Result<(u32, f32), String> {
    let wrong = || {
        "it must be a token id, a sign and a number, as in 15043+1, 15043-0.5 or 15043-inf"
            .to_owned()
    };
    let at = text.find(['+', '-']).ok_or_else(wrong)?;
    let (id, bias) = text.split_at(at);
    let id = id.trim().parse().map_err(|_| wrong())?;
    let bias: f32 = bias.trim().parse().map_err(|_| wrong())?;
    if bias.is_nan() || bias == f32::INFINITY {
        return Err(wrong());
    }
    Ok((id, bias))
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
        asked.or(model).applied_to(SamplingOptions {
            // -1 is the one number outside, and asks for a fresh seed
            seed: u32::try_from(self.seed).unwrap_or(RANDOM_SEED),
            logit_bias: self.logit_bias.clone(),
            ..SamplingOptions::default()
        })
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
