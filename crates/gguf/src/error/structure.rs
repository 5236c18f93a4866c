//! The file is GGUF, and what it says of itself cannot be.

/// The remedy for what no sound tool writes.
pub(super) const DAMAGED: &str = "the file is damaged, or was made by a faulty tool; compare its hash with its source and fetch or convert it again";

macro_rules! structure_errors {
    ({ $($before:tt)* } $next:ident $($rest:ident)*) => { $next! { { $($before)*
        // ---- header -----------------------------------------------------------------------------
        /// GGUF version 1, which had 32-bit counts and a short life.
        #[error("{}: is GGUF version 1, which is no longer read", .path.display())]
        Version1 {
            /// The file.
            path: PathBuf,
        } hint "get a newer file of this model, or convert it again from its original checkpoint";
        /// A GGUF version that does not exist yet.
        #[error("{}: is GGUF version {version}; versions 2 and 3 are known", .path.display())]
        NewerVersion {
            /// The file.
            path: PathBuf,
            /// The version in the header.
            version: u32,
        } hint "update gristmill: the file was written for a later version of the format";
        /// A version word that makes no sense in either byte order.
        #[error("{}: bad GGUF version {version:#010x} at byte 4", .path.display())]
        BadVersion {
            /// The file.
            path: PathBuf,
            /// The word as little-endian number.
            version: u32,
        } hint "the header is damaged; compare the file's hash with its source and fetch it again";
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
        } hint "the file is incomplete; compare its size and hash with its source and fetch it again";
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
        } hint DAMAGED;
        // ---- metadata ---------------------------------------------------------------------------
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
        } hint DAMAGED;
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
        } hint DAMAGED;
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
        } hint DAMAGED;
        /// `general.alignment` is zero, no multiple of 8, or no UINT32.
        #[error("{}: general.alignment is {found}; it must be a UINT32 that is a multiple of 8", .path.display())]
        BadAlignment {
            /// The file.
            path: PathBuf,
            /// Type and value.
            found: String,
        } hint DAMAGED;
        // ---- tensor directory -------------------------------------------------------------------
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
        } hint DAMAGED;
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
        } hint DAMAGED;
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
        } hint DAMAGED;
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
        } hint
            "the tensor type is newer than this build, or the file is damaged; update gristmill or fetch the file again";
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
        } hint [remedy];
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
        } hint DAMAGED;
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
        } hint "the file is incomplete; compare its size and hash with its source and fetch it again";
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
        } hint DAMAGED;
    } $($rest)* } };
}
