//! Up to three files as a set of shards, with a border between: refused with a message that names a file, or opened from
//! every part as the same model, merged, and split again.

#![no_main]

use std::fs;
use std::path::{Path, PathBuf};

use gristmill_fuzz::{folder, parts};
use gristmill_gguf::{
    MergeOptions, Model, ShardLimits, SplitOptions, merge, shard_file_name, split,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let folder = folder();
    let parts = parts(input, 3);
    let count = parts.len() as u64;
    let paths: Vec<PathBuf> = (1..=count)
        .map(|number| folder.join(shard_file_name("m", number, count)))
        .collect();
    for (path, bytes) in paths.iter().zip(&parts) {
        fs::write(path, bytes).expect("the folder takes files");
    }
    let first = Model::open(&paths[0]);
    for path in &paths[1..] {
        match (&first, Model::open(path)) {
            // A part may be a whole file by itself, whatever the others are.
            (Ok(first), Ok(other)) if first.shards().len() > 1 && other.shards().len() > 1 => {
                assert_eq!(first.tensors(), other.tensors());
                // As text, since a NaN is not equal to itself.
                let text = |model: &Model| {
                    let entries: Vec<String> = model
                        .metadata()
                        .iter()
                        .map(|entry| format!("{entry:?}"))
                        .collect();
                    entries
                };
                assert_eq!(text(first), text(&other));
            }
            (_, Err(error)) => assert!(error.to_string().contains("m-0000")),
            (_, Ok(_)) => {}
        }
    }
    match first {
        Ok(model) => merge_and_split(folder, &paths[0], &model),
        Err(error) => assert!(error.to_string().contains("m-0000")),
    }
    for path in paths {
        fs::remove_file(path).expect("it was written above");
    }
});

fn merge_and_split(folder: &Path, first: &Path, model: &Model) {
    let options = MergeOptions {
        input: first.to_owned(),
        output: folder.join("merged.gguf"),
        dry_run: false,
        force: true,
        delete_shards: false,
        as_reference: false,
    };
    // A file that is no part of a set is refused.
    let Ok(report) = merge(&options, &mut |_| {}) else {
        return;
    };
    let merged = Model::open(&report.path).expect("what was merged opens");
    assert_eq!(merged.tensors().len(), model.tensors().len());
    for (one, other) in merged.views().zip(model.views()) {
        assert_eq!(
            (&one.info.name, one.info.ty),
            (&other.info.name, other.info.ty)
        );
        assert_eq!(one.data, other.data);
    }
    let options = SplitOptions {
        input: report.path,
        prefix: folder.join("again"),
        limits: ShardLimits {
            tensors: Some(2),
            ..ShardLimits::default()
        },
        dry_run: true,
        force: true,
        as_reference: false,
    };
    let _ = split(&options, &mut |_| {});
}
