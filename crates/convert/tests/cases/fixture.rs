//! A small checkpoint whose parts can be changed before it is written.

use gristmill_convert::{ConvertError, ConvertOptions, ConvertReport, OutputType, convert};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Element type, shape and bytes of a tensor.
pub type Tensor = (Dtype, Vec<usize>, Vec<u8>);

/// A copy of the tiny model whose parts can be changed before it is written.
pub struct Fixture {
    pub folder: TempDir,
    pub config: Value,
    pub tensors: BTreeMap<String, Tensor>,
}

impl Fixture {
    pub fn new() -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tiny");
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "tokenizer.json",
            "tokenizer_config.json",
            "special_tokens_map.json",
            "generation_config.json",
            "chat_template.jinja",
        ] {
            fs::copy(source.join(name), folder.path().join(name)).unwrap();
        }
        let config =
            serde_json::from_str(&fs::read_to_string(source.join("config.json")).unwrap()).unwrap();
        let bytes = fs::read(source.join("model.safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let tensor = |(name, view): (String, TensorView)| {
            (
                name,
                (view.dtype(), view.shape().to_vec(), view.data().to_vec()),
            )
        };
        let tensors = tensors.tensors().into_iter().map(tensor).collect();
        Self {
            folder,
            config,
            tensors,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the configuration and all weights in one file.
    pub fn write(&self) -> &Self {
        fs::write(self.path("config.json"), self.config.to_string()).unwrap();
        self.write_part("model.safetensors", |_| true);
        self
    }

    pub fn write_part(&self, file: &str, belongs: impl Fn(&str) -> bool) {
        let views = self.tensors.iter().filter(|(name, _)| belongs(name)).map(
            |(name, (dtype, shape, bytes))| {
                (
                    name.as_str(),
                    TensorView::new(*dtype, shape.clone(), bytes).unwrap(),
                )
            },
        );
        fs::write(
            self.path(file),
            safetensors::serialize(views, None).unwrap(),
        )
        .unwrap();
    }

    /// Writes three files by layer, and their index.
    pub fn write_sharded(&self) {
        fs::write(self.path("config.json"), self.config.to_string()).unwrap();
        let file_of = |name: &str| match name {
            name if name.contains("layers.0") || name.contains("embed") => {
                "model-00001-of-00003.safetensors"
            }
            name if name.contains("layers.1") => "model-00002-of-00003.safetensors",
            _ => "model-00003-of-00003.safetensors",
        };
        for file in 1..=3 {
            let file = format!("model-0000{file}-of-00003.safetensors");
            self.write_part(&file, |name| file_of(name) == file);
        }
        let map: BTreeMap<&String, &str> = self
            .tensors
            .keys()
            .map(|name| (name, file_of(name)))
            .collect();
        self.write_index(&json!({ "metadata": {}, "weight_map": map }));
    }

    pub fn write_index(&self, index: &Value) {
        fs::write(self.path("model.safetensors.index.json"), index.to_string()).unwrap();
    }

    pub fn index(&self) -> Value {
        serde_json::from_str(
            &fs::read_to_string(self.path("model.safetensors.index.json")).unwrap(),
        )
        .unwrap()
    }

    pub fn convert_to(&self, ty: &str) -> (Result<ConvertReport, ConvertError>, TempDir) {
        let out = tempfile::tempdir().unwrap();
        let options = ConvertOptions {
            output: Some(out.path().join("{ftype}.gguf")),
            output_type: OutputType::parse(ty).unwrap(),
            n_threads: 2,
            ..ConvertOptions::new(self.folder.path())
        };
        (convert(&options, &mut |_| {}), out)
    }

    pub fn converted(&self, ty: &str) -> (ConvertReport, TempDir) {
        let (result, out) = self.convert_to(ty);
        (result.unwrap(), out)
    }

    /// The error, after checking that nothing was left behind.
    pub fn refused(&self, ty: &str) -> ConvertError {
        let (result, out) = self.convert_to(ty);
        assert_eq!(
            fs::read_dir(out.path()).unwrap().count(),
            0,
            "output left behind"
        );
        result.expect_err("should be refused")
    }
}
