//! From blocks to rows: what every type shares once it says what one block means.

use bytemuck::Pod;

use crate::lanes::{Lanes, Plain};

/// A block of some type: a fixed run of elements stored together.
pub trait Block: Pod {
    /// Elements per block.
    const LEN: usize;

    /// Writes the block's values; `out` has `LEN` elements.
    fn decode(&self, out: &mut [f32]);

    /// No NaN and no infinity among the scales.
    fn is_finite(&self) -> bool;
}

/// A block type that values can be turned into.
pub trait Encode: Block {
    /// Whether the search can do nothing without an importance matrix.
    const NEEDS_IMPORTANCE: bool = false;
    /// Whether an importance matrix changes what comes out.
    const TAKES_IMPORTANCE: bool = true;

    /// Encodes one row. `x` has `blocks.len() * LEN` elements, `importance` as many where it is given: always, for a
    /// type that [needs](Self::NEEDS_IMPORTANCE) it.
    fn encode_row<L: Lanes>(x: &[f32], importance: Option<&[f32]>, blocks: &mut [Self]);
}

/// A block type that multiplies with an activation block of the same length, or several shorter ones.
pub(crate) trait Dot: Block {
    /// The activations of one block.
    type With: Pod;

    /// Sum of products of the two blocks' values.
    fn dot(&self, with: &Self::With) -> f64;
}

/// The functions of one type. Lengths have been checked by the caller ([`crate::TensorType`]).
pub(crate) struct Codec {
    pub decode: DecodeRows,
    pub encode: Option<EncodeRows>,
    /// Whether `encode` can do nothing without an importance matrix.
    pub needs_importance: bool,
    /// Whether `encode` does anything with one.
    pub takes_importance: bool,
    pub dot: Option<DotRows>,
    /// Index of the first block with a non-finite scale.
    pub first_non_finite: fn(&[u8]) -> Option<usize>,
}

/// `(weights, activations)`.
pub(crate) type DotRows = fn(&[u8], &[u8]) -> f32;

/// `(blocks, out)`.
pub type DecodeRows = fn(&[u8], &mut [f32]);

/// `(x, row_len, importance of one row, out)`.
pub type EncodeRows = fn(&[f32], usize, Option<&[f32]>, &mut [u8]);

impl Codec {
    /// Decode only.
    pub const fn of<B: Block>() -> Self {
        Codec {
            decode: decode_blocks::<B>,
            encode: None,
            needs_importance: false,
            takes_importance: false,
            dot: None,
            first_non_finite: first_non_finite::<B>,
        }
    }

    /// With all that weights need.
    pub const fn full<B: Encode + Dot>() -> Self {
        Self::of::<B>().with_encode::<B>().with_dot::<B>()
    }

    pub const fn with_encode<B: Encode>(mut self) -> Self {
        self.encode = Some(encode_rows::<Plain, B>);
        self.needs_importance = B::NEEDS_IMPORTANCE;
        self.takes_importance = B::TAKES_IMPORTANCE;
        self
    }

    pub const fn with_dot<B: Dot>(mut self) -> Self {
        self.dot = Some(dot_blocks::<B>);
        self
    }
}

/// Decodes blocks one after the other: what a kernel compiles for its own instruction set. The values are the same for each.
///
/// # Panics
/// Unless `bytes` holds whole blocks.
#[inline(always)]
pub fn decode_blocks<B: Block>(bytes: &[u8], out: &mut [f32]) {
    let blocks: &[B] = bytemuck::cast_slice(bytes);
    for (block, out) in blocks.iter().zip(out.chunks_exact_mut(B::LEN)) {
        block.decode(out);
    }
}

/// Encodes rows of `row_len` elements with the searches on lanes of type `L`: what a kernel compiles for its own
/// instruction set. The bytes are the same for every `L`.
///
/// # Panics
/// Unless `x` and `out` hold the same number of whole rows, and `importance` one row.
#[inline(always)]
pub fn encode_rows<L: Lanes, B: Encode>(
    x: &[f32],
    row_len: usize,
    importance: Option<&[f32]>,
    out: &mut [u8],
) {
    let blocks: &mut [B] = bytemuck::cast_slice_mut(out);
    let blocks_per_row = row_len / B::LEN;
    for (row, blocks) in x
        .chunks_exact(row_len)
        .zip(blocks.chunks_exact_mut(blocks_per_row))
    {
        B::encode_row::<L>(row, importance, blocks);
    }
}

/// Accumulates in f64 so that the result is independent of the order that a kernel chooses, up to its own rounding.
fn dot_blocks<B: Dot>(x: &[u8], y: &[u8]) -> f32 {
    let x: &[B] = bytemuck::cast_slice(x);
    let y: &[B::With] = bytemuck::cast_slice(y);
    x.iter().zip(y).map(|(x, y)| x.dot(y)).sum::<f64>() as f32
}

fn first_non_finite<B: Block>(bytes: &[u8]) -> Option<usize> {
    let blocks: &[B] = bytemuck::cast_slice(bytes);
    blocks.iter().position(|block| !block.is_finite())
}

/// Sum of products of two runs of small integers; fits as long as `len * max|a| * max|b|` does.
#[inline]
pub(crate) fn dot_i32(a: impl Iterator<Item = i32>, b: &[i8]) -> i32 {
    a.zip(b).map(|(a, &b)| a * i32::from(b)).sum()
}
