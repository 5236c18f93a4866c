//! The chain itself.

use std::fs;
use std::path::{Path, PathBuf};

use gristmill_convert::quantize::{QuantizeOptions, quantize};
use gristmill_convert::recipe::Recipe;
use gristmill_convert::{ConvertOptions, Event, OutputType, convert};
use gristmill_gguf::PartialPath;

use crate::layout::Layout;
use crate::manifest::{SourceRecord, checksum_line, file_name};
use crate::report::temporary;
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
/// Errors: whatever can be known before the first byte is written (the checkpoint, the recipe, results of an earlier run
/// in the way), and whatever a step fails with. The quantized file and the folder of reports get their names at the end;
/// before that, an error or an interrupt removes them.
pub fn run(
    options: &PipelineOptions,
    listener: &mut dyn FnMut(PipelineEvent<'_>),
) -> Result<PipelineReport, PipelineError> {
    let recipe = Recipe::from_name(&options.recipe)?;
    let layout = Layout::new(options, recipe)?;
    check_plan(options, recipe)?;
    listener(PipelineEvent::Step("hashes of the checkpoint"));
    let source_sha256 = hash_folder(&options.checkpoint)?;
    let reused = may_reuse(options, &layout, &source_sha256)?;
    let mut reports = ReportFolder::create(&layout.reports, options.force)?;
    reports.write("environment.txt", &environment(&options.program))?;

    listener(PipelineEvent::Step(if reused {
        "convert: BF16 file taken as it is"
    } else {
        "convert to BF16"
    }));
    convert_step(options, &layout.float, reused, &mut reports, listener)?;
    let float_hash = hash_file(&layout.float)?;
    reports.write("bf16.sha256", &checksum_line(&float_hash, &layout.float))?;
    if !reused {
        let record = SourceRecord {
            file: float_hash.clone(),
            source_sha256: source_sha256.clone(),
        };
        record.write(&layout.source_record)?;
    }
    listener(PipelineEvent::Step("smoke test of the BF16 file"));
    reports.write(
        "bf16-smoke.log",
        &smoke_test(&layout.float, options.n_threads)?.log(),
    )?;

    listener(PipelineEvent::Step(&format!("quantize to {}", recipe.name)));
    create_parent(&layout.quantized)?;
    let mut candidate = PartialPath::reserve(&temporary(&layout.quantized, "gguf.unverified"))?;
    quantize_step(
        options,
        recipe,
        &layout,
        &mut candidate,
        &mut reports,
        listener,
    )?;
    let speed = check_step(options, candidate.path(), &mut reports, listener)?;
    let quantized_hash = FileHash {
        file: file_name(&layout.quantized),
        ..hash_file(candidate.path())?
    };
    reports.write(
        "quant.sha256",
        &checksum_line(&quantized_hash, &layout.quantized),
    )?;
    reports.write("sizes.txt", &sizes(&float_hash, &quantized_hash))?;
    let manifest = Manifest {
        bf16_reused: reused,
        source_sha256,
        ..manifest(options, recipe, &layout, float_hash, quantized_hash)
    };
    reports.write("manifest.json", &manifest.to_json())?;
    // What may have appeared meanwhile, before either of the two gets its name.
    ReportFolder::check(&layout.reports, options.force)?;
    candidate.rename(&layout.quantized, options.force)?;
    Ok(PipelineReport {
        reports: reports.finish()?,
        manifest,
        speed,
    })
}

/// What was made from what; the hashes of the source are the caller's to add.
fn manifest(
    options: &PipelineOptions,
    recipe: &Recipe,
    layout: &Layout,
    float: FileHash,
    quantized: FileHash,
) -> Manifest {
    Manifest {
        model_name: options.name.clone(),
        source_hf_dir: options.checkpoint.display().to_string(),
        source_sha256: Default::default(),
        gristmill: options.program.clone(),
        bf16_file: layout.float.display().to_string(),
        bf16_bytes: float.bytes,
        bf16_sha256: float.sha256,
        bf16_reused: false,
        quant_type: recipe.name.to_string(),
        quant_file: layout.quantized.display().to_string(),
        quant_bytes: quantized.bytes,
        quant_sha256: quantized.sha256,
        use_imatrix: false,
    }
}

/// Plans the conversion by the recipe, which reads all of the checkpoint but its weights: what cannot be converted or
/// quantized is known before anything is written.
fn check_plan(options: &PipelineOptions, recipe: &'static Recipe) -> Result<(), PipelineError> {
    let plan = ConvertOptions {
        output_type: OutputType::Recipe(recipe),
        dry_run: true,
        force: true,
        ..ConvertOptions::new(&options.checkpoint)
    };
    convert(&plan, &mut |_| ())?;
    Ok(())
}

/// Whether the BF16 file that is there was made from this checkpoint; false where none is.
fn may_reuse(
    options: &PipelineOptions,
    layout: &Layout,
    source_sha256: &[FileHash],
) -> Result<bool, PipelineError> {
    if options.force {
        return Ok(false);
    }
    let float = &layout.float;
    let record = SourceRecord::read(&layout.source_record)?;
    match (float.exists(), record) {
        (false, None) if layout.source_record.exists() => Err(PipelineError::FileExists {
            path: layout.source_record.clone(),
        }),
        (false, _) => Ok(false),
        (true, Some(record))
            if record.source_sha256 == source_sha256 && record.file == hash_file(float)? =>
        {
            Ok(true)
        }
        (true, _) => Err(PipelineError::OtherSource {
            path: float.clone(),
            checkpoint: options.checkpoint.clone(),
        }),
    }
}

/// Smoke test and speed of the quantized file; gives the table of speeds.
fn check_step(
    options: &PipelineOptions,
    quantized: &Path,
    reports: &mut ReportFolder,
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
    reports: &mut ReportFolder,
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
    let mut log = Log::default();
    let report = convert(&convert_options, &mut |event| {
        log.note(&event);
        listener(PipelineEvent::Convert(&event));
    })?;
    log.lines.extend(report.lines());
    log.lines.extend(report.outputs());
    reports.write("convert.log", &log.text())
}

fn quantize_step(
    options: &PipelineOptions,
    recipe: &'static Recipe,
    layout: &Layout,
    candidate: &mut PartialPath,
    reports: &mut ReportFolder,
    listener: &mut dyn FnMut(PipelineEvent<'_>),
) -> Result<(), PipelineError> {
    let quantize_options = QuantizeOptions {
        n_threads: options.n_threads.unwrap_or(0),
        ..QuantizeOptions::new(&layout.float, candidate.path(), recipe)
    };
    let mut log = Log::default();
    let mut report = quantize(&quantize_options, &mut |event| {
        log.note(&event);
        listener(PipelineEvent::Convert(&event));
    })?;
    // What is checked from here on is what gets its name.
    candidate.written()?;
    // Under the name that it gets in the end.
    for (path, _, _) in &mut report.files {
        path.clone_from(&layout.quantized);
    }
    log.lines.extend(report.lines());
    log.lines.extend(report.outputs());
    reports.write("quantize.log", &log.text())
}

/// What a step says, as the command for it would print it.
#[derive(Default)]
struct Log {
    lines: Vec<String>,
    n_tensors: usize,
}

impl Log {
    fn note(&mut self, event: &Event<'_>) {
        if let Event::Start { n_tensors, .. } = event {
            self.n_tensors = *n_tensors;
        }
        self.lines.extend(event.line(self.n_tensors));
    }

    /// A fact a line; a line break within one is shown as such.
    fn text(&self) -> String {
        let line = |line: &String| line.replace('\r', "\\r").replace('\n', "\\n") + "\n";
        self.lines.iter().map(line).collect()
    }
}

fn create_parent(path: &Path) -> Result<(), PipelineError> {
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(|source| PipelineError::io(parent, source))
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
