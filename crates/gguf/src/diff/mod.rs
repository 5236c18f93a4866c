//! What differs between two models: entries of metadata, and tensors in type, shape and content.
//!
//! Compared is what a model is, not where it lies: a set of shards equals the file it was split from, and a big-endian
//! file the little-endian one.

mod entries;
mod values;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use gristmill_quant::TensorType;

use crate::copy::{Event, Progress};
use crate::directory::TensorInfo;
use crate::edit::RESERVED_KEY;
use crate::error::Result;
use crate::file::File;
use crate::model::Model;
use crate::parallel;

pub use entries::{ArrayDiff, EntryChange, EntryDiff};
pub use values::{DataDiff, Number, ValueChange, ValueDiff};

/// What to compare.
#[derive(Clone, Debug)]
pub struct DiffOptions {
    /// One model: a file, or any shard of a set.
    pub a: PathBuf,
    /// The other.
    pub b: PathBuf,
    /// Leave out tensors.
    pub metadata_only: bool,
    /// Threads; 0 for as many as the machine has.
    pub n_threads: usize,
}

/// The differences of two models, `a` being the old one and `b` the new one.
#[derive(Clone, Debug)]
pub struct Diff {
    /// Entries that differ: those of `a` in its order, then those that only `b` has.
    pub entries: Vec<EntryDiff>,
    /// The first entry of both that stands at another place among the common ones.
    pub entry_order: Option<OrderDiff>,
    /// Entries that are equal.
    pub n_equal_entries: usize,
    /// Tensors that differ: those of `a` in its order, then those that only `b` has.
    pub tensors: Vec<TensorDiff>,
    /// The first tensor of both that stands at another place among the common ones.
    pub tensor_order: Option<OrderDiff>,
    /// Tensors that are equal.
    pub n_equal_tensors: usize,
}

/// Where two orders part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderDiff {
    /// The place among what both have, from 0.
    pub index: usize,
    /// What stands there in `a`.
    pub a: String,
    /// What stands there in `b`.
    pub b: String,
}

/// A tensor that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorDiff {
    /// Its name.
    pub name: String,
    /// How.
    pub change: TensorChange,
}

/// How a tensor differs.
#[derive(Clone, Debug, PartialEq)]
pub enum TensorChange {
    /// Only `b` has it.
    Added(Shape),
    /// Only `a` has it.
    Removed(Shape),
    /// Both have it.
    Changed {
        /// Type and dimensions in `a`.
        a: Shape,
        /// Type and dimensions in `b`.
        b: Shape,
        /// How the content differs; absent where the dimensions do, or nothing else does.
        data: Option<DataDiff>,
    },
}

/// What a tensor is, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The type of its elements.
    pub ty: TensorType,
    /// Its dimensions, the contiguous one first.
    pub dims: Vec<u64>,
}

impl Diff {
    /// Whether there is no difference.
    pub fn is_equal(&self) -> bool {
        self.entries.is_empty()
            && self.entry_order.is_none()
            && self.tensors.is_empty()
            && self.tensor_order.is_none()
    }
}

/// Compares two models, on several threads and in bounded memory.
///
/// # Errors
/// Those of [`Model::open`] for either, [`crate::Error::Changed`], and what the system says.
pub fn diff(options: &DiffOptions, progress: Progress<'_>) -> Result<Diff> {
    let (a, b) = (
        Model::open_stored(&options.a)?,
        Model::open_stored(&options.b)?,
    );
    // Room for later edits says nothing of the model, nor does what tells shards apart; of two single files that counts.
    let of_sets = [&a, &b].iter().any(|model| model.shards().len() > 1);
    let counts = |key: &str| key != RESERVED_KEY && !(of_sets && crate::shards::is_shard_key(key));
    let (entries, n_equal_entries) = entries::compare(a.metadata(), b.metadata(), &counts);
    let keys = |model| keys(model, &counts);
    let mut diff = Diff {
        entries,
        entry_order: order(keys(&a), keys(&b)),
        n_equal_entries,
        tensors: Vec::new(),
        tensor_order: None,
        n_equal_tensors: 0,
    };
    if !options.metadata_only {
        compare_tensors(options, &a, &b, &mut diff, progress)?;
    }
    Ok(diff)
}

/// A tensor with the file that its data is in.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'a> {
    pub(crate) file: &'a File,
    pub(crate) info: &'a TensorInfo,
}

fn stored(model: &Model) -> Vec<Stored<'_>> {
    let of_file = |file| move |info| Stored { file, info };
    let files = model.shards().iter();
    files
        .flat_map(|file| file.tensors().iter().map(of_file(file)))
        .collect()
}

fn compare_tensors(
    options: &DiffOptions,
    a: &Model,
    b: &Model,
    diff: &mut Diff,
    progress: Progress<'_>,
) -> Result<()> {
    let (ours, theirs) = (stored(a), stored(b));
    let in_b: HashMap<&str, Stored<'_>> = theirs
        .iter()
        .map(|tensor| (tensor.info.name.as_str(), *tensor))
        .collect();
    let pairs: Vec<(Stored<'_>, Option<Stored<'_>>)> = ours
        .iter()
        .map(|tensor| (*tensor, in_b.get(tensor.info.name.as_str()).copied()))
        .collect();
    let comparable: Vec<(Stored<'_>, Stored<'_>)> = pairs
        .iter()
        .filter_map(|(a, b)| Some((*a, (*b)?)))
        .filter(|(a, b)| a.info.dims == b.info.dims)
        .collect();
    let bytes = comparable.iter().map(|(a, _)| a.info.bytes);
    progress(Event::Start {
        bytes: bytes.fold(0, u64::saturating_add),
    });
    let n_threads = parallel::n_threads(options.n_threads);
    let mut contents = values::compare(&comparable, n_threads, progress)?.into_iter();
    for (a, b) in pairs {
        let name = a.info.name.clone();
        let Some(b) = b else {
            let change = TensorChange::Removed(shape(a.info));
            diff.tensors.push(TensorDiff { name, change });
            continue;
        };
        // One for each pair of the same dimensions, in order.
        let data = if a.info.dims == b.info.dims {
            contents.next().flatten()
        } else {
            None
        };
        let (a, b) = (shape(a.info), shape(b.info));
        if a == b && data.is_none() {
            diff.n_equal_tensors += 1;
        } else {
            let change = TensorChange::Changed { a, b, data };
            diff.tensors.push(TensorDiff { name, change });
        }
    }
    let in_a: HashSet<&str> = ours
        .iter()
        .map(|tensor| tensor.info.name.as_str())
        .collect();
    let added = theirs
        .iter()
        .filter(|tensor| !in_a.contains(tensor.info.name.as_str()));
    diff.tensors.extend(added.map(|tensor| TensorDiff {
        name: tensor.info.name.clone(),
        change: TensorChange::Added(shape(tensor.info)),
    }));
    diff.tensor_order = order(names(&ours), names(&theirs));
    Ok(())
}

fn shape(info: &TensorInfo) -> Shape {
    Shape {
        ty: info.ty,
        dims: info.dims.clone(),
    }
}

fn keys<'a>(model: &'a Model, counts: &impl Fn(&str) -> bool) -> Vec<&'a str> {
    let keys = model.metadata().iter().map(|(key, _)| key);
    keys.filter(|key| counts(key)).collect()
}

fn names<'a>(tensors: &[Stored<'a>]) -> Vec<&'a str> {
    let names = tensors.iter().map(|tensor| tensor.info.name.as_str());
    names.collect()
}

/// Where the order of what both have parts.
fn order(a: Vec<&str>, b: Vec<&str>) -> Option<OrderDiff> {
    let in_a: HashSet<&str> = a.iter().copied().collect();
    let in_b: HashSet<&str> = b.iter().copied().collect();
    let a = a.into_iter().filter(|name| in_b.contains(name));
    let b = b.into_iter().filter(|name| in_a.contains(name));
    let mut pairs = a.zip(b).enumerate();
    let (index, (a, b)) = pairs.find(|(_, (a, b))| a != b)?;
    Some(OrderDiff {
        index,
        a: a.to_owned(),
        b: b.to_owned(),
    })
}
