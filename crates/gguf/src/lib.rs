//! The GGUF container: read, validate, write, edit, split.
//!
//! A file is parsed, validated, and then seen through views that cannot fail: [`File`] for one file,
//! [`Model`] for a model that may be a set of shards. [`Writer`] writes a file from a plan of its
//! tensors, and makes it appear whole or not at all.
//!
//! Files are hostile input: every number in them is checked before it is used, and no count reserves
//! memory before it was compared with the bytes that are there.
//!
//! # Writing a file
//!
//! A writer is told all names, shapes and types first, since the directory comes before the data; the
//! data follows in the order of the plan, in pieces of any length.
//!
//! ```
//! use gristmill_gguf::{Metadata, TensorPlan, WriteOptions, Writer};
//! use gristmill_quant::{F32, Q8_0};
//!
//! # let folder = tempfile::tempdir()?;
//! let path = folder.path().join("model.gguf");
//! let mut metadata = Metadata::new();
//! metadata.set("general.architecture", "llama"); // the type of the value is that of the entry: STRING
//! metadata.set("llama.block_count", 1u32); // UINT32
//! metadata.set("tokenizer.ggml.tokens", vec!["<s>".to_owned(), "a".to_owned()]);
//!
//! // Dimensions start with the contiguous one: 3 rows of 32 elements.
//! let tensor = |name: &str, dims: &[u64], ty| TensorPlan { name: name.to_owned(), dims: dims.to_vec(), ty };
//! let plan = [tensor("output_norm.weight", &[32], F32), tensor("token_embd.weight", &[32, 3], Q8_0)];
//!
//! let mut writer = Writer::create(&path, &metadata, &plan, &WriteOptions::default())?;
//! writer.write_tensor("output_norm.weight", &1f32.to_le_bytes().repeat(32))?;
//! let mut rows = vec![0; Q8_0.row_bytes(32)? as usize * 3];
//! Q8_0.encode(&[0.5; 96], 32, None, &mut rows)?;
//! for piece in rows.chunks(50) {
//!     writer.write(piece)?;
//! }
//! assert!(!path.exists()); // until it is complete there is nothing under the name
//! writer.finish()?;
//! assert!(path.exists());
//!
//! // What is there is not replaced unless that is asked for.
//! let again = Writer::create(&path, &metadata, &plan, &WriteOptions::default());
//! assert!(matches!(again, Err(gristmill_gguf::Error::OutputExists { .. })));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Reading a model
//!
//! Opening reads the header only, however large the weights are; they are mapped, and seen where they
//! lie. Of a set of shards any file may be named, and the whole set opens.
//!
//! ```
//! use gristmill_gguf::{Error, File, Model};
//! # use gristmill_gguf::{Metadata, ShardLimits, SplitOptions, TensorPlan, WriteOptions, Writer, split};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.gguf");
//! # let mut metadata = Metadata::new();
//! # metadata.set("general.architecture", "llama");
//! # metadata.set("llama.block_count", 2u32);
//! # metadata.set("tokenizer.ggml.tokens", vec!["<s>".to_owned(), "a".to_owned()]);
//! # let tensor = |n| TensorPlan { name: format!("blk.{n}.ffn_up.weight"), dims: vec![4, 2], ty: gristmill_quant::F32 };
//! # let mut writer = Writer::create(&path, &metadata, &[tensor(0), tensor(1)], &WriteOptions::default())?;
//! # writer.write(&0.5f32.to_le_bytes().repeat(8))?;
//! # writer.write(&0.25f32.to_le_bytes().repeat(8))?;
//! # writer.finish()?;
//! # let limits = ShardLimits { tensors: Some(1), ..ShardLimits::default() };
//! # let prefix = folder.path().join("part");
//! # split(&SplitOptions { input: path, prefix, limits, dry_run: false, force: false, as_reference: false }, &mut |_| {})?;
//!
//! let model = Model::open(&folder.path().join("part-00002-of-00002.gguf"))?;
//! assert_eq!(model.shards().len(), 2);
//!
//! // Getters say what they expect. What is not there is `None`; another type is an error that names the key.
//! let metadata = model.metadata();
//! assert_eq!(metadata.required_u32("llama.block_count")?, 2);
//! assert_eq!(metadata.str("general.name")?, None);
//! let wrong = metadata.u32("general.architecture").map_err(|error| error.to_string());
//! assert!(wrong.is_err_and(|text| text.contains("general.architecture")));
//!
//! for tensor in model.views() {
//!     let (info, data) = (tensor.info, tensor.data); // `data` cannot be short: the file was validated
//!     let mut values = vec![0.0; info.n_elements() as usize];
//!     info.ty.decode(data, &mut values)?;
//!     println!("{} {:?} {} {:?}", info.name, info.dims, info.ty.name(), &values[..2]);
//! }
//! let second = model.tensor("blk.1.ffn_up.weight").ok_or("no such tensor")?;
//! assert_eq!(second.data[..4], 0.25f32.to_le_bytes());
//!
//! // A fault is an error with its place, and where there is one, a remedy.
//! let mut bytes = std::fs::read(model.path())?;
//! bytes.pop();
//! let error = File::from_bytes(&bytes, "cut.gguf".as_ref()).err().ok_or("it opened")?;
//! assert!(matches!(error, Error::TensorOutsideFile { .. }));
//! println!("error: {error}");
//! if let Some(hint) = error.hint() {
//!     println!("hint: {hint}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Changing metadata
//!
//! An edit is worked out first and made then. It goes in place where the new header fits into the old
//! one's, whatever the size of the file; see [`edit`].
//!
//! ```
//! use gristmill_gguf::edit::{Edit, EditOptions, Editor, Way};
//! use gristmill_gguf::{Error, File};
//! # use gristmill_gguf::{Metadata, TensorPlan, WriteOptions, Writer};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("model.gguf");
//! # let mut metadata = Metadata::new();
//! # metadata.set("general.architecture", "llama");
//! # metadata.set("general.name", "before");
//! # metadata.set("llama.block_count", 2u32);
//! # let plan = TensorPlan { name: "w".to_owned(), dims: vec![8], ty: gristmill_quant::F32 };
//! # let options = WriteOptions { reserve: 256, ..WriteOptions::default() };
//! # let mut writer = Writer::create(&path, &metadata, &[plan], &options)?;
//! # writer.write(&[7; 32])?;
//! # writer.finish()?;
//!
//! let set = |key: &str, value: &str| Edit::Set { key: key.to_owned(), value: value.into() };
//! let edits = [set("general.name", "a longer name than before"), set("general.author", "me")];
//! let plan = Editor::open(&path)?.plan(&edits, &EditOptions::default())?;
//! for change in plan.changes() {
//!     println!("{}: {:?} -> {:?}", change.key, change.before, change.after);
//! }
//! assert_eq!(plan.way(), &Way::InPlace); // the file was written with room for that
//! plan.apply(&mut |_| {})?;
//! assert_eq!(File::open(&path)?.metadata().str("general.author")?, Some("me"));
//!
//! // What decides how weights are read is not changed by accident.
//! let remove = Edit::Remove { key: "llama.block_count".to_owned() };
//! let refused = Editor::open(&path)?.plan(&[remove], &EditOptions::default());
//! assert!(matches!(refused, Err(Error::DangerousEdit { .. })));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
mod file_state;
mod file_type;
mod hash;
mod imatrix;
mod journal;
mod kind;
mod known_keys;
pub mod limits;
mod mapping;
mod merge;
mod metadata;
mod model;
mod output;
pub mod parallel;
mod parse;
mod replaced;
mod resumable;
mod runs;
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
    ArrayDiff, DataDiff, Diff, DiffOptions, EntryChange, EntryDiff, Number, OrderDiff, Shape,
    TensorChange, TensorDiff, ValueChange, ValueDiff, diff,
};
pub use directory::{TensorInfo, tensor_bytes};
pub use endian::{EndianOptions, EndianReport, convert_endian};
pub use error::{Error, Result};
pub use file::{File, Survey};
pub use file_type::FileType;
pub use hash::{
    FILE_SHA256, FileHash, HashKind, HashOptions, HashReport, Manifest, Outcome, RenamedManifest,
    TensorHash, hash, sha256_of_file,
};
pub use imatrix::{Imatrix, ImatrixEntry, ImatrixForm, LegacyLoss};
pub use kind::Kind;
pub use known_keys::{KNOWN_KEYS, KnownKey, KnownType, known_key, near_keys};
pub use mapping::Mapping;
pub use merge::{MergeOptions, MergeReport, merge};
pub use metadata::Metadata;
pub use model::{Model, TensorView};
pub use output::{
    OutputFile, PartialPath, StagedFile, WriteOptions, check_target, remove_partial_outputs,
    same_file,
};
pub use resumable::{Fault, ResumableWriter, Spoilt, resume_paths};
pub use shard_writer::{ShardKeys, ShardLimits, ShardPlan, ShardWriter};
pub use shards::{ShardName, shard_file_name, shard_prefix};
pub use source::Source;
pub use split::{SplitFile, SplitOptions, SplitReport, split};
pub use summary::{RoleShare, ShardSummary, Summary, TypeShare, role};
pub use value::{Array, StringArray, Text, Value, ValueType, escape_invalid};
pub use writer::{TensorPlan, Writer};
