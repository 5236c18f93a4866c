//! The one error type of this crate.

use crate::{BufferId, Input, Shape};
use gristmill_kernels::KernelError;
use gristmill_quant::{QuantError, TensorType};

/// Why a graph could not be built, planned or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ComputeError {
    /// Two shapes that an op relates do not fit together.
    #[error("{op}: {what}: {left} does not fit {right}")]
    Shape {
        /// The op's name.
        op: &'static str,
        /// Which operands, and the rule they break.
        what: &'static str,
        /// Shape of the value (or of the first operand).
        left: Shape,
        /// Shape of the weight, cache or second operand.
        right: Shape,
    },
    /// A number among an op's parameters is outside its range.
    #[error("{op}: {what} is {found}")]
    Parameter {
        /// The op's name.
        op: &'static str,
        /// The parameter and its range.
        what: &'static str,
        /// The value given.
        found: f64,
    },
    /// A tensor's type cannot take this place.
    #[error("{op}: a tensor of type {ty} cannot be used here: {what}")]
    Type {
        /// The op's name.
        op: &'static str,
        /// The type found.
        ty: TensorType,
        /// What is asked for.
        what: &'static str,
    },
    /// The tensors of one op live on different devices.
    #[error("{op}: its tensors live on devices {first} and {second}, but an op runs on one device")]
    MixedDevices {
        /// The op's name.
        op: &'static str,
        /// Device of the first tensor.
        first: usize,
        /// Device of another tensor.
        second: usize,
    },
    /// A device number without a device.
    #[error("{op}: device {device} does not exist ({n_devices} devices)")]
    UnknownDevice {
        /// The op's name.
        op: &'static str,
        /// The number asked for.
        device: usize,
        /// How many there are.
        n_devices: usize,
    },
    /// No device can run the op where its tensors are.
    #[error("{op}: not supported by backend {backend}{types}")]
    Unsupported {
        /// The op's name.
        op: &'static str,
        /// The types of its tensors, as words behind the backend's name; empty without tensors.
        types: String,
        /// The backend that holds the op's tensors.
        backend: String,
    },
    /// A [`crate::Value`] that is not of this graph.
    #[error("{op}: the value belongs to another graph")]
    ForeignValue {
        /// The op's name.
        op: &'static str,
    },
    /// A size does not fit the address space.
    #[error("{what}: the size overflows")]
    TooLarge {
        /// What was being measured.
        what: &'static str,
    },
    /// The system did not give the memory.
    #[error("{bytes} bytes of memory could not be allocated")]
    OutOfMemory {
        /// The size asked for.
        bytes: usize,
    },
    /// A buffer id that the backend does not know (any more).
    #[error("backend {backend}: unknown buffer {buffer:?}")]
    UnknownBuffer {
        /// The backend's name.
        backend: &'static str,
        /// The id.
        buffer: BufferId,
    },
    /// A range outside a buffer.
    #[error(
        "backend {backend}: {bytes} bytes at offset {offset} lie outside buffer {buffer:?} of {size} bytes"
    )]
    OutOfBounds {
        /// The backend's name.
        backend: &'static str,
        /// The buffer.
        buffer: BufferId,
        /// First byte asked for.
        offset: usize,
        /// Number of bytes asked for.
        bytes: usize,
        /// Size of the buffer.
        size: usize,
    },
    /// A write into an imported region, or into a buffer that the same step reads.
    #[error("backend {backend}: buffer {buffer:?} cannot be written here")]
    ReadOnly {
        /// The backend's name.
        backend: &'static str,
        /// The buffer.
        buffer: BufferId,
    },
    /// A tensor whose offset is no multiple of its element size.
    #[error(
        "backend {backend}: offset {offset} in buffer {buffer:?} is not aligned for its elements"
    )]
    Misaligned {
        /// The backend's name.
        backend: &'static str,
        /// The buffer.
        buffer: BufferId,
        /// Byte offset.
        offset: usize,
    },
    /// An input of the wrong length.
    #[error("input {input:?} has {found} entries, the plan needs {expected}")]
    InputLength {
        /// Which input.
        input: Input,
        /// Entries that the batch shape asks for.
        expected: usize,
        /// Entries given.
        found: usize,
    },
    /// An entry of an input outside its range.
    #[error("input {input:?}[{index}] is {value}, outside 0..{limit}")]
    InputValue {
        /// Which input.
        input: Input,
        /// Which entry.
        index: usize,
        /// Its value.
        value: i32,
        /// The first value too large.
        limit: usize,
    },
    /// A plan that was made for other devices.
    #[error("the plan was made for {planned} devices, the executor has {found}")]
    DeviceCount {
        /// Devices the plan was made for.
        planned: usize,
        /// Devices of the executor.
        found: usize,
    },
    /// A kernel refused its data.
    #[error("{op}: {source}")]
    Kernel {
        /// The op's name.
        op: &'static str,
        /// The cause.
        source: KernelError,
    },
    /// The places of a step's operands and result overlap or lie outside the arena: a plan of another executor.
    #[error("{op}: the places of its values do not fit the arena")]
    Places {
        /// The op's name.
        op: &'static str,
    },
    /// An error of the type registry: a type without a decoder, a row of broken length.
    #[error("{op}: {source}")]
    Quant {
        /// The op's name.
        op: &'static str,
        /// The cause.
        source: QuantError,
    },
}
