//! Vectors of the golden encoder beside the authors' own, and of causal models by hand.

use gristmill_model::Pooling;

use super::*;

fn embedder(model: &Arc<Model>, pooling: Pooling, n_ctx: usize) -> Embedder {
    let options = EmbedOptions {
        pooling: Some(pooling),
        causal: None,
    };
    Embedder::new(
        model.clone(),
        &super::options(CacheTypes::F32, n_ctx, 512),
        &options,
    )
    .unwrap()
}

fn assert_alike(found: &[f32], expected: &[f32], what: &str) {
    let cosine = cosine(found, expected);
    let difference = largest_difference(found, expected);
    println!("{what}: cosine {cosine}, largest difference {difference:e}");
    assert!(cosine >= 0.999_999, "{what}: {cosine}");
    assert!(difference <= 1e-4, "{what}: {difference:e}");
}

#[test]
fn golden_vectors() {
    let Some(folder) = golden("convert/bert") else {
        return;
    };
    let model = load(&folder.join("bert-f32.gguf"));
    let ids = fed_ids(&folder);
    let expected = |name: &str| read_npy(folder.join(name));
    let vectors = |pooling| {
        let mut embedder = embedder(&model, pooling, 128);
        let mut vectors = embedder.embed(std::slice::from_ref(&ids), 512).unwrap();
        vectors.remove(0)
    };
    let rows = vectors(Pooling::None);
    assert_eq!(rows.len(), ids.len());
    for (row, expected) in rows.iter().zip(expected("hidden.npy").chunks_exact(64)) {
        assert_alike(row, expected, "hidden");
    }
    let mut mean = vectors(Pooling::Mean).remove(0);
    assert_alike(&mean, &expected("pooled_mean.npy"), "mean");
    normalize(&mut mean, 2);
    assert_alike(&mean, &expected("pooled_mean_normalized.npy"), "normalized");
    let first = vectors(Pooling::Cls).remove(0);
    assert_alike(&first, &expected("pooled_cls.npy"), "cls");
    assert!(first == rows[0]);
    assert!(vectors(Pooling::Last)[0] == rows[ids.len() - 1]);
    // The file says mean.
    let own = Embedder::new(
        model,
        &super::options(CacheTypes::F32, 128, 1),
        &EmbedOptions::default(),
    );
    assert_eq!(own.unwrap().pooling(), Pooling::Mean);
    compared(3 + ids.len(), "vectors");
}

/// Must-show: whole sequences in one batch and beside others give the same bits, whatever the threads.
#[test]
fn neighbours_of_a_text_change_nothing() {
    let Some(folder) = golden("convert") else {
        return;
    };
    for name in ["bert", "qwen3", "gemma3_text"] {
        let path = folder.join(name).join(format!("{name}-f32.gguf"));
        let model = load(&path);
        let ids = fed_ids(&folder.join(name));
        let texts: Vec<Vec<u32>> = [1, 40, 7, 23, 40, 3]
            .iter()
            .enumerate()
            .map(|(i, n)| ids[..*n].iter().map(|id| (id + i as u32) % 500).collect())
            .collect();
        for pooling in [Pooling::None, Pooling::Mean, Pooling::Last] {
            let together = embedder(&model, pooling, 128).embed(&texts, 512).unwrap();
            let in_two = embedder(&model, pooling, 128).embed(&texts, 60).unwrap();
            let mut alone = embedder(&model, pooling, 64);
            let alone: Vec<Vectors> = texts
                .iter()
                .map(|text| {
                    alone
                        .embed(std::slice::from_ref(text), 512)
                        .unwrap()
                        .remove(0)
                })
                .collect();
            assert!(together == alone, "{name} {pooling:?}");
            assert!(in_two == alone, "{name} {pooling:?}");
            let file = gguf::Model::open(&path).unwrap();
            let load = LoadOptions {
                n_threads: Some(1),
                ..LoadOptions::default()
            };
            let one_thread = Model::load(file, &load).unwrap();
            let one_thread = embedder(&one_thread, pooling, 128).embed(&texts, 512);
            assert!(one_thread.unwrap() == alone, "{name} {pooling:?}: threads");
        }
    }
}

/// A causal model's row is what its logits are made from, and a longer text than a batch is cut without a trace.
#[test]
fn a_causal_model_embeds_in_parts() {
    let Some(folder) = golden("convert/llama") else {
        return;
    };
    let model = load(&folder.join("llama-f32.gguf"));
    let ids = fed_ids(&folder);
    let last = |n_ubatch| {
        let options = EmbedOptions {
            pooling: Some(Pooling::Mean),
            causal: None,
        };
        let load = super::options(CacheTypes::F32, 64, n_ubatch);
        let mut embedder = Embedder::new(model.clone(), &load, &options).unwrap();
        embedder.embed(std::slice::from_ref(&ids), 64).unwrap()
    };
    assert!(last(512) == last(7));
}

/// Case B103: too long is an error with both numbers, and of several texts the one at fault is named.
#[test]
fn b103_a_text_that_is_too_long_is_named() {
    let Some(folder) = golden("convert/bert") else {
        return;
    };
    let model = load(&folder.join("bert-f32.gguf"));
    let mut embedder = embedder(&model, Pooling::Mean, 128);
    let error = embedder
        .embed(&[vec![2, 5, 3], vec![5; 129]], 512)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "text 1: it has 129 tokens, but at most 128 can be embedded"
    );
    assert_eq!(
        error.hint().unwrap(),
        "cut it off with --truncate, or split it: the model sees no more at once"
    );
    let error = embedder.embed(&[vec![900]], 512).unwrap_err();
    assert_eq!(
        error.to_string(),
        "text 0: token 900 does not exist: the vocabulary has 900 tokens"
    );
    // As long as the context, and after errors.
    assert_eq!(embedder.embed(&[vec![5; 128]], 8).unwrap()[0].len(), 1);
    let scores = EmbedOptions {
        pooling: Some(Pooling::Rank),
        causal: None,
    };
    let load = super::options(CacheTypes::F32, 128, 512);
    let error = Embedder::new(model, &load, &scores).err().unwrap();
    assert_eq!(
        error.to_string(),
        "the model has no classifier, so it gives no scores"
    );
}
