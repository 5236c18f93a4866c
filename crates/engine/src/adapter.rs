//! Adapters beside a loaded model: low-rank changes of its matrices, and directions for its residual stream.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gristmill_compute::{Backend, BufferId, Changes, LowRank, Shape, Tensor};
use gristmill_gguf as gguf;
use gristmill_model::{AdapterPair, check_adapter};

use crate::check_values::check_values;
use crate::error::EngineError;
use crate::model::Model;
use crate::network::usable;
use crate::saved::fingerprint;

/// A loaded low-rank adapter (LoRA). Its matrices stay in the mapped file.
pub struct Adapter {
    model: Arc<Model>,
    regions: Vec<BufferId>,
    changes: Vec<Change>,
    file: gguf::Model,
}

/// What it does to one tensor of the model.
struct Change {
    weight: Tensor,
    is_lookup: bool,
    low_rank: LowRank,
}

impl std::fmt::Debug for Adapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Adapter")
            .field("path", &self.file.path())
            .finish_non_exhaustive()
    }
}

impl Adapter {
    /// Checks a file against a model and makes it ready to run with it.
    ///
    /// Errors: a file that is no adapter, one for another model, one that begins to count in the middle of a text, one that holds
    /// NaN or infinity.
    pub fn load(model: &Arc<Model>, file: gguf::Model) -> Result<Arc<Self>, EngineError> {
        if file.kind() != gguf::Kind::Adapter {
            return Err(EngineError::NotAnAdapter {
                expected: "an adapter (LoRA)",
                found: file.kind().description(),
            });
        }
        let tensors = file.tensors().iter();
        let description = check_adapter(
            model.hyperparameters(),
            file.metadata(),
            tensors.map(|tensor| (tensor.name.as_str(), tensor.dims.as_slice())),
        )?;
        if !description.invocation_tokens.is_empty() {
            return Err(EngineError::ActivatedAdapter {
                tokens: description.invocation_tokens,
            });
        }
        let mut adapter = Adapter {
            model: model.clone(),
            regions: Vec::new(),
            changes: Vec::new(),
            file,
        };
        for shard in 0..adapter.file.shards().len() {
            if let Some(region) = adapter.file.region(shard) {
                adapter.regions.push(model.backend().import(region)?);
            }
        }
        for pair in &description.pairs {
            let change = adapter.change(pair)?;
            adapter.changes.push(change);
        }
        // Unlike a model's, they are few, and a fault of theirs would look like one of the model.
        check_values(&adapter.file, 0)?;
        Ok(Arc::new(adapter))
    }

    fn change(&self, pair: &AdapterPair) -> Result<Change, EngineError> {
        let [name_a, name_b] = &pair.names;
        let absent = |name: &str| gristmill_model::ModelError::MissingTensor {
            name: name.to_owned(),
            expected: pair.spec.dims.clone(),
        };
        let matrix = |name: &str| {
            let view = self.file.tensor(name).ok_or_else(|| absent(name))?;
            usable(name, pair.spec.dims.len(), view.info.ty)?;
            view_tensor(&view, &self.regions)
        };
        Ok(Change {
            weight: self.model.weight(&pair.spec)?,
            is_lookup: pair.is_lookup(),
            low_rank: LowRank {
                a: matrix(name_a)?,
                b: matrix(name_b)?,
                scale: pair.scale,
            },
        })
    }

    /// The file.
    pub fn file(&self) -> &gguf::Model {
        &self.file
    }

    /// Matrices of the model that it changes.
    pub fn n_changes(&self) -> usize {
        self.changes.len()
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        for &region in &self.regions {
            self.model.backend().free(region);
        }
    }
}

/// The handle of a tensor in the region of its shard.
pub(crate) fn view_tensor(
    view: &gguf::TensorView<'_>,
    regions: &[BufferId],
) -> Result<Tensor, EngineError> {
    let too_large = || EngineError::TensorPlace {
        name: view.info.name.clone(),
    };
    let dims = view
        .info
        .dims
        .iter()
        .map(|&extent| usize::try_from(extent))
        .collect::<Result<Vec<_>, _>>();
    Ok(Tensor {
        device: 0,
        buffer: *regions.get(view.shard).ok_or_else(too_large)?,
        offset: usize::try_from(view.offset).map_err(|_| too_large())?,
        ty: view.info.ty,
        shape: Shape::new(&dims.map_err(|_| too_large())?)?,
    })
}

/// Directions that are added to the residual stream behind some layers.
pub struct ControlVector {
    backend: Arc<dyn Backend>,
    buffer: BufferId,
    /// By number of the layer.
    directions: Vec<Option<Tensor>>,
    /// Their values, by the same number.
    values: Vec<(usize, Vec<u8>)>,
    /// The files.
    paths: Vec<PathBuf>,
}

impl std::fmt::Debug for ControlVector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlVector").finish_non_exhaustive()
    }
}

impl ControlVector {
    /// The sum of the directions of files, each with a factor, for the layers from `first` to `last`: 0 is for the first and the
    /// last that can have one. What leaves layer 0 never gets a direction.
    ///
    /// Errors: as [`ControlVector::check`]; layers that the model does not have, or the last before the first; sums that are not
    /// finite.
    pub fn load(
        model: &Model,
        files: &[(gguf::Model, f32)],
        layers: Option<(usize, usize)>,
    ) -> Result<Arc<Self>, EngineError> {
        let n_layers = model.hyperparameters().n_layers();
        let n_embd = model.hyperparameters().n_embd;
        let (first, last) = layer_range(layers.unwrap_or_default(), n_layers)?;
        let mut sums: Vec<Option<Vec<f32>>> = vec![None; n_layers];
        for (file, factor) in files {
            for (layer, values) in directions(model, file)? {
                // The tools that make them write one for behind the last layer too, which the reference leaves out.
                let Some(sum) = sums.get_mut(layer) else {
                    continue;
                };
                let sum = sum.get_or_insert_with(|| vec![0.0; n_embd]);
                let (values, _) = values.as_chunks::<4>();
                for (sum, value) in sum.iter_mut().zip(values) {
                    *sum += f32::from_le_bytes(*value) * factor;
                }
            }
        }
        let backend = model.backend();
        let mut vector = ControlVector {
            buffer: backend.allocate(n_layers * n_embd * 4)?,
            backend,
            directions: vec![None; n_layers],
            values: Vec::new(),
            paths: files.iter().map(|(file, _)| file.path().into()).collect(),
        };
        let wanted = |layer: usize| layer >= first && layer <= last;
        for (layer, sum) in sums.iter().enumerate() {
            let Some(sum) = sum.as_ref().filter(|_| wanted(layer)) else {
                continue;
            };
            if !sum.iter().all(|value| value.is_finite()) {
                return Err(EngineError::DirectionSum { layer });
            }
            let offset = layer * n_embd * 4;
            let bytes: Vec<u8> = sum.iter().flat_map(|value| value.to_le_bytes()).collect();
            vector.backend.write(vector.buffer, offset, &bytes)?;
            vector.values.push((layer, bytes));
            vector.directions[layer] = Some(Tensor {
                device: 0,
                buffer: vector.buffer,
                offset,
                ty: gristmill_quant::F32,
                shape: Shape::new(&[n_embd])?,
            });
        }
        Ok(Arc::new(vector))
    }

    /// Whether a file holds directions for a model.
    ///
    /// Errors: a file of another kind, directions of another width or that are not finite, none at all, nothing but zeros.
    pub fn check(model: &Model, file: &gguf::Model) -> Result<(), EngineError> {
        let n_layers = model.hyperparameters().n_layers();
        let mut directions = directions(model, file)?;
        let nothing = |reason| Err(EngineError::NoDirection { reason });
        directions.retain(|(layer, _)| *layer < n_layers);
        if directions.is_empty() {
            return nothing("it holds no direction for a layer of this model");
        }
        let mut values = directions
            .iter()
            .flat_map(|(_, values)| values.as_chunks().0);
        match values.all(|value| f32::from_le_bytes(*value) == 0.0) {
            true => nothing("its directions are all zero"),
            false => Ok(()),
        }
    }

    /// Layers that get a direction.
    pub fn n_layers(&self) -> usize {
        self.directions.iter().flatten().count()
    }
}

/// First and last layer of a range, in which 0 is for the first and the last that there are.
fn layer_range(
    (first, last): (usize, usize),
    n_layers: usize,
) -> Result<(usize, usize), EngineError> {
    let range = (first.max(1), if last == 0 { n_layers } else { last });
    match range.0 <= range.1 && range.1 <= n_layers {
        true => Ok(range),
        false => Err(EngineError::ControlLayers {
            first,
            last,
            n_layers,
        }),
    }
}

impl Drop for ControlVector {
    fn drop(&mut self) {
        self.backend.free(self.buffer);
    }
}

/// The directions of a file, as bytes of F32, with the layer that each follows.
fn directions<'a>(
    model: &Model,
    file: &'a gguf::Model,
) -> Result<Vec<(usize, &'a [u8])>, EngineError> {
    if file.kind() != gguf::Kind::ControlVector {
        return Err(EngineError::NotAnAdapter {
            expected: "a control vector",
            found: file.kind().description(),
        });
    }
    let n_embd = model.hyperparameters().n_embd as u64;
    let direction = |view: gguf::TensorView<'a>| {
        let wrong = |reason: String| EngineError::Direction {
            name: view.info.name.clone(),
            reason,
        };
        let layer = view.info.name.strip_prefix("direction.");
        let layer = layer.and_then(|layer| layer.parse::<usize>().ok());
        let layer = layer.filter(|&layer| layer > 0);
        let ty = view.info.ty;
        match (layer, view.info.dims.as_slice()) {
            (None, _) => Err(wrong("it is none of direction.1, direction.2, …".into())),
            (Some(_), _) if ty != gristmill_quant::F32 => {
                Err(wrong(format!("its type is {ty}, not f32")))
            }
            (Some(layer), [width, rest @ ..])
                if *width == n_embd && rest.iter().all(|&extent| extent == 1) =>
            {
                match ty.validate(view.data) {
                    Ok(()) => Ok((layer, view.data)),
                    Err(_) => Err(wrong("it holds NaN or infinity".into())),
                }
            }
            (_, shape) => Err(wrong(format!(
                "its shape is {shape:?}, the model's width {n_embd}"
            ))),
        }
    };
    file.views().map(direction).collect()
}

/// The adapters that a sequence is computed with, with a scale each. Nothing of it is the plain model.
#[derive(Clone, Debug, Default)]
pub struct Adapters {
    loras: Vec<(Arc<Adapter>, f32)>,
    control: Option<Arc<ControlVector>>,
}

impl Adapters {
    /// These adapters with their scales. One of scale 0 is left out, as it changes nothing.
    pub fn new(
        loras: impl IntoIterator<Item = (Arc<Adapter>, f32)>,
        control: Option<Arc<ControlVector>>,
    ) -> Self {
        Adapters {
            loras: loras
                .into_iter()
                .filter(|(_, scale)| *scale != 0.0)
                .collect(),
            control,
        }
    }

    /// Whether the model is computed as it is.
    pub fn is_empty(&self) -> bool {
        self.loras.is_empty() && self.control.is_none()
    }

    /// Files of the adapters and control vectors.
    pub fn paths(&self) -> Vec<&Path> {
        let loras = self.loras.iter().map(|(lora, _)| lora.file.path());
        let control = self.control.iter().flat_map(|control| &control.paths);
        loras.chain(control.map(PathBuf::as_path)).collect()
    }

    /// Gives the bytes that tell these adapters and scales from others.
    pub(crate) fn identify(&self, update: &mut dyn FnMut(&[u8])) {
        for (lora, scale) in &self.loras {
            update(&fingerprint(&lora.file));
            update(&scale.to_le_bytes());
        }
        let directions = self.control.iter().flat_map(|control| &control.values);
        for (layer, values) in directions {
            update(&layer.to_le_bytes());
            update(values);
        }
    }

    /// Whether all adapters were loaded for this model.
    pub(crate) fn check(&self, model: &Arc<Model>) -> Result<(), EngineError> {
        let is_ours = |(lora, _): &(Arc<Adapter>, f32)| Arc::ptr_eq(&lora.model, model);
        let control = self.control.as_ref();
        let backend = model.backend();
        match self.loras.iter().all(is_ours)
            && control.is_none_or(|control| Arc::ptr_eq(&control.backend, &backend))
        {
            true => Ok(()),
            false => Err(EngineError::ForeignAdapter),
        }
    }

    /// What they change of the model's graph.
    pub(crate) fn changes(&self) -> Changes {
        let mut changes = Changes::default();
        for (lora, scale) in &self.loras {
            for change in &lora.changes {
                let low_rank = LowRank {
                    scale: change.low_rank.scale * scale,
                    ..change.low_rank
                };
                match change.is_lookup {
                    true => changes.of_rows(&change.weight, low_rank),
                    false => changes.of_products(&change.weight, low_rank),
                }
            }
        }
        if let Some(control) = &self.control {
            changes.set_directions(control.directions.clone());
        }
        changes
    }
}

/// Equal where the results are: the same adapters with the same scales in the same order.
impl PartialEq for Adapters {
    fn eq(&self, other: &Self) -> bool {
        let control = match (&self.control, &other.control) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        control
            && self.loras.len() == other.loras.len()
            && self.loras.iter().zip(&other.loras).all(|(one, other)| {
                Arc::ptr_eq(&one.0, &other.0) && one.1.to_bits() == other.1.to_bits()
            })
    }
}
