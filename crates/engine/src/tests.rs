//! Whole models: the golden checkpoints.

mod adapters;
mod embed;
mod families;
pub mod golden;
mod past;
mod saved;
mod speculative;

use std::path::Path;
use std::sync::Arc;

use gristmill_gguf as gguf;

use crate::*;
use golden::{compared, golden, largest_difference, read_json, read_npy};

fn load(path: &Path) -> Arc<Model> {
    let file = gguf::Model::open(path).unwrap();
    Model::load(
        file,
        &LoadOptions {
            n_threads: Some(2),
            ..LoadOptions::default()
        },
    )
    .unwrap()
}

fn options(cache: CacheTypes, n_ctx: usize, n_ubatch: usize) -> LoadOptions {
    LoadOptions {
        n_threads: Some(2),
        n_ctx: Some(n_ctx),
        cache,
        n_ubatch,
        ..LoadOptions::default()
    }
}

fn logits(model: &Arc<Model>, ids: &[u32], options: &LoadOptions) -> Vec<f32> {
    let mut rows = Vec::new();
    all_logits(model.clone(), ids, options, |row| {
        rows.extend_from_slice(row);
        Ok::<_, EngineError>(())
    })
    .unwrap();
    rows
}

fn fed_ids(folder: &Path) -> Vec<u32> {
    let meta = read_json(folder.join("meta.json"));
    let ids = meta["token_ids"]
        .as_array()
        .unwrap_or_else(|| panic!("{}", meta));
    ids.iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// The checkpoints of models that give logits.
fn checkpoints() -> Option<Vec<gristmill_golden::Checkpoint>> {
    let is_known = |class: &str| gristmill_model::architecture_of_config(class).is_some();
    let mut all = gristmill_golden::checkpoints(is_known)?;
    all.retain(|checkpoint| !checkpoint.logits().is_empty());
    Some(all)
}

#[test]
fn golden_logits() {
    let Some(checkpoints) = checkpoints() else {
        return;
    };
    let mut n_compared = 0;
    for checkpoint in checkpoints {
        let name = &checkpoint.name;
        let model = load(&checkpoint.converted("f32"));
        for (n_tokens, path) in checkpoint.logits() {
            let ids = &checkpoint.token_ids[..n_tokens];
            let found = logits(&model, ids, &options(CacheTypes::F32, n_tokens, 512));
            let difference = largest_difference(&found, &read_npy(path));
            println!("{name}: {n_tokens} positions, largest difference {difference:e}");
            assert!(
                difference <= 1e-4,
                "{name}: largest difference {difference:e}"
            );
            n_compared += 1;
        }
    }
    compared(n_compared, "logits of models");
}

#[test]
fn one_by_one_equals_batched_bit_for_bit() {
    let Some(checkpoints) = checkpoints() else {
        return;
    };
    for checkpoint in checkpoints {
        let name = &checkpoint.name;
        for (file, cache) in [
            ("f32", CacheTypes::F16),
            ("q8_0", CacheTypes::F16),
            ("f32", CacheTypes::F32),
        ] {
            let path = checkpoint.converted(file);
            if !path.exists() {
                continue;
            }
            let model = load(&path);
            assert_batches_change_nothing(&model, &checkpoint.token_ids, cache, name);
        }
    }
}

fn assert_batches_change_nothing(model: &Arc<Model>, ids: &[u32], cache: CacheTypes, name: &str) {
    let ids = [ids, ids].concat(); // more than one page
    let n = ids.len();
    let batched = logits(model, &ids, &options(cache, n, n));
    for n_ubatch in [1, 7, 64] {
        let parts = logits(model, &ids, &options(cache, n, n_ubatch));
        assert!(
            batched == parts,
            "{name} {cache:?}: parts of {n_ubatch} differ"
        );
    }
}

#[test]
fn every_type_of_cache_gives_the_same_bits_in_any_batches() {
    let Some(checkpoints) = checkpoints() else {
        return;
    };
    let (mut n_compared, mut n_refused) = (0, 0);
    for checkpoint in checkpoints {
        let model = load(&checkpoint.converted("f32"));
        let ids = &checkpoint.token_ids[..40];
        for ty in gristmill_quant::TensorType::for_cache() {
            let cache = CacheTypes {
                k: ty,
                ..CacheTypes::F16
            };
            let heads = model.network().layer_shapes()[0].key_dim;
            if !heads.is_multiple_of(ty.block_len()) {
                let error = Context::new(model.clone(), &options(cache, 64, 64)).err();
                let error = error.expect("heads that do not fill blocks are refused");
                assert!(matches!(
                    error,
                    EngineError::CacheHeads { what: "keys", .. }
                ));
                assert_eq!(
                    error.hint().unwrap(),
                    "give one of bf16, f16, f32 with -ctk"
                );
                n_refused += 1;
                continue;
            }
            assert_batches_change_nothing(&model, ids, cache, &checkpoint.name);
            let cache = CacheTypes { k: ty, v: ty };
            assert_batches_change_nothing(&model, ids, cache, &checkpoint.name);
            n_compared += 1;
        }
    }
    println!("{n_refused} refused");
    compared(n_compared, "types of caches");
}

#[test]
fn learned_positions_bound_the_context() {
    let Some(folder) = golden("convert/gpt2") else {
        return;
    };
    let model = load(&folder.join("gpt2-f32.gguf"));
    let error = Context::new(model.clone(), &options(CacheTypes::F16, 257, 512)).err();
    assert!(matches!(
        error,
        Some(EngineError::ContextLength {
            n_ctx: 257,
            max: 256
        })
    ));
    // A hint that is followed leads no longer than that.
    for (n_ctx, n_prompt, hint) in [
        (
            10,
            255,
            "give a longer context with -c, or a shorter prompt",
        ),
        (
            10,
            256,
            "give a shorter prompt: no context of this model is longer than 256",
        ),
        (
            256,
            256,
            "give a shorter prompt: no context of this model is longer than 256",
        ),
    ] {
        let session = Session::new(model.clone(), &options(CacheTypes::F16, n_ctx, 512)).unwrap();
        let asked = session.check(&vec![1; n_prompt], &GenerateOptions::default());
        assert_eq!(asked.unwrap_err().hint().unwrap(), hint);
    }
}

#[test]
fn neighbours_change_nothing() {
    let Some(folder) = golden("convert/llama") else {
        return;
    };
    let model = load(&folder.join("llama-f32.gguf"));
    let ids = &fed_ids(&folder)[..20];
    let alone = logits(&model, ids, &options(CacheTypes::F16, 256, 512));
    let mut context = Context::new(model.clone(), &options(CacheTypes::F16, 256, 512)).unwrap();
    let token = |sequence, id, output| BatchToken {
        id,
        sequence: SequenceId(sequence),
        output,
    };
    let others = [3, 9, 4, 1, 5];
    context
        .decode(&others.map(|id| token(7, id, false)))
        .unwrap();
    let batch: Vec<_> = ids
        .iter()
        .flat_map(|&id| [token(2, id, true), token(7, id / 2, false)])
        .collect();
    assert_eq!(context.decode(&batch).unwrap(), 20);
    let n_vocab = model.n_vocab();
    for row in 0..20 {
        assert!(
            context.logits(row) == &alone[row * n_vocab..(row + 1) * n_vocab],
            "row {row}"
        );
    }
    // a fork goes on as its origin does
    context.fork(SequenceId(2), SequenceId(3));
    context
        .decode(&[token(2, 5, true), token(3, 5, true)])
        .unwrap();
    assert!(context.logits(0) == context.logits(1));
    assert_eq!(context.logits(2), [0.0; 0]);
}

#[test]
fn a_failed_batch_changes_nothing() {
    let Some(folder) = golden("convert/llama") else {
        return;
    };
    let model = load(&folder.join("llama-f32.gguf"));
    let mut context = Context::new(model.clone(), &options(CacheTypes::F16, 10, 512)).unwrap();
    let token = |id| BatchToken {
        id,
        sequence: SequenceId(0),
        output: true,
    };
    context.decode(&[token(1); 8]).unwrap();
    let error = context.decode(&[token(1); 3]).unwrap_err();
    assert!(
        matches!(
            error,
            EngineError::ContextFull {
                n_past: 8,
                n_new: 3,
                n_ctx: 10,
                ..
            }
        ),
        "{error}"
    );
    let n_vocab = model.n_vocab() as u32;
    assert!(matches!(
        context.decode(&[token(n_vocab)]),
        Err(EngineError::TokenOutOfRange { .. })
    ));
    assert_eq!(context.past().n_past(SequenceId(0)), 8);
    context.decode(&[token(1); 2]).unwrap();
}

#[test]
fn a_session_computes_only_what_is_new() {
    let Some(folder) = golden("convert/qwen3") else {
        return;
    };
    let model = load(&folder.join("qwen3-f32.gguf"));
    let ids = &fed_ids(&folder)[..30];
    let options = options(CacheTypes::F16, 64, 8);
    let mut session = Session::new(model.clone(), &options).unwrap();
    let mut parts = Vec::new();
    let mut go_on = |n_computed, n| {
        parts.push((n_computed, n));
        false
    };
    let first = session.predict(ids, &mut go_on).unwrap().unwrap();
    assert_eq!(first.n_computed, 30);
    let first = first.logits.to_vec();
    let mut other = ids.to_vec();
    other[20] = 3;
    assert_eq!(
        session
            .predict(&other, &mut go_on)
            .unwrap()
            .unwrap()
            .n_computed,
        10
    );
    let again = session.predict(ids, &mut go_on).unwrap().unwrap();
    assert_eq!(again.n_computed, 10);
    assert!(again.logits == first);
    assert_eq!(
        session
            .predict(ids, &mut go_on)
            .unwrap()
            .unwrap()
            .n_computed,
        1
    );
    assert_eq!(parts[..5], [(0, 30), (8, 30), (16, 30), (24, 30), (30, 30)]);
    session.clear();
    assert!(session.predict(ids, &mut |_, _| true).unwrap().is_none());
    assert_eq!(session.tokens().len(), 8);
}
