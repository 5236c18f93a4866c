use gristmill_quant::{QuantError, TensorType};

/// What can go wrong when a kernel is picked or called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// `GRISTMILL_ISA` holds a name that is no instruction set.
    #[error("GRISTMILL_ISA={name}: unknown instruction set (known: plain, avx2, avx512, neon)")]
    UnknownIsa {
        /// The value found.
        name: String,
    },
    /// `GRISTMILL_ISA` asks for an instruction set that this CPU or this build lacks.
    #[error("GRISTMILL_ISA={isa}: this machine or this build does not support it")]
    UnsupportedIsa {
        /// The instruction set asked for.
        isa: super::Isa,
    },
    /// The tensor type cannot be multiplied: its blocks have no decoder.
    #[error("tensor type {ty} has no compute kernel")]
    UnsupportedType {
        /// The type asked for.
        ty: TensorType,
    },
    /// A buffer and the shape it is said to have do not belong together.
    #[error("{what} has length {found}, expected {expected}")]
    Length {
        /// Which buffer.
        what: &'static str,
        /// The length it must have.
        expected: usize,
        /// The length it has.
        found: usize,
    },
    /// Activations prepared for another kind of weights.
    #[error("the activations were prepared in another layout than {ty} needs")]
    Layout {
        /// The type of the weights.
        ty: TensorType,
    },
    /// A position, sequence or page number outside its range.
    #[error("{what} {value} of token {token} is out of range")]
    Index {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: i64,
        /// The token it belongs to.
        token: usize,
    },
    /// Block data could not be decoded or encoded.
    #[error(transparent)]
    Quant(#[from] QuantError),
}

/// Checks a buffer's length against its shape.
pub(crate) fn check_length(
    what: &'static str,
    found: usize,
    expected: usize,
) -> Result<(), KernelError> {
    if found == expected {
        Ok(())
    } else {
        Err(KernelError::Length {
            what,
            expected,
            found,
        })
    }
}
