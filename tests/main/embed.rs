//! `embed` and `rerank` on the golden encoder, and on models with a classifier made from golden ones.

use std::path::{Path, PathBuf};

use gristmill_engine::cosine;
use gristmill_gguf::{Metadata, Model, TensorPlan, WriteOptions, Writer};
use gristmill_quant::F32;

use crate::harness::{Workplace, piped};

/// A golden model in F32, or none with a loud word (an error on CI).
fn golden(name: &str) -> Option<PathBuf> {
    let folder = gristmill_golden::folder(&format!("convert/{name}"))?;
    let path = folder.join(format!("{name}-f32.gguf"));
    Some(path.canonicalize().expect("the model is there"))
}

fn run_on(command: &str, model: &Path, words: &[&str], input: &[u8]) -> std::process::Output {
    let place = Workplace::new();
    let mut process = place.command(command);
    if command == "gristmill" {
        process.arg("embed");
    }
    process.arg("-m").arg(model).args(["-t", "1"]).args(words);
    piped(&mut process, input).1
}

/// Standard output of `embed`, which must succeed.
fn embed(model: &Path, words: &[&str]) -> String {
    let output = run_on("gristmill", model, words, b"");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    String::from_utf8(output.stdout).expect("the output is text")
}

/// The vectors of texts, by `--embd-output-format array`.
fn vectors(model: &Path, words: &[&str]) -> Vec<Vec<f32>> {
    let words = [words, &["--embd-output-format", "array"]].concat();
    serde_json::from_str(&embed(model, &words)).expect("the output is a list of lists")
}

fn failure(model: &Path, words: &[&str]) -> String {
    let output = run_on("gristmill", model, words, b"");
    assert_eq!(output.status.code(), Some(1), "{words:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    text.replace(&model.display().to_string(), "[MODEL]")
}

#[test]
fn the_forms_of_the_output_are_those_of_the_reference() {
    let Some(bert) = golden("bert") else { return };
    let texts = ["-p", "hello world\nthe quick fox", "--pooling", "mean"];
    let numbers = vectors(&bert, &texts);
    assert_eq!((numbers.len(), numbers[0].len()), (2, 64));
    let short = embed(&bert, &texts);
    let lines: Vec<&str> = short.lines().collect();
    assert!(lines[0].starts_with(&format!(
        "embedding 0: {:9.6} {:9.6} ",
        numbers[0][0], numbers[0][1]
    )));
    assert_eq!(lines[0].split_whitespace().count(), 2 + 16);
    assert_eq!(lines[3], "cosine similarity matrix:");
    assert_eq!(lines[5], "hello  the qu ");
    let alike = format!("{:6.2}", cosine(&numbers[0], &numbers[1]));
    assert_eq!(lines[6], format!("  1.00 {alike} hello worl"));
    let json = |form: &str| -> serde_json::Value {
        let words = [&texts[..], &["--embd-output-format", form]].concat();
        serde_json::from_str(&embed(&bert, &words)).expect("the output is JSON")
    };
    let plain = json("json");
    assert_eq!(
        (&plain["object"], plain["data"][1]["index"].as_u64()),
        (&"list".into(), Some(1))
    );
    assert_eq!(plain["data"][1]["object"], "embedding");
    let first = plain["data"][1]["embedding"][0].as_f64().expect("a number");
    assert!((first - f64::from(numbers[1][0])).abs() < 1e-6);
    let plus = json("json+");
    assert_eq!(plus["cosineSimilarity"][0][0].as_f64(), Some(1.0));
    let raw = embed(
        &bert,
        &[&texts[..], &["--embd-output-format", "raw"]].concat(),
    );
    assert_eq!(raw.lines().count(), 2);
    assert_eq!(
        raw.lines().next().map(|line| line.split(' ').count()),
        Some(64)
    );
    // The same under the reference's name, where escape sequences are processed, and through a pipe.
    let words = ["-p", "hello world\\nthe quick fox", "--pooling", "mean"];
    let output = run_on("llama-embedding", &bert, &words, b"");
    assert_eq!(String::from_utf8_lossy(&output.stdout), short);
    let output = run_on(
        "gristmill",
        &bert,
        &["-b", "4"],
        b"hello world\nthe quick fox\n",
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), short);
}

#[test]
fn poolings_norms_prefixes_and_separators() {
    let Some(bert) = golden("bert") else { return };
    let text = "hello world";
    let one = |more: &[&str]| vectors(&bert, &[&["-p", text], more].concat());
    let rows = one(&["--pooling", "none", "--embd-normalize", "-1"]);
    let first = one(&["--pooling", "cls", "--embd-normalize", "-1"]);
    let last = one(&["--pooling", "last", "--embd-normalize", "-1"]);
    assert_eq!((&rows[0], rows.last()), (&first[0], last.first()));
    let mean = one(&["--embd-normalize", "-1"]).remove(0);
    for (place, value) in mean.iter().enumerate() {
        let sum: f32 = rows.iter().map(|row| row[place]).sum();
        assert!((sum / rows.len() as f32 - value).abs() < 1e-5);
    }
    let norm = |vector: &[f32]| vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    assert!((norm(&one(&[])[0]) - 1.0).abs() < 1e-5);
    let whole = one(&["--embd-normalize", "0"]).remove(0);
    assert!(whole.iter().any(|x| x.abs() == 32760.0) && whole.iter().all(|x| x.fract() == 0.0));
    // Neither threads nor how the weights come into memory change a bit.
    let placed = ["-tb", "2", "--no-mmap", "--check-tensors", "--mlock"];
    assert_eq!(one(&placed), one(&[]));
    // Causal attention sees less.
    assert_ne!(one(&["--attention", "causal"]), one(&[]));
    assert_eq!(one(&["--attention", "non-causal", "-ub", "1"]), one(&[]));
    let prefixed = vectors(
        &bert,
        &["-p", "a|b", "--embd-separator", "|", "--prefix", "the "],
    );
    assert_eq!(prefixed, vectors(&bert, &["-p", "the a\nthe b"]));
    let output = run_on(
        "gristmill",
        &bert,
        &["-p", "hello", "--verbose-prompt"],
        b"",
    );
    let shown = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        shown.contains("prompt 0: 'hello'") && shown.contains(" -> '[CLS]'"),
        "{shown}"
    );
}

/// Case B103: a text that the model cannot see as a whole is an error with both numbers that names the text, and is cut
/// where that is asked for.
#[test]
fn case_b103_a_text_longer_than_the_context() {
    let Some(bert) = golden("bert") else { return };
    // Two tokens in this vocabulary.
    let long = ["one"; 200].join(" ");
    let texts = format!("short\n{long}");
    let message = failure(&bert, &["-p", &texts]);
    assert_eq!(
        message.trim_end(),
        "error: text 1: it has 402 tokens, but at most 128 can be embedded\n\
         hint: cut it off with --truncate, or split it: the model sees no more at once"
    );
    let cut = vectors(&bert, &["-p", &long, "--truncate"]);
    assert_eq!(cut, vectors(&bert, &["-p", &["one"; 63].join(" ")]));
    let message = failure(&bert, &["-p", "one two three", "-c", "4"]);
    assert!(
        message.contains(" tokens, but at most 4 can be embedded"),
        "{message}"
    );
    // Longer than a batch is no fault.
    assert_eq!(
        vectors(
            &bert,
            &["-p", &["one"; 60].join(" "), "-b", "8", "-ub", "8"]
        )
        .len(),
        1
    );
    let message = failure(&bert, &["-p", ""]);
    assert!(message.contains("there is no text to embed"), "{message}");
}

/// Case B101: a vision projector is told from a model that embeds, and an encoder from one that talks.
#[test]
fn case_b101_models_of_other_kinds() {
    let Some(bert) = golden("bert") else { return };
    let place = Workplace::new();
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", "clip");
    let projector = place.path("mmproj.gguf");
    write(&projector, &metadata, &[("v.w", &[2], &[1.0, 2.0])]);
    let message = failure(&projector, &["-p", "x"]);
    assert!(message.contains("multimodal projector"), "{message}");
    let mut command = place.command("gristmill");
    command.arg("run").arg(&bert).args(["-p", "x", "-n", "1"]);
    let output = piped(&mut command, b"").1;
    let shown = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        shown.contains(
            "architecture `bert` gives embeddings here, and no logits: it has no output projection"
        ) && shown.contains("hint: `gristmill embed` makes vectors"),
        "{shown}"
    );
}

fn write(path: &Path, metadata: &Metadata, tensors: &[(&str, &[u64], &[f32])]) {
    let plan = |(name, dims, _): &(&str, &[u64], &[f32])| TensorPlan {
        name: (*name).into(),
        dims: dims.to_vec(),
        ty: F32,
    };
    let plans: Vec<TensorPlan> = tensors.iter().map(plan).collect();
    let options = WriteOptions::default();
    let mut writer = Writer::create(path, metadata, &plans, &options).expect("it can be begun");
    for (name, _, values) in tensors {
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        writer
            .write_tensor(name, &bytes)
            .expect("it can be written");
    }
    writer.finish().expect("it can be finished");
}

/// A golden model with a classifier: its last matrix and bias, and the names of its results.
fn with_classifier(source: &Path, target: &Path, rows: &[f32], bias: &[f32], labels: &[&str]) {
    let model = Model::open(source).expect("the golden model can be read");
    let mut metadata = model.metadata().clone();
    let prefix = metadata
        .required_str("general.architecture")
        .expect("it has one")
        .to_owned();
    metadata.set(format!("{prefix}.pooling_type"), 4u32);
    let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
    metadata.set(format!("{prefix}.classifier.output_labels"), labels);
    let values = |name: &str| -> Vec<f32> {
        let (chunks, _) = model
            .tensor(name)
            .expect("it is there")
            .data
            .as_chunks::<4>();
        chunks
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes))
            .collect()
    };
    let mut tensors: Vec<(String, Vec<u64>, Vec<f32>)> = model
        .tensors()
        .iter()
        .map(|info| (info.name.clone(), info.dims.clone(), values(&info.name)))
        .collect();
    let dims = vec![rows.len() as u64 / bias.len() as u64, bias.len() as u64];
    tensors.push(("cls.output.weight".into(), dims, rows.to_vec()));
    tensors.push((
        "cls.output.bias".into(),
        vec![bias.len() as u64],
        bias.to_vec(),
    ));
    let tensors: Vec<(&str, &[u64], &[f32])> = tensors
        .iter()
        .map(|(name, dims, values)| (name.as_str(), dims.as_slice(), values.as_slice()))
        .collect();
    write(target, &metadata, &tensors);
}

fn rerank(model: &Path, words: &[&str]) -> serde_json::Value {
    let place = Workplace::new();
    let mut command = place.command("gristmill");
    command
        .arg("rerank")
        .arg("-m")
        .arg(model)
        .args(["-t", "1", "--json"])
        .args(words);
    let output = piped(&mut command, b"").1;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    serde_json::from_slice(&output.stdout).expect("the output is JSON")
}

/// Case B104: the classifier's own number, once; sorted, cut, with the original index.
#[test]
fn case_b104_scores_of_a_classifier() {
    let Some(bert) = golden("bert") else { return };
    let place = Workplace::new();
    let model = place.path("reranker.gguf");
    let weights: Vec<f32> = (0..64)
        .map(|i| if i % 3 == 0 { 0.5 } else { -0.25 })
        .collect();
    with_classifier(&bert, &model, &weights, &[0.125], &["LABEL_0"]);
    // What the head gives of the first row, worked out from that row.
    let score = |text: &str| {
        let words = ["-p", text, "--pooling", "cls", "--embd-normalize", "-1"];
        let row = vectors(&bert, &words).remove(0);
        let products = row.iter().zip(&weights).map(|(x, w)| x * w);
        products.sum::<f32>() + 0.125
    };
    let documents = ["the sky", "a fox", "numbers"];
    // Two texts with the separator between them.
    let expected = documents.map(|document| score(&format!("what is[SEP]{document}")));
    let words = [
        "-q",
        "what is",
        "-d",
        "the sky",
        "-d",
        "a fox",
        "--document",
        "numbers",
    ];
    let answer = rerank(&model, &words);
    let results = answer["results"].as_array().expect("a list");
    let mut order = [0, 1, 2];
    order.sort_by(|a, b| expected[*b].total_cmp(&expected[*a]));
    for (result, index) in results.iter().zip(order) {
        assert_eq!(result["index"], index);
        let score = result["relevance_score"].as_f64().expect("a number") as f32;
        assert!(
            (score - expected[index]).abs() < 1e-4,
            "{score} {}",
            expected[index]
        );
    }
    assert_eq!((results.len(), &answer["object"]), (3, &"list".into()));
    let cut = rerank(&model, &[&words[..], &["--top-n", "1"]].concat());
    assert_eq!(cut["results"], serde_json::json!([results[0]]));
    // The same by `embed`, whose texts are pairs.
    let pair = ["-p", "what is|a fox", "--cls-separator", "|"];
    assert_eq!(
        embed(&model, &pair),
        format!("rerank score 0: {:8.3}\n", expected[1])
    );
    let message = failure(&bert, &["-p", "x", "--pooling", "rank"]);
    assert_eq!(
        message.trim_end(),
        "error: [MODEL]: the model has no classifier, so it gives no scores\n\
         hint: use a reranker, or another pooling (mean, cls, last, none)"
    );
    let place = Workplace::new();
    place.write("documents.txt", "one\n\nthree\n");
    let line = format!(
        "gristmill rerank {} --query x --file documents.txt",
        model.display()
    );
    let outcome = place.run(&line);
    assert!(
        outcome.contains("error: document 1 (line 2) is empty"),
        "{outcome}"
    );
    place.write("documents.txt", "the sky\na fox\n");
    let outcome = place.run(&line);
    assert!(
        outcome.starts_with("exit: 0") && outcome.contains("  the sky"),
        "{outcome}"
    );
}

/// What is cut off is the document, never the query or what the model has behind both; where nothing would be left of the
/// document, all scores would be one.
#[test]
fn a_pair_is_cut_in_the_document_alone() {
    let Some(bert) = golden("bert") else { return };
    let place = Workplace::new();
    let model = place.path("reranker.gguf");
    let weights: Vec<f32> = (0..64).map(|i| (i % 5) as f32 / 4.0 - 0.5).collect();
    with_classifier(&bert, &model, &weights, &[0.0], &["LABEL_0"]);
    // "one" has two tokens; before and behind the query, and behind the document, stands one of the model.
    let many = |n: usize| vec!["one"; n].join(" ");
    let scores = |words: &[&str]| {
        let answer = rerank(&model, words);
        let results = answer["results"].as_array().expect("a list").clone();
        let score = |index: usize| {
            let found = results.iter().find(|result| result["index"] == index);
            found.expect("it is there")["relevance_score"].clone()
        };
        (score(0), score(1))
    };
    let query = many(60);
    let pair = [
        "-q",
        &query,
        "-d",
        "the sky two three four",
        "-d",
        "numbers and a fox",
    ];
    let (one, other) = scores(&[&pair[..], &["--truncate"]].concat());
    assert_ne!(one, other);
    let refusal = |words: &[&str]| {
        let mut command = place.command("gristmill");
        command
            .arg("rerank")
            .arg(&model)
            .args(["-t", "1"])
            .args(words);
        let output = piped(&mut command, b"").1;
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    // 3 + 2 * 63 tokens.
    let query = many(63);
    let pair = ["-q", &query, "-d", "the sky", "-d", "a fox"];
    let expected = "error: the query takes 129 tokens with those of the model, so that none of a document fits into 128\n\
                    hint: shorten the query: the model sees no more at once\n";
    assert_eq!(refusal(&pair), expected);
    assert_eq!(refusal(&[&pair[..], &["--truncate"]].concat()), expected);
    assert!(
        refusal(&[&pair[..], &["-c", "64"]].concat()).contains("or give a longer context with -c")
    );
    // Of several documents the one at fault is named by its number in the results, and by its line.
    let long = many(90);
    let named = refusal(&["-q", "x", "-d", "a fox", "-d", &long]);
    assert!(
        named.starts_with("error: document 1: it has ") && named.contains("--truncate"),
        "{named}"
    );
    let file = place.write("documents.txt", format!("a fox\n{long}\n"));
    let named = refusal(&["-q", "x", "-f", &file.to_string_lossy()]);
    assert!(
        named.starts_with("error: document 1 (line 2): it has "),
        "{named}"
    );
    // The same of pairs and prefixes of `embed`.
    let texts = format!("short\tpair\n{query}\ta fox");
    let message = failure(&model, &["-p", &texts, "--truncate"]);
    assert!(
        message.starts_with("error: text 1: the query takes 129 tokens"),
        "{message}"
    );
    let prefix = format!("{query} ");
    let message = failure(&bert, &["-p", "a\nb", "--prefix", &prefix, "--truncate"]);
    assert_eq!(
        message,
        "error: the prefix alone takes 128 tokens, so that none of a text fits into 128\n\
         hint: shorten --prefix\n"
    );
    let message = failure(&bert, &["-p", "a\nb", "-c", "2", "--truncate"]);
    assert!(
        message.contains("what the model adds to it takes 2 tokens"),
        "{message}"
    );
    // In a form of the model's own, all that stands behind the document stays.
    let form = "tokenizer.chat_template.rerank=str:[CLS]{query}[SEP]{document}[SEP]fox[SEP]";
    let run = place.run(&format!("gristmill edit reranker.gguf --set {form}"));
    assert!(run.starts_with("exit: 0"), "{run}");
    let texts = format!("the sky\tone\nthe sky\t{}", many(90));
    let words = ["-p", &texts, "--truncate", "--verbose-prompt"];
    let shown = run_on("gristmill", &model, &words, b"").stderr;
    let shown = String::from_utf8_lossy(&shown).into_owned();
    let ids = |number: usize| -> Vec<String> {
        let mut lines = shown.lines();
        let head = format!("prompt {number}: ");
        lines
            .find(|line| line.starts_with(&head))
            .expect("it is shown");
        let tokens = lines.skip_while(|line| !line.contains(" -> '"));
        let tokens = tokens.take_while(|line| line.contains(" -> '"));
        tokens.map(str::to_owned).collect()
    };
    let (short, long) = (ids(0), ids(1));
    assert_eq!(long.len(), 128, "{shown}");
    // The document has two tokens.
    let n_before = short.iter().position(|line| line.ends_with("'[SEP]'"));
    let n_before = n_before.expect("it is there") + 1;
    assert_eq!(long[..n_before + 2], short[..n_before + 2]);
    let behind = &short[n_before + 2..];
    assert!(
        behind[0].ends_with("'[SEP]'") && behind.len() > 2,
        "{short:?}"
    );
    assert_eq!(&long[128 - behind.len()..], behind);
}

/// Case B104: a model that answers yes or no gives the share of yes of the last row.
#[test]
fn case_b104_shares_of_yes_and_no() {
    let Some(qwen3) = golden("qwen3") else { return };
    let place = Workplace::new();
    let model = place.path("reranker.gguf");
    let words = |text: &'static str| ["-p", text, "--pooling", "last", "--embd-normalize", "-1"];
    let row = vectors(&qwen3, &words("is it so")).remove(0);
    let width = row.len();
    let weights: Vec<f32> = (0..2 * width)
        .map(|i| ((i * 7 % 11) as f32 - 5.0) / 20.0)
        .collect();
    with_classifier(&qwen3, &model, &weights, &[0.0, 0.0], &["yes", "no"]);
    let [yes, no] = [0, 1].map(|label| {
        let weights = &weights[label * width..(label + 1) * width];
        row.iter()
            .zip(weights)
            .map(|(x, w)| x * w)
            .sum::<f32>()
            .exp()
    });
    let shown = embed(&model, &["-p", "is it so"]);
    let expected = format!(
        "rerank score 0: {:8.3} [yes]\nrerank score 0: {:8.3} [no]\n",
        yes / (yes + no),
        no / (yes + no)
    );
    assert_eq!(shown, expected);
}
