//! What differs in the content of tensors: bytes, and the values that they mean.

use gristmill_quant::TensorType;

use super::Stored;
use crate::byte_order;
use crate::copy::Progress;
use crate::cursor::Endian;
use crate::error::Result;
use crate::parallel;
use crate::source::Source;

/// Elements that one job compares: whole blocks of every type.
const JOB_ELEMENTS: u64 = 1 << 19;

/// How the content of two tensors of the same dimensions differs.
#[derive(Clone, Debug, PartialEq)]
pub struct DataDiff {
    /// How many bytes differ, of tensors of one type.
    pub n_bytes: Option<u64>,
    /// How the values differ; absent where one of the types cannot be decoded.
    pub values: Option<ValueDiff>,
}

/// How the values of two tensors differ.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueDiff {
    /// The largest absolute difference of two numbers, where it is first found; absent where no two numbers differ.
    pub largest: Option<ValueChange>,
    /// The first element that is NaN or infinite in one of them and something else in the other.
    pub first_not_finite: Option<ValueChange>,
    /// Elements whose values differ.
    pub n_different: u64,
    /// Elements that are NaN or infinite in one of them and something else in the other.
    pub n_not_finite: u64,
}

/// An element whose values differ.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueChange {
    /// The index of the element, counted over all dimensions.
    pub index: u64,
    /// The same by dimension, the contiguous one first.
    pub place: Vec<u64>,
    /// The old value.
    pub a: Number,
    /// The new value.
    pub b: Number,
}

/// An element of a tensor. Integers of 64 bits are more than a float can tell apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Of a float, or of a type that stands for floats.
    Float(f64),
    /// Of an integer type.
    Integer(i64),
}

impl Number {
    fn is_nan(self) -> bool {
        matches!(self, Number::Float(value) if value.is_nan())
    }

    fn is_finite(self) -> bool {
        match self {
            Number::Float(value) => value.is_finite(),
            Number::Integer(_) => true,
        }
    }

    /// The integer that it is, where it is one of 64 bits.
    fn integer(self) -> Option<i128> {
        match self {
            Number::Integer(value) => Some(value.into()),
            Number::Float(value) => {
                (value.fract() == 0.0 && value.abs() <= i64::MAX as f64).then_some(value as i128)
            }
        }
    }

    fn float(self) -> f64 {
        match self {
            Number::Float(value) => value,
            Number::Integer(value) => value as f64,
        }
    }

    /// The absolute difference; 0 of equal numbers only.
    fn difference(self, other: Number) -> f64 {
        match (self, other) {
            (Number::Float(a), Number::Float(b)) => (a - b).abs(),
            _ => match (self.integer(), other.integer()) {
                (Some(a), Some(b)) => a.abs_diff(b) as f64,
                _ => (self.float() - other.float()).abs(),
            },
        }
    }
}

impl ValueChange {
    /// The absolute difference.
    pub fn difference(&self) -> f64 {
        self.a.difference(self.b)
    }
}

/// Some elements of a pair.
struct Job<'a> {
    a: Stored<'a>,
    b: Stored<'a>,
    /// The first element and how many.
    start: u64,
    n: u64,
}

/// What a job found.
#[derive(Clone, Copy, Default)]
struct Found {
    n_bytes: u64,
    n_different: u64,
    n_not_finite: u64,
    largest: Option<Element>,
    first_not_finite: Option<Element>,
}

/// An element's index, old and new value.
#[derive(Clone, Copy)]
struct Element(u64, Number, Number);

impl Element {
    fn difference(self) -> f64 {
        self.1.difference(self.2)
    }

    fn in_dims(self, dims: &[u64]) -> ValueChange {
        let Element(index, a, b) = self;
        ValueChange {
            index,
            place: place(index, dims),
            a,
            b,
        }
    }
}

/// How the content of each pair differs, of which nothing is said where it is equal. The tensors of a pair have the same
/// dimensions.
pub(super) fn compare(
    pairs: &[(Stored<'_>, Stored<'_>)],
    n_threads: usize,
    progress: Progress<'_>,
) -> Result<Vec<Option<DataDiff>>> {
    let jobs: Vec<Job<'_>> = pairs.iter().flat_map(jobs).collect();
    let found = parallel::run(&jobs, n_threads, progress, |job, done| job.compare(done))?;
    let mut found = found.into_iter();
    let mut diffs = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let n_jobs = pair.0.info.n_elements().div_ceil(JOB_ELEMENTS) as usize;
        let whole = found
            .by_ref()
            .take(n_jobs)
            .fold(Found::default(), Found::and);
        diffs.push(whole.diff(pair));
    }
    Ok(diffs)
}

fn jobs<'a>(&(a, b): &(Stored<'a>, Stored<'a>)) -> impl Iterator<Item = Job<'a>> {
    let n = a.info.n_elements();
    (0..n.div_ceil(JOB_ELEMENTS)).map(move |job| {
        let start = job * JOB_ELEMENTS;
        let n = (n - start).min(JOB_ELEMENTS);
        Job { a, b, start, n }
    })
}

impl Job<'_> {
    fn compare(&self, done: &dyn Fn(u64)) -> Result<Found> {
        let (a, b) = (self.read(self.a)?, self.read(self.b)?);
        done(a.len() as u64);
        let (a_type, b_type) = (self.a.info.ty, self.b.info.ty);
        let mut found = Found::default();
        if a_type == b_type {
            found.n_bytes = a.iter().zip(&b).filter(|(a, b)| a != b).count() as u64;
            if found.n_bytes == 0 {
                return Ok(found);
            }
        }
        if let (Some(a), Some(b)) = (values(a_type, &a), values(b_type, &b)) {
            found.look(self.start, &a, &b);
        }
        Ok(found)
    }

    /// The bytes of the job's elements, little-endian.
    fn read(&self, tensor: Stored<'_>) -> Result<Vec<u8>> {
        let ty = tensor.info.ty;
        let bytes = |n: u64| n / ty.block_len() as u64 * ty.block_bytes() as u64;
        // The whole tensor was checked to lie inside the file; a job is at most 4 MiB of it.
        let start = tensor.file.data_offset() + tensor.info.offset + bytes(self.start);
        let mut out = vec![0; bytes(self.n) as usize];
        Source::of(tensor.file)?.read_at(start, &mut out)?;
        if tensor.file.endian() == Endian::Big {
            byte_order::swap(ty, &mut out);
        }
        Ok(out)
    }
}

/// Decoded elements.
enum Values {
    Floats(Vec<f64>),
    Integers(Vec<i64>),
}

impl Values {
    fn iter(&self) -> impl Iterator<Item = Number> {
        let (floats, integers): (&[f64], &[i64]) = match self {
            Values::Floats(values) => (values, &[]),
            Values::Integers(values) => (&[], values),
        };
        let floats = floats.iter().copied().map(Number::Float);
        floats.chain(integers.iter().copied().map(Number::Integer))
    }
}

/// The values of whole blocks; nothing for a type that cannot be decoded.
fn values(ty: TensorType, bytes: &[u8]) -> Option<Values> {
    if ty.can_decode() {
        let mut values = vec![0.0f32; bytes.len() / ty.block_bytes() * ty.block_len()];
        ty.decode(bytes, &mut values).ok()?;
        let values = values.into_iter().map(f64::from).collect();
        return Some(Values::Floats(values));
    }
    fn all<T, const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> T) -> Vec<T> {
        let (items, _) = bytes.as_chunks::<N>();
        items.iter().map(|&item| value(item)).collect()
    }
    // The plain numbers that no model computes with.
    Some(Values::Integers(match ty.name() {
        "f64" => return Some(Values::Floats(all(bytes, f64::from_le_bytes))),
        "i8" => all(bytes, |item| i8::from_le_bytes(item).into()),
        "i16" => all(bytes, |item| i16::from_le_bytes(item).into()),
        "i32" => all(bytes, |item| i32::from_le_bytes(item).into()),
        "i64" => all(bytes, i64::from_le_bytes),
        _ => return None,
    }))
}

impl Found {
    /// Compares values, the first of which is element `start`.
    fn look(&mut self, start: u64, a: &Values, b: &Values) {
        for (index, (a, b)) in (start..).zip(a.iter().zip(b.iter())) {
            if a.difference(b) == 0.0 || a == b || (a.is_nan() && b.is_nan()) {
                continue;
            }
            self.n_different += 1;
            let element = Element(index, a, b);
            if !a.is_finite() || !b.is_finite() {
                self.n_not_finite += 1;
                self.first_not_finite.get_or_insert(element);
            } else if self.is_largest(element) {
                self.largest = Some(element);
            }
        }
    }

    fn is_largest(&self, element: Element) -> bool {
        self.largest
            .is_none_or(|largest| element.difference() > largest.difference())
    }

    /// Together with what was found further on.
    fn and(self, later: Found) -> Found {
        let larger = later.largest.filter(|&element| self.is_largest(element));
        Found {
            n_bytes: self.n_bytes + later.n_bytes,
            n_different: self.n_different + later.n_different,
            n_not_finite: self.n_not_finite + later.n_not_finite,
            largest: larger.or(self.largest),
            first_not_finite: self.first_not_finite.or(later.first_not_finite),
        }
    }

    fn diff(self, (a, b): &(Stored<'_>, Stored<'_>)) -> Option<DataDiff> {
        let (a, b) = (a.info, b.info);
        if a.ty == b.ty && self.n_bytes == 0 {
            return None;
        }
        let decodes = |ty| values(ty, &[]).is_some();
        let in_dims = |element: Element| element.in_dims(&a.dims);
        let values = ValueDiff {
            largest: self.largest.map(in_dims),
            first_not_finite: self.first_not_finite.map(in_dims),
            n_different: self.n_different,
            n_not_finite: self.n_not_finite,
        };
        Some(DataDiff {
            n_bytes: (a.ty == b.ty).then_some(self.n_bytes),
            values: (decodes(a.ty) && decodes(b.ty)).then_some(values),
        })
    }
}

/// An element's index in each dimension.
fn place(mut index: u64, dims: &[u64]) -> Vec<u64> {
    let mut within = |dim: &u64| {
        let here = index % dim;
        index /= dim;
        here
    };
    dims.iter().map(&mut within).collect()
}
