//! What several targets, or a target and its seeds, share: a folder of their own, inputs of several parts, and what stands
//! beside a file whose writing was cut short.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use gristmill_gguf::{Metadata, Result, ResumableWriter, ShardPlan, TensorPlan, WriteOptions};
use gristmill_quant::{F32, I8};
use sha2::{Digest, Sha256};

/// Between the parts of an input.
pub const BORDER: &[u8] = b"\n%%%\n";

/// A folder of this process's own, in memory where the system has such a place.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let folder = base.join(format!("gristmill-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the folder can be made");
        folder
    })
}

/// The parts of an input, at most `n_max`; the last one keeps borders that are left.
pub fn parts(mut input: &[u8], n_max: usize) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while parts.len() + 1 < n_max {
        let border = input
            .windows(BORDER.len())
            .position(|window| window == BORDER);
        let Some(end) = border else { break };
        parts.push(&input[..end]);
        input = &input[end + BORDER.len()..];
    }
    parts.push(input);
    parts
}

/// The output of the target `resume_journal`: three tensors, the second of which is padded.
pub fn plan_to_resume(path: &Path) -> Vec<ShardPlan> {
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", "llama");
    let tensors = [("a", 8, F32), ("b", 5, I8), ("c", 16, F32)].map(|(name, n, ty)| TensorPlan {
        name: name.to_owned(),
        dims: vec![n],
        ty,
    });
    ShardPlan::single(path, metadata, tensors.to_vec())
}

/// Opens that output to begin or to continue it; all its tensors are made from the same bytes.
pub fn resume(path: &Path, force: bool) -> Result<ResumableWriter> {
    let options = WriteOptions {
        force,
        ..WriteOptions::default()
    };
    ResumableWriter::open(&plan_to_resume(path), &options, "fuzz", |_, read| {
        read(b"source");
    })
}

/// Writes what is missing of it, up to tensor `end`.
pub fn write_until(writer: &mut ResumableWriter, end: usize) {
    for (number, n_bytes) in [32, 5, 64].into_iter().enumerate().take(end) {
        if number < writer.done().len() {
            continue;
        }
        writer.read(b"source");
        let data = vec![number as u8 + 1; n_bytes];
        writer.write(&data).expect("the folder takes files");
        writer.finish_tensor("note").expect("it is complete");
    }
}

/// Bytes of an undo file before the header that it holds.
pub const UNDO_HEAD_BYTES: usize = 160;

/// Makes an undo file agree with itself and with the file beside it, as whoever wants to do harm can.
pub fn seal(undo: &mut [u8], file: &[u8]) {
    let Some((head, header)) = undo.split_at_mut_checked(UNDO_HEAD_BYTES) else {
        return;
    };
    let size = file.len().to_le_bytes();
    head[16..24].copy_from_slice(&size);
    head[24..32].copy_from_slice(&header.len().to_le_bytes());
    head[32..64].copy_from_slice(&Sha256::digest(&*header));
    // Of the first and of the last bytes of the data, which here are all.
    let data = file.get(header.len()..).unwrap_or_default();
    head[96..128].copy_from_slice(&Sha256::digest([data, data].concat()));
    let seal = Sha256::digest(&head[..128]);
    head[128..].copy_from_slice(&seal);
}
