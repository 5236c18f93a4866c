//! Writes the seeds of all targets into `fixtures/fuzz/TARGET/`: small good inputs, made by the builders of
//! the tests, for the fuzzer to damage.

use std::fs;
use std::path::{Path, PathBuf};

#[path = "../../crates/gguf/tests/gguf/bytes.rs"]
#[allow(dead_code)]
mod bytes;

#[path = "../../crates/template/src/tests/hostile.rs"]
mod hostile;

use bytes::{Bytes, F32, sample};
use gristmill_fuzz::{BORDER, resume, seal, write_until};
use gristmill_gguf::{Imatrix, ImatrixEntry, ImatrixForm, WriteOptions};
use hostile::{ESCAPES, HOSTILE};

fn main() {
    for (name, file) in gguf_files() {
        write("gguf_open", name, &file);
        write("gguf_edit", name, &[EDITS, &file].concat());
        write("gguf_survey", name, &file);
    }
    for (index, list) in HASH_LISTS.iter().enumerate() {
        write("hash_list", &format!("list-{index}"), list.as_bytes());
    }
    for (name, form) in [("gguf", ImatrixForm::Gguf), ("older", ImatrixForm::Legacy)] {
        write("imatrix", name, &importance_matrix(form));
    }
    write("shard_set", "two", &shards(2));
    write("shard_set", "three", &shards(3));
    for (name, file) in vocabularies() {
        write("tokenizer_load", name, &file);
    }
    for (index, text) in TEXTS.iter().enumerate() {
        write(
            "tokenizer_encode",
            &format!("text-{index}"),
            text.as_bytes(),
        );
    }
    for (name, template) in TEMPLATES {
        write("chat_template", name, template.as_bytes());
    }
    for (name, template) in HOSTILE.iter().chain(ESCAPES) {
        write(
            "chat_template",
            &format!("hostile-{name}"),
            template.as_bytes(),
        );
    }
    write("convert_checkpoint", "llama", &checkpoint(false));
    write("convert_checkpoint", "sentence-piece", &checkpoint(true));
    write("load_model", "llama", &model());
    for (name, input) in journals() {
        write("resume_journal", &name, &input);
    }
    write("undo_file", "marked", &undo_file(true));
    write("undo_file", "untouched", &undo_file(false));
}

/// Runs that were cut short after each of the tensors, and before and after the file got its name.
fn journals() -> Vec<(String, Vec<u8>)> {
    let path = gristmill_fuzz::folder().join("r.gguf");
    let beside = |suffix: &str| path.with_file_name(format!("r.gguf{suffix}"));
    let read = |suffix: &str| fs::read(beside(suffix)).expect("it was written");
    let mut inputs: Vec<(String, Vec<u8>)> = Vec::new();
    for n_done in 0..=3 {
        let mut writer = resume(&path, false).expect("nothing else is there");
        write_until(&mut writer, n_done);
        drop(writer);
        let parts = [read(".resume"), read(".partial"), Vec::new()];
        inputs.push((
            format!("done-{n_done}"),
            [&[0], &*parts.join(BORDER)].concat(),
        ));
    }
    let parts = [read(".resume"), Vec::new(), read(".partial")];
    inputs.push(("named".to_owned(), [&[1], &*parts.join(BORDER)].concat()));
    for suffix in [".resume", ".partial"] {
        fs::remove_file(beside(suffix)).expect("it is there");
    }
    inputs
}

/// A file that is to be put right by the undo file behind it, or that was not touched yet.
fn undo_file(is_marked: bool) -> Vec<u8> {
    let mut file = sample().build();
    let opened = gristmill_gguf::File::from_bytes(&file, Path::new("seed.gguf"));
    let header = file[..opened.expect("it is a good file").data_offset() as usize].to_vec();
    if is_marked {
        file[..4].copy_from_slice(b"UNDO");
    }
    let mut undo = vec![0; gristmill_fuzz::UNDO_HEAD_BYTES];
    undo[..8].copy_from_slice(b"GMILLUND");
    undo[8] = 1;
    undo.extend(header);
    seal(&mut undo, &file);
    [&[1], &*file, BORDER, &*undo].concat()
}

/// Lists of hashes as `hash`, the reference and `sha256sum` write them.
const HASH_LISTS: &[&str] = &[
    "sha256  9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  model.gguf:blk.0.attn_q.weight\n\
     xxh64  9b4dd4a1e5a1b2c3  a/model.gguf\n\
     file-sha256  9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  a/model.gguf\n",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 *model.gguf\n\
     \\9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  line\\nbreak.gguf\n\
     SHA256 (b (1).gguf) = 9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08\n",
];

/// Three edits for the target `gguf_edit`: a new entry, a longer value and a removal.
const EDITS: &[u8] = &[3, 0x41, 1, 0, 9, 0x50, 0x80, 0, 200, 3, 0x81, 0, 0];

fn write(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fixtures/fuzz")
        .join(target);
    fs::create_dir_all(&folder).expect("the folder can be made");
    let path: PathBuf = folder.join(name);
    fs::write(&path, bytes).expect("the seed can be written");
    println!("{} ({} bytes)", path.display(), bytes.len());
}

/// Sums of a matrix, and of three experts of which one saw nothing.
fn importance_matrix(form: ImatrixForm) -> Vec<u8> {
    let entry = |sums: &[f32], counts: &[f32], plain: Option<&[f32]>| {
        let plain = plain.map(<[f32]>::to_vec);
        ImatrixEntry::new(sums.to_vec(), counts.to_vec(), plain).expect("they belong together")
    };
    let mut imatrix = Imatrix::default();
    imatrix.datasets.push("text".to_owned());
    (imatrix.n_chunks, imatrix.chunk_size) = (7, 4);
    imatrix.insert("q", entry(&[2.0, 8.0], &[4.0], Some(&[-1.0, 2.0])));
    let experts = [3.0, 6.0, 0.0, 0.0, 5.0, 10.0];
    imatrix.insert("up_exps", entry(&experts, &[3.0, 0.0, 5.0], None));
    let path = gristmill_fuzz::folder().join("seed");
    let options = WriteOptions {
        force: true,
        ..WriteOptions::default()
    };
    imatrix
        .save(&path, form, &options)
        .expect("it can be written");
    fs::read(&path).expect("it was written")
}

/// A whole set, with borders between.
fn shards(count: u16) -> Vec<u8> {
    let shard = |number: u16| {
        Bytes::new()
            .entry_u16("split.no", number)
            .entry_u16("split.count", count)
            .entry("split.tensors.count", 5, &i32::from(count).to_le_bytes())
            .tensor(&format!("t{number}"), &[8], F32, 0)
            .data(&[number as u8; 32])
            .build()
    };
    let shards: Vec<Vec<u8>> = (0..count).map(shard).collect();
    shards.join(BORDER)
}

fn gguf_files() -> Vec<(&'static str, Vec<u8>)> {
    let mut version_2 = sample();
    version_2.version = 2;
    let big = Bytes::big();
    let half = [big.u16(0x3c00), vec![0; 32]].concat();
    let big = big
        .entry_u32("llama.block_count", 1)
        .tensor("q8_0", &[32], 8, 0)
        .data(&half);
    let shard = Bytes::new()
        .entry_u16("split.no", 0)
        .entry_u16("split.count", 2);
    let mut aligned = Bytes::new()
        .entry_u32("general.alignment", 64)
        .tensor("w", &[4, 2, 2], F32, 64)
        .data(&[1; 128]);
    aligned.alignment = 64;
    vec![
        ("every-kind", sample().build()),
        ("version-2", version_2.build()),
        ("big-endian", big.build()),
        (
            "shard",
            shard.tensor("w", &[8], F32, 0).data(&[0; 32]).build(),
        ),
        ("alignment-64", aligned.build()),
        ("empty", Bytes::new().build()),
    ]
}

fn vocabularies() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("byte-level", vocabulary("gpt2")),
        ("sentence-piece", vocabulary("llama")),
    ]
}

fn vocabulary(model: &str) -> Vec<u8> {
    with_vocabulary(Bytes::new(), model).build()
}

fn with_vocabulary(file: Bytes, model: &str) -> Bytes {
    let strings = |texts: &[&str]| {
        texts
            .iter()
            .flat_map(|text| file.string(text.as_bytes()))
            .collect::<Vec<u8>>()
    };
    let tokens = [
        "<unk>", "<s>", "</s>", "a", "b", "ab", "\u{2581}", "<0x41>", "<tool>",
    ];
    let types: Vec<u8> = [2u32, 3, 3, 1, 1, 1, 1, 6, 4]
        .iter()
        .flat_map(|ty| ty.to_le_bytes())
        .collect();
    let scores: Vec<u8> = (0..9).flat_map(|id| (-(id as f32)).to_le_bytes()).collect();
    let (tokens_bytes, merges) = (strings(&tokens), strings(&["a b"]));
    file.entry_string("tokenizer.ggml.model", model.as_bytes())
        .entry_string("tokenizer.ggml.pre", b"gpt-2")
        .entry_array("tokenizer.ggml.tokens", 8, 9, &tokens_bytes)
        .entry_array("tokenizer.ggml.token_type", 5, 9, &types)
        .entry_array("tokenizer.ggml.scores", 6, 9, &scores)
        .entry_array("tokenizer.ggml.merges", 8, 1, &merges)
        .entry_u32("tokenizer.ggml.bos_token_id", 1)
        .entry_u32("tokenizer.ggml.eos_token_id", 2)
        .entry("tokenizer.ggml.add_bos_token", 7, &[1])
}

const TEXTS: [&str; 6] = [
    "\0the abab the 12345 ab",
    "\x07<|end|>ab<tool>  a",
    "\x0bGood morrow,\r\n\t cousin's \u{65e5}\u{672c}\u{8a9e} \u{1f600}\u{200d} \u{e9}",
    "\x17 aaa  <s>\u{2581}ab</s><0x41> <tool>",
    "\x0ffn main() {\n    println!(\"{}\", 1_000);\n}\n",
    "\x13DON'T don't I'LL \u{0645}\u{0631}\u{062d}\u{0628}\u{0627} 3\u{00bd}",
];

const TEMPLATES: [(&str, &str); 3] = [
    (
        "turns",
        "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'system' and loop.first %}\
         [{{ message.content | trim }}]{% elif message.role not in ['user', 'assistant'] %}\
         {{ raise_exception('unknown role ' + message.role) }}{% else %}<{{ message['role'] }}>\
         {{- message['content'].split('</think>')[-1].strip() }}{{ eos_token }}{% endif %}{% endfor %}\
         {% if add_generation_prompt %}<assistant>{% endif %}",
    ),
    (
        "tools",
        "{%- set ns = namespace(found=false) %}{%- if tools is defined and tools is not none %}\
         {{- '# Tools\\n' }}{%- for tool in tools %}{{ tool | tojson(indent=2) }}{% endfor %}{%- endif %}\
         {%- for message in messages[::-1] %}{%- set i = (messages | length - 1) - loop.index0 %}\
         {%- if message.content is string and not ns.found %}{% set ns.found = true %}{{ i }}{% endif %}\
         {%- endfor %}",
    ),
    (
        "macro",
        "{% macro turn(role, content) %}{{ role.upper() }}: {{ content }}\n{% endmacro %}\
         {{ strftime_now('%d %b %Y') }}{% for m in messages %}{{ turn(m.role, m.content | default('none', true)) }}\
         {% if loop.index > 3 %}{% break %}{% endif %}{% endfor %}{{ messages | map(attribute='role') | join(', ') }}",
    ),
];

/// A Llama of one layer that runs: width 32, so that rows are whole blocks, and one head of length 2.
fn model() -> Vec<u8> {
    const F16: u32 = 1;
    let tensors: [(&str, &[u64], u32); 11] = [
        ("token_embd.weight", &[32, 9], F16),
        ("output_norm.weight", &[32], F32),
        ("blk.0.attn_norm.weight", &[32], F32),
        ("blk.0.attn_q.weight", &[32, 2], F16),
        ("blk.0.attn_k.weight", &[32, 2], F16),
        ("blk.0.attn_v.weight", &[32, 2], F16),
        ("blk.0.attn_output.weight", &[2, 32], F16),
        ("blk.0.ffn_norm.weight", &[32], F32),
        ("blk.0.ffn_gate.weight", &[32, 4], F16),
        ("blk.0.ffn_up.weight", &[32, 4], F16),
        ("blk.0.ffn_down.weight", &[4, 32], F16),
    ];
    let mut file = with_vocabulary(Bytes::new(), "llama")
        .entry_string("general.architecture", b"llama")
        .entry_u32("llama.block_count", 1)
        .entry_u32("llama.context_length", 8)
        .entry_u32("llama.embedding_length", 32)
        .entry_u32("llama.feed_forward_length", 4)
        .entry_u32("llama.attention.head_count", 1)
        .entry_u32("llama.attention.key_length", 2)
        .entry_u32("llama.attention.value_length", 2)
        .entry(
            "llama.attention.layer_norm_rms_epsilon",
            6,
            &1e-5f32.to_le_bytes(),
        );
    let mut data: Vec<u8> = Vec::new();
    for (name, dims, ty) in tensors {
        file = file.tensor(name, dims, ty, data.len() as u64);
        for index in 0..dims.iter().product::<u64>() {
            // 0.5 or 1, in either type.
            match ty {
                F16 => data.extend([0, 0x38 + 4 * (index % 2) as u8]),
                _ => data.extend([0, 0, 128 * (index % 2) as u8, 63]),
            }
        }
        data.resize(data.len().next_multiple_of(32), 0);
    }
    file.data(&data).build()
}

/// A Llama of one layer and width 8, with weights of zero and everything that may lie beside them; its tokens come from
/// `tokenizer.model` or from `tokenizer.json`.
fn checkpoint(sentence_piece: bool) -> Vec<u8> {
    let config = r#"{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":8,"intermediate_size":16,"num_attention_heads":2,"num_key_value_heads":1,"num_hidden_layers":1,"vocab_size":4,"max_position_embeddings":16,"rms_norm_eps":1e-05,"rope_theta":10000.0,"tie_word_embeddings":false,"torch_dtype":"float32","bos_token_id":0,"eos_token_id":1,"hidden_act":"silu"}"#;
    let tokenizer = r#"{"version":"1.0","added_tokens":[{"id":0,"content":"<s>","special":true,"lstrip":false,"rstrip":false,"normalized":false,"single_word":false},{"id":1,"content":"</s>","special":true,"lstrip":false,"rstrip":false,"normalized":false,"single_word":false}],"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},"post_processor":null,"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"<s>":0,"</s>":1,"a":2,"b":3},"merges":[]}}"#;
    let tokenizer_config =
        r#"{"tokenizer_class":"GPT2Tokenizer","chat_template":"{{ messages[0].content }}"}"#;
    let shapes: [(&str, &[usize]); 12] = [
        ("lm_head.weight", &[4, 8]),
        ("model.embed_tokens.weight", &[4, 8]),
        ("model.layers.0.input_layernorm.weight", &[8]),
        ("model.layers.0.mlp.down_proj.weight", &[8, 16]),
        ("model.layers.0.mlp.gate_proj.weight", &[16, 8]),
        ("model.layers.0.mlp.up_proj.weight", &[16, 8]),
        ("model.layers.0.post_attention_layernorm.weight", &[8]),
        ("model.layers.0.self_attn.k_proj.weight", &[4, 8]),
        ("model.layers.0.self_attn.o_proj.weight", &[8, 8]),
        ("model.layers.0.self_attn.q_proj.weight", &[8, 8]),
        ("model.layers.0.self_attn.v_proj.weight", &[4, 8]),
        ("model.norm.weight", &[8]),
    ];
    let mut header = serde_json::Map::new();
    let mut n_bytes = 0;
    for (name, shape) in shapes {
        let end = n_bytes + shape.iter().product::<usize>() * 4;
        header.insert(
            name.to_owned(),
            serde_json::json!({ "dtype": "F32", "shape": shape, "data_offsets": [n_bytes, end] }),
        );
        n_bytes = end;
    }
    let header = serde_json::Value::Object(header).to_string();
    let map = shapes.map(|(name, _)| (name.to_owned(), "model.safetensors".into()));
    let map: serde_json::Map<String, serde_json::Value> = map.into_iter().collect();
    let index = serde_json::json!({ "weight_map": map }).to_string();
    let card = "---\nlicense: mit\ntags: [a,\n  'b']\nbase_model:\n- org/Name-1B\n---\n";
    let parts: [&[u8]; 10] = [
        config.as_bytes(),
        if sentence_piece {
            b""
        } else {
            tokenizer.as_bytes()
        },
        tokenizer_config.as_bytes(),
        if sentence_piece { PIECES } else { b"" },
        br#"{"<more>": 3}"#,
        br#"{"bos_token": "<s>", "eos_token": {"content": "</s>"}}"#,
        br#"{"temperature": 0.6, "top_k": 20, "eos_token_id": [1]}"#,
        b"{{ messages[0].content }}",
        card.as_bytes(),
        index.as_bytes(),
    ];
    let mut out = Vec::new();
    for part in parts {
        out.extend(part);
        out.extend(b"\n%%%\n");
    }
    out.extend((header.len() as u64).to_le_bytes());
    out.extend(header.as_bytes());
    out.resize(out.len() + n_bytes, 0);
    out
}

/// A SentencePiece model of three pieces (text, score, kind) by byte-pair encoding.
const PIECES: &[u8] = b"\
    \x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02\
    \x0a\x0c\x0a\x03<s>\x15\0\0\0\0\x18\x03\
    \x0a\x0a\x0a\x01a\x15\0\0\x80\xbf\x18\x01\
    \x12\x02\x18\x02";
