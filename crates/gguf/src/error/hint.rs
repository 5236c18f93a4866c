//! The remedy for each error, by the stage that met it.

use super::Error;

impl Error {
    /// What to do about it, where a remedy is known: one sentence for a `hint:` line.
    pub fn hint(&self) -> Option<&'static str> {
        if let Error::InFile { error, .. } = self {
            return error.hint();
        }
        other_kind(self)
            .or_else(|| structure(self))
            .or_else(|| shards(self))
            .or_else(|| other_purpose(self))
            .or_else(|| edit(self))
            .or_else(|| output(self))
    }
}

/// The path leads to something that is no GGUF file.
fn other_kind(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::NotFound { .. } => "check the path: a model is one .gguf file, or any of its shards",
        Error::IsFolder { .. } => {
            "name the .gguf file inside it; a Hugging Face folder becomes one with `gristmill convert`"
        }
        Error::NotRegular { .. } => "write the data to a file first",
        Error::Empty { .. } => "the download or copy never finished; fetch the file again",
        Error::HtmlPage { .. } => {
            "the download saved a web page, often a login or error page; fetch the file itself \
             (its address has `/resolve/` in place of `/blob/`), signed in if the model is gated"
        }
        Error::LfsPointer { .. } => {
            "run `git lfs pull` in the repository, or download the file itself"
        }
        Error::Compressed { .. } => "unpack it and name the .gguf file inside",
        Error::Legacy { .. } => {
            "get a GGUF file of the same model, or make one from its original checkpoint with `gristmill convert`"
        }
        Error::Safetensors { .. } => {
            "renaming does not convert: put it in a folder with its config.json and tokenizer files, \
             and run `gristmill convert FOLDER`"
        }
        Error::PyTorch { .. } => {
            "save the model as safetensors, then run `gristmill convert` on the folder with its \
             config.json and tokenizer files"
        }
        Error::NotGguf { .. } => {
            "check that the path names a GGUF model, and compare the file's hash with its source"
        }
        _ => return None,
    })
}

/// The file is GGUF, and what it says of itself cannot be.
fn structure(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::Version1 { .. } => {
            "get a newer file of this model, or convert it again from its original checkpoint"
        }
        Error::NewerVersion { .. } => {
            "update gristmill: the file was written for a later version of the format"
        }
        Error::BadVersion { .. } => {
            "the header is damaged; compare the file's hash with its source and fetch it again"
        }
        Error::Truncated { .. } | Error::TensorOutsideFile { .. } => {
            "the file is incomplete; compare its size and hash with its source and fetch it again"
        }
        Error::UnknownTensorType { .. } => {
            "the tensor type is newer than this build, or the file is damaged; update gristmill or fetch the file again"
        }
        Error::RemovedTensorType { remedy, .. } => remedy,
        Error::BadAlignment { .. } | Error::BadCount { .. } | Error::BadKey { .. } => DAMAGED,
        Error::BadValue { .. } | Error::DuplicateKey { .. } | Error::BadTensorName { .. } => {
            DAMAGED
        }
        Error::DuplicateTensor { .. } | Error::BadShape { .. } => DAMAGED,
        Error::Misaligned { .. } | Error::Overlap { .. } => DAMAGED,
        Error::MissingKey { .. } | Error::WrongType { .. } => {
            "the metadata is incomplete or was edited; convert the model again from its original checkpoint"
        }
        _ => return None,
    })
}

const DAMAGED: &str = "the file is damaged, or was made by a faulty tool; compare its hash with its source \
                       and fetch or convert it again";

fn shards(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::MissingShards { .. } => {
            "put all shards of the set into one folder, under their original names"
        }
        Error::RenamedShard { .. } => {
            "give the file back its original name; shards find each other by their names"
        }
        Error::ShardCount { .. } | Error::ShardNumber { .. } | Error::ShardMixed { .. } => MIXED,
        Error::ShardTensorRepeated { .. } | Error::ShardTensorCount { .. } => MIXED,
        _ => return None,
    })
}

const MIXED: &str =
    "the folder mixes shards of different sets; fetch all shards again from one source";

/// A good file, and not what is needed here.
fn other_purpose(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::VocabularyOnly { .. } => {
            "use a file with weights; this one is good for `gristmill tokenize` and `gristmill inspect`"
        }
        Error::ImatrixNotModel { .. } => {
            "name the model's file here; `gristmill quantize --imatrix` takes an importance matrix"
        }
        Error::Resume { .. } => {
            "repeat the interrupted command as it was; or remove this file and the .partial file beside it, to begin anew"
        }
        Error::NotImatrix { .. } => {
            "name the file that `llama-imatrix` wrote for this model (imatrix.gguf, or an older .dat)"
        }
        Error::BadImatrix { .. } => {
            "the file is damaged, or its collection went wrong: make the importance matrix again"
        }
        Error::AdapterNotModel { .. } => {
            "name the base model's file here; adapters are not supported yet"
        }
        Error::ProjectorNotModel { .. } => {
            "name the language model's file here; images and sound are not supported yet"
        }
        Error::ControlVectorNotModel { .. } => {
            "name the model's file here; control vectors are not supported yet"
        }
        _ => return None,
    })
}

fn edit(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::UnfinishedEdit { .. } => {
            "any command of gristmill puts the header back, for example `gristmill inspect`"
        }
        Error::Unrestored { .. } => {
            "if the model is good as it is, delete the .edit-undo file; otherwise put the right one \
             beside it, or fetch the model again"
        }
        Error::Busy { .. } => "wait until it is done, then try again",
        Error::ChangedMeanwhile { .. } => "look at the file, then try again",
        Error::DangerousEdit { .. } => {
            "if you are sure, give `--force`; `--dry-run --force` shows the change, and `--backup` keeps the old file"
        }
        Error::NotFirstShard { .. } => "name the first shard, whose name holds -00001-of-",
        Error::WriteProtected { .. } => {
            "give `--output` to write another file, or make this one writable"
        }
        _ => return None,
    })
}

fn output(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::OutputExists { .. } => "choose another name, or give `--force` to replace it",
        Error::OutputIsInput { .. } => "choose another name: an input is never overwritten",
        Error::OutputNameless | Error::OutputIsFolder { .. } => {
            "name the file to write, with its folder if it is to lie in one"
        }
        Error::OutputNotRegular { .. } => {
            "name a file on a disk; to write nothing at all, use `--dry-run` where the command has it"
        }
        Error::OutputBelowFile { .. } => "choose another folder",
        Error::OutputRefused { .. } => {
            "choose a folder that you may write to, and a name that its disk accepts"
        }
        Error::NoFolder { .. } => "create the folder first",
        Error::AlreadyEndian { .. } => "there is nothing to convert; use the file as it is",
        Error::NoManifest { .. } => {
            "a list has lines such as `sha256 HASH NAME`, or those of sha256sum; `gristmill hash` writes one"
        }
        Error::FirstTensorTooLarge { .. } => "allow more bytes per file",
        Error::SplitTooFine { .. } => "allow more tensors or bytes per file",
        Error::SplitLimitZero { .. } => "allow at least one of them per file",
        Error::NotShard { .. } => "name any file of a set, as in model-00001-of-00003.gguf",
        Error::Changed { .. } => "let no other program write to the file, and try again",
        Error::NoSpace { .. } => "free some space, or write to another disk",
        _ => return None,
    })
}
