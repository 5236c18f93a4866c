//! `inspect`: what a GGUF file is and holds, without touching its weights.

mod json;
mod markdown;
mod text;

use std::io::{self, Write};

use clap::Args as _;
use clap::error::ErrorKind;
use gristmill_gguf::edit::RESERVED_KEY;
use gristmill_gguf::{File, Model, Value, same_file};

use super::{Invocation, Run};
use crate::failure::Hint;
use crate::model_path::ModelPath;
use crate::stdout;
use crate::value_json::Raw;
use crate::value_text;

/// Arguments of `inspect`.
#[derive(clap::Args)]
pub struct Inspect {
    #[command(flatten)]
    model: ModelPath,
    /// List the metadata: type, key and value of every entry
    #[arg(long)]
    metadata: bool,
    /// List the tensors: type, dimensions (the contiguous one first), offset and name
    #[arg(long, conflicts_with = "no_tensors")]
    tensors: bool,
    /// Leave the list of tensors out of --json and --markdown
    #[arg(long)]
    no_tensors: bool,
    /// Print everything as one JSON object; with --get, that value as JSON
    #[arg(long)]
    json: bool,
    /// Print everything as Markdown tables
    #[arg(long, group = "form", conflicts_with = "json")]
    markdown: bool,
    /// Print the value of one key and nothing else: a string as it stands in the file, an array as JSON
    #[arg(long, value_name = "KEY", group = "form", conflicts_with_all = LISTS)]
    get: Option<String>,
    /// Print where the tensor data begins, in bytes from the start of the file, and nothing else
    #[arg(long, group = "form", conflicts_with = "json", conflicts_with_all = LISTS)]
    data_offset: bool,
    /// Print the alignment of the tensor data and nothing else
    #[arg(long, group = "form", conflicts_with = "json", conflicts_with_all = LISTS)]
    data_alignment: bool,
    /// Cut nothing: all entries, all tensors, whole strings, all elements of arrays
    #[arg(long, alias = "json-array", conflicts_with_all = ["metadata_limit", "tensor_limit", "preview"])]
    full: bool,
    /// Entries to list, 0 for all [default: 50 with --json and --markdown, else all]
    #[arg(long, value_name = "N")]
    metadata_limit: Option<usize>,
    /// Tensors to list, 0 for all [default: 50 with --json and --markdown, else all]
    #[arg(long, value_name = "N")]
    tensor_limit: Option<usize>,
    /// Elements of an array to show [default: 12]
    #[arg(long, value_name = "N")]
    preview: Option<usize>,
    /// As --metadata --tensors
    #[arg(long, short)]
    verbose: bool,
}

/// Flags that say what lists hold; they mean nothing where one value is printed.
const LISTS: [&str; 6] = [
    "metadata",
    "tensors",
    "verbose",
    "metadata_limit",
    "tensor_limit",
    "preview",
];

/// Elements of an array where no number is given.
const PREVIEW: usize = 12;

/// Entries and tensors in JSON and Markdown where no limit is given.
const DOCUMENT_LIMIT: usize = 50;

/// How much to show.
#[derive(Clone, Copy)]
struct Extent {
    n_entries: usize,
    n_tensors: usize,
    values: value_text::Extent,
}

impl Run for Inspect {
    const NAME: &'static str = "inspect";
    const ABOUT: &'static str =
        "Show what a GGUF file is: metadata, tensors, types by role, exact bits per weight";
    const EXAMPLES: &'static str = "gristmill inspect model.gguf\n\
        gristmill inspect model-00001-of-00003.gguf --tensors\n\
        gristmill inspect model.gguf --get tokenizer.chat_template\n\
        gristmill inspect model.gguf --json --full\n\
        gristmill inspect model.gguf --markdown --tensor-limit 0";

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        self.check_usage()?;
        self.model.fetch()?;
        let (model, missing) = Model::open_present(self.model.path())?;
        if let Some(missing) = missing {
            say!("warning: {missing}; what is there is shown");
        }
        // Where data lies is a question to the file that was named.
        let named = |file: &&File| same_file(file.path(), self.model.path());
        let shards = model.shards();
        let file = shards.iter().find(named).unwrap_or(&shards[0]);
        let extent = self.extent(&model);
        let mut out = io::BufWriter::with_capacity(1 << 16, stdout::lock());
        if let Some(key) = &self.get {
            get(&model, key, self.json, &mut out)?;
        } else if self.data_offset {
            writeln!(out, "{}", file.data_offset())?;
        } else if self.data_alignment {
            writeln!(out, "{}", file.alignment())?;
        } else if self.json {
            json::write(&model, extent, &mut out)?;
        } else if self.markdown {
            markdown::write(&model, extent, &mut out)?;
        } else {
            text::write(
                &model,
                extent,
                self.metadata || self.verbose,
                (self.tensors || self.verbose) && !self.no_tensors,
                &mut out,
            )?;
        }
        out.flush()?;
        Ok(())
    }
}

impl Inspect {
    /// Refuses limits of lists that are not printed.
    fn check_usage(&self) -> anyhow::Result<()> {
        let lists_all = self.verbose || self.json || self.markdown;
        for (is_listed, limit, flag, list) in [
            (
                self.metadata,
                self.metadata_limit,
                "--metadata-limit",
                "--metadata",
            ),
            (
                self.tensors,
                self.tensor_limit,
                "--tensor-limit",
                "--tensors",
            ),
        ] {
            let is_left_out = self.no_tensors && list == "--tensors";
            if limit.is_some() && (is_left_out || !is_listed && !lists_all) {
                let mut parser = Inspect::augment_args(clap::Command::new("gristmill inspect"));
                let message = match is_left_out {
                    true => format!("{flag} is of a list that --no-tensors leaves out"),
                    false => format!("{flag} is of a list: give {list}, --json or --markdown too"),
                };
                return Err(parser.error(ErrorKind::ArgumentConflict, message).into());
            }
        }
        Ok(())
    }

    fn extent(&self, model: &Model) -> Extent {
        let document = self.json || self.markdown;
        let default = if document && !self.full {
            DOCUMENT_LIMIT
        } else {
            0
        };
        let shown = |limit: Option<usize>, n: usize| match limit.unwrap_or(default) {
            0 => n,
            limit => limit.min(n),
        };
        let n_tensors = model.tensors().len();
        Extent {
            n_entries: shown(self.metadata_limit, model.metadata().len()),
            n_tensors: if self.no_tensors {
                0
            } else {
                shown(self.tensor_limit, n_tensors)
            },
            values: match self.full {
                true => value_text::Extent {
                    n_items: usize::MAX,
                    n_chars: usize::MAX,
                },
                false => value_text::Extent {
                    n_items: self.preview.unwrap_or(PREVIEW),
                    n_chars: value_text::CHARS,
                },
            },
        }
    }
}

/// Prints the value of a key: a string byte for byte, so that it can go into a file. On a terminal it is made safe
/// and ends with a line break.
fn get(model: &Model, key: &str, as_json: bool, out: &mut impl Write) -> anyhow::Result<()> {
    let Some(found) = model.metadata().get(key) else {
        return Err(unknown_key(model, key));
    };
    match found.as_text().filter(|_| !as_json) {
        Some(text) if stdout::is_terminal() => {
            for line in text.to_str_escaped().split('\n') {
                writeln!(out, "{}", crate::display::printable(line))?;
            }
        }
        Some(text) => out.write_all(text.as_bytes())?,
        None => {
            serde_json::to_writer(&mut *out, &Raw(found))?;
            writeln!(out)?;
        }
    }
    Ok(())
}

fn unknown_key(model: &Model, key: &str) -> anyhow::Error {
    let last = key.rsplit('.').next().unwrap_or(key);
    let near: Vec<&str> = model
        .metadata()
        .iter()
        .map(|(known, _)| known)
        .filter(|known| known.ends_with(last) || last.is_empty() || known.contains(last))
        .take(5)
        .collect();
    let hint = if near.is_empty() {
        "`--metadata` lists the keys".to_owned()
    } else {
        format!("it has {}; `--metadata` lists all", near.join(", "))
    };
    let path = model.path().display();
    anyhow::anyhow!("{path}: has no key {key:?}").context(Hint::new(hint))
}

/// A value in one line. Room for later edits is spaces, which nobody wants to see.
fn shown(key: &str, value: &Value, extent: Extent) -> String {
    match value.as_text() {
        Some(spaces) if key == RESERVED_KEY => {
            format!(
                "room for later edits of the metadata ({} bytes)",
                spaces.len()
            )
        }
        _ => value_text::show(value, extent.values),
    }
}

fn dims(dims: &[u64]) -> String {
    dims.iter()
        .map(u64::to_string)
        .collect::<Vec<_>>()
        .join(" × ")
}
