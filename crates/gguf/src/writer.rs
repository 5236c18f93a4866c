//! Writing a file from a plan.

use std::collections::HashSet;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use gristmill_quant::TensorType;

use crate::directory::{self, tensor_bytes};
use crate::edit;
use crate::encode;
use crate::error::{Error, Result};
use crate::limits;
use crate::metadata::Metadata;
use crate::output::{OutputFile, StagedFile, WriteOptions};
use crate::value::Value;

/// The version of the container that is written.
pub(crate) const VERSION: u32 = 3;
/// Bytes to gather before they go to the system.
const BUFFER_BYTES: usize = 1 << 20;

/// A tensor that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorPlan {
    /// The name, at most [`limits::NAME_BYTES`] bytes.
    pub name: String,
    /// The dimensions, the contiguous one first.
    pub dims: Vec<u64>,
    /// The type of its elements.
    pub ty: TensorType,
}

/// Writes a GGUF file piece by piece: header and directory at once, then the data of each tensor in
/// the order of the plan. The file appears under its name when [`Writer::finish`] succeeds; until
/// then, and for ever if the writer is dropped, nothing is there.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    out: BufWriter<OutputFile>,
    alignment: u64,
    /// Name and size of each tensor.
    plan: Vec<(String, u64)>,
    /// The tensor that the next byte belongs to.
    current: usize,
    /// Bytes of the current tensor that are written.
    written: u64,
    size: u64,
}

impl Writer {
    /// Checks the plan, the target and the free space, and writes everything before the data.
    ///
    /// # Errors
    /// [`Error::OutputExists`], [`Error::OutputIsInput`], [`Error::NoFolder`], [`Error::NoSpace`],
    /// [`Error::BadPlan`], [`Error::BadEntry`], [`Error::BadAlignment`], [`Error::TooMany`], [`Error::Io`].
    pub fn create(
        path: &Path,
        metadata: &Metadata,
        tensors: &[TensorPlan],
        options: &WriteOptions,
    ) -> Result<Writer> {
        let layout = layout(path, metadata, tensors, options)?;
        let Layout {
            alignment,
            sizes,
            head,
            padding,
            size,
        } = layout;
        let out = OutputFile::create(path, size, options)?;
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
        out.write_all(&head)
            .and_then(|()| write_zeros(padding, &mut out))
            .map_err(|source| Error::io(path, "write", source))?;
        let plan = tensors
            .iter()
            .map(|tensor| tensor.name.clone())
            .zip(sizes)
            .collect();
        Ok(Writer {
            path: path.to_owned(),
            out,
            alignment,
            plan,
            current: 0,
            written: 0,
            size,
        })
    }

    /// The size that a file of this plan would have, in bytes. Nothing is written.
    ///
    /// # Errors
    /// [`Error::BadPlan`], [`Error::BadEntry`], [`Error::BadAlignment`], [`Error::TooMany`].
    pub fn size_of(
        path: &Path,
        metadata: &Metadata,
        tensors: &[TensorPlan],
        options: &WriteOptions,
    ) -> Result<u64> {
        layout(path, metadata, tensors, options).map(|layout| layout.size)
    }

    /// The size that the file will have, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Name and bytes still to come of the tensor that the next data belongs to; `None` when all
    /// are written.
    pub fn next_tensor(&self) -> Option<(&str, u64)> {
        self.plan
            .get(self.current)
            .map(|(name, bytes)| (name.as_str(), bytes - self.written))
    }

    /// Writes the next bytes of the current tensor; when it is complete, pads it and goes on to the
    /// next one.
    ///
    /// # Errors
    /// [`Error::PlanMismatch`] for more bytes than the tensor has, [`Error::Io`].
    pub fn write(&mut self, data: &[u8]) -> Result<()> {
        let Some((name, left)) = self.next_tensor() else {
            return if data.is_empty() {
                Ok(())
            } else {
                Err(self.mismatch("data after the last tensor".to_owned()))
            };
        };
        if data.len() as u64 > left {
            let reason = format!(
                "{} bytes for tensor {name:?}, of which {left} are missing",
                data.len()
            );
            return Err(self.mismatch(reason));
        }
        self.out
            .write_all(data)
            .map_err(|source| Error::io(&self.path, "write", source))?;
        self.written += data.len() as u64;
        if data.len() as u64 == left {
            self.pad()?;
        }
        Ok(())
    }

    /// Writes a tensor in one piece, after checking that it is its turn.
    ///
    /// # Errors
    /// [`Error::PlanMismatch`] for another tensor or size than is due, [`Error::Io`].
    pub fn write_tensor(&mut self, name: &str, data: &[u8]) -> Result<()> {
        match self.next_tensor() {
            Some((next, left)) if next == name && left == data.len() as u64 => self.write(data),
            next => {
                let reason = format!(
                    "{} bytes of tensor {name:?} where {next:?} is due",
                    data.len()
                );
                Err(self.mismatch(reason))
            }
        }
    }

    /// Brings the file to the disk and gives it its name.
    ///
    /// # Errors
    /// [`Error::PlanMismatch`] if data is missing, [`Error::OutputExists`] if the name was taken
    /// meanwhile, [`Error::OutputDisturbed`], [`Error::Interrupted`], [`Error::Io`].
    pub fn finish(self) -> Result<()> {
        self.stage()?.commit()
    }

    /// Brings the file to the disk; its name comes later.
    pub(crate) fn stage(self) -> Result<StagedFile> {
        if let Some((name, left)) = self.next_tensor() {
            let reason = format!("{left} bytes of tensor {name:?} are missing");
            return Err(self.mismatch(reason));
        }
        let path = self.path;
        let out = self
            .out
            .into_inner()
            .map_err(|error| Error::io(&path, "write", error.into_error()))?;
        out.stage()
    }

    fn pad(&mut self) -> Result<()> {
        let end = self.written.next_multiple_of(self.alignment);
        write_zeros(end - self.written, &mut self.out)
            .map_err(|source| Error::io(&self.path, "write", source))?;
        self.current += 1;
        self.written = 0;
        Ok(())
    }

    fn mismatch(&self, reason: String) -> Error {
        Error::PlanMismatch {
            path: self.path.clone(),
            reason,
        }
    }
}

/// Writes zeros, however many, in little memory.
pub(crate) fn write_zeros(n: u64, out: &mut impl Write) -> std::io::Result<()> {
    std::io::copy(&mut std::io::Read::take(std::io::repeat(0), n), out).map(|_| ())
}

/// Where everything lies in a file.
pub(crate) struct Layout {
    /// Tensors start at multiples of this.
    pub(crate) alignment: u64,
    /// The size of each tensor.
    pub(crate) sizes: Vec<u64>,
    /// Header, metadata and directory.
    pub(crate) head: Vec<u8>,
    /// The zeros behind it: up to 4 GiB, so they are not made here.
    pub(crate) padding: u64,
    /// The size of the file.
    pub(crate) size: u64,
}

impl Layout {
    /// Where the data starts.
    pub(crate) fn data_offset(&self) -> u64 {
        self.head.len() as u64 + self.padding
    }
}

/// Lays a file out, once its plan is found good.
pub(crate) fn layout(
    path: &Path,
    metadata: &Metadata,
    tensors: &[TensorPlan],
    options: &WriteOptions,
) -> Result<Layout> {
    let alignment = directory::written_alignment(metadata, path)?;
    check_counts(path, metadata, tensors, options)?;
    let sizes = check_plan(path, tensors, alignment, options.long_names)?;
    let head = match options.reserve {
        0 => head(path, metadata, tensors, &sizes, alignment, options)?,
        n => {
            let metadata = with_reserve(path, metadata, n)?;
            head(path, &metadata, tensors, &sizes, alignment, options)?
        }
    };
    let end = head.len() as u64;
    let n_padded = if options.pad_head { 1 } else { tensors.len() };
    let start = directory::data_offset(end, n_padded, alignment);
    let size = sizes.iter().try_fold(start, |sum, &bytes| {
        sum.checked_add(directory::align_up(bytes, alignment)?)
    });
    Ok(Layout {
        alignment,
        sizes,
        head,
        // Nothing starts before the head ends.
        padding: start - end,
        // Every sum up to the last one was checked with the plan.
        size: size.unwrap_or(u64::MAX),
    })
}

/// More than a reader takes is not written.
fn check_counts(
    path: &Path,
    metadata: &Metadata,
    tensors: &[TensorPlan],
    options: &WriteOptions,
) -> Result<()> {
    let n_entries = metadata.len() as u64 + u64::from(options.reserve > 0);
    let counts = [
        ("tensors", tensors.len() as u64, limits::TENSORS),
        ("metadata entries", n_entries, limits::ENTRIES),
    ];
    match counts.into_iter().find(|(_, count, limit)| count > limit) {
        None => Ok(()),
        Some((what, count, limit)) => Err(Error::TooMany {
            path: path.to_owned(),
            what,
            count,
            limit,
        }),
    }
}

/// The metadata with room for later edits.
fn with_reserve(path: &Path, metadata: &Metadata, n: u64) -> Result<Metadata> {
    if n > limits::STRING_BYTES {
        return Err(Error::BadEntry {
            path: path.to_owned(),
            key: edit::RESERVED_KEY.to_owned(),
            reason: format!(
                "{n} bytes are more than the {} of a string",
                limits::STRING_BYTES
            ),
        });
    }
    let mut metadata = metadata.clone();
    metadata.set(edit::RESERVED_KEY, edit::spaces(n));
    Ok(metadata)
}

/// The size of each tensor, once names and shapes are found good and their sum representable.
fn check_plan(
    path: &Path,
    tensors: &[TensorPlan],
    alignment: u64,
    long_names: bool,
) -> Result<Vec<u64>> {
    let mut names = HashSet::with_capacity(tensors.len());
    let mut sizes = Vec::with_capacity(tensors.len());
    let mut total = 0u64;
    for tensor in tensors {
        let bad = |reason| Error::BadPlan {
            path: path.to_owned(),
            tensor: tensor.name.clone(),
            reason,
        };
        let length = tensor.name.len();
        if length == 0 {
            return Err(bad("it has no name".to_owned()));
        }
        let limit = if long_names {
            limits::READ_NAME_BYTES as usize
        } else {
            limits::NAME_BYTES
        };
        if length > limit {
            return Err(bad(format!(
                "its name has {length} bytes; loaders accept {limit}"
            )));
        }
        if !names.insert(&tensor.name) {
            return Err(bad("its name is taken by another tensor".to_owned()));
        }
        let bytes = tensor_bytes(tensor.ty, &tensor.dims).map_err(bad)?;
        let next =
            directory::align_up(bytes, alignment).and_then(|padded| total.checked_add(padded));
        total = next
            .filter(|&total| total <= i64::MAX as u64)
            .ok_or_else(|| bad("the file would be too large".to_owned()))?;
        sizes.push(bytes);
    }
    Ok(sizes)
}

/// Header, metadata and directory.
fn head(
    path: &Path,
    metadata: &Metadata,
    tensors: &[TensorPlan],
    sizes: &[u64],
    alignment: u64,
    options: &WriteOptions,
) -> Result<Vec<u8>> {
    let endian = options.endian;
    let mut out = Vec::new();
    encode::start(
        VERSION,
        tensors.len() as u64,
        metadata.len() as u64,
        endian,
        &mut out,
    );
    for (key, value) in metadata.iter() {
        check_entry(path, key, value)?;
        encode::entry(key, value, endian, &mut out);
    }
    let mut offset = 0u64;
    for (tensor, bytes) in tensors.iter().zip(sizes) {
        encode::tensor(
            &tensor.name,
            &tensor.dims,
            tensor.ty,
            offset,
            endian,
            &mut out,
        );
        // The sum was checked with the plan.
        offset += bytes.next_multiple_of(alignment);
    }
    Ok(out)
}

/// What a reader would refuse is not written.
pub(crate) fn check_entry(path: &Path, key: &str, value: &Value) -> Result<()> {
    let bad = |reason| {
        Err(Error::BadEntry {
            path: path.to_owned(),
            key: key.to_owned(),
            reason,
        })
    };
    if key.is_empty() || key.len() as u64 > limits::KEY_BYTES || !key.is_ascii() {
        return bad(format!(
            "a key is 1 to {} ASCII characters",
            limits::KEY_BYTES
        ));
    }
    match value {
        Value::String(text) if text.len() as u64 > limits::STRING_BYTES => bad(format!(
            "a string has at most {} bytes",
            limits::STRING_BYTES
        )),
        Value::Array(array) if array.len() as u64 > limits::ARRAY_ITEMS => bad(format!(
            "an array has at most {} elements",
            limits::ARRAY_ITEMS
        )),
        _ => Ok(()),
    }
}
