//! Turning tensor data from one byte order into the other. Which bytes of a block belong together stands with its
//! type, in `gristmill_quant`.

use std::path::Path;

use gristmill_quant::TensorType;

use crate::directory::TensorInfo;
use crate::error::{Error, Result};
use crate::mapping::Mapping;

/// An owned copy of a big-endian file up to the end of its last tensor, whose tensor data is little-endian.
///
/// # Errors
/// [`Error::TooLargeToTurn`] where the system has no memory for it.
pub(crate) fn to_little(
    region: Mapping,
    path: &Path,
    data_offset: u64,
    tensors: &[TensorInfo],
) -> Result<Mapping> {
    // The directory was checked against the size of the region: neither sums nor the slice fail.
    let ends = tensors.iter().map(|tensor| tensor.offset + tensor.bytes);
    let Some(end) = ends.max().map(|end| data_offset + end) else {
        return Ok(region);
    };
    let mut owned = if region.is_mapped() {
        let bytes = region.as_ref().get(..end as usize).unwrap_or_default();
        Mapping::try_of_bytes(bytes).ok_or_else(|| Error::TooLargeToTurn {
            path: path.to_owned(),
            bytes: end,
        })?
    } else {
        region
    };
    let Some(bytes) = owned.owned_mut() else {
        return Ok(owned);
    };
    for tensor in tensors {
        let start = data_offset.saturating_add(tensor.offset);
        let end = start.saturating_add(tensor.bytes);
        // The directory was checked against the size of the region.
        let data = bytes
            .get_mut(start as usize..end as usize)
            .unwrap_or_default();
        swap(tensor.ty, data);
    }
    Ok(owned)
}

/// Turns whole blocks around.
pub(crate) fn swap(ty: TensorType, data: &mut [u8]) {
    // Only a part of a block is an error, and every caller hands on whole ones: rows are whole blocks.
    let _ = ty.swap_byte_order(data);
}
