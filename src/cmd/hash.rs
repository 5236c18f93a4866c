//! `hash`: hashes of a GGUF file, of its tensors and of all tensor data; checks them against a list.

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
    /// Check against a list: of this command, of llama-gguf-hash or of sha256sum
    #[arg(long, short, value_name = "LIST")]
    check: Option<PathBuf>,
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
        let mut out = std::io::stdout().lock();
        if self.json && manifest.is_none() {
            writeln!(out, "{:#}", to_json(&report))?;
            return Ok(());
        }
        let lines = lines(&report, &self.input);
        match (&self.check, manifest) {
            (Some(path), Some(manifest)) => {
                let form = match (as_reference, self.json) {
                    (_, true) => Form::Json,
                    (true, false) => Form::Reference,
                    (false, false) => Form::Lines,
                };
                check(&lines, &manifest, path, form, &mut out)
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
        // The reference hashes no whole files.
        let of_files = !as_reference && (none_asked || kinds.contains(&HashKind::Sha256));
        let files = of_files && manifest.is_none_or(Manifest::has_files);
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
        let name = file.path.to_string_lossy();
        // As sha256sum does, which reads it back.
        if name.contains(['\\', '\n', '\r']) {
            let name = name.replace('\\', "\\\\").replace('\n', "\\n");
            writeln!(out, "\\{hash}  {}", name.replace('\r', "\\r"))?;
        } else {
            writeln!(out, "{hash}  {name}")?;
        }
    }
    Ok(())
}

/// The reference's exit codes: a list that cannot be read, and one without a hash that it knows.
const EXIT_NO_LIST: u8 = 5;
const EXIT_UNKNOWN_HASH: u8 = 4;
const EXIT_NOT_LISTED: u8 = 3;

fn reference_manifest(path: &Path) -> anyhow::Result<Manifest> {
    let mut out = std::io::stdout().lock();
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

/// Prints what the list says of each hash; different ones, or none in the list at all, are a failure.
fn check(
    lines: &[Line],
    manifest: &Manifest,
    path: &Path,
    form: Form,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let as_reference = form == Form::Reference;
    let mut outcomes: Vec<Outcome> = lines.iter().map(|line| line.outcome(manifest)).collect();
    let mut lists_all_files = manifest.lists_all_files();
    if !as_reference && outcomes.iter().all(|outcome| *outcome == Outcome::Absent) {
        // The files of a set may be divided in another way than those that are listed.
        lists_all_files = false;
        outcomes = renamed_outcomes(lines, manifest, path).unwrap_or(outcomes);
    }
    let n = |wanted| {
        outcomes
            .iter()
            .filter(|&&outcome| outcome == wanted)
            .count()
    };
    let (n_equal, n_different) = (n(Outcome::Equal), n(Outcome::Different));
    let results = lines.iter().zip(&outcomes);
    if form == Form::Json {
        let results = results.map(|(line, outcome)| {
            json!({ "kind": line.kind, "hash": line.hash, "name": line.name, "outcome": word(*outcome) })
        });
        let document = json!({
            "list": path.display().to_string(),
            "n_equal": n_equal,
            "n_different": n_different,
            "n_not_listed": n(Outcome::Absent),
            "hashes": results.collect::<Vec<_>>(),
        });
        writeln!(out, "{document:#}")?;
    } else {
        for (line, outcome) in results {
            let (kind, hash, name) = (line.kind, &line.hash, &line.name);
            let (name, outcome) = (printable(name), word(*outcome));
            writeln!(out, "{kind:<8}  {hash}  {name}  -  {outcome}")?;
        }
    }
    if as_reference {
        return verdict_as_reference(n_equal, n_different, path, out);
    }
    let path = path.display();
    match (n_equal, n_different) {
        (0, 0) => Err(anyhow!("{path}: lists nothing of this file").context(Hint::new(
            "the list is of other files; if it has this one among them, give the file the name that it has there",
        ))),
        (_, 0) => match lost(lines, &outcomes, lists_all_files) {
            None => Ok(()),
            Some(lost) => Err(anyhow!("{path}: {lost}").context(Hint::new(
                "the list was cut short, or is of another file; `--alone` checks one file of a set, `--no-layer` no single tensors",
            ))),
        },
        _ => Err(anyhow!("{path}: {n_different} of {} hashes differ", n_equal + n_different).context(Hint::new(
            "the file is not the one that was listed; fetch it again, or ask its source for a new list",
        ))),
    }
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

/// What the list does not have, though it has others of the same kind: who lists tensors lists all.
fn lost(lines: &[Line], outcomes: &[Outcome], lists_all_files: bool) -> Option<String> {
    let tensors = HashKind::ALL.map(|kind| (Of::Tensor, kind.name(), "tensors"));
    let files = lists_all_files.then_some((Of::File, FILE_SHA256, "files"));
    tensors
        .into_iter()
        .chain(files)
        .find_map(|(of, kind, what)| {
            let same = lines.iter().zip(outcomes);
            let same = same.filter(|(line, _)| line.of == of && line.kind == kind);
            let absent: Vec<&Line> = same
                .clone()
                .filter(|(_, outcome)| **outcome == Outcome::Absent)
                .map(|(line, _)| line)
                .collect();
            let (n, first) = (same.count(), absent.first()?);
            (absent.len() < n).then(|| {
                format!(
                    "lacks the {kind} of {} of {n} {what} (the first is {})",
                    absent.len(),
                    printable(&first.name)
                )
            })
        })
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
    let n_files = lines.iter().filter(|line| line.kind == FILE_SHA256).count();
    let outcome = |line: &Line| {
        let listed = |name: &str| renamed.outcome(line.kind, name, &line.hash, n_files);
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
