//! Imported tokenizers beside the reference's entries, and the cases about tokenizer files.

use std::path::Path;

use gristmill_convert::{ConvertError, TokenizerImport, TokenizerOptions, tokenizer_metadata};
use gristmill_gguf::{Metadata, Model, Value};
use gristmill_tokenizer::{EncodeOptions, Tokenizer};
use serde_json::{Value as Json, json};

/// Checkpoint, its folder, and an architecture with the habit of its own.
const CHECKPOINTS: &[(&str, &str, &str)] = &[
    ("bert", "hf", "llama"),
    ("gemma2", "hf", "gemma3"),
    ("gemma3_text", "hf", "gemma3"),
    ("gpt2", "hf", "qwen2"),
    ("granite", "hf", "llama"),
    ("llama", "hf", "llama"),
    ("llama-split", "Tiny-Llama-0.2M-Chat-v0.3", "llama"),
    ("llama-tied-mistral", "hf", "llama"),
    ("mixtral", "hf", "llama"),
    ("olmo2", "hf", "qwen2"),
    ("phi3", "hf", "qwen2"),
    ("qwen2", "hf", "qwen2"),
    ("qwen3", "hf", "qwen2"),
    ("qwen3_moe", "hf", "qwen2"),
    ("starcoder2", "hf", "qwen2"),
];

fn read(path: &Path) -> Json {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn import(folder: &Path, architecture: &str, pre: Option<&str>) -> TokenizerImport {
    let config = read(&folder.join("config.json"));
    let options = TokenizerOptions {
        n_rows: config["vocab_size"].as_u64(),
        pre_tokenizer: pre,
        config: None,
        habit: gristmill_model::architecture(architecture)
            .unwrap()
            .tokenizer,
    };
    tokenizer_metadata(folder, &options).unwrap()
}

fn tokenizer(import: &TokenizerImport) -> Tokenizer {
    let mut metadata = Metadata::new();
    for (key, value) in &import.entries {
        metadata.set(key.as_str(), value.clone());
    }
    Tokenizer::from_metadata(&metadata).unwrap()
}

#[test]
fn entries_equal_the_reference() {
    let Some(golden) = gristmill_golden::folder("convert") else {
        return;
    };
    let mut n_compared = 0;
    for &(name, folder, habit) in CHECKPOINTS {
        let meta = read(&golden.join(name).join("meta.json"));
        let pre = meta["pre_tokenizer_name"].as_str();
        let ours = import(&golden.join(name).join(folder), habit, pre);
        let theirs = Model::open(&golden.join(name).join(format!("{name}-f32.gguf"))).unwrap();
        let theirs: Vec<(String, Value)> = theirs
            .metadata()
            .iter()
            .filter(|(key, _)| key.starts_with("tokenizer."))
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect();
        let keys = |entries: &[(String, Value)]| -> Vec<String> {
            entries
                .iter()
                .map(|(key, value)| format!("{key}: {}", value.type_name()))
                .collect()
        };
        assert_eq!(keys(&ours.entries), keys(&theirs), "{name}");
        for (ours, theirs) in ours.entries.iter().zip(&theirs) {
            assert!(
                ours == theirs,
                "{name}: {}: {}",
                ours.0,
                difference(&ours.1, &theirs.1)
            );
            n_compared += 1;
        }
    }
    gristmill_golden::compared(n_compared, "tokenizers");
}

fn difference(ours: &Value, theirs: &Value) -> String {
    let (Value::Array(ours), Value::Array(theirs)) = (ours, theirs) else {
        return format!("{ours:?}, not {theirs:?}");
    };
    let mut places = ours.iter().zip(theirs.iter()).enumerate();
    match places.find(|(_, (ours, theirs))| ours != theirs) {
        Some((i, (ours, theirs))) => format!("entry {i} is {ours:?}, not {theirs:?}"),
        None => format!("{} entries, not {}", ours.len(), theirs.len()),
    }
}

/// A folder with some of a tokenizer's files, gone when dropped.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &Json)]) -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        for (name, json) in files {
            folder.write(name, json.to_string().as_bytes());
        }
        folder
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn import(&self) -> Result<TokenizerImport, ConvertError> {
        tokenizer_metadata(self.path(), &TokenizerOptions::default())
    }
}

const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// A byte-level tokenizer of a few tokens that splits by an expression.
fn byte_level(pattern: &str, added: Json) -> Json {
    json!({
        "added_tokens": added,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
        ]},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3}, "merges": [["a", "b"]]},
    })
}

fn entry<'a>(import: &'a TokenizerImport, key: &str) -> Option<&'a Value> {
    import
        .entries
        .iter()
        .find(|(known, _)| known == key)
        .map(|(_, value)| value)
}

fn ints(value: Option<&Value>) -> Vec<i128> {
    value
        .unwrap()
        .as_array()
        .unwrap()
        .integers()
        .unwrap()
        .collect()
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let strings = value.unwrap().as_array().unwrap().as_strings().unwrap();
    strings
        .iter()
        .map(|text| String::from_utf8(text.to_vec()).unwrap())
        .collect()
}

/// Case B22: the definition decides, however the vocabulary differs.
#[test]
fn b22_the_pre_tokenizer_is_found_by_its_expressions() {
    let added = json!([{"id": 4, "content": "<|more|>", "special": true}]);
    let import = Folder::new(&[("tokenizer.json", &byte_level(QWEN2, added))])
        .import()
        .unwrap();
    assert_eq!(import.log.pre_tokenizer, "qwen2");
    assert_eq!(entry(&import, "tokenizer.ggml.pre"), Some(&"qwen2".into()));
}

#[test]
fn b22_an_unknown_pre_tokenizer_is_shown_with_the_flag() {
    let pattern = QWEN2.replace("[\\r\\n]*", "[\\r\\n/]*");
    let folder = Folder::new(&[("tokenizer.json", &byte_level(&pattern, json!([])))]);
    let error = folder.import().unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&pattern), "{text}");
    assert!(text.contains("\"qwen2\""), "{text}");
    assert!(error.hint().unwrap().contains("--tokenizer-pre qwen2"));
    let wish = |name| {
        let options = TokenizerOptions {
            pre_tokenizer: Some(name),
            ..Default::default()
        };
        tokenizer_metadata(folder.path(), &options)
    };
    let import = wish("gpt-4o").unwrap();
    assert_eq!(import.log.pre_tokenizer, "gpt-4o");
    let error = wish("qwenn2").unwrap_err().to_string();
    assert!(
        error.contains("\"qwenn2\" is unknown") && error.contains(", qwen2, "),
        "{error}"
    );
}

/// Whichever of the two came last, or first, the other would be lost.
#[test]
fn two_texts_with_one_id_are_refused_by_name() {
    for byte_fallback in [false, true] {
        let mut json = byte_level(QWEN2, json!([]));
        json["model"]["byte_fallback"] = json!(byte_fallback);
        json["model"]["vocab"] = json!({"a": 0, "b": 1, "ab": 2, "ba": 1, "Ġ": 3});
        let error = Folder::new(&[("tokenizer.json", &json)])
            .import()
            .unwrap_err()
            .to_string();
        assert!(
            error.ends_with("tokenizer.json: \"b\" and \"ba\" both have the id 1"),
            "{error}"
        );
    }
}

/// Case B23: tokens and rows are equal in number; fewer tokens are filled up, more are an error.
#[test]
fn b23_the_vocabulary_is_filled_up_to_the_rows() {
    let folder = Folder::new(&[("tokenizer.json", &byte_level(QWEN2, json!([])))]);
    let with_rows = |n_rows| {
        let options = TokenizerOptions {
            n_rows: Some(n_rows),
            ..Default::default()
        };
        tokenizer_metadata(folder.path(), &options)
    };
    let import = with_rows(7).unwrap();
    let tokens = texts(entry(&import, "tokenizer.ggml.tokens"));
    assert_eq!(tokens[3..], ["Ġ", "[PAD4]", "[PAD5]", "[PAD6]"]);
    assert_eq!(
        ints(entry(&import, "tokenizer.ggml.token_type")),
        [1, 1, 1, 1, 5, 5, 5]
    );
    assert_eq!(import.log.n_fillers, 3);
    let error = with_rows(3).unwrap_err().to_string();
    assert!(
        error.contains("4 tokens") && error.contains("vocab_size in config.json is 3"),
        "{error}"
    );
    assert!(with_rows(1 << 60).is_err());
}

/// Case B25: special tokens steer, others are the user's; both are found in text.
#[test]
fn b25_added_tokens_keep_their_types() {
    let added = json!([
        {"id": 4, "content": "<|turn|>", "special": true},
        {"id": 5, "content": "ba b", "special": false},
        {"id": 6, "content": "bb", "special": false, "lstrip": true},
    ]);
    let import = Folder::new(&[("tokenizer.json", &byte_level(QWEN2, added))])
        .import()
        .unwrap();
    assert_eq!(
        ints(entry(&import, "tokenizer.ggml.token_type")),
        [1, 1, 1, 1, 3, 4, 4]
    );
    let tokenizer = tokenizer(&import);
    let options = EncodeOptions {
        parse_special: true,
        ..Default::default()
    };
    assert_eq!(
        tokenizer.encode("abba b<|turn|>bbab", options),
        [2, 5, 4, 6, 2]
    );
}

/// A token that only `tokenizer_config.json` knows is added, too, and one that has a role steers.
#[test]
fn added_tokens_of_the_configuration() {
    let config = json!({
        "added_tokens_decoder": {"4": {"content": "<x>", "special": true}},
        "eos_token": {"content": "<x>"}, "pad_token": "b", "bos_token": null,
    });
    let json = byte_level(QWEN2, json!([]));
    let files = [
        ("tokenizer.json", &json),
        ("tokenizer_config.json", &config),
    ];
    let import = Folder::new(&files).import().unwrap();
    assert_eq!(
        ints(entry(&import, "tokenizer.ggml.token_type")),
        [1, 3, 1, 1, 3]
    );
}

/// A `vocab.txt` says what the `tokenizer.json` made from it says.
#[test]
fn word_piece_from_its_list_of_tokens() {
    let Some(golden) = gristmill_golden::folder("convert") else {
        return;
    };
    let source = golden.join("bert/hf");
    let alone = tempfile::tempdir().unwrap();
    for file in ["vocab.txt", "tokenizer_config.json", "config.json"] {
        std::fs::copy(source.join(file), alone.path().join(file)).unwrap();
    }
    let whole = import(&source, "llama", None);
    let ours = import(alone.path(), "llama", None);
    assert_eq!(ours.entries, whole.entries);
    assert_eq!((ours.log.kind, ours.log.file), ("WordPiece", "vocab.txt"));
    // Without a configuration the usual names count.
    std::fs::remove_file(alone.path().join("tokenizer_config.json")).unwrap();
    assert_eq!(import(alone.path(), "llama", None).entries, whole.entries);
}

/// A token begins a word by U+2581, or continues one; special tokens stay as they are, and what programs do otherwise is
/// said.
#[test]
fn word_piece_tokens_are_marked_where_they_begin_a_word() {
    let definition = json!({
        "added_tokens": [{"id": 0, "content": "[UNK]", "special": true}, {"id": 1, "content": "[CLS]", "special": true},
            {"id": 2, "content": "[SEP]", "special": true}, {"id": 5, "content": "new york", "special": false}],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": false, "lowercase": false},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "go": 3, "##ing": 4}},
    });
    let config = json!({"vocab_size": 7});
    let roles = json!({"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"});
    let folder = Folder::new(&[
        ("tokenizer.json", &definition),
        ("config.json", &config),
        ("tokenizer_config.json", &roles),
    ]);
    let import = import(folder.path(), "llama", None);
    let tokenizer = tokenizer(&import);
    let texts: Vec<&[u8]> = (0..7).map(|id| tokenizer.text(id)).collect();
    let expected = [
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "▁go",
        "ing",
        "new york",
        "▁[PAD6]",
    ];
    assert_eq!(texts, expected.map(str::as_bytes));
    assert_eq!(import.log.n_fillers, 1);
    let options = EncodeOptions {
        add_special: true,
        ..EncodeOptions::default()
    };
    assert_eq!(
        tokenizer.encode("going new york Go", options),
        [1, 3, 4, 5, 0, 2]
    );
    let warning = "tokenizer.json: Chinese text is not split into characters, but programs split it, since a GGUF file cannot say so for WordPiece";
    assert!(import.log.warnings.iter().any(|found| found == warning));
}

/// Case B24: `tokenizer.json` alone gives the ids that the files with `tokenizer.model` give.
#[test]
fn b24_sentence_piece_without_its_model() {
    let Some(golden) = gristmill_golden::folder("convert") else {
        return;
    };
    for (name, folder) in [
        ("llama-tied-mistral", "hf"),
        ("llama-split", "Tiny-Llama-0.2M-Chat-v0.3"),
        ("gemma3_text", "hf"),
    ] {
        let source = golden.join(name).join(folder);
        let alone = tempfile::tempdir().unwrap();
        for file in ["tokenizer.json", "tokenizer_config.json", "config.json"] {
            std::fs::copy(source.join(file), alone.path().join(file)).unwrap();
        }
        let habit = if name.starts_with("gemma") {
            "gemma3"
        } else {
            "llama"
        };
        let import = import(alone.path(), habit, None);
        assert_eq!(
            (import.log.kind, import.log.file),
            ("SentencePiece BPE", "tokenizer.json")
        );
        let tokenizer = tokenizer(&import);
        let tokens = read(&golden.join(name).join("tokens.json"));
        for case in tokens["texts"].as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            let expected: Vec<u32> = case["ref_ids_parse_special"]
                .as_array()
                .unwrap()
                .iter()
                .map(|id| id.as_u64().unwrap() as u32)
                .collect();
            let options = EncodeOptions {
                parse_special: true,
                add_special: false,
            };
            assert_eq!(
                tokenizer.encode(text, options),
                expected,
                "{name}: {text:?}"
            );
        }
    }
}

#[test]
fn b24_no_tokenizer_at_all() {
    let error = Folder::new(&[("config.json", &json!({}))])
        .import()
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("tokenizer.model") && text.contains("tokenizer.json"),
        "{text}"
    );
}

/// Case B27: where the chat template comes from.
#[test]
fn b27_chat_templates() {
    let json = byte_level(QWEN2, json!([]));
    let key = "tokenizer.chat_template";
    let in_config = json!({"chat_template": "from config"});
    let folder = Folder::new(&[
        ("tokenizer.json", &json),
        ("tokenizer_config.json", &in_config),
    ]);
    let import = folder.import().unwrap();
    assert_eq!(entry(&import, key), Some(&"from config".into()));
    assert_eq!(import.log.chat_template, Some("tokenizer_config.json"));

    folder.write("chat_template.jinja", b"from file");
    folder.write("additional_chat_templates/tool_use.jinja", b"for tools");
    folder.write("additional_chat_templates/rag.jinja", b"for documents");
    let import = folder.import().unwrap();
    assert_eq!(entry(&import, key), Some(&"from file".into()));
    assert_eq!(
        entry(&import, "tokenizer.chat_template.tool_use"),
        Some(&"for tools".into())
    );
    assert_eq!(
        texts(entry(&import, "tokenizer.chat_templates")),
        ["rag", "tool_use"]
    );
    assert!(
        import
            .log
            .warnings
            .iter()
            .any(|warning| warning.contains("chat_template.jinja is used"))
    );

    let list = json!({"chat_template": [
        {"name": "default", "template": "plain"}, {"name": "tool use", "template": "tools"},
    ]});
    let folder = Folder::new(&[("tokenizer.json", &json), ("tokenizer_config.json", &list)]);
    let import = folder.import().unwrap();
    assert_eq!(entry(&import, key), Some(&"plain".into()));
    assert_eq!(
        entry(&import, "tokenizer.chat_template.tool_use"),
        Some(&"tools".into())
    );

    let folder = Folder::new(&[
        ("tokenizer.json", &json),
        ("tokenizer_config.json", &json!({})),
    ]);
    folder.write("chat_template.json", br#"{"chat_template": "from json"}"#);
    assert_eq!(
        entry(&folder.import().unwrap(), key),
        Some(&"from json".into())
    );

    // A file that holds JSON is read as that, and what is no template is none.
    let marked = "\u{feff}{\"chat_template\": \"from json\"}";
    folder.write("chat_template.jinja", marked.as_bytes());
    assert_eq!(
        entry(&folder.import().unwrap(), key),
        Some(&"from json".into())
    );
    for (bytes, fault) in [
        (&b""[..], "is empty"),
        (b"{{ x }}\0", "byte 7 is NUL"),
        (b"[]", "is a JSON list without templates"),
        (b"{\"chat_template\": \"{{", "is broken JSON"),
    ] {
        folder.write("chat_template.jinja", bytes);
        let error = folder.import().map(|_| ()).unwrap_err().to_string();
        let file = "chat_template.jinja: ";
        assert!(error.contains(file) && error.contains(fault), "{error}");
    }

    let import = Folder::new(&[("tokenizer.json", &json)]).import().unwrap();
    assert_eq!(entry(&import, key), None);
    assert!(
        import
            .log
            .warnings
            .iter()
            .any(|warning| warning.contains("no chat template"))
    );
}

#[test]
fn files_of_another_kind() {
    let folder = Folder::new(&[]);
    folder.write(
        "tokenizer.json",
        b"version https://git-lfs.github.com/spec/v1\n",
    );
    assert!(
        folder
            .import()
            .unwrap_err()
            .to_string()
            .contains("Git LFS pointer")
    );
    folder.write("tokenizer.json", b"{\"model\": 3}");
    assert!(
        folder
            .import()
            .unwrap_err()
            .to_string()
            .contains("tokenizer.json")
    );
    folder.write(
        "tokenizer.json",
        br#"{"model": {"type": "Unigram", "vocab": [["a", 0.0]]}}"#,
    );
    assert!(folder.import().unwrap_err().to_string().contains("Unigram"));
    folder.write("tokenizer.model", b"<!DOCTYPE html>");
    assert!(folder.import().is_err());
    // A sound tokenizer.json beside something else of that name is used.
    folder.write(
        "tokenizer.json",
        byte_level(QWEN2, json!([])).to_string().as_bytes(),
    );
    let import = folder.import().unwrap();
    assert_eq!(import.log.file, "tokenizer.json");
    assert!(
        import
            .log
            .warnings
            .iter()
            .any(|warning| warning.contains("tokenizer.model is not used"))
    );
}

/// The embedded model's tokenizer converts, and by its expressions alone.
#[test]
fn the_embedded_model() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny"));
    let import = import(folder, "llama", None);
    assert_eq!(import.log.pre_tokenizer, "gpt-2");
    assert_eq!(import.log.chat_template, Some("chat_template.jinja"));
    let tokenizer = tokenizer(&import);
    let ids = tokenizer.encode("Once upon a time", EncodeOptions::default());
    assert_eq!(tokenizer.decode(&ids, false), b"Once upon a time");
}

/// The warnings of a conversion of the vocabulary alone.
fn warnings_of(folder: &Path, pre: Option<&str>) -> Vec<String> {
    let output = tempfile::tempdir().unwrap();
    let options = gristmill_convert::ConvertOptions {
        output: Some(output.path().join("vocabulary.gguf")),
        pre_tokenizer: pre.map(str::to_owned),
        vocab_only: true,
        ..gristmill_convert::ConvertOptions::new(folder)
    };
    let report = gristmill_convert::convert(&options, &mut |_| {}).unwrap();
    let about = |warning: &String| warning.contains("sample texts");
    report.warnings.into_iter().filter(about).collect()
}

/// Case B22: the file's tokenizer is tried beside the definition, and what comes out otherwise is shown by name, text and
/// ids.
#[test]
fn b22_a_vocabulary_is_compared_with_its_definition() {
    let Some(golden) = gristmill_golden::folder("convert") else {
        return;
    };
    for (name, pre) in [
        ("gpt2", "gpt-2"),
        ("starcoder2", "starcoder"),
        ("gemma2", "default"),
    ] {
        assert_eq!(
            warnings_of(&golden.join(name).join("hf"), Some(pre)),
            [""; 0],
            "{name}"
        );
    }
    // By the wrong name, words are cut at other places.
    let warnings = warnings_of(&golden.join("gpt2/hf"), Some("qwen2"));
    let [warning] = warnings.as_slice() else {
        panic!("{warnings:?}");
    };
    assert!(
        warning
            .contains(" of 27 sample texts get other tokens than by tokenizer.json; the first, ")
            && warning.contains("has the ids ["),
        "{warning}"
    );
    // What no GGUF file can say.
    let warnings = warnings_of(&golden.join("qwen2/hf"), Some("qwen2"));
    let [warning] = warnings.as_slice() else {
        panic!("{warnings:?}");
    };
    let end = "in the file (tokenizer.json normalizes text to a Unicode form, which programs do for no GGUF file)";
    assert!(
        warning.contains("accents by themselves: ") && warning.ends_with(end),
        "{warning}"
    );
    // What programs do otherwise for WordPiece: this word has lost vowel signs that its authors' tokenizer keeps.
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "tokenizer_config.json"] {
        std::fs::copy(golden.join("bert/hf").join(file), folder.path().join(file)).unwrap();
    }
    let mut definition = read(&golden.join("bert/hf/tokenizer.json"));
    let vocab = definition["model"]["vocab"].as_object_mut().unwrap();
    vocab.retain(|_, id| *id != 899);
    vocab.insert("दनय".to_owned(), 899.into());
    let text = definition.to_string();
    std::fs::write(folder.path().join("tokenizer.json"), text).unwrap();
    let warnings = warnings_of(folder.path(), None);
    assert!(
        warnings.len() == 1
            && warnings[0].starts_with(
                "1 of 27 sample texts get other tokens than by tokenizer.json; the first, Hindi: "
            )
            && warnings[0].contains("in the file (for WordPiece, programs drop every mark"),
        "{warnings:?}"
    );
    // An added token that takes the spaces beside it.
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "tokenizer_config.json"] {
        std::fs::copy(golden.join("gpt2/hf").join(file), folder.path().join(file)).unwrap();
    }
    let mut definition = read(&golden.join("gpt2/hf/tokenizer.json"));
    definition["added_tokens"][0]["lstrip"] = true.into();
    let text = definition.to_string();
    std::fs::write(folder.path().join("tokenizer.json"), &text).unwrap();
    let warnings = warnings_of(folder.path(), Some("gpt-2"));
    assert!(
        warnings.len() == 1 && warnings[0].contains("the first, the added token \""),
        "{warnings:?}"
    );
    // What only its authors' library would fill up to is no matter.
    definition["added_tokens"][0]["lstrip"] = false.into();
    definition["padding"] = json!({"strategy": {"Fixed": 1_000_000_000}, "direction": "Right",
        "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "x"});
    std::fs::write(folder.path().join("tokenizer.json"), definition.to_string()).unwrap();
    assert_eq!(warnings_of(folder.path(), Some("gpt-2")), [""; 0]);
}
