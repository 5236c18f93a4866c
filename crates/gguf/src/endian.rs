//! A file in the other byte order.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use gristmill_quant::TensorType;

use crate::byte_order;
use crate::copy::{Event, Progress};
use crate::cursor::Endian;
use crate::directory::TensorInfo;
use crate::encode;
use crate::error::{Error, Result};
use crate::file::File;
use crate::output::{OutputFile, WriteOptions, check_target};
use crate::source::{PIECE_BYTES, Source};

/// What to turn around.
#[derive(Clone, Debug)]
pub struct EndianOptions {
    /// The file. Of a set of shards, each file is turned by itself.
    pub input: PathBuf,
    /// The file to write.
    pub output: PathBuf,
    /// The byte order that it gets.
    pub to: Endian,
    /// Check everything, write nothing.
    pub dry_run: bool,
    /// Replace an existing output.
    pub force: bool,
}

/// What was turned around, or would be.
#[derive(Clone, Debug)]
pub struct EndianReport {
    /// The output.
    pub path: PathBuf,
    /// The byte order of the input.
    pub from: Endian,
    /// Entries of metadata.
    pub n_entries: usize,
    /// Tensors.
    pub n_tensors: usize,
    /// Size of the file, in bytes; it stays the same.
    pub bytes: u64,
    /// Whether nothing was written.
    pub dry_run: bool,
}

/// Writes a file in another byte order: version word, counts, metadata, directory, and in the tensor data every number
/// wider than a byte. All else stays in its place, so that turning the output gives back the input byte for byte.
///
/// # Errors
/// [`Error::AlreadyEndian`], those of [`File::open`] and of [`OutputFile::create`].
pub fn convert_endian(options: &EndianOptions, progress: Progress<'_>) -> Result<EndianReport> {
    let file = File::open_stored(&options.input)?;
    let from = file.endian();
    if from == options.to {
        return Err(Error::AlreadyEndian {
            path: options.input.clone(),
            endian: from.name(),
        });
    }
    let report = EndianReport {
        path: options.output.clone(),
        from,
        n_entries: file.metadata().len(),
        n_tensors: file.tensors().len(),
        bytes: file.size(),
        dry_run: options.dry_run,
    };
    let write_options = WriteOptions {
        force: options.force,
        inputs: vec![options.input.clone()],
        ..WriteOptions::default()
    };
    check_target(&options.output, &write_options)?;
    if options.dry_run {
        return Ok(report);
    }
    let out = OutputFile::create(&options.output, file.size(), &write_options)?;
    let mut turn = Turn {
        source: Source::of(&file)?,
        out: BufWriter::with_capacity(1 << 20, out),
        path: &options.output,
        progress,
    };
    turn.file(&file, options.to)?;
    let out = turn.out.into_inner();
    out.map_err(|error| Error::io(&options.output, "write", error.into_error()))?
        .commit()?;
    Ok(report)
}

/// A file on its way.
struct Turn<'a> {
    source: Source,
    out: BufWriter<OutputFile>,
    path: &'a Path,
    progress: Progress<'a>,
}

impl Turn<'_> {
    fn file(&mut self, file: &File, to: Endian) -> Result<()> {
        (self.progress)(Event::Start { bytes: file.size() });
        let head = head(file, to);
        self.write(&head)?;
        let mut tensors: Vec<&TensorInfo> = file.tensors().iter().collect();
        tensors.sort_by_key(|tensor| tensor.offset);
        // The head takes the same bytes in either order.
        let mut place = file.directory_end();
        for tensor in tensors {
            // Both were checked to lie inside the file, and no tensor in another.
            let start = file.data_offset() + tensor.offset;
            self.copy(place, start - place, None)?;
            self.copy(start, tensor.bytes, Some(tensor.ty))?;
            place = start + tensor.bytes;
        }
        self.copy(place, file.size() - place, None)
    }

    /// Copies `n` bytes, turned around where they are blocks of a type.
    fn copy(&mut self, start: u64, n: u64, ty: Option<TensorType>) -> Result<()> {
        let block = ty.map_or(1, TensorType::block_bytes);
        let piece = PIECE_BYTES / block * block;
        let Turn {
            source,
            out,
            path,
            progress,
        } = self;
        source.read(start, n, piece, |bytes| {
            if let Some(ty) = ty {
                byte_order::swap(ty, bytes);
            }
            out.write_all(bytes)
                .map_err(|source| Error::io(path, "write", source))?;
            let bytes = bytes.len() as u64;
            progress(Event::Done { bytes });
            Ok(())
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out
            .write_all(bytes)
            .map_err(|source| Error::io(self.path, "write", source))
    }
}

/// Header, metadata and directory in another byte order.
fn head(file: &File, to: Endian) -> Vec<u8> {
    let mut out = Vec::new();
    let (metadata, tensors) = (file.metadata(), file.tensors());
    let (n_tensors, n_entries) = (tensors.len() as u64, metadata.len() as u64);
    encode::start(file.version(), n_tensors, n_entries, to, &mut out);
    for (key, value) in metadata.iter() {
        encode::entry(key, value, to, &mut out);
    }
    for tensor in tensors {
        let (name, dims) = (&tensor.name, &tensor.dims);
        encode::tensor(name, dims, tensor.ty, tensor.offset, to, &mut out);
    }
    out
}
