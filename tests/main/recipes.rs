//! Every recipe on whole models: what was written loads and speaks, and its types are shown.

use std::path::Path;

use gristmill_convert::ConvertError;
use gristmill_convert::quantize::{Importance, QuantizeOptions, quantize};
use gristmill_convert::recipe::Recipe;
use gristmill_engine::sampling::SamplingOptions;
use gristmill_engine::{
    EmbedOptions, Embedder, GenerateOptions, Limit, Listener, LoadOptions, Model, Session,
    raw_prompt,
};
use gristmill_gguf::{Imatrix, ImatrixEntry};

/// Ids that each file has to say.
const N_IDS: usize = 8;

/// An importance matrix for all matrices of a file, which weighs all columns alike.
fn even_importance(path: &Path) -> Importance {
    let model = gristmill_gguf::Model::open(path).expect("the model can be opened");
    let mut imatrix = Imatrix::default();
    for tensor in model.tensors() {
        if let [row_len, _, ref more @ ..] = tensor.dims[..] {
            let n_matrices = more.iter().product::<u64>() as usize;
            let sums = vec![1.0; row_len as usize * n_matrices];
            let entry = ImatrixEntry::new(sums, vec![1.0; n_matrices], None);
            imatrix.insert(&tensor.name, entry.expect("ones are finite"));
        }
    }
    Importance::new("even.imatrix", imatrix)
}

/// Whether an encoder gives vectors.
fn embeds(path: &Path) -> bool {
    let file = gristmill_gguf::Model::open(path).expect("what was written can be opened");
    let options = LoadOptions::default();
    let model = Model::load(file, &options).expect("what was written can be loaded");
    let embedder = Embedder::new(model, &options, &EmbedOptions::default());
    let mut embedder = embedder.expect("the encoder can be used");
    let ids = embedder.encode(b"Good morrow, cousin.", false);
    // Numbers that are none would be an error.
    embedder.embed(&[ids], 512).is_ok()
}

/// What a model says greedily; its logits are checked on the way.
fn speak(path: &Path) -> Vec<u32> {
    let file = gristmill_gguf::Model::open(path).expect("what was written can be opened");
    let options = LoadOptions {
        n_ctx: Some(64),
        ..Default::default()
    };
    let model = Model::load(file, &options).expect("what was written can be loaded");
    let mut session = Session::new(model.clone(), &options).expect("a session can be made");
    let ids = raw_prompt(model.tokenizer(), "Good morrow, cousin.".as_bytes());
    let generate = GenerateOptions {
        limit: Limit::Tokens(N_IDS),
        sampling: SamplingOptions::greedy(),
        ignore_eos: true,
        ..Default::default()
    };
    let mut listener = Listener {
        on_step: &mut |_| {},
        on_prompt: &mut |_, _| (),
        on_text: &mut |_| (),
        interrupted: &|| false,
    };
    let answer = session.generate(&ids, &generate, &mut listener);
    answer.expect("its logits are numbers").ids
}

/// Quantizes a model to every recipe, and lets each file speak; returns how many files there were, and how many recipes
/// have no type for the model's rows.
fn every_recipe(source: &Path, is_encoder: bool) -> (usize, usize) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let output = folder.path().join("out.gguf");
    let (mut n_files, mut n_refused) = (0, 0);
    for recipe in Recipe::available() {
        let options = QuantizeOptions {
            importance: Some(even_importance(source)),
            allow_requantize: true,
            force: true,
            ..QuantizeOptions::new(source, &output, recipe)
        };
        let stem = source.file_stem().unwrap_or_default();
        let what = format!("{} {}", stem.to_string_lossy(), recipe.name);
        let report = match quantize(&options, &mut |_| ()) {
            Ok(report) => report,
            Err(ConvertError::In { error, .. })
                if matches!(*error, ConvertError::NoFallback { .. }) =>
            {
                println!("{what}: no type for its rows");
                n_refused += 1;
                continue;
            }
            Err(error) => panic!("{what}: {error}"),
        };
        match is_encoder {
            true => assert!(embeds(&output), "{what}"),
            false => assert_eq!(speak(&output).len(), N_IDS, "{what}"),
        }
        let types: Vec<String> = report
            .histogram()
            .iter()
            .map(|(ty, (n, _))| format!("{n} {ty}"))
            .collect();
        println!(
            "{what}: {:.2} bits per weight; {}",
            report.bits_per_weight(),
            types.join(", ")
        );
        n_files += 1;
    }
    (n_files, n_refused)
}

#[test]
fn golden_models_run_in_every_recipe() {
    let Some(checkpoints) = crate::golden::checkpoints() else {
        return;
    };
    let n_recipes = Recipe::available().count();
    let mut n_files = 0;
    for checkpoint in checkpoints {
        let is_encoder = checkpoint.hidden().is_some();
        let (files, refused) = every_recipe(&checkpoint.converted("f32"), is_encoder);
        assert_eq!(files + refused, n_recipes);
        n_files += files;
    }
    gristmill_golden::compared(n_files, "quantized models that speak");
}

#[test]
#[ignore = "needs the models that .ci/run downloads"]
fn real_models_run_in_every_recipe() {
    for (path, _) in crate::real::models() {
        let (_, n_refused) = every_recipe(&path, false);
        assert!(n_refused <= 1, "{}", path.display());
    }
}
