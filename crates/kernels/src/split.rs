//! One output shared among the chunks of a job, each chunk with its own part.

use std::marker::PhantomData;
use std::ops::Range;

use crate::Pool;

/// A pointer that may go to other threads.
#[derive(Clone, Copy)]
pub(crate) struct SendPtr<T>(pub *mut T);
// SAFETY: users hand out disjoint parts only, and T is Send.
unsafe impl<T: Send> Sync for SendPtr<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for SendPtr<T> {}

impl<T> SendPtr<T> {
    /// A method, so that closures capture the wrapper and not the bare pointer.
    pub(crate) fn get(&self) -> *mut T {
        self.0
    }
}

/// Cuts `out` into pieces of `chunk_len` elements (the last may be shorter) and calls `job(index, piece)` once for each.
///
/// `chunk_len` 0 is taken as 1.
pub fn for_each_chunk<T: Send>(
    pool: &Pool,
    out: &mut [T],
    chunk_len: usize,
    job: impl Fn(usize, &mut [T]) + Sync,
) {
    let chunk_len = chunk_len.max(1);
    let len = out.len();
    let base = SendPtr(out.as_mut_ptr());
    pool.run(len.div_ceil(chunk_len), |index| {
        let start = index * chunk_len;
        let piece_len = chunk_len.min(len - start);
        // SAFETY: start + piece_len <= len, and each index (hence each piece) is handed out once while `out` is borrowed.
        let piece = unsafe { std::slice::from_raw_parts_mut(base.get().add(start), piece_len) };
        job(index, piece);
    });
}

/// Some rows and columns of an output [n_rows, n_cols] whose row index is contiguous.
pub struct RowTile<'a> {
    base: *mut f32,
    n_rows: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    /// The output's column of each of the tile's columns, where they are not its own in order.
    places: Option<&'a [u32]>,
    borrow: PhantomData<&'a mut [f32]>,
}

impl<'a> RowTile<'a> {
    /// A tile whose column `c` is the output's column `places[c]`.
    ///
    /// # Safety
    /// While the tile lives, nothing else refers to these rows of these columns of the output at `base`, which has them.
    pub(crate) unsafe fn scattered(
        base: SendPtr<f32>,
        n_rows: usize,
        rows: Range<usize>,
        columns: Range<usize>,
        places: &'a [u32],
    ) -> Self {
        Self {
            base: base.get(),
            n_rows,
            rows,
            columns,
            places: Some(places),
            borrow: PhantomData,
        }
    }
}

impl RowTile<'_> {
    /// The rows of the tile.
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// The columns of the tile.
    pub fn columns(&self) -> Range<usize> {
        self.columns.clone()
    }

    /// The tile's rows of one column, which must be in [`columns`](Self::columns).
    ///
    /// # Panics
    /// If the column is not in the tile.
    pub fn column(&mut self, column: usize) -> &mut [f32] {
        assert!(self.columns.contains(&column), "column outside the tile");
        let place = self.places.map_or(column, |places| places[column] as usize);
        // SAFETY: rows.end <= n_rows and place < n_cols (checked where tiles are made); tiles do not overlap.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.base.add(place * self.n_rows + self.rows.start),
                self.rows.len(),
            )
        }
    }
}

/// An output [n_rows, n_columns] (row index contiguous) cut into tiles, to be handed out by index.
pub(crate) struct RowTiles<'a> {
    base: SendPtr<f32>,
    n_rows: usize,
    n_columns: usize,
    tile_rows: usize,
    tile_columns: usize,
    borrow: PhantomData<&'a mut [f32]>,
}

impl<'a> RowTiles<'a> {
    /// Tiles have `tile_rows` x `tile_columns` elements, fewer at the borders (0 is taken as 1). Tiles of the same rows
    /// follow each other.
    ///
    /// # Panics
    /// If the length of `out` is no multiple of `n_rows`.
    pub fn new(
        out: &'a mut [f32],
        n_rows: usize,
        (tile_rows, tile_columns): (usize, usize),
    ) -> Self {
        assert!(
            out.is_empty() || (n_rows > 0 && out.len().is_multiple_of(n_rows)),
            "an output of {} elements has no rows of {n_rows}",
            out.len()
        );
        let n_columns = out.len().checked_div(n_rows).unwrap_or(0);
        Self {
            base: SendPtr(out.as_mut_ptr()),
            n_rows: if n_columns == 0 { 0 } else { n_rows },
            n_columns,
            tile_rows: tile_rows.clamp(1, n_rows.max(1)),
            tile_columns: tile_columns.clamp(1, n_columns.max(1)),
            borrow: PhantomData,
        }
    }

    /// Number of tiles.
    pub fn len(&self) -> usize {
        self.n_rows.div_ceil(self.tile_rows) * self.n_columns.div_ceil(self.tile_columns)
    }

    /// One tile.
    ///
    /// # Safety
    /// `index` is below [`len`](Self::len), and no other tile of this index is alive.
    pub unsafe fn tile(&self, index: usize) -> RowTile<'_> {
        let across = self.n_columns.div_ceil(self.tile_columns);
        let row = index / across * self.tile_rows;
        let column = index % across * self.tile_columns;
        RowTile {
            base: self.base.get(),
            n_rows: self.n_rows,
            rows: row..(row + self.tile_rows).min(self.n_rows),
            columns: column..(column + self.tile_columns).min(self.n_columns),
            places: None,
            borrow: PhantomData,
        }
    }
}

/// Cuts an output [n_rows, n_cols] (row index contiguous) into tiles and calls `job(tile)` once for each.
///
/// Tiles have `tile_rows` x `tile_columns` elements, fewer at the borders (0 is taken as 1). Tiles of the same rows
/// follow each other.
///
/// # Panics
/// If the length of `out` is no multiple of `n_rows`.
pub fn for_each_row_tile(
    pool: &Pool,
    out: &mut [f32],
    n_rows: usize,
    tile: (usize, usize),
    job: impl Fn(RowTile<'_>) + Sync,
) {
    if n_rows == 0 || out.is_empty() {
        return;
    }
    let tiles = RowTiles::new(out, n_rows, tile);
    // SAFETY: the pool calls this once for each index below the number of tiles.
    pool.run(tiles.len(), |index| job(unsafe { tiles.tile(index) }));
}
