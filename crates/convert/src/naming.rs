//! Names of output files.

use crate::authorship::Authorship;
use std::path::{Path, PathBuf};

/// The path of the output. `encoding` is the output type as file names have it (`Q8_0`). In the folder at `given`, the name is
/// the default one. In a path, `{ftype}` and `{outtype}` stand for the type in small letters, `{FTYPE}` and `{OUTTYPE}` for
/// it in capitals.
pub(crate) fn output_path(
    given: &Path,
    encoding: &str,
    default_name: impl FnOnce() -> String,
) -> PathBuf {
    if given.is_dir() {
        return given.join(default_name());
    }
    let Some(name) = given.file_name().and_then(|name| name.to_str()) else {
        return given.to_owned();
    };
    let (small, capital) = (encoding.to_lowercase(), encoding.to_uppercase());
    let filled = [
        ("{ftype}", &small),
        ("{outtype}", &small),
        ("{}", &small),
        ("{FTYPE}", &capital),
        ("{OUTTYPE}", &capital),
    ]
    .iter()
    .fold(name.to_owned(), |name, (placeholder, value)| {
        name.replace(placeholder, value)
    });
    if filled == name {
        // As it was given, a slash at the end included.
        return given.to_owned();
    }
    given.with_file_name(filled)
}

/// The name that follows from the model: `Base-7B-Chat-v0.3-BF16.gguf`, or `Base-Chat-v0.3-vocab.gguf`.
pub(crate) fn model_name(authorship: &Authorship, encoding: &str, vocab_only: bool) -> String {
    match vocab_only {
        true => named(authorship, &["finetune", "version"], "vocab"),
        false => named(authorship, SIZED, &capitals(encoding)),
    }
}

/// The name that follows from an adapter: `Base-7B-Chat-v0.3-F32-LoRA.gguf`.
pub(crate) fn adapter_name(authorship: &Authorship, encoding: &str) -> String {
    named(authorship, SIZED, &format!("{}-LoRA", capitals(encoding)))
}

const SIZED: &[&str] = &["size_label", "finetune", "version"];

fn capitals(encoding: &str) -> String {
    encoding.trim().replace(' ', "-").to_uppercase()
}

fn named(authorship: &Authorship, keys: &[&str], ending: &str) -> String {
    let dashed = |text: &str| text.trim().replace(' ', "-");
    // A slash would lead into another folder.
    let name = authorship
        .text("basename")
        .or(authorship.text("name"))
        .unwrap_or("ggml-model");
    let mut file = dashed(name).replace(['/', '\\'], "-");
    for part in keys.iter().filter_map(|key| authorship.text(key)) {
        file.push('-');
        file.push_str(&dashed(part).replace(['/', '\\'], "-"));
    }
    file.push('-');
    file.push_str(ending);
    file + ".gguf"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorship::Given;

    #[test]
    fn placeholders_and_folders() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("Tiny-Llama-0.2M-Chat-v0.3");
        std::fs::create_dir(&folder).unwrap();
        let given = Given {
            name: None,
            overrides: None,
            size: 228_352.into(),
        };
        let authorship =
            Authorship::load(&folder, &serde_json::Value::Null, &given, &mut Vec::new()).unwrap();
        let path = |given: Option<&Path>| {
            output_path(given.unwrap_or(&folder), "q8_0", || {
                model_name(&authorship, "q8_0", false)
            })
        };
        assert_eq!(
            path(None),
            folder.join("Tiny-Llama-0.2M-Chat-v0.3-Q8_0.gguf")
        );
        assert_eq!(
            path(Some(parent.path())),
            parent.path().join("Tiny-Llama-0.2M-Chat-v0.3-Q8_0.gguf")
        );
        assert_eq!(
            path(Some(Path::new("x/{ftype}.gguf"))),
            Path::new("x/q8_0.gguf")
        );
        assert_eq!(
            path(Some(Path::new("{OUTTYPE}-{outtype}-{}.gguf"))),
            Path::new("Q8_0-q8_0-q8_0.gguf")
        );
        assert_eq!(path(Some(Path::new("plain.gguf"))), Path::new("plain.gguf"));
        assert_eq!(
            model_name(&authorship, "f16", true),
            "Tiny-Llama-Chat-v0.3-vocab.gguf"
        );
        assert_eq!(
            adapter_name(&authorship, "f16"),
            "Tiny-Llama-0.2M-Chat-v0.3-F16-LoRA.gguf"
        );
    }
}
