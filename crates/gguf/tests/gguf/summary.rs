//! The facts of a model at a glance.

use gristmill_gguf::{FileType, Kind, Model, Summary, role};

use crate::bytes::{Bytes, F32, Q4_0, Q8_0};

#[test]
fn roles_come_from_names() {
    for (name, expected) in [
        ("blk.0.attn_q.weight", "attn_q"),
        ("blk.12.ffn_down_exps.weight", "ffn_down_exps"),
        ("blk.3.attn_q.bias", "bias"),
        ("blk.3.attn_q_norm.weight", "norm"),
        ("output_norm.weight", "norm"),
        ("output.weight", "output"),
        ("token_embd.weight", "token_embd"),
        ("rope_freqs.weight", "rope_freqs"),
        ("blk.0.attn_q.weight.lora_a", "attn_q"),
        ("blk.x.attn_q.weight", "blk.x.attn_q"),
        ("odd", "odd"),
        ("", ""),
    ] {
        assert_eq!(role(name), expected, "{name}");
    }
}

#[test]
fn file_types_have_names_and_labels() {
    let medium = FileType::from_id(15);
    assert_eq!(
        (medium.name, medium.label, medium.guessed),
        (Some("Q4_K_M"), Some("Q4_K - Medium"), false)
    );
    let guessed = FileType::from_id(1024 + 2);
    assert_eq!((guessed.name, guessed.guessed), (Some("Q4_0"), true));
    assert_eq!(FileType::from_id(5).name, None);
    assert_eq!(FileType::from_id(u32::MAX).name, None);
}

#[test]
fn a_model_is_summed_up() {
    let bytes = Bytes::new();
    let tokens = [bytes.string(b"a"), bytes.string(b"b")].concat();
    let file = bytes
        .entry_string("general.architecture", b"llama")
        .entry_string("general.name", b"Tiny \xff")
        .entry_u32("general.file_type", 2)
        .entry_u32("llama.context_length", 128)
        .entry_u16("llama.block_count", 1)
        .entry_array("tokenizer.ggml.tokens", 8, 2, &tokens)
        .tensor("token_embd.weight", &[32, 2], Q8_0, 0)
        .tensor("blk.0.attn_q.weight", &[32, 32], Q4_0, 96)
        .tensor("blk.0.attn_norm.weight", &[32], F32, 672)
        .tensor("output_norm.weight", &[32], F32, 800)
        .data(&[0; 928]);
    let summary = Summary::of(&Model::of_file(file.open().unwrap()).unwrap());
    assert_eq!((summary.kind, summary.n_tensors()), (Kind::Model, 4));
    assert_eq!(summary.name.as_deref(), Some("Tiny \\xff"));
    assert_eq!(
        (summary.context_length, summary.n_blocks, summary.n_tokens),
        (Some(128), Some(1), Some(2))
    );
    assert_eq!(summary.file_type.unwrap().name, Some("Q4_0"));
    assert!(!summary.has_template);
    assert_eq!(summary.n_parameters, 64 + 1024 + 64);
    // 2 × 34, 32 × 18, 2 × 128 bytes.
    assert_eq!(summary.data_bytes, 68 + 576 + 256);
    assert_eq!(summary.bits_per_weight(), Some(900.0 * 8.0 / 1152.0));
    let types: Vec<(String, usize, u64)> = summary
        .types
        .iter()
        .map(|share| (share.ty.to_string(), share.n_tensors, share.bytes))
        .collect();
    assert_eq!(
        types,
        [
            ("q4_0".into(), 1, 576),
            ("f32".into(), 2, 256),
            ("q8_0".into(), 1, 68)
        ]
    );
    let roles: Vec<&str> = summary
        .roles
        .iter()
        .map(|share| share.role.as_str())
        .collect();
    assert_eq!(roles, ["token_embd", "attn_q", "norm"]);
    assert_eq!(summary.roles[2].types[0].n_tensors, 2);

    let nothing = Summary::of(&Model::of_file(Bytes::new().open().unwrap()).unwrap());
    assert_eq!(
        (
            nothing.bits_per_weight(),
            nothing.architecture.clone(),
            nothing.n_tensors()
        ),
        (None, None, 0)
    );
}
