//! Every code that a check can report, planted: the report names it, and little else.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use gristmill_gguf::Value;
use gristmill_measure::check::{GROUPS, Loads, Options, Report, Severity, check};
use sha2::Digest as _;

use crate::faults::{groups, q8_0, shards, write, write_bytes};
use crate::model::{codes, report, sound};

/// Codes that need more than a file; each has a test of its own below.
const ELSEWHERE: &[&str] = &[
    "data-unreadable",
    "hash-match",
    "hash-mismatch",
    "hash-unlisted",
    "hash-unreadable",
    "size-mismatch",
];

#[test]
fn the_sound_model_is_sound() {
    let folder = tempfile::tempdir().unwrap();
    for path in [
        write(folder.path(), &sound()),
        shards(folder.path(), |_, model| model),
    ] {
        let report = report(&path);
        assert_eq!(report.findings, [], "{}", path.display());
        let loads: Vec<Loads> = report
            .verdicts
            .iter()
            .map(|verdict| verdict.loads)
            .collect();
        assert_eq!(loads, [Loads::Yes, Loads::Yes], "{:?}", report.verdicts);
    }
}

#[test]
fn every_code_is_planted_and_found() {
    let mut planted = BTreeSet::new();
    for (code, plant) in groups().into_iter().flatten() {
        let folder = tempfile::tempdir().unwrap();
        let report = report(&plant(folder.path()));
        let found = codes(&report);
        assert!(found.contains(code), "{code}: found {found:?}");
        assert!(planted.insert(*code), "{code} is planted twice");
        println!("{code}: {found:?}");
    }
    planted.extend(ELSEWHERE);
    let known = GROUPS.iter().flat_map(|group| group.codes);
    let known: BTreeSet<&str> = known.map(|code| code.name).collect();
    let unplanted: Vec<_> = known.difference(&planted).collect();
    assert!(unplanted.is_empty(), "codes without a test: {unplanted:?}");
    assert_eq!(known, planted);
}

#[test]
fn codes_are_unique_and_say_what_to_do() {
    let codes = GROUPS.iter().flat_map(|group| group.codes);
    let mut names: Vec<&str> = codes.clone().map(|code| code.name).collect();
    let n_codes = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), n_codes, "a code is there twice");
    assert!(GROUPS.is_sorted_by_key(|group| group.name));
    for code in codes {
        assert!(!code.about.is_empty(), "{}", code.name);
        assert!(
            code.severity == Severity::Note || !code.remedy.is_empty(),
            "{} has no remedy",
            code.name
        );
    }
}

fn with_list(path: &Path, list: &Path) -> Report {
    let options = Options {
        quick: false,
        checksums: Some(list),
        n_threads: 1,
        progress: &|_| (),
    };
    check(path, &options).unwrap()
}

#[test]
fn hashes_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), &sound());
    let bytes = std::fs::read(&path).unwrap();
    let digest = sha2::Sha256::digest(&bytes);
    let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let other = "0".repeat(64);
    for (list, code) in [
        (format!("{hash}  model.gguf\n"), "hash-match"),
        (format!("{other}  model.gguf\n"), "hash-mismatch"),
        (format!("{hash}  other.gguf\n"), "hash-unlisted"),
        (
            format!(
                r#"{{"quant_file": "model.gguf", "quant_sha256": "{hash}", "quant_bytes": 1}}"#
            ),
            "size-mismatch",
        ),
        (
            format!(
                r#"{{"quant_file": "model.gguf", "quant_sha256": "{hash}", "quant_bytes": {}}}"#,
                bytes.len()
            ),
            "hash-match",
        ),
    ] {
        let list = write_bytes(folder.path(), "list", list.as_bytes());
        assert_eq!(codes(&with_list(&path, &list)), [code]);
    }
    let list = write_bytes(folder.path(), "list", b"no list");
    let options = Options {
        quick: false,
        checksums: Some(&list),
        n_threads: 1,
        progress: &|_| (),
    };
    let error = check(&path, &options).unwrap_err();
    assert!(
        error.to_string().contains("is no list of hashes"),
        "{error}"
    );
    assert!(error.hint().is_some());
}

/// A shard that stands alone lacks what the first one holds, and nothing else.
#[test]
fn a_later_shard_alone_is_not_asked_for_the_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let first = shards(folder.path(), |_, model| model);
    let alone = folder.path().join("model-00003-of-00002.gguf");
    std::fs::copy(folder.path().join("model-00002-of-00002.gguf"), &alone).unwrap();
    std::fs::remove_file(first).unwrap();
    let found = codes(&report(&alone));
    assert_eq!(found, ["shard-mixed", "llama-not-first"]);
}

/// What happens to the second shard while the first one is read, by the stage of the check.
fn while_reading(
    stage: &str,
    list: Option<&Path>,
    path: &Path,
    happens: impl Fn() + Sync,
) -> Report {
    let happened = AtomicBool::new(false);
    let options = Options {
        quick: false,
        checksums: list,
        n_threads: 1,
        progress: &|progress| {
            if progress.stage == stage && !happened.swap(true, Ordering::SeqCst) {
                happens();
            }
        },
    };
    check(path, &options).unwrap()
}

#[test]
fn data_that_cannot_be_read_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let first = shards(folder.path(), |_, model| model);
    let second = folder.path().join("model-00002-of-00002.gguf");
    let vanished = while_reading("scan", None, &first, || {
        std::fs::remove_file(&second).unwrap();
    });
    assert_eq!(codes(&vanished), ["data-unreadable"]);
}

/// Its bytes were once read as the tensors of the file that had the name before.
#[test]
fn a_file_that_takes_a_name_meanwhile_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let first = shards(folder.path(), |_, model| model);
    let second = folder.path().join("model-00002-of-00002.gguf");
    let other = folder.path().join("other");
    std::fs::copy(&second, &other).unwrap();
    let replaced = while_reading("scan", None, &first, || {
        std::fs::rename(&other, &second).unwrap();
    });
    assert_eq!(codes(&replaced), ["data-unreadable"]);
    let text = &replaced.findings[0].text;
    assert_eq!(text, "has changed while it was being read");
}

#[test]
fn a_file_that_cannot_be_hashed_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let first = shards(folder.path(), |_, model| model);
    let second = folder.path().join("model-00002-of-00002.gguf");
    let lines = [&first, &second].map(|path| {
        let digest = sha2::Sha256::digest(std::fs::read(path).unwrap());
        let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = path.file_name().unwrap().to_str().unwrap();
        format!("{hash}  {name}\n")
    });
    let list = write_bytes(folder.path(), "list", lines.concat().as_bytes());
    let vanished = while_reading("hash", Some(&list), &first, || {
        std::fs::remove_file(&second).unwrap();
    });
    // The scan comes after the hashes.
    assert_eq!(
        codes(&vanished),
        ["hash-unreadable", "data-unreadable", "hash-match"]
    );
}

#[test]
fn a_quick_check_leaves_the_weights_alone() {
    let folder = tempfile::tempdir().unwrap();
    let nan = sound().with("blk.1.attn_k.weight", |tensor| tensor.data.fill(0xff));
    let path = write(folder.path(), &nan);
    let options = Options {
        quick: true,
        checksums: None,
        n_threads: 1,
        progress: &|progress| panic!("{progress:?}"),
    };
    let report = check(&path, &options).unwrap();
    assert_eq!(report.findings, []);
    assert!(report.skipped.iter().any(|(group, _)| *group == "data"));
}

/// The number of what is not finite, and where the first of it lies.
#[test]
fn numbers_that_are_not_finite_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let model = q8_0(sound(), "blk.0.attn_q.weight").with("blk.0.attn_q.weight", |tensor| {
        // The scales of blocks 3 and 5: NaN and infinity.
        tensor.data[3 * 34..3 * 34 + 2].copy_from_slice(&0x7e00u16.to_le_bytes());
        tensor.data[5 * 34..5 * 34 + 2].copy_from_slice(&0xfc00u16.to_le_bytes());
    });
    let path = write(folder.path(), &model);
    let report = report(&path);
    let finding = report
        .findings
        .iter()
        .find(|finding| finding.code == "not-finite")
        .unwrap();
    let n_blocks = 32 * 64 / 32;
    let expected = format!(
        "2 of {n_blocks} blocks (q8_0) have a scale that is not finite; the first is block 3, elements 96 to 127"
    );
    assert_eq!(finding.text, expected);
    let file = gristmill_gguf::File::open(&path).unwrap();
    let tensor = file.tensor("blk.0.attn_q.weight").unwrap();
    let offset = file.data_offset() + tensor.offset + 3 * 34;
    assert_eq!(finding.place.offset, Some(offset));
}

/// Several faults at once, each with its place; the tensor table is not held against what could not be read.
#[test]
fn a_damaged_file_gives_all_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let mut model = sound()
        .and_tensor("odd", &[32], 4, vec![1; 32])
        .and_tensor("output.weight", &[8], 0, vec![1; 32])
        .set("tokenizer.ggml.eos_token_id", 5000u32)
        .set("tokenizer.chat_template", "{% for %}");
    model
        .entries
        .push((b"llama.block_count".to_vec(), Value::U32(1)));
    let report = report(&write(folder.path(), &model));
    let found: BTreeSet<&str> = codes(&report).into_iter().collect();
    for code in [
        "duplicate-key",
        "duplicate-tensor",
        "tensor-type",
        "token-id",
        "template-syntax",
        "tensors-unchecked",
    ] {
        assert!(found.contains(code), "{code}: {found:?}");
    }
    assert!(!found.contains("tensor-missing"), "{found:?}");
    assert_eq!(report.verdicts[0].loads, Loads::No);
}

/// A long list is cut, and what is cut is counted.
#[test]
fn of_many_findings_the_first_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let mut model = sound();
    for index in 0..50 {
        model = model.and_tensor(&format!("odd.{index}"), &[8], 0, vec![1; 32]);
    }
    let report = report(&write(folder.path(), &model));
    assert_eq!(report.unlisted, [("tensor-unknown", 40)]);
    assert_eq!(report.count(Severity::Error), 50);
}

/// B10: arrays of a wrong type or length, and ids out of range, each under its name; integers of any width will do.
#[test]
fn b10_vocabularies_that_hit_others() {
    let words = || sound().vocabulary_only();
    let n_tokens = 260;
    let types = |id: usize| if id < n_tokens - 3 { 1 } else { 3 };
    let wide: Vec<i64> = (0..n_tokens).map(|id| types(id) as i64).collect();
    let unsigned: Vec<u32> = (0..n_tokens).map(|id| types(id) as u32).collect();
    let twice: Vec<String> = (0..n_tokens).map(|id| format!("t{}", id / 2)).collect();
    let unigram = || {
        let model = words().set("tokenizer.ggml.model", "t5");
        model.without("tokenizer.ggml.bos_token_id")
    };
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    for (model, code) in [
        (
            words().set(&key("scores"), vec![0i8; n_tokens]),
            "array-type",
        ),
        (words().set(&key("scores"), vec![0.0f32; 3]), "array-length"),
        (
            words().set(&key("token_type"), unsigned),
            "llama-token-type",
        ),
        (words().set(&key("token_type"), wide), "llama-token-type"),
        (words().set(&key("eos_token_id"), u32::MAX), "token-id"),
        (words().set(&key("tokens"), twice), "duplicate-token"),
        (unigram().set(&key("add_bos_token"), true), "nothing-to-add"),
        (
            unigram().set(&key("precompiled_charsmap"), vec![1u8]),
            "charsmap",
        ),
        (
            words().set(&key("merges"), vec!["ab".to_owned()]),
            "bad-merge",
        ),
        (words().set(&key("tokens"), vec![1u8; 10]), "tokens"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let report = report(&write(folder.path(), &model));
        let found = codes(&report);
        assert!(found.contains(&code), "{code}: {found:?}");
        let errors = report.count(Severity::Error);
        assert_eq!(errors > 0, code != "llama-token-type", "{code}: {found:?}");
    }
}

/// A download that ended early is one finding, whatever the number of tensors that are missing.
#[test]
fn a_cut_file_is_one_finding() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = sound().bytes();
    let path = write_bytes(folder.path(), "cut.gguf", &bytes[..bytes.len() / 2]);
    let report = report(&path);
    assert_eq!(report.count(Severity::Error), 1, "{:#?}", report.findings);
    let finding = &report.findings[0];
    let (needed, has) = (bytes.len(), bytes.len() / 2);
    let expected = format!("lie behind the end: they need {needed} bytes, but the file has {has}");
    assert!(finding.text.ends_with(&expected), "{}", finding.text);
}

#[test]
fn the_documents_list_every_code() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/is-this-file-sound.md");
    let page = std::fs::read_to_string(page).unwrap();
    for group in GROUPS {
        let line = format!("| {} | {} |", group.name, group.about);
        assert!(page.contains(&line), "not in the page: {line}");
        for code in group.codes {
            let (name, severity) = (code.name, code.severity.name());
            let line = format!("| `{name}` | {severity} | {} |", code.about);
            assert!(page.contains(&line), "not in the page: {line}");
        }
    }
}

/// llama.cpp's reader asks less of keys and truth values, and takes the first of two files; its loader asks for types.
#[test]
fn llama_loads_what_its_reader_takes_and_no_key_of_another_type() {
    let folder = tempfile::tempdir().unwrap();
    let loads = |path: &Path, engine: usize| report(path).verdicts[engine].loads;
    for code in ["key-form", "bool"] {
        let plants = groups().into_iter().flatten();
        let (_, plant) = plants.into_iter().find(|(name, _)| *name == code).unwrap();
        let path = plant(folder.path());
        assert_eq!(loads(&path, 0), Loads::No, "{code}");
        assert_eq!(loads(&path, 1), Loads::Yes, "{code}");
    }
    let glued = [sound().bytes(), sound().bytes()].concat();
    let path = write_bytes(folder.path(), "glued.gguf", &glued);
    assert_eq!(codes(&report(&path)), ["glued"]);
    assert_eq!((loads(&path, 0), loads(&path, 1)), (Loads::Yes, Loads::Yes));
    let wrong: [(&str, Value); 16] = [
        ("general.name", 5u32.into()),
        ("llama.attention.key_length", 8u64.into()),
        ("llama.attention.value_length", 8i32.into()),
        ("llama.rope.dimension_count", 8u64.into()),
        ("llama.rope.scaling.attn_factor", 1f64.into()),
        ("llama.rope.scaling.original_context_length", 8u64.into()),
        ("llama.expert_group_count", 1u64.into()),
        ("tokenizer.ggml.add_sep_token", "x".into()),
        ("tokenizer.ggml.remove_extra_whitespaces", 1u8.into()),
        ("tokenizer.ggml.normalizer.lowercase", 1u8.into()),
        ("tokenizer.ggml.token_type_count", 1u64.into()),
        ("tokenizer.ggml.fim_pre_token_id", 1i32.into()),
        ("tokenizer.ggml.prefix_token_id", 1u64.into()),
        ("tokenizer.ggml.middle_token_id", 1i64.into()),
        ("tokenizer.ggml.eot_token_id", 1u64.into()),
        ("tokenizer.ggml.suppress_tokens", vec![1u32].into()),
    ];
    for (key, value) in wrong {
        let report = report(&write(folder.path(), &sound().set(key, value)));
        assert!(
            codes(&report).contains(&"llama-key-type"),
            "{key}: {:?}",
            codes(&report)
        );
        assert_eq!(report.verdicts[1].loads, Loads::No, "{key}");
    }
}

#[test]
fn texts_of_megabytes_are_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let model = sound().set("general.architecture", "x".repeat(1 << 20));
    let report = report(&write(folder.path(), &model));
    for finding in &report.findings {
        assert!(finding.text.len() < 5000, "{}", finding.code);
    }
    for reason in report.verdicts.iter().flat_map(|verdict| &verdict.reasons) {
        assert!(reason.len() < 5000, "{}", &reason[..100]);
    }
    let answers = &report.review.answers;
    assert!(answers.iter().all(|answer| answer.text.len() < 5000));
}
