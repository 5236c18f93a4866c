//! Tells the binary which commit and which target it is built from. Works without Git: then the commit is `unknown`.

use std::path::Path;
use std::process::Command;

fn main() {
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo:rustc-env=GRISTMILL_TARGET={target}");
    println!(
        "cargo:rustc-env=GRISTMILL_COMMIT={}",
        commit(&root).unwrap_or_else(|| "unknown".into())
    );
    println!("cargo:rerun-if-changed=build.rs");
    // A commit moves the log of HEAD; without one, HEAD itself has to do.
    for name in ["logs/HEAD", "HEAD"] {
        if let Some(path) = git(&root, &["rev-parse", "--git-path", name]) {
            let path = Path::new(&root).join(path);
            if path.exists() {
                println!("cargo:rerun-if-changed={}", path.display());
                break;
            }
        }
    }
}

/// The commit of the source tree, with `-dirty` where tracked files differ from it.
fn commit(root: &str) -> Option<String> {
    // A source archive unpacked inside somebody else's repository must not claim that repository's commit.
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != Path::new(root).canonicalize().ok()? {
        return None;
    }
    let commit = git(root, &["rev-parse", "--short=12", "HEAD"])?;
    let dirty = git(root, &["status", "--porcelain", "--untracked-files=no"])
        .is_some_and(|s| !s.is_empty());
    Some(if dirty {
        format!("{commit}-dirty")
    } else {
        commit
    })
}

fn git(root: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(arguments)
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}
