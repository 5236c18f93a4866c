//! Speed of the product kernels: `cargo run --release -p gristmill-kernels --example speed [TYPE] [THREADS]`.
//!
//! For each type: one column (decode) in GB/s of weights and GMAC/s, 512 columns (prefill) in GMAC/s.

use std::time::Instant;

use gristmill_kernels::{Activations, Pool, isa, matmul, prepare, supports};
use gristmill_quant::TensorType;

/// Row length and number of rows: a slice of a feed-forward matrix, short enough that the best of many runs was not
/// interrupted; the matrix; one that no cache holds.
const SHAPES: [(usize, usize); 4] = [(512, 64), (1536, 64), (1536, 576), (2048, 32768)];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let only = arguments
        .first()
        .and_then(|name| TensorType::from_name(name));
    let n_threads = arguments.get(1).and_then(|n| n.parse().ok()).unwrap_or(2);
    let pool = Pool::new(n_threads);
    println!(
        "{} on {n_threads} threads; empty dispatch {:.2} us",
        isa(),
        dispatch(&pool)
    );
    for ty in TensorType::all().filter(|ty| supports(*ty) && only.is_none_or(|only| only == *ty)) {
        for (n, n_rows) in SHAPES {
            let weights = weights(ty, n, n_rows);
            for n_columns in [1, 4, 64, 512] {
                if n_columns == 512 && n_rows > 100 && only.is_none() {
                    continue;
                }
                report(&pool, ty, &weights, (n, n_rows, n_columns));
            }
        }
    }
}

/// Rows of a few encoded values, repeated.
fn weights(ty: TensorType, n: usize, n_rows: usize) -> Vec<u8> {
    let x: Vec<f32> = (0..n)
        .map(|i| ((i * 2_654_435_761) % 1000) as f32 / 500.0 - 1.0)
        .collect();
    let mut row = vec![0; n / ty.block_len() * ty.block_bytes()];
    let ones = vec![1.0; n];
    let importance = ty.needs_importance().then_some(&ones[..]);
    if let Err(error) = ty.encode(&x, n, importance, &mut row) {
        println!("{ty}: {error}");
    }
    row.repeat(n_rows)
}

fn report(
    pool: &Pool,
    ty: TensorType,
    weights: &[u8],
    (n, n_rows, n_columns): (usize, usize, usize),
) {
    let x: Vec<f32> = (0..n * n_columns)
        .map(|i| (i % 97) as f32 / 48.0 - 1.0)
        .collect();
    let mut activations = Activations::new();
    let mut out = vec![0.0; n_rows * n_columns];
    let (mut best, mut best_prepare) = (f64::INFINITY, f64::INFINITY);
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < 0.6 {
        let begin = Instant::now();
        let result = prepare(pool, ty, &x, n, n_columns, &mut activations);
        best_prepare = best_prepare.min(begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        let result =
            result.and_then(|()| matmul(pool, ty, weights, n, n_rows, &activations, &mut out));
        best = best.min(begin.elapsed().as_secs_f64());
        if let Err(error) = result {
            println!("{ty}: {error}");
            return;
        }
    }
    println!(
        "{ty:>5} {n:>5} x {n_rows:<6} x {n_columns:<4} {:9.1} us {:7.1} GMAC/s {:6.1} GB/s   prepare {:6.1} us",
        best * 1e6,
        (n * n_rows * n_columns) as f64 / best / 1e9,
        weights.len() as f64 / best / 1e9,
        best_prepare * 1e6
    );
}

/// Microseconds of a job of two empty chunks, back to back.
fn dispatch(pool: &Pool) -> f64 {
    let rounds = 20_000;
    let start = Instant::now();
    for _ in 0..rounds {
        pool.run(2, |_| ());
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(rounds)
}
