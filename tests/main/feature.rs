//! What the commands do when all goes well, and the forms of help and usage errors.

use insta::assert_snapshot;

use crate::harness::Workplace;

#[test]
fn version_names_commit_target_instruction_set_and_backends() {
    let shown = Workplace::new().run("gristmill --version");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], "exit: 0");
    for (line, start) in lines[2..].iter().zip([
        "gristmill ",
        "commit: ",
        "target: ",
        "instruction set: ",
        "backends: cpu",
    ]) {
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
}

#[test]
fn a_reference_name_without_a_command_is_refused() {
    assert_snapshot!(Workplace::new().run("llama-frobnicate -m x.gguf"), @r"
    exit: 1
    --- stderr
    error: no command of gristmill stands for llama-frobnicate
    hint: `gristmill links DIR` makes a link for every reference name that has one
    ");
}
