//! Versions, counts, and files cut anywhere.

use super::{Row, row};
use crate::bytes::{Bytes, F32};
use crate::hostile::lies;

pub fn rows() -> Vec<Row> {
    let mut rows = versions();
    rows.extend(counts());
    rows.extend(cuts());
    rows
}

fn versions() -> Vec<Row> {
    let mut rows = Vec::new();
    for big in [false, true] {
        let order = if big { "big" } else { "little" };
        for (version, variant) in [
            (1, "Version1"),
            (4, "NewerVersion"),
            (0xffff, "NewerVersion"),
            (0, "BadVersion"),
            (0x1_0001, "BadVersion"),
            (u32::MAX, "BadVersion"),
        ] {
            let file = Bytes {
                version,
                big,
                ..Bytes::new()
            };
            let name = format!("version {version:#x}, {order}-endian");
            rows.push(row(variant, name, file.build()));
        }
    }
    rows
}

fn counts() -> Vec<Row> {
    let variants = [
        "BadCount",
        "BadCount",
        "BadCount",
        "BadCount",
        "BadKey",
        "BadTensorName",
        "BadValue",
        "BadValue",
        "BadValue",
        "BadValue",
        "Truncated",
        "BadValue",
    ];
    let lies = lies();
    assert_eq!(lies.len(), variants.len());
    let mut rows: Vec<Row> = lies
        .into_iter()
        .zip(variants)
        .enumerate()
        .map(|(number, ((bytes, says), variant))| {
            row(variant, format!("lie {number}: {says}"), bytes)
        })
        .collect();
    for power in [20, 31, 32, 40, 61, 63] {
        let count = 1u64 << power;
        for (what, bytes) in [
            ("tensors", Bytes::counts(Some(count), None)),
            ("entries", Bytes::counts(None, Some(count))),
            ("each", Bytes::counts(Some(count), Some(count))),
        ] {
            rows.push(row("BadCount", format!("2^{power} {what}"), bytes));
        }
    }
    // One more than there is.
    let more = Bytes {
        n_entries: Some(2),
        ..Bytes::new().entry_u32("k", 1)
    };
    rows.push(row("BadCount", "an entry too many", more.build()));
    let more = Bytes {
        n_tensors: Some(2),
        ..Bytes::new().tensor("t", &[8], F32, 0).data(&[0; 32])
    };
    rows.push(row("BadTensorName", "a tensor too many", more.build()));
    rows
}

/// A file with one entry of each kind, cut inside every part of it.
fn cuts() -> Vec<Row> {
    let mut rows = Vec::new();
    for length in [1, 3, 4, 7, 8, 15, 16, 23] {
        let bytes = Bytes::new().build()[..length].to_vec();
        rows.push(row("Truncated", format!("header of {length} bytes"), bytes));
    }
    let sizes = [1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8];
    for (ty, &size) in sizes.iter().enumerate() {
        if size == 0 {
            continue;
        }
        // The entry count is checked against the smallest entry, so long keys keep the cut inside the value.
        let file = Bytes::new().entry("general.cut", ty as u32, &vec![0; size - 1]);
        let name = format!("a value of type {ty} cut by a byte");
        rows.push(row("Truncated", name, file.build()));
    }
    for ty in [0u32, 2, 4, 6, 7, 10, 12] {
        let file = Bytes::new().entry_array("general.cut", ty, 3, &[0, 0]);
        rows.push(row(
            "BadValue",
            format!("an array of type {ty} cut"),
            file.build(),
        ));
    }
    let whole = Bytes::new()
        .tensor("tensor", &[8, 2, 2, 2], F32, 0)
        .data(&[0; 256])
        .build();
    for (what, length) in [
        ("length of a name", 30),
        ("name", 35),
        ("number of dimensions", 40),
        ("dimensions", 50),
        ("type", 75),
        ("offset", 80),
    ] {
        let bytes = whole[..length].to_vec();
        let variant = if length < 48 { "BadCount" } else { "Truncated" };
        rows.push(row(variant, format!("cut inside the {what}"), bytes));
    }
    rows
}
