//! What is written, and whether it can be.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use gristmill_gguf::{ShardPlan, WriteOptions, check_target, resume_paths};

use super::QuantizeReport;
use super::job::Job;
use crate::error::{ConvertError, Result};

/// Refuses outputs that cannot be written or would replace an input or each other, and notes the size of each. Where
/// nothing is written, too: a plan that could not be carried out is none.
pub(super) fn check(
    job: &Job<'_>,
    files: &[ShardPlan],
    write_options: &WriteOptions,
    report: &mut QuantizeReport,
) -> Result<()> {
    let options = job.options;
    let mut taken: Vec<PathBuf> = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let file_options = write_options.of_file(number);
        if !options.resume {
            // What an interrupted run left is known only to its journal.
            check_target(&file.path, &file_options)?;
        }
        let bytes = file.size(&file_options)?;
        report.file_bytes = report.file_bytes.saturating_add(bytes);
        let entry = (file.path.clone(), file.tensors.len(), bytes);
        report.files.push(entry);
        taken.push(file.path.clone());
    }
    if options.resume {
        taken.extend(resume_paths(files));
    }
    if let Some(path) = &options.report {
        check_target(path, write_options)?;
        if let Some(twice) = taken.iter().find(|other| place(other) == place(path)) {
            let path = twice.clone();
            return Err(ConvertError::OutputTwice { path });
        }
    }
    Ok(())
}

/// The folder, through all links, and the name in it: what tells whether two paths of files that need not be there lead to
/// one place.
fn place(path: &Path) -> (Option<PathBuf>, Option<OsString>) {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = std::fs::canonicalize(folder).ok();
    (folder, path.file_name().map(OsString::from))
}
