//! What is written, and where.

macro_rules! output_errors {
    ({ $($before:tt)* } $next:ident $($rest:ident)*) => { $next! { { $($before)*
        // ---- writing ----------------------------------------------------------------------------
        /// The output is there and overwriting was not asked for.
        #[error("{}: already exists", .path.display())]
        OutputExists {
            /// The output.
            path: PathBuf,
        } hint "choose another name, or give `--force` to replace it";
        /// An unfinished file is no longer what was written: another program removed, replaced or changed it.
        #[error("{}: {reason}; no file got its name", .path.display())]
        OutputDisturbed {
            /// The unfinished file.
            path: PathBuf,
            /// What happened to it.
            reason: String,
        } hint "move away what stands there if you want to keep it, let no other program write there, and give the same command again";
        /// Another run is writing the output, or files of the set that it belongs to.
        #[error("{}: another run is writing this output{}", .path.display(), by_process(*.process))]
        BeingWritten {
            /// The output.
            path: PathBuf,
            /// Its process, where that is known.
            process: Option<u32>,
        } hint "wait for its end, or choose another name";
        /// The output is one of the inputs, by whatever name.
        #[error("{}: is the same file as the input {}", .path.display(), .input.display())]
        OutputIsInput {
            /// The output.
            path: PathBuf,
            /// The input.
            input: PathBuf,
        } hint "choose another name: an input is never overwritten";
        /// The name of the output is empty.
        #[error("the name of the output is empty")]
        OutputNameless hint "name the file to write, with its folder if it is to lie in one";
        /// The output's path is a folder.
        #[error("{}: is a folder; an output is a file", .path.display())]
        OutputIsFolder {
            /// The output.
            path: PathBuf,
        } hint "name the file to write, with its folder if it is to lie in one";
        /// The output's path is a device, a pipe or a socket.
        #[error("{}: is a device or a pipe; an output is a regular file, which appears under its name when it is complete", .path.display())]
        OutputNotRegular {
            /// The output.
            path: PathBuf,
        } hint "name a file on a disk; to write nothing at all, use `--dry-run` where the command has it";
        /// What should be the output's folder is a file.
        #[error("{}: {} is no folder", .path.display(), .folder.display())]
        OutputBelowFile {
            /// The output.
            path: PathBuf,
            /// The file in place of a folder.
            folder: PathBuf,
        } hint "choose another folder";
        /// The system lets no file of this name be made.
        #[error("{}: no file can be made there: {source}", .path.display())]
        OutputRefused {
            /// The output.
            path: PathBuf,
            /// The system's answer.
            source: io::Error,
        } hint "choose a folder that you may write to, and a name that its disk accepts";
        /// The folder that is to hold the output is not there.
        #[error("{}: there is no folder {}", .path.display(), .folder.display())]
        NoFolder {
            /// The output.
            path: PathBuf,
            /// The folder.
            folder: PathBuf,
        } hint "create the folder first";
        /// The disk has too little space for the output.
        #[error("{}: needs {needed} bytes, but the disk has {available} free", .path.display())]
        NoSpace {
            /// The output.
            path: PathBuf,
            /// The size of the output.
            needed: u64,
            /// What is free for this user.
            available: u64,
        } hint "free some space, or write to another disk";
        /// More tensors or entries than a reader takes.
        #[error("{}: would have {count} {what}; the limit is {limit}", .path.display())]
        TooMany {
            /// The output.
            path: PathBuf,
            /// `tensors` or `metadata entries`.
            what: &'static str,
            /// How many there would be.
            count: u64,
            /// The most there may be.
            limit: u64,
        } hint "keep them in several files: leave a set of shards as it is, or split what is written";
        /// A split into more files than a set may have.
        #[error("{}: would be split into {count} files; a set has at most {limit}", .path.display())]
        SplitTooFine {
            /// The input, or the output where there is no single input.
            path: PathBuf,
            /// How many files the limits would make.
            count: u64,
            /// The most there may be.
            limit: u64,
        } hint "allow more tensors or bytes per file";
        /// What the files of a set were to be named after is no beginning of a file name.
        #[error("{}: files of a set cannot be named after it: {reason}", .path.display())]
        BadPrefix {
            /// The prefix.
            path: PathBuf,
            /// Why not.
            reason: &'static str,
        } hint "give the beginning of the names, with the folder: `shards/model` makes shards/model-00001-of-0000N.gguf";
        /// A limit of zero tensors or bytes per file.
        #[error("{}: cannot be split into files of 0 {unit}", .path.display())]
        SplitLimitZero {
            /// The input, or the output where there is no single input.
            path: PathBuf,
            /// `tensors` or `bytes`.
            unit: &'static str,
        } hint "give a limit that a file can keep, as in `--split-max-tensors 128` or `--split-max-size 4G`, or leave it out";
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
        } hint "allow more bytes per file";
        /// A file that has the byte order that it is to get.
        #[error("{}: is {endian}-endian already", .path.display())]
        AlreadyEndian {
            /// The file.
            path: PathBuf,
            /// `little` or `big`.
            endian: &'static str,
        } hint "there is nothing to convert; use the file as it is";
        /// A list of hashes that holds none.
        #[error("{}: holds no hash of a known kind", .path.display())]
        NoManifest {
            /// The file.
            path: PathBuf,
        } hint
            "a list has lines such as `sha256 HASH NAME`, or those of sha256sum; `gristmill hash` writes one";
        /// A list of hashes that is longer than any.
        #[error("{}: has more than {limit} bytes; no list of hashes is that long", .path.display())]
        ListTooLong {
            /// The file.
            path: PathBuf,
            /// The most bytes that are read.
            limit: u64,
        } hint "a list has lines such as `sha256 HASH NAME`, or those of sha256sum; `gristmill hash` writes one";
        /// A list of hashes of which a part is missing.
        #[error("{}: line {line} is cut short", .path.display())]
        ListDamaged {
            /// The list.
            path: PathBuf,
            /// The line, from 1.
            line: usize,
        } hint "the list is incomplete; fetch or make it again";
        /// A list of hashes that has two for one file or tensor.
        #[error("{}: lines {first} and {second} give different hashes of {name:?}", .path.display())]
        ListContradicts {
            /// The list.
            path: PathBuf,
            /// What they are of.
            name: String,
            /// The first line, from 1.
            first: usize,
            /// The line that differs from it.
            second: usize,
        } hint "one of them is of another version of the file; take it out of the list, or ask its source for a new list";
        /// A file that is no part of a set where a part of one is needed.
        #[error("{}: is no part of a set of shards{reason}", .path.display())]
        NotShard {
            /// The file.
            path: PathBuf,
            /// What tells, from the separating `: ` on; empty where there is nothing to tell.
            reason: &'static str,
        } hint "name any file of a set, as in model-00001-of-00003.gguf";
        /// Outputs were called off by [`crate::remove_partial_outputs`].
        #[error("{}: interrupted", .path.display())]
        Interrupted {
            /// The output.
            path: PathBuf,
        } hint none;
        /// The plan for a file cannot be written.
        #[error("{}: tensor {tensor:?} cannot be written: {reason}", .path.display())]
        BadPlan {
            /// The output.
            path: PathBuf,
            /// The tensor.
            tensor: String,
            /// What is wrong.
            reason: String,
        } hint none;
        /// Metadata that a reader would refuse.
        #[error("{}: metadata key {key:?} cannot be written: {reason}", .path.display())]
        BadEntry {
            /// The output.
            path: PathBuf,
            /// The key.
            key: String,
            /// What is wrong.
            reason: String,
        } hint none;
        /// The data written is not what the plan said: too much, too little, or another tensor.
        #[error("{}: the data does not follow the plan: {reason}", .path.display())]
        PlanMismatch {
            /// The output.
            path: PathBuf,
            /// What differs.
            reason: String,
        } hint none;
    } $($rest)* } };
}
