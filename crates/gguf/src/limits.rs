//! How much a file may hold. Far above every real file, and low enough that a hostile one costs
//! milliseconds.

/// Metadata entries.
pub const ENTRIES: u64 = 1_000_000;
/// Tensors in one file.
pub const TENSORS: u64 = 1_000_000;
/// Bytes of one string value.
pub const STRING_BYTES: u64 = 256 << 20;
/// Elements of one array.
pub const ARRAY_ITEMS: u64 = 100_000_000;
/// Bytes of a key.
pub const KEY_BYTES: u64 = 65_535;
/// Bytes of a tensor name that the reference loads: its buffer of 64 ends in a zero byte.
pub const NAME_BYTES: usize = 63;
/// Bytes of a tensor name that this reader accepts: the limit of the specification.
pub const READ_NAME_BYTES: u64 = 64;
/// Dimensions of a tensor.
pub const DIMS: u32 = 4;
/// Shards of a set: their numbers are stored in 16 bits.
pub const SHARDS: u64 = 65_535;
/// The alignment of the data section where the file does not set one.
pub const DEFAULT_ALIGNMENT: u64 = 32;
/// The largest alignment of a file that is written. One that is read may have any: it is compared with the size of the
/// file, but every byte of what is written has to be made up.
pub const WRITTEN_ALIGNMENT: u64 = 1 << 20;

/// The fewest bytes of an entry: length of an empty key, type, one byte of value. (An empty key is
/// refused, but with a better message than that the count is too large.)
pub(crate) const ENTRY_BYTES_MIN: u64 = 8 + 4 + 1;
/// The fewest bytes of a directory entry: length of an empty name, no dimensions, type, offset.
pub(crate) const TENSOR_BYTES_MIN: u64 = 8 + 4 + 4 + 8;
