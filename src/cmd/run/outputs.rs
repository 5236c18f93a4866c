//! Files that a run writes, beside all that it reads.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use gristmill_gguf::same_file;

use crate::arguments;
use crate::failure::Hint;

/// Refuses an output that another argument names too, as a whole or as a part of it: in `one.gguf:0.5,two.gguf` there are two
/// files. That is looked for in the arguments and not in the flags that name files, so that no flag is forgotten.
///
/// # Errors
/// The two arguments.
pub fn check(path: &Path) -> anyhow::Result<()> {
    match named(path, arguments::words()) {
        0 | 1 => Ok(()),
        n => Err(anyhow::anyhow!(
            "{}: {n} arguments name this file, and one of them has it written",
            path.display()
        )
        .context(Hint::new("write to another file"))),
    }
}

/// How many arguments name a file.
fn named(path: &Path, arguments: &[impl AsRef<OsStr>]) -> usize {
    let names = |argument: &OsStr| files_of(argument).iter().any(|file| is_same(path, file));
    let arguments = arguments.iter().map(AsRef::as_ref);
    arguments.filter(|argument| names(argument)).count()
}

/// One file, or two of one name where there are none yet.
fn is_same(one: &Path, other: &Path) -> bool {
    let absolute = |path: &Path| std::path::absolute(path).ok();
    same_file(one, other) || (absolute(one).is_some() && absolute(one) == absolute(other))
}

/// Every file that an argument may mean.
fn files_of(argument: &OsStr) -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from(argument)];
    let Some(text) = argument.to_str() else {
        return files;
    };
    let value = match text.split_once('=') {
        Some((flag, value)) if flag.starts_with('-') => value,
        _ => text,
    };
    files.push(value.into());
    for part in value.split(',') {
        files.push(part.into());
        files.extend(part.rsplit_once(':').map(|(file, _)| file.into()));
    }
    files.retain(|file| !file.as_os_str().is_empty());
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_name_a_file_is_found() {
        let path = Path::new("not-there.gguf");
        let other = "another.gguf";
        for argument in [
            "not-there.gguf",
            "./not-there.gguf",
            "--lora=not-there.gguf",
            "not-there.gguf:0.5",
            "another.gguf,not-there.gguf",
            "--lora-scaled=another.gguf:1,not-there.gguf:2",
        ] {
            assert_eq!(named(path, &["-o", argument, other]), 1, "{argument}");
        }
        assert_eq!(named(path, &["not-there.gguf", other, "not-there.gguf"]), 2);
        assert_eq!(named(path, &["-p", "say not-there.gguf", "not-there"]), 0);
    }
}
