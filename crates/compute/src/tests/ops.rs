//! Each op on every backend, against values worked out by hand or in double precision.

use super::{Random, assert_close, backends, floats, shape, tensor, zeroed};
use crate::{
    Activation, Attention, Backend, BatchShape, Changes, Executor, GraphBuilder, Inputs, KvLayer,
    LowRank, Plan, Rope, RopeStyle, Tensor, Value, Yarn,
};
use gristmill_quant::{F16, F32, TensorType};
use std::sync::Arc;

/// Runs the graph that `build` makes on one backend and returns its only output.
fn run(
    backend: &Arc<dyn Backend>,
    batch: BatchShape,
    inputs: &Inputs<'_>,
    build: impl FnOnce(&mut GraphBuilder) -> Value,
) -> Vec<f32> {
    let mut builder = GraphBuilder::new(batch);
    let output = build(&mut builder);
    let graph = builder.finish(&[output]).expect("a right graph");
    let devices = vec![Arc::clone(backend)];
    let plan = Plan::new(&graph, &devices).expect("planned");
    let mut executor = Executor::new(devices);
    executor.run(&plan, inputs).expect("runs");
    executor.output(0).to_vec()
}

const TWO_TOKENS: BatchShape = BatchShape {
    n_tokens: 2,
    n_outputs: 1,
    n_sequences: 1,
    max_pages: 4,
};

/// Runs `build` on a value with these two rows, which come out of an embedding table.
pub fn on_rows(
    backend: &Arc<dyn Backend>,
    rows: [&[f32]; 2],
    build: impl FnOnce(&mut GraphBuilder, Value) -> Value,
) -> Vec<f32> {
    let table = floats(&**backend, &[rows[0].len(), 2], &rows.concat());
    let inputs = Inputs {
        tokens: &[0, 1],
        positions: &[0, 1],
        output_rows: &[1],
        ..Inputs::default()
    };
    run(backend, TWO_TOKENS, &inputs, |graph| {
        let x = graph.embed(&table);
        build(graph, x)
    })
}

#[test]
fn rows_are_looked_up_and_selected() {
    for backend in backends() {
        let table = floats(
            &*backend,
            &[3, 4],
            &[0., 1., 2., 10., 11., 12., 20., 21., 22., 30., 31., 32.],
        );
        let inputs = Inputs {
            tokens: &[3, 1],
            output_rows: &[1],
            ..Inputs::default()
        };
        assert_eq!(
            run(&backend, TWO_TOKENS, &inputs, |g| g.embed(&table)),
            [30., 31., 32., 10., 11., 12.]
        );
        // Positions pick rows of their own table, here the second token's twice.
        let inputs = Inputs {
            positions: &[1, 1],
            ..inputs
        };
        let sum = run(&backend, TWO_TOKENS, &inputs, |g| {
            let (x, positions) = (g.embed(&table), g.embed_positions(&table));
            g.add(x, positions)
        });
        assert_eq!(sum, [40., 42., 44., 20., 22., 24.]);
        let selected = run(&backend, TWO_TOKENS, &inputs, |g| {
            let x = g.embed(&table);
            g.select_outputs(x)
        });
        assert_eq!(selected, [10., 11., 12.]);
    }
}

#[test]
fn elementwise_ops() {
    let (a, b): ([f32; 2], [f32; 2]) = ([1.0, -2.0], [0.5, 4.0]);
    for backend in backends() {
        let row = floats(&*backend, &[2], &[10.0, 3.0]);
        let on = |build: fn(&mut GraphBuilder, Value, &Tensor) -> Value| {
            on_rows(&backend, [&a, &b], |graph, x| build(graph, x, &row))
        };
        assert_eq!(on(|g, x, row| g.add_row(x, row)), [11.0, 1.0, 10.5, 7.0]);
        assert_eq!(on(|g, x, row| g.mul_row(x, row)), [10.0, -6.0, 5.0, 12.0]);
        assert_eq!(on(|g, x, _| g.scale(x, -0.5)), [-0.5, 1.0, -0.25, -2.0]);
        assert_eq!(on(|g, x, _| g.add(x, x)), [2.0, -4.0, 1.0, 8.0]);
        // The scaled value must not overwrite the one that is still needed.
        let twice = on(|g, x, _| {
            let scaled = g.scale(x, 3.0);
            g.add(scaled, x)
        });
        assert_eq!(twice, [4.0, -8.0, 2.0, 16.0]);
        let product = on(|g, x, row| {
            let shifted = g.add_row(x, row);
            g.mul(x, shifted)
        });
        assert_eq!(product, [11.0, -2.0, 5.25, 28.0]);
    }
}

#[test]
fn activations() {
    use Activation::{GeluErf, GeluTanh, Relu, Silu};
    let x: [f32; 5] = [-3.0, -0.5, 0.0, 1.0, 2.5];
    // From the definitions, with Python's math module.
    let silu = [-0.142_277_62, -0.188_770_33, 0.0, 0.731_058_6, 2.310_354_5];
    let gelu_tanh = [-0.003_637_392, -0.154_286, 0.0, 0.841_192, 2.484_915_7];
    let gelu_erf = [-0.004_049_694, -0.154_268_77, 0.0, 0.841_344_7, 2.484_475_8];
    let relu = [0.0, 0.0, 0.0, 1.0, 2.5];
    let up = [2.0, -1.0, 5.0, 0.5, 1.0];
    for backend in backends() {
        for (activation, expected) in [
            (Silu, silu),
            (GeluTanh, gelu_tanh),
            (GeluErf, gelu_erf),
            (Relu, relu),
        ] {
            let found = on_rows(&backend, [&x, &x], |g, x| g.activate(x, activation));
            assert_close(&found, &[expected, expected].concat(), 2e-7);
            let row = floats(&*backend, &[5], &up);
            let gated = on_rows(&backend, [&x, &[1.0; 5]], |g, x| {
                // up is 1 * row for both tokens.
                let zero = g.scale(x, 0.0);
                let up = g.add_row(zero, &row);
                g.glu(x, up, activation)
            });
            let expected: Vec<f32> = expected.iter().zip(up).map(|(x, up)| x * up).collect();
            assert_close(&gated[..5], &expected, 2e-7);
        }
        let found = on_rows(&backend, [&x, &x], |g, x| g.softcap(x, 30.0));
        let expected = [-2.990_039_8, -0.499_953_7, 0.0, 0.999_629_8, 2.494_229];
        assert_close(&found[5..], &expected, 2e-7);
    }
}

#[test]
fn norms() {
    for backend in backends() {
        let weight = floats(&*backend, &[2], &[2.0, -1.0]);
        // The mean square of (3, 4) is 12.5; of (1, 1) it is 1, and eps 3 makes the divisor 2.
        let found = on_rows(&backend, [&[3.0, 4.0], &[1.0, 1.0]], |g, x| {
            g.rms_norm(x, None, 0.0)
        });
        assert_close(&found, &[0.848_528_1, 1.131_370_8, 1.0, 1.0], 2e-7);
        let found = on_rows(&backend, [&[3.0, 4.0], &[1.0, 1.0]], |g, x| {
            g.rms_norm(x, Some(&weight), 3.0)
        });
        assert_close(&found[2..], &[1.0, -0.5], 2e-7);
        // Per head: two heads of one element each have norm 1.
        let found = on_rows(&backend, [&[3.0, -4.0], &[0.5, 2.0]], |g, x| {
            let heads = g.reshape(x, shape(&[1, 4]));
            let normed = g.rms_norm(heads, None, 0.0);
            g.reshape(normed, shape(&[2, 2]))
        });
        assert_close(&found, &[1.0, -1.0, 1.0, 1.0], 2e-7);
        let weight = floats(&*backend, &[4], &[1.0, 1.0, 2.0, 1.0]);
        let bias = floats(&*backend, &[4], &[0.0, 1.0, 0.0, 0.0]);
        // Mean 2.5, variance 1.25.
        let x: &[f32] = &[1.0, 2.0, 3.0, 4.0];
        let found = on_rows(&backend, [x, x], |g, x| {
            g.layer_norm(x, &weight, Some(&bias), 0.0)
        });
        assert_close(
            &found[4..],
            &[-1.341_640_8, 0.552_786_4, 0.894_427_2, 1.341_640_8],
            2e-7,
        );
        let found = on_rows(&backend, [x, x], |g, x| g.layer_norm(x, &weight, None, 0.0));
        assert_close(
            &found[..4],
            &[-1.341_640_8, -0.447_213_6, 0.894_427_2, 1.341_640_8],
            2e-7,
        );
    }
}

/// Types that can stand in a product.
fn weight_types() -> impl Iterator<Item = TensorType> {
    TensorType::all().filter(|ty| ty.can_decode() && ty.can_encode() && ty.activation().is_some())
}

#[test]
fn products_of_all_types() {
    let (n, n_rows) = (512, 5);
    let mut random = Random(7);
    let (w, x) = (random.floats(n * n_rows, 1.0), random.floats(2 * n, 1.0));
    for ty in weight_types() {
        for backend in backends() {
            let weight = tensor(&*backend, 0, ty, &[n, n_rows], &w);
            let found = on_rows(&backend, [&x[..n], &x[n..]], |g, x| g.matmul(&weight, x));
            let mut bytes = vec![0; ty.row_bytes(n as u64).expect("whole") as usize * n_rows];
            let ones = vec![1.0; n];
            let importance = ty.needs_importance().then_some(&ones[..]);
            ty.encode(&w, n, importance, &mut bytes).expect("encodes");
            let mut decoded = vec![0.0; w.len()];
            ty.decode(&bytes, &mut decoded).expect("decodes");
            let dot = |w: &[f32], x: &[f32]| {
                w.iter()
                    .zip(x)
                    .map(|(&w, &x)| f64::from(w) * f64::from(x))
                    .sum::<f64>()
            };
            let columns = x
                .chunks(n)
                .flat_map(|x| decoded.chunks(n).map(move |w| dot(w, x) as f32));
            // 8-bit activations: each is off by up to 1/254 of its group's largest, in random directions.
            let tolerance = if ty.is_quantized() { 0.01 } else { 1e-5 };
            assert_close(&found, &columns.collect::<Vec<_>>(), tolerance);
        }
    }
}

#[test]
fn weights_may_lie_in_written_memory() {
    // Rows of two weights and a bias in one buffer, in another order than they are used.
    let numbers: [f32; 8] = [1.0, 2.0, 0.0, -1.0, 10.0, 20.0, 0.5, 3.0];
    for backend in backends() {
        let buffer = backend.allocate(32).expect("memory");
        backend
            .write(buffer, 0, bytemuck::cast_slice(&numbers))
            .expect("inside");
        let tensor = |first: usize, dims: &[usize]| Tensor {
            device: 0,
            buffer,
            offset: first * 4,
            ty: F32,
            shape: shape(dims),
        };
        let (a, b, weight, bias) = (
            tensor(0, &[2, 1]),
            tensor(2, &[2, 1]),
            tensor(6, &[2]),
            tensor(4, &[2]),
        );
        let found = on_rows(&backend, [&[3.0, 5.0], &[1.0, 0.0]], |g, x| {
            let (first, second) = (g.matmul(&a, x), g.matmul(&b, x));
            let sum = g.scale(first, 100.0);
            g.add(sum, second)
        });
        // 3 + 2 * 5 = 13 and -5; 1 and 0.
        assert_eq!(found, [1295.0, 100.0]);
        // (3, 5) has mean 4 and variance 1.
        let found = on_rows(&backend, [&[3.0, 5.0], &[1.0, 0.0]], |g, x| {
            g.layer_norm(x, &weight, Some(&bias), 0.0)
        });
        assert_close(&found[..2], &[9.5, 23.0], 1e-6);
    }
}

fn rope(style: RopeStyle, n_dims: usize) -> Rope {
    Rope {
        style,
        n_dims,
        freq_base: 10000.0,
        freq_scale: 1.0,
        yarn: None,
        factors: None,
        attn_factor: 1.0,
    }
}

/// Rotates a row of pairs (1, 0) at position 1 and returns the angle and length of each pair.
fn turns(backend: &Arc<dyn Backend>, rope: &Rope) -> Vec<(f32, f32)> {
    let mut row = vec![0.0; rope.n_dims];
    (0..rope.n_dims).step_by(2).for_each(|i| row[i] = 1.0);
    let head = shape(&[rope.n_dims, 1, 2]);
    let found = on_rows(backend, [&row, &row], |g, x| {
        let x = g.reshape(x, head);
        g.rope(x, rope)
    });
    let pairs = found[rope.n_dims..].chunks(2);
    pairs
        .map(|pair| (pair[1].atan2(pair[0]), pair[0].hypot(pair[1])))
        .collect()
}

#[test]
fn rotations() {
    // cos 1, sin 1, cos 0.01, sin 0.01
    let [c, s, d, t] = [0.540_302_3, 0.841_471, 0.999_95, 0.009_999_833];
    let x: &[f32] = &[1.0, 2.0, 3.0, 4.0, 5.0];
    for backend in backends() {
        let rotate = |style| {
            on_rows(&backend, [x, x], |g, x| {
                let x = g.reshape(x, shape(&[5, 1, 2]));
                g.rope(x, &rope(style, 4))
            })
        };
        let normal = rotate(RopeStyle::Normal);
        assert_close(&normal[..5], x, 1e-7);
        let expected = [
            c - 2.0 * s,
            s + 2.0 * c,
            3.0 * d - 4.0 * t,
            3.0 * t + 4.0 * d,
            5.0,
        ];
        assert_close(&normal[5..], &expected, 1e-7);
        let expected = [
            c - 3.0 * s,
            2.0 * d - 4.0 * t,
            s + 3.0 * c,
            2.0 * t + 4.0 * d,
            5.0,
        ];
        assert_close(&rotate(RopeStyle::NeoX)[5..], &expected, 1e-7);
    }
}

#[test]
fn rope_frequencies() {
    for backend in backends() {
        // Linear scaling with factor 4 and Llama 3's divisors (case B30: head_dim 16, base 500000).
        let factors = [1.0, 1.0, 1.0, 1.0, 2.694_53, 8.0, 8.0, 8.0];
        let mut choices = rope(RopeStyle::Normal, 16);
        (choices.freq_base, choices.freq_scale) = (500_000.0, 0.25);
        choices.factors = Some(floats(&*backend, &[8], &factors));
        for (i, (angle, length)) in turns(&backend, &choices).into_iter().enumerate() {
            let expected = 500_000f64.powf(-(i as f64) / 8.0) / f64::from(factors[i]) / 4.0;
            assert!(
                (f64::from(angle) / expected - 1.0).abs() < 1e-5,
                "{angle} {expected}"
            );
            assert!((length - 1.0).abs() < 1e-6);
        }
        // Computed from the formula of Transformers' yarn: factor 4, original context 2048; the ramp is pairs 2 to 6.
        let expected = [
            1.0,
            0.316_227_77,
            0.1,
            0.025_693_506,
            0.006_25,
            0.001_383_496_5,
            0.000_25,
            7.905_694e-5,
        ];
        let magnitude = Yarn::magnitude(4.0);
        assert!((magnitude - 1.138_629_4).abs() < 1e-6);
        let (ext_factor, attn_factor) = (1.0, magnitude);
        let yarn = Yarn {
            ext_factor,
            attn_factor,
            beta_fast: 32.0,
            beta_slow: 1.0,
            original_context: 2048,
        };
        let choices = Rope {
            freq_scale: 0.25,
            yarn: Some(yarn),
            ..rope(RopeStyle::Normal, 16)
        };
        for ((angle, length), expected) in turns(&backend, &choices).into_iter().zip(expected) {
            assert!((angle / expected - 1.0).abs() < 1e-5, "{angle} {expected}");
            assert!((length - magnitude).abs() < 1e-6);
        }
    }
}

/// Attention of two tokens of one sequence, positions 0 and 1, whose pages are `pages`.
///
/// One query head (1, 0); keys (0, 0) and (ln 3, 0), so that the later token weighs them 1 : 3; values (1, 0), (0, 1).
fn attend(
    backend: &Arc<dyn Backend>,
    ty: TensorType,
    page_len: usize,
    choices: Attention,
) -> Vec<f32> {
    let layer = KvLayer {
        k: zeroed(&**backend, 0, ty, &[2, page_len, 1, 3]).expect("small"),
        v: zeroed(&**backend, 0, ty, &[2, page_len, 1, 3]).expect("small"),
        page_len,
        table: 0,
    };
    let table = floats(
        &**backend,
        &[6, 2],
        &[
            1.0,
            0.0,
            0.0,
            0.0,
            1.0,
            0.0,
            1.0,
            0.0,
            3f32.ln(),
            0.0,
            0.0,
            1.0,
        ],
    );
    let pick = |from: usize| {
        let mut rows = [0.0; 12];
        (0..2).for_each(|i| rows[i * 6 + from + i] = 1.0);
        floats(&**backend, &[6, 2], &rows)
    };
    let picks = [pick(0), pick(2), pick(4)];
    // Position 0 lies in page 2, and so does position 1 if the page is long enough, else in page 0.
    let slots = if page_len > 1 {
        [2 * page_len as i32, 2 * page_len as i32 + 1]
    } else {
        [2, 0]
    };
    let inputs = Inputs {
        tokens: &[0, 1],
        positions: &[0, 1],
        slots: &slots,
        sequences: &[0, 0],
        page_table: &[2, 0, -1, -1],
        output_rows: &[1],
    };
    run(backend, TWO_TOKENS, &inputs, |g| {
        let x = g.embed(&table);
        let [q, k, v] = picks.map(|pick| {
            let x = g.matmul(&pick, x);
            g.reshape(x, shape(&[2, 1, 2]))
        });
        g.store_kv(&layer, k, v);
        g.attention(&layer, q, &choices)
    })
}

#[test]
fn attention_through_pages() {
    let choices = Attention {
        n_head: 1,
        n_head_kv: 1,
        key_dim: 2,
        value_dim: 2,
        scale: 1.0,
        scales_queries: false,
        softcap: None,
        window: None,
        causal: true,
    };
    for backend in backends() {
        for (ty, tolerance) in [(F32, 1e-6), (F16, 1e-3)] {
            for page_len in [1, 2, 8] {
                let on = |choices| attend(&backend, ty, page_len, choices);
                assert_close(&on(choices), &[1.0, 0.0, 0.25, 0.75], tolerance);
                let windowed = Attention {
                    window: Some(1),
                    ..choices
                };
                assert_close(&on(windowed), &[1.0, 0.0, 0.0, 1.0], tolerance);
                // Both tokens ask alike and see both.
                let everything = Attention {
                    causal: false,
                    ..choices
                };
                assert_close(&on(everything), &[0.25, 0.75, 0.25, 0.75], tolerance);
                let scaled = Attention {
                    scale: 2.0,
                    window: Some(2),
                    ..choices
                };
                assert_close(&on(scaled), &[1.0, 0.0, 0.1, 0.9], tolerance);
                // 0.5 tanh(ln 3 / 0.5) = 0.487 791 8: weights 1 : 1.628 715
                let capped = Attention {
                    softcap: Some(0.5),
                    ..choices
                };
                let expected = 0.5 * (3f64.ln() / 0.5).tanh();
                let share = (expected.exp() / (1.0 + expected.exp())) as f32;
                assert_close(&on(capped)[2..], &[1.0 - share, share], tolerance);
            }
        }
    }
}

/// `w = [[1, 2], [3, 4], [5, 6]]` by rows, `a = [1, -1]`, `b = [1, 2, 3]`: a product gains `scale * b (a x)`, rows of `w`
/// theirs, and looked up rows what is looked up in `a` times `b`.
#[test]
fn changes_are_added_to_products_rows_and_layers() {
    for backend in backends() {
        let weight = floats(&*backend, &[2, 3], &[1., 2., 3., 4., 5., 6.]);
        let low = |a: Tensor, b: Tensor, scale| LowRank { a, b, scale };
        let a = floats(&*backend, &[2, 1], &[1., -1.]);
        let b = floats(&*backend, &[1, 3], &[1., 2., 3.]);
        let mut changes = Changes::default();
        changes.of_products(&weight, low(a, b, 0.5));
        changes.of_products(&weight, low(a, b, 0.5));
        changes.set_directions(vec![None, Some(floats(&*backend, &[2], &[10., 20.]))]);
        let changes = Arc::new(changes);
        let with = |parts: bool| {
            on_rows(&backend, [&[1., 1.], &[4., 1.]], |graph, x| {
                graph.change(Arc::clone(&changes));
                let x = graph.directed(x, 0);
                match parts {
                    true => graph.matmul(&weight.rows(1..3).expect("there are three"), x),
                    false => graph.matmul(&weight, x),
                }
            })
        };
        assert_eq!(with(false), [3., 7., 11., 9., 22., 35.]);
        assert_eq!(with(true), [7., 11., 22., 35.]);
        let directed = on_rows(&backend, [&[1., 1.], &[4., 1.]], |graph, x| {
            graph.change(Arc::clone(&changes));
            graph.directed(x, 1)
        });
        assert_eq!(directed, [11., 21., 14., 21.]);

        let mut changes = Changes::default();
        let of_rows = floats(&*backend, &[1, 3], &[1., 2., 3.]);
        let of_columns = floats(&*backend, &[1, 2], &[1., -1.]);
        changes.of_rows(&weight, low(of_rows, of_columns, 2.0));
        let inputs = Inputs {
            tokens: &[2, 0],
            output_rows: &[1],
            ..Inputs::default()
        };
        let found = run(&backend, TWO_TOKENS, &inputs, |graph| {
            graph.change(Arc::new(changes));
            graph.embed(&weight)
        });
        assert_eq!(found, [11., 0., 3., 0.]);
    }
}
