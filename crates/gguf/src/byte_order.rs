//! Turning the tensor data of a big-endian file around, on load and in memory.
//!
//! A block is a struct of bytes and wider numbers; only the wider ones change. Types whose blocks
//! pack wider numbers into byte arrays have no defined order on a big-endian machine, and are
//! refused.

use std::path::Path;

use gristmill_quant::{self as quant, TensorType};

use crate::directory::TensorInfo;
use crate::error::{Error, Result};
use crate::mapping::Mapping;

/// `count` numbers of `width` bytes, from byte `start` of a block.
type Field = (usize, usize, usize);

/// The wider numbers of each type's block. A plain type is a block of one number.
#[rustfmt::skip]
static FIELDS: &[(TensorType, &[Field])] = &[
    (quant::F32, &[(0, 4, 1)]), (quant::F16, &[(0, 2, 1)]), (quant::BF16, &[(0, 2, 1)]),
    (quant::F64, &[(0, 8, 1)]), (quant::I8, &[]), (quant::I16, &[(0, 2, 1)]),
    (quant::I32, &[(0, 4, 1)]), (quant::I64, &[(0, 8, 1)]),
    (quant::Q1_0, &[(0, 2, 1)]), (quant::Q2_0, &[(0, 2, 1)]),
    (quant::Q4_0, &[(0, 2, 1)]), (quant::Q4_1, &[(0, 2, 2)]),
    (quant::Q5_0, &[(0, 2, 1), (2, 4, 1)]), (quant::Q5_1, &[(0, 2, 2), (4, 4, 1)]),
    (quant::Q8_0, &[(0, 2, 1)]), (quant::Q8_1, &[(0, 2, 2)]),
    (quant::Q2_K, &[(80, 2, 2)]), (quant::Q3_K, &[(108, 2, 1)]), (quant::Q4_K, &[(0, 2, 2)]),
    (quant::Q5_K, &[(0, 2, 2)]), (quant::Q6_K, &[(208, 2, 1)]), (quant::Q8_K, &[(0, 4, 1), (260, 2, 16)]),
    (quant::IQ4_NL, &[(0, 2, 1)]), (quant::IQ4_XS, &[(0, 2, 2)]),
    (quant::TQ1_0, &[(52, 2, 1)]), (quant::TQ2_0, &[(64, 2, 1)]),
    (quant::MXFP4, &[]), (quant::NVFP4, &[]),
];

/// An owned copy of a big-endian file whose tensor data is little-endian.
pub(crate) fn to_little(
    region: Mapping,
    data_offset: u64,
    tensors: &[TensorInfo],
    path: &Path,
) -> Result<Mapping> {
    for tensor in tensors {
        if fields(tensor.ty).is_none() {
            let (path, tensor, ty) = (path.to_owned(), tensor.name.clone(), tensor.ty);
            return Err(Error::BigEndianType { path, tensor, ty });
        }
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
        // The directory was checked against the size of the region.
        if let (Some(data), Some(fields)) = (
            bytes.get_mut(start as usize..end as usize),
            fields(tensor.ty),
        ) {
            swap(data, tensor.ty.block_bytes(), fields);
        }
    }
    Ok(owned)
}

fn fields(ty: TensorType) -> Option<&'static [Field]> {
    FIELDS
        .iter()
        .find(|(of, _)| *of == ty)
        .map(|(_, fields)| *fields)
}

fn swap(data: &mut [u8], block_bytes: usize, fields: &[Field]) {
    for block in data.chunks_exact_mut(block_bytes) {
        for &(start, width, count) in fields {
            for number in block[start..start + width * count].chunks_exact_mut(width) {
                number.reverse();
            }
        }
    }
}
