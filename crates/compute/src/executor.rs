//! Runs plans.

use crate::{Backend, BufferId, ComputeError, Inputs, Plan, Stage};
use std::sync::Arc;

/// Devices with one arena each, which grows to what the largest plan needs, and the outputs of the last run.
pub struct Executor {
    devices: Vec<Arc<dyn Backend>>,
    arenas: Vec<Option<Arena>>,
    outputs: Vec<Vec<f32>>,
    n_outputs: usize,
    staging: Vec<f32>,
}

#[derive(Clone, Copy)]
struct Arena {
    buffer: BufferId,
    bytes: usize,
}

impl Executor {
    /// An executor over these devices, in the order in which tensors and plans number them.
    pub fn new(devices: Vec<Arc<dyn Backend>>) -> Self {
        let arenas = devices.iter().map(|_| None).collect();
        Self {
            devices,
            arenas,
            outputs: Vec::new(),
            n_outputs: 0,
            staging: Vec::new(),
        }
    }

    /// The devices.
    pub fn devices(&self) -> &[Arc<dyn Backend>] {
        &self.devices
    }

    /// Reserves the arenas that a plan needs, so that `run` does not have to.
    ///
    /// # Errors
    /// `DeviceCount`, `OutOfMemory`.
    pub fn prepare(&mut self, plan: &Plan) -> Result<(), ComputeError> {
        if plan.n_devices() != self.devices.len() {
            return Err(ComputeError::DeviceCount {
                planned: plan.n_devices(),
                found: self.devices.len(),
            });
        }
        for (device, (backend, arena)) in self.devices.iter().zip(&mut self.arenas).enumerate() {
            let bytes = plan.arena_bytes(device);
            if arena.is_some_and(|arena| arena.bytes >= bytes) {
                continue;
            }
            if let Some(old) = arena.take() {
                backend.free(old.buffer);
            }
            let buffer = backend.allocate(bytes)?;
            *arena = Some(Arena { buffer, bytes });
        }
        Ok(())
    }

    /// Bytes of the arena held on one device.
    pub fn arena_bytes(&self, device: usize) -> usize {
        self.arenas
            .get(device)
            .copied()
            .flatten()
            .map_or(0, |arena| arena.bytes)
    }

    /// Checks the inputs, runs all stages and fetches the outputs.
    ///
    /// # Errors
    /// `InputLength` and `InputValue` before anything is run; else what a backend reports.
    pub fn run(&mut self, plan: &Plan, inputs: &Inputs<'_>) -> Result<(), ComputeError> {
        plan.limits().check(plan.batch(), inputs)?;
        self.prepare(plan)?;
        self.n_outputs = 0;
        for stage in plan.stages() {
            match stage {
                Stage::Execute(segment) => {
                    let arena = self.arena(segment.device)?;
                    self.devices[segment.device].execute(segment, arena, inputs)?;
                }
                Stage::Copy {
                    from_device,
                    from,
                    to_device,
                    to,
                } => {
                    let (source, target) = (self.arena(*from_device)?, self.arena(*to_device)?);
                    self.staging.resize(from.len, 0.0);
                    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.staging);
                    self.devices[*from_device].read(
                        source,
                        from.offset * size_of::<f32>(),
                        bytes,
                    )?;
                    self.devices[*to_device].write(target, to.offset * size_of::<f32>(), bytes)?;
                }
            }
        }
        self.fetch_outputs(plan)
    }

    /// Output `index` of the last run, in the order given to `finish`; empty if there is none.
    pub fn output(&self, index: usize) -> &[f32] {
        let outputs = &self.outputs[..self.n_outputs];
        outputs.get(index).map_or(&[], Vec::as_slice)
    }

    /// The arena of a device, which `prepare` has reserved.
    fn arena(&self, device: usize) -> Result<BufferId, ComputeError> {
        let unknown = ComputeError::UnknownDevice {
            op: "arena",
            device,
            n_devices: self.devices.len(),
        };
        self.arenas
            .get(device)
            .copied()
            .flatten()
            .map(|arena| arena.buffer)
            .ok_or(unknown)
    }

    fn fetch_outputs(&mut self, plan: &Plan) -> Result<(), ComputeError> {
        let places = plan.outputs();
        if self.outputs.len() < places.len() {
            self.outputs.resize_with(places.len(), Vec::new);
        }
        for (index, place) in places.iter().enumerate() {
            let arena = self.arena(place.device)?;
            let output = &mut self.outputs[index];
            output.resize(place.location.len, 0.0);
            if output.is_empty() {
                continue;
            }
            let offset = place.location.offset * size_of::<f32>();
            self.devices[place.device].read(arena, offset, bytemuck::cast_slice_mut(output))?;
        }
        self.n_outputs = places.len();
        Ok(())
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        for (backend, arena) in self.devices.iter().zip(&mut self.arenas) {
            if let Some(arena) = arena.take() {
                backend.free(arena.buffer);
            }
        }
    }
}
