//! Files that are something else.

use super::{Row, row};
use crate::bytes::Bytes;

pub fn rows() -> Vec<Row> {
    let mut rows = vec![row("Empty", "an empty file", Vec::new())];
    let pages: [&[u8]; 4] = [
        b"<!DOCTYPE html><html><body>404</body></html>",
        b"\xef\xbb\xbf \n<HTML>",
        b"<head><title>Sign in</title></head>",
        b"\r\n\t<body onload=\"x()\">",
    ];
    for (number, page) in pages.into_iter().enumerate() {
        rows.push(row("HtmlPage", format!("web page {number}"), page.to_vec()));
    }
    let pointers: [&[u8]; 3] = [
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4081004224\n",
        b"version https://git-lfs.github.com/spec/v1\nsize 99999999999999999999999\n",
        b"version https://hawser.github.com/spec/v1",
    ];
    for (number, pointer) in pointers.into_iter().enumerate() {
        rows.push(row(
            "LfsPointer",
            format!("pointer {number}"),
            pointer.to_vec(),
        ));
    }
    rows.extend(archives());
    for magic in [b"ggml", b"ggmf", b"ggjt", b"ggla"] {
        for reversed in [false, true] {
            let mut bytes = magic.to_vec();
            if reversed {
                bytes.reverse();
            }
            bytes.extend([1, 0, 0, 0]);
            let name = format!("legacy {}", bytes[..4].escape_ascii());
            rows.push(row("Legacy", name, bytes));
        }
    }
    rows.extend(other_formats());
    for (name, bytes) in [
        ("text", &b"just text"[..]),
        ("zeros", &[0; 64]),
        ("GGUF in lower case", b"gguf\x03\0\0\0"),
        ("GGUF reversed", b"FUGG\0\0\0\x03"),
        ("a space before GGUF", b" GGUF\x03\0\0\0"),
        ("terminal commands", b"\x1b]0;owned\x07\x1b[2J"),
        ("one strange byte", b"\xff"),
    ] {
        rows.push(row("NotGguf", name, bytes.to_vec()));
    }
    rows.extend(purposes());
    rows
}

fn archives() -> Vec<Row> {
    let archives: [(&str, &[u8]); 8] = [
        ("gzip", b"\x1f\x8b\x08\0"),
        ("zip", b"PK\x03\x04\x14\0"),
        ("zstd", b"\x28\xb5\x2f\xfd\x04"),
        ("xz", b"\xfd7zXZ\0\0"),
        ("bzip2", b"BZh91AY&SY"),
        ("7z", b"7z\xbc\xaf\x27\x1c\0"),
        ("lz4", b"\x04\x22\x4d\x18d"),
        ("rar", b"Rar!\x1a\x07\x01\0"),
    ];
    let mut rows: Vec<Row> = archives
        .into_iter()
        .map(|(name, bytes)| row("Compressed", format!("{name} archive"), bytes.to_vec()))
        .collect();
    let mut tar = vec![b'n'; 512];
    tar[257..262].copy_from_slice(b"ustar");
    rows.push(row("Compressed", "tar archive", tar));
    rows
}

fn other_formats() -> Vec<Row> {
    let mut rows: Vec<Row> = (2..=5)
        .map(|protocol| {
            let bytes = vec![0x80, protocol, b'}', b'.'];
            row("PyTorch", format!("pickle of protocol {protocol}"), bytes)
        })
        .collect();
    let zip = b"PK\x03\x04\0\0\x08\x08archive/data.pkl".to_vec();
    rows.push(row("PyTorch", "zip with data.pkl", zip));
    let header = br#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let safetensors = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 4]].concat();
    rows.push(row("Safetensors", "safetensors", safetensors));
    rows
}

/// Sound files that hold no model.
fn purposes() -> Vec<Row> {
    let of_type = |ty: &str| {
        Bytes::new()
            .entry_string("general.architecture", b"llama")
            .entry_string("general.type", ty.as_bytes())
            .tensor("t", &[8], crate::bytes::F32, 0)
            .data(&[0; 32])
            .build()
    };
    let vocabulary = Bytes::new()
        .entry_string("general.architecture", b"llama")
        .build();
    vec![
        row("VocabularyOnly", "a vocabulary without weights", vocabulary),
        row("ImatrixNotModel", "an imatrix", of_type("imatrix")),
        row("AdapterNotModel", "an adapter", of_type("adapter")),
        row("ProjectorNotModel", "a projector", of_type("mmproj")),
        row(
            "ControlVectorNotModel",
            "a control vector",
            Bytes::new()
                .entry_string("general.architecture", b"controlvector")
                .tensor("direction.1", &[8], crate::bytes::F32, 0)
                .data(&[0; 32])
                .build(),
        ),
    ]
}
