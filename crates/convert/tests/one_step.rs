//! One step equals two: a checkpoint converted straight to a recipe is, byte for byte, the checkpoint converted to its own
//! float type and then quantized.

use std::path::Path;

use gristmill_convert::quantize::{QuantizeOptions, quantize};
use gristmill_convert::recipe::Recipe;
use gristmill_convert::{ConvertOptions, OutputType, convert};
use gristmill_model::architecture_of_config;

fn check(checkpoint: &Path, pre_tokenizer: Option<&str>, float: &str, recipe: &'static Recipe) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = |name: &str| folder.path().join(name);
    let to = |ty: &str, path: &Path| {
        let options = ConvertOptions {
            output: Some(path.to_owned()),
            output_type: OutputType::parse(ty).expect("it is known"),
            pre_tokenizer: pre_tokenizer.map(str::to_owned),
            ..ConvertOptions::new(checkpoint)
        };
        convert(&options, &mut |_| ()).expect("the checkpoint converts")
    };
    to(float, &path("float.gguf"));
    let options = QuantizeOptions::new(path("float.gguf"), path("two.gguf"), recipe);
    quantize(&options, &mut |_| ()).expect("the file quantizes");
    let report = to(recipe.name, &path("one.gguf"));
    assert_eq!(report.output_type, recipe.name);
    let [one, two] =
        ["one.gguf", "two.gguf"].map(|name| std::fs::read(path(name)).expect("it was written"));
    assert!(
        one == two,
        "{}: {} by {float} and {recipe:?} differ",
        checkpoint.display(),
        float
    );
}

#[test]
fn one_step_equals_two() {
    let is_supported = |class: &str| architecture_of_config(class).is_some();
    let Some(checkpoints) = gristmill_golden::checkpoints(is_supported) else {
        return;
    };
    let mut n_compared = 0;
    for recipe in
        ["Q4_K_M", "Q2_K", "Q5_1"].map(|name| Recipe::from_name(name).expect("it is registered"))
    {
        // Checkpoints in each float type.
        for checkpoint in &checkpoints {
            let source = &checkpoint.source;
            let pre_tokenizer = checkpoint.pre_tokenizer.as_deref();
            check(source, pre_tokenizer, float_of(source), recipe);
            n_compared += 1;
        }
    }
    gristmill_golden::compared(n_compared, "one step and two");
}

/// The float type of a checkpoint, by its configuration.
fn float_of(checkpoint: &Path) -> &'static str {
    let config = std::fs::read(checkpoint.join("config.json")).expect("it is there");
    let config: serde_json::Value = serde_json::from_slice(&config).expect("it is JSON");
    let name = config["torch_dtype"].as_str().or(config["dtype"].as_str());
    match name {
        Some("bfloat16") => "bf16",
        Some("float16") => "f16",
        _ => "f32",
    }
}
