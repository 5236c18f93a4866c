//! Environment variables of the reference, which stand for its flags where these are not given.

use std::ffi::OsString;

use clap::error::ErrorKind;

use crate::arguments::find;

/// How a variable becomes a flag.
enum Form {
    /// Its text is the flag's value.
    Value(&'static str),
    /// It is true or false: the flag for each, where there is one.
    Switch(&'static str, &'static str),
}

use Form::{Switch, Value};

/// Variables of commands that open a model, without `LLAMA_ARG_`. Those that name the model are in `model_path.rs`.
const VARIABLES: &[(&str, Form)] = &[
    ("BATCH", Value("--batch-size")),
    ("CACHE_TYPE_K", Value("--cache-type-k")),
    ("CACHE_TYPE_V", Value("--cache-type-v")),
    ("CHAT_TEMPLATE", Value("--chat-template")),
    ("CHAT_TEMPLATE_FILE", Value("--chat-template-file")),
    ("CHAT_TEMPLATE_KWARGS", Value("--chat-template-kwargs")),
    (
        "CONTEXT_SHIFT",
        Switch("--context-shift", "--no-context-shift"),
    ),
    ("CPU_MOE", Switch("--cpu-moe", "")),
    ("CTX_SIZE", Value("--ctx-size")),
    ("DEVICE", Value("--device")),
    ("FIT", Value("--fit")),
    ("FIT_CTX", Value("--fit-ctx")),
    ("FIT_TARGET", Value("--fit-target")),
    ("FLASH_ATTN", Value("--flash-attn")),
    ("FREQUENCY_PENALTY", Value("--frequency-penalty")),
    ("JINJA", Switch("--jinja", "--no-jinja")),
    ("KV_OFFLOAD", Switch("--kv-offload", "--no-kv-offload")),
    ("LOAD_MODE", Value("--load-mode")),
    ("LOG_COLORS", Value("--log-colors")),
    ("LOG_FILE", Value("--log-file")),
    ("LOG_PREFIX", Switch("--log-prefix", "--no-log-prefix")),
    (
        "LOG_TIMESTAMPS",
        Switch("--log-timestamps", "--no-log-timestamps"),
    ),
    ("LOG_VERBOSITY", Value("--verbosity")),
    ("MAIN_GPU", Value("--main-gpu")),
    ("MIN_P", Value("--min-p")),
    ("MLOCK", Switch("--mlock", "")),
    ("MMAP", Switch("--mmap", "--no-mmap")),
    ("MODEL_DRAFT", Value("--spec-draft-model")),
    ("N_CPU_FFN", Value("--n-cpu-ffn")),
    ("N_CPU_MOE", Value("--n-cpu-moe")),
    ("N_GPU_LAYERS", Value("--gpu-layers")),
    ("N_GPU_LAYERS_DRAFT", Value("--spec-draft-ngl")),
    ("N_PARALLEL", Value("--parallel")),
    ("N_PREDICT", Value("--predict")),
    ("OVERRIDE_TENSOR", Value("--override-tensor")),
    ("PERF", Switch("--perf", "--no-perf")),
    ("POOLING", Value("--pooling")),
    ("PRESENCE_PENALTY", Value("--presence-penalty")),
    ("REASONING", Value("--reasoning")),
    ("REASONING_EFFORT", Value("--reasoning-effort")),
    (
        "REASONING_PRESERVE",
        Switch("--reasoning-preserve", "--no-reasoning-preserve"),
    ),
    ("REPACK", Switch("--repack", "--no-repack")),
    ("REPEAT_PENALTY", Value("--repeat-penalty")),
    ("ROPE_FREQ_BASE", Value("--rope-freq-base")),
    ("ROPE_FREQ_SCALE", Value("--rope-freq-scale")),
    ("ROPE_SCALE", Value("--rope-scale")),
    ("ROPE_SCALING_TYPE", Value("--rope-scaling")),
    (
        "SHOW_TIMINGS",
        Switch("--show-timings", "--no-show-timings"),
    ),
    (
        "SKIP_CHAT_PARSING",
        Switch("--skip-chat-parsing", "--no-skip-chat-parsing"),
    ),
    ("SPEC_DRAFT_CACHE_TYPE_K", Value("--spec-draft-type-k")),
    ("SPEC_DRAFT_CACHE_TYPE_V", Value("--spec-draft-type-v")),
    ("SPEC_DRAFT_HF_REPO", Value("--spec-draft-hf")),
    ("SPEC_DRAFT_MODEL", Value("--spec-draft-model")),
    ("SPEC_DRAFT_N_MAX", Value("--spec-draft-n-max")),
    ("SPEC_DRAFT_N_MIN", Value("--spec-draft-n-min")),
    ("SPEC_DRAFT_P_MIN", Value("--spec-draft-p-min")),
    ("SPEC_DRAFT_SAMPLING", Value("--spec-draft-sampling")),
    ("SPEC_TYPE", Value("--spec-type")),
    ("SPLIT_MODE", Value("--split-mode")),
    ("SWA_FULL", Switch("--swa-full", "")),
    ("TEMPERATURE", Value("--temp")),
    ("TENSOR_SPLIT", Value("--tensor-split")),
    ("THINK", Value("--reasoning-format")),
    ("THINK_BUDGET", Value("--reasoning-budget")),
    ("THINK_BUDGET_MESSAGE", Value("--reasoning-budget-message")),
    ("THREADS", Value("--threads")),
    ("TOP_K", Value("--top-k")),
    ("TOP_P", Value("--top-p")),
    ("UBATCH", Value("--ubatch-size")),
    ("YARN_ATTN_FACTOR", Value("--yarn-attn-factor")),
    ("YARN_BETA_FAST", Value("--yarn-beta-fast")),
    ("YARN_BETA_SLOW", Value("--yarn-beta-slow")),
    ("YARN_EXT_FACTOR", Value("--yarn-ext-factor")),
    ("YARN_ORIG_CTX", Value("--yarn-orig-ctx")),
];

/// Flags that may not stand beside one another.
const APART: &[(&str, &[&str])] = &[
    ("--load-mode", &["--mmap", "--no-mmap", "--mlock"]),
    ("--spec-draft-model", &["--spec-draft-hf"]),
];

/// An argument list with what the environment says, in front of the flags that are given: the last one counts.
///
/// # Errors
/// Wrong usage: a value that the flag does not take, named by its variable.
pub fn applied(
    mut argv: Vec<OsString>,
    program: &clap::Command,
) -> Result<Vec<OsString>, clap::Error> {
    let (parser, at) = match program.has_subcommands() {
        false => (program, 1),
        true => {
            let name = argv.get(1).and_then(|word| word.to_str());
            match name.and_then(|name| program.find_subcommand(name)) {
                Some(parser) => (parser, 2),
                None => return Ok(argv),
            }
        }
    };
    // Other tools of the reference read none of these.
    if find(parser, "--hf-repo").is_none() {
        return Ok(argv);
    }
    for (name, form) in VARIABLES {
        let name = format!("LLAMA_ARG_{name}");
        let longs = match form {
            Value(long) => [*long, ""],
            Switch(on, off) => [*on, *off],
        };
        if longs.iter().all(|long| find(parser, long).is_none()) {
            continue;
        }
        let Some(flag) = flag_of(&name, form, parser)? else {
            continue;
        };
        let long = flag.split('=').next().unwrap_or_default();
        let is_given = |flag: &str| is_given(flag, &argv, parser);
        if find(parser, long).is_none() || is_given(long) || is_apart(long, is_given) {
            continue;
        }
        let alone = parser.clone().no_binary_name(true);
        match alone.try_get_matches_from([&flag]) {
            Err(error) if error.kind() != ErrorKind::MissingRequiredArgument => {
                let text = error.render().to_string();
                let text = text.lines().next().unwrap_or_default();
                let text = text.trim_start_matches("error: ");
                return Err(wrong(parser, &name, text));
            }
            _ => argv.insert(at.min(argv.len()), flag.into()),
        }
    }
    Ok(argv)
}

/// The flag that a variable stands for, with its value; none where it is not set.
fn flag_of(name: &str, form: &Form, parser: &clap::Command) -> Result<Option<String>, clap::Error> {
    let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let (on, off) = match form {
        Value(long) => return Ok(variable(name).map(|text| format!("{long}={text}"))),
        Switch(on, off) => (on, off),
    };
    // The reference takes the other form for "no", whatever it is set to.
    let negated = variable(&name.replace("LLAMA_ARG_", "LLAMA_ARG_NO_"));
    let text = negated.map(|_| "off".to_owned()).or_else(|| variable(name));
    let flag = match text.as_deref() {
        None => "",
        Some("true" | "1" | "on" | "enabled") => on,
        Some("false" | "0" | "off" | "disabled") => off,
        Some(text) => {
            let text = format!(
                "{text:?} is neither on nor off: give on, 1, true or enabled, or off, 0, false or disabled"
            );
            return Err(wrong(parser, name, &text));
        }
    };
    Ok(Some(flag.to_owned()).filter(|flag| !flag.is_empty()))
}

fn wrong(parser: &clap::Command, name: &str, text: &str) -> clap::Error {
    let message = format!("{name} of the environment: {text}");
    parser.clone().error(ErrorKind::ValueValidation, message)
}

/// Whether a flag is among the words, by any of its names.
fn is_given(flag: &str, argv: &[OsString], parser: &clap::Command) -> bool {
    let Some(wanted) = find(parser, flag) else {
        return false;
    };
    let words = argv.iter().filter_map(|word| word.to_str());
    let mut flags = words.filter(|word| word.starts_with('-'));
    flags.any(|word| find(parser, word).is_some_and(|found| found.get_id() == wanted.get_id()))
}

/// Whether a flag that is given forbids this one.
fn is_apart(long: &str, is_given: impl Fn(&str) -> bool) -> bool {
    APART.iter().any(|(one, others)| match *one == long {
        true => others.iter().any(|other| is_given(other)),
        false => others.contains(&long) && is_given(one),
    })
}

/// Whether some command reads a variable.
fn is_read(name: &str) -> bool {
    let short = name.trim_start_matches("LLAMA_ARG_");
    let positive = short.trim_start_matches("NO_");
    crate::model_path::VARIABLES.contains(&name)
        || VARIABLES.iter().any(|(known, form)| {
            *known == short || (*known == positive && matches!(form, Switch(..)))
        })
}

/// Says which of the reference's variables are set, but count for nothing here.
pub fn note() {
    let mut names: Vec<String> = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .filter(|name| name.starts_with("LLAMA_ARG_") && !is_read(name))
        .collect();
    names.sort_unstable();
    if !names.is_empty() {
        say!(
            "note: {} of the environment is not read; give the flags themselves",
            names.join(", ")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_variable_stands_for_a_flag() {
        assert!(VARIABLES.is_sorted_by_key(|(name, _)| *name));
        for (name, form) in VARIABLES {
            let longs = match form {
                Value(long) => vec![*long],
                Switch(on, off) => vec![*on, *off],
            };
            for long in longs.iter().filter(|long| !long.is_empty()) {
                assert!(!crate::cmd::names_with(long).is_empty(), "{name}: {long}");
            }
        }
    }
}
