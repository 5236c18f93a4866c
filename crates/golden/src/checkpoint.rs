//! The tiny checkpoints of `convert/`, each with the reference's conversions of it and its logits.

use crate::{folder, read};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A checkpoint. It is found by its files, so that no test has a list of them.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The case's name.
    pub name: String,
    /// The folder of the case.
    pub folder: PathBuf,
    /// The Hugging Face folder within.
    pub source: PathBuf,
    /// The model's class in `config.json`.
    pub class: String,
    /// The pre-tokenizer that the reference's converter was told, where it was told one.
    pub pre_tokenizer: Option<String>,
    /// The ids that `logits` follows.
    pub token_ids: Vec<u32>,
}

/// The checkpoints of the classes that `is_supported` says, in alphabetical order; `None` where the data is absent.
///
/// # Panics
/// As [`folder`], and where a case is incomplete.
pub fn checkpoints(is_supported: impl Fn(&str) -> bool) -> Option<Vec<Checkpoint>> {
    let mut found: Vec<Checkpoint> = folders(&folder("convert")?)
        .into_iter()
        .filter_map(Checkpoint::find)
        .filter(|checkpoint| is_supported(&checkpoint.class))
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Some(found)
}

impl Checkpoint {
    fn find(folder: PathBuf) -> Option<Self> {
        let mut sources = folders(&folder).into_iter();
        let Some(source) = sources.find(|path| path.join("config.json").exists()) else {
            // An adapter stands beside no checkpoint.
            assert!(folder.join("adapter").exists(), "{}", folder.display());
            return None;
        };
        let config = json(&source.join("config.json"));
        let meta = json(&folder.join("meta.json"));
        let ids = meta["token_ids"].as_array().into_iter().flatten();
        let token_ids: Option<Vec<u32>> = ids.map(|id| u32::try_from(id.as_u64()?).ok()).collect();
        let class = config["architectures"][0].as_str();
        let (Some(token_ids), Some(class)) = (token_ids, class) else {
            // As below: what is incomplete must not be passed over.
            panic!("{}: no class, or ids that are none", folder.display());
        };
        let found = Self {
            name: folder.file_name()?.to_str()?.to_owned(),
            class: class.to_owned(),
            pre_tokenizer: meta["pre_tokenizer_name"].as_str().map(str::to_owned),
            token_ids,
            folder,
            source,
        };
        assert!(found.converted("f32").exists(), "{found:?}");
        assert!(
            found.hidden().is_some() || !found.logits().is_empty(),
            "{found:?}"
        );
        Some(found)
    }

    /// The reference's conversion to an output type.
    pub fn converted(&self, output_type: &str) -> PathBuf {
        self.folder
            .join(format!("{}-{output_type}.gguf", self.name))
    }

    /// The output types that the reference converted it to.
    pub fn output_types(&self) -> impl Iterator<Item = &'static str> {
        let all = ["bf16", "f16", "f32", "q8_0"];
        all.into_iter().filter(|ty| self.converted(ty).exists())
    }

    /// The logits of the authors' code, with the number of tokens that they follow: all, and the first of them where these
    /// alone give others. Where the reference ignores a window, those without it. None where the model gives embeddings.
    pub fn logits(&self) -> Vec<(usize, PathBuf)> {
        let path = |name: &str| self.folder.join(name);
        let whole = path("logits_full_attention.npy");
        let whole = match whole.exists() {
            true => whole,
            false => path("logits.npy"),
        };
        let n_tokens = 1..self.token_ids.len();
        let short = n_tokens.map(|n| (n, path(&format!("logits_short_first{n}.npy"))));
        let short = short.filter(|(_, path)| path.exists());
        let whole = (self.token_ids.len(), whole);
        let all = std::iter::once(whole).chain(short);
        all.filter(|(_, path)| path.exists()).collect()
    }

    /// The rows of the last layer by the authors' code, where the model gives embeddings.
    pub fn hidden(&self) -> Option<PathBuf> {
        let path = self.folder.join("hidden.npy");
        path.exists().then_some(path)
    }
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect()
}

fn json(path: &Path) -> Value {
    match serde_json::from_slice(&read(path)) {
        Ok(value) => value,
        // A test's data is damaged: nothing can be compared.
        Err(error) => panic!("{}: {error}", path.display()),
    }
}
