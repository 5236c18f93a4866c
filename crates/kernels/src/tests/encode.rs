//! Encoders of every instruction set give the bytes of the plain ones.

use gristmill_quant::{F32, Readers, TensorType};

use super::{Random, tables};

/// Rows with ordinary numbers, and with all that makes a search go astray.
fn rows(random: &mut Random, row_len: usize) -> Vec<(&'static str, Vec<f32>)> {
    let uniform = random.floats(row_len);
    let with = |change: &dyn Fn(usize, f32) -> f32| {
        let changed = uniform.iter().enumerate().map(|(i, &x)| change(i, x));
        changed.collect::<Vec<f32>>()
    };
    // Finite, as a quantizer's input is: what a NaN becomes depends on which of two a sum keeps.
    let any_bits = std::iter::repeat_with(|| f32::from_bits(random.bits() as u32));
    let any_bits = any_bits.filter(|x| x.is_finite()).take(row_len).collect();
    vec![
        ("uniform", uniform.clone()),
        ("tails", with(&|_, x| x * x * x * 4.0)),
        ("positive", with(&|_, x| x.abs() + 0.5)),
        ("negative", with(&|_, x| -x.abs() - 0.5)),
        ("constant", vec![0.37; row_len]),
        ("zero", vec![0.0; row_len]),
        (
            "signed zeros",
            with(&|_, x| if x > 0.0 { 0.0 } else { -0.0 }),
        ),
        ("ties", with(&|_, x| (x * 8.0).round() / 2.0)),
        ("sparse", with(&|i, x| if i % 37 == 0 { x } else { 0.0 })),
        ("outlier", with(&|i, x| if i % 64 == 5 { 300.0 } else { x })),
        ("tiny", with(&|_, x| x * 1e-30)),
        ("subnormal", with(&|_, x| x * 1e-40)),
        ("huge", with(&|_, x| x * 1e30)),
        ("any bits", any_bits),
    ]
}

#[test]
fn bytes_are_those_of_the_plain_encoder() {
    let mut random = Random::new(11);
    let mut n_compared = 0;
    for table in tables() {
        for ty in TensorType::all().filter(|ty| ty.can_encode()) {
            let encode = table.of(ty).and_then(|kernels| kernels.encode);
            let Some(encode) = encode else { continue };
            // 288 and 544 leave blocks over where eight go side by side.
            for row_len in [32, 256, 288, 544, 1024] {
                if ty.row_bytes(row_len as u64).is_err() {
                    continue;
                }
                let weights: Vec<f32> = random.floats(row_len).iter().map(|w| w * w).collect();
                for (name, x) in rows(&mut random, row_len) {
                    for importance in [None, Some(&weights[..])] {
                        if importance.is_none() && ty.needs_importance() {
                            continue;
                        }
                        let size = ty.row_bytes(row_len as u64).unwrap() as usize;
                        let (mut plain, mut fast) = (vec![0; size], vec![0; size]);
                        ty.encode(&x, row_len, importance, &mut plain).unwrap();
                        encode(&x, row_len, importance, &mut fast);
                        let weighted = importance.is_some();
                        let isa = table.isa;
                        assert!(
                            plain == fast,
                            "{isa:?} {ty} {name} {row_len} weighted: {weighted}"
                        );
                        n_compared += 1;
                    }
                }
            }
        }
    }
    println!("{n_compared} rows encoded");
}

#[test]
fn values_are_those_of_the_plain_decoder() {
    let mut random = Random::new(12);
    for table in tables() {
        let decoders = table
            .types
            .iter()
            .filter(|kernels| kernels.decode.is_some());
        for ty in decoders.map(|kernels| kernels.ty) {
            let n_bytes = 9 * ty.block_bytes();
            let bytes: Vec<u8> = std::iter::repeat_with(|| random.bits() as u8)
                .take(n_bytes)
                .collect();
            let decoded = |decode: &dyn Fn(&mut [f32])| -> Vec<u32> {
                let mut out = vec![0.0; 9 * ty.block_len()];
                decode(&mut out);
                out.into_iter().map(f32::to_bits).collect()
            };
            let plain = decoded(&|out| ty.decode(&bytes, out).unwrap());
            let fast = decoded(&|out| table.decode(ty, &bytes, out).unwrap());
            assert!(plain == fast, "{:?} {ty}", table.isa);
            assert!(table.decode(ty, &bytes[1..], &mut [0.0; 9]).is_err());
        }
    }
}

/// No type of caches is slow with AVX2: a past is decoded anew for every token.
#[test]
#[cfg(target_arch = "x86_64")]
fn every_quantized_type_of_caches_has_its_avx2_decoder() {
    let Some(table) = crate::avx2::kernels() else {
        return;
    };
    for ty in TensorType::for_cache().filter(|ty| ty.is_quantized()) {
        let kernels = table.of(ty);
        assert!(
            kernels.is_some_and(|kernels| kernels.decode.is_some()),
            "{ty}"
        );
    }
}

/// A type that has a file for AVX2 runs by its kernels, encoder included.
#[test]
#[cfg(target_arch = "x86_64")]
fn every_file_gives_both_kernels() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/avx2");
    let mut n_types = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let Some(ty) = TensorType::from_name(name) else {
            continue;
        };
        assert!(crate::avx2::has_product(ty), "{ty}: no line");
        assert!(
            crate::avx2::has_encoder(ty) || ty == F32,
            "{ty}: no encoder"
        );
        n_types += 1;
    }
    assert!(n_types >= 28, "{n_types}");
}

/// No type of weights that programs read is slow with AVX2 because its file or its line is missing.
#[test]
#[cfg(target_arch = "x86_64")]
fn every_released_type_of_weights_has_its_avx2_kernels() {
    let weights = TensorType::all().filter(|ty| ty.is_quantized() && !ty.is_for_activations());
    for ty in weights.filter(|ty| ty.policy().readers != Readers::Unreleased) {
        assert!(crate::avx2::has_product(ty), "{ty}: no product");
        assert!(crate::avx2::has_encoder(ty), "{ty}: no encoder");
    }
}
