//! What to do where memory is short, the mildest first.

use gristmill_engine::{CacheTypes, LoadOptions};
use gristmill_quant as quant;

use super::{Demand, Estimator, RecipeEstimate};

/// Something that makes the model fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// These settings in place of those asked for.
    Settings(Vec<Setting>),
    /// The model's file under a smaller recipe.
    Recipe(RecipeEstimate),
    /// Another model.
    SmallerModel,
}

/// A setting that takes less memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Positions of the context.
    Context(usize),
    /// Sequences at a time.
    Sequences(usize),
    /// Most tokens of one execution.
    Batch(usize),
    /// Types of the cache.
    Cache(CacheTypes),
}

/// The shortest context, in tokens, that is a remedy.
const CONTEXT_MIN: usize = 256;

/// The smallest batch, in tokens, that is a remedy: smaller ones are slow.
const BATCH_MIN: usize = 32;

/// Types of smaller caches, those that lose less first.
const CACHES: [CacheTypes; 3] = [
    CacheTypes {
        k: quant::Q8_0,
        v: quant::Q8_0,
    },
    CacheTypes {
        k: quant::Q8_0,
        v: quant::Q4_0,
    },
    CacheTypes {
        k: quant::Q4_0,
        v: quant::Q4_0,
    },
];

impl Setting {
    fn of(self, options: &LoadOptions) -> LoadOptions {
        let options = *options;
        match self {
            Setting::Context(n_ctx) => LoadOptions {
                n_ctx: Some(n_ctx),
                ..options
            },
            Setting::Sequences(n_sequences) => LoadOptions {
                n_sequences,
                ..options
            },
            Setting::Batch(n_ubatch) => LoadOptions {
                n_ubatch,
                ..options
            },
            Setting::Cache(cache) => LoadOptions { cache, ..options },
        }
    }
}

impl Estimator {
    /// What would make these options fit, the mildest first: a shorter context, fewer sequences, smaller batches, smaller
    /// types of the cache, several of these; a smaller recipe, a smaller model, and last a recipe of very few bits.
    pub fn remedies(&self, options: &LoadOptions, demand: Demand, memory: u64) -> Vec<Remedy> {
        let mut remedies: Vec<Remedy> = self
            .settings(options, demand, memory)
            .into_iter()
            .map(|setting| Remedy::Settings(vec![setting]))
            .collect();
        if remedies.is_empty() {
            remedies.extend(self.together(options, demand, memory).map(Remedy::Settings));
        }
        let recipes = self.fitting_recipes(options, demand, memory);
        let mild = recipes.iter().find(|recipe| !recipe.is_extreme());
        let extreme = recipes.iter().find(|recipe| recipe.is_extreme());
        remedies.extend(mild.copied().map(Remedy::Recipe));
        remedies.push(Remedy::SmallerModel);
        let extreme = extreme.filter(|_| mild.is_none());
        remedies.extend(extreme.copied().map(Remedy::Recipe));
        remedies
    }

    /// Settings each of which is enough by itself.
    fn settings(&self, options: &LoadOptions, demand: Demand, memory: u64) -> Vec<Setting> {
        let fits = |setting: &Setting| self.fits(&setting.of(options), demand, memory);
        let context = self.longest_context(options, demand, memory);
        let context = context.filter(|&n_ctx| n_ctx >= CONTEXT_MIN);
        let fewer = (1..options.n_sequences.min(64)).rev();
        let mut fewer = fewer.map(Setting::Sequences);
        let halves = std::iter::successors(Some(options.n_ubatch / 2), |n| Some(n / 2));
        let mut halves = halves.take_while(|&n| n >= BATCH_MIN).map(Setting::Batch);
        let now = options
            .cache
            .bytes_per_position(&self.network.layer_shapes());
        let smaller = |cache: &CacheTypes| {
            let shapes = self.network.layer_shapes();
            cache.check(&shapes).is_ok() && cache.bytes_per_position(&shapes) < now
        };
        let mut caches = CACHES.into_iter().filter(smaller).map(Setting::Cache);
        let single = [
            context.map(Setting::Context),
            fewer.find(fits),
            halves.find(fits),
            caches.find(fits),
        ];
        single.into_iter().flatten().collect()
    }

    /// Several settings at once, where none is enough by itself.
    fn together(&self, options: &LoadOptions, demand: Demand, memory: u64) -> Option<Vec<Setting>> {
        let shapes = self.network.layer_shapes();
        let caches = std::iter::once(options.cache).chain(CACHES);
        let caches = caches.filter(|cache| cache.check(&shapes).is_ok());
        caches.into_iter().find_map(|cache| {
            let mut settings = Vec::new();
            let mut smaller = LoadOptions { cache, ..*options };
            if options.n_sequences > 1 {
                settings.push(Setting::Sequences(1));
                smaller.n_sequences = 1;
            }
            if options.n_ubatch > BATCH_MIN {
                settings.push(Setting::Batch(BATCH_MIN));
                smaller.n_ubatch = BATCH_MIN;
            }
            if cache != options.cache {
                settings.push(Setting::Cache(cache));
            }
            let n_ctx = self.longest_context(&smaller, demand, memory)?;
            settings.insert(0, Setting::Context(n_ctx));
            (n_ctx >= CONTEXT_MIN).then_some(settings)
        })
    }

    /// The recipes with which these options fit, the largest first; none where the weights do not count.
    fn fitting_recipes(
        &self,
        options: &LoadOptions,
        demand: Demand,
        memory: u64,
    ) -> Vec<RecipeEstimate> {
        let Ok(estimate) = self.estimate(options) else {
            return Vec::new();
        };
        let fits = |recipe: &RecipeEstimate| {
            recipe.weights < self.weights && estimate.total_with(recipe.weights) <= memory
        };
        let recipes = self.recipes().into_iter();
        recipes
            .filter(|recipe| demand == Demand::All && fits(recipe))
            .collect()
    }
}
