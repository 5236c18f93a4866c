//! Activations as products read them: rounded to 8 bits as the type of the weights demands.

use gristmill_quant::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};

use super::wide;

/// How columns are rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Rounding {
    /// Not at all.
    #[default]
    F32,
    /// To 16-bit floats.
    F16,
    /// To bfloat16.
    Bf16,
    /// To bytes under a 16-bit scale per 32 elements (Q8_0), with 16-bit sums (Q8_1).
    Per32,
    /// To bytes under an f32 scale per 256 elements (Q8_K).
    Per256,
    /// As [`Per256`](Self::Per256), where columns that make a whole group of four are rounded by another function.
    Per256InFours,
}

/// 32 elements as Q8_0 and Q8_1 store them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounded32 {
    pub codes: [i8; 32],
    /// The 16-bit scale.
    pub scale: f32,
    /// The 16-bit sum of the elements (Q8_1).
    pub sum: f32,
}

/// 256 elements as Q8_K stores them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounded256 {
    pub codes: [i8; 256],
    pub scale: f32,
    /// Sums of 16 codes each.
    pub sums: [i16; 16],
}

/// f32 columns of `n` elements in the form that products of one kind read; keeps its allocations between uses.
#[derive(Debug, Default)]
pub struct Columns {
    pub(super) rounding: Rounding,
    pub(super) n: usize,
    pub(super) n_columns: usize,
    floats: Vec<f32>,
    per_32: Vec<Rounded32>,
    per_256: Vec<Rounded256>,
}

impl Columns {
    /// Elements of a column.
    pub fn n(&self) -> usize {
        self.n
    }

    pub(super) fn floats(&self, column: usize) -> &[f32] {
        &self.floats[column * self.n..][..self.n]
    }

    pub(super) fn per_32(&self, column: usize) -> &[Rounded32] {
        let n_blocks = self.n / 32;
        &self.per_32[column * n_blocks..][..n_blocks]
    }

    pub(super) fn per_256(&self, column: usize) -> &[Rounded256] {
        let n_blocks = self.n / 256;
        &self.per_256[column * n_blocks..][..n_blocks]
    }

    /// Whether a column belongs to a whole group of four: these take another kernel where the weights are repacked.
    #[inline(always)]
    pub(super) fn is_in_four(&self, column: usize) -> bool {
        column < self.n_columns - self.n_columns % 4
    }

    /// Takes the columns `x`, a multiple of `n` elements.
    pub(super) fn set(&mut self, rounding: Rounding, x: &[f32], n: usize) {
        (self.rounding, self.n) = (rounding, n);
        self.n_columns = x.len().checked_div(n).unwrap_or(0);
        self.floats.clear();
        self.per_32.clear();
        self.per_256.clear();
        match rounding {
            Rounding::F32 => self.floats.extend_from_slice(x),
            Rounding::F16 => self
                .floats
                .extend(x.iter().map(|&x| f16_to_f32(f32_to_f16(x)))),
            Rounding::Bf16 => self
                .floats
                .extend(x.iter().map(|&x| bf16_to_f32(f32_to_bf16(x)))),
            Rounding::Per32 => round_per_32(x, &mut self.per_32),
            Rounding::Per256 | Rounding::Per256InFours => {
                for (column, x) in x.chunks_exact(n.max(1)).enumerate() {
                    let in_four = rounding == Rounding::Per256InFours && self.is_in_four(column);
                    round_per_256(x, in_four, &mut self.per_256);
                }
            }
        }
    }
}

wide! {
    fn round_per_32(x: &[f32], out: &mut Vec<Rounded32>) {
        out.extend(x.as_chunks().0.iter().map(round_32));
    }

    fn round_per_256(x: &[f32], in_four: bool, out: &mut Vec<Rounded256>) {
        out.extend(x.as_chunks().0.iter().map(|x| round_256(x, in_four)));
    }
}

#[inline(always)]
fn round_32(x: &[f32; 32]) -> Rounded32 {
    let largest = largest_magnitude(x);
    let scale = largest / 127.0;
    let inverse = if largest == 0.0 { 0.0 } else { 127.0 / largest };
    let mut codes = [0; 32];
    let mut sum = 0;
    for (code, x) in codes.iter_mut().zip(x) {
        let rounded = (x * inverse).round_ties_even() as i32;
        *code = rounded as i8;
        sum += rounded;
    }
    Rounded32 {
        codes,
        scale: f16_to_f32(f32_to_f16(scale)),
        sum: f16_to_f32(f32_to_f16(scale * sum as f32)),
    }
}

/// The element of the largest magnitude gets the code -127, or 127 where it counts as negative: the first such element
/// decides, and in a group of four any positive one.
#[inline(always)]
fn round_256(x: &[f32; 256], in_four: bool) -> Rounded256 {
    let largest = largest_magnitude(x);
    if largest == 0.0 {
        return Rounded256 {
            codes: [0; 256],
            scale: 0.0,
            sums: [0; 16],
        };
    }
    let is_positive = if in_four {
        x.contains(&largest)
    } else {
        x.iter().find(|x| x.abs() == largest) == Some(&largest)
    };
    let inverse = if is_positive { -127.0 } else { 127.0 } / largest;
    let mut codes = [0; 256];
    for (code, x) in codes.iter_mut().zip(x) {
        *code = (x * inverse).round_ties_even() as i8;
    }
    let mut sums = [0; 16];
    for (sum, codes) in sums.iter_mut().zip(codes.as_chunks::<16>().0) {
        *sum = codes.iter().map(|&code| i16::from(code)).sum();
    }
    Rounded256 {
        codes,
        scale: 1.0 / inverse,
        sums,
    }
}

#[inline(always)]
fn largest_magnitude(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |largest: f32, x| largest.max(x.abs()))
}
