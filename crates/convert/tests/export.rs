//! Exports: what they say, and that converting them gives the file back.

use gristmill_convert::{ConvertOptions, ExportOptions, OutputType, convert, export};
use gristmill_gguf::{Model, Value};
use gristmill_model::architecture_of_config;
use gristmill_quant::{BF16, F32};
use std::path::Path;

fn options(input: &Path, folder: &Path) -> ExportOptions {
    ExportOptions {
        input: input.to_owned(),
        folder: folder.to_owned(),
        output_type: None,
        shard_bytes: u64::MAX,
        force: false,
        n_threads: 2,
    }
}

/// Words, numbers, code and several spaces, which vocabularies have as tokens that were added.
const TEXT: &str = "The quick brown fox, 12 + 345 = 357.\n\n\tdef f(x):  return    x\n";

/// The ids that the authors' library gives a text by the folder's own definition.
fn ids(folder: &Path, text: &str) -> Vec<u32> {
    let tokenizer = tokenizers::Tokenizer::from_file(folder.join("tokenizer.json")).unwrap();
    tokenizer.encode(text, true).unwrap().get_ids().to_vec()
}

fn config(folder: &Path) -> serde_json::Value {
    let text = std::fs::read(folder.join("config.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// The entries of a file that differ from another's, by key.
fn differences(ours: &Path, theirs: &Path) -> Vec<String> {
    let (ours, theirs) = (Model::open(ours).unwrap(), Model::open(theirs).unwrap());
    let entries = |model: &Model| {
        let entry = |(key, value): (&str, &Value)| (key.to_owned(), value.clone());
        model.metadata().iter().map(entry).collect::<Vec<_>>()
    };
    let (ours, theirs) = (entries(&ours), entries(&theirs));
    let names = |entries: &[(String, Value)]| {
        entries
            .iter()
            .map(|(key, _)| key.clone())
            .collect::<Vec<_>>()
    };
    if names(&ours) != names(&theirs) {
        return vec![format!("{:?}\n{:?}", names(&ours), names(&theirs))];
    }
    let pairs = ours.iter().zip(&theirs).filter(|(one, other)| one != other);
    pairs.map(|(one, _)| one.0.clone()).collect()
}

/// Every float file of the reference becomes a folder, and the folder the same file again, byte for byte.
#[test]
fn what_is_exported_converts_back() {
    let is_supported = |class: &str| architecture_of_config(class).is_some();
    let Some(checkpoints) = gristmill_golden::checkpoints(is_supported) else {
        return;
    };
    let mut n_compared = 0;
    let mut failed = Vec::new();
    for checkpoint in checkpoints {
        let floats = checkpoint.output_types().filter(|ty| *ty != "q8_0");
        for ty in floats {
            let case = format!("{} {ty}", checkpoint.name);
            let out = tempfile::tempdir().unwrap();
            let folder = out.path().join("folder");
            let file = checkpoint.converted(ty);
            let report = match export(&options(&file, &folder), &mut |_| {}) {
                Ok(report) => report,
                Err(error) => {
                    failed.push(format!("{case}: {error}"));
                    continue;
                }
            };
            let convert_options = ConvertOptions {
                output: Some(out.path().join("again.gguf")),
                output_type: OutputType::parse(ty).unwrap(),
                pre_tokenizer: checkpoint.pre_tokenizer.clone(),
                n_threads: 2,
                ..ConvertOptions::new(&folder)
            };
            let again = match convert(&convert_options, &mut |_| {}) {
                Ok(report) => report.path,
                Err(error) => {
                    failed.push(format!("{case}: {error}"));
                    continue;
                }
            };
            n_compared += 1;
            let [source, ours] = [&checkpoint.source, &folder].map(|folder| config(folder));
            // Transformers finds its classes by it.
            if source["architectures"][0] == *report.class
                && source["model_type"] != ours["model_type"]
            {
                failed.push(format!("{case}: model_type {}", ours["model_type"]));
            }
            let texts = [&checkpoint.source, &folder].map(|folder| ids(folder, TEXT));
            if texts[0] != texts[1] {
                failed.push(format!("{case}: {texts:?}"));
            }
            if !report.lost.is_empty() {
                failed.push(format!("{case}: {:?}", report.lost));
            } else if std::fs::read(&again).unwrap() != std::fs::read(&file).unwrap() {
                failed.push(format!("{case}: {:?}", differences(&again, &file)));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(n_compared >= 10, "{n_compared}");
    gristmill_golden::compared(n_compared, "files exported and converted back");
}

/// An encoder pools as its file says, by the files of a sentence transformer; a classifier keeps its labels.
#[test]
fn encoders_come_back_with_pooling_or_labels() {
    let Some(root) = gristmill_golden::folder("convert") else {
        return;
    };
    let out = tempfile::tempdir().unwrap();
    let path = |name: &str| out.path().join(name);
    let report = export(
        &options(&root.join("bert/bert-f32.gguf"), &path("encoder")),
        &mut |_| {},
    );
    let files = report.unwrap().files;
    for name in ["modules.json", "1_Pooling/config.json"] {
        assert!(files.iter().any(|file| file == name), "{files:?}");
    }
    let text = std::fs::read(path("encoder/1_Pooling/config.json")).unwrap();
    let pooling: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(pooling["pooling_mode_mean_tokens"], true);
    assert_eq!(pooling["pooling_mode_cls_token"], false);
    let mut stated = config(&root.join("bert/hf"));
    stated["architectures"] = serde_json::json!(["BertForSequenceClassification"]);
    stated["id2label"] = serde_json::json!({"0": "bad", "1": "good", "2": "neither"});
    std::fs::create_dir(path("source")).unwrap();
    for name in [
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ] {
        std::fs::copy(root.join("bert/hf").join(name), path("source").join(name)).unwrap();
    }
    std::fs::write(path("source/config.json"), stated.to_string()).unwrap();
    let converted = ConvertOptions {
        output: Some(path("classifier.gguf")),
        output_type: OutputType::parse("f32").unwrap(),
        ..ConvertOptions::new(path("source"))
    };
    convert(&converted, &mut |_| {}).unwrap();
    let report = export(
        &options(&path("classifier.gguf"), &path("folder")),
        &mut |_| {},
    )
    .unwrap();
    assert_eq!(report.class, "BertForSequenceClassification");
    assert!(report.lost.is_empty(), "{:?}", report.lost);
    assert_eq!(config(&path("folder"))["id2label"], stated["id2label"]);
}

#[test]
fn a_quantized_file_is_decoded_and_shards_have_an_index() {
    let tiny = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny");
    let out = tempfile::tempdir().unwrap();
    let path = |name: &str| out.path().join(name);
    let quantized = ConvertOptions {
        output: Some(path("q.gguf")),
        output_type: OutputType::parse("q8_0").unwrap(),
        ..ConvertOptions::new(tiny)
    };
    convert(&quantized, &mut |_| {}).unwrap();
    let shards = ExportOptions {
        shard_bytes: 2_000_000,
        ..options(&path("q.gguf"), &path("f32"))
    };
    let report = export(&shards, &mut |_| {}).unwrap();
    assert!(report.lost.is_empty(), "{:?}", report.lost);
    assert!(
        report
            .files
            .contains(&"model.safetensors.index.json".to_owned())
    );
    assert_eq!(report.files.last().map(String::as_str), Some("config.json"));
    let again = ConvertOptions {
        output: Some(path("f.gguf")),
        output_type: OutputType::parse("f32").unwrap(),
        ..ConvertOptions::new(path("f32"))
    };
    convert(&again, &mut |_| {}).unwrap();
    let (quantized, decoded) = (
        Model::open(&path("q.gguf")).unwrap(),
        Model::open(&path("f.gguf")).unwrap(),
    );
    for tensor in quantized.views() {
        let mut expected = vec![0.0; tensor.info.n_elements() as usize];
        tensor.info.ty.decode(tensor.data, &mut expected).unwrap();
        let found = decoded.tensor(&tensor.info.name).unwrap();
        assert_eq!(found.info.ty, F32);
        let found = found
            .data
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes));
        assert!(found.eq(expected), "{}", tensor.info.name);
    }
    // A folder with something in it is not written over.
    let refused = export(&shards, &mut |_| {}).unwrap_err();
    assert!(
        refused.to_string().ends_with("the folder is not empty"),
        "{refused}"
    );
    let replaced = ExportOptions {
        force: true,
        ..shards.clone()
    };
    export(&replaced, &mut |_| {}).unwrap();
    // Weights that a loader would take for part of the model stay, and nothing is written beside them.
    std::fs::write(path("f32/model-old.safetensors"), "").unwrap();
    assert!(export(&replaced, &mut |_| {}).is_err());
    let half = ExportOptions {
        output_type: Some(BF16),
        folder: path("bf16"),
        ..shards.clone()
    };
    let report = export(&half, &mut |_| {}).unwrap();
    let config = std::fs::read_to_string(path("bf16/config.json")).unwrap();
    assert!(config.contains(r#""dtype": "bfloat16""#), "{config}");
    assert!(report.bytes < 6_000_000, "{}", report.bytes);
}
