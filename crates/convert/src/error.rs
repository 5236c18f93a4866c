//! What can go wrong between a checkpoint and a finished file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use gristmill_quant::{QuantError, TensorType};

use crate::quantize::Target;

/// The result of this crate's functions.
pub(crate) type Result<T, E = ConvertError> = std::result::Result<T, E>;

/// Errors of this crate. Each names the file, key or tensor it is about; [`ConvertError::hint`] gives the remedy where
/// one is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
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
    /// The input is no folder.
    #[error("{}: {found}", .path.display())]
    NotAFolder {
        /// The path given.
        path: PathBuf,
        /// What stands there.
        found: NoFolder,
    },
    /// A file that every checkpoint has is not there.
    #[error("{}: no {missing} in this folder", .path.display())]
    MissingFile {
        /// The folder.
        path: PathBuf,
        /// What was looked for.
        missing: &'static str,
    },
    /// The weights are in files of PyTorch only.
    #[error("{}: no model*.safetensors in this folder: PyTorch's .bin and .pth files are not read", .path.display())]
    Pickled {
        /// The folder.
        path: PathBuf,
    },
    /// A file that is something else than its name says, by its first bytes.
    #[error("{}: it is {found}", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: &'static str,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A file beside the weights that is too large to be what its name says.
    #[error("{}: more than {n_bytes_max} bytes, far more than such a file needs", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Bytes that are read at most.
        n_bytes_max: u64,
    },
    /// Another error of this type, which does not know the file or folder it is about.
    #[error("{}: {error}", .path.display())]
    In {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong there.
        error: Box<ConvertError>,
    },
    /// A JSON file that cannot be read as what it should be.
    #[error("{}: {reason}", .path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the place where there is one.
        reason: String,
    },
    /// A safetensors file with a header that is wrong or does not fit the file.
    #[error("{}: not a sound safetensors file: {reason}", .path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Something that a Hugging Face folder cannot say.
    #[error("{what} cannot be exported")]
    NotExportable {
        /// What it is.
        what: String,
    },
    /// A folder to write that holds something, which a loader could take for part of the model.
    #[error("{}: the folder is not empty", .path.display())]
    FolderInUse {
        /// The folder.
        path: PathBuf,
    },
    /// Files that the index names are not there.
    #[error("{}: the index names files that are missing: {}", .index.display(), .files.join(", "))]
    MissingShards {
        /// The index.
        index: PathBuf,
        /// The missing files.
        files: Vec<String>,
    },
    /// A file's name counts the files of its set, and others are not there.
    #[error("{}: {name} is one of {n_files} files, of which {}", .path.display(), listed(.missing, *.n_missing, "is missing", "are missing"))]
    IncompleteSet {
        /// The folder.
        path: PathBuf,
        /// A file that is there.
        name: String,
        /// How many there must be.
        n_files: usize,
        /// How many are not there.
        n_missing: usize,
        /// The first of those.
        missing: Vec<String>,
    },
    /// The index and the files disagree about a tensor.
    #[error("{}: the index places tensor `{tensor}` in {expected}, but {found}", .index.display())]
    IndexMismatch {
        /// The index.
        index: PathBuf,
        /// The tensor.
        tensor: String,
        /// The file that the index names.
        expected: String,
        /// Where it is instead.
        found: String,
    },
    /// A tensor is in two files.
    #[error("tensor `{tensor}` is in {} and in {}", .first.display(), .second.display())]
    DuplicateTensor {
        /// The tensor.
        tensor: String,
        /// One file.
        first: PathBuf,
        /// The other file.
        second: PathBuf,
    },
    /// The checkpoint is quantized in a way that is not understood.
    #[error("{}: the checkpoint is quantized already ({scheme})", .path.display())]
    QuantizedSource {
        /// The configuration.
        path: PathBuf,
        /// The scheme, as the configuration names it.
        scheme: String,
    },
    /// A tensor of the checkpoint has elements that cannot be converted.
    #[error("tensor `{tensor}` has elements of type {dtype}, which cannot be converted")]
    ElementType {
        /// The tensor's name in the checkpoint.
        tensor: String,
        /// Its element type, in safetensors' terms.
        dtype: String,
    },
    /// The checkpoint lacks a tensor that the architecture needs.
    #[error("the checkpoint has no tensor `{source_name}` (for `{name}` of shape {expected:?})")]
    MissingTensor {
        /// Name in the checkpoint.
        source_name: String,
        /// Name in GGUF.
        name: String,
        /// Expected shape, contiguous dimension first.
        expected: Vec<u64>,
    },
    /// A tensor has another shape than the configuration says.
    #[error("tensor `{tensor}` has shape {found:?}, expected {expected:?}")]
    TensorShape {
        /// Name in the checkpoint.
        tensor: String,
        /// Expected shape, in the checkpoint's order: contiguous dimension last.
        expected: Vec<u64>,
        /// The shape found, in the same order.
        found: Vec<u64>,
    },
    /// The weights have layers that the configuration does not count.
    #[error("config.json: `{key}` is {n_layers}, but the weights have {found} layers (`{tensor}`)")]
    UncountedLayers {
        /// The key of the number of layers.
        key: &'static str,
        /// What it says.
        n_layers: usize,
        /// Layers in the weights.
        found: usize,
        /// The first tensor of one that is not counted.
        tensor: String,
    },
    /// The vocabulary has more tokens than the embeddings have rows.
    #[error("the tokenizer has {n_tokens} tokens, but `{tensor}` has {n_rows} rows")]
    VocabularySize {
        /// The tensor of embeddings.
        tensor: String,
        /// Tokens of the vocabulary.
        n_tokens: u64,
        /// Rows of the embeddings.
        n_rows: u64,
    },
    /// The folder has no tokenizer.
    #[error("{}: no tokenizer in this folder: looked for tokenizer.model, tokenizer.json and vocab.txt", .path.display())]
    NoTokenizer {
        /// The folder.
        path: PathBuf,
    },
    /// A file of the tokenizer that cannot be used.
    #[error("{}: {reason}", .path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A sentence transformer that pools in a way for which GGUF has no number.
    #[error("{}: this way of pooling is none of mean, cls and lasttoken, which GGUF files can name", .path.display())]
    Pooling {
        /// The file that states it.
        path: PathBuf,
    },
    /// A vocabulary that no program could load from the finished file.
    #[error("{}: its vocabulary could not be loaded from the output: {source}", .path.display())]
    Vocabulary {
        /// The file that the vocabulary is read from.
        path: PathBuf,
        /// What is wrong.
        source: Box<gristmill_tokenizer::TokenizerError>,
    },
    /// What has the name of a file of weights is none.
    #[error("{}: is {found}", .path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is instead.
        found: &'static str,
    },
    /// An adapter in place of a model.
    #[error("{}: holds an adapter (adapter_config.json), not a model", .path.display())]
    Adapter {
        /// The folder.
        path: PathBuf,
    },
    /// A pre-tokenizer that no known name stands for.
    #[error(
        "{}: the pre-tokenizer is unknown; its regular expressions are {patterns}, and the nearest known name is \"{nearest}\"",
        .path.display()
    )]
    UnknownPreTokenizer {
        /// `tokenizer.json`.
        path: PathBuf,
        /// The expressions, each in backticks.
        patterns: String,
        /// The name of the pre-tokenizer that resembles it most.
        nearest: &'static str,
    },
    /// A pre-tokenizer was asked for that does not exist.
    #[error("pre-tokenizer \"{name}\" is unknown (known: {known})")]
    UnknownPreTokenizerName {
        /// The name given.
        name: String,
        /// All names, separated by commas.
        known: String,
    },
    /// Values beyond the range of the output type.
    #[error(
        "tensor `{tensor}`: {count} values exceed the range of f16 (largest magnitude {largest:e})"
    )]
    Overflow {
        /// Name in GGUF.
        tensor: String,
        /// How many values.
        count: u64,
        /// The largest of them.
        largest: f32,
    },
    /// No output type of this name.
    #[error("output type `{name}` is unknown (known: auto, {known} and every recipe)")]
    UnknownOutputType {
        /// The name given.
        name: String,
        /// The types that conversion knows by itself.
        known: String,
    },
    /// An error of the architecture or of `config.json`.
    #[error(transparent)]
    Model(#[from] gristmill_model::ModelError),
    /// An error of an adapter.
    #[error(transparent)]
    Lora(#[from] crate::AdapterError),
    /// An error of a GGUF file.
    #[error(transparent)]
    Gguf(#[from] gristmill_gguf::Error),
    /// An error of a tensor type.
    #[error("tensor `{tensor}`: {source}")]
    Quant {
        /// The tensor.
        tensor: String,
        /// What is wrong.
        source: QuantError,
    },
    /// A value that a type cannot hold.
    #[error("tensor `{tensor}`: {ty} cannot hold {value:e} (element {element})")]
    BeyondType {
        /// The tensor.
        tensor: String,
        /// The type planned for it.
        ty: TensorType,
        /// The value.
        value: f32,
        /// Its place in the tensor.
        element: usize,
    },
    /// An error of a compute kernel.
    #[error("tensor `{tensor}`: {source}")]
    Kernel {
        /// The tensor.
        tensor: String,
        /// What is wrong.
        source: gristmill_kernels::KernelError,
    },

    // ---- recipes and quantization -------------------------------------------------------------
    /// No recipe has this name or number.
    #[error("unknown quantization type {name:?}")]
    UnknownRecipe {
        /// What was asked for.
        name: String,
    },
    /// A name that should be one of the tensor types.
    #[error("unknown tensor type {name:?}")]
    UnknownTensorType {
        /// What was asked for.
        name: String,
    },
    /// A tensor override that is not `PATTERN=TYPE`, or whose pattern is no regular expression.
    #[error("bad tensor override {text:?}: {reason}")]
    BadTensorOverride {
        /// The override as given.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A type that is for activations was asked for.
    #[error(
        "tensor {tensor:?} would become {ty}, which is for activations: no program multiplies weights of it"
    )]
    ActivationType {
        /// The tensor.
        tensor: String,
        /// The type planned for it.
        ty: TensorType,
    },
    /// A type that has no values of its own to write, such as integers.
    #[error("tensor {tensor:?} would become {ty}, which this version cannot encode")]
    NoEncoder {
        /// The tensor.
        tensor: String,
        /// The type planned for it.
        ty: TensorType,
    },
    /// A source type whose values cannot be computed with.
    #[error("tensor {tensor:?} has type {ty}, which cannot be decoded to become {target}")]
    NoDecoder {
        /// The tensor.
        tensor: String,
        /// Its type.
        ty: TensorType,
        /// The type planned for it.
        target: TensorType,
    },
    /// The source's metadata names no architecture that any model has.
    #[error(
        "{}: general.architecture is {name:?}, which no known model has (gristmill runs {}; {} more are quantized)",
        .path.display(),
        gristmill_model::arch::names().join(", "),
        gristmill_model::REFERENCE_ARCHITECTURES.len() - gristmill_model::ARCHITECTURES.len()
    )]
    UnknownArchitecture {
        /// The source.
        path: PathBuf,
        /// What stands there, or what was to be set.
        name: String,
    },
    /// The source's metadata describes no model that could be loaded.
    #[error("{}: {source}", .path.display())]
    Description {
        /// The source.
        path: PathBuf,
        /// What is wrong.
        source: Box<gristmill_model::ModelError>,
    },
    /// Metadata that was to be set makes a file of no model that could be loaded.
    #[error(
        "`--override-kv {entries}` makes a file that gristmill or llama.cpp does not load: {reason}"
    )]
    BadOverride {
        /// What was to be set, as on the command line.
        entries: String,
        /// What is wrong.
        reason: String,
    },
    /// A key that tells which file of a set this is was to be set.
    #[error("{key} cannot be set: it tells which file of a set this is")]
    SplitKey {
        /// The key.
        key: String,
    },
    /// Two outputs have one name.
    #[error("{}: is named for two outputs", .path.display())]
    OutputTwice {
        /// The output.
        path: PathBuf,
    },
    /// The row length fits no block of the type, and the type has no fallback.
    #[error(
        "tensor {tensor:?}: rows of {row_len} elements do not divide into {ty} blocks, which have no fallback"
    )]
    NoFallback {
        /// The tensor.
        tensor: String,
        /// Elements per row.
        row_len: u64,
        /// The type planned for it.
        ty: TensorType,
    },
    /// The mix depends on the layer, and the name does not tell it.
    #[error("tensor {tensor:?}: its name does not tell a layer below {n_layers}")]
    NoLayer {
        /// The tensor.
        tensor: String,
        /// Layers of the model.
        n_layers: u64,
    },
    /// The source is quantized already.
    #[error("requantizing from type {ty} is disabled (tensor {tensor:?})")]
    Requantize {
        /// The first such tensor.
        tensor: String,
        /// Its type.
        ty: TensorType,
    },
    /// Types of so few bits that they are garbage without an importance matrix.
    #[error("this quantization requires an importance matrix, for {}", tensors_listed(.tensors))]
    ImportanceRequired {
        /// All tensors concerned.
        tensors: Vec<String>,
    },
    /// A conversion straight to types of so few bits.
    #[error("this quantization requires an importance matrix, which a conversion does not take, for {}", tensors_listed(.tensors))]
    ImportanceInOneStep {
        /// All tensors concerned.
        tensors: Vec<String>,
    },
    /// The importance matrix does not belong to this model.
    #[error("{}: the importance data of tensor {tensor:?} has {found} values, expected {expected}", .path.display())]
    ImportanceLength {
        /// The importance matrix.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Row length times matrices.
        expected: u64,
        /// Values found.
        found: usize,
    },
    /// Weights with which no search for a scale can compute.
    #[error("{}: the importance data of tensor {tensor:?} is out of range: the largest mean square is {largest:e}", .path.display())]
    ImportanceRange {
        /// The importance matrix.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The largest weight of one of its matrices.
        largest: f32,
    },
    /// No entry of the importance matrix is left.
    #[error("{}: no entry of the importance matrix is chosen", .path.display())]
    ImportanceEmpty {
        /// The importance matrix.
        path: PathBuf,
    },
    /// No entry of the importance matrix belongs to this model.
    #[error("{}: no entry of the importance matrix belongs to this model (the first is {name:?})", .path.display())]
    ImportanceForeign {
        /// The importance matrix.
        path: PathBuf,
        /// Its first entry.
        name: String,
    },
    /// A block that is to be left out is not there.
    #[error("block {block} cannot be pruned: the model has {n_blocks} blocks, counted from 0")]
    NoSuchBlock {
        /// The block.
        block: u32,
        /// Blocks of the model.
        n_blocks: u32,
    },
    /// Every block would be left out.
    #[error("pruning would leave no block of the model")]
    NothingLeft,
    /// No choice of types is small enough.
    #[error("no choice of types takes at most {target}: the smallest takes {smallest}")]
    TargetTooSmall {
        /// What was asked for.
        target: Target,
        /// The smallest choice.
        smallest: Target,
        /// The smallest with importance data for what it is collected for, where that is smaller.
        with_importance: Option<Target>,
    },
    /// A target for the size, of a model that has nothing to choose.
    #[error("there is no tensor whose type could be chosen")]
    NothingToChoose,
    /// A tensor had to take another type although fallbacks were forbidden.
    #[error("rows do not fit the recipe, of {}", tensors_listed(.tensors))]
    FallbackForbidden {
        /// All tensors concerned.
        tensors: Vec<String>,
    },
}

/// What stands in place of a checkpoint's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoFolder {
    /// Nothing.
    Nothing,
    /// Nothing, and the path has the form of a name on the Hugging Face hub.
    HubName,
    /// A GGUF file.
    Gguf,
    /// A zip or gzip archive.
    Archive,
    /// Any other file.
    File,
}

impl fmt::Display for NoFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoFolder::Nothing | NoFolder::HubName => "there is no such folder",
            NoFolder::Gguf => "is a GGUF file already, not a folder with a checkpoint",
            NoFolder::Archive => "is an archive, not a folder with a checkpoint",
            NoFolder::File => "is a file, not a folder with a checkpoint",
        })
    }
}

impl NoFolder {
    fn remedy(self) -> &'static str {
        match self {
            NoFolder::Nothing => {
                "check the path; it must lead to the folder that holds config.json and model*.safetensors"
            }
            NoFolder::HubName => {
                "if it names a model on Hugging Face, fetch it with `gristmill pull NAME --checkpoint`, and give the folder that this prints"
            }
            NoFolder::Gguf => "`gristmill quantize` and `gristmill run` take it as it is",
            NoFolder::Archive => {
                "unpack it, and give the folder that holds config.json and model*.safetensors"
            }
            NoFolder::File => "give the folder that holds config.json and model*.safetensors",
        }
    }
}

/// Names that an error lists at most.
pub(crate) const N_NAMES: usize = 20;

/// The first names of `n`, and how many more there are, with the verb that fits.
fn listed(names: &[String], n: usize, one: &str, many: &str) -> String {
    let verb = if n == 1 { one } else { many };
    format!("{n} {verb}: {}", first_names(names, n))
}

fn first_names(names: &[String], n: usize) -> String {
    let shown: Vec<&str> = names.iter().take(N_NAMES).map(String::as_str).collect();
    let more = match n - shown.len().min(n) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!("{}{more}", shown.join(", "))
}

/// How many tensors, and their names.
fn tensors_listed(tensors: &[String]) -> String {
    let plural = if tensors.len() == 1 { "" } else { "s" };
    let names = first_names(tensors, tensors.len());
    format!("{} tensor{plural}: {names}", tensors.len())
}

/// Makes `fixed_hint` of the remedies of all variants, so that none can be left out: texts, `None` where there is no
/// remedy, and `None` where [`ConvertError::hint`] works it out.
macro_rules! fixed_hints {
    ($( $($variant:ident)|+ => $hint:expr; )*) => {
        fn fixed_hint(&self) -> Option<&'static str> {
            match self {
                $( $(ConvertError::$variant { .. })|+ => $hint.into(), )*
            }
        }
    };
}

impl ConvertError {
    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            ConvertError::In { error, .. } => error.hint(),
            ConvertError::Gguf(error) => error.hint().map(str::to_owned),
            ConvertError::Lora(error) => Some(error.hint().to_owned()),
            ConvertError::Model(gristmill_model::ModelError::Hyperparameter { .. }) => Some(
                "the value comes from config.json, which is damaged or edited; download it again with the checkpoint"
                    .to_owned(),
            ),
            ConvertError::Model(error) => error.hint().map(str::to_owned),
            ConvertError::Description { source, .. } => source.hint().map(str::to_owned),
            ConvertError::NotAFolder { found, .. } => Some(found.remedy().to_owned()),
            ConvertError::Foreign { remedy, .. } => Some((*remedy).to_owned()),
            ConvertError::UnknownPreTokenizer { nearest, .. } => Some(format!(
                "if you know that a known one cuts text the same way, say so: --tokenizer-pre {nearest}"
            )),
            ConvertError::TargetTooSmall {
                with_importance: Some(smallest),
                ..
            } => Some(format!(
                "ask for as much, or more; with importance data for all matrices but the token embedding (`--imatrix`; `llama-imatrix --process-output` collects that of output.weight), for {smallest} or more"
            )),
            ConvertError::Quant {
                source: QuantError::NonFinite { .. },
                ..
            } => Some(
                "the source holds NaN, infinite or (for this type) too large values there; BF16 holds any magnitude"
                    .to_owned(),
            ),
            _ => self.fixed_hint().map(str::to_owned),
        }
    }

    fixed_hints! {
        // Worked out above.
        In | Gguf | Lora | Model | Description | NotAFolder | Foreign | UnknownPreTokenizer => None;
        // The system's answer has its own remedy; what is left of the others is a fault of this program.
        Io | Kernel | Quant => None;
        Overflow => "use --outtype bf16 (or f32), which has the range";
        NotExportable => "the weights alone can be read from the GGUF file by any program";
        FolderInUse => "name another folder; `--force` replaces the files that are written, unless weights would be left beside them";
        MissingShards | IncompleteSet => "download the missing files; the checkpoint is incomplete";
        IndexMismatch | DuplicateTensor => "the files are of different downloads or edited; download the checkpoint again";
        QuantizedSource => "convert the original checkpoint in 16 or 32 bits instead";
        Pickled => "save the model as safetensors, as save_pretrained of transformers does, or download a revision that has such files";
        MissingFile => "give the folder that holds config.json and model*.safetensors";
        Json | Safetensors | TooLarge => "the file is damaged or incomplete; download it again";
        MissingTensor | TensorShape | UncountedLayers => "the weights do not fit config.json; download the checkpoint again";
        UnknownOutputType => "`gristmill quantize --help` lists the recipes";
        VocabularySize => "the tokenizer files belong to another model, or added tokens never got embeddings";
        Tokenizer => "if the file is damaged or was edited, download it again with the checkpoint";
        Vocabulary => "the tokenizer's files are damaged, edited or contradict each other; download them again with the checkpoint";
        NotAFile => "put the file itself into the folder";
        Adapter => "`gristmill convert-lora` converts it by itself; name its base model's folder here to convert that";
        ElementType => "save the checkpoint in bf16, f16 or f32 and convert that";
        UnknownPreTokenizerName => "give a known name, or leave it to the tokenizer's own files";
        Pooling => "take modules.json out of the folder, and choose a way with `embed --pooling`";
        NoTokenizer => "download the checkpoint's tokenizer files into the folder";
        UnknownRecipe => "`gristmill quantize --help` lists the types";
        UnknownArchitecture => "the metadata is damaged or was edited; `--override-kv general.architecture=str:NAME` sets the right name";
        UnknownTensorType => "tensor types are lower-case names such as q4_K, q8_0 or f16";
        BadTensorOverride => "write it as PATTERN=TYPE, for example attn_v=q8_0";
        NoEncoder | NoFallback | ActivationType => "choose another recipe, or another type for that tensor with `--tensor-type`";
        NoDecoder => "keep it with `--tensor-type NAME=TYPE`, where TYPE is the type that it has";
        NoLayer => "the tensor is none of this architecture's, or its number of layers is wrong; `--pure` needs no layers";
        OutputTwice => "give each output a name of its own";
        BadOverride => "give another value, or leave the entry out";
        SplitKey => "leave it out; `--keep-split` or `gristmill split` write it";
        NothingLeft => "leave at least one block out of --prune-layers";
        NothingToChoose => "give a type in place of the target; COPY copies a file that has nothing to quantize";
        ImportanceRange => "mean squares of activations lie between 1e-17 and 1e15: the file is damaged or was scaled; make the importance matrix again, or leave that tensor's entry out with `--exclude-weights NAME`";
        BeyondType => "BF16 holds any magnitude: give that tensor a type with `--tensor-type`, or mend the source";
        Requantize => "quantize the F16, BF16 or F32 file again; `--allow-requantize` accepts the added loss";
        ImportanceRequired => "give `--imatrix FILE`, made with text through this model; or choose a recipe of more bits";
        ImportanceInOneStep => "convert to a float type (`gristmill convert --outtype bf16`) and then use `gristmill quantize --imatrix FILE`; or choose a recipe of more bits";
        ImportanceLength | ImportanceForeign => "the importance matrix was made with another model; make one with this model";
        ImportanceEmpty => "the parts of names given to --include-weights or --exclude-weights leave nothing; leave them out";
        NoSuchBlock => "`gristmill inspect` shows the blocks of a model";
        TargetTooSmall => "ask for as much, or more";
        FallbackForbidden => "leave out --strict, or choose a recipe with smaller blocks";
    }

    /// The error with the file or folder it is about, where it does not name one itself.
    pub(crate) fn of(self, path: &Path) -> Self {
        match self {
            ConvertError::MissingTensor { .. }
            | ConvertError::TensorShape { .. }
            | ConvertError::UncountedLayers { .. }
            | ConvertError::ElementType { .. }
            | ConvertError::VocabularySize { .. }
            | ConvertError::Overflow { .. }
            | ConvertError::NotExportable { .. }
            | ConvertError::Model(_)
            | ConvertError::Quant { .. }
            | ConvertError::BeyondType { .. }
            | ConvertError::NoDecoder { .. }
            | ConvertError::NoFallback { .. }
            | ConvertError::NoLayer { .. }
            | ConvertError::Kernel { .. } => ConvertError::In {
                path: path.to_owned(),
                error: Box::new(self),
            },
            named => named,
        }
    }

    pub(crate) fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        ConvertError::Io {
            path: path.to_owned(),
            action,
            source,
        }
    }
}
