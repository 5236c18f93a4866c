use gristmill_quant::TensorType;

use super::{Random, tables};
use crate::activations::prepare_with;
use crate::matmul::{MatrixProduct, matmul_many, matmul_with};
use crate::table::Kernels;
use crate::{Activations, KernelError, Pool};

/// Types that can be multiplied.
fn types() -> impl Iterator<Item = TensorType> {
    TensorType::all().filter(|ty| crate::supports(*ty))
}

/// Rows of an encoder, and rows of random blocks whose scales (found as what makes decoded values non-finite or huge) are tame.
pub(crate) fn random_rows(ty: TensorType, n: usize, n_rows: usize, random: &mut Random) -> Vec<u8> {
    let row_bytes = ty.row_bytes(n as u64).unwrap() as usize;
    let mut bytes = vec![0; row_bytes * n_rows];
    let ones = vec![1.0; n];
    let importance = ty.needs_importance().then_some(&ones[..]);
    ty.encode(&random.floats(n * n_rows), n, importance, &mut bytes)
        .unwrap();
    // Every other row has code words that no encoder writes.
    for row in bytes.chunks_exact_mut(row_bytes).skip(1).step_by(2) {
        for block in row.chunks_exact_mut(ty.block_bytes()) {
            block.copy_from_slice(&tame_block(ty, random));
        }
    }
    bytes
}

/// A block of random bits whose values are moderate.
fn tame_block(ty: TensorType, random: &mut Random) -> Vec<u8> {
    loop {
        let block: Vec<u8> = (0..ty.block_bytes()).map(|_| random.bits() as u8).collect();
        let mut values = vec![0.0; ty.block_len()];
        ty.decode(&block, &mut values).unwrap();
        if values.iter().all(|x| x.abs() < 100.0) {
            return block;
        }
    }
}

fn product(
    kernels: &Kernels,
    pool: &Pool,
    ty: TensorType,
    weights: &[u8],
    n: usize,
    x: &[f32],
) -> Vec<f32> {
    let n_rows = weights.len() / ty.row_bytes(n as u64).unwrap() as usize;
    let n_columns = x.len() / n;
    let mut activations = Activations::new();
    prepare_with(kernels, pool, ty, x, n, n_columns, &mut activations).unwrap();
    let mut out = vec![f32::NAN; n_rows * n_columns];
    matmul_with(
        kernels,
        pool,
        ty,
        weights,
        n,
        n_rows,
        &activations,
        &mut out,
    )
    .unwrap();
    out
}

/// Result and sum of absolute terms of each row and column, in f64 over decoded weights and rounded activations.
fn exact(ty: TensorType, weights: &[u8], n: usize, x: &[f32]) -> Vec<(f64, f64)> {
    let row_bytes = ty.row_bytes(n as u64).unwrap() as usize;
    let n_columns = x.len() / n;
    let mut activations = Activations::new();
    crate::prepare(&Pool::new(1), ty, x, n, n_columns, &mut activations).unwrap();
    let mut out = Vec::new();
    for column in 0..n_columns {
        let mut values = vec![0.0; n];
        activations.values(column, &mut values);
        for row in weights.chunks_exact(row_bytes) {
            let mut decoded = vec![0.0; n];
            ty.decode(row, &mut decoded).unwrap();
            let terms = decoded
                .iter()
                .zip(&values)
                .map(|(&w, &x)| f64::from(w) * f64::from(x));
            out.push(terms.fold((0.0, 0.0), |(sum, size), term| {
                (sum + term, size + term.abs())
            }));
        }
    }
    out
}

/// Minima make the terms of a block larger than its values: a block's terms are d * q * x and m * x.
const CANCELLATION: f64 = 4.0;

#[test]
fn products_are_right_and_do_not_depend_on_width_or_threads() {
    let pools = [Pool::new(1), Pool::new(3)];
    let mut random = Random::new(1);
    for ty in types() {
        let n_lens: &[usize] = if ty.block_len() == 1 {
            &[1, 7, 8, 31, 64, 100, 576]
        } else {
            &[1, 2, 5]
        };
        for &n_blocks in n_lens {
            let n = n_blocks * ty.block_len();
            for (n_rows, n_columns) in [(1, 1), (3, 2), (8, 4), (13, 9), (37, 5), (16, 17)] {
                let weights = random_rows(ty, n, n_rows, &mut random);
                let x = random.floats(n * n_columns);
                let exact = exact(ty, &weights, n, &x);
                for kernels in tables() {
                    let out = product(kernels, &pools[0], ty, &weights, n, &x);
                    for (&out, &(sum, size)) in out.iter().zip(&exact) {
                        let error = (f64::from(out) - sum).abs();
                        assert!(
                            error <= 1e-6 * CANCELLATION * size + 1e-30,
                            "{ty} {} n={n}: {out} {sum} {size}",
                            kernels.isa
                        );
                    }
                    let one_by_one: Vec<f32> = x
                        .chunks_exact(n)
                        .flat_map(|x| product(kernels, &pools[1], ty, &weights, n, x))
                        .collect();
                    assert_eq!(
                        bits(&out),
                        bits(&one_by_one),
                        "{ty} {} n={n} {n_rows}x{n_columns}",
                        kernels.isa
                    );
                    assert_eq!(
                        bits(&out),
                        bits(&product(kernels, &pools[1], ty, &weights, n, &x)),
                        "{ty} {}",
                        kernels.isa
                    );
                }
            }
        }
    }
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn extreme_blocks_do_not_overflow() {
    let pool = Pool::new(2);
    for ty in types().filter(|ty| ty.is_quantized()) {
        let n = ty.block_len().max(64);
        for fill in [0x00, 0x03, 0x7f, 0x80, 0xff, 0x55, 0xaa] {
            for scale_bits in [0x3c00_u16, 0xbc00, 0x0001, 0x0000, 0x03ff] {
                let Some(weights) = filled_rows(ty, n, 11, fill, scale_bits) else {
                    continue;
                };
                for x in [
                    vec![127.0; n * 6],
                    vec![-127.0; n * 6],
                    vec![0.0; n * 6],
                    alternating(n * 6),
                ] {
                    let exact = exact(ty, &weights, n, &x);
                    for kernels in tables() {
                        let out = product(kernels, &pool, ty, &weights, n, &x);
                        for (&out, &(sum, size)) in out.iter().zip(&exact) {
                            // Equal terms of d * q and m may cancel altogether: bound by the scale's share, not the difference.
                            let bound = 1e-6 * CANCELLATION * size
                                + 2e-2 * f64::from(u8::from(size == 0.0))
                                + 1e-6 * 64.0 * 127.0 * n as f64;
                            assert!(
                                (f64::from(out) - sum).abs() <= bound,
                                "{ty} {} fill {fill:x} {scale_bits:x}: {out} {sum}",
                                kernels.isa
                            );
                        }
                    }
                }
            }
        }
    }
}

fn alternating(len: usize) -> Vec<f32> {
    (0..len)
        .map(|index| if index % 2 == 0 { 127.0 } else { -127.0 })
        .collect()
}

/// Rows of blocks of one byte value, with every f16 field (found by which two bytes make values non-finite) set.
fn filled_rows(ty: TensorType, n: usize, n_rows: usize, fill: u8, scale: u16) -> Option<Vec<u8>> {
    let mut block = vec![fill; ty.block_bytes()];
    for offset in float_fields(ty) {
        block[offset..offset + 2].copy_from_slice(&scale.to_le_bytes());
    }
    let mut values = vec![0.0; ty.block_len()];
    ty.decode(&block, &mut values).ok()?;
    values
        .iter()
        .all(|x| x.is_finite())
        .then(|| block.repeat(n / ty.block_len() * n_rows))
}

/// Offsets at which an f16 infinity shows in the decoded values.
fn float_fields(ty: TensorType) -> Vec<usize> {
    let finite = |block: &[u8]| {
        let mut values = vec![0.0; ty.block_len()];
        ty.decode(block, &mut values).unwrap();
        values.iter().all(|x| x.is_finite())
    };
    (0..ty.block_bytes() - 1)
        .step_by(2)
        .filter(|&offset| {
            let mut block = vec![0x11; ty.block_bytes()];
            block[offset..offset + 2].copy_from_slice(&0x7c00_u16.to_le_bytes());
            !finite(&block)
        })
        .collect()
}

#[test]
fn wrong_shapes_and_types_are_refused() {
    let pool = Pool::new(1);
    let mut activations = Activations::new();
    let ty = gristmill_quant::F32;
    assert!(matches!(
        crate::prepare(&pool, ty, &[0.0; 5], 2, 2, &mut activations),
        Err(KernelError::Length { .. })
    ));
    crate::prepare(&pool, ty, &[1.0; 4], 2, 2, &mut activations).unwrap();
    let weights = [0; 8];
    let mut out = [0.0; 2];
    assert_eq!(
        crate::matmul(&pool, ty, &weights, 2, 1, &activations, &mut out),
        Ok(())
    );
    assert!(matches!(
        crate::matmul(&pool, ty, &weights, 2, 2, &activations, &mut out),
        Err(KernelError::Length { .. })
    ));
    assert!(matches!(
        crate::matmul(&pool, ty, &weights, 2, 1, &activations, &mut [0.0]),
        Err(KernelError::Length { .. })
    ));
    let quantized = gristmill_quant::Q8_0;
    assert!(matches!(
        crate::matmul(&pool, quantized, &[0; 34], 32, 1, &activations, &mut out),
        Err(KernelError::Layout { .. })
    ));
    assert!(matches!(
        crate::matmul(
            &pool,
            gristmill_quant::I8,
            &[],
            256,
            0,
            &activations,
            &mut []
        ),
        Err(KernelError::UnsupportedType { .. })
    ));
}

#[test]
fn not_a_number_stays_visible() {
    let pool = Pool::new(1);
    for kernels in tables() {
        for ty in types() {
            let n = ty.block_len().max(32);
            let weights = random_rows(ty, n, 9, &mut Random::new(3));
            for bad in [f32::NAN, f32::INFINITY] {
                let mut x = vec![0.5; n];
                x[7] = bad;
                let out = product(kernels, &pool, ty, &weights, n, &x);
                assert!(out.iter().all(|x| !x.is_finite()), "{ty} {}", kernels.isa);
            }
        }
    }
}

#[test]
fn several_products_are_the_single_ones() {
    let n = 512;
    let mut random = Random::new(9);
    for n_columns in [0, 1, 9] {
        let x = random.floats(n * n_columns);
        for pool in [Pool::new(1), Pool::new(3)] {
            let mut activations = Activations::new();
            crate::prepare(
                &pool,
                gristmill_quant::Q4_K,
                &x,
                n,
                n_columns,
                &mut activations,
            )
            .unwrap();
            // More than fit one job; one has no rows.
            let matrices: Vec<_> = [200, 8, 0, 77, 1, 160]
                .into_iter()
                .zip(types().filter(|ty| ty.is_quantized()))
                .map(|(n_rows, ty)| (ty, n_rows, random_rows(ty, n, n_rows, &mut random)))
                .collect();
            let mut together: Vec<_> = matrices
                .iter()
                .map(|(_, n_rows, _)| vec![f32::NAN; n_rows * n_columns])
                .collect();
            let products =
                matrices
                    .iter()
                    .zip(&mut together)
                    .map(|((ty, n_rows, weights), out)| MatrixProduct {
                        ty: *ty,
                        weights,
                        n_rows: *n_rows,
                        out,
                    });
            matmul_many(&pool, n, &activations, products).unwrap();
            for ((ty, n_rows, weights), together) in matrices.iter().zip(&together) {
                let mut alone = vec![f32::NAN; n_rows * n_columns];
                crate::matmul(&pool, *ty, weights, n, *n_rows, &activations, &mut alone).unwrap();
                let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(together), bits(&alone), "{ty}");
                assert!(alone.iter().all(|x| x.is_finite()));
            }
        }
    }
}
