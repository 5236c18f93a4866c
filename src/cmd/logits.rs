//! `logits`: the logits of every position of a token sequence, to compare with other engines.

use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use anyhow::Context as _;
use gristmill_engine::{
    Arithmetic, CacheTypes, EngineError, LoadOptions, all_logits_with, batch_logits, npy,
};
use gristmill_gguf::{OutputFile, WriteOptions};

use super::{Invocation, Run};
use crate::adapters::AdapterFlags;
use crate::arithmetic::ArithmeticFlag;
use crate::gpu::GpuFlags;
use crate::memory;
use crate::model_path::ModelPath;
use crate::numbers::{self, Threads};
use crate::stdout;

/// Arguments of `logits`.
#[derive(clap::Args)]
pub struct Logits {
    #[command(flatten)]
    model: ModelPath,
    /// Token ids, separated by commas
    #[arg(long, value_name = "ID,…", value_parser = token_ids)]
    tokens: TokenIds,
    /// The NumPy file to write: [n_tokens, n_vocab] float32, or [n_batches, n_vocab]
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Replace the file if it exists
    #[arg(long, short)]
    force: bool,
    /// Threads; 0 or less takes one per processor
    #[arg(long, short, value_name = "N", default_value = "-1", value_parser = numbers::threads)]
    threads: Threads,
    /// Tokens computed at once; the logits are the same for every number
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = numbers::count(1..=i32::MAX as usize))]
    ubatch_size: usize,
    /// Batches of these lengths, the tokens beyond one by one; only the logits behind the last token of each are written
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = numbers::count(1..=i32::MAX as usize))]
    batches: Option<Vec<usize>>,
    #[command(flatten)]
    arithmetic: ArithmeticFlag,
    #[command(flatten)]
    adapters: AdapterFlags,
    #[command(flatten)]
    gpu: GpuFlags,
}

impl Run for Logits {
    const NAME: &'static str = "logits";
    const ABOUT: &'static str =
        "Write the logits of every position of a token sequence as a NumPy file";
    const EXAMPLES: &'static str =
        "gristmill logits model.gguf --tokens 1,15043,29892 --output logits.npy
        gristmill logits model.gguf --lora adapter.gguf --tokens 1,15043 --output logits.npy";

    fn run(self, _: &Invocation) -> anyhow::Result<()> {
        self.gpu.note();
        self.model.fetch()?;
        let TokenIds(tokens) = &self.tokens;
        let mut options = LoadOptions {
            n_threads: self.threads.asked(),
            n_ctx: Some(tokens.len()),
            cache: match self.arithmetic.get() {
                Arithmetic::Own => CacheTypes::F32,
                Arithmetic::LlamaCpp => CacheTypes::F16,
            },
            n_ubatch: self.ubatch_size,
            arithmetic: self.arithmetic.get(),
            ..LoadOptions::default()
        };
        let model = super::run::open(self.model.path(), &options)?;
        model
            .check_tokens(tokens)
            .with_context(|| self.model.path().display().to_string())?;
        let adapters = self.adapters.load(&model)?;
        memory::fit_context(&model, &mut options)?;
        let (n_rows, n_columns) = (self.n_rows(tokens.len()), model.n_vocab());
        let bytes = (n_rows as u64)
            .saturating_mul(n_columns as u64 * 4)
            .saturating_add(128);
        let inputs = model
            .file()
            .shards()
            .iter()
            .map(|shard| shard.path().to_owned())
            .collect();
        let write_options = WriteOptions {
            force: self.force,
            inputs,
            ..WriteOptions::default()
        };
        let mut output = OutputFile::create(&self.output, bytes, &write_options)?;
        let mut out = BufWriter::new(&mut output);
        let place = || format!("{}: cannot write the logits", self.output.display());
        npy::write_header(&mut out, n_rows, n_columns).with_context(place)?;
        let write = |row: &[f32]| Ok::<_, Failure>(npy::write_row(&mut out, row)?);
        match &self.batches {
            None => all_logits_with(model, &adapters, tokens, &options, write),
            Some(lengths) => batch_logits(model, &adapters, tokens, lengths, &options, write),
        }
        .map_err(|failure| match failure {
            Failure::Engine(error) => {
                super::run::of_adapted(error, self.model.path(), Some(&adapters))
            }
            Failure::Disk(error) => anyhow::Error::new(error).context(place()),
        })?;
        out.flush().with_context(place)?;
        drop(out);
        output.commit()?;
        let shown = self.output.display();
        let size = std::fs::metadata(&self.output)?.len();
        stdout::tell(Some(format!("{shown}: is written")), |out| {
            writeln!(
                out,
                "wrote {shown}: {n_rows} x {n_columns} logits, {size} bytes"
            )
        })
    }
}

impl Logits {
    /// Rows of logits that come of so many tokens.
    fn n_rows(&self, n_tokens: usize) -> usize {
        let Some(lengths) = &self.batches else {
            return n_tokens;
        };
        let mut n_left = n_tokens;
        let mut n_rows = 0;
        for &length in lengths {
            n_rows += usize::from(n_left > 0);
            n_left = n_left.saturating_sub(length);
        }
        n_rows + n_left
    }
}

/// The ids of a sequence, at least one.
#[derive(Clone)]
struct TokenIds(Vec<u32>);

fn token_ids(text: &str) -> Result<TokenIds, String> {
    let ids: Result<Vec<u32>, _> = text.split(',').map(|id| id.trim().parse()).collect();
    ids.map(TokenIds)
        .map_err(|_| "it must be token ids separated by commas, as in 1,15043,29892".to_owned())
}

/// What stops the rows: the engine or the disk.
enum Failure {
    Engine(EngineError),
    Disk(std::io::Error),
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Failure::Engine(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Disk(error)
    }
}
