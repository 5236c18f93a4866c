//! What can be wrong with a file, and what to do about it.

mod hint;

use std::io;
use std::path::{Path, PathBuf};

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong with a GGUF file. [`Error::hint`] gives the remedy where one is
/// known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // ---- the path -----------------------------------------------------------------------------
    /// The operating system refused an operation on a file.
    #[error("{}: cannot {action}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried, as in "cannot {action}".
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// There is nothing at the path.
    #[error("{}: no such file", .path.display())]
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// The path is a folder.
    #[error("{}: is a folder, not a GGUF file", .path.display())]
    IsFolder {
        /// The path.
        path: PathBuf,
    },
    /// The path is a pipe, a device or a socket.
    #[error("{}: is not a regular file, so it cannot be mapped", .path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
    },

    /// The file had another size when it was opened than it has now.
    #[error("{}: has changed while it was being read", .path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },

    // ---- another kind of file -----------------------------------------------------------------
    /// The file has no bytes.
    #[error("{}: the file is empty (0 bytes)", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file is a web page, most likely an error page saved under a model's name.
    #[error("{}: is an HTML page ({size} bytes), not a GGUF file", .path.display())]
    HtmlPage {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
    },
    /// The file is the small text that Git keeps in place of a large file.
    #[error("{}: is a Git LFS pointer ({size} bytes) that stands for the real file{}", .path.display(), .target_size.map_or(String::new(), |n| format!(" of {n} bytes")))]
    LfsPointer {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The size of the file it stands for, if it says so.
        target_size: Option<u64>,
    },
    /// The file is compressed or an archive.
    #[error("{}: is a {format} archive ({size} bytes), not a GGUF file", .path.display())]
    Compressed {
        /// The file.
        path: PathBuf,
        /// `gzip`, `zip`, `zstd`, `xz` or `bzip2`.
        format: &'static str,
        /// Its size in bytes.
        size: u64,
    },
    /// The file has a format that came before GGUF.
    #[error("{}: is a {format} file, a format that GGUF replaced in August 2023", .path.display())]
    Legacy {
        /// The file.
        path: PathBuf,
        /// `GGML`, `GGMF`, `GGJT` or `GGLA`.
        format: &'static str,
    },
    /// The file is safetensors under another name.
    #[error("{}: is a safetensors file under another name, not a GGUF file", .path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
    },
    /// The file is a PyTorch checkpoint.
    #[error("{}: is a PyTorch checkpoint ({form}), not a GGUF file", .path.display())]
    PyTorch {
        /// The file.
        path: PathBuf,
        /// `zip archive` or `pickle`.
        form: &'static str,
    },
    /// The first four bytes are not `GGUF`, and nothing else is recognised.
    #[error("{}: is not a GGUF file: it starts with \"{}\" instead of \"GGUF\" ({size} bytes)", .path.display(), .magic.escape_ascii())]
    NotGguf {
        /// The file.
        path: PathBuf,
        /// The first bytes, at most four.
        magic: Vec<u8>,
        /// Its size in bytes.
        size: u64,
    },

    // ---- header -------------------------------------------------------------------------------
    /// GGUF version 1, which had 32-bit counts and a short life.
    #[error("{}: is GGUF version 1, which is no longer read", .path.display())]
    Version1 {
        /// The file.
        path: PathBuf,
    },
    /// A GGUF version that does not exist yet.
    #[error("{}: is GGUF version {version}; versions 2 and 3 are known", .path.display())]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// The version in the header.
        version: u32,
    },
    /// A version word that makes no sense in either byte order.
    #[error("{}: bad GGUF version {version:#010x} at byte 4", .path.display())]
    BadVersion {
        /// The file.
        path: PathBuf,
        /// The word as little-endian number.
        version: u32,
    },
    /// The file ends before the header, metadata and tensor directory do.
    #[error("{}: the file ends inside {what}: at byte {offset} it needs {needed} more bytes, and has {available}", .path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// What was being read.
        what: String,
        /// Where.
        offset: u64,
        /// The bytes wanted.
        needed: u64,
        /// The bytes left.
        available: u64,
    },
    /// A count in the header is above the limit, or cannot be true for a file of this size.
    #[error("{}: the header counts {count} {what} (byte {offset}), but {reason}", .path.display())]
    BadCount {
        /// The file.
        path: PathBuf,
        /// `metadata entries` or `tensors`.
        what: &'static str,
        /// The count in the file.
        count: u64,
        /// Where the count stands.
        offset: u64,
        /// Why it cannot be.
        reason: String,
    },

    // ---- metadata -----------------------------------------------------------------------------
    /// A key is empty, too long or not ASCII.
    #[error("{}: {reason} at entry {index} (byte {offset})", .path.display())]
    BadKey {
        /// The file.
        path: PathBuf,
        /// Which entry, from 0.
        index: u64,
        /// Where the entry starts.
        offset: u64,
        /// What is wrong: `empty key`, …
        reason: String,
    },
    /// A key appears twice.
    #[error("{}: duplicate key {key:?} at entry {index} (byte {offset})", .path.display())]
    DuplicateKey {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// The second entry with it, from 0.
        index: u64,
        /// Where that entry starts.
        offset: u64,
    },
    /// A value of a kind that is not one of the thirteen, or not allowed where it stands.
    #[error("{}: key {key:?}: {reason} (byte {offset})", .path.display())]
    BadValue {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// Where the value, or the part at fault, starts.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// `general.alignment` is zero, no multiple of 8, or no UINT32.
    #[error("{}: general.alignment is {found}; it must be a UINT32 that is a multiple of 8", .path.display())]
    BadAlignment {
        /// The file.
        path: PathBuf,
        /// Type and value.
        found: String,
    },

    // ---- tensor directory -----------------------------------------------------------------------
    /// A tensor name is empty, too long or not UTF-8.
    #[error("{}: {reason} for tensor {index} (byte {offset})", .path.display())]
    BadTensorName {
        /// The file.
        path: PathBuf,
        /// Which tensor, from 0.
        index: u64,
        /// Where its entry starts.
        offset: u64,
        /// What is wrong: `empty name`, …
        reason: String,
    },
    /// Two tensors have one name.
    #[error("{}: duplicate tensor name {tensor:?} at tensor {index} (byte {offset})", .path.display())]
    DuplicateTensor {
        /// The file.
        path: PathBuf,
        /// The name.
        tensor: String,
        /// The second tensor with it, from 0.
        index: u64,
        /// Where that entry starts.
        offset: u64,
    },
    /// A tensor has no or more than four dimensions, a zero one, a row that is not whole blocks, or
    /// more bytes than a 64-bit number can count.
    #[error("{}: tensor {tensor:?}: {reason}", .path.display())]
    BadShape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// What is wrong, with the dimensions.
        reason: String,
    },
    /// A tensor type that is not known.
    #[error("{}: tensor {tensor:?} has the unknown tensor type {id} (byte {offset})", .path.display())]
    UnknownTensorType {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The number of the type.
        id: u32,
        /// Where it stands.
        offset: u64,
    },
    /// A tensor type whose number was retired.
    #[error("{}: tensor {tensor:?} has type {id} ({name}), which was removed from the format", .path.display())]
    RemovedTensorType {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The number of the type.
        id: u32,
        /// The name it had.
        name: &'static str,
        /// What to use instead.
        remedy: &'static str,
    },
    /// A tensor does not start on a multiple of the alignment.
    #[error("{}: tensor {tensor:?}: offset {offset} is not a multiple of the alignment {alignment}", .path.display())]
    Misaligned {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its offset in the data section.
        offset: u64,
        /// The file's alignment.
        alignment: u64,
    },
    /// A tensor lies wholly or partly behind the end of the file.
    #[error("{}: tensor {tensor:?} ends at byte {end}, but the file has {size} bytes", .path.display())]
    TensorOutsideFile {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Where it would end; wider than 64 bits, since the sum may be.
        end: u128,
        /// The size of the file in bytes.
        size: u64,
    },
    /// Two tensors share bytes.
    #[error("{}: tensors {first:?} and {second:?} overlap at byte {offset} of the data section", .path.display())]
    Overlap {
        /// The file.
        path: PathBuf,
        /// The tensor that starts first.
        first: String,
        /// The tensor that starts inside it.
        second: String,
        /// Where the second starts, in the data section.
        offset: u64,
    },

    // ---- shards -------------------------------------------------------------------------------
    /// Shards of the set are not there.
    #[error("{}: is part of a set of {count} shards, of which {} cannot be found: {}", .path.display(), .n_missing, list(.missing, *.n_missing))]
    MissingShards {
        /// The file that was opened.
        path: PathBuf,
        /// How many the set has.
        count: u64,
        /// How many are missing.
        n_missing: usize,
        /// The names of the first ten that are missing.
        missing: Vec<String>,
    },
    /// The file says that it is a part of a set, and its name does not say so.
    #[error("{}: is shard {number} of {count} by its metadata, but its name does not end in {expected:?}", .path.display())]
    RenamedShard {
        /// The file.
        path: PathBuf,
        /// Its number, from 1 as in file names.
        number: u64,
        /// How many the set has.
        count: u64,
        /// The end its name should have.
        expected: String,
    },
    /// A shard's `split.count` is not that of its set.
    #[error("{}: split.count is {found}, but the set has {expected} shards", .path.display())]
    ShardCount {
        /// The file.
        path: PathBuf,
        /// What its set says.
        expected: u64,
        /// What this file says.
        found: u64,
    },
    /// A shard's `split.no` is not the number in its name; another one may have it.
    #[error("{}: split.no is {found}, but this is shard {number} of its set, which counts from 0: {}", .path.display(), .number - 1)]
    ShardNumber {
        /// The file.
        path: PathBuf,
        /// The number by its name, from 1.
        number: u64,
        /// What its metadata says, from 0.
        found: u64,
    },
    /// A tensor is in two shards.
    #[error("{}: tensor {tensor:?} is in {} too", .path.display(), .other.display())]
    ShardTensorRepeated {
        /// The later file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The earlier file.
        other: PathBuf,
    },
    /// The shards together do not have the tensors that the first one counts.
    #[error("{}: split.tensors.count is {expected}, but the shards have {found} tensors together", .path.display())]
    ShardTensorCount {
        /// The first file.
        path: PathBuf,
        /// What its metadata says.
        expected: u64,
        /// What there is.
        found: u64,
    },
    /// Shards with different byte orders, versions or alignments are mixed.
    #[error("{}: {what} is {found}, but the first shard has {expected}", .path.display())]
    ShardMixed {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: &'static str,
        /// What the first shard has.
        expected: String,
        /// What this one has.
        found: String,
    },
    /// The set counts more shards than a set may have.
    #[error("{}: split.count is {count}; a set has at most {limit} shards", .path.display())]
    TooManyShards {
        /// The file.
        path: PathBuf,
        /// What its metadata says.
        count: u64,
        /// The largest count.
        limit: u64,
    },

    // ---- a good file of the wrong kind ----------------------------------------------------------
    /// A vocabulary-only file where a model is needed.
    #[error("{}: holds a vocabulary and no weights", .path.display())]
    VocabularyOnly {
        /// The file.
        path: PathBuf,
    },
    /// An importance matrix where a model is needed.
    #[error("{}: is an importance matrix (imatrix), not a model", .path.display())]
    ImatrixNotModel {
        /// The file.
        path: PathBuf,
    },
    /// A file that is no importance matrix where one is needed.
    #[error("{}: not an importance matrix: {reason}", .path.display())]
    NotImatrix {
        /// The file.
        path: PathBuf,
        /// What gave it away.
        reason: String,
    },
    /// Importance data that no collector writes.
    #[error("{}: the importance data of tensor {tensor:?} cannot be used: {reason}", .path.display())]
    BadImatrix {
        /// The file.
        path: PathBuf,
        /// The tensor of the model.
        tensor: String,
        /// What is wrong.
        reason: String,
    },
    /// What an interrupted run left cannot be continued.
    #[error("{}: cannot go on from here: {reason}", .path.display())]
    Resume {
        /// The journal.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// An adapter where a model is needed.
    #[error("{}: is an adapter (LoRA), not a model", .path.display())]
    AdapterNotModel {
        /// The file.
        path: PathBuf,
    },
    /// A multimodal projector where a model is needed.
    #[error("{}: is a multimodal projector (mmproj), not a model", .path.display())]
    ProjectorNotModel {
        /// The file.
        path: PathBuf,
    },
    /// A control vector where a model is needed.
    #[error("{}: is a control vector, not a model", .path.display())]
    ControlVectorNotModel {
        /// The file.
        path: PathBuf,
    },

    // ---- reading metadata -----------------------------------------------------------------------
    /// A key that is needed is not there.
    #[error("metadata key {key:?} is missing")]
    MissingKey {
        /// The key.
        key: String,
    },
    /// A key has a value of another type, or out of range.
    #[error("metadata key {key:?} must be {expected}, but is {found}")]
    WrongType {
        /// The key.
        key: String,
        /// The type, and range, that was asked for.
        expected: &'static str,
        /// What the file has.
        found: String,
    },

    /// An error about metadata, with the file that it is in.
    #[error("{}: {error}", .path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        error: Box<Error>,
    },

    // ---- editing ------------------------------------------------------------------------------
    /// An edit in place was cut short; the file beside it holds the header as it was.
    #[error("{}: an edit of this file was cut short; {} holds its header as it was", .path.display(), .undo.display())]
    UnfinishedEdit {
        /// The file.
        path: PathBuf,
        /// The undo file beside it.
        undo: PathBuf,
    },
    /// An edit in place was cut short, or looks so, and the header cannot be put back.
    #[error("{}: an edit of this file was cut short and cannot be undone from {}: {reason}", .path.display(), .undo.display())]
    Unrestored {
        /// The file.
        path: PathBuf,
        /// Where its undo file is, or would be.
        undo: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Another process reads the header, or changes it, for longer than this one waits.
    #[error("{}: another process is changing this file", .path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file changed after the edit was planned.
    #[error("{}: was changed by another process meanwhile; nothing was written", .path.display())]
    ChangedMeanwhile {
        /// The file.
        path: PathBuf,
    },
    /// An edit that cannot be made.
    #[error("{}: metadata key {key:?} cannot be changed: {reason}", .path.display())]
    BadEdit {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// Why not.
        reason: String,
    },
    /// Edits of what decides how the file is read, without `force`.
    #[error("{}: refused: {}", .path.display(), .reasons.join("; "))]
    DangerousEdit {
        /// The file.
        path: PathBuf,
        /// For each such edit, its key and what may break.
        reasons: Vec<String>,
    },
    /// An edit of a shard that does not hold the model's metadata.
    #[error("{}: is shard {number} of its set; the metadata of the model is in shard 1", .path.display())]
    NotFirstShard {
        /// The file.
        path: PathBuf,
        /// Its number, from 1.
        number: u64,
    },
    /// The file may not be written.
    #[error("{}: is write-protected", .path.display())]
    WriteProtected {
        /// The file.
        path: PathBuf,
    },

    // ---- writing ------------------------------------------------------------------------------
    /// The output is there and overwriting was not asked for.
    #[error("{}: already exists", .path.display())]
    OutputExists {
        /// The output.
        path: PathBuf,
    },
    /// The output is one of the inputs, by whatever name.
    #[error("{}: is the same file as the input {}", .path.display(), .input.display())]
    OutputIsInput {
        /// The output.
        path: PathBuf,
        /// The input.
        input: PathBuf,
    },
    /// The name of the output is empty.
    #[error("the name of the output is empty")]
    OutputNameless,
    /// The output's path is a folder.
    #[error("{}: is a folder; an output is a file", .path.display())]
    OutputIsFolder {
        /// The output.
        path: PathBuf,
    },
    /// The output's path is a device, a pipe or a socket.
    #[error("{}: is a device or a pipe; an output is a regular file, which appears under its name when it is complete", .path.display())]
    OutputNotRegular {
        /// The output.
        path: PathBuf,
    },
    /// What should be the output's folder is a file.
    #[error("{}: {} is no folder", .path.display(), .folder.display())]
    OutputBelowFile {
        /// The output.
        path: PathBuf,
        /// The file in place of a folder.
        folder: PathBuf,
    },
    /// The system lets no file of this name be made.
    #[error("{}: no file can be made there: {source}", .path.display())]
    OutputRefused {
        /// The output.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The folder that is to hold the output is not there.
    #[error("{}: there is no folder {}", .path.display(), .folder.display())]
    NoFolder {
        /// The output.
        path: PathBuf,
        /// The folder.
        folder: PathBuf,
    },
    /// The disk has too little space for the output.
    #[error("{}: needs {needed} bytes, but the disk has {available} free", .path.display())]
    NoSpace {
        /// The output.
        path: PathBuf,
        /// The size of the output.
        needed: u64,
        /// What is free for this user.
        available: u64,
    },
    /// A split into more files than a set may have.
    #[error("{}: would be split into {count} files; a set has at most {limit}", .path.display())]
    SplitTooFine {
        /// The input, or the output where there is no single input.
        path: PathBuf,
        /// How many files the limits would make.
        count: u64,
        /// The most there may be.
        limit: u64,
    },
    /// A limit of zero tensors or bytes per file.
    #[error("{}: cannot be split into files of 0 {unit}", .path.display())]
    SplitLimitZero {
        /// The input, or the output where there is no single input.
        path: PathBuf,
        /// `tensors` or `bytes`.
        unit: &'static str,
    },
    /// The first tensor is above the limit of bytes per file, which the reference refuses.
    #[error("{}: tensor {tensor:?} takes {bytes} bytes, so that with {limit} bytes per file the first one would have no tensors", .path.display())]
    FirstTensorTooLarge {
        /// The input.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its size in bytes.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A file that has the byte order that it is to get.
    #[error("{}: is {endian}-endian already", .path.display())]
    AlreadyEndian {
        /// The file.
        path: PathBuf,
        /// `little` or `big`.
        endian: &'static str,
    },
    /// A list of hashes that holds none.
    #[error("{}: holds no hash of a known kind", .path.display())]
    NoManifest {
        /// The file.
        path: PathBuf,
    },
    /// A file that is no part of a set where a part of one is needed.
    #[error("{}: is no part of a set of shards{reason}", .path.display())]
    NotShard {
        /// The file.
        path: PathBuf,
        /// What tells, from the separating `: ` on; empty where there is nothing to tell.
        reason: &'static str,
    },
    /// Outputs were called off by [`crate::remove_partial_outputs`].
    #[error("{}: interrupted", .path.display())]
    Interrupted {
        /// The output.
        path: PathBuf,
    },
    /// The plan for a file cannot be written.
    #[error("{}: tensor {tensor:?} cannot be written: {reason}", .path.display())]
    BadPlan {
        /// The output.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// What is wrong.
        reason: String,
    },
    /// Metadata that a reader would refuse.
    #[error("{}: metadata key {key:?} cannot be written: {reason}", .path.display())]
    BadEntry {
        /// The output.
        path: PathBuf,
        /// The key.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// The data written is not what the plan said: too much, too little, or another tensor.
    #[error("{}: the data does not follow the plan: {reason}", .path.display())]
    PlanMismatch {
        /// The output.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
}

/// The first few of `n` names, for a message.
fn list(names: &[String], n: usize) -> String {
    let shown = names.join(", ");
    if n > names.len() {
        format!("{shown} and {} more", n - names.len())
    } else {
        shown
    }
}

impl Error {
    /// An [`Error::Io`], or a clearer one for the answers that have a variant of their own.
    pub(crate) fn io(path: &Path, action: &'static str, source: io::Error) -> Error {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Error::NotFound { path },
            io::ErrorKind::IsADirectory => Error::IsFolder { path },
            _ => Error::Io {
                path,
                action,
                source,
            },
        }
    }

    /// The same error with the file that it is in, for errors about metadata, which know only their
    /// key.
    pub fn in_file(self, path: &Path) -> Error {
        match self.path() {
            Some(_) => self,
            None => Error::InFile {
                path: path.to_owned(),
                error: Box::new(self),
            },
        }
    }

    /// The file that the error is about, where it is about one.
    pub fn path(&self) -> Option<&Path> {
        use Error::*;
        match self {
            Io { path, .. } | NotFound { path } | IsFolder { path } | NotRegular { path } => {
                Some(path)
            }
            Changed { path } | SplitTooFine { path, .. } | SplitLimitZero { path, .. } => {
                Some(path)
            }
            AlreadyEndian { path, .. } | NoManifest { path } => Some(path),
            NotShard { path, .. } | FirstTensorTooLarge { path, .. } => Some(path),
            Empty { path } | HtmlPage { path, .. } | LfsPointer { path, .. } => Some(path),
            Compressed { path, .. } | Legacy { path, .. } | Safetensors { path } => Some(path),
            PyTorch { path, .. } | NotGguf { path, .. } | Version1 { path } => Some(path),
            NewerVersion { path, .. } | BadVersion { path, .. } | Truncated { path, .. } => {
                Some(path)
            }
            BadCount { path, .. } | BadKey { path, .. } | DuplicateKey { path, .. } => Some(path),
            BadValue { path, .. } | BadAlignment { path, .. } | BadTensorName { path, .. } => {
                Some(path)
            }
            DuplicateTensor { path, .. } | BadShape { path, .. } => Some(path),
            UnknownTensorType { path, .. } | RemovedTensorType { path, .. } => Some(path),
            Misaligned { path, .. } | TensorOutsideFile { path, .. } | Overlap { path, .. } => {
                Some(path)
            }
            MissingShards { path, .. } | RenamedShard { path, .. } | ShardCount { path, .. } => {
                Some(path)
            }
            ShardNumber { path, .. } | ShardTensorRepeated { path, .. } => Some(path),
            ShardTensorCount { path, .. }
            | ShardMixed { path, .. }
            | TooManyShards { path, .. } => Some(path),
            VocabularyOnly { path } | ImatrixNotModel { path } | AdapterNotModel { path } => {
                Some(path)
            }
            ProjectorNotModel { path } | ControlVectorNotModel { path } => Some(path),
            NotImatrix { path, .. } | BadImatrix { path, .. } | Resume { path, .. } => Some(path),
            OutputExists { path } | OutputIsInput { path, .. } | NoFolder { path, .. } => {
                Some(path)
            }
            NoSpace { path, .. } | Interrupted { path } | BadPlan { path, .. } => Some(path),
            BadEntry { path, .. } | PlanMismatch { path, .. } => Some(path),
            InFile { path, .. } => Some(path),
            UnfinishedEdit { path, .. } | Unrestored { path, .. } | Busy { path } => Some(path),
            ChangedMeanwhile { path } | BadEdit { path, .. } | DangerousEdit { path, .. } => {
                Some(path)
            }
            NotFirstShard { path, .. } | WriteProtected { path } => Some(path),
            OutputIsFolder { path } | OutputNotRegular { path } => Some(path),
            OutputBelowFile { path, .. } | OutputRefused { path, .. } => Some(path),
            OutputNameless | MissingKey { .. } | WrongType { .. } => None,
        }
    }
}
