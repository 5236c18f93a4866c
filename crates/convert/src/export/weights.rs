//! Weights, the way back: every tensor of the table turned around and written as safetensors, row by row.

use std::collections::HashMap;
use std::io::Write;

use gristmill_gguf::{Model, OutputFile, TensorView};
use gristmill_kernels::{Pool, encode_rows, for_each_chunk};
use gristmill_model::{RowTransform, Slot, SpecSource, TensorSpec};
use gristmill_quant::{BF16, F16, F32, TensorType};
use serde_json::{Map, Value, json};

use super::{ExportOptions, Folder};
use crate::ConvertError;
use crate::checkpoint::INDEX;
use crate::progress::{Event, Progress};
use crate::quantize::in_kernel;
use crate::stream::{Overflow, transposed};

/// Elements that are turned around at once, about.
const SLAB_ELEMENTS: usize = 1 << 20;
/// Elements that a thread takes at once.
const CHUNK_ELEMENTS: usize = 1 << 14;
/// Files may follow the order of the tensors where there are no more than this, or than gigabytes.
const N_FILES_IN_ORDER: u64 = 3;

/// A tensor to write.
struct Exported {
    /// Index of its spec.
    spec: usize,
    /// Which expert's part of the spec's tensor it is, where experts lie apart.
    expert: Option<usize>,
    /// Name in the checkpoint.
    name: String,
    ty: TensorType,
    /// Shape in the checkpoint, the contiguous dimension last.
    shape: Vec<u64>,
    bytes: u64,
}

/// The files with weights, each with its tensors in the order of their names.
pub(super) struct Shards<'a> {
    specs: &'a [TensorSpec],
    files: Vec<Vec<Exported>>,
}

impl<'a> Shards<'a> {
    /// Plans all tensors that come from a checkpoint.
    pub fn plan(
        model: &Model,
        specs: &'a [TensorSpec],
        options: &ExportOptions,
    ) -> Result<Self, ConvertError> {
        let mut tensors = Vec::new();
        for (index, spec) in specs.iter().enumerate() {
            // What is computed is made again by conversion.
            let (names, apart) = match &spec.source {
                SpecSource::Checkpoint(name) => (std::slice::from_ref(name), false),
                SpecSource::Experts(names) => (names.apart.as_slice(), true),
                SpecSource::Computed(_) => continue,
            };
            let Some(view) = model.tensor(&spec.name) else {
                continue;
            };
            let kept = [F32, F16, BF16].contains(&view.info.ty);
            let own = if kept { view.info.ty } else { F32 };
            let ty = options.output_type.unwrap_or(own);
            let mut shape: Vec<u64> = spec.dims.iter().rev().copied().collect();
            if apart {
                shape.remove(0);
            }
            if spec.transform == RowTransform::Transposed {
                shape.reverse();
            }
            let n_elements: u64 = shape.iter().product();
            tensors.extend(names.iter().enumerate().map(|(expert, name)| Exported {
                spec: index,
                expert: apart.then_some(expert),
                name: name.clone(),
                ty,
                shape: shape.clone(),
                bytes: n_elements * ty.block_bytes() as u64,
            }));
        }
        put_in_order(&mut tensors, model, specs);
        let mut files: Vec<Vec<Exported>> = Vec::new();
        let mut room = 0;
        for tensor in tensors {
            let last = files.last().and_then(|file| file.last());
            let follows = last.is_some_and(|last| last.name < tensor.name);
            if !follows || tensor.bytes > room {
                files.push(Vec::new());
                room = options.shard_bytes;
            }
            room = room.saturating_sub(tensor.bytes);
            if let Some(file) = files.last_mut() {
                file.push(tensor);
            }
        }
        Ok(Shards { specs, files })
    }

    /// The names of all files, the index among them.
    pub fn names(&self) -> Vec<String> {
        let n_files = self.files.len();
        let files = (0..n_files).map(|number| file_name(number, n_files));
        let index = (n_files > 1).then(|| INDEX.to_owned());
        files.chain(index).collect()
    }

    /// How many tensors there are.
    pub fn n_tensors(&self) -> usize {
        self.files.iter().map(Vec::len).sum()
    }

    /// Bytes of all tensors.
    pub fn bytes(&self) -> u64 {
        self.files.iter().flatten().map(|tensor| tensor.bytes).sum()
    }

    /// The type of the embeddings, as a configuration names it.
    pub fn main_dtype(&self, specs: &[TensorSpec]) -> &'static str {
        let mut tensors = self.files.iter().flatten();
        let embeddings = tensors.find(|tensor| specs[tensor.spec].slot == Slot::TokenEmbd);
        match embeddings.map(|tensor| tensor.ty) {
            Some(ty) if ty == BF16 => "bfloat16",
            Some(ty) if ty == F16 => "float16",
            _ => "float32",
        }
    }

    /// Writes all files, and an index where there are several.
    pub fn write(
        &self,
        model: &Model,
        folder: &mut Folder<'_>,
        pool: &Pool,
        progress: Progress<'_>,
    ) -> Result<(), ConvertError> {
        progress(Event::Start {
            n_tensors: self.n_tensors(),
            bytes: self.bytes(),
        });
        let n_files = self.files.len();
        let mut weight_map = Map::new();
        let mut index = 0;
        for (number, tensors) in self.files.iter().enumerate() {
            let name = file_name(number, n_files);
            let header = header(tensors);
            let bytes: u64 = tensors.iter().map(|tensor| tensor.bytes).sum();
            let mut file = folder.open(&name, header.len() as u64 + bytes)?;
            write(&mut file, &header)?;
            for tensor in tensors {
                weight_map.insert(tensor.name.clone(), name.clone().into());
                let spec = &self.specs[tensor.spec];
                let Some(view) = model.tensor(&spec.name) else {
                    continue;
                };
                progress(Event::Tensor {
                    index,
                    name: &tensor.name,
                    dims: &spec.dims,
                    from: view.info.ty.name(),
                    to: tensor.ty,
                });
                index += 1;
                let mut turned = Turned {
                    spec,
                    tensor,
                    view,
                    pool,
                    file: &mut file,
                    values: Vec::new(),
                    encoded: Vec::new(),
                };
                turned.write(progress)?;
            }
            folder.stage(&name, file)?;
        }
        if n_files > 1 {
            let index =
                json!({ "metadata": { "total_size": self.bytes() }, "weight_map": weight_map });
            folder.write_json(INDEX, &index)?;
        }
        Ok(())
    }
}

/// Conversion reads tensors file by file, by name in each. The order of the model comes back where a few files can say it;
/// else it is that of the names.
fn put_in_order(tensors: &mut [Exported], model: &Model, specs: &[TensorSpec]) {
    let places: HashMap<&str, usize> = (model.tensors().iter().enumerate())
        .map(|(place, tensor)| (tensor.name.as_str(), place))
        .collect();
    tensors.sort_by_key(|tensor| places.get(specs[tensor.spec].name.as_str()));
    let n_breaks = tensors
        .windows(2)
        .filter(|pair| pair[0].name >= pair[1].name)
        .count() as u64;
    let bytes: u64 = tensors.iter().map(|tensor| tensor.bytes).sum();
    if n_breaks >= N_FILES_IN_ORDER.max(bytes >> 30) {
        tensors.sort_by(|a, b| a.name.cmp(&b.name));
    }
}

/// The name of a file with weights.
fn file_name(number: usize, n_files: usize) -> String {
    match n_files {
        1 => "model.safetensors".to_owned(),
        _ => format!("model-{:05}-of-{n_files:05}.safetensors", number + 1),
    }
}

/// The head of a safetensors file: the length of its JSON, and the JSON, filled up with spaces to a multiple of eight.
fn header(tensors: &[Exported]) -> Vec<u8> {
    let mut entries = Map::new();
    entries.insert("__metadata__".to_owned(), json!({ "format": "pt" }));
    let mut offset = 0;
    for tensor in tensors {
        let dtype = match tensor.ty {
            ty if ty == BF16 => "BF16",
            ty if ty == F16 => "F16",
            _ => "F32",
        };
        let end = offset + tensor.bytes;
        let entry = json!({ "dtype": dtype, "shape": tensor.shape, "data_offsets": [offset, end] });
        entries.insert(tensor.name.clone(), entry);
        offset = end;
    }
    let mut text = Value::from(entries).to_string().into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut head = (text.len() as u64).to_le_bytes().to_vec();
    head.append(&mut text);
    head
}

fn write(file: &mut OutputFile, bytes: &[u8]) -> Result<(), ConvertError> {
    let written = file.write_all(bytes);
    written.map_err(|source| ConvertError::io(file.path(), "write", source))
}

/// A tensor on its way back.
struct Turned<'a> {
    spec: &'a TensorSpec,
    tensor: &'a Exported,
    view: TensorView<'a>,
    pool: &'a Pool,
    file: &'a mut OutputFile,
    values: Vec<f32>,
    encoded: Vec<u8>,
}

impl Turned<'_> {
    fn write(&mut self, progress: Progress<'_>) -> Result<(), ConvertError> {
        let dims = &self.spec.dims;
        let row_len = match (dims.len(), self.spec.transform) {
            // Elements of a bias change places one by one.
            (1, RowTransform::HalvesToPairs { .. }) => 1,
            _ => dims[0] as usize,
        };
        let n_elements = self.tensor.shape.iter().product::<u64>() as usize;
        let n_rows = n_elements / row_len.max(1);
        if self.spec.transform == RowTransform::Transposed {
            let values = self.decoded((0..n_rows).collect(), row_len)?;
            let turned = transposed(&values, row_len);
            return self.emit(turned, progress);
        }
        let slab_rows = (SLAB_ELEMENTS / row_len.max(1)).max(1);
        let mut first = 0;
        while first < n_rows {
            let end = n_rows.min(first + slab_rows);
            let rows = (first..end)
                .map(|row| self.source_row(row, n_rows))
                .collect();
            let mut values = self.decoded(rows, row_len)?;
            if self.spec.transform == RowTransform::AddOne {
                values.iter_mut().for_each(|value| *value -= 1.0);
            }
            self.emit(values, progress)?;
            first = end;
        }
        Ok(())
    }

    /// The row of the file that this row of the checkpoint comes from.
    fn source_row(&self, row: usize, n_rows: usize) -> usize {
        let n_heads = match self.spec.transform {
            RowTransform::HalvesToPairs { n_heads } => n_heads,
            RowTransform::None
            | RowTransform::AddOne
            | RowTransform::FirstRows
            | RowTransform::Transposed => return row,
        };
        let group = n_rows / n_heads.max(1);
        let (within, half) = (row % group, group / 2);
        row - within + (within % half) * 2 + within / half
    }

    fn decoded(&mut self, rows: Vec<usize>, row_len: usize) -> Result<Vec<f32>, ConvertError> {
        let ty = self.view.info.ty;
        let row_bytes = row_len / ty.block_len() * ty.block_bytes();
        let mut values = std::mem::take(&mut self.values);
        values.resize(rows.len() * row_len, 0.0);
        let rows_per_chunk = (CHUNK_ELEMENTS / row_len.max(1)).max(1);
        let data = self.view.data;
        let n_elements = self.tensor.shape.iter().product::<u64>() as usize;
        let first_row = self.tensor.expert.unwrap_or(0) * (n_elements / row_len.max(1));
        let failed = std::sync::Mutex::new(None);
        for_each_chunk(
            self.pool,
            &mut values,
            rows_per_chunk * row_len,
            |chunk, out| {
                let rows = rows[chunk * rows_per_chunk..].iter();
                for (row, out) in rows.zip(out.chunks_exact_mut(row_len)) {
                    let start = (first_row + row) * row_bytes;
                    if let Err(error) = ty.decode(&data[start..start + row_bytes], out) {
                        *failed
                            .lock()
                            .unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error);
                    }
                }
            },
        );
        let failed = failed
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match failed {
            None => Ok(values),
            Some(source) => Err(crate::quantize::in_tensor(&self.spec.name, source)),
        }
    }

    fn emit(&mut self, values: Vec<f32>, progress: Progress<'_>) -> Result<(), ConvertError> {
        let ty = self.tensor.ty;
        if ty == F16 {
            let mut overflow = Overflow::default();
            overflow.look(&values);
            overflow.check(&self.spec.name)?;
        }
        let mut encoded = std::mem::take(&mut self.encoded);
        encoded.resize(values.len() * ty.block_bytes(), 0);
        encode_rows(ty, &values, values.len(), None, &mut encoded)
            .map_err(|error| in_kernel(&self.spec.name, error))?;
        write(self.file, &encoded)?;
        progress(Event::Written {
            bytes: encoded.len() as u64,
        });
        (self.values, self.encoded) = (values, encoded);
        Ok(())
    }
}
