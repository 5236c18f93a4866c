//! Whether a model's file is sound, and what to do where it is not.
//!
//! A check is an entry of a group: one file in `group/`, one line in [`GROUPS`]. Groups look at the same `Subject`
//! and report what they find under codes of their own; nothing that a file holds can end a check early.
//!
//! ```text
//! path --survey--> files, faults --groups--> findings --verdicts--> Report --review--> ten answers
//! ```

mod finding;
mod group;
mod review;
mod subject;
mod verdict;

use std::path::Path;

use gristmill_gguf::Metadata;
use serde::Serialize;

pub use finding::{Code, Finding, Place, Severity};
pub use group::{GROUPS, Group};
pub use review::{Answer, Review};
pub use verdict::{Loads, Verdict};

use crate::MeasureError;
use finding::Findings;
use subject::Subject;

/// How to check.
pub struct Options<'a> {
    /// Leave the tensor data untouched: nothing is scanned and nothing hashed.
    pub quick: bool,
    /// A list of hashes to compare with: what `sha256sum` prints, or a manifest of the pipeline.
    pub checksums: Option<&'a Path>,
    /// Threads that scan; 0 for as many as the machine has.
    pub n_threads: usize,
    /// Told while tensor data is read: bytes done, and in all.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

/// How far the reading of tensor data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being done: `scan` or `hash`.
    pub stage: &'static str,
    /// Bytes read.
    pub done: u64,
    /// Bytes to read.
    pub total: u64,
}

/// What came of a check.
#[derive(Debug, Serialize)]
pub struct Report {
    /// What was found, the worst first.
    pub findings: Vec<Finding>,
    /// Codes of which more was found than is listed, with how many more.
    pub unlisted: Vec<(&'static str, usize)>,
    /// Groups of checks that were not run, each with the reason.
    pub skipped: Vec<(&'static str, &'static str)>,
    /// Which engines would load it.
    pub verdicts: Vec<Verdict>,
    /// The ten questions to ask of a model file.
    pub review: Review,
}

impl Report {
    /// The severity of the worst finding.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// How many findings have this severity, unlisted ones too.
    pub fn count(&self, severity: Severity) -> usize {
        let listed = self
            .findings
            .iter()
            .filter(|finding| finding.severity == severity);
        let of_code = |code: &str| {
            let mut findings = self.findings.iter();
            findings.any(|finding| finding.code == code && finding.severity == severity)
        };
        let unlisted = self.unlisted.iter().filter(|(code, _)| of_code(code));
        listed.count() + unlisted.map(|(_, n)| n).sum::<usize>()
    }
}

/// Checks the chat templates in a file's metadata alone, as those who are about to write one want it.
pub fn check_templates(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Findings::default();
    group::template::templates(metadata, &mut findings);
    findings.list
}

/// Checks a model file; any shard stands for its whole set.
///
/// # Errors
/// Only for what was given beside the model: a list of hashes that cannot be read or used. Whatever is wrong with the model, be
/// it that it is not there, is a finding.
pub fn check(path: &Path, options: &Options) -> Result<Report, MeasureError> {
    let subject = Subject::new(path, options);
    let mut findings = Findings::default();
    let mut skipped = Vec::new();
    for group in GROUPS {
        match (group.skip)(&subject) {
            Some(reason) => skipped.push((group.name, reason)),
            None => (group.run)(&subject, &mut findings)?,
        }
    }
    let unlisted = findings.unlisted();
    let verdicts = verdict::verdicts(&subject, &findings);
    let review = review::review(&subject, &findings, &skipped);
    let mut findings = findings.list;
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(Report {
        findings,
        unlisted,
        skipped,
        verdicts,
        review,
    })
}
