//! What holds for every architecture: the tests loop over the registry.

use gristmill_compute::{BatchShape, BufferId, GraphBuilder, KvLayer, Shape, Tensor};
use gristmill_gguf::{Metadata, Value};
use gristmill_model::{
    ARCHITECTURES, Config, Hyperparameters, ModelError, RandomModel, Weights, architecture,
    architecture_of_config, build, check_tensors, random_model, tensor_specs,
};

fn handle(dims: &[usize]) -> Tensor {
    let shape = Shape::new(dims).unwrap();
    Tensor {
        device: 0,
        buffer: BufferId(0),
        offset: 0,
        ty: gristmill_quant::F32,
        shape,
    }
}

fn shapes(model: &RandomModel) -> Vec<(&str, &[u64])> {
    model
        .tensors
        .iter()
        .map(|tensor| (tensor.name.as_str(), tensor.dims.as_slice()))
        .collect()
}

#[test]
fn registry_is_sorted_and_names_are_unique() {
    assert!(
        ARCHITECTURES
            .windows(2)
            .all(|pair| pair[0].name < pair[1].name)
    );
    for known in ARCHITECTURES {
        assert_eq!(architecture(known.name).unwrap().name, known.name);
        for class in known.classes {
            assert_eq!(
                architecture_of_config(class.name).unwrap().0.name,
                known.name
            );
        }
    }
}

#[test]
fn every_architecture_builds_a_graph_with_and_without_optional_tensors() {
    for known in ARCHITECTURES {
        let model = random_model(known, 7).unwrap();
        let hparams = Hyperparameters::from_metadata(&model.metadata).unwrap();
        for with_optional in [true, false] {
            let weights = Weights::bind(&hparams, |spec| {
                let dims: Vec<usize> = spec.dims.iter().map(|&extent| extent as usize).collect();
                (spec.required || with_optional).then(|| handle(&dims))
            })
            .unwrap();
            let caches: Vec<KvLayer> = hparams
                .layers
                .iter()
                .map(|layer| KvLayer {
                    k: handle(&[hparams.key_length, 16, layer.n_head_kv, 2]),
                    v: handle(&[hparams.value_length, 16, layer.n_head_kv, 2]),
                    page_len: 16,
                })
                .collect();
            for (n_tokens, n_outputs) in [(5, 2), (1, 1), (3, 3)] {
                let batch = BatchShape {
                    n_tokens,
                    n_outputs,
                    n_sequences: 1,
                    max_pages: 2,
                };
                let mut graph = GraphBuilder::new(batch);
                let logits = build(&hparams, &weights, &caches, &mut graph).unwrap();
                assert_eq!(
                    graph.shape(logits).dims(),
                    [hparams.n_vocab, n_outputs, 1, 1],
                    "{}",
                    known.name
                );
                graph.finish(&[logits]).unwrap();
            }
            let mut graph = GraphBuilder::new(BatchShape {
                n_tokens: 1,
                n_outputs: 1,
                n_sequences: 1,
                max_pages: 2,
            });
            let too_few = build(&hparams, &weights, &caches[1..], &mut graph);
            assert!(matches!(
                too_few,
                Err(ModelError::CacheLayers {
                    expected: 7,
                    found: 6
                })
            ));
        }
    }
}

#[test]
fn a_missing_tensor_a_wrong_shape_and_an_unknown_tensor_are_named() {
    for known in ARCHITECTURES {
        let model = random_model(known, 7).unwrap();
        let hparams = Hyperparameters::from_metadata(&model.metadata).unwrap();
        let all = shapes(&model);
        for spec in tensor_specs(&hparams) {
            let without = all.iter().copied().filter(|(name, _)| *name != spec.name);
            match check_tensors(&hparams, without) {
                Err(ModelError::MissingTensor { name, expected }) => {
                    assert!(spec.required);
                    assert_eq!((name, expected), (spec.name, spec.dims));
                }
                Ok(_) => assert!(!spec.required, "{}", spec.name),
                Err(other) => panic!("{}: {other}", spec.name),
            }
        }
        let mut bent = all.clone();
        let table = bent
            .iter_mut()
            .find(|(name, _)| *name == "token_embd.weight");
        table.unwrap().1 = &[32, 97];
        let error = check_tensors(&hparams, bent).unwrap_err().to_string();
        assert_eq!(
            error,
            "tensor `token_embd.weight` has shape [32, 97], expected [32, 96]"
        );
        let mut more = all.clone();
        more.push(("blk.7.attn_q.weight", &[1, 2]));
        let error = check_tensors(&hparams, more).unwrap_err().to_string();
        assert!(
            error.starts_with("tensor `blk.7.attn_q.weight` of shape [1, 2] is unknown"),
            "{error}"
        );
        assert!(matches!(
            check_tensors(&hparams, []),
            Err(ModelError::VocabularyOnly)
        ));
    }
}

/// Values that no writer of models produces, for any key.
fn hostile() -> Vec<Value> {
    vec![
        Value::U32(0),
        Value::U32(3),
        Value::U32(u32::MAX),
        Value::U64(u64::MAX),
        Value::I64(-1),
        Value::I8(-128),
        Value::F32(f32::NAN),
        Value::F32(f32::INFINITY),
        Value::F32(-1.0),
        Value::F32(0.0),
        Value::F64(1e300),
        Value::Bool(true),
        Value::from("yarn"),
        Value::from("\u{0}"),
        Value::from(Vec::<u32>::new()),
        Value::from(vec![0u32; 7]),
        Value::from(vec![u32::MAX; 7]),
        Value::from(vec![1u32; 600]),
        Value::from(vec![true; 7]),
        Value::from(vec![String::new()]),
    ]
}

/// Every key in turn gets every hostile value, or goes away. What is accepted must be usable: every extent and graph
/// follows from it without overflow.
#[test]
fn hostile_metadata_is_refused_or_harmless() {
    let extra = [
        "attention.scale",
        "attention.sliding_window",
        "attention.sliding_window_pattern",
        "final_logit_softcapping",
        "rope.freq_base_swa",
        "rope.scaling.type",
        "rope.scaling.factor",
        "rope.scale_linear",
        "rope.dimension_count",
        "rope.scaling.original_context_length",
        "rope.scaling.yarn_attn_factor",
        "attention.key_length",
    ];
    let mut n_refused = 0;
    for known in ARCHITECTURES {
        let sound = random_model(known, 7).unwrap().metadata;
        let mut keys: Vec<String> = sound.iter().map(|(key, _)| key.to_owned()).collect();
        keys.extend(
            extra
                .iter()
                .map(|suffix| format!("{}.{suffix}", known.name)),
        );
        keys.push("tokenizer.ggml.tokens".to_owned());
        for key in keys {
            for value in hostile() {
                let mut metadata = sound.clone();
                metadata.set(key.as_str(), value);
                n_refused += usize::from(!usable(&metadata));
            }
            let mut metadata = sound.clone();
            metadata.remove(&key);
            usable(&metadata);
        }
    }
    assert!(n_refused > 500, "{n_refused}");
}

fn usable(metadata: &Metadata) -> bool {
    let Ok(hparams) = Hyperparameters::from_metadata(metadata) else {
        return false;
    };
    for spec in tensor_specs(&hparams) {
        assert!(
            spec.dims.iter().all(|&extent| extent > 0),
            "{}: {:?}",
            spec.name,
            spec.dims
        );
        assert!(
            spec.dims
                .iter()
                .try_fold(1u64, |product, &extent| product.checked_mul(extent))
                .is_some()
        );
    }
    assert!(hparams.attention_scale.is_finite() && hparams.attention_scale > 0.0);
    true
}

#[test]
fn refusals_name_key_value_and_reason() {
    let sound = random_model(architecture("llama").unwrap(), 7)
        .unwrap()
        .metadata;
    let refused = |key: &str, value: Value| {
        let mut metadata = sound.clone();
        metadata.set(key, value);
        Hyperparameters::from_metadata(&metadata)
            .unwrap_err()
            .to_string()
    };
    let cases = [
        (
            "llama.block_count",
            Value::U32(513),
            "metadata key `llama.block_count` is 513: must be from 1 to 512",
        ),
        (
            "llama.attention.head_count_kv",
            Value::U32(3),
            "metadata key `llama.attention.head_count_kv` is 3: layer 0 has 4 heads, which it must divide",
        ),
        (
            "llama.attention.head_count",
            Value::from(vec![4u32; 3]),
            "metadata key `llama.attention.head_count` is an array of 3: the model has 7 layers",
        ),
        (
            "llama.rope.dimension_count",
            Value::U32(8),
            "metadata key `llama.rope.dimension_count` is 8: must equal the head length 16",
        ),
        (
            "llama.rope.scaling.type",
            Value::from("longrope"),
            "metadata key `llama.rope.scaling.type` is `longrope`: must be none, linear or yarn",
        ),
    ];
    for (key, value, expected) in cases {
        assert_eq!(refused(key, value), expected);
    }
}

#[test]
fn other_kinds_of_files_and_unknown_architectures_are_told_apart() {
    let error = |entries: &[(&str, &str)]| {
        let mut metadata = Metadata::new();
        for (key, value) in entries {
            metadata.set(*key, *value);
        }
        Hyperparameters::from_metadata(&metadata)
            .unwrap_err()
            .to_string()
    };
    let adapter = error(&[
        ("general.type", "adapter"),
        ("general.architecture", "llama"),
    ]);
    assert!(
        adapter.starts_with("this file is an adapter, not a model"),
        "{adapter}"
    );
    let projector = error(&[("general.architecture", "clip")]);
    assert!(
        projector.starts_with("this file is a multimodal projector, not a model"),
        "{projector}"
    );
    let unknown = error(&[("general.architecture", "gpt9")]);
    let supported = gristmill_model::arch::names().join(", ");
    assert_eq!(
        unknown,
        format!("architecture `gpt9` is not supported (supported: {supported})")
    );
    let unknown = Config::parse(r#"{"architectures": ["Gpt9ForCausalLM"]}"#)
        .unwrap_err()
        .to_string();
    let supported = gristmill_model::arch::class_names().join(", ");
    assert_eq!(
        unknown,
        format!("architecture `Gpt9ForCausalLM` is not supported (supported: {supported})")
    );
}

#[test]
fn hostile_configurations_are_errors() {
    for text in [
        "",
        "[]",
        "{",
        "null",
        "{}",
        r#"{"architectures": []}"#,
        r#"{"architectures": [3]}"#,
        r#"{"architectures": ["LlamaForCausalLM"], "hidden_size": "wide"}"#,
        r#"{"architectures": ["LlamaForCausalLM"], "hidden_size": -1}"#,
        r#"{"architectures": ["LlamaForCausalLM"], "hidden_size": 1e30}"#,
        r#"{"architectures": ["LlamaForCausalLM"], "rope_theta": "big"}"#,
        r#"{"architectures": ["LlamaForCausalLM"], "rope_scaling": {"type": "yarn", "factor": null}}"#,
        r#"{"architectures": ["LlamaForCausalLM"], "rope_scaling": {"type": "longrope"}}"#,
        r#"{"architectures": ["LlamaForCausalLM"], "num_attention_heads": 0, "head_dim": null}"#,
    ] {
        let written =
            Config::parse(text).and_then(|config| config.write_metadata(0, &mut Metadata::new()));
        assert!(written.is_err(), "{text}");
    }
}

/// The text part of a multimodal configuration counts, and so do the names of either generation for rotary embeddings.
#[test]
fn configurations_of_every_generation_give_the_same_entries() {
    let base = r#""hidden_size": 64, "num_hidden_layers": 7, "num_attention_heads": 4, "head_dim": 16, "sliding_window": 8"#;
    let old = r#""rope_theta": 5e5, "rope_local_base_freq": 2e4, "rope_scaling": {"type": "linear", "factor": 8}"#;
    let new = r#""rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 5e5},
        "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}}"#;
    let entries = |text: String| {
        let mut metadata = Metadata::new();
        Config::parse(&text)
            .unwrap()
            .write_metadata(0, &mut metadata)
            .unwrap();
        metadata
            .iter()
            .map(|(key, value)| (key.to_owned(), value.clone()))
            .collect::<Vec<_>>()
    };
    let expected = entries(format!(
        r#"{{"architectures": ["Gemma3ForCausalLM"], {base}, {old}}}"#
    ));
    let value = |key: &str| {
        expected
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, value)| value.clone())
    };
    assert_eq!(value("gemma3.rope.freq_base"), Some(Value::F32(5e5)));
    assert_eq!(value("gemma3.rope.freq_base_swa"), Some(Value::F32(2e4)));
    assert_eq!(value("gemma3.rope.scaling.factor"), Some(Value::F32(8.0)));
    assert_eq!(
        entries(format!(
            r#"{{"architectures": ["Gemma3ForCausalLM"], {base}, {new}}}"#
        )),
        expected
    );
    let multimodal = r#"{"architectures": ["Gemma3ForConditionalGeneration"], "hidden_size": 1, "text_config": {"#;
    assert_eq!(
        entries(format!("{multimodal} {base}, {old} }}}}")),
        expected
    );
}

/// The entries below an architecture's prefix that a configuration gives, with its warnings; or why there are none.
fn configured(class: &str, more: &str) -> Result<(Metadata, Vec<String>), ModelError> {
    let config = Config::parse(&format!(
        r#"{{"architectures": ["{class}"], "hidden_size": 64, "num_hidden_layers": 7, "num_attention_heads": 4,
        "head_dim": 16, "max_position_embeddings": 512{more}}}"#
    ))?;
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", config.architecture.name);
    config.write_metadata(0, &mut metadata)?;
    Ok((metadata, config.warnings()))
}

/// What a graph cannot do is refused by key, value and what is supported; nothing of it is dropped without a word.
#[test]
fn facts_that_no_architecture_has_a_place_for_are_refused() {
    let (llama, qwen2, qwen3) = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM");
    let (mistral, gemma3) = ("MistralForCausalLM", "Gemma3ForCausalLM");
    let llama3 = r#", "rope_scaling": {"rope_type": "llama3", "factor": 8}"#;
    let cases = [
        (llama, r#", "hidden_act": "gelu""#, "hidden_act"),
        (mistral, r#", "hidden_act": "relu""#, "hidden_act"),
        (
            gemma3,
            r#", "hidden_activation": "silu""#,
            "hidden_activation",
        ),
        (
            qwen2,
            r#", "partial_rotary_factor": 0.5"#,
            "partial_rotary_factor",
        ),
        (
            llama,
            r#", "rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}"#,
            "partial_rotary_factor",
        ),
        (
            gemma3,
            r#", "attn_logit_softcapping": 50.0"#,
            "attn_logit_softcapping",
        ),
        (
            gemma3,
            r#", "use_bidirectional_attention": true"#,
            "use_bidirectional_attention",
        ),
        (
            gemma3,
            r#", "query_pre_attn_scalar": 32"#,
            "query_pre_attn_scalar",
        ),
        (
            "GPT2LMHeadModel",
            r#", "activation_function": "relu""#,
            "activation_function",
        ),
        (
            "GPT2LMHeadModel",
            r#", "scale_attn_by_inverse_layer_idx": true"#,
            "scale_attn_by_inverse_layer_idx",
        ),
        (qwen2, llama3, "rope_scaling.rope_type"),
        (qwen3, llama3, "rope_scaling.rope_type"),
        (gemma3, llama3, "rope_scaling.rope_type"),
        (
            llama,
            r#", "rope_scaling": {"type": "su"}"#,
            "rope_scaling.rope_type",
        ),
        (
            llama,
            r#", "rope_scaling": {"type": "spiral"}"#,
            "rope_scaling.rope_type",
        ),
        (
            gemma3,
            r#", "rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2}}"#,
            "rope_parameters.sliding_attention.rope_type",
        ),
    ];
    for (class, more, refused) in cases {
        match configured(class, more) {
            Err(ModelError::UnsupportedConfig { key, .. }) => assert_eq!(key, refused, "{more}"),
            other => panic!("{class} {more}: {other:?}"),
        }
    }
    assert_eq!(
        configured(qwen2, llama3).unwrap_err().to_string(),
        "config.json: `rope_scaling.rope_type` is llama3, which architecture `qwen2` has no place for (supported: \
         default, linear or yarn)"
    );
    for more in [
        r#", "rope_scaling": {"type": "linear"}"#,
        r#", "rope_scaling": {"type": 7}"#,
    ] {
        assert!(
            matches!(configured(llama, more), Err(ModelError::Config { .. })),
            "{more}"
        );
    }
    for (class, more) in [
        (llama, llama3),
        (
            llama,
            r#", "hidden_act": "silu", "partial_rotary_factor": 1.0, "sliding_window": 4"#,
        ),
        (
            qwen2,
            r#", "sliding_window": 4, "use_sliding_window": false"#,
        ),
        (qwen2, r#", "sliding_window": 4"#),
        (mistral, r#", "sliding_window": null"#),
        (mistral, r#", "sliding_window": 512"#),
        (
            gemma3,
            r#", "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 16, "attn_logit_softcapping": null"#,
        ),
        // The 27B model: width per head.
        (
            gemma3,
            r#", "num_hidden_layers": 62, "head_dim": 8, "query_pre_attn_scalar": 16"#,
        ),
    ] {
        let (_, warnings) = configured(class, more).unwrap();
        assert!(warnings.is_empty(), "{class} {more}: {warnings:?}");
    }
}

/// `null` is what the authors' code makes of it: nothing where that is a meaning, else an error that names the key.
#[test]
fn null_is_refused_where_the_class_can_do_nothing_with_it() {
    let (llama, mistral, gemma3) = (
        "LlamaForCausalLM",
        "MistralForCausalLM",
        "Gemma3ForCausalLM",
    );
    let (gpt2, qwen2, qwen3) = ("GPT2LMHeadModel", "Qwen2ForCausalLM", "Qwen3ForCausalLM");
    let with = |class: &str, key: &str, value: &str| {
        let (object, name) = key.rsplit_once('.').unwrap_or(("", key));
        let entry = match object {
            "" => format!(r#""{name}": {value}"#),
            object => format!(r#""{object}": {{"rope_type": "llama3", "{name}": {value}}}"#),
        };
        Config::parse(&format!(r#"{{"architectures": ["{class}"], {entry}}}"#)).and_then(|config| {
            let mut metadata = Metadata::new();
            config.write_metadata(0, &mut metadata)?;
            Ok((config.ties_embeddings(), metadata))
        })
    };
    // Whatever has a value where nothing is said has one of that kind.
    let stated = ARCHITECTURES.iter().flat_map(|known| known.classes);
    let mut n_refused = 0;
    for class in stated {
        for (key, _) in class.defaults.iter().copied().flatten() {
            match with(class.name, key, "null") {
                Ok(_) => {}
                Err(error) => {
                    let start = format!("config.json: `{key}` is null, expected a");
                    assert!(error.to_string().starts_with(&start), "{error}");
                    n_refused += 1;
                }
            }
        }
    }
    assert!(n_refused > 50, "{n_refused}");
    for (class, key) in [
        (gpt2, "n_head"),
        (gpt2, "n_layer"),
        (gpt2, "layer_norm_epsilon"),
        (gpt2, "scale_attn_weights"),
        (gpt2, "activation_function"),
        (llama, "hidden_act"),
        (llama, "rms_norm_eps"),
        (llama, "rope_theta"),
        (llama, "vocab_size"),
        (llama, "is_causal"),
        (llama, "rope_scaling.rope_type"),
        (llama, "rope_parameters.rope_theta"),
        (gemma3, "num_key_value_heads"),
        (gemma3, "sliding_window"),
        (gemma3, "query_pre_attn_scalar"),
        (gemma3, "sliding_window_pattern"),
        (qwen3, "head_dim"),
    ] {
        let error = with(class, key, "null").expect_err(key).to_string();
        let name = key.strip_prefix("rope_parameters.").unwrap_or(key);
        let start = format!("config.json: `{name}` is null");
        assert!(error.starts_with(&start), "{class} {key}: {error}");
    }
    for (class, key, same) in [
        (gpt2, "n_inner", "3072"),
        (gpt2, "n_ctx", "1024"),
        (gpt2, "add_cross_attention", "false"),
        (gpt2, "scale_attn_by_inverse_layer_idx", "false"),
        (gpt2, "tie_word_embeddings", "false"),
        (llama, "head_dim", "128"),
        (llama, "num_key_value_heads", "32"),
        (llama, "rope_scaling", r#"{"rope_type": "default"}"#),
        (llama, "partial_rotary_factor", "1.0"),
        (mistral, "num_key_value_heads", "32"),
        (qwen2, "num_key_value_heads", "32"),
        (qwen2, "use_sliding_window", "false"),
        (gemma3, "final_logit_softcapping", "0"),
    ] {
        let entries = |value: &str| {
            let (ties, metadata) = with(class, key, value).unwrap();
            let entries = metadata
                .iter()
                .map(|(key, value)| (key.to_owned(), value.clone()));
            (ties, entries.collect::<Vec<_>>())
        };
        assert_eq!(entries("null"), entries(same), "{class} {key}");
    }
    // The name that older configurations use counts where the newer one holds nothing, and a base among the parameters
    // where the one beside them is nothing.
    for (class, stated, key, value) in [
        (
            qwen2,
            r#""rope_parameters": null, "rope_scaling": {"type": "linear", "factor": 2}"#,
            "qwen2.rope.scaling.factor",
            Value::F32(2.0),
        ),
        // The context before scaling is the model's where nothing else is said.
        (
            qwen2,
            r#""max_position_embeddings": 640, "rope_scaling": {"type": "yarn", "factor": 4}"#,
            "qwen2.rope.scaling.original_context_length",
            Value::U32(640),
        ),
        (
            llama,
            r#""rope_theta": null, "rope_parameters": {"rope_theta": 5.0, "factor": null, "full_attention": null}"#,
            "llama.rope.freq_base",
            Value::F32(5.0),
        ),
        (
            gemma3,
            r#""rope_theta": null, "rope_local_base_freq": null,
            "rope_parameters": {"full_attention": {"rope_theta": 6.0}, "sliding_attention": {"rope_theta": 7.0}}"#,
            "gemma3.rope.freq_base_swa",
            Value::F32(7.0),
        ),
    ] {
        let text = format!(r#"{{"architectures": ["{class}"], {stated}}}"#);
        let mut metadata = Metadata::new();
        let config = Config::parse(&text).unwrap();
        config.write_metadata(0, &mut metadata).unwrap();
        assert_eq!(metadata.get(key), Some(&value), "{stated}");
    }
}

/// What only matters beyond some length is converted as the reference does, with a warning.
#[test]
fn facts_that_matter_in_long_texts_are_warned_about() {
    for (class, more, key) in [
        (
            "MistralForCausalLM",
            r#", "sliding_window": 128"#,
            "`sliding_window` is 128",
        ),
        (
            "Qwen2ForCausalLM",
            r#", "sliding_window": 128, "use_sliding_window": true"#,
            "`use_sliding_window` is true",
        ),
        (
            "LlamaForCausalLM",
            r#", "rope_scaling": {"type": "dynamic", "factor": 2}"#,
            "`rope_scaling.rope_type` is dynamic",
        ),
    ] {
        let (_, warnings) = configured(class, more).unwrap();
        assert!(
            warnings.len() == 1 && warnings[0].contains(key),
            "{warnings:?}"
        );
    }
}

/// A loader assumes that each sixth layer of Gemma 3 has full attention; any other order is written, and read back.
#[test]
fn windowed_layers_are_written_where_no_loader_would_guess_them() {
    let kinds = |kinds: &str| {
        let kinds = kinds.chars().map(|kind| match kind {
            'w' => r#""sliding_attention""#,
            _ => r#""full_attention""#,
        });
        kinds.collect::<Vec<_>>().join(", ")
    };
    let window = r#", "sliding_window": 8"#;
    let cases = [
        (String::new(), "wwwwwfw", None),
        (
            format!(r#", "layer_types": [{}]"#, kinds("wwwwwfw")),
            "wwwwwfw",
            None,
        ),
        (
            r#", "sliding_window_pattern": 5"#.to_owned(),
            "wwwwfww",
            Some(Value::U32(5)),
        ),
        (
            format!(r#", "layer_types": [{}]"#, kinds("wfwfwfw")),
            "wfwfwfw",
            Some(Value::U32(2)),
        ),
        (
            format!(
                r#", "sliding_window_pattern": 6, "layer_types": [{}]"#,
                kinds("fwwwwww")
            ),
            "fwwwwww",
            Some(Value::from(vec![false, true, true, true, true, true, true])),
        ),
        (
            r#", "sliding_window_pattern": 1"#.to_owned(),
            "fffffff",
            None,
        ),
    ];
    for (more, expected, written) in cases {
        let (metadata, _) = configured("Gemma3ForCausalLM", &format!("{window}{more}")).unwrap();
        let found = metadata.get("gemma3.attention.sliding_window_pattern");
        assert_eq!(found, written.as_ref(), "{more}");
        let mut metadata = metadata;
        metadata.set("gemma3.vocab_size", 96u32);
        let hparams = Hyperparameters::from_metadata(&metadata).unwrap();
        let layers = hparams.layers.iter();
        let found: String = layers
            .map(|layer| if layer.windowed { 'w' } else { 'f' })
            .collect();
        assert_eq!(found, expected, "{more}");
    }
    for more in [
        r#", "sliding_window_pattern": 0"#,
        r#", "layer_types": ["full_attention"]"#,
        r#", "layer_types": "full_attention""#,
        r#", "num_hidden_layers": 1, "layer_types": ["chunked_attention"]"#,
        r#", "num_hidden_layers": 4294967295"#,
    ] {
        assert!(configured("Gemma3ForCausalLM", more).is_err(), "{more}");
    }
}

#[test]
fn a_mixture_of_experts_is_refused_as_one() {
    let mut metadata = random_model(architecture("llama").unwrap(), 7)
        .unwrap()
        .metadata;
    metadata.set("llama.expert_count", 0u32);
    Hyperparameters::from_metadata(&metadata).unwrap();
    metadata.set("llama.expert_count", 8u32);
    let error = Hyperparameters::from_metadata(&metadata).unwrap_err();
    assert_eq!(
        error.to_string(),
        "metadata key `llama.expert_count` is 8: mixtures of experts are not supported"
    );
    assert!(error.hint().unwrap().contains("dense"));
}

/// Conversion writes it, and the graph has only the causal kind: so a model of the other kind must not run.
#[test]
fn a_model_whose_tokens_see_later_ones_builds_no_graph() {
    for known in ARCHITECTURES {
        let mut metadata = random_model(known, 7).unwrap().metadata;
        metadata.set(format!("{}.attention.causal", known.name), false);
        let hparams = Hyperparameters::from_metadata(&metadata).unwrap();
        let weights = Weights::bind(&hparams, |spec| {
            let dims: Vec<usize> = spec.dims.iter().map(|&extent| extent as usize).collect();
            Some(handle(&dims))
        })
        .unwrap();
        let cache = |layer: &gristmill_model::LayerHyperparameters| KvLayer {
            k: handle(&[hparams.key_length, 16, layer.n_head_kv, 2]),
            v: handle(&[hparams.value_length, 16, layer.n_head_kv, 2]),
            page_len: 16,
        };
        let caches: Vec<KvLayer> = hparams.layers.iter().map(cache).collect();
        let mut graph = GraphBuilder::new(BatchShape {
            n_tokens: 3,
            n_outputs: 1,
            n_sequences: 1,
            max_pages: 2,
        });
        let built = build(&hparams, &weights, &caches, &mut graph)
            .and_then(|logits| Ok(graph.finish(&[logits])?));
        let error = built.expect_err(known.name).to_string();
        assert!(error.contains("causal"), "{error}");
    }
}
