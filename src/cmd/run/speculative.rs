//! Drafts: tokens that a smaller model, or the text itself, foretells, and that are computed several at once.

use std::collections::HashMap;
use std::path::PathBuf;

use gristmill_engine::{
    DraftModelOptions, Drafter, LoadOptions, Lookup, LookupOptions, LookupRule, Session,
    Speculation,
};

use super::draft_model::DraftModelFlags;
use super::flags::LoadFlags;
use super::placing::PlacingFlags;
use crate::failure::Hint;
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
    #[command(flatten)]
    model: DraftModelFlags,
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
    /// Its layers on the GPU: accepted, no GPU backend is built in
    #[arg(long, visible_aliases = ["gpu-layers-draft", "n-gpu-layers-draft"], value_name = "N|auto|all", value_parser = crate::gpu::layers)]
    spec_draft_ngl: Option<String>,
    /// Its devices: accepted, no GPU backend is built in
    #[arg(long, visible_alias = "device-draft", value_name = "NAME,…|none")]
    spec_draft_device: Option<String>,
    #[command(flatten)]
    sizes: SizeFlags,
}

/// The largest size of a draft, a key or a count, as in the reference.
pub(super) const SIZE_MAX: usize = 1024;

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

const N_MAX: &str = "Tokens of a draft at most";
const N_MIN: &str = "Shorter drafts are not computed";

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
        help: N_MAX,
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
                help: N_MIN,
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
    /// How it looks up with these sizes.
    fn options(&self, given: &SizeFlags, room: Room, quiet: bool) -> anyhow::Result<LookupOptions> {
        let mut options = LookupOptions {
            rule: self.rule,
            n_key: 1,
            n_max: 1,
            n_min: 0,
            min_hits: 1,
        };
        let mut lengths: [Option<Length>; 2] = [None, None];
        for size in &self.sizes {
            let length = Length {
                flag: size.flag,
                given: given.0.get(size.flag).copied(),
                default: size.default,
            };
            (size.set)(&mut options, length.n());
            match size.help {
                N_MIN => lengths[0] = Some(length),
                N_MAX => lengths[1] = Some(length),
                _ => {}
            }
        }
        if let [Some(n_min), Some(n_max)] = lengths {
            (options.n_min, options.n_max) = settled(n_min, n_max, room, quiet)?;
        }
        Ok(options)
    }
}

/// The length of a draft at least or at most, by its flag.
#[derive(Clone, Copy)]
struct Length {
    flag: &'static str,
    given: Option<usize>,
    default: usize,
}

impl Length {
    fn n(self) -> usize {
        self.given.unwrap_or(self.default)
    }
}

/// Tokens of a draft for which an execution has room, and the flag and its number that say so.
#[derive(Clone, Copy)]
struct Room {
    n: usize,
    flag: &'static str,
    value: usize,
}

/// The least and the greatest length of a draft. What is given and admits no draft is an error; a default gives way.
fn settled(
    n_min: Length,
    n_max: Length,
    room: Room,
    quiet: bool,
) -> anyhow::Result<(usize, usize)> {
    let (mut least, mut most) = (n_min.n(), n_max.n());
    let tell = |given: &str, value: usize, other: &str, n: usize, default: usize| {
        if !quiet {
            say!("note: {given} {value} makes --{other} {n}, in place of {default}");
        }
    };
    let flags = [n_min, n_max].map(|length| format!("--{}", length.flag));
    if n_min.given.is_some() && least > room.n {
        return Err(anyhow::anyhow!(
            "{} {least} is more than the {} tokens of a draft that {} {} leaves room for",
            flags[0],
            room.n,
            room.flag,
            room.value
        )
        .context(Hint::new(format!(
            "give {} at most {}, or {} more than {least}",
            flags[0], room.n, room.flag
        ))));
    }
    match (n_min.given, n_max.given) {
        _ if least <= most => {}
        (Some(_), Some(_)) => {
            return Err(anyhow::anyhow!(
                "{} {least} is more than {} {most}, so no draft would do",
                flags[0],
                flags[1]
            )
            .context(Hint::new(format!(
                "give {} at most {most}, or leave it out",
                flags[0]
            ))));
        }
        (Some(_), None) => {
            tell(&flags[0], least, n_max.flag, least, most);
            most = least;
        }
        _ => {
            tell(&flags[1], most, n_min.flag, most, least);
            least = most;
        }
    }
    if least > room.n {
        tell(room.flag, room.value, n_min.flag, room.n, least);
        least = room.n;
    }
    Ok((least, most))
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

    fn is_off(&self) -> bool {
        self.spec_type.iter().any(|kind| matches!(kind, Kind::None))
    }

    fn has_model(&self) -> bool {
        !self.is_off() && self.model.is_named()
    }

    /// The flags of the draft model alone that are given.
    fn of_model(&self) -> Vec<&'static str> {
        let own = [
            ("--spec-draft-n-min", self.spec_draft_n_min.is_some()),
            ("--spec-draft-p-min", self.spec_draft_p_min.is_some()),
            ("--spec-draft-sampling", self.spec_draft_sampling.is_some()),
            ("--spec-draft-threads", self.spec_draft_threads.is_some()),
            (
                "--spec-draft-threads-batch",
                self.spec_draft_threads_batch.is_some(),
            ),
            ("--spec-draft-ngl", self.spec_draft_ngl.is_some()),
            ("--spec-draft-device", self.spec_draft_device.is_some()),
        ];
        let given = own.iter().filter(|(_, is_given)| *is_given);
        let mut flags = self.model.given();
        flags.extend(given.map(|(flag, _)| *flag));
        flags
    }

    /// Says what has no effect.
    pub fn note(&self) {
        if self.is_off() {
            for flag in self.model.names() {
                say!("note: {flag} changes nothing with --spec-type none");
            }
        } else if !self.has_model() {
            for flag in self.of_model() {
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
        if self.has_model() && (layers || device) {
            say!("note: no GPU backend is built in; the draft model runs on the CPU");
        }
    }

    /// What the flags come to, with the defaults that give way to them.
    ///
    /// # Errors
    /// Flags that contradict each other; a draft model that is asked for and not named.
    pub fn drafts(&self, load: &LoadFlags, quiet: bool) -> anyhow::Result<Drafts<'_>> {
        if self.is_off() && (self.spec_default || self.spec_type.len() > 1) {
            let other = match self.spec_default {
                true => "--spec-default",
                false => "the other kinds of --spec-type",
            };
            return Err(
                anyhow::anyhow!("--spec-type none and {other} contradict each other")
                    .context(Hint::new("leave one of them out")),
            );
        }
        let mut kinds = self.spec_type.iter();
        if kinds.any(|kind| matches!(kind, Kind::DraftModel)) && !self.has_model() {
            return Err(anyhow::anyhow!(
                "--spec-type draft-simple asks for a draft model, and none is named"
            )
            .context(Hint::new(
                "name one with --spec-draft-model or --spec-draft-hf",
            )));
        }
        let mut drafts = Drafts {
            flags: self,
            lookups: Vec::new(),
            model: None,
            path: None,
        };
        let (flag, value) = load.batch();
        // The last token is computed along with the draft.
        let n = value.saturating_sub(1);
        let room = Room { n, flag, value };
        let kinds = self.lookups();
        if room.n == 0 {
            if !quiet && (self.has_model() || !kinds.is_empty()) {
                say!("note: {flag} {value} leaves no room for drafts, and none is made");
            }
            return Ok(drafts);
        }
        for kind in kinds {
            let options = kind.options(&self.sizes, room, quiet)?;
            drafts.lookups.push((kind.name, options));
        }
        if self.has_model() {
            drafts.model = Some(self.model_options(room, quiet)?);
        }
        Ok(drafts)
    }

    fn model_options(&self, room: Room, quiet: bool) -> anyhow::Result<DraftModelOptions> {
        let defaults = DraftModelOptions::default();
        let n_min = Length {
            flag: "spec-draft-n-min",
            given: self.spec_draft_n_min,
            default: defaults.n_min,
        };
        let n_max = Length {
            flag: "spec-draft-n-max",
            given: self.model.n_max(),
            default: defaults.n_max,
        };
        let (n_min, n_max) = settled(n_min, n_max, room, quiet)?;
        Ok(DraftModelOptions {
            n_max,
            n_min,
            p_min: self.spec_draft_p_min.unwrap_or(defaults.p_min),
        })
    }
}

/// What drafts, by the flags.
pub struct Drafts<'a> {
    flags: &'a SpeculativeFlags,
    lookups: Vec<(&'static str, LookupOptions)>,
    model: Option<DraftModelOptions>,
    path: Option<PathBuf>,
}

impl Drafts<'_> {
    /// Fetches the draft model where it is on the hub.
    ///
    /// # Errors
    /// A download that fails.
    pub fn fetch(&mut self, model: &ModelPath) -> anyhow::Result<()> {
        if self.model.is_some() {
            self.path = self.flags.model.path(model)?;
        }
        Ok(())
    }

    /// The draft model and how it is loaded beside a model that is loaded so, its context aside.
    pub fn model(&self, load: &LoadOptions) -> Option<(&std::path::Path, LoadOptions)> {
        let (path, how) = (self.path.as_deref()?, self.model?);
        let flags = self.flags;
        let threads = flags.spec_draft_threads.map(Threads::asked);
        let threads_batch = flags.spec_draft_threads_batch.map(Threads::asked);
        let options = LoadOptions {
            n_threads: threads.unwrap_or(load.n_threads),
            n_threads_batch: match (threads_batch, threads) {
                (Some(n), _) => n,
                (None, Some(_)) => None,
                (None, None) => load.n_threads_batch,
            },
            n_taken_back: how.n_max,
            ..flags.model.load_options(load)
        };
        Some((path, options))
    }

    /// Has a session drafted for.
    ///
    /// # Errors
    /// A draft model that cannot be loaded, or that knows other tokens.
    pub fn apply(
        &self,
        session: &mut Session,
        load: &LoadOptions,
        placing: &PlacingFlags,
        quiet: bool,
    ) -> anyhow::Result<()> {
        let n_ctx = session.context().n_ctx();
        let mut names: Vec<String> = Vec::new();
        let mut drafters: Vec<Box<dyn Drafter>> = Vec::new();
        for &(name, options) in &self.lookups {
            // A place of the key, a token behind it for every hit, and the draft itself.
            let n_needed = options.n_key + options.min_hits + options.n_min.max(1);
            if n_needed > n_ctx && !quiet {
                say!(
                    "note: {name} finds nothing in a context of {n_ctx} tokens: with its sizes it takes {n_needed}"
                );
            }
            names.push(name.to_owned());
            drafters.push(Box::new(Lookup::new(options)));
        }
        if let (Some((path, options)), Some(how)) = (self.model(load), self.model) {
            let options = LoadOptions {
                n_ctx: Some(n_ctx),
                ..options
            };
            let (drafter, told) = super::draft_model::drafter(path, options, how, placing)?;
            names.push(told);
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
}
