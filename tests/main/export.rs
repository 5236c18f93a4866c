//! `export`: a GGUF file as a Hugging Face folder.

use insta::assert_snapshot;

use crate::fixtures::with_model;

#[test]
fn a_file_becomes_a_folder_and_the_folder_the_file_again() {
    let place = with_model();
    let shown = place.run("gristmill export a.gguf folder");
    assert!(
        shown.starts_with("exit: 0\n--- stdout\nwrote folder: LlamaForCausalLM, "),
        "{shown}"
    );
    // Nothing is said to be lost.
    assert!(!shown.contains("warning"), "{shown}");
    let files = place.files().into_iter();
    let files: Vec<String> = files.filter(|file| file.starts_with("folder/")).collect();
    assert_snapshot!(files.join("\n"), @"
    folder/README.md
    folder/chat_template.jinja
    folder/config.json
    folder/generation_config.json
    folder/model.safetensors
    folder/tokenizer.json
    folder/tokenizer_config.json
    ");
    let again = place.run("gristmill convert folder --outfile b.gguf");
    assert!(again.starts_with("exit: 0"), "{again}");
    let diff = place.run("gristmill diff a.gguf b.gguf");
    assert!(diff.starts_with("exit: 0"), "{diff}");
    assert_snapshot!(place.run("gristmill export a.gguf folder"), @r"
    exit: 1
    --- stderr
    error: folder: the folder is not empty
    hint: name another folder; `--force` replaces the files that are written, unless weights would be left beside them
    ");
    let replaced = place.run("gristmill export a.gguf folder --force --threads 1 --verbose");
    assert!(
        replaced.starts_with("exit: 0") && replaced.contains("model.embed_tokens.weight"),
        "{replaced}"
    );
    let refused = place.run("gristmill export a.gguf folder --force --max-shard-size 1MB");
    assert!(refused.starts_with("exit: 1"), "{refused}");
    let parts = place.run("gristmill export a.gguf parts --outtype F32 --max-shard-size 1MB");
    assert!(
        parts.starts_with("exit: 0")
            && parts.contains("model.safetensors.index.json")
            && parts.contains("model-00002-of-"),
        "{parts}"
    );
    let config = std::fs::read_to_string(place.path("parts/config.json")).expect("it is there");
    assert!(config.contains(r#""dtype": "float32""#), "{config}");
}
