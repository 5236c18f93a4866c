//! Drafts: tokens that a smaller model, or the text itself, foretells, and that are computed several at once.

use std::collections::HashMap;
use std::path::PathBuf;

use gristmill_engine::{
    DraftModel, DraftModelOptions, Drafter, LoadOptions, Lookup, LookupOptions, LookupRule,
    Session, Speculation,
};
use gristmill_hub::ModelName;
use gristmill_quant::TensorType;

use super::flags::cache_types;
use super::placing::PlacingFlags;
use crate::failure::Hint;
use crate::memory;
use crate::model_path::ModelPath;
use crate::numbers::{self, Threads};

#[derive(clap::Args)]
#[command(next_help_heading = "Drafts: faster answers, token for token the same")]
pub struct SpeculativeFlags {
    #[arg(long, help = kinds_help(), value_name = "NAME,…", value_delimiter = ',', value_parser = kind)]
    spec_type: Vec<Kind>,
    /// The same as --spec-type ngram-mod
    #[arg(long)]
    spec_default: bool,
    /// A smaller model of the same vocabulary, which drafts where the text itself gives no draft
    #[arg(long, visible_alias = "model-draft", value_name = "FILE")]
    spec_draft_model: Option<PathBuf>,
    /// The same from the hub
    #[arg(
        long,
        visible_alias = "hf-repo-draft",
        value_name = "USER/REPO[:QUANT]",
        conflicts_with = "spec_draft_model"
    )]
    spec_draft_hf: Option<ModelName>,
    /// Tokens that it drafts at most [default: 3]
    #[arg(long, value_name = "N", value_parser = numbers::count(1..=SIZE_MAX))]
    spec_draft_n_max: Option<usize>,
    /// Shorter drafts of it are not computed [default: 0]
    #[arg(long, value_name = "N", value_parser = numbers::count(0..=SIZE_MAX))]
    spec_draft_n_min: Option<usize>,
    /// It ends a draft before a token that it holds to be less probable [default: 0]
    #[arg(long, visible_alias = "draft-p-min", value_name = "P", value_parser = numbers::real(0.0..=1.0))]
    spec_draft_p_min: Option<f32>,
    /// How it picks: its best token; what is picked then is compared with the model's own choice
    #[arg(long, value_name = "greedy", value_parser = draft_sampling)]
    spec_draft_sampling: Option<String>,
    /// Its threads; without it as many as --threads
    #[arg(long, visible_alias = "threads-draft", value_name = "N", value_parser = numbers::threads)]
    spec_draft_threads: Option<Threads>,
    /// Its threads for prompts; without it as many as for drafts
    #[arg(long, visible_alias = "threads-batch-draft", value_name = "N", value_parser = numbers::threads)]
    spec_draft_threads_batch: Option<Threads>,
    /// Type of its KV cache's keys [default: f16]
    #[arg(long, visible_alias = "cache-type-k-draft", value_name = "TYPE", value_parser = cache_types())]
    spec_draft_type_k: Option<TensorType>,
    /// Type of its values [default: f16]
    #[arg(long, visible_alias = "cache-type-v-draft", value_name = "TYPE", value_parser = cache_types())]
    spec_draft_type_v: Option<TensorType>,
    /// Its layers on the GPU: accepted, no GPU backend is built in
    #[arg(long, visible_aliases = ["gpu-layers-draft", "n-gpu-layers-draft"], value_name = "N|auto|all")]
    spec_draft_ngl: Option<String>,
    /// Its devices: accepted, no GPU backend is built in
    #[arg(long, visible_alias = "device-draft", value_name = "NAME,…|none")]
    spec_draft_device: Option<String>,
    #[command(flatten)]
    sizes: SizeFlags,
}

/// The largest size of a draft, a key or a count, as in the reference.
const SIZE_MAX: usize = 1024;

/// Where a draft comes from.
#[derive(Clone, Copy)]
enum Kind {
    None,
    DraftModel,
    Lookup(&'static LookupKind),
}

/// A kind of look-up.
struct LookupKind {
    name: &'static str,
    rule: LookupRule,
    sizes: [Size; 3],
}

/// A size of a look-up, with its flag.
struct Size {
    flag: &'static str,
    help: &'static str,
    default: usize,
    set: fn(&mut LookupOptions, usize),
}

const fn n_key(flag: &'static str, default: usize) -> Size {
    Size {
        flag,
        help: "Last tokens that are looked up",
        default,
        set: |options, n| options.n_key = n,
    }
}

const fn n_max(flag: &'static str, default: usize) -> Size {
    Size {
        flag,
        help: "Tokens of a draft at most",
        default,
        set: |options, n| options.n_max = n,
    }
}

const fn min_hits(flag: &'static str) -> Size {
    Size {
        flag,
        help: "Places that the key must have had before",
        default: 1,
        set: |options, n| options.min_hits = n,
    }
}

/// The look-ups, with the reference's names and sizes.
static LOOKUPS: [LookupKind; 4] = [
    LookupKind {
        name: "ngram-simple",
        rule: LookupRule::Newest,
        sizes: [
            n_key("spec-ngram-simple-size-n", 12),
            n_max("spec-ngram-simple-size-m", 48),
            min_hits("spec-ngram-simple-min-hits"),
        ],
    },
    LookupKind {
        name: "ngram-map-k",
        rule: LookupRule::NewestLearning,
        sizes: [
            n_key("spec-ngram-map-k-size-n", 12),
            n_max("spec-ngram-map-k-size-m", 48),
            min_hits("spec-ngram-map-k-min-hits"),
        ],
    },
    LookupKind {
        name: "ngram-map-k4v",
        rule: LookupRule::MostFrequent,
        sizes: [
            n_key("spec-ngram-map-k4v-size-n", 12),
            n_max("spec-ngram-map-k4v-size-m", 48),
            min_hits("spec-ngram-map-k4v-min-hits"),
        ],
    },
    LookupKind {
        name: "ngram-mod",
        rule: LookupRule::TokenByToken,
        sizes: [
            n_key("spec-ngram-mod-n-match", 24),
            n_max("spec-ngram-mod-n-max", 64),
            Size {
                flag: "spec-ngram-mod-n-min",
                help: "Shorter drafts are not computed",
                default: 48,
                set: |options, n| options.n_min = n,
            },
        ],
    },
];

/// Kinds of the reference that are not here, and why.
const HEADS: &str = "it needs a head trained on the model's hidden states; draft-simple takes a model, ngram-simple the text itself";
const REFUSED: &[(&str, &str)] = &[
    ("draft-eagle3", HEADS),
    ("draft-mtp", HEADS),
    ("draft-dflash", HEADS),
    ("draft-dspark", HEADS),
    (
        "ngram-cache",
        "statistics are not read from files; ngram-simple looks up the text itself",
    ),
];

fn kinds_help() -> String {
    let names: Vec<&str> = LOOKUPS.iter().map(|kind| kind.name).collect();
    format!(
        "Where drafts come from: {} look up the last tokens in the text before them, the first named first; draft-simple is the \
         draft model, which is asked last; none [default: none, with a draft model draft-simple]",
        names.join(", ")
    )
}

fn kind(text: &str) -> Result<Kind, String> {
    if let Some(kind) = LOOKUPS.iter().find(|kind| kind.name == text) {
        return Ok(Kind::Lookup(kind));
    }
    match (text, REFUSED.iter().find(|(name, _)| *name == text)) {
        ("none", _) => Ok(Kind::None),
        ("draft-simple", _) => Ok(Kind::DraftModel),
        (_, Some((_, reason))) => Err(format!("not supported: {reason}")),
        (_, None) => {
            let names = LOOKUPS.iter().map(|kind| kind.name);
            let names: Vec<&str> = names.chain(["draft-simple", "none"]).collect();
            Err(format!("known are {}", names.join(", ")))
        }
    }
}

fn draft_sampling(text: &str) -> Result<String, String> {
    match text {
        "greedy" => Ok(text.to_owned()),
        "probabilistic" => Err(
            "not supported: it would change what a seed answers; greedy drafts leave answers as they are".into(),
        ),
        _ => Err("known is greedy".into()),
    }
}

/// The sizes that are given.
struct SizeFlags(HashMap<&'static str, usize>);

fn sizes() -> impl Iterator<Item = (&'static LookupKind, &'static Size)> {
    let of = |kind: &'static LookupKind| kind.sizes.iter().map(move |size| (kind, size));
    LOOKUPS.iter().flat_map(of)
}

impl clap::Args for SizeFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(sizes().map(|(kind, size)| {
            let least = usize::from(!size.flag.ends_with("n-min"));
            clap::Arg::new(size.flag)
                .long(size.flag)
                .value_name("N")
                .help(format!(
                    "{}: {} [default: {}]",
                    kind.name, size.help, size.default
                ))
                .value_parser(numbers::count(least..=SIZE_MAX))
        }))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for SizeFlags {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        let given = sizes().filter_map(|(_, size)| {
            let n = matches.get_one::<usize>(size.flag)?;
            Some((size.flag, *n))
        });
        Ok(SizeFlags(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl LookupKind {
    fn drafter(&self, given: &SizeFlags) -> Lookup {
        let mut options = LookupOptions {
            rule: self.rule,
            n_key: 1,
            n_max: 1,
            n_min: 0,
            min_hits: 1,
        };
        for size in &self.sizes {
            let n = given.0.get(size.flag).copied();
            (size.set)(&mut options, n.unwrap_or(size.default));
        }
        Lookup::new(options)
    }
}

impl SpeculativeFlags {
    /// The look-ups, in the order they are asked.
    fn lookups(&self) -> Vec<&'static LookupKind> {
        let named = self.spec_type.iter().filter_map(|kind| match kind {
            Kind::Lookup(kind) => Some(*kind),
            _ => None,
        });
        let by_default = LOOKUPS
            .iter()
            .filter(|kind| self.spec_default && kind.name == "ngram-mod");
        let mut kinds: Vec<&LookupKind> = Vec::new();
        for kind in named.chain(by_default) {
            if kinds.iter().all(|known| known.name != kind.name) {
                kinds.push(kind);
            }
        }
        kinds
    }

    fn has_model(&self) -> bool {
        let is_off = self.spec_type.iter().any(|kind| matches!(kind, Kind::None));
        !is_off && (self.spec_draft_model.is_some() || self.spec_draft_hf.is_some())
    }

    /// Says what has no effect.
    pub fn note(&self) {
        let of_model = [
            ("--spec-draft-n-max", self.spec_draft_n_max.is_some()),
            ("--spec-draft-n-min", self.spec_draft_n_min.is_some()),
            ("--spec-draft-p-min", self.spec_draft_p_min.is_some()),
            ("--spec-draft-sampling", self.spec_draft_sampling.is_some()),
            ("--spec-draft-threads", self.spec_draft_threads.is_some()),
            (
                "--spec-draft-threads-batch",
                self.spec_draft_threads_batch.is_some(),
            ),
            ("--spec-draft-type-k", self.spec_draft_type_k.is_some()),
            ("--spec-draft-type-v", self.spec_draft_type_v.is_some()),
        ];
        if !self.has_model() {
            for (flag, _) in of_model.iter().filter(|(_, is_given)| *is_given) {
                say!("note: {flag} changes nothing without a draft model");
            }
        }
        let kinds = self.lookups();
        for (kind, size) in sizes().filter(|(_, size)| self.sizes.0.contains_key(size.flag)) {
            if kinds.iter().all(|known| known.name != kind.name) {
                say!(
                    "note: --{} changes nothing without --spec-type {}",
                    size.flag,
                    kind.name
                );
            }
        }
        let layers = self
            .spec_draft_ngl
            .as_deref()
            .is_some_and(|layers| layers != "0");
        let device = self
            .spec_draft_device
            .as_deref()
            .is_some_and(|name| name != "none");
        if layers || device {
            say!("note: no GPU backend is built in; the draft model runs on the CPU");
        }
    }

    /// Fetches the draft model where it is on the hub, and gives its path.
    ///
    /// # Errors
    /// Its kind without a model; a download that fails.
    pub fn draft_path(&self, model: &ModelPath) -> anyhow::Result<Option<PathBuf>> {
        let asks = self
            .spec_type
            .iter()
            .any(|kind| matches!(kind, Kind::DraftModel));
        match (&self.spec_draft_model, &self.spec_draft_hf) {
            _ if asks && !self.has_model() => Err(anyhow::anyhow!(
                "--spec-type draft-simple asks for a draft model, and none is named"
            )
            .context(Hint::new(
                "name one with --spec-draft-model or --spec-draft-hf",
            ))),
            (Some(path), _) if self.has_model() => Ok(Some(path.clone())),
            (None, Some(name)) if self.has_model() => model.fetch_another(name).map(Some),
            _ => Ok(None),
        }
    }

    /// Has a session drafted for.
    ///
    /// # Errors
    /// A draft model that cannot be loaded, or that knows other tokens.
    pub fn apply(
        &self,
        session: &mut Session,
        draft: Option<PathBuf>,
        load: &LoadOptions,
        placing: &PlacingFlags,
        quiet: bool,
    ) -> anyhow::Result<()> {
        let kinds = self.lookups();
        let mut names: Vec<String> = kinds.iter().map(|kind| kind.name.to_owned()).collect();
        let lookup = |kind: &&LookupKind| Box::new(kind.drafter(&self.sizes)) as Box<dyn Drafter>;
        let mut drafters: Vec<_> = kinds.iter().map(lookup).collect();
        if let Some(path) = draft {
            let drafter = self.draft_model(session, &path, load, placing)?;
            names.push(told(&drafter));
            drafters.push(Box::new(drafter));
        }
        if drafters.is_empty() {
            return Ok(());
        }
        session.set_speculation(Some(Speculation::new(drafters)))?;
        if !quiet {
            say!("drafts: {}", names.join(", "));
        }
        Ok(())
    }

    fn draft_model(
        &self,
        session: &Session,
        path: &std::path::Path,
        load: &LoadOptions,
        placing: &PlacingFlags,
    ) -> anyhow::Result<DraftModel> {
        let defaults = LoadOptions::default();
        let threads = self.spec_draft_threads.map(Threads::asked);
        let threads_batch = self.spec_draft_threads_batch.map(Threads::asked);
        let mut options = LoadOptions {
            n_threads: threads.unwrap_or(load.n_threads),
            n_threads_batch: match (threads_batch, threads) {
                (Some(n), _) => n,
                (None, Some(_)) => None,
                (None, None) => load.n_threads_batch,
            },
            n_ctx: Some(session.context().n_ctx()),
            cache: gristmill_engine::CacheTypes {
                k: self.spec_draft_type_k.unwrap_or(defaults.cache.k),
                v: self.spec_draft_type_v.unwrap_or(defaults.cache.v),
            },
            n_ubatch: load.n_ubatch,
            keeps_all: load.keeps_all,
            ..defaults
        };
        let model = placing.load(path, &options)?;
        options.n_ctx = options
            .n_ctx
            .map(|n| n.min(model.network().context_length_max()));
        memory::fit_context(&model, &mut options)?;
        let defaults = DraftModelOptions::default();
        let how = DraftModelOptions {
            n_max: self.spec_draft_n_max.unwrap_or(defaults.n_max),
            n_min: self.spec_draft_n_min.unwrap_or(defaults.n_min),
            p_min: self.spec_draft_p_min.unwrap_or(defaults.p_min),
        };
        let drafter = DraftModel::new(model, &options, how);
        drafter.map_err(|error| {
            anyhow::Error::new(error).context(format!("{}: cannot draft with it", path.display()))
        })
    }
}

/// A draft model in words.
fn told(drafter: &DraftModel) -> String {
    let context = drafter.session().context();
    let model = context.model();
    let threads = match (model.n_threads(), model.n_threads_batch()) {
        (n, n_batch) if n == n_batch => format!("{n} threads"),
        (n, n_batch) => format!("{n} threads, {n_batch} for prompts"),
    };
    format!(
        "{} ({:.1} M parameters, KV cache {:.1} MiB, {threads})",
        model.file().path().display(),
        model.n_parameters() as f64 / 1e6,
        context.cache_bytes() as f64 / f64::from(1 << 20)
    )
}
