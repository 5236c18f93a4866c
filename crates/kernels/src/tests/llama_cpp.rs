//! The arithmetic of llama.cpp: the bits that its build b11549 computes from the same numbers, as a first value and a hash.

use gristmill_quant::{F16, TensorType};

use super::Random;
use crate::llama_cpp::{self, Columns};
use crate::{AttentionBatch, AttentionShape, CacheView, Pool};

const N: usize = 512;
const N_ROWS: usize = 8;

/// FNV-1a of the bytes.
fn hash(x: &[f32]) -> u64 {
    let bytes = x.iter().flat_map(|x| x.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn product(ty: TensorType, n_columns: usize) -> Vec<f32> {
    let mut weights = vec![0; ty.row_bytes(N as u64).unwrap() as usize * N_ROWS];
    let ones = [1.0; N];
    ty.encode(
        &Random::new(1).floats(N * N_ROWS),
        N,
        Some(&ones),
        &mut weights,
    )
    .unwrap();
    let mut columns = Columns::default();
    let x = Random::new(2).floats(N * n_columns);
    llama_cpp::round_columns(ty, &x, N, false, &mut columns).unwrap();
    let mut out = vec![f32::NAN; N_ROWS * n_columns];
    llama_cpp::matmul(&Pool::new(2), ty, &weights, N_ROWS, &columns, &mut out).unwrap();
    out
}

/// By `ggml_mul_mat` on the CPU backend, weights in its repacking buffer where it has a form for the type; rows encoded by
/// `ggml_quantize_chunk` with an importance of ones. One column and nine take different kernels.
#[test]
fn products_have_the_bits_of_llama_cpp() {
    let expected = [
        ("f32", 1, 0.163_738_97, 0x5fc0_9b85_f7c5_15fc),
        ("f32", 9, 0.163_737_06, 0x8293_3031_5542_98df),
        ("f16", 1, 0.162_897_83, 0x59ae_192d_9401_fb3b),
        ("f16", 9, 0.162_896_16, 0xe4b7_adad_fbda_3158),
        ("q4_0", 1, 0.265_708_42, 0xc7b7_6a78_09a1_c699),
        ("q4_0", 9, 0.265_708_42, 0x48c4_1d83_77b5_b2a9),
        ("q4_1", 1, -0.099_020_72, 0x05ea_f681_9eb2_eb45),
        ("q4_1", 9, -0.099_020_72, 0x8ae5_d858_2b10_5d57),
        ("q5_0", 1, 0.295_775_4, 0xb6c1_82a0_346a_5aed),
        ("q5_0", 9, 0.295_775_4, 0x3942_b993_3af3_10d7),
        ("q5_1", 1, 0.025_002_956, 0x580b_a5b4_bf67_017e),
        ("q5_1", 9, 0.025_002_956, 0xc957_3cc0_86f5_8362),
        ("q8_0", 1, 0.135_213_85, 0x74fe_994d_27a2_307a),
        ("q8_0", 9, 0.135_213_85, 0x6fbf_9ea9_d4e4_8262),
        ("q2_K", 1, 3.404_134_8, 0x16c3_6eb9_1ff6_10e6),
        ("q2_K", 9, 3.404_132_8, 0x8d3c_ad6b_da5b_4e48),
        ("q3_K", 1, -0.434_913_64, 0x1a25_0cf3_2686_37eb),
        ("q3_K", 9, -0.434_913_5, 0xd187_39c3_e8ca_785c),
        ("q4_K", 1, -0.169_298_17, 0xb4b5_9c9a_47a4_59f8),
        ("q4_K", 9, -0.169_298_17, 0xe0dd_59b0_0ff5_98b3),
        ("q5_K", 1, 0.102_423_79, 0x9c71_e9b1_6573_d88c),
        ("q5_K", 9, 0.102_424_77, 0x22eb_884c_f75e_e014),
        ("q6_K", 1, -0.012_292_862, 0x819f_ff7e_9492_79a3),
        ("q6_K", 9, -0.012_293_205, 0xb2ba_4d2a_e686_9f47),
        ("iq4_nl", 1, -0.052_430_58, 0x9c97_86be_6282_2eab),
        ("iq4_nl", 9, -0.052_430_58, 0x599b_d77e_7f96_c2c8),
        ("iq4_xs", 1, -0.213_035_82, 0xad40_5708_0dae_4f7a),
        ("iq4_xs", 9, -0.213_035_76, 0x036c_4a2f_f4d7_150f),
        ("bf16", 1, 0.138_745_31, 0x2c50_7ced_71d1_6a97),
        ("bf16", 9, 0.138_745_55, 0x69fa_c02b_b04d_f2a5),
    ];
    let mut n_wrong = 0;
    for (name, n_columns, first, hashed) in expected {
        let found = product(TensorType::from_name(name).unwrap(), n_columns);
        if (found[0], hash(&found)) != (first, hashed) {
            println!("{name}, {n_columns} columns: {} for {first}", found[0]);
            n_wrong += 1;
        }
    }
    assert_eq!(n_wrong, 0);
    let n_followed = TensorType::all()
        .filter(|ty| llama_cpp::supports(*ty))
        .count();
    assert_eq!(2 * n_followed, expected.len());
}

/// By `ggml_swiglu_split`, `ggml_geglu_split` and `ggml_rms_norm` with `ggml_mul`.
#[test]
fn rows_have_the_bits_of_llama_cpp() {
    let x: Vec<f32> = Random::new(3)
        .floats(1000)
        .iter()
        .map(|x| x * 12.0)
        .collect();
    let y = Random::new(4).floats(1000);
    let done = |f: fn(&mut [f32], &[f32])| {
        let mut x = x.clone();
        f(&mut x, &y);
        (x[0], hash(&x))
    };
    let (silu, gelu) = (done(llama_cpp::silu_mul), done(llama_cpp::gelu_mul));
    assert_eq!(silu, (-0.929_540_04, 0x3aee_ce33_61eb_6d67));
    assert_eq!(gelu, (-0.929_350_14, 0x7528_6dc5_0412_6fe9));
    let mut out = vec![0.0; 1000];
    llama_cpp::rms_norm(&x, Some(&y), 1e-5, &mut out);
    assert_eq!((out[0], hash(&out)), (-0.132_897_65, 0x7b68_b3f0_8b86_bd7d));
}

const DIM: usize = 64;
const N_HEAD: usize = 4;
const N_HEAD_KV: usize = 2;
const PAGE_LEN: usize = 16;

/// How attention is cut and kept.
#[derive(Clone, Copy, Debug)]
struct Case {
    n_tokens: usize,
    n_past: usize,
    n_threads: usize,
    softcap: Option<f32>,
    /// And the most tokens of a part of a batch.
    window: Option<(usize, usize)>,
}

/// Some tokens behind a past, in a cache of 16-bit floats.
fn attention(case: Case) -> Vec<f32> {
    let Case {
        n_tokens, n_past, ..
    } = case;
    let window = case.window.map(|(window, _)| window);
    let q: Vec<f32> = Random::new(5)
        .floats(DIM * N_HEAD * n_tokens)
        .iter()
        .map(|x| x * 3.0)
        .collect();
    let n_positions = n_past + n_tokens;
    let n_pages = n_positions.div_ceil(PAGE_LEN);
    let cache = |seed| {
        let mut bytes = vec![0; 2 * DIM * N_HEAD_KV * PAGE_LEN * n_pages];
        let x = Random::new(seed).floats(DIM * N_HEAD_KV * n_positions);
        for (index, x) in x.chunks(DIM).enumerate() {
            let (position, head) = (index / N_HEAD_KV, index % N_HEAD_KV);
            let row = (position / PAGE_LEN * N_HEAD_KV + head) * PAGE_LEN + position % PAGE_LEN;
            crate::f32_to_f16(x, &mut bytes[2 * DIM * row..][..2 * DIM]);
        }
        bytes
    };
    let shape = AttentionShape {
        n_head: N_HEAD,
        n_head_kv: N_HEAD_KV,
        key_dim: DIM,
        value_dim: DIM,
        page_len: PAGE_LEN,
        scale: 0.125,
        softcap: case.softcap,
        window,
        causal: true,
    };
    let n_ubatch = case.window.map_or(512, |(_, n_ubatch)| n_ubatch);
    let form = llama_cpp::AttentionForm::new(false, window, n_ubatch);
    let positions: Vec<i32> = (n_past as i32..n_positions as i32).collect();
    let batch = AttentionBatch {
        q: &q,
        positions: &positions,
        sequences: &vec![0; n_tokens],
        page_table: &(0..n_pages as i32).collect::<Vec<_>>(),
        max_pages: n_pages,
    };
    let (k, v) = (cache(6), cache(7));
    let view = |bytes| CacheView { ty: F16, bytes };
    let mut out = vec![f32::NAN; DIM * N_HEAD * n_tokens];
    let pool = Pool::new(case.n_threads);
    llama_cpp::attention(&pool, &shape, form, &batch, view(&k), view(&v), &mut out).unwrap();
    out
}

/// By `ggml_flash_attn_ext` over a mask: position by position, in tiles, and cut over the threads; with a window, position p
/// stands in cell p % 512 (768).
#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn attention_has_the_bits_of_llama_cpp() {
    let (near, far) = (Some((200, 312)), Some((500, 268)));
    let expected = [
        (5, 9, 2, None, None, 0.080_673_78, 0xbb0f_970f_e892_1883),
        (
            5,
            9,
            2,
            Some(5.0),
            None,
            0.101_537_146,
            0xa426_a7a9_42e3_6000,
        ),
        (70, 20, 2, None, None, -0.129_702_64, 0xf136_9869_8a5f_c791),
        (
            70,
            20,
            2,
            Some(5.0),
            None,
            -0.118_376_784,
            0x848b_db8b_5075_b655,
        ),
        (1, 600, 2, None, None, 0.008_699_609, 0xb622_0ab1_62f2_3dc6),
        (
            1,
            600,
            3,
            Some(5.0),
            None,
            0.010_136_59,
            0xa45a_d74c_311f_a617,
        ),
        (5, 600, 2, None, near, -0.044_661_134, 0xdec5_0213_1633_f328),
        (70, 700, 2, None, near, -0.047_915_63, 0x66f7_89bb_2f9c_921e),
        (1, 700, 2, None, near, -0.048_047_155, 0xaa62_2211_89c5_becb),
        (
            1,
            1024,
            3,
            Some(5.0),
            far,
            -0.033_669_416,
            0x4185_b07c_f6dd_00e6,
        ),
    ];
    for (n_tokens, n_past, n_threads, softcap, window, first, hashed) in expected {
        let case = Case {
            n_tokens,
            n_past,
            n_threads,
            softcap,
            window,
        };
        let found = attention(case);
        assert_eq!((found[0], hash(&found)), (first, hashed), "{case:?}");
    }
}
