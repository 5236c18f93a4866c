//! `quantize`: a smaller file by a recipe.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::anyhow;
use gristmill_convert::quantize::{QuantizeOptions, QuantizeReport, quantize};
use gristmill_convert::recipe::{PlanOptions, Recipe, TensorOverride, tensor_type};
use gristmill_gguf::{Value, shard_prefix};
use gristmill_quant::TensorType;

use super::{Invocation, Run};
use crate::failure::Hint;
use crate::numbers;
use crate::progress::ProgressLog;
use crate::sizes;

/// Arguments of `quantize`.
#[derive(clap::Args)]
pub struct Quantize {
    /// Source (any shard opens its whole set), output [default: ggml-model-TYPE.gguf beside the source], type by name or
    /// number, threads [default: 0, one per processor]
    #[arg(value_name = "IN [OUT] TYPE [NTHREADS]", num_args = 1..=4, required = true)]
    words: Vec<String>,
    /// Accept a source that is quantized already; what it lost stays lost
    #[arg(long)]
    allow_requantize: bool,
    /// Leave output.weight in the source's type
    #[arg(long)]
    leave_output_tensor: bool,
    /// One type for all tensors, without the recipe's mix
    #[arg(long)]
    pure: bool,
    /// Type of output.weight
    #[arg(long, value_name = "TYPE", value_parser = tensor_type_of)]
    output_tensor_type: Option<TensorType>,
    /// Type of token_embd.weight
    #[arg(long, value_name = "TYPE", value_parser = tensor_type_of)]
    token_embedding_type: Option<TensorType>,
    /// Type of the tensors whose name a pattern finds; repeatable, the first that finds a tensor decides
    #[arg(long, value_name = "REGEX=TYPE", value_parser = tensor_override)]
    tensor_type: Vec<TensorOverride>,
    /// Metadata to set in the output; TYPE is int, float, bool or str; repeatable
    #[arg(long, value_name = "KEY=TYPE:VALUE", value_parser = override_entry)]
    override_kv: Vec<(String, Value)>,
    /// Refuse a model with rows that do not fit the recipe's blocks, in place of falling back to other types
    #[arg(long)]
    no_fallback: bool,
    /// Write one file for each shard of the source, with the same tensors; OUT is the beginning of their names
    #[arg(long)]
    keep_split: bool,
    /// Plan and show sizes, write nothing
    #[arg(long)]
    dry_run: bool,
    /// Leave room for later edits of the metadata, as in 64KiB
    #[arg(long, value_name = "SIZE", default_value = "0", hide_default_value = true, value_parser = sizes::parse)]
    reserve: u64,
    /// Replace an existing output
    #[arg(long)]
    force: bool,
    /// Show every tensor
    #[arg(long, short)]
    verbose: bool,
}

/// The words after the flags.
#[derive(Debug, PartialEq)]
struct Positionals<'a> {
    input: &'a Path,
    output: PathBuf,
    recipe: &'a str,
    n_threads: usize,
}

/// Sorts the words by the reference's rule: if the one after IN names a recipe, the output's name is derived.
fn positionals<'a>(
    words: &'a [String],
    recipe_name: impl Fn(&str) -> Option<&'static str>,
) -> anyhow::Result<Positionals<'a>> {
    let no_type = || {
        anyhow!("no type given").context(Hint::new(
            "usage: gristmill quantize IN [OUT] TYPE [NTHREADS]; --help lists the types",
        ))
    };
    let input = Path::new(words.first().ok_or_else(no_type)?);
    let second = words.get(1).ok_or_else(no_type)?;
    let (output, recipe, rest) = match recipe_name(second) {
        Some(name) => (
            input.with_file_name(format!("ggml-model-{name}.gguf")),
            second,
            &words[2..],
        ),
        None => (
            PathBuf::from(second),
            words.get(2).ok_or_else(no_type)?,
            &words[3..],
        ),
    };
    let n_threads = match rest {
        [] => 0,
        [n] => numbers::threads(n)
            .map_err(|wrong| anyhow!("NTHREADS is {n:?}: {wrong}"))?
            .or_zero(),
        [_, extra, ..] => return Err(anyhow!("{extra:?} is one word too many")),
    };
    Ok(Positionals {
        input,
        output,
        recipe,
        n_threads,
    })
}

impl Run for Quantize {
    const NAME: &'static str = "quantize";
    const ABOUT: &'static str = "Make a smaller file by a recipe";
    const EXAMPLES: &'static str = "gristmill quantize model-BF16.gguf model-Q4_K_M.gguf Q4_K_M
        gristmill quantize model-BF16.gguf Q6_K
        gristmill quantize --tensor-type attn_v=q8_0 model-BF16.gguf out.gguf Q4_K_M 8
        gristmill quantize --dry-run model-BF16.gguf Q5_K_M";
    const REFERENCE_NAMES: &'static [&'static str] = &["llama-quantize"];
    const REFERENCE_HELP_CODE: u8 = 1;

    fn more_help() -> String {
        let line =
            |recipe: &Recipe| format!("\n  {:>3}  {:<9} {}", recipe.id, recipe.name, recipe.help);
        format!(
            "\n\nTypes:{}",
            Recipe::available().map(line).collect::<String>()
        )
    }

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        let start = Instant::now();
        let name = |word: &str| match recipe(word) {
            Ok(recipe) => Some(recipe.map_or(COPY, |recipe| recipe.name)),
            Err(_) => None,
        };
        let words = positionals(&self.words, name)?;
        let plan = PlanOptions {
            pure: self.pure,
            leave_output_tensor: self.leave_output_tensor,
            output_tensor_type: self.output_tensor_type,
            token_embedding_type: self.token_embedding_type,
            tensor_types: self.tensor_type,
            ..PlanOptions::default()
        };
        let options = QuantizeOptions {
            plan,
            importance: None,
            allow_requantize: self.allow_requantize,
            forbid_fallback: self.no_fallback,
            metadata: self.override_kv,
            dry_run: self.dry_run,
            force: self.force,
            reserve: self.reserve,
            n_threads: words.n_threads,
            input: words.input.into(),
            output: if self.keep_split {
                // A derived name, or one typed as a file's.
                shard_prefix(&words.output)
            } else {
                words.output
            },
            keep_split: self.keep_split,
            recipe: recipe(words.recipe)?,
            slab_bytes: 0,
        };
        let mut log = ProgressLog::new(self.verbose);
        let report = quantize(&options, &mut |event| log.event(&event))?;
        drop(log);
        print_report(&report, self.verbose && self.dry_run)?;
        say!("time: {:.2} s", start.elapsed().as_secs_f64());
        Ok(())
    }
}

/// The name of the recipe that is none: every tensor is copied.
const COPY: &str = "COPY";

/// The recipe of a name or number; nothing for [`COPY`].
fn recipe(word: &str) -> anyhow::Result<Option<&'static Recipe>> {
    if word.eq_ignore_ascii_case(COPY) {
        return Ok(None);
    }
    Ok(Some(Recipe::from_name(word)?))
}

/// What is wrong with a value, and the remedy.
fn with_remedy(error: gristmill_convert::ConvertError) -> String {
    match error.hint() {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    }
}

fn tensor_type_of(name: &str) -> Result<TensorType, String> {
    tensor_type(name).map_err(with_remedy)
}

fn tensor_override(text: &str) -> Result<TensorOverride, String> {
    text.parse().map_err(with_remedy)
}

/// `KEY=TYPE:VALUE`. Integers are written as the reference writes them: UINT32 of the absolute value.
fn override_entry(text: &str) -> Result<(String, Value), String> {
    let form = "write it as KEY=TYPE:VALUE, for example llama.context_length=int:4096";
    let (key, typed) = text.split_once('=').ok_or(form)?;
    let (ty, value) = typed.split_once(':').ok_or(form)?;
    let bad = || format!("{value:?} is no {ty}");
    let value = match ty {
        "int" => {
            let number: i64 = value.parse().map_err(|_| bad())?;
            Value::U32(u32::try_from(number.unsigned_abs()).map_err(|_| bad())?)
        }
        "float" => Value::F32(value.parse().map_err(|_| bad())?),
        "bool" => Value::Bool(value.parse().map_err(|_| bad())?),
        "str" => Value::String(value.into()),
        _ => {
            return Err(format!(
                "{ty:?} is none of the types int, float, bool and str"
            ));
        }
    };
    Ok((key.into(), value))
}

/// Sizes before and after on standard error, what was written on standard output.
fn print_report(report: &QuantizeReport, with_tensors: bool) -> anyhow::Result<()> {
    if with_tensors {
        for tensor in &report.tensors {
            say!(
                "{} {:?}: {} -> {}",
                tensor.name,
                tensor.dims,
                tensor.from,
                tensor.to
            );
        }
    }
    report.lines().iter().for_each(|line| say!("{line}"));
    let mut out = std::io::stdout().lock();
    for line in report.outputs() {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(String::from).collect();
        let recipe_name =
            |word: &str| (word.eq_ignore_ascii_case("q4_k_m") || word == "15").then_some("Q4_K_M");
        match positionals(&words, recipe_name) {
            Ok(p) => format!(
                "{} -> {} {} {}",
                p.input.display(),
                p.output.display(),
                p.recipe,
                p.n_threads
            ),
            Err(error) => error.root_cause().to_string(),
        }
    }

    #[test]
    fn the_output_is_derived_where_the_second_word_is_a_type() {
        assert_eq!(sorted("a.gguf b.gguf q4_k_m"), "a.gguf -> b.gguf q4_k_m 0");
        assert_eq!(sorted("a.gguf b.gguf 15 8"), "a.gguf -> b.gguf 15 8");
        assert_eq!(
            sorted("dir/a.gguf q4_k_m"),
            "dir/a.gguf -> dir/ggml-model-Q4_K_M.gguf q4_k_m 0"
        );
        assert_eq!(
            sorted("a.gguf 15 4"),
            "a.gguf -> ggml-model-Q4_K_M.gguf 15 4"
        );
    }

    #[test]
    fn overrides_are_typed() {
        assert_eq!(
            override_entry("a.b=int:-7"),
            Ok(("a.b".into(), Value::U32(7)))
        );
        assert_eq!(
            override_entry("a=float:0.5"),
            Ok(("a".into(), Value::F32(0.5)))
        );
        assert_eq!(
            override_entry("a=str:x=y:z"),
            Ok(("a".into(), Value::String("x=y:z".into())))
        );
        assert_eq!(
            override_entry("a=bool:yes"),
            Err("\"yes\" is no bool".into())
        );
        assert!(override_entry("a=list:1").is_err() && override_entry("a").is_err());
    }

    #[test]
    fn missing_and_superfluous_words_are_named() {
        assert_eq!(sorted("a.gguf"), "no type given");
        assert_eq!(sorted("a.gguf b.gguf"), "no type given");
        assert_eq!(
            sorted("a.gguf b.gguf q4_k_m x"),
            "NTHREADS is \"x\": it must be a whole number up to 512; 0 or less takes one thread per processor"
        );
        assert_eq!(sorted("a.gguf q4_k_m 4 5"), "\"5\" is one word too many");
    }
}
