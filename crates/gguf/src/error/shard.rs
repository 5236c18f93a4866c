//! Files of a set that do not go together.

/// The remedy for files that do not go together.
pub(super) const MIXED: &str =
    "the folder mixes shards of different sets; fetch all shards again from one source";

macro_rules! shard_errors {
    ({ $($before:tt)* } $next:ident $($rest:ident)*) => { $next! { { $($before)*
        // ---- shards -----------------------------------------------------------------------------
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
        } hint "put all shards of the set into one folder, under their original names";
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
        } hint "give the file back its original name; shards find each other by their names";
        /// A file that says that it is part of a set, and not which.
        #[error("{}: metadata key {key:?} is missing", .path.display())]
        ShardKeyMissing {
            /// The file.
            path: PathBuf,
            /// The key.
            key: &'static str,
        } hint
            "if this is a whole model, `gristmill edit FILE --remove split.count --force`; if it is a shard, fetch it again";
        /// A shard's `split.count` is not that of its set.
        #[error("{}: split.count is {found}, but the set has {expected} shards", .path.display())]
        ShardCount {
            /// The file.
            path: PathBuf,
            /// What its set says.
            expected: u64,
            /// What this file says.
            found: u64,
        } hint MIXED;
        /// A shard's `split.no` is not the number in its name; another one may have it.
        #[error("{}: is shard {found} of {count} by its metadata (split.no, which counts from 0), but its name says {number}", .path.display())]
        ShardNumber {
            /// The file.
            path: PathBuf,
            /// The number by its name, from 1.
            number: u64,
            /// What its metadata says, from 1 too.
            found: u64,
            /// How many the set has.
            count: u64,
        } hint "a shard was renamed, or copied over another one: give each its own name back, and fetch those that are lost";
        /// Name and `split.no` agree on a number that a set of this size does not have.
        #[error("{}: is shard {number} by its name and metadata, but its set has {count} (split.count)", .path.display())]
        ShardBeyondCount {
            /// The file.
            path: PathBuf,
            /// The number, from 1.
            number: u64,
            /// How many the set has.
            count: u64,
        } hint MIXED;
        /// A tensor is in two shards.
        #[error("{}: tensor {tensor:?} is in {} too", .path.display(), .other.display())]
        ShardTensorRepeated {
            /// The later file.
            path: PathBuf,
            /// The tensor.
            tensor: String,
            /// The earlier file.
            other: PathBuf,
        } hint MIXED;
        /// The shards together do not have the tensors that the first one counts.
        #[error("{}: split.tensors.count is {expected}, but the shards have {found} tensors together", .path.display())]
        ShardTensorCount {
            /// The first file.
            path: PathBuf,
            /// What its metadata says.
            expected: u64,
            /// What there is.
            found: u64,
        } hint MIXED;
        /// Shards with different byte orders or versions are mixed, or with different values for one metadata key.
        #[error("{}: {what} is {found}, but the first shard has {expected}", .path.display())]
        ShardMixed {
            /// The file.
            path: PathBuf,
            /// What differs.
            what: String,
            /// What the first shard has.
            expected: String,
            /// What this one has.
            found: String,
        } hint MIXED;
        /// The set counts more shards than a set may have.
        #[error("{}: split.count is {count}; a set has at most {limit} shards", .path.display())]
        TooManyShards {
            /// The file.
            path: PathBuf,
            /// What its metadata says.
            count: u64,
            /// The largest count.
            limit: u64,
        } hint none;
    } $($rest)* } };
}
