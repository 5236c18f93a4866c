//! Adapters: converted as the reference converts them, faults named, their effect on a model.

use std::path::Path;

use gristmill_gguf::{Metadata, Model, WriteOptions, Writer};
use gristmill_golden::{compared, largest_difference, read_npy};
use gristmill_quant::F32;
use serde_json::{Value, json};

use crate::fixtures::{Change, changed, plan, tiny_in_f32, with_model};
use crate::harness::{Workplace, tiny};

/// A tensor of an adapter: name, shape, values.
pub type Named = (&'static str, Vec<usize>, Vec<f32>);

pub const UP: &str = "base_model.model.model.layers.0.mlp.up_proj";
const QUERY: &str = "base_model.model.model.layers.1.self_attn.q_proj";

/// Values that repeat no row.
pub fn values(n: usize, seed: usize) -> Vec<f32> {
    let value = |index: usize| ((index * 37 + seed * 11) % 101) as f32 / 500.0 - 0.1;
    (0..n).map(value).collect()
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// A pair for a module of the embedded model.
fn pair(module: &str, n_in: usize, n_out: usize, rank: usize) -> [Named; 2] {
    let name = |half: &str| leak(format!("{module}.{half}.weight"));
    [
        (name("lora_A"), vec![rank, n_in], values(rank * n_in, 1)),
        (name("lora_B"), vec![n_out, rank], values(rank * n_out, 2)),
    ]
}

/// Writes an adapter's folder; `config` goes over a plain one.
pub fn adapter(place: &Workplace, folder: &str, tensors: &[Named], config: Value) {
    let mut stated = json!({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none",
        "base_model_name_or_path": tiny()});
    for (key, value) in config.as_object().expect("an object") {
        stated[key] = value.clone();
    }
    let text = stated.to_string();
    place.write(&format!("{folder}/adapter_config.json"), text);
    let bytes = |values: &[f32]| {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    };
    let data: Vec<(&str, &[usize], Vec<u8>)> = tensors
        .iter()
        .map(|(name, shape, values)| (*name, shape.as_slice(), bytes(values)))
        .collect();
    let views = data.iter().map(|(name, shape, data)| {
        let dtype = safetensors::Dtype::F32;
        let view = safetensors::tensor::TensorView::new(dtype, shape.to_vec(), data);
        (*name, view.expect("the shape fits"))
    });
    let weights = safetensors::serialize(views, None).expect("the weights can be serialized");
    place.write(&format!("{folder}/adapter_model.safetensors"), weights);
}

/// Pairs for a feed-forward matrix and for queries, whose rows are stored in another order.
pub fn two_pairs() -> Vec<Named> {
    [pair(UP, 256, 512, 4), pair(QUERY, 256, 256, 4)].concat()
}

#[test]
fn golden_adapters_are_equal_byte_for_byte() {
    let Some(root) = gristmill_golden::folder("convert") else {
        return;
    };
    let place = Workplace::new();
    let folder = root.join("llama-lora");
    let cache = place.path("hub/models--example-org--tiny-llama");
    place.write(&format!("{}/refs/main", cache.display()), "0123");
    let description = std::fs::read(root.join("llama/hf/config.json")).expect("it is there");
    let snapshot = format!("{}/snapshots/0123/config.json", cache.display());
    place.write(&snapshot, description);
    let of_folder = root.join("llama/hf").display().to_string();
    let of_file = root.join("llama/llama-q8_0.gguf").display().to_string();
    let bases: [&[&str]; 4] = [
        &["--base", &of_folder],
        &["--base", &of_file],
        // By the name that the adapter has for it.
        &[],
        &["--base-model-id", "example-org/tiny-llama", "--dry-run"],
    ];
    let mut n_compared = 0;
    for (number, base) in bases.into_iter().enumerate() {
        for ty in ["f32", "f16"] {
            let source = folder.join("adapter").display().to_string();
            let output = format!("{number}-{ty}.gguf");
            let words = [
                "convert-lora",
                &source,
                "--outtype",
                ty,
                "--outfile",
                &output,
            ];
            let mut command = place.command("gristmill");
            command.env("HF_HUB_CACHE", place.path("hub"));
            let outcome = command.args(words).args(base).output().expect("it starts");
            let outcome = place.show(&outcome);
            assert!(outcome.starts_with("exit: 0"), "{outcome}");
            if base.contains(&"--dry-run") {
                assert!(!place.path(&output).exists(), "{outcome}");
                continue;
            }
            let ours = std::fs::read(place.path(&output)).expect("the output is there");
            let theirs = folder.join(format!("llama-lora-{ty}.gguf"));
            let theirs = std::fs::read(theirs).expect("the golden file is there");
            assert!(ours == theirs, "{output}");
            n_compared += 1;
        }
    }
    compared(n_compared, "adapters");
}

/// What `convert-lora` says of a folder that it refuses.
fn refused(tensors: &[Named], config: Value) -> String {
    let place = Workplace::new();
    adapter(&place, "source", tensors, config);
    let before = place.files();
    let shown = place.run("gristmill convert-lora source");
    assert!(shown.starts_with("exit: 1"), "{shown}");
    assert_eq!(place.files(), before, "{shown}");
    assert!(shown.contains("\nhint: "), "{shown}");
    shown.replace(&tiny().display().to_string(), "[TINY]")
}

#[test]
fn b97_what_is_no_low_rank_pair_of_the_base_is_named() {
    let full = |name: &'static str| (name, vec![2, 2], vec![0.0; 4]);
    let with = |more: &[Named]| [two_pairs(), more.to_vec()].concat();
    let replaced = [
        full("base_model.model.lm_head.weight"),
        full("base_model.model.model.norm.modules_to_save.weight"),
    ];
    insta::assert_snapshot!(refused(&with(&replaced), json!({})), @r"
    exit: 1
    --- stderr
    error: source/adapter_model.safetensors: full weights beside the low-rank pairs: base_model.model.lm_head.weight, base_model.model.model.norm.modules_to_save.weight
    hint: merge the adapter into its base model (merge_and_unload of PEFT) and convert that
    ");
    insta::assert_snapshot!(refused(&two_pairs()[1..], json!({})), @r"
    exit: 1
    --- stderr
    error: source/adapter_model.safetensors: `base_model.model.model.layers.0.mlp.up_proj.lora_B.weight` has no partner
    hint: the adapter is damaged or incomplete; download it again
    ");
    insta::assert_snapshot!(refused(&pair(UP, 128, 512, 4), json!({})), @r"
    exit: 1
    --- stderr
    error: source/adapter_model.safetensors: `base_model.model.model.layers.0.mlp.up_proj.lora_A.weight` has shape [4, 128], but the base model's matrix needs [4, 256]
    hint: the adapter was made for another model; name its own base model with --base
    ");
    insta::assert_snapshot!(refused(&pair("base_model.model.model.layers.0.mlp.moe", 8, 8, 1), json!({})), @r"
    exit: 1
    --- stderr
    error: source/adapter_model.safetensors: `base_model.model.model.layers.0.mlp.moe.lora_A.weight` changes a matrix that the base model (llama) does not have
    hint: the adapter was made for another model; name its own base model with --base
    ");
    insta::assert_snapshot!(refused(&two_pairs(), json!({"use_dora": true})), @r"
    exit: 1
    --- stderr
    error: source/adapter_config.json: `use_dora` is true, which a GGUF adapter has no place for
    hint: merge the adapter into its base model (merge_and_unload of PEFT) and convert that
    ");
    // GGUF has 0 for no alpha, which counts as 1; for PEFT such an adapter does nothing.
    insta::assert_snapshot!(refused(&two_pairs(), json!({"lora_alpha": 0})), @r"
    exit: 1
    --- stderr
    error: source/adapter_config.json: `lora_alpha` is 0, with which the adapter changes nothing
    hint: leave the adapter out, or write the alpha that it was trained with; programs take an alpha of 0 in GGUF for none
    ");
    assert!(
        refused(&two_pairs(), json!({"alpha_pattern": {"up_proj": 0}}))
            .contains("`alpha_pattern` is 0")
    );
    insta::assert_snapshot!(refused(&two_pairs(), json!({"base_model_name_or_path": "org/model"})), @r#"
    exit: 1
    --- stderr
    error: source: the base model "org/model" is not on this machine
    hint: name the base model's folder (config.json is enough) or its GGUF file with --base
    "#);
    insta::assert_snapshot!(refused(&[], json!({})), @r"
    exit: 1
    --- stderr
    error: source/adapter_model.safetensors: no low-rank pairs for the text model
    hint: the adapter is damaged or incomplete; download it again
    ");
    // Halves that do not fit each other, and a type that no weight has.
    let [a, _] = pair(UP, 256, 512, 4);
    let [_, b] = pair(UP, 256, 512, 2);
    assert!(refused(&[a, b], json!({})).contains("has shape [512, 2]"));
    let place = Workplace::new();
    adapter(&place, "source", &two_pairs(), json!({}));
    assert!(
        place
            .run("gristmill convert-lora source --outtype q4_k_m")
            .contains("output type `Q4_K_M` is none of an adapter")
    );
    std::fs::remove_file(place.path("source/adapter_model.safetensors")).expect("it is there");
    place.write("source/adapter_model.bin", "PK");
    assert!(
        place
            .run("gristmill convert-lora source")
            .contains("PyTorch's .bin files are not read")
    );
    assert!(
        place
            .run("gristmill convert-lora .")
            .contains("no adapter_config.json in this folder")
    );
}

/// The alpha in a file and the values of a tensor.
fn written(path: &Path, tensor: &str) -> (f32, Vec<f32>) {
    let file = Model::open(path).expect("it opens");
    let alpha = match file.metadata().get("adapter.lora.alpha") {
        Some(gristmill_gguf::Value::F32(alpha)) => *alpha,
        other => panic!("{other:?}"),
    };
    let view = file.tensor(tensor).expect("it is there");
    let (elements, _) = view.data.as_chunks::<4>();
    (
        alpha,
        elements
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect(),
    )
}

/// The scale at run time is `alpha / rank` of the file; right values are PEFT's: `lora_alpha / r`, with rank stabilization
/// `lora_alpha / sqrt(r)`.
#[test]
fn b97_scales_survive_conversion() {
    let place = Workplace::new();
    let up = "blk.0.ffn_up.weight.lora_b";
    adapter(&place, "plain", &two_pairs(), json!({}));
    let stabilized = json!({"use_rslora": true});
    adapter(&place, "stabilized", &two_pairs(), stabilized.clone());
    adapter(&place, "alpha", &two_pairs(), json!({"lora_alpha": null}));
    // Two ranks under rank stabilization: one alpha cannot serve both.
    let ranks = [
        pair(UP, 256, 512, 16),
        pair(QUERY, 256, 256, 4),
        pair(leak(QUERY.replace('1', "2")), 256, 256, 4),
    ];
    adapter(&place, "ranks", &ranks.concat(), stabilized);
    for name in ["plain", "stabilized", "ranks"] {
        let line = format!("gristmill convert-lora {name} -v -t 1 -o {name}.gguf");
        let shown = place.run(&line);
        assert!(shown.starts_with("exit: 0"), "{shown}");
        assert!(shown.contains("blk.0.ffn_up.weight.lora_a"), "{shown}");
        assert!(place.run(&line).contains("already exists"));
        assert!(place.run(&format!("{line} --force")).starts_with("exit: 0"));
    }
    let given = &two_pairs()[1].2;
    assert_eq!(written(&place.path("plain.gguf"), up), (8.0, given.clone()));
    assert_eq!(
        written(&place.path("stabilized.gguf"), up),
        (16.0, given.clone())
    );
    // 8 / sqrt(16) is wanted of the first; alpha 16 / 16 is what the file gives, so its values double.
    let (alpha, folded) = written(&place.path("ranks.gguf"), up);
    let wanted: Vec<f32> = ranks[0][1].2.iter().map(|value| value * 2.0).collect();
    assert_eq!((alpha, folded), (16.0, wanted));
    let shown = place.run("gristmill convert-lora alpha");
    assert!(
        shown.contains("`lora_alpha` is null: must be a number"),
        "{shown}"
    );
    let text =
        std::fs::read_to_string(place.path("plain/adapter_config.json")).expect("it is there");
    let text = text.replace("\"lora_alpha\":8,", "");
    place.write("plain/adapter_config.json", text);
    let shown = place.run("gristmill convert-lora plain --outtype auto -o silent.gguf");
    assert!(
        shown.contains("no `lora_alpha`; PEFT takes 8 then"),
        "{shown}"
    );
}

/// A control vector for the embedded model.
fn control_vector(place: &Workplace, name: &str) {
    let tensors = [
        ("direction.1", vec![256], values(256, 0)),
        ("direction.3", vec![256], values(256, 1)),
    ];
    of_tensors(
        place,
        name,
        &[("general.architecture", "controlvector")],
        &tensors,
    );
}

/// Writes a GGUF file of tensors in f32; extents as GGUF has them.
pub fn of_tensors(place: &Workplace, name: &str, about: &[(&str, &str)], tensors: &[Named]) {
    let mut metadata = Metadata::new();
    for (key, value) in about {
        metadata.set(*key, *value);
    }
    let plans = tensors.iter().map(|(name, dims, _)| {
        let dims: Vec<u64> = dims.iter().map(|&extent| extent as u64).collect();
        plan(name, F32, &dims)
    });
    let plans: Vec<_> = plans.collect();
    let options = WriteOptions {
        force: true,
        ..WriteOptions::default()
    };
    let mut writer = Writer::create(&place.path(name), &metadata, &plans, &options)
        .expect("the file can be begun");
    for (_, _, values) in tensors {
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        writer.write(&bytes).expect("it follows the plan");
    }
    writer.finish().expect("everything is written");
}

/// A place with the embedded model, an adapter for it and a control vector.
pub fn with_adapters() -> Workplace {
    let place = with_model();
    adapter(&place, "source", &two_pairs(), json!({"lora_alpha": 64}));
    let shown = place.run("gristmill convert-lora source -o lora.gguf");
    assert!(shown.starts_with("exit: 0"), "{shown}");
    control_vector(&place, "control.gguf");
    place
}

#[test]
fn every_flag_of_adapters_has_its_effect() {
    let place = with_adapters();
    let mut number = 0;
    let mut logits = |flags: &str| {
        number += 1;
        let line = format!("gristmill logits a.gguf --tokens 1,2,3,4 -o {number}.npy{flags}");
        let shown = place.run(&line);
        assert!(shown.starts_with("exit: 0"), "{shown}");
        read_npy(place.path(&format!("{number}.npy")))
    };
    let plain = logits("");
    let whole = logits(" --lora lora.gguf");
    assert_eq!(logits(" --lora-scaled lora.gguf:1"), whole);
    assert_eq!(logits(" --lora-scaled lora.gguf:0"), plain);
    let twice = logits(" --lora lora.gguf,lora.gguf");
    assert_eq!(
        logits(" --lora lora.gguf --lora-scaled lora.gguf:1.0"),
        twice
    );
    let half = logits(" --lora-scaled lora.gguf:0.25,lora.gguf:0.25");
    let controlled = logits(" --control-vector control.gguf");
    assert_eq!(
        logits(" --control-vector-scaled control.gguf:1"),
        controlled
    );
    let negative = logits(" --control-vector-scaled control.gguf:-2");
    let late = logits(" --control-vector control.gguf --control-vector-layer-range 2 3");
    let none = logits(" --control-vector control.gguf --control-vector-layer-range 2 2");
    assert_eq!(none, plain);
    let shown = place
        .run("gristmill logits a.gguf --tokens 1 -o none.npy --control-vector-layer-range 2 3");
    assert!(
        shown.contains("--control-vector-layer-range changes nothing without --control-vector"),
        "{shown}"
    );
    let vector = |flags: &str| {
        let form = "--pooling mean --embd-output-format array";
        let shown = place.run(&format!("gristmill embed a.gguf -p Once {form}{flags}"));
        assert!(shown.starts_with("exit: 0"), "{shown}");
        shown
    };
    assert_ne!(vector(""), vector(" --lora lora.gguf"));
    assert_ne!(vector(""), vector(" --control-vector control.gguf"));
    let all = [plain, whole, twice, half, controlled, negative, late];
    for (index, one) in all.iter().enumerate() {
        assert!(all[..index].iter().all(|other| other != one), "{index}");
    }
    let answer = |flags: &str| {
        let line = format!("gristmill run a.gguf -no-cnv -p Once -n 16 --temp 0{flags}");
        let shown = place.run(&line);
        assert!(shown.starts_with("exit: 0"), "{shown}");
        let lines: Vec<&str> = shown.lines().take(3).collect();
        lines.join(" ")
    };
    assert_ne!(answer(""), answer(" --lora-scaled lora.gguf:4"));
    assert_ne!(
        answer(""),
        answer(" --control-vector-scaled control.gguf:8")
    );
}

#[test]
fn adapters_that_cannot_be_applied_are_named() {
    let place = with_adapters();
    let shown = |flags: &str| place.run(&format!("gristmill run a.gguf -p Hi -st {flags}"));
    insta::assert_snapshot!(shown("--lora a.gguf"), @r"
    exit: 1
    --- stderr
    error: a.gguf: cannot be applied: an adapter (LoRA) is needed, and this is a model
    hint: --lora takes what `gristmill convert-lora` writes, --control-vector a file of directions
    ");
    insta::assert_snapshot!(shown("--control-vector lora.gguf"), @r"
    exit: 1
    --- stderr
    error: lora.gguf: cannot be applied: a control vector is needed, and this is an adapter (LoRA)
    hint: --lora takes what `gristmill convert-lora` writes, --control-vector a file of directions
    ");
    insta::assert_snapshot!(shown("--lora-scaled lora.gguf"), @r"
    exit: 2
    --- stderr
    error: invalid value 'lora.gguf' for '--lora-scaled <FILE:SCALE,…>': it must be a file and a number, as in adapter.gguf:0.5

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(shown("--lora none.gguf"), @r"
    exit: 1
    --- stderr
    error: none.gguf: no such file
    hint: check the path: a model is one .gguf file, or any of its shards
    ");
    let path = |name: &str| place.path(name);
    let set = |key, value| Change {
        set: vec![(key, value)],
        ..Change::default()
    };
    let wrong = [
        set("general.architecture", "qwen3".into()),
        set("adapter.type", "other".into()),
        set("adapter.lora.alpha", 1u32.into()),
        set(
            "adapter.alora.invocation_tokens",
            gristmill_gguf::Value::Array(gristmill_gguf::Array::U32(vec![4, 5])),
        ),
        Change {
            without: Some("blk.0.ffn_up.weight.lora_b"),
            ..Change::default()
        },
        Change {
            cut: Some("blk.0.ffn_up.weight.lora_b"),
            ..Change::default()
        },
    ];
    let mut errors = String::new();
    for change in wrong {
        changed(&path("lora.gguf"), &path("wrong.gguf"), &change);
        errors += &shown("--lora wrong.gguf");
        errors += "\n";
        std::fs::remove_file(path("wrong.gguf")).expect("it is there");
    }
    insta::assert_snapshot!(errors, @r"
    exit: 1
    --- stderr
    error: wrong.gguf: cannot be applied: the adapter is for architecture qwen3, the model's is llama
    hint: the adapter was made for another model; give its own base model
    exit: 1
    --- stderr
    error: wrong.gguf: cannot be applied: adapter.type is other, and only lora is known
    hint: merge the adapter into its base model where it was trained and convert that, or get an adapter of low-rank pairs only
    exit: 1
    --- stderr
    error: wrong.gguf: cannot be applied: metadata key `adapter.lora.alpha` is a UINT32: it must be a finite FLOAT32
    hint: the metadata is damaged or edited; convert the model again
    exit: 1
    --- stderr
    error: wrong.gguf: cannot be applied: an activated adapter (aLoRA), which counts only from the tokens [4, 5] on; such are not supported yet
    hint: use an adapter that counts everywhere; applied to all of a text, this one gives other answers
    exit: 1
    --- stderr
    error: wrong.gguf: cannot be applied: adapter tensor `blk.0.ffn_up.weight.lora_a`: its partner is missing
    hint: the adapter is damaged or incomplete; convert or download it again
    exit: 1
    --- stderr
    error: wrong.gguf: cannot be applied: adapter tensor `blk.0.ffn_up.weight.lora_b` has shape [4, 511], the model needs [4, 512]
    hint: the adapter was made for another model; give its own base model
    ");
}

/// Runs a command line that must succeed.
pub fn done(place: &Workplace, line: &str) -> String {
    let shown = place.run(line);
    assert!(shown.starts_with("exit: 0"), "{line}\n{shown}");
    shown
}

/// Right: the authors' code with the adapter merged. Beside it, what other ways to the same weights must give to the byte.
#[test]
fn golden_merged_weights() {
    let Some(root) = gristmill_golden::folder("convert") else {
        return;
    };
    let place = Workplace::new();
    let (base, lora) = (root.join("llama"), root.join("llama-lora"));
    let (base, lora) = (base.display(), lora.display());
    let source = format!("{base}/hf --tokenizer-pre llama-bpe --outtype f32");
    done(
        &place,
        &format!("gristmill convert {source} --lora {lora}/adapter -o folder.gguf"),
    );
    done(
        &place,
        &format!("gristmill convert {source} --lora {lora}/llama-lora-f32.gguf -o file.gguf"),
    );
    let read = |name: &str| std::fs::read(place.path(name)).expect("it is there");
    assert!(read("folder.gguf") == read("file.gguf"));
    let meta = std::fs::read_to_string(root.join("llama-lora/meta.json")).expect("it is there");
    let meta: Value = serde_json::from_str(&meta).expect("it is JSON");
    let ids: Vec<String> = meta["token_ids"]
        .as_array()
        .expect("a list")
        .iter()
        .map(Value::to_string)
        .collect();
    let ids = ids.join(",");
    done(
        &place,
        &format!("gristmill logits folder.gguf --tokens {ids} -o merged.npy"),
    );
    let expected = read_npy(root.join("llama-lora/logits_lora_merged.npy"));
    let difference = largest_difference(&read_npy(place.path("merged.npy")), &expected);
    println!("merged weights: largest difference {difference:e}");
    assert!(difference <= 1e-4, "{difference:e}");
    // Merged and quantized at once, and one after the other.
    let adapter = format!("--lora {lora}/llama-lora-f32.gguf");
    let from = format!("{base}/llama-f32.gguf");
    done(
        &place,
        &format!("gristmill quantize {adapter} {from} copy.gguf COPY"),
    );
    for (number, recipe) in ["Q8_0", "Q4_K_M"].into_iter().enumerate() {
        done(
            &place,
            &format!("gristmill quantize {adapter} {from} {number}-one.gguf {recipe}"),
        );
        done(
            &place,
            &format!("gristmill quantize copy.gguf {number}-two.gguf {recipe}"),
        );
        assert!(read(&format!("{number}-one.gguf")) == read(&format!("{number}-two.gguf")));
    }
    compared(1, "logits of merged weights");
}

/// The formula: `w + scale * alpha / rank * b a`, in f32.
#[test]
fn merged_weights_are_sums() {
    let place = with_adapters();
    let base = tiny_in_f32(&place).display().to_string();
    done(
        &place,
        &format!("gristmill convert {base} --outtype f32 -o plain.gguf"),
    );
    done(
        &place,
        &format!("gristmill convert {base} --outtype f32 --lora-scaled source:0.5 -o merged.gguf"),
    );
    let tensor = |name: &str, tensor: &str| {
        let file = Model::open(&place.path(name)).expect("it opens");
        let view = file.tensor(tensor).expect("it is there");
        let (elements, _) = view.data.as_chunks::<4>();
        let values = elements.iter().map(|bytes| f32::from_le_bytes(*bytes));
        values.collect::<Vec<f32>>()
    };
    let name = "blk.0.ffn_up.weight";
    let (plain, merged) = (tensor("plain.gguf", name), tensor("merged.gguf", name));
    let (a, b) = (values(4 * 256, 1), values(4 * 512, 2));
    for (index, (plain, merged)) in plain.iter().zip(&merged).enumerate() {
        let (row, column) = (index / 256, index % 256);
        let products = (0..4).map(|k| f64::from(b[row * 4 + k]) * f64::from(a[k * 256 + column]));
        let expected = f64::from(*plain) + 0.5 * 64.0 / 4.0 * products.sum::<f64>();
        assert!((f64::from(*merged) - expected).abs() < 1e-6, "{index}");
    }
    let other = "blk.1.ffn_up.weight";
    assert_eq!(tensor("plain.gguf", other), tensor("merged.gguf", other));
    // Queries too: their rows are in another order. At run time the same comes out.
    done(
        &place,
        "gristmill logits merged.gguf --tokens 1,2,3,4 -o merged.npy",
    );
    done(
        &place,
        "gristmill logits plain.gguf --lora-scaled lora.gguf:0.5 --tokens 1,2,3,4 -o beside.npy",
    );
    let [merged, beside] = ["merged.npy", "beside.npy"].map(|name| read_npy(place.path(name)));
    assert!(largest_difference(&merged, &beside) <= 1e-4);
    // An unwanted change of both of two tied tensors is told, and that of one of them refused.
    let embeddings = [
        (
            "base_model.model.model.embed_tokens.lora_embedding_A",
            vec![4, 1024],
            values(4096, 1),
        ),
        (
            "base_model.model.model.embed_tokens.lora_embedding_B",
            vec![256, 4],
            values(1024, 2),
        ),
    ];
    adapter(&place, "embeddings", &embeddings, json!({}));
    let line = "gristmill quantize plain.gguf --lora embeddings out.gguf Q8_0";
    assert!(done(&place, line).contains("is its table of embeddings"));
    adapter(
        &place,
        "output",
        &pair("base_model.model.lm_head", 256, 1024, 4),
        json!({}),
    );
    let line = "gristmill quantize plain.gguf --lora output o.gguf COPY";
    insta::assert_snapshot!(place.run(line), @r"
    exit: 1
    --- stderr
    error: output: changes `output.weight`, which the model does not have as a tensor of its own
    hint: use the adapter at run time (`gristmill run --lora`), where tied tensors change apart
    ");
    let line = "gristmill quantize out.gguf --lora lora.gguf o.gguf COPY";
    insta::assert_snapshot!(place.run(line), @r#"
    exit: 1
    --- stderr
    error: requantizing from type q8_0 is disabled (tensor "blk.0.ffn_up.weight")
    hint: quantize the F16, BF16 or F32 file again; `--allow-requantize` accepts the added loss
    "#);
    done(&place, &format!("{line} --allow-requantize"));
    let line = "gristmill quantize plain.gguf --lora plain.gguf p.gguf COPY";
    insta::assert_snapshot!(place.run(line), @r"
    exit: 1
    --- stderr
    error: plain.gguf: is a model, not an adapter (LoRA)
    hint: name what `gristmill convert-lora` wrote, or the folder that PEFT wrote
    ");
}

/// Case B99, on the disk: what was computed with adapters is no past of a run with others.
#[test]
fn b99_a_saved_session_is_tied_to_its_adapters() {
    let place = with_adapters();
    let run = |flags: &str| {
        let line = "gristmill run a.gguf -no-cnv -p hello-hello -n 2 --temp 0 --prompt-cache s.bin";
        place.run(&format!("{line}{flags}"))
    };
    assert!(run(" --lora lora.gguf").contains("s.bin is new"));
    assert!(run(" --lora lora.gguf").contains("tokens from s.bin"));
    for other in [
        "",
        " --lora-scaled lora.gguf:0.5",
        " --lora lora.gguf,lora.gguf",
        " --lora lora.gguf --control-vector control.gguf",
    ] {
        let shown = run(other);
        assert!(
            shown.starts_with("exit: 1") && shown.contains("or with other adapters"),
            "{other}\n{shown}"
        );
    }
}

/// Merging straight to a recipe is merging into f32 and quantizing that, where the checkpoint has 16 bits too.
#[test]
fn weights_merged_straight_to_a_recipe_are_rounded_once() {
    let place = with_adapters();
    let convert = format!("gristmill convert {} --lora source", tiny().display());
    done(
        &place,
        &format!("{convert} --outtype q4_k_m -o merged.gguf"),
    );
    for ty in ["f32", "bf16"] {
        done(&place, &format!("{convert} --outtype {ty} -o {ty}.gguf"));
        done(
            &place,
            &format!("gristmill quantize {ty}.gguf {ty}-q.gguf Q4_K_M"),
        );
    }
    let open = |name: &str| Model::open(&place.path(name)).expect("it opens");
    let [merged, f32, bf16] = ["merged.gguf", "f32-q.gguf", "bf16-q.gguf"].map(open);
    let bytes = |file: &Model, name: &str| {
        let view = file.tensor(name).expect("it is there");
        (view.info.ty, view.data.to_vec())
    };
    for info in merged.tensors() {
        let name = &info.name;
        assert!(bytes(&merged, name) == bytes(&f32, name), "{name}");
    }
    // What goes through 16 bits is something else, and what no adapter changes is not.
    for (name, is_changed) in [
        ("blk.0.ffn_up.weight", true),
        ("blk.1.attn_q.weight", true),
        ("blk.1.ffn_up.weight", false),
    ] {
        let is_same = bytes(&merged, name) == bytes(&bf16, name);
        assert_eq!(is_same, !is_changed, "{name}");
    }
}
