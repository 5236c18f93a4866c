//! No template takes more than its budget: each runs in a process of its own, whose peak is read.

use std::process::Command;
use std::time::{Duration, Instant};

use super::hostile::{ESCAPES, HOSTILE, NESTED};
use super::render;
use crate::Template;

const FORM: &str = "GRISTMILL_TEMPLATE_FORM";

/// Peak of this process in bytes, where the system tells.
fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// Time that this thread was at work, where the system tells: other programs do not count.
fn time_at_work() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(
        stat.split_whitespace().next()?.parse().ok()?,
    ))
}

/// Every attack: too much of something, or a way out.
fn attacks() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    HOSTILE.iter().chain(ESCAPES)
}

/// Time at work since then, else time.
fn passed(begin: Instant, begin_at_work: Option<Duration>) -> Duration {
    match (begin_at_work, time_at_work()) {
        (Some(begin), Some(end)) => end - begin,
        _ => begin.elapsed(),
    }
}

/// What the test below runs in a process of its own; by itself it has no form to render.
#[test]
fn child() {
    let Ok(form) = std::env::var(FORM) else {
        return;
    };
    let (_, source) = attacks()
        .find(|(name, _)| *name == form)
        .expect("the form is there");
    let before = peak().unwrap_or(0);
    let (start, start_at_work) = (Instant::now(), time_at_work());
    let result = render(source, &serde_json::json!({"a": 1}));
    let elapsed = passed(start, start_at_work);
    let result = match result {
        Ok(text) => format!("{} bytes", text.len()),
        Err(error) => error.to_string().chars().take(200).collect(),
    };
    let grown = peak().unwrap_or(0).saturating_sub(before);
    println!("\n@ {grown} {} {result}", elapsed.as_millis());
}

/// What an attack took in a process of its own, in bytes and milliseconds, and how it ended.
fn measured(form: &str) -> Result<(usize, u64, String), String> {
    let program = std::env::current_exe().expect("a test has a program");
    let output = Command::new(program)
        .args(["tests::bounds::child", "--exact", "--nocapture"])
        .env(FORM, form)
        .output()
        .expect("the child runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("@ "));
    let parts: Vec<&str> = line.unwrap_or("").splitn(3, ' ').collect();
    match parts[..] {
        [bytes, ms, end] => Ok((
            bytes.parse().expect("a number"),
            ms.parse().expect("a number"),
            end.to_owned(),
        )),
        _ => Err(format!("{form}: {:?}\n{text}", output.status)),
    }
}

/// Each attack within 64 MiB and 50 ms of work; where others keep the processor busy, the best of three tries counts.
#[test]
fn no_template_takes_more_than_its_budget() {
    const BYTES_MAX: usize = 64 << 20;
    assert!(attacks().count() >= 60);
    let mut wrong = Vec::new();
    for (form, _) in attacks() {
        let mut tries = (0..3).map(|_| measured(form));
        let is_within = |took: &Result<(usize, u64, String), String>| matches!(took, Ok((bytes, ms, _)) if *bytes <= BYTES_MAX && *ms <= 50);
        match tries.find(is_within) {
            Some(took) => println!("{form}: {took:?}"),
            None => wrong.push(format!("{form}: {:?}", measured(form))),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Python's Jinja makes what it must not show undefined, which prints nothing, or ends with an error.
#[test]
fn no_template_reaches_beyond_its_inputs() {
    for (name, source) in ESCAPES {
        let shown = render(source, &serde_json::json!({"a": 1})).unwrap_or_default();
        assert_eq!(shown, "", "{name}: {source}");
    }
}

#[test]
fn nothing_is_left_behind() {
    for _ in 0..3 {
        for (_, source) in HOSTILE.iter().filter(|(name, _)| name.starts_with("cycle")) {
            let error = render(source, &serde_json::json!({})).unwrap_err();
            assert!(error.to_string().contains("namespace"), "{source}: {error}");
        }
    }
}

/// On a stack that is small for what programs have.
#[test]
fn nesting_ends_before_the_stack_does() {
    let small = std::thread::Builder::new().stack_size(1 << 20);
    let run = small.spawn(|| {
        for (start, part, end) in NESTED {
            for n in [50, 90, 99, 100, 101, 1000, 30_000, 100_000] {
                let source = format!("{start}{}{end}", part.repeat(n));
                let took = (0..3).map(|_| {
                    let (begin, at_work) = (Instant::now(), time_at_work());
                    if let Ok(template) = Template::new(&source) {
                        let _ = template.render(&crate::Input {
                            variables: &[],
                            now: &|_| String::new(),
                        });
                    }
                    passed(begin, at_work)
                });
                let least = took.min().unwrap_or_default();
                assert!(
                    least <= Duration::from_millis(50),
                    "{start}{part}… {n} times takes {least:?}"
                );
            }
        }
        for (name, source) in HOSTILE {
            if ["macro", "call", "loop-", "deep", "tree-", "maps"]
                .iter()
                .any(|start| name.starts_with(start))
            {
                let _ = render(source, &serde_json::json!({}));
            }
        }
    });
    run.expect("a thread starts")
        .join()
        .expect("no template ends it");
}

#[test]
fn errors_name_line_and_remedy() {
    let error = render("a\n{{ 'a' * 10 ** 9 }}", &serde_json::json!({})).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("line 2: the template takes more than 8"),
        "{text}"
    );
    assert!(text.ends_with("bytes of memory"), "{text}");
    assert_eq!(format!("line 2: {}", error.message()), text);
    assert!(
        error
            .hint()
            .is_some_and(|hint| hint.contains("another template"))
    );
    let steps = "{% for a in range(9999) %}\n{% for b in range(9999) %}{% endfor %}{% endfor %}";
    let error = render(steps, &serde_json::json!({})).unwrap_err();
    assert_eq!(error.line(), 2);
    assert!(error.to_string().contains("too many steps"), "{error}");
}

/// A long conversation is worked on at its own size.
#[test]
fn the_budget_grows_with_the_input() {
    let long = "word ".repeat(20 << 20);
    let input = serde_json::json!({"messages": [{"content": long}]});
    let source = "{% for m in messages %}<{{ m.content | trim }}>{% endfor %}";
    assert_eq!(render(source, &input).unwrap().len(), long.len() + 1);
}
