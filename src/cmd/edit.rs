//! `edit`: other metadata in a GGUF file, and nothing else of it.

mod input;
mod json;
mod report;
mod request;
mod template;
mod tokens;
mod value;

use std::path::PathBuf;

use anyhow::anyhow;
use gristmill_convert::Event;
use gristmill_gguf::edit::{EditOptions, Editor, Outcome, Plan, Way};
use gristmill_gguf::sha256_of_file;

use super::{Invocation, Run};
use crate::failure::Hint;
use crate::progress::ProgressLog;
use crate::sizes;
use report::Report;
use request::Request;
use value::Target;

/// Arguments of `edit`.
#[derive(clap::Args)]
pub struct Edit {
    /// GGUF file; of a set of shards, the first
    file: PathBuf,
    /// What was meant for a flag's value and came without quotes or `=`
    #[arg(hide = true)]
    surplus: Vec<String>,
    #[command(flatten)]
    request: Request,
    /// Write another file, and leave this one as it is
    #[arg(long, short, value_name = "FILE", conflicts_with = "backup")]
    output: Option<PathBuf>,
    /// Keep the old file as FILE.bak
    #[arg(long)]
    backup: bool,
    /// Leave room for later edits, as in 64KiB; 0 for none
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    reserve: Option<u64>,
    /// Show what would change, and how, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Allow edits that can make the model useless and templates that do not compile, replace an existing output, and
    /// write to a write-protected file
    #[arg(long)]
    force: bool,
    /// Print the SHA-256 of the whole file too, before and after; this reads every byte of it
    #[arg(long)]
    hash: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Accepted as the reference does; changes nothing
    #[arg(long, hide = true)]
    verbose: bool,
}

impl Run for Edit {
    const NAME: &'static str = "edit";
    const ABOUT: &'static str =
        "Change metadata: in place where it fits, else by writing the file anew";
    const EXAMPLES: &'static str = "gristmill edit model.gguf --set general.name='My model' --dry-run
        gristmill edit model.gguf --set x.count=u32:5 --rename general.url=general.homepage --remove general.doi
        gristmill edit model.gguf --chat-template-file template.jinja --eos '<|im_end|>' --backup
        gristmill edit model.gguf --set-array general.tags=str:'[\"chat\",\"small\"]' --output tagged.gguf
        gristmill edit model.gguf --reserve 64KiB";

    fn more_help() -> String {
        "\n\nTYPE is one of u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool str; without it the value keeps the type that \
         the key has, in the file or by the specification. In --set-json a new number or array says its type: \
         {\"x\": {\"type\": \"UINT32\", \"value\": 5}, \"y\": {\"type\": \"ARRAY\", \"element_type\": \"UINT32\", \"value\": [5]}}. --force says what it lets through. The hashes that are always printed are those of the header, the bytes before the tensor data, \
         which takes no time on a file of any size; --hash adds those of the whole file."
            .to_owned()
    }

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        self.check_usage()?;
        let editor = Editor::open(&self.file)?;
        let edits = self.request.edits(Target {
            path: &self.file,
            metadata: editor.metadata(),
        })?;
        let options = EditOptions {
            output: self.output.clone(),
            reserve: self.reserve,
            force: self.force,
            backup: self.backup,
        };
        let tokens = report::token_texts(&edits, editor.metadata());
        let to_probe = template::metadata_to_probe(&edits, editor.metadata());
        let plan = editor.plan(&edits, &options)?;
        for danger in plan.dangers() {
            say!("warning: {}: {danger}", plan.path().display());
        }
        template::compile(&plan, self.force)?;
        if let Some(metadata) = to_probe {
            template::probe(&plan, metadata);
        }
        let hash_before = self
            .hash
            .then(|| sha256_of_file(plan.path(), &mut |_| {}))
            .transpose()?;
        let outcome = match self.dry_run {
            true => {
                plan.check_output()?;
                None
            }
            false => Some(apply(&plan)?),
        };
        let after = outcome.as_ref().filter(|_| self.hash);
        let hash_after = after
            .map(|outcome| sha256_of_file(&outcome.path, &mut |_| {}))
            .transpose()?;
        let report = Report {
            file: &self.file,
            plan: &plan,
            outcome: outcome.as_ref(),
            tokens: &tokens,
            reserve: self.reserve,
            hashes: (hash_before, hash_after),
        };
        report.print(self.json)
    }
}

impl Edit {
    /// Refuses what the parser of the command line lets through.
    fn check_usage(&self) -> anyhow::Result<()> {
        if let Some(word) = self.surplus.first() {
            let unexpected = clap::error::ErrorKind::UnknownArgument;
            let message = format!(
                "unexpected argument '{word}'; a change is one word, as in --set general.name='My model'"
            );
            return Err(usage(unexpected, message));
        }
        if self.request.is_empty() && self.reserve.is_none() {
            let missing = clap::error::ErrorKind::MissingRequiredArgument;
            let message =
                "nothing to change: give --set, --add, --rename, --remove or another edit"
                    .to_owned();
            return Err(usage(missing, message));
        }
        self.request
            .check()
            .map_err(|message| usage(clap::error::ErrorKind::ValueValidation, message))
    }
}

/// Wrong usage that the parser of the command line does not see.
fn usage(kind: clap::error::ErrorKind, message: String) -> anyhow::Error {
    let mut parser = <Edit as clap::Args>::augment_args(clap::Command::new("gristmill edit"));
    parser.error(kind, message).into()
}

/// Does it, with a bar while a large file is written.
fn apply(plan: &Plan) -> anyhow::Result<Outcome> {
    let mut log = ProgressLog::new(false);
    if let Way::Rewrite { .. } = plan.way() {
        let bytes = plan.file_bytes().1;
        log.event(&Event::Start {
            n_tensors: 0,
            bytes,
        });
    }
    plan.apply(&mut |bytes| log.event(&Event::Written { bytes }))
        .map_err(with_remedy)
}

/// A folder that cannot be written to has a remedy here that other commands do not have.
fn with_remedy(error: gristmill_gguf::Error) -> anyhow::Error {
    match &error {
        gristmill_gguf::Error::Io { source, .. }
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            let hint = "the folder must be writable, as the new file or the undo file is made in it; \
                        `--output` writes elsewhere";
            anyhow!(error).context(Hint::new(hint))
        }
        _ => error.into(),
    }
}
