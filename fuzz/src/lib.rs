//! What several targets share: a folder of their own, and inputs of several parts.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

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
