//! The machine's memory: what is available is compared with what a model takes before it is loaded, so that what cannot fit is
//! refused with the numbers and what would fit, in place of a killed process.

mod available;
pub mod words;

use std::path::Path;

use gristmill_engine::{LoadOptions, Model};
use gristmill_gguf as gguf;
use gristmill_measure::estimate::{Demand, Estimate, Estimator};

use crate::display::size;
use crate::failure::Hint;

pub use available::available_bytes;

/// The shortest context that nobody asked for; before it gets shorter, weights are left to be read again.
const CONTEXT_KEPT: usize = 4096;

/// Compares what a model would take with what is available, before anything of it is loaded: what cannot fit is refused, a
/// context that nobody asked for made to fit, and a warning given where the weights do not fit beside it. `demand` is what has
/// to stay in memory. `beside` is what counts too: the bytes of adapters, and a model that drafts, loaded as its options say.
pub fn before_loading(
    file: &gguf::Model,
    (beside, draft): (u64, Option<(gguf::Model, LoadOptions)>),
    options: &mut LoadOptions,
    demand: Demand,
    quiet: bool,
) -> anyhow::Result<()> {
    // What is wrong with the file is said where it is loaded.
    let (Some(memory), Ok(mut estimator)) =
        (available_bytes()?, Estimator::new(file, &options.rope))
    else {
        return Ok(());
    };
    estimator = estimator.beside(beside);
    if let Some((draft, load)) = draft
        && let Ok(draft) = Estimator::new(&draft, &load.rope)
    {
        estimator = estimator.with_draft(draft, load);
    }
    let Ok(mut estimate) = estimator.estimate(options) else {
        return Ok(());
    };
    let longest = |demand| estimator.longest_context(options, demand, memory);
    if options.n_ctx.is_none() && estimate.total() > memory {
        let own = estimate.context.n_ctx;
        let roomy = longest(Demand::All).filter(|&n_ctx| n_ctx >= own.min(CONTEXT_KEPT));
        let tight = || {
            let n_ctx = longest(demand)?;
            Some(n_ctx.min(own.min(CONTEXT_KEPT)))
        };
        if let Some(n_ctx) = roomy.or_else(tight) {
            options.n_ctx = Some(n_ctx.min(own));
            estimate = estimator.estimate(options)?;
        }
    }
    let remedies = |demand| {
        let without = match estimate.draft {
            Some(_) => ", or leave out the draft model",
            None => "",
        };
        let remedies = estimator.remedies(options, demand, memory);
        format!("{}{without}", words::remedies(&remedies))
    };
    if estimate.of(demand) > memory {
        return Err(
            anyhow::anyhow!("{}", too_much(file.path(), &estimate, demand, memory))
                .context(Hint::new(remedies(demand))),
        );
    }
    if estimate.total() > memory && !quiet {
        say!(
            "warning: {} of weights do not fit into memory beside {} of the program's own: {} are available, so parts of the file are read again for each token",
            size(estimate.mapped()),
            size(estimate.anonymous()),
            size(memory)
        );
        say!("hint: {}", remedies(Demand::All));
    }
    Ok(())
}

/// Bytes of the tensors of files that are used beside a model.
pub fn bytes_beside<'a>(paths: impl IntoIterator<Item = &'a Path>) -> gguf::Result<u64> {
    let mut n_bytes = 0u64;
    for path in paths {
        let file = gguf::Model::open_header(path)?;
        let bytes = file.tensors().iter().map(|tensor| tensor.bytes);
        n_bytes = bytes.fold(n_bytes, u64::saturating_add);
    }
    Ok(n_bytes)
}

/// What is needed, part by part, and what there is.
fn too_much(path: &Path, estimate: &Estimate, demand: Demand, memory: u64) -> String {
    let context = &estimate.context;
    let draft = estimate.draft.as_deref().map_or(String::new(), |draft| {
        format!(", draft model {}", size(draft.of(demand)))
    });
    let weights = match (demand, estimate.beside) {
        (Demand::Anonymous, _) => String::new(),
        (Demand::All, 0) => format!("weights {}, ", size(estimate.weights)),
        (Demand::All, beside) => format!(
            "weights {}, adapters {}, ",
            size(estimate.weights),
            size(beside)
        ),
    };
    format!(
        "{}: a context of {} tokens needs {} of memory ({weights}KV cache {}, compute {}, program {}{draft}), and {} are available",
        path.display(),
        context.n_ctx,
        size(estimate.of(demand)),
        size(context.cache()),
        size(context.compute()),
        size(estimate.program),
        size(memory)
    )
}

/// Refuses a context whose KV cache exceeds the memory that is available; one that nobody asked for is made to fit.
pub fn fit_context(model: &Model, options: &mut LoadOptions) -> anyhow::Result<()> {
    let network = model.network();
    let n_ctx = network.context_length(options)?;
    let needed = network.cache_layout(options, n_ctx)?.n_bytes();
    let Some(available) = available_bytes()?.filter(|&available| needed > available) else {
        return Ok(());
    };
    let n_fit = network.longest_context(options, available);
    if options.n_ctx.is_none() {
        options.n_ctx = Some(n_fit);
        return Ok(());
    }
    Err(anyhow::anyhow!(
        "a context of {n_ctx} tokens needs {needed} bytes for its KV cache, and {available} bytes of memory are available"
    )
    .context(Hint::new(format!(
        "give a shorter one: {n_fit} tokens would fit"
    ))))
}

/// What the process holds, in bytes.
pub struct Usage {
    /// Pages of files that are in memory: what was read of mapped weights, and the program.
    pub files: u64,
    /// Memory of its own.
    pub anonymous: u64,
    /// What is kept from being swapped out.
    pub locked: u64,
    /// The most that was in memory at a time, files and its own.
    pub peak: u64,
}

/// What the process holds now, where the system tells.
pub fn usage() -> Option<Usage> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let bytes = |name: &str| kibibytes_of(&text, name)?.checked_mul(1024);
    Some(Usage {
        files: bytes("RssFile:")?,
        anonymous: bytes("RssAnon:")?,
        locked: bytes("VmLck:")?,
        peak: bytes("VmHWM:")?,
    })
}

/// The number of a line `NAME N kB`.
fn kibibytes_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
