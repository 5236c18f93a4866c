//! What holds for every architecture: the tests loop over the registry.

use gristmill_compute::{BatchShape, BufferId, GraphBuilder, KvLayer, Shape, Tensor};
use gristmill_gguf::{Metadata, Value};
use gristmill_model::{
    ARCHITECTURES, Config, Hyperparameters, ModelError, RandomModel, Slot, Weights, architecture,
    architecture_of_config, build, build_hidden, check_tensors, random_model, random_model_of,
    tensor_specs,
};

/// Positions of the contexts that graphs are built for.
const N_CTX: usize = 32;

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

type Build = fn(
    &Hyperparameters,
    &Weights,
    &[KvLayer],
    usize,
    &mut GraphBuilder,
) -> Result<gristmill_compute::Value, ModelError>;

#[test]
fn every_architecture_builds_a_graph_with_and_without_optional_tensors() {
    let classes = ARCHITECTURES.iter().flat_map(|known| known.classes);
    for known in classes {
        let model = random_model_of(known, 7).unwrap();
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
                    table: 0,
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
                let (build, width): (Build, usize) = match hparams.causal {
                    true => (build, hparams.n_vocab),
                    false => (build_hidden, hparams.n_embd),
                };
                let rows = build(&hparams, &weights, &caches, N_CTX, &mut graph).unwrap();
                let expected = [width, n_outputs, 1, 1];
                assert_eq!(graph.shape(rows).dims(), expected, "{}", known.name);
                graph.finish(&[rows]).unwrap();
            }
            let mut graph = GraphBuilder::new(BatchShape {
                n_tokens: 1,
                n_outputs: 1,
                n_sequences: 1,
                max_pages: 2,
            });
            let too_few = build_hidden(&hparams, &weights, &caches[1..], N_CTX, &mut graph);
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
        "attn_logit_softcapping",
        "expert_count",
        "expert_used_count",
        "expert_feed_forward_length",
        "expert_weights_scale",
        "embedding_scale",
        "logit_scale",
        "rope.scaling.attn_factor",
        "rope.scaling.finetuned",
    ];
    let mut n_refused = 0;
    let classes = ARCHITECTURES.iter().flat_map(|known| known.classes);
    for known in classes {
        let sound = random_model_of(known, 7).unwrap().metadata;
        let mut keys: Vec<String> = sound.iter().map(|(key, _)| key.to_owned()).collect();
        let (architecture, _) = architecture_of_config(known.name).unwrap();
        keys.extend(
            extra
                .iter()
                .map(|suffix| format!("{}.{suffix}", architecture.name)),
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
            Value::from("spiral"),
            "metadata key `llama.rope.scaling.type` is `spiral`: must be none, linear, yarn or longrope",
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
fn experts_of_an_architecture_without_such_are_refused_as_these() {
    let mut metadata = random_model(architecture("gpt2").unwrap(), 7)
        .unwrap()
        .metadata;
    metadata.set("gpt2.expert_count", 0u32);
    Hyperparameters::from_metadata(&metadata).unwrap();
    metadata.set("gpt2.expert_count", 8u32);
    let error = Hyperparameters::from_metadata(&metadata).unwrap_err();
    assert_eq!(
        error.to_string(),
        "metadata key `gpt2.expert_count` is 8: mixtures of experts are not supported"
    );
    assert!(error.hint().unwrap().contains("dense"));
}

/// What comes behind a token cannot be told from a row that has seen it.
#[test]
fn a_model_whose_tokens_see_later_ones_gives_no_logits() {
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
            table: 0,
        };
        let caches: Vec<KvLayer> = hparams.layers.iter().map(cache).collect();
        let mut graph = GraphBuilder::new(BatchShape {
            n_tokens: 3,
            n_outputs: 1,
            n_sequences: 1,
            max_pages: 2,
        });
        let error = build(&hparams, &weights, &caches, N_CTX, &mut graph).expect_err(known.name);
        let end = match known.has(Slot::Output) {
            true => "its attention is not causal",
            false => "it has no output projection",
        };
        let expected = format!(
            "architecture `{}` gives embeddings here, and no logits: {end}",
            known.name
        );
        assert_eq!(error.to_string(), expected);
        build_hidden(&hparams, &weights, &caches, N_CTX, &mut graph).expect(known.name);
    }
}
