//! Products of quantized weights: eight rows side by side, one row per 32-bit lane.
//!
//! A block of eight rows is rearranged into [`Group`]s of 32 elements: code vector k holds elements 4k..4k + 4 of each row
//! in that row's lane. Four codes of an activation column, repeated in all lanes, then multiply with eight rows at a time
//! and the sums never have to cross lanes. The integer sum of a group is exact whatever the order, and the floats follow
//! one sequence per (row, column) - one fused multiply-add per group and scale, groups in order - so the bits do not depend
//! on how many columns go together or on whether the groups were written to memory between.

use std::arch::x86_64::*;
use std::cell::RefCell;

use gristmill_quant::TensorType;
use gristmill_quant::encoding::Block;

use crate::activations::{ActivationGroup, GROUP};
use crate::split::RowTile;
use crate::table::{Product, TypeKernels};
use crate::x86::unpack::{high_bytes, store_words};

/// Rows side by side.
pub(crate) const ROWS: usize = 8;
/// Columns that a pass over a panel takes together.
const COLUMNS: usize = 4;
/// Elements of a row in one panel: what eight rows make of it stays in the first-level cache.
const PANEL_LEN: usize = 2048;

/// Eight rows of 32 elements, ready to multiply.
pub(crate) trait Group: Copy {
    /// Before it is written.
    const EMPTY: Self;

    /// sums[c] += the products of this group with group `index` of column c.
    ///
    /// # Safety
    /// AVX2 and FMA; the columns have more than `index` groups.
    unsafe fn accumulate<const C: usize>(
        &self,
        columns: &Columns<C>,
        index: usize,
        sums: &mut [__m256; C],
    );
}

/// Columns that are multiplied together.
pub(crate) struct Columns<const C: usize>([*const ActivationGroup; C]);

impl<const C: usize> Columns<C> {
    /// Group `index` of column `c`.
    ///
    /// # Safety
    /// As [`Group::accumulate`].
    #[inline(always)]
    unsafe fn group(&self, c: usize, index: usize) -> *const ActivationGroup {
        // SAFETY: the caller's column has more than `index` groups.
        unsafe { self.0[c].add(index) }
    }
}

/// Four codes in every lane.
///
/// # Safety
/// AVX2; `group` is valid.
#[inline(always)]
unsafe fn four_codes(group: *const ActivationGroup, k: usize) -> __m256i {
    // SAFETY: k < 8, so the four codes are inside the group.
    unsafe {
        _mm256_set1_epi32(
            (&raw const (*group).codes)
                .cast::<i32>()
                .add(k)
                .read_unaligned(),
        )
    }
}

/// The two half sums of the codes in every lane.
///
/// # Safety
/// AVX2; `group` is valid.
#[inline(always)]
unsafe fn half_sums(group: *const ActivationGroup) -> __m256i {
    // SAFETY: two i16 are as long as an i32.
    unsafe { _mm256_set1_epi32((&raw const (*group).sums).cast::<i32>().read_unaligned()) }
}

#[inline(always)]
unsafe fn load_codes(codes: &[u8; 32]) -> __m256i {
    // SAFETY: a reference to 32 bytes.
    unsafe { _mm256_loadu_si256(codes.as_ptr().cast()) }
}

#[inline(always)]
unsafe fn load_floats(x: &[f32; ROWS]) -> __m256 {
    // SAFETY: a reference to eight floats.
    unsafe { _mm256_loadu_ps(x.as_ptr()) }
}

#[inline(always)]
unsafe fn load_words(x: &[i16; 2 * ROWS]) -> __m256i {
    // SAFETY: a reference to 32 bytes.
    unsafe { _mm256_loadu_si256(x.as_ptr().cast()) }
}

/// Of each row and column the sum of the products of codes, those of a half times its scale: `scale(half)` holds each
/// twice. `DEPTH` products of code pairs fit 16 bits when added.
///
/// # Safety
/// As [`Group::accumulate`].
#[inline(always)]
unsafe fn code_sums<const DEPTH: usize, const C: usize>(
    codes: &[[u8; 32]; 8],
    columns: &Columns<C>,
    index: usize,
    scale: impl Fn(usize) -> __m256i,
) -> [__m256i; C] {
    // SAFETY: the caller has AVX2, and the columns have this group.
    unsafe {
        let mut total = [_mm256_setzero_si256(); C];
        for first in (0..8).step_by(DEPTH) {
            let mut pairs = [_mm256_setzero_si256(); C];
            for k in first..first + DEPTH {
                let codes = load_codes(&codes[k]);
                for c in 0..C {
                    let x = four_codes(columns.group(c, index), k);
                    let product = _mm256_maddubs_epi16(codes, x);
                    pairs[c] = if k == first {
                        product
                    } else {
                        _mm256_add_epi16(pairs[c], product)
                    };
                }
            }
            let scale = scale(first / 4);
            for c in 0..C {
                let sum = _mm256_madd_epi16(pairs[c], scale);
                total[c] = if first == 0 {
                    sum
                } else {
                    _mm256_add_epi32(total[c], sum)
                };
            }
        }
        total
    }
}

/// One scale, and for `MIN` one minimum, per 32 elements: value = scale * (code - OFFSET) + min.
///
/// `DEPTH` products of code pairs fit 16 bits when added: 8 for 4-bit codes, 4 for 5-bit codes.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Coarse<const DEPTH: usize, const OFFSET: i16, const MIN: bool> {
    pub codes: [[u8; 32]; 8],
    pub scale: [f32; ROWS],
    pub min: [f32; ROWS],
}

impl<const DEPTH: usize, const OFFSET: i16, const MIN: bool> Group for Coarse<DEPTH, OFFSET, MIN> {
    const EMPTY: Self = Self {
        codes: [[0; 32]; 8],
        scale: [0.0; ROWS],
        min: [0.0; ROWS],
    };

    #[inline(always)]
    unsafe fn accumulate<const C: usize>(
        &self,
        columns: &Columns<C>,
        index: usize,
        sums: &mut [__m256; C],
    ) {
        // SAFETY: the caller has AVX2 and FMA, and the columns have this group.
        unsafe {
            let mut total =
                code_sums::<DEPTH, C>(&self.codes, columns, index, |_| _mm256_set1_epi16(1));
            let (scale, min) = (load_floats(&self.scale), load_floats(&self.min));
            for c in 0..C {
                let group = columns.group(c, index);
                if OFFSET != 0 {
                    let shift = _mm256_madd_epi16(half_sums(group), _mm256_set1_epi16(OFFSET));
                    total[c] = _mm256_sub_epi32(total[c], shift);
                }
                let scale = _mm256_mul_ps(scale, _mm256_set1_ps((*group).scale));
                sums[c] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(total[c]), sums[c]);
                if MIN {
                    sums[c] = _mm256_fmadd_ps(min, _mm256_set1_ps((*group).scaled_sum), sums[c]);
                }
            }
        }
    }
}

/// 8-bit codes with one scale per 32 elements. A code plus 128 is kept as two nibbles, low ones first, since products of
/// nibbles can be added in 16 bits.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Bytes {
    pub codes: [[u8; 32]; 16],
    pub scale: [f32; ROWS],
}

impl Group for Bytes {
    const EMPTY: Self = Self {
        codes: [[0; 32]; 16],
        scale: [0.0; ROWS],
    };

    #[inline(always)]
    unsafe fn accumulate<const C: usize>(
        &self,
        columns: &Columns<C>,
        index: usize,
        sums: &mut [__m256; C],
    ) {
        // SAFETY: the caller has AVX2 and FMA, and the columns have this group.
        unsafe {
            let mut low = [_mm256_setzero_si256(); C];
            let mut high = [_mm256_setzero_si256(); C];
            for k in 0..8 {
                let (low_codes, high_codes) =
                    (load_codes(&self.codes[k]), load_codes(&self.codes[k + 8]));
                for c in 0..C {
                    let x = four_codes(columns.group(c, index), k);
                    low[c] = _mm256_add_epi16(low[c], _mm256_maddubs_epi16(low_codes, x));
                    high[c] = _mm256_add_epi16(high[c], _mm256_maddubs_epi16(high_codes, x));
                }
            }
            let scale = load_floats(&self.scale);
            for c in 0..C {
                let group = columns.group(c, index);
                let low = _mm256_madd_epi16(low[c], _mm256_set1_epi16(1));
                let high = _mm256_madd_epi16(high[c], _mm256_set1_epi16(16));
                let shift = _mm256_madd_epi16(half_sums(group), _mm256_set1_epi16(128));
                let total = _mm256_sub_epi32(_mm256_add_epi32(low, high), shift);
                let scale = _mm256_mul_ps(scale, _mm256_set1_ps((*group).scale));
                sums[c] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(total), sums[c]);
            }
        }
    }
}

/// A float scale per 16 elements: value = scale * (code - OFFSET), for 5-bit codes.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Halves<const OFFSET: i16> {
    pub codes: [[u8; 32]; 8],
    pub scales: [[f32; ROWS]; 2],
}

impl<const OFFSET: i16> Group for Halves<OFFSET> {
    const EMPTY: Self = Self {
        codes: [[0; 32]; 8],
        scales: [[0.0; ROWS]; 2],
    };

    #[inline(always)]
    unsafe fn accumulate<const C: usize>(
        &self,
        columns: &Columns<C>,
        index: usize,
        sums: &mut [__m256; C],
    ) {
        // SAFETY: the caller has AVX2 and FMA, and the columns have this group.
        unsafe {
            for half in 0..2 {
                let mut pairs = [_mm256_setzero_si256(); C];
                for k in 4 * half..4 * half + 4 {
                    let codes = load_codes(&self.codes[k]);
                    for c in 0..C {
                        let x = four_codes(columns.group(c, index), k);
                        pairs[c] = _mm256_add_epi16(pairs[c], _mm256_maddubs_epi16(codes, x));
                    }
                }
                let scale = load_floats(&self.scales[half]);
                // The offset beside the sum of this half, 0 beside the other.
                let offset = _mm256_set1_epi32(i32::from(OFFSET) << (16 * half));
                for c in 0..C {
                    let group = columns.group(c, index);
                    let total = _mm256_madd_epi16(pairs[c], _mm256_set1_epi16(1));
                    let shift = _mm256_madd_epi16(half_sums(group), offset);
                    let total = _mm256_cvtepi32_ps(_mm256_sub_epi32(total, shift));
                    let scale = _mm256_mul_ps(scale, _mm256_set1_ps((*group).scale));
                    sums[c] = _mm256_fmadd_ps(scale, total, sums[c]);
                }
            }
        }
    }
}

/// Integer scales per 16 elements under one float scale: value = d * scale * code - minimum, where the minimum is
/// `d * shifts` or with `MIN` `d_min * shifts` of the half.
///
/// `DEPTH` products of code pairs fit 16 bits when added: 2 for 6-bit codes, 4 for fewer.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct Fine<const DEPTH: usize, const MIN: bool> {
    pub codes: [[u8; 32]; 8],
    /// Of each half, each scale twice.
    pub scales: [[i16; 2 * ROWS]; 2],
    /// The two halves side by side.
    pub shifts: [i16; 2 * ROWS],
    pub d: [f32; ROWS],
    pub d_min: [f32; ROWS],
}

impl<const DEPTH: usize, const MIN: bool> Fine<DEPTH, MIN> {
    /// Sets the scales of group `index` of a block, which stand four per vector, one per byte of a lane.
    ///
    /// # Safety
    /// AVX2.
    #[inline(always)]
    pub unsafe fn set_scales(&mut self, index: usize, scales: &[__m256i; 4]) {
        let (scale, first) = (scales[index / 2], 2 * (index % 2) as i32);
        // SAFETY: registers, and references to as many words.
        unsafe {
            for half in 0..2 {
                let byte = first + half as i32;
                let words = _mm256_srai_epi16::<8>(high_bytes(scale, byte, byte));
                store_words(&mut self.scales[half], words);
            }
        }
    }

    /// Sets the shifts of group `index` of a block from bytes laid out as the scales are, times 2^(8 - `DOWN`).
    ///
    /// # Safety
    /// AVX2.
    #[inline(always)]
    pub unsafe fn set_shifts<const DOWN: i32>(&mut self, index: usize, bytes: &[__m256i; 4]) {
        let (bytes, first) = (bytes[index / 2], 2 * (index % 2) as i32);
        // SAFETY: registers, and a reference to as many words.
        unsafe {
            let words = _mm256_srai_epi16::<DOWN>(high_bytes(bytes, first, first + 1));
            store_words(&mut self.shifts, words);
        }
    }
}

impl<const DEPTH: usize, const MIN: bool> Group for Fine<DEPTH, MIN> {
    const EMPTY: Self = Self {
        codes: [[0; 32]; 8],
        scales: [[0; 2 * ROWS]; 2],
        shifts: [0; 2 * ROWS],
        d: [0.0; ROWS],
        d_min: [0.0; ROWS],
    };

    #[inline(always)]
    unsafe fn accumulate<const C: usize>(
        &self,
        columns: &Columns<C>,
        index: usize,
        sums: &mut [__m256; C],
    ) {
        // SAFETY: the caller has AVX2 and FMA, and the columns have this group.
        unsafe {
            let total = code_sums::<DEPTH, C>(&self.codes, columns, index, |half| {
                load_words(&self.scales[half])
            });
            let (d, d_min) = (load_floats(&self.d), load_floats(&self.d_min));
            for c in 0..C {
                let group = columns.group(c, index);
                let scale = _mm256_set1_ps((*group).scale);
                let shift = _mm256_madd_epi16(half_sums(group), load_words(&self.shifts));
                if MIN {
                    sums[c] = _mm256_fmadd_ps(
                        _mm256_mul_ps(d, scale),
                        _mm256_cvtepi32_ps(total[c]),
                        sums[c],
                    );
                    sums[c] = _mm256_fnmadd_ps(
                        _mm256_mul_ps(d_min, scale),
                        _mm256_cvtepi32_ps(shift),
                        sums[c],
                    );
                } else {
                    let total = _mm256_cvtepi32_ps(_mm256_sub_epi32(total[c], shift));
                    sums[c] = _mm256_fmadd_ps(_mm256_mul_ps(d, scale), total, sums[c]);
                }
            }
        }
    }
}

/// One block of each of eight rows.
pub(crate) type BlockRows = [*const u8; ROWS];

/// How the blocks of a type become groups.
pub(crate) trait Unpack {
    /// What a row consists of.
    type Block: Block;
    /// What a part of eight blocks becomes.
    type Group: Group + 'static;

    /// Writes the groups of a block.
    ///
    /// # Safety
    /// AVX2 and F16C; `rows` point to `BLOCK_BYTES` bytes each and `out` to `GROUPS` groups.
    unsafe fn unpack(rows: &BlockRows, out: *mut Self::Group);
}

/// What follows from the block; nothing can say otherwise.
trait Sizes: Unpack {
    /// Groups of 32 elements in a block.
    const GROUPS: usize = Self::Block::LEN / GROUP;
    const BLOCK_BYTES: usize = size_of::<Self::Block>();
}

impl<T: Unpack> Sizes for T {}

/// The groups of a block, whose number must be right to compile.
///
/// # Safety
/// `out` points to `GROUPS` groups that nothing else refers to.
#[inline(always)]
pub(crate) unsafe fn groups_of<'a, T: Unpack, const N: usize>(
    out: *mut T::Group,
) -> &'a mut [T::Group; N] {
    const { assert!(N == T::GROUPS) };
    // SAFETY: the caller's groups are as many.
    unsafe { &mut *out.cast() }
}

/// The kernels of a type that unpacks to panels: its product. The blocks must be those of the type to compile.
pub(crate) const fn kernels<T: Unpack>(ty: TensorType) -> TypeKernels {
    assert!(ty.block_len() == T::Block::LEN && ty.block_bytes() == T::BLOCK_BYTES);
    assert!(T::Block::LEN.is_multiple_of(GROUP));
    TypeKernels::new(ty, run::<T>, ROWS)
}

fn run<T: Unpack>(of: &Product<'_>, tile: &mut RowTile<'_>) {
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn inner<T: Unpack>(of: &Product<'_>, tile: &mut RowTile<'_>) {
        // SAFETY: this function enables the instruction set; the caller's lengths fit.
        unsafe { product::<T>(of, tile) }
    }
    // SAFETY: whoever has this kernel has it from `avx2::kernels`, so the CPU has AVX2, FMA and F16C; `matmul` checked the
    // lengths.
    unsafe { inner::<T>(of, tile) }
}

/// Writes a tile of the product.
///
/// # Safety
/// AVX2, FMA and F16C; the product's lengths fit each other and the tile.
#[inline(always)]
unsafe fn product<T: Unpack>(product: &Product<'_>, tile: &mut RowTile<'_>) {
    let (rows, columns) = (tile.rows(), tile.columns());
    for first in rows.clone().step_by(ROWS) {
        // Rows past the end repeat the last one; their results are not stored.
        let pointers =
            std::array::from_fn(|lane| product.row(usize::min(first + lane, rows.end - 1)));
        // SAFETY: the pointers are to rows of `row_bytes` bytes and the columns are inside the activations.
        unsafe {
            if columns.len() == 1 {
                let mut out = Out {
                    tile: &mut *tile,
                    offset: first - rows.start,
                    keep: false,
                };
                stream::<T>(product, &pointers, columns.start, &mut out);
            } else {
                panels::<T>(product, &pointers, first - rows.start, tile);
            }
        }
    }
}

/// Where the sums of eight rows go.
struct Out<'a, 'b> {
    tile: &'a mut RowTile<'b>,
    /// The first of the rows inside the tile.
    offset: usize,
    /// Whether the sums start from what is there.
    keep: bool,
}

impl Out<'_, '_> {
    #[inline(always)]
    unsafe fn load(&mut self, column: usize) -> __m256 {
        // SAFETY: registers and checked slices; the caller has AVX2.
        unsafe {
            if !self.keep {
                return _mm256_setzero_ps();
            }
            let rows = &self.tile.column(column)[self.offset..];
            if rows.len() >= ROWS {
                _mm256_loadu_ps(rows.as_ptr())
            } else {
                crate::x86::lanes::load_part(rows.as_ptr(), rows.len())
            }
        }
    }

    #[inline(always)]
    unsafe fn store(&mut self, column: usize, sums: __m256) {
        let rows = &mut self.tile.column(column)[self.offset..];
        // SAFETY: stores as many floats as the slice has; the caller has AVX2.
        unsafe {
            if rows.len() >= ROWS {
                _mm256_storeu_ps(rows.as_mut_ptr(), sums);
            } else {
                crate::x86::lanes::store_part(rows.as_mut_ptr(), rows.len(), sums);
            }
        }
    }
}

/// `C` columns from `column` on.
#[inline(always)]
fn columns_of<const C: usize>(product: &Product<'_>, column: usize) -> Columns<C> {
    Columns(std::array::from_fn(|c| {
        let column = product.activation_column(column + c);
        product.activations.int8_column(column).as_ptr()
    }))
}

/// Multiplies blocks as they are unpacked: for one column.
///
/// # Safety
/// As [`product`].
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn stream<T: Unpack>(
    product: &Product<'_>,
    rows: &BlockRows,
    column: usize,
    out: &mut Out<'_, '_>,
) {
    let columns = columns_of::<1>(product, column);
    let n_blocks = product.row_bytes / T::BLOCK_BYTES;
    let ahead = rows[0].wrapping_add(ROWS * product.row_bytes);
    // SAFETY: blocks and groups stay below n_blocks, which rows and columns hold.
    unsafe {
        let mut sums = [_mm256_setzero_ps()];
        let mut groups = [T::Group::EMPTY; 8];
        let mut blocks = *rows;
        for block in 0..n_blocks {
            fetch(
                ahead.wrapping_add(ROWS * T::BLOCK_BYTES * block),
                ROWS * T::BLOCK_BYTES,
            );
            if T::GROUPS == 1 {
                T::unpack(&blocks, groups.as_mut_ptr());
            } else {
                unpack::<T>(&blocks, groups.as_mut_ptr());
            }
            for (index, group) in groups[..T::GROUPS].iter().enumerate() {
                group.accumulate(&columns, block * T::GROUPS + index, &mut sums);
            }
            for row in &mut blocks {
                *row = row.wrapping_add(T::BLOCK_BYTES);
            }
        }
        out.store(column, sums[0]);
    }
}

/// Asks for some bytes that are needed soon. Eight rows are eight short runs of addresses, too short for the hardware to
/// see where they lead; but the next eight follow them in memory.
#[inline(always)]
fn fetch(bytes: *const u8, len: usize) {
    for offset in (0..len).step_by(64) {
        // SAFETY: an address outside all memory is ignored.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.wrapping_add(offset).cast()) };
    }
}

/// [`Unpack::unpack`], compiled once per type.
///
/// # Safety
/// As [`Unpack::unpack`].
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn unpack<T: Unpack>(rows: &BlockRows, out: *mut T::Group) {
    // SAFETY: the caller's promise.
    unsafe { T::unpack(rows, out) }
}

thread_local! {
    /// The panel of this thread, in units that keep its alignment.
    static PANEL: RefCell<Vec<__m256i>> = const { RefCell::new(Vec::new()) };
}

/// Unpacks a panel once and multiplies it with all columns: for many columns.
///
/// # Safety
/// As [`product`].
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn panels<T: Unpack>(
    product: &Product<'_>,
    rows: &BlockRows,
    offset: usize,
    tile: &mut RowTile<'_>,
) {
    let n_blocks = product.row_bytes / T::BLOCK_BYTES;
    let panel_blocks = (PANEL_LEN / GROUP / T::GROUPS).min(n_blocks);
    let ahead = rows[0].wrapping_add(ROWS * product.row_bytes);
    PANEL.with_borrow_mut(|panel| {
        let bytes = panel_blocks * T::GROUPS * size_of::<T::Group>();
        // SAFETY: the zero vector of a register type is a valid value; blocks stay below n_blocks; the panel has room for
        // panel_blocks blocks and the alignment of a register, which is that of the groups.
        unsafe {
            if panel.len() * size_of::<__m256i>() < bytes {
                panel.resize(bytes.div_ceil(size_of::<__m256i>()), _mm256_setzero_si256());
            }
            let groups = panel.as_mut_ptr().cast::<T::Group>();
            for first in (0..n_blocks).step_by(panel_blocks) {
                let len = panel_blocks.min(n_blocks - first);
                for block in 0..len {
                    let bytes = ROWS * T::BLOCK_BYTES;
                    fetch(ahead.wrapping_add(bytes * (first + block)), bytes);
                    let rows = std::array::from_fn(|lane| {
                        rows[lane].wrapping_add((first + block) * T::BLOCK_BYTES)
                    });
                    unpack::<T>(&rows, groups.add(block * T::GROUPS));
                }
                let groups = std::slice::from_raw_parts(groups, len * T::GROUPS);
                let mut out = Out {
                    tile: &mut *tile,
                    offset,
                    keep: first > 0,
                };
                all_columns(product, groups, first * T::GROUPS, &mut out);
            }
        }
    });
}

/// # Safety
/// AVX2 and FMA; the columns have the groups from `first_group` on.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn all_columns<G: Group>(
    product: &Product<'_>,
    groups: &[G],
    first_group: usize,
    out: &mut Out<'_, '_>,
) {
    let columns = out.tile.columns();
    let whole = columns.len() - columns.len() % COLUMNS;
    // SAFETY: the columns are inside the tile and so inside the activations.
    unsafe {
        for column in (columns.start..columns.start + whole).step_by(COLUMNS) {
            some_columns::<G, COLUMNS>(product, groups, first_group, column, out);
        }
        let column = columns.start + whole;
        match columns.end - column {
            0 => {}
            1 => some_columns::<G, 1>(product, groups, first_group, column, out),
            2 => some_columns::<G, 2>(product, groups, first_group, column, out),
            _ => some_columns::<G, 3>(product, groups, first_group, column, out),
        }
    }
}

/// # Safety
/// As [`all_columns`].
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn some_columns<G: Group, const C: usize>(
    product: &Product<'_>,
    groups: &[G],
    first_group: usize,
    column: usize,
    out: &mut Out<'_, '_>,
) {
    let columns = columns_of::<C>(product, column);
    // SAFETY: the caller's columns have these groups.
    unsafe {
        let mut sums = [_mm256_setzero_ps(); C];
        for c in 0..C {
            sums[c] = out.load(column + c);
        }
        for (index, group) in groups.iter().enumerate() {
            group.accumulate(&columns, first_group + index, &mut sums);
        }
        for c in 0..C {
            out.store(column + c, sums[c]);
        }
    }
}
