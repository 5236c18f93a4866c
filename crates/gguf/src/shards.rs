//! Sets of shards: `NAME-00001-of-00003.gguf` and its fellows.
//!
//! File names count from 1, `split.no` from 0. Only the first shard has the model's metadata;
//! `split.tensors.count` is the number of tensors in all of them.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::file::File;
use crate::limits;

const NUMBER: &str = "split.no";
const COUNT: &str = "split.count";
const TENSORS: &str = "split.tensors.count";

/// The name of a shard, taken apart.
struct ShardName<'a> {
    prefix: &'a str,
    /// From 1.
    number: u64,
    count: u64,
}

/// The name of shard `number` (from 1) of `count`.
pub fn shard_file_name(prefix: &str, number: u64, count: u64) -> String {
    format!("{prefix}{}", suffix(number, count))
}

fn suffix(number: u64, count: u64) -> String {
    format!("-{number:05}-of-{count:05}.gguf")
}

/// Only the file's own name counts: a folder may look like a shard as well.
fn shard_name(path: &Path) -> Option<ShardName<'_>> {
    let stem = path.file_name()?.to_str()?.strip_suffix(".gguf")?;
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (prefix, number) = rest.rsplit_once('-')?;
    let digits = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(number) || !digits(count) {
        return None;
    }
    Some(ShardName {
        prefix,
        number: number.parse().ok()?,
        count: count.parse().ok()?,
    })
}

/// All files of the set that `file` belongs to, in order; only `file` if it is no part of one.
pub(crate) fn open_set(file: File) -> Result<Vec<File>> {
    let count = key(&file, COUNT)?.unwrap_or(1);
    if count <= 1 {
        return Ok(vec![file]);
    }
    if count > limits::SHARDS {
        return Err(Error::TooManyShards {
            path: file.path().to_owned(),
            count,
            limit: limits::SHARDS,
        });
    }
    let own = number_of(&file, count)?;
    let paths = set_paths(&file, own, count)?;
    let mut own = Some((own, file));
    let mut shards: Vec<File> = Vec::new();
    for (number, path) in (1..).zip(paths) {
        let shard = match own.take_if(|(own, _)| *own == number) {
            Some((_, file)) => file,
            None => File::open(&path)?,
        };
        check_member(&shard, number, count, shards.first())?;
        shards.push(shard);
    }
    check_total(&shards)?;
    Ok(shards)
}

fn key(file: &File, key: &str) -> Result<Option<u64>> {
    file.metadata()
        .u64(key)
        .map_err(|error| error.in_file(file.path()))
}

fn required_key(file: &File, key: &str) -> Result<u64> {
    file.metadata()
        .required_u64(key)
        .map_err(|error| error.in_file(file.path()))
}

/// The number of a shard by its name, from 1; its metadata must agree.
fn number_of(file: &File, count: u64) -> Result<u64> {
    let path = file.path().to_owned();
    let stored = required_key(file, NUMBER)?;
    let Some(name) = shard_name(file.path()) else {
        let number = stored.saturating_add(1);
        return Err(Error::RenamedShard {
            path,
            number,
            count,
            expected: suffix(number, count),
        });
    };
    if name.count != count {
        return Err(Error::ShardCount {
            path,
            expected: name.count,
            found: count,
        });
    }
    if stored.checked_add(1) != Some(name.number) {
        return Err(Error::ShardNumber {
            path,
            number: name.number,
            found: stored,
        });
    }
    if name.number > count {
        return Err(Error::ShardNumber {
            path,
            number: name.number,
            found: stored,
        });
    }
    Ok(name.number)
}

/// The paths of all shards, all of which are there.
fn set_paths(file: &File, own: u64, count: u64) -> Result<Vec<PathBuf>> {
    let prefix = shard_name(file.path()).map_or("", |name| name.prefix);
    let names = (1..=count).map(|number| shard_file_name(prefix, number, count));
    let paths: Vec<PathBuf> = names.map(|name| file.path().with_file_name(name)).collect();
    let absent =
        |(number, path): (u64, &PathBuf)| (number != own && !path.exists()).then(|| path.clone());
    let missing: Vec<PathBuf> = (1..).zip(&paths).filter_map(absent).collect();
    if missing.is_empty() {
        return Ok(paths);
    }
    let name = |path: &PathBuf| {
        path.file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    };
    Err(Error::MissingShards {
        path: file.path().to_owned(),
        count,
        n_missing: missing.len(),
        missing: missing.iter().take(10).map(name).collect(),
    })
}

/// Whether a file is what its place in the set says.
fn check_member(shard: &File, number: u64, count: u64, first: Option<&File>) -> Result<()> {
    let path = || shard.path().to_owned();
    let found = required_key(shard, COUNT)?;
    if found != count {
        return Err(Error::ShardCount {
            path: path(),
            expected: count,
            found,
        });
    }
    let found = required_key(shard, NUMBER)?;
    if found.checked_add(1) != Some(number) {
        return Err(Error::ShardNumber {
            path: path(),
            number,
            found,
        });
    }
    let Some(first) = first else { return Ok(()) };
    let mixed = |what, expected, found| Error::ShardMixed {
        path: path(),
        what,
        expected,
        found,
    };
    if shard.version() != first.version() {
        return Err(mixed(
            "the GGUF version",
            first.version().to_string(),
            shard.version().to_string(),
        ));
    }
    if shard.endian() != first.endian() {
        return Err(mixed(
            "the byte order",
            format!("{:?}", first.endian()),
            format!("{:?}", shard.endian()),
        ));
    }
    Ok(())
}

fn check_total(shards: &[File]) -> Result<()> {
    let found = shards
        .iter()
        .map(|shard| shard.tensors().len() as u64)
        .sum();
    for shard in shards {
        if let Some(expected) = key(shard, TENSORS)?.filter(|&expected| expected != found) {
            return Err(Error::ShardTensorCount {
                path: shard.path().to_owned(),
                expected,
                found,
            });
        }
    }
    Ok(())
}
