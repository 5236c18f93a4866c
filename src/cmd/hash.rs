//! `hash`: hashes of a GGUF file, of its tensors and of all tensor data; checks them against a list.

use std::borrow::Cow;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use gristmill_gguf::{
    FILE_SHA256, HashKind, HashOptions, HashReport, Manifest, Outcome, RenamedManifest, hash,
};
use serde_json::{Map, Value as Json, json};

use super::{Invocation, Run};
use crate::display::printable;
use crate::failure::{Exit, Hint};
use crate::numbers::{self, Threads};
use crate::progress::ByteBar;

/// Arguments of `hash`.
#[derive(clap::Args)]
pub struct Hash {
    /// GGUF file, or any file of a set, of which all are hashed
    #[arg(value_name = "FILE")]
    input: PathBuf,
    /// Use xxHash with 64 bits: quick, no protection against intent; the default of llama-gguf-hash
    #[arg(long)]
    xxh64: bool,
    /// Use SHA-1
    #[arg(long)]
    sha1: bool,
    /// Use SHA-256, for whole files as well; the default of `gristmill hash`
    #[arg(long)]
    sha256: bool,
    /// Use all three
    #[arg(long)]
    all: bool,
    /// Show the UUID of the tensor data, version 5 in the reference's namespace
    #[arg(long)]
    uuid: bool,
    /// Leave out the hashes of single tensors
    #[arg(long)]
    no_layer: bool,
    /// Only the hashes of whole files, as sha256sum prints and checks them
    #[arg(long, conflicts_with_all = ["xxh64", "sha1", "sha256", "all", "uuid", "json", "check"])]
    sha256sum: bool,
    /// Only this file, though it is part of a set
    #[arg(long)]
    alone: bool,
    /// Check against a list, which must have every file: of this command, of sha256sum, or with --data-only of
    /// llama-gguf-hash
    #[arg(long, short, value_name = "LIST")]
    check: Option<PathBuf>,
    /// With --check: compare tensor data alone, of files whose metadata may differ, as after a split or an edit
    #[arg(long, requires = "check")]
    data_only: bool,
    /// Print JSON; with --check, what the list says of each hash
    #[arg(long)]
    json: bool,
    /// Threads [default: one per processor]
    #[arg(long, short, value_name = "N", default_value = "0", hide_default_value = true, value_parser = numbers::threads)]
    threads: Threads,
}

impl Run for Hash {
    const NAME: &'static str = "hash";
    const ABOUT: &'static str = "Hash a GGUF file and its tensors, or check their hashes";
    const EXAMPLES: &'static str = "gristmill hash model.gguf
        gristmill hash --sha256sum model-00001-of-00003.gguf
        gristmill hash --no-layer --all --uuid model.gguf
        gristmill hash --check model.sha256 model.gguf";
    const REFERENCE_NAMES: &'static [&'static str] = &["llama-gguf-hash"];

    fn run(self, invocation: &Invocation) -> anyhow::Result<()> {
        let as_reference = invocation.reference.is_some();
        let manifest = match (&self.check, as_reference) {
            (None, _) => None,
            (Some(path), false) => Some(Manifest::read(path)?),
            (Some(path), true) => Some(reference_manifest(path)?),
        };
        let options = self.options(manifest.as_ref(), as_reference)?;
        let report = ByteBar::during(|progress| hash(&options, progress))?;
        let mut out = crate::stdout::lock();
        if self.json && manifest.is_none() {
            writeln!(out, "{:#}", to_json(&report))?;
            return Ok(());
        }
        let lines = lines(&report, &self.input);
        match (&self.check, &manifest) {
            (Some(path), Some(manifest)) => {
                let form = match (as_reference, self.json) {
                    (_, true) => Form::Json,
                    (true, false) => Form::Reference,
                    (false, false) => Form::Lines,
                };
                let check = Check {
                    lines: &lines,
                    report: &report,
                    manifest,
                    path,
                    form,
                    data_only: self.data_only,
                };
                check.run(&mut out)
            }
            _ if self.sha256sum => print_files(&report, &mut out),
            _ => print(&lines, &mut out),
        }
    }
}

impl Hash {
    fn options(
        &self,
        manifest: Option<&Manifest>,
        as_reference: bool,
    ) -> anyhow::Result<HashOptions> {
        let asked = |kind| match kind {
            HashKind::Xxh64 => self.xxh64 || self.all,
            HashKind::Sha1 => self.sha1 || self.all,
            HashKind::Sha256 => self.sha256 || self.all,
            HashKind::Uuid => self.uuid,
        };
        let mut kinds: Vec<HashKind> = HashKind::ALL
            .into_iter()
            .filter(|&kind| asked(kind))
            .collect();
        let none_asked = kinds.is_empty();
        // The reference hashes no whole files. A check needs them, since no other hash is of metadata.
        let of_files = manifest.is_some() || none_asked || kinds.contains(&HashKind::Sha256);
        let files = of_files && !as_reference && !self.data_only;
        match manifest {
            // The safest that the list has, as the reference; or all that it has.
            Some(manifest) if none_asked => {
                kinds = known_kinds(manifest);
                if as_reference {
                    kinds.truncate(1);
                }
            }
            None if none_asked && as_reference => kinds = vec![HashKind::Xxh64],
            None if none_asked && !self.sha256sum => kinds = vec![HashKind::Sha256],
            _ => {}
        }
        Ok(HashOptions {
            input: self.input.clone(),
            kinds,
            tensors: !self.no_layer && !self.sha256sum,
            files,
            alone: self.alone || as_reference,
            n_threads: self.threads.or_zero(),
        })
    }
}

/// The hashes of tensor data that a list has, the safest first.
fn known_kinds(manifest: &Manifest) -> Vec<HashKind> {
    let safest = [
        HashKind::Sha256,
        HashKind::Sha1,
        HashKind::Xxh64,
        HashKind::Uuid,
    ];
    let known = safest.into_iter().filter(|&kind| manifest.has(kind));
    known.collect()
}

/// A hash as one line of a list.
struct Line {
    kind: &'static str,
    hash: String,
    /// As it is in the file; to be printed, it is made printable.
    name: String,
    of: Of,
}

/// What a hash is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Tensor,
    Data,
    File,
}

impl Line {
    /// What the list says. One of ours holds the name as it was printed.
    fn outcome(&self, manifest: &Manifest) -> Outcome {
        let listed = |name: &str| manifest.outcome(self.kind, name, &self.hash);
        match listed(&self.name) {
            Outcome::Absent => listed(&printable(&self.name)),
            outcome => outcome,
        }
    }
}

/// All hashes in the order of the reference: tensors, then the whole. Names begin with the file's as it was given.
fn lines(report: &HashReport, input: &Path) -> Vec<Line> {
    let path = |file: usize| match &*report.files {
        [_] => input.display().to_string(),
        files => files[file].path.display().to_string(),
    };
    let mut lines = Vec::new();
    for tensor in &report.tensors {
        let name = format!("{}:{}", path(tensor.file), tensor.name);
        lines.extend(tensor.hashes.iter().map(|(kind, hash)| Line {
            kind: kind.name(),
            hash: hash.clone(),
            name: name.clone(),
            of: Of::Tensor,
        }));
    }
    lines.extend(report.data.iter().map(|(kind, hash)| Line {
        kind: kind.name(),
        hash: hash.clone(),
        name: path(0),
        of: Of::Data,
    }));
    let files = report.files.iter().enumerate();
    lines.extend(files.filter_map(|(index, file)| {
        Some(Line {
            kind: FILE_SHA256,
            hash: file.sha256.clone()?,
            name: path(index),
            of: Of::File,
        })
    }));
    lines
}

fn print(lines: &[Line], out: &mut impl Write) -> anyhow::Result<()> {
    for Line {
        kind, hash, name, ..
    } in lines
    {
        writeln!(out, "{kind:<8}  {hash}  {}", printable(name))?;
    }
    Ok(())
}

fn print_files(report: &HashReport, out: &mut impl Write) -> anyhow::Result<()> {
    for file in &report.files {
        let Some(hash) = &file.sha256 else { continue };
        // As sha256sum does, which reads it back: the very bytes of the name, with a mark in front where any is escaped.
        let mut line = format!("{hash}  ").into_bytes();
        let n_plain = line.len();
        let name = file.path.as_os_str().as_encoded_bytes();
        for &byte in name {
            match byte {
                b'\\' => line.extend(br"\\"),
                b'\n' => line.extend(br"\n"),
                b'\r' => line.extend(br"\r"),
                byte => line.push(byte),
            }
        }
        if line.len() > n_plain + name.len() {
            line.insert(0, b'\\');
        }
        line.push(b'\n');
        out.write_all(&line)?;
    }
    Ok(())
}

/// The reference's exit codes: a list that cannot be read, and one without a hash that it knows.
const EXIT_NO_LIST: u8 = 5;
const EXIT_UNKNOWN_HASH: u8 = 4;
const EXIT_NOT_LISTED: u8 = 3;

fn reference_manifest(path: &Path) -> anyhow::Result<Manifest> {
    let mut out = crate::stdout::lock();
    let manifest = match Manifest::read_text(path) {
        Ok(text) => Manifest::parse(&text),
        Err(_) => {
            write!(out, "ERROR cannot open manifest {}", path.display())?;
            return Err(Exit(EXIT_NO_LIST).into());
        }
    };
    let known: Vec<&str> = known_kinds(&manifest)
        .iter()
        .map(|kind| kind.name())
        .collect();
    if known.is_empty() {
        let path = path.display();
        write!(
            out,
            "ERROR manifest does not have any known hash format in {path}"
        )?;
        return Err(Exit(EXIT_UNKNOWN_HASH).into());
    }
    writeln!(out, "manifest  {}  {}", path.display(), known.join("  "))?;
    Ok(manifest)
}

/// How the results of a check are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Lines,
    Json,
    Reference,
}

/// A check of hashes against a list.
struct Check<'a> {
    lines: &'a [Line],
    report: &'a HashReport,
    manifest: &'a Manifest,
    path: &'a Path,
    form: Form,
    data_only: bool,
}

impl Check<'_> {
    /// Prints what the list says of each hash. Anything that is not found to be as it is listed is a failure.
    fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let as_reference = self.form == Form::Reference;
        let lines = self.lines.iter();
        let mut outcomes: Vec<Outcome> = lines.map(|line| line.outcome(self.manifest)).collect();
        let mut is_renamed = false;
        if !as_reference {
            if outcomes.iter().all(|outcome| *outcome == Outcome::Absent) {
                let renamed = renamed_outcomes(self.lines, self.manifest, self.path);
                is_renamed = renamed.is_some();
                outcomes = renamed.unwrap_or(outcomes);
            }
            self.pass_over_set(&mut outcomes);
        }
        let n = |wanted| count(&outcomes, wanted);
        let (n_equal, n_different) = (n(Outcome::Equal), n(Outcome::Different));
        if as_reference {
            self.print(&outcomes, None, out)?;
            return verdict_as_reference(n_equal, n_different, self.path, out);
        }
        let fault = self.fault((n_equal, n_different), &outcomes, is_renamed);
        let reason = fault.as_ref().map(|(reason, _)| &**reason);
        self.print(&outcomes, reason, out)?;
        fault.map_or(Ok(()), |(reason, hint)| {
            Err(anyhow!("{}: {reason}", self.path.display()).context(Hint::new(hint)))
        })
    }

    /// Why the files do not pass, with the remedy.
    fn fault(
        &self,
        (n_equal, n_different): (usize, usize),
        outcomes: &[Outcome],
        is_renamed: bool,
    ) -> Option<(String, &'static str)> {
        Some(match (n_equal, n_different) {
            (0, 0) if self.lines.is_empty() => (
                "has no hash of tensor data".to_owned(),
                "leave out --data-only, to compare whole files",
            ),
            (0, 0) => (
                "lists nothing of this file".to_owned(),
                "the list is of other files; if it has this one among them, give the file the name that it has there",
            ),
            (_, 0) => return self.lost(outcomes, is_renamed),
            _ => (
                format!("{n_different} of {} hashes differ", n_equal + n_different),
                "the file is not the one that was listed; fetch it again, or ask its source for a new list",
            ),
        })
    }

    /// Of one file of a set that is as it is listed, another hash of all data is that of the set.
    fn pass_over_set(&self, outcomes: &mut [Outcome]) {
        let others = self.lines.iter().zip(&*outcomes);
        let mut others = others.filter(|(line, _)| line.of != Of::Data).peekable();
        let is_of_set = self.report.is_part
            && others.peek().is_some()
            && others.all(|(_, outcome)| *outcome == Outcome::Equal);
        let lines = self.lines.iter().zip(outcomes);
        for (_, outcome) in lines.filter(|(line, _)| is_of_set && line.of == Of::Data) {
            if *outcome == Outcome::Different {
                *outcome = Outcome::Absent;
            }
        }
    }

    fn print(
        &self,
        outcomes: &[Outcome],
        fault: Option<&str>,
        out: &mut impl Write,
    ) -> anyhow::Result<()> {
        let results = self.lines.iter().zip(outcomes);
        if self.form != Form::Json {
            for (line, outcome) in results {
                let (kind, hash, name) = (line.kind, &line.hash, &line.name);
                let (name, outcome) = (printable(name), word(*outcome));
                writeln!(out, "{kind:<8}  {hash}  {name}  -  {outcome}")?;
            }
            return Ok(());
        }
        let results = results.map(|(line, outcome)| {
            json!({ "kind": line.kind, "hash": line.hash, "name": line.name, "outcome": word(*outcome) })
        });
        let document = json!({
            "list": self.path.display().to_string(),
            "fault": fault,
            "n_equal": count(outcomes, Outcome::Equal),
            "n_different": count(outcomes, Outcome::Different),
            "n_not_listed": count(outcomes, Outcome::Absent),
            "hashes": results.collect::<Vec<_>>(),
        });
        writeln!(out, "{document:#}")?;
        Ok(())
    }

    /// What was not compared although it must be, with the remedy: whole files, all tensors of which the list has some, and
    /// all tensors that it has.
    fn lost(&self, outcomes: &[Outcome], is_renamed: bool) -> Option<(String, &'static str)> {
        for kind in HashKind::ALL.map(HashKind::name) {
            let of_kind = |line: &&Line| line.of == Of::Tensor && line.kind == kind;
            let (n, absent) = self.absent(outcomes, of_kind);
            if let Some(first) = absent.first().filter(|_| absent.len() < n) {
                let text = format!(
                    "lacks the {kind} of {} of {n} tensors (the first is {})",
                    absent.len(),
                    printable(&first.name)
                );
                return Some((
                    text,
                    "the list was cut short, or is of another file; `--no-layer` compares no single tensors",
                ));
            }
            if n > 0
                && self.data_only
                && let Some(name) = self.other_tensor(kind, is_renamed)
            {
                let text = format!("has the {kind} of {}, which is not there", printable(name));
                return Some((
                    text,
                    "the file lost tensors, or the list is of several models; `--no-layer` compares no single tensors",
                ));
            }
        }
        let (n, absent) = self.absent(outcomes, |line| line.of == Of::File);
        let first = printable(&absent.first()?.name);
        Some(match n {
            1 => (
                format!("lacks the {FILE_SHA256} of {first}"),
                "the list was cut short, is of a file with other metadata, or was made without hashes of whole files (by `llama-gguf-hash`, or by `--xxh64`, `--sha1` or `--uuid` alone); `--data-only` compares tensor data alone",
            ),
            _ => (
                format!(
                    "lacks the {FILE_SHA256} of {} of {n} files (the first is {first})",
                    absent.len()
                ),
                "the list was cut short, or is of other files; `--alone` checks one file of a set, `--data-only` compares tensor data alone",
            ),
        })
    }

    /// How many lines are of a sort, and those of them that the list does not have.
    fn absent(
        &self,
        outcomes: &[Outcome],
        is_of_sort: impl Fn(&&Line) -> bool,
    ) -> (usize, Vec<&Line>) {
        let lines = self.lines.iter().zip(outcomes);
        let lines = lines.filter(|(line, _)| is_of_sort(line));
        let absent = lines
            .clone()
            .filter(|(_, outcome)| **outcome == Outcome::Absent);
        (lines.count(), absent.map(|(line, _)| line).collect())
    }

    /// A tensor that is in the list and in none of the files that were hashed.
    fn other_tensor(&self, kind: &str, is_renamed: bool) -> Option<&str> {
        if is_renamed && self.report.is_part {
            // It is in another file of the set.
            return None;
        }
        let printed: Vec<Cow<'_, str>> = self
            .report
            .tensors
            .iter()
            .map(|tensor| printable(&tensor.name))
            .collect();
        let tensors = self.report.tensors.iter().map(|tensor| &*tensor.name);
        let tensors = tensors.chain(printed.iter().map(|name| &**name)).collect();
        self.manifest.other_tensor(kind, &tensors, |file| {
            let mut files = self
                .report
                .files
                .iter()
                .filter_map(|file| file.path.file_name());
            is_renamed
                || files.any(|name| printable(&name.to_string_lossy()) == file || name == file)
        })
    }
}

fn count(outcomes: &[Outcome], wanted: Outcome) -> usize {
    let outcomes = outcomes.iter();
    outcomes.filter(|&&outcome| outcome == wanted).count()
}

/// The reference's last words on a list, with its exit code.
fn verdict_as_reference(
    n_equal: usize,
    n_different: usize,
    path: &Path,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let (text, code) = match (n_equal, n_different) {
        (0, 0) => ("Manifest Missing Entry", EXIT_NOT_LISTED),
        (_, 0) => ("Success", 0),
        _ => ("Failure", 1),
    };
    let path = path.display();
    writeln!(out, "\nVerification results for {path} - {text}")?;
    match code {
        0 => Ok(()),
        code => Err(Exit(code).into()),
    }
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Equal => "Ok",
        Outcome::Different => "Mismatch",
        Outcome::Absent => "Not Found",
    }
}

/// What the list says of files that it has under other names, if it says anything.
fn renamed_outcomes(lines: &[Line], manifest: &Manifest, path: &Path) -> Option<Vec<Outcome>> {
    let renamed = RenamedManifest::of(manifest)?;
    let n_files = lines.iter().filter(|line| line.of == Of::File).count();
    let outcome = |line: &Line| {
        if line.of == Of::File {
            return renamed.file_outcome(&line.hash, n_files);
        }
        let listed = |name: &str| renamed.outcome(line.kind, name, &line.hash);
        match listed(&line.name) {
            Outcome::Absent => listed(&printable(&line.name)),
            outcome => outcome,
        }
    };
    let outcomes: Vec<Outcome> = lines.iter().map(outcome).collect();
    if outcomes.iter().all(|outcome| *outcome == Outcome::Absent) {
        return None;
    }
    let (path, file) = (path.display(), renamed.file());
    say!(
        "note: {path}: is a list of {}; this file has another name and is compared all the same",
        printable(file)
    );
    Some(outcomes)
}

fn to_json(report: &HashReport) -> Json {
    let hashes = |hashes: &[(HashKind, String)]| -> Map<String, Json> {
        let entries = hashes.iter();
        entries
            .map(|(kind, hash)| (kind.name().to_owned(), json!(hash)))
            .collect()
    };
    let files = report.files.iter().map(|file| {
        json!({ "path": file.path.display().to_string(), "bytes": file.bytes, "sha256": file.sha256 })
    });
    let tensors = report.tensors.iter().map(|tensor| {
        let mut entry = Map::new();
        entry.insert("name".into(), json!(tensor.name));
        entry.insert("file".into(), json!(tensor.file));
        entry.insert("bytes".into(), json!(tensor.bytes));
        entry.append(&mut hashes(&tensor.hashes));
        Json::Object(entry)
    });
    json!({
        "files": files.collect::<Vec<_>>(),
        "data": hashes(&report.data),
        "tensors": tensors.collect::<Vec<_>>(),
    })
}
