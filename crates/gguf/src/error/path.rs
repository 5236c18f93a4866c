//! The path leads to nothing that can be read, or to another kind of file.

macro_rules! path_errors {
    ({ $($before:tt)* } $next:ident $($rest:ident)*) => { $next! { { $($before)*
        // ---- the path ---------------------------------------------------------------------------
        /// The operating system refused an operation on a file.
        #[error("{}: cannot {action}: {source}", .path.display())]
        Io {
            /// The file.
            path: PathBuf,
            /// What was tried, as in "cannot {action}".
            action: &'static str,
            /// The system's answer.
            source: io::Error,
        } hint none;
        /// There is nothing at the path.
        #[error("{}: no such file", .path.display())]
        NotFound {
            /// The path.
            path: PathBuf,
        } hint "check the path: a model is one .gguf file, or any of its shards";
        /// The path is a folder.
        #[error("{}: is a folder, not a GGUF file", .path.display())]
        IsFolder {
            /// The path.
            path: PathBuf,
        } hint "name the .gguf file inside it; a Hugging Face folder becomes one with `gristmill convert`";
        /// The path is a pipe, a device or a socket.
        #[error("{}: is not a regular file", .path.display())]
        NotRegular {
            /// The path.
            path: PathBuf,
        } hint "write the data to a file first";
        /// The file had another size when it was opened than it has now.
        #[error("{}: has changed while it was being read", .path.display())]
        Changed {
            /// The file.
            path: PathBuf,
        } hint "let no other program write to the file, and try again";
        // ---- another kind of file ---------------------------------------------------------------
        /// The file has no bytes.
        #[error("{}: the file is empty (0 bytes)", .path.display())]
        Empty {
            /// The file.
            path: PathBuf,
        } hint "the download or copy never finished; fetch the file again";
        /// The file is a web page, most likely an error page saved under a model's name.
        #[error("{}: is an HTML page ({size} bytes), not a GGUF file", .path.display())]
        HtmlPage {
            /// The file.
            path: PathBuf,
            /// Its size in bytes.
            size: u64,
        } hint
            "the download saved a web page, often a login or error page; fetch the file itself (its address has `/resolve/` in place of `/blob/`), signed in if the model is gated";
        /// The file is the small text that Git keeps in place of a large file.
        #[error("{}: is a Git LFS pointer ({size} bytes) that stands for the real file{}", .path.display(), .target_size.map_or(String::new(), |n| format!(" of {n} bytes")))]
        LfsPointer {
            /// The file.
            path: PathBuf,
            /// Its size in bytes.
            size: u64,
            /// The size of the file it stands for, if it says so.
            target_size: Option<u64>,
        } hint "run `git lfs pull` in the repository, or download the file itself";
        /// The file is compressed or an archive.
        #[error("{}: is a {format} archive ({size} bytes), not a GGUF file", .path.display())]
        Compressed {
            /// The file.
            path: PathBuf,
            /// `gzip`, `zip`, `zstd`, `xz` or `bzip2`.
            format: &'static str,
            /// Its size in bytes.
            size: u64,
        } hint "unpack it and name the .gguf file inside";
        /// The file has a format that came before GGUF.
        #[error("{}: is a {format} file, a format that GGUF replaced in August 2023", .path.display())]
        Legacy {
            /// The file.
            path: PathBuf,
            /// `GGML`, `GGMF`, `GGJT` or `GGLA`.
            format: &'static str,
        } hint
            "get a GGUF file of the same model, or make one from its original checkpoint with `gristmill convert`";
        /// The file is safetensors under another name.
        #[error("{}: is a safetensors file under another name, not a GGUF file", .path.display())]
        Safetensors {
            /// The file.
            path: PathBuf,
        } hint
            "renaming does not convert: put it in a folder with its config.json and tokenizer files, and run `gristmill convert FOLDER`";
        /// The file is a PyTorch checkpoint.
        #[error("{}: is a PyTorch checkpoint ({form}), not a GGUF file", .path.display())]
        PyTorch {
            /// The file.
            path: PathBuf,
            /// `zip archive` or `pickle`.
            form: &'static str,
        } hint
            "save the model as safetensors, then run `gristmill convert` on the folder with its config.json and tokenizer files";
        /// The first four bytes are not `GGUF`, and nothing else is recognised.
        #[error("{}: is not a GGUF file: it starts with \"{}\" instead of \"GGUF\" ({size} bytes)", .path.display(), .magic.escape_ascii())]
        NotGguf {
            /// The file.
            path: PathBuf,
            /// The first bytes, at most four.
            magic: Vec<u8>,
            /// Its size in bytes.
            size: u64,
        } hint "check that the path names a GGUF model, and compare the file's hash with its source";
    } $($rest)* } };
}
