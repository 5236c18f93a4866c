//! What the commands do when all goes well, and the forms of help and usage errors.

use insta::assert_snapshot;

use crate::fixtures::{self, tiny_in_f32};
use crate::harness::{Workplace, tiny};

#[test]
fn version_names_commit_target_instruction_set_and_backends() {
    let shown = Workplace::new().run("gristmill --version");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "exit: 0");
    let starts = [
        "gristmill ",
        "commit: ",
        "target: ",
        "instruction set: ",
        "backends: cpu",
    ];
    assert_eq!(lines[2..].len(), starts.len(), "{shown}");
    for (line, start) in lines[2..].iter().zip(starts) {
        assert!(line.starts_with(start), "{shown}");
    }
}

#[test]
fn wrong_usage_exits_with_2_and_under_a_reference_name_with_1() {
    let place = Workplace::new();
    assert_snapshot!(place.run("gristmill links"), @r"
    exit: 2
    --- stderr
    error: the following required arguments were not provided:
      <DIR>

    Usage: gristmill links <DIR>

    For more information, try '--help'.
    ");
    assert_snapshot!(place.run("gristmill grind"), @r"
    exit: 2
    --- stderr
    error: unrecognized subcommand 'grind'

    Usage: gristmill <COMMAND>

    For more information, try '--help'.
    ");
    for line in [
        "llama-quantize --grind",
        "llama-cli --grind",
        "llama-tokenize",
    ] {
        let outcome = place.run(line);
        assert!(outcome.starts_with("exit: 1\n"), "{line}\n{outcome}");
    }
}

#[test]
fn every_command_has_help_with_examples() {
    let place = Workplace::new();
    let help = place.run("gristmill --help");
    let commands = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    let names: Vec<&str> = commands
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.contains(&"links"), "{help}");
    for name in names.iter().filter(|name| **name != "help") {
        let help = place.run(&format!("gristmill {name} --help"));
        assert!(help.starts_with("exit: 0\n--- stdout\n"), "{name}: {help}");
        assert!(help.contains("\nExamples:\n  "), "{name}: {help}");
    }
}

#[test]
fn links_are_made_for_the_reference_names_and_never_replace_a_file_unasked() {
    let place = Workplace::new();
    let made = place.run("gristmill links bin");
    assert!(made.starts_with("exit: 0"), "{made}");
    let link = place.path("bin/llama-tokenize");
    let help = std::process::Command::new(&link)
        .arg("--help")
        .output()
        .expect("the link runs");
    assert!(
        String::from_utf8_lossy(&help.stdout).contains("Usage: llama-tokenize"),
        "{}",
        place.show(&help)
    );
    // A Python script's exit code.
    let script = std::process::Command::new(place.path("bin/convert_hf_to_gguf.py"))
        .arg("--frobnicate")
        .output()
        .expect("the link runs");
    assert!(place.show(&script).starts_with("exit: 2"));
    place.write("file", "text");
    let refused = place.run("gristmill links file");
    assert!(refused.contains("error: file: is no folder"), "{refused}");
    // Links that are right already are in nobody's way; anything else is.
    assert_eq!(place.run("gristmill links bin"), made);
    std::fs::remove_file(&link).expect("it is there");
    std::fs::write(&link, "another program").expect("it can be written");
    let again = place.run("gristmill links bin");
    assert!(
        again.starts_with("exit: 1\n--- stderr\nerror: bin/llama-"),
        "{again}"
    );
    assert!(
        again
            .ends_with("hint: give --force to replace the files of these names, or another folder"),
        "{again}"
    );
    assert!(
        place
            .run("gristmill links --force bin")
            .starts_with("exit: 0")
    );
}

#[test]
fn a_closed_pipe_is_a_quiet_end() {
    use std::process::Stdio;
    let place = Workplace::new();
    let mut command = place.command("gristmill");
    let mut child = command.args(["convert", "--print-supported-models"]);
    child = child.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().expect("the binary starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).as_ref()
        ),
        (Some(0), "")
    );
}

#[test]
fn a_closed_pipe_hides_no_verdict() {
    let place = Workplace::new();
    let tiny = tiny().display().to_string();
    place.run_words(&["gristmill", "convert", &tiny, "--outfile", "good.gguf"]);
    let bytes = std::fs::read(place.path("good.gguf")).expect("it was written");
    place.write("bad.gguf", &bytes[..100_000]);
    place.write("list", format!("{}  good.gguf\n", "0".repeat(64)));
    for (line, code) in [
        ("check bad.gguf", 1),
        ("check bad.gguf --json", 1),
        ("check good.gguf --checksums list", 1),
        ("hash good.gguf --check list", 1),
        ("diff good.gguf bad.gguf", 2),
        ("check good.gguf --quick", 0),
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        drop(reader);
        let mut command = place.command("gristmill");
        let output = command.args(line.split(' ')).stdout(writer).output();
        let code_there = output.expect("the binary starts").status.code();
        assert_eq!(code_there, Some(code), "{line}");
    }
}

#[test]
fn the_demo_converts_quantizes_and_speaks() {
    let place = Workplace::new();
    let outcome = place.run("gristmill demo");
    assert!(outcome.starts_with("exit: 0\n"), "{outcome}");
    for command in [
        "$ gristmill convert gristmill-demo/tiny",
        "$ gristmill quantize",
        "$ gristmill run -m",
    ] {
        assert!(outcome.contains(command), "{outcome}");
    }
    assert!(place.path("gristmill-demo/tiny-BF16.gguf").exists());
    assert!(place.path("gristmill-demo/tiny-Q4_K_M.gguf").exists());
    // The same seed gives the same text, and the files of an earlier demo are in nobody's way.
    let text = |outcome: &str| outcome.split("--- stderr").next().map(String::from);
    assert_eq!(text(&place.run("gristmill demo")), text(&outcome));
}

#[test]
fn the_pipeline_leaves_models_reports_and_a_manifest() {
    let place = Workplace::new();
    let tiny = tiny().to_string_lossy().to_string();
    let words = ["gristmill", "pipeline", &tiny, "Tiny", "q4_k_m"];
    let outcome = place.run_words(&words);
    assert!(outcome.starts_with("exit: 0\n"), "{outcome}");
    assert_eq!(
        place.files(),
        [
            "models/bf16/Tiny-BF16.gguf",
            "models/bf16/Tiny-BF16.source.json",
            "models/quant/Tiny-Q4_K_M.gguf",
            "reports/Tiny-Q4_K_M/bench.txt",
            "reports/Tiny-Q4_K_M/bf16-smoke.log",
            "reports/Tiny-Q4_K_M/bf16.sha256",
            "reports/Tiny-Q4_K_M/convert.log",
            "reports/Tiny-Q4_K_M/environment.txt",
            "reports/Tiny-Q4_K_M/manifest.json",
            "reports/Tiny-Q4_K_M/quant-smoke.log",
            "reports/Tiny-Q4_K_M/quant.sha256",
            "reports/Tiny-Q4_K_M/quantize.log",
            "reports/Tiny-Q4_K_M/sizes.txt",
        ]
    );
    let read = |name: &str| {
        std::fs::read_to_string(place.path("reports/Tiny-Q4_K_M").join(name)).expect("it is there")
    };
    let manifest: gristmill_pipeline::Manifest =
        serde_json::from_str(&read("manifest.json")).expect("it is JSON");
    let hash = gristmill_pipeline::hash_file(&place.path(&manifest.quant_file))
        .expect("the file is there");
    assert_eq!(
        (manifest.quant_sha256, manifest.quant_bytes),
        (hash.sha256, hash.bytes)
    );
    let bench = read("bench.txt");
    assert!(
        bench.contains("| pp256 |") && bench.contains("| tg128 |"),
        "{bench}"
    );
    assert!(
        bench.contains("pp512 was cut to 256 tokens: the model's context has 256"),
        "{bench}"
    );

    assert!(bench.contains("pp2048 was cut to 256 tokens"), "{bench}");

    let before = place.files();
    let again = place.run_words(&words);
    assert!(
        again.starts_with(
            "exit: 1\n--- stderr\nerror: models/quant/Tiny-Q4_K_M.gguf: already exists"
        ),
        "{again}"
    );
    assert!(again.ends_with("or choose another name"), "{again}");
    assert_eq!(place.files(), before);
    let forced = place
        .command(words[0])
        .args(&words[1..])
        .env("FORCE", "1")
        .output()
        .expect("it starts");
    assert!(forced.status.success(), "{}", place.show(&forced));
    assert_eq!(place.files(), before);
}

#[test]
fn one_step_equals_two_from_every_float_type() {
    let place = Workplace::new();
    let (bf16, f32) = (tiny(), tiny_in_f32(&place));
    for (checkpoint, float) in [(bf16, "bf16"), (f32, "f32")] {
        let checkpoint = checkpoint.to_string_lossy().to_string();
        for (ty, output) in [("q4_k_m", "one.gguf"), (float, "between.gguf")] {
            let words = [
                "gristmill",
                "convert",
                &checkpoint,
                "--model-name",
                "Tiny",
                "--outtype",
                ty,
                "--outfile",
                output,
            ];
            let outcome = place.run_words(&words);
            assert!(outcome.starts_with("exit: 0"), "{outcome}");
        }
        let outcome = place.run("gristmill quantize between.gguf two.gguf Q4_K_M");
        assert!(outcome.starts_with("exit: 0"), "{outcome}");
        let read = |name: &str| std::fs::read(place.path(name)).expect("it is there");
        assert!(
            read("one.gguf") == read("two.gguf"),
            "{float}: one step differs from two"
        );
        for name in ["one.gguf", "two.gguf", "between.gguf"] {
            std::fs::remove_file(place.path(name)).expect("it can be removed");
        }
    }
}

#[test]
fn the_output_of_quantize_is_derived_where_none_is_named_and_does_not_depend_on_threads() {
    let place = Workplace::new();
    std::fs::copy(fixtures::small_model(), place.path("a.gguf")).expect("the model can be copied");
    assert!(
        place
            .run("gristmill quantize a.gguf q4_k_m 1")
            .starts_with("exit: 0")
    );
    assert!(
        place
            .run("llama-quantize --verbose a.gguf three.gguf 15 3")
            .starts_with("exit: 0")
    );
    let read = |name: &str| std::fs::read(place.path(name)).expect("it is there");
    assert!(read("ggml-model-Q4_K_M.gguf") == read("three.gguf"));
    let dry = place.run("gristmill quantize --dry-run a.gguf dry.gguf Q6_K");
    assert!(dry.contains("would write dry.gguf"), "{dry}");
    assert_eq!(
        place.files(),
        ["a.gguf", "ggml-model-Q4_K_M.gguf", "three.gguf"]
    );
}

#[test]
fn a_reference_name_without_a_command_is_refused() {
    assert_snapshot!(Workplace::new().run("llama-frobnicate -m x.gguf"), @r"
    exit: 1
    --- stderr
    error: no command of gristmill stands for llama-frobnicate
    hint: `gristmill links DIR` makes a link for every reference name that has one
    ");
    assert_snapshot!(Workplace::new().run("gguf-split --merge a.gguf b.gguf"), @r"
    exit: 1
    --- stderr
    error: no command of gristmill stands for gguf-split
    hint: call it llama-gguf-split, as llama.cpp does
    ");
    assert_snapshot!(Workplace::new().run("gguf_dump.py a.gguf"), @r"
    exit: 1
    --- stderr
    error: no command of gristmill stands for gguf_dump.py
    hint: `gristmill links DIR` makes a link for every reference name that has one
    ");
    // Names that only look like one are those of copies.
    for name in ["main", "server", "gguf-tools", "convert_models"] {
        let told = Workplace::new().run(&format!("{name} --version"));
        assert!(told.starts_with("exit: 0"), "{name}: {told}");
    }
}
