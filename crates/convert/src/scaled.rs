//! Weights in 8 bits with scales beside them: which schemes are understood, and how a weight finds its scales.

use crate::ConvertError;
use crate::checkpoint::CheckpointTensor;
use crate::plan::check_dtype;
use crate::safetensors_file::Entry;
use crate::source::Source;
use crate::stream::decode;
use safetensors::Dtype;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What follows a weight's name in that of its scales. Either way weights are multiplied by them.
const SUFFIXES: [&str; 2] = ["_scale_inv", "_scale"];

/// A way to quantize in which a weight is its 8 bits times a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scheme {
    /// Rows and columns that share a scale; where none are stated, the number of scales tells.
    block: Option<[u64; 2]>,
}

impl Scheme {
    /// What a `quantization_config` says; `None` for a scheme that is not understood.
    pub fn of(config: &Value) -> Option<Self> {
        match config.get("quant_method")?.as_str()? {
            "fp8" => {
                let block = block(config.get("weight_block_size"))?;
                Some(Self { block })
            }
            "compressed-tensors" => Self::of_groups(config),
            _ => None,
        }
    }

    /// As compressed-tensors describes it: by groups of modules, which must agree on the blocks.
    fn of_groups(config: &Value) -> Option<Self> {
        const FORMATS: [&str; 3] = ["float-quantized", "int-quantized", "naive-quantized"];
        let is_plain = |format: &Value| format.as_str().is_some_and(|it| FORMATS.contains(&it));
        let groups = config.get("config_groups")?.as_object()?;
        let stated = config.get("format").filter(|format| !format.is_null());
        if !stated.is_none_or(is_plain) {
            return None;
        }
        let mut blocks = groups.values().map(|group| {
            let own = group.get("format").filter(|format| !format.is_null());
            let weights = group.get("weights")?;
            let strategy = weights.get("strategy")?.as_str()?;
            let is_known = own.or(stated).is_some_and(is_plain)
                && weights.get("num_bits").and_then(Value::as_u64) == Some(8)
                && weights.get("symmetric") != Some(&Value::Bool(false))
                && ["tensor", "channel", "block"].contains(&strategy);
            let block = block(weights.get("block_structure"))?;
            (is_known && (strategy == "block") == block.is_some()).then_some(block)
        });
        let block = blocks.next()??;
        blocks
            .all(|other| other == Some(block))
            .then_some(Self { block })
    }

    /// Gives matrices their scales, which leave the list.
    ///
    /// # Errors
    /// Scales of another shape than the weight needs, or that are no floats.
    pub fn pair(
        self,
        tensors: &mut Vec<CheckpointTensor>,
        files: &[Box<dyn Source>],
    ) -> Result<(), ConvertError> {
        let matrices = tensors.iter().filter(|tensor| tensor.entry.shape.len() > 1);
        let matrices: HashSet<String> = matrices.map(|tensor| tensor.entry.name.clone()).collect();
        let mut scales = HashMap::new();
        tensors.retain(|tensor| {
            let mut weights = SUFFIXES
                .iter()
                .filter_map(|suffix| tensor.entry.name.strip_suffix(suffix));
            let weight = weights.find(|name| matrices.contains(*name));
            // Of two kinds for one weight the second is left in the list, and told of as unknown.
            match weight.filter(|name| !scales.contains_key(*name)) {
                Some(name) => scales.insert(name.to_owned(), tensor.clone()).is_some(),
                None => true,
            }
        });
        for tensor in tensors {
            if let Some(found) = scales.remove(&tensor.entry.name) {
                let path = files.get(found.file).map(|file| file.path().to_owned());
                let scale = Scale::new(&tensor.entry, found, self.block)
                    .map_err(|error| error.of(&path.unwrap_or_default()))?;
                tensor.scale = Some(Arc::new(scale));
            }
        }
        Ok(())
    }
}

/// The two lengths of a block: none where nothing is stated, and nothing at all where they are no such lengths.
fn block(stated: Option<&Value>) -> Option<Option<[u64; 2]>> {
    let Some(stated) = stated.filter(|value| !value.is_null()) else {
        return Some(None);
    };
    let lengths = stated.as_array()?.iter();
    let lengths = lengths.map(|length| length.as_u64().filter(|&length| length > 0));
    let lengths: Vec<u64> = lengths.collect::<Option<_>>()?;
    <[u64; 2]>::try_from(lengths).ok().map(Some)
}

/// The scales of a matrix, or of several in one tensor.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    entry: Entry,
    file: usize,
    /// Rows of one matrix: at its end the counting of blocks begins anew.
    matrix_rows: usize,
    block_rows: usize,
    block_columns: usize,
    /// Blocks beside and below each other in one matrix.
    grid_columns: usize,
    grid_rows: usize,
}

impl Scale {
    fn new(
        weight: &Entry,
        scale: CheckpointTensor,
        block: Option<[u64; 2]>,
    ) -> Result<Self, ConvertError> {
        let CheckpointTensor { entry, file, .. } = scale;
        check_dtype(&entry)?;
        let [matrices @ .., rows, columns] = weight.shape.as_slice() else {
            return Err(shape(&entry, vec![1]));
        };
        let count = |extents: &[u64]| extents.iter().fold(1u64, |n, &m| n.saturating_mul(m));
        let (n_matrices, n_scales) = (count(matrices), count(&entry.shape));
        let all_rows = n_matrices.saturating_mul(*rows);
        let (matrix_rows, block_rows, block_columns) = match block {
            Some([block_rows, block_columns]) => {
                let grid = [rows.div_ceil(block_rows), columns.div_ceil(block_columns)];
                let expected = [matrices, &grid].concat();
                if entry.shape != expected {
                    return Err(shape(&entry, expected));
                }
                (*rows, block_rows, block_columns)
            }
            None if n_scales == 1 => (all_rows, all_rows, *columns),
            None if n_scales == all_rows => (*rows, 1, *columns),
            None if n_scales == n_matrices => (*rows, *rows, *columns),
            None => return Err(shape(&entry, [matrices, &[*rows, 1]].concat())),
        };
        // All of them are at most the elements of a tensor that was found in a file, or multiplied with none.
        let [matrix_rows, block_rows, block_columns, columns] =
            [matrix_rows, block_rows, block_columns, *columns].map(|n| n.max(1) as usize);
        Ok(Self {
            entry,
            file,
            matrix_rows,
            block_rows,
            block_columns,
            grid_columns: columns.div_ceil(block_columns),
            grid_rows: matrix_rows.div_ceil(block_rows),
        })
    }

    /// All scales, from their file.
    ///
    /// # Errors
    /// `Io`.
    pub fn read(&self, files: &[Box<dyn Source>]) -> Result<Vec<f32>, ConvertError> {
        let mut raw = vec![0; self.entry.bytes as usize];
        let mut values = vec![0.0; raw.len() * 8 / self.entry.dtype.bitsize()];
        files[self.file].read_at(self.entry.offset, &mut raw)?;
        decode(self.entry.dtype, &raw, &mut values);
        Ok(values)
    }

    /// Multiplies whole rows by their scales; `rows` are their numbers in the checkpoint's tensor.
    pub fn apply(
        &self,
        scales: &[f32],
        rows: impl Iterator<Item = usize>,
        row_len: usize,
        values: &mut [f32],
    ) {
        for (row, values) in rows.zip(values.chunks_exact_mut(row_len.max(1))) {
            let block_row =
                row / self.matrix_rows * self.grid_rows + row % self.matrix_rows / self.block_rows;
            let scales = scales.iter().skip(block_row * self.grid_columns);
            for (block, scale) in values.chunks_mut(self.block_columns).zip(scales) {
                block.iter_mut().for_each(|value| *value *= scale);
            }
        }
    }
}

fn shape(scale: &Entry, expected: Vec<u64>) -> ConvertError {
    ConvertError::TensorShape {
        tensor: scale.name.clone(),
        expected,
        found: scale.shape.clone(),
    }
}

/// A number in 8 bits: four of exponent with bias 7, three of mantissa, no infinity.
pub(crate) fn e4m3_to_f32(byte: u8) -> f32 {
    let (exponent, mantissa) = (byte >> 3 & 15, byte & 7);
    let magnitude = match (exponent, mantissa) {
        (15, 7) => f32::NAN,
        // Multiples of 2^-9.
        (0, _) => f32::from(mantissa) / 512.0,
        // `8 + mantissa` times 2^(exponent - 10), whose bits these are.
        _ => f32::from(8 + mantissa) * f32::from_bits((u32::from(exponent) + 117) << 23),
    };
    if byte & 0x80 == 0 {
        magnitude
    } else {
        -magnitude
    }
}

/// Refuses elements that are no floats, and have no scales to make them some.
pub(crate) fn check_elements(tensor: &CheckpointTensor) -> Result<(), ConvertError> {
    match (tensor.entry.dtype, &tensor.scale) {
        (Dtype::F8_E4M3 | Dtype::F8_E5M2 | Dtype::I8, Some(_)) => Ok(()),
        (dtype @ (Dtype::F8_E4M3 | Dtype::F8_E5M2 | Dtype::I8), None) => {
            Err(ConvertError::ElementType {
                tensor: tensor.entry.name.clone(),
                dtype: format!("{dtype} without scales"),
            })
        }
        _ => check_dtype(&tensor.entry),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values by the format's definition (Micikevicius et al., FP8 Formats for Deep Learning).
    #[test]
    fn eight_bits_are_numbers() {
        for (byte, value) in [
            (0x00, 0.0),
            (0x01, 0.001_953_125),
            (0x07, 0.013_671_875),
            (0x08, 0.015_625),
            (0x38, 1.0),
            (0xb9, -1.125),
            (0x7e, 448.0),
            (0xfe, -448.0),
        ] {
            assert_eq!(e4m3_to_f32(byte), value, "{byte:#x}");
        }
        assert!(e4m3_to_f32(0x80).is_sign_negative());
        assert!(e4m3_to_f32(0x7f).is_nan() && e4m3_to_f32(0xff).is_nan());
    }
}
