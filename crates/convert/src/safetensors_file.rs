//! The header of a safetensors file.

use crate::ConvertError;
use crate::small_file::foreign;
use crate::source::Source;
use safetensors::Dtype;
use safetensors::tensor::Metadata;

/// Longest header that is read, as in the format's own library.
const HEADER_BYTES_MAX: u64 = 100_000_000;

/// A tensor in a file.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Shape, contiguous dimension last.
    pub shape: Vec<u64>,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Reads the header of a file and checks it against the file's length: ranges without holes or overlaps, sizes that
/// follow from type and shape. Entries come sorted by name.
///
/// # Errors
/// `Safetensors` saying what is wrong, `Io`.
pub fn read_header(source: &dyn Source) -> Result<Vec<Entry>, ConvertError> {
    let wrong = |reason: String| ConvertError::Safetensors {
        path: source.path().to_owned(),
        reason,
    };
    if source.len() < 8 {
        return Err(wrong(format!("it has only {} bytes", source.len())));
    }
    let mut length = [0; 8];
    source.read_at(0, &mut length)?;
    let header_bytes = u64::from_le_bytes(length);
    if header_bytes > HEADER_BYTES_MAX || header_bytes > source.len() - 8 {
        return Err(foreign(source.path(), &length).unwrap_or_else(|| {
            wrong(format!(
                "a header of {header_bytes} bytes in a file of {}",
                source.len()
            ))
        }));
    }
    // Fits memory: at most HEADER_BYTES_MAX, and no more than the file has.
    let mut header = vec![0; header_bytes as usize];
    source.read_at(8, &mut header)?;
    let header: Metadata =
        serde_json::from_slice(&header).map_err(|error| wrong(format!("header: {error}")))?;
    let data_start = 8 + header_bytes;
    let needed = data_start.saturating_add(header.data_len() as u64);
    if needed != source.len() {
        return Err(wrong(format!(
            "the header describes {needed} bytes, the file has {}",
            source.len()
        )));
    }
    let entry = |(name, info): (String, &safetensors::tensor::TensorInfo)| Entry {
        name,
        dtype: info.dtype,
        shape: info.shape.iter().map(|&extent| extent as u64).collect(),
        // Both ends lie within the file, as just checked.
        offset: data_start + info.data_offsets.0 as u64,
        bytes: (info.data_offsets.1 - info.data_offsets.0) as u64,
    };
    let mut entries: Vec<Entry> = header.tensors().into_iter().map(entry).collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}
