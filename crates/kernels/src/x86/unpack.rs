//! What the rows of blocks are taken apart with, before they are [`Group`](super::panel::Group)s.

use std::arch::x86_64::*;

use gristmill_quant::block::{E2M1_DOUBLED, NONLINEAR_LEVELS};

use super::panel::{BlockRows, ROWS};

/// 16 bytes at `offset` of each row, as four vectors: vector j holds bytes 4j..4j + 4 of each row in that row's lane.
///
/// # Safety
/// AVX2; the rows have `offset` + 16 bytes.
#[inline(always)]
pub(crate) unsafe fn transpose(rows: &BlockRows, offset: usize) -> [__m256i; 4] {
    // SAFETY: the loads stay inside the 16 bytes of each row.
    unsafe {
        let load = |lane: usize| {
            let low = _mm_loadu_si128(rows[lane].wrapping_add(offset).cast());
            let high = _mm_loadu_si128(rows[lane + 4].wrapping_add(offset).cast());
            _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
        };
        interleave([load(0), load(1), load(2), load(3)])
    }
}

/// From 16 bytes of rows j and j + 4 in each vector j to four bytes of each row in its lane.
///
/// # Safety
/// AVX2.
#[inline(always)]
unsafe fn interleave([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    // SAFETY: registers only.
    unsafe {
        let (ab_low, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
        let (cd_low, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
        [
            _mm256_unpacklo_epi64(ab_low, cd_low),
            _mm256_unpackhi_epi64(ab_low, cd_low),
            _mm256_unpacklo_epi64(ab_high, cd_high),
            _mm256_unpackhi_epi64(ab_high, cd_high),
        ]
    }
}

/// 32 bytes at `offset` of each row, as eight vectors (see [`transpose`]).
///
/// # Safety
/// AVX2; the rows have `offset` + 32 bytes.
#[inline(always)]
pub(crate) unsafe fn transpose_32(rows: &BlockRows, offset: usize) -> [__m256i; 8] {
    // SAFETY: both halves are inside the rows.
    unsafe {
        let [a, b, c, d] = transpose(rows, offset);
        let [e, f, g, h] = transpose(rows, offset + 16);
        [a, b, c, d, e, f, g, h]
    }
}

/// 32 bytes of each row, one row per vector, laid out as [`transpose_32`] does.
///
/// # Safety
/// AVX2.
#[inline(always)]
pub(crate) unsafe fn transpose_registers(rows: &[__m256i; ROWS]) -> [__m256i; 8] {
    // SAFETY: registers only.
    unsafe {
        let low = |j: usize| _mm256_permute2x128_si256::<0x20>(rows[j], rows[j + 4]);
        let high = |j: usize| _mm256_permute2x128_si256::<0x31>(rows[j], rows[j + 4]);
        let [a, b, c, d] = interleave([low(0), low(1), low(2), low(3)]);
        let [e, f, g, h] = interleave([high(0), high(1), high(2), high(3)]);
        [a, b, c, d, e, f, g, h]
    }
}

/// The f16 at `offset` of each row.
///
/// # Safety
/// AVX2 and F16C; the rows have `offset` + 2 bytes.
#[inline(always)]
pub(crate) unsafe fn half_floats(rows: &BlockRows, offset: usize) -> __m256 {
    // SAFETY: two bytes of each row, unaligned.
    unsafe {
        let half = |lane: usize| {
            i32::from(
                rows[lane]
                    .wrapping_add(offset)
                    .cast::<u16>()
                    .read_unaligned(),
            )
        };
        let mut x = _mm_cvtsi32_si128(half(0));
        x = _mm_insert_epi16::<1>(x, half(1));
        x = _mm_insert_epi16::<2>(x, half(2));
        x = _mm_insert_epi16::<3>(x, half(3));
        x = _mm_insert_epi16::<4>(x, half(4));
        x = _mm_insert_epi16::<5>(x, half(5));
        x = _mm_insert_epi16::<6>(x, half(6));
        x = _mm_insert_epi16::<7>(x, half(7));
        _mm256_cvtph_ps(x)
    }
}

/// The four bytes at `offset` of each row.
///
/// # Safety
/// AVX2; the rows have `offset` + 4 bytes.
#[inline(always)]
pub(crate) unsafe fn words(rows: &BlockRows, offset: usize) -> __m256i {
    // SAFETY: four bytes of each row, unaligned, and an array as long as a register.
    unsafe {
        let word = |row: *const u8| row.wrapping_add(offset).cast::<i32>().read_unaligned();
        _mm256_loadu_si256(rows.map(word).as_ptr().cast())
    }
}

/// The byte at `offset` of each row.
///
/// # Safety
/// AVX2; the rows have `offset` + 1 bytes.
#[inline(always)]
pub(crate) unsafe fn bytes(rows: &BlockRows, offset: usize) -> __m256i {
    // SAFETY: one byte of each row, and an array as long as a register.
    unsafe {
        let byte = |row: *const u8| i32::from(*row.wrapping_add(offset));
        _mm256_loadu_si256(rows.map(byte).as_ptr().cast())
    }
}

/// Low nibbles.
///
/// # Safety
/// AVX2.
#[inline(always)]
pub(crate) unsafe fn low_nibbles(x: __m256i) -> __m256i {
    // SAFETY: registers only.
    unsafe { _mm256_and_si256(x, _mm256_set1_epi8(15)) }
}

/// High nibbles.
///
/// # Safety
/// AVX2.
#[inline(always)]
pub(crate) unsafe fn high_nibbles(x: __m256i) -> __m256i {
    // SAFETY: registers only.
    unsafe { low_nibbles(_mm256_srli_epi16::<4>(x)) }
}

/// Stores a code vector.
///
/// # Safety
/// AVX2.
#[inline(always)]
pub(crate) unsafe fn store_codes(out: &mut [u8; 32], codes: __m256i) {
    // SAFETY: a reference to 32 bytes.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), codes) }
}

/// Stores one float per row.
///
/// # Safety
/// AVX2.
#[inline(always)]
pub(crate) unsafe fn store_floats(out: &mut [f32; ROWS], x: __m256) {
    // SAFETY: a reference to eight floats.
    unsafe { _mm256_storeu_ps(out.as_mut_ptr(), x) }
}

/// Stores 16-bit lanes.
///
/// # Safety
/// AVX2.
#[inline(always)]
pub(crate) unsafe fn store_words(out: &mut [i16; 2 * ROWS], x: __m256i) {
    // SAFETY: a reference to 32 bytes.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), x) }
}

/// A shift count.
///
/// # Safety
/// AVX2.
#[inline(always)]
pub(crate) unsafe fn shift(bits: usize) -> __m128i {
    // SAFETY: registers only.
    unsafe { _mm_cvtsi32_si128(bits as i32) }
}

/// Two bits of every byte, the lowest ones for `quarter` 0.
///
/// # Safety
/// AVX2.
#[inline(always)]
pub(crate) unsafe fn two_bits(quants: __m256i, quarter: usize) -> __m256i {
    // SAFETY: registers only.
    unsafe {
        _mm256_and_si256(
            _mm256_srl_epi16(quants, shift(2 * quarter)),
            _mm256_set1_epi8(3),
        )
    }
}

/// Stores the 32 codes of each row: low nibbles of `quants` first, then high ones, each with its bit of `high` above.
///
/// # Safety
/// AVX2.
#[inline(always)]
pub(crate) unsafe fn store_five_bit_codes(
    codes: &mut [[u8; 32]; 8],
    quants: &[__m256i; 4],
    high: __m256i,
) {
    // SAFETY: registers, and references to 32 bytes.
    unsafe {
        for k in 0..4 {
            let low = _mm256_or_si256(low_nibbles(quants[k]), fifth_bits(high, k));
            store_codes(&mut codes[k], low);
            let top = _mm256_or_si256(high_nibbles(quants[k]), fifth_bits(high, k + 4));
            store_codes(&mut codes[k + 4], top);
        }
    }
}

/// The two f16 of each lane, low ones first.
///
/// # Safety
/// AVX2 and F16C.
#[inline(always)]
pub(crate) unsafe fn half_float_pairs(x: __m256i) -> (__m256, __m256) {
    // SAFETY: registers only.
    unsafe {
        let low = _mm256_and_si256(x, _mm256_set1_epi32(0xffff));
        let halves = _mm256_packus_epi32(low, _mm256_srli_epi32::<16>(x));
        let halves = _mm256_permute4x64_epi64::<0b11_01_10_00>(halves);
        (
            _mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
            _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(halves)),
        )
    }
}

/// Bits 4k..4k + 4 of each lane of `high`, each as bit 4 of one byte of its lane.
///
/// # Safety
/// AVX2.
#[inline(always)]
pub(crate) unsafe fn fifth_bits(high: __m256i, k: usize) -> __m256i {
    // SAFETY: registers only.
    unsafe {
        // Byte k / 2 of each lane, four times.
        let byte = (k / 2) as i32 * 0x0101_0101;
        let lanes = _mm256_setr_epi32(
            0,
            0x0404_0404,
            0x0808_0808,
            0x0c0c_0c0c,
            0,
            0x0404_0404,
            0x0808_0808,
            0x0c0c_0c0c,
        );
        let bytes = _mm256_shuffle_epi8(high, _mm256_add_epi8(lanes, _mm256_set1_epi32(byte)));
        let mask = _mm256_set1_epi32(if k.is_multiple_of(2) {
            0x0804_0201
        } else {
            0x8040_2010_u32 as i32
        });
        let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, mask), mask);
        _mm256_and_si256(set, _mm256_set1_epi8(16))
    }
}

/// Bytes `first` and `second` of each lane as the high bytes of its two 16-bit halves, the low bytes zero.
///
/// # Safety
/// AVX2.
#[inline(always)]
pub(crate) unsafe fn high_bytes(x: __m256i, first: i32, second: i32) -> __m256i {
    // SAFETY: registers only.
    unsafe {
        // An index with its top bit set gives zero.
        let lanes = _mm256_setr_epi32(
            0,
            0x0400_0400,
            0x0800_0800,
            0x0c00_0c00,
            0,
            0x0400_0400,
            0x0800_0800,
            0x0c00_0c00,
        );
        let bytes = _mm256_set1_epi32(0x0080_0080 | first << 8 | second << 24);
        _mm256_shuffle_epi8(x, _mm256_add_epi32(lanes, bytes))
    }
}

/// Scales and minima of the eight groups of `Q4_K` and `Q5_K` from the first 16 bytes of the blocks.
///
/// # Safety
/// AVX2 and F16C.
#[inline(always)]
pub(crate) unsafe fn six_bit_scales([d_min, a, b, c]: [__m256i; 4]) -> ([__m256; 8], [__m256; 8]) {
    // SAFETY: registers only.
    unsafe {
        let (d, min) = half_float_pairs(d_min);
        let min = _mm256_sub_ps(_mm256_setzero_ps(), min);
        let six = |x| _mm256_and_si256(x, _mm256_set1_epi8(0x3f));
        let top = |x| _mm256_and_si256(_mm256_srli_epi16::<2>(x), _mm256_set1_epi8(0x30));
        let scales = [six(a), _mm256_or_si256(low_nibbles(c), top(a))];
        let mins = [six(b), _mm256_or_si256(high_nibbles(c), top(b))];
        let byte = |x: [__m256i; 2], index: usize| {
            let byte = _mm256_srl_epi32(x[index / 4], shift(8 * (index % 4)));
            _mm256_cvtepi32_ps(_mm256_and_si256(byte, _mm256_set1_epi32(0xff)))
        };
        let (mut scale, mut minimum) = ([d; 8], [min; 8]);
        for index in 0..8 {
            scale[index] = _mm256_mul_ps(d, byte(scales, index));
            minimum[index] = _mm256_mul_ps(min, byte(mins, index));
        }
        (scale, minimum)
    }
}

/// The entries of a table at bytes 0..=15.
///
/// # Safety
/// AVX2.
#[inline(always)]
unsafe fn look_up(table: &[u8; 16], indices: __m256i) -> __m256i {
    // SAFETY: a reference to 16 bytes, and registers.
    unsafe {
        let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
        _mm256_shuffle_epi8(table, indices)
    }
}

/// Codes of [`Bytes`](super::panel::Bytes) from the 16 bytes of 32 indices into the uneven levels of `IQ4_NL` and `IQ4_XS`.
///
/// # Safety
/// AVX2.
#[inline(always)]
pub(crate) unsafe fn nonlinear_codes(quants: &[__m256i; 4], codes: &mut [[u8; 32]; 16]) {
    const LOW: [u8; 16] = nibbles_of_levels(0);
    const HIGH: [u8; 16] = nibbles_of_levels(4);
    // SAFETY: registers only.
    unsafe {
        for k in 0..4 {
            let indices = [low_nibbles(quants[k]), high_nibbles(quants[k])];
            for half in 0..2 {
                let k = 4 * half + k;
                store_codes(&mut codes[k], look_up(&LOW, indices[half]));
                store_codes(&mut codes[k + 8], look_up(&HIGH, indices[half]));
            }
        }
    }
}

/// Four bits of each level plus 128.
const fn nibbles_of_levels(first_bit: u32) -> [u8; 16] {
    let mut nibbles = [0; 16];
    let mut index = 0;
    while index < 16 {
        let shifted = (NONLINEAR_LEVELS[index] as u8) ^ 128;
        nibbles[index] = shifted >> first_bit & 15;
        index += 1;
    }
    nibbles
}

/// What [`e2m1_codes`] are above the doubled elements.
pub(crate) const E2M1_OFFSET: i16 = 12;

/// Doubled E2M1 elements plus [`E2M1_OFFSET`]: those of the low nibbles and those of the high nibbles.
///
/// # Safety
/// AVX2.
#[inline(always)]
pub(crate) unsafe fn e2m1_codes(quants: __m256i) -> (__m256i, __m256i) {
    const CODES: [u8; 16] = {
        let (mut codes, mut index) = ([0; 16], 0);
        while index < 16 {
            codes[index] = (E2M1_DOUBLED[index] as i16 + E2M1_OFFSET) as u8;
            index += 1;
        }
        codes
    };
    // SAFETY: registers only.
    unsafe {
        (
            look_up(&CODES, low_nibbles(quants)),
            look_up(&CODES, high_nibbles(quants)),
        )
    }
}
