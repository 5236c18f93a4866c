//! Keys whose type is settled: by the specification, or by the reference, which writes and reads them with it.

use std::fmt;

use crate::edit::byte_distance;
use crate::metadata::Metadata;
use crate::value::{Value, ValueType};

/// The type that a key has in every file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownType {
    /// One value.
    One(ValueType),
    /// An array with elements of this type.
    List(ValueType),
}

impl KnownType {
    /// The type that a value has.
    pub fn of(value: &Value) -> KnownType {
        match value {
            Value::Array(array) => KnownType::List(array.element_type()),
            value => KnownType::One(value.value_type()),
        }
    }
}

impl fmt::Display for KnownType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KnownType::One(ty) => write!(f, "{ty}"),
            KnownType::List(ty) => write!(f, "ARRAY of {ty}"),
        }
    }
}

/// A key with its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownKey {
    /// The key; in a numbered family the number is 0.
    pub key: &'static str,
    /// Its type.
    pub ty: KnownType,
    /// Whether llama.cpp (b11434) refuses to load a model in which the key has another type.
    pub is_demanded: bool,
}

const fn one(key: &'static str, ty: ValueType) -> KnownKey {
    let ty = KnownType::One(ty);
    KnownKey {
        key,
        ty,
        is_demanded: false,
    }
}

const fn list(key: &'static str, ty: ValueType) -> KnownKey {
    let ty = KnownType::List(ty);
    KnownKey {
        key,
        ty,
        is_demanded: false,
    }
}

const fn demanded(known: KnownKey) -> KnownKey {
    KnownKey {
        is_demanded: true,
        ..known
    }
}

use ValueType::{Bool, F32, I32, String as Text, U16, U32};

/// All of them, sorted by key. Hyperparameters, which have the architecture in their keys, are left out.
#[rustfmt::skip]
pub const KNOWN_KEYS: &[KnownKey] = &[
    list("adapter.alora.invocation_tokens", U32),
    one("adapter.lora.alpha", F32),
    one("adapter.type", Text),
    one("general.alignment", U32),
    demanded(one("general.architecture", Text)),
    one("general.author", Text),
    one("general.base_model.0.author", Text),
    one("general.base_model.0.description", Text),
    one("general.base_model.0.doi", Text),
    one("general.base_model.0.name", Text),
    one("general.base_model.0.organization", Text),
    one("general.base_model.0.repo_url", Text),
    one("general.base_model.0.url", Text),
    one("general.base_model.0.uuid", Text),
    one("general.base_model.0.version", Text),
    one("general.base_model.count", U32),
    one("general.basename", Text),
    one("general.dataset.0.author", Text),
    one("general.dataset.0.description", Text),
    one("general.dataset.0.doi", Text),
    one("general.dataset.0.name", Text),
    one("general.dataset.0.organization", Text),
    one("general.dataset.0.repo_url", Text),
    one("general.dataset.0.url", Text),
    one("general.dataset.0.uuid", Text),
    one("general.dataset.0.version", Text),
    one("general.dataset.count", U32),
    list("general.datasets", Text),
    one("general.description", Text),
    one("general.doi", Text),
    demanded(one("general.file_type", U32)),
    one("general.finetune", Text),
    list("general.languages", Text),
    one("general.license", Text),
    one("general.license.link", Text),
    one("general.license.name", Text),
    demanded(one("general.name", Text)),
    one("general.organization", Text),
    one("general.quantization_version", U32),
    one("general.quantized_by", Text),
    one("general.repo_url", Text),
    one("general.sampling.min_p", F32),
    one("general.sampling.mirostat", I32),
    one("general.sampling.mirostat_eta", F32),
    one("general.sampling.mirostat_tau", F32),
    one("general.sampling.penalty_last_n", I32),
    one("general.sampling.penalty_repeat", F32),
    one("general.sampling.sequence", Text),
    one("general.sampling.temp", F32),
    one("general.sampling.top_k", I32),
    one("general.sampling.top_p", F32),
    one("general.sampling.xtc_probability", F32),
    one("general.sampling.xtc_threshold", F32),
    one("general.size_label", Text),
    one("general.source.doi", Text),
    one("general.source.huggingface.repository", Text),
    one("general.source.repo_url", Text),
    one("general.source.url", Text),
    one("general.source.uuid", Text),
    list("general.tags", Text),
    one("general.type", Text),
    one("general.url", Text),
    one("general.uuid", Text),
    one("general.version", Text),
    demanded(one("split.count", U16)),
    demanded(one("split.no", U16)),
    demanded(one("split.tensors.count", I32)),
    one("tokenizer.chat_template", Text),
    list("tokenizer.chat_templates", Text),
    demanded(one("tokenizer.ggml.add_bos_token", Bool)),
    demanded(one("tokenizer.ggml.add_eos_token", Bool)),
    demanded(one("tokenizer.ggml.add_sep_token", Bool)),
    demanded(one("tokenizer.ggml.add_space_prefix", Bool)),
    demanded(one("tokenizer.ggml.bos_token_id", U32)),
    one("tokenizer.ggml.cls_token_id", U32),
    demanded(one("tokenizer.ggml.eom_token_id", U32)),
    demanded(one("tokenizer.ggml.eos_token_id", U32)),
    demanded(one("tokenizer.ggml.eot_token_id", U32)),
    demanded(one("tokenizer.ggml.fim_mid_token_id", U32)),
    demanded(one("tokenizer.ggml.fim_pad_token_id", U32)),
    demanded(one("tokenizer.ggml.fim_pre_token_id", U32)),
    demanded(one("tokenizer.ggml.fim_rep_token_id", U32)),
    demanded(one("tokenizer.ggml.fim_sep_token_id", U32)),
    demanded(one("tokenizer.ggml.fim_suf_token_id", U32)),
    demanded(one("tokenizer.ggml.mask_token_id", U32)),
    list("tokenizer.ggml.merges", Text),
    demanded(one("tokenizer.ggml.middle_token_id", U32)),
    demanded(one("tokenizer.ggml.model", Text)),
    demanded(one("tokenizer.ggml.normalizer.lowercase", Bool)),
    demanded(one("tokenizer.ggml.normalizer.strip_accents", Bool)),
    demanded(one("tokenizer.ggml.padding_token_id", U32)),
    demanded(one("tokenizer.ggml.pre", Text)),
    demanded(one("tokenizer.ggml.prefix_token_id", U32)),
    demanded(one("tokenizer.ggml.remove_extra_whitespaces", Bool)),
    list("tokenizer.ggml.scores", F32),
    demanded(one("tokenizer.ggml.seperator_token_id", U32)),
    demanded(one("tokenizer.ggml.suffix_token_id", U32)),
    demanded(list("tokenizer.ggml.suppress_tokens", I32)),
    list("tokenizer.ggml.token_type", I32),
    demanded(one("tokenizer.ggml.token_type_count", U32)),
    list("tokenizer.ggml.tokens", Text),
    demanded(one("tokenizer.ggml.unknown_token_id", U32)),
    one("tokenizer.huggingface.json", Text),
];

/// What is known of a key; a number in it, as in `general.base_model.3.name`, may be any.
pub fn known_key(key: &str) -> Option<&'static KnownKey> {
    let find = |key: &str| {
        let found = KNOWN_KEYS.binary_search_by_key(&key, |known| known.key);
        found.ok().and_then(|place| KNOWN_KEYS.get(place))
    };
    find(key).or_else(|| {
        let parts: Vec<&str> = key.split('.').collect();
        let number = parts
            .iter()
            .position(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))?;
        let mut parts = parts;
        parts[number] = "0";
        find(&parts.join("."))
    })
}

/// Keys that somebody may have meant who wrote `key`: those that the file has and those that are known, the nearest
/// first, at most three.
pub fn near_keys(metadata: &Metadata, key: &str) -> Vec<String> {
    /// Longer ones are nobody's typing.
    const LENGTH_MAX: usize = 100;
    let wanted = key.to_ascii_lowercase();
    let last = wanted.rsplit('.').next().unwrap_or_default();
    let distance = |known: &str| -> Option<usize> {
        if known.len() > LENGTH_MAX || wanted.len() > LENGTH_MAX || known == key {
            return None;
        }
        let known_last = known.rsplit('.').next().unwrap_or_default();
        if known_last.eq_ignore_ascii_case(last) && last.len() > 3 && !wanted.contains('.') {
            return Some(1);
        }
        let known = known.to_ascii_lowercase();
        (known.len().abs_diff(wanted.len()) <= 2)
            .then(|| byte_distance(known.as_bytes(), wanted.as_bytes()))
            .filter(|&steps| steps <= 2)
    };
    let own = metadata.iter().map(|(key, _)| key);
    let mut near: Vec<(usize, &str)> = own
        .chain(KNOWN_KEYS.iter().map(|known| known.key))
        .filter_map(|known| Some((distance(known)?, known)))
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter()
        .take(3)
        .map(|(_, key)| key.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_and_found() {
        assert!(KNOWN_KEYS.is_sorted_by_key(|known| known.key));
        let ty = |key| known_key(key).map(|known| known.ty);
        assert_eq!(ty("general.tags"), Some(KnownType::List(ValueType::String)));
        assert_eq!(
            ty("general.base_model.12.name"),
            Some(KnownType::One(ValueType::String))
        );
        assert_eq!(
            ty("tokenizer.ggml.eot_token_id"),
            Some(KnownType::One(ValueType::U32))
        );
        for unknown in ["", "general.base_model..name", "general.nam", "12"] {
            assert_eq!(ty(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn what_was_meant_is_found() {
        let mut metadata = Metadata::new();
        metadata.set("llama.block_count", 1u32);
        let near = |key| near_keys(&metadata, key);
        assert_eq!(near("general.nam"), ["general.name"]);
        assert_eq!(near("genral.license"), ["general.license"]);
        assert_eq!(near("general.descripton"), ["general.description"]);
        assert_eq!(near("lama.block_count"), ["llama.block_count"]);
        assert_eq!(near("license"), ["general.license"]);
        assert!(near("general.name").is_empty());
        assert!(near("my.own.key").is_empty());
    }
}
