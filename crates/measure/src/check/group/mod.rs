//! The registry of checks. To add one, write `group/<name>.rs` with a `GROUP`, and add its line below; help, documents
//! and the tests loop over the registry.

pub(crate) mod checksums;
pub(crate) mod data;
pub(crate) mod engines;
pub(crate) mod metadata;
pub(crate) mod shards;
pub(crate) mod structure;
pub(crate) mod template;
pub(crate) mod tensors;
pub(crate) mod tokenizer;

use gristmill_gguf::Kind;

use super::finding::{Code, Findings};
use super::subject::Subject;
use crate::MeasureError;

/// Every group of checks, in alphabetical order.
pub static GROUPS: &[&Group] = &[
    &checksums::GROUP,
    &data::GROUP,
    &engines::GROUP,
    &metadata::GROUP,
    &shards::GROUP,
    &structure::GROUP,
    &template::GROUP,
    &tensors::GROUP,
    &tokenizer::GROUP,
];

/// Checks that belong together.
pub struct Group {
    /// One word.
    pub name: &'static str,
    /// What is looked at, in a few words.
    pub about: &'static str,
    /// What it can find.
    pub codes: &'static [&'static Code],
    /// Why it has nothing to look at, if so.
    pub(crate) skip: fn(&Subject) -> Option<&'static str>,
    /// Looks.
    pub(crate) run: fn(&Subject, &mut Findings) -> Result<(), MeasureError>,
}

/// For groups that always have something to look at.
fn never(_: &Subject) -> Option<&'static str> {
    None
}

/// For groups that need metadata.
fn without_metadata(subject: &Subject) -> Option<&'static str> {
    match subject.metadata() {
        Some(_) => None,
        None => Some("the file cannot be read"),
    }
}

/// For groups that look at what a model says.
fn without_vocabulary(subject: &Subject) -> Option<&'static str> {
    without_metadata(subject).or(match subject.kind() {
        Kind::Model | Kind::Vocabulary => subject
            .is_later_shard()
            .then_some("the first shard, which holds the model's metadata, is not with this one"),
        _ => Some("the file is not a model by itself"),
    })
}
