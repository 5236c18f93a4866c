//! `links`: the reference's names as links to this binary.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;

use super::{COMMANDS, Invocation, Run};
use crate::failure::Hint;
use crate::stdout;

/// Arguments of `links`.
#[derive(clap::Args)]
pub struct Links {
    /// Folder to make the links in; created where it is missing
    dir: PathBuf,
    /// Replace files that are already there
    #[arg(long, short)]
    force: bool,
}

#[cfg(unix)]
use std::os::unix::fs::symlink;
#[cfg(windows)]
use std::os::windows::fs::symlink_file as symlink;

impl Run for Links {
    const NAME: &'static str = "links";
    const ABOUT: &'static str =
        "Make links by the reference's names (llama-quantize, …): scripts run unchanged";
    const EXAMPLES: &'static str = "gristmill links ~/bin\ngristmill links --force /opt/llama/bin";

    fn more_help() -> String {
        "\n\nCalled through such a link, gristmill takes that tool's flags and gives its exit codes. One thing differs: an \
         existing output is refused, where the reference would write over it; --force replaces it."
            .into()
    }

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        let binary = std::env::current_exe().context("cannot find this program's own path")?;
        if self.dir.exists() && !self.dir.is_dir() {
            return Err(anyhow::anyhow!("{}: is no folder", self.dir.display())
                .context(Hint::new("name the folder that the links are to lie in")));
        }
        std::fs::create_dir_all(&self.dir)
            .with_context(|| format!("{}: cannot make the folder", self.dir.display()))
            .context(Hint::new("name a folder that can be made and written to"))?;
        let names = COMMANDS.iter().flat_map(|command| command.reference_names);
        let links: Vec<PathBuf> = names.map(|name| self.dir.join(name)).collect();
        let is_ours = |link: &PathBuf| std::fs::read_link(link).is_ok_and(|to| to == binary);
        let existing = links
            .iter()
            .find(|link| link.symlink_metadata().is_ok() && !is_ours(link));
        if let (Some(link), false) = (existing, self.force) {
            return Err(
                anyhow::anyhow!("{}: already exists", link.display()).context(Hint::new(
                    "give --force to replace the files of these names, or another folder",
                )),
            );
        }
        for link in links.iter().filter(|link| !is_ours(link)) {
            if link.symlink_metadata().is_ok() {
                std::fs::remove_file(link)
                    .with_context(|| format!("{}: cannot replace it", link.display()))?;
            }
            symlink(&binary, link)
                .with_context(|| format!("{}: cannot make the link", link.display()))?;
        }
        let made = format!("{}: the links are made", self.dir.display());
        stdout::tell(Some(made), |out| {
            let (mut links, binary) = (links.iter(), binary.display());
            links.try_for_each(|link| writeln!(out, "{} -> {binary}", link.display()))
        })
    }
}
