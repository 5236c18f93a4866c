//! Any files as a checkpoint folder: refused with a message, or converted to a file that opens. The input is the files of
//! `NAMES` with a line of `%%%` between; an empty one is not there.

#![no_main]

use std::fs;

use gristmill_convert::{ConvertOptions, convert};
use gristmill_fuzz::{folder, parts};
use gristmill_gguf::File;
use libfuzzer_sys::fuzz_target;

/// The weights come last, since they may hold a border.
const NAMES: [&str; 11] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "added_tokens.json",
    "special_tokens_map.json",
    "generation_config.json",
    "chat_template.jinja",
    "README.md",
    "model.safetensors.index.json",
    "model.safetensors",
];

fuzz_target!(|input: &[u8]| {
    let folder = folder();
    let mut parts = parts(input, NAMES.len()).into_iter();
    for name in NAMES {
        let path = folder.join(name);
        match parts.next() {
            Some(bytes) if !bytes.is_empty() => {
                fs::write(&path, bytes).expect("the folder takes files");
            }
            _ => drop(fs::remove_file(&path)),
        }
    }
    let output = folder.join("out.gguf");
    let mut options = ConvertOptions::new(folder);
    options.output = Some(output.clone());
    options.force = true;
    options.n_threads = 1;
    options.dry_run = input.last().is_some_and(|byte| byte % 8 != 0);
    match convert(&options, &mut |_| {}) {
        Ok(_) if options.dry_run => {}
        Ok(_) => drop(File::open(&output).expect("what was converted opens")),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
