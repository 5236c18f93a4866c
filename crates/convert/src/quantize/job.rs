//! One quantization: everything that is known before a byte is written, and how the data of one tensor passes.

use std::borrow::Cow;
use std::collections::BTreeSet;

use gristmill_model::Hyperparameters;

use super::importance::under_new_names;
use super::metadata::{FILE_TYPE_KEY, append};
use super::pruning::Pruning;
use super::sensitivity::Sensitivity;
use super::target::{Budget, Choice};
use super::*;
use crate::adapter::Merge;
use crate::recipe::{COPY, ModelFacts, plan, sort_tensors};

/// The source, the plan, and what bends it.
pub(super) struct Job<'a> {
    pub options: &'a QuantizeOptions,
    pub model: &'a Model,
    /// In the order of the output.
    pub views: Vec<TensorView<'a>>,
    /// The same under the names that they have in the output.
    pub sources: Vec<SourceTensor>,
    /// The importance matrix under these names.
    pub importance: Option<Cow<'a, Importance>>,
    pub plan: Plan,
    /// Adapters to merge.
    pub merge: Merge,
    /// Names of the tensors that they change.
    merged: BTreeSet<String>,
    /// Of the output.
    pub metadata: Metadata,
    recipe: Option<&'static Recipe>,
}

impl<'a> Job<'a> {
    /// Plans everything.
    ///
    /// # Errors
    /// What the source or the options do not allow.
    pub fn of(
        options: &'a QuantizeOptions,
        model: &'a Model,
        progress: Progress<'_>,
    ) -> Result<Job<'a>> {
        let pruning = match &*options.prune_blocks {
            [] => None,
            blocks => {
                let names = model.tensors().iter().map(|tensor| &*tensor.name);
                Some(Pruning::of(blocks, names)?)
            }
        };
        let rename = |name: &str| match &pruning {
            Some(pruning) => pruning.rename(name),
            None => Some(name.to_owned()),
        };
        let mut named: Vec<(TensorView<'a>, String)> = model
            .views()
            .filter_map(|view| Some((view, rename(&view.info.name)?)))
            .collect();
        if options.keep_split {
            // As the data lies in the files; the counters of recipes follow.
            named.sort_by_key(|(view, _)| (view.shard, view.offset));
        } else {
            sort_tensors(&mut named, |(_, name)| name);
        }
        let sources: Vec<SourceTensor> = named.iter().map(source).collect();
        let importance = under_new_names(options.importance.as_ref(), pruning.as_ref());
        // As the reference: what is set counts already for the mix, and pruned blocks do not.
        // A choice of types measures the header with the number of any recipe: all take as much room.
        let any = options.target.and(Recipe::of_type(gristmill_quant::Q8_0));
        let mut metadata = described(options, model, options.recipe.or(any));
        let facts = description::check(model.path(), &metadata)?;
        if let Some(pruning) = &pruning {
            pruning.describe(&mut metadata);
        }
        let merge = open_merge(options, model)?;
        let mut job = Job {
            options,
            model,
            merged: merge.names().into_iter().map(str::to_owned).collect(),
            merge,
            views: named.into_iter().map(|(view, _)| view).collect(),
            sources,
            importance,
            plan: Plan::default(),
            recipe: options.recipe,
            metadata,
        };
        match options.target {
            Some(target) => job.choose(&facts, target, progress)?,
            None => job.plan = job.plan_of(options.recipe, &facts, &options.plan)?,
        }
        Ok(job)
    }

    /// Whether an adapter changes a tensor.
    pub fn merges(&self, index: usize) -> bool {
        let view = self.views.get(index);
        view.is_some_and(|view| self.merged.contains(&view.info.name))
    }

    /// The name of the recipe that the output is of.
    pub fn recipe_name(&self) -> &'static str {
        self.recipe.map_or(COPY, |recipe| recipe.name)
    }

    fn plan_of(
        &self,
        recipe: Option<&'static Recipe>,
        facts: &ModelFacts,
        options: &PlanOptions,
    ) -> Result<Plan> {
        let options = PlanOptions {
            has_importance: self.importance.is_some(),
            ..options.clone()
        };
        match recipe {
            Some(recipe) => plan(recipe, facts, &self.sources, &options),
            None => Ok(Plan {
                tensors: self.sources.iter().map(PlannedTensor::kept).collect(),
                unused_overrides: Vec::new(),
            }),
        }
    }

    /// Chooses types for a size.
    fn choose(&mut self, facts: &ModelFacts, target: Target, progress: Progress<'_>) -> Result<()> {
        // Any recipe of a quantized type tells which tensors may change.
        let pure = PlanOptions {
            pure: true,
            ..self.options.plan.clone()
        };
        let mut plan = self.plan_of(Recipe::of_type(gristmill_quant::Q8_0), facts, &pure)?;
        let budget = self.budget(&plan, target)?;
        self.check_requantizing(&plan, &budget)?;
        let pool = self.options.pool();
        let choice = Choice {
            views: &self.views,
            sources: &self.sources,
            importance: self.importance.as_deref(),
            sensitivity: Sensitivity {
                tied: !self
                    .sources
                    .iter()
                    .any(|tensor| tensor.name == "output.weight"),
                n_blocks: facts.n_layers.saturating_sub(n_pruned(self.options)),
            },
            pool: &pool,
            allow_requantize: self.options.allow_requantize,
        };
        choice.apply(&mut plan, budget, progress)?;
        self.recipe = most_used(&self.sources, &plan);
        self.plan = plan;
        let is_set = |(key, _): &(String, Value)| key == FILE_TYPE_KEY;
        if !self.options.metadata.iter().any(is_set) {
            let of_source = || self.model.metadata().get(FILE_TYPE_KEY).cloned();
            match self
                .recipe
                .map(|recipe| recipe.id.into())
                .or_else(of_source)
            {
                Some(number) => self.metadata.set(FILE_TYPE_KEY, number),
                // No recipe has the most used type, and the source told none.
                None => self.metadata.remove(FILE_TYPE_KEY),
            };
        }
        Ok(())
    }

    /// What the free tensors may take together.
    fn budget(&self, plan: &Plan, target: Target) -> Result<Budget> {
        let n_elements = self.sources.iter().map(n_elements);
        let n_elements = n_elements.fold(0, u64::saturating_add);
        let (alignment, total, head) = match target {
            // No model has so many weights that its bits do not fit.
            Target::BitsPerWeight(bits) => (1, (n_elements as f64 * bits / 8.0) as u64, 0),
            Target::FileBytes(bytes) => {
                let alignment = self.metadata.u32("general.alignment").ok().flatten();
                let alignment = u64::from(alignment.unwrap_or(32)).max(1);
                let options = self.write_options();
                let mut files = 0u64;
                for (number, file) in self.files(plan)?.iter().enumerate() {
                    files = files.saturating_add(file.size(&options.of_file(number))?);
                }
                let data = self.bytes(plan, alignment, |_| true);
                (alignment, bytes, files.saturating_sub(data))
            }
        };
        let fixed = self.bytes(plan, alignment, |planned| !planned.by_recipe);
        Ok(Budget {
            target,
            total,
            rest: head.saturating_add(fixed),
            alignment,
            n_elements,
        })
    }

    /// Where requantizing is not allowed, quantized tensors stay as large as they are: that nothing fits then is told before
    /// anything is measured.
    fn check_requantizing(&self, plan: &Plan, budget: &Budget) -> Result<()> {
        let tensors = self.sources.iter().zip(&plan.tensors);
        let mut kept = tensors
            .filter(|(tensor, planned)| planned.by_recipe && tensor.ty.is_quantized())
            .map(|(tensor, _)| tensor)
            .peekable();
        let Some(first) = kept.peek().copied() else {
            return Ok(());
        };
        let bytes = kept.map(|tensor| gristmill_gguf::tensor_bytes(tensor.ty, &tensor.dims));
        let bytes = bytes.map(|bytes| bytes.unwrap_or(u64::MAX / 2));
        if self.options.allow_requantize || bytes.fold(0, u64::saturating_add) <= budget.bytes() {
            return Ok(());
        }
        Err(ConvertError::Requantize {
            tensor: first.name.clone(),
            ty: first.ty,
        })
    }

    /// Bytes of some tensors, each rounded up to a multiple of the alignment.
    fn bytes(&self, plan: &Plan, alignment: u64, of: impl Fn(&PlannedTensor) -> bool) -> u64 {
        let tensors = self.sources.iter().zip(&plan.tensors);
        tensors
            .filter(|(_, planned)| of(planned))
            .map(|(tensor, planned)| {
                let bytes = gristmill_gguf::tensor_bytes(planned.ty, &tensor.dims);
                bytes.unwrap_or(u64::MAX / 2).next_multiple_of(alignment)
            })
            .fold(0, u64::saturating_add)
    }

    pub fn write_options(&self) -> WriteOptions {
        let mut inputs: Vec<PathBuf> = Vec::new();
        inputs.extend(
            self.model
                .shards()
                .iter()
                .map(|shard| shard.path().to_owned()),
        );
        let importance = self.options.importance.iter();
        inputs.extend(importance.flat_map(Importance::files).cloned());
        inputs.extend(self.options.inputs.iter().cloned());
        inputs.extend(self.merge.inputs());
        WriteOptions {
            force: self.options.force,
            inputs,
            pad_head: self.options.keep_split && self.model.shards().len() > 1,
            reserve: self.options.reserve,
            ..WriteOptions::default()
        }
    }

    /// The file to write, or one for each shard of the source.
    pub fn files(&self, plan: &Plan) -> Result<Vec<ShardPlan>> {
        let layout: Vec<TensorPlan> = self.sources.iter().zip(&plan.tensors).map(layout).collect();
        let (prefix, metadata) = (&self.options.output, self.metadata.clone());
        if !self.options.keep_split {
            return Ok(ShardPlan::single(prefix, metadata, layout));
        }
        let n_shards = self.model.shards().len();
        if n_shards == 1 {
            // As the reference: the name of a shard, and no entries that say so.
            let name = prefix.file_name().unwrap_or_default().to_string_lossy();
            let path = prefix.with_file_name(shard_file_name(&name, 1, 1));
            return Ok(ShardPlan::single(&path, metadata, layout));
        }
        let start = |shard| self.views.partition_point(|view| view.shard < shard);
        let shards: Vec<_> = (0..n_shards)
            .map(|shard| start(shard)..start(shard + 1))
            .collect();
        let keys = ShardKeys::CountBeforeTensors;
        Ok(ShardPlan::set(prefix, &metadata, &layout, &shards, keys)?)
    }

    /// Copies the data of a tensor.
    pub fn copy(
        &self,
        index: usize,
        encoder: &mut RowEncoder<'_>,
        sink: &mut Sink,
        progress: Progress<'_>,
    ) -> Result<()> {
        let (view, tensor) = (&self.views[index], &self.sources[index]);
        let mut done = 0;
        encoder.copy(&tensor.name, tensor.ty, view.data, |bytes| {
            sink.read(bytes);
            sink.write(bytes)?;
            self.release(view, done..done + bytes.len());
            done += bytes.len();
            progress(Event::Written {
                bytes: bytes.len() as u64,
            });
            Ok(())
        })
    }

    /// Encodes the data of a tensor, a slab at a time.
    pub fn encode(
        &self,
        index: usize,
        encoder: &mut RowEncoder<'_>,
        sink: &mut Sink,
        progress: Progress<'_>,
    ) -> Result<()> {
        let (view, tensor) = (&self.views[index], &self.sources[index]);
        let ty = self.plan.tensors[index].ty;
        let importance = self.importance.as_ref();
        let weights = importance.map(|importance| importance.weights(tensor, ty));
        let weights = weights.transpose()?.flatten();
        let dim = |index: usize| {
            let n = tensor.dims.get(index).copied().unwrap_or(1);
            let source = gristmill_quant::QuantError::Overflow { ty, n };
            usize::try_from(n).map_err(|_| in_tensor(&tensor.name, source))
        };
        let changes = self.merge.changes_of(&view.info.name)?;
        let rows = Rows {
            tensor: &tensor.name,
            from: tensor.ty,
            to: ty,
            first_row: 0,
            row_len: dim(0)?,
            rows_per_matrix: dim(1)?,
            importance: weights.as_deref(),
            changes: &changes,
        };
        let mut done = 0;
        encoder.encode(&rows, view.data, |source, bytes| {
            sink.read(source);
            sink.write(bytes)?;
            self.release(view, done..done + source.len());
            done += source.len();
            progress(Event::Written {
                bytes: bytes.len() as u64,
            });
            Ok(())
        })
    }

    /// Gives pages of the source back that have been read.
    pub(super) fn release(&self, view: &TensorView<'_>, range: std::ops::Range<usize>) {
        if let Some(region) = self.model.region(view.shard) {
            // Inside the mapped file, so it fits.
            let offset = view.offset as usize;
            region.release(offset + range.start..offset + range.end);
        }
    }
}

fn open_merge(options: &QuantizeOptions, model: &Model) -> Result<Merge> {
    if options.merge.is_empty() {
        return Ok(Merge::default());
    }
    let hparams = Hyperparameters::from_metadata(model.metadata())?;
    Merge::open(&options.merge, &hparams)
}

/// The metadata of the output, but for what pruning changes.
fn described(
    options: &QuantizeOptions,
    model: &Model,
    recipe: Option<&'static Recipe>,
) -> Metadata {
    let file_type = recipe.map(|recipe| recipe.id);
    let mut metadata = quantized_metadata(model.metadata(), file_type, &options.metadata);
    let is_copy = options.recipe.is_none() && options.target.is_none();
    let importance = options
        .importance
        .iter()
        .filter(|importance| !importance.is_empty() && !is_copy);
    for (key, value) in importance.flat_map(Importance::metadata) {
        append(&mut metadata, &key, value);
    }
    metadata
}

fn source((view, name): &(TensorView<'_>, String)) -> SourceTensor {
    SourceTensor {
        name: name.clone(),
        dims: view.info.dims.clone(),
        ty: view.info.ty,
    }
}

fn layout((tensor, planned): (&SourceTensor, &PlannedTensor)) -> TensorPlan {
    TensorPlan {
        name: tensor.name.clone(),
        dims: tensor.written_dims().to_vec(),
        ty: planned.ty,
    }
}

fn n_elements(tensor: &SourceTensor) -> u64 {
    let dims = tensor.dims.iter();
    dims.fold(1, |n: u64, &dim| n.saturating_mul(dim))
}

/// The recipe of the type that most weights have.
fn most_used(sources: &[SourceTensor], plan: &Plan) -> Option<&'static Recipe> {
    let mut counts = std::collections::BTreeMap::new();
    for (tensor, planned) in sources.iter().zip(&plan.tensors) {
        let count: &mut u64 = counts.entry(planned.ty).or_default();
        *count = count.saturating_add(n_elements(tensor));
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count)?;
    Recipe::of_type(most.0)
}

/// How many blocks are left out.
fn n_pruned(options: &QuantizeOptions) -> u64 {
    options.prune_blocks.iter().collect::<BTreeSet<_>>().len() as u64
}
