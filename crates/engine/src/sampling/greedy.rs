//! The best token.

use crate::error::EngineError;

const LANES: usize = 16;

/// The id of the largest logit, the lowest one if several are equal. Two passes without a sort: the first
/// finds the largest value and whether any is not a number, the second its place.
///
/// Errors: a logit that is not a number or positive infinity, all logits negative infinity, or none at all.
pub fn best(logits: &[f32]) -> Result<u32, EngineError> {
    let mut max = [f32::NEG_INFINITY; LANES];
    let mut bad = [false; LANES];
    let chunks = logits.chunks_exact(LANES);
    let tail = chunks.remainder();
    for chunk in chunks {
        for lane in 0..LANES {
            let value = chunk[lane];
            bad[lane] |= value.is_nan();
            max[lane] = if value > max[lane] { value } else { max[lane] };
        }
    }
    let mut best = max.into_iter().fold(f32::NEG_INFINITY, f32::max);
    let mut is_bad = bad.into_iter().any(|bad| bad);
    for &value in tail {
        is_bad |= value.is_nan();
        best = best.max(value);
    }
    if is_bad || best == f32::INFINITY {
        let n_nan = logits.iter().filter(|value| value.is_nan()).count();
        let n_infinite = logits
            .iter()
            .filter(|&&value| value == f32::INFINITY)
            .count();
        return Err(EngineError::BadLogits {
            n_nan,
            n_infinite,
            n_vocab: logits.len(),
        });
    }
    if best == f32::NEG_INFINITY {
        return Err(EngineError::NoCandidates);
    }
    let place = logits.iter().position(|&value| value == best);
    place.map(|id| id as u32).ok_or(EngineError::NoCandidates)
}
