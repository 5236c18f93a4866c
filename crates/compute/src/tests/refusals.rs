//! What must be refused, with an error that names the op and both shapes.

use super::{backends, floats, shape, tensor, zeroed};
use crate::{
    Attention, BatchShape, BufferId, ComputeError, CpuBackend, Executor, Graph, GraphBuilder,
    Input, Inputs, KvLayer, PlainBackend, Plan, Rope, RopeStyle, Tensor,
};
use gristmill_quant::{F16, F32, I16, Q4_0};
use std::sync::Arc;

const BATCH: BatchShape = BatchShape {
    n_tokens: 2,
    n_outputs: 1,
    n_sequences: 1,
    max_pages: 2,
};

fn weight(dims: &[usize]) -> Tensor {
    Tensor {
        device: 0,
        buffer: BufferId(0),
        offset: 0,
        ty: F32,
        shape: shape(dims),
    }
}

fn refused(build: impl FnOnce(&mut GraphBuilder)) -> String {
    let mut builder = GraphBuilder::new(BATCH);
    build(&mut builder);
    let output = builder.embed(&weight(&[4, 8]));
    builder.finish(&[output]).expect_err("refused").to_string()
}

#[test]
fn wrong_shapes_name_the_op_and_both_shapes() {
    let message = refused(|g| {
        let x = g.embed(&weight(&[4, 8]));
        let y = g.matmul(&weight(&[5, 3]), x);
        // What follows a mistake is ignored.
        g.add(x, y);
    });
    assert_eq!(
        message,
        "matmul: value and weight: [4, 2] does not fit [5, 3]"
    );
    let message = refused(|g| {
        let x = g.embed(&weight(&[4, 8]));
        let y = g.matmul(&weight(&[4, 3]), x);
        g.add(x, y);
    });
    assert_eq!(
        message,
        "add: the operands differ: [4, 2] does not fit [3, 2]"
    );
    let message = refused(|g| {
        let x = g.embed(&weight(&[4, 8]));
        g.rms_norm(x, Some(&weight(&[3])), 1e-5);
    });
    assert_eq!(
        message,
        "rms_norm: value and vector: [4, 2] does not fit [3]"
    );
    let message = refused(|g| {
        let x = g.embed(&weight(&[4, 8]));
        g.reshape(x, shape(&[3, 3]));
    });
    assert_eq!(
        message,
        "reshape: the number of elements differs: [4, 2] does not fit [3, 3]"
    );
    let message = refused(|g| {
        let x = g.embed(&weight(&[4, 8]));
        let selected = g.select_outputs(x);
        g.select_outputs(selected);
    });
    assert!(message.starts_with("select_outputs: "), "{message}");
}

#[test]
fn wrong_attention_is_refused() {
    let cache = |dims| Tensor {
        ty: F16,
        ..weight(dims)
    };
    let layer = KvLayer {
        k: cache(&[2, 4, 1, 3]),
        v: cache(&[2, 4, 1, 3]),
        page_len: 4,
        table: 0,
    };
    let choices = Attention {
        n_head: 2,
        n_head_kv: 1,
        key_dim: 2,
        value_dim: 2,
        scale: 1.0,
        scales_queries: false,
        softcap: None,
        window: None,
        causal: true,
    };
    let attend = |layer: KvLayer, choices: Attention| {
        refused(|g| {
            let x = g.embed(&weight(&[4, 8]));
            let q = g.reshape(x, shape(&[2, 2, 2]));
            g.attention(&layer, q, &choices);
        })
    };
    let message = attend(
        layer,
        Attention {
            n_head: 4,
            key_dim: 1,
            ..choices
        },
    );
    assert_eq!(
        message,
        "attention: query: [2, 2, 2] does not fit [1, 4, 2]"
    );
    assert!(
        attend(
            layer,
            Attention {
                n_head_kv: 0,
                ..choices
            }
        )
        .contains("n_head_kv")
    );
    assert!(
        attend(
            layer,
            Attention {
                window: Some(0),
                ..choices
            }
        )
        .contains("window")
    );
    assert!(
        attend(
            layer,
            Attention {
                softcap: Some(0.0),
                ..choices
            }
        )
        .contains("cap")
    );
    assert!(
        attend(
            KvLayer {
                page_len: 3,
                table: 0,
                ..layer
            },
            choices
        )
        .starts_with("attention: keys and values")
    );
    let quantized = KvLayer {
        k: Tensor {
            ty: Q4_0,
            ..layer.k
        },
        ..layer
    };
    assert!(attend(quantized, choices).contains("q4_0"));
    let message = refused(|g| {
        let x = g.embed(&weight(&[4, 8]));
        g.store_kv(&layer, x, x);
    });
    assert_eq!(
        message,
        "store_kv: value and cache: [4, 2] does not fit [2, 4, 1, 3]"
    );
}

#[test]
fn wrong_parameters_and_types_are_refused() {
    let embed = |g: &mut GraphBuilder| g.embed(&weight(&[4, 8]));
    let rope = Rope {
        style: RopeStyle::Normal,
        n_dims: 4,
        freq_base: 1e4,
        freq_scale: 1.0,
        yarn: None,
        factors: None,
        attn_factor: 1.0,
    };
    let turn = |rope: Rope| {
        refused(move |g| {
            let x = embed(g);
            let x = g.reshape(x, shape(&[4, 1, 2]));
            g.rope(x, &rope);
        })
    };
    assert!(
        turn(Rope {
            n_dims: 3,
            ..rope.clone()
        })
        .contains("n_dims")
    );
    assert!(
        turn(Rope {
            n_dims: 6,
            ..rope.clone()
        })
        .starts_with("rope: ")
    );
    assert!(
        turn(Rope {
            freq_base: f32::NAN,
            ..rope.clone()
        })
        .contains("freq_base")
    );
    assert!(
        turn(Rope {
            factors: Some(weight(&[4])),
            ..rope
        })
        .contains("[4]")
    );
    let type_of = |ty, dims| refused(|g| _ = g.embed(&Tensor { ty, ..weight(dims) }));
    assert!(type_of(I16, &[256, 2]).contains("i16"));
    let message = refused(|g| {
        let x = embed(g);
        g.add_row(
            x,
            &Tensor {
                ty: F16,
                ..weight(&[4])
            },
        );
    });
    assert!(message.contains("f16"), "{message}");
    let message = refused(|g| {
        let x = embed(g);
        g.layer_norm(
            x,
            &weight(&[4]),
            Some(&Tensor {
                device: 1,
                ..weight(&[4])
            }),
            1e-5,
        );
    });
    assert!(message.contains("devices 0 and 1"), "{message}");
}

fn embedding(table: &Tensor) -> Graph {
    let mut builder = GraphBuilder::new(BATCH);
    let output = builder.embed(table);
    builder.finish(&[output]).expect("right")
}

#[test]
fn a_tensor_outside_its_buffer_is_an_error() {
    for backend in backends() {
        let table = floats(&*backend, &[4, 8], &[1.0; 32]);
        let devices = vec![backend];
        let mut executor = Executor::new(devices.clone());
        let inputs = Inputs {
            tokens: &[0, 7],
            ..Inputs::default()
        };
        for (offset, buffer) in [
            (36, table.buffer),
            (usize::MAX - 8, table.buffer),
            (0, BufferId(77)),
        ] {
            let plan = Plan::new(
                &embedding(&Tensor {
                    offset,
                    buffer,
                    ..table
                }),
                &devices,
            )
            .expect("planned");
            let error = executor.run(&plan, &inputs).expect_err("outside");
            let expected = matches!(
                error,
                ComputeError::OutOfBounds { .. }
                    | ComputeError::UnknownBuffer { .. }
                    | ComputeError::TooLarge { .. }
            );
            assert!(expected, "{error}");
        }
        let plan = Plan::new(&embedding(&table), &devices).expect("planned");
        executor
            .run(&plan, &inputs)
            .expect("an executor stays usable");
    }
}

#[test]
fn a_position_beyond_its_table_is_an_error() {
    for backend in backends() {
        let table = floats(&*backend, &[4, 8], &[1.0; 32]);
        let devices = vec![backend];
        let mut builder = GraphBuilder::new(BATCH);
        let output = builder.embed_positions(&table);
        let plan = Plan::new(&builder.finish(&[output]).expect("right"), &devices);
        let inputs = Inputs {
            positions: &[7, 8],
            ..Inputs::default()
        };
        let error = Executor::new(devices).run(&plan.expect("planned"), &inputs);
        let error = error.expect_err("beyond");
        assert!(
            matches!(
                error,
                ComputeError::InputValue {
                    input: Input::Positions,
                    index: 1,
                    value: 8,
                    limit: 8
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn parts_of_a_weight_lie_inside_it() {
    let matrix = weight(&[4, 8]);
    let part = matrix.rows(2..5).expect("inside");
    assert_eq!((part.offset, part.shape), (32, shape(&[4, 3])));
    let part = weight(&[8]).elements(2..5).expect("inside");
    assert_eq!((part.offset, part.shape), (8, shape(&[3])));
    for outside in [
        matrix.rows(5..9),
        matrix.elements(2..5),
        weight(&[2, 2, 2]).rows(0..1),
    ] {
        let error = outside.expect_err("outside").to_string();
        assert!(error.contains("rows of a weight"), "{error}");
    }
}

#[test]
fn imported_memory_is_not_written() {
    let cpu = CpuBackend::new(1);
    let table = tensor(&cpu, 0, F32, &[2], &[1.0, 2.0]);
    let written = crate::Backend::write(&cpu, table.buffer, 0, &[1, 2]);
    assert!(matches!(written, Err(ComputeError::ReadOnly { .. })));
}

#[test]
fn wrong_devices_are_errors() {
    let plain: Arc<dyn crate::Backend> = Arc::new(PlainBackend::new());
    let table = floats(&*plain, &[4, 8], &[1.0; 32]);
    let devices = [plain];
    let elsewhere = Plan::new(&embedding(&Tensor { device: 1, ..table }), &devices);
    assert!(matches!(
        elsewhere,
        Err(ComputeError::UnknownDevice {
            device: 1,
            n_devices: 1,
            ..
        })
    ));
    let plan = Plan::new(&embedding(&table), &devices).expect("planned");
    let mut nothing = Executor::new(Vec::new());
    let inputs = Inputs {
        tokens: &[0, 1],
        ..Inputs::default()
    };
    let ran = nothing.run(&plan, &inputs);
    assert!(matches!(
        ran,
        Err(ComputeError::DeviceCount {
            planned: 1,
            found: 0
        })
    ));
}

#[test]
fn inputs_are_checked_before_anything_runs() {
    for backend in backends() {
        let layer = KvLayer {
            k: zeroed(&*backend, 0, F16, &[4, 2, 1, 3]).expect("small"),
            v: zeroed(&*backend, 0, F16, &[4, 2, 1, 3]).expect("small"),
            page_len: 2,
            table: 0,
        };
        let table = floats(&*backend, &[4, 8], &[1.0; 32]);
        let mut builder = GraphBuilder::new(BATCH);
        let x = builder.embed(&table);
        let x = builder.reshape(x, shape(&[4, 1, 2]));
        builder.store_kv(&layer, x, x);
        let (n_head, n_head_kv, key_dim, value_dim, scale) = (1, 1, 4, 4, 1.0);
        let (softcap, window, causal) = (None, None, true);
        let choices = Attention {
            n_head,
            n_head_kv,
            key_dim,
            value_dim,
            scale,
            scales_queries: false,
            softcap,
            window,
            causal,
        };
        let x = builder.attention(&layer, x, &choices);
        let x = builder.select_outputs(x);
        let graph = builder.finish(&[x]).expect("right");
        let devices = vec![backend];
        let plan = Plan::new(&graph, &devices).expect("planned");
        let mut executor = Executor::new(devices);
        let right = Inputs {
            tokens: &[0, 7],
            positions: &[0, 3],
            slots: &[0, 5],
            sequences: &[0, 0],
            page_table: &[0, 2],
            output_rows: &[1],
        };
        executor.run(&plan, &right).expect("right");
        let mut fails = |inputs: Inputs<'_>, expected: Input| match executor.run(&plan, &inputs) {
            Err(
                ComputeError::InputLength { input, .. } | ComputeError::InputValue { input, .. },
            ) => {
                assert_eq!(input, expected);
            }
            other => panic!("{other:?}"),
        };
        fails(
            Inputs {
                tokens: &[0],
                ..right
            },
            Input::Tokens,
        );
        fails(
            Inputs {
                tokens: &[0, 8],
                ..right
            },
            Input::Tokens,
        );
        fails(
            Inputs {
                tokens: &[-1, 0],
                ..right
            },
            Input::Tokens,
        );
        fails(
            Inputs {
                positions: &[0, 4],
                ..right
            },
            Input::Positions,
        );
        fails(
            Inputs {
                positions: &[0, -4],
                ..right
            },
            Input::Positions,
        );
        fails(
            Inputs {
                slots: &[6, 0],
                ..right
            },
            Input::Slots,
        );
        fails(
            Inputs {
                sequences: &[0, 1],
                ..right
            },
            Input::Sequences,
        );
        fails(
            Inputs {
                page_table: &[0, 3],
                ..right
            },
            Input::PageTable,
        );
        fails(
            Inputs {
                page_table: &[-1, 0],
                ..right
            },
            Input::PageTable,
        );
        fails(
            Inputs {
                page_table: &[0],
                ..right
            },
            Input::PageTable,
        );
        fails(
            Inputs {
                output_rows: &[2],
                ..right
            },
            Input::OutputRows,
        );
        fails(
            Inputs {
                output_rows: &[],
                ..right
            },
            Input::OutputRows,
        );
    }
}
