//! Damaged files: whatever stands in them, a check ends with a report, soon.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::model::{Model, report, sound};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % n as u64) as usize
    }
}

/// The sound model with fewer weights, so that most of its bytes are head.
fn small() -> Model {
    sound().without_tensors(|name| !name.starts_with("blk.0.") && name != "output_norm.weight")
}

fn survives(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
    let start = Instant::now();
    let report = report(path);
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    // A report is always whole.
    assert_eq!(
        (report.verdicts.len(), report.review.answers.len()),
        (2, 10)
    );
}

#[test]
fn cut_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.gguf");
    let bytes = small().bytes();
    for length in (0..bytes.len()).step_by(97).chain(0..64) {
        survives(&path, &bytes[..length]);
    }
}

#[test]
fn flipped_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flipped.gguf");
    let bytes = small().bytes();
    let n_head = small().head().len();
    let mut random = Random(7);
    for _ in 0..600 {
        let mut bytes = bytes.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(n_head);
            bytes[at] = match random.below(4) {
                0 => 0xff,
                1 => 0,
                2 => bytes[at] ^ (1 << random.below(8)),
                _ => random.below(256) as u8,
            };
        }
        survives(&path, &bytes);
    }
}

/// Seeds of the fuzzer, and damage to them.
#[test]
fn seeds_of_the_fuzzer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seed.gguf");
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/fuzz");
    let mut random = Random(9);
    let mut n_seeds = 0;
    for target in ["gguf_open", "tokenizer_load"] {
        for entry in std::fs::read_dir(seeds.join(target)).unwrap().flatten() {
            let bytes = std::fs::read(entry.path()).unwrap();
            survives(&path, &bytes);
            n_seeds += 1;
            for _ in 0..40 {
                let mut bytes = bytes.clone();
                let at = random.below(bytes.len());
                bytes[at] = random.below(256) as u8;
                survives(&path, &bytes);
            }
        }
    }
    assert!(n_seeds >= 8, "{n_seeds}");
}

/// A count of shards that no folder has, and names without end.
#[test]
fn a_set_of_many_shards_is_looked_for_quickly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model-00001-of-65535.gguf");
    let model = small().set("split.no", 0u16).set("split.count", 65_535u16);
    survives(&path, &model.bytes());
}
