//! The set of shards: complete, in order, of one make.

use gristmill_gguf::Error;

use super::structure::without_path;
use super::{Group, without_metadata};
use crate::MeasureError;
use crate::check::finding::{Code, Findings, Place};
use crate::check::subject::Subject;

pub(crate) static GROUP: Group = Group {
    name: "shards",
    about: "all shards there, numbered rightly, of one set",
    codes: &[&MISSING, &RENAMED, &MIXED, &ENTRY],
    skip: without_metadata,
    run,
};

static MISSING: Code = Code::error(
    "shard-missing",
    "shards of the set are not there",
    "put all shards of the set into one folder, under their original names",
);
static RENAMED: Code = Code::error(
    "shard-renamed",
    "a shard without its number in its name",
    "give the file back its original name; shards find each other by their names",
);
static MIXED: Code = Code::error(
    "shard-mixed",
    "shards that cannot be of one set: their numbers, counts or tensors contradict each other",
    "the folder mixes shards of different sets; fetch all shards again from one source",
);
static ENTRY: Code = Code::error(
    "shard-entry",
    "an entry of `split.` that cannot be read",
    "the file is damaged, or was edited; fetch it again",
);

fn code_of(fault: &Error) -> &'static Code {
    match fault {
        Error::MissingShards { .. } => &MISSING,
        Error::RenamedShard { .. } => &RENAMED,
        Error::InFile { .. } | Error::WrongType { .. } | Error::MissingKey { .. } => &ENTRY,
        Error::ShardKeyMissing { .. } => &ENTRY,
        Error::TooManyShards { .. } => &ENTRY,
        _ => &MIXED,
    }
}

fn run(subject: &Subject, findings: &mut Findings) -> Result<(), MeasureError> {
    if let Some(fault) = &subject.set_fault {
        let path = fault.path().unwrap_or(subject.path);
        let finding = code_of(fault).find(Place::file(path), without_path(fault, path));
        findings.push(match fault.hint() {
            Some(hint) => finding.with_remedy(hint),
            None => finding,
        });
    }
    Ok(())
}
