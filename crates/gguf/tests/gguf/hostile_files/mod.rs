//! A table of hostile files: each is refused at once, in little memory, with the error it deserves. The texts of all of
//! them lie beside this file in `errors.txt`; `UPDATE_ERRORS=1` writes it anew.

mod directory;
mod foreign;
mod header;
mod metadata;
mod offsets;
mod sets;
mod writing;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use gristmill_gguf::{Error, Model};

use crate::hostile::time_of;

/// The most that a refusal may take.
const TIME_MAX: Duration = Duration::from_millis(100);
/// The most memory that a process may take which reads the whole table, in KiB.
const MEMORY_MAX_KIB: u64 = 64 << 10;

/// Files to be refused.
pub struct Row {
    /// What is wrong with it.
    pub name: String,
    /// Names and contents; the first one is opened.
    pub files: Vec<(String, Vec<u8>)>,
    /// The variant of [`Error`] that answers it.
    pub variant: &'static str,
    /// What it says, where that is worked out and does not stand in `errors.txt`.
    pub text: Option<String>,
}

impl Row {
    /// The same, saying this.
    pub fn saying(mut self, text: String) -> Self {
        self.text = Some(text);
        self
    }
}

/// One file named `m.gguf`.
pub fn row(variant: &'static str, name: impl Into<String>, bytes: Vec<u8>) -> Row {
    let files = vec![("m.gguf".to_owned(), bytes)];
    let name = name.into();
    Row {
        name,
        files,
        variant,
        text: None,
    }
}

fn rows() -> Vec<Row> {
    let parts = [
        foreign::rows,
        header::rows,
        metadata::rows,
        directory::rows,
        offsets::rows,
        sets::rows,
    ];
    parts.iter().flat_map(|part| part()).collect()
}

/// The name of an error's variant; that of the one inside, where a file was added to it.
fn variant(error: &Error) -> &'static str {
    match error {
        Error::InFile { error, .. } => variant(error),
        error => error.name(),
    }
}

/// Writes the files of a row into a new folder and opens the first.
fn refusal(row: &Row) -> (Error, PathBuf, Duration) {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in &row.files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let path = folder.path().join(&row.files[0].0);
    let open = || Model::open(&path).and_then(|model| model.require_weights().map(|()| model));
    let (result, elapsed) = time_of(open);
    // A file that opens is wrong in the table, like one with another error.
    let error = result.err().unwrap_or_else(|| Error::MissingKey {
        key: format!("{} opened", row.name),
    });
    (error, folder.path().to_owned(), elapsed)
}

#[test]
fn every_hostile_file_is_refused_at_once() {
    let rows = rows();
    assert!(rows.len() >= 200, "{} files", rows.len());
    let mut names = BTreeSet::new();
    let mut table = String::new();
    let mut wrong = Vec::new();
    for row in &rows {
        if !names.insert(&row.name) {
            wrong.push(format!("{} stands twice", row.name));
        }
        let (error, folder, elapsed) = refusal(row);
        if variant(&error) != row.variant {
            wrong.push(format!("{}: not {}: {error}", row.name, row.variant));
        }
        if elapsed >= TIME_MAX {
            wrong.push(format!("{}: {elapsed:?}", row.name));
        }
        let text = error
            .to_string()
            .replace(&format!("{}/", folder.display()), "");
        assert!(!text.contains('\u{1b}'), "{}: {text}", row.name);
        if let Some(expected) = &row.text {
            assert_eq!(&text, expected, "{}", row.name);
            continue;
        }
        writeln!(table, "{}\n    {text}", row.name).unwrap();
        if let Some(hint) = error.hint() {
            writeln!(table, "    hint: {hint}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{} hostile files refused", rows.len());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gguf/hostile_files/errors.txt");
    if std::env::var_os("UPDATE_ERRORS").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    for (expected, found) in expected.lines().zip(table.lines()) {
        assert_eq!(expected, found);
    }
    assert_eq!(expected.lines().count(), table.lines().count());
}

/// Reads the table in a process of its own, whose peak of memory the system tells. The address space is limited too, so
/// that a reservation by a lie fails even where the memory is never touched.
#[test]
#[cfg(target_os = "linux")]
fn the_whole_table_takes_little_memory() {
    let test = "hostile_files::every_hostile_file_is_refused_at_once";
    let script = r#"ulimit -v 262144 && exec "$0" --exact "$1" --test-threads=1"#;
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(script)
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env_remove("UPDATE_ERRORS")
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut peak_kib = 0;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        let about = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let peak = about.ok().and_then(|about| {
            let line = about.lines().find(|line| line.starts_with("VmHWM:"))?;
            line.split_whitespace().nth(1)?.parse().ok()
        });
        peak_kib = peak_kib.max(peak.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(2));
    };
    assert!(status.success());
    println!("the table of hostile files was read in {peak_kib} KiB");
    assert!(
        (1..MEMORY_MAX_KIB).contains(&peak_kib),
        "{peak_kib} KiB at the peak"
    );
}

#[test]
fn every_error_variant_is_reached() {
    let mut reached: BTreeSet<&str> = rows().iter().map(|row| row.variant).collect();
    for (expected, error) in writing::errors() {
        assert_eq!(variant(&error), expected, "{error}");
        reached.insert(expected);
    }
    for &(expected, source) in writing::ELSEWHERE {
        assert!(source.contains(&format!("Error::{expected}")), "{expected}");
        reached.insert(expected);
    }
    // It is only a cover for the others, which `variant` looks through.
    reached.insert("InFile");
    let missing: Vec<&&str> = Error::NAMES
        .iter()
        .filter(|name| !reached.contains(*name))
        .collect();
    assert!(missing.is_empty(), "no file reaches these: {missing:?}");
}
