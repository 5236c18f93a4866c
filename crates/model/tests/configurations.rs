//! From `config.json` to metadata: what every class's configuration may say, and what it means.

use gristmill_compute::{BatchShape, BufferId, GraphBuilder, KvLayer, Shape, Tensor};
use gristmill_gguf::{Metadata, Value};
use gristmill_model::{
    ARCHITECTURES, Config, Hyperparameters, ModelError, SpecSource, Weights, build, tensor_specs,
};

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

/// What no loader of the family knows.
#[test]
fn facts_that_no_loader_of_a_family_knows_are_refused() {
    let cases = [
        (
            "Starcoder2ForCausalLM",
            r#", "use_bias": false"#,
            "use_bias",
        ),
        (
            "Olmo2ForCausalLM",
            r#", "attention_bias": true"#,
            "attention_bias",
        ),
        (
            "Olmo2ForCausalLM",
            r#", "tie_word_embeddings": true"#,
            "tie_word_embeddings",
        ),
        (
            "Gemma2ForCausalLM",
            r#", "attn_logit_softcapping": 0"#,
            "attn_logit_softcapping",
        ),
        (
            "Gemma2ForCausalLM",
            r#", "query_pre_attn_scalar": 144"#,
            "query_pre_attn_scalar",
        ),
        (
            "Qwen3MoeForCausalLM",
            r#", "norm_topk_prob": false"#,
            "norm_topk_prob",
        ),
        ("Qwen3MoeForCausalLM", "", "norm_topk_prob"),
        (
            "Qwen3MoeForCausalLM",
            r#", "norm_topk_prob": true, "decoder_sparse_step": 2"#,
            "decoder_sparse_step",
        ),
        (
            "Qwen3MoeForCausalLM",
            r#", "norm_topk_prob": true, "mlp_only_layers": [0]"#,
            "mlp_only_layers",
        ),
        (
            "Phi3ForCausalLM",
            r#", "rope_scaling": {"type": "linear", "factor": 2}"#,
            "rope_scaling.rope_type",
        ),
    ];
    for (class, more, refused) in cases {
        match configured(class, more) {
            Err(ModelError::UnsupportedConfig { key, .. }) => assert_eq!(key, refused, "{more}"),
            other => panic!("{class} {more}: {other:?}"),
        }
    }
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
        // One class means by silence what its loaders do not know.
        let more = match key {
            "norm_topk_prob" => "",
            _ => r#", "norm_topk_prob": true"#,
        };
        let text = format!(r#"{{"architectures": ["{class}"], {entry}{more}}}"#);
        Config::parse(&text).and_then(|config| {
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
                // What `null` means may be refused as what it means.
                Ok(_) | Err(ModelError::UnsupportedConfig { .. }) => {}
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

/// A loader assumes that each sixth layer of Gemma 3 and each second of Gemma 2 has full attention; any other order is
/// written, and read back. OLMo 3 always says it.
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
    let gemma3 =
        cases.map(|(more, expected, written)| ("Gemma3", "gemma3", more, expected, written));
    let list = |kinds: &str| Value::from(kinds.chars().map(|kind| kind == 'w').collect::<Vec<_>>());
    let others = [
        ("Gemma2", "gemma2", String::new(), "wfwfwfw", None),
        (
            "Gemma2",
            "gemma2",
            format!(r#", "layer_types": [{}]"#, kinds("wwwfwww")),
            "wwwfwww",
            Some(Value::U32(4)),
        ),
        (
            "Olmo3",
            "olmo2",
            String::new(),
            "wwwfwww",
            Some(list("wwwfwww")),
        ),
    ];
    for (class, name, more, expected, written) in gemma3.into_iter().chain(others) {
        let class = format!("{class}ForCausalLM");
        let (mut metadata, _) = configured(&class, &format!("{window}{more}")).unwrap();
        let found = metadata.get(&format!("{name}.attention.sliding_window_pattern"));
        assert_eq!(found, written.as_ref(), "{class} {more}");
        metadata.set(format!("{name}.vocab_size"), 96u32);
        let hparams = Hyperparameters::from_metadata(&metadata).unwrap();
        let layers = hparams.layers.iter();
        let found: String = layers
            .map(|layer| if layer.windowed { 'w' } else { 'f' })
            .collect();
        assert_eq!(found, expected, "{class} {more}");
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

/// The names of a model's ops, for three tokens.
fn ops(metadata: &Metadata) -> Vec<&'static str> {
    let hparams = Hyperparameters::from_metadata(metadata).unwrap();
    let handle = |dims: &[usize]| Tensor {
        device: 0,
        buffer: BufferId(0),
        offset: 0,
        ty: gristmill_quant::F32,
        shape: Shape::new(dims).unwrap(),
    };
    let weights = Weights::bind(&hparams, |spec| {
        let dims: Vec<usize> = spec.dims.iter().map(|&extent| extent as usize).collect();
        spec.required.then(|| handle(&dims))
    });
    let cache = |layer: &gristmill_model::LayerHyperparameters| KvLayer {
        k: handle(&[hparams.key_length, 16, layer.n_head_kv, 2]),
        v: handle(&[hparams.value_length, 16, layer.n_head_kv, 2]),
        page_len: 16,
        table: 0,
    };
    let caches: Vec<KvLayer> = hparams.layers.iter().map(cache).collect();
    let mut graph = GraphBuilder::new(BatchShape {
        n_tokens: 3,
        n_outputs: 3,
        n_sequences: 1,
        max_pages: 2,
    });
    let logits = build(&hparams, &weights.unwrap(), &caches, 32, &mut graph).unwrap();
    let graph = graph.finish(&[logits]).unwrap();
    graph.nodes().iter().map(|node| node.op.name()).collect()
}

/// Granite's metadata has a switch for rotation and multipliers; without them nothing is scaled.
#[test]
fn rotation_can_be_off_and_multipliers_of_one_cost_nothing() {
    let count = |ops: &[&str], name: &str| ops.iter().filter(|op| **op == name).count();
    let granite = |more: &str| {
        let (mut metadata, _) = configured("GraniteForCausalLM", more).unwrap();
        metadata.set("granite.vocab_size", 96u32);
        metadata
    };
    let mut plain = granite("");
    let found = ops(&plain);
    assert_eq!((count(&found, "rope"), count(&found, "scale")), (14, 0));
    plain.set("granite.rope.scaling.finetuned", false);
    assert_eq!(count(&ops(&plain), "rope"), 0);
    // Embeddings, both parts of seven layers, and logits.
    let scaled = granite(
        r#", "embedding_multiplier": 6.0, "residual_multiplier": 0.22, "logits_scaling": 4.0"#,
    );
    assert_eq!(count(&ops(&scaled), "scale"), 16);
}

/// The factor on cosines and sines by the formulas of the reference's converter; lists that fit no head are refused.
#[test]
fn longrope_has_a_divisor_for_each_pair_and_a_factor() {
    let phi3 = |rope: &str| {
        configured(
            "Phi3ForCausalLM",
            &format!(
                r#", "original_max_position_embeddings": 128, "vocab_size": 96, "rope_scaling": {rope}"#
            ),
        )
    };
    let lists =
        r#""long_factor": [1, 2, 3, 4, 5, 6, 7, 8], "short_factor": [1, 1, 1, 1, 1, 1, 1, 1.5]"#;
    for (kind, expected) in [
        (
            "longrope",
            Some((1.0 + 4f64.ln() / 128f64.ln()).sqrt() as f32),
        ),
        ("su", Some((1.0 + 4f64.ln() / 128f64.ln()).sqrt() as f32)),
        ("yarn", Some((0.1 * 4f64.ln() + 1.0) as f32)),
        ("default", None),
    ] {
        let (metadata, _) = phi3(&format!(r#"{{"type": "{kind}", {lists}}}"#)).unwrap();
        let found = metadata.f32("phi3.rope.scaling.attn_factor").unwrap();
        assert_eq!(found, expected, "{kind}");
    }
    let computed = |rope: &str| {
        let text = format!(
            r#"{{"architectures": ["Phi3ForCausalLM"], "hidden_size": 64, "num_attention_heads": 4, "rope_scaling": {rope}}}"#
        );
        let config = Config::parse(&text)?;
        let mut metadata = Metadata::new();
        metadata.set("general.architecture", "phi3");
        config.write_metadata(0, &mut metadata)?;
        metadata.set("phi3.vocab_size", 96u32);
        let hparams = Hyperparameters::from_metadata(&metadata)?;
        let mut found = Vec::new();
        for spec in tensor_specs(&hparams) {
            if let SpecSource::Computed(compute) = spec.source {
                found.extend(compute(&config, &hparams)?);
            }
        }
        Ok::<_, ModelError>(found)
    };
    let found = computed(&format!(r#"{{"type": "longrope", {lists}}}"#)).unwrap();
    let long = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let short = vec![1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.5];
    assert_eq!(found, [long, short]);
    for (long, key) in [
        ("[1, 2, 3]", "long_factor"),
        ("[1, 2, 3, 4, 5, 6, 7, 0]", "long_factor"),
        ("[1, 2, 3, 4, 5, 6, 7, \"8\"]", "long_factor"),
        ("null", "long_factor"),
        ("[1, 2, 3, 4, 5, 6, 7, 8]", "short_factor"),
    ] {
        let error = computed(&format!(r#"{{"type": "longrope", "long_factor": {long}}}"#));
        let message = error.unwrap_err().to_string();
        let start = format!("config.json: `rope_scaling.{key}` is ");
        assert!(message.starts_with(&start), "{long}: {message}");
    }
}
