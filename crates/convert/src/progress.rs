//! What a long run tells while it runs.

use gristmill_quant::TensorType;

/// An event of a conversion or quantization, in the order in which things happen.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Something that is probably not what the user wants.
    Warning(&'a str),
    /// What the types cost the next tensor is measured, before the plan stands.
    Measuring {
        /// Its number among those that are measured, from 0.
        index: usize,
        /// How many are measured.
        n_tensors: usize,
        /// Name in GGUF.
        name: &'a str,
    },
    /// The plan stands; writing begins.
    Start {
        /// Tensors to write.
        n_tensors: usize,
        /// Bytes of tensor data to write.
        bytes: u64,
    },
    /// The next tensor begins.
    Tensor {
        /// Its number, from 0.
        index: usize,
        /// Name in GGUF.
        name: &'a str,
        /// Shape, contiguous dimension first.
        dims: &'a [u64],
        /// Type in the source; for a checkpoint, its name there.
        from: &'a str,
        /// Type in the output.
        to: TensorType,
    },
    /// Values of a tensor are below the range of f16, and become 0.
    Flushed {
        /// Name in GGUF.
        name: &'a str,
        /// How many.
        count: u64,
    },
    /// So many more bytes of tensor data are written.
    Written {
        /// Bytes since the last event of this kind.
        bytes: u64,
    },
}

/// Receives the events of a run.
pub type Progress<'a> = &'a mut dyn FnMut(Event<'_>);
