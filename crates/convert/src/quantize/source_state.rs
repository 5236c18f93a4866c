//! What the system tells of the files of the source: to notice that one is written to while it is read.

use std::fs::Metadata;
use std::path::PathBuf;
use std::time::SystemTime;

use gristmill_gguf::{Error, Model};

use crate::error::Result;

/// The files of a model as they were when it was opened.
pub(super) struct SourceState {
    files: Vec<(PathBuf, Option<State>)>,
}

#[derive(Debug, PartialEq)]
struct State {
    bytes: u64,
    modified: Option<SystemTime>,
    /// Device and number.
    #[cfg(unix)]
    number: (u64, u64),
}

impl State {
    fn of(about: &Metadata) -> State {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt as _;
        State {
            bytes: about.len(),
            modified: about.modified().ok(),
            #[cfg(unix)]
            number: (about.dev(), about.ino()),
        }
    }

    /// Whether another file has the name by now: what is mapped stays the old one, which has changed no more.
    fn is_replaced_by(&self, now: &State) -> bool {
        #[cfg(unix)]
        let replaced = self.number != now.number;
        #[cfg(not(unix))]
        let replaced = {
            let _ = now;
            false
        };
        replaced
    }
}

impl SourceState {
    /// The state of a model's files now.
    pub fn of(model: &Model) -> SourceState {
        let files = model.shards().iter().map(|shard| {
            let about = std::fs::metadata(shard.path()).ok();
            (shard.path().to_owned(), about.as_ref().map(State::of))
        });
        SourceState {
            files: files.collect(),
        }
    }

    /// Refuses a source that was written to since. A file that was removed or replaced meanwhile was not: it is still the
    /// one that is mapped.
    pub fn check(&self) -> Result<()> {
        for (path, before) in &self.files {
            let now = std::fs::metadata(path).ok().as_ref().map(State::of);
            if let (Some(before), Some(now)) = (before, now)
                && *before != now
                && !before.is_replaced_by(&now)
            {
                return Err(Error::Changed { path: path.clone() }.into());
            }
        }
        Ok(())
    }

    /// Sizes and times, a file a line. Paths are left out, since several lead to one file, and numbers of files too: some file
    /// systems give others after a restart. What is done is compared with the source's bytes besides.
    pub fn description(&self) -> String {
        let lines = self.files.iter().map(|(_, state)| {
            let state = state.as_ref().map(|state| (state.bytes, state.modified));
            format!("file {state:?}\n")
        });
        lines.collect()
    }
}
