//! Every class of every architecture, as a small random model: what a sequence computes does not depend on how it is fed.

use super::{CacheTypes, all_logits, gguf};
use crate::{BatchToken, Context, LoadOptions, Model, SequenceId};
use gristmill_gguf::{TensorPlan, WriteOptions, Writer};
use gristmill_model::arch::Class;
use gristmill_model::{ARCHITECTURES, Slot, random_model_of};
use std::path::Path;
use std::sync::Arc;

/// Tokens of the random models.
const N_VOCAB: u32 = 96;

/// Writes the random model of a class, with a vocabulary of single characters.
fn write(class: &Class, path: &Path) {
    let model = random_model_of(class, 3).unwrap();
    let mut metadata = model.metadata;
    let token = |id: u32| char::from_u32(0x4e00 + id).map(String::from);
    let tokens: Vec<String> = (0..N_VOCAB).filter_map(token).collect();
    metadata.set("tokenizer.ggml.model", "gpt2");
    metadata.set("tokenizer.ggml.pre", "gpt-2");
    metadata.set("tokenizer.ggml.tokens", tokens);
    metadata.set("tokenizer.ggml.token_type", vec![1i32; N_VOCAB as usize]);
    metadata.set("tokenizer.ggml.merges", Vec::<String>::new());
    let plans: Vec<TensorPlan> = model
        .tensors
        .iter()
        .map(|tensor| TensorPlan {
            name: tensor.name.clone(),
            dims: tensor.dims.clone(),
            ty: gristmill_quant::F32,
        })
        .collect();
    let mut writer = Writer::create(path, &metadata, &plans, &WriteOptions::default()).unwrap();
    for tensor in &model.tensors {
        let bytes: Vec<u8> = tensor.values.iter().flat_map(|x| x.to_le_bytes()).collect();
        writer.write(&bytes).unwrap();
    }
    writer.finish().unwrap();
}

fn options(n_threads: usize, n_ubatch: usize) -> LoadOptions {
    LoadOptions {
        n_threads: Some(n_threads),
        n_ctx: Some(256),
        cache: CacheTypes::F16,
        n_ubatch,
        n_sequences: 2,
        ..LoadOptions::default()
    }
}

/// The logits of a sequence, fed in parts of these lengths while others are fed beside it, a token after each of its own.
fn beside_others(model: &Arc<Model>, ids: &[u32], parts: &[usize]) -> Vec<f32> {
    let mut context = Context::new(model.clone(), &options(1, 512)).unwrap();
    let token = |sequence, id, output| BatchToken {
        id,
        sequence: SequenceId(sequence),
        output,
    };
    context
        .decode(&[3, 9, 4].map(|id| token(7, id, false)))
        .unwrap();
    let mut rest = ids;
    let mut logits = Vec::new();
    for &n in parts.iter().cycle() {
        let (part, later) = rest.split_at(n.min(rest.len()));
        let own_and_other = |&id| [token(2, id, true), token(7, N_VOCAB - 1 - id, false)];
        let batch: Vec<BatchToken> = part.iter().flat_map(own_and_other).collect();
        for row in 0..context.decode(&batch).unwrap() {
            logits.extend_from_slice(context.logits(row));
        }
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    logits
}

#[test]
fn every_family_computes_the_same_bits_however_it_is_fed() {
    let folder = tempfile::tempdir().unwrap();
    // More than a page, and far beyond the window.
    let ids: Vec<u32> = (0..70u32).map(|n| n * n * 7 % 89 + n % 7).collect();
    // What gives no logits has tests of its own.
    let decoders = ARCHITECTURES.iter().filter(|known| known.has(Slot::Output));
    for class in decoders.flat_map(|known| known.classes) {
        let name = class.name;
        let path = folder.path().join(format!("{name}.gguf"));
        write(class, &path);
        let mut expected: Option<Vec<f32>> = None;
        for n_threads in [1, 2] {
            let file = gguf::Model::open(&path).unwrap();
            let model = Model::load(file, &options(n_threads, 512)).unwrap();
            for n_ubatch in [512, 1, 7, 64] {
                let mut logits = Vec::new();
                all_logits(model.clone(), &ids, &options(n_threads, n_ubatch), |row| {
                    logits.extend_from_slice(row);
                    Ok::<_, crate::EngineError>(())
                })
                .unwrap();
                assert_eq!(logits.len(), ids.len() * N_VOCAB as usize);
                assert!(logits.iter().all(|logit| logit.is_finite()), "{name}");
                let expected = expected.get_or_insert_with(|| logits.clone());
                assert!(
                    *expected == logits,
                    "{name}: {n_threads} threads, {n_ubatch} at once"
                );
            }
            let beside = beside_others(&model, &ids, &[5, 1, 23]);
            assert!(expected.as_ref() == Some(&beside), "{name}: beside others");
        }
    }
}
