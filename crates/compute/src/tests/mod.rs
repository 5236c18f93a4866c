//! Tests over all backends: values from independent formulas, refusals, and the conformance of the backends.

mod conformance;
mod experts;
mod model;
mod ops;
mod plan;
mod refusals;

use crate::{Backend, BufferId, ComputeError, CpuBackend, PlainBackend, Shape, Tensor};
use gristmill_quant::{F32, TensorType};
use std::sync::Arc;

/// Every backend, alone.
fn backends() -> Vec<Arc<dyn Backend>> {
    vec![
        Arc::new(PlainBackend::new()),
        Arc::new(CpuBackend::new(1)),
        Arc::new(CpuBackend::new(3)),
    ]
}

/// Numbers that look random, the same on every machine (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In -1..1.
    fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn floats(&mut self, n: usize, size: f32) -> Vec<f32> {
        (0..n).map(|_| self.float() * size).collect()
    }
}

fn shape(dims: &[usize]) -> Shape {
    Shape::new(dims).expect("small")
}

/// Encodes `x` as `ty` and gives it to a backend, behind some bytes that belong to nobody.
fn tensor(
    backend: &dyn Backend,
    device: usize,
    ty: TensorType,
    dims: &[usize],
    x: &[f32],
) -> Tensor {
    const OFFSET: usize = 32;
    let shape = shape(dims);
    let row_bytes = ty.row_bytes(dims[0] as u64).expect("whole blocks") as usize;
    let mut bytes = vec![0xAA; OFFSET + row_bytes * shape.n_rows()];
    let ones = vec![1.0; dims[0]];
    let importance = ty.needs_importance().then_some(&ones[..]);
    ty.encode(x, dims[0], importance, &mut bytes[OFFSET..])
        .expect("encodes");
    let buffer = backend.import(Arc::new(bytes)).expect("memory");
    Tensor {
        device,
        buffer,
        offset: OFFSET,
        ty,
        shape,
    }
}

fn floats(backend: &dyn Backend, dims: &[usize], x: &[f32]) -> Tensor {
    tensor(backend, 0, F32, dims, x)
}

/// A zeroed tensor in memory that can be written.
fn zeroed(
    backend: &dyn Backend,
    device: usize,
    ty: TensorType,
    dims: &[usize],
) -> Result<Tensor, ComputeError> {
    let mut tensor = Tensor {
        device,
        buffer: BufferId(0),
        offset: 0,
        ty,
        shape: Shape::new(dims)?,
    };
    tensor.buffer = backend.allocate(tensor.n_bytes()?)?;
    Ok(tensor)
}

/// Asserts that all numbers agree within `tolerance` of the largest magnitude expected (at least 1).
#[track_caller]
fn assert_close(found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    let size = expected.iter().fold(1.0f32, |size, x| size.max(x.abs()));
    for (index, (a, b)) in found.iter().zip(expected).enumerate() {
        let fine = (a - b).abs() <= tolerance * size;
        assert!(
            fine,
            "[{index}]: {a} instead of {b} (scale {size}, tolerance {tolerance})"
        );
    }
}
