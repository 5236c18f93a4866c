//! Flags of sampling: one for each parameter of the engine's stages, and those of the chain.

use clap::builder::TypedValueParser as _;
use gristmill_engine::sampling::{
    Domain, Parameter, ParameterValues, RANDOM_SEED, REFERENCE_ORDER, SAMPLERS, SamplingOptions,
    SamplingWishes, default_order, is_dormant, parameters, sampler, sorted_samplers,
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
        let mut values = ParameterValues::default();
        for parameter in parameters() {
            if let Some(number) = matches.get_one(parameter.flag) {
                values.set(parameter, *number);
            }
        }
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
    let argument = clap::Arg::new(parameter.flag)
        .long(parameter.flag)
        .visible_aliases(parameter.aliases)
        .value_name(parameter.value_name)
        .help(format!("{} [default: {default}]", parameter.help));
    match &parameter.domain {
        Domain::Float { rule, holds, .. } => {
            argument.value_parser(numbers::finite(rule, *holds).map(f64::from))
        }
        Domain::Whole { range, .. } => {
            let range = i64::from(*range.start())..=i64::from(*range.end());
            argument.value_parser(numbers::whole(range).map(|number| number as f64))
        }
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
    let mut names = text.split(';').filter(|name| !name.is_empty());
    match names.find(|name| sampler(name).is_none() && !is_dormant(name)) {
        None => Ok(text.to_owned()),
        Some(unknown) => {
            let kinds = sorted_samplers();
            let known: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
            Err(format!(
                "sampler '{unknown}' is not supported; there are {}",
                known.join(", ")
            ))
        }
    }
}

/// The names, separated by semicolons, that a sequence of letters stands for.
fn sampler_letters(text: &str) -> Result<String, String> {
    let name = |letter: char| {
        let kinds = SAMPLERS.iter().map(|kind| (kind.name, kind.letter));
        let mut kinds = kinds.chain(REFERENCE_ORDER.iter().copied());
        let found = kinds.find(|(_, known)| *known == letter);
        found.map(|(name, _)| name).ok_or_else(|| {
            let known: Vec<String> = sorted_samplers()
                .iter()
                .map(|kind| format!("{} ({})", kind.letter, kind.name))
                .collect();
            format!(
                "the sampler of letter '{letter}' is not supported; there are {}",
                known.join(", ")
            )
        })
    };
    let names: Result<Vec<&str>, String> = text.chars().map(name).collect();
    Ok(names?.join(";"))
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
