//! Any bytes as a model file: refused with a message, or loaded and run for a few tokens; and refused, or quantized to a
//! file that opens.

#![no_main]

use std::fs;

use gristmill_convert::quantize::{QuantizeOptions, quantize};
use gristmill_convert::recipe::Recipe;
use gristmill_engine::{EngineError, LoadOptions, Model, all_logits};
use gristmill_fuzz::folder;
use gristmill_gguf as gguf;
use libfuzzer_sys::fuzz_target;

/// Recipes of block types of every make, and one that copies.
const RECIPES: [&str; 4] = ["Q4_K_M", "Q8_0", "Q5_1", "BF16"];

fuzz_target!(|bytes: &[u8]| {
    let path = folder().join("in.gguf");
    fs::write(&path, bytes).expect("the folder takes files");
    match gguf::Model::open(&path) {
        Ok(file) => run(file),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    }
    let output = folder().join("out.gguf");
    let choice = bytes.last().map_or(0, |&byte| usize::from(byte));
    let recipe = Recipe::from_name(RECIPES[choice % RECIPES.len()]).expect("it is registered");
    let mut options = QuantizeOptions::new(&path, &output, recipe);
    options.allow_requantize = true;
    options.force = true;
    options.n_threads = 1;
    match quantize(&options, &mut |_| {}) {
        Ok(_) => drop(gguf::File::open(&output).expect("what was quantized opens")),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});

/// Loads a model, and feeds it its first tokens one after another.
fn run(file: gguf::Model) {
    let options = LoadOptions {
        n_threads: Some(1),
        n_ctx: Some(8),
        n_ubatch: 2,
        ..LoadOptions::default()
    };
    let model = match Model::load(file, &options) {
        Ok(model) => model,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let n_vocab = model.n_vocab();
    let ids: Vec<u32> = (0..n_vocab.min(3) as u32).collect();
    let mut n_rows = 0;
    let run = all_logits(model, &ids, &options, |row| {
        assert_eq!(row.len(), n_vocab);
        n_rows += 1;
        Ok::<_, EngineError>(())
    });
    match run {
        Ok(()) => assert_eq!(n_rows, ids.len()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
