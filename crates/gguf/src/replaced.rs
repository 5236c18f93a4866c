//! What an output takes over from the file that it replaces.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::output::folder_of;

/// Most links that lead to one another, as for the system.
const LINKS_MAX: usize = 40;

/// Gives a file mode and, where that is allowed, owner of another one.
pub(crate) fn keep_mode(from: &File, to: &File) -> io::Result<()> {
    keep(&from.metadata()?, to)
}

fn keep(about: &Metadata, to: &File) -> io::Result<()> {
    let now = to.metadata()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, fchown};
        if (about.uid(), about.gid()) != (now.uid(), now.gid()) {
            // Only an administrator may give files away; the mode is kept all the same.
            let _ = fchown(to, Some(about.uid()), Some(about.gid()));
        }
    }
    // Where all files have one mode, it cannot always be set.
    match now.permissions() == about.permissions() {
        true => Ok(()),
        false => to.set_permissions(about.permissions()),
    }
}

/// Gives a file or folder that is to have a name what the one of this name has: whoever could not read that cannot read it
/// either.
/// Where there is none it stays as it was made.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn take_over(path: &Path, file: &File) -> Result<()> {
    // Elsewhere a mode says no more than whether a file can be written.
    match fs::metadata(path) {
        Ok(about) if cfg!(unix) && (about.is_file() || about.is_dir()) => keep(&about, file)
            .map_err(|source| Error::io(path, "keep the mode of the file", source)),
        _ => Ok(()),
    }
}

/// The same for a file that is to be opened again before it gets its name: its owner can read and write it.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn take_over_opened(path: &Path, file: &File) -> Result<()> {
    take_over(path, file)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let opened = file.metadata().and_then(|about| {
            let mut permissions = about.permissions();
            permissions.set_mode(permissions.mode() | 0o600);
            file.set_permissions(permissions)
        });
        opened.map_err(|source| Error::io(path, "keep the mode of the file", source))?;
    }
    Ok(())
}

/// The path that a symbolic link leads to, over further links, whether a file is there or not; any other path as it is.
pub(crate) fn behind_links(path: &Path) -> PathBuf {
    let mut place = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&place) {
            Ok(next) => place = folder_of(&place).join(next),
            Err(_) => return place,
        }
    }
    // They lead in a circle, which whoever opens it is told.
    path.to_owned()
}
