//! Adapters against merged weights, and sequences with different ones beside each other.

use std::collections::BTreeMap;
use std::path::Path;

use gristmill_gguf::{Metadata, TensorPlan, WriteOptions, Writer};
use gristmill_quant::F32;

use super::*;

/// Tensors of a file in F32: shape and values by name.
type Tensors = BTreeMap<String, (Vec<u64>, Vec<f32>)>;

fn read(path: &Path) -> (Metadata, Tensors) {
    let file = gguf::Model::open(path).unwrap();
    let tensors = file.views().map(|view| {
        let (values, _) = view.data.as_chunks::<4>();
        let values = values.iter().map(|bytes| f32::from_le_bytes(*bytes));
        let info = view.info;
        (info.name.clone(), (info.dims.clone(), values.collect()))
    });
    (file.metadata().clone(), tensors.collect())
}

fn write(path: &Path, metadata: &Metadata, tensors: &Tensors) {
    let plan = |(name, (dims, _)): (&String, &(Vec<u64>, Vec<f32>))| TensorPlan {
        name: name.clone(),
        dims: dims.clone(),
        ty: F32,
    };
    let plans: Vec<TensorPlan> = tensors.iter().map(plan).collect();
    let mut writer = Writer::create(path, metadata, &plans, &WriteOptions::default()).unwrap();
    for (name, (_, values)) in tensors {
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        writer.write_tensor(name, &bytes).unwrap();
    }
    writer.finish().unwrap();
}

fn open(model: &Arc<Model>, path: &Path) -> Result<Arc<Adapter>, EngineError> {
    Adapter::load(model, gguf::Model::open(path).unwrap())
}

fn adapted(model: &Arc<Model>, ids: &[u32], adapters: &Adapters) -> Vec<f32> {
    let mut rows = Vec::new();
    let options = options(CacheTypes::F32, ids.len(), 512);
    all_logits_with(model.clone(), adapters, ids, &options, |row| {
        rows.extend_from_slice(row);
        Ok::<_, EngineError>(())
    })
    .unwrap();
    rows
}

/// A model, the adapter for it in both of its types, and ids to feed.
type Golden = (Arc<Model>, [Arc<Adapter>; 2], Vec<u32>);

fn golden_adapters() -> Option<Golden> {
    let folder = golden("convert/llama-lora")?;
    let model = load(&folder.join("../llama/llama-f32.gguf"));
    let adapters = ["f32", "f16"]
        .map(|ty| open(&model, &folder.join(format!("llama-lora-{ty}.gguf"))).unwrap());
    Some((model, adapters, fed_ids(&folder)))
}

#[test]
fn golden_logits_of_the_merged_model() {
    let Some((model, [adapter, _], ids)) = golden_adapters() else {
        return;
    };
    assert_eq!(adapter.n_changes(), 12);
    let found = adapted(&model, &ids, &Adapters::new([(adapter.clone(), 1.0)], None));
    let expected = golden("convert/llama-lora/logits_lora_merged.npy").unwrap();
    let difference = largest_difference(&found, &read_npy(expected));
    println!("adapter beside merged: largest difference {difference:e}");
    assert!(difference <= 1e-4, "{difference:e}");
    // An adapter of scale 0 is none.
    let plain = adapted(&model, &ids, &Adapters::default());
    assert!(adapted(&model, &ids, &Adapters::new([(adapter, 0.0)], None)) == plain);
    assert!(largest_difference(&found, &plain) > 1e-2);
    compared(1, "logits with an adapter");
}

/// Values that no two rows share.
fn random(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(747_796_405).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1u32 << 24) as f32 - 0.5
    };
    (0..n).map(|_| next() * 0.2).collect()
}

/// An adapter that changes every matrix of a model, and the model with the changes in it.
fn change_everything(metadata: &Metadata, tensors: &Tensors) -> (Metadata, Tensors, Tensors) {
    let (rank, scale) = (3usize, 2.0f32);
    let mut about = Metadata::new();
    let architecture = metadata.required_str("general.architecture").unwrap();
    about.set("general.architecture", architecture);
    about.set("general.type", "adapter");
    about.set("adapter.type", "lora");
    about.set("adapter.lora.alpha", scale * rank as f32);
    let (mut merged, mut adapter) = (tensors.clone(), Tensors::new());
    // An output projection that is the table of embeddings does not take part in their changes.
    let has_output = gristmill_model::architecture(architecture)
        .is_some_and(|known| known.has(gristmill_model::Slot::Output));
    if has_output && !merged.contains_key("output.weight") {
        merged.insert("output.weight".into(), merged["token_embd.weight"].clone());
    }
    let is_encoder = architecture == "bert";
    let matrices: Vec<String> = merged
        .iter()
        .filter(|(_, (dims, _))| dims.len() >= 2)
        .filter(|(name, _)| has_output || is_encoder || *name != "token_embd.weight")
        .map(|(name, _)| name.clone())
        .collect();
    for (seed, name) in matrices.iter().enumerate() {
        let (dims, values) = merged.get_mut(name).unwrap();
        let (row_len, n_rows) = (dims[0] as usize, dims[1] as usize);
        let n_matrices = dims.get(2).map_or(1, |&n_experts| n_experts as usize);
        // Of the change of each row, and of each column.
        let of_rows = random(n_matrices * n_rows * rank, 2 * seed as u32);
        let of_columns = random(n_matrices * rank * row_len, 2 * seed as u32 + 1);
        for (row, values) in values.chunks_exact_mut(row_len).enumerate() {
            let of_columns = &of_columns[row / n_rows * rank * row_len..];
            for (column, value) in values.iter_mut().enumerate() {
                let products =
                    (0..rank).map(|k| of_rows[row * rank + k] * of_columns[k * row_len + column]);
                *value += scale * products.sum::<f32>();
            }
        }
        let [r, n, m] = [rank, row_len, n_rows].map(|extent| extent as u64);
        let tables = ["token_embd", "position_embd", "token_types"];
        let is_table = tables.contains(&name.trim_end_matches(".weight"));
        let (a, b) = if is_table {
            let transposed = (0..row_len).flat_map(|column| {
                let of_columns = &of_columns;
                (0..rank).map(move |k| of_columns[k * row_len + column])
            });
            let b = (vec![r, n], transposed.collect());
            ((vec![r, m], of_rows), b)
        } else {
            let shape = |first, second| [&[first, second], &dims[2..]].concat();
            ((shape(n, r), of_columns), (shape(r, m), of_rows))
        };
        adapter.insert(format!("{name}.lora_a"), a);
        adapter.insert(format!("{name}.lora_b"), b);
    }
    (about, adapter, merged)
}

/// The formula: an adapter gives what weights give that its products were added to; in every architecture, fused matrices,
/// experts, tables of positions, embeddings and tied outputs included.
#[test]
fn adapters_of_every_architecture_equal_merged_weights() {
    let Some(checkpoints) = checkpoints() else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let mut n_compared = 0;
    for checkpoint in checkpoints {
        let name = &checkpoint.name;
        let path = |what: &str| place.path().join(format!("{name}-{what}.gguf"));
        let base = checkpoint.converted("f32");
        let (metadata, tensors) = read(&base);
        let (about, adapter, merged) = change_everything(&metadata, &tensors);
        write(&path("adapter"), &about, &adapter);
        write(&path("merged"), &metadata, &merged);
        let ids = &checkpoint.token_ids;
        let model = load(&base);
        let adapter = open(&model, &path("adapter")).unwrap();
        let found = adapted(&model, ids, &Adapters::new([(adapter, 1.0)], None));
        let expected = adapted(&load(&path("merged")), ids, &Adapters::default());
        let difference = largest_difference(&found, &expected);
        println!("{name}: largest difference {difference:e}");
        assert!(difference <= 1e-4, "{name}: {difference:e}");
        n_compared += 1;
        std::fs::remove_file(path("merged")).unwrap();
    }
    compared(n_compared, "adapters of all matrices");
}

/// The same for an encoder, whose table of token types gives all tokens one row.
#[test]
fn adapters_of_an_encoder_equal_merged_weights() {
    let Some(folder) = golden("convert/bert") else {
        return;
    };
    let base = folder.join("bert-f32.gguf");
    let (metadata, tensors) = read(&base);
    let (about, adapter, merged) = change_everything(&metadata, &tensors);
    for name in ["position_embd", "token_types", "token_embd"] {
        assert!(adapter.contains_key(&format!("{name}.weight.lora_a")));
    }
    let place = tempfile::tempdir().unwrap();
    let path = |what: &str| place.path().join(what);
    write(&path("adapter"), &about, &adapter);
    write(&path("merged"), &metadata, &merged);
    let sequences = [fed_ids(&folder), vec![5, 6, 7]];
    let vectors = |model: &Arc<Model>, adapters: &Adapters| {
        let load = options(CacheTypes::F32, 128, 128);
        let mut embedder = Embedder::new(model.clone(), &load, &EmbedOptions::default()).unwrap();
        embedder.set_adapters(adapters).unwrap();
        let vectors = embedder.embed(&sequences, 512).unwrap();
        vectors
            .into_iter()
            .flatten()
            .flatten()
            .collect::<Vec<f32>>()
    };
    let model = load(&base);
    let adapter = open(&model, &path("adapter")).unwrap();
    let plain = vectors(&model, &Adapters::default());
    let found = vectors(&model, &Adapters::new([(adapter, 1.0)], None));
    let expected = vectors(&load(&path("merged")), &Adapters::default());
    let difference = largest_difference(&found, &expected);
    println!("encoder: largest difference {difference:e}");
    assert!(difference <= 1e-4, "{difference:e}");
    assert!(largest_difference(&found, &plain) > 1e-2);
    compared(1, "an encoder with an adapter");
}

/// Case B99. Right: what a sequence gives does not depend on what others are computed with, nor on what it was computed
/// with before.
#[test]
fn b99_sequences_with_different_adapters_do_not_mix() {
    let Some((model, [one, other], ids)) = golden_adapters() else {
        return;
    };
    let ids = &ids[..12];
    let sets = [
        Adapters::new([(one.clone(), 1.0)], None),
        Adapters::default(),
        Adapters::new([(one.clone(), 0.5)], None),
        Adapters::new([(one, 1.0), (other, -0.5)], None),
    ];
    let alone: Vec<Vec<f32>> = sets.iter().map(|set| adapted(&model, ids, set)).collect();
    let n_vocab = model.n_vocab();
    for (index, rows) in alone.iter().enumerate() {
        let others = alone.iter().skip(index + 1);
        assert!(others.into_iter().all(|other| other != rows));
    }
    let mut context = Context::new(model.clone(), &options(CacheTypes::F32, 512, 512)).unwrap();
    for (number, set) in sets.iter().enumerate() {
        let sequence = SequenceId(number as u32);
        assert_eq!(context.set_adapters(sequence, set).unwrap(), number != 1);
        assert!(!context.set_adapters(sequence, set).unwrap());
    }
    // All in one batch, token by token in turn.
    let tokens = ids.iter().flat_map(|&id| {
        (0..sets.len()).map(move |number| BatchToken {
            id,
            sequence: SequenceId(number as u32),
            output: number != 2,
        })
    });
    let batch: Vec<BatchToken> = tokens.collect();
    context.decode(&batch).unwrap();
    let mut row = 0;
    for token in &batch {
        let (number, position) = (token.sequence.0 as usize, row / 3);
        if token.output {
            let expected = &alone[number][position * n_vocab..(position + 1) * n_vocab];
            assert!(context.logits(row) == expected, "{number} {position}");
            row += 1;
        }
    }
    // A sequence that changes sides begins anew; a fork goes on with the adapters of its origin.
    let token = |sequence, id| BatchToken {
        id,
        sequence: SequenceId(sequence),
        output: true,
    };
    context.fork(SequenceId(0), SequenceId(9));
    context
        .decode(&[token(0, 5), token(1, 5), token(9, 5)])
        .unwrap();
    assert!(context.logits(0) == context.logits(2) && context.logits(0) != context.logits(1));
    assert!(context.set_adapters(SequenceId(9), &sets[1]).unwrap());
    assert_eq!(context.past().n_past(SequenceId(9)), 0);
    // The same prompt in one session with alternating sets, also of other scales.
    let mut session = Session::new(model.clone(), &options(CacheTypes::F32, 64, 512)).unwrap();
    let last = (ids.len() - 1) * n_vocab;
    for index in [0, 1, 0, 2, 3, 2, 1] {
        session.set_adapters(&sets[index]).unwrap();
        let found = session.predict(ids, &mut |_, _| false).unwrap().unwrap();
        assert!(found.logits == &alone[index][last..], "{index}");
        assert_eq!(found.n_computed, ids.len());
        session.set_adapters(&sets[index]).unwrap();
        let again = session.predict(ids, &mut |_, _| false).unwrap().unwrap();
        assert_eq!(again.n_computed, 1);
    }
}

/// The formula: what a direction adds behind a layer, a bias of the layer's last matrix adds too.
#[test]
fn a_direction_equals_a_bias_behind_the_layer() {
    let Some(folder) = golden("convert/llama") else {
        return;
    };
    let ids = &fed_ids(&folder)[..16];
    let base = folder.join("llama-f32.gguf");
    let model = load(&base);
    let (metadata, tensors) = read(&base);
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let mut about = Metadata::new();
    about.set("general.architecture", "controlvector");
    let n_embd = 256;
    let direction = |seed| (vec![n_embd as u64], random(n_embd, seed));
    // Behind the last layer there is nothing that it could be added to; it is there in files of the reference's tool.
    let directions = [1, 2].map(|layer| (format!("direction.{layer}"), direction(layer)));
    write(&path("control.gguf"), &about, &Tensors::from(directions));
    let open = |name: &str| gguf::Model::open(&path(name)).unwrap();
    let control = |layers| {
        let files = [(open("control.gguf"), 3.0), (open("control.gguf"), 1.0)];
        ControlVector::load(&model, &files, layers).unwrap()
    };
    let mut biased = tensors.clone();
    for layer in 0..2 {
        let values = match layer {
            1 => random(n_embd, 1).iter().map(|value| value * 4.0).collect(),
            _ => vec![0.0; n_embd],
        };
        biased.insert(
            format!("blk.{layer}.ffn_down.bias"),
            (vec![n_embd as u64], values),
        );
    }
    write(&path("biased.gguf"), &metadata, &biased);
    let expected = adapted(&load(&path("biased.gguf")), ids, &Adapters::default());
    let vector = control(None);
    assert_eq!(vector.n_layers(), 1);
    let found = adapted(&model, ids, &Adapters::new([], Some(vector)));
    let difference = largest_difference(&found, &expected);
    assert!(difference <= 1e-5, "{difference:e}");
    let plain = adapted(&model, ids, &Adapters::default());
    assert!(largest_difference(&found, &plain) > 1e-2);
    let outside = control(Some((2, 2)));
    assert_eq!(outside.n_layers(), 0);
    let whole = [(0, 0), (1, 0), (0, 2)].map(|layers| control(Some(layers)).n_layers());
    assert_eq!(whole, [1; 3]);
    for layers in [(2, 9), (3, 0), (2, 1)] {
        let files = [(open("control.gguf"), 1.0)];
        let refused = ControlVector::load(&model, &files, Some(layers)).unwrap_err();
        assert!(
            matches!(refused, EngineError::ControlLayers { n_layers: 2, .. }),
            "{layers:?}"
        );
    }
    let huge: Vec<_> = (0..64).map(|_| (open("control.gguf"), f32::MAX)).collect();
    let refused = ControlVector::load(&model, &huge, None).unwrap_err();
    assert!(matches!(refused, EngineError::DirectionSum { layer: 1 }));
    for (name, layer, value, reason) in [
        (
            "none",
            2,
            1.0,
            "it holds no direction for a layer of this model",
        ),
        ("zero", 1, 0.0, "its directions are all zero"),
        (
            "nan",
            1,
            f32::NAN,
            "tensor `direction.1`: it holds NaN or infinity",
        ),
    ] {
        let values = (vec![n_embd as u64], vec![value; n_embd]);
        let only = Tensors::from([(format!("direction.{layer}"), values)]);
        write(&path(&format!("{name}.gguf")), &about, &only);
        let checked = ControlVector::check(&model, &open(&format!("{name}.gguf")));
        assert!(checked.unwrap_err().to_string().ends_with(reason), "{name}");
    }
    assert!(adapted(&model, ids, &Adapters::new([], Some(outside))) == plain);
    for (name, dims) in [
        ("direction.0", vec![256]),
        ("x.1", vec![256]),
        ("direction.1", vec![128]),
    ] {
        let n = dims.iter().product::<u64>() as usize;
        let wrong = Tensors::from([(name.to_owned(), (dims, vec![0.0; n]))]);
        write(&path(&format!("{name}-{n}.gguf")), &about, &wrong);
        let checked = ControlVector::check(&model, &open(&format!("{name}-{n}.gguf")));
        assert!(
            matches!(checked, Err(EngineError::Direction { .. })),
            "{name}"
        );
    }
    let checked = ControlVector::check(&model, &gguf::Model::open(&base).unwrap());
    assert!(matches!(checked, Err(EngineError::NotAnAdapter { .. })));
}
