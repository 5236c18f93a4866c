//! Pages and tables.

use std::sync::Arc;

use gristmill_compute::Tensor;

use super::*;

const A: SequenceId = SequenceId(0);
const B: SequenceId = SequenceId(1);

fn cache(n_pages: usize) -> PagedCache {
    let shape = LayerShape {
        key_dim: 2,
        value_dim: 3,
        n_head_kv: 1,
        window: None,
    };
    cache_of(&[shape; 2], n_pages, 1)
}

fn cache_of(shapes: &[LayerShape], n_pages: usize, n_ubatch: usize) -> PagedCache {
    let room = CacheRoom {
        n_taken_back: 0,
        n_ctx: n_pages * PAGE_LEN,
        n_ubatch,
        n_sequences: 1,
        keeps_all: false,
    };
    let layout = CacheLayout::new(shapes.to_vec(), CacheTypes::F32, &room).unwrap();
    let backend = Arc::new(gristmill_compute::PlainBackend::default());
    let cache = PagedCache::new(backend, &layout, Some(vec![None; shapes.len()])).unwrap();
    assert_eq!(cache.n_bytes(), layout.n_bytes());
    cache
}

#[test]
fn pages_follow_the_length() {
    let mut cache = cache(4);
    cache.append(A, PAGE_LEN + 1).unwrap();
    cache.append(B, 1).unwrap();
    assert_eq!(
        (cache.pages(0, A), cache.pages(0, B)),
        (&[0, 1][..], &[2][..])
    );
    assert_eq!(cache.slot(0, A, PAGE_LEN), Some(PAGE_LEN));
    assert_eq!(cache.slot(0, B, 0), Some(2 * PAGE_LEN));
    assert!(matches!(
        cache.append(B, 2 * PAGE_LEN),
        Err(EngineError::CacheFull {
            needed: 2,
            free: 1,
            ..
        })
    ));
    assert_eq!(cache.n_past(B), 1);
    assert_eq!(cache.truncate(A, PAGE_LEN), PAGE_LEN);
    assert_eq!(cache.truncate(A, PAGE_LEN + 5), PAGE_LEN);
    cache.append(B, 2 * PAGE_LEN).unwrap();
    assert_eq!(cache.pages(0, B), [2, 1, 3]);
    assert_eq!(cache.truncate(B, 0), 0);
    assert_eq!(free(&cache), [3, 2, 1]);
    assert_eq!(cache.n_bytes(), 2 * 4 * (PAGE_LEN * 5 * 4) as u64);
}

#[test]
fn a_fork_shares_pages_until_it_appends() {
    let mut cache = cache(4);
    cache.append(A, PAGE_LEN + 2).unwrap();
    let k = cache.layers()[1].k;
    cache.backend.write(k.buffer, 600, &[7; 8]).unwrap(); // in page 1
    cache.fork(A, B);
    assert_eq!(cache.pages(0, B), [0, 1]);
    cache.append(B, 1).unwrap();
    assert_eq!(
        (cache.pages(0, A), cache.pages(0, B)),
        (&[0, 1][..], &[0, 2][..])
    );
    let mut copied = [0; 8];
    cache
        .backend
        .read(k.buffer, 600 + 512, &mut copied)
        .unwrap();
    assert_eq!(copied, [7; 8]);
    cache.truncate(A, 0);
    assert_eq!(free(&cache), [3, 1]);
    cache.truncate(B, 0);
    assert_eq!(free(&cache), [3, 2, 1, 0]);
}

#[test]
fn a_saved_state_comes_back() {
    let mut cache = cache(4);
    cache.append(A, PAGE_LEN + 2).unwrap();
    cache
        .backend
        .write(cache.layers()[0].v.buffer, 768, &[9; 768])
        .unwrap(); // page 1
    let state = cache.save(A).unwrap();
    cache.restore(B, &state).unwrap();
    assert_eq!(cache.n_past(B), PAGE_LEN + 2);
    assert_eq!(cache.save(B).unwrap(), state);
    assert!(matches!(
        cache.restore(A, &state[..9]),
        Err(EngineError::SavedState { bytes: 9 })
    ));
    assert!(cache.restore(A, &[255; 8]).is_err());
}

#[test]
fn a_state_without_room_leaves_the_sequence_as_it_is() {
    let mut donor = cache(4);
    donor.append(A, 3 * PAGE_LEN).unwrap();
    let state = donor.save(A).unwrap();
    let mut cache = cache(4);
    cache.append(A, PAGE_LEN + 2).unwrap();
    cache.append(B, PAGE_LEN).unwrap();
    cache.fork(A, SequenceId(2));
    // One page is free; those of A are shared.
    let full = |result| {
        matches!(
            result,
            Err(EngineError::CacheFull {
                needed: 3,
                free: 1,
                ..
            })
        )
    };
    assert!(full(cache.restore(A, &state)));
    assert_eq!(
        (cache.n_past(A), cache.pages(0, A)),
        (PAGE_LEN + 2, &[0, 1][..])
    );
    cache.truncate(SequenceId(2), 0);
    cache.restore(A, &state).unwrap();
    assert_eq!((cache.n_past(A), cache.n_past(B)), (3 * PAGE_LEN, PAGE_LEN));
}

/// The free pages of the first table, each taken and given back.
fn free(cache: &PagedCache) -> Vec<u32> {
    let mut free = Vec::new();
    let mut table = cache.tables[0].clone();
    while let Some(page) = table.take_page() {
        free.insert(0, page);
    }
    free
}

/// A layer with all positions and one with a window of 100, in 10 pages of context and parts of 30 tokens.
fn windowed() -> PagedCache {
    let all = LayerShape {
        key_dim: 2,
        value_dim: 2,
        n_head_kv: 2,
        window: None,
    };
    let window = Some(100);
    let shapes = [all, LayerShape { window, ..all }];
    cache_of(&shapes, 10, 30)
}

#[test]
fn a_window_holds_few_pages() {
    let mut cache = windowed();
    // 129 positions and those before them in their page: three pages and one more.
    assert_eq!(cache.layers()[1].k.shape.dims()[3], 4);
    assert_eq!((cache.layers()[0].table, cache.layers()[1].table), (0, 1));
    while cache.n_past(A) < 600 {
        let n_past = cache.n_past(A);
        cache.append(A, 30).unwrap();
        assert_eq!(cache.pages(0, A).len(), (n_past + 30).div_ceil(PAGE_LEN));
        for position in (n_past + 1).saturating_sub(100)..n_past + 30 {
            assert!(cache.slot(1, A, position).is_some(), "{n_past}: {position}");
        }
    }
    assert_eq!(cache.slot(1, A, 0), None);
    // Back to where the window is still there, and no farther.
    let mut other = windowed();
    other.restore(A, &cache.save(A).unwrap()).unwrap();
    assert_eq!(other.save(A).unwrap(), cache.save(A).unwrap());
    assert_eq!(cache.truncate(A, 595), 595);
    assert_eq!(cache.truncate(A, 400), 0);
    assert_eq!(cache.pages(0, A).len() + cache.pages(1, A).len(), 0);
}

#[test]
fn positions_that_go_leave_no_gap() {
    for mut cache in [cache(8), windowed()] {
        cache.append(A, 200).unwrap();
        let tensors = [cache.layers()[0].k, cache.layers()[1].v];
        let row = |tensor: &Tensor, slot: usize| {
            let head_bytes = tensor.row_bytes().unwrap() * PAGE_LEN;
            let [_, _, n_head_kv, _] = tensor.shape.dims();
            let last_head = slot / PAGE_LEN * n_head_kv + n_head_kv - 1;
            last_head * head_bytes + slot % PAGE_LEN * tensor.row_bytes().unwrap()
        };
        for position in 100..200u8 {
            for (table, tensor) in tensors.iter().enumerate() {
                let table = table.min(cache.n_tables() - 1);
                let slot = cache.slot(table, A, usize::from(position)).unwrap();
                let offset = row(tensor, slot);
                cache
                    .backend
                    .write(tensor.buffer, offset, &[position; 4])
                    .unwrap();
            }
        }
        if cache.n_tables() == 1 {
            cache.fork(A, B);
        }
        let before = cache.save(B).unwrap();
        assert_eq!(cache.remove(A, 110..140).unwrap(), 170);
        assert_eq!(cache.save(B).unwrap(), before, "a fork keeps its pages");
        for position in 100..170u8 {
            let expected = if position < 110 {
                position
            } else {
                position + 30
            };
            for (table, tensor) in tensors.iter().enumerate() {
                let table = table.min(cache.n_tables() - 1);
                let slot = cache.slot(table, A, usize::from(position)).unwrap();
                let mut found = [0; 4];
                cache
                    .backend
                    .read(tensor.buffer, row(tensor, slot), &mut found)
                    .unwrap();
                assert_eq!(found, [expected; 4], "{position}");
            }
        }
        cache.append(A, 10).unwrap();
        assert_eq!(cache.remove(A, 500..600).unwrap(), 180);
        assert_eq!(cache.remove(A, 20..5000).unwrap(), 20);
    }
    // What the window would see is gone: only what no window needs is left.
    let mut cache = windowed();
    for _ in 0..20 {
        cache.append(A, 30).unwrap();
    }
    assert_eq!(cache.remove(A, 10..550).unwrap(), 0);
}

#[test]
fn a_saved_state_holds_nothing_of_others() {
    let mut cache = cache(2);
    let k = cache.layers()[0].k;
    cache.append(A, 3).unwrap();
    cache.backend.write(k.buffer, 0, &[9; 512]).unwrap();
    cache.truncate(A, 0);
    cache.append(B, 2).unwrap();
    let state = cache.save(B).unwrap();
    assert_eq!(state[8..8 + 512], [&[9; 16][..], &[0; 496]].concat());
}
