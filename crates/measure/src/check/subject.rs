//! What is checked: the file, its fellows of a set, and what can be read of them.

use std::path::{Path, PathBuf};

use gristmill_gguf::{
    self as gguf, File, Kind, Metadata, ShardName, Survey, TensorInfo, shard_file_name,
};

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

/// Faults that are kept of all files of a set but the first: of each code few are shown, and a set may have 65,535 files.
const FAULTS_KEPT: usize = 1000;

/// The survey of a further file of a set, of whose faults no more are kept than `left` allows, but one at least: that it
/// has any is never forgotten.
fn survey_fellow(path: &Path, left: &mut usize) -> Survey {
    let mut survey = File::survey(path);
    survey.faults.truncate((*left).max(1));
    survey.faults.shrink_to_fit();
    *left = left.saturating_sub(survey.faults.len());
    survey
}

impl<'a> Subject<'a> {
    pub(crate) fn new(path: &'a Path, options: &'a Options<'a>) -> Subject<'a> {
        let survey = File::survey(path);
        let mut faults_left = FAULTS_KEPT;
        let fellows = survey.file.as_ref().map(fellows).unwrap_or_default();
        let mut files = vec![Examined {
            path: path.to_owned(),
            survey,
        }];
        for (before, fellow) in fellows {
            let place = if before { files.len() - 1 } else { files.len() };
            let survey = survey_fellow(&fellow, &mut faults_left);
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

    /// Whether the first file at hand is a later shard, which lacks the metadata of the model.
    pub(crate) fn is_later_shard(&self) -> bool {
        let number = self.metadata().map(|metadata| metadata.u64("split.no"));
        matches!(number, Some(Ok(Some(1..))))
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
    let (Some(count), Some(name)) = (count, ShardName::of(file.path())) else {
        return Vec::new();
    };
    if name.count != count || name.number > count {
        return Vec::new();
    }
    let (own, prefix) = (name.number, name.prefix);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_files_few_faults_are_kept_and_none_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.gguf");
        // Five entries with one key, a UINT8 each.
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend([0u64.to_le_bytes(), 5u64.to_le_bytes()].concat());
        for _ in 0..5 {
            bytes.extend(1u64.to_le_bytes());
            bytes.extend(b"k\0\0\0\0\x07");
        }
        std::fs::write(&path, bytes).unwrap();
        let mut left = 6;
        let mut n_kept = || survey_fellow(&path, &mut left).faults.len();
        assert_eq!([n_kept(), n_kept(), n_kept()], [4, 2, 1]);
    }
}
