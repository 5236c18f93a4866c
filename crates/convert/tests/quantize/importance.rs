//! B37: importance matrices with zeros, without tensors, of another model.

use std::path::Path;

use gristmill_convert::ConvertError;
use gristmill_convert::quantize::{Importance, ImportanceFilter, QuantizeOptions};
use gristmill_convert::recipe::RECIPES;
use gristmill_gguf::{
    Imatrix, ImatrixEntry, ImatrixForm, Metadata, Model, TensorPlan, Value, WriteOptions, Writer,
};
use gristmill_quant::{F16, F32};

use crate::fixtures::{QUERY, describe, importance, recipe, run, small_model, write_query};

fn values(n: usize) -> Vec<f32> {
    (0..n)
        .map(|i| ((i * 7919 % 1009) as f32 - 504.0) / 300.0)
        .collect()
}

/// A row of nothing but zeros, and one with a super-block of zeros: as if all its columns mattered alike. No type makes
/// numbers of it that are none.
#[test]
fn case_b37_columns_without_importance() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("in.gguf");
    write_query(&path, &values(512 * 4));
    let zeros_then = |n: usize| [vec![0.0; n], vec![0.5; 256 - n]].concat();
    for recipe in RECIPES.iter().filter(|recipe| recipe.default.can_encode()) {
        for n_zeros in [256, 255, 160, 32, 16, 1] {
            let output = folder.path().join(format!("{recipe:?}-{n_zeros}.gguf"));
            let mut options = QuantizeOptions::new(&path, &output, recipe);
            options.importance = Some(importance(&[(QUERY, zeros_then(n_zeros))]));
            run(&options).unwrap_or_else(|error| panic!("{recipe:?} {n_zeros}: {error}"));
            let model = Model::open(&output).expect("it was just written");
            let view = model.tensor(QUERY).expect("it is there");
            view.info
                .ty
                .validate(view.data)
                .expect("all scales are finite");
            if n_zeros == 256 {
                options.output = folder.path().join(format!("{recipe:?}-ones.gguf"));
                options.importance = Some(importance(&[(QUERY, vec![1.0; 256])]));
                run(&options).expect("it can be quantized");
                let ones = Model::open(&options.output).expect("it was just written");
                assert_eq!(
                    view.data,
                    ones.tensor(QUERY).expect("it is there").data,
                    "{recipe:?}"
                );
            }
        }
    }
}

/// A range of columns that no text used, or as good as none: it is told of with its share, and counts alike.
#[test]
fn case_b37_a_block_that_was_never_seen_is_told_of() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("in.gguf");
    write_query(&path, &values(512 * 4));
    let quantized_to = |ty: &str, name: &str, weights: Vec<f32>| {
        let output = folder.path().join(name);
        let mut options = QuantizeOptions::new(&path, &output, recipe(ty));
        options.importance = Some(importance(&[(QUERY, weights)]));
        let report = run(&options).expect("it can be quantized");
        let model = Model::open(&output).expect("it was just written");
        let view = model.tensor(QUERY).expect("it is there");
        (report.warnings, view.data.to_vec())
    };
    let quantized = |name: &str, weights| quantized_to("Q4_0", name, weights);
    let with = |start: usize, weight: f32| {
        let mut weights = vec![0.5; 256];
        weights[start..start + 64].fill(weight);
        weights
    };
    let (warnings, zeros) = quantized("zeros", with(32, 0.0));
    assert_eq!(
        warnings,
        [
            "1 tensor has whole blocks of columns that no text used (64 of 256 columns, 25.0 %, of \"blk.0.attn_q.weight\"): quantized there with equal weights"
        ]
    );
    assert_eq!((warnings, zeros), quantized("tiny", with(32, 1e-30)));
    // Blocks of which only some columns were not used.
    let (warnings, _) = quantized("shifted", with(48, 0.0));
    assert!(
        warnings[0].contains("(32 of 256 columns, 12.5 %"),
        "{warnings:?}"
    );
    let mut weights = vec![0.5; 256];
    weights[0] = 0.0;
    assert!(quantized("one", weights).0.is_empty());
    // What takes no importance misses none.
    let (warnings, _) = quantized_to("Q8_0", "q8_0", with(32, 0.0));
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("no tensor is quantized with the importance matrix"));
}

const EXPERTS: &str = "blk.0.ffn_up_exps.weight";

/// A llama with stacked matrices.
fn write_experts(input: &Path, dims: [u64; 3], data: &[f32]) {
    let mut metadata = Metadata::new();
    describe(&mut metadata);
    metadata.set("llama.expert_count", dims[2] as u32);
    metadata.set("llama.expert_used_count", 1u32);
    let plan = TensorPlan {
        name: EXPERTS.to_owned(),
        dims: dims.to_vec(),
        ty: F32,
    };
    let mut writer = Writer::create(input, &metadata, &[plan], &WriteOptions::default())
        .expect("the folder is writable");
    let bytes: Vec<u8> = data.iter().flat_map(|value| value.to_le_bytes()).collect();
    writer.write(&bytes).expect("it is its turn");
    writer.finish().expect("the disk has room");
}

/// Experts whose borders lie inside slabs and chunks, each with weights of its own: the bytes are those of one thread and
/// one slab.
#[test]
fn borders_of_experts_do_not_depend_on_threads_or_slabs() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = folder.path().join("in.gguf");
    let (n_rows, n_experts) = (67, 5);
    write_experts(&input, [256, n_rows, n_experts], &values(256 * 67 * 5));
    let weights: Vec<f32> = (0..256 * 5)
        .map(|i| 1.0 + (i % 11 * (i / 256)) as f32)
        .collect();
    let mut imatrix = Imatrix::default();
    let entry = ImatrixEntry::new(weights, vec![1.0; 5], None).expect("it is sound");
    imatrix.insert(EXPERTS, entry);
    let mut first: Option<Vec<u8>> = None;
    for (n_threads, slab_bytes) in [(1, 0), (3, 1), (2, 70_000), (5, 256 * 4 * 100)] {
        let output = folder.path().join(format!("{n_threads}-{slab_bytes}.gguf"));
        let mut options = QuantizeOptions::new(&input, &output, recipe("IQ3_XXS"));
        options.importance = Some(Importance::new("x", imatrix.clone()));
        (options.n_threads, options.slab_bytes) = (n_threads, slab_bytes);
        run(&options).expect("it can be quantized");
        let bytes = std::fs::read(&output).expect("it is there");
        assert!(
            *first.get_or_insert_with(|| bytes.clone()) == bytes,
            "{n_threads} {slab_bytes}"
        );
    }
}

/// Two experts, of which the second was never chosen: it alone is quantized with equal weights, and that is said.
#[test]
fn case_b37_an_expert_without_text() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = folder.path().join("in.gguf");
    let data = values(256 * 6);
    write_experts(&input, [256, 3, 2], &data);

    let weights: Vec<f32> = (0..256).map(|i| 1.0 + (i % 7) as f32).collect();
    let mut imatrix = Imatrix::default();
    let sums = [weights.clone(), vec![0.0; 256]].concat();
    let entry = ImatrixEntry::new(sums, vec![1.0, 0.0], None).expect("it is sound");
    imatrix.insert(EXPERTS, entry);
    let output = folder.path().join("out.gguf");
    let mut options = QuantizeOptions::new(&input, &output, recipe("Q4_K_S"));
    options.importance = Some(Importance::new("x", imatrix));
    let report = run(&options).expect("it can be quantized");
    assert_eq!(
        report.warnings,
        [format!(
            "1 matrix saw no text (the first: 1 of 2 of {EXPERTS:?}): quantized with equal weights"
        )]
    );
    let model = Model::open(&output).expect("it was just written");
    let view = model.tensor(EXPERTS).expect("it is there");
    let (half, ty) = (view.data.len() / 2, view.info.ty);
    for (expert, weights) in [weights, vec![1.0; 256]].into_iter().enumerate() {
        let mut expected = vec![0; half];
        ty.encode(
            &data[expert * 768..][..768],
            256,
            Some(&weights),
            &mut expected,
        )
        .expect("the buffers fit");
        assert_eq!(
            &view.data[expert * half..][..half],
            expected,
            "expert {expert}"
        );
    }
}

/// Weights that are numbers, and yet too large or too small to compute with.
#[test]
fn weights_out_of_range_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (input, output) = (
        folder.path().join("in.gguf"),
        folder.path().join("out.gguf"),
    );
    write_query(&input, &values(512));
    let with = |weight: f32| {
        let mut options = QuantizeOptions::new(&input, &output, recipe("Q4_K_S"));
        options.importance = Some(importance(&[(QUERY, vec![weight; 256])]));
        options.force = true;
        options
    };
    for weight in [3e38, 1e16, 1e-18, 1e-40] {
        let error = run(&with(weight)).expect_err("it is out of range");
        assert!(
            matches!(error, ConvertError::ImportanceRange { .. }) && error.hint().is_some(),
            "{error}"
        );
        assert!(!output.exists());
    }
    // Inside, only what weights are to each other counts.
    let mut losses = Vec::new();
    for weight in [1.0, 1e15, 1e-17] {
        let options = QuantizeOptions {
            measure: true,
            ..with(weight)
        };
        let report = run(&options).expect("it is in range");
        losses.push(report.quality().expect("it was measured").relative_error());
    }
    let close = |loss: &f64| (loss / losses[0] - 1.0).abs() < 0.01;
    assert!(losses.iter().all(close), "{losses:?}");
}

/// What needs importance and has none is refused before an output is opened, all tensors at once.
#[test]
fn case_b37_missing_tensors() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = small_model(folder.path(), F16);
    let output = folder.path().join("out.gguf");
    let mut options = QuantizeOptions::new(&input, &output, recipe("Q2_K_S"));
    options.plan.tensor_types = vec!["attn_q=q2_k".parse().expect("a pattern and a type")];
    // Rows of 160 fall back to q4_0, which needs none.
    run(&options).expect("no tensor needs importance");
    let input = folder.path().join("query.gguf");
    write_query(&input, &values(512));
    for importance in [
        None,
        Some(importance(&[("blk.0.attn_k.weight", vec![1.0; 256])])),
    ] {
        let other = importance.is_some();
        let output = folder.path().join("out2.gguf");
        let mut options = QuantizeOptions::new(&input, &output, recipe("Q2_K_S"));
        options.importance = importance;
        let error = run(&options).expect_err("the tensor has no importance data");
        match (other, &error) {
            (false, ConvertError::ImportanceRequired { tensors }) => assert_eq!(tensors, &[QUERY]),
            (true, ConvertError::ImportanceForeign { name, .. }) => {
                assert_eq!(name, "blk.0.attn_k.weight")
            }
            _ => panic!("{error}"),
        }
        assert!(error.hint().is_some() && !output.exists());
    }
}

#[test]
fn filters_choose_entries_by_parts_of_their_names() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("imatrix.dat");
    let mut imatrix = Imatrix::default();
    for name in [
        "blk.0.attn_q.weight",
        "blk.0.attn_k.weight",
        "blk.0.ffn_up.weight",
    ] {
        let entry = ImatrixEntry::new(vec![1.0; 4], vec![1.0], None).expect("it is sound");
        imatrix.insert(name, entry);
    }
    imatrix
        .save(&path, ImatrixForm::Legacy, &WriteOptions::default())
        .expect("the folder is writable");
    let chosen = |filter| -> Vec<String> {
        let importance = Importance::open(&path, &filter).expect("something is left");
        importance.names().map(str::to_owned).collect()
    };
    let parts = |parts: &[&str]| {
        parts
            .iter()
            .map(|part| (*part).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(chosen(ImportanceFilter::All).len(), 3);
    assert_eq!(
        chosen(ImportanceFilter::Including(parts(&["attn_k", "ffn"]))),
        ["blk.0.attn_k.weight", "blk.0.ffn_up.weight"]
    );
    assert_eq!(
        chosen(ImportanceFilter::Excluding(parts(&["attn"]))),
        ["blk.0.ffn_up.weight"]
    );
    let nothing = Importance::open(&path, &ImportanceFilter::Excluding(parts(&["blk"])));
    assert!(matches!(nothing, Err(ConvertError::ImportanceEmpty { .. })));
}

#[test]
fn the_result_tells_of_the_matrix() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = folder.path().join("in.gguf");
    write_query(&input, &values(512));
    let mut imatrix = Imatrix::default();
    let entry = |n| ImatrixEntry::new(vec![1.0; n], vec![1.0], None).expect("it is sound");
    imatrix.insert(QUERY, entry(256));
    imatrix.insert("blk.7.attn_q.weight", entry(256));
    imatrix.datasets = vec!["d".repeat(200), "second".to_owned()];
    imatrix.n_chunks = 5;
    let output = folder.path().join("out.gguf");
    let mut options = QuantizeOptions::new(&input, &output, recipe("Q4_0"));
    options.importance = Some(Importance::new("dir/imatrix.gguf", imatrix));
    let report = run(&options).expect("it can be quantized");
    assert_eq!(
        report.warnings,
        [
            "1 of 2 entries of the importance matrix belong to no tensor of the model (the first is \"blk.7.attn_q.weight\")"
        ]
    );
    let model = Model::open(&output).expect("it was just written");
    let entries: Vec<_> = model
        .metadata()
        .iter()
        .filter(|(key, _)| key.starts_with("quantize."))
        .map(|(key, value)| (key.to_owned(), value.clone()))
        .collect();
    assert_eq!(
        entries,
        [
            (
                "quantize.imatrix.file".to_owned(),
                Value::from("dir/imatrix.gguf")
            ),
            (
                "quantize.imatrix.dataset".to_owned(),
                Value::from("d".repeat(127).as_str())
            ),
            ("quantize.imatrix.entries_count".to_owned(), Value::U32(2)),
            ("quantize.imatrix.chunks_count".to_owned(), Value::U32(5)),
        ]
    );
}
