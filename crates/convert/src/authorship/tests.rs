//! A folder with everything that the heuristics look at. Right values: what the reference's own code makes of it.

use super::{Authorship, ConvertError, Given, read_json};
use gristmill_gguf::{Array, Metadata, Value};
use std::fs;
use std::path::Path;

const CARD: &str = "---
language:
  - en
  - no
license:
- mit
- apache-2.0
license_name: my-license
license_link: https://example.org/LICENSE
tags: [chat, \"a, b\"]
pipeline_tag: text-generation
model_name: \"Foo: the Bar\"
model_creator: Somebody
base_model:
- org-one/Base-Model-7B-v1.1
- https://huggingface.co/meta-llama/Llama-2-7b-hf
- just-a-name
datasets: org/some-data
description: >-
  Two lines
  folded.
url: https://example.org
---
# Text
";

fn folder(parent: &Path) -> std::path::PathBuf {
    let folder = parent.join("Foo-Bar-1.5B-Instruct-v2");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("README.md"), CARD).unwrap();
    fs::write(
        folder.join("config.json"),
        r#"{"_name_or_path": "some-org/other-name-3B-chat"}"#,
    )
    .unwrap();
    let sampling = r#"{"temperature": 0.6, "top_k": 20, "top_p": 0.95, "repetition_penalty": 1.05, "do_sample": true, "min_p": null}"#;
    fs::write(folder.join("generation_config.json"), sampling).unwrap();
    folder
}

fn load(
    folder: &Path,
    given: &Given<'_>,
    warnings: &mut Vec<String>,
) -> Result<Authorship, ConvertError> {
    let config = read_json(&folder.join("config.json"))?.unwrap_or_default();
    Authorship::load(folder, &config, given, warnings)
}

/// The entries without `general.`, lists joined by bars.
fn entries(folder: &Path, given: &Given<'_>) -> Vec<(String, String)> {
    let mut metadata = Metadata::new();
    load(folder, given, &mut Vec::new())
        .unwrap()
        .write(&mut metadata);
    let text = |value: &Value| match value {
        Value::String(text) => text.to_str_lossy().into_owned(),
        Value::Array(Array::String(list)) => list
            .iter()
            .map(|text| String::from_utf8_lossy(text).into_owned())
            .collect::<Vec<_>>()
            .join("|"),
        Value::U32(number) => number.to_string(),
        Value::I32(number) => format!("{number} (i32)"),
        Value::F32(number) => format!("{number} (f32)"),
        other => panic!("{other:?}"),
    };
    metadata
        .iter()
        .map(|(key, value)| {
            (
                key.strip_prefix("general.").unwrap().to_owned(),
                text(value),
            )
        })
        .collect()
}

fn check(found: &[(String, String)], expected: &[(&str, &str)]) {
    let found: Vec<(&str, &str)> = found
        .iter()
        .map(|(key, text)| (key.as_str(), text.as_str()))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_folder_tells_all_it_knows() {
    let parent = tempfile::tempdir().unwrap();
    let folder = folder(parent.path());
    let given = Given {
        name: None,
        overrides: None,
        size: 1_500_000_000.into(),
    };
    check(
        &entries(&folder, &given),
        &[
            ("sampling.top_k", "20 (i32)"),
            ("sampling.top_p", "0.95 (f32)"),
            ("sampling.temp", "0.6 (f32)"),
            ("sampling.penalty_repeat", "1.05 (f32)"),
            ("name", "Foo: the Bar"),
            ("author", "Somebody"),
            ("version", "v2"),
            ("organization", "Some Org"),
            ("finetune", "3b-chat"),
            ("basename", "other-name"),
            ("description", "Two lines folded."),
            ("size_label", "1.5B"),
            ("license", "mit,apache-2.0"),
            ("license.name", "my-license"),
            ("license.link", "https://example.org/LICENSE"),
            ("source.url", "https://example.org"),
            ("base_model.count", "3"),
            ("base_model.0.name", "Base Model 7B v1.1"),
            ("base_model.0.version", "v1.1"),
            ("base_model.0.organization", "Org One"),
            (
                "base_model.0.repo_url",
                "https://huggingface.co/org-one/Base-Model-7B-v1.1",
            ),
            ("base_model.1.name", "Llama 2 7b Hf"),
            ("base_model.1.organization", "Meta Llama"),
            (
                "base_model.1.repo_url",
                "https://huggingface.co/meta-llama/Llama-2-7b-hf",
            ),
            ("base_model.2.name", "Just A Name"),
            ("dataset.count", "1"),
            ("dataset.0.name", "Some Data"),
            ("dataset.0.organization", "Org"),
            ("dataset.0.repo_url", "https://huggingface.co/org/some-data"),
            ("tags", "chat|a, b|text-generation"),
            ("languages", "en|no"),
        ],
    );
}

#[test]
fn overrides_and_a_given_name_go_first() {
    let parent = tempfile::tempdir().unwrap();
    let folder = folder(parent.path());
    let overrides = parent.path().join("overrides.json");
    let text = r#"{"general.author": "Override", "general.sampling.top_k": 7, "general.sampling.min_p": 0.5,
        "general.tags": ["one"], "general.base_models": [{"name": "N", "repo_url": "U", "odd": "x"}], "general.license": ""}"#;
    fs::write(&overrides, text).unwrap();
    let given = Given {
        name: Some("Given"),
        overrides: Some(&overrides),
        size: 1_500_000_000.into(),
    };
    let found = entries(&folder, &given);
    let value = |key: &str| {
        found
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, text)| text.as_str())
    };
    assert_eq!(value("name"), Some("Given"));
    assert_eq!(value("author"), Some("Override"));
    assert_eq!(value("tags"), Some("one"));
    assert_eq!(value("license"), None);
    assert_eq!(
        (value("base_model.count"), value("base_model.0.name")),
        (Some("1"), Some("N"))
    );
    assert_eq!(value("base_model.0.repo_url"), Some("U"));
    let sampling: Vec<&str> = found.iter().map(|(key, _)| key.as_str()).take(4).collect();
    assert_eq!(
        sampling,
        [
            "sampling.top_k",
            "sampling.top_p",
            "sampling.min_p",
            "sampling.temp"
        ]
    );
    let text = r#"{"general.bogus": 3, "foo": 1, "general.url": 5, "general.sampling.top_k": "7", "general.tags": ["a", 1],
        "general.base_models": [{"name": "N", "odd": "x"}], "general.doi": "D"}"#;
    fs::write(&overrides, text).unwrap();
    let mut warnings = Vec::new();
    load(&folder, &given, &mut warnings).unwrap();
    let place = overrides.display();
    let of = |what: &str| format!("{place}: {what}; what is not is left out");
    assert_eq!(
        warnings,
        [
            of("general.url must be a text"),
            of("general.sampling.top_k must be a whole number of 32 bits"),
            of("general.tags must be a list of texts"),
            of(
                "general.base_models must be a list of objects with texts (name, author, version, organization, description, url, doi, uuid, repo_url)"
            ),
            format!("{place}: only general.* entries are read; left out: foo"),
            format!(
                "{place}: a conversion does not write these entries (`gristmill edit` can); left out: general.bogus"
            ),
        ]
    );
    fs::write(&overrides, "[]").unwrap();
    assert!(load(&folder, &given, &mut Vec::new()).is_err());
    fs::write(&overrides, "{").unwrap();
    assert!(load(&folder, &given, &mut Vec::new()).is_err());
    fs::remove_file(&overrides).unwrap();
    assert!(load(&folder, &given, &mut Vec::new()).is_err());
}

/// What the hub's tools keep stands below the repository's name; a commit is no name of a model.
#[test]
fn a_commit_in_the_hubs_cache_has_the_repositorys_name() {
    let parent = tempfile::tempdir().unwrap();
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let snapshot = |repository: &str| {
        parent
            .path()
            .join(repository)
            .join("snapshots")
            .join(commit)
    };
    let given = Given {
        name: None,
        overrides: None,
        size: 0.into(),
    };
    let kept = snapshot("models--some-org--Foo-Bar-7B");
    let elsewhere = snapshot("some-org--Foo-Bar-7B");
    for folder in [&kept, &elsewhere] {
        fs::create_dir_all(folder).unwrap();
    }
    let found = entries(&kept, &given);
    for expected in [
        ("name", "Foo Bar 7B"),
        ("organization", "Some Org"),
        ("basename", "Foo-Bar"),
    ] {
        let (key, value) = expected;
        assert!(
            found.contains(&(key.to_owned(), value.to_owned())),
            "{found:?}"
        );
    }
    let found = entries(&elsewhere, &given);
    assert!(
        found
            .iter()
            .any(|(key, value)| key == "name" && value.starts_with("012345")),
        "{found:?}"
    );
}

#[test]
fn an_empty_folder_has_a_name_and_a_size() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("model");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("README.md"), [0xff, 0xfe, 0]).unwrap();
    fs::write(folder.join("generation_config.json"), "not json").unwrap();
    let given = Given {
        name: None,
        overrides: None,
        size: 143_424.into(),
    };
    check(
        &entries(&folder, &given),
        &[("name", "Model"), ("size_label", "143K")],
    );
    // What cannot be read is told.
    let mut warnings = Vec::new();
    load(&folder, &given, &mut warnings).unwrap();
    assert!(
        warnings.len() == 1 && warnings[0].contains("generation_config.json: expected "),
        "{warnings:?}"
    );
    // More than any card needs; no byte of it is on the disk.
    let card = fs::File::create(folder.join("README.md")).unwrap();
    card.set_len((1 << 29) + 1).unwrap();
    load(&folder, &given, &mut warnings).unwrap();
    assert!(
        warnings[1].contains("README.md: more than "),
        "{warnings:?}"
    );
}
