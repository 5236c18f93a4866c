//! `quantize`: a smaller file by a recipe, or for a size.

mod json;
mod values;
mod words;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use gristmill_convert::quantize::{
    Importance, ImportanceFilter, QuantizeOptions, QuantizeReport, Target, quantize,
};
use gristmill_convert::recipe::{COPY, PlanOptions, Recipe, TensorOverride};
use gristmill_gguf::{OutputFile, Value, WriteOptions, shard_prefix};
use gristmill_quant::TensorType;

use super::{Invocation, Run};
use crate::adapters::MergeFlags;
use crate::failure::Hint;
use crate::interrupt;
use crate::numbers;
use crate::progress::ProgressLog;
use crate::sizes;
use crate::stdout;
use words::Words;

/// Arguments of `quantize`.
#[derive(clap::Args)]
pub struct Quantize {
    /// Source (any shard opens its whole set), output [default: ggml-model-TYPE.gguf beside the source], type by name or
    /// number (none with --target-bpw or --target-size), threads [default: 0, one per processor]
    #[arg(value_name = "IN [OUT] TYPE [NTHREADS]", num_args = 1..=4, required = true)]
    words: Vec<OsString>,
    /// Accept a source that is quantized already; what it lost stays lost
    #[arg(long)]
    allow_requantize: bool,
    /// Leave output.weight in the source's type
    #[arg(long)]
    leave_output_tensor: bool,
    /// One type for all tensors, without the recipe's mix
    #[arg(long)]
    pure: bool,
    #[command(flatten)]
    merge: MergeFlags,
    /// Importance matrix of this model (GGUF, or the older .dat): columns that matter keep more
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,
    /// Use only entries of the importance matrix with PART in their name; repeatable
    #[arg(
        long,
        value_name = "PART",
        conflicts_with = "exclude_weights",
        requires = "imatrix"
    )]
    include_weights: Vec<String>,
    /// Use no entries of the importance matrix with PART in their name; repeatable
    #[arg(long, value_name = "PART", requires = "imatrix")]
    exclude_weights: Vec<String>,
    /// Type of output.weight
    #[arg(long, value_name = "TYPE", value_parser = values::tensor_type_of, conflicts_with = "leave_output_tensor")]
    output_tensor_type: Option<TensorType>,
    /// Type of token_embd.weight
    #[arg(long, value_name = "TYPE", value_parser = values::tensor_type_of)]
    token_embedding_type: Option<TensorType>,
    /// Type of the tensors whose name a pattern finds; repeatable, the first that finds a tensor decides
    #[arg(long, value_name = "REGEX=TYPE", value_parser = values::tensor_override)]
    tensor_type: Vec<TensorOverride>,
    /// File of such items, separated by spaces or lines; they come after those of --tensor-type
    #[arg(long, value_name = "FILE")]
    tensor_type_file: Option<PathBuf>,
    /// Blocks to leave out, as in 20,21; those behind them move up
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    prune_layers: Vec<u32>,
    /// Metadata to set in the output; TYPE is int (stored without its sign, as the reference does), float, bool or str;
    /// repeatable
    #[arg(long, value_name = "KEY=TYPE:VALUE", value_parser = values::override_entry)]
    override_kv: Vec<(String, Value)>,
    /// Choose types by measured error: at most X bits per weight
    #[arg(long, value_name = "X", value_parser = values::bits_per_weight, conflicts_with = "pure")]
    target_bpw: Option<f64>,
    /// Choose types by measured error: a file of at most this size, as in 4.2GiB
    #[arg(long, value_name = "SIZE", value_parser = sizes::with_fraction, conflicts_with_all = ["pure", "target_bpw"])]
    target_size: Option<u64>,
    /// Refuse a model with rows that do not fit the recipe's blocks, in place of falling back to other types
    #[arg(long, visible_alias = "no-fallback")]
    strict: bool,
    /// Write one file for each shard of the source, with the same tensors; OUT is the beginning of their names
    #[arg(long)]
    keep_split: bool,
    /// Keep what is done when the run is cut short, and go on there when the same command is given again
    #[arg(long, conflicts_with_all = ["dry_run", "lora", "lora_scaled"])]
    resume: bool,
    /// Measure what every tensor loses and write it to a file: JSON if its name ends in .json, else text
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    report: Option<PathBuf>,
    /// Plan and show sizes, write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    /// Rows that are encoded at once: as many as are this many MiB when decoded to F32 [default: 16]
    #[arg(long, value_name = "MiB", value_parser = numbers::count(1..=1 << 20))]
    max_buffer_size: Option<usize>,
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

impl Run for Quantize {
    const NAME: &'static str = "quantize";
    const ABOUT: &'static str = "Make a smaller file by a recipe";
    const EXAMPLES: &'static str = "gristmill quantize model-BF16.gguf model-Q4_K_M.gguf Q4_K_M
        gristmill quantize model-BF16.gguf Q6_K
        gristmill quantize --imatrix imatrix.gguf model-BF16.gguf model-IQ3_XS.gguf IQ3_XS
        gristmill quantize --tensor-type attn_v=q8_0 model-BF16.gguf out.gguf Q4_K_M 8
        gristmill quantize --lora adapter.gguf model-BF16.gguf merged-Q4_K_M.gguf Q4_K_M
        gristmill quantize --target-size 4.2GiB model-BF16.gguf out.gguf
        gristmill quantize --dry-run model-BF16.gguf Q5_K_M";
    const REFERENCE_NAMES: &'static [&'static str] = &["llama-quantize"];
    const REFERENCE_HELP_CODE: u8 = 1;

    fn more_help() -> String {
        let line =
            |recipe: &Recipe| format!("\n  {:>3}  {:<9} {}", recipe.id, recipe.name, recipe.help);
        format!(
            "\n\nTypes:{}\n       {COPY:<9} every tensor as it is",
            Recipe::available().map(line).collect::<String>()
        )
    }

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        let start = Instant::now();
        let words = match self.target() {
            None => Words::of(&self.words, recipe_name)?,
            Some(_) => Words::without_type(&self.words, recipe_name)?,
        };
        self.check_copy(&words)?;
        let options = self.options(&words)?;
        let mut log = ProgressLog::new(self.verbose && !self.json);
        if self.resume {
            interrupt::resumable(true);
        }
        let report = quantize(&options, &mut |event| log.event(&event))?;
        drop(log);
        if let Some(path) = &self.report {
            write_report(path, &report, self.force)?;
        }
        self.show(&report);
        say!("time: {:.2} s", start.elapsed().as_secs_f64());
        let paths = report.files.iter().map(|(path, ..)| path.as_path());
        stdout::tell(stdout::written(paths, report.dry_run), |out| {
            match self.json {
                true => writeln!(out, "{:#}", json::of(&report)),
                false => {
                    let lines = report.outputs();
                    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
                }
            }
        })
    }
}

impl Quantize {
    fn target(&self) -> Option<Target> {
        let bits = self.target_bpw.map(Target::BitsPerWeight);
        bits.or_else(|| self.target_size.map(Target::FileBytes))
    }

    /// Refuses flags that change what a copy keeps.
    fn check_copy(&self, words: &Words) -> anyhow::Result<()> {
        let is_copy = words
            .recipe
            .as_deref()
            .is_some_and(|name| name.eq_ignore_ascii_case(COPY));
        let flags = [
            (!self.tensor_type.is_empty(), "--tensor-type"),
            (self.tensor_type_file.is_some(), "--tensor-type-file"),
            (self.output_tensor_type.is_some(), "--output-tensor-type"),
            (
                self.token_embedding_type.is_some(),
                "--token-embedding-type",
            ),
            (self.leave_output_tensor, "--leave-output-tensor"),
            (self.pure, "--pure"),
            (self.strict, "--strict"),
            (self.imatrix.is_some(), "--imatrix"),
        ];
        match flags.iter().find(|(is_given, _)| *is_given && is_copy) {
            Some((_, flag)) => Err(anyhow!(
                "{COPY} keeps every tensor as it is, and {flag} would change that"
            )
            .context(Hint::new(
                "leave the flag out, or choose a type in place of COPY",
            ))),
            None => Ok(()),
        }
    }

    fn options(&self, words: &Words) -> anyhow::Result<QuantizeOptions> {
        let mut tensor_types = self.tensor_type.clone();
        if let Some(path) = &self.tensor_type_file {
            tensor_types.extend(values::tensor_type_file(path)?);
        }
        let recipe = match &words.recipe {
            Some(name) => recipe(name)?,
            None => None,
        };
        Ok(QuantizeOptions {
            input: words.input.clone(),
            output: if self.keep_split {
                // A derived name, or one typed as a file's.
                shard_prefix(&words.output)
            } else {
                words.output.clone()
            },
            recipe,
            target: self.target(),
            plan: PlanOptions {
                pure: self.pure,
                leave_output_tensor: self.leave_output_tensor,
                output_tensor_type: self.output_tensor_type,
                token_embedding_type: self.token_embedding_type,
                tensor_types,
                ..PlanOptions::default()
            },
            importance: self.importance()?,
            merge: self.merge.sources(),
            allow_requantize: self.allow_requantize,
            forbid_fallback: self.strict,
            metadata: self.override_kv.clone(),
            prune_blocks: self.prune_layers.clone(),
            inputs: self.tensor_type_file.iter().cloned().collect(),
            measure: self.report.is_some(),
            report: self.report.clone(),
            resume: self.resume,
            dry_run: self.dry_run,
            keep_split: self.keep_split,
            force: self.force,
            reserve: self.reserve,
            n_threads: words.n_threads,
            slab_bytes: self.max_buffer_size.unwrap_or(0) << 20,
        })
    }

    fn importance(&self) -> anyhow::Result<Option<Importance>> {
        let filter = match (&*self.include_weights, &*self.exclude_weights) {
            ([], []) => ImportanceFilter::All,
            (included, []) => ImportanceFilter::Including(included.to_vec()),
            (_, excluded) => ImportanceFilter::Excluding(excluded.to_vec()),
        };
        let path = self.imatrix.as_ref();
        Ok(path
            .map(|path| Importance::open(path, &filter))
            .transpose()?)
    }

    /// What is to be known of a run, on standard error.
    fn show(&self, report: &QuantizeReport) {
        let say = |line: String| say!("{line}");
        if self.verbose && self.dry_run && !self.json {
            report.tensor_lines().for_each(say);
        }
        report.lines().into_iter().for_each(say);
        if self.verbose {
            report.fallback_lines().for_each(say);
        }
    }
}

/// The recipe of a name or number; nothing for [`COPY`].
fn recipe(word: &str) -> anyhow::Result<Option<&'static Recipe>> {
    if word.eq_ignore_ascii_case(COPY) {
        return Ok(None);
    }
    Ok(Some(Recipe::from_name(word)?))
}

/// The proper name of a recipe, for words that are one.
fn recipe_name(word: &str) -> Option<&'static str> {
    match recipe(word) {
        Ok(recipe) => Some(recipe.map_or(COPY, |recipe| recipe.name)),
        Err(_) => None,
    }
}

/// Writes the report of losses.
fn write_report(path: &Path, report: &QuantizeReport, force: bool) -> anyhow::Result<()> {
    let is_json = path
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("json"));
    let text = match is_json {
        true => format!("{:#}\n", json::of(report)),
        false => report.losses(),
    };
    // That it is none of the inputs was looked at before anything was written.
    let options = WriteOptions {
        force,
        inputs: report.files.iter().map(|(path, ..)| path.clone()).collect(),
        ..WriteOptions::default()
    };
    let mut file = OutputFile::create(path, text.len() as u64, &options)?;
    file.write_all(text.as_bytes())
        .with_context(|| format!("{}: cannot write", path.display()))?;
    file.commit()?;
    Ok(())
}

/// The words do not say what to do.
fn usage(problem: &str) -> anyhow::Error {
    anyhow!("{problem}").context(Hint::new(
        "usage: gristmill quantize IN [OUT] TYPE [NTHREADS]; --help lists the types",
    ))
}
