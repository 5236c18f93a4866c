//! `quantize`: what is said, on whatever is asked; interrupted runs; memory; paths.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use gristmill_gguf::{
    Imatrix, ImatrixEntry, ImatrixForm, Metadata, Model, TensorPlan, WriteOptions, Writer,
};
use gristmill_quant::{BF16, F16, F32, TensorType};
use insta::assert_snapshot;

use crate::harness::Workplace;

/// A llama with matrices of these shapes, in one type, of values that repeat.
pub(crate) fn write_llama(path: &Path, ty: TensorType, tensors: &[(&str, [u64; 2])]) {
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", "llama");
    for (key, value) in [
        ("vocab_size", 40u32),
        ("context_length", 64),
        ("embedding_length", 256),
        ("feed_forward_length", 512),
        ("attention.head_count", 4),
        ("block_count", 2),
    ] {
        metadata.set(format!("llama.{key}"), value);
    }
    metadata.set("llama.attention.layer_norm_rms_epsilon", 1e-5f32);
    let plans: Vec<TensorPlan> = tensors
        .iter()
        .map(|(name, dims)| TensorPlan {
            name: (*name).to_owned(),
            dims: dims.to_vec(),
            ty: if name.contains("norm") { F32 } else { ty },
        })
        .collect();
    let mut writer = Writer::create(path, &metadata, &plans, &WriteOptions::default())
        .expect("the folder is writable");
    let row: Vec<f32> = (0..4096)
        .map(|i| ((i * 7919 % 1009) as f32 - 504.0) / 300.0)
        .collect();
    for plan in &plans {
        let row_len = plan.dims[0] as usize;
        let n_bytes = plan.ty.row_bytes(plan.dims[0]).expect("whole blocks") as usize;
        let mut bytes = vec![0; n_bytes];
        plan.ty
            .encode(&row[..row_len], row_len, None, &mut bytes)
            .expect("the buffers fit");
        for _ in 0..plan.dims[1] {
            writer.write(&bytes).expect("it is its turn");
        }
    }
    writer.finish().expect("the disk has room");
}

const TENSORS: &[(&str, [u64; 2])] = &[
    ("token_embd.weight", [256, 40]),
    ("output_norm.weight", [256, 1]),
    ("output.weight", [256, 40]),
    ("blk.0.attn_q.weight", [256, 64]),
    ("blk.0.attn_v.weight", [160, 64]),
    ("blk.0.ffn_down.weight", [288, 64]),
    ("blk.1.attn_v.weight", [160, 64]),
];

fn with_model() -> Workplace {
    let place = Workplace::new();
    write_llama(&place.path("a.gguf"), F16, TENSORS);
    place
}

/// The lines without times.
fn shown(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("time:"));
    lines.collect::<Vec<_>>().join("\n")
}

/// B38: what fell back, counted and named; refused on demand.
#[test]
fn case_b38_fallbacks_are_told() {
    let place = with_model();
    assert_snapshot!(shown(&place.run("gristmill quantize a.gguf b.gguf Q4_K_S")), @r#"
    exit: 0
    --- stdout
    wrote b.gguf: Q4_K_S, 7 tensors, 53280 bytes
    --- stderr
    warning: the output will not load: there is no tensor "blk.0.attn_norm.weight"; 17 more tensors are missing or have another shape
    warning: 3 of 7 tensors (51.2 % of the weights) fell back to another type: 2 q5_K -> q5_1 (rows of 160; the first is blk.0.attn_v.weight), 1 q4_K -> q5_0 (rows of 288; blk.0.ffn_down.weight)
    model size: 0.15 MiB (16.05 bits per weight)
    quant size: 0.05 MiB (5.52 bits per weight)
    types: 1 f32 (0.00 MiB), 1 q5_0 (0.01 MiB), 2 q5_1 (0.01 MiB), 2 q4_K (0.01 MiB), 1 q6_K (0.01 MiB)
    fallbacks: 3 of 7 tensors (51.2 % of the weights) fell back to another type: 2 q5_K -> q5_1 (rows of 160; the first is blk.0.attn_v.weight), 1 q4_K -> q5_0 (rows of 288; blk.0.ffn_down.weight)
    "#);
    assert_snapshot!(shown(&place.run("gristmill quantize -v --dry-run a.gguf b2.gguf Q4_K_S")), @r#"
    exit: 0
    --- stdout
    would write b2.gguf: Q4_K_S, 7 tensors, 53280 bytes
    --- stderr
    warning: the output will not load: there is no tensor "blk.0.attn_norm.weight"; 17 more tensors are missing or have another shape
    warning: 3 of 7 tensors (51.2 % of the weights) fell back to another type: 2 q5_K -> q5_1 (rows of 160; the first is blk.0.attn_v.weight), 1 q4_K -> q5_0 (rows of 288; blk.0.ffn_down.weight)
    output.weight [256, 40]: f16 -> q6_K
    output_norm.weight [256, 1]: f32 -> f32
    token_embd.weight [256, 40]: f16 -> q4_K
    blk.0.attn_q.weight [256, 64]: f16 -> q4_K
    blk.0.attn_v.weight [160, 64]: f16 -> q5_1
    blk.0.ffn_down.weight [288, 64]: f16 -> q5_0
    blk.1.attn_v.weight [160, 64]: f16 -> q5_1
    model size: 0.15 MiB (16.05 bits per weight)
    quant size: 0.05 MiB (5.52 bits per weight)
    types: 1 f32 (0.00 MiB), 1 q5_0 (0.01 MiB), 2 q5_1 (0.01 MiB), 2 q4_K (0.01 MiB), 1 q6_K (0.01 MiB)
    fallbacks: 3 of 7 tensors (51.2 % of the weights) fell back to another type: 2 q5_K -> q5_1 (rows of 160; the first is blk.0.attn_v.weight), 1 q4_K -> q5_0 (rows of 288; blk.0.ffn_down.weight)
      blk.0.attn_v.weight: q5_K -> q5_1
      blk.0.ffn_down.weight: q4_K -> q5_0
      blk.1.attn_v.weight: q5_K -> q5_1
    "#);
    assert_snapshot!(place.run("gristmill quantize --strict a.gguf c.gguf Q4_K_S"), @r#"
    exit: 1
    --- stderr
    error: rows do not fit the recipe, of 3 tensors: blk.0.attn_v.weight, blk.0.ffn_down.weight, blk.1.attn_v.weight
    hint: leave out --strict, or choose a recipe with smaller blocks
    "#);
    assert!(!place.path("c.gguf").exists());
}

/// B37: what needs importance data and has none, all tensors before any output.
#[test]
fn case_b37_importance_is_demanded() {
    let place = with_model();
    assert_snapshot!(place.run("gristmill quantize a.gguf b.gguf Q2_K_S"), @r#"
    exit: 1
    --- stderr
    error: this quantization requires an importance matrix, for 1 tensor: blk.0.attn_q.weight
    hint: give `--imatrix FILE`, made with text through this model; or choose a recipe of more bits
    "#);
    assert_snapshot!(shown(&place.run("gristmill quantize --dry-run a.gguf b.gguf Q2_K_S")), @r#"
    exit: 0
    --- stdout
    would write b.gguf: Q2_K_S, 7 tensors, 40896 bytes
    --- stderr
    warning: the output will not load: there is no tensor "blk.0.attn_norm.weight"; 17 more tensors are missing or have another shape
    warning: this quantization requires an importance matrix, for 1 tensor: blk.0.attn_q.weight
    warning: 3 of 7 tensors (51.2 % of the weights) fell back to another type: 2 q2_K -> q4_0 (rows of 160; the first is blk.0.attn_v.weight), 1 q2_K -> q4_0 (rows of 288; blk.0.ffn_down.weight)
    model size: 0.15 MiB (16.05 bits per weight)
    quant size: 0.04 MiB (4.21 bits per weight)
    types: 1 f32 (0.00 MiB), 3 q4_0 (0.02 MiB), 2 q2_K (0.01 MiB), 1 q6_K (0.01 MiB)
    fallbacks: 3 of 7 tensors (51.2 % of the weights) fell back to another type: 2 q2_K -> q4_0 (rows of 160; the first is blk.0.attn_v.weight), 1 q2_K -> q4_0 (rows of 288; blk.0.ffn_down.weight)
    "#);
    assert_snapshot!(place.run("gristmill quantize --imatrix a.gguf a.gguf b.gguf Q2_K_S"), @r#"
    exit: 1
    --- stderr
    error: a.gguf: not an importance matrix: it is a model and has no imatrix.datasets
    hint: name the file that `llama-imatrix` wrote for this model (imatrix.gguf, or an older .dat)
    "#);
    assert_snapshot!(place.run("gristmill quantize --imatrix absent a.gguf b.gguf Q2_K_S"), @r#"
    exit: 1
    --- stderr
    error: absent: no such file
    hint: check the path of the importance matrix: the file that `llama-imatrix` wrote for this model
    "#);
    place.write("junk.dat", b"this is no importance matrix");
    assert_snapshot!(place.run("gristmill quantize --imatrix junk.dat a.gguf b.gguf Q2_K_S"), @r#"
    exit: 1
    --- stderr
    error: junk.dat: not an importance matrix: its first bytes are no GGUF magic, and read as the older form they announce 1936287860 entries, more than its 28 bytes can hold
    hint: name the file that `llama-imatrix` wrote for this model (imatrix.gguf, or an older .dat)
    "#);
    // What a download leaves under the name is told in its own words.
    place.write(
        "page.dat",
        b"<!DOCTYPE html><html><body>not here</body></html>",
    );
    assert_snapshot!(place.run("gristmill quantize --imatrix page.dat a.gguf b.gguf Q2_K_S"), @r#"
    exit: 1
    --- stderr
    error: page.dat: not an importance matrix: is an HTML page (49 bytes), not a GGUF file
    hint: name the file that `llama-imatrix` wrote for this model (imatrix.gguf, or an older .dat)
    "#);
    write_imatrix(&place.path("long.dat"), &[("blk.0.attn_q.weight", 256)]);
    let mut long = std::fs::read(place.path("long.dat")).expect("it is there");
    long.extend(b"behind");
    place.write("long.dat", long);
    assert_snapshot!(place.run("gristmill quantize --imatrix long.dat a.gguf b.gguf Q2_K_S"), @r#"
    exit: 1
    --- stderr
    error: long.dat: not an importance matrix: 6 bytes follow behind its end
    hint: name the file that `llama-imatrix` wrote for this model (imatrix.gguf, or an older .dat)
    "#);
    write_imatrix(&place.path("short.dat"), &[("blk.0.attn_q.weight", 128)]);
    assert_snapshot!(place.run("gristmill quantize --imatrix short.dat a.gguf b.gguf Q2_K_S"), @r#"
    exit: 1
    --- stderr
    error: short.dat: the importance data of tensor "blk.0.attn_q.weight" has 128 values, expected 256
    hint: the importance matrix was made with another model; make one with this model
    "#);
    write_imatrix(&place.path("other.dat"), &[("blk.9.attn_q.weight", 256)]);
    assert_snapshot!(place.run("gristmill quantize --imatrix other.dat a.gguf b.gguf Q4_K_S"), @r#"
    exit: 1
    --- stderr
    error: other.dat: no entry of the importance matrix belongs to this model (the first is "blk.9.attn_q.weight")
    hint: the importance matrix was made with another model; make one with this model
    "#);
    assert_eq!(
        place.files(),
        [
            "a.gguf",
            "junk.dat",
            "long.dat",
            "other.dat",
            "page.dat",
            "short.dat"
        ]
    );
}

fn write_imatrix(path: &Path, tensors: &[(&str, usize)]) {
    let mut imatrix = Imatrix::default();
    for (name, n) in tensors {
        let entry = ImatrixEntry::new(vec![0.5; *n], vec![1.0], None);
        imatrix.insert(*name, entry.expect("it is sound"));
    }
    imatrix
        .save(path, ImatrixForm::Legacy, &WriteOptions::default())
        .expect("the folder is writable");
}

/// NaN in a file of the older form: named with tensor and place, before any output.
#[test]
fn case_b37_values_that_are_no_numbers() {
    let place = with_model();
    let path = place.path("nan.dat");
    write_imatrix(&path, &[("blk.0.attn_q.weight", 256)]);
    let mut bytes = std::fs::read(&path).expect("it is there");
    let last_value = bytes.len() - 8 - 4;
    bytes[last_value..last_value + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&path, bytes).expect("it is writable");
    assert_snapshot!(place.run("gristmill quantize --imatrix nan.dat a.gguf b.gguf Q4_K_S"), @r#"
    exit: 1
    --- stderr
    error: nan.dat: the importance data of tensor "blk.0.attn_q.weight" cannot be used: the sum of squares of column 255 is NaN
    hint: the file is damaged, or its collection went wrong: make the importance matrix again
    "#);
    assert_eq!(place.files(), ["a.gguf", "nan.dat"]);
}

/// B39: overrides from flags and a file; one that finds nothing; ones that are wrong.
#[test]
fn case_b39_overrides() {
    let place = with_model();
    // Some editors begin a file with a byte order mark.
    place.write(
        "types.txt",
        "\u{feff}attn_v=Q8_0\n  ffn_down=q5_0 attn_q=q6_k\n",
    );
    let line = "gristmill quantize --json --tensor-type attn_q=f16 --tensor-type nothing=q8_0 --tensor-type norm=q8_0 --tensor-type-file types.txt a.gguf b.gguf Q4_K_S";
    let output = place
        .command("gristmill")
        .args(line.split(' ').skip(1))
        .output();
    let output = output.expect("the binary starts");
    assert!(output.status.success());
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    let types: Vec<(&str, &str)> = report["tensors"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|tensor| Some((tensor["name"].as_str()?, tensor["to"].as_str()?)))
        .collect();
    assert_eq!(
        types,
        [
            ("output.weight", "q6_K"),
            ("output_norm.weight", "f32"),
            ("token_embd.weight", "q4_K"),
            ("blk.0.attn_q.weight", "f16"),
            ("blk.0.attn_v.weight", "q8_0"),
            ("blk.0.ffn_down.weight", "q5_0"),
            ("blk.1.attn_v.weight", "q8_0"),
        ]
    );
    let warnings = report["warnings"].as_array().expect("a list");
    // The one of the file comes after that of the command line, which has taken its tensor.
    let unused = [
        "the override `nothing=q8_0` found no tensor",
        "the override `norm=q8_0` finds only tensors whose type never changes",
        "the override `attn_q=q6_K` decides nothing: an earlier one, as `attn_q=f16`, comes first for each of its tensors",
    ];
    let of_model = "the output will not load: there is no tensor \"blk.0.attn_norm.weight\"; 17 more tensors are missing or have another shape";
    assert_eq!(warnings, &[&unused[..], &[of_model]].concat());
    place.write("bad.txt", "attn_v=q8_0 attn_q\n");
    assert_snapshot!(place.run("gristmill quantize --tensor-type-file bad.txt a.gguf c.gguf Q4_K_S"), @r#"
    exit: 1
    --- stderr
    error: bad.txt: bad tensor override "attn_q": there is no `=`
    hint: write it as PATTERN=TYPE, for example attn_v=q8_0
    "#);
    assert_snapshot!(place.run("gristmill quantize --tensor-type-file absent a.gguf c.gguf Q4_K_S"), @r#"
    exit: 1
    --- stderr
    error: absent: cannot read the types of tensors: No such file or directory (os error 2)
    hint: check the path
    "#);
    assert_snapshot!(place.run("gristmill quantize --prune-layers 7 a.gguf c.gguf Q4_K_S"), @r#"
    exit: 1
    --- stderr
    error: block 7 cannot be pruned: the model has 2 blocks, counted from 0
    hint: `gristmill inspect` shows the blocks of a model
    "#);
}

#[test]
fn types_for_a_size() {
    let place = with_model();
    assert_snapshot!(shown(&place.run("gristmill quantize --target-bpw 6 --dry-run a.gguf b.gguf")), @r#"
    exit: 0
    --- stdout
    would write b.gguf: Q5_0, 7 tensors, 57792 bytes
    --- stderr
    measuring what types cost 6 tensors
    warning: the output will not load: there is no tensor "blk.0.attn_norm.weight"; 17 more tensors are missing or have another shape
    model size: 0.15 MiB (16.05 bits per weight)
    quant size: 0.05 MiB (5.99 bits per weight)
    types: 1 f32 (0.00 MiB), 3 q5_0 (0.03 MiB), 1 q8_0 (0.01 MiB), 2 q5_K (0.02 MiB)
    plan for at most 6 bits per weight:
      blk.*.attn_q.weight: 1 q5_K
      blk.*.attn_v.weight: 2 q5_0
      blk.*.ffn_down.weight: 1 q5_0
      output.weight: 1 q8_0
      output_norm.weight: 1 f32
      token_embd.weight: 1 q5_K
    "#);
    assert_snapshot!(place.run("gristmill quantize --target-size 9KiB a.gguf b.gguf"), @r#"
    exit: 1
    --- stderr
    error: no choice of types takes at most 9216 bytes for the file: the smallest takes 35840 bytes for the file
    hint: ask for as much, or more; with importance data for all matrices but the token embedding (`--imatrix`; `llama-imatrix --process-output` collects that of output.weight), for 32768 bytes for the file or more
    "#);
    assert_snapshot!(place.run("gristmill quantize --target-size 9KiB a.gguf b.gguf Q4_K_M"), @r#"
    exit: 1
    --- stderr
    error: a target chooses types by itself, and Q4_K_M names one
    hint: leave the type out, or the target
    "#);
    // The smallest can be asked for, and nothing below it.
    let bits = place.run("gristmill quantize --target-bpw 2 a.gguf b.gguf");
    let smallest = "at most 2 bits per weight: the smallest takes 3.6836 bits per weight";
    assert!(bits.contains(smallest), "{bits}");
    for (line, code) in [
        ("--target-size 35839", 1),
        ("--target-size 35840", 0),
        ("--target-bpw 3.6835", 1),
        ("--target-bpw 3.6836", 0),
    ] {
        let run = place.run(&format!(
            "gristmill quantize --dry-run {line} a.gguf b.gguf"
        ));
        assert!(run.starts_with(&format!("exit: {code}")), "{run}");
    }
    // A source that may not be quantized again is told of before anything is measured.
    place.run("gristmill quantize a.gguf q.gguf Q5_K_M");
    let refused = place.run("gristmill quantize --target-bpw 4 q.gguf b.gguf");
    let reason = "exit: 1\n--- stderr\nerror: requantizing from type q6_K is disabled";
    assert!(refused.starts_with(reason), "{refused}");
    let done = place.run("gristmill quantize --target-size 40.5KiB a.gguf b.gguf");
    assert!(done.starts_with("exit: 0"), "{done}");
    let bytes = std::fs::metadata(place.path("b.gguf"))
        .expect("it is there")
        .len();
    assert!((39_000..=41_472).contains(&bytes), "{bytes}");
}

/// What would not load is refused before anything is written, and what is set is to blame, not what the source lacks.
#[test]
fn overrides_with_which_nothing_loads_are_refused() {
    let place = with_model();
    let refused = |entries: &str| {
        let flags: String = entries
            .split_whitespace()
            .map(|entry| format!("--override-kv {entry} "))
            .collect();
        let run = place.run(&format!("gristmill quantize {flags}a.gguf b.gguf Q8_0"));
        assert_eq!(place.files(), ["a.gguf"], "{run}");
        let error = run.strip_prefix("exit: 1\n--- stderr\nerror: ");
        let error = error.unwrap_or_else(|| panic!("{run}"));
        let hint = "hint: give another value, or leave the entry out";
        let (error, _) = error.split_once('\n').unwrap_or_default();
        assert!(run.contains(hint), "{run}");
        error.to_owned()
    };
    assert_snapshot!(refused("llama.embedding_length=int:512"), @r#"`--override-kv llama.embedding_length=int:512` makes a file that gristmill or llama.cpp does not load: tensor "token_embd.weight" has shape [256, 40], not [512, 40]"#);
    assert_snapshot!(refused("llama.block_count=int:3"), @r#"`--override-kv llama.block_count=int:3` makes a file that gristmill or llama.cpp does not load: there is no tensor "blk.2.attn_norm.weight""#);
    assert_snapshot!(refused("llama.block_count=int:1"), @r#"`--override-kv llama.block_count=int:1` makes a file that gristmill or llama.cpp does not load: there is no place for tensor "blk.1.attn_v.weight" of shape [160, 64]"#);
    // Of several the one that is to blame.
    assert_snapshot!(refused("llama.vocab_size=int:50 llama.context_length=int:32"), @r#"`--override-kv llama.vocab_size=int:50` makes a file that gristmill or llama.cpp does not load: tensor "token_embd.weight" has shape [256, 40], not [256, 50]"#);
    let taken = "--override-kv llama.context_length=int:512";
    let run = place.run(&format!(
        "gristmill quantize --dry-run {taken} a.gguf b.gguf Q8_0"
    ));
    assert!(
        run.starts_with("exit: 0") && !run.contains("override"),
        "{run}"
    );
}

/// Flags that could have no effect are refused, and values that would not be kept as they are.
#[test]
fn flags_without_effect_are_refused() {
    let place = with_model();
    assert_snapshot!(place.run("gristmill quantize --pure --output-tensor-type q4_0 a.gguf b.gguf COPY"), @r#"
    exit: 1
    --- stderr
    error: COPY keeps every tensor as it is, and --output-tensor-type would change that
    hint: leave the flag out, or choose a type in place of COPY
    "#);
    for flag in [
        "--pure",
        "--tensor-type attn=q8_0",
        "--imatrix x",
        "--strict",
        "--leave-output-tensor",
    ] {
        let run = place.run(&format!("gristmill quantize {flag} a.gguf b.gguf COPY"));
        let name = flag.split(' ').next().unwrap_or_default();
        assert!(
            run.contains(&format!("as it is, and {name} would change that")),
            "{run}"
        );
    }
    let both = "--leave-output-tensor --output-tensor-type q8_0";
    let run = place.run(&format!("gristmill quantize {both} a.gguf b.gguf Q4_K_S"));
    assert!(
        run.starts_with("exit: 2") && run.contains("cannot be used with"),
        "{run}"
    );
    assert_snapshot!(place.run("gristmill quantize --override-kv split.count=int:2 a.gguf b.gguf Q4_K_S"), @r#"
    exit: 1
    --- stderr
    error: split.count cannot be set: it tells which file of a set this is
    hint: leave it out; `--keep-split` or `gristmill split` write it
    "#);
    assert_snapshot!(place.run("gristmill quantize --override-kv llama.block_count=int:0 a.gguf b.gguf Q4_K_S"), @r#"
    exit: 1
    --- stderr
    error: `--override-kv llama.block_count=int:0` makes a file that gristmill or llama.cpp does not load: metadata key `llama.block_count` is 0: must be from 1 to 512
    hint: give another value, or leave the entry out
    "#);
    assert_eq!(place.files(), ["a.gguf"]);
}

#[test]
fn losses_are_reported() {
    let place = with_model();
    place.run("gristmill quantize --report loss.txt a.gguf b.gguf Q4_K_S");
    assert_snapshot!(std::fs::read_to_string(place.path("loss.txt")).expect("it is there"), @r#"
    relative error of each tensor, in percent of its values: plain, and weighted by importance
    b.gguf by Q4_K_S

       1.2631    1.2631  q6_K     output.weight
       0.0000    0.0000  f32      output_norm.weight
       6.0674    6.0674  q4_K     token_embd.weight
       6.0674    6.0674  q4_K     blk.0.attn_q.weight
       3.0113    3.0113  q5_1     blk.0.attn_v.weight
       2.8913    2.8913  q5_0     blk.0.ffn_down.weight
       3.0113    3.0113  q5_1     blk.1.attn_v.weight
       4.1946    4.1946  all
    "#);
    let refused = place.run("gristmill quantize --report loss.txt a.gguf c.gguf Q4_K_S");
    assert!(refused.contains("loss.txt: already exists"), "{refused}");
    assert!(!place.path("c.gguf").exists());
    place.run("gristmill quantize --report loss.json a.gguf c.gguf Q8_0");
    let json = std::fs::read(place.path("loss.json")).expect("it is there");
    let json: serde_json::Value = serde_json::from_slice(&json).expect("it is JSON");
    let loss = json["quality"]["relative_error"]
        .as_f64()
        .expect("a number");
    assert!((0.001..0.01).contains(&loss), "{loss}");
}

/// Whatever an output is called: it is no input, and no two are one.
#[test]
fn no_output_replaces_an_input_or_another_output() {
    let place = with_model();
    place.write("types.txt", "attn=q8_0");
    let split = place.run("gristmill split --split-max-tensors 3 a.gguf s");
    assert!(split.starts_with("exit: 0"), "{split}");
    place.run("gristmill quantize a.gguf b.gguf Q8_0");
    let before = place.files();
    let shard = std::fs::read(place.path("s-00002-of-00003.gguf")).expect("it is there");
    for (output, line) in [
        (
            "types.txt",
            "--tensor-type-file types.txt a.gguf types.txt Q8_0",
        ),
        (
            "s-00002-of-00003.gguf",
            "--report s-00002-of-00003.gguf s-00001-of-00003.gguf c.gguf Q8_0",
        ),
        (
            "types.txt",
            "--tensor-type-file types.txt --report types.txt a.gguf c.gguf Q8_0",
        ),
    ] {
        let run = place.run(&format!("gristmill quantize --force {line}"));
        let expected =
            format!("exit: 1\n--- stderr\nerror: {output}: is the same file as the input {output}");
        assert!(run.starts_with(&expected), "{run}");
    }
    for (output, line) in [
        ("c.gguf", "--report c.gguf a.gguf c.gguf Q8_0"),
        ("b.gguf", "--force --report ./b.gguf a.gguf b.gguf Q8_0"),
        (
            "c.gguf.resume",
            "--resume --report c.gguf.resume a.gguf c.gguf Q8_0",
        ),
        (
            "k-00003-of-00003.gguf",
            "--keep-split --report k-00003-of-00003.gguf s-00001-of-00003.gguf k Q8_0",
        ),
    ] {
        let run = place.run(&format!("gristmill quantize {line}"));
        let expected = format!("exit: 1\n--- stderr\nerror: {output}: is named for two outputs");
        assert!(run.starts_with(&expected), "{run}");
    }
    assert_eq!(place.files(), before);
    let types = std::fs::read(place.path("types.txt")).expect("it is there");
    assert_eq!(types, b"attn=q8_0");
    let after = std::fs::read(place.path("s-00002-of-00003.gguf")).expect("it is there");
    assert!(after == shard);
}

/// Names of files that are no text.
#[test]
fn paths_need_not_be_text() {
    use std::os::unix::ffi::OsStringExt as _;
    let place = with_model();
    let name = |bytes: &[u8]| std::ffi::OsString::from_vec(bytes.to_vec());
    let (input, output) = (name(b"in-\xff.gguf"), name(b"out-\xfe.gguf"));
    std::fs::rename(place.path("a.gguf"), place.path("").join(&input)).expect("it can be renamed");
    for flags in [&[][..], &["--resume", "--force"]] {
        let run = place
            .command("gristmill")
            .arg("quantize")
            .args(flags)
            .args([&input, &output])
            .arg("Q8_0")
            .output()
            .expect("the binary starts");
        assert!(run.status.success(), "{}", place.show(&run));
        Model::open(&place.path("").join(&output)).expect("it was just written");
    }
}

/// Many rows, for runs that take a while.
fn large_model(path: &Path) {
    let names: Vec<String> = (0..8)
        .map(|block| format!("blk.{block}.ffn_up.weight"))
        .collect();
    let tensors: Vec<(&str, [u64; 2])> = names.iter().map(|name| (&**name, [4096, 512])).collect();
    write_llama(path, BF16, &tensors);
}

fn start(place: &Workplace, line: &str) -> Child {
    let mut command = place.command("gristmill");
    command
        .args(line.split(' '))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().expect("the binary starts")
}

/// Killed at moments of chance, and continued until it is done: the same bytes as from one run.
#[test]
fn a_killed_run_goes_on() {
    let place = Workplace::new();
    large_model(&place.path("a.gguf"));
    let started = std::time::Instant::now();
    let whole = place.run("gristmill quantize a.gguf whole.gguf Q6_K 1");
    let micros = started.elapsed().as_micros() as u64;
    assert!(whole.starts_with("exit: 0"), "{whole}");
    let expected = std::fs::read(place.path("whole.gguf")).expect("it is there");
    let mut state = u64::from(std::process::id());
    println!("seed {state}");
    let mut n_kills = 0;
    for round in 0..3 {
        let output = place.path(&format!("r{round}.gguf"));
        let line = format!("quantize --resume a.gguf r{round}.gguf Q6_K 1");
        while !output.exists() {
            let mut child = start(&place, &line);
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let wait = match n_kills % 12 {
                // So that it ends.
                11 => Duration::from_secs(60),
                // Half the time of a run, for runs vary with the load of the machine.
                _ => Duration::from_micros((state >> 33) % (micros / 2)),
            };
            let end = std::time::Instant::now() + wait;
            let mut done = false;
            while !done && std::time::Instant::now() < end {
                done = child.try_wait().expect("it was started").is_some();
                std::thread::sleep(Duration::from_millis(1));
            }
            if !done {
                // It may end by itself meanwhile.
                let _ = child.kill();
                n_kills += 1;
            }
            child.wait().expect("it was started");
        }
        // The last kill may have come when the output had its name, and its journal was not yet removed.
        if place.path(&format!("r{round}.gguf.resume")).exists() {
            let shown = place.run(&format!("gristmill {line}"));
            assert!(shown.starts_with("exit: 0"), "{shown}");
        }
        assert!(
            std::fs::read(&output).expect("it is there") == expected,
            "round {round}"
        );
    }
    println!("{n_kills} kills");
    assert!(n_kills > 0);
    let left: Vec<String> = place.files();
    assert_eq!(
        left,
        ["a.gguf", "r0.gguf", "r1.gguf", "r2.gguf", "whole.gguf"]
    );
}

/// Anonymous memory stays small, whatever the size of the model: the limit on data holds the program to it.
#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_with_the_model() {
    let place = Workplace::new();
    let tensors = [
        ("token_embd.weight", [4096, 20_000]),
        ("blk.0.ffn_up.weight", [4096, 4096]),
    ];
    write_llama(&place.path("a.gguf"), BF16, &tensors);
    let binary = place.command("gristmill").get_program().to_owned();
    // The last buffer takes the whole of the embeddings, 83 MB in Q8_0.
    for (limit, flags, fits) in [
        (131_072, "", true),
        (65_536, "--max-buffer-size 1", true),
        (65_536, "--max-buffer-size 1024", false),
    ] {
        let script = format!(
            "ulimit -d {limit}; exec \"$0\" quantize {flags} --force a.gguf out.gguf Q8_0 2"
        );
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .arg(&binary)
            .current_dir(place.path("."))
            .output()
            .expect("the shell starts");
        assert_eq!(
            output.status.success(),
            fits,
            "{flags}: {}",
            place.show(&output)
        );
    }
}

/// Any part gives the whole model; shards that are kept have the same tensors, and say of themselves what they are.
#[test]
fn case_b44_shards_in_and_out() {
    let place = Workplace::new();
    let tensors = [
        ("token_embd.weight", [256, 40]),
        ("blk.0.ffn_up.weight", [256, 40]),
        ("blk.0.ffn_down.weight", [256, 40]),
    ];
    write_llama(&place.path("a.gguf"), BF16, &tensors);
    let run = |line: &str| {
        let shown = place.run(line);
        assert!(shown.starts_with("exit: 0"), "{line}\n{shown}");
    };
    run("gristmill split --split-max-tensors 2 a.gguf a");
    run("gristmill quantize a.gguf whole.gguf Q8_0");
    for part in 1..=2 {
        run(&format!(
            "gristmill quantize a-0000{part}-of-00002.gguf part{part}.gguf Q8_0"
        ));
        run(&format!("gristmill diff whole.gguf part{part}.gguf"));
    }
    run("gristmill quantize --keep-split a-00002-of-00002.gguf kept Q8_0");
    // The tensors of a kept shard stay in its order.
    let compared = place.run("gristmill diff whole.gguf kept-00001-of-00002.gguf");
    assert!(
        compared.contains("tensors: 0 differ, 3 are equal"),
        "{compared}"
    );
    let open = |name: &str| gristmill_gguf::File::open(&place.path(name)).expect("it was written");
    for (number, part) in ["00001-of-00002", "00002-of-00002"].into_iter().enumerate() {
        let (source, kept) = (
            open(&format!("a-{part}.gguf")),
            open(&format!("kept-{part}.gguf")),
        );
        let names = |file: &gristmill_gguf::File| -> Vec<String> {
            file.tensors()
                .iter()
                .map(|tensor| tensor.name.clone())
                .collect()
        };
        assert_eq!(names(&source), names(&kept), "{part}");
        for (key, value) in [("split.no", number as u32), ("split.count", 2)] {
            assert_eq!(
                kept.metadata().u32(key).expect("a number"),
                Some(value),
                "{part}"
            );
        }
        let all = kept.metadata().get("split.tensors.count");
        assert_eq!(all, source.metadata().get("split.tensors.count"), "{part}");
        assert!(all.is_some());
    }
}
