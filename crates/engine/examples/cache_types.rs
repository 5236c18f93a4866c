//! What the types of a KV cache cost: the KL divergence of the next token's distribution from that of an f16 cache, at every
//! position of a text: `cargo run --release -p gristmill-engine --example cache_types -- MODEL TEXT [tokens]`.

use std::path::Path;
use std::sync::Arc;

use gristmill_engine::{CacheTypes, EngineError, LoadOptions, Model, all_logits, raw_prompt};
use gristmill_quant::TensorType;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, text, rest @ ..] = arguments.as_slice() else {
        return Err("which model and which text?".into());
    };
    let n = rest.first().map_or(Ok(2000), |n| n.parse())?;
    let file = gristmill_gguf::Model::open(Path::new(path))?;
    let model = Model::load(file, &LoadOptions::default())?;
    let mut ids = raw_prompt(model.tokenizer(), &std::fs::read(text)?);
    ids.truncate(n);
    let base = log_probabilities(&model, &ids, CacheTypes::F16)?;
    let n_vocab = model.n_vocab();
    println!("| keys | values | bytes per token | mean KL | largest | same best token |");
    println!("|---|---|---|---|---|---|");
    let types = TensorType::for_cache().map(|ty| CacheTypes { k: ty, v: ty });
    let named = |name| TensorType::from_name(name).ok_or("no such type");
    let (eight, four) = (named("q8_0")?, named("q4_0")?);
    let mixed = [(eight, four), (four, eight)].map(|(k, v)| CacheTypes { k, v });
    for types in types.chain(mixed) {
        let found = log_probabilities(&model, &ids, types)?;
        let rows = base.chunks_exact(n_vocab).zip(found.chunks_exact(n_vocab));
        let (mut total, mut largest, mut same) = (0.0, 0f64, 0);
        for (base, found) in rows {
            let divergence = divergence(base, found);
            total += divergence;
            largest = largest.max(divergence);
            same += usize::from(best(base) == best(found));
        }
        println!(
            "| {} | {} | {} | {:.6} | {largest:.4} | {:.2}% |",
            types.k,
            types.v,
            types.bytes_per_position(&model.network().layer_shapes()),
            total / ids.len() as f64,
            100.0 * same as f64 / ids.len() as f64,
        );
    }
    Ok(())
}

/// Of every position, `[n_vocab, n_tokens]`.
fn log_probabilities(
    model: &Arc<Model>,
    ids: &[u32],
    cache: CacheTypes,
) -> Result<Vec<f32>, EngineError> {
    let options = LoadOptions {
        n_ctx: Some(ids.len()),
        cache,
        n_ubatch: 64,
        ..LoadOptions::default()
    };
    let mut rows = Vec::with_capacity(ids.len() * model.n_vocab());
    all_logits(model.clone(), ids, &options, |logits| {
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = logits.iter().map(|x| f64::from(x - largest).exp()).sum();
        let shift = f64::from(largest) + sum.ln();
        rows.extend(logits.iter().map(|&x| (f64::from(x) - shift) as f32));
        Ok::<_, EngineError>(())
    })?;
    Ok(rows)
}

fn divergence(base: &[f32], found: &[f32]) -> f64 {
    let pairs = base.iter().zip(found);
    pairs
        .map(|(&p, &q)| f64::from(p).exp() * (f64::from(p) - f64::from(q)))
        .sum()
}

fn best(row: &[f32]) -> Option<usize> {
    (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]))
}
