//! What is checked: the file, its fellows of a set, and what can be read of them.

use std::path::{Path, PathBuf};

use gristmill_gguf::{self as gguf, File, Kind, Metadata, Survey, TensorInfo, shard_file_name};

use super::Options;

/// A model under examination.
pub(crate) struct Subject<'a> {
    /// The file that was named.
    pub(crate) path: &'a Path,
    pub(crate) options: &'a Options<'a>,
    /// The file, or all files of its set that are there, in order; never empty.
    pub(crate) files: Vec<Examined>,
    /// What is wrong with the set, where its files are sound.
    pub(crate) set_fault: Option<gguf::Error>,
}

/// One file of the set.
pub(crate) struct Examined {
    pub(crate) path: PathBuf,
    pub(crate) survey: Survey,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(path: &'a Path, options: &'a Options<'a>) -> Subject<'a> {
        let survey = File::survey(path);
        let fellows = survey.file.as_ref().map(fellows).unwrap_or_default();
        let mut files = vec![Examined {
            path: path.to_owned(),
            survey,
        }];
        for (before, fellow) in fellows {
            let place = if before { files.len() - 1 } else { files.len() };
            let survey = File::survey(&fellow);
            files.insert(
                place,
                Examined {
                    path: fellow,
                    survey,
                },
            );
        }
        let sound = files.iter().all(|file| file.survey.faults.is_empty());
        let in_set = files[0].survey.file.as_ref().is_some_and(is_shard);
        let set_fault = (sound && in_set)
            .then(|| gguf::Model::open_stored(path).err())
            .flatten();
        Subject {
            path,
            options,
            files,
            set_fault,
        }
    }

    /// Whether all files were read without a fault, so that what is missing is missing from the model.
    pub(crate) fn is_whole(&self) -> bool {
        let mut files = self.files.iter();
        self.set_fault.is_none() && files.all(|file| file.survey.faults.is_empty())
    }

    /// Whether there are several files, so that a place needs its file.
    pub(crate) fn is_set(&self) -> bool {
        self.files.len() > 1
    }

    /// Those files that could be read.
    pub(crate) fn readable(&self) -> impl Iterator<Item = &File> {
        self.files
            .iter()
            .filter_map(|file| file.survey.file.as_ref())
    }

    /// The metadata of the model: that of the first file.
    pub(crate) fn metadata(&self) -> Option<&Metadata> {
        self.files[0].survey.file.as_ref().map(File::metadata)
    }

    /// All tensors, file by file.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (&File, &TensorInfo)> {
        self.readable()
            .flat_map(|file| file.tensors().iter().map(move |tensor| (file, tensor)))
    }

    /// What the model is for; a set is asked as a whole.
    pub(crate) fn kind(&self) -> Kind {
        let kind = self.readable().next().map_or(Kind::Model, File::kind);
        match kind {
            Kind::Vocabulary if self.tensors().next().is_some() => Kind::Model,
            kind => kind,
        }
    }

    /// The value of `general.architecture`, if it is text.
    pub(crate) fn architecture(&self) -> Option<&str> {
        self.metadata()?.str("general.architecture").ok()?
    }
}

fn is_shard(file: &File) -> bool {
    file.metadata().contains("split.count")
}

/// The other files of a file's set that are there, in order, each with whether it comes before the file.
fn fellows(file: &File) -> Vec<(bool, PathBuf)> {
    let count = file.metadata().u64("split.count").ok().flatten();
    let count = count.filter(|count| (2..=gguf::limits::SHARDS).contains(count));
    let name = file.path().file_name().and_then(|name| name.to_str());
    let (Some(count), Some(name)) = (count, name) else {
        return Vec::new();
    };
    let Some(own) = (1..=count).find(|&number| name.ends_with(&shard_file_name("", number, count)))
    else {
        return Vec::new();
    };
    let prefix = &name[..name.len() - shard_file_name("", own, count).len()];
    (1..=count)
        .filter(|&number| number != own)
        .map(|number| {
            let path = file
                .path()
                .with_file_name(shard_file_name(prefix, number, count));
            (number < own, path)
        })
        .filter(|(_, path)| path.exists())
        .collect()
}
