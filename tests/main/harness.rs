//! Running the binary and the files that tests need.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// A folder of a test's own, with the built binary to run in it.
pub struct Workplace {
    dir: tempfile::TempDir,
}

impl Workplace {
    pub fn new() -> Self {
        Workplace {
            dir: tempfile::tempdir().expect("a temporary folder can be made"),
        }
    }

    /// A path inside the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file and gives its path.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("it lies in the folder"))
            .expect("a folder can be made");
        std::fs::write(&path, bytes).expect("the file can be written");
        path
    }

    /// The binary, to be run inside the folder under its own or a reference's name.
    pub fn command(&self, program: &str) -> Command {
        // Another build, such as a released one, can be tested in place of this one.
        let other = std::env::var_os("GRISTMILL_BINARY").map(PathBuf::from);
        let binary = other.unwrap_or_else(|| env!("CARGO_BIN_EXE_gristmill").into());
        let mut command = if program == "gristmill" {
            Command::new(&binary)
        } else {
            let link = self.path(program);
            if !link.exists() {
                std::os::unix::fs::symlink(&binary, &link).expect("a link can be made");
            }
            Command::new(link)
        };
        command
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .env_remove("RUST_BACKTRACE")
            .env("COLUMNS", "100");
        command
    }

    /// Runs a command line, words separated by single spaces, and shows what came of it.
    pub fn run(&self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        self.run_words(&words)
    }

    /// Like [`Workplace::run`], for words with spaces in them.
    pub fn run_words(&self, words: &[&str]) -> String {
        let output = self
            .command(words[0])
            .args(&words[1..])
            .output()
            .expect("the binary starts");
        self.show(&output)
    }

    /// Exit code, standard output and standard error; the folder's own path is written `[DIR]`.
    pub fn show(&self, output: &Output) -> String {
        let dir = self.dir.path().to_string_lossy().to_string();
        let text = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes)
                .replace(&dir, "[DIR]")
                .trim_end()
                .to_string()
        };
        let mut shown = format!("exit: {}", output.status.code().unwrap_or(-1));
        for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            let text = text(bytes);
            if !text.is_empty() {
                shown += &format!("\n--- {name}\n{text}");
            }
        }
        shown
    }

    /// Names of all files in the folder, sorted, without links.
    pub fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        list(self.dir.path(), self.dir.path(), &mut files);
        files.sort();
        files
    }
}

fn list(root: &Path, dir: &Path, files: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir)
        .expect("the folder can be read")
        .flatten()
    {
        let path = entry.path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            list(root, &path, files);
        } else {
            files.push(
                path.strip_prefix(root)
                    .expect("it lies below")
                    .to_string_lossy()
                    .to_string(),
            );
        }
    }
}

/// The embedded default model as a checkpoint folder.
pub fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("models/tiny")
}

/// Runs a command with this standard input: whether it was written, and what came of the run. A command that needs no input
/// may be gone before.
pub fn piped(command: &mut Command, input: &[u8]) -> (io::Result<()>, Output) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    let written = stdin.write_all(input);
    drop(stdin);
    (written, child.wait_with_output().expect("the binary ends"))
}

/// Sends a signal, as `-INT`, to a child that may have ended by now. Children ignore what this process was started to ignore:
/// then no test of signals can pass.
pub fn send(child: &Child, signal: &str) {
    let numbers = [("-HUP", 1), ("-INT", 2), ("-TERM", 15)];
    let number = numbers.iter().find(|(name, _)| *name == signal);
    // Only Linux tells.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    if let Some((name, number)) = number {
        assert!(
            ignored.unwrap_or(0) & (1 << (number - 1)) == 0,
            "{name} is ignored here, as in a background job of a script; start the tests with `env --default-signal`"
        );
    }
    let sent = Command::new("kill")
        .args([signal, &child.id().to_string()])
        .stderr(Stdio::null())
        .status();
    sent.expect("kill is there");
}

/// Waits for the end of a child; one that goes on for minutes is killed.
pub fn wait(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(120) {
        if let Some(status) = child.try_wait().expect("it can be asked") {
            return status;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = child.kill();
    panic!("it went on for two minutes");
}
