//! A good file, and not what is needed here.

macro_rules! purpose_errors {
    ({ $($before:tt)* } $next:ident $($rest:ident)*) => { $next! { { $($before)*
        // ---- a good file of the wrong kind ------------------------------------------------------
        /// A vocabulary-only file where a model is needed.
        #[error("{}: holds a vocabulary and no weights", .path.display())]
        VocabularyOnly {
            /// The file.
            path: PathBuf,
        } hint "use a file with weights; this one is good for `gristmill tokenize` and `gristmill inspect`";
        /// An importance matrix where a model is needed.
        #[error("{}: is an importance matrix (imatrix), not a model", .path.display())]
        ImatrixNotModel {
            /// The file.
            path: PathBuf,
        } hint "name the model's file here; `gristmill quantize --imatrix` takes an importance matrix";
        /// There is nothing at the path of an importance matrix.
        #[error("{}: no such file", .path.display())]
        NoImatrix {
            /// The path.
            path: PathBuf,
        } hint "check the path of the importance matrix: the file that `llama-imatrix` wrote for this model";
        /// A file that is no importance matrix where one is needed.
        #[error("{}: not an importance matrix: {reason}", .path.display())]
        NotImatrix {
            /// The file.
            path: PathBuf,
            /// What gave it away.
            reason: String,
        } hint "name the file that `llama-imatrix` wrote for this model (imatrix.gguf, or an older .dat)";
        /// Importance data that no collector writes.
        #[error("{}: the importance data of tensor {tensor:?} cannot be used: {reason}", .path.display())]
        BadImatrix {
            /// The file.
            path: PathBuf,
            /// The tensor of the model.
            tensor: String,
            /// What is wrong.
            reason: String,
        } hint "the file is damaged, or its collection went wrong: make the importance matrix again";
        /// What an interrupted run left cannot be continued.
        #[error("{}: cannot go on from here: {reason}", .path.display())]
        Resume {
            /// The journal.
            path: PathBuf,
            /// Why.
            reason: String,
        } hint
            "repeat the interrupted command as it was; or remove this file and the .partial file beside it, to begin anew";
        /// The journal of an interrupted run has another format.
        #[error("{}: cannot go on from here: another version of gristmill left it (its journals have format {found}, those of this one {known})", .path.display())]
        ResumeFormat {
            /// The journal.
            path: PathBuf,
            /// Its format.
            found: String,
            /// The format that this version reads.
            known: &'static str,
        } hint
            "finish it with the version that began it; or remove this file and the .partial file beside it, to begin anew";
        /// A big-endian file that does not fit into memory, in which its numbers would be turned around.
        #[error("{}: is big-endian, and the system has no {bytes} bytes of memory to turn it around", .path.display())]
        TooLargeToTurn {
            /// The file.
            path: PathBuf,
            /// Bytes of the copy.
            bytes: u64,
        } hint "`gristmill endian` turns it around on the disk, in little memory";
        /// An adapter where a model is needed.
        #[error("{}: is an adapter (LoRA), not a model", .path.display())]
        AdapterNotModel {
            /// The file.
            path: PathBuf,
        } hint "name the base model's file here, and this one with --lora";
        /// A multimodal projector where a model is needed.
        #[error("{}: is a multimodal projector (mmproj), not a model", .path.display())]
        ProjectorNotModel {
            /// The file.
            path: PathBuf,
        } hint "name the language model's file here; images and sound are not supported yet";
        /// A control vector where a model is needed.
        #[error("{}: is a control vector, not a model", .path.display())]
        ControlVectorNotModel {
            /// The file.
            path: PathBuf,
        } hint "name the model's file here, and this one with --control-vector";
        // ---- reading metadata -------------------------------------------------------------------
        /// A key that is needed is not there.
        #[error("metadata key {key:?} is missing")]
        MissingKey {
            /// The key.
            key: String,
        } hint
            "the metadata is incomplete or was edited; convert the model again from its original checkpoint";
        /// A key has a value of another type, or out of range.
        #[error("metadata key {key:?} must be {expected}, but is {found}")]
        WrongType {
            /// The key.
            key: String,
            /// The type, and range, that was asked for.
            expected: &'static str,
            /// What the file has.
            found: String,
        } hint
            "the metadata is incomplete or was edited; convert the model again from its original checkpoint";
        /// An error about metadata, with the file that it is in.
        #[error("{}: {error}", .path.display())]
        InFile {
            /// The file.
            path: PathBuf,
            /// What is wrong in it.
            error: Box<Error>,
        } hint [of error];
    } $($rest)* } };
}
