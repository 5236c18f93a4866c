//! `tokenize`: a text as token ids and pieces.

use std::io::{Read as _, Write};
use std::path::PathBuf;

use anyhow::Context as _;
use gristmill_tokenizer::{EncodeOptions, Tokenizer};

use super::{Invocation, Run};
use crate::display::printable;
use crate::escapes::unescape;
use crate::model_path::ModelPath;

/// Arguments of `tokenize`.
#[derive(clap::Args)]
pub struct Tokenize {
    #[command(flatten)]
    model: ModelPath,
    #[command(flatten)]
    text: TextSource,
    /// Print only the ids, as one list
    #[arg(long)]
    ids: bool,
    /// Do not put the beginning token in front, even if the model wants it
    #[arg(long)]
    no_bos: bool,
    /// Take the text of special tokens for ordinary text
    #[arg(long)]
    no_parse_special: bool,
    /// Take backslashes as they are, in place of escape sequences (\n, \t, …)
    #[arg(long)]
    no_escape: bool,
    /// Print the number of tokens too
    #[arg(long)]
    show_count: bool,
    /// Print nothing but the result
    #[arg(long)]
    log_disable: bool,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct TextSource {
    /// The text
    #[arg(long, short, allow_hyphen_values = true)]
    prompt: Option<String>,
    /// A file with the text
    #[arg(long, short)]
    file: Option<PathBuf>,
    /// Read the text from standard input
    #[arg(long)]
    stdin: bool,
}

impl Run for Tokenize {
    const NAME: &'static str = "tokenize";
    const ABOUT: &'static str = "Show a text as token ids and pieces";
    const EXAMPLES: &'static str = "gristmill tokenize -m model.gguf -p 'Good morrow, cousin.'
        gristmill tokenize -m model.gguf --ids --no-bos -f text.txt
        echo 'Good morrow' | gristmill tokenize -m model.gguf --stdin --show-count";
    const REFERENCE_NAMES: &'static [&'static str] = &["llama-tokenize"];

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        self.model.fetch()?;
        let model = gristmill_gguf::Model::open_stored(self.model.path())?;
        model.require_vocabulary()?;
        let tokenizer = Tokenizer::from_metadata(model.metadata()).with_context(|| {
            format!(
                "{}: its tokenizer cannot be used",
                self.model.path().display()
            )
        })?;
        if !self.log_disable {
            tokenizer
                .warnings()
                .iter()
                .for_each(|warning| say!("warning: {warning}"));
        }
        let text = self.text.read()?;
        let text = if self.no_escape {
            text
        } else {
            unescape(&text)
        };
        let options = EncodeOptions {
            // As in the reference, nothing follows the text where nothing comes before it.
            add_special: tokenizer.add_bos() && !self.no_bos,
            parse_special: !self.no_parse_special,
        };
        let ids = tokenizer.encode(&text, options);
        self.print(&tokenizer, &ids)
    }
}

impl Tokenize {
    fn print(&self, tokenizer: &Tokenizer, ids: &[u32]) -> anyhow::Result<()> {
        let is_terminal = crate::stdout::is_terminal();
        let mut out = std::io::BufWriter::new(crate::stdout::lock());
        if self.ids {
            writeln!(out, "{ids:?}")?;
        } else {
            for &id in ids {
                match std::str::from_utf8(tokenizer.piece(id, true)) {
                    // A token of a file must not steer the terminal; a pipe gets the very piece.
                    Ok(piece) if is_terminal => writeln!(out, "{id:6} -> '{}'", printable(piece))?,
                    Ok(piece) => writeln!(out, "{id:6} -> '{piece}'")?,
                    Err(_) => {
                        let hexadecimal: Vec<String> = tokenizer
                            .piece(id, true)
                            .iter()
                            .map(|byte| format!("{byte:02x}"))
                            .collect();
                        writeln!(
                            out,
                            "{id:6} -> '<{}>' (utf-8 decode failure)",
                            hexadecimal.join(" ")
                        )?;
                    }
                }
            }
        }
        if self.show_count {
            writeln!(out, "Total number of tokens: {}", ids.len())?;
        }
        Ok(out.flush()?)
    }
}

impl TextSource {
    fn read(&self) -> anyhow::Result<Vec<u8>> {
        if let Some(path) = &self.file {
            return std::fs::read(path)
                .with_context(|| format!("{}: cannot read the text", path.display()));
        }
        let mut text = self.prompt.clone().unwrap_or_default().into_bytes();
        if self.stdin {
            std::io::stdin()
                .read_to_end(&mut text)
                .context("cannot read standard input")?;
        }
        Ok(text)
    }
}
