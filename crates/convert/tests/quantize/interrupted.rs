//! Runs that are cut short and go on: the same file as from one run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use gristmill_convert::Event;
use gristmill_convert::quantize::{QuantizeOptions, quantize};
use gristmill_gguf::{ShardLimits, SplitOptions, split};
use gristmill_quant::F16;

use crate::fixtures::{recipe, run, sha256, small_model};

fn options(input: &Path, output: &Path) -> QuantizeOptions {
    QuantizeOptions {
        resume: true,
        measure: true,
        slab_bytes: 5000,
        ..QuantizeOptions::new(input, output, recipe("Q4_K_M"))
    }
}

/// Runs until so many bytes are written, and is cut short there as by a bug.
fn cut_after(options: &QuantizeOptions, n_bytes: u64) -> bool {
    let mut left = n_bytes;
    let cut = catch_unwind(AssertUnwindSafe(|| {
        quantize(options, &mut |event| {
            if let Event::Written { bytes } = event {
                left = left.checked_sub(bytes).expect("cut short by the test");
            }
        })
        .expect("nothing is wrong with it");
    }));
    cut.is_err()
}

#[test]
fn cut_anywhere_the_file_is_the_same() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = small_model(folder.path(), F16);
    let whole = folder.path().join("whole.gguf");
    let expected = run(&QuantizeOptions {
        resume: false,
        ..options(&input, &whole)
    })
    .expect("it can be quantized");
    let expected_hash = sha256(&std::fs::read(&whole).expect("it is there"));
    for n_bytes in (0..expected.bytes()).step_by(2500) {
        let output = folder.path().join(format!("{n_bytes}.gguf"));
        let options = options(&input, &output);
        assert!(cut_after(&options, n_bytes), "{n_bytes}");
        assert!(!output.exists());
        // Cut a second time, further on.
        if cut_after(&options, n_bytes + 9000) {
            let report = run(&options).expect("it goes on");
            // The norm, of 1024 bytes, comes first.
            assert!(report.n_resumed > 0, "{n_bytes}");
            assert_eq!(report.tensors, expected.tensors, "{n_bytes}");
        }
        assert_eq!(
            sha256(&std::fs::read(&output).expect("it is there")),
            expected_hash
        );
    }
}

#[test]
fn another_source_or_type_is_not_continued() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = small_model(folder.path(), F16);
    let first = options(&input, &folder.path().join("out.gguf"));
    assert!(cut_after(&first, 0));
    let mut other = first.clone();
    other.recipe = Some(recipe("Q5_K_M"));
    let error = run(&other).expect_err("it is another run");
    assert!(
        error.to_string().contains("another source, type or option"),
        "{error}"
    );
    // Written anew with the same bytes, and so at another time: what is done may come from other weights.
    let bytes = std::fs::read(&input).expect("it is there");
    std::thread::sleep(std::time::Duration::from_millis(20));
    std::fs::write(&input, bytes).expect("it is writable");
    assert!(run(&first).is_err());
}

/// One source, whatever way leads to it.
#[test]
#[cfg(unix)]
fn another_path_of_the_source_is_no_other_source() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = small_model(folder.path(), F16);
    let first = options(&input, &folder.path().join("out.gguf"));
    let link = folder.path().join("link.gguf");
    std::os::unix::fs::symlink(&input, &link).expect("links can be made");
    let name = input.file_name().expect("it has a name");
    for other in [link, folder.path().join(".").join(name)] {
        assert!(cut_after(&first, 9000));
        let report = run(&QuantizeOptions {
            input: other,
            ..first.clone()
        });
        assert!(report.expect("it goes on").n_resumed > 0);
        std::fs::remove_file(&first.output).expect("it was written");
    }
}

/// Other weights under the same name, of the same size and time: what was made from others is made again.
#[test]
fn another_source_of_the_same_time_makes_no_mixture() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = small_model(folder.path(), F16);
    let of_name = |name: &str| options(&input, &folder.path().join(name));
    let sound = std::fs::read(&input).expect("it is there");
    let modified = std::fs::metadata(&input).expect("it is there").modified();
    let modified = modified.expect("the file system has times");
    let set = |bytes: &[u8]| {
        std::fs::write(&input, bytes).expect("it is writable");
        let file = std::fs::File::options().append(true).open(&input);
        let changed = file.and_then(|file| file.set_modified(modified));
        changed.expect("it can be set");
    };
    assert!(cut_after(&of_name("out.gguf"), 9000));
    // Of the three tensors the norm, the last one of the source, is done.
    let mut other = sound.clone();
    let norm = sound.len() - 1024;
    other[norm - 1] ^= 1;
    set(&other);
    let report = run(&of_name("out.gguf")).expect("it goes on");
    let plain = QuantizeOptions {
        resume: false,
        ..of_name("plain.gguf")
    };
    run(&plain).expect("it can be quantized");
    let read = |name: &str| std::fs::read(folder.path().join(name)).expect("it is there");
    assert!(read("out.gguf") == read("plain.gguf"));
    assert!(
        report
            .warnings
            .iter()
            .all(|warning| !warning.contains("written again"))
    );
    // And where what is done is concerned.
    assert!(cut_after(&of_name("again.gguf"), 9000));
    let mut other = sound.clone();
    other[norm] ^= 1;
    set(&other);
    let report = run(&of_name("again.gguf")).expect("it goes on");
    assert_eq!(report.n_resumed, 0);
    let warned = report
        .warnings
        .iter()
        .any(|warning| warning.contains("the source of tensor output_norm.weight has changed"));
    assert!(warned, "{:?}", report.warnings);
}

/// A source that is written to meanwhile: no output at all.
#[test]
fn a_source_that_changes_meanwhile_makes_no_file() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = small_model(folder.path(), F16);
    let output = folder.path().join("out.gguf");
    let options = QuantizeOptions::new(&input, &output, recipe("Q4_K_M"));
    let mut is_changed = false;
    let result = quantize(&options, &mut |event| {
        if matches!(event, Event::Written { .. }) && !is_changed {
            is_changed = true;
            std::thread::sleep(std::time::Duration::from_millis(20));
            let file = std::fs::File::options().write(true).open(&input);
            let mut file = file.expect("it is writable");
            std::io::Write::write_all(&mut file, b"GGUF").expect("it is writable");
        }
    });
    let error = result.expect_err("it may be a mixture").to_string();
    assert!(
        error.contains("has changed while it was being read"),
        "{error}"
    );
    assert!(!output.exists());
}

/// Shards in, shards out, cut in the middle.
#[test]
fn sets_are_continued_too() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let whole = small_model(folder.path(), F16);
    let split_options = SplitOptions {
        input: whole,
        prefix: folder.path().join("in"),
        limits: ShardLimits {
            tensors: Some(1),
            ..ShardLimits::default()
        },
        dry_run: false,
        force: false,
        as_reference: false,
    };
    split(&split_options, &mut |_| {}).expect("it can be split");
    let input = folder.path().join("in-00001-of-00003.gguf");
    let set = |name: &str, resume| QuantizeOptions {
        keep_split: true,
        resume,
        ..options(&input, &folder.path().join(name))
    };
    run(&set("a", false)).expect("it can be quantized");
    for n_bytes in [0, 9000, 30_000] {
        let name = format!("b{n_bytes}");
        assert!(cut_after(&set(&name, true), n_bytes));
        run(&set(&name, true)).expect("it goes on");
        for shard in 1..=3 {
            let read = |name: &str| {
                let path = folder
                    .path()
                    .join(format!("{name}-0000{shard}-of-00003.gguf"));
                std::fs::read(path).expect("it is there")
            };
            assert_eq!(read("a"), read(&name), "{n_bytes} {shard}");
        }
    }
}
