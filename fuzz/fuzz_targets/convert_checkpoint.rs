//! Any files as a checkpoint folder: refused with a message, or converted to a file that opens. The input is the files of
//! `NAMES` with a line of `%%%` between; an empty one is not there.

#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use gristmill_convert::{ConvertOptions, convert};
use gristmill_gguf::File;
use libfuzzer_sys::fuzz_target;

const BORDER: &[u8] = b"\n%%%\n";
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
    WEIGHTS,
];
const WEIGHTS: &str = "model.safetensors";

fuzz_target!(|input: &[u8]| {
    let folder = folder();
    let mut rest = Some(input);
    for name in NAMES {
        let part = rest.map(|bytes| {
            match bytes
                .windows(BORDER.len())
                .position(|window| window == BORDER)
            {
                // Weights may hold a border; they are the last part.
                Some(end) if name != WEIGHTS => (&bytes[..end], Some(&bytes[end + BORDER.len()..])),
                _ => (bytes, None),
            }
        });
        let path = folder.join(name);
        match part {
            Some((bytes, after)) if !bytes.is_empty() => {
                fs::write(&path, bytes).expect("the folder takes files");
                rest = after;
            }
            other => {
                drop(fs::remove_file(&path));
                rest = other.and_then(|(_, after)| after);
            }
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

/// A folder of this process's own, in memory where the system has such a place.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let memory = PathBuf::from("/dev/shm");
        let root = if memory.is_dir() {
            memory
        } else {
            std::env::temp_dir()
        };
        let folder = root.join(format!("gristmill-fuzz-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder can be made");
        folder
    })
}
