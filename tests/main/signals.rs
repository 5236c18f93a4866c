//! Signals: what ends a command, with which exit code, and what it leaves behind.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::fixtures::large_model;
use crate::harness::{Workplace, send, tiny, wait};

/// Waits until something is so, while the child runs; false where it was done before anyone saw that.
fn seen(child: &mut Child, mut is_so: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(120), "nothing came");
        if let Some(ended) = child.try_wait().expect("it can be asked") {
            assert!(ended.success(), "it ended too early: {ended:?}");
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Waits until something is so, while the child runs.
fn wait_until(child: &mut Child, is_so: impl FnMut() -> bool) {
    assert!(seen(child, is_so), "it was done before that");
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
    assert_eq!(wait(&mut child).code(), Some(0));
    assert!(place.path("out.gguf").exists());
}

#[test]
fn a_stopped_pipeline_leaves_no_report_and_no_candidate() {
    let place = Workplace::new();
    for (signal, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        // The second wait is for the quantized file before its check.
        for ending in [".partial", ".unverified"] {
            stop_pipeline(&place, ending, signal, code);
            for folder in ["reports", "models/quant"] {
                let left = std::fs::read_dir(place.path(folder)).map_or(0, Iterator::count);
                assert_eq!(left, 0, "{signal} {ending}: something is left in {folder}");
            }
        }
    }
}

/// Starts a pipeline and stops it when a name of this ending stands; again where it was done before the signal came.
fn stop_pipeline(place: &Workplace, ending: &str, signal: &str, code: i32) {
    let names = || {
        let folders =
            ["reports", "models/quant"].map(|folder| std::fs::read_dir(place.path(folder)));
        let entries = folders.into_iter().flatten().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
    };
    for _ in 0..20 {
        // A BF16 file without the record of its source, of a run that was stopped between them, would be refused.
        for folder in ["reports", "models"] {
            let _ = std::fs::remove_dir_all(place.path(folder));
        }
        let mut child = place
            .command("gristmill")
            .arg("pipeline")
            .arg(tiny())
            .args(["Tiny", "Q4_0", "-t", "1"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        if seen(&mut child, || names().any(|name| name.ends_with(ending))) {
            send(&child, signal);
            let status = wait(&mut child);
            if !status.success() {
                assert_eq!(status.code(), Some(code), "{signal} {ending}");
                // From when the quantized file has its name on, it is too late as well.
                if !place.path("models/quant/Tiny-Q4_0.gguf").exists() {
                    return;
                }
            }
        }
        let is_finished = |name: String| ["Tiny-Q4_0", "Tiny-Q4_0.gguf"].contains(&&*name);
        assert!(names().all(is_finished), "{signal} {ending}");
    }
    panic!("no signal came in time: {signal} {ending}");
}
