//! Cuts rows over the threads where that pays.

use gristmill_kernels::{Pool, for_each_chunk};

/// Elements below which handing work to another thread costs more than it saves.
const ELEMENTS_PER_CHUNK: usize = 16 * 1024;

/// Calls `job(first_row, rows)` for runs of whole rows of `out`; on the caller alone when there are few elements.
///
/// `cost` weighs an element's work: 1 for a load and a store, more for transcendental functions.
pub fn for_rows(
    pool: &Pool,
    out: &mut [f32],
    row_len: usize,
    cost: usize,
    job: impl Fn(usize, &mut [f32]) + Sync,
) {
    let row_len = row_len.max(1);
    let rows_per_chunk = (ELEMENTS_PER_CHUNK / cost.max(1)).div_ceil(row_len).max(1);
    if out.len() <= rows_per_chunk * row_len {
        job(0, out);
        return;
    }
    for_each_chunk(pool, out, rows_per_chunk * row_len, |index, rows| {
        job(index * rows_per_chunk, rows)
    });
}
