//! The chain itself.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use gristmill_convert::quantize::{QuantizeOptions, quantize};
use gristmill_convert::recipe::Recipe;
use gristmill_convert::{ConvertOptions, Event, OutputType, convert};

use crate::{
    FileHash, Manifest, PipelineError, ReportFolder, SpeedOptions, hash_file, hash_folder,
    measure_speed, smoke_test, speed_table,
};

/// What to make, from what.
#[derive(Debug, Clone)]
pub struct PipelineOptions {
    /// The checkpoint's folder.
    pub checkpoint: PathBuf,
    /// Name of the model: files and reports are named after it.
    pub name: String,
    /// The recipe, by name.
    pub recipe: String,
    /// Folder of models: `bf16/` and `quant/` are made in it.
    pub models: PathBuf,
    /// Folder of reports: `NAME-TYPE/` is made in it.
    pub reports: PathBuf,
    /// Replace the results of an earlier run.
    pub force: bool,
    /// Threads; none for one per processor.
    pub n_threads: Option<usize>,
    /// Version and commit of the program, for the manifest.
    pub program: String,
}

/// What the chain is doing.
#[derive(Debug)]
#[non_exhaustive]
pub enum PipelineEvent<'a> {
    /// The next step begins.
    Step(&'a str),
    /// An event of the conversion or quantization.
    Convert(&'a Event<'a>),
}

/// A finished run.
#[derive(Debug)]
pub struct PipelineReport {
    /// The folder of reports.
    pub reports: PathBuf,
    /// What was made, from what.
    pub manifest: Manifest,
    /// The speed, as a table.
    pub speed: String,
}

/// Runs the whole chain: convert, smoke test, quantize, smoke test, speed, manifest.
///
/// Errors: results of an earlier run in the way, and whatever a step fails with. The quantized file gets its name only
/// after its smoke test, the folder of reports only at the end.
pub fn run(
    options: &PipelineOptions,
    listener: &mut dyn FnMut(PipelineEvent<'_>),
) -> Result<PipelineReport, PipelineError> {
    let recipe = Recipe::from_name(&options.recipe)?;
    if options.name.is_empty()
        || options.name.contains(['/', '\\'])
        || options.name.starts_with('.')
    {
        return Err(PipelineError::BadName {
            name: options.name.clone(),
        });
    }
    let stem = format!("{}-{}", options.name, recipe.name);
    let quantized = options.models.join("quant").join(format!("{stem}.gguf"));
    if quantized.exists() && !options.force {
        return Err(PipelineError::FileExists { path: quantized });
    }
    let reports = ReportFolder::create(&options.reports.join(&stem), options.force)?;
    reports.write("environment.txt", &environment(&options.program))?;

    let float = options
        .models
        .join("bf16")
        .join(format!("{}-BF16.gguf", options.name));
    let reused = float.exists() && !options.force;
    listener(PipelineEvent::Step(if reused {
        "convert: BF16 file taken as it is"
    } else {
        "convert to BF16"
    }));
    convert_step(options, &float, reused, &reports, listener)?;
    listener(PipelineEvent::Step("smoke test of the BF16 file"));
    reports.write(
        "bf16-smoke.log",
        &smoke_test(&float, options.n_threads)?.log(),
    )?;
    let float_hash = hash_step(&float, "bf16.sha256", &reports)?;

    listener(PipelineEvent::Step(&format!("quantize to {}", recipe.name)));
    let candidate = Candidate::new(&quantized)?;
    quantize_step(options, recipe, &float, &candidate.path, &reports, listener)?;
    let speed = check_step(options, &candidate.path, &reports, listener)?;
    candidate.accept(&quantized)?;
    let quantized_hash = hash_step(&quantized, "quant.sha256", &reports)?;
    reports.write("sizes.txt", &sizes(&float_hash, &quantized_hash))?;
    let manifest = Manifest {
        model_name: options.name.clone(),
        source_hf_dir: options.checkpoint.display().to_string(),
        source_sha256: hash_folder(&options.checkpoint)?,
        gristmill: options.program.clone(),
        bf16_file: float.display().to_string(),
        bf16_bytes: float_hash.bytes,
        bf16_sha256: float_hash.sha256,
        bf16_reused: reused,
        quant_type: recipe.name.to_string(),
        quant_file: quantized.display().to_string(),
        quant_bytes: quantized_hash.bytes,
        quant_sha256: quantized_hash.sha256,
        use_imatrix: false,
    };
    reports.write("manifest.json", &manifest.to_json())?;
    Ok(PipelineReport {
        reports: reports.finish()?,
        manifest,
        speed,
    })
}

/// Smoke test and speed of the quantized file; gives the table of speeds.
fn check_step(
    options: &PipelineOptions,
    quantized: &Path,
    reports: &ReportFolder,
    listener: &mut dyn FnMut(PipelineEvent<'_>),
) -> Result<String, PipelineError> {
    listener(PipelineEvent::Step("smoke test of the quantized file"));
    let smoke = smoke_test(quantized, options.n_threads)?;
    reports.write("quant-smoke.log", &smoke.log())?;
    listener(PipelineEvent::Step("speed"));
    let speed_options = SpeedOptions {
        n_threads: options.n_threads,
        ..SpeedOptions::default()
    };
    let rows = measure_speed(&smoke.model, &speed_options)?;
    let speed = speed_table(&rows, smoke.model.hyperparameters().n_context_train);
    reports.write("bench.txt", &speed)?;
    Ok(speed)
}

fn convert_step(
    options: &PipelineOptions,
    output: &Path,
    reused: bool,
    reports: &ReportFolder,
    listener: &mut dyn FnMut(PipelineEvent<'_>),
) -> Result<(), PipelineError> {
    if reused {
        return reports.write(
            "convert.log",
            "the BF16 file was there already and was taken as it is\n",
        );
    }
    create_parent(output)?;
    let convert_options = ConvertOptions {
        output: Some(output.into()),
        output_type: OutputType::parse("bf16")?,
        force: options.force,
        n_threads: options.n_threads.unwrap_or(0),
        ..ConvertOptions::new(&options.checkpoint)
    };
    let mut log = String::new();
    let report = convert(&convert_options, &mut |event| {
        note(&mut log, &event);
        listener(PipelineEvent::Convert(&event));
    })?;
    // Writing to a string cannot fail.
    let _ = writeln!(log, "{report:#?}");
    reports.write("convert.log", &log)
}

fn quantize_step(
    options: &PipelineOptions,
    recipe: &'static Recipe,
    input: &Path,
    output: &Path,
    reports: &ReportFolder,
    listener: &mut dyn FnMut(PipelineEvent<'_>),
) -> Result<(), PipelineError> {
    let quantize_options = QuantizeOptions {
        n_threads: options.n_threads.unwrap_or(0),
        ..QuantizeOptions::new(input, output, recipe)
    };
    let mut log = String::new();
    let report = quantize(&quantize_options, &mut |event| {
        note(&mut log, &event);
        listener(PipelineEvent::Convert(&event));
    })?;
    // Writing to a string cannot fail.
    let _ = writeln!(log, "{report:#?}");
    reports.write("quantize.log", &log)
}

/// Adds an event to a log.
fn note(log: &mut String, event: &Event<'_>) {
    // Writing to a string cannot fail.
    let _ = match event {
        Event::Warning(text) => writeln!(log, "warning: {text}"),
        Event::Tensor {
            index,
            name,
            dims,
            from,
            to,
        } => writeln!(log, "{index:>5} {name} {dims:?}: {from} -> {to}"),
        _ => Ok(()),
    };
}

fn create_parent(path: &Path) -> Result<(), PipelineError> {
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(|source| PipelineError::io(parent, source))
}

/// A quantized file before its smoke test; removed unless it is accepted.
struct Candidate {
    path: PathBuf,
}

impl Candidate {
    fn new(quantized: &Path) -> Result<Self, PipelineError> {
        create_parent(quantized)?;
        let path = quantized.with_extension("gguf.unverified");
        // What is left of a run that was killed.
        if path.exists() {
            fs::remove_file(&path).map_err(|source| PipelineError::io(&path, source))?;
        }
        Ok(Candidate { path })
    }

    fn accept(self, quantized: &Path) -> Result<(), PipelineError> {
        fs::rename(&self.path, quantized).map_err(|source| PipelineError::io(quantized, source))
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        // After acceptance there is nothing of this name; after a failure the error that caused it matters more.
        let _ = fs::remove_file(&self.path);
    }
}

fn hash_step(path: &Path, name: &str, reports: &ReportFolder) -> Result<FileHash, PipelineError> {
    let hash = hash_file(path)?;
    reports.write(name, &format!("{}  {}\n", hash.sha256, path.display()))?;
    Ok(hash)
}

fn sizes(float: &FileHash, quantized: &FileHash) -> String {
    let share = 100.0 * quantized.bytes as f64 / float.bytes.max(1) as f64;
    format!(
        "{} {}\n{} {} ({share:.1}% of BF16)\n",
        float.bytes, float.file, quantized.bytes, quantized.file
    )
}

/// What the chain ran on.
fn environment(program: &str) -> String {
    let first = |path: &str, key: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(key));
        line.and_then(|line| line.split(':').nth(1))
            .map_or("unknown".to_string(), |value| value.trim().to_string())
    };
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "program: {program}\nsystem: {} {}\nprocessor: {}\nprocessors: {n_threads}\nmemory: {}\n",
        std::env::consts::OS,
        std::env::consts::ARCH,
        first("/proc/cpuinfo", "model name"),
        first("/proc/meminfo", "MemTotal"),
    )
}
