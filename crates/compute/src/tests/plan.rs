//! Places of values, the order of products, copies between devices, and ops that a device lacks.

use super::{backends, floats, shape};
use crate::{
    Backend, BatchShape, BufferId, ComputeError, Executor, GraphBuilder, Inputs, Op, PlainBackend,
    Plan, Region, Rope, RopeStyle, Segment, Stage, Step, Tensor,
};
use gristmill_quant::F32;
use std::sync::Arc;

const BATCH: BatchShape = BatchShape {
    n_tokens: 2,
    n_outputs: 1,
    n_sequences: 1,
    max_pages: 1,
};

fn weight(device: usize, dims: &[usize]) -> Tensor {
    Tensor {
        device,
        buffer: BufferId(0),
        offset: 0,
        ty: F32,
        shape: shape(dims),
    }
}

fn steps(plan: &Plan) -> Vec<&Step> {
    let segments = plan.stages().iter().filter_map(|stage| match stage {
        Stage::Execute(segment) => Some(&segment.steps),
        Stage::Copy { .. } => None,
    });
    segments.flatten().collect()
}

#[test]
fn a_chain_needs_the_room_of_one_value() {
    let mut g = GraphBuilder::new(BATCH);
    let x = g.embed(&weight(0, &[32, 8]));
    let x = g.scale(x, 2.0);
    let x = g.softcap(x, 30.0);
    let x = g.add_row(x, &weight(0, &[32]));
    let plan = Plan::new(&g.finish(&[x]).expect("right"), &backends()[..1]).expect("planned");
    // 32 * 2 f32.
    assert_eq!(plan.arena_bytes(0), 256);
    assert_eq!(plan.arena_bytes(1), 0);
}

#[test]
fn a_value_that_is_read_again_is_not_overwritten() {
    let mut g = GraphBuilder::new(BATCH);
    let x = g.embed(&weight(0, &[32, 8]));
    let y = g.scale(x, 2.0);
    let y = g.mul(y, x);
    // An output keeps its place to the end.
    let z = g.scale(y, 3.0);
    let plan = Plan::new(&g.finish(&[y, z]).expect("right"), &backends()[..1]).expect("planned");
    let steps = steps(&plan);
    assert_ne!(steps[1].output, steps[1].operands[0]);
    assert_eq!(steps[2].output, steps[2].operands[0]);
    assert_ne!(steps[3].output, steps[3].operands[0]);
    // x's place is free again when z needs one.
    assert_eq!(plan.arena_bytes(0), 2 * 256);
}

#[test]
fn products_of_one_value_follow_each_other() {
    let mut g = GraphBuilder::new(BATCH);
    let rope = Rope {
        style: RopeStyle::Normal,
        n_dims: 4,
        freq_base: 1e4,
        freq_scale: 1.0,
        yarn: None,
        factors: None,
        attn_factor: 1.0,
    };
    let x = g.embed(&weight(0, &[32, 8]));
    let mut sum = None;
    for _ in 0..3 {
        let q = g.matmul(&weight(0, &[32, 4]), x);
        let q = g.reshape(q, shape(&[4, 1, 2]));
        let q = g.rope(q, &rope);
        sum = Some(sum.map_or(q, |sum| g.add(sum, q)));
    }
    let plan = Plan::new(
        &g.finish(&[sum.expect("three")]).expect("right"),
        &backends()[..1],
    )
    .expect("planned");
    let names: Vec<_> = steps(&plan).iter().map(|step| step.op.name()).collect();
    // One table for all three.
    let expected = [
        "embed",
        "matmul",
        "matmul",
        "matmul",
        "rope_table",
        "rope",
        "rope",
        "add",
        "rope",
        "add",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_value_crosses_once_for_all_its_readers() {
    let mut g = GraphBuilder::new(BATCH);
    let x = g.embed(&weight(0, &[32, 8]));
    let a = g.matmul(&weight(1, &[32, 4]), x);
    let b = g.matmul(&weight(1, &[32, 4]), x);
    let c = g.matmul(&weight(0, &[32, 4]), x);
    g.place(1);
    let ab = g.add(a, b);
    g.place(0);
    let sum = g.add(ab, c);
    let plan = Plan::new(&g.finish(&[sum]).expect("right"), &backends()[..2]).expect("planned");
    let kinds = plan.stages().iter().map(|stage| match stage {
        Stage::Execute(segment) => (segment.device, segment.steps.len()),
        Stage::Copy {
            from_device,
            to_device,
            ..
        } => (from_device * 10 + to_device, 0),
    });
    let kinds: Vec<_> = kinds.collect();
    // embed; over; a, b, their sum; back; c and the sum.
    assert_eq!(kinds[0], (0, 1));
    assert_eq!(kinds.iter().filter(|&&kind| kind == (1, 0)).count(), 1);
    assert_eq!(kinds.iter().filter(|&&kind| kind == (10, 0)).count(), 1);
}

/// A device that cannot scale.
#[derive(Default)]
struct Unscaled(PlainBackend);

impl Backend for Unscaled {
    fn name(&self) -> &'static str {
        "unscaled"
    }
    fn supports(&self, op: &Op) -> bool {
        !matches!(op, Op::Scale(_) | Op::MulRow(_))
    }
    fn import(&self, region: Region) -> Result<BufferId, ComputeError> {
        self.0.import(region)
    }
    fn allocate(&self, bytes: usize) -> Result<BufferId, ComputeError> {
        self.0.allocate(bytes)
    }
    fn free(&self, buffer: BufferId) {
        self.0.free(buffer);
    }
    fn write(&self, buffer: BufferId, offset: usize, data: &[u8]) -> Result<(), ComputeError> {
        self.0.write(buffer, offset, data)
    }
    fn read(&self, buffer: BufferId, offset: usize, out: &mut [u8]) -> Result<(), ComputeError> {
        self.0.read(buffer, offset, out)
    }
    fn execute(
        &self,
        segment: &Segment,
        arena: BufferId,
        inputs: &Inputs<'_>,
    ) -> Result<(), ComputeError> {
        self.0.execute(segment, arena, inputs)
    }
}

#[test]
fn what_a_device_lacks_another_does() {
    for other in backends() {
        let devices: Vec<Arc<dyn Backend>> = vec![Arc::new(Unscaled::default()), other];
        let table = floats(&*devices[0], &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let mut g = GraphBuilder::new(BATCH);
        let x = g.embed(&table);
        let y = g.scale(x, 10.0);
        let sum = g.add(x, y);
        let plan = Plan::new(&g.finish(&[sum]).expect("right"), &devices).expect("planned");
        assert_eq!(plan.stages().len(), 5, "run, copy, run, copy, run");
        let mut executor = Executor::new(devices.clone());
        executor
            .run(
                &plan,
                &Inputs {
                    tokens: &[1, 0],
                    ..Inputs::default()
                },
            )
            .expect("runs");
        assert_eq!(executor.output(0), [33.0, 44.0, 11.0, 22.0]);
        // With a tensor on that device there is nowhere to go.
        let mut g = GraphBuilder::new(BATCH);
        let x = g.embed(&table);
        let x = g.mul_row(x, &floats(&*devices[0], &[2], &[1.0, 1.0]));
        let planned = Plan::new(&g.finish(&[x]).expect("right"), &devices);
        let error = planned.expect_err("unsupported").to_string();
        assert_eq!(
            error,
            "mul_row: not supported by backend unscaled for type f32"
        );
    }
}
