//! `golden/convert/llama/quantize`: 70 runs of the reference's quantizer, errors included.

use std::path::Path;

use gristmill_convert::quantize::{Importance, ImportanceFilter, QuantizeOptions, QuantizeReport};
use gristmill_convert::recipe::tensor_type;
use gristmill_gguf::{Model, Value};
use serde_json::Value as Json;

use crate::fixtures::{recipe, run, sha256};

/// The options of a golden run, but for its importance matrix.
fn options(folder: &Path, output: &Path, run: &Json) -> QuantizeOptions {
    let recipe = recipe(run["ftype"].as_str().expect("a name"));
    let mut options = QuantizeOptions::new(folder.join("llama-f32.gguf"), output, recipe);
    let mut flags = run["flags"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|flag| flag.as_str().expect("text"));
    while let Some(flag) = flags.next() {
        let mut ty = || tensor_type(flags.next().expect("a value")).expect("a type");
        match flag {
            "--pure" => options.plan.pure = true,
            "--leave-output-tensor" => options.plan.leave_output_tensor = true,
            "--output-tensor-type" => options.plan.output_tensor_type = Some(ty()),
            "--token-embedding-type" => options.plan.token_embedding_type = Some(ty()),
            "--tensor-type" => {
                let entry = flags
                    .next()
                    .expect("a value")
                    .parse()
                    .expect("a pattern and a type");
                options.plan.tensor_types.push(entry);
            }
            "--imatrix" => {
                flags.next();
                let path = folder.join("quantize/llama.imatrix.gguf");
                let importance = Importance::open(&path, &ImportanceFilter::All);
                options.importance = Some(importance.expect("it is sound"));
            }
            other => panic!("unknown flag {other}"),
        }
    }
    options
}

#[test]
fn bytes_equal_the_reference() {
    let Some(folder) = gristmill_golden::folder("convert/llama") else {
        return;
    };
    let json = std::fs::read(folder.join("quantize/llama.quantize.json")).expect("it is there");
    let json: Json = serde_json::from_slice(&json).expect("it is JSON");
    let temporary = tempfile::tempdir().expect("a temporary folder can be made");
    let (mut n_files, mut n_tensors, mut n_refused) = (0, 0, 0);
    for (index, golden) in json["runs"].as_array().expect("a list").iter().enumerate() {
        let output = temporary.path().join(format!("{index}.gguf"));
        let options = options(&folder, &output, golden);
        if let Some(expected) = golden["error"].as_str() {
            let error = run(&options).expect_err("the reference refuses it");
            assert!(error.to_string().starts_with(expected), "{error}");
            n_refused += 1;
            continue;
        }
        let report = run(&options).expect("the reference writes it");
        n_tensors += compare(&output, golden, &report);
        n_files += 1;
    }
    assert_eq!((n_files, n_refused), (61, 9));
    gristmill_golden::compared(n_tensors, "quantized tensors");
}

/// Compares a file with a golden run; returns how many tensors it has.
fn compare(output: &Path, golden: &Json, report: &QuantizeReport) -> usize {
    let what = format!("{} {}", golden["ftype"], golden["flags"]);
    let model = Model::open(output).expect("what was written can be read");
    let tensors = golden["tensors"].as_object().expect("a table");
    assert_eq!(model.tensors().len(), tensors.len(), "{what}");
    // The table is in the order of the file.
    for (view, (name, expected)) in model.views().zip(tensors) {
        assert_eq!(&view.info.name, name, "{what}");
        let ours = [view.info.ty.name().to_uppercase(), sha256(view.data)];
        assert_eq!(
            ours[0],
            expected[0].as_str().expect("a type").to_uppercase(),
            "{what} {name}"
        );
        assert_eq!(
            ours[1],
            expected[1].as_str().expect("a hash"),
            "{what} {name}: bytes differ"
        );
    }
    for (key, expected) in golden["kv"].as_object().expect("a table").iter() {
        if key == "quantize.imatrix.file" {
            // The reference's run had it elsewhere.
            assert!(model.metadata().contains(key), "{what}: no {key}");
            continue;
        }
        let ours = model
            .metadata()
            .get(key)
            .unwrap_or_else(|| panic!("{what}: no {key}"));
        match expected.as_u64() {
            Some(number) => assert_eq!(*ours, Value::U32(number as u32), "{what} {key}"),
            None => assert_eq!(
                *ours,
                Value::from(expected.as_str().expect("text")),
                "{what} {key}"
            ),
        }
    }
    let size = std::fs::metadata(output).expect("it is there").len();
    assert_eq!(size, report.file_bytes, "{what}");
    // The reference's path of the importance matrix has another length, which padding may or may not hide.
    if !golden["flags"].to_string().contains("imatrix") {
        assert_eq!(size, golden["bytes"].as_u64().expect("a size"), "{what}");
    }
    tensors.len()
}
