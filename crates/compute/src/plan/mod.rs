//! From a graph to what is executed: the device of each node, copies of values that cross devices, and a place
//! for every value in one arena per device.

mod arena;
mod schedule;

use crate::input::InputLimits;
use crate::op::RowIndex;
use crate::{Backend, BatchShape, ComputeError, Graph, Op, Shape};
use arena::ArenaPacker;
use schedule::{Event, Schedule};
use std::sync::Arc;

/// A range of a device's arena, in f32 elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// First element.
    pub offset: usize,
    /// Number of elements.
    pub len: usize,
}

impl Location {
    /// The elements as a range.
    pub fn range(self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.len
    }
}

/// One op with the places of its operands and its result.
///
/// The result overlaps no operand, except that it may be exactly the first operand of an element-wise op or a
/// rotation.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What is computed.
    pub op: Op,
    /// Places of the operands; unused ones are empty.
    pub operands: [Location; 2],
    /// Place of the result.
    pub output: Location,
    /// Shape of the result.
    pub shape: Shape,
}

/// Steps that one device runs in a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// The device.
    pub device: usize,
    /// In order of execution.
    pub steps: Vec<Step>,
    /// The batch that the plan is for.
    pub batch: BatchShape,
}

/// One stage of an execution.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// Runs a segment on its device.
    Execute(Segment),
    /// Copies a value from one device's arena to another's.
    Copy {
        /// Device that computed the value.
        from_device: usize,
        /// Its place there.
        from: Location,
        /// Device that needs it.
        to_device: usize,
        /// Its place there.
        to: Location,
    },
}

/// Where an output of the graph is found after the last stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OutputPlace {
    pub device: usize,
    pub location: Location,
}

/// A graph made ready for a set of devices. Holds no memory; the executor does.
#[derive(Clone, Debug)]
pub struct Plan {
    stages: Vec<Stage>,
    arena_lens: Vec<usize>,
    outputs: Vec<OutputPlace>,
    limits: InputLimits,
    batch: BatchShape,
}

impl Plan {
    /// Places the nodes of `graph` on `devices` and packs their values.
    ///
    /// A node runs where its tensors are, else where it was placed; a node without tensors that its device does
    /// not support runs on the first device that does.
    ///
    /// # Errors
    /// `UnknownDevice`, `Unsupported`, `TooLarge`.
    pub fn new(graph: &Graph, devices: &[Arc<dyn Backend>]) -> Result<Self, ComputeError> {
        let schedule = Schedule::new(graph, devices)?;
        let packed = pack(graph, &schedule, devices.len())?;
        let stages = stages(graph, &schedule, &packed);
        let outputs = schedule.outputs.iter().map(|&instance| OutputPlace {
            device: schedule.instances[instance].device,
            location: packed.locations[instance],
        });
        Ok(Self {
            stages,
            outputs: outputs.collect(),
            arena_lens: packed.arena_lens,
            limits: limits(graph),
            batch: *graph.batch(),
        })
    }

    /// The stages in order.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// Exact size of the arena on one device, in bytes; 0 for a device that runs nothing.
    pub fn arena_bytes(&self, device: usize) -> usize {
        self.arena_lens
            .get(device)
            .map_or(0, |len| len * size_of::<f32>())
    }

    /// Bytes of host memory that running it on `devices` takes besides the arenas: what the backends work in, and the outputs.
    pub fn host_bytes(&self, devices: &[Arc<dyn Backend>]) -> u64 {
        let scratch = |stage: &Stage| match stage {
            Stage::Execute(segment) => {
                let device = devices.get(segment.device);
                device.map_or(0, |device| device.scratch_bytes(segment))
            }
            Stage::Copy { from, .. } => from.len * size_of::<f32>(),
        };
        let scratch = self.stages.iter().map(scratch).max().unwrap_or(0);
        let n_floats: usize = self.outputs.iter().map(|place| place.location.len).sum();
        scratch as u64 + (n_floats * size_of::<f32>()) as u64
    }

    /// Number of devices that the plan was made for.
    pub fn n_devices(&self) -> usize {
        self.arena_lens.len()
    }

    /// The batch that the plan is for.
    pub fn batch(&self) -> &BatchShape {
        &self.batch
    }

    pub(crate) fn outputs(&self) -> &[OutputPlace] {
        &self.outputs
    }

    pub(crate) fn limits(&self) -> &InputLimits {
        &self.limits
    }
}

/// Places of all instances.
struct Packed {
    locations: Vec<Location>,
    arena_lens: Vec<usize>,
}

/// Walks the events once and gives every instance a place for as long as it is needed.
fn pack(graph: &Graph, schedule: &Schedule, n_devices: usize) -> Result<Packed, ComputeError> {
    let mut packers = vec![ArenaPacker::default(); n_devices];
    let mut locations = vec![Location::default(); schedule.instances.len()];
    let mut moved = vec![false; schedule.instances.len()];
    for (time, event) in schedule.events.iter().enumerate() {
        let (reads, result) = match event {
            Event::Run {
                operands, result, ..
            } => (operands.as_slice(), *result),
            Event::Copy { from, to } => (std::slice::from_ref(from), *to),
        };
        let instance = &schedule.instances[result];
        let packer = &mut packers[instance.device];
        let reused = reusable_operand(graph, schedule, event, time);
        locations[result] = match reused {
            Some(operand) => {
                moved[operand] = true;
                locations[operand]
            }
            None => packer.place(instance.len)?,
        };
        for &read in reads.iter().chain([&result]) {
            let ended = schedule.instances[read].last_use <= time && !moved[read];
            if ended {
                // Set so that an operand named twice is released once.
                moved[read] = true;
                packers[schedule.instances[read].device].release(locations[read]);
            }
        }
    }
    let arena_lens = packers.iter().map(ArenaPacker::len).collect();
    Ok(Packed {
        locations,
        arena_lens,
    })
}

/// The first operand, if the op may write over it and nobody reads it later.
fn reusable_operand(
    graph: &Graph,
    schedule: &Schedule,
    event: &Event,
    time: usize,
) -> Option<usize> {
    let Event::Run {
        node,
        operands,
        result,
    } = event
    else {
        return None;
    };
    let (&first, rest) = operands.split_first()?;
    let (from, to) = (&schedule.instances[first], &schedule.instances[*result]);
    let ends_here = from.last_use == time && !rest.contains(&first);
    (graph.nodes()[*node].op.works_in_place()
        && ends_here
        && from.len == to.len
        && from.device == to.device)
        .then_some(first)
}

/// Groups the events into segments and copies.
fn stages(graph: &Graph, schedule: &Schedule, packed: &Packed) -> Vec<Stage> {
    let mut stages = Vec::new();
    let mut open: Option<Segment> = None;
    for event in &schedule.events {
        match event {
            Event::Copy { from, to } => {
                stages.extend(open.take().map(Stage::Execute));
                stages.push(Stage::Copy {
                    from_device: schedule.instances[*from].device,
                    from: packed.locations[*from],
                    to_device: schedule.instances[*to].device,
                    to: packed.locations[*to],
                });
            }
            Event::Run {
                node,
                operands,
                result,
            } => {
                let device = schedule.instances[*result].device;
                if open
                    .as_ref()
                    .is_some_and(|segment| segment.device != device)
                {
                    stages.extend(open.take().map(Stage::Execute));
                }
                let new = || Segment {
                    device,
                    steps: Vec::new(),
                    batch: *graph.batch(),
                };
                let step = step(graph, packed, *node, operands, *result);
                open.get_or_insert_with(new).steps.push(step);
            }
        }
    }
    stages.extend(open.map(Stage::Execute));
    stages
}

fn step(graph: &Graph, packed: &Packed, node: usize, operands: &[usize], result: usize) -> Step {
    let node = &graph.nodes()[node];
    let mut places = [Location::default(); 2];
    for (place, &operand) in places.iter_mut().zip(operands) {
        *place = packed.locations[operand];
    }
    Step {
        op: node.op.clone(),
        operands: places,
        output: packed.locations[result],
        shape: node.shape,
    }
}

/// What the inputs are checked against before each execution.
fn limits(graph: &Graph) -> InputLimits {
    let mut limits = InputLimits::default();
    let least = |known: Option<usize>, n: usize| Some(known.map_or(n, |k| k.min(n)));
    let any_position = i32::MAX as usize;
    for node in graph.nodes() {
        match &node.op {
            Op::Embed(op) => {
                let limit = match op.index {
                    RowIndex::Token => &mut limits.tokens,
                    RowIndex::Position => &mut limits.positions,
                    RowIndex::First => continue,
                };
                *limit = least(*limit, op.table.shape.n_rows());
            }
            Op::RopeTable(_) => limits.positions = least(limits.positions, any_position),
            Op::SelectOutputs => limits.output_rows = true,
            Op::StoreKv(op) => {
                let table = limits.table(op.layer.table);
                table.slots = least(table.slots, op.layer.n_slots());
            }
            Op::Attend(op) => {
                limits.positions = least(limits.positions, any_position);
                let table = limits.table(op.layer.table);
                table.pages = least(table.pages, op.layer.n_pages());
                table.page_len = match table.page_len {
                    0 => op.layer.page_len,
                    len => len.min(op.layer.page_len),
                };
                table.window = table.window.max(op.attention.window.unwrap_or(usize::MAX));
            }
            _ => {}
        }
    }
    limits
}
