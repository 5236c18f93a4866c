//! `demo`: the main job end to end on the model that this binary carries, by the commands one would type.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use gristmill_convert::quantize::{QuantizeOptions, quantize};
use gristmill_convert::recipe::Recipe;
use gristmill_convert::{ConvertOptions, OutputType, convert};
use gristmill_gguf::{OutputFile, PartialPath, WriteOptions};

use super::{Invocation, Run};
use crate::failure::Hint;
use crate::numbers;

/// The files of `models/tiny`, an ordinary Hugging Face folder.
const TINY: &[(&str, &[u8])] = &[
    ("README.md", include_bytes!("../../models/tiny/README.md")),
    (
        "chat_template.jinja",
        include_bytes!("../../models/tiny/chat_template.jinja"),
    ),
    (
        "config.json",
        include_bytes!("../../models/tiny/config.json"),
    ),
    (
        "generation_config.json",
        include_bytes!("../../models/tiny/generation_config.json"),
    ),
    (
        "model.safetensors",
        include_bytes!("../../models/tiny/model.safetensors"),
    ),
    (
        "special_tokens_map.json",
        include_bytes!("../../models/tiny/special_tokens_map.json"),
    ),
    (
        "tokenizer.json",
        include_bytes!("../../models/tiny/tokenizer.json"),
    ),
    (
        "tokenizer_config.json",
        include_bytes!("../../models/tiny/tokenizer_config.json"),
    ),
];

/// Arguments of `demo`.
#[derive(clap::Args)]
pub struct Demo {
    /// Folder for the checkpoint and the two GGUF files; kept, so that the commands can be repeated
    #[arg(default_value = "gristmill-demo")]
    dir: PathBuf,
    /// What the model continues
    #[arg(long, short, default_value = "ROMEO:\n", allow_hyphen_values = true)]
    prompt: String,
    /// Tokens to generate
    #[arg(long, short = 'n', default_value_t = 64, value_name = "N", value_parser = numbers::count(0..=i32::MAX as usize))]
    n_predict: usize,
    /// Replace files of the demo's names that hold something else
    #[arg(long)]
    force: bool,
}

impl Run for Demo {
    const NAME: &'static str = "demo";
    const ABOUT: &'static str = "Convert, quantize and run the tiny model that this binary carries";
    const EXAMPLES: &'static str = "gristmill demo\ngristmill demo /tmp/demo -p 'JULIET:' -n 100";

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        note_program();
        let checkpoint = self.dir.join("tiny");
        unpack(&checkpoint, self.force)?;
        let path = |name: &str| self.dir.join(name).display().to_string();
        let (checkpoint, float, quantized) = (
            checkpoint.display().to_string(),
            path("tiny-BF16.gguf"),
            path("tiny-Q4_K_M.gguf"),
        );
        let n_predict = self.n_predict.to_string();
        let mut line = vec!["convert", &checkpoint, "--outtype", "bf16"];
        line.extend(["--outfile", &float]);
        if replaces(Path::new(&float), self.force, |scratch| {
            let options = ConvertOptions {
                output: Some(scratch.into()),
                output_type: OutputType::parse("bf16")?,
                ..ConvertOptions::new(&checkpoint)
            };
            Ok(convert(&options, &mut |_| ()).map(drop)?)
        })? {
            line.push("--force");
        }
        step(&line)?;
        let mut line = vec!["quantize"];
        if replaces(Path::new(&quantized), self.force, |scratch| {
            let recipe = Recipe::from_name("Q4_K_M")?;
            let options = QuantizeOptions::new(&float, scratch, recipe);
            Ok(quantize(&options, &mut |_| ()).map(drop)?)
        })? {
            line.push("--force");
        }
        line.extend([&*float, &quantized, "Q4_K_M"]);
        step(&line)?;
        step(&[
            "run",
            "-m",
            &quantized,
            "--no-conversation",
            "--seed",
            "7",
            "-n",
            &n_predict,
            "-p",
            &self.prompt,
        ])?;
        say!("");
        say!("the files stay; to repeat a line that writes one, add --force");
        Ok(())
    }
}

/// Says what stands for `gristmill` in the lines that are shown, where a shell would not find it.
fn note_program() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_found = std::env::split_paths(&path).any(|dir| dir.join("gristmill").is_file());
    if let (false, Ok(program)) = (is_found, std::env::current_exe()) {
        say!(
            "gristmill is not on the PATH yet: in these lines it stands for {}",
            program.display()
        );
    }
}

/// Writes the embedded checkpoint, leaving files that are already right alone. Others are refused before any is written.
fn unpack(dir: &Path, force: bool) -> anyhow::Result<()> {
    let is_right =
        |path: &Path, bytes: &[u8]| std::fs::read(path).is_ok_and(|found| found == bytes);
    for (name, bytes) in TINY {
        let path = dir.join(name);
        if !force && path.symlink_metadata().is_ok() && !is_right(&path, bytes) {
            return Err(foreign(&path));
        }
    }

    std::fs::create_dir_all(dir)
        .with_context(|| format!("{}: cannot make the folder", dir.display()))
        .context(Hint::new("name a folder that can be made and written to"))?;
    for (name, bytes) in TINY {
        let path = dir.join(name);
        if is_right(&path, bytes) {
            continue;
        }
        let options = WriteOptions {
            force,
            ..WriteOptions::default()
        };
        let mut output = OutputFile::create(&path, bytes.len() as u64, &options)?;
        output
            .write_all(bytes)
            .with_context(|| format!("{}: cannot write it", path.display()))?;
        output.commit()?;
    }
    Ok(())
}

/// Whether a file stands at the target that may be replaced: with `force` any, else only one with the very bytes that
/// `make` gives.
fn replaces(
    target: &Path,
    force: bool,
    make: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    if target.symlink_metadata().is_err() {
        return Ok(false);
    }
    if !force {
        let scratch = target.with_file_name(format!("demo.{}.gguf.part", std::process::id()));
        let scratch = PartialPath::reserve(&scratch)?;
        make(scratch.path())?;
        let same = matches!(
            (std::fs::read(target), std::fs::read(scratch.path())),
            (Ok(found), Ok(made)) if found == made
        );
        if !same {
            return Err(foreign(target));
        }
    }
    Ok(true)
}

fn foreign(path: &Path) -> anyhow::Error {
    anyhow::anyhow!(
        "{}: is there already and is no file of this demo",
        path.display()
    )
    .context(Hint::new(
        "name another folder, or give --force to replace it",
    ))
}

/// Shows a command line and runs it, in this process.
fn step(line: &[&str]) -> anyhow::Result<()> {
    let shown: Vec<String> = line.iter().map(|word| quoted(word)).collect();
    say!("");
    say!("$ gristmill {}", shown.join(" "));
    super::run_line(line)
}

/// The word as a POSIX shell would need it typed.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=,".contains(c);
    match word {
        _ if !word.is_empty() && word.chars().all(plain) => word.to_string(),
        _ if word.contains('\n') => {
            format!(
                "$'{}'",
                word.replace('\\', "\\\\")
                    .replace('\'', "\\'")
                    .replace('\n', "\\n")
            )
        }
        _ => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_needed() {
        let shown = ["-n", "a b", "it's", "a\nb"].map(quoted);
        assert_eq!(shown, ["-n", "'a b'", "'it'\\''s'", "$'a\\nb'"]);
    }
}
