//! Turning the tensor data of a big-endian file around, on load and in memory.

use std::path::Path;

use crate::directory::TensorInfo;
use crate::error::{Error, Result};
use crate::mapping::Mapping;

/// An owned copy of a big-endian file whose tensor data is little-endian.
pub(crate) fn to_little(
    region: Mapping,
    data_offset: u64,
    tensors: &[TensorInfo],
    path: &Path,
) -> Result<Mapping> {
    let undefined = |tensor: &TensorInfo| Error::BigEndianType {
        path: path.to_owned(),
        tensor: tensor.name.clone(),
        ty: tensor.ty,
    };
    // First of all, so that a file that is refused anyway is not copied.
    if let Some(tensor) = tensors.iter().find(|tensor| !tensor.ty.has_byte_order()) {
        return Err(undefined(tensor));
    }
    let mut owned = if region.is_mapped() {
        Mapping::of_bytes(region.as_ref())
    } else {
        region
    };
    let Some(bytes) = owned.owned_mut() else {
        return Ok(owned);
    };
    for tensor in tensors {
        let start = data_offset.saturating_add(tensor.offset);
        let end = start.saturating_add(tensor.bytes);
        // The directory was checked against the size of the region, and sizes are whole blocks.
        let data = bytes
            .get_mut(start as usize..end as usize)
            .unwrap_or_default();
        tensor
            .ty
            .swap_byte_order(data)
            .map_err(|_| undefined(tensor))?;
    }
    Ok(owned)
}
