//! What documents and manifests must say.

use std::collections::BTreeSet;
use std::fs;

use super::root;
use super::source::{Source, sources};

/// Above this nobody reads the map.
const ARCHITECTURE_LINES_MAX: usize = 250;

/// Dependencies that `[workspace.dependencies]` names, ours left out.
fn dependencies(manifest: &str) -> BTreeSet<&str> {
    let section = manifest.split("[workspace.dependencies]").nth(1);
    let lines = section.into_iter().flat_map(str::lines).skip(1);
    lines
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name.trim())
        .filter(|name| !name.starts_with("gristmill-"))
        .collect()
}

/// Names in the first column of the table below `## Dependencies`.
fn explained(map: &str) -> BTreeSet<&str> {
    let section = map.split("\n## Dependencies").nth(1).unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    let names = rows.filter_map(|row| row.split(" |").next());
    names
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect()
}

fn unexplained(manifest: &str, map: &str) -> Vec<String> {
    let (named, told) = (dependencies(manifest), explained(map));
    named
        .symmetric_difference(&told)
        .map(|name| format!("{name} stands in one of Cargo.toml and ARCHITECTURE.md only"))
        .collect()
}

/// A crate that does not take the workspace's lints could leave public items undocumented.
fn without_lints(path: &str, manifest: &str) -> Vec<String> {
    let takes = manifest
        .split("[lints]\n")
        .nth(1)
        .is_some_and(|rest| rest.starts_with("workspace = true"));
    if takes {
        Vec::new()
    } else {
        vec![format!("{path} does not take the lints of the workspace")]
    }
}

/// Dependencies that a manifest names and that the crate's sources do not.
fn unused(path: &str, manifest: &str, sources: &[&Source]) -> Vec<String> {
    let mut in_dependencies = false;
    let mut found = Vec::new();
    for line in manifest.lines() {
        if let Some(section) = line.strip_prefix('[') {
            in_dependencies = section.trim_end_matches(']').ends_with("dependencies");
        } else if in_dependencies
            && let Some((name, _)) = line.split_once(['.', ' ', '='])
            && !sources
                .iter()
                .any(|source| !source.words(&name.replace('-', "_")).is_empty())
        {
            found.push(format!("{path}: {name} is not used"));
        }
    }
    found
}

/// Paths from the root that a document names and that are not there; `<name>` stands for any.
fn dead_paths(document: &str, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let spans = document.split('`').skip(1).step_by(2);
    let starts = [
        "crates/", "src/", "tests/", "fuzz/", "models/", "docs/", ".ci/",
    ];
    let paths = spans
        .filter(|span| starts.iter().any(|start| span.starts_with(start)))
        .filter(|span| !span.contains(['<', ' ', '*']));
    paths
        .filter(|path| !exists(path))
        .map(|path| format!("{path} is not there"))
        .collect()
}

#[test]
fn every_path_in_a_document_is_there() {
    let documents = ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"];
    let found = documents.iter().flat_map(|name| {
        dead_paths(&read(name), |path| root().join(path).exists())
            .into_iter()
            .map(move |violation| format!("{name}: {violation}"))
    });
    super::report(found.collect());
}

#[test]
fn a_path_that_is_not_there_is_found() {
    let text = "`src/a.rs`, `src/<b>.rs`, `c.rs`, `src/d.rs`";
    assert_eq!(
        dead_paths(text, |path| path == "src/a.rs"),
        ["src/d.rs is not there"]
    );
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect("the document is there")
}

#[test]
fn every_dependency_has_its_reason() {
    super::report(unexplained(&read("Cargo.toml"), &read("ARCHITECTURE.md")));
}

#[test]
fn a_dependency_without_reason_is_found() {
    let manifest = "[workspace.dependencies]\ngristmill-a = { path = \"a\" }\nb = \"1\"\nc = \"1\"\n\n[package]\nd = 1\n";
    let map =
        "# Map\n\n## Dependencies\n\n| crate | why |\n|---|---|\n| `b`, `c` (tests) | `x` |\n";
    assert_eq!(unexplained(manifest, map), [""; 0]);
    assert_eq!(unexplained(manifest, &map.replace(", `c`", "")).len(), 1);
    assert_eq!(
        unexplained(manifest, &map.replace("`b`", "`b`, `z`")).len(),
        1
    );
}

#[test]
fn the_map_is_short() {
    let n_lines = read("ARCHITECTURE.md").lines().count();
    assert!(
        n_lines <= ARCHITECTURE_LINES_MAX,
        "ARCHITECTURE.md has {n_lines} lines"
    );
}

#[test]
fn every_crate_takes_the_lints() {
    let crates = fs::read_dir(root().join("crates")).expect("there are crates");
    let paths = crates.map(|entry| entry.expect("it is readable").path().join("Cargo.toml"));
    let found = paths.flat_map(|path| {
        let text = fs::read_to_string(&path).expect("a crate has a manifest");
        without_lints(&path.display().to_string(), &text)
    });
    super::report(
        found
            .chain(without_lints("Cargo.toml", &read("Cargo.toml")))
            .collect(),
    );
    assert!(read("Cargo.toml").contains("missing_docs = \"warn\""));
}

#[test]
fn a_crate_without_lints_is_found() {
    assert_eq!(without_lints("a", "[package]\nname = \"a\"\n").len(), 1);
    assert_eq!(
        without_lints("a", "[package]\n[lints]\nworkspace = true\n").len(),
        0
    );
}

#[test]
fn every_dependency_is_used() {
    let sources = sources(&root());
    let crates = fs::read_dir(root().join("crates")).expect("there are crates");
    let folders = crates.map(|entry| entry.expect("it is readable").file_name());
    let found = folders.flat_map(|folder| {
        let folder = format!("crates/{}/", folder.to_string_lossy());
        let own: Vec<_> = sources
            .iter()
            .filter(|source| source.path.starts_with(&folder))
            .collect();
        unused(&folder, &read(&format!("{folder}Cargo.toml")), &own)
    });
    let binary: Vec<_> = sources
        .iter()
        .filter(|source| !source.path.starts_with("crates/"))
        .collect();
    super::report(
        found
            .chain(unused("Cargo.toml", &package(&read("Cargo.toml")), &binary))
            .collect(),
    );
}

/// The manifest of the root package without what it says for the workspace.
fn package(manifest: &str) -> String {
    let at = manifest.find("[package]").unwrap_or_default();
    manifest[at..].to_owned()
}

#[test]
fn an_unused_dependency_is_found() {
    let source = Source::new("crates/a/src/lib.rs", "use b_c::D; // e");
    let manifest = "[dependencies]\nb-c.workspace = true\n\n[dev-dependencies]\ne = \"1\"\n\n[lints]\nworkspace = true\n";
    assert_eq!(unused("a", manifest, &[&source]), ["a: e is not used"]);
}
