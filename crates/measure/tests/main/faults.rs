//! Faults to plant: for every code a file that has it.

use std::path::{Path, PathBuf};

use gristmill_gguf::{Text, Value};
use gristmill_quant::TensorType;

use crate::model::{Model, sound, sound_of};

/// A fault: its code, and how a file of a folder gets it.
pub type Plant = (&'static str, fn(&Path) -> PathBuf);

pub fn write(folder: &Path, model: &Model) -> PathBuf {
    write_bytes(folder, "model.gguf", &model.bytes())
}

pub fn write_bytes(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

const STRUCTURE: &[Plant] = &[
    ("unreadable", |folder| folder.join("absent.gguf")),
    ("unfinished-edit", |folder| {
        write_bytes(folder, "model.gguf.edit-undo", b"half written");
        write(folder, &sound())
    }),
    ("not-gguf", |folder| {
        write_bytes(folder, "page.gguf", b"<!DOCTYPE html><html></html>")
    }),
    ("version", |folder| {
        write(
            folder,
            &Model {
                version: 4,
                ..sound()
            },
        )
    }),
    ("truncated", |folder| {
        let head = sound().head();
        write_bytes(folder, "cut.gguf", &head[..head.len() - 9])
    }),
    ("tensor-outside", |folder| {
        let bytes = sound().bytes();
        write_bytes(folder, "cut.gguf", &bytes[..bytes.len() - 64])
    }),
    ("count", |folder| {
        let mut bytes = sound().bytes();
        bytes[8..16].copy_from_slice(&(1u64 << 62).to_le_bytes());
        write_bytes(folder, "count.gguf", &bytes)
    }),
    ("key", |folder| {
        let mut model = sound();
        model.entries.push((Vec::new(), Value::U8(1)));
        write(folder, &model)
    }),
    ("key-form", |folder| {
        let mut model = sound();
        model.entries.push((b"k\xffy".to_vec(), Value::U8(1)));
        write(folder, &model)
    }),
    ("duplicate-key", |folder| {
        let mut model = sound();
        model
            .entries
            .push((b"llama.block_count".to_vec(), Value::U32(1)));
        write(folder, &model)
    }),
    ("value", |folder| {
        let mut bytes = sound().set("a.bool", true).bytes();
        let key = bytes.windows(6).position(|part| part == b"a.bool").unwrap();
        bytes[key + 6] = 77;
        write_bytes(folder, "value.gguf", &bytes)
    }),
    ("bool", |folder| {
        let model = sound().set("a.bool", true);
        let mut bytes = model.bytes();
        let key = bytes.windows(6).position(|part| part == b"a.bool").unwrap();
        bytes[key + 10] = 7;
        write_bytes(folder, "value.gguf", &bytes)
    }),
    ("alignment", |folder| {
        write(folder, &sound().set("general.alignment", 7u32))
    }),
    ("tensor-name", |folder| {
        write(folder, &sound().and_tensor("", &[8], 0, vec![1; 32]))
    }),
    ("duplicate-tensor", |folder| {
        write(
            folder,
            &sound().and_tensor("output.weight", &[8], 0, vec![1; 32]),
        )
    }),
    ("shape", |folder| {
        write(folder, &sound().and_tensor("w", &[0], 0, vec![1; 32]))
    }),
    ("tensor-type", |folder| {
        write(folder, &sound().and_tensor("w", &[32], 4, vec![1; 32]))
    }),
    ("misaligned", |folder| {
        write(
            folder,
            &sound().with("output.weight", |tensor| tensor.offset = Some(40_008)),
        )
    }),
    ("overlap", |folder| {
        write(
            folder,
            &sound().with("output_norm.weight", |tensor| tensor.offset = Some(0)),
        )
    }),
    ("glued", |folder| {
        write(
            folder,
            &Model {
                tail: sound().bytes(),
                ..sound()
            },
        )
    }),
    ("trailing-bytes", |folder| {
        write(
            folder,
            &Model {
                tail: vec![1; 100],
                ..sound()
            },
        )
    }),
    ("padding", |folder| {
        // As long a name as it takes for some padding.
        let models = (1..32).map(|n| sound().set("general.name", "x".repeat(n)));
        let mut padded = models.filter(|model| !model.head().len().is_multiple_of(32));
        let model = Model {
            padding: 9,
            ..padded.next().unwrap()
        };
        write(folder, &model)
    }),
];

/// A big-endian file of one tensor of zeros.
fn big_endian(ty: TensorType) -> Vec<u8> {
    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_be_bytes());
    out.extend([1u64, 1].map(u64::to_be_bytes).concat());
    for (text, rest) in [
        ("general.architecture", &8u32.to_be_bytes()[..]),
        ("none", &[]),
    ] {
        out.extend((text.len() as u64).to_be_bytes());
        out.extend(text.as_bytes());
        out.extend(rest);
    }
    out.extend(1u64.to_be_bytes());
    out.extend(b"w");
    out.extend(1u32.to_be_bytes());
    out.extend((ty.block_len() as u64).to_be_bytes());
    out.extend(ty.id().to_be_bytes());
    out.extend(0u64.to_be_bytes());
    out.resize(out.len().next_multiple_of(32), 0);
    out.resize(out.len() + ty.block_bytes().next_multiple_of(32), 0);
    out
}

/// The sound model in two shards; each may be changed.
pub fn shards(folder: &Path, change: impl Fn(usize, Model) -> Model) -> PathBuf {
    let whole = sound();
    let half = whole.tensors.len() / 2;
    let n_tensors = whole.tensors.len() as i32;
    let mut second = Model {
        entries: Vec::new(),
        tensors: whole.tensors[half..].to_vec(),
        ..whole.clone()
    };
    let mut first = whole;
    first.tensors.truncate(half);
    for (number, shard) in [&mut first, &mut second].into_iter().enumerate() {
        let model = shard
            .clone()
            .set("split.no", number as u16)
            .set("split.count", 2u16)
            .set("split.tensors.count", n_tensors);
        let name = format!("model-0000{}-of-00002.gguf", number + 1);
        write_bytes(folder, &name, &change(number, model).bytes());
    }
    folder.join("model-00001-of-00002.gguf")
}

const SHARDS: &[Plant] = &[
    ("shard-missing", |folder| {
        let first = shards(folder, |_, model| model);
        std::fs::remove_file(folder.join("model-00002-of-00002.gguf")).unwrap();
        first
    }),
    ("shard-renamed", |folder| {
        let first = shards(folder, |_, model| model);
        let renamed = folder.join("renamed.gguf");
        std::fs::rename(first, &renamed).unwrap();
        renamed
    }),
    ("shard-mixed", |folder| {
        shards(folder, |number, model| match number {
            0 => model,
            _ => model.set("split.no", 0u16),
        })
    }),
    ("shard-entry", |folder| {
        shards(folder, |_, model| model.set("split.count", "two"))
    }),
];

const METADATA: &[Plant] = &[
    ("no-architecture", |folder| {
        write(folder, &sound().without("general.architecture"))
    }),
    ("architecture-unknown", |folder| {
        write(folder, &sound().set("general.architecture", "nonesuch"))
    }),
    ("key-missing", |folder| {
        write(folder, &sound().without("llama.block_count"))
    }),
    ("key-type", |folder| {
        write(folder, &sound().set("llama.block_count", "seven"))
    }),
    ("key-value", |folder| {
        write(folder, &sound().set("llama.attention.head_count_kv", 3u32))
    }),
    ("experts-used", |folder| {
        let model = sound().set("llama.expert_count", 2u32);
        write(folder, &model.set("llama.expert_used_count", 3u32))
    }),
    ("invalid-text", |folder| {
        write(
            folder,
            &sound().set("general.author", Value::String(Text::from_bytes(b"\xff"))),
        )
    }),
    ("recipe-unknown", |folder| {
        write(folder, &sound().set("general.file_type", 99u32))
    }),
    ("recipe-wrong", |folder| {
        write(folder, &sound().set("general.file_type", 15u32))
    }),
    ("recipe-diluted", |folder| {
        write(
            folder,
            &q8_0(sound(), "blk.0.attn_q.weight").set("general.file_type", 7u32),
        )
    }),
    ("quantization-version", |folder| {
        let model = q8_0(sound(), "blk.0.attn_q.weight");
        write(folder, &model.without("general.quantization_version"))
    }),
];

/// The model with one of its matrices in blocks of Q8_0, each of scale 1 and levels 1.
pub fn q8_0(model: Model, name: &str) -> Model {
    let model = model.set("general.quantization_version", 2u32);
    model.with(name, |tensor| {
        let n_blocks = tensor.dims.iter().product::<u64>() as usize / 32;
        tensor.ty = 8;
        tensor.data = [&[0x00, 0x3c][..], &[1; 32]].concat().repeat(n_blocks);
    })
}

const TENSORS: &[Plant] = &[
    ("tensor-missing", |folder| {
        write(
            folder,
            &sound().without_tensors(|name| name == "blk.2.ffn_up.weight"),
        )
    }),
    ("layer-missing", |folder| {
        write(
            folder,
            &sound().without_tensors(|name| name.starts_with("blk.6.")),
        )
    }),
    ("tensor-unknown", |folder| {
        write(
            folder,
            &sound().and_tensor("blk.7.ffn_up.weight", &[8], 0, vec![1; 32]),
        )
    }),
    ("tensor-shape", |folder| {
        write(
            folder,
            &sound().with("output_norm.weight", |tensor| tensor.dims = vec![16, 2]),
        )
    }),
    ("vocabulary-size", |folder| {
        write(
            folder,
            &sound().with("token_embd.weight", |tensor| {
                tensor.dims[1] -= 2;
                tensor.data.truncate(tensor.data.len() - 2 * 4 * 32);
            }),
        )
    }),
    ("expert-count", |folder| {
        let model = sound()
            .set("llama.expert_count", 4u32)
            .set("llama.expert_used_count", 2u32);
        write(
            folder,
            &model.and_tensor("blk.0.ffn_up_exps.weight", &[4, 4, 3], 0, vec![1; 192]),
        )
    }),
    ("experts-unchecked", |folder| {
        let model = sound_of("qwen2")
            .set("qwen2.expert_count", 3u32)
            .set("qwen2.expert_used_count", 2u32);
        write(
            folder,
            &model.and_tensor("blk.0.ffn_up_exps.weight", &[4, 4, 3], 0, vec![1; 192]),
        )
    }),
    ("tensors-unchecked", |folder| {
        write(folder, &sound().and_tensor("w", &[32], 4, vec![1; 32]))
    }),
];

/// Only the words of the vocabulary matter.
fn words(folder: &Path, change: impl FnOnce(Model) -> Model) -> PathBuf {
    write(folder, &change(sound().vocabulary_only()))
}

/// The list of tokens with a change.
fn with_tokens(model: Model, change: impl FnOnce(&mut Vec<String>)) -> Model {
    let tokens = model
        .get("tokenizer.ggml.tokens")
        .as_array()
        .unwrap()
        .as_strings()
        .unwrap();
    let mut tokens: Vec<String> = tokens
        .iter()
        .map(|token| String::from_utf8(token.to_vec()).unwrap())
        .collect();
    change(&mut tokens);
    model.set("tokenizer.ggml.tokens", tokens)
}

const TOKENIZER: &[Plant] = &[
    ("no-vocabulary", |folder| {
        let mut model = sound();
        model
            .entries
            .retain(|(key, _)| !key.starts_with(b"tokenizer."));
        write(folder, &model)
    }),
    ("tokenizer-kind", |folder| {
        words(folder, |model| model.set("tokenizer.ggml.model", "t5"))
    }),
    ("tokens", |folder| {
        words(folder, |model| {
            model.set("tokenizer.ggml.tokens", vec![1u8; 10])
        })
    }),
    ("array-length", |folder| {
        words(folder, |model| {
            model.set("tokenizer.ggml.scores", vec![0.0f32; 3])
        })
    }),
    ("array-type", |folder| {
        words(folder, |model| {
            model.set("tokenizer.ggml.scores", vec![0i8; 260])
        })
    }),
    ("token-type", |folder| {
        words(folder, |model| {
            model.set("tokenizer.ggml.token_type", vec![9i32; 260])
        })
    }),
    ("duplicate-token", |folder| {
        words(folder, |model| {
            with_tokens(model, |tokens| tokens.push(tokens[0].clone()))
        })
    }),
    ("empty-token", |folder| {
        words(folder, |model| {
            with_tokens(model, |tokens| tokens[256].clear())
        })
    }),
    ("token-id-type", |folder| {
        words(folder, |model| {
            model.set("tokenizer.ggml.eos_token_id", "last")
        })
    }),
    ("token-id", |folder| {
        words(folder, |model| {
            model.set("tokenizer.ggml.eos_token_id", u32::MAX)
        })
    }),
    ("end-default", |folder| {
        words(folder, |model| model.without("tokenizer.ggml.eos_token_id"))
    }),
    ("no-end-token", |folder| {
        words(folder, |model| {
            let model = model.without("tokenizer.ggml.eos_token_id");
            let model = model.without("tokenizer.ggml.bos_token_id");
            let model = model.set("tokenizer.ggml.token_type", vec![1i32; 3]);
            with_tokens(model, |tokens| {
                *tokens = ["a", "b", "ab"].map(str::to_owned).to_vec()
            })
        })
    }),
    ("nothing-to-add", |folder| {
        words(folder, |model| {
            let model = model.without("tokenizer.ggml.bos_token_id");
            let model = model.set("tokenizer.ggml.pre", "glm4");
            model.set("tokenizer.ggml.add_bos_token", true)
        })
    }),
    ("pre-missing", |folder| {
        words(folder, |model| model.without("tokenizer.ggml.pre"))
    }),
    ("pre-unknown", |folder| {
        words(folder, |model| model.set("tokenizer.ggml.pre", "qwen22"))
    }),
    ("no-merges", |folder| {
        words(folder, |model| model.without("tokenizer.ggml.merges"))
    }),
    ("bad-merge", |folder| {
        words(folder, |model| {
            model.set("tokenizer.ggml.merges", vec!["ab".to_owned()])
        })
    }),
    ("unresolved-merge", |folder| {
        words(folder, |model| {
            model.set("tokenizer.ggml.merges", vec!["a c".to_owned()])
        })
    }),
    ("bytes-missing", |folder| {
        words(folder, |model| {
            with_tokens(model, |tokens| tokens[0] = "zz".to_owned())
        })
    }),
    ("byte-tokens-missing", |folder| {
        words(folder, |model| model.set("tokenizer.ggml.model", "llama"))
    }),
    ("charsmap", |folder| {
        words(folder, |model| {
            let model = model.set("tokenizer.ggml.model", "t5");
            model.set("tokenizer.ggml.precompiled_charsmap", vec![1u8])
        })
    }),
    ("tokenizer", |folder| {
        words(folder, |model| model.without("tokenizer.ggml.model"))
    }),
    ("control-token", |folder| {
        words(folder, |model| {
            model.set("tokenizer.ggml.token_type", vec![1i32; 260])
        })
    }),
];

const TEMPLATES: &[Plant] = &[
    ("no-template", |folder| {
        words(folder, |model| model.without("tokenizer.chat_template"))
    }),
    ("template-kind", |folder| {
        words(folder, |model| model.set("tokenizer.chat_template", 1u32))
    }),
    ("template-large", |folder| {
        words(folder, |model| {
            model.set("tokenizer.chat_template", " ".repeat((1 << 20) + 1))
        })
    }),
    ("template-syntax", |folder| {
        words(folder, |model| {
            model.set("tokenizer.chat_template", "a\n{% if %}")
        })
    }),
    ("template-render", |folder| {
        words(folder, |model| {
            model.set("tokenizer.chat_template", "{{ nonesuch() }}")
        })
    }),
    ("template-refuses", |folder| {
        let refusal =
            "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}";
        words(folder, |model| {
            model.set(
                "tokenizer.chat_template",
                format!("{refusal}{}", crate::model::TEMPLATE),
            )
        })
    }),
    ("template-drops", |folder| {
        words(folder, |model| {
            model.set("tokenizer.chat_template", "hello")
        })
    }),
    ("template-token", |folder| {
        words(folder, |model| {
            let template = crate::model::TEMPLATE.replace("im_start", "start_of_turn");
            model.set("tokenizer.chat_template", template)
        })
    }),
    ("turn-end", |folder| {
        words(folder, |model| {
            let template = crate::model::TEMPLATE.replace("im_end", "im_start");
            model.set("tokenizer.chat_template", template)
        })
    }),
    ("template-list", |folder| {
        words(folder, |model| {
            model.set("tokenizer.chat_templates", vec!["tool_use".to_owned()])
        })
    }),
];

const ENGINES: &[Plant] = &[
    ("llama-alignment", |folder| {
        let model = sound().set("general.alignment", 24u32);
        write(
            folder,
            &Model {
                alignment: 24,
                ..model
            },
        )
    }),
    ("llama-name", |folder| {
        write(
            folder,
            &sound().and_tensor(&"n".repeat(64), &[8], 0, vec![1; 32]),
        )
    }),
    ("llama-layout", |folder| {
        let last = |model: &Model| {
            let sizes = model
                .tensors
                .iter()
                .map(|tensor| tensor.data.len().next_multiple_of(32));
            sizes.sum::<usize>() as u64
        };
        let model = sound();
        let offset = last(&model) + 64;
        let mut model = model.and_tensor("w", &[8], 0, vec![1; 32]);
        model.tensor("w").offset = Some(offset);
        write(folder, &model)
    }),
    ("llama-byte-order", |folder| {
        write_bytes(folder, "big.gguf", &big_endian(gristmill_quant::Q8_0))
    }),
    ("llama-key-type", |folder| {
        write(folder, &sound().set("llama.context_length", 256u64))
    }),
    ("llama-token-type", |folder| {
        words(folder, |model| {
            let types: Vec<u8> = (0..260).map(|id| if id < 257 { 1 } else { 3 }).collect();
            model.set("tokenizer.ggml.token_type", types)
        })
    }),
    ("general-type", |folder| {
        write(folder, &sound().set("general.tags", r#"["x","y"]"#))
    }),
    ("llama-not-first", |folder| {
        shards(folder, |_, model| model);
        folder.join("model-00002-of-00002.gguf")
    }),
];

const DATA: &[Plant] = &[
    ("not-finite", |folder| {
        write(
            folder,
            &sound().with("blk.1.attn_k.weight", |tensor| {
                tensor.data[400..404].copy_from_slice(&f32::NAN.to_le_bytes());
            }),
        )
    }),
    ("all-zero", |folder| {
        write(
            folder,
            &sound().with("blk.1.attn_k.weight", |tensor| tensor.data.fill(0)),
        )
    }),
    ("unscanned", |folder| {
        let undecodable = TensorType::all().find(|ty| ty.is_quantized() && !ty.can_decode());
        let Some(ty) = undecodable else {
            // Every type can be scanned by now; F64, which no model has, stands in.
            return write(folder, &sound().and_tensor("w", &[4], 28, vec![1; 32]));
        };
        let data = vec![1; ty.block_bytes()];
        write(
            folder,
            &sound().and_tensor("w", &[ty.block_len() as u64], ty.id(), data),
        )
    }),
];

pub fn groups() -> [&'static [Plant]; 8] {
    [
        STRUCTURE, SHARDS, METADATA, TENSORS, TOKENIZER, TEMPLATES, ENGINES, DATA,
    ]
}
