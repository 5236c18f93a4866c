//! `perplexity` beside the reference's figures, and what cannot be measured.

use std::path::{Path, PathBuf};

use gristmill_golden as golden;
use insta::assert_snapshot;

use crate::fixtures::with_model;
use crate::harness::Workplace;

/// Runs `gristmill perplexity` and gives what it prints.
fn perplexity(place: &Workplace, words: &[&str]) -> String {
    let mut command = place.command("gristmill");
    let output = command.arg("perplexity").args(words).output();
    let output = output.expect("the binary starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {told}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("JSON")
}

fn text_of(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// All numbers of a text, in order.
fn numbers(text: &str) -> Vec<f64> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
    let words = text.split(|c| !is_number(c));
    words.filter_map(|word| word.parse().ok()).collect()
}

/// Golden files of measures and the tiny model that they are of.
fn measured() -> Option<(PathBuf, PathBuf)> {
    Some((golden::folder("measure")?, golden::folder("convert/llama")?))
}

#[test]
fn golden_perplexities() {
    let Some((measure, models)) = measured() else {
        return;
    };
    let place = Workplace::new();
    for name in ["llama-f32", "llama-q8_0"] {
        let model = models.join(format!("{name}.gguf"));
        let text = measure.join("eval.txt");
        let words = ["-m", text_of(&model), "-f", text_of(&text), "-c", "128"];
        let found = numbers(&perplexity(&place, &words));
        let expected = std::fs::read_to_string(measure.join(format!("ppl-{name}-c128.txt")));
        let expected = numbers(&expected.expect("the golden file"));
        assert_eq!(found.len(), expected.len(), "{name}");
        let apart = found
            .iter()
            .zip(&expected)
            .map(|(a, b)| (a / b - 1.0).abs());
        let largest = apart.fold(0.0, f64::max);
        println!(
            "{name}: {} figures, largest difference {largest:.2e}",
            found.len()
        );
        // The first windows of the quantized one have few tokens, and each engine rounds activations in its own way.
        assert!(largest < 4e-3, "{name}: {largest}");
        let last = found.len() - 2;
        assert!(
            (found[last] / expected[last] - 1.0).abs() < 1e-3,
            "{name}: {found:?}"
        );
        golden::compared(found.len(), "figures of perplexities");
    }
}

#[test]
fn golden_divergence() {
    let Some((measure, _)) = measured() else {
        return;
    };
    let place = Workplace::new();
    let model = measure.join("llama-q4_k_m.gguf");
    let base = measure.join("llama-f32-c128-6chunks.logits");
    let expected = std::fs::read_to_string(measure.join("kld-llama-q4_k_m-c128-6chunks.txt"));
    let expected = expected.expect("the golden file");
    // Percentiles of 378 positions lie where the rounding of activations puts single positions; in the reference's own arithmetic
    // they are nearer.
    for (arithmetic, limit) in [("gristmill", 0.025), ("llama.cpp", 0.01)] {
        let mut words = vec![
            "-m",
            text_of(&model),
            "--kl-divergence-base",
            text_of(&base),
        ];
        words.extend(["--kl-divergence", "--arithmetic", arithmetic]);
        let found = perplexity(&place, &words);
        let (ours, theirs) = (Statistics::of(&found), Statistics::of(&expected));
        assert_eq!(ours.words, theirs.words);
        let largest = ours.largest_difference(&theirs, "KLD");
        println!("{arithmetic}, statistics of divergence: largest difference {largest:.2e}");
        assert!(largest < limit, "{arithmetic}: {found}");
        let limits = [
            ("Mean    KLD", 4e-3),
            ("Mean PPL(Q)  ", 1e-3),
            ("Mean PPL(base)  ", 1e-6),
            ("RMS Δp", 0.03),
        ];
        for (line, limit) in limits {
            let apart = ours.largest_difference(&theirs, line);
            assert!(apart < limit, "{arithmetic}, {line}: {apart}");
        }
        golden::compared(ours.values.len(), "statistics of divergence");
    }
}

/// Lines of a divergence: their words, and of each the first number.
struct Statistics {
    words: Vec<String>,
    values: Vec<(String, f64)>,
}

impl Statistics {
    fn of(text: &str) -> Statistics {
        let lines: Vec<&str> = text
            .trim()
            .lines()
            .filter(|line| !line.is_empty())
            .collect();
        let letters = |line: &&str| line.chars().filter(|c| c.is_alphabetic()).collect();
        let value = |line: &&str| {
            let (name, numbers_of) = line.split_once(':')?;
            Some((name.to_owned(), *numbers(numbers_of).first()?))
        };
        Statistics {
            words: lines.iter().map(letters).collect(),
            values: lines.iter().filter_map(value).collect(),
        }
    }

    /// Of the lines that hold a word, relative.
    fn largest_difference(&self, other: &Statistics, word: &str) -> f64 {
        let pairs = self.values.iter().zip(&other.values);
        let chosen = pairs.filter(|((name, _), _)| name.contains(word));
        let apart: Vec<f64> = chosen.map(|((_, a), (_, b))| (a / b - 1.0).abs()).collect();
        assert!(!apart.is_empty(), "{word}");
        apart.into_iter().fold(0.0, f64::max)
    }
}

/// The levels of every row of a file, as logarithms of probabilities.
fn log_probabilities(file: &[u8]) -> (Vec<u8>, Vec<f32>) {
    let count = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let (n_ctx, n_vocab, n_chunks) = (count(8), count(12), count(16));
    let head = 20 + 4 * n_ctx * n_chunks;
    let width = 8 + 2 * n_vocab.next_multiple_of(2);
    let float = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
    let rows = file[head..].chunks_exact(width).flat_map(|row| {
        let (scale, least) = (float(&row[..4]), float(&row[4..8]));
        let levels = row[8..8 + 2 * n_vocab].chunks_exact(2);
        levels.map(move |level| scale * f32::from(u16::from_le_bytes([level[0], level[1]])) + least)
    });
    (file[..head].to_vec(), rows.collect())
}

#[test]
fn golden_logits_file_is_the_references() {
    let Some((measure, models)) = measured() else {
        return;
    };
    let place = Workplace::new();
    let (model, text) = (models.join("llama-f32.gguf"), measure.join("eval.txt"));
    let words = [
        "-m",
        text_of(&model),
        "-f",
        text_of(&text),
        "-c",
        "128",
        "--chunks",
        "6",
    ];
    perplexity(
        &place,
        &[&words[..], &["--save-all-logits", "own.logits"]].concat(),
    );
    let own = std::fs::read(place.path("own.logits")).expect("the file is written");
    let theirs = std::fs::read(measure.join("llama-f32-c128-6chunks.logits")).expect("golden");
    assert_eq!(own.len(), theirs.len());
    let ((head, found), (golden_head, expected)) =
        (log_probabilities(&own), log_probabilities(&theirs));
    assert!(head == golden_head, "the headers and tokens differ");
    let largest = golden::largest_difference(&found, &expected);
    println!("logits file: largest difference of a logarithm {largest:.2e}");
    // The reference rounds keys, values and what attention adds up to 16 bits, in an order of its own.
    assert!(largest < 0.02, "{largest}");
    golden::compared(found.len(), "logarithms of probabilities");
    // A model beside itself, from the reference's file and from its own.
    for base in [
        measure.join("llama-f32-c128-6chunks.logits"),
        place.path("own.logits"),
    ] {
        let words = [
            "-m",
            text_of(&model),
            "--save-all-logits",
            text_of(&base),
            "--kl-divergence",
            "--json",
        ];
        let found = json(&perplexity(&place, &words));
        let kld = |name: &str| found["kld_percentiles"][name].as_f64().unwrap();
        let limit = if base.ends_with("own.logits") {
            2e-5
        } else {
            1e-3
        };
        assert!(kld("minimum") >= 0.0 && kld("maximum") < limit, "{found}");
        assert_eq!(found["n_scored"], 6 * 63);
        assert!(
            found["same_top"]["value"].as_f64().unwrap() > 0.98,
            "{found}"
        );
    }
}

#[test]
fn threads_batches_and_windows_at_once_change_no_figure() {
    let place = with_model();
    place.write(
        "text.txt",
        "Good morrow, cousin. Is the day so young? ".repeat(40),
    );
    let all = |words: &str| {
        let fixed = "-m a.gguf -f text.txt -c 32 --json --chunks 9 ";
        let words = format!("{fixed}{words}");
        perplexity(&place, &words.split(' ').collect::<Vec<_>>())
    };
    let one = all("-t 1");
    for words in ["-t 2 -ub 32", "-t 3 -ub 7 -b 7", "-ub 512 -b 512", "-ub 96"] {
        assert_eq!(all(words), one, "{words}");
    }
    assert_eq!(json(&one)["n_chunks"], 9);
    assert_eq!(json(&one)["n_scored"], 9 * 15);
}

#[test]
fn case_b92_short_texts_are_refused_with_counts() {
    let place = with_model();
    for text in ["", "Good"] {
        place.write("text.txt", text);
        let shown = place.run("gristmill perplexity -m a.gguf -f text.txt -c 16");
        let needed = "windows of 16 need at least 32";
        assert!(
            shown.starts_with("exit: 1") && shown.contains(needed),
            "{shown}"
        );
    }
    place.write("text.txt", "Good morrow, cousin. ".repeat(20));
    let none = place.run("gristmill perplexity -m a.gguf -f text.txt -c 8 --chunks 0");
    let range = "it must be 1 or more, or -1 for all";
    assert!(
        none.starts_with("exit: 2") && none.contains(range),
        "{none}"
    );
    assert_snapshot!(place.run("gristmill perplexity -m a.gguf -f text.txt -c 8 --chunks 1"), @"
    exit: 0
    --- stdout
    [1]32.1277,
    Final estimate: PPL = 32.1277 +/- 43.71023
    --- stderr
    1 window of 8 tokens, tokenizer byte-level BPE, gpt-2, each without a beginning-of-text token
    ");
}

#[test]
fn case_b93_files_of_predictions_that_do_not_fit() {
    let place = with_model();
    place.write("text.txt", "Good morrow, cousin. ".repeat(20));
    perplexity(
        &place,
        &"-m a.gguf -f text.txt -c 16 --chunks 3 --save-all-logits base.logits"
            .split(' ')
            .collect::<Vec<_>>(),
    );
    let whole = std::fs::read(place.path("base.logits")).unwrap();
    let compare = |words: &str| {
        place.run(&format!(
            "gristmill perplexity -m a.gguf --kl-divergence --save-all-logits {words}"
        ))
    };
    assert_snapshot!(compare("base.logits -c 32"), @"
    exit: 1
    --- stderr
    error: base.logits: was made with windows of 16 tokens, and --ctx-size asks for 32
    hint: leave --ctx-size out, or save the predictions again
    ");
    place.write("cut.logits", &whole[..whole.len() - 1]);
    assert_snapshot!(compare("cut.logits"), @"
    exit: 1
    --- stderr
    error: cut.logits: it has 43387 bytes, but its header tells of 43388
    hint: it must be the whole file that --save-all-logits wrote, of a model with the same vocabulary
    ");
    let mut other = b"_logits_".to_vec();
    for count in [16i32, 33, 1] {
        other.extend_from_slice(&count.to_le_bytes());
    }
    other.resize(20 + 4 * 16 + 7 * (8 + 2 * 34), 0);
    place.write("vocabulary.logits", &other);
    assert_snapshot!(compare("vocabulary.logits"), @"
    exit: 1
    --- stderr
    1 window of 16 tokens, tokenizer byte-level BPE, gpt-2, each without a beginning-of-text token
    error: vocabulary.logits: it is of a vocabulary of 33 tokens, and the model has 1024
    hint: it must be the whole file that --save-all-logits wrote, of a model with the same vocabulary
    ");
    let mut endless = whole.clone();
    endless[8..20].copy_from_slice(&[255, 255, 255, 127, 255, 255, 255, 127, 255, 255, 255, 127]);
    place.write("endless.logits", &endless);
    assert_snapshot!(compare("endless.logits"), @"
    exit: 1
    --- stderr
    error: endless.logits: it has 43388 bytes, but its header tells of more than any file
    hint: it must be the whole file that --save-all-logits wrote, of a model with the same vocabulary
    ");
    place.write("other.logits", "GGUF, or so it says");
    assert_snapshot!(compare("other.logits"), @"
    exit: 1
    --- stderr
    error: other.logits: it has 19 bytes, fewer than the header
    hint: it must be the whole file that --save-all-logits wrote, of a model with the same vocabulary
    ");
    assert_snapshot!(compare("missing.logits"), @"
    exit: 1
    --- stderr
    error: missing.logits: No such file or directory (os error 2)
    hint: check the path
    ");
    let shown = compare("base.logits --chunks 9");
    assert!(
        shown.contains("note: base.logits holds 3 windows"),
        "{shown}"
    );
    let fewer = json(&perplexity(
        &place,
        &"-m a.gguf --kl-divergence --save-all-logits base.logits --chunks 2 --json"
            .split(' ')
            .collect::<Vec<_>>(),
    ));
    assert_eq!(fewer["n_scored"], 2 * 7);
    // Written again only where that is asked for.
    let again =
        "gristmill perplexity -m a.gguf -f text.txt -c 16 --chunks 2 --save-all-logits base.logits";
    assert_snapshot!(place.run(again), @"
    exit: 1
    --- stderr
    2 windows of 16 tokens, tokenizer byte-level BPE, gpt-2, each without a beginning-of-text token
    error: base.logits: already exists
    hint: choose another name, or give `--force` to replace it
    ");
    assert_eq!(std::fs::read(place.path("base.logits")).unwrap(), whole);
    let shown = place.run(&format!("{again} --force"));
    assert!(shown.starts_with("exit: 0"), "{shown}");
}

#[test]
fn rows_with_errors_and_pipes() {
    let place = with_model();
    place.write("text.txt", "Good morrow, cousin. ".repeat(20));
    assert_snapshot!(place.run("gristmill perplexity -m a.gguf -f text.txt -c 16 --chunks 3 --ppl-output-type 1"), @"
    exit: 0
    --- stdout
           0  89.6784  4.496229  0.739245
          16  67.6077  4.213722  0.551034
          32  62.6847  4.138118  0.416666

    Final estimate: PPL = 62.6847 +/- 26.11857
    --- stderr
    3 windows of 16 tokens, tokenizer byte-level BPE, gpt-2, each without a beginning-of-text token
    ");
    let mut command = place.command("gristmill");
    command.args("perplexity -m a.gguf -c 16 --chunks 3 --ppl-output-type 1".split(' '));
    let text = std::fs::read(place.path("text.txt")).unwrap();
    let (_, output) = crate::harness::piped(&mut command, &text);
    let from_file = place
        .run("gristmill perplexity -m a.gguf -f text.txt -c 16 --chunks 3 --ppl-output-type 1");
    let piped = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        from_file.contains(piped.trim_end()) && !piped.is_empty(),
        "{piped}{from_file}"
    );
}
