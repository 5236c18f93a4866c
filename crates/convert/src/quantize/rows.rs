//! Rows of one type become rows of another, in slabs of bounded size, on all threads.

use std::sync::{Mutex, PoisonError};

use gristmill_kernels::{KernelError, Pool, decode_row, encode_rows, for_each_chunk};
use gristmill_quant::{QuantError, TensorType};

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
}

impl<'a> RowEncoder<'a> {
    /// An encoder on a pool; `slab_bytes` bounds its buffer, but one row is always taken.
    pub fn new(pool: &'a Pool, slab_bytes: usize) -> Self {
        RowEncoder {
            pool,
            slab_elements: slab_bytes / 4,
            out: Vec::new(),
        }
    }

    /// Encodes all rows of `data` and hands them to `write`, a slab at a time, in order.
    ///
    /// # Errors
    /// [`ConvertError::Quant`] for data that does not fit, or a scale that is not finite; what `write` returns.
    pub fn encode(
        &mut self,
        rows: &Rows<'_>,
        data: &[u8],
        mut write: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let from_bytes = row_bytes(rows.tensor, rows.from, rows.row_len)?;
        let to_bytes = row_bytes(rows.tensor, rows.to, rows.row_len)?;
        if from_bytes == 0 {
            return Ok(());
        }
        let slab_rows = (self.slab_elements / rows.row_len).max(1);
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
            )?;
            write(&self.out)?;
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

/// Encodes the rows of `data`, the first of which is row `first_row` of the tensor.
fn encode_slab(
    pool: &Pool,
    rows: &Rows<'_>,
    (from_bytes, to_bytes): (usize, usize),
    first_row: usize,
    data: &[u8],
    out: &mut [u8],
) -> Result<()> {
    in_chunks(pool, rows.row_len, to_bytes, out, |first, out| {
        let n_rows = out.len() / to_bytes;
        let data = &data[first * from_bytes..][..n_rows * from_bytes];
        encode_chunk(rows, first_row + first, n_rows, data, out)
    })
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

/// Decodes, encodes and validates some rows.
fn encode_chunk(
    rows: &Rows<'_>,
    first_row: usize,
    n_rows: usize,
    data: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let row_len = rows.row_len;
    let kernel = |error| in_kernel(rows.tensor, error);
    let valid = |ty, data: &[u8]| validate(rows.tensor, ty, data, first_row * row_len);
    // What is not finite would be lost without a word where a search skips it.
    valid(rows.from, data)?;
    let mut values = vec![0.0; n_rows * row_len];
    decode_row(rows.from, data, &mut values).map_err(kernel)?;
    match rows.importance {
        None => encode_rows(rows.to, &values, row_len, None, out).map_err(kernel)?,
        Some(importance) => {
            let encoded = values
                .chunks_exact(row_len)
                .zip(out.chunks_exact_mut(out.len() / n_rows));
            for (row, (values, out)) in encoded.enumerate() {
                let matrix = (first_row + row) / rows.rows_per_matrix.max(1);
                let weights = importance
                    .get(matrix * row_len..)
                    .and_then(|rest| rest.get(..row_len));
                encode_rows(rows.to, values, row_len, weights, out).map_err(kernel)?;
            }
        }
    }
    valid(rows.to, out)
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
