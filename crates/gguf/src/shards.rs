//! Sets of shards: `NAME-00001-of-00003.gguf` and its fellows.
//!
//! File names count from 1, `split.no` from 0. Only the first shard has the model's metadata;
//! `split.tensors.count` is the number of tensors in all of them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::file::File;
use crate::metadata::Metadata;
use crate::value::Value;
use crate::{edit, encode, limits};

/// A shard's number, from 0.
pub(crate) const NUMBER: &str = "split.no";
pub(crate) const COUNT: &str = "split.count";
pub(crate) const TENSORS: &str = "split.tensors.count";

/// Whether an entry is about the file's place in a set rather than about the model.
pub(crate) fn is_shard_key(key: &str) -> bool {
    [NUMBER, COUNT, TENSORS].contains(&key)
}

/// The name of a shard, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardName<'a> {
    /// What the names of all shards of the set begin with.
    pub prefix: &'a str,
    /// Which one it is, from 1.
    pub number: u64,
    /// How many there are.
    pub count: u64,
}

/// The name of shard `number` (from 1) of `count`.
pub fn shard_file_name(prefix: &str, number: u64, count: u64) -> String {
    format!("{prefix}{}", suffix(number, count))
}

/// What shards are named after, from the name that a single file would have: the path without `.gguf`.
pub fn shard_prefix(path: &Path) -> PathBuf {
    match path.extension() {
        Some(extension) if extension == "gguf" && !is_folder_name(path) => path.with_extension(""),
        _ => path.to_owned(),
    }
}

/// Whether a path can only name a folder: it ends in a separator or in `.`, which [`Path::file_name`] passes over.
pub(crate) fn is_folder_name(path: &Path) -> bool {
    let text = path.as_os_str().as_encoded_bytes();
    let is_separator = |byte: &u8| std::path::is_separator(char::from(*byte));
    let before_dot = text.strip_suffix(b".").unwrap_or(text);
    before_dot.last().is_some_and(is_separator) || path.file_name().is_none()
}

fn suffix(number: u64, count: u64) -> String {
    format!("-{number:05}-of-{count:05}.gguf")
}

impl ShardName<'_> {
    /// The name of a file, if it is that of a shard. Only the file's own name counts: a folder may look like a shard as
    /// well.
    pub fn of(path: &Path) -> Option<ShardName<'_>> {
        let stem = path.file_name()?.to_str()?.strip_suffix(".gguf")?;
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (prefix, number) = rest.rsplit_once('-')?;
        let digits = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(number) || !digits(count) {
            return None;
        }
        Some(ShardName {
            prefix,
            // They count from 1.
            number: number.parse().ok().filter(|&number| number > 0)?,
            count: count.parse().ok()?,
        })
    }
}

/// The metadata of a set: that of the first shard, and what other shards have besides, which writers of today put into the
/// first. What is each file's own is not of the model.
///
/// # Errors
/// [`Error::ShardMixed`] where a shard contradicts the first.
pub(crate) fn whole_metadata(shards: &[File]) -> Result<Metadata> {
    let mut whole = shards[0].metadata().clone();
    let is_own =
        |key| is_shard_key(key) || ["general.alignment", edit::RESERVED_KEY].contains(&key);
    for shard in &shards[1..] {
        for (key, value) in shard.metadata().iter().filter(|(key, _)| !is_own(key)) {
            match whole.get(key) {
                None => {
                    whole.set(key, value.clone());
                }
                Some(first) if encode::is_same(first, value) => {}
                Some(first) => {
                    return Err(Error::ShardMixed {
                        path: shard.path().to_owned(),
                        what: format!("metadata key {key:?}"),
                        expected: shown(first),
                        found: shown(value),
                    });
                }
            }
        }
    }
    Ok(whole)
}

/// A value in few words.
fn shown(value: &Value) -> String {
    let ty = value.type_name();
    match value {
        Value::Array(array) => format!("{ty} of {} elements", array.len()),
        Value::String(text) => {
            let start: String = text.to_str_lossy().chars().take(60).collect();
            format!("{ty} {start:?}")
        }
        other => match other.as_integer() {
            Some(number) => format!("{ty} {number}"),
            None => format!("another {ty}"),
        },
    }
}

/// The files that are there of the set that `file` belongs to, in order, and the error that tells what is missing.
pub(crate) fn open_present(
    file: File,
    open: impl Fn(&Path) -> Result<File>,
    missing: Error,
) -> Result<(Vec<File>, Error)> {
    let count = key(&file, COUNT)?.unwrap_or(1);
    let own = number_of(&file, count)?;
    let prefix = ShardName::of(file.path()).map_or("", |name| name.prefix);
    let names: Vec<PathBuf> = (1..=count)
        .map(|number| {
            file.path()
                .with_file_name(shard_file_name(prefix, number, count))
        })
        .collect();
    let mut own = Some((own, file));
    let mut shards: Vec<File> = Vec::new();
    for (number, path) in (1..).zip(names) {
        let shard = match own.take_if(|(own, _)| *own == number) {
            Some((_, file)) => file,
            None if !path.exists() => continue,
            None => open(&path)?,
        };
        check_member(&shard, number, count, shards.first())?;
        shards.push(shard);
    }
    Ok((shards, missing))
}

/// All files of the set that `file` belongs to, in order; only `file` if it is no part of one.
pub(crate) fn open_set(file: File, open: impl Fn(&Path) -> Result<File>) -> Result<Vec<File>> {
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
            None => open(&path)?,
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

fn required_key(file: &File, name: &'static str) -> Result<u64> {
    key(file, name)?.ok_or_else(|| Error::ShardKeyMissing {
        path: file.path().to_owned(),
        key: name,
    })
}

/// The number of a shard by its name, from 1; its metadata must agree.
fn number_of(file: &File, count: u64) -> Result<u64> {
    let path = file.path().to_owned();
    let stored = required_key(file, NUMBER)?;
    let Some(name) = ShardName::of(file.path()) else {
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
    check_number(file, name.number, stored, count)?;
    if name.number > count {
        return Err(Error::ShardBeyondCount {
            path,
            number: name.number,
            count,
        });
    }
    Ok(name.number)
}

/// The paths of all shards, all of which are there.
fn set_paths(file: &File, own: u64, count: u64) -> Result<Vec<PathBuf>> {
    let prefix = ShardName::of(file.path()).map_or("", |name| name.prefix);
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

/// Whether a shard's number by its name, from 1, is that of its metadata, from 0.
fn check_number(file: &File, number: u64, stored: u64, count: u64) -> Result<()> {
    let found = stored.saturating_add(1);
    if found == number {
        return Ok(());
    }
    Err(Error::ShardNumber {
        path: file.path().to_owned(),
        number,
        found,
        count,
    })
}

/// The number of a file in its set, from 1 as in file names; 1 for a file that is no part of one.
pub(crate) fn number_in_set(file: &File) -> u64 {
    let get = |key| file.metadata().u64(key).ok().flatten();
    match (get(COUNT), get(NUMBER)) {
        (Some(2..), Some(stored)) => stored.saturating_add(1),
        _ => 1,
    }
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
    check_number(shard, number, required_key(shard, NUMBER)?, count)?;
    let Some(first) = first else { return Ok(()) };
    let mixed = |what: &str, expected, found| Error::ShardMixed {
        path: path(),
        what: what.to_owned(),
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
            first.endian().name().to_owned(),
            shard.endian().name().to_owned(),
        ));
    }
    Ok(())
}

/// Whether the set has as many tensors as its shards say; where it has not, the shard that does not belong is named.
fn check_total(shards: &[File]) -> Result<()> {
    let found = shards
        .iter()
        .map(|shard| shard.tensors().len() as u64)
        .sum();
    let mut claims = Vec::with_capacity(shards.len());
    for shard in shards {
        if let Some(claim) = key(shard, TENSORS)? {
            claims.push((shard, claim));
        }
    }
    let Some(&(first, expected)) = claims.first() else {
        return Ok(());
    };
    // What most shards say is the set's; the one that says otherwise belongs to another.
    let mut n_saying: HashMap<u64, usize> = HashMap::new();
    for (_, claim) in &claims {
        *n_saying.entry(*claim).or_default() += 1;
    }
    let is_rare = |claim| n_saying.get(claim) < Some(&claims.len().div_ceil(2));
    let stranger = claims.iter().find(|(_, claim)| is_rare(claim));
    match stranger.or(claims.iter().find(|(_, claim)| *claim != expected)) {
        Some(&(stranger, claim)) if claim != expected => Err(Error::ShardMixed {
            path: stranger.path().to_owned(),
            what: TENSORS.to_owned(),
            expected: expected.to_string(),
            found: claim.to_string(),
        }),
        None if expected == found => Ok(()),
        _ => Err(Error::ShardTensorCount {
            path: first.path().to_owned(),
            expected,
            found,
        }),
    }
}
