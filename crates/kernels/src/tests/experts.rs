use super::matmul::random_rows;
use super::{Random, tables};
use crate::activations::prepare_with;
use crate::experts::experts_with;
use crate::matmul::{MatrixProduct, matmul_with};
use crate::{Activations, ExpertOrder, KernelError, Pool};
use gristmill_quant as quant;

/// Uneven on purpose: one expert that nobody takes, one that most take, one taken twice by a column.
const EXPERTS: [usize; 18] = [4, 0, 1, 4, 0, 2, 4, 4, 1, 4, 0, 4, 4, 2, 0, 4, 1, 0];
const N_EXPERTS: usize = 5;

#[test]
fn each_pair_has_the_bits_of_its_experts_product() {
    let mut random = Random::new(5);
    let (n, n_rows) = (512, 37);
    for ty in [
        quant::F32,
        quant::BF16,
        quant::Q8_0,
        quant::Q4_K,
        quant::IQ2_XS,
    ] {
        let weights: Vec<u8> = (0..N_EXPERTS)
            .flat_map(|_| random_rows(ty, n, n_rows, &mut random))
            .collect();
        let expert_bytes = weights.len() / N_EXPERTS;
        // Either every two pairs share a column, or each has its own.
        for (sharing, n_columns) in [(2, EXPERTS.len() / 2), (1, EXPERTS.len())] {
            let x = random.floats(n * n_columns);
            for (kernels, n_threads) in tables().flat_map(|table| [(table, 1), (table, 3)]) {
                let pool = Pool::new(n_threads);
                let prepared = |x: &[f32]| {
                    let mut columns = Activations::new();
                    let n_columns = x.len() / n;
                    prepare_with(kernels, &pool, ty, x, n, n_columns, &mut columns).unwrap();
                    columns
                };
                let mut order = ExpertOrder::new();
                order.set(EXPERTS.iter().copied(), N_EXPERTS).unwrap();
                let mut found = [(); 5].map(|()| vec![f32::NAN; n_rows * EXPERTS.len()]);
                // More than fit one job.
                let products = found.iter_mut().map(|out| MatrixProduct {
                    ty,
                    weights: &weights,
                    n_rows,
                    out,
                });
                let columns = prepared(&x);
                experts_with(kernels, &pool, n, &columns, &mut order, sharing, products).unwrap();
                for (pair, &expert) in EXPERTS.iter().enumerate() {
                    let column = prepared(&x[pair / sharing * n..][..n]);
                    let weights = &weights[expert * expert_bytes..][..expert_bytes];
                    let mut alone = vec![f32::NAN; n_rows];
                    let (pool, out) = (&Pool::new(1), &mut alone);
                    matmul_with(kernels, pool, ty, weights, n, n_rows, &column, out).unwrap();
                    for found in &found {
                        let found = &found[pair * n_rows..][..n_rows];
                        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                        assert_eq!(bits(found), bits(&alone), "{ty} {} {pair}", kernels.isa);
                    }
                }
            }
        }
    }
}

#[test]
fn wrong_experts_and_lengths_are_refused() {
    let pool = Pool::new(1);
    let mut order = ExpertOrder::new();
    let error = order.set([0, 7].into_iter(), 7).unwrap_err();
    assert_eq!(error.to_string(), "expert 7 of token 1 is out of range");
    order.set([1, 0].into_iter(), 2).unwrap();
    let mut columns = Activations::new();
    crate::prepare(&pool, quant::F32, &[1.0, 2.0], 1, 2, &mut columns).unwrap();
    let weights: Vec<u8> = [3f32, 5.0].iter().flat_map(|w| w.to_le_bytes()).collect();
    let mut run = |sharing, n_rows, weights: &[u8], out: &mut [f32]| {
        let product = MatrixProduct {
            ty: quant::F32,
            weights,
            n_rows,
            out,
        };
        crate::matmul_experts(&pool, 1, &columns, &mut order, sharing, [product])
    };
    let mut out = [0.0; 2];
    run(1, 1, &weights, &mut out).unwrap();
    assert_eq!(out, [5.0, 6.0]);
    let is_length = |result| matches!(result, Err(KernelError::Length { .. }));
    assert!(is_length(run(2, 1, &weights, &mut out)));
    assert!(is_length(run(1, 1, &weights[4..], &mut out)));
    assert!(is_length(run(1, 1, &weights, &mut out[1..])));
    assert!(is_length(run(1, 2, &weights, &mut out)));
}
