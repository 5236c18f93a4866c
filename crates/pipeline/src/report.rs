//! The folder of reports: written beside its final name and renamed at the end, so that a folder under that name is
//! a finished run.

use std::fs;
use std::path::{Path, PathBuf};

use crate::PipelineError;

/// Reports of a run that is not finished yet.
pub struct ReportFolder {
    partial: PathBuf,
    finished: PathBuf,
}

impl ReportFolder {
    /// A new folder for `finished`; the remains of an earlier run that failed are replaced.
    pub fn create(finished: &Path, force: bool) -> Result<Self, PipelineError> {
        if finished.exists() && !force {
            return Err(PipelineError::ReportExists {
                path: finished.into(),
            });
        }
        let mut name = finished.file_name().unwrap_or_default().to_os_string();
        name.push(".partial");
        let partial = finished.with_file_name(name);
        if partial.exists() {
            fs::remove_dir_all(&partial).map_err(|source| PipelineError::io(&partial, source))?;
        }
        fs::create_dir_all(&partial).map_err(|source| PipelineError::io(&partial, source))?;
        Ok(ReportFolder {
            partial,
            finished: finished.into(),
        })
    }

    /// Where the reports stand until [`ReportFolder::finish`].
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Writes one report.
    pub fn write(&self, name: &str, text: &str) -> Result<(), PipelineError> {
        let path = self.partial.join(name);
        fs::write(&path, text).map_err(|source| PipelineError::io(&path, source))
    }

    /// Gives the folder its final name, in place of an older one.
    pub fn finish(self) -> Result<PathBuf, PipelineError> {
        if self.finished.exists() {
            fs::remove_dir_all(&self.finished)
                .map_err(|source| PipelineError::io(&self.finished, source))?;
        }
        fs::rename(&self.partial, &self.finished)
            .map_err(|source| PipelineError::io(&self.finished, source))?;
        Ok(self.finished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_folder_is_refused_and_a_partial_one_replaced() {
        let place = tempfile::tempdir().unwrap();
        let finished = place.path().join("reports/Tiny-Q4_K_M");
        let folder = ReportFolder::create(&finished, false).unwrap();
        folder.write("old.txt", "of a run that failed").unwrap();
        let folder = ReportFolder::create(&finished, false).unwrap();
        folder.write("sizes.txt", "1").unwrap();
        assert_eq!(folder.finish().unwrap(), finished);
        assert!(!finished.join("old.txt").exists());
        assert!(matches!(
            ReportFolder::create(&finished, false),
            Err(PipelineError::ReportExists { .. })
        ));
        ReportFolder::create(&finished, true)
            .unwrap()
            .finish()
            .unwrap();
        assert!(!finished.join("sizes.txt").exists());
    }
}
