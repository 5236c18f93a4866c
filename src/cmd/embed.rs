//! `embed`: texts as vectors, or the scores of a classifier.

mod output;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use gristmill_engine::{
    CONTEXT_MAX, CacheTypes, EmbedOptions, Embedder, EngineError, LoadOptions, Model, Pooling,
    normalize,
};

use super::run::placing::PlacingFlags;
use super::run::{flags, input, of_adapted};
use super::{Invocation, Run};
use crate::adapters::AdapterFlags;
use crate::escapes::unescape;
use crate::failure::Hint;
use crate::gpu::GpuFlags;
use crate::memory;
use crate::model_path::ModelPath;
use crate::numbers::{self, Threads};
use output::Format;

/// Arguments of `embed`.
#[derive(clap::Args)]
pub struct Embed {
    #[command(flatten)]
    model: ModelPath,
    #[command(flatten)]
    prompt: flags::PromptFlags,
    /// What stands between two texts; escape sequences (\n, \t, …) are processed
    #[arg(
        long,
        help_heading = "Vectors",
        value_name = "TEXT",
        default_value = "\\n",
        allow_hyphen_values = true
    )]
    embd_separator: String,
    /// What stands between the query and the document of a text whose score is asked for; as above
    #[arg(
        long,
        help_heading = "Vectors",
        value_name = "TEXT",
        default_value = "\\t",
        allow_hyphen_values = true
    )]
    cls_separator: String,
    /// Put this before every text, as in 'query: '
    #[arg(
        long,
        help_heading = "Vectors",
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    prefix: String,
    /// How the rows of a text's tokens become one: the model's own way where nothing is said, `rank` for scores
    #[arg(long, help_heading = "Vectors", value_name = "none|mean|cls|last|rank", value_parser = pooling)]
    pooling: Option<Pooling>,
    /// Whether tokens see later ones: as the model says where nothing is said here
    #[arg(long, help_heading = "Vectors", value_name = "causal|non-causal")]
    attention: Option<Attention>,
    /// Norm that becomes 1: 2 for the usual one, 1 for the sum of magnitudes, any higher; 0 scales the largest magnitude to 32760, -1 leaves vectors as they are
    #[arg(long, help_heading = "Vectors", value_name = "N", default_value = "2", value_parser = numbers::whole(-1..=i64::from(i32::MAX)))]
    embd_normalize: i64,
    /// The form of the output; an empty word for a few numbers of each vector and, of several, their cosines
    #[arg(
        long,
        help_heading = "Vectors",
        value_name = "array|json|json+|raw",
        default_value = "",
        hide_default_value = true
    )]
    embd_output_format: Format,
    #[command(flatten)]
    load: EmbedLoadFlags,
    /// Show each text with its tokens, on standard error
    #[arg(long, help_heading = "Vectors")]
    verbose_prompt: bool,
    #[command(flatten)]
    gpu: GpuFlags,
    #[command(flatten)]
    log: flags::LogFlags,
    #[command(flatten)]
    ignored: flags::IgnoredFlags,
}

/// How texts are computed; `embed` and `rerank` share it.
#[derive(clap::Args)]
#[command(next_help_heading = "Model")]
pub struct EmbedLoadFlags {
    /// The most tokens of a text; 0 takes the model's own, cut so that its memory stays within 4 GiB
    #[arg(long, short, value_name = "N", default_value_t = 0, value_parser = numbers::count(0..=CONTEXT_MAX))]
    ctx_size: usize,
    /// Leave out what is too long, but for a text's end, in place of an error
    #[arg(long)]
    truncate: bool,
    /// Threads; 0 or less takes one per processor
    #[arg(long, short, value_name = "N", default_value = "-1", value_parser = numbers::threads)]
    threads: Threads,
    /// Threads for more than one token at once; without it the same number
    #[arg(long, value_name = "N", value_parser = numbers::threads)]
    threads_batch: Option<Threads>,
    /// Most tokens of several texts that are computed at once
    #[arg(long, short, value_name = "N", default_value_t = 2048, value_parser = numbers::count(1..=i32::MAX as usize))]
    batch_size: usize,
    /// Most tokens of one text that are computed at once, where attention is causal; 0 takes --batch-size
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = numbers::count(0..=i32::MAX as usize))]
    ubatch_size: usize,
    #[command(flatten)]
    placing: PlacingFlags,
    #[command(flatten)]
    adapters: AdapterFlags,
}

impl EmbedLoadFlags {
    pub fn truncate(&self) -> bool {
        self.truncate
    }

    pub fn n_batch(&self) -> usize {
        self.batch_size
    }

    /// Says what is not as the name says.
    pub fn note(&self) {
        self.placing.note();
    }

    /// The model, ready to embed. Errors name its file.
    pub fn embedder(&self, path: &Path, options: &EmbedOptions) -> anyhow::Result<Embedder> {
        let mut load = LoadOptions {
            n_threads: self.threads.asked(),
            n_threads_batch: self.threads_batch.and_then(Threads::asked),
            n_ctx: Some(self.ctx_size).filter(|&n| n > 0),
            // Vectors are compared with those of other programs.
            cache: CacheTypes::F32,
            n_ubatch: match self.ubatch_size {
                0 => self.batch_size,
                n => n.min(self.batch_size),
            },
            ..LoadOptions::default()
        };
        let model = self.placing.load(path, &load)?;
        model
            .tokenizer()
            .warnings()
            .iter()
            .for_each(|warning| say!("warning: {warning}"));
        memory::fit_context(&model, &mut load)?;
        let adapters = self.adapters.load(&model)?;
        let embedder = Embedder::new(Arc::clone(&model), &load, options);
        let mut embedder = embedder.with_context(|| path.display().to_string())?;
        embedder.set_adapters(&adapters)?;
        Ok(embedder)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Attention {
    Causal,
    NonCausal,
}

fn pooling(name: &str) -> Result<Pooling, String> {
    let names = Pooling::ALL.map(|(name, _)| name).join(", ");
    Pooling::by_name(name).ok_or_else(|| format!("it must be one of {names}"))
}

impl Run for Embed {
    const NAME: &'static str = "embed";
    const ABOUT: &'static str = "Make vectors of texts, or the scores of a classifier";
    const EXAMPLES: &'static str = "gristmill embed -m model.gguf -p 'Good morrow, cousin.'
        gristmill embed -m model.gguf -f lines.txt --embd-output-format json
        gristmill embed -m model.gguf -f lines.txt --prefix 'query: ' --pooling cls";
    const REFERENCE_NAMES: &'static [&'static str] = &["llama-embedding"];

    fn run(self, invocation: &Invocation) -> anyhow::Result<()> {
        self.log.apply();
        let texts = self.texts(invocation.reference.is_some())?;
        self.gpu.note();
        crate::environment::note();
        self.ignored.note();
        self.load.note();
        let options = EmbedOptions {
            pooling: self.pooling,
            causal: self
                .attention
                .map(|attention| attention == Attention::Causal),
        };
        self.model.fetch()?;
        let path = self.model.path();
        let mut embedder = self.load.embedder(path, &options)?;
        let is_rank = embedder.pooling() == Pooling::Rank;
        let ids = self.encode(&embedder, &texts)?;
        if self.verbose_prompt {
            show(embedder.model(), &texts, &ids);
        }
        let adapters = embedder.adapters().clone();
        let mut vectors = embedder
            .embed(&ids, self.load.n_batch())
            .map_err(|error| of_adapted(error, path, Some(&adapters)))?;
        if !is_rank {
            // At most i32::MAX by its parser.
            let kind = self.embd_normalize as i32;
            let all = vectors.iter_mut().flatten();
            all.for_each(|vector| normalize(vector, kind));
        }
        output::write(&output::Result {
            texts: &texts,
            vectors: &vectors,
            pooling: embedder.pooling(),
            labels: &embedder.model().labels(),
            format: self.embd_output_format,
            whole_numbers: self.embd_normalize == 0 && !is_rank,
        })
    }
}

impl Embed {
    /// The ids of texts.
    fn encode(&self, embedder: &Embedder, texts: &[Vec<u8>]) -> anyhow::Result<Vec<Vec<u32>>> {
        let truncate = self.load.truncate();
        let separator = unescape(self.cls_separator.as_bytes());
        let is_rank = embedder.pooling() == Pooling::Rank;
        let encode = |(index, text): (usize, &Vec<u8>)| {
            let Some(at) = find(text, &separator).filter(|_| is_rank) else {
                let whole = embedder.encode(text, false);
                return match truncate && whole.len() > embedder.n_ctx() {
                    true => self.truncated(embedder, text),
                    false => Ok(whole),
                };
            };
            let (query, document) = (&text[..at], &text[at + separator.len()..]);
            let ids = embedder.encode_pair(query, document, truncate);
            ids.map_err(|error| {
                let source = Box::new(error);
                EngineError::Item { index, source }.into()
            })
        };
        texts.iter().enumerate().map(encode).collect()
    }

    /// A text that is too long, cut off. Where nothing is left behind what stands before each text, all would be the same.
    fn truncated(&self, embedder: &Embedder, text: &[u8]) -> anyhow::Result<Vec<u32>> {
        let n_ctx = embedder.n_ctx();
        let n_before = embedder.encode(self.prefix.as_bytes(), false).len();
        if n_before < n_ctx {
            return Ok(embedder.encode(text, true));
        }
        let (what, remedy) = match &*self.prefix {
            "" => ("what the model adds to it", "give a longer context with -c"),
            _ => ("the prefix alone", "shorten --prefix"),
        };
        let what = format!("{what} takes {n_before} tokens");
        Err(
            anyhow::anyhow!("{what}, so that none of a text fits into {n_ctx}")
                .context(Hint::new(remedy)),
        )
    }

    fn texts(&self, is_reference: bool) -> anyhow::Result<Vec<Vec<u8>>> {
        let none = || {
            anyhow::anyhow!("there is no text to embed")
                .context(Hint::new("give one with -p or -f, or through a pipe"))
        };
        let text = match self.prompt.read(self.prompt.escapes(is_reference))? {
            Some(text) => text,
            None => input::piped()?.ok_or_else(none)?,
        };
        if text.is_empty() {
            return Err(none());
        }
        let separator = unescape(self.embd_separator.as_bytes());
        let texts = split(&text, &separator).into_iter();
        let prefixed = texts.map(|text| [self.prefix.as_bytes(), text].concat());
        Ok(prefixed.collect())
    }
}

fn show(model: &Model, texts: &[Vec<u8>], ids: &[Vec<u32>]) {
    for (index, (text, ids)) in texts.iter().zip(ids).enumerate() {
        say!("prompt {index}: '{}'", String::from_utf8_lossy(text));
        say!("number of tokens in prompt = {}", ids.len());
        for &id in ids {
            let piece = model.tokenizer().piece(id, true);
            say!("{id:6} -> '{}'", String::from_utf8_lossy(piece));
        }
    }
}

/// Where some bytes first stand in a text.
fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    // An empty separator separates nothing.
    let width = Some(wanted.len()).filter(|&width| width > 0)?;
    text.windows(width).position(|window| window == wanted)
}

/// The parts of a text between separators.
pub(super) fn split<'a>(text: &'a [u8], separator: &[u8]) -> Vec<&'a [u8]> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(at) = find(rest, separator) {
        parts.push(&rest[..at]);
        rest = &rest[at + separator.len()..];
    }
    parts.push(rest);
    parts
}
