//! The GGUF form: `general.type` is `imatrix`, and each tensor NAME of the model has tensors `NAME.in_sum2`
//! `[n_columns, n_matrices]` and `NAME.counts` `[1, n_matrices]`, both F32, perhaps `NAME.in_sum` and `NAME.stats`.

use std::collections::BTreeMap;
use std::path::Path;

use gristmill_quant::F32;

use super::{CHUNK_SIZE, Imatrix, ImatrixEntry};
use crate::error::{Error, Result};
use crate::metadata::Metadata;
use crate::model::{Model, TensorView};
use crate::output::WriteOptions;
use crate::value::{Array, StringArray};
use crate::writer::{TensorPlan, Writer};

const SQUARES: &str = ".in_sum2";
const PLAIN: &str = ".in_sum";
const COUNTS: &str = ".counts";
const DATASETS_KEY: &str = "imatrix.datasets";
const CHUNK_COUNT_KEY: &str = "imatrix.chunk_count";
const CHUNK_SIZE_KEY: &str = "imatrix.chunk_size";

/// The tensors of the file that are about one tensor of the model.
#[derive(Default)]
struct Parts<'a> {
    squares: Option<TensorView<'a>>,
    plain: Option<TensorView<'a>>,
    counts: Option<TensorView<'a>>,
}

pub(super) fn of_model(file: &Model) -> Result<Imatrix> {
    let mut imatrix = read_metadata(file)?;
    let mut parts: BTreeMap<&str, Parts<'_>> = BTreeMap::new();
    for tensor in file.views() {
        let name = &*tensor.info.name;
        if let Some(name) = name.strip_suffix(SQUARES) {
            parts.entry(name).or_default().squares = Some(tensor);
        } else if let Some(name) = name.strip_suffix(PLAIN) {
            parts.entry(name).or_default().plain = Some(tensor);
        } else if let Some(name) = name.strip_suffix(COUNTS) {
            parts.entry(name).or_default().counts = Some(tensor);
        }
    }
    if parts.is_empty() {
        return Err(not_imatrix(file, "it holds no sums".to_owned()));
    }
    for (name, parts) in parts {
        let entry = entry(&parts).map_err(|reason| Error::BadImatrix {
            path: file.path().to_owned(),
            tensor: name.to_owned(),
            reason,
        })?;
        imatrix.insert(name, entry);
    }
    Ok(imatrix)
}

fn not_imatrix(file: &Model, reason: String) -> Error {
    Error::NotImatrix {
        path: file.path().to_owned(),
        reason,
    }
}

fn read_metadata(file: &Model) -> Result<Imatrix> {
    let metadata = file.metadata();
    let missing = [DATASETS_KEY, CHUNK_COUNT_KEY, CHUNK_SIZE_KEY]
        .into_iter()
        .find(|key| !metadata.contains(key));
    if let Some(key) = missing {
        let reason = format!("it is {} and has no {key}", file.kind().description());
        return Err(not_imatrix(file, reason));
    }
    let typed = |error: Error| not_imatrix(file, error.to_string());
    let datasets = metadata.strings(DATASETS_KEY).map_err(typed)?;
    let number = |key| metadata.u32(key).map(|value| value.unwrap_or(0));
    Ok(Imatrix {
        datasets: datasets
            .into_iter()
            .flat_map(StringArray::iter)
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect(),
        n_chunks: number(CHUNK_COUNT_KEY).map_err(typed)?,
        chunk_size: number(CHUNK_SIZE_KEY).map_err(typed)?,
        entries: BTreeMap::new(),
    })
}

fn entry(parts: &Parts<'_>) -> Result<ImatrixEntry, String> {
    let floats = |tensor: TensorView<'_>| {
        let (name, ty) = (&tensor.info.name, tensor.info.ty);
        if ty != F32 {
            return Err(format!("{name} has type {ty}, not f32"));
        }
        let numbers = tensor.data.chunks_exact(4);
        Ok(numbers
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect::<Vec<f32>>())
    };
    let needed = |part: Option<TensorView<'_>>, suffix: &str| match part {
        Some(tensor) => floats(tensor),
        None => Err(format!("there is no {suffix}")),
    };
    let squares = needed(parts.squares, SQUARES)?;
    let counts = needed(parts.counts, COUNTS)?;
    // Of a matrix, dimensions say how columns and experts divide; the counts have to agree.
    if let Some(tensor) = parts.squares.map(|tensor| tensor.info) {
        let n_columns = tensor.dims.first().copied().unwrap_or(0);
        if n_columns.checked_mul(counts.len() as u64) != Some(squares.len() as u64) {
            return Err(format!(
                "{} has shape {:?}, and there are {} counts",
                tensor.name,
                tensor.dims,
                counts.len()
            ));
        }
    }
    let plain = parts.plain.map(floats).transpose()?;
    ImatrixEntry::new(squares, counts, plain)
}

pub(super) fn write(imatrix: &Imatrix, path: &Path, options: &WriteOptions) -> Result<()> {
    // Counts of chunks, of the older form, become counts of rows.
    let (chunk_size, factor) = match imatrix.chunk_size {
        0 => (CHUNK_SIZE, CHUNK_SIZE as f32),
        size => (size, 1.0),
    };
    let mut metadata = Metadata::new();
    metadata.set("general.type", "imatrix");
    let mut datasets = StringArray::new();
    for name in &imatrix.datasets {
        datasets.push(name.as_bytes());
    }
    metadata.set(DATASETS_KEY, Array::String(datasets));
    metadata.set(CHUNK_COUNT_KEY, imatrix.n_chunks);
    metadata.set(CHUNK_SIZE_KEY, chunk_size);
    let mut plans = Vec::new();
    let mut data: Vec<&[f32]> = Vec::new();
    for (name, entry) in imatrix.iter() {
        let n_matrices = entry.counts.len() as u64;
        let n_columns = entry.sums.len() as u64 / n_matrices;
        let mut add = |suffix, n_columns, values| {
            plans.push(TensorPlan {
                name: format!("{name}{suffix}"),
                dims: vec![n_columns, n_matrices],
                ty: F32,
            });
            data.push(values);
        };
        add(SQUARES, n_columns, &entry.sums);
        add(COUNTS, 1, &entry.counts);
        if let Some(plain) = &entry.activations {
            add(PLAIN, n_columns, plain);
        }
    }
    // Sums may be near the largest number there is, and become none by the factor.
    let fits = |values: &[f32]| values.iter().all(|value| (value * factor).is_finite());
    if let Some(place) = data.iter().position(|values| !fits(values)) {
        return Err(Error::BadImatrix {
            path: path.to_owned(),
            tensor: plans[place].name.clone(),
            reason: "its sums, for rows in place of chunks, are larger than a number can be"
                .to_owned(),
        });
    }
    let mut writer = Writer::create(path, &metadata, &plans, options)?;
    for values in data {
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| (value * factor).to_le_bytes())
            .collect();
        writer.write(&bytes)?;
    }
    writer.finish()
}
