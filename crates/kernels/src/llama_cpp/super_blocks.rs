//! Products with the types of 256 elements. Sums inside a block are whole numbers and exact; what rounds is how blocks
//! are scaled and added.

use bytemuck::Pod;
use gristmill_quant::block::{
    BlockIq4Xs, BlockQ2K, BlockQ3K, BlockQ4K, BlockQ5K, BlockQ6K, Half, NONLINEAR_LEVELS,
};

use super::columns::{Columns, Rounded256};
use super::product::{RowDot, nibbles, sums_of_four};
use super::{Lanes, add_scaled, sum_lanes};

/// Columns from which a product without repacked weights goes through tiles.
const TILED_FROM: usize = 8;

/// How a column alone takes the minima of a block.
#[derive(PartialEq, Eq)]
pub(super) enum Minima {
    None,
    /// Lane by lane, before the products.
    InLanes,
    /// As one sum beside the lanes.
    Apart,
}

/// A block of 256 elements: `(d * scale) * level - d_min * minimum`.
pub(super) trait SuperBlock: Pod {
    const MINIMA: Minima = Minima::None;
    /// What levels stand too high by.
    const OFFSET: i32 = 0;

    /// Levels of 32 elements.
    fn levels(&self, group: usize) -> [i8; 32];

    fn factors(&self) -> Factors;
}

/// What the levels of a block are scaled with: factors of 16 elements each and their own scales.
pub(super) struct Factors {
    d: f32,
    scales: [i32; 16],
    d_min: f32,
    minima: [i32; 16],
}

impl Factors {
    #[inline(always)]
    fn without_minima(d: Half, scales: [i32; 16]) -> Self {
        Self {
            d: d.to_f32(),
            scales,
            d_min: 0.0,
            minima: [0; 16],
        }
    }
}

/// A block as files hold it.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub(super) struct Plain<B>(B);

/// Four neighbours of each 32 elements in a lane.
#[inline(always)]
fn lanes_of<B: SuperBlock>(block: &B, scales: &[i32; 16], x: &Rounded256) -> [i32; 8] {
    let mut sums = [0; 8];
    for (group, codes) in x.codes.as_chunks().0.iter().enumerate() {
        let products = sums_of_four(&block.levels(group), codes);
        for (lane, (sum, product)) in sums.iter_mut().zip(products).enumerate() {
            *sum += scales[2 * group + lane / 4] * product;
        }
    }
    if B::OFFSET != 0 {
        let offsets = sums_of_codes(scales, x);
        sums.iter_mut()
            .zip(offsets)
            .for_each(|(sum, offset)| *sum -= B::OFFSET * offset);
    }
    sums
}

/// Factors of 16 elements times the sums of these, in pairs.
#[inline(always)]
fn sums_of_codes(factors: &[i32; 16], x: &Rounded256) -> [i32; 8] {
    std::array::from_fn(|lane| {
        let product = |i: usize| factors[i] * i32::from(x.sums[i]);
        product(2 * lane) + product(2 * lane + 1)
    })
}

impl<B: SuperBlock> RowDot for Plain<B> {
    #[inline(always)]
    fn dot(row: &[Self], columns: &Columns, column: usize) -> f32 {
        let blocks = row.iter().map(|Plain(block)| block);
        let blocks = blocks.zip(columns.per_256(column));
        if columns.n_columns < TILED_FROM {
            return dot_alone(blocks);
        }
        let mut all = 0.0f32;
        for (block, x) in blocks {
            let factors = block.factors();
            let sum: i32 = lanes_of(block, &factors.scales, x).iter().sum();
            let mut scaled = factors.d * sum as f32;
            if B::MINIMA != Minima::None {
                let sum: i32 = sums_of_codes(&factors.minima, x).iter().sum();
                scaled = (-factors.d_min).mul_add(sum as f32, scaled);
            }
            all = scaled.mul_add(x.scale, all);
        }
        all
    }
}

#[inline(always)]
fn dot_alone<'a, B: SuperBlock>(blocks: impl Iterator<Item = (&'a B, &'a Rounded256)>) -> f32 {
    let (mut lanes, mut apart) = (Lanes::default(), 0.0f32);
    for (block, x) in blocks {
        let factors = block.factors();
        let d_min = -x.scale * factors.d_min;
        let minima = sums_of_codes(&factors.minima, x);
        match B::MINIMA {
            Minima::None => {}
            Minima::InLanes => add_scaled(&mut lanes, d_min, &minima),
            Minima::Apart => {
                let sum: i32 = minima.iter().sum();
                apart = d_min.mul_add(sum as f32, apart);
            }
        }
        add_scaled(
            &mut lanes,
            x.scale * factors.d,
            &lanes_of(block, &factors.scales, x),
        );
    }
    sum_lanes(lanes) + apart
}

/// Levels of two bits.
#[inline(always)]
fn two_bits(qs: &[u8; 64], group: usize) -> [i8; 32] {
    qs.as_chunks::<32>().0[group / 4].map(|q| (q >> (2 * (group % 4)) & 3) as i8)
}

/// Levels of four bits, where 64 elements share 32 bytes.
#[inline(always)]
fn four_bits(qs: &[u8; 128], group: usize) -> [i8; 32] {
    qs.as_chunks::<32>().0[group / 2].map(|q| (q >> (4 * (group % 2)) & 15) as i8)
}

/// The 6-bit scales and minima of eight groups of 32 elements.
#[inline(always)]
fn six_bits(packed: &[u8; 12]) -> ([i32; 8], [i32; 8]) {
    let (mut scales, mut minima) = ([0; 8], [0; 8]);
    for j in 0..4 {
        let (a, b, c) = (packed[j], packed[j + 4], packed[j + 8]);
        scales[j] = i32::from(a & 63);
        minima[j] = i32::from(b & 63);
        scales[j + 4] = i32::from(c & 15 | (a >> 6) << 4);
        minima[j + 4] = i32::from(c >> 4 | (b >> 6) << 4);
    }
    (scales, minima)
}

impl SuperBlock for BlockQ2K {
    const MINIMA: Minima = Minima::InLanes;

    #[inline(always)]
    fn levels(&self, group: usize) -> [i8; 32] {
        two_bits(&self.qs, group)
    }

    #[inline(always)]
    fn factors(&self) -> Factors {
        Factors {
            d: self.d.to_f32(),
            scales: self.scales.map(|s| i32::from(s & 15)),
            d_min: self.dmin.to_f32(),
            minima: self.scales.map(|s| i32::from(s >> 4)),
        }
    }
}

impl SuperBlock for BlockQ3K {
    #[inline(always)]
    fn levels(&self, group: usize) -> [i8; 32] {
        let mut levels = two_bits(&self.qs, group);
        for (level, mask) in levels.iter_mut().zip(&self.hmask) {
            *level += (mask >> group & 1) as i8 * 4 - 4;
        }
        levels
    }

    #[inline(always)]
    fn factors(&self) -> Factors {
        let scales = std::array::from_fn(|j| {
            let low = self.scales[j % 8] >> (j / 8 * 4) & 15;
            let high = self.scales[8 + j % 4] >> (j / 4 * 2) & 3;
            i32::from(low | high << 4) - 32
        });
        Factors::without_minima(self.d, scales)
    }
}

impl SuperBlock for BlockQ5K {
    const MINIMA: Minima = Minima::Apart;

    #[inline(always)]
    fn levels(&self, group: usize) -> [i8; 32] {
        let mut levels = four_bits(&self.qs, group);
        for (level, bits) in levels.iter_mut().zip(&self.qh) {
            *level |= ((bits >> group & 1) << 4) as i8;
        }
        levels
    }

    #[inline(always)]
    fn factors(&self) -> Factors {
        let (scales, minima) = six_bits(&self.scales);
        Factors {
            d: self.d.to_f32(),
            scales: std::array::from_fn(|j| scales[j / 2]),
            d_min: self.dmin.to_f32(),
            minima: std::array::from_fn(|j| minima[j / 2]),
        }
    }
}

impl SuperBlock for BlockQ6K {
    const OFFSET: i32 = 32;

    #[inline(always)]
    fn levels(&self, group: usize) -> [i8; 32] {
        let (half, quarter) = (group / 4, group % 4);
        let low = &self.ql.as_chunks::<32>().0[2 * half + quarter % 2];
        let high = &self.qh.as_chunks::<32>().0[half];
        let mut levels = [0; 32];
        for (level, (low, high)) in levels.iter_mut().zip(low.iter().zip(high)) {
            *level = (low >> (quarter / 2 * 4) & 15 | (high >> (2 * quarter) & 3) << 4) as i8;
        }
        levels
    }

    #[inline(always)]
    fn factors(&self) -> Factors {
        Factors::without_minima(self.d, self.scales.map(i32::from))
    }
}

impl SuperBlock for BlockIq4Xs {
    #[inline(always)]
    fn levels(&self, group: usize) -> [i8; 32] {
        nibbles(&self.qs.as_chunks().0[group]).map(|q| NONLINEAR_LEVELS[q as usize])
    }

    #[inline(always)]
    fn factors(&self) -> Factors {
        let high = u16::from_le_bytes(self.scales_h);
        let scales = std::array::from_fn(|j| {
            let group = j / 2;
            let low = self.scales_l[group / 2] >> (group % 2 * 4) & 15;
            i32::from(low) + i32::from((high >> (2 * group) & 3) << 4) - 32
        });
        Factors::without_minima(self.d, scales)
    }
}

/// A block of a type whose weights are repacked: another kernel, with a chain of its own.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub(super) struct Repacked<B>(B);

impl RowDot for Repacked<BlockQ4K> {
    /// A column alone adds up whole blocks, columns in fours runs of 64 elements.
    #[inline(always)]
    fn dot(row: &[Self], columns: &Columns, column: usize) -> f32 {
        let in_four = columns.is_in_four(column);
        let (mut sum, mut minimum) = (0.0f32, 0.0f32);
        for (Repacked(block), x) in row.iter().zip(columns.per_256(column)) {
            let (d, d_min) = (block.d.to_f32() * x.scale, block.dmin.to_f32() * x.scale);
            let (products, minima) = sums_of_64(block, x);
            let mut add = |product: i32, minima: i32| {
                sum = (product as f32).mul_add(d, sum);
                minimum = (minima as f32).mul_add(d_min, minimum);
            };
            if in_four {
                for (&product, &minima) in products.iter().zip(&minima) {
                    add(product, minima);
                }
            } else {
                add(products.iter().sum(), minima.iter().sum());
            }
        }
        sum - minimum
    }
}

/// Scaled products and minima of 64 elements each.
#[inline(always)]
fn sums_of_64(block: &BlockQ4K, x: &Rounded256) -> ([i32; 4], [i32; 4]) {
    let (scales, minima) = six_bits(&block.scales);
    let (mut products, mut sums) = ([0; 4], [0; 4]);
    for (group, codes) in x.codes.as_chunks().0.iter().enumerate() {
        let levels = four_bits(&block.qs, group);
        let product: i32 = sums_of_four(&levels, codes).iter().sum();
        let sum = i32::from(x.sums[2 * group]) + i32::from(x.sums[2 * group + 1]);
        products[group / 2] += scales[group] * product;
        sums[group / 2] += minima[group] * sum;
    }
    (products, sums)
}
