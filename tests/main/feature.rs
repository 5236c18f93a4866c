//! What the commands do when all goes well, and the forms of help and usage errors.

use insta::assert_snapshot;

use crate::harness::Workplace;

#[test]
fn version_names_commit_target_instruction_set_and_backends() {
    let shown = Workplace::new().run("gristmill --version");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "exit: 0");
    for (line, start) in lines[2..].iter().zip([
        "gristmill ",
        "commit: ",
        "target: ",
        "instruction set: ",
        "backends: cpu",
    ]) {
        assert!(line.starts_with(start), "{shown}");
    }
}

#[test]
fn wrong_usage_exits_with_2_and_under_a_reference_name_with_1() {
    let place = Workplace::new();
    assert_snapshot!(place.run("gristmill links"), @r"
    exit: 2
    --- stderr
    error: the following required arguments were not provided:
      <DIR>

    Usage: gristmill links <DIR>

    For more information, try '--help'.
    ");
    assert_snapshot!(place.run("gristmill grind"), @r"
    exit: 2
    --- stderr
    error: unrecognized subcommand 'grind'

    Usage: gristmill <COMMAND>

    For more information, try '--help'.
    ");
}

#[test]
fn a_reference_name_without_a_command_is_refused() {
    assert_snapshot!(Workplace::new().run("llama-frobnicate -m x.gguf"), @r"
    exit: 1
    --- stderr
    error: no command of gristmill stands for llama-frobnicate
    hint: `gristmill links DIR` makes a link for every reference name that has one
    ");
}

/// A model of two tensors, one entry of each kind that matters to `inspect`.
fn small_model(place: &Workplace) {
    use gristmill_gguf::{Metadata, TensorPlan, WriteOptions, Writer};

    let mut metadata = Metadata::new();
    metadata.set("general.architecture", "llama");
    metadata.set("general.name", "Small\u{1b}[2J one");
    metadata.set("general.file_type", 0u32);
    metadata.set("llama.context_length", 64u32);
    let tokens: Vec<String> = (0..14).map(|id| format!("t{id}")).collect();
    metadata.set("tokenizer.ggml.tokens", tokens);
    let plan = |name: &str, dims: &[u64]| TensorPlan {
        name: name.to_string(),
        dims: dims.to_vec(),
        ty: gristmill_quant::F32,
    };
    let plans = [
        plan("token_embd.weight", &[8, 14]),
        plan("output_norm.weight", &[8]),
    ];
    let options = WriteOptions::default();
    let mut writer = Writer::create(&place.path("small.gguf"), &metadata, &plans, &options)
        .expect("the folder is empty");
    writer.write(&[0; 8 * 14 * 4]).expect("it follows the plan");
    writer.write(&[0; 8 * 4]).expect("it follows the plan");
    writer.finish().expect("everything is written");
}

#[test]
fn inspect_shows_a_model() {
    let place = Workplace::new();
    small_model(&place);
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
    recipe label     all F32 (general.file_type 0)
    bits per weight  32.0000 in 480 bytes of tensor data; 64.0000 with metadata and padding

    type       tensors        elements            size   share
    f32              2             120       480 bytes 100.00%

    role             types (tensors of each)
    token_embd       f32 × 1
    norm             f32 × 1

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
