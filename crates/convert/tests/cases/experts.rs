//! Case B35: experts apart, together, and with gate and up projections in one.

use super::fixture::Fixture;
use gristmill_convert::{
    ConvertLoraOptions, ConvertOptions, MergeSource, OutputType, convert, convert_lora,
};
use gristmill_gguf::{Model, Value};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const N_EXPERTS: usize = 4;

/// Names of a class's experts: gate, down and up projections, apart and together, and its router.
struct Names {
    class: &'static str,
    block: &'static str,
    parts: [&'static str; 3],
}

const CLASSES: [Names; 2] = [
    Names {
        class: "MixtralForCausalLM",
        block: "block_sparse_moe",
        parts: ["w1", "w2", "w3"],
    },
    Names {
        class: "Qwen3MoeForCausalLM",
        block: "mlp",
        parts: ["gate_proj", "down_proj", "up_proj"],
    },
];

/// The tiny model with experts in place of its feed-forward parts, each expert apart.
fn apart(names: &Names) -> Fixture {
    let mut fixture = Fixture::new();
    let class = names.class;
    fixture.config["architectures"] = json!([class]);
    for (key, value) in [
        ("num_local_experts", json!(N_EXPERTS)),
        ("num_experts", json!(N_EXPERTS)),
        ("num_experts_per_tok", json!(2)),
        ("moe_intermediate_size", json!(512)),
        ("norm_topk_prob", json!(true)),
    ] {
        fixture.config[key] = value;
    }
    for layer in 0..4 {
        let start = format!("model.layers.{layer}");
        let dense = ["gate_proj", "down_proj", "up_proj"];
        for (part, dense) in names.parts.iter().zip(dense) {
            let whole = fixture
                .tensors
                .remove(&format!("{start}.mlp.{dense}.weight"));
            let (dtype, shape, bytes) = whole.expect("it is there");
            for expert in 0..N_EXPERTS {
                // Each expert has other values: those of the others, further on.
                let mut bytes = bytes.clone();
                bytes.rotate_left(2 * 512 * (expert + 1));
                let name = format!("{start}.{}.experts.{expert}.{part}.weight", names.block);
                fixture.tensors.insert(name, (dtype, shape.clone(), bytes));
            }
        }
        let router = (
            Dtype::BF16,
            vec![N_EXPERTS, 256],
            vec![0x3c; N_EXPERTS * 512],
        );
        let name = format!("{start}.{}.gate.weight", names.block);
        fixture.tensors.insert(name, router);
        if class.starts_with("Qwen3") {
            for norm in ["q_norm", "k_norm"] {
                let ones = (Dtype::BF16, vec![64], [0x80, 0x3f].repeat(64));
                fixture
                    .tensors
                    .insert(format!("{start}.self_attn.{norm}.weight"), ones);
            }
        }
    }
    fixture
}

/// Puts the experts of each layer together; gate and up projections in one if `fused`.
fn together(fixture: &mut Fixture, names: &Names, fused: bool) {
    for layer in 0..4 {
        let start = format!("model.layers.{layer}.{}.experts", names.block);
        let mut take = |part: &str| -> Vec<Vec<u8>> {
            let name = |expert| format!("{start}.{expert}.{part}.weight");
            let tensors = (0..N_EXPERTS).map(|expert| fixture.tensors.remove(&name(expert)));
            tensors
                .map(|tensor| tensor.expect("it is there").2)
                .collect()
        };
        let [gates, downs, ups] = names.parts.map(&mut take);
        let mut put = |name: String, shape: [usize; 2], bytes: Vec<u8>| {
            let shape = vec![N_EXPERTS, shape[0], shape[1]];
            fixture.tensors.insert(name, (Dtype::BF16, shape, bytes));
        };
        if fused {
            let pairs = gates.iter().zip(&ups);
            let both = pairs.flat_map(|(gate, up)| [gate.as_slice(), up].concat());
            put(format!("{start}.gate_up_proj"), [1024, 256], both.collect());
            put(format!("{start}.down_proj"), [256, 512], downs.concat());
        } else {
            let [gate, down, up] = names.parts;
            // With the ending that some writers put there.
            put(format!("{start}.{gate}.weight"), [512, 256], gates.concat());
            put(format!("{start}.{down}"), [256, 512], downs.concat());
            put(format!("{start}.{up}"), [512, 256], ups.concat());
        }
    }
}

/// Entries and tensors of a file, in their order.
type Content = (Vec<(String, Value)>, Vec<(String, Vec<u8>)>);

/// What a converted file has: entries, but for those that the folder's name gives, and tensors in their order.
fn content(out: &Path) -> Content {
    let file = fs::read_dir(out).unwrap().next().expect("there is one");
    content_of(&file.unwrap().path())
}

fn content_of(path: &Path) -> Content {
    let model = Model::open(path).unwrap();
    let of_folder = [
        "general.name",
        "general.basename",
        "general.finetune",
        "general.version",
    ];
    let entries = model.metadata().iter();
    let entries = entries.filter(|(key, _)| !of_folder.contains(key));
    let entries = entries.map(|(key, value)| (key.to_owned(), value.clone()));
    let tensors = model.tensors().iter().map(|info| {
        let data = model.tensor(&info.name).unwrap().data.to_vec();
        (info.name.clone(), data)
    });
    (entries.collect(), tensors.collect())
}

#[test]
fn b35_three_forms_of_experts_give_the_same_file() {
    for names in &CLASSES {
        for ty in ["f32", "f16", "q4_k_m"] {
            let fixture = apart(names);
            let (report, out) = fixture.write().converted(ty);
            assert_eq!(report.unknown_tensors, [""; 0], "{}", names.class);
            let expected = content(out.path());
            for fused in [false, true] {
                let mut fixture = apart(names);
                together(&mut fixture, names, fused);
                let (report, out) = fixture.write().converted(ty);
                assert_eq!(report.unknown_tensors, [""; 0], "{}", names.class);
                assert!(
                    content(out.path()) == expected,
                    "{} {ty} {fused}",
                    names.class
                );
            }
        }
    }
}

#[test]
fn b35_experts_may_be_in_several_files() {
    for names in &CLASSES {
        let fixture = apart(names);
        let (_, out) = fixture.write().converted("f32");
        // Files are read one after the other, so that their order differs.
        let tensors =
            |out: &Path| -> BTreeMap<String, Vec<u8>> { content(out).1.into_iter().collect() };
        let expected = tensors(out.path());
        let spread = apart(names);
        fs::write(spread.path("config.json"), spread.config.to_string()).unwrap();
        let file_of = |name: &str| match name.contains("experts.1") || name.contains("experts.2") {
            true => "model-00002-of-00002.safetensors",
            false => "model-00001-of-00002.safetensors",
        };
        for file in [
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
        ] {
            spread.write_part(file, |name| file_of(name) == file);
        }
        let (_, out) = spread.converted("f32");
        assert!(tensors(out.path()) == expected, "{}", names.class);
    }
}

#[test]
fn b35_a_missing_or_misshapen_expert_is_named() {
    let names = &CLASSES[1];
    let mut fixture = apart(names);
    let name = "model.layers.2.mlp.experts.3.down_proj.weight";
    let (dtype, shape, bytes) = fixture.tensors.remove(name).unwrap();
    let refused = fixture.write().refused("f32").to_string();
    let missing = "the checkpoint has no tensor `model.layers.2.mlp.experts.3.down_proj.weight` \
                   (for `blk.2.ffn_down_exps.weight` of shape [512, 256])";
    assert!(refused.ends_with(missing), "{refused}");
    let bent = (dtype, vec![shape[1], shape[0]], bytes);
    fixture.tensors.insert(name.to_owned(), bent);
    let refused = fixture.write().refused("f32").to_string();
    let misshapen = "tensor `model.layers.2.mlp.experts.3.down_proj.weight` has shape [512, 256], expected [256, 512]";
    assert!(refused.ends_with(misshapen), "{refused}");
    let mut fixture = apart(names);
    together(&mut fixture, names, true);
    let extra = (Dtype::BF16, vec![512, 256], vec![0; 2 * 512 * 256]);
    let name = "model.layers.0.mlp.experts.0.up_proj.weight";
    fixture.tensors.insert(name.to_owned(), extra);
    // Alphabetically the single expert comes first, so that the tensor with all is one too many, and the
    // others are missing.
    let refused = fixture.write().refused("f32").to_string();
    assert!(
        refused.contains("`model.layers.0.mlp.experts.1.up_proj.weight`"),
        "{refused}"
    );
}

/// Pairs for single experts are put together in the order of the experts, each with its own rank and scale; experts without one
/// stay as they are. Right: base + alpha / rank * b a, for a merge from the folder and from the converted file.
#[test]
fn pairs_of_experts_change_their_experts() {
    for (names, part, [n_in, n_out]) in [
        (&CLASSES[0], "w2", [512, 256]),
        (&CLASSES[1], "up_proj", [256, 512]),
    ] {
        let fixture = apart(names);
        let base = fixture.write().folder.path();
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let config = format!(r#"{{"lora_alpha": 8, "alpha_pattern": {{"experts.3.{part}": 1}}}}"#);
        fs::create_dir(path("adapter")).unwrap();
        fs::write(path("adapter/adapter_config.json"), config).unwrap();
        let value = |index: usize| ((index * 37) % 101) as f32 / 500.0 - 0.1;
        let changes = [(3, 2, 0.5), (1, 4, 2.0)];
        let halves = changes.map(|(expert, rank, _)| {
            let module = format!(
                "base_model.model.model.layers.0.{}.experts.{expert}.{part}",
                names.block
            );
            [("lora_A", [rank, n_in]), ("lora_B", [n_out, rank])].map(|(half, shape)| {
                let values =
                    (0..shape[0] * shape[1]).map(|index| value(index + expert).to_le_bytes());
                (
                    format!("{module}.{half}.weight"),
                    shape,
                    values.flatten().collect::<Vec<u8>>(),
                )
            })
        });
        let views = halves.iter().flatten().map(|(name, shape, bytes)| {
            (
                name,
                TensorView::new(Dtype::F32, shape.to_vec(), bytes).unwrap(),
            )
        });
        let weights = safetensors::serialize(views, None).unwrap();
        fs::write(path("adapter/adapter_model.safetensors"), weights).unwrap();
        convert_lora(
            &ConvertLoraOptions {
                folder: path("adapter"),
                base: Some(base.to_owned()),
                base_model_id: None,
                hub_cache: None,
                output: Some(path("adapter.gguf")),
                output_type: OutputType::parse("f32").unwrap(),
                force: false,
                dry_run: false,
                n_threads: 1,
            },
            &mut |_| {},
        )
        .unwrap();
        let converted = |name: &str, adapter: Option<&str>| {
            let merge = adapter.map(|adapter| MergeSource {
                path: path(adapter),
                scale: 1.0,
            });
            convert(
                &ConvertOptions {
                    output: Some(path(name)),
                    output_type: OutputType::parse("f32").unwrap(),
                    merge: merge.into_iter().collect(),
                    ..ConvertOptions::new(base)
                },
                &mut |_| {},
            )
            .unwrap();
            content_of(&path(name))
                .1
                .into_iter()
                .collect::<BTreeMap<_, _>>()
        };
        let plain = converted("plain.gguf", None);
        let merged = converted("merged.gguf", Some("adapter"));
        assert!(
            converted("other.gguf", Some("adapter.gguf")) == merged,
            "{}",
            names.class
        );
        let slot = if part == "w2" {
            "ffn_down_exps"
        } else {
            "ffn_up_exps"
        };
        let changed = format!("blk.0.{slot}.weight");
        for (name, bytes) in &plain {
            assert_eq!(merged[name] == *bytes, *name != changed, "{name}");
        }
        let floats = |bytes: &[u8]| -> Vec<f32> {
            bytes
                .as_chunks::<4>()
                .0
                .iter()
                .map(|bytes| f32::from_le_bytes(*bytes))
                .collect()
        };
        let (before, after) = (floats(&plain[&changed]), floats(&merged[&changed]));
        for (index, (before, after)) in before.iter().zip(&after).enumerate() {
            let (expert, row, column) =
                (index / (n_in * n_out), index / n_in % n_out, index % n_in);
            let change = changes.iter().find(|(changed, _, _)| *changed == expert);
            let sum = change.map_or(0.0, |&(_, rank, scale)| {
                let product =
                    |k: usize| value(row * rank + k + expert) * value(k * n_in + column + expert);
                scale * (0..rank).map(product).sum::<f32>()
            });
            assert!(
                (before + sum - after).abs() <= 1e-6,
                "{index}: {before} {sum} {after}"
            );
        }
    }
}
