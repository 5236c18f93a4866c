//! `estimate`: how much memory a model takes, before it is loaded or even fetched.

use std::io::{self, Write};
use std::path::Path;

use gristmill_engine::LoadOptions;
use gristmill_gguf::Summary;
use gristmill_measure::estimate::{
    Demand, Estimate as Bytes, Estimator, Generic, RecipeEstimate, Remedy,
};
use serde_json::json;

use super::run::draft_model::DraftModelFlags;
use super::run::flags::LoadFlags;
use super::run::rope::RopeFlags;
use super::{Invocation, Run};
use crate::adapters::AdapterFlags;
use crate::display::{cut, pad, printable, size};
use crate::failure::Hint;
use crate::memory::{self, words};
use crate::model_path::ModelPath;
use crate::{numbers, sizes, stdout};

/// Arguments of `estimate`.
#[derive(clap::Args)]
pub struct Estimate {
    #[command(flatten)]
    model: ModelPath,
    /// Sequences that go on at a time and share the context
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = numbers::count(1..=65_536))]
    parallel: usize,
    /// Memory to fit into, as in 7.5GiB; without it what is available now
    #[arg(long, value_name = "SIZE", value_parser = sizes::with_fraction)]
    memory: Option<u64>,
    /// List what the model would take under every recipe
    #[arg(long)]
    recipes: bool,
    /// Print everything as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    load: LoadFlags,
    #[command(flatten)]
    rope: RopeFlags,
    #[command(flatten)]
    adapters: AdapterFlags,
    #[command(flatten)]
    draft: DraftModelFlags,
    #[command(flatten)]
    generic: GenericFlags,
}

/// Sizes in place of a file.
#[derive(clap::Args)]
#[command(next_help_heading = "A model of which only sizes are known (with --ctx-size)")]
struct GenericFlags {
    /// Weights, in thousands of millions
    #[arg(long, value_name = "N", value_parser = numbers::real(0.0..=1e9), conflicts_with_all = ["model", "model_word", "hf_repo", "model_url"], requires = "bpw", requires = "layers", requires = "kv_heads", requires = "head_dim")]
    params_b: Option<f32>,
    /// Bits per weight
    #[arg(long, value_name = "N", value_parser = numbers::real(0.0..=64.0), requires = "params_b")]
    bpw: Option<f32>,
    /// Layers
    #[arg(long, value_name = "N", value_parser = numbers::count(1..=1_000_000), requires = "params_b")]
    layers: Option<usize>,
    /// Key and value heads of a layer
    #[arg(long, value_name = "N", value_parser = numbers::count(1..=1_000_000), requires = "params_b")]
    kv_heads: Option<usize>,
    /// Elements of a head
    #[arg(long, value_name = "N", value_parser = numbers::count(1..=1_000_000), requires = "params_b")]
    head_dim: Option<usize>,
    /// Bytes of an element of the KV cache
    #[arg(long, value_name = "N", default_value_t = 2.0, value_parser = numbers::real(0.0..=8.0))]
    kv_bytes: f32,
    /// Sequences, each with a context of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = numbers::count(1..=1_000_000))]
    sequences: usize,
    /// Everything else, in GiB
    #[arg(long, value_name = "N", default_value_t = 1.5, value_parser = numbers::real(0.0..=1e6))]
    overhead_gib: f32,
}

impl Run for Estimate {
    const NAME: &'static str = "estimate";
    const ABOUT: &'static str = "Tell how much memory a model takes to run, from its header alone";
    const EXAMPLES: &'static str = "gristmill estimate model.gguf
        gristmill estimate model.gguf -c 32768 -ctk q8_0 -ctv q8_0 --memory 8GiB
        gristmill estimate model.gguf -np 4 --recipes
        gristmill estimate model-00001-of-00003.gguf --json
        gristmill estimate --params-b 7 --bpw 4.8 --layers 32 --ctx-size 8192 --kv-heads 8 --head-dim 128";
    const NEEDS_MODEL: bool = false;

    fn run(mut self, _: &Invocation) -> anyhow::Result<()> {
        if let Some(sizes) = self.sizes()? {
            return write_generic(&sizes, self.json);
        }
        let (file, path) = self.model.open_header()?;
        let path = path.as_path();
        let mut options = self.load.options();
        options.n_sequences = self.parallel;
        options.rope = self.rope.overrides();
        let of_path = |error| super::run::of_model(error, path);
        let estimator = Estimator::new(&file, &options.rope).map_err(of_path)?;
        let estimator = estimator.beside(memory::bytes_beside(self.adapters.paths())?);
        let options = estimator.options(&options);
        let estimator = self.with_draft(estimator, &options)?;
        let report = Report {
            path,
            summary: Summary::of(&file),
            bytes: estimator.estimate(&options).map_err(of_path)?,
            memory: match self.memory {
                Some(memory) => Some(memory),
                None => memory::available_bytes()?,
            },
            recipes: estimator.recipes(),
            estimator,
            options,
        };
        let mut out = io::BufWriter::new(stdout::lock());
        match self.json {
            true => report.write_json(&mut out)?,
            false => report.write_text(self.recipes, &mut out)?,
        }
        Ok(out.flush()?)
    }
}

impl Estimate {
    /// With the model that drafts, where one is named.
    fn with_draft(&self, model: Estimator, load: &LoadOptions) -> anyhow::Result<Estimator> {
        let Some(path) = self.draft.path(&self.model)? else {
            for flag in self.draft.given() {
                say!("note: {flag} changes nothing without a draft model");
            }
            return Ok(model);
        };
        let options = self.draft.load_options(load);
        let file = gristmill_gguf::Model::open_header(&path)?;
        let draft = Estimator::new(&file, &options.rope);
        let draft = draft.map_err(|error| super::run::of_model(error, &path))?;
        Ok(model.with_draft(draft, options))
    }

    /// The sizes, where they are given in place of a file.
    fn sizes(&self) -> anyhow::Result<Option<Generic>> {
        let flags = &self.generic;
        let counts = [flags.layers, flags.kv_heads, flags.head_dim];
        let (Some(params_b), Some(bpw), [Some(layers), Some(kv_heads), Some(head_dim)]) =
            (flags.params_b, flags.bpw, counts)
        else {
            return Ok(None);
        };
        let Some(context) = self.load.options().n_ctx else {
            return Err(
                anyhow::anyhow!("the length of the context is not given").context(Hint::new(
                    "give it with --ctx-size (-c): without a file there is no length of its own",
                )),
            );
        };
        // As it was typed: 4.8 has no exact value in either width.
        let exact = |number: f32| number.to_string().parse().unwrap_or(f64::from(number));
        Ok(Some(Generic {
            params_b: exact(params_b),
            bpw: exact(bpw),
            layers: layers as u64,
            context: context as u64,
            kv_heads: kv_heads as u64,
            head_dim: head_dim as u64,
            kv_bytes: exact(flags.kv_bytes),
            sequences: flags.sequences as u64,
            overhead_gib: exact(flags.overhead_gib),
        }))
    }
}

fn write_generic(sizes: &Generic, json: bool) -> anyhow::Result<()> {
    let bytes = sizes.estimate();
    let parts = [
        ("weights", bytes.weights),
        ("kv_cache", bytes.cache),
        ("overhead", bytes.overhead),
        ("total", bytes.total()),
    ];
    let mut out = stdout::lock();
    if json {
        let parts = parts.map(|(name, bytes)| (name.to_owned(), json!(bytes.round() as u64)));
        let object = serde_json::Map::from_iter(parts);
        writeln!(out, "{}", serde_json::to_string_pretty(&object)?)?;
    } else {
        for (name, bytes) in parts {
            let gib = bytes / f64::from(1 << 30);
            writeln!(
                out,
                "{:<10} {gib:8.2} GiB",
                name.replace("kv_cache", "KV cache")
            )?;
        }
    }
    Ok(out.flush()?)
}

/// All that is told of a file.
struct Report<'a> {
    path: &'a Path,
    summary: Summary,
    estimator: Estimator,
    options: LoadOptions,
    bytes: Bytes,
    memory: Option<u64>,
    recipes: Vec<RecipeEstimate>,
}

impl Report<'_> {
    /// The longest context that fits with everything in memory.
    fn longest_context(&self) -> Option<usize> {
        let memory = self.memory?;
        self.estimator
            .longest_context(&self.options, Demand::All, memory)
    }

    /// What running takes under a recipe.
    fn total_under(&self, recipe: &RecipeEstimate) -> u64 {
        self.bytes.total_with(recipe.weights)
    }

    fn fits(&self, recipe: &RecipeEstimate) -> bool {
        let total = self.total_under(recipe);
        self.memory.is_none_or(|memory| total <= memory)
    }

    /// What to do, where it does not fit.
    fn remedies(&self) -> Vec<Remedy> {
        match self.memory {
            Some(memory) if self.bytes.total() > memory => {
                self.estimator.remedies(&self.options, Demand::All, memory)
            }
            _ => Vec::new(),
        }
    }

    fn write_text(&self, all_recipes: bool, out: &mut impl Write) -> io::Result<()> {
        let (bytes, context) = (&self.bytes, &self.bytes.context);
        let name = self.summary.name.as_deref().unwrap_or("without a name");
        let types: Vec<&str> = self
            .summary
            .types
            .iter()
            .map(|share| share.ty.name())
            .collect();
        let cache = self.options.cache;
        let mut lines = vec![
            ("model", printable(&cut(name, 200)).into_owned()),
            (
                "weights",
                format!("{} in {}", size(bytes.weights), types.join(", ")),
            ),
            (
                "KV cache",
                format!(
                    "{} for {} tokens, {}/{}{}",
                    size(context.cache()),
                    context.n_ctx,
                    cache.k.name(),
                    cache.v.name(),
                    words_of_windows(&context.caches)
                ),
            ),
            (
                "compute",
                format!(
                    "{} ({} of values, {} beside them)",
                    size(context.compute()),
                    size(context.arena),
                    size(context.scratch)
                ),
            ),
            (
                "program",
                format!("{} with the vocabulary", size(bytes.program)),
            ),
            ("beside it", format!("{} of adapters", size(bytes.beside))),
            (
                "total",
                format!(
                    "{}: {} mapped from the {}, {} anonymous",
                    size(bytes.total()),
                    size(bytes.mapped()),
                    if bytes.beside > 0 { "files" } else { "file" },
                    size(bytes.anonymous())
                ),
            ),
        ];
        if let Some(draft) = &bytes.draft {
            let at = lines.len() - 1;
            lines.insert(at, ("draft model", words_of_draft(draft)));
        }
        let is_told = |(label, _): &(&str, String)| *label != "beside it" || bytes.beside > 0;
        for (label, text) in lines.into_iter().filter(is_told) {
            writeln!(out, "{label:<16} {text}")?;
        }
        self.write_fit(out)?;
        self.write_recipes(all_recipes, out)
    }

    fn write_fit(&self, out: &mut impl Write) -> io::Result<()> {
        let Some(memory) = self.memory else {
            return writeln!(
                out,
                "{:<16} not known here; name it with --memory",
                "available"
            );
        };
        let word = match self.bytes.total() <= memory {
            true => "it fits",
            false => "it does not fit",
        };
        writeln!(out, "{:<16} {}: {word}", "available", size(memory))?;
        let own = self.estimator.network().hyperparameters().n_context_train;
        let longest = match self.longest_context() {
            Some(n_ctx) if n_ctx >= own => {
                format!("{n_ctx} tokens, all that the model was trained on")
            }
            Some(n_ctx) => format!("{n_ctx} tokens of the {own} that the model was trained on"),
            None => "none fits".to_owned(),
        };
        writeln!(out, "{:<16} {longest}", "longest context")?;
        for (index, remedy) in self.remedies().iter().enumerate() {
            let label = if index == 0 { "what would fit" } else { "" };
            writeln!(out, "{label:<16} {}", words::remedy(remedy))?;
        }
        Ok(())
    }

    fn write_recipes(&self, all: bool, out: &mut impl Write) -> io::Result<()> {
        let n_fit = self
            .recipes
            .iter()
            .filter(|recipe| self.fits(recipe))
            .count();
        if !all {
            let Some(largest) = self.recipes.iter().find(|recipe| self.fits(recipe)) else {
                return writeln!(out, "{:<16} none fits", "recipes");
            };
            return writeln!(
                out,
                "{:<16} {n_fit} of {} fit, the largest is {} with {} in all; --recipes lists them",
                "recipes",
                self.recipes.len(),
                largest.recipe.name,
                size(self.total_under(largest))
            );
        }
        writeln!(out, "\nrecipe        weights        total")?;
        for recipe in &self.recipes {
            let mut notes = Vec::new();
            if !self.fits(recipe) {
                notes.push("does not fit");
            }
            if recipe.needs_importance {
                notes.push("needs an importance matrix");
            }
            let line = format!(
                "{}  {:>10}  {:>11}  {}",
                pad(recipe.recipe.name, 9),
                size(recipe.weights),
                size(self.total_under(recipe)),
                notes.join(", ")
            );
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        let (bytes, context) = (&self.bytes, &self.bytes.context);
        let caches = context.caches.iter();
        let caches: Vec<_> = caches
            .map(|(window, bytes)| json!({"window": window, "bytes": bytes}))
            .collect();
        let recipes = self.recipes.iter().map(|recipe| {
            json!({
                "recipe": recipe.recipe.name,
                "weights": recipe.weights,
                "total": self.total_under(recipe),
                "fits": self.fits(recipe),
                "needs_importance": recipe.needs_importance,
            })
        });
        let object = json!({
            "path": self.path.to_string_lossy(),
            "name": self.summary.name,
            "architecture": self.summary.architecture,
            "context": context.n_ctx,
            "sequences": self.options.n_sequences,
            "ubatch": self.options.n_ubatch,
            "cache_type_k": self.options.cache.k.name(),
            "cache_type_v": self.options.cache.v.name(),
            "weights": bytes.weights,
            "kv_cache": context.cache(),
            "kv_caches": caches,
            "compute": context.compute(),
            "arena": context.arena,
            "scratch": context.scratch,
            "program": bytes.program,
            "beside": bytes.beside,
            "draft": bytes.draft.as_deref().map(|draft| json!({
                "weights": draft.weights,
                "kv_cache": draft.context.cache(),
                "compute": draft.context.compute(),
                "program": draft.program,
            })),
            "mapped": bytes.mapped(),
            "anonymous": bytes.anonymous(),
            "total": bytes.total(),
            "available": self.memory,
            "fits": self.memory.map(|memory| bytes.total() <= memory),
            "longest_context": self.longest_context(),
            "remedies": self.remedies().iter().map(words::remedy).collect::<Vec<_>>(),
            "recipes": recipes.collect::<Vec<_>>(),
        });
        serde_json::to_writer_pretty(&mut *out, &object)?;
        writeln!(out)
    }
}

/// What a model that drafts takes.
fn words_of_draft(draft: &Bytes) -> String {
    format!(
        "{} of weights, KV cache {} for {} tokens, compute {}, vocabulary {}",
        size(draft.weights),
        size(draft.context.cache()),
        draft.context.n_ctx,
        size(draft.context.compute()),
        size(draft.program)
    )
}

/// The shares of layers with windows, where there are any.
fn words_of_windows(caches: &[(Option<usize>, u64)]) -> String {
    let share = |(window, bytes): &(Option<usize>, u64)| match window {
        Some(window) => format!("{} in layers with a window of {window}", size(*bytes)),
        None => format!("{} in layers that keep all", size(*bytes)),
    };
    match caches.iter().any(|(window, _)| window.is_some()) {
        true => format!(
            ": {}",
            caches.iter().map(share).collect::<Vec<_>>().join(", ")
        ),
        false => String::new(),
    }
}
