//! B03: a file that lies about its size costs no memory, and no other trick of a small file does. A process of its own, since the measure is
//! the peak of the whole process.

#![cfg(target_os = "linux")]

#[path = "gguf/bytes.rs"]
#[allow(dead_code)]
mod bytes;

use bytes::Bytes;
use gristmill_gguf::{Error, ShardLimits, SplitOptions, split};

/// The most memory this process ever had resident, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// By how many KiB the peak grows meanwhile. The largest demands come last, since a peak hides what is below it.
fn growth_kib(work: impl FnOnce()) -> u64 {
    let before = peak_kib();
    work();
    peak_kib() - before
}

#[test]
fn hostile_files_cost_no_memory() {
    let grown = growth_kib(|| {
        for bytes in &lies() {
            assert!(bytes::open(bytes).is_err());
        }
    });
    assert!(grown < 4096, "lies about sizes: {grown} KiB");
    let grown = growth_kib(one_array_of_ten_thousand_faults);
    assert!(grown < 4096, "faults: {grown} KiB");
    let grown = growth_kib(a_set_planned_with_padding_of_4_gib);
    assert!(grown < 4096, "padding: {grown} KiB");
    let grown = growth_kib(a_big_endian_file_of_8_gib_of_nothing);
    assert!(grown < 4096, "turning around: {grown} KiB");
}

/// A fault once held the key, for each of the elements.
fn one_array_of_ten_thousand_faults() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let key = "k".repeat(65_535);
    let file = Bytes::new().entry_array(&key, 7, 10_000, &[2; 10_000]);
    std::fs::write(&path, file.entry_u32("last", 1).build()).unwrap();
    let survey = gristmill_gguf::File::survey(&path);
    assert_eq!(survey.faults.len(), 1);
    let text = survey.faults[0].to_string();
    assert!(
        text.contains("a BOOL of 2, neither 0 nor 1, and 9999 more of its elements"),
        "{}",
        &text[text.len() - 200..]
    );
    assert!(survey.file.unwrap().metadata().contains("last"));
}

/// The zeros behind a header were once made in memory.
fn a_set_planned_with_padding_of_4_gib() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let file = Bytes::new().entry_u32("general.alignment", 4_294_967_288);
    std::fs::write(&path, file.build()).unwrap();
    let options = SplitOptions {
        input: path,
        prefix: folder.path().join("part"),
        limits: ShardLimits::default(),
        dry_run: true,
        force: false,
        as_reference: true,
    };
    // It is refused by now, in little memory all the same.
    let error = split(&options, &mut |_| {}).expect_err("the padding is too long");
    assert!(error.to_string().contains("general.alignment"), "{error}");
}

/// What lies behind the last tensor was once copied along.
fn a_big_endian_file_of_8_gib_of_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let file = Bytes::big().tensor("w", &[8], bytes::F32, 0);
    let data: Vec<u8> = [1.5f32; 8].iter().flat_map(|x| x.to_be_bytes()).collect();
    std::fs::write(&path, file.data(&data).build()).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(8 << 30).unwrap();
    let file = gristmill_gguf::File::open(&path).unwrap();
    assert_eq!(file.size(), 8 << 30);
    let info = file.tensor("w").unwrap();
    assert_eq!(file.data(info)[..4], 1.5f32.to_le_bytes());
}

fn lies() -> Vec<Vec<u8>> {
    let counts = Bytes::counts;
    let mut lies = vec![
        counts(Some(1 << 62), None),
        counts(None, Some(1 << 63)),
        counts(Some(999_999), Some(0)),
    ];
    for element in 0..13 {
        lies.push(
            Bytes::new()
                .entry_array("k", element, 1 << 60, &[0; 64])
                .build(),
        );
        lies.push(
            Bytes::new()
                .entry_array("k", element, 99_999_999, &[0; 64])
                .build(),
        );
    }
    lies.push(
        Bytes::new()
            .entry("k", 8, &(200u64 << 20).to_le_bytes())
            .build(),
    );
    lies.push(
        Bytes::new()
            .tensor("w", &[1 << 40, 1 << 20], 0, 0)
            .data(&[0; 64])
            .build(),
    );
    lies
}

/// Names the file to the test below, where it runs under a limit.
const TOO_LARGE: &str = "GRISTMILL_TEST_TOO_LARGE";

#[test]
fn a_big_endian_file_that_does_not_fit_into_memory_is_refused() {
    if let Some(path) = std::env::var_os(TOO_LARGE) {
        let error = gristmill_gguf::File::open(path.as_ref()).expect_err("it does not fit");
        assert!(matches!(error, Error::TooLargeToTurn { .. }), "{error}");
        assert!(
            error
                .hint()
                .is_some_and(|hint| hint.contains("gristmill endian"))
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let file = Bytes::big().tensor("w", &[2 << 30], bytes::F32, 0);
    std::fs::write(&path, file.data(&[0; 32]).build()).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(9 << 30).unwrap();
    // There is room for the map, and not for the copy too.
    let limited = "ulimit -v 12582912 && exec \"$0\" --exact a_big_endian_file_that_does_not_fit_into_memory_is_refused";
    let status = std::process::Command::new("sh")
        .args(["-c", limited])
        .arg(std::env::current_exe().unwrap())
        .env(TOO_LARGE, &path)
        .status();
    assert!(status.unwrap().success());
}
