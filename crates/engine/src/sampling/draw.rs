//! The draw at the end of the chain, and its random numbers.

use std::hash::{BuildHasher, Hasher};

use super::candidates::Candidates;
use crate::error::EngineError;

/// xoshiro256++ (Blackman and Vigna 2019), its state filled by SplitMix64 from the seed.
///
/// A seed gives the same numbers on every machine and in every version of this crate.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Starts the sequence of a seed.
    pub fn new(seed: u32) -> Self {
        Rng::filled(u64::from(seed))
    }

    /// Starts the sequence of a stage that draws, apart from those of other stages and of the draw at the end: were they
    /// the same, what is drawn would hang on what the stage did.
    pub fn of_stage(seed: u32, stage: &str) -> Self {
        // FNV-1a
        let hash = stage.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Rng::filled(hash ^ u64::from(seed))
    }

    fn filled(mut z: u64) -> Self {
        let state = std::array::from_fn(|_| {
            z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut x = z;
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^ (x >> 31)
        });
        Rng { state }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// The next number in [0, 1), from the upper 53 bits.
    pub fn next_unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// A seed nobody chose; never [`super::RANDOM_SEED`].
pub(super) fn fresh_seed() -> u32 {
    // the standard library keys each hasher state with random bits of the operating system
    let bits = std::hash::RandomState::new().build_hasher().finish() as u32;
    if bits == super::RANDOM_SEED { 0 } else { bits }
}

/// Draws one token by its probability among the candidates. One number is drawn at every step, also when
/// one candidate is left, so that step n always sees the n-th number of the seed.
pub(super) fn draw(candidates: &mut Candidates, rng: &mut Rng) -> Result<u32, EngineError> {
    let unit = rng.next_unit();
    let max = candidates.best().ok_or(EngineError::NoCandidates)?.logit;
    let weight = |logit: f32| f64::from((logit - max).exp());
    let total: f64 = candidates
        .items()
        .iter()
        .map(|candidate| weight(candidate.logit))
        .sum();
    let target = unit * total;
    let mut sum = 0.0;
    let mut last = None;
    for candidate in candidates.items() {
        let weight = weight(candidate.logit);
        if weight > 0.0 {
            sum += weight;
            last = Some(candidate.id);
            if sum > target {
                break;
            }
        }
    }
    last.ok_or(EngineError::NoCandidates)
}
