//! Bad input and past faults, named after their cases.

use insta::assert_snapshot;

use crate::harness::Workplace;

/// What a command says of a file that is something else.
fn inspected(name: &str, bytes: &[u8]) -> String {
    let place = Workplace::new();
    place.write(name, bytes);
    place.run(&format!("gristmill inspect {name}"))
}

#[test]
fn b15_something_else_instead_of_a_model() {
    assert_snapshot!(inspected("m.gguf", b"<!DOCTYPE html><html>"), @r"
    exit: 1
    --- stderr
    error: m.gguf: is an HTML page (21 bytes), not a GGUF file
    hint: the download saved a web page, often a login or error page; fetch the file itself (its address has `/resolve/` in place of `/blob/`), signed in if the model is gated
    ");
    assert_snapshot!(inspected("m.gguf", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 99\n"), @r"
    exit: 1
    --- stderr
    error: m.gguf: is a Git LFS pointer (64 bytes) that stands for the real file of 99 bytes
    hint: run `git lfs pull` in the repository, or download the file itself
    ");
    assert_snapshot!(inspected("m.gguf", b"tjgg\x03\0\0\0"), @r"
    exit: 1
    --- stderr
    error: m.gguf: is a GGJT file, a format that GGUF replaced in August 2023
    hint: get a GGUF file of the same model, or make one from its original checkpoint with `gristmill convert`
    ");
    assert_snapshot!(inspected("m.gguf", b""), @r"
    exit: 1
    --- stderr
    error: m.gguf: the file is empty (0 bytes)
    hint: the download or copy never finished; fetch the file again
    ");
    assert_snapshot!(Workplace::new().run("gristmill inspect ."), @r"
    exit: 1
    --- stderr
    error: .: is a folder, not a GGUF file
    hint: name the .gguf file inside it; a Hugging Face folder becomes one with `gristmill convert`
    ");
    assert_snapshot!(Workplace::new().run("gristmill inspect absent.gguf"), @r"
    exit: 1
    --- stderr
    error: absent.gguf: no such file
    hint: check the path: a model is one .gguf file, or any of its shards
    ");
}
