//! `list`: the models that are on this disk.

use std::io::Write as _;
use std::path::Path;

use gristmill_gguf::File;
use gristmill_hub::{CachedModel, Settings};
use serde_json::json;

use super::{Invocation, Run};
use crate::display::{pad, printable, size, width};
use crate::stdout;

/// Arguments of `list`.
#[derive(clap::Args)]
pub struct List {
    /// Only models with this in their name
    #[arg(value_name = "PART")]
    part: Option<String>,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

impl Run for List {
    const NAME: &'static str = "list";
    const ABOUT: &'static str = "List the GGUF models of the cache";
    const EXAMPLES: &'static str = "gristmill list
        gristmill list gemma --json";

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        let settings = Settings::from_environment(|name| std::env::var(name).ok())?;
        let part = self.part.unwrap_or_default().to_lowercase();
        let models: Vec<CachedModel> = CachedModel::all(&settings)
            .into_iter()
            .filter(|model| name(model).to_lowercase().contains(&part))
            .collect();
        let mut out = stdout::lock();
        if self.json {
            let models: Vec<_> = models.iter().map(described).collect();
            serde_json::to_writer_pretty(&mut out, &models)?;
            writeln!(out)?;
            return Ok(out.flush()?);
        }
        if models.is_empty() {
            say!("no GGUF model is in {}", settings.cache.display());
        }
        let rows: Vec<[String; 4]> = models.iter().map(row).collect();
        let mut widths = [0; 3];
        for row in &rows {
            for (column, cell) in widths.iter_mut().zip(row) {
                *column = width(cell).max(*column);
            }
        }
        for [name, size, architecture, path] in &rows {
            let (name, size) = (pad(name, widths[0]), pad(size, widths[1]));
            let architecture = pad(architecture, widths[2]);
            writeln!(out, "{name}  {size}  {architecture}  {path}")?;
        }
        Ok(out.flush()?)
    }
}

/// The name by which `-hf` and `pull` find it; of a file that was fetched by its address, the file's.
fn name(model: &CachedModel) -> String {
    match (&model.repo, &model.quantization) {
        (Some(repo), Some(quantization)) => format!("{repo}:{quantization}"),
        (Some(repo), None) => repo.clone(),
        (None, _) => {
            let file = model.files.first().and_then(|file| file.file_name());
            file.unwrap_or_default().to_string_lossy().into_owned()
        }
    }
}

/// The architecture that a file names, or what is wrong with the file.
fn architecture(path: &Path) -> Result<Option<String>, gristmill_gguf::Error> {
    let file = File::open(path)?;
    let named = file.metadata().get("general.architecture").cloned();
    Ok(named.and_then(|value| Some(value.as_text()?.to_str_escaped().into_owned())))
}

fn row(model: &CachedModel) -> [String; 4] {
    let path = model.files.first().map_or(Path::new(""), |path| path);
    let architecture = match architecture(path) {
        Ok(Some(name)) => name,
        Ok(None) => "-".to_owned(),
        Err(_) => "cannot be read".to_owned(),
    };
    let cells = [
        name(model),
        size(model.bytes),
        architecture,
        path.display().to_string(),
    ];
    cells.map(|cell| printable(&cell).into_owned())
}

fn described(model: &CachedModel) -> serde_json::Value {
    let path = model.files.first().map_or(Path::new(""), |path| path);
    let architecture = architecture(path);
    let error = architecture.as_ref().err().map(ToString::to_string);
    let files = model.files.iter().map(|file| file.to_string_lossy());
    json!({
        "name": name(model),
        "repository": model.repo,
        "revision": model.revision,
        "quantization": model.quantization,
        "architecture": architecture.ok().flatten(),
        "bytes": model.bytes,
        "files": files.collect::<Vec<_>>(),
        "error": error,
    })
}
