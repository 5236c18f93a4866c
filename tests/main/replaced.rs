//! What an output leaves of the file that it replaces: its mode, and where a link leads.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use crate::fixtures::with_model;
use crate::harness::{Workplace, tiny};

fn mode(place: &Workplace, name: &str) -> u32 {
    let about = fs::metadata(place.path(name)).expect("the file is there");
    about.permissions().mode() & 0o777
}

/// Makes all files private and runs again, `times` further times: they stay so.
fn assert_stays_private(place: &Workplace, outputs: &[&str], line: &str, again: &str) {
    let first = place.run(line);
    assert!(first.starts_with("exit: 0"), "{line}: {first}");
    for private in [0o600, 0o400] {
        for output in outputs {
            let permissions = Permissions::from_mode(private);
            fs::set_permissions(place.path(output), permissions).expect("it is there");
        }
        let run = place.run(again);
        assert!(run.starts_with("exit: 0"), "{again}: {run}");
        for output in outputs {
            assert_eq!(mode(place, output), private, "{again}: {output}");
        }
    }
}

#[test]
fn what_was_private_stays_so_when_it_is_replaced() {
    let place = with_model();
    let tiny = tiny().to_string_lossy().into_owned();
    let lines = [
        (
            &["q.gguf", "r.json"][..],
            "quantize --report r.json a.gguf q.gguf Q8_0",
        ),
        (&["q2.gguf"], "quantize --resume a.gguf q2.gguf Q8_0"),
        (&["c.gguf"], &format!("convert {tiny} --outfile c.gguf")),
        (
            &["s-00001-of-00002.gguf", "s-00002-of-00002.gguf"],
            "split --split-max-tensors 20 a.gguf s",
        ),
        (&["m.gguf"], "merge s-00001-of-00002.gguf m.gguf"),
        (&["e.gguf"], "endian a.gguf e.gguf big"),
        (&["o.npy"], "logits a.gguf --tokens 1 --output o.npy"),
        (
            &["n.gguf"],
            "edit a.gguf --set general.name=n --output n.gguf",
        ),
        (&["x/config.json", "x/model.safetensors"], "export a.gguf x"),
    ];
    for (outputs, words) in lines {
        let line = format!("gristmill {words}");
        assert_stays_private(&place, outputs, &line, &format!("{line} --force"));
    }
    let line = format!("gristmill pipeline {tiny} Tiny Q4_0");
    let made = [
        "models/bf16/Tiny-BF16.gguf",
        "models/quant/Tiny-Q4_0.gguf",
        "reports/Tiny-Q4_0/manifest.json",
        "reports/Tiny-Q4_0/quantize.log",
    ];
    let again = format!("{line} --force");
    assert_stays_private(&place, &made, &line, &again);
    let reports = place.path("reports/Tiny-Q4_0");
    fs::set_permissions(&reports, Permissions::from_mode(0o700)).expect("it is there");
    let run = place.run(&again);
    assert!(run.starts_with("exit: 0"), "{again}: {run}");
    assert_eq!(mode(&place, "reports/Tiny-Q4_0"), 0o700);
    // In place of itself, whether the old header has room for the new entry or not.
    for (number, text) in ["b", "a name that takes more room than there is"]
        .iter()
        .enumerate()
    {
        let line = format!("gristmill edit q.gguf --force --set general.name={number}");
        let text = text.replace(' ', "-");
        let again = format!("gristmill edit q.gguf --force --set general.name={text}");
        assert_stays_private(&place, &["q.gguf"], &line, &again);
    }
    let talk = "gristmill run -m a.gguf -n 1 -p hi --log-disable";
    let line = format!("{talk} -no-cnv --prompt-cache s.bin --prompt-cache-all");
    assert_stays_private(&place, &["s.bin"], &line, &line);
    let line = format!("{talk} -st --chat-template chatml --history talk.json");
    assert_stays_private(&place, &["talk.json"], &line, &line);
    // An empty file of the user's, made private before anything is in it, is a new one.
    for (name, words) in [
        ("new.bin", "-no-cnv --prompt-cache new.bin"),
        ("new.json", "-st --chat-template chatml --history new.json"),
    ] {
        let path = place.write(name, "");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("it is there");
        let run = place.run(&format!("{talk} {words}"));
        assert!(run.starts_with("exit: 0"), "{words}: {run}");
        assert_eq!(mode(&place, name), 0o600);
        assert!(fs::metadata(&path).expect("it is there").len() > 0);
    }
}

#[test]
fn what_a_run_goes_on_with_stays_where_its_link_leads() {
    let place = with_model();
    fs::create_dir(place.path("kept")).expect("a folder can be made");
    let talk = "gristmill run -m a.gguf -n 2 -p hello";
    for (name, words) in [
        ("s.bin", "-no-cnv --prompt-cache"),
        ("talk.json", "-st --chat-template chatml --history"),
    ] {
        // Over two links, the second of which is beside the file; first where there is none yet.
        let (file, near) = (format!("kept/{name}"), format!("kept/near-{name}"));
        symlink(name, place.path(&near)).expect("a link can be made");
        symlink(&near, place.path(name)).expect("a link can be made");
        let mut sizes = Vec::new();
        for more in ["", "-and-more-words"] {
            let line = format!("{talk}{more} {words} {name}");
            let run = place.run(&line);
            assert!(run.starts_with("exit: 0"), "{line}: {run}");
            assert!(place.path(name).is_symlink() && place.path(&near).is_symlink());
            let about = fs::symlink_metadata(place.path(&file)).expect("the file is there");
            assert!(about.is_file());
            sizes.push(about.len());
        }
        assert!(sizes[0] > 0 && sizes[1] > sizes[0], "{name}: {sizes:?}");
    }
    // Links in a circle lead to no file.
    symlink("one", place.path("two")).expect("a link can be made");
    symlink("two", place.path("one")).expect("a link can be made");
    for words in [
        "-no-cnv --prompt-cache one",
        "-st --chat-template chatml --history one",
    ] {
        let run = place.run(&format!("{talk} {words}"));
        assert!(
            run.starts_with("exit: 1") && run.contains("one"),
            "{words}: {run}"
        );
        assert!(place.path("one").is_symlink());
    }
}

/// An output takes the place of a link itself, since other names may lead to the file behind it; with the mode of that file.
#[test]
fn an_output_replaces_a_link_and_not_what_it_leads_to() {
    let place = with_model();
    let blob = place.write("blob", "precious");
    fs::set_permissions(&blob, Permissions::from_mode(0o600)).expect("it is there");
    symlink("blob", place.path("q.gguf")).expect("a link can be made");
    for flags in ["", "--resume "] {
        let run = place.run(&format!("gristmill quantize {flags}a.gguf q.gguf Q8_0"));
        assert!(run.starts_with("exit: 1"), "{run}");
        assert!(place.path("q.gguf").is_symlink());
    }
    let run = place.run("gristmill quantize --force a.gguf q.gguf Q8_0");
    assert!(run.starts_with("exit: 0"), "{run}");
    assert!(!place.path("q.gguf").is_symlink());
    assert_eq!(mode(&place, "q.gguf"), 0o600);
    assert_eq!(fs::read(&blob).expect("it is there"), b"precious");
}
