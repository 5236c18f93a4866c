//! Names of output files.

use crate::authorship::Authorship;
use crate::convert::ConvertOptions;
use std::path::PathBuf;

/// The path of the output. `encoding` is the output type as file names have it (`Q8_0`). Without a path, or with that of
/// a folder, the name follows from the model: `Base-7B-Chat-v0.3-BF16.gguf`, or `Base-Chat-v0.3-vocab.gguf`. In a path, `{ftype}` and `{outtype}` stand
/// for the type in small letters, `{FTYPE}` and `{OUTTYPE}` for it in capitals.
pub(crate) fn output_path(
    options: &ConvertOptions,
    authorship: &Authorship,
    encoding: &str,
) -> PathBuf {
    let given = options.output.as_deref().unwrap_or(&options.folder);
    if given.is_dir() {
        let name = match options.vocab_only {
            true => default_name(authorship, &["finetune", "version"], "vocab"),
            false => {
                let encoding = encoding.trim().replace(' ', "-").to_uppercase();
                default_name(
                    authorship,
                    &["size_label", "finetune", "version"],
                    &encoding,
                )
            }
        };
        return given.join(format!("{name}.gguf"));
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

fn default_name(authorship: &Authorship, keys: &[&str], ending: &str) -> String {
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
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorship::Given;
    use std::path::Path;

    #[test]
    fn placeholders_and_folders() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("Tiny-Llama-0.2M-Chat-v0.3");
        std::fs::create_dir(&folder).unwrap();
        let given = Given {
            name: None,
            overrides: None,
            n_params: 228_352,
        };
        let authorship =
            Authorship::load(&folder, &serde_json::Value::Null, &given, &mut Vec::new()).unwrap();
        let path = |given: Option<&Path>| {
            let mut options = ConvertOptions::new(&folder);
            options.output = given.map(Path::to_owned);
            output_path(&options, &authorship, "q8_0")
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
        let vocabulary = ConvertOptions {
            vocab_only: true,
            ..ConvertOptions::new(&folder)
        };
        assert_eq!(
            output_path(&vocabulary, &authorship, "f16"),
            folder.join("Tiny-Llama-Chat-v0.3-vocab.gguf")
        );
    }
}
