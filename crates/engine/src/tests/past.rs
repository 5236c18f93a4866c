//! Windows, forks and shifts of whole models.

use super::*;

/// The logits of all tokens, in parts, on a context of its own.
fn rows(model: &Arc<Model>, ids: &[u32], options: &LoadOptions) -> (Vec<f32>, u64) {
    let mut context = Context::new(model.clone(), options).unwrap();
    let mut rows = Vec::new();
    for part in ids.chunks(context.n_ubatch()) {
        let batch: Vec<_> = part.iter().map(|&id| token(0, id)).collect();
        for row in 0..context.decode(&batch).unwrap() {
            rows.extend_from_slice(context.logits(row));
        }
    }
    (rows, context.cache_bytes())
}

fn token(sequence: u32, id: u32) -> BatchToken {
    BatchToken {
        id,
        sequence: SequenceId(sequence),
        output: true,
    }
}

/// Models some layers of which have a window, with tokens for more pages than their windows keep.
pub(super) fn windowed() -> Vec<(String, Arc<Model>, Vec<u32>)> {
    let checkpoints = checkpoints().unwrap_or_default();
    let models = checkpoints.into_iter().map(|checkpoint| {
        let model = load(&checkpoint.converted("f32"));
        let n = model.hyperparameters().n_context_train.min(420);
        let ids = checkpoint.token_ids.iter().cycle().take(n).copied();
        (checkpoint.name, model, ids.collect())
    });
    models
        .filter(|(_, model, _)| {
            let network = model.network();
            network
                .layer_shapes()
                .iter()
                .any(|layer| layer.window.is_some())
        })
        .collect()
}

#[test]
fn a_windows_cache_gives_the_bits_of_a_whole_one() {
    let mut n_compared = 0;
    for (name, model, ids) in windowed() {
        let kept = LoadOptions {
            keeps_all: true,
            ..options(CacheTypes::F16, ids.len(), 64)
        };
        let (expected, all_bytes) = rows(&model, &ids, &kept);
        for n_ubatch in [1, 7, 64] {
            let options = options(CacheTypes::F16, ids.len(), n_ubatch);
            let (found, n_bytes) = rows(&model, &ids, &options);
            assert!(found == expected, "{name}: parts of {n_ubatch} differ");
            assert!(n_bytes < all_bytes, "{name}: {n_bytes} {all_bytes}");
        }
        n_compared += 1;
    }
    compared(n_compared, "models with windows");
}

/// Two that go on in turns, beside a third that begins as a copy of one: each as if it were alone.
#[test]
fn neighbours_change_no_bits_behind_windows() {
    for (name, model, ids) in windowed() {
        let n = ids.len() / 2;
        let other: Vec<u32> = ids.iter().rev().copied().collect();
        let alone = |ids: &[u32]| rows(&model, ids, &options(CacheTypes::F16, n, 64)).0;
        let forked = [&ids[..100], &other[..n - 100]].concat();
        let expected = [&ids[..n], &other[..n], &forked].map(alone);
        let options = LoadOptions {
            n_sequences: 3,
            ..options(CacheTypes::F16, 3 * n + 3 * PAGE_LEN, 5)
        };
        let mut context = Context::new(model.clone(), &options).unwrap();
        let n_vocab = model.n_vocab();
        for position in 0..n {
            if position == 100 {
                context.fork(SequenceId(0), SequenceId(2));
            }
            let mut batch = vec![token(0, ids[position]), token(1, other[position])];
            if position >= 100 {
                batch.push(token(2, forked[position]));
            }
            for row in 0..context.decode(&batch).unwrap() {
                let expected = &expected[row][position * n_vocab..][..n_vocab];
                assert!(
                    context.logits(row) == expected,
                    "{name}: {row} at {position}"
                );
            }
        }
    }
}

/// What a window has lost is computed again, and nothing else.
#[test]
fn a_session_takes_back_as_far_as_windows_reach() {
    for (name, model, ids) in windowed() {
        let n = ids.len();
        let options = options(CacheTypes::F16, n, 16);
        let mut session = Session::new(model.clone(), &options).unwrap();
        let mut predict = |ids: &[u32]| {
            let prediction = session.predict(ids, &mut |_, _| false).unwrap().unwrap();
            (prediction.logits.to_vec(), prediction.n_computed)
        };
        let (short, _) = predict(&ids[..n - 300]);
        let (whole, n_computed) = predict(&ids);
        assert_eq!(n_computed, 300, "{name}");
        let mut changed = ids.clone();
        changed[n - 3] ^= 1;
        assert_eq!(predict(&changed).1, 3, "{name}");
        assert_eq!(predict(&ids), (whole.clone(), 3), "{name}");
        // Behind the window: from the start again.
        assert_eq!(predict(&ids[..n - 300]), (short, n - 300), "{name}");
        assert_eq!(predict(&ids), (whole, 300), "{name}");
    }
}

/// In the first layer a key depends on nothing but its token and its position: behind a shift it is the key of the new place.
#[test]
fn keys_turn_to_their_new_places() {
    let Some(checkpoints) = checkpoints() else {
        return;
    };
    let mut n_compared = 0;
    for checkpoint in checkpoints {
        let name = &checkpoint.name;
        let model = load(&checkpoint.converted("f32"));
        let ids = &checkpoint.token_ids[..40];
        let options = options(CacheTypes::F32, 64, 64);
        let first_keys = |context: &Context| {
            let state = context.past().save(SequenceId(0)).unwrap();
            let shape = model.network().layer_shapes()[0];
            let n = shape.key_dim * shape.n_head_kv * PAGE_LEN;
            let bytes = state[8..].as_chunks().0.iter().take(n).copied();
            bytes.map(f32::from_le_bytes).collect::<Vec<f32>>()
        };
        let prefilled = |ids: &[u32]| {
            let mut context = Context::new(model.clone(), &options).unwrap();
            let batch: Vec<_> = ids.iter().map(|&id| token(0, id)).collect();
            context.decode(&batch).unwrap();
            context
        };
        let mut context = prefilled(ids);
        let reached = context.past_mut().remove(SequenceId(0), 3..14).unwrap();
        if model.hyperparameters().max_positions().is_some() {
            assert_eq!(reached, 3, "{name}: a learned position is in every key");
            continue;
        }
        assert_eq!(reached, 29, "{name}");
        let found = first_keys(&context);
        let expected = first_keys(&prefilled(&[&ids[..3], &ids[14..]].concat()));
        let difference = largest_difference(&found, &expected);
        assert!(difference < 2e-5, "{name}: {difference:e}");
        context.decode(&[token(0, 5)]).unwrap();
        n_compared += 1;
    }
    compared(n_compared, "models whose keys turn");
}

/// Case B69: with context shift on, the tokens to keep are kept and half of the rest goes; without it the answer ends.
#[test]
fn case_b69_a_full_context_is_shifted_only_when_asked_for() {
    let Some(folder) = golden("convert/llama") else {
        return;
    };
    let model = load(&folder.join("llama-f32.gguf"));
    let ids = &fed_ids(&folder)[..20];
    let answer_to = |ids: &[u32], context_shift, limit| {
        let mut session = Session::new(model.clone(), &options(CacheTypes::F16, 64, 16)).unwrap();
        let generate = GenerateOptions {
            limit,
            context_shift,
            ignore_eos: true,
            sampling: sampling::SamplingOptions::greedy(),
            ..GenerateOptions::default()
        };
        let mut n_computed = Vec::new();
        let mut listener = Listener {
            on_step: &mut |_| {},
            on_prompt: &mut |done, _| n_computed.push(done),
            on_text: &mut |_| (),
            interrupted: &|| false,
        };
        let answer = session.generate(ids, &generate, &mut listener);
        answer.map(|answer| (answer, session.tokens().to_vec()))
    };
    let answer = |context_shift, limit| answer_to(ids, context_shift, limit);
    let (unshifted, _) = answer(None, Limit::Endless).unwrap();
    assert_eq!(unshifted.reason, StopReason::ContextFull);
    assert_eq!(unshifted.ids.len(), 44);
    let (full, _) = answer(Some(Keep::Tokens(0)), Limit::Context).unwrap();
    assert_eq!(
        (full.reason, full.ids),
        (StopReason::ContextFull, unshifted.ids.clone())
    );

    let has_bos = usize::from(model.tokenizer().bos() == Some(ids[0]));
    for (keep, n_keep) in [
        (Keep::Tokens(0), has_bos),
        (Keep::Tokens(9), 9 + has_bos),
        (Keep::Prompt, 20),
        // Of a shorter prompt all.
        (Keep::Tokens(70), 20),
    ] {
        let (shifted, tokens) = answer(Some(keep), Limit::Tokens(60)).unwrap();
        assert_eq!(shifted.reason, StopReason::Limit);
        assert_eq!(shifted.ids.len(), 60);
        assert_eq!(shifted.ids[..44], unshifted.ids);
        assert_eq!(shifted.timings.n_decoded, 59, "nothing is computed twice");
        let n_removed = (63 - n_keep) / 2;
        let all = [ids, &shifted.ids].concat();
        let expected = [&all[..n_keep], &all[n_keep + n_removed..79]].concat();
        assert_eq!(tokens, expected, "{keep:?}");
    }
    // The same number is refused in whichever way it is said, unless the answer ends before anything would have to go.
    let long: Vec<u32> = ids.iter().copied().cycle().take(62).collect();
    for keep in [Keep::Prompt, Keep::Tokens(62), Keep::Tokens(70)] {
        for limit in [Limit::Endless, Limit::Tokens(3)] {
            let error = answer_to(&long, Some(keep), limit).unwrap_err();
            assert_eq!(
                (error.to_string(), error.hint().unwrap()),
                (
                    "62 tokens to keep leave no room to shift a context of 64".into(),
                    "keep fewer than 62 tokens with --keep, BOS included, or give a longer context with -c".into()
                )
            );
        }
        let (short, _) = answer_to(&long, Some(keep), Limit::Tokens(2)).unwrap();
        assert_eq!((short.reason, short.ids.len()), (StopReason::Limit, 2));
        let (full, _) = answer_to(&long, Some(keep), Limit::Context).unwrap();
        assert_eq!((full.reason, full.ids.len()), (StopReason::ContextFull, 2));
    }
    let (shifted, _) = answer_to(&long[..61], Some(Keep::Prompt), Limit::Tokens(9)).unwrap();
    assert_eq!((shifted.reason, shifted.ids.len()), (StopReason::Limit, 9));
    assert!(Keep::from_number(-2).is_err());
}
