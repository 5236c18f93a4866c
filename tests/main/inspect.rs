//! `inspect`: what is shown of a file, in which form, and at which cost.

use std::time::{Duration, Instant};

use gristmill_gguf::{Metadata, Text, Value};
use gristmill_quant::{F32, Q8_0};
use insta::assert_snapshot;

use crate::fixtures::{plan, two_tensors, write_model};
use crate::harness::Workplace;

#[test]
fn a_model_as_text() {
    let place = Workplace::new();
    two_tensors(&place);
    assert_snapshot!(place.run("gristmill inspect small.gguf --metadata --tensors"), @r#"
    exit: 0
    --- stdout
    file             small.gguf
    container        GGUF version 3, little-endian, 960 bytes
    kind             a model
    name             Small\u{1b}[2J one
    architecture     llama
    parameters       120 (2 tensors)
    layers           not given
    embedding        not given
    context          64
    vocabulary       14 tokens
    chat template    none
    recipe label     F32 (general.file_type 0)
    bits per weight  32.0000 in 480 bytes of tensor data; 64.0000 with metadata and padding

    type       tensors        elements            size   share
    f32              2             120       480 bytes 100.00%

    role                        size   share  bits/weight  types (tensors of each)
    token_embd             448 bytes  93.33%      32.0000  f32 × 1
    norm                    32 bytes   6.67%      32.0000  f32 × 1

    metadata (5 of 5 entries)
      STRING            general.architecture = "llama"
      STRING            general.name = "Small\u{1b}[2J one"
      UINT32            general.file_type = 0
      UINT32            llama.context_length = 64
      ARRAY of STRING   tokenizer.ggml.tokens = ["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9", "t10", "t11", …] (14)

    tensors (2 of 2): type, dimensions, file and byte, name
      f32       8 × 14                1:480           token_embd.weight
      f32       8                     1:928           output_norm.weight
    "#);
    assert_eq!(
        place.run("gristmill inspect small.gguf -v"),
        place.run("gristmill inspect small.gguf --metadata --tensors")
    );
}

#[test]
fn a_model_as_json() {
    let place = Workplace::new();
    two_tensors(&place);
    assert_snapshot!(place.run("gristmill inspect small.gguf --json --metadata-limit 2 --tensor-limit 1"), @r#"
    exit: 0
    --- stdout
    {
      "path": "small.gguf",
      "file_size": 960,
      "version": 3,
      "endian": "little",
      "tensor_count": 2,
      "metadata_count": 5,
      "alignment": 32,
      "directory_end": 479,
      "tensor_data_offset": 480,
      "summary": {
        "kind": "model",
        "name": "Small\u001b[2J one",
        "architecture": "llama",
        "parameters": 120,
        "context_length": 64,
        "block_count": null,
        "embedding_length": null,
        "vocabulary_size": 14,
        "tokenizer": null,
        "pre_tokenizer": null,
        "chat_template": false,
        "file_type": 0,
        "file_type_name": "all F32",
        "file_bytes": 960,
        "data_bytes": 480,
        "bits_per_weight": 32.0,
        "file_bits_per_weight": 64.0,
        "types": [
          {
            "type": "f32",
            "tensors": 2,
            "elements": 120,
            "bytes": 480
          }
        ],
        "roles": {
          "token_embd": [
            {
              "type": "f32",
              "tensors": 1,
              "elements": 112,
              "bytes": 448
            }
          ],
          "norm": [
            {
              "type": "f32",
              "tensors": 1,
              "elements": 8,
              "bytes": 32
            }
          ]
        },
        "shards": [
          {
            "shard": 0,
            "path": "small.gguf",
            "file_size": 960,
            "tensors": 2
          }
        ]
      },
      "metadata": {
        "general.architecture": {
          "type": "STRING",
          "value": "llama"
        },
        "general.name": {
          "type": "STRING",
          "value": "Small\u001b[2J one"
        }
      },
      "metadata_truncated": true,
      "tensors": [
        {
          "name": "token_embd.weight",
          "dimensions": [
            8,
            14
          ],
          "ggml_type": 0,
          "ggml_type_name": "f32",
          "relative_offset": 0,
          "absolute_offset": 480,
          "bytes": 448,
          "shard": 0
        }
      ],
      "tensors_truncated": true
    }
    "#);
}

#[test]
fn a_model_as_markdown() {
    let place = Workplace::new();
    two_tensors(&place);
    assert_snapshot!(place.run("gristmill inspect small.gguf --markdown --preview 3"), @r#"
    exit: 0
    --- stdout
    # small.gguf

    | | |
    |---|---|
    | file | small.gguf |
    | container | GGUF version 3, little-endian, 960 bytes |
    | kind | a model |
    | name | Small\\u{1b}\[2J one |
    | architecture | llama |
    | parameters | 120 (2 tensors) |
    | layers | not given |
    | embedding | not given |
    | context | 64 |
    | vocabulary | 14 tokens |
    | chat template | none |
    | recipe label | F32 (general.file_type 0) |
    | bits per weight | 32.0000 in 480 bytes of tensor data; 64.0000 with metadata and padding |

    ## Types

    | type | tensors | elements | size | share |
    |---|--:|--:|--:|--:|
    | f32 | 2 | 120 | 480 bytes | 100.00% |

    ## Roles

    | role | size | share | bits per weight | types |
    |---|--:|--:|--:|---|
    | `token_embd` | 448 bytes | 93.33% | 32.0000 | f32 × 1 |
    | `norm` | 32 bytes | 6.67% | 32.0000 | f32 × 1 |

    ## Metadata (5 of 5 entries)

    | key | type | value |
    |---|---|---|
    | `general.architecture` | STRING | `"llama"` |
    | `general.name` | STRING | `"Small\u{1b}[2J one"` |
    | `general.file_type` | UINT32 | `0` |
    | `llama.context_length` | UINT32 | `64` |
    | `tokenizer.ggml.tokens` | ARRAY of STRING | `["t0", "t1", "t2", …] (14)` |

    ## Tensors (2 of 2)

    Dimensions in the file's order, the contiguous one first; `byte` counts from the start of the tensor's file.

    | name | type | dimensions | bits per weight | bytes | byte |
    |---|---|---|--:|--:|--:|
    | `token_embd.weight` | f32 | 8 × 14 | 32.0000 | 448 | 480 |
    | `output_norm.weight` | f32 | 8 | 32.0000 | 32 | 928 |
    "#);
}

/// One value of every kind, and numbers that JSON has no words for.
#[test]
fn every_kind_of_value() {
    let place = Workplace::new();
    let mut metadata = Metadata::new();
    metadata.set("a.u8", 200u8);
    metadata.set("a.i8", -1i8);
    metadata.set("a.u16", 60_000u16);
    metadata.set("a.i16", -2i16);
    metadata.set("a.i32", -3i32);
    metadata.set("a.f32", 0.1f32);
    metadata.set("a.nan", f32::NAN);
    metadata.set("a.u64", u64::MAX);
    metadata.set("a.i64", i64::MIN);
    metadata.set("a.f64", f64::NEG_INFINITY);
    metadata.set("a.bool", true);
    metadata.set("b.f32", vec![0.5f32, f32::INFINITY]);
    metadata.set("b.bool", vec![true, false]);
    metadata.set("b.none", Vec::<String>::new());
    metadata.set("b.text", vec!["one".to_owned(), "\u{2581}two".to_owned()]);
    write_model(&place, "kinds.gguf", &metadata, &[]);
    assert_snapshot!(place.run("gristmill inspect kinds.gguf --metadata"), @r#"
    exit: 0
    --- stdout
    file             kinds.gguf
    container        GGUF version 3, little-endian, 407 bytes
    kind             a vocabulary without weights
    name             not given
    architecture     not given
    parameters       0 (0 tensors)
    layers           not given
    embedding        not given
    context          not given
    vocabulary       none
    chat template    none
    recipe label     not given

    metadata (15 of 15 entries)
      UINT8             a.u8 = 200
      INT8              a.i8 = -1
      UINT16            a.u16 = 60000
      INT16             a.i16 = -2
      INT32             a.i32 = -3
      FLOAT32           a.f32 = 0.1
      FLOAT32           a.nan = NaN
      UINT64            a.u64 = 18446744073709551615
      INT64             a.i64 = -9223372036854775808
      FLOAT64           a.f64 = -inf
      BOOL              a.bool = true
      ARRAY of FLOAT32  b.f32 = [0.5, inf] (2)
      ARRAY of BOOL     b.bool = [true, false] (2)
      ARRAY of STRING   b.none = [] (0)
      ARRAY of STRING   b.text = ["one", "▁two"] (2)
    "#);
    let values = |key: &str| {
        let shown = place.run(&format!("gristmill inspect kinds.gguf --get {key}"));
        shown.trim_start_matches("exit: 0\n--- stdout\n").to_owned()
    };
    let keys = [
        "a.u8", "a.f32", "a.nan", "a.u64", "a.i64", "a.f64", "a.bool", "b.f32", "b.bool", "b.none",
        "b.text",
    ];
    let shown: Vec<String> = keys
        .iter()
        .map(|key| format!("{key} {}", values(key)))
        .collect();
    assert_snapshot!(shown.join("\n"), @r#"
    a.u8 200
    a.f32 0.1
    a.nan "NaN"
    a.u64 18446744073709551615
    a.i64 -9223372036854775808
    a.f64 "-Infinity"
    a.bool true
    b.f32 [0.5,"Infinity"]
    b.bool [true,false]
    b.none []
    b.text ["one","▁two"]
    "#);
}

/// B13: bytes that are no UTF-8 are shown escaped, and given as they are where they are asked for.
#[test]
fn b13_text_is_shown_safely_and_given_exactly() {
    let place = Workplace::new();
    let mut metadata = Metadata::new();
    let template = "{{ '\u{2581}<|im_end|>' }}\n\u{1b}[31m\u{202e}";
    metadata.set("tokenizer.chat_template", template);
    metadata.set("b.bytes", Value::String(Text::from_bytes(b"\xa1ok")));
    let tokens: gristmill_gguf::StringArray = [&b"\xa1"[..], b"a"].into_iter().collect();
    metadata.set("tokenizer.ggml.tokens", tokens);
    write_model(&place, "text.gguf", &metadata, &[]);
    assert_snapshot!(place.run("gristmill inspect text.gguf --metadata"), @r#"
    exit: 0
    --- stdout
    file             text.gguf
    container        GGUF version 3, little-endian, 190 bytes
    kind             a vocabulary without weights
    name             not given
    architecture     not given
    parameters       0 (0 tensors)
    layers           not given
    embedding        not given
    context          not given
    vocabulary       2 tokens
    chat template    present
    recipe label     not given

    metadata (3 of 3 entries)
      STRING            tokenizer.chat_template = "{{ '▁<|im_end|>' }}\n\u{1b}[31m\u{202e}"
      STRING            b.bytes = "\xa1ok"
      ARRAY of STRING   tokenizer.ggml.tokens = ["\xa1", "a"] (2)
    "#);
    assert_snapshot!(place.run("gristmill inspect text.gguf --get tokenizer.ggml.tokens"), @r#"
    exit: 0
    --- stdout
    [{"bytes":"a1"},"a"]
    "#);
    let get = |key: &str| {
        let mut command = place.command("gristmill");
        let output = command
            .args(["inspect", "text.gguf", "--get", key])
            .output();
        output.expect("the binary starts").stdout
    };
    assert_eq!(get("tokenizer.chat_template"), template.as_bytes());
    assert_eq!(get("b.bytes"), b"\xa1ok");
    assert_snapshot!(place.run("gristmill inspect text.gguf --get tokenizer.ggml.eos"), @r#"
    exit: 1
    --- stderr
    error: text.gguf: has no key "tokenizer.ggml.eos"
    hint: `--metadata` lists the keys
    "#);
    assert_snapshot!(place.run("gristmill inspect text.gguf --get general.tokens"), @r#"
    exit: 1
    --- stderr
    error: text.gguf: has no key "general.tokens"
    hint: it has tokenizer.ggml.tokens; `--metadata` lists all
    "#);
}

#[test]
fn wide_names_line_up() {
    let place = Workplace::new();
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", "llama");
    let plans = [
        plan("注意力的投影矩阵.weight", F32, &[8, 2]),
        plan("blk.0.ffn_gate.weight", Q8_0, &[32, 2]),
        plan("a|b`c.weight", F32, &[8]),
    ];
    write_model(&place, "wide.gguf", &metadata, &plans);
    assert_snapshot!(place.run("gristmill inspect wide.gguf"), @r"
    exit: 0
    --- stdout
    file             wide.gguf
    container        GGUF version 3, little-endian, 448 bytes
    kind             a model
    name             not given
    architecture     llama
    parameters       88 (3 tensors)
    layers           not given
    embedding        not given
    context          not given
    vocabulary       none
    chat template    none
    recipe label     not given
    bits per weight  14.9091 in 164 bytes of tensor data; 40.7273 with metadata and padding

    type       tensors        elements            size   share
    f32              2              24        96 bytes  58.54%
    q8_0             1              64        68 bytes  41.46%

    role                        size   share  bits/weight  types (tensors of each)
    注意力的投影矩阵        64 bytes  39.02%      32.0000  f32 × 1
    ffn_gate                68 bytes  41.46%       8.5000  q8_0 × 1
    a|b`c                   32 bytes  19.51%      32.0000  f32 × 1
    ");
    let markdown = place.run("gristmill inspect wide.gguf --markdown");
    assert!(
        markdown.contains("| `` a\\|b`c.weight `` | f32 | 8 |"),
        "{markdown}"
    );
}

#[test]
fn the_habits_of_gguf_dump() {
    let place = Workplace::new();
    two_tensors(&place);
    assert_snapshot!(place.run("gristmill inspect --data-offset small.gguf"), @r"
    exit: 0
    --- stdout
    480
    ");
    assert_snapshot!(place.run("gristmill inspect --data-alignment small.gguf"), @r"
    exit: 0
    --- stdout
    32
    ");
    let all = place.run("gristmill inspect --json --json-array --no-tensors small.gguf");
    assert!(
        all.contains("\"items\": [") && all.contains("\"t13\""),
        "{all}"
    );
    assert!(all.contains("\"tensors\": []"), "{all}");
    let markdown = place.run("gristmill inspect --markdown --no-tensors small.gguf");
    assert!(!markdown.contains("## Tensors"), "{markdown}");
    assert_snapshot!(place.run("gristmill inspect --json --markdown small.gguf"), @r"
    exit: 2
    --- stderr
    error: the argument '--json' cannot be used with '--markdown'

    Usage: gristmill inspect --json <MODEL>

    For more information, try '--help'.
    ");
}

/// A vocabulary of 400,000 tokens is shown whole in the time of its bytes.
#[test]
fn a_large_vocabulary_is_shown_fast() {
    let place = Workplace::new();
    let mut metadata = Metadata::new();
    let tokens: Vec<String> = (0..400_000).map(|id| format!("token{id}")).collect();
    metadata.set("tokenizer.ggml.tokens", tokens);
    metadata.set("tokenizer.ggml.scores", vec![-1.5f32; 400_000]);
    write_model(&place, "large.gguf", &metadata, &[]);
    for line in [
        "gristmill inspect large.gguf",
        "gristmill inspect large.gguf --json --full",
    ] {
        let start = Instant::now();
        let shown = place.run(line);
        println!("{line}: {:?}, {} bytes", start.elapsed(), shown.len());
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{:?}",
            start.elapsed()
        );
        assert!(shown.contains("400000"));
    }
    assert!(
        place
            .run("gristmill inspect large.gguf --json --full")
            .contains("\"token399999\"")
    );
}

/// A file of 100 GB, nearly all of it a hole: nothing of it is read but its head.
#[test]
#[cfg(target_os = "linux")]
fn tensor_data_is_never_touched() {
    let place = Workplace::new();
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", "llama");
    write_model(&place, "head.gguf", &metadata, &[plan("w", F32, &[1])]);
    let mut bytes = std::fs::read(place.path("head.gguf")).expect("the file can be read");
    // The dimension of the one tensor stands behind its name and their number.
    let name = [1u64.to_le_bytes().as_slice(), b"w", &1u32.to_le_bytes()].concat();
    let at = bytes.windows(name.len()).position(|part| part == name);
    let at = at.expect("the directory names the tensor") + name.len();
    let n_elements = 25_000_000_000u64;
    bytes[at..at + 8].copy_from_slice(&n_elements.to_le_bytes());
    let path = place.write("sparse.gguf", &bytes);
    let file = std::fs::File::options().write(true).open(path);
    let file = file.expect("the file can be opened");
    file.set_len(bytes.len() as u64 - 32 + n_elements * 4)
        .expect("the disk knows holes");
    let start = Instant::now();
    let shown = place.run("gristmill inspect sparse.gguf --metadata --tensors");
    println!("a file of 100 GB: {:?}", start.elapsed());
    assert!(
        shown.contains("25000000000 = 25.00 B (1 tensor)"),
        "{shown}"
    );
    // Reading it would take a hundred times as long; without a busy machine it takes a few milliseconds.
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn what_is_there_of_an_incomplete_set_is_shown() {
    let place = Workplace::new();
    place.run("gristmill demo .");
    let model = place
        .files()
        .into_iter()
        .find(|name| name.ends_with(".gguf"));
    let model = model.expect("the demo makes a file");
    place.run(&format!(
        "gristmill split --split-max-tensors 20 {model} part"
    ));
    let parts: Vec<String> = place
        .files()
        .into_iter()
        .filter(|name| name.starts_with("part-"))
        .collect();
    assert!(parts.len() > 1, "{parts:?}");
    let offsets = [&parts[0], &parts[1]].map(|part| {
        let shown = place.run(&format!("gristmill inspect --data-offset {part}"));
        shown
            .split_whitespace()
            .last()
            .expect("a number")
            .to_owned()
    });
    assert_ne!(offsets[0], offsets[1]);
    std::fs::remove_file(place.path(&parts[1])).expect("it is there");
    let shown = place.run(&format!(
        "gristmill inspect --get general.architecture {}",
        parts[0]
    ));
    assert!(
        shown.starts_with("exit: 0\n--- stdout\nllama\n--- stderr\nwarning: "),
        "{shown}"
    );
    assert!(shown.contains(&parts[1]), "{shown}");
}
