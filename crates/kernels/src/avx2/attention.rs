//! Attention to a page, several queries at a time.
//!
//! Keys are widened once per page with slots in lanes, so that scores of eight slots come without sums across lanes;
//! values are widened with elements in lanes. A score is one chain of multiply-adds over the elements in order, an output
//! element one chain over the slots that the query sees, in order: neither depends on which queries go together.

use std::arch::x86_64::*;
use std::ops::Range;

use crate::attention::{AttentionKernels, CacheView, Partial, QueryBlock, Scratch};
use crate::plain;
use crate::x86::lanes::{LANES, exp, load_f16, load_part, max_lanes, store_part, sum_lanes, tanh};

pub(super) const KERNELS: AttentionKernels = AttentionKernels {
    page,
    blend,
    queries_max: 96,
};

/// Queries that go together.
const QUERIES: usize = 4;
/// Registers of slots (for scores) or elements (for outputs) that go together.
const WIDTH: usize = 2;

fn page(block: &QueryBlock<'_>, page_index: usize, scratch: &mut Scratch) {
    // SAFETY: whoever has this kernel has it from `avx2::kernels`, so the CPU has AVX2, FMA and F16C.
    unsafe { page_inner(block, page_index, scratch) }
}

fn blend(sum: &mut [f32], a: f32, x: &[f32], b: f32) {
    #[target_feature(enable = "avx2,fma,f16c")]
    fn inner(sum: &mut [f32], a: f32, x: &[f32], b: f32) {
        plain::blend(sum, a, x, b);
    }
    // SAFETY: as in `page`.
    unsafe { inner(sum, a, x, b) }
}

/// A page, widened.
struct WidePage<'a> {
    /// [stride, key_dim]: slots side by side.
    keys: &'a [f32],
    /// Slots in a row of keys and of scores.
    stride: usize,
    values: Values<'a>,
}

/// Values of some slots: [dim, slots], from slot `first` on.
#[derive(Clone, Copy)]
struct Values<'a> {
    rows: &'a [f32],
    first: usize,
    dim: usize,
}

#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn page_inner(block: &QueryBlock<'_>, page_index: usize, scratch: &mut Scratch) {
    let shape = block.shape;
    let all = block.slots_of_all(page_index);
    if all.is_empty() {
        return;
    }
    // Scores begin at a multiple of eight slots, whatever the queries see.
    let stride = shape.page_len.next_multiple_of(WIDTH * LANES);
    scratch.keys.resize(stride * shape.key_dim, 0.0);
    scratch.scores.resize(stride * QUERIES, 0.0);
    let keys = block.page_of(block.k, shape.key_dim, page_index);
    let values = block.page_of(block.v, shape.value_dim, page_index);
    let eights = all.start - all.start % LANES..all.end;
    let rows = Rows::of(keys, block.k, shape.key_dim, &eights, &mut scratch.decoded);
    // SAFETY: `rows` has the page's slots from `eights.start` on; `keys` has key_dim rows of `stride` slots.
    unsafe { transpose_keys(rows, &eights, stride, &mut scratch.keys) };
    let dim = shape.value_dim;
    let rows = Rows::of(values, block.v, dim, &all, &mut scratch.decoded);
    let page = WidePage {
        keys: &scratch.keys,
        stride,
        values: Values {
            rows: rows.widened(&mut scratch.values),
            first: all.start,
            dim: shape.value_dim,
        },
    };
    for first in (0..block.n_queries()).step_by(QUERIES) {
        let queries = first..usize::min(first + QUERIES, block.n_queries());
        // SAFETY: the page holds the slots that all queries see.
        unsafe {
            some_queries(
                block,
                page_index,
                queries,
                &page,
                &mut scratch.scores,
                &mut scratch.partial,
            )
        };
    }
}

/// Attends to a page with at most [`QUERIES`] queries.
///
/// # Safety
/// AVX2, FMA and F16C; the page holds the slots that the queries see, and `scores` has [`QUERIES`] rows of its stride.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn some_queries(
    block: &QueryBlock<'_>,
    page_index: usize,
    queries: Range<usize>,
    page: &WidePage<'_>,
    scores: &mut [f32],
    partial: &mut Partial,
) {
    let shape = block.shape;
    let slots: [Range<usize>; QUERIES] =
        std::array::from_fn(|index| match queries.clone().nth(index) {
            Some(query) => block.slots(query, page_index),
            None => 0..0,
        });
    let seen = slots.iter().filter(|slots| !slots.is_empty());
    let Some(reach) = seen
        .cloned()
        .reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))
    else {
        return;
    };
    // Queries past the end repeat the last one; their slots are empty.
    let rows = std::array::from_fn(|index| {
        block.query(usize::min(queries.start + index, queries.end - 1))
    });
    // SAFETY: `keys` and `scores` have rows of `stride` slots, and reach.end <= page_len <= stride.
    unsafe { score(&rows, page.keys, page.stride, &reach, scores) };
    for (index, query) in queries.clone().enumerate() {
        let row = &mut scores[index * page.stride..][..page.stride];
        (partial.maxima[query], partial.sums[query]) =
            weigh(row, &slots[index], shape.scale, shape.softcap);
    }
    let dim = page.values.dim;
    let outputs = &mut partial.outputs[queries.start * dim..queries.end * dim];
    // SAFETY: `values` has rows for the slots of all queries.
    unsafe {
        add_values(
            scores,
            page.stride,
            &slots[..queries.len()],
            page.values,
            outputs,
        )
    };
}

/// Rows of some slots, `dim` elements each, as halves or floats.
#[derive(Clone, Copy)]
struct Rows<'a> {
    bytes: &'a [u8],
    is_half: bool,
    dim: usize,
}

impl<'a> Rows<'a> {
    /// The rows of `slots`: those of the page where it holds halves or floats, else decoded.
    fn of(
        page: &'a [u8],
        cache: CacheView<'_>,
        dim: usize,
        slots: &Range<usize>,
        decoded: &'a mut Vec<f32>,
    ) -> Self {
        let row_bytes = cache.row_bytes(dim);
        let bytes = &page[slots.start * row_bytes..slots.end * row_bytes];
        let is_half = cache.ty == gristmill_quant::F16;
        if is_half || cache.ty == gristmill_quant::F32 {
            return Rows {
                bytes,
                is_half,
                dim,
            };
        }
        decoded.resize(slots.len() * dim, 0.0);
        let done = super::KERNELS.decode(cache.ty, bytes, decoded);
        debug_assert!(
            done.is_ok(),
            "the types of caches have decoders, and the lengths fit"
        );
        Rows {
            bytes: bytemuck::cast_slice(decoded),
            is_half,
            dim,
        }
    }

    /// All elements as f32: the rows themselves where they are floats at a fitting address.
    #[target_feature(enable = "avx2,fma,f16c")]
    fn widened(self, out: &'a mut Vec<f32>) -> &'a [f32] {
        if !self.is_half
            && let Ok(floats) = bytemuck::try_cast_slice(self.bytes)
        {
            return floats;
        }
        let len = self.bytes.len() / if self.is_half { 2 } else { 4 };
        out.resize(len, 0.0);
        for start in (0..len).step_by(LANES) {
            let part = LANES.min(len - start);
            // SAFETY: there are as many elements as in `out`.
            unsafe {
                let values = load(self.bytes, self.is_half, start, part);
                let place = out.as_mut_ptr().add(start);
                if part == LANES {
                    _mm256_storeu_ps(place, values)
                } else {
                    store_part(place, part, values)
                }
            }
        }
        out
    }
}

/// Writes keys[element][slot] for the eights of slots that begin with `slots`.
///
/// # Safety
/// AVX2 and F16C; `rows` are those of `slots`, which begin at a multiple of eight, `keys` has as many rows of `stride` slots
/// as these have elements.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn transpose_keys(rows: Rows<'_>, slots: &Range<usize>, stride: usize, keys: &mut [f32]) {
    let Rows {
        bytes,
        is_half,
        dim,
    } = rows;
    for slot in slots.clone().step_by(LANES) {
        for element in (0..dim).step_by(LANES) {
            let len = LANES.min(dim - element);
            let mut rows = [_mm256_setzero_ps(); LANES];
            for (lane, row) in rows.iter_mut().enumerate() {
                // Slots past the end repeat the last one; their scores are not used.
                let index = usize::min(slot + lane, slots.end - 1) - slots.start;
                // SAFETY: `len` elements from `element` on are inside the row.
                *row = unsafe { load(bytes, is_half, index * dim + element, len) };
            }
            for (index, row) in transpose(rows).into_iter().enumerate().take(len) {
                // SAFETY: the row and the eight slots are inside `keys` (the stride is a multiple of eight).
                unsafe {
                    _mm256_storeu_ps(
                        keys.as_mut_ptr().add((element + index) * stride + slot),
                        row,
                    )
                };
            }
        }
    }
}

/// `len` <= 8 elements from element `place` on.
///
/// # Safety
/// The elements are inside the page.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn load(page: &[u8], is_half: bool, place: usize, len: usize) -> __m256 {
    // SAFETY: reads `len` elements, of two or four bytes.
    unsafe {
        if is_half {
            let source = page.as_ptr().add(2 * place);
            if len == LANES {
                return load_f16(source);
            }
            let mut bytes = [0; 2 * LANES];
            source.copy_to_nonoverlapping(bytes.as_mut_ptr(), 2 * len);
            load_f16(bytes.as_ptr())
        } else {
            let source = page.as_ptr().add(4 * place).cast();
            if len == LANES {
                _mm256_loadu_ps(source)
            } else {
                load_part(source, len)
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn transpose(x: [__m256; 8]) -> [__m256; 8] {
    let mut pairs = x;
    for i in 0..4 {
        pairs[2 * i] = _mm256_unpacklo_ps(x[2 * i], x[2 * i + 1]);
        pairs[2 * i + 1] = _mm256_unpackhi_ps(x[2 * i], x[2 * i + 1]);
    }
    let mut fours = pairs;
    for i in 0..2 {
        let [a, b, c, d] = [
            pairs[4 * i],
            pairs[4 * i + 1],
            pairs[4 * i + 2],
            pairs[4 * i + 3],
        ];
        fours[4 * i] = _mm256_shuffle_ps::<0b01_00_01_00>(a, c);
        fours[4 * i + 1] = _mm256_shuffle_ps::<0b11_10_11_10>(a, c);
        fours[4 * i + 2] = _mm256_shuffle_ps::<0b01_00_01_00>(b, d);
        fours[4 * i + 3] = _mm256_shuffle_ps::<0b11_10_11_10>(b, d);
    }
    let mut out = fours;
    for i in 0..4 {
        out[i] = _mm256_permute2f128_ps::<0x20>(fours[i], fours[i + 4]);
        out[i + 4] = _mm256_permute2f128_ps::<0x31>(fours[i], fours[i + 4]);
    }
    out
}

/// scores[query][slot] = query * key for the slots in `reach` (and some around them).
///
/// # Safety
/// AVX2 and FMA; `keys` and `scores` have rows of `stride` slots, a multiple of `WIDTH` * 8, and reach.end <= stride.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn score(
    queries: &[&[f32]; QUERIES],
    keys: &[f32],
    stride: usize,
    reach: &Range<usize>,
    scores: &mut [f32],
) {
    let step = WIDTH * LANES;
    for slot in (reach.start - reach.start % step..reach.end).step_by(step) {
        let mut sums = [[_mm256_setzero_ps(); WIDTH]; QUERIES];
        for element in 0..queries[0].len() {
            // SAFETY: slot + step <= stride, and the queries have equal lengths.
            unsafe {
                let place = keys.as_ptr().add(element * stride + slot);
                let row: [__m256; WIDTH] =
                    [_mm256_loadu_ps(place), _mm256_loadu_ps(place.add(LANES))];
                for q in 0..QUERIES {
                    let x = _mm256_set1_ps(*queries[q].get_unchecked(element));
                    for w in 0..WIDTH {
                        sums[q][w] = _mm256_fmadd_ps(x, row[w], sums[q][w]);
                    }
                }
            }
        }
        for q in 0..QUERIES {
            for w in 0..WIDTH {
                // SAFETY: as above.
                unsafe {
                    _mm256_storeu_ps(
                        scores.as_mut_ptr().add(q * stride + slot + w * LANES),
                        sums[q][w],
                    )
                };
            }
        }
    }
}

/// Turns the scores of the slots seen into exp(score - largest), the others into zeros; gives the largest and the sum.
#[target_feature(enable = "avx2,fma,f16c")]
fn weigh(scores: &mut [f32], slots: &Range<usize>, scale: f32, softcap: Option<f32>) -> (f32, f32) {
    if slots.is_empty() {
        return (f32::NEG_INFINITY, 0.0);
    }
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    let chunks = slots.start / LANES..slots.end.div_ceil(LANES);
    let chunks = &mut scores.as_chunks_mut::<LANES>().0[chunks];
    let first = slots.start - slots.start % LANES;
    let mut largest = _mm256_set1_ps(f32::NEG_INFINITY);
    let seen = |index: usize| {
        let place = _mm256_add_epi32(lanes, _mm256_set1_epi32((first + index * LANES) as i32));
        let before = _mm256_cmpgt_epi32(_mm256_set1_epi32(slots.start as i32), place);
        let inside = _mm256_cmpgt_epi32(_mm256_set1_epi32(slots.end as i32), place);
        _mm256_castsi256_ps(_mm256_andnot_si256(before, inside))
    };
    for (index, chunk) in chunks.iter_mut().enumerate() {
        // SAFETY: references to eight floats.
        unsafe {
            let mut x = _mm256_mul_ps(_mm256_loadu_ps(chunk.as_ptr()), _mm256_set1_ps(scale));
            if let Some(cap) = softcap {
                let cap = _mm256_set1_ps(cap);
                x = _mm256_mul_ps(cap, tanh(_mm256_div_ps(x, cap)));
            }
            let x = _mm256_blendv_ps(_mm256_set1_ps(f32::NEG_INFINITY), x, seen(index));
            largest = _mm256_max_ps(largest, x);
            _mm256_storeu_ps(chunk.as_mut_ptr(), x);
        }
    }
    // SAFETY: registers only.
    let largest = unsafe { max_lanes(largest) };
    let mut sum = _mm256_setzero_ps();
    for (index, chunk) in chunks.iter_mut().enumerate() {
        // SAFETY: references to eight floats.
        unsafe {
            let x = exp(_mm256_sub_ps(
                _mm256_loadu_ps(chunk.as_ptr()),
                _mm256_set1_ps(largest),
            ));
            let x = _mm256_and_ps(x, seen(index));
            sum = _mm256_add_ps(sum, x);
            _mm256_storeu_ps(chunk.as_mut_ptr(), x);
        }
    }
    // SAFETY: registers only.
    (largest, unsafe { sum_lanes(sum) })
}

/// outputs[query] += weight * value over the slots that the query sees, in order.
///
/// # Safety
/// AVX2 and FMA; `scores` has rows of `stride`, `values` rows for all `slots`, `outputs` a row of values.dim per query.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_values(
    scores: &[f32],
    stride: usize,
    slots: &[Range<usize>],
    values: Values<'_>,
    outputs: &mut [f32],
) {
    let dim = values.dim;
    let common = slots.iter().map(|slots| slots.start).max().unwrap_or(0)
        ..slots.iter().map(|slots| slots.end).min().unwrap_or(0);
    let one = |query: usize, slots: Range<usize>, outputs: &mut [f32]| {
        let weights = [&scores[query * stride..][..stride]];
        let outputs = &mut outputs[query * dim..][..dim];
        // SAFETY: the caller's rows.
        unsafe { add_rows::<1>(weights, slots, values, outputs) };
    };
    if common.is_empty() {
        for (query, slots) in slots.iter().enumerate() {
            one(query, slots.clone(), outputs);
        }
        return;
    }
    for (query, slots) in slots.iter().enumerate() {
        one(query, slots.start..common.start, outputs);
    }
    let shared = common.clone();
    // SAFETY: the caller's rows.
    unsafe {
        match slots.len() {
            1 => add_rows::<1>(rows_of(scores, stride), shared, values, outputs),
            2 => add_rows::<2>(rows_of(scores, stride), shared, values, outputs),
            3 => add_rows::<3>(rows_of(scores, stride), shared, values, outputs),
            _ => add_rows::<QUERIES>(rows_of(scores, stride), shared, values, outputs),
        }
    }
    for (query, slots) in slots.iter().enumerate() {
        one(query, common.end..slots.end, outputs);
    }
}

fn rows_of<const Q: usize>(scores: &[f32], stride: usize) -> [&[f32]; Q] {
    std::array::from_fn(|query| &scores[query * stride..][..stride])
}

/// # Safety
/// As [`add_values`], for `Q` queries that see all of `slots`.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_rows<const Q: usize>(
    weights: [&[f32]; Q],
    slots: Range<usize>,
    values: Values<'_>,
    outputs: &mut [f32],
) {
    if slots.is_empty() {
        return;
    }
    let Values { rows, first, dim } = values;
    let step = WIDTH * LANES;
    let whole = dim - dim % step;
    for element in (0..whole).step_by(step) {
        // SAFETY: the element and those up to `step` are inside every row.
        unsafe {
            let place = |q: usize, w: usize| q * dim + element + w * LANES;
            let mut sums = [[_mm256_setzero_ps(); WIDTH]; Q];
            for q in 0..Q {
                for w in 0..WIDTH {
                    sums[q][w] = _mm256_loadu_ps(outputs.as_ptr().add(place(q, w)));
                }
            }
            for slot in slots.clone() {
                let row = rows.as_ptr().add((slot - first) * dim + element);
                let row: [__m256; WIDTH] = [_mm256_loadu_ps(row), _mm256_loadu_ps(row.add(LANES))];
                for q in 0..Q {
                    let weight = _mm256_set1_ps(*weights[q].get_unchecked(slot));
                    for w in 0..WIDTH {
                        sums[q][w] = _mm256_fmadd_ps(weight, row[w], sums[q][w]);
                    }
                }
            }
            for q in 0..Q {
                for w in 0..WIDTH {
                    _mm256_storeu_ps(outputs.as_mut_ptr().add(place(q, w)), sums[q][w]);
                }
            }
        }
    }
    for element in (whole..dim).step_by(LANES) {
        let len = LANES.min(dim - element);
        for q in 0..Q {
            // SAFETY: `len` elements from `element` on are inside every row.
            unsafe {
                let place = outputs.as_mut_ptr().add(q * dim + element);
                let mut sum = load_part(place, len);
                for slot in slots.clone() {
                    let row = load_part(rows.as_ptr().add((slot - first) * dim + element), len);
                    sum =
                        _mm256_fmadd_ps(_mm256_set1_ps(*weights[q].get_unchecked(slot)), row, sum);
                }
                store_part(place, len, sum);
            }
        }
    }
}
