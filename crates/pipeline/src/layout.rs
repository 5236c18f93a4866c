//! Where a run reads and writes, and whether that can be done without loss.

use std::path::{Path, PathBuf};

use gristmill_convert::recipe::Recipe;
use gristmill_gguf::WriteOptions;

use crate::{PipelineError, PipelineOptions, ReportFolder};

/// The paths of a run.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The unquantized file.
    pub float: PathBuf,
    /// What the unquantized file was made from.
    pub source_record: PathBuf,
    /// The quantized file.
    pub quantized: PathBuf,
    /// The folder of reports.
    pub reports: PathBuf,
}

impl Layout {
    /// The paths for a name and a recipe.
    ///
    /// # Errors
    /// A name that no file can have, results of an earlier run in the way, and folders of which one would replace another.
    pub fn new(options: &PipelineOptions, recipe: &Recipe) -> Result<Self, PipelineError> {
        let name = &options.name;
        if name.is_empty()
            || name.starts_with('.')
            || name.contains(['/', '\\'])
            || name.contains(char::is_control)
        {
            return Err(PipelineError::BadName { name: name.clone() });
        }
        let stem = format!("{name}-{}", recipe.name);
        let float_folder = options.models.join("bf16");
        let quantized_folder = options.models.join("quant");
        let layout = Layout {
            float: float_folder.join(format!("{name}-BF16.gguf")),
            source_record: float_folder.join(format!("{name}-BF16.source.json")),
            quantized: quantized_folder.join(format!("{stem}.gguf")),
            reports: options.reports.join(&stem),
        };
        let folders = [&float_folder, &quantized_folder, &layout.reports];
        for folder in folders {
            if resolved(folder) == resolved(&options.checkpoint) {
                return Err(PipelineError::Overlap {
                    folder: folder.clone(),
                    other: options.checkpoint.clone(),
                });
            }
        }
        for other in [&options.checkpoint, &float_folder, &quantized_folder] {
            if resolved(other).starts_with(resolved(&layout.reports)) {
                return Err(PipelineError::Overlap {
                    folder: layout.reports,
                    other: other.clone(),
                });
            }
        }
        layout.check_outputs(options)?;
        Ok(layout)
    }

    fn check_outputs(&self, options: &PipelineOptions) -> Result<(), PipelineError> {
        let writes = WriteOptions {
            force: options.force,
            ..WriteOptions::default()
        };
        for path in [&self.quantized, &self.float] {
            if path == &self.float && !options.force && path.exists() {
                // It is used again, if it was made from this checkpoint.
                continue;
            }
            match gristmill_gguf::check_target(path, &writes) {
                // The folders are made when the work begins.
                Ok(()) | Err(gristmill_gguf::Error::NoFolder { .. }) => {}
                Err(gristmill_gguf::Error::OutputExists { path }) => {
                    return Err(PipelineError::FileExists { path });
                }
                Err(error) => return Err(error.into()),
            }
        }
        ReportFolder::check(&self.reports, options.force)
    }
}

/// The path without links, as far as it leads anywhere yet.
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in absolute.ancestors() {
        if let Ok(real) = above.canonicalize() {
            let rest = absolute.strip_prefix(above).unwrap_or(Path::new(""));
            // Joining nothing would add a separator.
            return match rest.as_os_str().is_empty() {
                true => real,
                false => real.join(rest),
            };
        }
    }
    absolute
}
