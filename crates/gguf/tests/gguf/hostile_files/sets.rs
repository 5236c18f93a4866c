//! Sets of shards, each with one fault.

use super::Row;
use crate::bytes::{Bytes, F32};

/// What one shard says of itself.
struct Says {
    number: u16,
    count: u16,
    total: i32,
    tensor: String,
}

fn shard(says: &Says) -> Bytes {
    Bytes::new()
        .entry_string("general.architecture", b"llama")
        .entry_u16("split.no", says.number)
        .entry_u16("split.count", says.count)
        .entry("split.tensors.count", 5, &says.total.to_le_bytes())
        .tensor(&says.tensor, &[8], F32, 0)
        .data(&[0; 32])
}

/// A set of three in which `change` may spoil what each shard (from 0) says.
fn set(
    variant: &'static str,
    name: &str,
    first: usize,
    change: impl Fn(usize, &mut Says) -> Option<Vec<u8>>,
) -> Row {
    let mut files = Vec::new();
    for index in 0..3 {
        let mut says = Says {
            number: index as u16,
            count: 3,
            total: 3,
            tensor: format!("t{index}"),
        };
        if let Some(bytes) = change(index, &mut says) {
            let bytes = if bytes.is_empty() {
                shard(&says).build()
            } else {
                bytes
            };
            files.push((format!("m-{:05}-of-00003.gguf", index + 1), bytes));
        }
    }
    files.rotate_left(first);
    let name = name.to_owned();
    Row {
        name,
        files,
        variant,
        text: None,
    }
}

/// As it says.
const AS_SAID: Option<Vec<u8>> = Some(Vec::new());

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for missing in 1..3 {
        let name = format!("part {} of 3 is missing", missing + 1);
        rows.push(set("MissingShards", &name, 0, |index, _| {
            (index != missing).then(Vec::new)
        }));
    }
    rows.push(set(
        "MissingShards",
        "opened by the last, the first is missing",
        1,
        |index, _| (index != 0).then(Vec::new),
    ));
    rows.push(set(
        "ShardCount",
        "a part of a set of 4",
        0,
        |index, says| {
            says.count = if index == 1 { 4 } else { 3 };
            AS_SAID
        },
    ));
    rows.push(set("ShardNumber", "a number twice", 0, |index, says| {
        says.number = [0, 1, 1][index];
        AS_SAID
    }));
    rows.push(set("ShardNumber", "numbers from 1", 0, |_, says| {
        says.number += 1;
        AS_SAID
    }));
    rows.push(set(
        "ShardTensorRepeated",
        "a tensor in two parts",
        0,
        |index, says| {
            if index == 2 {
                says.tensor = "t0".to_owned();
            }
            AS_SAID
        },
    ));
    for total in [0, 2, 4, i32::MAX] {
        let name = format!("{total} tensors counted, 3 there");
        rows.push(set("ShardTensorCount", &name, 0, |_, says| {
            says.total = total;
            AS_SAID
        }));
    }
    rows.push(set(
        "ShardMixed",
        "a part of version 2",
        0,
        |index, says| {
            let version = if index == 1 { 2 } else { 3 };
            Some(
                Bytes {
                    version,
                    ..shard(says)
                }
                .build(),
            )
        },
    ));
    rows.push(set("WrongType", "a negative total", 0, |_, says| {
        says.total = -1;
        AS_SAID
    }));
    rows.push(set(
        "TensorOutsideFile",
        "a later part is cut",
        0,
        |index, says| {
            let mut bytes = shard(says).build();
            bytes.truncate(bytes.len() - usize::from(index == 2));
            Some(bytes)
        },
    ));
    rows.push(set(
        "HtmlPage",
        "a later part is a web page",
        0,
        |index, _| {
            Some(if index == 1 {
                b"<html>".to_vec()
            } else {
                Vec::new()
            })
        },
    ));
    rows.extend(lone());
    rows
}

/// Single files that say they are part of a set.
fn lone() -> Vec<Row> {
    let says = |count| Says {
        number: 0,
        count,
        total: 1,
        tensor: "t".to_owned(),
    };
    let file = |variant, name: &str, file: &str, bytes: Vec<u8>| Row {
        name: name.to_owned(),
        files: vec![(file.to_owned(), bytes)],
        variant,
        text: None,
    };
    let wide = Bytes::new()
        .entry_string("general.architecture", b"llama")
        .entry_u32("split.count", 70_000)
        .build();
    let without_number = Bytes::new().entry_u16("split.count", 3).build();
    let text = Bytes::new().entry_string("split.count", b"3").build();
    let first = "m-00001-of-00003.gguf";
    let fourth = Says {
        number: 3,
        ..says(3)
    };
    vec![
        file(
            "RenamedShard",
            "a part under another name",
            "model.gguf",
            shard(&says(3)).build(),
        ),
        file(
            "ShardBeyondCount",
            "the fourth part of three",
            "m-00004-of-00003.gguf",
            shard(&fourth).build(),
        ),
        file("TooManyShards", "70,000 shards", first, wide),
        file(
            "ShardKeyMissing",
            "a part without a number",
            first,
            without_number,
        ),
        file("WrongType", "split.count is a STRING", first, text),
    ]
}
