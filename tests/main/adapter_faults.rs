//! Adapters and control vectors that are damaged, too large, or would change nothing: named, with the remedy.

use gristmill_gguf::File;
use insta::assert_snapshot;
use serde_json::json;

use crate::adapters::{Named, adapter, done, of_tensors, two_pairs, values, with_adapters};
use crate::fixtures::with_model;
use crate::harness::{Workplace, tiny};

/// What makes a file an adapter for an architecture.
fn lora(architecture: &'static str) -> [(&'static str, &'static str); 3] {
    [
        ("general.architecture", architecture),
        ("general.type", "adapter"),
        ("adapter.type", "lora"),
    ]
}

const DIRECTIONS: &[(&str, &str)] = &[("general.architecture", "controlvector")];

/// A pair for a feed-forward matrix of the embedded model, as GGUF has it.
fn pair_for_up() -> [Named; 2] {
    [
        ("blk.0.ffn_up.weight.lora_a", vec![256, 4], values(1024, 1)),
        ("blk.0.ffn_up.weight.lora_b", vec![4, 512], values(2048, 2)),
    ]
}

/// What every command says that computes with the flags.
fn each(place: &Workplace, flags: &str) -> [String; 3] {
    [
        "logits a.gguf --tokens 1,2 -o out.npy",
        "run a.gguf -no-cnv -p hi -n 2 --log-disable --check-tensors",
        "embed a.gguf -p hi --pooling mean",
    ]
    .map(|command| place.run(&format!("gristmill {command} {flags}")))
}

/// The same, of flags that it refuses in the same words.
fn refused(place: &Workplace, flags: &str) -> String {
    let [one, rest @ ..] = each(place, flags);
    assert!(one.starts_with("exit: 1"), "{one}");
    assert_eq!(rest, [one.clone(), one.clone()]);
    one
}

#[test]
fn what_is_not_finite_is_named_and_not_applied() {
    let place = with_model();
    let mut pair = pair_for_up();
    pair[1].2[3] = f32::NAN;
    of_tensors(&place, "nan.gguf", &lora("llama"), &pair);
    let infinite = [("direction.2", vec![256], vec![f32::INFINITY; 256])];
    of_tensors(&place, "infinite.gguf", DIRECTIONS, &infinite);
    assert_snapshot!(refused(&place, "--lora nan.gguf"), @r"
    exit: 1
    --- stderr
    error: nan.gguf: cannot be applied: tensor `blk.0.ffn_up.weight.lora_b` holds NaN or infinity
    hint: the weights are damaged or hold values out of range: `gristmill check FILE` names the tensors; or compare the file's hash with its source
    ");
    assert_snapshot!(refused(&place, "--control-vector infinite.gguf"), @r"
    exit: 1
    --- stderr
    error: infinite.gguf: cannot be applied: tensor `direction.2`: it holds NaN or infinity
    hint: make the control vector again, with this model
    ");
    let shown = place.run("gristmill check nan.gguf");
    let lines: Vec<&str> = shown.lines().take(5).collect();
    assert_snapshot!(lines.join("\n"), @r"
    exit: 1
    --- stdout
    error[not-finite] at tensor blk.0.ffn_up.weight.lora_b, byte 4396
      1 of 2048 numbers (f32) are not finite; the first is element 3
      remedy: no engine can use it so: compare the hash with its source and fetch the file again, or train or make it again
    ");
    let shown = place.run("gristmill check infinite.gguf");
    assert!(
        shown.contains("error[not-finite] at tensor direction.2"),
        "{shown}"
    );
    assert!(shown.contains("train or make it again"), "{shown}");
}

#[test]
fn what_is_not_finite_is_neither_converted_nor_merged() {
    let place = with_model();
    let mut pairs = two_pairs();
    pairs[1].2[0] = f32::NAN;
    adapter(&place, "source", &pairs, json!({}));
    adapter(&place, "huge", &two_pairs(), json!({"lora_alpha": 3e38}));
    let mut pair = pair_for_up();
    pair[0].2[1023] = f32::NEG_INFINITY;
    of_tensors(&place, "lora.gguf", &lora("llama"), &pair);
    let before = place.files();
    assert_snapshot!(place.run("gristmill convert-lora source -o out.gguf"), @r"
    exit: 1
    --- stderr
    error: source/adapter_model.safetensors: `base_model.model.model.layers.0.mlp.up_proj.lora_B.weight` holds NaN or infinity
    hint: compare the file's hash with its source and download it again; where that is the same, training went wrong
    ");
    assert_snapshot!(place.run("gristmill quantize --lora source a.gguf merged.gguf Q4_0"), @r"
    exit: 1
    --- stderr
    error: source/adapter_model.safetensors: `base_model.model.model.layers.0.mlp.up_proj.lora_B.weight` holds NaN or infinity
    hint: compare the file's hash with its source and download it again; where that is the same, training went wrong
    ");
    assert_snapshot!(place.run("gristmill quantize --lora lora.gguf a.gguf merged.gguf Q4_0"), @r"
    exit: 1
    --- stderr
    error: lora.gguf: `blk.0.ffn_up.weight.lora_a` holds NaN or infinity
    hint: compare the file's hash with its source and download it again; where that is the same, training went wrong
    ");
    let base = tiny().display().to_string();
    let words = [
        "gristmill",
        "convert",
        &base,
        "--lora",
        "lora.gguf",
        "-o",
        "merged.gguf",
    ];
    let shown = place.run_words(&words);
    assert!(
        shown.contains("error: lora.gguf: `blk.0.ffn_up.weight.lora_a` holds NaN or infinity"),
        "{shown}"
    );
    assert_snapshot!(place.run("gristmill quantize --lora-scaled huge:1e30 a.gguf merged.gguf Q8_0"), @r"
    exit: 1
    --- stderr
    error: huge: what it adds to `blk.0.ffn_up.weight` is not finite
    hint: its scale or its values are huge: give a smaller scale with --lora-scaled, or train it again
    ");
    assert_eq!(place.files(), before);
}

#[test]
fn what_a_scale_makes_infinite_names_the_adapters() {
    let place = with_adapters();
    let huge = "--lora-scaled lora.gguf:3e38 --control-vector control.gguf";
    let [logits, run, embed] = each(&place, huge);
    assert_snapshot!(logits, @r"
    exit: 1
    --- stderr
    error: a.gguf with lora.gguf, control.gguf: position 0: the logit of token 0 is NaN
    hint: no value of the adapters is NaN or infinite, but they or their scales may be too large: give smaller ones with --lora-scaled or --control-vector-scaled; if it is the same without them, `gristmill check` tells what is wrong with the model
    ");
    for shown in [run, embed] {
        assert!(shown.starts_with("exit: 1"), "{shown}");
        assert!(
            shown.contains("error: a.gguf with lora.gguf, control.gguf: ")
                && shown.contains("give smaller ones with --lora-scaled"),
            "{shown}"
        );
    }
    let factors = "control.gguf:3e38,control.gguf:3e38,control.gguf:3e38,control.gguf:3e38";
    let twelve = format!("{factors},{factors},{factors}");
    assert_snapshot!(refused(&place, &format!("--control-vector-scaled {twelve}")), @r"
    exit: 1
    --- stderr
    error: control.gguf: the directions of layer 1, times their factors, are not finite
    hint: give smaller factors with --control-vector-scaled
    ");
}

#[test]
fn control_vectors_that_change_nothing_are_refused() {
    let place = with_adapters();
    of_tensors(&place, "empty.gguf", DIRECTIONS, &[]);
    let zeros = [("direction.1", vec![256], vec![0.0; 256])];
    of_tensors(&place, "zeros.gguf", DIRECTIONS, &zeros);
    // The model has four layers, and none gets what stands behind the last.
    let last = [("direction.4", vec![256], values(256, 1))];
    of_tensors(&place, "last.gguf", DIRECTIONS, &last);
    assert_snapshot!(refused(&place, "--control-vector empty.gguf"), @r"
    exit: 1
    --- stderr
    error: empty.gguf: cannot be applied: the control vector changes nothing: it holds no direction for a layer of this model
    hint: make the control vector again, with this model, or leave it out
    ");
    assert_snapshot!(refused(&place, "--control-vector zeros.gguf"), @r"
    exit: 1
    --- stderr
    error: zeros.gguf: cannot be applied: the control vector changes nothing: its directions are all zero
    hint: make the control vector again, with this model, or leave it out
    ");
    assert!(
        refused(&place, "--control-vector-scaled last.gguf:2")
            .contains("last.gguf: cannot be applied: the control vector changes nothing")
    );
    let range = |range: &str| {
        let flags = "--control-vector control.gguf --control-vector-layer-range";
        let line = format!("gristmill logits a.gguf --tokens 1 -o out.npy --force {flags} {range}");
        place.run(&line)
    };
    assert_snapshot!(range("3 2"), @r"
    exit: 1
    --- stderr
    error: layers 3 to 2 are no range within the model's, 1 to 4
    hint: give the first and then the last layer with --control-vector-layer-range; 0 is for those of the model
    ");
    for wrong in ["1 5", "5 5", "5 0", "9 1"] {
        let shown = range(wrong);
        assert!(
            shown.starts_with("exit: 1") && shown.contains("no range within the model's, 1 to 4"),
            "{shown}"
        );
    }
    let out = |flags: &str| {
        assert!(range(flags).starts_with("exit: 0"), "{flags}");
        std::fs::read(place.path("out.npy")).expect("it is written")
    };
    // Directions are behind layers 1 and 3; 0 stands for an end.
    let all = out("1 3");
    assert!(all == out("0 0") && all == out("1 0") && all == out("0 4"));
    assert!(all != out("2 0") && all != out("0 2"));
    assert!(range("2 2").contains("no control vector has a direction for these layers"));
}

#[test]
fn what_fits_no_matrix_is_named_with_its_remedy() {
    let place = with_model();
    let vector = [
        (
            "blk.0.attn_norm.weight.lora_a",
            vec![256, 1],
            values(256, 1),
        ),
        ("blk.0.attn_norm.weight.lora_b", vec![1, 1], vec![1.0]),
    ];
    let whole = [("blk.0.attn_norm.weight", vec![256], values(256, 1))];
    let ninth = [
        ("blk.9.ffn_up.weight.lora_a", vec![256, 4], values(1024, 1)),
        ("blk.9.ffn_up.weight.lora_b", vec![4, 512], values(2048, 2)),
    ];
    let mut errors = String::new();
    for tensors in [&vector[..], &whole, &ninth, &[]] {
        let pair = pair_for_up();
        let all = match tensors {
            [] => Vec::new(),
            more => [&pair, more].concat(),
        };
        of_tensors(&place, "wrong.gguf", &lora("llama"), &all);
        let shown = refused(&place, "--lora wrong.gguf");
        // Merging says the same.
        let merged = place.run("gristmill quantize --lora wrong.gguf a.gguf out.gguf COPY");
        assert_eq!(shown.replace("cannot be applied: ", ""), merged);
        errors += &shown.lines().skip(2).collect::<Vec<_>>().join("\n");
        errors += "\n";
    }
    assert_snapshot!(errors, @r"
    error: wrong.gguf: cannot be applied: adapter tensor `blk.0.attn_norm.weight.lora_b`: it changes a vector, and only matrices can be
    hint: merge the adapter into its base model where it was trained and convert that, or get an adapter of low-rank pairs only
    error: wrong.gguf: cannot be applied: adapter tensor `blk.0.attn_norm.weight`: it is full weights, no half of a low-rank pair
    hint: merge the adapter into its base model where it was trained and convert that, or get an adapter of low-rank pairs only
    error: wrong.gguf: cannot be applied: adapter tensor `blk.9.ffn_up.weight.lora_a`: the model (llama) has no matrix of this name
    hint: the adapter was made for another model; give its own base model
    error: wrong.gguf: cannot be applied: the adapter holds no low-rank pairs
    hint: the adapter is damaged or incomplete; convert or download it again
    ");
}

/// An encoder has no output projection that its embeddings could be.
#[test]
fn no_output_of_an_encoder_is_warned_of() {
    let Some(folder) = gristmill_golden::folder("convert/bert") else {
        return;
    };
    let place = Workplace::new();
    std::fs::copy(folder.join("bert-f32.gguf"), place.path("bert.gguf")).expect("it is there");
    let file = File::open(&place.path("bert.gguf")).expect("it opens");
    let mut tensors = file.tensors().iter();
    let table = tensors.find(|tensor| tensor.name == "token_embd.weight");
    let dims = &table.expect("there is a table").dims;
    let [width, rows] = [0, 1].map(|axis| dims[axis] as usize);
    let pair = [
        (
            "token_embd.weight.lora_a",
            vec![2, rows],
            values(2 * rows, 1),
        ),
        (
            "token_embd.weight.lora_b",
            vec![2, width],
            values(2 * width, 2),
        ),
    ];
    of_tensors(&place, "lora.gguf", &lora("bert"), &pair);
    let shown = done(
        &place,
        "gristmill quantize --lora lora.gguf bert.gguf merged.gguf COPY",
    );
    assert!(!shown.contains("warning"), "{shown}");
    let merged = File::open(&place.path("merged.gguf")).expect("it opens");
    let of = |file: &File| {
        let table = &file.tensors()[file
            .tensors()
            .iter()
            .position(|tensor| tensor.name == "token_embd.weight")
            .expect("it is there")];
        file.data(table).to_vec()
    };
    assert!(of(&merged) != of(&file));
}
