//! The weights: every number of float tensors and every scale of quantized blocks is finite.
//!
//! Tensor data is read in pieces rather than looked at through the map, so that memory stays small whatever the size
//! of the file; threads share the pieces, and what is found does not depend on how they did.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gristmill_gguf::{self as gguf, Endian, File, Kind, Source, TensorInfo, parallel};
use gristmill_quant::{QuantError, TensorType};

use super::structure::without_path;
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
    "the system fails to read tensor data, or the file was replaced meanwhile",
    "the disk or the network folder is failing: copy the file elsewhere and compare its hash",
);

/// The remedy for what is not finite in an adapter or a control vector, which nobody quantizes.
const OF_TRAINING: &str = "no engine can use it so: compare the hash with its source and fetch the file again, or train or make it again";

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
    let mut done = 0;
    let mut told = |event: gguf::Event<'_>| {
        if let gguf::Event::Done { bytes } = event {
            done += bytes;
            (subject.options.progress)(Progress {
                stage: "scan",
                done,
                total,
            });
        }
    };
    let n_threads = parallel::n_threads(subject.options.n_threads);
    // What cannot be read is a finding, and keeps nothing else from being read.
    let looked = parallel::run(&pieces, n_threads, &mut told, |piece, done| {
        let scan = &scans[piece.scan];
        let failure = scan.read(piece).map(|bytes| scan.look(&bytes, piece)).err();
        done(piece.n_bytes as u64);
        Ok(failure)
    });
    for (piece, failure) in pieces.iter().zip(looked.unwrap_or_default()) {
        let Some(error) = failure else { continue };
        let Scan { file, tensor, .. } = scans[piece.scan];
        let finding = UNREADABLE.find(
            Place::tensor(&tensor.name),
            without_path(&error, file.path()),
        );
        findings.push(match error.hint() {
            Some(hint) => finding.with_remedy(hint),
            None => finding,
        });
    }
    scans.iter().for_each(|scan| scan.report(subject, findings));
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

impl Scan<'_> {
    /// The bytes of a piece, little-endian.
    fn read(&self, piece: &Piece) -> gguf::Result<Vec<u8>> {
        let Scan { file, tensor, .. } = self;
        let mut bytes = vec![0; piece.n_bytes];
        let start = file.data_offset() + tensor.offset + piece.start;
        Source::of(file)?.read_at(start, &mut bytes)?;
        if file.endian() == Endian::Big {
            // Pieces are whole blocks, so this does not fail.
            let _ = tensor.ty.swap_byte_order(&mut bytes);
        }
        Ok(bytes)
    }

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

    fn report(&self, subject: &Subject, findings: &mut Findings) {
        let Scan { file, tensor, .. } = self;
        let place = || {
            let place = Place::tensor(&tensor.name);
            if subject.is_set() {
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
            let finding = NOT_FINITE.find(place().at_byte(offset), text);
            findings.push(match subject.kind() {
                Kind::Adapter | Kind::ControlVector => finding.with_remedy(OF_TRAINING),
                _ => finding,
            });
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
