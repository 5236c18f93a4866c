//! `golden/recipes`: the reference's type for every tensor of four models under every recipe, and of two of
//! them with options.

use gristmill_quant::{F16, F32};
use serde_json::Value;

use super::*;

struct GoldenModel {
    facts: ModelFacts,
    /// Sorted; matrices in F16, vectors in F32.
    tensors: Vec<SourceTensor>,
    not_quantized: Vec<String>,
    json: Value,
}

fn load(path: &std::path::Path) -> GoldenModel {
    let json: Value =
        serde_json::from_slice(&std::fs::read(path).expect("it is there")).expect("it is JSON");
    let number = |name: &str| json["hparams"][name].as_u64().unwrap_or(0);
    let facts = ModelFacts {
        architecture: json["architecture"].as_str().expect("a name").to_owned(),
        n_layers: number("block_count"),
        n_heads: number("attention.head_count"),
        n_kv_heads: number("attention.head_count_kv"),
        n_experts: number("expert_count"),
    };
    let tensors = json["tensors"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|tensor| {
            let dims: Vec<u64> = tensor["ne"]
                .as_array()
                .expect("a shape")
                .iter()
                .map(|n| n.as_u64().expect("a number"))
                .collect();
            let ty = if dims.len() > 1 { F16 } else { F32 };
            SourceTensor {
                name: tensor["name"].as_str().expect("a name").to_owned(),
                dims,
                ty,
            }
        });
    let mut tensors: Vec<_> = tensors.collect();
    sort_tensors(&mut tensors, |tensor| &tensor.name);
    let names = json["not_quantized"].as_array().expect("a list").iter();
    let not_quantized = names
        .map(|name| name.as_str().expect("a name").to_owned())
        .collect();
    GoldenModel {
        facts,
        tensors,
        not_quantized,
        json,
    }
}

/// Compares every tensor's type; returns how many were compared.
fn check(
    model: &GoldenModel,
    recipe: &'static Recipe,
    options: &PlanOptions,
    golden: impl Fn(&str) -> String,
) -> usize {
    let plan = plan(recipe, &model.facts, &model.tensors, options).expect("every shape has a type");
    for (tensor, planned) in model.tensors.iter().zip(&plan.tensors) {
        let kept = tensor.dims.len() < 2 || model.not_quantized.contains(&tensor.name);
        let expected = if kept {
            tensor.ty.name().to_owned()
        } else {
            golden(&tensor.name)
        };
        assert_eq!(
            planned.ty.name(),
            expected,
            "{} {recipe:?} {options:?}",
            tensor.name
        );
    }
    plan.tensors.len()
}

#[test]
fn every_tensor_gets_the_type_that_the_reference_gives_it() {
    let Some(folder) = gristmill_golden::folder("recipes") else {
        return;
    };
    let mut n_compared = 0;
    for name in [
        "gemma-3-4b-it",
        "meta-llama-3.1-70b-instruct",
        "qwen3-0.6b",
        "qwen3-14b",
    ] {
        let model = load(&folder.join(format!("{name}.json")));
        for (recipe_name, golden) in model.json["ftypes"].as_object().expect("a table") {
            let recipe = Recipe::from_name(recipe_name).expect("it is registered");
            assert_eq!(
                Some(recipe.default.name()),
                golden["default"].as_str(),
                "{recipe_name}"
            );
            n_compared += check(&model, recipe, &PlanOptions::default(), |tensor| {
                golden["overrides"][tensor]
                    .as_str()
                    .unwrap_or(recipe.default.name())
                    .to_owned()
            });
        }
    }
    gristmill_golden::compared(n_compared, "types of tensors");
}

/// The options of a run's flags.
fn options(flags: &[Value]) -> PlanOptions {
    let mut options = PlanOptions::default();
    let mut flags = flags.iter().map(|flag| flag.as_str().expect("text"));
    while let Some(flag) = flags.next() {
        let mut ty = || plan::tensor_type(flags.next().expect("a value")).expect("a type");
        match flag {
            "--pure" => options.pure = true,
            "--leave-output-tensor" => options.leave_output_tensor = true,
            "--output-tensor-type" => options.output_tensor_type = Some(ty()),
            "--token-embedding-type" => options.token_embedding_type = Some(ty()),
            "--tensor-type" => {
                options.tensor_types.push(
                    flags
                        .next()
                        .expect("a value")
                        .parse()
                        .expect("a pattern and a type"),
                );
            }
            "--imatrix" => {
                flags.next();
                options.has_importance = true;
            }
            other => panic!("unknown flag {other}"),
        }
    }
    options
}

#[test]
fn options_bend_the_recipe_as_in_the_reference() {
    let Some(folder) = gristmill_golden::folder("recipes") else {
        return;
    };
    let mut n_compared = 0;
    for name in ["meta-llama-3.1-70b-instruct", "qwen3-0.6b"] {
        let model = load(&folder.join(format!("{name}.json")));
        let flags = std::fs::read(folder.join(format!("{name}.flags.json"))).expect("it is there");
        let flags: Value = serde_json::from_slice(&flags).expect("it is JSON");
        for run in flags["runs"].as_array().expect("a list") {
            let recipe = Recipe::from_name(run["ftype"].as_str().expect("a name"))
                .expect("it is registered");
            let majority = run["majority"].as_str().expect("a type");
            let options = options(run["flags"].as_array().expect("a list"));
            n_compared += check(&model, recipe, &options, |tensor| {
                run["others"][tensor]
                    .as_str()
                    .unwrap_or(majority)
                    .to_owned()
            });
        }
    }
    gristmill_golden::compared(n_compared, "types of tensors with options");
}

#[test]
fn names_aliases_and_numbers_are_found() {
    for recipe in RECIPES.iter() {
        let by_number = Recipe::from_name(&recipe.id.to_string()).expect("its number is known");
        assert_eq!(by_number.name, recipe.name);
        for name in recipe.aliases.iter().chain([&recipe.name]) {
            assert_eq!(
                Recipe::from_name(&name.to_lowercase())
                    .expect("its name is known")
                    .id,
                recipe.id
            );
        }
    }
    assert_eq!(Recipe::from_name("q4_k").expect("an alias").name, "Q4_K_M");
    assert_eq!(
        Recipe::from_name("Q4_X")
            .expect_err("no such recipe")
            .to_string(),
        r#"unknown quantization type "Q4_X""#
    );
}

fn matrix(name: &str, row_len: u64) -> SourceTensor {
    SourceTensor {
        name: name.to_owned(),
        dims: vec![row_len, 8],
        ty: F16,
    }
}

/// B38: rows that the recipe's blocks do not divide.
#[test]
fn case_b38_rows_not_divisible_by_the_block() {
    let model = ModelFacts {
        architecture: "llama".to_owned(),
        n_layers: 1,
        ..ModelFacts::default()
    };
    let expect = |recipe: &str, row_len: u64, expected: &str| {
        let recipe = Recipe::from_name(recipe).expect("it is registered");
        let tensors = [
            matrix("output.weight", 256),
            matrix("blk.0.attn_q.weight", row_len),
        ];
        let planned = plan(recipe, &model, &tensors, &PlanOptions::default())
            .expect("there is a fallback")
            .tensors[1];
        assert_eq!(planned.ty.name(), expected, "{recipe:?} {row_len}");
        assert_eq!(
            planned.fallback_from,
            (row_len != 256).then_some(recipe.default),
            "{recipe:?} {row_len}"
        );
    };
    for (recipe, fallback) in [
        ("Q4_K_S", "q5_0"),
        ("Q5_K_S", "q5_1"),
        ("Q6_K", "q8_0"),
        ("Q2_K", "q4_0"),
        ("Q3_K_S", "q4_0"),
        ("IQ4_XS", "iq4_nl"),
    ] {
        expect(
            recipe,
            256,
            Recipe::from_name(recipe)
                .expect("it is registered")
                .default
                .name(),
        );
        expect(recipe, 288, fallback);
        expect(recipe, 160, fallback);
        expect(recipe, 14, "f16");
    }
    let q1_0 = Recipe::from_name("Q1_0").expect("it is registered");
    let error = plan(
        q1_0,
        &model,
        &[matrix("blk.0.attn_q.weight", 160)],
        &PlanOptions::default(),
    );
    assert!(
        matches!(error, Err(ConvertError::NoFallback { row_len: 160, .. })),
        "{error:?}"
    );
}

/// Every reason for which an override decides nothing, and none where it decides.
#[test]
fn overrides_that_decide_nothing() {
    let model = ModelFacts {
        architecture: "llama".to_owned(),
        n_layers: 1,
        ..ModelFacts::default()
    };
    let tensors = [
        matrix("output.weight", 256),
        matrix("token_embd.weight", 256),
        matrix("blk.0.attn_q.weight", 256),
        matrix("blk.0.attn_v.weight", 256),
        matrix("blk.0.attn_norm.weight", 256),
    ];
    let check = |recipe: &str, options: &PlanOptions, patterns: &[&str], expected: &[_]| {
        let overrides = patterns.iter().map(|pattern| {
            let text = format!("{pattern}=q8_0");
            text.parse::<TensorOverride>().expect("it is well formed")
        });
        let options = PlanOptions {
            tensor_types: overrides.collect(),
            ..options.clone()
        };
        let recipe = Recipe::from_name(recipe).expect("it is registered");
        let plan = plan(recipe, &model, &tensors, &options).expect("rows fit");
        let unused = plan.unused_overrides.iter();
        let unused: Vec<_> = unused.map(|unused| (unused.index, unused.reason)).collect();
        assert_eq!(unused, expected, "{recipe:?} {patterns:?}");
    };
    let plain = PlanOptions::default();
    let typed = PlanOptions {
        output_tensor_type: Some(q::Q6_K),
        token_embedding_type: Some(q::Q6_K),
        ..PlanOptions::default()
    };
    let kept = PlanOptions {
        leave_output_tensor: true,
        ..PlanOptions::default()
    };
    check("Q4_K_M", &plain, &["nothing"], &[(0, Unused::NotFound)]);
    check("Q4_K_M", &plain, &["norm"], &[(0, Unused::Kept)]);
    check("F16", &plain, &["attn_v"], &[(0, Unused::Unquantized)]);
    let two = [(2, Unused::Earlier(0))];
    check("Q4_K_M", &plain, &["attn_q", "attn_v", "attn"], &two);
    check("Q4_K_M", &plain, &["attn_q", "attn"], &[]);
    check("Q4_K_M", &kept, &["output"], &[(0, Unused::Outranked)]);
    check("Q4_K_M", &typed, &["embd"], &[(0, Unused::Outranked)]);
    let both = [(0, Unused::Outranked), (1, Unused::Outranked)];
    check("Q4_K_M", &typed, &["output", "^output"], &both);
    check("Q4_K_M", &typed, &["output", "output|attn_v"], &both[..1]);
}

/// B39: overrides win over the mix and over `--pure`; the first match decides; any case; no match is reported.
#[test]
fn case_b39_override_rules() {
    let model = ModelFacts {
        architecture: "llama".to_owned(),
        n_layers: 1,
        ..ModelFacts::default()
    };
    let recipe = Recipe::from_name("Q4_K_M").expect("it is registered");
    let tensors = [
        matrix("blk.0.attn_q.weight", 256),
        matrix("blk.0.attn_v.weight", 160),
    ];
    let parse = |text: &str| text.parse::<TensorOverride>();
    for pure in [false, true] {
        let overrides = ["attn_q=Q5_K", "attn=q3_k", "nothing=q8_0"]
            .map(|text| parse(text).expect("it is well formed"));
        let options = PlanOptions {
            pure,
            tensor_types: overrides.to_vec(),
            ..PlanOptions::default()
        };
        let plan = plan(recipe, &model, &tensors, &options).expect("there is a fallback");
        assert_eq!(
            [plan.tensors[0].ty.name(), plan.tensors[1].ty.name()],
            ["q5_K", "q4_0"]
        );
        let unused = UnusedOverride {
            index: 2,
            reason: Unused::NotFound,
        };
        assert_eq!(plan.unused_overrides, [unused]);
    }
    assert!(matches!(
        parse("attn_q"),
        Err(ConvertError::BadTensorOverride { .. })
    ));
    assert!(matches!(
        parse("(=q4_K"),
        Err(ConvertError::BadTensorOverride { .. })
    ));
    assert!(matches!(
        parse("attn_q=q9_K"),
        Err(ConvertError::UnknownTensorType { .. })
    ));
}

#[test]
fn tensors_are_sorted_by_block_then_name() {
    let mut names = [
        "blk.10.a",
        "output.weight",
        "blk.2.b",
        "blk.2.a",
        "a.blk.1.x",
        "blk.x.y",
    ];
    sort_tensors(&mut names, |name| name);
    assert_eq!(
        names,
        [
            "a.blk.1.x",
            "blk.x.y",
            "output.weight",
            "blk.2.a",
            "blk.2.b",
            "blk.10.a"
        ]
    );
}

#[test]
fn facts_come_from_the_metadata() {
    let mut metadata = gristmill_gguf::Metadata::new();
    metadata.set("general.architecture", "openelm");
    metadata.set("openelm.block_count", 16u32);
    metadata.set(
        "openelm.attention.head_count",
        gristmill_gguf::Array::U32(vec![12, 16]),
    );
    metadata.set(
        "openelm.attention.head_count_kv",
        gristmill_gguf::Array::I32(vec![3, 4]),
    );
    let facts = ModelFacts::from_metadata(&metadata).expect("the types are right");
    let expected = ModelFacts {
        architecture: "openelm".to_owned(),
        n_layers: 16,
        n_heads: 12,
        n_kv_heads: 3,
        n_experts: 0,
    };
    assert_eq!(facts, expected);
    assert_eq!(facts.heads_per_kv_head(), 4);
}
