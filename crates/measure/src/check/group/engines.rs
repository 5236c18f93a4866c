//! What other engines ask for beyond the specification.
//!
//! The rules are those of llama.cpp b11434: its reader (`ggml/src/gguf.cpp`), model loader and vocabulary.

use gristmill_gguf::{Array, Endian, Kind, KnownType, Metadata, Value, ValueType, known_key};
use gristmill_model::REFERENCE_KEY_TYPES;

use super::{Group, without_metadata};
use crate::MeasureError;
use crate::check::finding::{Code, Findings, Place};
use crate::check::subject::Subject;

pub(crate) static GROUP: Group = Group {
    name: "engines",
    about: "legal by the specification, refused by llama.cpp: alignment, names, layout, types of keys",
    codes: &[
        &ALIGNMENT,
        &NAME,
        &LAYOUT,
        &BYTE_ORDER,
        &KEY_TYPE,
        &TOKEN_TYPE,
        &GENERAL_TYPE,
        &NOT_FIRST,
    ],
    skip: without_metadata,
    run,
};

const REALIGN: &str = "`gristmill edit FILE --set general.alignment=u32:32 --force` moves the tensors to another alignment";
const REWRITE: &str = "`gristmill split FILE PART` and `gristmill merge PART-00001-of-00001.gguf NEW` write the tensors one behind the other";

pub(crate) static ALIGNMENT: Code = Code::warning(
    "llama-alignment",
    "an alignment that the specification allows and llama.cpp refuses: it asks for a power of two",
    REALIGN,
);
pub(crate) static NAME: Code = Code::warning(
    "llama-name",
    "a tensor name of 64 bytes or more, which llama.cpp refuses",
    "shorter names are needed; convert the model again with a current tool",
);
pub(crate) static LAYOUT: Code = Code::warning(
    "llama-layout",
    "tensors that do not lie one behind the other in the order of the directory, as llama.cpp asks",
    REWRITE,
);
pub(crate) static BYTE_ORDER: Code = Code::warning(
    "llama-byte-order",
    "a big-endian file, which llama.cpp refuses on every machine but big-endian ones",
    "turn it around with `gristmill endian`",
);
pub(crate) static KEY_TYPE: Code = Code::warning(
    "llama-key-type",
    "a key of a type that llama.cpp refuses: it takes numbers of one width only",
    "set the key with its right type with `gristmill edit`",
);
pub(crate) static TOKEN_TYPE: Code = Code::warning(
    "llama-token-type",
    "token types of another width than 32 bits, which llama.cpp refuses",
    "set `tokenizer.ggml.token_type` as an array of INT32 with `gristmill edit`",
);
static GENERAL_TYPE: Code = Code::warning(
    "general-type",
    "a key of another type than the specification gives it, so that its readers pass over it",
    "set the key with its right type with `gristmill edit`",
);
static NOT_FIRST: Code = Code::note(
    "llama-not-first",
    "llama.cpp opens a set by its first shard only",
    "give llama.cpp the first one; gristmill takes any",
);

/// Codes of which each keeps llama.cpp from loading the file.
pub(crate) static REFUSED: &[&Code] = &[
    &ALIGNMENT,
    &NAME,
    &LAYOUT,
    &BYTE_ORDER,
    &KEY_TYPE,
    &TOKEN_TYPE,
];

/// Tensor names must be shorter.
const NAME_BYTES: usize = 64;

fn run(subject: &Subject, findings: &mut Findings) -> Result<(), MeasureError> {
    for file in subject.readable() {
        let alignment = file.alignment();
        if !alignment.is_power_of_two() {
            let text =
                format!("general.alignment is {alignment}: a multiple of 8, but no power of two");
            findings.add(&ALIGNMENT, Place::key("general.alignment"), text);
        }
        if file.endian() == Endian::Big {
            findings.add(
                &BYTE_ORDER,
                Place::file(file.path()),
                "the file is big-endian",
            );
        }
        for tensor in file
            .tensors()
            .iter()
            .filter(|tensor| tensor.name.len() >= NAME_BYTES)
        {
            let text = format!("a name of {} bytes", tensor.name.len());
            findings.add(&NAME, Place::tensor(&tensor.name), text);
        }
        // The offsets of a file at fault are not worth a word.
        if subject.is_whole() {
            layout(file, findings);
        }
    }
    let Some(metadata) = subject.metadata() else {
        return Ok(());
    };
    if matches!(subject.kind(), Kind::Model | Kind::Vocabulary) {
        known_types(metadata, findings);
        key_types(metadata, subject.architecture(), findings);
    }
    let number = metadata.u64("split.no").ok().flatten();
    if subject.is_set() && subject.files[0].path != subject.path {
        let text = format!(
            "{} is not the first shard of its set",
            subject.path.display()
        );
        findings.add(&NOT_FIRST, Place::file(subject.path), text);
    } else if !subject.is_set() && number.is_some_and(|number| number > 0) {
        findings.add(
            &NOT_FIRST,
            Place::file(subject.path),
            "the file is not the first shard of its set",
        );
    }
    Ok(())
}

/// Each tensor must begin where the one before ends, padding counted.
fn layout(file: &gristmill_gguf::File, findings: &mut Findings) {
    let mut expected = 0u64;
    for tensor in file.tensors() {
        if tensor.offset != expected {
            let text = format!(
                "{} lies at byte {} of the data, where {expected} is next by the order of the directory",
                tensor.name, tensor.offset
            );
            findings.add(&LAYOUT, Place::tensor(&tensor.name), text);
            return;
        }
        // Inside the file, so this does not overflow.
        expected = (tensor.offset + tensor.bytes).next_multiple_of(file.alignment());
    }
}

/// Keys that may also be an array with a number for each layer.
const PER_LAYER_KEYS: &[&str] = &[
    "{}.attention.head_count",
    "{}.attention.head_count_kv",
    "{}.expert_used_count",
    "{}.feed_forward_length",
];

/// Keys whose type is settled: another one is refused by llama.cpp, or by whoever reads the key.
fn known_types(metadata: &Metadata, findings: &mut Findings) {
    for (key, value) in metadata.iter() {
        let Some(known) = known_key(key).filter(|known| known.ty != KnownType::of(value)) else {
            continue;
        };
        // The groups of the tokenizer and the structure look at what is not demanded here.
        let is_general = key.starts_with("general.") && key != "general.architecture";
        let (found, ty) = (value.type_name(), known.ty);
        if known.is_demanded && key != "general.architecture" {
            let text = format!("{key} is {found}; llama.cpp takes {ty} only");
            findings.add(&KEY_TYPE, Place::key(key), text);
        } else if is_general {
            let text = format!("{key} is {found}, and it is {ty} everywhere");
            let remedy =
                format!("set it with its type: `gristmill edit FILE --set '{key}=…' --force`");
            findings.push(GENERAL_TYPE.find(Place::key(key), text).with_remedy(remedy));
        }
    }
}

fn key_types(metadata: &Metadata, architecture: Option<&str>, findings: &mut Findings) {
    let full = |key: &str| key.replace("{}", architecture.unwrap_or_default());
    for (suffix, ty) in REFERENCE_KEY_TYPES {
        let key = full(&format!("{{}}.{suffix}"));
        if let Some(value) = metadata.get(&key).filter(|value| value.value_type() != *ty) {
            let text = format!("{key} is {}; llama.cpp takes {ty} only", value.type_name());
            findings.add(&KEY_TYPE, Place::key(key), text);
        }
    }
    for key in PER_LAYER_KEYS.iter().map(|key| full(key)) {
        let fits = |value: &Value| match value {
            Value::U32(_) => true,
            Value::Array(array) => matches!(array, Array::U32(_) | Array::I32(_)),
            _ => false,
        };
        if let Some(value) = metadata.get(&key).filter(|value| !fits(value)) {
            let text = format!(
                "{key} is {}; llama.cpp takes UINT32, or an array of UINT32 or INT32",
                value.type_name()
            );
            findings.add(&KEY_TYPE, Place::key(key), text);
        }
    }
    let key = "tokenizer.ggml.token_type";
    if let Some(Value::Array(array)) = metadata.get(key)
        && array.element_type().is_integer()
        && array.element_type() != ValueType::I32
    {
        let text = format!("{key} is an array of {}", array.element_type());
        findings.add(&TOKEN_TYPE, Place::key(key), text);
    }
}
