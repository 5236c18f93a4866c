use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::{Pool, for_each_chunk, for_each_row_tile};

#[test]
fn every_chunk_runs_once() {
    for n_threads in [0, 1, 2, 3, 7] {
        let pool = Pool::new(n_threads);
        assert_eq!(pool.n_threads(), n_threads.max(1));
        for round in 0..2000 {
            let n_chunks = round % 37;
            let counts: Vec<AtomicU32> = (0..n_chunks).map(|_| AtomicU32::new(0)).collect();
            pool.run(n_chunks, |chunk| {
                counts[chunk].fetch_add(1, Ordering::Relaxed);
            });
            assert!(
                counts
                    .iter()
                    .all(|count| count.load(Ordering::Relaxed) == 1)
            );
        }
    }
}

#[test]
fn parked_threads_wake_up() {
    let pool = Pool::new(3);
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(2));
        let count = AtomicUsize::new(0);
        pool.run(64, |_| {
            std::thread::sleep(Duration::from_micros(50));
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.load(Ordering::Relaxed), 64);
    }
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
    let pool = Pool::new(3);
    for bad in [0, 5, 99] {
        let result = catch_unwind(AssertUnwindSafe(|| {
            pool.run(100, |chunk| {
                std::thread::sleep(Duration::from_micros(20));
                assert!(chunk != bad, "chunk {bad}");
            });
        }));
        assert!(result.is_err());
        let count = AtomicUsize::new(0);
        pool.run(100, |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.load(Ordering::Relaxed), 100);
    }
}

#[test]
fn nested_and_concurrent_runs_do_their_chunks() {
    let pool = Pool::new(2);
    let count = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    pool.run(4, |_| {
                        pool.run(3, |_| {
                            count.fetch_add(1, Ordering::Relaxed);
                        })
                    });
                }
            });
        }
    });
    assert_eq!(count.load(Ordering::Relaxed), 4 * 200 * 12);
}

/// Threads that hold the cores must not slow a job by more than the cores they take.
#[test]
fn a_busy_neighbour_does_not_stall_jobs() {
    let n_cores = std::thread::available_parallelism().map_or(2, |n| n.get());
    let pool = Pool::new(n_cores);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..n_cores {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let start = Instant::now();
        for _ in 0..2000 {
            pool.run(16, |_| {
                std::hint::black_box((0..200).fold(0_u64, |sum, x| sum.wrapping_mul(31) + x));
            });
        }
        let elapsed = start.elapsed();
        stop.store(true, Ordering::Relaxed);
        // About 10 ms of work. Endless spinning would wait a scheduler slice (milliseconds) per job: tens of seconds.
        assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
    });
}

#[test]
fn outputs_are_cut_without_gap_or_overlap() {
    let pool = Pool::new(3);
    for len in [0, 1, 7, 64, 100] {
        for chunk_len in [0, 1, 3, 64, 1000] {
            let mut out = vec![0.0; len];
            for_each_chunk(&pool, &mut out, chunk_len, |index, piece| {
                for (offset, x) in piece.iter_mut().enumerate() {
                    *x += (index * chunk_len.max(1) + offset) as f32 + 1.0;
                }
            });
            assert!(
                out.iter()
                    .enumerate()
                    .all(|(index, &x)| x == index as f32 + 1.0)
            );
        }
    }
    for (n_rows, n_columns, tile) in [
        (1, 1, (1, 1)),
        (7, 5, (3, 2)),
        (64, 9, (16, 100)),
        (5, 3, (0, 0)),
    ] {
        let mut out = vec![0.0; n_rows * n_columns];
        for_each_row_tile(&pool, &mut out, n_rows, tile, |mut tile| {
            for column in tile.columns() {
                for (row, x) in tile.rows().zip(tile.column(column)) {
                    *x += (column * n_rows + row) as f32 + 1.0;
                }
            }
        });
        assert!(
            out.iter()
                .enumerate()
                .all(|(index, &x)| x == index as f32 + 1.0)
        );
    }
}
