//! The GGUF container: read, validate, write, edit, split.
//!
//! A file is parsed, validated, and then seen through views that cannot fail: [`File`] for one file,
//! [`Model`] for a model that may be a set of shards. [`Writer`] writes a file from a plan of its
//! tensors, and makes it appear whole or not at all.
//!
//! Files are hostile input: every number in them is checked before it is used, and no count reserves
//! memory before it was compared with the bytes that are there.

mod byte_order;
mod copy;
mod cursor;
mod diagnose;
mod diff;
mod directory;
pub mod edit;
mod encode;
mod endian;
mod error;
mod faults;
mod file;
mod file_type;
mod hash;
mod imatrix;
mod kind;
pub mod limits;
mod mapping;
mod merge;
mod metadata;
mod model;
mod output;
mod parallel;
mod parse;
mod resumable;
mod shard_writer;
mod shards;
mod source;
mod split;
mod summary;
mod value;
mod writer;

pub use copy::{Event, Progress};
pub use cursor::Endian;
pub use diff::{
    ArrayDiff, DataDiff, Diff, DiffOptions, EntryChange, EntryDiff, OrderDiff, Shape, TensorChange,
    TensorDiff, ValueDiff, diff,
};
pub use directory::{TensorInfo, tensor_bytes};
pub use endian::{EndianOptions, EndianReport, convert_endian};
pub use error::{Error, Result};
pub use file::{File, Survey};
pub use file_type::FileType;
pub use hash::{
    FILE_SHA256, FileHash, HashKind, HashOptions, HashReport, Manifest, Outcome, TensorHash, hash,
    sha256_of_file,
};
pub use imatrix::{Imatrix, ImatrixEntry, ImatrixForm, LegacyLoss};
pub use kind::Kind;
pub use mapping::Mapping;
pub use merge::{MergeOptions, MergeReport, merge};
pub use metadata::Metadata;
pub use model::{Model, TensorView};
pub use output::{
    OutputFile, PartialPath, StagedFile, WriteOptions, check_target, remove_partial_outputs,
    same_file,
};
pub use resumable::ResumableWriter;
pub use shard_writer::{ShardKeys, ShardLimits, ShardPlan, ShardWriter};
pub use shards::{shard_file_name, shard_prefix};
pub use split::{SplitFile, SplitOptions, SplitReport, split};
pub use summary::{RoleShare, ShardSummary, Summary, TypeShare, role};
pub use value::{Array, StringArray, Text, Value, ValueType, escape_invalid};
pub use writer::{TensorPlan, Writer};
