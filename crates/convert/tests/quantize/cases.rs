//! Whole files: cases of real use.

use std::collections::HashMap;

use gristmill_convert::ConvertError;
use gristmill_convert::quantize::QuantizeOptions;
use gristmill_convert::recipe::RECIPES;
use gristmill_gguf::{Metadata, Model, Value};
use gristmill_quant::{BF16, F16, F32, MXFP4, Q4_K, TensorType};

use crate::fixtures::{QUERY, describe, importance, recipe, run, sha256, small_model, write_query};

#[test]
fn bytes_do_not_depend_on_threads_or_slabs() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = small_model(folder.path(), F16);
    let mut files = HashMap::new();
    for (n_threads, slab_bytes) in [(1, 0), (2, 0), (3, 1), (7, 5000), (2, 1 << 30)] {
        let output = folder.path().join(format!("{n_threads}-{slab_bytes}.gguf"));
        let options = QuantizeOptions {
            n_threads,
            slab_bytes,
            ..QuantizeOptions::new(&input, &output, recipe("Q4_K_M"))
        };
        run(&options).expect("it can be quantized");
        files.insert(
            sha256(&std::fs::read(&output).expect("it is there")),
            output,
        );
    }
    assert_eq!(files.len(), 1);
}

#[test]
fn what_a_report_tells() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (input, output) = (
        small_model(folder.path(), F16),
        folder.path().join("out.gguf"),
    );
    let mut options = QuantizeOptions::new(&input, &output, recipe("Q4_K_M"));
    options.plan.tensor_types = vec!["nothing=q8_0".parse().expect("a pattern and a type")];
    options.dry_run = true;
    let planned = run(&options).expect("it can be planned");
    assert!(!output.exists());
    options.dry_run = false;
    let report = run(&options).expect("it can be quantized");
    assert_eq!(planned.tensors, report.tensors);
    assert_eq!(
        report.file_bytes,
        std::fs::metadata(&output).expect("it is there").len()
    );
    // The tied embedding is the output (q6_K); rows of 160 fit no q4_K block (q5_0 instead); the norm stays.
    assert_eq!(report.bytes(), 40 * 210 + 300 * 5 * 22 + 1024);
    assert_eq!(report.source_bytes(), 40 * 512 + 300 * 320 + 1024);
    assert_eq!(report.n_elements, 40 * 256 + 300 * 160 + 256);
    let fallbacks: Vec<_> = report
        .fallbacks()
        .map(|tensor| (tensor.name.as_str(), tensor.fallback_from))
        .collect();
    assert_eq!(fallbacks, [("blk.0.attn_q.weight", Some(Q4_K))]);
    assert_eq!(
        report.histogram().values().map(|(n, _)| n).sum::<usize>(),
        3
    );
    // Those that fell back are told of in the summary, once.
    assert_eq!(
        report.warnings,
        ["the override `nothing=q8_0` found no tensor"]
    );
    let lines = report.lines();
    let told = lines
        .iter()
        .filter(|line| line.contains("blk.0.attn_q.weight"));
    assert_eq!(told.count(), 1, "{lines:?}");
    let model = Model::open(&output).expect("what was written can be read");
    let keys: Vec<_> = model.metadata().iter().map(|(key, _)| key).collect();
    let mut source = Metadata::new();
    describe(&mut source);
    let mut expected: Vec<_> = source.iter().map(|(key, _)| key).collect();
    expected.extend(["general.quantization_version", "general.file_type"]);
    assert_eq!(keys, expected);
    options.forbid_fallback = true;
    options.force = true;
    assert!(matches!(
        run(&options),
        Err(ConvertError::FallbackForbidden { .. })
    ));
}

/// B40: the output is an input, by its name, through a symbolic link, or through a hard link.
#[test]
fn case_b40_output_is_input() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = small_model(folder.path(), F16);
    let before = std::fs::read(&input).expect("it is there");
    let (soft, hard) = (
        folder.path().join("soft.gguf"),
        folder.path().join("hard.gguf"),
    );
    std::fs::hard_link(&input, &hard).expect("the file system has hard links");
    #[cfg(unix)]
    std::os::unix::fs::symlink(&input, &soft).expect("the file system has symbolic links");
    for output in [&input, &soft, &hard]
        .into_iter()
        .filter(|path| path.exists())
    {
        for force in [false, true] {
            let options = QuantizeOptions {
                force,
                ..QuantizeOptions::new(&input, output, recipe("Q8_0"))
            };
            let error = run(&options).expect_err("it would destroy the source");
            assert!(
                matches!(
                    error,
                    ConvertError::Gguf(gristmill_gguf::Error::OutputIsInput { .. })
                ),
                "{error}"
            );
        }
    }
    assert_eq!(std::fs::read(&input).expect("it is there"), before);
}

/// B43: refused by default, allowed by a flag; tensors of the same type are copied; a copy is exact.
#[test]
fn case_b43_requantizing() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = small_model(folder.path(), Q4_K);
    let output = folder.path().join("out.gguf");
    let mut options = QuantizeOptions::new(&input, &output, recipe("Q5_K_S"));
    let error = run(&options).expect_err("the source is quantized");
    assert!(matches!(error, ConvertError::Requantize { .. }), "{error}");
    assert!(error.hint().is_some() && !output.exists());
    options.allow_requantize = true;
    assert_eq!(run(&options).expect("it was asked for").warnings.len(), 1);

    let same = folder.path().join("same.gguf");
    let mut options = QuantizeOptions::new(&input, &same, recipe("Q4_K_S"));
    options.plan.pure = true;
    run(&options).expect("nothing is quantized again");
    let copy = folder.path().join("copy.gguf");
    options = QuantizeOptions {
        recipe: None,
        output: copy.clone(),
        ..options
    };
    run(&options).expect("nothing is quantized");
    let source = Model::open(&input).expect("it opens");
    for path in [&same, &copy] {
        let model = Model::open(path).expect("it opens");
        for view in source.views() {
            assert_eq!(
                model.tensor(&view.info.name).expect("it is there").data,
                view.data
            );
        }
    }
    let copied = Model::open(&copy).expect("it opens");
    assert_eq!(
        copied.metadata().get("general.file_type"),
        Some(&Value::U32(0))
    );
}

/// Importance data of another model is refused in the plan, where nothing has been written yet.
#[test]
fn importance_of_another_length_is_found_by_a_dry_run() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("in.gguf");
    write_query(&path, &[0.0; 512]);
    for recipe_name in ["Q4_K_M", "Q2_K"] {
        let mut options =
            QuantizeOptions::new(&path, folder.path().join("out.gguf"), recipe(recipe_name));
        options.dry_run = true;
        let weights = |n| importance(&[(QUERY, vec![1.0; n])]);
        options.importance = Some(weights(256));
        run(&options).expect("the lengths agree");
        options.importance = Some(weights(128));
        let error = run(&options).expect_err("the lengths differ");
        assert!(
            matches!(
                error,
                ConvertError::ImportanceLength {
                    expected: 256,
                    found: 128,
                    ..
                }
            ),
            "{error}"
        );
    }
}

/// A NaN or an infinity in the source is refused, even where the search for a scale would pass it over.
#[test]
fn values_that_are_no_numbers() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    for (index, bad) in [f32::NAN, f32::INFINITY].into_iter().enumerate() {
        let path = folder.path().join(format!("{index}.gguf"));
        let mut values = vec![0.25f32; 256 * 200];
        values[40_000] = bad;
        write_query(&path, &values);
        for name in ["Q4_K_M", "Q6_K", "Q8_0"] {
            let options = QuantizeOptions::new(&path, folder.path().join("out.gguf"), recipe(name));
            let error = run(&options)
                .expect_err("there is no such weight")
                .to_string();
            assert!(
                error.contains("blk.0.attn_q.weight") && error.contains("f32 element 40000 "),
                "{error}"
            );
        }
    }
}

/// A source with values that no scale can hold is refused, for every type that has one, and nothing is left at the output's
/// name. (Types with scales of eight bits of exponent hold them.)
#[test]
fn values_beyond_every_scale() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("huge.gguf");
    for exponent in [10, 12, 20, 30, 37] {
        let mut values = vec![1.0f32; 1024];
        values[700] = 10f32.powi(exponent);
        let _ = std::fs::remove_file(&path);
        write_query(&path, &values);
        for recipe in RECIPES
            .iter()
            .filter(|recipe| recipe.default != F32 && recipe.default != BF16)
        {
            let output = folder.path().join("out.gguf");
            let mut options = QuantizeOptions::new(&path, &output, recipe);
            options.plan.pure = true;
            options.importance = Some(importance(&[(QUERY, vec![1.0; 256])]));
            match run(&options) {
                Ok(report) if report.tensors[0].to == MXFP4 => {
                    std::fs::remove_file(&output).expect("it is there");
                    continue;
                }
                Ok(_) => panic!("{} takes 1e{exponent}", recipe.name),
                Err(error) => {
                    let text = error.to_string();
                    let what = ["quantized data validation failed", "cannot hold"];
                    assert!(what.iter().any(|what| text.contains(what)), "{text}");
                    assert!(text.contains(QUERY) && error.hint().is_some(), "{text}");
                }
            }
            let left = std::fs::read_dir(folder.path())
                .expect("it is there")
                .count();
            assert_eq!(left, 1, "{}: something was left", recipe.name);
        }
    }
}

/// Beside a larger value of its block, a huge one may round to nothing.
#[test]
fn a_huge_value_beside_a_larger_one() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("huge.gguf");
    let mut values = vec![1.0f32; 1024];
    (values[700], values[701]) = (1e12, 2e9);
    write_query(&path, &values);
    let mut options = QuantizeOptions::new(&path, folder.path().join("out.gguf"), recipe("Q8_0"));
    options.plan.tensor_types = vec!["attn_q=mxfp4".parse().expect("a pattern and a type")];
    let report = run(&options).expect("its scales reach so far");
    assert_eq!(report.tensors[0].to, MXFP4);
}

/// Types of activations are no types of weights.
#[test]
fn activations_are_no_weights() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("in.gguf");
    write_query(&path, &[1.0; 512]);
    let output = folder.path().join("out.gguf");
    let refused = TensorType::all().filter(|ty| {
        let mut options = QuantizeOptions::new(&path, &output, recipe("Q4_K_M"));
        options.plan.tensor_types = vec![format!("attn_q={ty}").parse().expect("a type")];
        options.importance = Some(importance(&[(QUERY, vec![1.0; 256])]));
        options.dry_run = true;
        match run(&options) {
            Err(error @ ConvertError::ActivationType { .. }) => error.hint().is_some(),
            _ => false,
        }
    });
    let refused: Vec<&str> = refused.map(TensorType::name).collect();
    assert_eq!(
        refused,
        ["q8_1", "q8_k"].map(|name| TensorType::from_name(name).expect("a type").name())
    );
}
