//! Which files a name means. The choice is that of llama.cpp, so that one name gives one file in both.

use crate::Result;
use crate::error::HubError;

/// Tried in this order where no quantization is named; else the first model is taken.
const DEFAULTS: [&str; 2] = ["Q4_K_M", "Q8_0"];
/// Parts of names of GGUF files that are no model of their own.
const NO_MODELS: [&str; 6] = ["mmproj", "imatrix", "mtp-", "eagle3-", "dflash-", "dspark-"];
/// What `gristmill convert` reads of a checkpoint, by the endings of names.
const CHECKPOINT: [&str; 6] = [
    ".safetensors",
    ".json",
    ".jinja",
    ".model",
    "vocab.txt",
    "merges.txt",
];

/// The files that a name means, as indices.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    /// The files, the first shard first.
    pub files: Vec<usize>,
    /// Projectors for images and sound that go with the model, which nothing here reads.
    pub left: Vec<usize>,
}

/// A model's files by quantization, or the default one.
///
/// # Errors
/// `NoQuantization`, `NothingThere`, `IncompleteSet`.
pub(crate) fn model(repo: &str, paths: &[&str], quantization: Option<&str>) -> Result<Selection> {
    let models = || (0..paths.len()).filter(|&index| is_model(paths[index]));
    let first_with = |wanted: &str| models().find(|&index| has_tag(paths[index], wanted));
    let found = match quantization {
        Some(wanted) => first_with(wanted),
        None => DEFAULTS
            .iter()
            .find_map(|wanted| first_with(wanted))
            .or_else(|| models().next()),
    };
    match (found, quantization) {
        (Some(first), _) => with_shards(repo, paths, first),
        (None, Some(quantization)) => Err(HubError::NoQuantization {
            repo: repo.to_owned(),
            quantization: quantization.to_owned(),
            available: models().map(|index| paths[index].to_owned()).collect(),
        }),
        (None, None) => Err(HubError::NothingThere {
            repo: repo.to_owned(),
            what: "GGUF file",
        }),
    }
}

/// A file by its path, with the other files of its set.
///
/// # Errors
/// `NoFile`, `IncompleteSet`.
pub(crate) fn file(repo: &str, paths: &[&str], wanted: &str) -> Result<Selection> {
    let found = paths.iter().position(|path| *path == wanted);
    let found = found.ok_or_else(|| HubError::NoFile {
        repo: repo.to_owned(),
        file: wanted.to_owned(),
        available: paths
            .iter()
            .filter(|path| path.ends_with(".gguf"))
            .map(|path| (*path).to_owned())
            .collect(),
    })?;
    with_shards(repo, paths, found)
}

/// The files of a checkpoint: those at the top that conversion reads. Where weights stand in several formats, the safetensors.
///
/// # Errors
/// `NothingThere`.
pub(crate) fn checkpoint(repo: &str, paths: &[&str]) -> Result<Selection> {
    let belongs = |path: &str| {
        let templates = "additional_chat_templates/";
        let at_top = !path.strip_prefix(templates).unwrap_or(path).contains('/');
        let is_card = path == "README.md";
        at_top && (is_card || CHECKPOINT.iter().any(|ending| path.ends_with(ending)))
    };
    // The original layout of some families, beside the one that is read.
    let is_other = |path: &str| path.starts_with("consolidated");
    let files: Vec<usize> = (0..paths.len())
        .filter(|&index| belongs(paths[index]) && !is_other(paths[index]))
        .collect();
    let has = |wanted: &dyn Fn(&str) -> bool| files.iter().any(|&index| wanted(paths[index]));
    let is_whole =
        has(&|path| path == "config.json") && has(&|path| path.ends_with(".safetensors"));
    match is_whole {
        true => Ok(Selection {
            files,
            left: Vec::new(),
        }),
        false => Err(HubError::NothingThere {
            repo: repo.to_owned(),
            what: "config.json with safetensors files beside it",
        }),
    }
}

/// The files of the set that a file belongs to, and what is left.
fn with_shards(repo: &str, paths: &[&str], first: usize) -> Result<Selection> {
    let name = Parts::of(paths[first]);
    let mut files = vec![first];
    if name.n_files > 1 {
        let shard = |index: &usize| {
            let other = Parts::of(paths[*index]);
            (other.prefix == name.prefix && other.n_files == name.n_files).then_some(other.number)
        };
        let mut shards: Vec<(usize, usize)> = (0..paths.len())
            .filter_map(|index| Some((shard(&index)?, index)))
            .collect();
        shards.sort_unstable();
        let is_complete = shards.len() == name.n_files
            && shards.iter().zip(1..).all(|((number, _), n)| *number == n);
        if !is_complete {
            return Err(HubError::IncompleteSet {
                repo: repo.to_owned(),
                file: paths[first].to_owned(),
                n_files: name.n_files,
                n_found: shards.len(),
            });
        }
        files = shards.into_iter().map(|(_, index)| index).collect();
    }
    let left = (0..paths.len()).filter(|index| {
        let path = paths[*index];
        path.contains("mmproj") && path.ends_with(".gguf") && !files.contains(index)
    });
    Ok(Selection {
        left: left.collect(),
        files,
    })
}

/// Whether a path is that of a model, as far as a name tells.
pub(crate) fn is_model(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    // Of a set, the first file stands for all.
    name.ends_with(".gguf")
        && !NO_MODELS.iter().any(|part| name.contains(part))
        && Parts::of(path).number == 1
}

/// Whether the quantization stands in a path, with a dot or a dash behind it.
fn has_tag(path: &str, wanted: &str) -> bool {
    let (path, wanted) = (path.to_ascii_lowercase(), wanted.to_ascii_lowercase());
    path.match_indices(&wanted)
        .any(|(at, _)| path[at + wanted.len()..].starts_with(['.', '-']))
}

/// The quantization that the name of a GGUF file ends with, in capitals; nothing where it ends with no such word.
pub fn quantization(path: &str) -> Option<String> {
    let prefix = Parts::of(path).prefix;
    let name = prefix.rsplit('/').next().unwrap_or(prefix);
    let at = name.rfind(['-', '.'])?;
    let tag = &name[at + 1..];
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!tag.is_empty() && tag.chars().all(plain)).then(|| tag.to_ascii_uppercase())
}

/// A path taken apart: `PREFIX-00001-of-00003.gguf`.
struct Parts<'a> {
    prefix: &'a str,
    number: usize,
    n_files: usize,
}

impl<'a> Parts<'a> {
    fn of(path: &'a str) -> Self {
        let stem = path.strip_suffix(".gguf").unwrap_or(path);
        let number = |text: &str| match text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit())
        {
            true => text.parse().ok(),
            false => None,
        };
        let parts = stem.rsplit_once("-of-").and_then(|(before, count)| {
            let (prefix, place) = before.rsplit_once('-')?;
            Some((prefix, number(place)?, number(count)?))
        });
        match parts.filter(|_| stem.len() < path.len()) {
            Some((prefix, number, n_files)) => Parts {
                prefix,
                number,
                n_files,
            },
            None => Parts {
                prefix: stem,
                number: 1,
                n_files: 1,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [&str; 8] = [
        "README.md",
        "Model-BF16-00001-of-00002.gguf",
        "Model-BF16-00002-of-00002.gguf",
        "Model-IQ4_XS.gguf",
        "Model-Q4_K_M.gguf",
        "Model-Q8_0.gguf",
        "imatrix-Q4_K_M.gguf",
        "mmproj-Model-F16.gguf",
    ];

    fn chosen(paths: &[&str], quantization: Option<&str>) -> Vec<String> {
        let chosen = model("a/b", paths, quantization).unwrap();
        let files = chosen.files.iter();
        files.map(|&index| paths[index].to_owned()).collect()
    }

    /// What `find_best_model` and `get_split_files` of llama.cpp b11434 choose.
    #[test]
    fn the_choice_is_the_references() {
        assert_eq!(chosen(&PATHS, None), ["Model-Q4_K_M.gguf"]);
        assert_eq!(chosen(&PATHS, Some("iq4_xs")), ["Model-IQ4_XS.gguf"]);
        assert_eq!(chosen(&PATHS, Some("bf16")), PATHS[1..3]);
        let without = [PATHS[1], PATHS[2], PATHS[3], PATHS[5]];
        assert_eq!(chosen(&without, None), ["Model-Q8_0.gguf"]);
        assert_eq!(chosen(&without[..3], None), PATHS[1..3]);
        assert_eq!(
            chosen(&["q6_k/a.gguf", "Q6_K-b.gguf"], Some("Q6_K")),
            ["Q6_K-b.gguf"]
        );
        assert_eq!(model("a/b", &PATHS, None).unwrap().left, [7]);
        // "Q4_K" is only a part of the name's word.
        let none = model("a/b", &PATHS, Some("Q4_K"));
        assert!(matches!(none, Err(HubError::NoQuantization { .. })));
    }

    #[test]
    fn a_set_with_a_gap_is_refused() {
        let paths = ["a-Q8_0-00001-of-00003.gguf", "a-Q8_0-00003-of-00003.gguf"];
        let refused = model("a/b", &paths, None);
        assert!(matches!(
            refused,
            Err(HubError::IncompleteSet { n_found: 2, .. })
        ));
    }

    #[test]
    fn a_checkpoint_is_what_conversion_reads() {
        let paths = [
            "README.md",
            "config.json",
            "model.safetensors",
            "onnx/model.onnx",
            "pytorch_model.bin",
            "consolidated.safetensors",
            "tokenizer.json",
            "additional_chat_templates/tool_use.jinja",
        ];
        assert_eq!(checkpoint("a/b", &paths).unwrap().files, [0, 1, 2, 6, 7]);
        assert!(checkpoint("a/b", &paths[..2]).is_err());
    }

    #[test]
    fn quantizations_are_the_last_word_of_a_name() {
        let of = |path| quantization(path);
        assert_eq!(of("x/Model-q4_k_m.gguf").as_deref(), Some("Q4_K_M"));
        assert_eq!(
            of("Model.Q8_0-00001-of-00002.gguf").as_deref(),
            Some("Q8_0")
        );
        assert_eq!(of("model.gguf"), None);
    }
}
