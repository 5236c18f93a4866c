//! Which device runs each node, in which order values cross devices, and how long each value is needed.

use crate::{Backend, ComputeError, Graph, Op};
use std::sync::Arc;

/// A value in the memory of one device.
#[derive(Clone, Copy, Debug)]
pub struct Instance {
    pub device: usize,
    /// f32 elements.
    pub len: usize,
    /// Index of the last event that reads it; the event that makes it if none does; `usize::MAX` for outputs.
    pub last_use: usize,
}

/// One thing that happens during an execution. Operands and results are instances.
#[derive(Clone, Debug)]
pub enum Event {
    Run {
        node: usize,
        operands: Vec<usize>,
        result: usize,
    },
    Copy {
        from: usize,
        to: usize,
    },
}

/// All events of a graph in order.
pub struct Schedule {
    pub events: Vec<Event>,
    pub instances: Vec<Instance>,
    /// Instances of the graph's outputs.
    pub outputs: Vec<usize>,
}

impl Schedule {
    pub fn new(graph: &Graph, devices: &[Arc<dyn Backend>]) -> Result<Self, ComputeError> {
        let mut schedule = Self {
            events: Vec::new(),
            instances: Vec::new(),
            outputs: Vec::new(),
        };
        // Per node: its instance where it was computed, and copies on other devices.
        let mut places: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes().len()];
        for index in execution_order(graph) {
            let node = &graph.nodes()[index];
            if let Op::Reshape(_) = node.op {
                // Another name for the same elements.
                places[index] = places[node.operands[0].index()].clone();
                continue;
            }
            let device = device_of(node.device, &node.op, devices)?;
            let mut operands = Vec::with_capacity(node.operands.len());
            for value in &node.operands {
                operands.push(schedule.on_device(&mut places[value.index()], device));
            }
            let time = schedule.events.len();
            for &operand in &operands {
                schedule.instances[operand].last_use = time;
            }
            let result = schedule.instances.len();
            schedule.instances.push(Instance {
                device,
                len: node.shape.n_elements(),
                last_use: time,
            });
            schedule.events.push(Event::Run {
                node: index,
                operands,
                result,
            });
            places[index].push(result);
        }
        for output in graph.outputs() {
            let instance = places[output.index()][0];
            schedule.instances[instance].last_use = usize::MAX;
            schedule.outputs.push(instance);
        }
        Ok(schedule)
    }

    /// The instance on `device` of a value with the given instances, copied there if need be.
    fn on_device(&mut self, places: &mut Vec<usize>, device: usize) -> usize {
        if let Some(&here) = places.iter().find(|&&p| self.instances[p].device == device) {
            return here;
        }
        let from = places[0];
        let time = self.events.len();
        self.instances[from].last_use = time;
        let to = self.instances.len();
        self.instances.push(Instance {
            device,
            last_use: time,
            ..self.instances[from]
        });
        self.events.push(Event::Copy { from, to });
        places.push(to);
        to
    }
}

/// The nodes as they were built, except that products of one value follow each other: a backend prepares their columns
/// once and shares the work of all among its threads.
fn execution_order(graph: &Graph) -> Vec<usize> {
    let nodes = graph.nodes();
    let mut products: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        if let Op::MatMul(_) = node.op {
            products[node.operands[0].index()].push(index);
        }
    }
    let mut order = Vec::with_capacity(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        if let Op::MatMul(_) = node.op {
            // The first takes all with it and leaves nothing for the others.
            let alike = &mut products[node.operands[0].index()];
            if alike.contains(&index) {
                order.extend(alike.extract_if(.., |other| nodes[*other].device == node.device));
            }
        } else {
            order.push(index);
        }
    }
    order
}

/// Where a node runs: its own device, or the first that supports an op without tensors.
fn device_of(wanted: usize, op: &Op, devices: &[Arc<dyn Backend>]) -> Result<usize, ComputeError> {
    let Some(backend) = devices.get(wanted) else {
        return Err(ComputeError::UnknownDevice {
            op: op.name(),
            device: wanted,
            n_devices: devices.len(),
        });
    };
    if backend.supports(op) {
        return Ok(wanted);
    }
    let other = devices.iter().position(|device| device.supports(op));
    match other {
        Some(other) if op.tensors().next().is_none() => Ok(other),
        _ => Err(ComputeError::Unsupported {
            op: op.name(),
            types: words_of_types(op),
            backend: backend.name().to_string(),
        }),
    }
}

fn words_of_types(op: &Op) -> String {
    let mut names: Vec<&str> = op.tensors().map(|tensor| tensor.ty.name()).collect();
    names.dedup();
    match names.is_empty() {
        true => String::new(),
        false => format!(" for type {}", names.join(" and ")),
    }
}
