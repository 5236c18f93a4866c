//! Models of a hub: pulled, listed, and named in place of a path.

use std::process::{Command, Stdio};
use std::time::Duration;

use insta::assert_snapshot;

use crate::fixtures::small_model;
use crate::harness::{Workplace, send, wait};
use crate::hub_server::{Asked, COMMIT, Fault, Server};

const FILE: &str = "user/tiny/tiny-F16.gguf";

/// A hub with a small model, and with faults.
fn hub(faults: impl Fn(&Asked) -> Option<Fault> + Send + Sync + 'static) -> Server {
    let model = std::fs::read(small_model()).expect("it is there");
    let files = [
        (FILE, model),
        ("user/tiny/mmproj-tiny-F16.gguf", vec![0; 10]),
        ("user/tiny/config.json", b"{}".to_vec()),
    ];
    let files = files.map(|(name, bytes)| (name.to_owned(), bytes));
    Server::start(files.into(), faults)
}

/// A command that asks this hub alone and has a cache of its own.
fn command(place: &Workplace, server: &Server, words: &[&str]) -> Command {
    let mut command = place.command("gristmill");
    for name in [
        "LLAMA_CACHE",
        "HF_TOKEN",
        "HF_TOKEN_PATH",
        "HF_HUB_CACHE",
        "HF_HUB_OFFLINE",
        "MODEL_ENDPOINT",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
        "SSL_CERT_FILE",
    ] {
        command.env_remove(name);
    }
    command
        .env("HF_ENDPOINT", &server.address)
        .env("HF_HOME", place.path("hf"))
        .env("XDG_CACHE_HOME", place.path("xdg"))
        .args(words);
    command
}

/// What came of a command; the server's address is written `[HUB]`.
fn shown(place: &Workplace, server: &Server, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').skip(1).collect();
    let output = command(place, server, &words).output();
    let shown = place.show(&output.expect("the binary starts"));
    shown.replace(&server.address, "[HUB]")
}

#[test]
fn a_model_is_pulled_listed_and_run() {
    let (place, server) = (Workplace::new(), hub(|_| None));
    let dry = shown(&place, &server, "gristmill pull user/tiny --dry-run");
    let bytes = std::fs::metadata(small_model()).expect("it is there").len();
    let dry = dry.replace(&bytes.to_string(), "[BYTES]");
    assert_snapshot!(dry, @"
    exit: 0
    --- stdout
    user/tiny at commit 0123456789abcdef0123456789abcdef01234567
      tiny-F16.gguf: [BYTES] bytes, to fetch
    1 file; [BYTES] bytes (5.04 MiB) to fetch
    --- stderr
    note: left out, since images and sound are not supported yet: mmproj-tiny-F16.gguf
    ");
    assert!(server.asked_for("/resolve/").is_empty());
    assert_snapshot!(shown(&place, &server, "gristmill pull user/tiny:f16 --connections 2"), @"
    exit: 0
    --- stdout
    [DIR]/hf/hub/models--user--tiny/snapshots/0123456789abcdef0123456789abcdef01234567/tiny-F16.gguf
    --- stderr
    note: left out, since images and sound are not supported yet: mmproj-tiny-F16.gguf
    fetching tiny-F16.gguf: 5.04 MiB
    ");
    assert_snapshot!(shown(&place, &server, "gristmill list"), @"
    exit: 0
    --- stdout
    user/tiny:F16  5.04 MiB  llama  [DIR]/hf/hub/models--user--tiny/snapshots/0123456789abcdef0123456789abcdef01234567/tiny-F16.gguf
    ");
    let listed = command(&place, &server, &["list", "TINY", "--json"]).output();
    let listed: serde_json::Value =
        serde_json::from_slice(&listed.expect("it starts").stdout).expect("it is JSON");
    assert_eq!(listed[0]["name"], "user/tiny:F16");
    assert_eq!(listed[0]["architecture"], "llama");
    assert_eq!(listed[0]["revision"], "main");
    assert_eq!(listed[0]["bytes"], bytes);
    let nothing = shown(&place, &server, "gristmill list other");
    assert!(nothing.contains("no GGUF model is in"), "{nothing}");
    // From now on without a word to the hub.
    let n_asked = server.asked().len();
    let line =
        "gristmill run -hf user/tiny --offline -no-cnv -p ROMEO: -n 4 --temp 0 --log-disable";
    let by_name = shown(&place, &server, line);
    assert!(
        by_name.starts_with("exit: 0\n--- stdout\nROMEO:"),
        "{by_name}"
    );
    let mut by_environment = command(&place, &server, &["run"]);
    by_environment
        .args([
            "-no-cnv",
            "-p",
            "ROMEO:",
            "-n",
            "4",
            "--temp",
            "0",
            "--log-disable",
        ])
        .env("LLAMA_ARG_HF_REPO", "user/tiny:F16")
        .env("LLAMA_ARG_OFFLINE", "1");
    let output = by_environment.output().expect("the binary starts");
    assert_eq!(place.show(&output), by_name);
    assert_eq!(server.asked().len(), n_asked);
}

#[test]
fn every_command_with_a_model_takes_one_of_the_hub() {
    let (place, server) = (Workplace::new(), hub(|_| None));
    for (name, rest) in [
        ("inspect", ""),
        ("logits", " --tokens 1 --output o.npy"),
        ("run", " -no-cnv -p x -n 1"),
        ("tokenize", " -p x"),
    ] {
        let missing = shown(
            &place,
            &server,
            &format!("gristmill {name} -hf user/tiny --offline{rest}"),
        );
        let text = "error: user/tiny: it is not in the cache, and --offline forbids to fetch it";
        assert!(
            missing.starts_with("exit: 1") && missing.contains(text),
            "{missing}"
        );
        let line = format!("gristmill {name} -mu {}/{FILE}{rest}", server.address);
        let by_address = shown(&place, &server, &line);
        assert!(by_address.starts_with("exit: 0"), "{by_address}");
        let line = format!("gristmill {name} -hfr user/tiny -hff other.gguf{rest}");
        let no_file = shown(&place, &server, &line);
        assert!(
            no_file.contains("error: user/tiny: it has no file other.gguf")
                && no_file.contains("hint: its GGUF files are mmproj-tiny-F16.gguf, tiny-F16.gguf"),
            "{no_file}"
        );
    }
    assert_eq!(
        place
            .files()
            .iter()
            .filter(|file| file.ends_with("/tiny-F16.gguf"))
            .count(),
        1
    );
    let named = format!(
        "gristmill tokenize -mu {}/{FILE} -m here.gguf -p x",
        server.address
    );
    let named = shown(&place, &server, &named);
    assert!(
        named.starts_with("exit: 0") && place.path("here.gguf").is_file(),
        "{named}"
    );
}

#[test]
fn what_the_hub_refuses_is_told_with_a_remedy() {
    let place = Workplace::new();
    let of = |line: &str, fault: fn(&Asked) -> Option<Fault>| {
        let server = hub(fault);
        shown(&place, &server, line)
    };
    let pull = "gristmill pull user/tiny";
    let all = [
        of(pull, |_| Some(Fault::Status(401, Vec::new()))),
        of("gristmill pull user/tiny --hf-token hf_secret", |_| {
            Some(Fault::Status(
                403,
                vec![("X-Error-Code", "GatedRepo".to_owned())],
            ))
        }),
        of("gristmill pull user/none", |_| None),
        of("gristmill pull user/tiny:Q9", |_| None),
        of("gristmill pull tiny", |_| None),
        of("gristmill pull user/tiny --revision ../x", |_| None),
        of("gristmill pull user/tiny --checkpoint", |_| None),
        of(pull, |asked| {
            asked.path.contains("/resolve/").then_some(Fault::Longer(1))
        }),
        of(pull, |asked| {
            asked.path.contains("/resolve/").then_some(Fault::Spoilt)
        }),
    ];
    let errors = all.iter().map(|shown| {
        shown
            .split("For more information")
            .next()
            .unwrap_or(shown)
            .trim_end()
    });
    let errors: Vec<&str> = errors.collect();
    let errors = errors.join("\n\n").replace("--- stderr\n", "");
    assert!(!errors.contains("hf_secret"));
    let hash = errors
        .split(' ')
        .find(|word| word.trim_end_matches([',', ';']).len() == 64);
    assert!(hash.is_some());
    let hidden: Vec<String> = errors
        .split(' ')
        .map(|word| match word.trim_end_matches([',', ';']).len() {
            64 => "[HASH]".to_owned(),
            _ => word.to_owned(),
        })
        .collect();
    let bytes = std::fs::metadata(small_model()).expect("it is there").len();
    let text = hidden.join(" ");
    let text = text
        .replace(&(bytes + 1).to_string(), "[BYTES + 1]")
        .replace(&bytes.to_string(), "[BYTES]");
    assert_snapshot!(text, @r#"
    exit: 1
    error: user/tiny: the hub has no such repository, or does not show it without a token
    hint: check the name; for a private repository give a token with HF_TOKEN or --hf-token

    exit: 1
    error: user/tiny: the hub refuses access
    hint: ask for access on the repository's page, and give a token that may read it

    exit: 1
    error: user/none: the hub has no such repository
    hint: check the name on the repository's page

    exit: 1
    error: user/tiny: it has no GGUF file for Q9
    hint: it has tiny-F16.gguf

    exit: 2
    error: invalid value 'tiny' for '<USER/REPO[:QUANT]>': "tiny" is no name on the hub: it has no slash between user and repository

    exit: 1
    error: "../x" is no revision
    hint: give a branch, a tag or the 40 digits of a commit

    exit: 1
    error: user/tiny: it has no config.json with safetensors files beside it
    hint: look at the repository's page: --hf-file takes any file of it by name, --checkpoint all that `gristmill convert` reads

    exit: 1
    note: left out, since images and sound are not supported yet: mmproj-tiny-F16.gguf
    fetching tiny-F16.gguf: 5.04 MiB
    error: tiny-F16.gguf: the server has [BYTES + 1] bytes of it, the hub states [BYTES]
    hint: give the same command again; if that fails too, the server's copy is damaged or was replaced on the way

    exit: 1
    note: left out, since images and sound are not supported yet: mmproj-tiny-F16.gguf
    fetching tiny-F16.gguf: 5.04 MiB
    error: tiny-F16.gguf: its SHA-256 is [HASH] the hub states [HASH] what came was removed
    hint: give the same command again; if that fails too, the server's copy is damaged or was replaced on the way
    "#);
}

#[test]
fn an_interrupted_pull_goes_on() {
    let place = Workplace::new();
    let server = hub(|asked| {
        if asked.path.contains("/resolve/") {
            std::thread::sleep(Duration::from_secs(60));
        }
        None
    });
    let mut child = command(&place, &server, &["pull", "user/tiny"])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary starts");
    while server.asked_for("/resolve/").is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    send(&child, "-INT");
    let status = wait(&mut child);
    let log = std::io::read_to_string(child.stderr.take().expect("it is piped"));
    let log = log.expect("it is text");
    assert_eq!(status.code(), Some(130), "{log}");
    assert!(
        log.ends_with("interrupted; the same command goes on from here\n"),
        "{log}"
    );
    let good = hub(|_| None);
    let again = shown(&place, &good, "gristmill pull user/tiny");
    assert!(
        again.contains(&format!("snapshots/{COMMIT}/tiny-F16.gguf")),
        "{again}"
    );
}

/// A model whose header takes more than the first request for it: a long entry before all others.
fn with_long_header(model: &[u8]) -> Vec<u8> {
    let key = b"general.description";
    // A whole number of aligned steps, so that data stays where the alignment wants it.
    let entry_bytes = 3 << 20;
    let text_bytes = entry_bytes - (8 + key.len() + 4 + 8);
    let n_entries = u64::from_le_bytes(model[16..24].try_into().expect("it is a number"));
    let mut bytes = model[..16].to_vec();
    bytes.extend((n_entries + 1).to_le_bytes());
    bytes.extend((key.len() as u64).to_le_bytes());
    bytes.extend(key);
    bytes.extend(8u32.to_le_bytes());
    bytes.extend((text_bytes as u64).to_le_bytes());
    bytes.resize(bytes.len() + text_bytes, b'x');
    bytes.extend(&model[24..]);
    bytes
}

#[test]
fn an_estimate_reads_the_header_alone() {
    let model = std::fs::read(small_model()).expect("it is there");
    for (bytes, lasts) in [
        (model.clone(), vec![(1 << 20) - 1]),
        (with_long_header(&model), vec![(1 << 20) - 1, (4 << 20) - 1]),
    ] {
        let place = Workplace::new();
        place.write("here.gguf", &bytes);
        let server = Server::start([(FILE.to_owned(), bytes)].into(), |_| None);
        let estimate = |words: &[&str]| -> serde_json::Value {
            let mut command = command(&place, &server, &["estimate", "--json", "--memory", "1GiB"]);
            let output = command.args(words).output().expect("the binary starts");
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{told}");
            serde_json::from_slice(&output.stdout).expect("it is JSON")
        };
        let mut there = estimate(&["-hf", "user/tiny"]);
        assert_eq!(there["path"], FILE);
        there["path"] = "here.gguf".into();
        assert_eq!(there, estimate(&["-m", "here.gguf"]));
        let asked = server.asked_for("/resolve/");
        let ends: Vec<_> = asked.iter().map(|asked| asked.range).collect();
        let expected: Vec<_> = lasts.iter().map(|last| Some((0, *last))).collect();
        assert_eq!(ends, expected);
        let files = place.files();
        assert_eq!(files, ["here.gguf"], "nothing of it is kept");
    }
    // Without the hub there is what the cache has.
    let (place, server) = (Workplace::new(), hub(|_| None));
    let shown = shown(
        &place,
        &server,
        "gristmill estimate -hf user/tiny --offline",
    );
    let text = "error: user/tiny: it is not in the cache, and --offline forbids to fetch it";
    assert!(shown.contains(text), "{shown}");
    assert!(server.asked().is_empty());
}

#[test]
fn a_revision_is_asked_for_by_its_name() {
    let (place, server) = (Workplace::new(), hub(|_| None));
    let line = "gristmill tokenize -hf user/tiny --revision v1 -p x";
    let by_revision = shown(&place, &server, line);
    assert!(by_revision.starts_with("exit: 0"), "{by_revision}");
    assert_eq!(server.asked_for("/revision/v1").len(), 1);
    let again = shown(&place, &server, &format!("{line} --offline"));
    assert!(again.starts_with("exit: 0"), "{again}");
    let other = shown(
        &place,
        &server,
        "gristmill tokenize -hf user/tiny --revision v2 --offline -p x",
    );
    assert!(other.starts_with("exit: 1"), "{other}");
    let model = small_model();
    let draft = format!(
        "gristmill run -m {} -hfd user/tiny --spec-draft-revision v3 -no-cnv -p x -n 1",
        model.display()
    );
    let draft = shown(&place, &server, &draft);
    assert!(draft.starts_with("exit: 0"), "{draft}");
    assert_eq!(server.asked_for("/revision/v3").len(), 1);
    let alone = shown(&place, &server, "gristmill estimate --revision v1");
    assert!(
        alone.contains(
            "error: --revision names a state of a repository, and no repository is named"
        ),
        "{alone}"
    );
}

/// A server that is no hub has no repositories.
#[test]
fn an_address_that_leads_nowhere_is_told_without_a_hub() {
    let place = Workplace::new();
    for (status, expected) in [
        (404, "the server has nothing there"),
        (401, "the server does not give it without a token"),
        (403, "the server does not give it without a token"),
    ] {
        let server = hub(move |_| Some(Fault::Status(status, Vec::new())));
        let line = format!("gristmill inspect -mu {}/none.gguf", server.address);
        let shown = shown(&place, &server, &line);
        let error = format!(
            "exit: 1\n--- stderr\nerror: [HUB]/none.gguf: {expected}\nhint: check the address"
        );
        assert!(shown.starts_with(&error), "{shown}");
    }
}
