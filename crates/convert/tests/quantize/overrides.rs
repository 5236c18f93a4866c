//! Metadata that is set, and what it makes of a model.

use std::path::{Path, PathBuf};

use gristmill_convert::quantize::QuantizeOptions;
use gristmill_convert::{ConvertOptions, convert};
use gristmill_gguf::Value;

use crate::fixtures::{recipe, run, small_model};

/// The embedded model, which has a vocabulary.
fn tiny(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny");
    let options = ConvertOptions {
        output: Some(folder.join("tiny.gguf")),
        ..ConvertOptions::new(source)
    };
    convert(&options, &mut |_| ()).expect("it is sound").path
}

/// The warnings, or the error, of quantizing with these entries set.
fn quantized(input: &Path, set: &[(&str, Value)]) -> Result<Vec<String>, String> {
    let output = input.with_file_name("out.gguf");
    let mut options = QuantizeOptions::new(input, &output, recipe("Q8_0"));
    options.metadata = set
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.clone()))
        .collect();
    options.force = true;
    let done = run(&options);
    assert_eq!(done.is_ok(), output.exists());
    if done.is_ok() {
        std::fs::remove_file(output).expect("it is there");
    }
    done.map(|report| report.warnings)
        .map_err(|error| error.to_string())
}

/// What would not load is refused before anything is written, and what is set is to blame.
#[test]
fn entries_with_which_nothing_loads_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let input = tiny(folder.path());
    let text = Value::from;
    for (key, value, given, reason) in [
        (
            "llama.expert_count",
            8u32.into(),
            "int:8",
            "the model has no tensors of experts",
        ),
        (
            "llama.rope.freq_base",
            10000u32.into(),
            "int:10000",
            "llama.rope.freq_base is FLOAT32; write it as llama.rope.freq_base=float:VALUE",
        ),
        (
            "general.name",
            5u32.into(),
            "int:5",
            "general.name is STRING; write it as general.name=str:VALUE",
        ),
        (
            "general.architecture",
            text("foo"),
            "str:foo",
            "no known model has the architecture \"foo\" (gristmill runs ",
        ),
        (
            "general.architecture",
            text("qwen2"),
            "str:qwen2",
            "metadata key \"qwen2.block_count\" is missing",
        ),
        (
            "general.architecture",
            text("clip"),
            "str:clip",
            "this file is a multimodal projector, not a model",
        ),
        (
            "general.type",
            text("adapter"),
            "str:adapter",
            "this file is an adapter, not a model",
        ),
        (
            "general.alignment",
            33u32.into(),
            "int:33",
            "an alignment is a power of two from 8 to 1048576",
        ),
        (
            "general.alignment",
            24u32.into(),
            "int:24",
            "an alignment is a power of two from 8 to 1048576",
        ),
        (
            "tokenizer.ggml.bos_token_id",
            70000u32.into(),
            "int:70000",
            "tokenizer.ggml.bos_token_id is 70000, but there are only 1024 tokens",
        ),
        (
            "tokenizer.ggml.eos_token_id",
            70000u32.into(),
            "int:70000",
            "tokenizer.ggml.eos_token_id is 70000, but there are only 1024 tokens",
        ),
        (
            "tokenizer.ggml.model",
            text("foo"),
            "str:foo",
            "tokenizer.ggml.model is \"foo\"",
        ),
        (
            "tokenizer.ggml.tokens",
            text("x"),
            "str:x",
            "tokenizer.ggml.tokens",
        ),
    ] {
        // One that is good beside it is not named.
        let set = [("llama.context_length", 64u32.into()), (key, value)];
        let error = quantized(&input, &set).expect_err(key);
        let start = format!(
            "`--override-kv {key}={given}` makes a file that gristmill or llama.cpp does not load: "
        );
        let found = error.strip_prefix(&start);
        assert!(found.is_some_and(|found| found.contains(reason)), "{error}");
    }
    for (key, value) in [
        ("general.alignment", 64u32.into()),
        ("general.name", text("x")),
        ("tokenizer.ggml.bos_token_id", 3u32.into()),
        ("my.own", text("x")),
    ] {
        assert_eq!(quantized(&input, &[(key, value)]), Ok(Vec::new()), "{key}");
    }
    for (key, value, doubt) in [
        (
            "tokenizer.ggml.padding_token_id",
            70000u32.into(),
            "the entry is ignored",
        ),
        (
            "tokenizer.ggml.pre",
            text("foo"),
            "gristmill will not load the output",
        ),
    ] {
        let warnings = quantized(&input, &[(key, value)]).expect(key);
        assert!(
            warnings.len() == 1 && warnings[0].contains(doubt),
            "{warnings:?}"
        );
    }
    // What the source lacks already is nobody's fault here.
    let without = small_model(folder.path(), gristmill_quant::F16);
    let set = [
        ("tokenizer.ggml.model", text("foo")),
        ("llama.context_length", 32u32.into()),
    ];
    assert!(quantized(&without, &set).is_ok());
}
