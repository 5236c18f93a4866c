//! Every command that writes, cut short: killed at any moment, stopped by Ctrl-C, on a disk that is full. Inputs stay, and
//! no output is partial. What a kill leaves of an edit in place is in `edit`.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::containers::{model, read};
use crate::fixtures::wide_checkpoint;
use crate::harness::{Workplace, send, wait};
use crate::small_disk::SmallDisk;

/// Command lines by name, which write to names that begin with `OUT`.
const LINES: [(&str, &str); 10] = [
    (
        "split",
        "gristmill split --split-max-tensors 3 model.gguf OUT",
    ),
    ("merge", "gristmill merge in-00003-of-00004.gguf OUT.gguf"),
    ("endian", "gristmill endian model.gguf OUT.gguf big"),
    (
        "edit to another file",
        "gristmill edit model.gguf --general-name other --output OUT.gguf",
    ),
    (
        "convert",
        "gristmill convert large --outtype bf16 --outfile OUT.gguf",
    ),
    (
        "convert to a recipe",
        "gristmill convert large --outtype q4_k_m --outfile OUT.gguf",
    ),
    (
        "convert to a set",
        "gristmill convert large --outtype bf16 --split-max-tensors 10 --outfile OUT.gguf",
    ),
    ("quantize", "gristmill quantize large.gguf OUT.gguf Q5_K_M"),
    (
        "quantize to a set",
        "gristmill quantize --keep-split large-00001-of-00004.gguf OUT.gguf Q8_0",
    ),
    ("hash", "gristmill hash --all --uuid model.gguf"),
];

/// How often each command is killed: `GRISTMILL_KILLS`, or a few times.
pub fn n_kills() -> u32 {
    let asked = std::env::var("GRISTMILL_KILLS").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(12)
}

/// The inputs of all lines: files of a few MiB, as every command writes at least as much.
fn inputs(place: &Workplace) -> BTreeMap<String, Vec<u8>> {
    model(place, "model.gguf", 12, 4096);
    wide_checkpoint(place, 20_000);
    for line in [
        "gristmill split --split-max-tensors 3 model.gguf in",
        "gristmill convert large --outtype bf16 --outfile large.gguf",
        "gristmill split --split-max-tensors 10 large.gguf large",
    ] {
        let prepared = place.run(line);
        assert!(prepared.starts_with("exit: 0"), "{prepared}");
    }
    contents(place, |_| true)
}

fn contents(place: &Workplace, is_meant: impl Fn(&str) -> bool) -> BTreeMap<String, Vec<u8>> {
    let names = place.files().into_iter().filter(|name| is_meant(name));
    names
        .map(|name| (name.clone(), read(place, &name)))
        .collect()
}

/// Outputs that have their final names.
fn is_output(name: &str) -> bool {
    name.starts_with("out") && !name.ends_with(".part")
}

fn clean(place: &Workplace) {
    for name in place.files().iter().filter(|name| name.starts_with("out")) {
        std::fs::remove_file(place.path(name)).expect("it is there");
    }
}

/// Starts a command line and sends a signal after a while. Whether that ended it.
fn stopped(place: &Workplace, line: &str, after: Duration, signal: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    let mut child = place
        .command(words[0])
        .args(&words[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    std::thread::sleep(after);
    send(&child, signal);
    !wait(&mut child).success()
}

#[test]
fn at_any_moment_inputs_are_intact_and_no_output_is_partial() {
    let place = Workplace::new();
    let inputs = inputs(&place);
    let mut state = 12345u64;
    for (name, line) in LINES {
        let line = line.replace("OUT", "out");
        let started = Instant::now();
        let outcome = place.run(&line);
        let whole = started.elapsed();
        assert!(outcome.starts_with("exit: 0"), "{outcome}");
        let expected = contents(&place, is_output);
        clean(&place);
        let (mut n_midway, mut round) = (0, 0);
        // A machine that is busy with other things may be late each time: then more tries are made.
        while round < n_kills() || (n_midway == 0 && round < n_kills() + 100) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let share = (state >> 40) as f64 / (1u64 << 24) as f64;
            // Every fourth time Ctrl-C, after which nothing at all is left.
            let signal = if round % 4 == 3 { "-INT" } else { "-KILL" };
            n_midway += u32::from(stopped(&place, &line, whole.mul_f64(share), signal));
            check_remains(&place, name, signal, &inputs, &expected);
            clean(&place);
            round += 1;
        }
        println!("{name}: stopped midway {n_midway} of {round} times");
        assert!(n_midway > 0, "{name}: {round} signals all came too late");
    }
}

/// Looks at what a stopped command left.
fn check_remains(
    place: &Workplace,
    name: &str,
    signal: &str,
    inputs: &BTreeMap<String, Vec<u8>>,
    expected: &BTreeMap<String, Vec<u8>>,
) {
    let left = contents(place, |file| !file.ends_with(".part"));
    for (input, bytes) in inputs {
        assert!(
            left.get(input) == Some(bytes),
            "{name}: {input} was changed"
        );
    }
    let outputs: Vec<(&String, &Vec<u8>)> = left
        .iter()
        .filter(|(file, _)| !inputs.contains_key(*file))
        .collect();
    for (output, bytes) in &outputs {
        let whole = expected.get(*output);
        assert!(whole.is_some(), "{name}: left {output}");
        assert!(whole == Some(bytes), "{name}: {output} is partial");
    }
    // A set without its first file is whole to nobody.
    let first = expected.keys().next();
    let has_first = outputs.iter().any(|(output, _)| Some(*output) == first);
    assert!(
        outputs.len() == expected.len() || !has_first,
        "{name}: left {} of {} files",
        outputs.len(),
        expected.len()
    );
    // Before its handler stands, Ctrl-C is a kill, but nothing is begun by then either.
    let has_part = place.files().iter().any(|file| file.ends_with(".part"));
    assert!(signal == "-KILL" || !has_part, "{name}: left a part");
}

#[test]
fn b41_a_full_disk_is_told_of_and_left_clean() {
    let place = Workplace::new();
    let before = inputs(&place);
    let disk = place.path("disk");
    let Some(_mounted) = SmallDisk::mount(&disk, 2) else {
        return;
    };
    for (name, line) in LINES.iter().filter(|(_, line)| line.contains("OUT")) {
        let outcome = place.run(&line.replace("OUT", "disk/out"));
        assert!(outcome.starts_with("exit: 1"), "{name}\n{outcome}");
        assert!(
            outcome.contains("but the disk has") && outcome.contains("hint: free some space"),
            "{name}\n{outcome}"
        );
        let left = std::fs::read_dir(&disk).expect("it can be read").count();
        assert_eq!(left, 0, "{name}");
    }
    assert!(contents(&place, |_| true) == before);
}
