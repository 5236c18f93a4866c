//! Tensors on their way from the checkpoint to the output: read, transform, cast, write, a slab of rows at a time.

use crate::ConvertError;
use crate::adapter::Merge;
use crate::checkpoint::{Checkpoint, CheckpointTensor};
use crate::plan::{Origin, Piece, Planned};
use crate::progress::{Event, Progress};
use crate::quantize::{self, CHUNK_ELEMENTS, RowEncoder};
use crate::scaled::e4m3_to_f32;
use gristmill_gguf::ShardWriter;
use gristmill_kernels::{Pool, encode_rows, for_each_chunk};
use gristmill_model::RowTransform;
use gristmill_quant::{F16, F32, QuantError, TensorType, bf16_to_f32, f16_to_f32};
use safetensors::Dtype;

/// Elements of a slab, about: 4 MiB as f32, whatever the size of the model.
const SLAB_ELEMENTS: usize = 1 << 20;
/// Magnitudes from here on round to infinity in f16.
const F16_OVERFLOW: f32 = 65520.0;
/// Magnitudes up to here, half of the smallest number of f16, round to 0 there.
const F16_UNDERFLOW: f32 = 1.0 / (1 << 25) as f32;

/// Streams tensors, with buffers that it keeps from one to the next.
pub(crate) struct Stream<'a> {
    checkpoint: &'a Checkpoint,
    /// Adapters to merge.
    merge: &'a Merge,
    pool: &'a Pool,
    /// From the type that conversion gives a tensor to the one of the recipe.
    recoder: RowEncoder<'a>,
    raw: Vec<u8>,
    values: Vec<f32>,
    encoded: Vec<u8>,
}

/// Values that do not fit the output type.
#[derive(Default)]
pub(crate) struct Overflow {
    count: u64,
    largest: f32,
    /// Values that become 0.
    n_flushed: u64,
}

impl<'a> Stream<'a> {
    pub fn new(checkpoint: &'a Checkpoint, merge: &'a Merge, pool: &'a Pool) -> Self {
        let recoder = RowEncoder::new(pool, 4 * SLAB_ELEMENTS);
        Self {
            checkpoint,
            merge,
            pool,
            recoder,
            raw: Vec::new(),
            values: Vec::new(),
            encoded: Vec::new(),
        }
    }

    /// Writes one tensor, which must be the writer's next.
    ///
    /// # Errors
    /// `Io`, `Overflow`, `Quant`, and the writer's.
    pub fn write(
        &mut self,
        tensor: &Planned,
        writer: &mut ShardWriter,
        progress: Progress<'_>,
    ) -> Result<(), ConvertError> {
        let shape = Rows::of(tensor);
        let mut write = |bytes: &[u8]| {
            writer.write(bytes)?;
            progress(Event::Written {
                bytes: bytes.len() as u64,
            });
            Ok(())
        };
        let whole = |index: usize| Piece {
            tensor: index,
            first_row: 0,
        };
        let pieces = match &tensor.origin {
            Origin::Checkpoint(index) => &[whole(*index)][..],
            Origin::Experts(pieces) => pieces,
            Origin::Computed(values) => {
                self.values.clone_from(values);
                return self.emit(tensor, &shape, 0, &mut write);
            }
        };
        let changes = self.merge.changes_of(&tensor.spec.name)?;
        let mut overflow = Overflow::default();
        let rows_per_piece = shape.n_rows / pieces.len().max(1);
        for (number, piece) in pieces.iter().enumerate() {
            let source = &self.checkpoint.tensors[piece.tensor];
            let scales = match &source.scale {
                Some(scale) => scale.read(&self.checkpoint.files)?,
                None => Vec::new(),
            };
            let mut first = 0;
            while first < rows_per_piece {
                let n_rows = shape.slab_rows.min(rows_per_piece - first);
                self.read(source, &shape, piece.first_row + first, n_rows)?;
                self.decode(source.entry.dtype);
                if let Some(scale) = &source.scale {
                    let rows = piece.first_row + first..piece.first_row + first + n_rows;
                    let rows = rows.map(|row| shape.source_row(row));
                    scale.apply(&scales, rows, shape.row_len, &mut self.values);
                }
                if tensor.spec.transform == RowTransform::AddOne {
                    self.values.iter_mut().for_each(|value| *value += 1.0);
                }
                for change in &changes {
                    change.add_to(number * rows_per_piece + first, &mut self.values);
                }
                if tensor.float == F16 {
                    overflow.look(&self.values);
                }
                // After the first value that does not fit, the rest is only counted.
                if overflow.count == 0 {
                    self.emit(tensor, &shape, number * rows_per_piece + first, &mut write)?;
                }
                first += n_rows;
            }
        }
        overflow.check(&tensor.spec.name)?;
        if overflow.n_flushed > 0 {
            progress(Event::Flushed {
                name: &tensor.spec.name,
                count: overflow.n_flushed,
            });
        }
        Ok(())
    }

    /// Encodes `values`, which begin with row `first_row`, and hands them to `write`; in two steps where a recipe gives the tensor another type, so that the
    /// bytes are those of a conversion followed by a quantization.
    fn emit(
        &mut self,
        tensor: &Planned,
        shape: &Rows,
        first_row: usize,
        write: &mut dyn FnMut(&[u8]) -> Result<(), ConvertError>,
    ) -> Result<(), ConvertError> {
        let name = &tensor.spec.name;
        let rows = EncodedRows {
            tensor: name,
            ty: tensor.float,
            row_len: shape.encode_len,
            first_element: first_row * shape.row_len,
        };
        encode(self.pool, &rows, &self.values, &mut self.encoded)?;
        if tensor.ty == tensor.float {
            return write(&self.encoded);
        }
        let rows = quantize::Rows {
            tensor: name,
            from: tensor.float,
            to: tensor.ty,
            first_row,
            row_len: shape.encode_len,
            rows_per_matrix: shape.n_rows,
            importance: None,
            changes: &[],
        };
        self.recoder
            .encode(&rows, &self.encoded, |_, bytes| write(bytes))
    }

    /// Reads output rows `first..first + n_rows` into `raw`, in output order.
    fn read(
        &mut self,
        source: &CheckpointTensor,
        shape: &Rows,
        first: usize,
        n_rows: usize,
    ) -> Result<(), ConvertError> {
        let row_bytes = shape.row_len * source.entry.dtype.bitsize() / 8;
        let file = &self.checkpoint.files[source.file];
        let offset = |row: usize| source.entry.offset + row as u64 * row_bytes as u64;
        self.raw.resize(n_rows * row_bytes, 0);
        if shape.is_transposed {
            return self.read_columns(source, shape, first, n_rows);
        }
        let Some(order) = &shape.order else {
            return file.read_at(offset(first), &mut self.raw);
        };
        if order.group_rows * row_bytes <= 4 * SLAB_ELEMENTS {
            return self.read_groups(source, shape, order, first, n_rows);
        }
        for (row, out) in (first..first + n_rows).zip(self.raw.chunks_exact_mut(row_bytes)) {
            file.read_at(offset(order.source_row(row)), out)?;
        }
        Ok(())
    }

    /// Reads rows that are columns of the checkpoint's matrix: a piece of each of its rows.
    fn read_columns(
        &mut self,
        source: &CheckpointTensor,
        shape: &Rows,
        first: usize,
        n_rows: usize,
    ) -> Result<(), ConvertError> {
        let size = source.entry.dtype.bitsize() / 8;
        let file = &self.checkpoint.files[source.file];
        let mut piece = vec![0; n_rows * size];
        for column in 0..shape.row_len {
            let start = column as u64 * shape.n_rows as u64 + first as u64;
            file.read_at(source.entry.offset + start * size as u64, &mut piece)?;
            let elements = self.raw.chunks_exact_mut(size).skip(column);
            for (out, element) in elements
                .step_by(shape.row_len)
                .zip(piece.chunks_exact(size))
            {
                out.copy_from_slice(element);
            }
        }
        Ok(())
    }

    /// Reads whole groups, in which rows change places.
    fn read_groups(
        &mut self,
        source: &CheckpointTensor,
        shape: &Rows,
        order: &HalvesToPairs,
        first: usize,
        n_rows: usize,
    ) -> Result<(), ConvertError> {
        let row_bytes = shape.row_len * source.entry.dtype.bitsize() / 8;
        let file = &self.checkpoint.files[source.file];
        let mut group = vec![0; order.group_rows * row_bytes];
        let mut loaded = None;
        for (row, out) in (first..first + n_rows).zip(self.raw.chunks_exact_mut(row_bytes)) {
            let start = row - row % order.group_rows;
            if loaded != Some(start) {
                file.read_at(
                    source.entry.offset + start as u64 * row_bytes as u64,
                    &mut group,
                )?;
                loaded = Some(start);
            }
            let within = (order.source_row(row) - start) * row_bytes;
            out.copy_from_slice(&group[within..within + row_bytes]);
        }
        Ok(())
    }

    fn decode(&mut self, dtype: Dtype) {
        let Self {
            raw, values, pool, ..
        } = self;
        let size = dtype.bitsize() / 8;
        values.resize(raw.len() / size, 0.0);
        for_each_chunk(pool, values, CHUNK_ELEMENTS, |chunk, out| {
            let start = chunk * CHUNK_ELEMENTS * size;
            decode(dtype, &raw[start..start + out.len() * size], out);
        });
    }
}

/// What rows become.
pub(crate) struct EncodedRows<'a> {
    /// The tensor's name, for errors.
    pub tensor: &'a str,
    pub ty: TensorType,
    pub row_len: usize,
    /// Element of the tensor that the rows begin with.
    pub first_element: usize,
}

/// Encodes whole rows; the bytes do not depend on the number of threads. A float type keeps what is not finite; in blocks
/// it would be lost without a word, and is refused.
pub(crate) fn encode(
    pool: &Pool,
    rows: &EncodedRows<'_>,
    values: &[f32],
    out: &mut Vec<u8>,
) -> Result<(), ConvertError> {
    let &EncodedRows {
        tensor,
        ty,
        row_len,
        first_element,
    } = rows;
    let row_bytes = quantize::row_bytes(tensor, ty, row_len)?;
    let row_len = row_len.max(1);
    out.resize(values.len() / row_len * row_bytes, 0);
    quantize::in_chunks(pool, row_len, row_bytes, out, |first, out| {
        let values = &values[first * row_len..][..out.len() / row_bytes * row_len];
        let first_element = first_element + first * row_len;
        if ty.is_quantized() {
            let bad = values.iter().position(|value| !value.is_finite());
            if let Some(place) = bad {
                let block = first_element + place;
                return Err(quantize::in_tensor(
                    tensor,
                    QuantError::NonFinite { ty: F32, block },
                ));
            }
        }
        encode_rows(ty, values, row_len, None, out)
            .map_err(|error| quantize::in_kernel(tensor, error))?;
        if ty.is_quantized() {
            quantize::validate(tensor, ty, out, first_element)?;
        }
        Ok(())
    })
}

/// Elements of a float type as f32.
pub(crate) fn decode(dtype: Dtype, raw: &[u8], out: &mut [f32]) {
    match dtype {
        Dtype::BF16 => each(raw, out, |bytes| bf16_to_f32(u16::from_le_bytes(bytes))),
        Dtype::F16 => each(raw, out, |bytes| f16_to_f32(u16::from_le_bytes(bytes))),
        Dtype::F64 => each(raw, out, |bytes| f64::from_le_bytes(bytes) as f32),
        Dtype::F8_E4M3 => each(raw, out, |[byte]| e4m3_to_f32(byte)),
        // The upper half of an f16.
        Dtype::F8_E5M2 => each(raw, out, |[byte]| f16_to_f32(u16::from(byte) << 8)),
        Dtype::I8 => each(raw, out, |bytes| f32::from(i8::from_le_bytes(bytes))),
        // The plan lets no other type pass.
        _ => each(raw, out, f32::from_le_bytes),
    }
}

fn each<const N: usize>(raw: &[u8], out: &mut [f32], value: impl Fn([u8; N]) -> f32) {
    let (elements, _) = raw.as_chunks::<N>();
    for (out, bytes) in out.iter_mut().zip(elements) {
        *out = value(*bytes);
    }
}

impl Overflow {
    /// Refuses values that did not fit.
    pub fn check(&self, tensor: &str) -> Result<(), ConvertError> {
        match *self {
            Overflow { count: 0, .. } => Ok(()),
            Overflow { count, largest, .. } => Err(ConvertError::Overflow {
                tensor: tensor.to_owned(),
                count,
                largest,
            }),
        }
    }

    pub fn look(&mut self, values: &[f32]) {
        for value in values
            .iter()
            .map(|value| value.abs())
            .filter(|value| value.is_finite() && *value >= F16_OVERFLOW)
        {
            self.count += 1;
            self.largest = self.largest.max(value);
        }
        let is_flushed = |value: &&f32| **value != 0.0 && value.abs() <= F16_UNDERFLOW;
        self.n_flushed += values.iter().filter(is_flushed).count() as u64;
    }
}

/// A tensor as rows.
struct Rows {
    /// Elements that move together when rows change places.
    row_len: usize,
    n_rows: usize,
    /// Rows that are handled at once.
    slab_rows: usize,
    /// Elements of a row of the output type.
    encode_len: usize,
    order: Option<HalvesToPairs>,
    /// Whether rows are columns of the checkpoint's matrix.
    is_transposed: bool,
}

impl Rows {
    fn of(tensor: &Planned) -> Self {
        let dims = &tensor.spec.dims;
        // The header of the checkpoint was checked to have so many elements, which fit a file.
        let n_elements = dims.iter().product::<u64>() as usize;
        let row_len = if dims.len() > 1 { dims[0] as usize } else { 1 };
        let n_rows = n_elements / row_len.max(1);
        let order = match tensor.spec.transform {
            RowTransform::HalvesToPairs { n_heads } => Some(HalvesToPairs {
                group_rows: n_rows / n_heads,
            }),
            _ => None,
        };
        let slab_rows = (SLAB_ELEMENTS / row_len.max(1)).max(1);
        // Whole groups, where they are small enough.
        let slab_rows = match &order {
            Some(order) if order.group_rows <= slab_rows => {
                slab_rows - slab_rows % order.group_rows
            }
            _ => slab_rows,
        };
        let encode_len = if dims.len() > 1 { row_len } else { 1 };
        Self {
            row_len,
            n_rows,
            slab_rows,
            encode_len,
            order,
            is_transposed: tensor.spec.transform == RowTransform::Transposed,
        }
    }
}

impl Rows {
    /// The row of the checkpoint that becomes this row.
    fn source_row(&self, row: usize) -> usize {
        let order = self.order.as_ref();
        order.map_or(row, |order| order.source_row(row))
    }
}

/// Rows of each group go from two halves to pairs.
pub(crate) struct HalvesToPairs {
    pub group_rows: usize,
}

impl HalvesToPairs {
    /// The row of the checkpoint that becomes this row.
    pub fn source_row(&self, row: usize) -> usize {
        let within = row % self.group_rows;
        let half = self.group_rows / 2;
        row - within + (within % 2) * half + within / 2
    }
}

/// Rows become columns; each row has `row_len` elements.
pub(crate) fn transposed(values: &[f32], row_len: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(values.len());
    for column in 0..row_len {
        out.extend(values.iter().skip(column).step_by(row_len));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_become_pairs() {
        let order = HalvesToPairs { group_rows: 6 };
        let rows: Vec<usize> = (0..12).map(|row| order.source_row(row)).collect();
        assert_eq!(rows, [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]);
    }

    #[test]
    fn transposed_rows_are_columns_whatever_the_slab() {
        let (n_in, n_out) = (3usize, 8usize);
        let stored: Vec<u8> = (0..(n_in * n_out) as u16)
            .flat_map(u16::to_le_bytes)
            .collect();
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let view = safetensors::tensor::TensorView::new(Dtype::F16, vec![n_in, n_out], &stored);
        let weights = safetensors::serialize([("a", view.unwrap())], None).unwrap();
        std::fs::write(path("model.safetensors"), weights).unwrap();
        let config = r#"{"architectures": ["LlamaForCausalLM"]}"#;
        std::fs::write(path("config.json"), config).unwrap();
        let checkpoint = Checkpoint::open(folder.path()).unwrap();
        let rows = Rows {
            row_len: n_in,
            n_rows: n_out,
            slab_rows: 3,
            encode_len: n_in,
            order: None,
            is_transposed: true,
        };
        let pool = Pool::new(1);
        let merge = Merge::default();
        let mut stream = Stream::new(&checkpoint, &merge, &pool);
        let mut found = Vec::new();
        for (first, n_rows) in [(0, 3), (3, 3), (6, 2)] {
            let source = &checkpoint.tensors[0];
            stream.read(source, &rows, first, n_rows).unwrap();
            found.extend_from_slice(&stream.raw);
        }
        let expected = (0..n_out).flat_map(|row| (0..n_in).map(move |column| column * n_out + row));
        let expected: Vec<u8> = expected.flat_map(|n| (n as u16).to_le_bytes()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn bytes_do_not_depend_on_threads() {
        let values: Vec<f32> = (0..96 * 1700)
            .map(|n| ((n * 37 % 101) as f32 - 50.0) / 7.0)
            .collect();
        let encoded = |n_threads| {
            let mut out = Vec::new();
            let pool = Pool::new(n_threads);
            let rows = EncodedRows {
                tensor: "t",
                ty: gristmill_quant::Q8_0,
                row_len: 96,
                first_element: 0,
            };
            encode(&pool, &rows, &values, &mut out).unwrap();
            out
        };
        assert!(encoded(1) == encoded(3));
    }
}
