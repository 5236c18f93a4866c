//! `estimate`, and what `run` says where memory is short.

use insta::assert_snapshot;

use crate::adapters::{of_tensors, values};
use crate::fixtures::with_model;
use crate::harness::Workplace;

/// The estimate of a file, as JSON.
fn estimate(place: &Workplace, words: &str) -> serde_json::Value {
    let mut command = place.command("gristmill");
    let output = command
        .args(["estimate", "--json", "--memory", "1GiB"])
        .args(words.split(' '))
        .output()
        .expect("the binary starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {told}");
    serde_json::from_slice(&output.stdout).expect("the output is JSON")
}

/// What a run tells on standard error, where so much memory is there.
fn run(place: &Workplace, memory: &str, words: &str) -> String {
    let mut command = place.command("gristmill");
    let fixed = "run -m a.gguf -no-cnv -p hello -n 1 --temp 0 -t 1";
    command.args(fixed.split(' ')).args(words.split(' '));
    if !memory.is_empty() {
        command.env("GRISTMILL_MEMORY", memory);
    }
    let output = command.output().expect("the binary starts");
    place.show(&output)
}

#[test]
fn the_parts_are_told_with_what_fits() {
    let place = with_model();
    assert_snapshot!(place.run("gristmill estimate a.gguf --memory 1GiB -c 256"), @r"
    exit: 0
    --- stdout
    model            Tiny
    weights          5.01 MiB in bf16, f32
    KV cache         512.00 KiB for 256 tokens, f16/f16
    compute          2.07 MiB (1.56 MiB of values, 516.00 KiB beside them)
    program          14.22 MiB with the vocabulary
    total            21.80 MiB: 5.01 MiB mapped from the file, 16.79 MiB anonymous
    available        1.00 GiB: it fits
    longest context  256 tokens, all that the model was trained on
    recipes          34 of 34 fit, the largest is F32 with 26.80 MiB in all; --recipes lists them
    ");
    assert_snapshot!(place.run("gristmill estimate a.gguf --memory 28MiB -c 8192"), @r"
    exit: 0
    --- stdout
    model            Tiny
    weights          5.01 MiB in bf16, f32
    KV cache         16.00 MiB for 8192 tokens, f16/f16
    compute          4.13 MiB (3.12 MiB of values, 1.00 MiB beside them)
    program          14.22 MiB with the vocabulary
    total            39.36 MiB: 5.01 MiB mapped from the file, 34.35 MiB anonymous
    available        28.00 MiB: it does not fit
    longest context  256 tokens, all that the model was trained on
    what would fit   -c 256
                     -ctk q4_0 -ctv q4_0
                     a smaller model
    recipes          none fits
    ");
    let shown = place.run("gristmill estimate a.gguf --memory 19MiB --recipes");
    let lines: Vec<&str> = shown.lines().skip(9).take(12).collect();
    assert_snapshot!(lines.join("\n"), @r"
    longest context  none fits
    what would fit   its Q6_K of 2.06 MiB
                     a smaller model

    recipe        weights        total
    F32         10.01 MiB    26.80 MiB  does not fit
    F16          5.01 MiB    21.80 MiB  does not fit
    BF16         5.01 MiB    21.80 MiB  does not fit
    Q8_0         2.67 MiB    19.45 MiB  does not fit
    Q6_K         2.06 MiB    18.85 MiB
    Q5_1         1.90 MiB    18.69 MiB
    Q5_K_M       1.80 MiB    18.59 MiB
    ");
    let parallel = estimate(&place, "a.gguf -np 4");
    assert_eq!(parallel["sequences"], 4);
    assert_snapshot!(place.run("gristmill estimate"), @r"
    exit: 1
    --- stderr
    error: no model is named
    hint: name a GGUF file, or give sizes with --params-b, --bpw, --layers, --ctx-size, --kv-heads and --head-dim
    ");
}

/// The sizes are those that the requirement for such a calculator works out: 3.91 GiB and 1 GiB.
#[test]
fn sizes_alone_are_enough() {
    let place = Workplace::new();
    let sizes = "--params-b 7 --bpw 4.8 --layers 32 --context 8192 --kv-heads 8 --head-dim 128";
    let line = format!("gristmill estimate {sizes}");
    assert_snapshot!(place.run(&line), @r"
    exit: 0
    --- stdout
    weights        3.91 GiB
    KV cache       1.00 GiB
    overhead       1.50 GiB
    total          6.41 GiB
    ");
    let more = "--kv-bytes 1.0625 --sequences 4 --overhead-gib 0.5 --json";
    assert_snapshot!(place.run(&format!("{line} {more}")), @r#"
    exit: 0
    --- stdout
    {
      "weights": 4200000000,
      "kv_cache": 2281701376,
      "overhead": 536870912,
      "total": 7018572288
    }
    "#);
    assert_snapshot!(place.run("gristmill estimate --params-b 7"), @r"
    exit: 2
    --- stderr
    error: the following required arguments were not provided:
      --bpw <N>
      --layers <N>
      --kv-heads <N>
      --head-dim <N>

    Usage: gristmill estimate --params-b <N> --bpw <N> --layers <N> --kv-heads <N> --head-dim <N> [MODEL]

    For more information, try '--help'.
    ");
}

/// The memory plan of a run and the estimate are one.
#[test]
fn a_run_reserves_what_was_estimated() {
    let place = with_model();
    let mut files = vec!["a.gguf".to_owned()];
    if let Some(folder) = gristmill_golden::folder("convert/gemma3_text") {
        std::fs::copy(
            folder.join("gemma3_text-f32.gguf"),
            place.path("windows.gguf"),
        )
        .expect("the model can be copied");
        files.push("windows.gguf".to_owned());
    }
    for file in &files {
        for flags in [
            "-c 96",
            "-c 512 -ub 32",
            "-c 512 -b 64 -ctk f32 -ctv bf16",
            "-c 512 -ub 32 --swa-full",
        ] {
            let line = format!("gristmill run -m {file} -no-cnv -p hello -n 1 -t 1 {flags}");
            let told = place.run(&line);
            let bytes = estimate(&place, &format!("{file} {flags}"));
            let mib = |name: &str| {
                let n_bytes = bytes[name].as_u64().expect("it is a number");
                format!("{:.1} MiB", n_bytes as f64 / f64::from(1 << 20))
            };
            let expected = format!(
                "buffers: weights {} mapped, KV cache {}, compute {}",
                mib("weights"),
                mib("kv_cache"),
                mib("arena")
            );
            assert!(told.contains(&expected), "{flags}: {expected}\n{told}");
        }
    }
}

/// Adapters are mapped beside the model. 3 KiB are a direction for each of three layers.
#[test]
fn what_is_used_beside_the_model_counts() {
    let place = with_model();
    let directions = [1, 2, 3].map(|layer| {
        let name: &str = ["direction.1", "direction.2", "direction.3"][layer - 1];
        (name, vec![256], values(256, layer))
    });
    let about = [("general.architecture", "controlvector")];
    of_tensors(&place, "control.gguf", &about, &directions);
    let plain = estimate(&place, "a.gguf");
    let of = |bytes: &serde_json::Value, name: &str| bytes[name].as_u64().expect("a number");
    assert_eq!(of(&plain, "beside"), 0);
    let weights = of(&plain, "weights");
    for (flags, beside) in [
        ("--control-vector control.gguf", 3 << 10),
        (
            "--control-vector-scaled control.gguf:2,control.gguf:1",
            6 << 10,
        ),
    ] {
        let bytes = estimate(&place, &format!("a.gguf {flags}"));
        assert_eq!(of(&bytes, "beside"), beside, "{flags}");
        assert_eq!(of(&bytes, "mapped"), weights + beside, "{flags}");
        assert_eq!(of(&bytes, "total"), of(&plain, "total") + beside, "{flags}");
        let [one, other] = [&bytes, &plain].map(|bytes| of(&bytes["recipes"][0], "total"));
        assert_eq!(one, other + beside, "{flags}");
    }
    let line = "gristmill estimate a.gguf --memory 1GiB --control-vector control.gguf";
    let shown = place.run(line);
    let lines: Vec<&str> = shown.lines().skip(6).take(2).collect();
    assert_snapshot!(lines.join("\n"), @r"
    program          14.22 MiB with the vocabulary
    beside it        3.00 KiB of adapters
    ");
    let shown = place.run("gristmill estimate a.gguf --lora none.gguf");
    assert!(shown.contains("error: none.gguf: no such file"), "{shown}");
    let words = "-c 64 --control-vector control.gguf --no-mmap --log-disable";
    let refused = run(&place, "8MiB", words);
    assert!(
        refused.contains("(weights 5.01 MiB, adapters 3.00 KiB, KV cache"),
        "{refused}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_takes_what_was_estimated() {
    let place = with_model();
    let told = run(&place, "", "-c 512 -v");
    let peak = told.lines().find_map(|line| {
        let rest = line.strip_prefix("memory: ")?;
        rest.strip_suffix(" MiB resident at most, files and anonymous")
    });
    let peak: f64 = peak
        .and_then(|peak| peak.parse().ok())
        .expect("the peak is told");
    let total = estimate(&place, "a.gguf -c 512")["total"].as_f64();
    let total = total.expect("it is a number") / f64::from(1 << 20);
    assert!((peak - total).abs() < 16.0, "{peak} {total}");
}

#[test]
fn the_first_bytes_of_a_file_and_a_set_are_enough() {
    let place = with_model();
    let whole = estimate(&place, "a.gguf");
    let bytes = std::fs::read(place.path("a.gguf")).expect("it can be read");
    let file = gristmill_gguf::File::open(&place.path("a.gguf")).expect("it can be opened");
    let header = usize::try_from(file.data_offset()).expect("it is small");
    place.write("cut.gguf", &bytes[..header]);
    let mut cut = estimate(&place, "cut.gguf");
    cut["path"] = whole["path"].clone();
    assert_eq!(cut, whole);
    assert_snapshot!(place.run("gristmill run -m cut.gguf -p hello --log-disable"), @r#"
    exit: 1
    --- stderr
    error: cut.gguf: tensor "token_embd.weight" ends at byte 553536, but the file has 29248 bytes
    hint: the file is incomplete; compare its size and hash with its source and fetch it again
    "#);
    place.write("less.gguf", &bytes[..header / 2]);
    assert_snapshot!(place.run("gristmill estimate less.gguf"), @r#"
    exit: 1
    --- stderr
    error: less.gguf: key "tokenizer.ggml.token_type": an array of 1024 elements of INT32 takes at least 4096 bytes, and 2015 are left (byte 12597)
    hint: the file is damaged, or was made by a faulty tool; compare its hash with its source and fetch or convert it again
    "#);
    let split = place.run("gristmill split a.gguf part --split-max-tensors 10");
    assert!(split.starts_with("exit: 0"), "{split}");
    let shards: Vec<String> = place.files();
    let second = shards
        .iter()
        .find(|name| name.starts_with("part-00002"))
        .expect("there is a second shard");
    let set = estimate(&place, second);
    for part in ["weights", "kv_cache", "compute", "recipes"] {
        assert_eq!(set[part], whole[part], "{part}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_what_would() {
    let place = with_model();
    assert_snapshot!(run(&place, "17MiB", "-c 8192 -ub 512 --log-disable"), @r"
    exit: 1
    --- stderr
    error: a.gguf: a context of 8192 tokens needs 34.35 MiB of memory (KV cache 16.00 MiB, compute 4.13 MiB, program 14.22 MiB), and 17.00 MiB are available
    hint: close other programs, or take -c 256, or a smaller model
    ");
    assert_snapshot!(run(&place, "15MiB", "-c 8192 --no-mmap --log-disable"), @r"
    exit: 1
    --- stderr
    error: a.gguf: a context of 8192 tokens needs 39.36 MiB of memory (weights 5.01 MiB, KV cache 16.00 MiB, compute 4.13 MiB, program 14.22 MiB), and 15.00 MiB are available
    hint: close other programs, or take a smaller model
    ");
    // Nobody asked for a length: it is made to fit.
    let told = run(&place, "15MiB", "-ub 64");
    assert!(
        told.starts_with("exit: 0") && told.contains("(cut from 256)"),
        "{told}"
    );
    // All that is its own fits, and the weights can be read again.
    let warned = run(&place, "18MiB", "-c 64");
    let told: Vec<&str> = warned.lines().skip(4).take(2).collect();
    assert_snapshot!(told.join("\n"), @r"
    warning: 5.01 MiB of weights do not fit into memory beside 14.87 MiB of the program's own: 18.00 MiB are available, so parts of the file are read again for each token
    hint: close other programs, or take its Q8_0 of 2.67 MiB, or a smaller model
    ");
    assert_snapshot!(run(&place, "much", "--log-disable"), @r"
    exit: 1
    --- stderr
    error: GRISTMILL_MEMORY of the environment is no size: there is no number in front, as in 7.5GiB
    ");
}

/// A model that drafts was counted nowhere.
#[test]
fn a_draft_model_counts_too() {
    let place = with_model();
    let made = place.run("gristmill quantize a.gguf rough.gguf q4_0");
    assert!(made.starts_with("exit: 0"), "{made}");
    let line = "gristmill estimate a.gguf --memory 1GiB -c 256";
    let shown = place.run(&format!("{line} -md rough.gguf"));
    let lines: Vec<&str> = shown.lines().skip(7).take(2).collect();
    assert_snapshot!(lines.join("\n"), @r"
    draft model      1.48 MiB of weights, KV cache 512.00 KiB for 256 tokens, compute 1.74 MiB, vocabulary 227.37 KiB
    total            25.74 MiB: 6.49 MiB mapped from the file, 19.25 MiB anonymous
    ");
    let plain = estimate(&place, "a.gguf -c 256 -t 1");
    assert!(plain["draft"].is_null(), "{plain}");
    let own = estimate(&place, "rough.gguf -c 256 -t 1");
    let with = |flags: &str| estimate(&place, &format!("a.gguf -c 256 -t 1 {flags}"));
    let both = with("-md rough.gguf");
    let draft = &both["draft"];
    for part in ["weights", "kv_cache", "compute"] {
        assert_eq!(draft[part], own[part], "{part}");
        assert_eq!(both[part], plain[part], "{part}");
    }
    let sum = |value: &serde_json::Value, parts: &[&str]| -> u64 {
        let parts = parts.iter().map(|part| value[part].as_u64());
        parts.map(|part| part.expect("it is a number")).sum()
    };
    let of_draft = sum(draft, &["weights", "kv_cache", "compute", "program"]);
    assert_eq!(sum(&both, &["total"]), sum(&plain, &["total"]) + of_draft);
    assert_eq!(
        sum(&both, &["mapped"]),
        sum(&plain, &["weights"]) + sum(&own, &["weights"])
    );
    let wide = with("-md rough.gguf -ctkd f32 -ctvd f32");
    let n_bytes = |value: &serde_json::Value| sum(&value["draft"], &["kv_cache"]);
    assert_eq!(n_bytes(&wide), 2 * n_bytes(&both));
    assert_snapshot!(place.run(&format!("{line} -ctkd f32 -md missing.gguf")), @r"
    exit: 1
    --- stderr
    error: missing.gguf: no such file
    hint: check the path: a model is one .gguf file, or any of its shards
    ");
    let unused = place.run(&format!("{line} --spec-draft-n-max 2"));
    let note = "note: --spec-draft-n-max changes nothing without a draft model";
    assert!(unused.contains(note), "{unused}");
    let refused = run(&place, "18MiB", "-c 256 -md rough.gguf --log-disable");
    assert!(refused.starts_with("exit: 1"), "{refused}");
    assert!(refused.contains(", draft model 2."), "{refused}");
    assert!(
        refused
            .trim_end()
            .ends_with(", or leave out the draft model"),
        "{refused}"
    );
    let fits = run(&place, "18MiB", "-c 256 --log-disable");
    assert!(fits.starts_with("exit: 0"), "{fits}");
}
