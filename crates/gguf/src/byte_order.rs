//! Turning tensor data from one byte order into the other. Which bytes of a block belong together stands with its
//! type, in `gristmill_quant`.

use gristmill_quant::TensorType;

use crate::directory::TensorInfo;
use crate::mapping::Mapping;

/// An owned copy of a big-endian file whose tensor data is little-endian.
pub(crate) fn to_little(region: Mapping, data_offset: u64, tensors: &[TensorInfo]) -> Mapping {
    let mut owned = if region.is_mapped() {
        Mapping::of_bytes(region.as_ref())
    } else {
        region
    };
    let Some(bytes) = owned.owned_mut() else {
        return owned;
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
    owned
}

/// Turns whole blocks around.
pub(crate) fn swap(ty: TensorType, data: &mut [u8]) {
    // Only a part of a block is an error, and every caller hands on whole ones: rows are whole blocks.
    let _ = ty.swap_byte_order(data);
}
