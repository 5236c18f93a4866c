//! Where tensors say that their data lies.

use super::{Row, row};
use crate::bytes::{Bytes, F32};

/// Two tensors of 32 bytes in 64 bytes of data, at these offsets.
fn two(first: u64, second: u64) -> Bytes {
    Bytes::new()
        .tensor("one", &[8], F32, first)
        .tensor("two", &[8], F32, second)
        .data(&[0; 64])
}

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for offset in [1, 4, 8, 16, 31, 33, 63, u64::MAX] {
        rows.push(row(
            "Misaligned",
            format!("offset {offset}"),
            two(0, offset).build(),
        ));
    }
    let aligned = Bytes {
        alignment: 64,
        ..two(0, 32).entry_u32("general.alignment", 64)
    };
    rows.push(row(
        "Misaligned",
        "offset 32 at alignment 64",
        aligned.build(),
    ));
    for offset in [
        64,
        96,
        1 << 20,
        1 << 32,
        1 << 63,
        u64::MAX - 31,
        u64::MAX - 63,
    ] {
        let name = format!("offset {offset} in 64 bytes");
        rows.push(row("TensorOutsideFile", name, two(0, offset).build()));
    }
    // Base and offset together wrap to a place inside the file.
    let base = two(0, 32).build().len() as u64 - 64;
    let wraps = 0u64.wrapping_sub(base) & !31;
    rows.push(row(
        "TensorOutsideFile",
        "an offset that wraps back into the file",
        two(0, wraps).build(),
    ));
    for cut in [1, 31, 32, 33, 63, 64] {
        let mut bytes = two(0, 32).build();
        bytes.truncate(bytes.len() - cut);
        rows.push(row(
            "TensorOutsideFile",
            format!("data cut by {cut} bytes"),
            bytes,
        ));
    }
    let mut bytes = two(0, 32).head();
    rows.push(row("TensorOutsideFile", "no data at all", bytes.clone()));
    bytes.push(0);
    rows.push(row("TensorOutsideFile", "one byte of padding", bytes));
    rows.push(row("Overlap", "both at 0", two(0, 0).build()));
    rows.push(row("Overlap", "both at 32", two(32, 32).build()));
    let inside = Bytes::new()
        .tensor("large", &[64], F32, 0)
        .tensor("inside", &[8], F32, 128)
        .data(&[0; 256]);
    rows.push(row("Overlap", "one inside the other", inside.build()));
    let edge = Bytes::new()
        .tensor("later", &[8], F32, 32)
        .tensor("early", &[9], F32, 0)
        .data(&[0; 64]);
    rows.push(row("Overlap", "the last element shared", edge.build()));
    rows.extend(big_endian());
    rows
}

/// The same faults in the other byte order.
fn big_endian() -> Vec<Row> {
    let file = |offset| {
        Bytes::big()
            .tensor("one", &[8], F32, offset)
            .data(&[0; 32])
            .build()
    };
    let cut = {
        let mut bytes = file(0);
        bytes.truncate(bytes.len() - 1);
        bytes
    };
    vec![
        row("Misaligned", "big-endian, misaligned", file(4)),
        row(
            "TensorOutsideFile",
            "big-endian, offset 2^40",
            file(1 << 40),
        ),
        row("TensorOutsideFile", "big-endian, cut by a byte", cut),
        row(
            "BadValue",
            "big-endian, array of 2^40 elements",
            Bytes::big().entry_array("k", 4, 1 << 40, &[]).build(),
        ),
        row(
            "BadShape",
            "big-endian, dimensions that wrap",
            Bytes::big()
                .tensor("t", &[u64::MAX, 2], F32, 0)
                .data(&[0; 32])
                .build(),
        ),
    ]
}
