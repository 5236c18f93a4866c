//! Blocks of grid points: indices into tables of four or eight elements, with signs apart.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use gristmill_quant::block::Half;
use gristmill_quant::encoding::Block;

use crate::x86::panel::{BlockRows, Coarse, Fine, Group, ROWS, Unpack, groups_of};
use crate::x86::unpack::{store_codes, transpose_registers};

/// A block of eight parts of 32 elements.
pub(crate) trait GridBlock: Block {
    /// What a part of eight rows becomes.
    type Group: Group + Codes + 'static;
    /// What is added to values to make them codes.
    const BASE: u8;

    /// The elements of part `j`.
    fn part(&self, j: usize) -> Part;

    /// Sets the scales of row `lane` in the groups of a block.
    fn set_scales(&self, lane: usize, groups: &mut [Self::Group; 8]);
}

/// 32 elements, a byte each.
pub(crate) struct Part {
    /// Before they get their signs.
    pub values: [u64; 4],
    /// All bits set in the bytes of negative elements.
    pub negative: [u64; 4],
}

/// Groups that keep 32 codes per row.
pub(crate) trait Codes {
    fn codes(&mut self) -> &mut [[u8; 32]; 8];
}

impl<const DEPTH: usize, const OFFSET: i16, const MIN: bool> Codes for Coarse<DEPTH, OFFSET, MIN> {
    fn codes(&mut self) -> &mut [[u8; 32]; 8] {
        &mut self.codes
    }
}

impl<const DEPTH: usize, const MIN: bool> Codes for Fine<DEPTH, MIN> {
    fn codes(&mut self) -> &mut [[u8; 32]; 8] {
        &mut self.codes
    }
}

/// Eight rows of blocks `B`.
pub(crate) struct GridRows<B>(PhantomData<B>);

impl<B: GridBlock> Unpack for GridRows<B> {
    type Block = B;
    type Group = B::Group;

    #[inline(always)]
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group) {
        // SAFETY: the rows point to blocks, which have alignment 1; the caller has the instruction set and room for the
        // groups.
        unsafe {
            let groups = groups_of::<Self, 8>(out);
            let blocks: [&B; ROWS] = rows.map(|row| &*row.cast());
            for j in 0..8 {
                let mut parts = [_mm256_setzero_si256(); ROWS];
                for lane in 0..ROWS {
                    parts[lane] = codes::<B>(blocks[lane].part(j));
                }
                let (codes, out) = (transpose_registers(&parts), groups[j].codes());
                for k in 0..8 {
                    store_codes(&mut out[k], codes[k]);
                }
            }
            for lane in 0..ROWS {
                blocks[lane].set_scales(lane, groups);
            }
        }
    }
}

#[inline(always)]
unsafe fn codes<B: GridBlock>(part: Part) -> __m256i {
    // SAFETY: registers only.
    unsafe {
        let (values, negative) = (register(&part.values), register(&part.negative));
        let signed = _mm256_sub_epi8(_mm256_xor_si256(values, negative), negative);
        _mm256_add_epi8(signed, _mm256_set1_epi8(B::BASE as i8))
    }
}

#[inline(always)]
unsafe fn register(x: &[u64; 4]) -> __m256i {
    // SAFETY: registers only.
    unsafe { _mm256_setr_epi64x(x[0] as i64, x[1] as i64, x[2] as i64, x[3] as i64) }
}

/// Integer scales of the halves of one group, whose codes are `offset` above their values.
#[inline(always)]
pub(crate) fn set_half_scales<const DEPTH: usize>(
    group: &mut Fine<DEPTH, false>,
    lane: usize,
    scales: [i16; 2],
    offset: i16,
) {
    for (half, scale) in scales.into_iter().enumerate() {
        group.scales[half][2 * lane..][..2].fill(scale);
        group.shifts[2 * lane + half] = scale * offset;
    }
}

/// Odd scales `(2l + 1) / 8` of the halves of all groups, a byte with two `l` of four bits for each group.
#[inline(always)]
pub(crate) fn set_odd_scales(
    groups: &mut [Fine<1, false>; 8],
    lane: usize,
    d: Half,
    scales: [u8; 8],
    offset: u8,
) {
    for (group, scales) in groups.iter_mut().zip(scales) {
        let scales = [scales & 15, scales >> 4].map(|scale| 2 * i16::from(scale) + 1);
        set_half_scales(group, lane, scales, offset.into());
        group.d[lane] = d.to_f32() * 0.125;
    }
}

/// `bits` apart: all bits of byte i set where bit i is set.
#[inline(always)]
pub(crate) fn negative(bits: u8) -> u64 {
    NEGATIVE[usize::from(bits)]
}

/// The same for a word of seven bits whose eighth makes their number even.
#[inline(always)]
pub(crate) fn even_negative(word: u32) -> u64 {
    EVEN_NEGATIVE[word as usize % 128]
}

static NEGATIVE: [u64; 256] = {
    let (mut table, mut bits) = ([0; 256], 0);
    while bits < 256 {
        table[bits] = spread(bits as u8);
        bits += 1;
    }
    table
};

static EVEN_NEGATIVE: [u64; 128] = {
    let (mut table, mut word) = ([0; 128], 0u8);
    while word < 128 {
        table[word as usize] = spread(word | (word.count_ones() as u8 % 2) << 7);
        word += 1;
    }
    table
};

const fn spread(bits: u8) -> u64 {
    let (mut mask, mut i) = (0, 0);
    while i < 8 {
        mask |= ((bits as u64 >> i & 1) * 0xff) << (8 * i);
        i += 1;
    }
    mask
}
