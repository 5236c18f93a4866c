//! Conversions beside the reference's own.

use gristmill_convert::{ConvertOptions, OutputType, convert};
use gristmill_gguf::{Model, TensorInfo, Value};
use std::path::Path;

/// Folder of the checkpoint, and the output type of each conversion of it.
const CASES: &[(&str, &str, &[&str])] = &[
    ("gemma3_text", "hf", &["f32"]),
    ("llama", "hf", &["f32", "f16", "bf16", "q8_0"]),
    ("llama-split", "Tiny-Llama-0.2M-Chat-v0.3", &["f32"]),
    ("llama-tied-mistral", "hf", &["f32"]),
    ("qwen2", "hf", &["f32"]),
    ("qwen3", "hf", &["f32"]),
];

#[test]
fn conversions_equal_the_reference() {
    let Some(golden) = gristmill_golden::folder("convert") else {
        return;
    };
    let mut n_compared = 0;
    for (name, folder, types) in CASES {
        let meta = std::fs::read_to_string(golden.join(name).join("meta.json")).unwrap();
        let meta: serde_json::Value = serde_json::from_str(&meta).unwrap();
        for ty in *types {
            let out = tempfile::tempdir().unwrap();
            let options = ConvertOptions {
                output: Some(out.path().join("{ftype}.gguf")),
                output_type: OutputType::parse(ty).unwrap(),
                pre_tokenizer: meta["pre_tokenizer_name"].as_str().map(str::to_owned),
                n_threads: 2,
                ..ConvertOptions::new(golden.join(name).join(folder))
            };
            let report = convert(&options, &mut |_| {})
                .unwrap_or_else(|error| panic!("{name} {ty}: {error}"));
            assert_eq!(report.path, out.path().join(format!("{ty}.gguf")));
            compare(
                &format!("{name} {ty}"),
                &report.path,
                &golden.join(name).join(format!("{name}-{ty}.gguf")),
            );
            n_compared += 1;
        }
    }
    gristmill_golden::compared(n_compared, "converted files");
}

/// Compares entry by entry and tensor by tensor, so that a failure says what differs, and then the whole files.
fn compare(case: &str, ours: &Path, theirs: &Path) {
    let (our_model, their_model) = (Model::open(ours).unwrap(), Model::open(theirs).unwrap());
    let entries = |model: &Model| {
        let entry = |(key, value): (&str, &Value)| (key.to_owned(), value.clone());
        model.metadata().iter().map(entry).collect::<Vec<_>>()
    };
    assert_eq!(entries(&our_model), entries(&their_model), "{case}");
    let plan = |model: &Model| {
        let plan = |info: &TensorInfo| (info.name.clone(), info.dims.clone(), info.ty);
        model.tensors().iter().map(plan).collect::<Vec<_>>()
    };
    assert_eq!(plan(&our_model), plan(&their_model), "{case}");
    for info in our_model.tensors() {
        let data = |model: &Model| model.tensor(&info.name).unwrap().data.to_vec();
        assert!(
            data(&our_model) == data(&their_model),
            "{case}: data of {} differs",
            info.name
        );
    }
    assert!(
        std::fs::read(ours).unwrap() == std::fs::read(theirs).unwrap(),
        "{case}: the bytes of the files differ"
    );
}
