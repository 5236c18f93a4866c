//! Hashes of files, of tensors and of all tensor data.
//!
//! Tensor data is hashed as it is stored. That of a whole model is the data of its tensors in order, without padding:
//! the same for one file and for any division of it into shards, and the reference's measure.

mod hasher;
mod manifest;
mod renamed;

use std::path::PathBuf;

use crate::copy::{Event, Progress};
use crate::error::Result;
use crate::file::File;
use crate::model::Model;
use crate::parallel;
use crate::shards;
use crate::source::{PIECE_BYTES, Source};

use hasher::Hasher;

pub(crate) use hasher::hexadecimal;
pub use hasher::{HashKind, sha256_of_file};
pub use manifest::{FILE_SHA256, Manifest, Outcome};
pub use renamed::RenamedManifest;

/// What to hash.
#[derive(Clone, Debug)]
pub struct HashOptions {
    /// A file, or any shard of a set.
    pub input: PathBuf,
    /// The hashes of tensor data.
    pub kinds: Vec<HashKind>,
    /// Hash every tensor by itself as well.
    pub tensors: bool,
    /// Hash whole files as well, by SHA-256.
    pub files: bool,
    /// Hash only this file, though it is a shard.
    pub alone: bool,
    /// Threads; 0 for as many as the machine has.
    pub n_threads: usize,
}

/// Hashes of a model.
#[derive(Clone, Debug)]
pub struct HashReport {
    /// The files, in the order of the set.
    pub files: Vec<FileHash>,
    /// Whether it is one file of a set, hashed without the others.
    pub is_part: bool,
    /// The tensors, in the order of the files.
    pub tensors: Vec<TensorHash>,
    /// Hashes of all tensor data, in the order of [`HashOptions::kinds`].
    pub data: Vec<(HashKind, String)>,
}

/// One file.
#[derive(Clone, Debug)]
pub struct FileHash {
    /// Its path.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// The SHA-256 of all its bytes, if it was asked for.
    pub sha256: Option<String>,
}

/// One tensor.
#[derive(Clone, Debug)]
pub struct TensorHash {
    /// Its name.
    pub name: String,
    /// The index of its file.
    pub file: usize,
    /// Bytes of its data.
    pub bytes: u64,
    /// Hashes of its data.
    pub hashes: Vec<(HashKind, String)>,
}

/// A pass over some bytes.
enum Job {
    File(usize),
    Data(HashKind),
    /// File and tensor in it.
    Tensor(usize, usize),
}

/// Hashes a model, on several threads and in bounded memory.
///
/// # Errors
/// Those of [`Model::open`], [`crate::Error::Changed`], and what the system says.
pub fn hash(options: &HashOptions, progress: Progress<'_>) -> Result<HashReport> {
    let model = if options.alone {
        Model::of_file(File::open_stored(&options.input)?)?
    } else {
        Model::open_stored(&options.input)?
    };
    let jobs = jobs(options, &model);
    let kinds: Vec<HashKind> = options
        .kinds
        .iter()
        .copied()
        .filter(|kind| kind.is_for_tensors())
        .collect();
    let bytes = jobs.iter().map(|job| job_bytes(job, &model));
    progress(Event::Start {
        bytes: bytes.fold(0, u64::saturating_add),
    });
    let n_threads = parallel::n_threads(options.n_threads);
    let results = parallel::run(&jobs, n_threads, progress, |job, done| match job {
        Job::File(index) => hash_file(&model.shards()[*index], done),
        Job::Data(kind) => hash_data(&model, *kind, done),
        Job::Tensor(file, tensor) => hash_tensor(&model.shards()[*file], *tensor, &kinds, done),
    })?;
    let mut report = HashReport {
        files: model.shards().iter().map(file_entry).collect(),
        is_part: options.alone && model.shards().iter().any(is_shard),
        tensors: Vec::new(),
        data: Vec::new(),
    };
    for (job, mut hashes) in jobs.iter().zip(results) {
        match job {
            Job::File(index) => report.files[*index].sha256 = hashes.pop().map(|(_, hash)| hash),
            Job::Data(_) => report.data.append(&mut hashes),
            Job::Tensor(file, tensor) => {
                let tensor = &model.shards()[*file].tensors()[*tensor];
                report.tensors.push(TensorHash {
                    name: tensor.name.clone(),
                    file: *file,
                    bytes: tensor.bytes,
                    hashes,
                });
            }
        }
    }
    Ok(report)
}

fn is_shard(file: &File) -> bool {
    let count = file.metadata().u64(shards::COUNT);
    count.is_ok_and(|count| count.is_some_and(|count| count > 1))
}

fn file_entry(file: &File) -> FileHash {
    FileHash {
        path: file.path().to_owned(),
        bytes: file.size(),
        sha256: None,
    }
}

/// The long passes first, so that the threads end together.
fn jobs(options: &HashOptions, model: &Model) -> Vec<Job> {
    let mut jobs: Vec<Job> = options.kinds.iter().copied().map(Job::Data).collect();
    let files = model.shards().iter().enumerate();
    if options.files {
        jobs.extend(files.clone().map(|(index, _)| Job::File(index)));
    }
    if options.tensors && options.kinds.iter().any(|kind| kind.is_for_tensors()) {
        jobs.extend(files.flat_map(|(index, file)| {
            (0..file.tensors().len()).map(move |tensor| Job::Tensor(index, tensor))
        }));
    }
    jobs
}

fn job_bytes(job: &Job, model: &Model) -> u64 {
    match job {
        Job::File(index) => model.shards()[*index].size(),
        Job::Data(_) => crate::copy::data_bytes(model),
        Job::Tensor(file, tensor) => model.shards()[*file].tensors()[*tensor].bytes,
    }
}

type Hashes = Vec<(HashKind, String)>;

fn hash_file(file: &File, done: &dyn Fn(u64)) -> Result<Hashes> {
    let mut hashers = Hashers::new(&[HashKind::Sha256]);
    hashers.read(&Source::of(file)?, 0, file.size(), done)?;
    Ok(hashers.finish())
}

fn hash_data(model: &Model, kind: HashKind, done: &dyn Fn(u64)) -> Result<Hashes> {
    let mut hashers = Hashers::new(&[kind]);
    for file in model.shards() {
        let source = Source::of(file)?;
        for tensor in file.tensors() {
            let start = file.data_offset() + tensor.offset;
            hashers.read(&source, start, tensor.bytes, done)?;
        }
    }
    Ok(hashers.finish())
}

fn hash_tensor(
    file: &File,
    tensor: usize,
    kinds: &[HashKind],
    done: &dyn Fn(u64),
) -> Result<Hashes> {
    let tensor = &file.tensors()[tensor];
    let mut hashers = Hashers::new(kinds);
    let start = file.data_offset() + tensor.offset;
    hashers.read(&Source::of(file)?, start, tensor.bytes, done)?;
    Ok(hashers.finish())
}

/// Several hashes of the same bytes.
struct Hashers(Vec<(HashKind, Hasher)>);

impl Hashers {
    fn new(kinds: &[HashKind]) -> Hashers {
        Hashers(
            kinds
                .iter()
                .map(|&kind| (kind, Hasher::new(kind)))
                .collect(),
        )
    }

    fn read(&mut self, source: &Source, start: u64, n: u64, done: &dyn Fn(u64)) -> Result<()> {
        source.read(start, n, PIECE_BYTES, |piece| {
            self.0
                .iter_mut()
                .for_each(|(_, hasher)| hasher.update(piece));
            done(piece.len() as u64);
            Ok(())
        })
    }

    fn finish(self) -> Hashes {
        let finished = self.0.into_iter();
        finished
            .map(|(kind, hasher)| (kind, hasher.finish()))
            .collect()
    }
}
