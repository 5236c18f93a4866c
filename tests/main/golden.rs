//! Comparisons with golden data through the binary: converted files byte for byte, logits within 1e-4.

use std::path::{Path, PathBuf};

use gristmill_golden::{compared, largest_difference, read_npy};

use crate::harness::{Workplace, piped};

/// Largest absolute difference to the authors' code, which computes in float32 too.
const LOGIT_DIFFERENCE_MAX: f32 = 1e-4;

/// The golden checkpoints that can be converted.
pub(crate) fn checkpoints() -> Option<Vec<gristmill_golden::Checkpoint>> {
    gristmill_golden::checkpoints(|class| gristmill_model::architecture_of_config(class).is_some())
}

fn convert_folder() -> Option<PathBuf> {
    gristmill_golden::folder("convert")
}

fn meta(folder: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(folder.join("meta.json")).expect("meta.json can be read");
    serde_json::from_str(&text).expect("meta.json is JSON")
}

/// Runs `convert` on a golden checkpoint with more arguments, into a file of this name.
fn convert(place: &Workplace, folder: &Path, more: &[&str], output: &str) {
    let meta = meta(folder);
    let checkpoint = ["hf", "Tiny-Llama-0.2M-Chat-v0.3"].map(|name| folder.join(name));
    let checkpoint = checkpoint
        .iter()
        .find(|path| path.is_dir())
        .expect("there is a checkpoint");
    let checkpoint = checkpoint.to_string_lossy().to_string();
    let mut words = vec!["gristmill", "convert", &checkpoint, "--outfile", output];
    words.extend(more);
    if let Some(name) = meta["pre_tokenizer_name"].as_str() {
        words.extend(["--tokenizer-pre", name]);
    }
    let outcome = place.run_words(&words);
    assert!(outcome.starts_with("exit: 0"), "{words:?}\n{outcome}");
}

#[test]
fn golden_conversions_are_equal_byte_for_byte() {
    let Some(checkpoints) = checkpoints() else {
        return;
    };
    let place = Workplace::new();
    let mut n_compared = 0;
    for checkpoint in checkpoints {
        for ty in checkpoint.output_types() {
            let output = format!("{}-{ty}.gguf", checkpoint.name);
            convert(&place, &checkpoint.folder, &["--outtype", ty], &output);
            let ours = std::fs::read(place.path(&output)).expect("the output is there");
            let theirs = std::fs::read(checkpoint.converted(ty)).expect("the golden file is there");
            let first = ours
                .iter()
                .zip(&theirs)
                .position(|(ours, theirs)| ours != theirs);
            assert!(
                ours == theirs,
                "{output}: {} and {} bytes, first difference {first:?}",
                ours.len(),
                theirs.len()
            );
            n_compared += 1;
        }
    }
    compared(n_compared, "converted files");
}

#[test]
fn golden_one_step_equals_two() {
    let Some(root) = convert_folder() else { return };
    let place = Workplace::new();
    let mut n_compared = 0;
    // The f32 source is in `feature`: no golden checkpoint of these architectures has that type.
    for (name, float) in [("llama", "bf16"), ("llama-split", "f16")] {
        let folder = root.join(name);
        let (one, two, between) = (
            format!("{name}-1.gguf"),
            format!("{name}-2.gguf"),
            format!("{name}-0.gguf"),
        );
        convert(&place, &folder, &["--outtype", "q4_k_m"], &one);
        convert(&place, &folder, &["--outtype", float], &between);
        let outcome = place.run(&format!("gristmill quantize {between} {two} Q4_K_M"));
        assert!(outcome.starts_with("exit: 0"), "{outcome}");
        let read = |name: &str| std::fs::read(place.path(name)).expect("the output is there");
        assert!(
            read(&one) == read(&two),
            "{name}: one step differs from two"
        );
        n_compared += 1;
    }
    compared(n_compared, "one step and two");
}

#[test]
fn golden_logits_are_those_of_the_authors_code() {
    let Some(checkpoints) = checkpoints() else {
        return;
    };
    let place = Workplace::new();
    let mut n_compared = 0;
    for checkpoint in checkpoints {
        let model = checkpoint.converted("f32");
        for (n_tokens, theirs) in checkpoint.logits() {
            let name = format!("{}-{n_tokens}", checkpoint.name);
            let ids = checkpoint.token_ids[..n_tokens].iter();
            let ids: Vec<String> = ids.map(ToString::to_string).collect();
            let output = format!("{name}.npy");
            let words = [
                "gristmill",
                "logits",
                &model.to_string_lossy(),
                "--tokens",
                &ids.join(","),
                "--output",
                &output,
            ];
            let outcome = place.run_words(&words);
            assert!(outcome.starts_with("exit: 0"), "{outcome}");
            let header = |path: &Path| std::fs::read(path).expect("it is there")[..128].to_vec();
            let ours = place.path(&output);
            assert_eq!(header(&ours), header(&theirs), "{name}: the headers agree");
            let ours = read_npy(&ours);
            let largest = largest_difference(&ours, &read_npy(&theirs));
            println!(
                "{name}: largest difference {largest:e} over {} logits",
                ours.len()
            );
            assert!(largest <= LOGIT_DIFFERENCE_MAX, "{name}: {largest:e}");
            assert!(
                place.run_words(&words).contains(&output),
                "an existing file is refused"
            );
            n_compared += 1;
        }
    }
    compared(n_compared, "logits");
}

/// Flags, and the beginnings of the SHA-256 of the files that the reference's writer makes of golden `llama` with them
/// (package `gguf` 0.19.0).
const SPLIT_CONVERSIONS: [(&[&str], &str); 3] = [
    (&["--split-max-tensors", "8"], "71c534b53e2708b26f6bb3fe"),
    (
        &["--split-max-size", "1M", "--no-tensor-first-split"],
        "1d2bf79626a1823f18c295c49eb88d8983d4e4158c9c57a90a9e40ecd34622c5a163e5400db261bd",
    ),
    (
        &["--split-max-size", "1000000"],
        "56227c2a1838a88ccf755f5319f92abb0cd71dc52d1bd4df878dc14f34084e6f48d4ebe0",
    ),
];

#[test]
fn golden_conversions_split_as_the_reference_splits_them() {
    let Some(root) = convert_folder() else { return };
    for (flags, expected) in SPLIT_CONVERSIONS {
        let place = Workplace::new();
        let flags = [&["--outtype", "f32"][..], flags].concat();
        convert(&place, &root.join("llama"), &flags, "m.gguf");
        let mut hashes = String::new();
        let names = place.files();
        for name in &names {
            let sums = place.run(&format!("gristmill hash --alone --sha256sum {name}"));
            hashes += sums
                .lines()
                .nth(2)
                .and_then(|sum| sum.get(..8))
                .unwrap_or_default();
        }
        assert_eq!(hashes, expected, "{flags:?}");
        // Merged, they are the file that is written without splitting.
        let merged = place.run(&format!("gristmill merge {} out.gguf", names[0]));
        assert!(merged.starts_with("exit: 0"), "{merged}");
        let ours = std::fs::read(place.path("out.gguf")).expect("it is there");
        let theirs = std::fs::read(root.join("llama/llama-f32.gguf")).expect("it is there");
        assert!(ours == theirs, "{flags:?}");
    }
    compared(SPLIT_CONVERSIONS.len(), "split conversions");
}

#[test]
fn golden_shards_are_kept_by_quantization() {
    let Some(root) = convert_folder() else { return };
    let place = Workplace::new();
    let flags = ["--outtype", "f32", "--split-max-tensors", "8"];
    convert(&place, &root.join("llama"), &flags, "m.gguf");
    for line in [
        "gristmill quantize --keep-split m-00001-of-00003.gguf q.gguf Q8_0",
        "gristmill quantize m-00002-of-00003.gguf whole.gguf Q8_0",
        "gristmill merge q-00002-of-00003.gguf q.gguf",
    ] {
        let outcome = place.run(line);
        assert!(outcome.starts_with("exit: 0"), "{line}\n{outcome}");
    }
    // The same tensors in another order: that of the shards.
    let found = place.run("gristmill diff whole.gguf q.gguf");
    let found: Vec<&str> = found.lines().collect();
    assert_eq!(found[0], "exit: 1");
    assert!(found[2].starts_with("metadata: 0 differ"), "{found:?}");
    assert_eq!(found[3], "tensors: 0 differ, 22 are equal");
    assert!(found[4].starts_with("~ order of tensors"), "{found:?}");
    let names = |name: &str| -> Vec<String> {
        let file = gristmill_gguf::File::open(&place.path(name)).expect("it opens");
        file.tensors()
            .iter()
            .map(|tensor| tensor.name.clone())
            .collect()
    };
    for number in 1..=3 {
        let end = format!("-{number:05}-of-00003.gguf");
        assert_eq!(names(&format!("m{end}")), names(&format!("q{end}")));
    }
}

/// Case B50: bytes of a cut character on standard input have tokens; the id was reported for the vocabulary of Llama 3. Case
/// B48: a control token in a text is plain text where that is asked for.
#[test]
fn b50_b48_texts_that_are_cut_or_spell_a_control_token() {
    let Some(folder) = gristmill_golden::folder("tokens") else {
        return;
    };
    let place = Workplace::new();
    let ids = |name: &str, words: &[&str], input: &[u8]| {
        let mut command = place.command("gristmill");
        let model = folder.join(format!("ggml-vocab-{name}.gguf"));
        command
            .args(["tokenize", "--ids", "--stdin", "-m"])
            .arg(model);
        let output = piped(command.args(words), input).1;
        assert!(output.status.success(), "{}", place.show(&output));
        String::from_utf8(output.stdout).expect("it is text")
    };
    assert_eq!(ids("llama-bpe", &["--no-bos"], b"\xe6\xad"), "[15722]\n");
    let text = b"A<|im_end|>B";
    assert_eq!(ids("qwen2", &[], text), "[32, 151645, 33]\n");
    assert_eq!(
        ids("qwen2", &["--no-parse-special"], text),
        "[32, 27, 91, 318, 6213, 91, 29, 33]\n"
    );
}
