//! The weights: every number of float tensors and every scale of quantized blocks is finite.
//!
//! Tensor data is read in pieces rather than looked at through the map, so that memory stays small whatever the size
//! of the file; threads share the pieces, and what is found does not depend on how they did.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use gristmill_gguf::{Endian, File, TensorInfo};
use gristmill_quant::{QuantError, TensorType};

use super::{Group, without_metadata};
use crate::MeasureError;
use crate::check::Progress;
use crate::check::finding::{Code, Findings, Place};
use crate::check::subject::Subject;

pub(crate) static GROUP: Group = Group {
    name: "data",
    about: "no NaN and no infinity in floats and block scales, no weights of nothing but zeros",
    codes: &[&NOT_FINITE, &ZERO, &UNSCANNED, &UNREADABLE],
    skip,
    run,
};

static NOT_FINITE: Code = Code::error(
    "not-finite",
    "a NaN or an infinity among the weights or their scales: answers become garbage or stop",
    "infinities come from BF16 weights squeezed into F16 (use bf16), NaN from a broken importance matrix or a damaged file: compare the hash with its source, then quantize or convert again",
);
static ZERO: Code = Code::warning(
    "all-zero",
    "weights that are nothing but zeros",
    "a download that reserved its space and never filled it looks like this: compare the hash with its source and fetch the file again",
);
static UNSCANNED: Code = Code::note(
    "unscanned",
    "tensors of a type whose scales cannot be read yet",
    "update gristmill to have them scanned",
);
static UNREADABLE: Code = Code::error(
    "data-unreadable",
    "the system fails to read tensor data",
    "the disk or the network folder is failing: copy the file elsewhere and compare its hash",
);

/// Bytes of a piece, about.
const PIECE_BYTES: u64 = 4 << 20;

fn skip(subject: &Subject) -> Option<&'static str> {
    if subject.options.quick {
        return Some("quick: tensor data is not touched");
    }
    if let Some(reason) = without_metadata(subject) {
        return Some(reason);
    }
    match subject.tensors().next() {
        Some(_) => None,
        None => Some("the file has no tensors"),
    }
}

/// A tensor to scan, with what is found in it.
struct Scan<'a> {
    file: &'a File,
    tensor: &'a TensorInfo,
    n_bad: AtomicU64,
    first_bad: AtomicU64,
    has_nonzero: AtomicBool,
    n_read: AtomicU64,
}

/// A run of whole blocks of one tensor.
struct Piece {
    scan: usize,
    /// From the start of the tensor.
    start: u64,
    n_bytes: usize,
}

fn run(subject: &Subject, findings: &mut Findings) -> Result<(), MeasureError> {
    let scans: Vec<Scan> = subject
        .tensors()
        .filter(|(_, tensor)| tensor.ty.can_decode())
        .map(|(file, tensor)| Scan {
            file,
            tensor,
            n_bad: AtomicU64::new(0),
            first_bad: AtomicU64::new(u64::MAX),
            has_nonzero: AtomicBool::new(false),
            n_read: AtomicU64::new(0),
        })
        .collect();
    unscanned(subject, findings);
    let pieces: Vec<Piece> = scans
        .iter()
        .enumerate()
        .flat_map(|(scan, of)| pieces(scan, of.tensor))
        .collect();
    let total = pieces.iter().map(|piece| piece.n_bytes as u64).sum();
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let n_threads = subject.options.n_threads.clamp(1, pieces.len().max(1));
    let failures: Vec<(usize, io::Error)> = std::thread::scope(|scope| {
        let worker = || {
            let mut reader = Reader::default();
            while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                let scan = &scans[piece.scan];
                let bytes = reader
                    .read(scan, piece)
                    .map_err(|error| (piece.scan, error))?;
                scan.look(bytes, piece);
                let done =
                    done.fetch_add(piece.n_bytes as u64, Ordering::Relaxed) + piece.n_bytes as u64;
                (subject.options.progress)(Progress {
                    stage: "scan",
                    done,
                    total,
                });
            }
            Ok(())
        };
        let workers: Vec<_> = (0..n_threads).map(|_| scope.spawn(worker)).collect();
        let results = workers.into_iter().map(|worker| worker.join());
        // A worker that panicked has told so on standard error; the others' findings stand.
        results
            .filter_map(Result::ok)
            .filter_map(Result::err)
            .collect()
    });
    for (scan, error) in failures {
        let tensor = scans[scan].tensor;
        findings.add(&UNREADABLE, Place::tensor(&tensor.name), error.to_string());
    }
    scans
        .iter()
        .for_each(|scan| scan.report(subject.is_set(), findings));
    Ok(())
}

fn pieces(scan: usize, tensor: &TensorInfo) -> impl Iterator<Item = Piece> + use<> {
    let block_bytes = tensor.ty.block_bytes() as u64;
    let whole = (PIECE_BYTES / block_bytes).max(1) * block_bytes;
    let n_bytes = tensor.bytes;
    (0..n_bytes.div_ceil(whole)).map(move |index| {
        let start = index * whole;
        Piece {
            scan,
            start,
            // At most a piece, which fits.
            n_bytes: (n_bytes - start).min(whole) as usize,
        }
    })
}

/// Types that cannot be decoded: integers hold nothing that could be wrong, the others are named.
fn unscanned(subject: &Subject, findings: &mut Findings) {
    let mut types: Vec<(TensorType, usize)> = Vec::new();
    let mut scannable = subject.tensors().map(|(_, tensor)| tensor.ty);
    for ty in scannable
        .by_ref()
        .filter(|ty| !ty.can_decode() && !is_integer(*ty))
    {
        match types.iter_mut().find(|(known, _)| *known == ty) {
            Some((_, n)) => *n += 1,
            None => types.push((ty, 1)),
        }
    }
    for (ty, n_tensors) in types {
        findings.add(
            &UNSCANNED,
            Place::whole(),
            format!("{n_tensors} tensors of type {ty} were not scanned"),
        );
    }
}

/// Plain elements that are neither quantized nor floats. (Floats are decoded, but for the widest, which no model has.)
fn is_integer(ty: TensorType) -> bool {
    !ty.is_quantized() && ty.name().starts_with('i')
}

/// Reads pieces; keeps the last file open.
#[derive(Default)]
struct Reader<'a> {
    open: Option<(&'a Path, std::fs::File)>,
    buffer: Vec<u8>,
}

impl<'a> Reader<'a> {
    fn read(&mut self, scan: &Scan<'a>, piece: &Piece) -> io::Result<&[u8]> {
        let Scan { file, tensor, .. } = scan;
        if self
            .open
            .as_ref()
            .is_none_or(|(path, _)| *path != file.path())
        {
            self.open = Some((file.path(), std::fs::File::open(file.path())?));
        }
        self.buffer.resize(piece.n_bytes, 0);
        if let Some((_, open)) = &mut self.open {
            open.seek(SeekFrom::Start(
                file.data_offset() + tensor.offset + piece.start,
            ))?;
            open.read_exact(&mut self.buffer)?;
        }
        if file.endian() == Endian::Big {
            // Pieces are whole blocks, so this does not fail.
            let _ = tensor.ty.swap_byte_order(&mut self.buffer);
        }
        Ok(&self.buffer)
    }
}

impl Scan<'_> {
    fn look(&self, bytes: &[u8], piece: &Piece) {
        self.n_read.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let block_bytes = self.tensor.ty.block_bytes();
        if !self.has_nonzero.load(Ordering::Relaxed) && bytes.iter().any(|&byte| byte != 0) {
            self.has_nonzero.store(true, Ordering::Relaxed);
        }
        let first_block = piece.start / block_bytes as u64;
        let mut next = 0;
        while let Err(QuantError::NonFinite { block, .. }) =
            self.tensor.ty.validate(&bytes[next * block_bytes..])
        {
            self.n_bad.fetch_add(1, Ordering::Relaxed);
            self.first_bad
                .fetch_min(first_block + (next + block) as u64, Ordering::Relaxed);
            next += block + 1;
        }
    }

    fn report(&self, in_set: bool, findings: &mut Findings) {
        let Scan { file, tensor, .. } = self;
        let place = || {
            let place = Place::tensor(&tensor.name);
            if in_set {
                place.in_file(file.path())
            } else {
                place
            }
        };
        let (n_bad, first) = (
            self.n_bad.load(Ordering::Relaxed),
            self.first_bad.load(Ordering::Relaxed),
        );
        if n_bad > 0 {
            let (ty, block_len) = (tensor.ty, tensor.ty.block_len() as u64);
            let n_blocks = tensor.n_elements() / block_len;
            let offset = file.data_offset() + tensor.offset + first * ty.block_bytes() as u64;
            let text = if block_len == 1 {
                format!(
                    "{n_bad} of {n_blocks} numbers ({ty}) are not finite; the first is element {first}"
                )
            } else {
                format!(
                    "{n_bad} of {n_blocks} blocks ({ty}) have a scale that is not finite; the first is block {first}, elements {} to {}",
                    first * block_len,
                    (first + 1) * block_len - 1
                )
            };
            findings.add(&NOT_FINITE, place().at_byte(offset), text);
        }
        let is_weight = tensor.name.ends_with(".weight");
        let is_read = self.n_read.load(Ordering::Relaxed) == tensor.bytes;
        if is_weight && is_read && !self.has_nonzero.load(Ordering::Relaxed) {
            let text = format!("all {} bytes of {} are zero", tensor.bytes, tensor.name);
            findings.add(
                &ZERO,
                place().at_byte(file.data_offset() + tensor.offset),
                text,
            );
        }
    }
}
