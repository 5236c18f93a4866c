//! The folder of reports: written beside its final name and renamed at the end, so that a folder under that name is
//! a finished run.

use std::fs;
use std::path::{Path, PathBuf};

use gristmill_gguf::PartialPath;

use crate::PipelineError;

/// The files of a finished run. Only these are ever removed from a folder.
const REPORTS: &[&str] = &[
    "bench.txt",
    "bf16-smoke.log",
    "bf16.sha256",
    "convert.log",
    "environment.txt",
    "manifest.json",
    "quant-smoke.log",
    "quant.sha256",
    "quantize.log",
    "sizes.txt",
];

/// Reports of a run that is not finished yet. Dropped before [`ReportFolder::finish`], or when the program is
/// interrupted, it leaves nothing behind.
#[derive(Debug)]
pub struct ReportFolder {
    // Files go before their folder.
    files: Vec<PartialPath>,
    folder: PartialPath,
    finished: PathBuf,
    force: bool,
}

impl ReportFolder {
    /// Whether reports may get this name: nothing stands there, or with `force` a folder that holds reports and nothing
    /// else.
    pub fn check(finished: &Path, force: bool) -> Result<(), PipelineError> {
        let error = |source| PipelineError::io(finished, source);
        match fs::symlink_metadata(finished) {
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(cause) => return Err(error(cause)),
            Ok(_) if !force => {
                return Err(PipelineError::ReportExists {
                    path: finished.into(),
                });
            }
            Ok(about) if !about.is_dir() => {
                return Err(PipelineError::NotReports {
                    path: finished.into(),
                    found: "it is no folder".into(),
                });
            }
            Ok(_) => {}
        }
        for entry in fs::read_dir(finished).map_err(error)? {
            let entry = entry.map_err(error)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_folder = entry.file_type().map_err(error)?.is_dir();
            if is_folder || !REPORTS.contains(&&*name) {
                return Err(PipelineError::NotReports {
                    path: finished.into(),
                    found: format!("it holds {name:?}"),
                });
            }
        }
        Ok(())
    }

    /// A new folder for `finished`, beside it and under a name of its own.
    pub fn create(finished: &Path, force: bool) -> Result<Self, PipelineError> {
        ReportFolder::check(finished, force)?;
        let parent = finished.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(|source| PipelineError::io(parent, source))?;
        let folder = PartialPath::create_folder(&temporary(finished, "partial"))?;
        folder.take_over(finished)?;
        Ok(ReportFolder {
            files: Vec::new(),
            folder,
            finished: finished.into(),
            force,
        })
    }

    /// Where the reports stand until [`ReportFolder::finish`].
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes one report.
    pub fn write(&mut self, name: &str, text: &str) -> Result<(), PipelineError> {
        let path = self.folder.path().join(name);
        let report = PartialPath::write(&path, text.as_bytes())?;
        report.take_over(&self.finished.join(name))?;
        self.files.push(report);
        Ok(())
    }

    /// Gives the folder its final name, in place of an older one.
    pub fn finish(self) -> Result<PathBuf, PipelineError> {
        let finished = self.finished;
        ReportFolder::check(&finished, self.force)?;
        if finished.exists() {
            let error = |source| PipelineError::io(&finished, source);
            for name in REPORTS {
                match fs::remove_file(finished.join(name)) {
                    Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                        return Err(error(cause));
                    }
                    _ => {}
                }
            }
            fs::remove_dir(&finished).map_err(error)?;
        }
        self.folder.rename(&finished, false)?;
        // The files went with their folder: nothing is left at the names that are dropped now.
        drop(self.files);
        Ok(finished)
    }
}

/// A name for unfinished work beside `path`: of this process only, and short enough for every disk.
pub(crate) fn temporary(path: &Path, ending: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let start: String = name.chars().take(48).collect();
    let mut counter = 0;
    loop {
        let process = std::process::id();
        let found = path.with_file_name(match counter {
            0 => format!("{start}.{process}.{ending}"),
            n => format!("{start}.{process}-{n}.{ending}"),
        });
        // What a killed process with the same number left behind, or another thread's.
        if fs::symlink_metadata(&found).is_err() {
            return found;
        }
        counter += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_folder_is_refused_and_replaced_by_force() {
        let place = tempfile::tempdir().unwrap();
        let finished = place.path().join("reports/Tiny-Q4_K_M");
        let names = || fs::read_dir(place.path().join("reports")).unwrap().count();
        let mut folder = ReportFolder::create(&finished, false).unwrap();
        folder.write("bench.txt", "of a run that failed").unwrap();
        drop(folder);
        assert_eq!(names(), 0);
        let mut folder = ReportFolder::create(&finished, false).unwrap();
        folder.write("sizes.txt", "1").unwrap();
        assert_eq!(folder.finish().unwrap(), finished);
        assert!(finished.join("sizes.txt").exists());
        assert!(matches!(
            ReportFolder::create(&finished, false),
            Err(PipelineError::ReportExists { .. })
        ));
        ReportFolder::create(&finished, true)
            .unwrap()
            .finish()
            .unwrap();
        assert!(!finished.join("sizes.txt").exists());
        assert_eq!(names(), 1);
    }

    #[test]
    fn what_appears_meanwhile_stays() {
        let place = tempfile::tempdir().unwrap();
        let finished = place.path().join("Tiny-Q4_K_M");
        for force in [false, true] {
            let mut folder = ReportFolder::create(&finished, force).unwrap();
            folder.write("sizes.txt", "1").unwrap();
            fs::create_dir(&finished).unwrap();
            fs::write(finished.join("notes.txt"), "precious").unwrap();
            assert!(matches!(
                (folder.finish(), force),
                (Err(PipelineError::ReportExists { .. }), false)
                    | (Err(PipelineError::NotReports { .. }), true)
            ));
            assert!(finished.join("notes.txt").exists());
            fs::remove_dir_all(&finished).unwrap();
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
