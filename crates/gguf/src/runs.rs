//! How runs see each other. One that can be resumed holds the lock of its journal, which is that of its whole set; any other
//! holds the lock of the temporary file that it is writing, whose name tells the output and the process.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use xxhash_rust::xxh64::xxh64;

use crate::error::Result;
use crate::journal;
use crate::output::folder_of;
use crate::shards::{ShardName, shard_file_name};

/// Who only asks whether a file is being written holds its lock for microseconds.
pub(crate) const N_TRIES: u32 = 10;
pub(crate) const PAUSE: Duration = Duration::from_millis(20);
/// What temporary names end in.
const TEMPORARY: &str = ".gguf.part";

/// The file by which a set is known: its first one. A file that is no part of a set stands for itself.
pub(crate) fn first_of_set(path: &Path) -> PathBuf {
    match ShardName::of(path) {
        Some(name) => path.with_file_name(shard_file_name(name.prefix, 1, name.count)),
        None => path.to_owned(),
    }
}

/// The temporary name of an output: the beginning of its own, what tells the set, the process and a number of its own.
pub(crate) fn temporary_name(path: &Path, number: u64) -> String {
    let stem = path
        .file_stem()
        .map_or_else(|| "output".into(), |stem| stem.to_string_lossy());
    // File names have at most 255 bytes on common systems; leave room for the rest.
    let stem: String = stem.chars().take(48).collect();
    let (set, process) = (set_hash(path), std::process::id());
    format!("{stem}.{set}.{process}-{number}{TEMPORARY}")
}

fn set_hash(path: &Path) -> String {
    let first = first_of_set(path);
    let name = first.file_name().unwrap_or_default();
    format!("{:016x}", xxh64(name.as_encoded_bytes(), 0))
}

/// The hash and the process that a temporary name tells.
fn parts(name: &str) -> Option<(&str, u32)> {
    let mut parts = name.strip_suffix(TEMPORARY)?.rsplitn(3, '.');
    let (process, _) = parts.next()?.split_once('-')?;
    let set = parts.next()?;
    parts.next()?;
    Some((set, process.parse().ok()?))
}

/// Keeps the lock of a new file until it is closed. Some network file systems have none.
pub(crate) fn lock(file: &File) {
    for _ in 0..N_TRIES {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            _ => return,
        }
    }
}

/// Whether somebody holds the lock of a file to write it, and does not only ask.
pub(crate) fn is_locked(file: &File) -> bool {
    let asked = file.try_lock_shared();
    // There is nobody to tell of a failure: closing the file gives the lock back as well.
    let _ = asked.is_ok().then(|| file.unlock());
    matches!(asked, Err(TryLockError::WouldBlock))
}

/// The file at a path, where somebody is writing it. What is no regular file might wait for somebody when it is opened.
pub(crate) fn being_written(path: &Path) -> Option<File> {
    let about = fs::symlink_metadata(path).ok()?;
    let file = about.is_file().then(|| File::open(path).ok())??;
    is_locked(&file).then_some(file)
}

/// Refuses outputs that a run without a journal is writing, or others of their set.
pub(crate) fn check_temporary<'a>(outputs: impl Iterator<Item = &'a Path>) -> Result<()> {
    let mut sets: Vec<(&Path, String, &Path)> = Vec::new();
    for output in outputs {
        let (folder, set) = (folder_of(output), set_hash(output));
        let is_known = |known: &(&Path, String, &Path)| (known.0, &known.1) == (folder, &set);
        if !sets.iter().any(is_known) {
            sets.push((folder, set, output));
        }
    }
    for (folder, set, output) in sets {
        if let Some(process) = patiently(|| writer(folder, &set)) {
            return Err(journal::being_written(output, Some(process)));
        }
    }
    Ok(())
}

/// Looks for another run: one that began in the same moment may be refused yet, or sees this one and gives way.
pub(crate) fn patiently<T>(look: impl Fn() -> Option<T>) -> Option<T> {
    let mut found = look();
    for _ in 1..N_TRIES {
        if found.is_none() {
            break;
        }
        std::thread::sleep(PAUSE);
        found = look();
    }
    found
}

/// The process that holds the lock of a temporary file of this set.
fn writer(folder: &Path, set: &str) -> Option<u32> {
    // A folder that cannot be read tells of nobody.
    let entries = fs::read_dir(folder).ok()?.flatten();
    entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let (of, process) = parts(name.to_str()?)?;
            (of == set && being_written(&entry.path()).is_some()).then_some(process)
        })
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_name_tells_the_set_and_the_process() {
        let of = |path: &str| temporary_name(Path::new(path), 7);
        let name = of("models/a.b.gguf");
        assert!(name.starts_with("a.b.") && name.ends_with("-7.gguf.part"));
        let told = |name: &str| parts(name).map(|(set, process)| (set.to_owned(), process));
        let (set, process) = told(&name).expect("it is one");
        assert_eq!(process, std::process::id());
        let shard = |number: u32| told(&of(&format!("k-0000{number}-of-00003.gguf")));
        assert!(shard(1).is_some() && shard(1) == shard(3));
        // Whatever of a long name is left out.
        let long = |end: &str| told(&of(&format!("{}{end}.gguf", "a".repeat(60))));
        assert_ne!(long("Q4_K_M"), long("Q5_K_M"));
        assert_ne!(told(&of("a.b.json")), Some((set, process)));
        assert!(parts("a.gguf").is_none() && parts("1-0.gguf.part").is_none());
    }
}
