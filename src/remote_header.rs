//! The header of a model that lies on the hub: its first bytes, as many as the header takes, and nothing of the weights.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use gristmill_gguf::{Error, File, Model};
use gristmill_hub::{Plan, PlannedFile};

use crate::display::{printable, size};
use crate::download::DownloadLog;

/// What is asked for first; where it is too little, four times as much.
const FIRST_BYTES: u64 = 1 << 20;
/// A header that is longer than this is none.
const BYTES_MAX: u64 = 1 << 30;

/// A folder for the headers, which the library opens by their paths; gone with this value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Folder> {
        let name = format!("gristmill-header-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Fails where something has the name, so nothing of another is written to.
        fs::create_dir(&path)
            .with_context(|| format!("{}: cannot make the folder", path.display()))?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in the system's folder for such files is removed by the system.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Opens the header of a model, with those of all shards, and names it.
pub fn open(plan: &Plan, log: &DownloadLog) -> anyhow::Result<(Model, PathBuf)> {
    let folder = Folder::new()?;
    let mut paths = Vec::with_capacity(plan.files.len());
    let mut n_bytes = 0;
    for planned in &plan.files {
        let name = planned.file.path.rsplit('/').next();
        let path = folder.0.join(name.unwrap_or(&planned.file.path));
        n_bytes += fetch(plan, planned, &path, log)?;
        paths.push(path);
    }
    say!(
        "read the header of {} on the hub: {} of {}",
        printable(&plan.repo),
        size(n_bytes),
        size(plan.missing_bytes())
    );
    let first = paths.first().map_or(folder.0.as_path(), PathBuf::as_path);
    let named = plan.files.first().map_or("", |planned| &planned.file.path);
    // What is mapped stays when its name goes.
    Ok((
        Model::open_header(first)?,
        Path::new(&plan.repo).join(named),
    ))
}

/// Writes as much of a file as its header takes, and tells how much came for it.
fn fetch(
    plan: &Plan,
    planned: &PlannedFile,
    path: &Path,
    log: &DownloadLog,
) -> anyhow::Result<u64> {
    let whole = planned.file.bytes;
    let (mut wanted, mut n_bytes) = (FIRST_BYTES, 0);
    loop {
        let bytes = plan.first_bytes(&planned.file, wanted, &|event| log.event(event))?;
        n_bytes += bytes.len() as u64;
        fs::write(path, &bytes).with_context(|| format!("{}: cannot write", path.display()))?;
        match File::open_header(path) {
            Err(Error::Truncated { .. }) if wanted < whole.min(BYTES_MAX) => wanted *= 4,
            opened => {
                opened.with_context(|| printable(&planned.file.path).into_owned())?;
                return Ok(n_bytes);
            }
        }
    }
}
