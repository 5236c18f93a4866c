use crate::TensorType;

/// What can go wrong when block data is sized, decoded or encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantError {
    /// The type is known, but this operation has no implementation for it.
    #[error("tensor type {ty} has no {operation}")]
    NoCodec {
        /// The type asked for.
        ty: TensorType,
        /// `decode`, `encode`, `dot` or `validation`.
        operation: &'static str,
    },
    /// A row whose length is not a whole number of blocks.
    #[error("a row of {row_len} elements is not a whole number of {ty} blocks of {}", ty.block_len())]
    RowLength {
        /// The type asked for.
        ty: TensorType,
        /// Elements in the row.
        row_len: u64,
    },
    /// The size in bytes does not fit 64 bits.
    #[error("the size of {n} elements of type {ty} overflows")]
    Overflow {
        /// The type asked for.
        ty: TensorType,
        /// Elements asked for.
        n: u64,
    },
    /// Two buffers, or a buffer and a length, do not belong together.
    #[error("{ty}: {what} has length {found}, expected {expected}")]
    Length {
        /// The type asked for.
        ty: TensorType,
        /// Which buffer.
        what: &'static str,
        /// The length it must have (bytes or elements, as the buffer counts).
        expected: usize,
        /// The length it has.
        found: usize,
    },
    /// A type that cannot be written without an importance matrix, and there is none.
    #[error("tensor type {ty} can only be written with an importance matrix")]
    NeedsImportance {
        /// The type asked for.
        ty: TensorType,
    },
    /// A NaN or an infinity among the scales (or values) of a block.
    #[error(
        "quantized data validation failed: {ty} {} {block} holds a number that is not finite",
        if ty.block_len() == 1 { "element" } else { "block" }
    )]
    NonFinite {
        /// The type of the data.
        ty: TensorType,
        /// Index of the first such block; of types without blocks, of the element.
        block: usize,
    },
}
