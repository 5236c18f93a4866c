//! Names, dimensions and types of tensors.

use gristmill_gguf::limits;
use gristmill_quant::TensorType;

use super::{Row, row};
use crate::bytes::{Bytes, F32, Q8_0};

fn one(dims: &[u64], ty: u32) -> Vec<u8> {
    Bytes::new()
        .tensor("blk.0.attn_q.weight", dims, ty, 0)
        .data(&[0; 4096])
        .build()
}

pub fn rows() -> Vec<Row> {
    let mut rows = names();
    rows.extend(dimensions());
    rows.extend(types());
    rows
}

fn names() -> Vec<Row> {
    let raw = |name: &[u8]| {
        let file = Bytes::new();
        let rest = [file.u32(1), file.u64(8), file.u32(F32), file.u64(0)].concat();
        let bytes = [file.string(name), rest].concat();
        file.raw_tensor(bytes).data(&[0; 32]).build()
    };
    let long = vec![b'n'; limits::READ_NAME_BYTES as usize + 1];
    let stem = "n".repeat(63);
    let twice = |first: &str, second: &str| {
        Bytes::new()
            .tensor(first, &[8], F32, 0)
            .tensor(second, &[8], F32, 32)
            .data(&[0; 64])
            .build()
    };
    vec![
        row("BadTensorName", "an empty name", raw(b"")),
        row("BadTensorName", "a name that is not UTF-8", raw(b"t\xff")),
        row("BadTensorName", "a name of 65 bytes", raw(&long)),
        row("BadTensorName", "a name of 74 bytes", raw(&[b'n'; 74])),
        row(
            "BadTensorName",
            "a name of 1 MiB",
            raw(&vec![b'n'; 1 << 20]),
        ),
        row("DuplicateTensor", "a name twice", twice("t", "t")),
        row(
            "DuplicateTensor",
            "a name of 63 bytes twice",
            twice(&stem, &stem),
        ),
    ]
}

fn dimensions() -> Vec<Row> {
    let raw = |n_dims: u32| {
        let file = Bytes::new();
        let bytes = [file.string(b"t"), file.u32(n_dims), vec![0; 64]].concat();
        file.raw_tensor(bytes).data(&[0; 32]).build()
    };
    let mut rows: Vec<Row> = [0, 5, 9, 0x8000_0000, u32::MAX]
        .into_iter()
        .map(|n_dims| row("BadShape", format!("{n_dims} dimensions"), raw(n_dims)))
        .collect();
    for place in 0..4 {
        let mut dims = [32, 2, 2, 2];
        dims[place] = 0;
        for ty in [F32, Q8_0] {
            let name = format!("dimension {place} of type {ty} is zero");
            rows.push(row("BadShape", name, one(&dims, ty)));
        }
    }
    for dims in [
        &[u64::MAX, 2][..],
        &[1 << 63, 2],
        &[1 << 62, 4],
        &[1 << 32, 1 << 32],
        &[1 << 16, 1 << 16, 1 << 16, 1 << 16],
        &[1 << 21, 1 << 21, 1 << 21, 2],
        &[i64::MAX as u64 + 1],
        &[u64::MAX],
        &[1 << 62],
        &[1 << 31, 1 << 30],
    ] {
        rows.push(row("BadShape", format!("F32 of {dims:?}"), one(dims, F32)));
    }
    for dims in [
        &[8, (1 << 42) + 1][..],
        &[1 << 40],
        &[8, 1 << 50],
        &[1025],
        &[1 << 20, 1 << 20, 1 << 10],
    ] {
        let name = format!("F32 of {dims:?} in 4096 bytes");
        rows.push(row("TensorOutsideFile", name, one(dims, F32)));
    }
    rows
}

fn types() -> Vec<Row> {
    let mut rows = Vec::new();
    let tensor = "m.gguf: tensor \"blk.0.attn_q.weight\"";
    for ty in TensorType::all() {
        let block = ty.block_len() as u64;
        if block > 1 {
            let n = block + 1;
            let name = format!("{ty} with a row of {n} elements");
            let text =
                format!("{tensor}: rows of {n} elements are not whole blocks of {block} ({ty})");
            rows.push(row("BadShape", name, one(&[n, 2], ty.id())).saying(text));
        }
        let wide = u64::MAX / block * block;
        let name = format!("{ty} with a row of {wide} elements");
        let text = format!("{tensor}: the number of elements of [{wide}] does not fit in 63 bits");
        rows.push(row("BadShape", name, one(&[wide], ty.id())).saying(text));
        let file = one(&[block, 1 << 40], ty.id());
        let name = format!("{ty} of 2^40 rows");
        // The data begin behind the 96 bytes of the header.
        let (end, len) = (((ty.block_bytes() as u64) << 40) + 96, file.len());
        let text = format!("{tensor} ends at byte {end}, but the file has {len} bytes");
        rows.push(row("TensorOutsideFile", name, file).saying(text));
    }
    for id in 0..64 {
        if TensorType::removed(id).is_some() {
            let name = format!("removed type {id}");
            rows.push(row("RemovedTensorType", name, one(&[256], id)));
        }
    }
    for id in [43, 64, 255, 1 << 16, 0x0c00_0000, u32::MAX] {
        let name = format!("unknown type {id}");
        rows.push(row("UnknownTensorType", name, one(&[256], id)));
    }
    rows
}
