//! Edits of metadata.

macro_rules! edit_errors {
    ({ $($before:tt)* } $next:ident $($rest:ident)*) => { $next! { { $($before)*
        // ---- editing ----------------------------------------------------------------------------
        /// An edit in place was cut short; the file beside it holds the header as it was.
        #[error("{}: an edit of this file was cut short; {} holds its header as it was", .path.display(), .undo.display())]
        UnfinishedEdit {
            /// The file.
            path: PathBuf,
            /// The undo file beside it.
            undo: PathBuf,
        } hint "any command of gristmill puts the header back, for example `gristmill inspect`";
        /// An edit in place looks cut short, the undo file does not fit, and the header may be good.
        #[error("{}: an edit of this file was cut short and cannot be undone from {}: {reason}", .path.display(), .undo.display())]
        Unrestored {
            /// The file.
            path: PathBuf,
            /// Where its undo file is.
            undo: PathBuf,
            /// Why not.
            reason: String,
        } hint
            "if the model is good as it is, delete the .edit-undo file; otherwise put the right one beside it, or fetch the model again";
        /// An edit in place was cut short in the midst of the header, and the undo file does not fit.
        #[error("{}: an edit of this file was cut short in the midst of its header and cannot be undone from {}: {reason}", .path.display(), .undo.display())]
        HeaderLost {
            /// The file.
            path: PathBuf,
            /// Where its undo file is.
            undo: PathBuf,
            /// Why not.
            reason: String,
        } hint
            "only the undo file that the edit wrote can put it right: put that one beside it, or fetch the model again";
        /// An edit in place was cut short, and the system does not let the file be put right.
        #[error("{}: an edit of this file was cut short, and it cannot be put right from {}: {reason}", .path.display(), .undo.display())]
        RestoreFailed {
            /// The file.
            path: PathBuf,
            /// Its undo file.
            undo: PathBuf,
            /// What the system says.
            reason: String,
        } hint
            "keep the .edit-undo file; once the file can be written, any command of gristmill puts its header back";
        /// An edit in place was cut short, and the undo file that would put it right is gone.
        #[error("{}: an edit of this file was cut short, and {}, which held its header, is not there", .path.display(), .undo.display())]
        UndoMissing {
            /// The file.
            path: PathBuf,
            /// Where its undo file should be.
            undo: PathBuf,
        } hint "put the .edit-undo file beside it again, or fetch the model again";
        /// An edit was made, and its undo file could not be removed.
        #[error("{}: the edit was made, but {} cannot be removed: {reason}", .path.display(), .undo.display())]
        UndoLeft {
            /// The file, which is whole.
            path: PathBuf,
            /// Its undo file, which is not needed any more.
            undo: PathBuf,
            /// Why it stays.
            reason: String,
        } hint "the model is good; delete the .edit-undo file";
        /// An older backup is there.
        #[error("{}: an older backup is there, and none is ever replaced", .path.display())]
        BackupExists {
            /// The backup.
            path: PathBuf,
        } hint "move it away or delete it, or leave `--backup` out";
        /// Another process reads the header, or changes it, for longer than this one waits.
        #[error("{}: another process is changing this file", .path.display())]
        Busy {
            /// The file.
            path: PathBuf,
        } hint "wait until it is done, then try again";
        /// The file changed after the edit was planned.
        #[error("{}: was changed by another process meanwhile; nothing was written", .path.display())]
        ChangedMeanwhile {
            /// The file.
            path: PathBuf,
        } hint "look at the file, then try again";
        /// An edit that cannot be made.
        #[error("{}: metadata key {key:?} cannot be changed: {reason}", .path.display())]
        BadEdit {
            /// The file.
            path: PathBuf,
            /// The key.
            key: String,
            /// Why not.
            reason: String,
        } hint none;
        /// Edits of what decides how the file is read, without `force`.
        #[error("{}: refused: {}", .path.display(), .reasons.join("; "))]
        DangerousEdit {
            /// The file.
            path: PathBuf,
            /// For each such edit, its key and what may break.
            reasons: Vec<String>,
        } hint
            "if you are sure, give `--force`; `--dry-run --force` shows the change, and `--backup` keeps the old file";
        /// An edit of a shard that does not hold the model's metadata.
        #[error("{}: is shard {number} of its set; the metadata of the model is in shard 1", .path.display())]
        NotFirstShard {
            /// The file.
            path: PathBuf,
            /// Its number, from 1.
            number: u64,
        } hint "name the first shard, whose name holds -00001-of-";
        /// The file may not be written.
        #[error("{}: is write-protected", .path.display())]
        WriteProtected {
            /// The file.
            path: PathBuf,
        } hint "give `--output` to write another file, make this one writable, or give `--force` to replace it";
    } $($rest)* } };
}
