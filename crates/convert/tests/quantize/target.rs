//! Types chosen for a size, and what they cost.

use std::path::Path;

use gristmill_convert::ConvertError;
use gristmill_convert::quantize::{QuantizeOptions, QuantizeReport, Target};
use gristmill_gguf::{Metadata, TensorPlan, WriteOptions, Writer};
use gristmill_quant::{F16, F32, Q8_0};

use crate::fixtures::{describe, importance, recipe, run, sha256, small_model};

/// A llama with matrices of two lengths of rows, drawn by a small generator.
fn model(path: &Path) {
    let mut metadata = Metadata::new();
    describe(&mut metadata);
    let shapes: [(&str, [u64; 2]); 5] = [
        ("token_embd.weight", [256, 40]),
        ("output.weight", [256, 40]),
        ("blk.0.attn_q.weight", [256, 64]),
        ("blk.0.attn_v.weight", [96, 64]),
        ("blk.0.ffn_up.weight", [256, 300]),
    ];
    let mut plans = shapes
        .map(|(name, dims)| TensorPlan {
            name: name.to_owned(),
            dims: dims.to_vec(),
            ty: F32,
        })
        .to_vec();
    plans.push(TensorPlan {
        name: "output_norm.weight".to_owned(),
        dims: vec![256],
        ty: F32,
    });
    let mut writer = Writer::create(path, &metadata, &plans, &WriteOptions::default())
        .expect("the folder is writable");
    let mut state = 1u64;
    for plan in &plans {
        let n: u64 = plan.dims.iter().product();
        let mut bytes = Vec::new();
        for _ in 0..n {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            bytes.extend(((state >> 40) as f32 / (1u64 << 24) as f32 - 0.5).to_le_bytes());
        }
        writer.write(&bytes).expect("it is its turn");
    }
    writer.finish().expect("the disk has room");
}

fn with(target: Target, input: &Path, output: &Path) -> QuantizeOptions {
    QuantizeOptions {
        recipe: None,
        target: Some(target),
        measure: true,
        ..QuantizeOptions::new(input, output, recipe("Q8_0"))
    }
}

fn error_of(report: &QuantizeReport) -> f64 {
    let losses = report.tensors.iter().filter_map(|tensor| tensor.quality);
    losses.map(|loss| loss.relative_error().powi(2)).sum()
}

#[test]
fn the_size_is_kept_and_more_bytes_lose_less() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = folder.path().join("in.gguf");
    model(&input);
    let mut last = f64::INFINITY;
    for (index, bits) in [3.5, 4.5, 5.0, 6.0, 8.5, 33.0].into_iter().enumerate() {
        let output = folder.path().join(format!("{index}.gguf"));
        let options = with(Target::BitsPerWeight(bits), &input, &output);
        let report = run(&options).expect("there is room");
        assert!(
            report.bits_per_weight() <= bits,
            "{bits}: {}",
            report.bits_per_weight()
        );
        let error = error_of(&report);
        assert!(
            error < last || error == 0.0,
            "{bits}: {error} is no less than {last}"
        );
        last = error;
    }
    assert_eq!(last, 0.0);
}

#[test]
fn a_file_of_exactly_the_size_or_less() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = folder.path().join("in.gguf");
    model(&input);
    let output = |name: &str| folder.path().join(name);
    let first = with(Target::FileBytes(70_000), &input, &output("a.gguf"));
    let report = run(&first).expect("there is room");
    let bytes = std::fs::metadata(output("a.gguf"))
        .expect("it is there")
        .len();
    assert_eq!(bytes, report.file_bytes);
    assert!((66_000..=70_000).contains(&bytes), "{bytes}");
    // Asked for exactly that, it is found again; the bytes do not depend on threads.
    let mut again = with(Target::FileBytes(bytes), &input, &output("b.gguf"));
    again.n_threads = 1;
    run(&again).expect("it was just written");
    let hash = |name: &str| sha256(&std::fs::read(output(name)).expect("it is there"));
    assert_eq!(hash("a.gguf"), hash("b.gguf"));
    let mut dry = with(Target::FileBytes(bytes), &input, &output("c.gguf"));
    dry.dry_run = true;
    let planned = run(&dry).expect("it can be planned");
    let types = |report: &QuantizeReport| {
        report
            .tensors
            .iter()
            .map(|tensor| tensor.to)
            .collect::<Vec<_>>()
    };
    assert_eq!(types(&planned), types(&report));
    assert!(!output("c.gguf").exists());
    let error = run(&with(Target::FileBytes(20_000), &input, &output("d.gguf")));
    let error = error.expect_err("no choice is so small");
    assert!(
        matches!(error, ConvertError::TargetTooSmall { .. }),
        "{error}"
    );
    assert!(error.hint().is_some() && !output("d.gguf").exists());
}

/// At whatever size asked for: never a byte more, the number of the recipe included, which the source has not.
#[test]
fn no_size_is_exceeded() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = folder.path().join("in.gguf");
    model(&input);
    let planned = |bytes| {
        let options = QuantizeOptions {
            dry_run: true,
            ..with(
                Target::FileBytes(bytes),
                &input,
                &folder.path().join("out.gguf"),
            )
        };
        run(&options).expect("there is room").file_bytes
    };
    for around in [70_000, 1_000_000] {
        let bytes = planned(around);
        for near in [0, 1, 31, 32, 33, 34, 65, 66] {
            let asked = bytes + near - 33;
            let found = planned(asked);
            assert!(found <= asked, "{asked}: {found}");
            assert!(
                asked < bytes || found >= bytes,
                "{asked}: {found} for {bytes}"
            );
        }
    }
}

#[test]
fn what_is_set_by_hand_stays() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = folder.path().join("in.gguf");
    model(&input);
    let mut options = with(
        Target::BitsPerWeight(6.0),
        &input,
        &folder.path().join("out.gguf"),
    );
    options.plan.output_tensor_type = Some(Q8_0);
    options.plan.tensor_types = vec!["attn_v=f16".parse().expect("a pattern and a type")];
    options.importance = Some(importance(&[("blk.0.ffn_up.weight", vec![1.0; 256])]));
    let report = run(&options).expect("there is room");
    let ty = |name: &str| {
        let mut tensors = report.tensors.iter();
        tensors
            .find(|tensor| tensor.name == name)
            .expect("it is there")
            .to
    };
    assert_eq!(
        (ty("output.weight"), ty("blk.0.attn_v.weight")),
        (Q8_0, F16)
    );
    assert_eq!(ty("output_norm.weight"), F32);
    assert!(report.bits_per_weight() <= 6.0);
}

/// A copy loses nothing; of a tensor that changes, the loss is that of its values.
#[test]
fn losses_are_measured() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = small_model(folder.path(), F16);
    let mut sums = Vec::new();
    for (n_threads, slab_bytes) in [(1, 0), (3, 1), (2, 5000)] {
        let output = folder.path().join(format!("{n_threads}.gguf"));
        let options = QuantizeOptions {
            measure: true,
            n_threads,
            slab_bytes,
            ..QuantizeOptions::new(&input, &output, recipe("Q4_K_M"))
        };
        let report = run(&options).expect("it can be quantized");
        let losses: Vec<f64> = report
            .tensors
            .iter()
            .map(|tensor| {
                tensor
                    .quality
                    .map_or(0.0, |quality| quality.relative_error())
            })
            .collect();
        assert_eq!(losses[0], 0.0, "the norm is copied");
        assert!(losses[1] > 1e-3 && losses[1] < 0.1, "{losses:?}");
        sums.push(report.tensors);
    }
    assert!(sums.windows(2).all(|pair| pair[0] == pair[1]), "{sums:?}");
}
