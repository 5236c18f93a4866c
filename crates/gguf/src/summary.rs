//! What a model is, at a glance: the facts that `inspect` and a load report show. Made from metadata
//! and tensor directory alone; no weight is touched.

use std::path::{Path, PathBuf};

use gristmill_quant::TensorType;

use crate::cursor::Endian;
use crate::directory::TensorInfo;
use crate::file_type::FileType;
use crate::kind::Kind;
use crate::metadata::Metadata;
use crate::model::Model;
use crate::shards;
use crate::value::Value;

/// The facts of a model. Text of the file is shown with invalid bytes escaped; what a file does not
/// say, or says with a wrong type, is `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// What the model is for.
    pub kind: Kind,
    /// `general.name`.
    pub name: Option<String>,
    /// `general.architecture`.
    pub architecture: Option<String>,
    /// Elements of all tensors together.
    pub n_parameters: u64,
    /// The context length that the model was trained for, in tokens.
    pub context_length: Option<u64>,
    /// The number of blocks (layers).
    pub n_blocks: Option<u64>,
    /// The width of a token's embedding.
    pub embedding_length: Option<u64>,
    /// The number of tokens in the vocabulary.
    pub n_tokens: Option<u64>,
    /// `tokenizer.ggml.model`.
    pub tokenizer: Option<String>,
    /// `tokenizer.ggml.pre`.
    pub pre_tokenizer: Option<String>,
    /// Whether a chat template is in the file.
    pub has_template: bool,
    /// The recipe by `general.file_type`: a label; `types` has the truth.
    pub file_type: Option<FileType>,
    /// Version of the container.
    pub version: u32,
    /// Byte order in the file.
    pub endian: Endian,
    /// One for each file of the set.
    pub shards: Vec<ShardSummary>,
    /// The size of all files in bytes.
    pub file_bytes: u64,
    /// Bytes of tensor data, without padding.
    pub data_bytes: u64,
    /// Tensors by type, the type with the most bytes first.
    pub types: Vec<TypeShare>,
    /// Tensors by role, in the order of their first appearance.
    pub roles: Vec<RoleShare>,
}

/// One file of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardSummary {
    /// Its number in the set, from 1 as in file names: files of the set may be missing.
    pub number: u64,
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// How many tensors it has.
    pub n_tensors: usize,
}

/// The tensors of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeShare {
    /// The type.
    pub ty: TensorType,
    /// How many tensors have it.
    pub n_tensors: usize,
    /// Their elements.
    pub n_elements: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The tensors of one role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleShare {
    /// The role; see [`role`].
    pub role: String,
    /// By type, the type with the most bytes first.
    pub types: Vec<TypeShare>,
}

impl Summary {
    /// Sums up a model.
    pub fn of(model: &Model) -> Summary {
        let metadata = model.metadata();
        let architecture = text(metadata, "general.architecture");
        let of_architecture = |key: &str| {
            integer(
                metadata,
                &format!("{}.{key}", architecture.as_deref().unwrap_or_default()),
            )
        };
        let file_type =
            integer(metadata, "general.file_type").and_then(|id| u32::try_from(id).ok());
        Summary {
            kind: model.kind(),
            name: text(metadata, "general.name"),
            n_parameters: model
                .tensors()
                .iter()
                .fold(0, |sum, tensor| sum.saturating_add(tensor.n_elements())),
            context_length: of_architecture("context_length"),
            n_blocks: of_architecture("block_count"),
            embedding_length: of_architecture("embedding_length"),
            n_tokens: n_tokens(metadata),
            tokenizer: text(metadata, "tokenizer.ggml.model"),
            pre_tokenizer: text(metadata, "tokenizer.ggml.pre"),
            has_template: metadata.contains("tokenizer.chat_template"),
            file_type: file_type.map(FileType::from_id),
            version: model.shards()[0].version(),
            endian: model.shards()[0].endian(),
            shards: shard_summaries(model),
            file_bytes: model.size(),
            data_bytes: model
                .tensors()
                .iter()
                .fold(0, |sum, tensor| sum.saturating_add(tensor.bytes)),
            types: type_shares(model.tensors()),
            roles: role_shares(model.tensors()),
            architecture,
        }
    }

    /// The path of the first file.
    pub fn path(&self) -> &Path {
        self.shards
            .first()
            .map_or(Path::new(""), |shard| &shard.path)
    }

    /// The number of tensors.
    pub fn n_tensors(&self) -> usize {
        self.shards.iter().map(|shard| shard.n_tensors).sum()
    }

    /// The number in its set, from 1, of the shard at this place of [`Summary::shards`].
    pub fn shard_number(&self, place: usize) -> u64 {
        self.shards.get(place).map_or(1, |shard| shard.number)
    }

    /// Bits of tensor data per parameter, exact: blocks, norms and all; `None` without tensors.
    pub fn bits_per_weight(&self) -> Option<f64> {
        (self.n_parameters > 0).then(|| self.data_bytes as f64 * 8.0 / self.n_parameters as f64)
    }

    /// Bits of whole files per parameter: metadata and padding count as well.
    pub fn file_bits_per_weight(&self) -> Option<f64> {
        (self.n_parameters > 0).then(|| self.file_bytes as f64 * 8.0 / self.n_parameters as f64)
    }
}

/// What a tensor does, from its name: the last part without block number and `.weight`
/// (`attn_q`, `ffn_down_exps`, `token_embd`, `output`), or `norm` for all norms and `bias` for all
/// biases.
pub fn role(name: &str) -> &str {
    let name = name.rsplit_once(".lora_").map_or(name, |(base, _)| base);
    if name.contains("norm") {
        return "norm";
    }
    if name.ends_with(".bias") {
        return "bias";
    }
    let name = name.strip_suffix(".weight").unwrap_or(name);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    match name
        .split_once('.')
        .and_then(|(_, rest)| rest.split_once('.'))
    {
        Some((number, rest)) if is_number(number) => rest,
        _ => name,
    }
}

fn text(metadata: &Metadata, key: &str) -> Option<String> {
    metadata
        .get(key)?
        .as_text()
        .map(|text| text.to_str_escaped().into_owned())
}

fn integer(metadata: &Metadata, key: &str) -> Option<u64> {
    metadata
        .get(key)?
        .as_integer()
        .and_then(|value| u64::try_from(value).ok())
}

fn n_tokens(metadata: &Metadata) -> Option<u64> {
    metadata
        .get("tokenizer.ggml.tokens")
        .and_then(Value::as_array)
        .map(|tokens| tokens.len() as u64)
}

fn shard_summaries(model: &Model) -> Vec<ShardSummary> {
    let shard = |file: &crate::File| ShardSummary {
        number: shards::number_in_set(file),
        path: file.path().to_owned(),
        bytes: file.size(),
        n_tensors: file.tensors().len(),
    };
    model.shards().iter().map(shard).collect()
}

fn add(shares: &mut Vec<TypeShare>, tensor: &TensorInfo) {
    let place = shares
        .iter()
        .position(|share| share.ty == tensor.ty)
        .unwrap_or_else(|| {
            shares.push(TypeShare {
                ty: tensor.ty,
                n_tensors: 0,
                n_elements: 0,
                bytes: 0,
            });
            shares.len() - 1
        });
    let share = &mut shares[place];
    share.n_tensors += 1;
    // Tensors lie apart in files, so bytes cannot overflow; elements of many tensors of less than a
    // byte per element could.
    share.n_elements = share.n_elements.saturating_add(tensor.n_elements());
    share.bytes = share.bytes.saturating_add(tensor.bytes);
}

fn type_shares(tensors: &[TensorInfo]) -> Vec<TypeShare> {
    let mut shares = Vec::new();
    tensors.iter().for_each(|tensor| add(&mut shares, tensor));
    shares.sort_by_key(|share| std::cmp::Reverse(share.bytes));
    shares
}

fn role_shares(tensors: &[TensorInfo]) -> Vec<RoleShare> {
    let mut places = std::collections::HashMap::new();
    let mut roles: Vec<RoleShare> = Vec::new();
    for tensor in tensors {
        let role = role(&tensor.name);
        let place = *places.entry(role).or_insert_with(|| {
            roles.push(RoleShare {
                role: role.to_owned(),
                types: Vec::new(),
            });
            roles.len() - 1
        });
        add(&mut roles[place].types, tensor);
    }
    for role in &mut roles {
        role.types
            .sort_by_key(|share| std::cmp::Reverse(share.bytes));
    }
    roles
}
