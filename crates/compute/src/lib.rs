//! Tensor handles, a closed list of ops, the graph, its placement and memory plan, backends and the executor.
//!
//! A model is built once per [`BatchShape`] with a [`GraphBuilder`], planned once into a [`Plan`] and run per
//! batch by an [`Executor`]. Weights and caches are [`Tensor`] handles into memory that a [`Backend`] owns;
//! values between ops are f32 and live in one arena per device, whose size the plan knows exactly.
//!
//! ```text
//! GraphBuilder --finish--> Graph --Plan::new--> Plan --Executor::run(inputs)--> outputs
//!    shapes checked          data      devices, copies, arena offsets
//! ```

mod backend;
mod changes;
mod error;
mod executor;
mod graph;
mod input;
pub mod op;
mod plan;
mod tensor;
#[cfg(test)]
mod tests;

pub use backend::cpu::CpuBackend;
pub use backend::llama_cpp::LlamaCppBackend;
pub use backend::plain::PlainBackend;
pub use backend::{Backend, Region};
pub use changes::{Changes, LowRank};
pub use error::ComputeError;
pub use executor::Executor;
pub use graph::{BatchShape, Graph, GraphBuilder, Node, Value};
pub use input::{Input, Inputs};
pub use op::{Activation, Attention, KvLayer, Op, Rope, RopeStyle, Route, Yarn};
pub use plan::{Location, Plan, Segment, Stage, Step};
pub use tensor::{BufferId, Shape, Tensor};
