//! What a file is that is not GGUF.

use std::path::Path;

use crate::edit;
use crate::error::Error;

/// How far into a file to look for telling bytes.
const WINDOW: usize = 4096;

/// Magic numbers of compressed files and archives.
const COMPRESSED: [(&[u8], &str); 8] = [
    (b"\x1f\x8b", "gzip"),
    (b"PK\x03\x04", "zip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"BZh", "bzip2"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"Rar!\x1a\x07", "rar"),
];

/// Magic numbers of the formats before GGUF, as numbers; files may hold them in either order.
const LEGACY: [(&[u8; 4], &str); 4] = [
    (b"ggml", "GGML"),
    (b"ggmf", "GGMF"),
    (b"ggjt", "GGJT"),
    (b"ggla", "GGLA"),
];

/// The error for a file that does not start with `GGUF`.
pub(crate) fn diagnose(bytes: &[u8], path: &Path) -> Error {
    let path = path.to_owned();
    let size = bytes.len() as u64;
    let head = &bytes[..bytes.len().min(WINDOW)];
    if head.is_empty() {
        return Error::Empty { path };
    }
    if edit::is_marked(head) {
        return edit::undo_is_gone(&path);
    }
    if b"GGUF".starts_with(head) {
        let what = "the header".to_owned();
        return Error::Truncated {
            path,
            what,
            offset: 0,
            needed: 24,
            available: size,
        };
    }
    if is_html(head) {
        return Error::HtmlPage { path, size };
    }
    if head.starts_with(b"version https://git-lfs") || head.starts_with(b"version https://hawser") {
        return Error::LfsPointer {
            path,
            size,
            target_size: pointer_size(head),
        };
    }
    if head.starts_with(b"PK\x03\x04") && contains(head, b"data.pkl") {
        return Error::PyTorch {
            path,
            form: "zip archive",
        };
    }
    if let Some((_, format)) = COMPRESSED.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Error::Compressed { path, format, size };
    }
    if head.get(257..262) == Some(b"ustar") {
        return Error::Compressed {
            path,
            format: "tar",
            size,
        };
    }
    if let Some((_, format)) = LEGACY.iter().find(|(magic, _)| is_legacy(head, magic)) {
        return Error::Legacy { path, format };
    }
    if matches!(head, [0x80, 2..=5, ..]) {
        return Error::PyTorch {
            path,
            form: "pickle",
        };
    }
    if is_safetensors(head, size) {
        return Error::Safetensors { path };
    }
    Error::NotGguf {
        path,
        magic: head[..head.len().min(4)].to_vec(),
        size,
    }
}

fn is_html(head: &[u8]) -> bool {
    let text = head
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(head)
        .trim_ascii_start();
    [&b"<!doctype html"[..], b"<html", b"<head", b"<body"]
        .iter()
        .any(|tag| {
            text.get(..tag.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(tag))
        })
}

/// The `size` line of a Git LFS pointer.
fn pointer_size(head: &[u8]) -> Option<u64> {
    std::str::from_utf8(head)
        .ok()?
        .lines()
        .find_map(|line| line.strip_prefix("size ")?.trim().parse().ok())
}

fn is_legacy(head: &[u8], magic: &[u8; 4]) -> bool {
    let mut reversed = *magic;
    reversed.reverse();
    head.starts_with(magic) || head.starts_with(&reversed)
}

/// A safetensors file starts with the length of its JSON header, which begins with a brace.
fn is_safetensors(head: &[u8], size: u64) -> bool {
    let Some((length, rest)) = head.split_first_chunk::<8>() else {
        return false;
    };
    let length = u64::from_le_bytes(*length);
    rest.first() == Some(&b'{') && length >= 2 && length <= size - 8
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
