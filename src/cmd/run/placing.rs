//! How the weights come into memory.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use clap::ValueEnum;
use gristmill_engine::{LoadOptions, Model, check_values};
use gristmill_gguf as gguf;
use gristmill_measure::estimate::Demand;

#[derive(clap::Args)]
#[command(next_help_heading = "Memory of the weights")]
pub struct PlacingFlags {
    /// How the file comes into memory: mapped by the system as it is used (auto, mmap), read whole (none, dio), and kept from
    /// being swapped out (mlock: read; mmap+mlock: mapped)
    #[arg(long, value_name = "MODE", conflicts_with_all = ["mmap", "no_mmap", "mlock"])]
    load_mode: Option<LoadMode>,
    /// As --load-mode mmap, the default
    #[arg(long, overrides_with = "no_mmap")]
    mmap: bool,
    /// As --load-mode none
    #[arg(long, overrides_with = "mmap")]
    no_mmap: bool,
    /// Keep the weights from being swapped out
    #[arg(long)]
    mlock: bool,
    /// Check before running that no block of a tensor holds NaN or infinity; of adapters and control vectors it is always checked
    #[arg(long)]
    check_tensors: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LoadMode {
    Auto,
    None,
    Mmap,
    Mlock,
    #[value(name = "mmap+mlock")]
    MmapMlock,
    Dio,
}

impl PlacingFlags {
    /// Whether the files are read into memory, and whether they are kept there.
    fn places(&self) -> (bool, bool) {
        match self.load_mode {
            None => (self.no_mmap, self.mlock),
            Some(LoadMode::Auto | LoadMode::Mmap) => (false, false),
            Some(LoadMode::None | LoadMode::Dio) => (true, false),
            Some(LoadMode::Mlock) => (true, true),
            Some(LoadMode::MmapMlock) => (false, true),
        }
    }

    /// Says what is not as the name says.
    pub fn note(&self) {
        if self.load_mode == Some(LoadMode::Dio) {
            say!("note: the file is read through the system's cache; direct input is not used");
        }
    }

    /// Opens and loads a model.
    ///
    /// # Errors
    /// As [`PlacingFlags::load_file`].
    pub fn load(&self, path: &Path, options: &LoadOptions) -> anyhow::Result<Arc<Model>> {
        self.load_file(gguf::Model::open(path)?, path, options)
    }

    /// What has to stay in memory.
    pub fn demand(&self) -> Demand {
        match self.places() {
            (false, false) => Demand::Anonymous,
            _ => Demand::All,
        }
    }

    /// Loads a model.
    ///
    /// # Errors
    /// A file that cannot be loaded; no memory for it; values that are no numbers, where they are checked.
    pub fn load_file(
        &self,
        mut file: gguf::Model,
        path: &Path,
        options: &LoadOptions,
    ) -> anyhow::Result<Arc<Model>> {
        let (read, locked) = self.places();
        if read {
            file.read_into_memory()?;
        }
        if locked && let Err(error) = file.lock_in_memory() {
            say!("warning: the weights cannot be locked in memory: {error}");
            say!(
                "hint: raise the limit (`ulimit -l`), or leave out the lock (--mlock, --load-mode)"
            );
        }
        if self.check_tensors {
            check_values(&file, options.n_threads.unwrap_or(0))
                .with_context(|| path.display().to_string())?;
        }
        super::loaded(file, path, options)
    }
}
