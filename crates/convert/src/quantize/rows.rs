//! Rows of one type become rows of another, in slabs of bounded size, on all threads.

use std::sync::{Mutex, PoisonError};

use gristmill_kernels::{KernelError, Pool, decode_row, encode_rows, for_each_chunk};
use gristmill_quant::{QuantError, TensorType};

use super::Quality;
use crate::adapter::Change;
use crate::error::{ConvertError, Result};

/// Elements that one thread takes at a time, about.
pub(crate) const CHUNK_ELEMENTS: usize = 1 << 15;

/// Changes the type of rows. Bytes do not depend on the number of threads or the size of slabs: every row is
/// encoded by itself.
pub struct RowEncoder<'a> {
    pool: &'a Pool,
    /// Elements of a slab, about.
    slab_elements: usize,
    out: Vec<u8>,
    /// What was lost since [`RowEncoder::take_quality`], where that is measured.
    quality: Option<Quality>,
}

/// Rows of one tensor.
pub struct Rows<'a> {
    /// The tensor's name, for errors.
    pub tensor: &'a str,
    /// The type they have.
    pub from: TensorType,
    /// The type they are to get.
    pub to: TensorType,
    /// Row of the tensor that the data begins with.
    pub first_row: usize,
    /// Elements per row: a whole number of blocks of both types.
    pub row_len: usize,
    /// Rows of one of the stacked matrices.
    pub rows_per_matrix: usize,
    /// `row_len` weights for each stacked matrix, where columns matter unequally.
    pub importance: Option<&'a [f32]>,
    /// What is added to their values first.
    pub changes: &'a [Change],
}

impl<'a> RowEncoder<'a> {
    /// An encoder on a pool; `slab_bytes` bounds its buffer, but one row is always taken.
    pub fn new(pool: &'a Pool, slab_bytes: usize) -> Self {
        RowEncoder {
            pool,
            slab_elements: slab_bytes / 4,
            out: Vec::new(),
            quality: None,
        }
    }

    /// Measures from now on what the encoded rows lose.
    pub(super) fn measure(&mut self) {
        self.quality = Some(Quality::default());
    }

    /// What was lost since the last call; none where it is not measured.
    pub(super) fn take_quality(&mut self) -> Option<Quality> {
        self.quality.as_mut().map(std::mem::take)
    }

    /// Rows of this length that make a slab.
    fn slab_rows(&self, row_len: usize) -> usize {
        (self.slab_elements / row_len.max(1)).max(1)
    }

    /// Encodes all rows of `data` and hands them to `write`, a slab at a time, in order: what was read, and what became of it.
    ///
    /// # Errors
    /// [`ConvertError::Quant`] for data that does not fit, or a scale that is not finite; what `write` returns.
    pub fn encode(
        &mut self,
        rows: &Rows<'_>,
        data: &[u8],
        mut write: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let from_bytes = row_bytes(rows.tensor, rows.from, rows.row_len)?;
        let to_bytes = row_bytes(rows.tensor, rows.to, rows.row_len)?;
        if from_bytes == 0 {
            return Ok(());
        }
        let slab_rows = self.slab_rows(rows.row_len);
        for (slab, data) in data.chunks(slab_rows * from_bytes).enumerate() {
            let n_rows = data.len() / from_bytes;
            self.out.resize(n_rows * to_bytes, 0);
            encode_slab(
                self.pool,
                rows,
                (from_bytes, to_bytes),
                rows.first_row + slab * slab_rows,
                data,
                &mut self.out,
                self.quality.as_mut(),
            )?;
            write(data, &self.out)?;
        }
        Ok(())
    }

    /// Hands `data` on as it is, after a look for scales that are not finite.
    ///
    /// # Errors
    /// [`ConvertError::Quant`], what `write` returns.
    pub fn copy(
        &mut self,
        tensor: &str,
        ty: TensorType,
        data: &[u8],
        mut write: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let slab_bytes = (self.slab_elements / ty.block_len()).max(1) * ty.block_bytes();
        for (slab, data) in data.chunks(slab_bytes).enumerate() {
            if ty.can_decode() {
                let first_block = slab * (slab_bytes / ty.block_bytes());
                validate(tensor, ty, data, first_block * ty.block_len())?;
            }
            write(data)?;
        }
        Ok(())
    }
}

/// Bytes of a row.
pub(crate) fn row_bytes(tensor: &str, ty: TensorType, row_len: usize) -> Result<usize> {
    let n = row_len as u64;
    let bytes = ty.row_bytes(n).map_err(|error| in_tensor(tensor, error))?;
    usize::try_from(bytes).map_err(|_| in_tensor(tensor, QuantError::Overflow { ty, n }))
}

/// Encodes the rows of `data`, the first of which is row `first_row` of the tensor, and adds what is lost to `quality`.
fn encode_slab(
    pool: &Pool,
    rows: &Rows<'_>,
    (from_bytes, to_bytes): (usize, usize),
    first_row: usize,
    data: &[u8],
    out: &mut [u8],
    quality: Option<&mut Quality>,
) -> Result<()> {
    // Of every row, with the number of the first: threads come in any order, and sums must not depend on it.
    let lost = quality
        .is_some()
        .then(|| Mutex::new(Vec::<(usize, Vec<Quality>)>::new()));
    in_chunks(pool, rows.row_len, to_bytes, out, |first, out| {
        let n_rows = out.len() / to_bytes;
        let data = &data[first * from_bytes..][..n_rows * from_bytes];
        let values = encode_chunk(rows, first_row + first, n_rows, data, out)?;
        if let Some(lost) = &lost {
            let chunk = chunk_quality(rows, first_row + first, &values, out)?;
            let mut lost = lost.lock().unwrap_or_else(PoisonError::into_inner);
            lost.push((first, chunk));
        }
        Ok(())
    })?;
    if let (Some(quality), Some(lost)) = (quality, lost) {
        let mut lost = lost.into_inner().unwrap_or_else(PoisonError::into_inner);
        lost.sort_by_key(|(first, _)| *first);
        lost.iter()
            .flat_map(|(_, rows)| rows)
            .for_each(|row| quality.add(row));
    }
    Ok(())
}

/// What each of some rows lost when `values` became `encoded`.
fn chunk_quality(
    rows: &Rows<'_>,
    first_row: usize,
    values: &[f32],
    encoded: &[u8],
) -> Result<Vec<Quality>> {
    let mut after = vec![0.0; values.len()];
    decode_row(rows.to, encoded, &mut after).map_err(|error| in_kernel(rows.tensor, error))?;
    let pairs = values
        .chunks_exact(rows.row_len)
        .zip(after.chunks_exact(rows.row_len));
    Ok(pairs
        .enumerate()
        .map(|(row, (before, after))| {
            Quality::of_row(before, after, rows.weights_of(first_row + row))
        })
        .collect())
}

impl<'a> Rows<'a> {
    /// The weights of the columns of a row.
    fn weights_of(&self, row: usize) -> Option<&'a [f32]> {
        let matrix = row / self.rows_per_matrix.max(1);
        let weights = self.importance?.get(matrix * self.row_len..)?;
        weights.get(..self.row_len)
    }
}

/// Fills `out`, rows of `row_bytes`, on all threads: `encode` gets the number of its first row and the bytes to fill. The
/// failure of the first row counts, whichever thread came first.
pub(crate) fn in_chunks(
    pool: &Pool,
    row_len: usize,
    row_bytes: usize,
    out: &mut [u8],
    encode: impl Fn(usize, &mut [u8]) -> Result<()> + Sync,
) -> Result<()> {
    let chunk_rows = (CHUNK_ELEMENTS / row_len.max(1)).max(1);
    let failure: Mutex<Option<(usize, ConvertError)>> = Mutex::new(None);
    for_each_chunk(pool, out, chunk_rows * row_bytes, |chunk, out| {
        let first = chunk * chunk_rows;
        if let Err(error) = encode(first, out) {
            let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
            if failure.as_ref().is_none_or(|(earlier, _)| first < *earlier) {
                *failure = Some((first, error));
            }
        }
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

/// Decodes, encodes and validates some rows; gives the values.
fn encode_chunk(
    rows: &Rows<'_>,
    first_row: usize,
    n_rows: usize,
    data: &[u8],
    out: &mut [u8],
) -> Result<Vec<f32>> {
    let row_len = rows.row_len;
    let kernel = |error| in_kernel(rows.tensor, error);
    let valid = |ty, data: &[u8]| validate(rows.tensor, ty, data, first_row * row_len);
    // What is not finite would be lost without a word where a search skips it.
    valid(rows.from, data)?;
    let mut values = vec![0.0; n_rows * row_len];
    decode_row(rows.from, data, &mut values).map_err(kernel)?;
    for change in rows.changes {
        change.add_to(first_row, &mut values);
    }
    match rows.importance {
        None => encode_rows(rows.to, &values, row_len, None, out).map_err(kernel)?,
        Some(_) => {
            let encoded = values
                .chunks_exact(row_len)
                .zip(out.chunks_exact_mut(out.len() / n_rows));
            for (row, (values, out)) in encoded.enumerate() {
                let weights = rows.weights_of(first_row + row);
                encode_rows(rows.to, values, row_len, weights, out).map_err(kernel)?;
            }
        }
    }
    valid(rows.to, out)?;
    check_magnitude(rows, first_row, &values, out)?;
    Ok(values)
}

/// Values from here on are beyond the scales of most types.
const HUGE: f32 = (1u32 << 30) as f32;

/// Refuses blocks that lost the huge value that is their largest: where a search divides by one, what comes out may be
/// nothing in place of infinity. Beside a larger one a value may well round to nothing.
fn check_magnitude(rows: &Rows<'_>, first_row: usize, values: &[f32], out: &[u8]) -> Result<()> {
    // Without a way out on the way, so that the compiler takes many values at once.
    let any = |any: bool, value: &f32| any | (value.abs() >= HUGE);
    if !values.iter().fold(false, any) {
        return Ok(());
    }
    let mut after = vec![0.0; values.len()];
    decode_row(rows.to, out, &mut after).map_err(|error| in_kernel(rows.tensor, error))?;
    let block_len = rows.to.block_len();
    let mut largest = values
        .chunks(block_len)
        .enumerate()
        .filter_map(|(block, values)| {
            let in_block = values.iter().enumerate();
            let (index, _) = in_block.max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()))?;
            Some(block * block_len + index)
        });
    let is_lost = |&index: &usize| {
        let (before, after) = (values[index].abs(), after[index].abs());
        before >= HUGE && after < before / 2.0
    };
    match largest.find(is_lost) {
        Some(index) => Err(ConvertError::BeyondType {
            tensor: rows.tensor.to_owned(),
            ty: rows.to,
            value: values[index],
            element: first_row * rows.row_len + index,
        }),
        None => Ok(()),
    }
}

/// Looks for values and scales that are not finite; the data begins with element `first` of the tensor.
pub(crate) fn validate(tensor: &str, ty: TensorType, data: &[u8], first: usize) -> Result<()> {
    ty.validate(data)
        .map_err(|error| in_tensor(tensor, later_block(error, first / ty.block_len())))
}

/// Counts the block of a failure from the start of the tensor.
fn later_block(error: QuantError, first_block: usize) -> QuantError {
    match error {
        QuantError::NonFinite { ty, block } => QuantError::NonFinite {
            ty,
            block: first_block + block,
        },
        other => other,
    }
}

pub(crate) fn in_tensor(tensor: &str, source: QuantError) -> ConvertError {
    ConvertError::Quant {
        tensor: tensor.to_owned(),
        source,
    }
}

pub(crate) fn in_kernel(tensor: &str, source: KernelError) -> ConvertError {
    match source {
        KernelError::Quant(source) => in_tensor(tensor, source),
        source => ConvertError::Kernel {
            tensor: tensor.to_owned(),
            source,
        },
    }
}
