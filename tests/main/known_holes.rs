//! Holes that other readers of GGUF files had, each tried on every command that reads a file: an ordinary error, at once,
//! without an output and in little memory.

use std::process::Stdio;
use std::time::{Duration, Instant};

use insta::assert_snapshot;

use crate::bytes::{Bytes, F32};
use crate::harness::Workplace;

/// The id of the type I8, whose elements have one byte.
const I8: u32 = 24;
/// What the address space of a command is limited to, in KiB: sizes that a file claims are far above it.
const ADDRESS_SPACE_KIB: u32 = 2 << 20;
const TIME_MAX: Duration = Duration::from_secs(5);

/// A file of a model as far as its metadata goes.
fn file() -> Bytes {
    Bytes::new().entry_string("general.architecture", b"llama")
}

/// Tries all commands on `hole.gguf`, and gives what `inspect` says, which the others say too.
fn refused(place: &Workplace, file: &Bytes) -> String {
    place.write("hole.gguf", file.build());
    let shown = limited(place, "inspect hole.gguf");
    let error = shown.lines().find(|line| line.starts_with("error: "));
    let error = error.unwrap_or_else(|| panic!("no error:\n{shown}"));
    for line in [
        "run -m hole.gguf -p a -n 1",
        "quantize hole.gguf out.gguf Q8_0",
        "split --split-max-tensors 1 hole.gguf out",
        "edit hole.gguf --general-name x",
        "endian hole.gguf out.gguf big",
        "hash hole.gguf",
        "tokenize -m hole.gguf -p a",
    ] {
        let shown = limited(place, line);
        assert!(shown.starts_with("exit: 1\n"), "{line}\n{shown}");
        assert!(shown.contains(error), "{line}\n{shown}");
    }
    for line in ["check hole.gguf", "check hole.gguf --json"] {
        let shown = limited(place, line);
        assert!(shown.starts_with("exit: 1\n"), "{line}\n{shown}");
        assert!(shown.contains("llama.cpp"), "{line}\n{shown}");
    }
    assert_eq!(place.files(), ["hole.gguf"]);
    shown
}

/// Runs a command in a small address space; it has to end soon.
fn limited(place: &Workplace, line: &str) -> String {
    let binary = place.command("gristmill");
    let started = Instant::now();
    let output = std::process::Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -v {ADDRESS_SPACE_KIB}; exec \"$0\" {line}"))
        .arg(binary.get_program())
        .current_dir(place.path("."))
        .stdin(Stdio::null())
        .output()
        .expect("the binary starts");
    assert!(started.elapsed() < TIME_MAX, "{line}");
    place.show(&output)
}

/// Memory behind the file was read as weights, and came out in the quantized file.
#[test]
fn cve_2026_7482_tensor_end_beyond_the_file() {
    let place = Workplace::new();
    let claims_more = file()
        .tensor("output_norm.weight", &[8], F32, 0)
        .tensor("token_embd.weight", &[32, 1000], F32, 32)
        .data(&[0; 160]);
    assert_snapshot!(refused(&place, &claims_more), @r#"
    exit: 1
    --- stderr
    error: hole.gguf: tensor "token_embd.weight" ends at byte 128224, but the file has 352 bytes
    hint: the file is incomplete; compare its size and hash with its source and fetch it again
    "#);
    let lies_behind = file()
        .tensor("output_norm.weight", &[8], F32, 0)
        .tensor("token_embd.weight", &[32], F32, 1 << 20)
        .data(&[0; 160]);
    assert_snapshot!(refused(&place, &lies_behind), @r#"
    exit: 1
    --- stderr
    error: hole.gguf: tensor "token_embd.weight" ends at byte 1048896, but the file has 352 bytes
    hint: the file is incomplete; compare its size and hash with its source and fetch it again
    "#);
}

/// The sum of the tensors' sizes wrapped to a small number, by which memory was reserved.
#[test]
fn cve_2025_53630_sum_of_sizes_wraps() {
    let place = Workplace::new();
    let quarter =
        |file: Bytes, n: u64| file.tensor(&format!("t{n}"), &[1 << 30, 1 << 30], F32, n << 62);
    let wraps = (0..4).fold(file(), quarter).data(&[0; 64]);
    assert_snapshot!(refused(&place, &wraps), @r#"
    exit: 1
    --- stderr
    error: hole.gguf: tensor "t0" ends at byte 4611686018427388160, but the file has 320 bytes
    hint: the file is incomplete; compare its size and hash with its source and fetch it again
    "#);
    let product = file().tensor("t", &[u64::MAX, 2], F32, 0).data(&[0; 64]);
    assert_snapshot!(refused(&place, &product), @r#"
    exit: 1
    --- stderr
    error: hole.gguf: tensor "t": the number of elements of [18446744073709551615, 2] does not fit in 63 bits
    hint: the file is damaged, or was made by a faulty tool; compare its hash with its source and fetch or convert it again
    "#);
}

/// The sum did not wrap, as the check that answered the hole above asked for; what was added to it then did.
#[test]
fn cve_2026_27940_sum_of_sizes_just_below_the_limit() {
    let place = Workplace::new();
    let half = (1 << 63) - 32;
    let below = file()
        .tensor("one", &[half], I8, 0)
        .tensor("two", &[half], I8, half)
        .data(&[0; 64]);
    assert_snapshot!(refused(&place, &below), @r#"
    exit: 1
    --- stderr
    error: hole.gguf: tensor "one" ends at byte 9223372036854775936, but the file has 224 bytes
    hint: the file is incomplete; compare its size and hash with its source and fetch it again
    "#);
}

/// A division by the alignment.
#[test]
fn cve_2025_0317_alignment_zero() {
    let place = Workplace::new();
    let zero = file()
        .entry_u32("general.alignment", 0)
        .tensor("w", &[8], F32, 0)
        .data(&[0; 32]);
    assert_snapshot!(refused(&place, &zero), @r"
    exit: 1
    --- stderr
    error: hole.gguf: general.alignment is UINT32 0; it must be a UINT32 that is a multiple of 8
    hint: the file is damaged, or was made by a faulty tool; compare its hash with its source and fetch or convert it again
    ");
}

/// Padding of gigabytes was made up in memory, for a file of 100 bytes.
#[test]
fn an_alignment_of_gigabytes_is_not_written() {
    let place = Workplace::new();
    let huge = file().entry_u32("general.alignment", u32::MAX - 7);
    place.write("huge.gguf", huge.build());
    place.write(
        "small.gguf",
        file().tensor("w", &[8], F32, 0).data(&[0; 32]).build(),
    );
    assert_snapshot!(limited(&place, "split --dry-run huge.gguf out"), @r#"
    exit: 1
    --- stderr
    error: out-00001-of-00001.gguf: metadata key "general.alignment" cannot be written: 4294967288 bytes; files are written with at most 1048576
    "#);
    assert_snapshot!(
        limited(&place, "edit small.gguf --set general.alignment=u32:4294967288 --force"),
        @r#"
    exit: 1
    --- stderr
    error: small.gguf: metadata key "general.alignment" cannot be written: 4294967288 bytes; files are written with at most 1048576
    "#
    );
    for line in [
        "split huge.gguf out",
        "edit huge.gguf --general-name x",
        "edit huge.gguf --general-name x --output out.gguf",
        "edit huge.gguf --remove general.alignment --force",
        "quantize huge.gguf out.gguf Q8_0",
    ] {
        let shown = limited(&place, line);
        assert!(shown.starts_with("exit: 1\n"), "{line}\n{shown}");
    }
    // It can be read: what it says of itself is compared with its size.
    let shown = limited(&place, "inspect huge.gguf");
    assert!(shown.starts_with("exit: 0\n"), "{shown}");
    assert_eq!(place.files(), ["huge.gguf", "small.gguf"]);
}
