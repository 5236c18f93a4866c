//! The older form, all little-endian:
//!
//! ```text
//! i32 n_entries
//! n_entries times:  i32 length, name, i32 n_calls, i32 n_values, f32[n_values] mean squares times n_calls
//! perhaps:          i32 n_chunks, i32 length, name of the text
//! ```
//!
//! Nothing marks a file as one of these, so every number is compared with what is left of the file.

use std::io::{BufWriter, Write as _};
use std::path::Path;

use super::{Imatrix, ImatrixEntry, LegacyLoss};
use crate::cursor::{Cursor, Endian};
use crate::diagnose::diagnose;
use crate::error::{Error, Result};
use crate::mapping::Mapping;
use crate::output::{OutputFile, WriteOptions};

/// The fewest bytes of an entry: three lengths and counts, one value. (An empty name is refused, but with a better
/// message than that there are too many entries.)
const ENTRY_BYTES_MIN: u64 = 4 + 4 + 4 + 4;
/// Longest name of a tensor, far above any model's.
const NAME_BYTES: u64 = 4096;

pub(super) fn read(path: &Path) -> Result<Imatrix> {
    let file =
        std::fs::File::open(path).map_err(|source| Error::io(path, "open the file", source))?;
    let about = file
        .metadata()
        .map_err(|source| Error::io(path, "look at the file", source))?;
    if about.len() == 0 {
        return Err(Error::Empty {
            path: path.to_owned(),
        });
    }
    let bytes = Mapping::of_file(&file, path)?;
    match diagnose(bytes.as_ref(), path) {
        // Nothing that is known: no magic marks the older form.
        Error::NotGguf { .. } => parse(bytes.as_ref(), path),
        known => Err(Error::NotImatrix {
            path: path.to_owned(),
            reason: known.reason(),
        }),
    }
}

/// An `i32` that counts something.
fn count(cursor: &mut Cursor<'_>, what: &str) -> Result<u64> {
    let offset = cursor.place();
    let value: i32 = cursor.number(|| what.to_owned())?;
    u64::try_from(value).map_err(|_| Error::NotImatrix {
        path: cursor.path.to_owned(),
        reason: format!("{what} at byte {offset} is {value}"),
    })
}

pub(super) fn parse(bytes: &[u8], path: &Path) -> Result<Imatrix> {
    let mut cursor = Cursor::new(bytes, path, Endian::Little);
    let not = |reason: String| Error::NotImatrix {
        path: path.to_owned(),
        reason,
    };
    let n_entries = count(&mut cursor, "the number of entries")?;
    if n_entries == 0 {
        return Err(not("it has no entries".to_owned()));
    }
    if n_entries > cursor.remaining() / ENTRY_BYTES_MIN {
        return Err(not(format!(
            "its first bytes are no GGUF magic, and read as the older form they announce {n_entries} entries, more than \
             its {} bytes can hold",
            bytes.len()
        )));
    }
    let mut imatrix = Imatrix::default();
    for index in 0..n_entries {
        let (name, entry) = entry(&mut cursor, index)?;
        if imatrix.get(&name).is_some() {
            return Err(Error::BadImatrix {
                path: path.to_owned(),
                tensor: name,
                reason: "it has two entries".to_owned(),
            });
        }
        imatrix.insert(name, entry);
    }
    if cursor.remaining() > 0 {
        let n_chunks = count(&mut cursor, "the number of chunks")?;
        // An `i32` that is not negative.
        imatrix.n_chunks = u32::try_from(n_chunks).unwrap_or(0);
    }
    if cursor.remaining() > 0 {
        let length = count(&mut cursor, "the length of the text's name")?;
        let name = cursor.take(length, || "the name of the text".to_owned())?;
        if length > 0 {
            imatrix
                .datasets
                .push(String::from_utf8_lossy(name).into_owned());
        }
    }
    match cursor.remaining() {
        0 => Ok(imatrix),
        n => Err(not(format!("{n} bytes follow behind its end"))),
    }
}

fn entry(cursor: &mut Cursor<'_>, index: u64) -> Result<(String, ImatrixEntry)> {
    let path = cursor.path;
    let what = |part: &str| format!("{part} of entry {index}");
    let length = count(cursor, &what("the length of the name"))?;
    let name = match length {
        1..=NAME_BYTES => cursor.take(length, || what("the name"))?,
        _ => &[],
    };
    let name = std::str::from_utf8(name)
        .ok()
        .filter(|name| !name.is_empty())
        .ok_or_else(|| Error::NotImatrix {
            path: path.to_owned(),
            reason: format!("entry {index} has no readable name of up to {NAME_BYTES} bytes"),
        })?
        .to_owned();
    let n_calls: i32 = cursor.number(|| what("the number of calls"))?;
    let n_values = count(cursor, &what("the number of values"))?;
    // At most 2^31 values of four bytes: the product fits.
    let data = cursor.take(n_values * 4, || {
        format!("the {n_values} values of {name:?}")
    })?;
    let values: Vec<f32> = data
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect();
    // Without calls the values stand for themselves.
    let entry = ImatrixEntry::new(values, vec![n_calls.max(1) as f32], None);
    let entry = entry.map_err(|reason| Error::BadImatrix {
        path: path.to_owned(),
        tensor: name.clone(),
        reason,
    })?;
    Ok((name, entry))
}

pub(super) fn write(imatrix: &Imatrix, path: &Path, options: &WriteOptions) -> Result<LegacyLoss> {
    let mut loss = LegacyLoss::default();
    let mut kept = Vec::new();
    for (name, entry) in imatrix.iter() {
        if entry.n_unseen() == entry.counts.len() {
            loss.left_out.push(name.to_owned());
            continue;
        }
        if entry.counts.iter().any(|count| *count != entry.counts[0]) {
            loss.flattened.push(name.to_owned());
        }
        kept.push((name, entry));
    }
    let mut bytes = Vec::new();
    let too_many = |tensor: &str, n: usize| Error::BadImatrix {
        path: path.to_owned(),
        tensor: tensor.to_owned(),
        reason: format!("the older form cannot count to {n}"),
    };
    let number = |n: usize, tensor: &str| match i32::try_from(n) {
        Ok(n) => Ok(n.to_le_bytes()),
        Err(_) => Err(too_many(tensor, n)),
    };
    bytes.extend(number(kept.len(), "")?);
    let chunk_size = imatrix.chunk_size.max(1) as f32;
    for (name, entry) in kept {
        let largest = entry.counts.iter().copied().fold(0.0, f32::max);
        // Rounded up, so that rows of less than a chunk do not become none.
        let n_calls = (largest / chunk_size).ceil();
        bytes.extend(number(name.len(), name)?);
        bytes.extend(name.as_bytes());
        bytes.extend(number(n_calls as usize, name)?);
        bytes.extend(number(entry.sums.len(), name)?);
        let mut sums = entry.weights();
        sums.iter_mut().for_each(|weight| *weight *= n_calls);
        if sums.iter().any(|sum| !sum.is_finite()) {
            return Err(Error::BadImatrix {
                path: path.to_owned(),
                tensor: name.to_owned(),
                reason: "its sums are larger than a number can be".to_owned(),
            });
        }
        bytes.extend(sums.iter().flat_map(|sum| sum.to_le_bytes()));
    }
    bytes.extend(number(imatrix.n_chunks as usize, "")?);
    let dataset = imatrix.datasets.last().map_or("", String::as_str);
    bytes.extend(number(dataset.len(), "")?);
    bytes.extend(dataset.as_bytes());
    let mut out = BufWriter::new(OutputFile::create(path, bytes.len() as u64, options)?);
    out.write_all(&bytes)
        .map_err(|source| Error::io(path, "write", source))?;
    let out = out
        .into_inner()
        .map_err(|error| Error::io(path, "write", error.into_error()))?;
    out.commit()?;
    Ok(loss)
}
