//! The tensor directory, checked against the file that it describes.

use std::path::Path;

use gristmill_quant::TensorType;

use crate::error::{Error, Result};
use crate::faults::Faults;
use crate::limits;
use crate::metadata::Metadata;
use crate::parse::RawTensor;
use crate::value::Value;

/// One tensor of a file. After validation: 1 to 4 dimensions, none zero; rows of whole blocks;
/// `bytes` follows from type and dimensions; and the data lies inside the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// The name, as in `blk.0.attn_q.weight`.
    pub name: String,
    /// The dimensions, the contiguous one first (`ne` order: the reverse of PyTorch's).
    pub dims: Vec<u64>,
    /// The type of its elements.
    pub ty: TensorType,
    /// Where its data starts, in bytes from the start of the data section.
    pub offset: u64,
    /// How many bytes its data takes.
    pub bytes: u64,
}

impl TensorInfo {
    /// The number of elements.
    pub fn n_elements(&self) -> u64 {
        // The product was checked when the tensor was read.
        self.dims
            .iter()
            .fold(1, |product: u64, &dim| product.saturating_mul(dim))
    }

    /// The number of rows: every dimension but the first, multiplied.
    pub fn n_rows(&self) -> u64 {
        self.dims
            .iter()
            .skip(1)
            .fold(1, |product: u64, &dim| product.saturating_mul(dim))
    }
}

/// The bytes of a tensor of this type and these dimensions; the error is the reason why it cannot
/// be.
pub fn tensor_bytes(ty: TensorType, dims: &[u64]) -> Result<u64, String> {
    if dims.is_empty() || dims.len() > limits::DIMS as usize {
        return Err(format!(
            "{} dimensions; a tensor has 1 to {}",
            dims.len(),
            limits::DIMS
        ));
    }
    if dims.contains(&0) {
        return Err(format!("a dimension of {dims:?} is zero"));
    }
    let product = |dims: &[u64], first: u64| {
        dims.iter()
            .try_fold(first, |product, &dim| product.checked_mul(dim))
    };
    // Signed in the reference, so half of the range.
    if product(dims, 1).is_none_or(|n| n > i64::MAX as u64) {
        return Err(format!(
            "the number of elements of {dims:?} does not fit in 63 bits"
        ));
    }
    let block_len = ty.block_len() as u64;
    if !dims[0].is_multiple_of(block_len) {
        return Err(format!(
            "rows of {} elements are not whole blocks of {block_len} ({ty})",
            dims[0]
        ));
    }
    (dims[0] / block_len)
        .checked_mul(ty.block_bytes() as u64)
        .and_then(|row| product(&dims[1..], row))
        .filter(|&bytes| bytes <= i64::MAX as u64)
        .ok_or_else(|| format!("the size in bytes of {dims:?} in {ty} does not fit in 63 bits"))
}

/// `general.alignment`, or the default.
///
/// The specification asks for a multiple of 8, the reference for a power of two; the weaker rule is
/// enough to read.
pub(crate) fn alignment(metadata: &Metadata, path: &Path) -> Result<u64> {
    match metadata.get("general.alignment") {
        None => Ok(limits::DEFAULT_ALIGNMENT),
        Some(&Value::U32(alignment)) if alignment != 0 && alignment % 8 == 0 => {
            Ok(alignment.into())
        }
        Some(other) => {
            let found = match other.as_integer() {
                Some(number) => format!("{} {number}", other.type_name()),
                None => other.type_name(),
            };
            Err(Error::BadAlignment {
                path: path.to_owned(),
                found,
            })
        }
    }
}

/// The alignment of a file that is to be written.
pub(crate) fn written_alignment(metadata: &Metadata, path: &Path) -> Result<u64> {
    let alignment = alignment(metadata, path)?;
    if alignment <= limits::WRITTEN_ALIGNMENT {
        return Ok(alignment);
    }
    Err(Error::BadEntry {
        path: path.to_owned(),
        key: "general.alignment".to_owned(),
        reason: format!(
            "{alignment} bytes; files are written with at most {}",
            limits::WRITTEN_ALIGNMENT
        ),
    })
}

/// The next multiple of `alignment` from `place` on.
pub(crate) fn align_up(place: u64, alignment: u64) -> Option<u64> {
    place.checked_next_multiple_of(alignment)
}

/// Where the data section starts: padded where there is data, else right after the directory.
pub(crate) fn data_offset(directory_end: u64, n_tensors: usize, alignment: u64) -> u64 {
    let padded = if n_tensors == 0 {
        Some(directory_end)
    } else {
        align_up(directory_end, alignment)
    };
    // The directory lies inside a file and the alignment has 32 bits: no overflow in practice, and
    // the end of the range makes every tensor lie outside.
    padded.unwrap_or(u64::MAX)
}

/// Where the data section lies.
#[derive(Clone, Copy)]
pub(crate) struct DataSection {
    /// Tensors start at multiples of this.
    pub(crate) alignment: u64,
    /// Its first byte.
    pub(crate) offset: u64,
    /// The size of the file.
    pub(crate) file_size: u64,
}

/// Checks every tensor: size, alignment, place inside the file, no overlap. Tensors at fault are left out where
/// `faults` lets the reading go on.
pub(crate) fn validate(
    raw: Vec<RawTensor>,
    path: &Path,
    section: DataSection,
    faults: &mut Faults,
) -> Result<Vec<TensorInfo>> {
    let mut tensors = Vec::with_capacity(raw.len());
    for tensor in raw {
        tensors.extend(faults.pass(validated(tensor, path, section))?);
    }
    no_overlap(&tensors, path, faults)?;
    Ok(tensors)
}

fn validated(tensor: RawTensor, path: &Path, section: DataSection) -> Result<TensorInfo> {
    let RawTensor {
        name,
        dims,
        ty,
        offset,
    } = tensor;
    let path = || path.to_owned();
    let bytes = match tensor_bytes(ty, &dims) {
        Ok(bytes) => bytes,
        Err(reason) => {
            return Err(Error::BadShape {
                path: path(),
                tensor: name,
                reason,
            });
        }
    };
    if !offset.is_multiple_of(section.alignment) {
        return Err(Error::Misaligned {
            path: path(),
            tensor: name,
            offset,
            alignment: section.alignment,
        });
    }
    let end = u128::from(section.offset) + u128::from(offset) + u128::from(bytes);
    if end > u128::from(section.file_size) {
        return Err(Error::TensorOutsideFile {
            path: path(),
            tensor: name,
            end,
            size: section.file_size,
        });
    }
    Ok(TensorInfo {
        name,
        dims,
        ty,
        offset,
        bytes,
    })
}

fn no_overlap(tensors: &[TensorInfo], path: &Path, faults: &mut Faults) -> Result<()> {
    let mut order: Vec<&TensorInfo> = tensors.iter().collect();
    order.sort_by_key(|tensor| tensor.offset);
    for pair in order.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        // Both ends lie inside the file: the sum does not overflow.
        if second.offset < first.offset + first.bytes {
            faults.meet(Error::Overlap {
                path: path.to_owned(),
                first: first.name.clone(),
                second: second.name.clone(),
                offset: second.offset,
            })?;
        }
    }
    Ok(())
}
