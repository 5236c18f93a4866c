//! `--vocab-only`: the reference's entries without what only weights tell, and no tensor.

use std::path::{Path, PathBuf};

use gristmill_convert::{ConvertOptions, OutputType, convert};
use gristmill_gguf::{File, Kind, Metadata, Model, WriteOptions, Writer};
use gristmill_model::architecture_of_config;

fn vocabulary(folder: &Path, output: &Path, ty: &str, pre: Option<String>) -> PathBuf {
    let options = ConvertOptions {
        output: Some(output.to_owned()),
        output_type: OutputType::parse(ty).unwrap(),
        pre_tokenizer: pre,
        vocab_only: true,
        ..ConvertOptions::new(folder)
    };
    let report = convert(&options, &mut |_| {}).unwrap();
    assert_eq!((report.n_tensors, report.n_params), (0, 0));
    let lines = report.lines();
    assert!(
        lines.contains(&"output: vocabulary only, no tensors".to_owned()),
        "{lines:?}"
    );
    let written = std::fs::metadata(&report.path).unwrap().len();
    assert_eq!(report.bytes, written);
    report.path
}

/// The reference computes `general.size_label` from the tensors, unless the folder's name says it; all else is the same.
#[test]
fn a_vocabulary_has_the_entries_of_the_whole_conversion() {
    let is_supported = |class: &str| architecture_of_config(class).is_some();
    let Some(checkpoints) = gristmill_golden::checkpoints(is_supported) else {
        return;
    };
    let n_compared = checkpoints.len();
    for checkpoint in checkpoints {
        let (name, source) = (&checkpoint.name, &checkpoint.source);
        let pre = checkpoint.pre_tokenizer.clone();
        let out = tempfile::tempdir().unwrap();
        let ours = vocabulary(source, &out.path().join("ours.gguf"), "f32", pre);
        let whole = File::open(&checkpoint.converted("f32")).unwrap();
        let mut expected: Metadata = whole.metadata().clone();
        if source.ends_with("hf") {
            assert!(expected.remove("general.size_label").is_some(), "{name}");
        }
        let theirs = out.path().join("theirs.gguf");
        Writer::create(&theirs, &expected, &[], &WriteOptions::default())
            .unwrap()
            .finish()
            .unwrap();
        let entries = |metadata: &Metadata| {
            let entries = metadata.iter();
            entries
                .map(|(key, value)| (key.to_owned(), value.clone()))
                .collect::<Vec<_>>()
        };
        let model = Model::open(&ours).unwrap();
        assert_eq!(entries(model.metadata()), entries(&expected), "{name}");
        assert_eq!(model.kind(), Kind::Vocabulary);
        assert!(
            std::fs::read(&ours).unwrap() == std::fs::read(&theirs).unwrap(),
            "{name}"
        );
    }
    gristmill_golden::compared(n_compared, "vocabularies");
}

#[test]
fn a_vocabulary_needs_no_weights() {
    let tiny = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny");
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("Name-Chat");
    std::fs::create_dir(&folder).unwrap();
    for entry in std::fs::read_dir(&tiny).unwrap().flatten() {
        if entry
            .path()
            .extension()
            .is_none_or(|end| end != "safetensors")
        {
            std::fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
        }
    }
    // An index without its files is as good as none.
    let index = r#"{"weight_map": {"model.norm.weight": "model-00001-of-00001.safetensors"}}"#;
    std::fs::write(folder.join("model.safetensors.index.json"), index).unwrap();
    let whole = ConvertOptions::new(&folder);
    assert!(convert(&whole, &mut |_| {}).is_err());
    let path = vocabulary(&folder, &folder, "auto", None);
    assert_eq!(path, folder.join("Name-Chat-vocab.gguf"));
    let model = Model::open(&path).unwrap();
    // F16, as the reference names the type where no tensor tells another.
    assert_eq!(model.metadata().u32("general.file_type").unwrap(), Some(1));
    assert_eq!(
        model
            .metadata()
            .strings("tokenizer.ggml.tokens")
            .unwrap()
            .unwrap()
            .len(),
        1024
    );
}
