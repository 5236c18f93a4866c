//! What a base model foretold, as a file that the reference reads and writes: `--save-all-logits`.
//!
//! ```text
//! "_logits_" | u32 n_ctx | i32 n_vocab | i32 n_chunks | i32 ids [n_chunks * n_ctx]
//! n_chunks * (n_ctx - 1 - n_ctx / 2) rows: f32 scale | f32 least | u16 levels [n_vocab, rounded up to an even number]
//! ```
//!
//! The logarithm of a probability is `scale * level + least`; what is more than 16 below the largest one is told as 16 below. All in
//! little-endian order.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use gristmill_gguf::{OutputFile, WriteOptions};

use super::N_CTX_MIN;
use crate::error::MeasureError;

const MAGIC: &[u8; 8] = b"_logits_";
const HEAD_BYTES: u64 = 20;
/// How far below the largest logit the levels reach.
const DEPTH: f32 = 16.0;
const LEVELS: f32 = 65535.0;

/// The shape of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    n_ctx: usize,
    n_vocab: usize,
    n_chunks: usize,
}

impl Shape {
    fn rows_per_chunk(self) -> usize {
        self.n_ctx - 1 - self.n_ctx / 2
    }

    fn row_bytes(self) -> usize {
        8 + 2 * self.n_vocab.next_multiple_of(2)
    }

    /// Of the whole file; none where no file is so long.
    fn n_bytes(self) -> Option<u64> {
        let (n_ctx, n_chunks) = (self.n_ctx as u64, self.n_chunks as u64);
        let rows = n_chunks.checked_mul(self.rows_per_chunk() as u64)?;
        let rows = rows.checked_mul(self.row_bytes() as u64)?;
        n_ctx
            .checked_mul(n_chunks)?
            .checked_mul(4)?
            .checked_add(rows)?
            .checked_add(HEAD_BYTES)
    }
}

/// A row of logits in the file's form.
pub(super) fn encode(logits: &[f32]) -> Vec<u8> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let min = logits.iter().copied().fold(f32::INFINITY, f32::min);
    let min = min.max(max - DEPTH);
    let sum: f64 = logits.iter().map(|&x| f64::from((x - max).exp())).sum();
    let least = min - max - sum.ln() as f32;
    let scale = (max - min) / LEVELS;
    let mut row = Vec::with_capacity(8 + 2 * logits.len().next_multiple_of(2));
    row.extend_from_slice(&scale.to_le_bytes());
    row.extend_from_slice(&least.to_le_bytes());
    let inverse = 1.0 / scale;
    for &logit in logits {
        let level = match logit > min {
            true => (inverse * (logit - min)).round_ties_even() as u16,
            false => 0,
        };
        row.extend_from_slice(&level.to_le_bytes());
    }
    row.resize(8 + 2 * logits.len().next_multiple_of(2), 0);
    row
}

/// Writes such a file, which gets its name when it is complete.
pub struct LogitsWriter {
    out: BufWriter<OutputFile>,
    path: PathBuf,
    rows_left: u64,
}

impl LogitsWriter {
    /// Begins a file for windows of so many tokens, whose ids it holds.
    ///
    /// # Errors
    /// More than the format can count, and what stands against the output.
    pub fn create(
        path: &Path,
        ids: &[u32],
        n_ctx: usize,
        n_vocab: usize,
        options: &WriteOptions,
    ) -> Result<LogitsWriter, MeasureError> {
        let shape = Shape {
            n_ctx,
            n_vocab,
            n_chunks: ids.len() / n_ctx.max(1),
        };
        let counts = [shape.n_ctx, shape.n_vocab, shape.n_chunks].map(i32::try_from);
        let ([Ok(n_ctx), Ok(n_vocab), Ok(n_chunks)], Some(n_bytes)) = (counts, shape.n_bytes())
        else {
            return Err(MeasureError::TooManyLogits {
                path: path.to_owned(),
            });
        };
        let output = OutputFile::create(path, n_bytes, options)?;
        let mut writer = LogitsWriter {
            out: BufWriter::with_capacity(1 << 20, output),
            path: path.to_owned(),
            rows_left: (shape.n_chunks * shape.rows_per_chunk()) as u64,
        };
        writer.put(MAGIC)?;
        for count in [n_ctx, n_vocab, n_chunks] {
            writer.put(&count.to_le_bytes())?;
        }
        for id in &ids[..shape.n_chunks * shape.n_ctx] {
            writer.put(&id.to_le_bytes())?;
        }
        Ok(writer)
    }

    /// The next row, encoded.
    pub(super) fn write_row(&mut self, row: &[u8]) -> Result<(), MeasureError> {
        self.rows_left = self.rows_left.saturating_sub(1);
        self.put(row)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), MeasureError> {
        self.out
            .write_all(bytes)
            .map_err(|source| MeasureError::disk(&self.path, source))
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// Rows that are missing, the disk.
    pub fn finish(self) -> Result<(), MeasureError> {
        if self.rows_left > 0 {
            return Err(MeasureError::LogitsFile {
                path: self.path,
                reason: format!("{} predictions were not written", self.rows_left),
            });
        }
        let output = self
            .out
            .into_inner()
            .map_err(|error| MeasureError::disk(&self.path, error.into_error()))?;
        output.commit()?;
        Ok(())
    }
}

/// What a base model foretold, window by window.
pub struct LogitsReader {
    file: BufReader<File>,
    path: PathBuf,
    shape: Shape,
    ids: Vec<u32>,
}

impl LogitsReader {
    /// Opens a file and holds its header against its length.
    ///
    /// # Errors
    /// A file that cannot be read, is none of this kind, or is cut short.
    pub fn open(path: &Path) -> Result<LogitsReader, MeasureError> {
        let disk = |source| MeasureError::disk(path, source);
        let refused = |reason: String| MeasureError::LogitsFile {
            path: path.to_owned(),
            reason,
        };
        // Opening a pipe would wait for somebody who writes.
        let metadata = std::fs::metadata(path).map_err(disk)?;
        if !metadata.is_file() {
            return Err(refused("it is no file".to_owned()));
        }
        let length = metadata.len();
        let file = File::open(path).map_err(disk)?;
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut head = [0; HEAD_BYTES as usize];
        if length < HEAD_BYTES {
            return Err(refused(format!(
                "it has {length} bytes, fewer than the header"
            )));
        }
        file.read_exact(&mut head).map_err(disk)?;
        if &head[..8] != MAGIC {
            return Err(refused("it does not begin with \"_logits_\"".to_owned()));
        }
        let count = |at: usize| {
            let bytes: [u8; 4] = std::array::from_fn(|index| head[at + index]);
            usize::try_from(i32::from_le_bytes(bytes)).unwrap_or(0)
        };
        let shape = Shape {
            n_ctx: count(8),
            n_vocab: count(12),
            n_chunks: count(16),
        };
        if shape.n_ctx < N_CTX_MIN || shape.n_vocab == 0 || shape.n_chunks == 0 {
            let reason = "its header tells of no windows that could be scored";
            return Err(refused(reason.to_owned()));
        }
        if shape.n_bytes() != Some(length) {
            let wanted = shape
                .n_bytes()
                .map_or("more than any file".to_owned(), |n| n.to_string());
            let reason = format!("it has {length} bytes, but its header tells of {wanted}");
            return Err(refused(reason));
        }
        // The file is as long as the header says, so the ids take no more than it does.
        let mut bytes = vec![0; shape.n_ctx * shape.n_chunks * 4];
        file.read_exact(&mut bytes).map_err(disk)?;
        let ids: Vec<u32> = bytes
            .chunks_exact(4)
            .map(|id| u32::from_le_bytes([id[0], id[1], id[2], id[3]]))
            .collect();
        if let Some(id) = ids.iter().find(|&&id| id as usize >= shape.n_vocab) {
            let n_vocab = shape.n_vocab;
            return Err(refused(format!(
                "it holds token {id}, but its vocabulary has {n_vocab}"
            )));
        }
        Ok(LogitsReader {
            file,
            path: path.to_owned(),
            shape,
            ids,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tokens of a window.
    pub fn n_ctx(&self) -> usize {
        self.shape.n_ctx
    }

    /// Tokens of the vocabulary.
    pub fn n_vocab(&self) -> usize {
        self.shape.n_vocab
    }

    /// Windows.
    pub fn n_chunks(&self) -> usize {
        self.shape.n_chunks
    }

    /// The ids of all windows.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The rows of the next windows.
    pub(super) fn read(&mut self, n_chunks: usize) -> Result<BaseRows, MeasureError> {
        let mut bytes = vec![0; n_chunks * self.shape.rows_per_chunk() * self.shape.row_bytes()];
        self.file
            .read_exact(&mut bytes)
            .map_err(|source| MeasureError::disk(&self.path, source))?;
        Ok(BaseRows {
            bytes,
            shape: self.shape,
        })
    }
}

/// Rows of some windows.
pub(super) struct BaseRows {
    bytes: Vec<u8>,
    shape: Shape,
}

impl BaseRows {
    /// Logarithms of probabilities, of row `number`.
    pub fn log_probabilities(&self, number: usize) -> impl Iterator<Item = f32> {
        let width = self.shape.row_bytes();
        let row = &self.bytes[number * width..(number + 1) * width];
        let float =
            |at: usize| f32::from_le_bytes([row[at], row[at + 1], row[at + 2], row[at + 3]]);
        let (scale, least) = (float(0), float(4));
        row[8..8 + 2 * self.shape.n_vocab]
            .chunks_exact(2)
            .map(move |level| scale * f32::from(u16::from_le_bytes([level[0], level[1]])) + least)
    }
}
