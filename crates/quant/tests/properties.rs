//! What holds for every type of the registry, on any input.

use gristmill_quant::{F32, NVFP4, Q8_1, QuantError, TensorType};
use proptest::prelude::*;

/// A length that is a whole number of blocks for every type.
const N: usize = 512;

fn encode(ty: TensorType, x: &[f32]) -> Vec<u8> {
    let mut out = vec![0; ty.row_bytes(x.len() as u64).expect("whole blocks") as usize];
    let ones = vec![1.0; x.len()];
    ty.encode(x, x.len(), least_importance(ty, &ones), &mut out)
        .expect("the buffers fit");
    out
}

/// An importance matrix only where there is no encoding without.
fn least_importance(ty: TensorType, ones: &[f32]) -> Option<&[f32]> {
    ty.needs_importance().then_some(ones)
}

fn decode(ty: TensorType, bytes: &[u8]) -> Vec<f32> {
    let mut out = vec![0.0; bytes.len() / ty.block_bytes() * ty.block_len()];
    ty.decode(bytes, &mut out).expect("whole blocks");
    out
}

/// Root of the mean squared error, as a share of the largest magnitude, that a type may lose.
fn loss_max(ty: TensorType) -> f64 {
    if ty.is_quantized() {
        0.5f64.powi(ty.bits_per_weight() as i32 - 1)
    } else {
        0.5f64.powi(8)
    }
}

/// Whether a block's scale can be this large. The scales of NVFP4 have a short exponent and rely on one of the tensor.
fn covers(ty: TensorType, largest: f64) -> bool {
    ty != NVFP4 || (1.0 / 64.0..448.0).contains(&(largest / 6.0))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn encoding_loses_little(
        x in prop::collection::vec(-1.0f32..1.0, N), exponent in -10i32..10, offset in -2.0f32..2.0,
    ) {
        let x: Vec<f32> = x.iter().map(|x| (x + offset) * 2f32.powi(exponent)).collect();
        let largest = f64::from(x.iter().fold(0.0f32, |max, x| max.max(x.abs())));
        for ty in TensorType::all().filter(|ty| ty.can_encode() && covers(*ty, largest)) {
            let bytes = encode(ty, &x);
            prop_assert_eq!(ty.validate(&bytes), Ok(()));
            let square = |(x, y): (&f32, f32)| (f64::from(*x) - f64::from(y)).powi(2);
            let loss = (x.iter().zip(decode(ty, &bytes)).map(square).sum::<f64>() / N as f64).sqrt();
            prop_assert!(loss <= largest * loss_max(ty), "{}: {} of {}", ty, loss, largest);
        }
    }

    #[test]
    fn any_floats_encode(bits in prop::collection::vec(any::<u32>(), N), special in 0usize..N, ones in any::<bool>()) {
        let mut x: Vec<f32> = bits.iter().map(|&bits| f32::from_bits(bits)).collect();
        (x[special], x[(special + 7) % N]) = (f32::NAN, f32::INFINITY);
        let importance = if ones { vec![1.0; N] } else { x.clone() };
        for ty in TensorType::all().filter(|ty| ty.can_encode()) {
            let mut bytes = encode(ty, &x);
            ty.encode(&x, N, Some(&importance), &mut bytes).expect("the buffers fit");
            let _ = (ty.validate(&bytes), decode(ty, &bytes));
        }
    }

    #[test]
    fn any_bytes_decode(bytes in prop::collection::vec(any::<u8>(), N * 4)) {
        for ty in TensorType::all().filter(|ty| ty.can_decode()) {
            let bytes = &bytes[..ty.row_bytes(N as u64).expect("whole blocks") as usize];
            prop_assert_eq!(decode(ty, bytes).len(), N);
            let _ = ty.validate(bytes);
            let Some(activation) = ty.activation() else { continue };
            let y = encode(activation, &vec![1.0; N]);
            ty.dot(N, bytes, &y).expect("the buffers fit");
            let n_bytes = activation.row_bytes(N as u64).expect("whole blocks") as usize;
            ty.dot(N, bytes, &vec![0x80; n_bytes]).expect("the buffers fit");
        }
    }

    #[test]
    fn dot_is_the_sum_over_decoded_values(
        x in prop::collection::vec(-1.0f32..1.0, N), y in prop::collection::vec(-1.0f32..1.0, N),
    ) {
        for ty in TensorType::all().filter(|ty| ty.can_decode()) {
            let Some(activation) = ty.activation() else { continue };
            let (x, y) = (encode(ty, &x), encode(activation, &y));
            let terms = decode(ty, &x).into_iter().zip(decode(activation, &y));
            let terms: Vec<f64> = terms.map(|(x, y)| f64::from(x) * f64::from(y)).collect();
            let magnitude: f64 = terms.iter().map(|term| term.abs()).sum();
            // Q8_1 carries its sum in 16 bits.
            let tolerance = if activation == Q8_1 { 2e-3 } else { 1e-6 };
            let error = f64::from(ty.dot(N, &x, &y).expect("the buffers fit")) - terms.iter().sum::<f64>();
            prop_assert!(error.abs() <= tolerance * magnitude, "{}: off by {} of {}", ty, error, magnitude);
        }
    }
}

#[test]
fn rows_are_independent() {
    let x: Vec<f32> = (0..4 * N)
        .map(|i| ((i * 7919 % 1009) as f32 - 504.0) / 100.0)
        .collect();
    for ty in TensorType::all().filter(|ty| ty.can_encode()) {
        let row_by_row: Vec<u8> = x.chunks(N).flat_map(|row| encode(ty, row)).collect();
        let mut together = vec![0; row_by_row.len()];
        let importance = vec![1.0; N];
        ty.encode(&x, N, least_importance(ty, &importance), &mut together)
            .expect("the buffers fit");
        assert_eq!(together, row_by_row, "{ty}");
        ty.encode(&x, N, Some(&importance), &mut together)
            .expect("the buffers fit");
        let mut row = vec![0; together.len() / 4];
        ty.encode(&x[N..2 * N], N, Some(&importance), &mut row)
            .expect("the buffers fit");
        assert_eq!(together[row.len()..2 * row.len()], row, "{ty}");
    }
}

#[test]
fn a_type_without_codec_is_named() {
    for ty in TensorType::all().filter(|ty| !ty.can_decode()) {
        let error = ty.decode(&[], &mut []).expect_err("there is no codec");
        assert_eq!(error.to_string(), format!("tensor type {ty} has no decode"));
    }
}

#[test]
fn wrong_lengths_are_errors() {
    let ty = TensorType::from_name("Q4_K").expect("it is registered");
    assert_eq!(
        ty.row_bytes(100),
        Err(QuantError::RowLength { ty, row_len: 100 })
    );
    assert_eq!(
        F32.row_bytes(u64::MAX),
        Err(QuantError::Overflow {
            ty: F32,
            n: u64::MAX
        })
    );
    assert!(ty.encode(&[0.0; 256], 0, None, &mut [0; 144]).is_err());
    assert!(
        ty.encode(&[0.0; 256], 256, Some(&[1.0; 3]), &mut [0; 144])
            .is_err()
    );
    assert!(ty.encode(&[0.0; 256], 256, None, &mut [0; 143]).is_err());
    assert!(ty.encode(&[0.0; 300], 256, None, &mut [0; 144]).is_err());
    assert!(ty.decode(&[0; 144], &mut [0.0; 255]).is_err());
    assert!(ty.dot(256, &[0; 144], &[0; 291]).is_err());
    assert!(ty.validate(&[0; 145]).is_err());
}

#[test]
fn non_finite_scales_are_found() {
    let (ty, x) = (
        TensorType::from_name("q8_0").expect("it is registered"),
        [0.5f32; 64],
    );
    let mut bytes = encode(ty, &x);
    bytes[34..36].copy_from_slice(&[0x00, 0x7c]);
    let error = ty
        .validate(&bytes)
        .expect_err("the second scale is infinite");
    assert_eq!(error, QuantError::NonFinite { ty, block: 1 });
    assert!(
        error
            .to_string()
            .starts_with("quantized data validation failed")
    );
}

#[test]
fn byte_order_turns_and_returns() {
    let blocks: Vec<u8> = (0..584).map(|byte| (byte % 251) as u8).collect();
    for ty in TensorType::all() {
        let before = &blocks[..2 * ty.block_bytes()];
        let mut data = before.to_vec();
        ty.swap_byte_order(&mut data).expect("whole blocks");
        // Bytes only change places, the same way in every block, and twice is not at all.
        let sorted = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes.sort_unstable();
            bytes
        };
        assert_eq!(sorted(&data), sorted(before), "{ty}");
        assert_eq!(
            data != before,
            !["i8", "mxfp4", "nvfp4"].contains(&ty.name()),
            "{ty}"
        );
        ty.swap_byte_order(&mut data).expect("it worked before");
        assert_eq!(data, before, "{ty}");
        if ty.block_bytes() > 1 {
            assert!(ty.swap_byte_order(&mut data[1..]).is_err(), "{ty}");
        }
    }
    // A u32 of signs and scale among bytes of indices.
    let iq2_xxs = TensorType::from_name("iq2_xxs").expect("it is registered");
    let mut block: Vec<u8> = (0..66).collect();
    iq2_xxs.swap_byte_order(&mut block).expect("a whole block");
    assert_eq!(block[..14], [1, 0, 2, 3, 4, 5, 9, 8, 7, 6, 10, 11, 12, 13]);
    // The scales of q6_K stand last.
    let q6_k = TensorType::from_name("q6_K").expect("it is registered");
    let mut block = vec![0; 210];
    block[208] = 1;
    q6_k.swap_byte_order(&mut block).expect("a whole block");
    assert_eq!(block[208..], [0, 1]);
}

/// Weights that differ a thousandfold from column to column, on values that no levels fit.
#[test]
fn importance_changes_what_takes_it() {
    let x: Vec<f32> = (0..N)
        .map(|i| ((i * 7919 % 1009) as f32 - 504.0) / 300.0)
        .collect();
    let weights: Vec<f32> = (0..N)
        .map(|i| if i % 3 == 0 { 1000.0 } else { 1.0 })
        .collect();
    let ones = vec![1.0; N];
    for ty in TensorType::all().filter(|ty| ty.can_encode()) {
        let encoded = |importance: Option<&[f32]>| {
            let mut out = vec![0; ty.row_bytes(N as u64).expect("whole blocks") as usize];
            ty.encode(&x, N, importance, &mut out)
                .expect("the buffers fit");
            out
        };
        let plain = encoded(least_importance(ty, &ones));
        assert_eq!(
            encoded(Some(&weights)) != plain,
            ty.takes_importance(),
            "{ty}"
        );
    }
}
