//! Signals: what ends a command, with which exit code, and what it leaves behind.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::fixtures::large_model;
use crate::harness::{Workplace, tiny};

/// Waits until something is so, while the child runs.
fn wait_until(child: &mut Child, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(120), "nothing came");
        let ended = child.try_wait().expect("it can be asked");
        assert!(ended.is_none(), "it ended too early: {ended:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn send(child: &Child, signal: &str) {
    let id = child.id().to_string();
    let sent = Command::new("kill").args([signal, &id]).status();
    assert!(sent.is_ok_and(|status| status.success()), "it was not sent");
}

/// As `nohup` does, and as scripts do to their background jobs.
#[test]
fn a_signal_that_was_ignored_at_the_start_stays_ignored() {
    let place = Workplace::new();
    let (_, model) = large_model(&place);
    let binary = place.command("gristmill");
    let script = "trap '' HUP INT; exec \"$0\" quantize \"$1\" out.gguf Q6_K";
    let mut child = Command::new("sh")
        .args(["-c", script])
        .args([binary.get_program(), model.as_ref()])
        .current_dir(place.path("."))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let before = place.files().len();
    wait_until(&mut child, || place.files().len() > before);
    send(&child, "-HUP");
    send(&child, "-INT");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0));
    assert!(place.path("out.gguf").exists());
}

#[test]
fn a_stopped_pipeline_leaves_no_report_and_no_candidate() {
    let place = Workplace::new();
    let tiny = tiny().to_string_lossy().into_owned();
    for (signal, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        // The second wait is for the quantized file before its check.
        for ending in [".partial", ".unverified"] {
            let mut child = place
                .command("gristmill")
                .args(["pipeline", &tiny, "Tiny", "Q4_0", "-t", "1"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("it starts");
            let stands = || {
                ["reports", "models/quant"].iter().any(|folder| {
                    let entries = std::fs::read_dir(place.path(folder));
                    entries.is_ok_and(|mut entries| {
                        entries.any(|entry| {
                            let name = entry.expect("it can be read").file_name();
                            name.to_string_lossy().ends_with(ending)
                        })
                    })
                })
            };
            wait_until(&mut child, stands);
            send(&child, signal);
            let status = child.wait().expect("it ends");
            assert_eq!(status.code(), Some(code), "{signal} {ending}");
            for folder in ["reports", "models/quant"] {
                let left = std::fs::read_dir(place.path(folder)).map_or(0, Iterator::count);
                assert_eq!(left, 0, "{signal} {ending}: something is left in {folder}");
            }
        }
    }
}
