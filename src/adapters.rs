//! Flags for adapters beside a model: low-rank ones (LoRA) and control vectors. Names and meaning are the reference's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gristmill_convert::MergeSource;
use gristmill_engine::{Adapter, Adapters, ControlVector, EngineError, Model};

/// Which adapters to compute with; flatten it into a command that runs a model.
#[derive(clap::Args)]
#[command(next_help_heading = "Adapters")]
pub struct AdapterFlags {
    /// LoRA adapters in GGUF, as `gristmill convert-lora` writes them; may be given more than once
    #[arg(long, value_name = "FILE,…", value_delimiter = ',')]
    lora: Vec<PathBuf>,
    /// The same with a scale each
    #[arg(long, value_name = "FILE:SCALE,…", value_delimiter = ',', value_parser = scaled)]
    lora_scaled: Vec<Scaled>,
    /// Control vectors, which are added to what leaves the layers; may be given more than once
    #[arg(long, value_name = "FILE,…", value_delimiter = ',')]
    control_vector: Vec<PathBuf>,
    /// The same with a factor each
    #[arg(long, value_name = "FILE:SCALE,…", value_delimiter = ',', value_parser = scaled)]
    control_vector_scaled: Vec<Scaled>,
    /// First and last layer that control vectors are added behind, counted from 1; 0 is for those of the model [default: all]
    #[arg(long, value_names = ["FIRST", "LAST"], num_args = 2)]
    control_vector_layer_range: Option<Vec<usize>>,
}

/// A file and its scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaled {
    /// The file.
    pub path: PathBuf,
    /// The scale.
    pub scale: f32,
}

/// `FILE:SCALE`
pub fn scaled(text: &str) -> Result<Scaled, String> {
    let parsed = text.rsplit_once(':').and_then(|(path, scale)| {
        let scale = scale.trim().parse::<f32>().ok()?;
        let scaled = Scaled {
            path: path.into(),
            scale,
        };
        (scale.is_finite() && !path.is_empty()).then_some(scaled)
    });
    parsed.ok_or_else(|| "it must be a file and a number, as in adapter.gguf:0.5".to_owned())
}

impl AdapterFlags {
    /// The files, each as often as it is named.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let scaled = self.lora_scaled.iter().chain(&self.control_vector_scaled);
        let plain = self.lora.iter().chain(&self.control_vector);
        let paths = plain.chain(scaled.map(|scaled| &scaled.path));
        paths.map(PathBuf::as_path)
    }

    /// Opens the adapters and holds them against a model.
    pub fn load(&self, model: &Arc<Model>) -> anyhow::Result<Adapters> {
        let mut loras = Vec::new();
        for Scaled { path, scale } in with_scales(&self.lora, &self.lora_scaled) {
            let file = gristmill_gguf::Model::open(&path)?;
            let lora = Adapter::load(model, file).map_err(|error| named(error, &path))?;
            loras.push((lora, scale));
        }
        Ok(Adapters::new(loras, self.control(model)?))
    }

    fn control(&self, model: &Model) -> anyhow::Result<Option<Arc<ControlVector>>> {
        let given = with_scales(&self.control_vector, &self.control_vector_scaled);
        let mut files = Vec::new();
        for Scaled { path, scale } in given {
            let file = gristmill_gguf::Model::open(&path)?;
            ControlVector::check(model, &file).map_err(|error| named(error, &path))?;
            files.push((file, scale));
        }
        if files.is_empty() {
            if self.control_vector_layer_range.is_some() {
                say!("note: --control-vector-layer-range changes nothing without --control-vector");
            }
            return Ok(None);
        }
        let layers = self.control_vector_layer_range.as_deref();
        let layers = layers.map(|layers| match *layers {
            // The parser takes two.
            [first, last] => (first, last),
            _ => (0, 0),
        });
        let vector = ControlVector::load(model, &files, layers).map_err(|error| match error {
            EngineError::DirectionSum { .. } => {
                let mut names: Vec<_> = files.iter().map(|(file, _)| file.path()).collect();
                names.sort();
                names.dedup();
                let names: Vec<_> = names
                    .iter()
                    .map(|path| path.display().to_string())
                    .collect();
                anyhow::Error::new(error).context(names.join(", "))
            }
            error => error.into(),
        })?;
        if vector.n_layers() == 0 {
            say!(
                "warning: no control vector has a direction for these layers, so nothing is added"
            );
        }
        Ok(Some(vector))
    }
}

/// Which adapters to merge into the weights; flatten it into a command that writes a model.
#[derive(clap::Args)]
pub struct MergeFlags {
    /// Adapters to merge into the weights: GGUF files or folders of PEFT; repeatable
    #[arg(long, value_name = "PATH,…", value_delimiter = ',')]
    lora: Vec<PathBuf>,
    /// The same with a scale each
    #[arg(long, value_name = "PATH:SCALE,…", value_delimiter = ',', value_parser = scaled)]
    lora_scaled: Vec<Scaled>,
}

impl MergeFlags {
    /// What the flags name.
    pub fn sources(&self) -> Vec<MergeSource> {
        let given = with_scales(&self.lora, &self.lora_scaled).into_iter();
        let source = |Scaled { path, scale }| MergeSource { path, scale };
        given.map(source).collect()
    }
}

/// Files with scale 1, then those that have one of their own.
fn with_scales(plain: &[PathBuf], scaled: &[Scaled]) -> Vec<Scaled> {
    let plain = plain.iter().map(|path| Scaled {
        path: path.clone(),
        scale: 1.0,
    });
    plain.chain(scaled.iter().cloned()).collect()
}

fn named(error: EngineError, path: &Path) -> anyhow::Error {
    anyhow::Error::new(error).context(format!("{}: cannot be applied", path.display()))
}
