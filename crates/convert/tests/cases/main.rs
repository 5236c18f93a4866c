//! Checkpoints that are wrong, incomplete or unusual, made from the embedded tiny model.

mod experts;
mod fixture;
mod scaled;

use fixture::Fixture;
use gristmill_convert::quantize::{QuantizeOptions, quantize};
use gristmill_convert::recipe::Recipe;
use gristmill_convert::{ConvertError, ConvertOptions, Event, OutputType, convert};
use gristmill_gguf::Model;
use safetensors::Dtype;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;

const EMBEDDINGS: &str = "model.embed_tokens.weight";

#[test]
fn auto_is_the_checkpoints_own_half_type_and_the_report_says_all() {
    let fixture = Fixture::new();
    let (report, out) = fixture.write().converted("auto");
    assert_eq!(report.path, out.path().join("bf16.gguf"));
    assert_eq!(
        (
            report.architecture,
            report.class,
            report.output_type.as_str()
        ),
        ("llama", "LlamaForCausalLM", "bf16")
    );
    assert_eq!(
        report.source_types,
        BTreeMap::from([("BF16".to_owned(), 38)])
    );
    assert_eq!(
        (report.n_tensors, report.n_source_files, report.dry_run),
        (38, 1, false)
    );
    assert_eq!(report.bytes, fs::metadata(&report.path).unwrap().len());
    let types: Vec<(String, usize)> = report
        .types
        .iter()
        .map(|(ty, n)| (ty.to_string(), *n))
        .collect();
    assert_eq!(types, [("f32".to_owned(), 9), ("bf16".to_owned(), 29)]);
    let model = Model::open(&report.path).unwrap();
    assert_eq!(model.metadata().u32("general.file_type").unwrap(), Some(32));
    assert_eq!(model.tensors().len(), 38);
}

#[test]
fn sharded_and_single_checkpoints_give_the_same_tensors() {
    let fixture = Fixture::new();
    let (single, _keep) = fixture.write().converted("f16");
    fs::remove_file(fixture.path("model.safetensors")).unwrap();
    fixture.write_sharded();
    let (sharded, _keep_too) = fixture.converted("f16");
    assert_eq!(sharded.n_source_files, 3);
    let (single, sharded) = (
        Model::open(&single.path).unwrap(),
        Model::open(&sharded.path).unwrap(),
    );
    assert_eq!(single.tensors().len(), sharded.tensors().len());
    for info in single.tensors() {
        let (one, other) = (
            single.tensor(&info.name).unwrap(),
            sharded.tensor(&info.name).unwrap(),
        );
        assert!(one.data == other.data, "{}", info.name);
    }
}

#[test]
fn a_dry_run_writes_nothing_and_knows_the_size() {
    let fixture = Fixture::new();
    let out = tempfile::tempdir().unwrap();
    let mut options = ConvertOptions {
        output: Some(out.path().to_owned()),
        dry_run: true,
        ..ConvertOptions::new(fixture.write().folder.path())
    };
    let planned = convert(&options, &mut |_| {}).unwrap();
    assert!(planned.dry_run && fs::read_dir(out.path()).unwrap().count() == 0);
    options.dry_run = false;
    let done = convert(&options, &mut |_| {}).unwrap();
    assert_eq!(
        (planned.path, planned.bytes),
        (done.path.clone(), done.bytes)
    );
    assert_eq!(done.path.parent(), Some(out.path()));
    assert!(
        done.path.to_str().unwrap().ends_with("-BF16.gguf"),
        "{:?}",
        done.path
    );
    // An existing output stays, unless it may be replaced.
    let before = fs::read(&done.path).unwrap();
    options.output_type = OutputType::parse("f32").unwrap();
    options.output = Some(done.path.clone());
    assert!(convert(&options, &mut |_| {}).is_err());
    assert!(fs::read(&done.path).unwrap() == before);
    options.force = true;
    convert(&options, &mut |_| {}).unwrap();
    assert!(fs::read(&done.path).unwrap() != before);
    // A file that the conversion reads is never replaced.
    let template = "additional_chat_templates/rag.jinja";
    fs::create_dir(fixture.path("additional_chat_templates")).unwrap();
    fs::write(fixture.path(template), "{{ messages }}").unwrap();
    let metadata = out.path().join("metadata.json");
    fs::write(&metadata, "{}").unwrap();
    options.overrides = Some(metadata.clone());
    for name in [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        template,
        metadata.to_str().unwrap(),
    ] {
        let kept = fs::read(fixture.path(name)).unwrap();
        options.output = Some(fixture.path(name));
        let error = convert(&options, &mut |_| {}).unwrap_err();
        assert!(
            matches!(
                error,
                ConvertError::Gguf(gristmill_gguf::Error::OutputIsInput { .. })
            ),
            "{error}"
        );
        assert!(fs::read(fixture.path(name)).unwrap() == kept);
    }
}

/// Case B28: bits 0x4789 are 70144, beyond the largest f16 of 65504.
#[test]
fn b28_values_beyond_f16_are_an_error_that_suggests_bf16() {
    let mut fixture = Fixture::new();
    let bytes = &mut fixture
        .tensors
        .get_mut("model.layers.2.mlp.down_proj.weight")
        .unwrap()
        .2;
    bytes[100..102].copy_from_slice(&0x4789u16.to_le_bytes());
    bytes[200_000..200_002].copy_from_slice(&0xc789u16.to_le_bytes());
    let error = fixture.write().refused("f16");
    assert_eq!(
        error.to_string(),
        format!(
            "{}: tensor `blk.2.ffn_down.weight`: 2 values exceed the range of f16 (largest magnitude 7.0144e4)",
            fixture.path("model.safetensors").display()
        )
    );
    assert!(error.hint().unwrap().contains("--outtype bf16"));
    fixture.converted("bf16");
    fixture.converted("f32");
}

/// Case B28: what becomes 0 is counted for those who ask. Half of the smallest number of f16 is 2^-25; in BF16 1e-8 is 0x322c,
/// 2^-25 0x3300 and the next number 0x3301.
#[test]
fn b28_values_that_f16_makes_0_are_counted() {
    let mut fixture = Fixture::new();
    let name = "model.layers.2.mlp.down_proj.weight";
    let bytes = &mut fixture.tensors.get_mut(name).unwrap().2;
    bytes.fill(0x3c);
    for (place, bits) in [0x322cu16, 0xb22c, 0x3300, 0x3301, 0x0000, 0x8000]
        .into_iter()
        .enumerate()
    {
        bytes[1000 * place..][..2].copy_from_slice(&bits.to_le_bytes());
    }
    fixture.write();
    let told = |ty: &str| {
        let out = tempfile::tempdir().unwrap();
        let options = ConvertOptions {
            output: Some(out.path().join("a.gguf")),
            output_type: OutputType::parse(ty).unwrap(),
            ..ConvertOptions::new(fixture.folder.path())
        };
        let mut lines = Vec::new();
        convert(&options, &mut |event| {
            if let Event::Flushed { .. } = event {
                lines.extend(event.line(0));
            }
        })
        .unwrap();
        lines
    };
    let line = "blk.2.ffn_down.weight: 3 values too small for f16 become 0";
    // Those of the model itself are as they are.
    let (ours, others): (Vec<String>, Vec<String>) = told("f16")
        .into_iter()
        .partition(|line| line.starts_with("blk.2.ffn_down"));
    assert_eq!(ours, [line], "{others:?}");
    assert_eq!(told("bf16"), [""; 0]);
}

/// As `quantize` refuses them: a search for a scale may pass over a NaN, and a scale has the range of f16. Bits 0x7fc0 are a
/// NaN, 0x7f80 infinity, 0x4b7f 1.67e7, more than 127 times the largest f16.
#[test]
fn values_that_no_block_can_hold_are_refused() {
    const TENSOR: &str = "model.layers.2.mlp.down_proj.weight";
    // Beyond the first slab of a small tensor there is nothing; so the place is far into it.
    for (bits, element, place) in [
        (0x7fc0u16, 100_000, "element 100000 "),
        (0x7f80, 31, "element 31 "),
        (0x4b7f, 64_000, "block 2000 "),
    ] {
        let mut fixture = Fixture::new();
        let bytes = &mut fixture.tensors.get_mut(TENSOR).unwrap().2;
        bytes[2 * element..][..2].copy_from_slice(&bits.to_le_bytes());
        let error = fixture.write().refused("q8_0");
        let text = error.to_string();
        assert!(
            text.contains("model.safetensors: tensor `blk.2.ffn_down.weight`: ")
                && text.contains(place),
            "{text}"
        );
        assert!(error.hint().unwrap().contains("BF16"), "{text}");
        // A float keeps what it is given.
        fixture.converted("bf16");
        fixture.converted("f32");
    }
}

/// Case B23, whole: a vocabulary smaller than its embeddings is filled up, a larger one is refused with both numbers.
#[test]
fn b23_tokens_are_as_many_as_rows_of_embeddings() {
    let vocabulary = |n_dropped: usize, more: &[&str]| {
        let fixture = Fixture::new();
        let path = fixture.path("tokenizer.json");
        let mut json: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let tokens = json["model"]["vocab"].as_object_mut().unwrap();
        tokens.retain(|_, id| id.as_u64().unwrap() < 1024 - n_dropped as u64);
        let kept: std::collections::BTreeSet<String> = tokens.keys().cloned().collect();
        let merges = json["model"]["merges"].as_array_mut().unwrap();
        merges.retain(|merge| {
            let parts = merge
                .as_array()
                .unwrap()
                .iter()
                .map(|part| part.as_str().unwrap());
            kept.contains(&parts.collect::<String>())
        });
        for (index, token) in more.iter().enumerate() {
            let added = json!({"id": 1024 + index, "content": token, "special": false});
            json["added_tokens"].as_array_mut().unwrap().push(added);
        }
        fs::write(path, json.to_string()).unwrap();
        fixture
    };
    let (report, _keep) = vocabulary(3, &[]).write().converted("bf16");
    let model = Model::open(&report.path).unwrap();
    let metadata = model.metadata();
    let tokens = metadata.required_strings("tokenizer.ggml.tokens").unwrap();
    let tokens: Vec<&[u8]> = tokens.iter().collect();
    assert_eq!(tokens.len(), 1024);
    let fillers = ["[PAD1021]", "[PAD1022]", "[PAD1023]"].map(str::as_bytes);
    assert_eq!(tokens[1021..], fillers);
    let types = metadata.i32s("tokenizer.ggml.token_type").unwrap().unwrap();
    assert_eq!(types[1020..], [1, 5, 5, 5]);
    assert_eq!(metadata.u32("llama.vocab_size").unwrap(), Some(1024));
    // Where config.json counts them, and where it does not.
    let mut more = vocabulary(0, &["<x>", "<y>"]);
    let error = more.write().refused("bf16").to_string();
    assert!(
        error.contains("1026 tokens") && error.contains("vocab_size in config.json is 1024"),
        "{error}"
    );
    more.config["vocab_size"] = json!(1026);
    let error = more.write().refused("bf16").to_string();
    assert!(
        error.contains("1026 tokens") && error.contains("has 1024 rows"),
        "{error}"
    );
}

/// The size that the configuration states is compared with the weights before a token is made up for each row.
#[test]
fn a_vocabulary_beyond_the_embeddings_is_refused_before_it_is_filled() {
    let mut fixture = Fixture::new();
    fixture.config["vocab_size"] = json!(1 << 24);
    // Were the tokenizer read first, this would be the error.
    fs::write(fixture.path("tokenizer.json"), "{").unwrap();
    let error = fixture.write().refused("auto");
    let ConvertError::In { path, error } = error else {
        panic!("{error}")
    };
    assert_eq!(path, fixture.path("model.safetensors"));
    assert!(
        matches!(
            *error,
            ConvertError::VocabularySize {
                n_tokens: 16_777_216,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn json_that_is_something_else_is_told_apart() {
    for name in [
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "model.safetensors.index.json",
    ] {
        for (bytes, kind) in [
            ("<!DOCTYPE html>", "it is a web page"),
            (
                "version https://git-lfs.github.com/spec/v1\n",
                "it is a Git LFS pointer",
            ),
            ("{\"a\": }", "expected value at line 1 column 7"),
        ] {
            let fixture = Fixture::new();
            fs::write(fixture.write().path(name), bytes).unwrap();
            let error = fixture.refused("auto");
            let expected = format!("{}: {kind}", fixture.path(name).display());
            assert!(error.to_string().starts_with(&expected), "{error}");
            let hint = error.hint().unwrap_or_default();
            let is_damage = hint == "the file is damaged or incomplete; download it again";
            assert_eq!(is_damage, kind.starts_with("expected"), "{hint}");
        }
    }
}

#[test]
fn facts_that_get_lost_are_warned_about_and_wrong_ones_refused() {
    let mut fixture = Fixture::new();
    fixture.config["rope_scaling"] = json!({"type": "dynamic", "factor": 2.0});
    let (report, _keep) = fixture.write().converted("auto");
    assert!(
        report.warnings[0].contains("dynamic"),
        "{:?}",
        report.warnings
    );
    fixture.config["rope_scaling"] = Value::Null;
    fixture.config["hidden_act"] = json!("gelu");
    let error = fixture.write().refused("auto").to_string();
    let folder = fixture.folder.path().display();
    assert!(
        error.starts_with(&format!("{folder}: config.json: `hidden_act` is \"gelu\"")),
        "{error}"
    );
}

/// Case B32.
#[test]
fn b32_index_and_files_must_agree() {
    let fixture = Fixture::new();
    fixture.write_sharded();
    let second = "model-00002-of-00003.safetensors";
    let kept = fs::read(fixture.path(second)).unwrap();
    fs::remove_file(fixture.path(second)).unwrap();
    match fixture.refused("auto") {
        ConvertError::MissingShards { files, .. } => assert_eq!(files, [second]),
        other => panic!("{other}"),
    }
    fs::write(fixture.path(second), kept).unwrap();
    let mut index = fixture.index();
    index["weight_map"]["model.norm.weight"] = json!(second);
    fixture.write_index(&index);
    let error = fixture.refused("auto").to_string();
    assert!(
        error.ends_with(
            "the index places tensor `model.norm.weight` in model-00002-of-00003.safetensors, but it is in \
             model-00003-of-00003.safetensors"
        ),
        "{error}"
    );
    index["weight_map"]
        .as_object_mut()
        .unwrap()
        .remove("model.norm.weight");
    fixture.write_index(&index);
    let error = fixture.refused("auto").to_string();
    assert!(
        error.contains("places tensor `model.norm.weight` in no file, but it is in"),
        "{error}"
    );
    index["weight_map"]["model.norm.weight"] = json!("model-00003-of-00003.safetensors");
    index["weight_map"]["model.ghost.weight"] = json!(second);
    fixture.write_index(&index);
    assert!(
        fixture
            .refused("auto")
            .to_string()
            .contains("`model.ghost.weight`")
    );
    for leads_away in [
        json!("../model.safetensors"),
        json!("/etc/passwd"),
        json!(7),
        json!(""),
    ] {
        index["weight_map"]["model.norm.weight"] = leads_away;
        fixture.write_index(&index);
        assert!(matches!(fixture.refused("auto"), ConvertError::Json { .. }));
    }
    fixture.write_index(&json!({}));
    assert!(
        fixture
            .refused("auto")
            .to_string()
            .ends_with("no `weight_map` from tensors to files")
    );
}

/// Case B34.
#[test]
fn b34_tied_embeddings_are_stored_once() {
    let mut fixture = Fixture::new();
    let embeddings = fixture.tensors[EMBEDDINGS].clone();
    fixture
        .tensors
        .insert("lm_head.weight".to_owned(), embeddings);
    let (report, _keep) = fixture.write().converted("bf16");
    assert_eq!(
        (report.n_tensors, report.left_out_tensors.as_slice()),
        (38, &["lm_head.weight".to_owned()][..])
    );
    fixture.tensors.get_mut("lm_head.weight").unwrap().2[7] ^= 1;
    let (report, _keep) = fixture.write().converted("bf16");
    assert_eq!(report.n_tensors, 39);
    assert!(
        report.warnings[0].contains("`lm_head.weight` differs"),
        "{:?}",
        report.warnings
    );
    fixture.config["tie_word_embeddings"] = json!(false);
    let (report, _keep) = fixture.write().converted("bf16");
    assert_eq!((report.n_tensors, report.warnings.len()), (39, 0));
}

#[test]
fn missing_misshapen_and_unknown_tensors_are_named() {
    let mut fixture = Fixture::new();
    let name = "model.layers.3.self_attn.v_proj.weight";
    let tensor = fixture.tensors.remove(name).unwrap();
    assert_eq!(
        fixture.write().refused("auto").to_string(),
        format!(
            "{}: the checkpoint has no tensor `model.layers.3.self_attn.v_proj.weight` (for `blk.3.attn_v.weight` of shape \
             [256, 128])",
            fixture.folder.path().display()
        )
    );
    fixture.tensors.insert(
        name.to_owned(),
        (tensor.0, vec![256, 128], tensor.2.clone()),
    );
    assert_eq!(
        fixture.write().refused("auto").to_string(),
        format!(
            "{}: tensor `model.layers.3.self_attn.v_proj.weight` has shape [256, 128], expected [128, 256]",
            fixture.path("model.safetensors").display()
        )
    );
    fixture.tensors.insert(name.to_owned(), tensor);
    let scale = (Dtype::F32, vec![1], vec![0; 4]);
    fixture
        .tensors
        .insert("model.layers.0.self_attn.secret".to_owned(), scale.clone());
    fixture.tensors.insert(
        "model.layers.0.self_attn.rotary_emb.inv_freq".to_owned(),
        scale,
    );
    let (report, _keep) = fixture.write().converted("auto");
    assert_eq!(report.unknown_tensors, ["model.layers.0.self_attn.secret"]);
    assert_eq!(
        report.left_out_tensors,
        ["model.layers.0.self_attn.rotary_emb.inv_freq"]
    );
    assert!(
        report.warnings[0].contains("model.layers.0.self_attn.secret"),
        "{:?}",
        report.warnings
    );
}

/// Weights that a smaller number would lose without a word, and what a loader would say of the key that a value becomes.
#[test]
fn layers_and_values_that_contradict_the_weights_name_config_json() {
    let mut fixture = Fixture::new();
    let n_layers = fixture.config["num_hidden_layers"].as_u64().unwrap();
    let folder = fixture.folder.path().display().to_string();
    fixture.config["num_hidden_layers"] = json!(n_layers - 1);
    let error = fixture.write().refused("auto");
    assert_eq!(
        error.to_string(),
        format!(
            "{folder}: config.json: `num_hidden_layers` is {}, but the weights have {n_layers} layers \
             (`model.layers.{}.input_layernorm.weight`)",
            n_layers - 1,
            n_layers - 1
        )
    );
    assert!(error.hint().unwrap().contains("config.json"));
    // Layers that only predict further tokens are counted apart, and left out.
    fixture.config["num_nextn_predict_layers"] = json!(1);
    let (report, _keep) = fixture.write().converted("auto");
    assert_eq!(
        (report.left_out_tensors.len(), report.warnings.len()),
        (9, 0)
    );
    fixture.config["num_attention_heads"] = json!(0);
    fixture.config["head_dim"] = json!(64);
    assert_eq!(
        fixture.write().refused("auto").to_string(),
        format!("{folder}: config.json: `num_attention_heads` is 0: must be from 1 to 4096")
    );
}

#[test]
fn files_that_are_something_else_are_told_apart() {
    let fixture = Fixture::new();
    fixture.write();
    let sound = fs::read(fixture.path("model.safetensors")).unwrap();
    let mut longer = sound.clone();
    longer.push(0);
    let cases: [(&[u8], &str); 9] = [
        (b"", "it has only 0 bytes"),
        (
            b"GGUF\x03\0\0\0\0\0\0\0",
            "it is a GGUF file under another name",
        ),
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            "it is a Git LFS pointer",
        ),
        (b"<!DOCTYPE html><html></html>", "it is a web page"),
        (b"PK\x03\x04\x00\x00\x08\x08aaaa", "it is a zip archive"),
        (
            b"\xff\xff\xff\xff\xff\xff\xff\x7f{}",
            "a header of 9223372036854775807 bytes in a file of 10",
        ),
        (b"\x02\0\0\0\0\0\0\0[]", "header: "),
        (
            &sound[..sound.len() - 1],
            "the header describes 5251544 bytes, the file has 5251543",
        ),
        (
            &longer,
            "the header describes 5251544 bytes, the file has 5251545",
        ),
    ];
    for (bytes, reason) in cases {
        fs::write(fixture.path("model.safetensors"), bytes).unwrap();
        let error = fixture.refused("auto").to_string();
        assert!(error.contains(reason), "{error} / {reason}");
    }
    for header in [
        r#"{"a":{"dtype":"F32","shape":[18446744073709551615,2],"data_offsets":[0,8]}}"#,
        r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#,
        r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]}}"#,
        r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#,
        r#"{"a":{"dtype":"Q9","shape":[2],"data_offsets":[0,8]}}"#,
    ] {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&[0; 8]);
        fs::write(fixture.path("model.safetensors"), bytes).unwrap();
        assert!(
            matches!(fixture.refused("auto"), ConvertError::Safetensors { .. }),
            "{header}"
        );
    }
}

#[test]
fn folders_that_are_no_checkpoint_say_what_is_missing() {
    let fixture = Fixture::new();
    assert!(
        fixture
            .refused("auto")
            .to_string()
            .ends_with("no config.json in this folder")
    );
    fs::write(fixture.path("config.json"), fixture.config.to_string()).unwrap();
    assert!(
        fixture
            .refused("auto")
            .to_string()
            .ends_with("no model*.safetensors in this folder")
    );
    fs::write(fixture.path("pytorch_model.bin"), "PK").unwrap();
    assert!(
        fixture
            .refused("auto")
            .to_string()
            .contains("PyTorch's .bin and .pth files are not read")
    );
    let hint = fixture.refused("auto").hint().unwrap();
    assert!(hint.starts_with("save the model as safetensors"), "{hint}");
    fs::write(fixture.path("model-00002-of-00003.safetensors"), "").unwrap();
    let error = fixture.refused("auto").to_string();
    assert!(
        error.ends_with(
            ": model-00002-of-00003.safetensors is one of 3 files, of which 2 are missing: \
             model-00001-of-00003.safetensors, model-00003-of-00003.safetensors"
        ),
        "{error}"
    );
    let mut unknown = Fixture::new();
    unknown.config["architectures"] = json!(["Gpt9ForCausalLM"]);
    let error = unknown.write().refused("auto").to_string();
    let folder = unknown.folder.path().display();
    assert!(
        error.starts_with(&format!(
            "{folder}: architecture `Gpt9ForCausalLM` is not supported (supported: "
        )),
        "{error}"
    );
    let file = ConvertOptions::new(fixture.path("config.json"));
    assert!(matches!(
        convert(&file, &mut |_| {}),
        Err(ConvertError::NotAFolder { .. })
    ));
    assert!(
        OutputType::parse("q9_9")
            .unwrap_err()
            .to_string()
            .contains("known: auto, ")
    );
}

/// Gives every tensor another element type, values rounded.
fn recast(fixture: &mut Fixture, to: Dtype) {
    for (dtype, _, bytes) in fixture.tensors.values_mut() {
        let values = bytes
            .as_chunks::<2>()
            .0
            .iter()
            .map(|bytes| gristmill_quant::bf16_to_f32(u16::from_le_bytes(*bytes)));
        *bytes = match to {
            Dtype::F16 => values
                .flat_map(|value| gristmill_quant::f32_to_f16(value).to_le_bytes())
                .collect(),
            // A little more than bf16 can tell.
            Dtype::F32 => values
                .flat_map(|value| (value * 1.000_01).to_le_bytes())
                .collect(),
            _ => bytes.clone(),
        };
        *dtype = to;
    }
}

#[test]
fn one_step_to_a_recipe_equals_two() {
    for (dtype, own) in [
        (Dtype::BF16, "bf16"),
        (Dtype::F16, "f16"),
        (Dtype::F32, "f32"),
    ] {
        let mut fixture = Fixture::new();
        recast(&mut fixture, dtype);
        fixture.write();
        let (first, _keep) = fixture.converted(own);
        for name in ["q4_k_m", "q4_0"] {
            let recipe = Recipe::from_name(name).unwrap();
            let two = first.path.with_file_name(format!("{name}-two-steps.gguf"));
            quantize(
                &QuantizeOptions::new(&first.path, &two, recipe),
                &mut |_| {},
            )
            .unwrap();
            let out = tempfile::tempdir().unwrap();
            let options = ConvertOptions {
                output: Some(out.path().join("{ftype}.gguf")),
                output_type: OutputType::Recipe(recipe),
                n_threads: 2,
                ..ConvertOptions::new(fixture.folder.path())
            };
            let one = convert(&options, &mut |_| {}).unwrap();
            assert_eq!(
                one.path,
                out.path().join(format!("{}.gguf", name.to_lowercase()))
            );
            assert_eq!(one.bytes, fs::metadata(&one.path).unwrap().len());
            assert!(
                fs::read(&one.path).unwrap() == fs::read(&two).unwrap(),
                "{name} from {own}"
            );
        }
    }
    let fixture = Fixture::new();
    assert!(matches!(
        fixture.write().refused("iq2_xxs"),
        ConvertError::ImportanceInOneStep { .. }
    ));
}
