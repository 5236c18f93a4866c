//! The report as text and as JSON.

use std::io::{self, Write};
use std::path::Path;

use gristmill_measure::check::{Finding, Loads, Report, Severity};
use serde_json::{Value as Json, json};

use crate::display::printable;

/// Writes the findings, the verdicts, and the ten answers where they are wanted.
pub fn write(
    model: &Path,
    report: &Report,
    with_review: bool,
    with_notes: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let (findings, unlisted) = shown(report, with_notes);
    for finding in findings {
        write_finding(finding, out)?;
    }
    for (code, n) in unlisted {
        writeln!(out, "and {n} more of {code}\n")?;
    }
    if with_notes {
        write_skipped(report, out)?;
    }
    for verdict in &report.verdicts {
        let loads = match verdict.loads {
            Loads::Yes => "would load it",
            Loads::No => "would refuse it",
            Loads::Unknown => "may load it",
        };
        let reasons = match verdict.reasons.is_empty() {
            true => String::new(),
            false => format!(": {}", verdict.reasons.join("; ")),
        };
        writeln!(out, "{} {loads}{}", verdict.engine, printable(&reasons))?;
    }
    if with_review {
        writeln!(out)?;
        for (number, answer) in (1..).zip(&report.review.answers) {
            let mark = if answer.answered { " " } else { "?" };
            writeln!(out, "{number:>2}. {}", answer.question)?;
            writeln!(out, "  {mark} {}", printable(&answer.text))?;
        }
        writeln!(out)?;
    }
    let count = |severity, name: &str| match report.count(severity) {
        1 => format!("1 {name}"),
        n => format!("{n} {name}s"),
    };
    let counts = [
        count(Severity::Error, "error"),
        count(Severity::Warning, "warning"),
        count(Severity::Note, "note"),
    ];
    let path = model.to_string_lossy();
    writeln!(out, "{}: {}", printable(&path), counts.join(", "))
}

/// The findings to show, and the codes of which there are more.
fn shown(report: &Report, with_notes: bool) -> (Vec<&Finding>, Vec<(&'static str, usize)>) {
    let is_shown = |finding: &&Finding| with_notes || finding.severity > Severity::Note;
    let findings: Vec<&Finding> = report.findings.iter().filter(is_shown).collect();
    let mut unlisted = report.unlisted.clone();
    unlisted.retain(|(code, _)| findings.iter().any(|finding| finding.code == *code));
    (findings, unlisted)
}

/// Groups that were not run, by the reason.
fn write_skipped(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for (group, reason) in &report.skipped {
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, groups)) => groups.push(group),
            None => reasons.push((reason, vec![group])),
        }
    }
    for (reason, groups) in reasons {
        writeln!(out, "not run: {} ({reason})", groups.join(", "))?;
    }
    Ok(())
}

fn write_finding(finding: &Finding, out: &mut impl Write) -> io::Result<()> {
    let place = finding.place.to_string();
    let file = finding
        .place
        .file
        .as_ref()
        .and_then(|path| path.file_name());
    let parts: Vec<String> = file
        .map(|name| name.to_string_lossy().into_owned())
        .into_iter()
        .chain((!place.is_empty()).then_some(place))
        .collect();
    let place = match parts.is_empty() {
        true => String::new(),
        false => format!(" at {}", parts.join(", ")),
    };
    let (severity, code) = (finding.severity.name(), finding.code);
    writeln!(out, "{severity}[{code}]{}", printable(&place))?;
    writeln!(out, "  {}", printable(&finding.text))?;
    if !finding.remedy.is_empty() {
        writeln!(out, "  remedy: {}", printable(&finding.remedy))?;
    }
    writeln!(out)
}

/// The report as one JSON object; notes are counted also where they are left out.
pub fn document(model: &Path, report: &Report, with_notes: bool) -> Json {
    let (findings, unlisted) = shown(report, with_notes);
    let named = |pairs: &[(&'static str, usize)]| -> Json {
        pairs
            .iter()
            .map(|(code, n)| ((*code).to_owned(), json!(n)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let skipped: serde_json::Map<String, Json> = report
        .skipped
        .iter()
        .map(|(group, reason)| ((*group).to_owned(), json!(reason)))
        .collect();
    json!({
        "path": model.to_string_lossy(),
        "errors": report.count(Severity::Error),
        "warnings": report.count(Severity::Warning),
        "notes": report.count(Severity::Note),
        "findings": findings,
        "unlisted": named(&unlisted),
        "skipped": skipped,
        "engines": report.verdicts,
        "review": report.review.answers,
    })
}
