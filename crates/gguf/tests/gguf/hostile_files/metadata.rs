//! Keys and values.

use super::{Row, row};
use crate::bytes::{Bytes, F32};

pub fn rows() -> Vec<Row> {
    let mut rows = keys();
    rows.extend(values());
    rows.extend(alignments());
    rows
}

fn keys() -> Vec<Row> {
    let raw = |key: &[u8]| {
        let file = Bytes::new();
        let bytes = [file.string(key), file.u32(0), vec![1; 16]].concat();
        file.raw_entry(bytes).build()
    };
    vec![
        row("BadKey", "an empty key", raw(b"")),
        row("BadKey", "a key in UTF-8", raw("schlüssel".as_bytes())),
        row("BadKey", "a key of high bytes", raw(b"\xff\xfe")),
        row("BadKey", "a key of 65,536 bytes", raw(&[b'k'; 65_536])),
        row(
            "DuplicateKey",
            "a key twice",
            Bytes::new().entry_u32("k", 1).entry_u32("k", 2).build(),
        ),
        row(
            "DuplicateKey",
            "a key twice with other types",
            Bytes::new()
                .entry_u32("general.name", 1)
                .entry_string("general.name", b"x")
                .build(),
        ),
    ]
}

fn values() -> Vec<Row> {
    let mut rows = Vec::new();
    for ty in [13, 14, 255, 256, 0x0400_0000, u32::MAX] {
        let bytes = Bytes::new().entry("k", ty, &[0; 16]).build();
        rows.push(row("BadValue", format!("value type {ty}"), bytes));
        let bytes = Bytes::new().entry_array("k", ty, 1, &[0; 16]).build();
        rows.push(row("BadValue", format!("array of type {ty}"), bytes));
    }
    let bytes = Bytes::new().entry_array("k", 9, 1, &[0; 32]).build();
    rows.push(row("BadValue", "an array of arrays", bytes));
    for byte in [2, 0x7f, 0x80, 0xff] {
        let bytes = Bytes::new().entry("k", 7, &[byte]).build();
        rows.push(row("BadValue", format!("a BOOL of {byte}"), bytes));
        let bytes = Bytes::new().entry_array("k", 7, 3, &[0, 1, byte]).build();
        rows.push(row(
            "BadValue",
            format!("a BOOL of {byte} in an array"),
            bytes,
        ));
    }
    for power in [27, 32, 47, 63] {
        let length = 1u64 << power;
        let variant = match length > gristmill_gguf::limits::STRING_BYTES {
            true => "BadValue",
            false => "Truncated",
        };
        let bytes = Bytes::new().entry("k", 8, &length.to_le_bytes()).build();
        rows.push(row(variant, format!("a string of 2^{power} bytes"), bytes));
        let one = length.to_le_bytes();
        let bytes = Bytes::new().entry_array("k", 8, 1, &one).build();
        rows.push(row(
            variant,
            format!("a string of 2^{power} bytes in an array"),
            bytes,
        ));
        for ty in [0, 12] {
            let bytes = Bytes::new().entry_array("k", ty, length, &[]).build();
            let name = format!("an array of 2^{power} elements of type {ty}");
            rows.push(row("BadValue", name, bytes));
        }
    }
    let last = [8u64.to_le_bytes(), [b'x'; 8], 9u64.to_le_bytes(), [b'x'; 8]].concat();
    rows.push(row(
        "Truncated",
        "the last string of an array is a byte short",
        Bytes::new().entry_array("k", 8, 2, &last).build(),
    ));
    rows
}

fn alignments() -> Vec<Row> {
    let file = |ty: u32, value: &[u8]| {
        Bytes::new()
            .entry("general.alignment", ty, value)
            .tensor("t", &[8], F32, 0)
            .data(&[0; 32])
            .build()
    };
    let mut rows = Vec::new();
    for alignment in [0u32, 1, 4, 7, 12, 33, u32::MAX] {
        let bytes = file(4, &alignment.to_le_bytes());
        rows.push(row("BadAlignment", format!("alignment {alignment}"), bytes));
    }
    for (ty, value) in [
        (0u32, &[32u8][..]),
        (2, &32u16.to_le_bytes()),
        (3, &32i16.to_le_bytes()),
        (5, &32i32.to_le_bytes()),
        (5, &(-32i32).to_le_bytes()),
        (6, &32f32.to_le_bytes()),
        (7, &[1]),
        (8, &[2, 0, 0, 0, 0, 0, 0, 0, b'3', b'2']),
        (10, &32u64.to_le_bytes()),
        (11, &32i64.to_le_bytes()),
        (12, &32f64.to_le_bytes()),
    ] {
        let name = format!("alignment of type {ty}, byte {}", value[value.len() - 1]);
        rows.push(row("BadAlignment", name, file(ty, value)));
    }
    let bytes = Bytes::new()
        .entry_u32("general.alignment", 0xffff_fff8)
        .tensor("t", &[8], F32, 0)
        .data(&[0; 32])
        .build();
    rows.push(row("TensorOutsideFile", "alignment of nearly 2^32", bytes));
    rows
}
