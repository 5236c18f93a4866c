//! From a recipe and the tensors of a model to a type for each.

use gristmill_gguf::Metadata;
use gristmill_quant as q;
use gristmill_quant::TensorType;
use regex::Regex;

use super::Recipe;
use super::family::{Family, family};
use super::mix::{Place, Rule};
use super::tensor_kind::{PER_LAYER_EMBEDDING, TensorKind, may_change, needs_q8_0};
use crate::error::{ConvertError, Result};

/// What the mixes ask about a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelFacts {
    /// `general.architecture`.
    pub architecture: String,
    /// Blocks, prediction blocks included.
    pub n_layers: u64,
    /// Query heads of the first layer.
    pub n_heads: u64,
    /// Key and value heads of the first layer.
    pub n_kv_heads: u64,
    /// Experts of a layer; 0 for a dense model.
    pub n_experts: u64,
}

impl ModelFacts {
    /// Reads the facts from a model's metadata; absent ones are 0.
    ///
    /// # Errors
    /// [`ConvertError::Gguf`] for a value of the wrong type.
    pub fn from_metadata(metadata: &Metadata) -> Result<Self> {
        let architecture = metadata
            .str("general.architecture")?
            .unwrap_or_default()
            .to_owned();
        let key = |name: &str| format!("{architecture}.{name}");
        let n_heads = first(metadata, &key("attention.head_count"))?.unwrap_or(0);
        Ok(ModelFacts {
            n_layers: first(metadata, &key("block_count"))?.unwrap_or(0),
            n_heads,
            n_kv_heads: first(metadata, &key("attention.head_count_kv"))?.unwrap_or(n_heads),
            n_experts: first(metadata, &key("expert_count"))?.unwrap_or(0),
            architecture,
        })
    }

    /// Query heads that share a key and value head; 0 for a layer without attention.
    pub(super) fn heads_per_kv_head(&self) -> u64 {
        self.n_heads.checked_div(self.n_kv_heads).unwrap_or(0)
    }

    /// What sets the model's family apart.
    pub(super) fn family(&self) -> &'static Family {
        family(&self.architecture)
    }

    /// The size class whose values are worth more bits.
    fn has_valuable_values(&self) -> bool {
        let size = self.family().valuable_values.as_ref();
        size.is_some_and(|size| {
            let shared = self.n_heads != self.n_kv_heads;
            self.n_layers == size.n_layers && (shared || !size.with_shared_heads)
        })
    }
}

/// A number, or the first of an array with one per layer.
fn first(metadata: &Metadata, key: &str) -> Result<Option<u64>> {
    match metadata.get(key).and_then(gristmill_gguf::Value::as_array) {
        Some(_) => Ok(metadata
            .u32s(key)?
            .and_then(|values| values.first().copied())
            .map(u64::from)),
        None => Ok(metadata.u32(key)?.map(u64::from)),
    }
}

/// A tensor as the source has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceTensor {
    /// Its name in GGUF.
    pub name: String,
    /// Dimensions, the row length first.
    pub dims: Vec<u64>,
    /// Its type in the source.
    pub ty: TensorType,
}

impl SourceTensor {
    /// The dimensions without trailing ones, as they are written.
    pub fn written_dims(&self) -> &[u64] {
        let n = self
            .dims
            .iter()
            .rposition(|&dim| dim != 1)
            .map_or(1, |last| last + 1);
        &self.dims[..n.min(self.dims.len())]
    }
}

/// A type for all tensors whose name a pattern finds.
#[derive(Clone, Debug)]
pub struct TensorOverride {
    /// Searched in the name; need not match all of it.
    pub pattern: Regex,
    /// The type.
    pub ty: TensorType,
}

impl std::str::FromStr for TensorOverride {
    type Err = ConvertError;

    /// `PATTERN=TYPE`; the pattern is taken in lower case.
    fn from_str(text: &str) -> Result<Self> {
        let bad = |reason: String| ConvertError::BadTensorOverride {
            text: text.to_owned(),
            reason,
        };
        let (pattern, name) = text
            .rsplit_once('=')
            .ok_or_else(|| bad("there is no `=`".to_owned()))?;
        let ty = tensor_type(name)?;
        if pattern.is_empty() {
            return Err(bad("the pattern is empty".to_owned()));
        }
        let pattern = Regex::new(&pattern.to_lowercase()).map_err(|error| {
            // Its last line says what is wrong, those above draw the pattern.
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default();
            bad(format!(
                "the pattern is no regular expression: {}",
                reason.trim_start_matches("error: ")
            ))
        })?;
        Ok(TensorOverride { pattern, ty })
    }
}

/// The tensor type of a name on the command line.
///
/// # Errors
/// [`ConvertError::UnknownTensorType`].
pub fn tensor_type(name: &str) -> Result<TensorType> {
    TensorType::from_name(name).ok_or_else(|| ConvertError::UnknownTensorType {
        name: name.to_owned(),
    })
}

/// What bends a recipe.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// The default type for every tensor that may change.
    pub pure: bool,
    /// Leave `output.weight` in the source's type.
    pub leave_output_tensor: bool,
    /// A type for `output.weight`.
    pub output_tensor_type: Option<TensorType>,
    /// A type for `token_embd.weight`.
    pub token_embedding_type: Option<TensorType>,
    /// Types by pattern; the first that finds a tensor decides.
    pub tensor_types: Vec<TensorOverride>,
    /// An importance matrix is present.
    pub has_importance: bool,
}

impl PlanOptions {
    /// Whether tensors of this kind stay in the source's type.
    fn keeps(&self, kind: TensorKind) -> bool {
        self.leave_output_tensor && kind == TensorKind::Output
    }

    /// The type that the options for the output and the embedding name for a tensor. One by pattern wins for the embedding of
    /// each layer, and for no other tensor.
    fn type_by_kind(&self, name: &str, kind: TensorKind, by_pattern: bool) -> Option<TensorType> {
        match kind {
            TensorKind::TokenEmbedding if by_pattern && name == PER_LAYER_EMBEDDING => None,
            TensorKind::TokenEmbedding => self.token_embedding_type,
            TensorKind::Output => self.output_tensor_type,
            _ => None,
        }
    }
}

/// The type of one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedTensor {
    /// The type in the result.
    pub ty: TensorType,
    /// The type that the recipe wanted but the row length did not allow.
    pub fallback_from: Option<TensorType>,
    /// The type is so coarse that the result is garbage without an importance matrix.
    pub needs_importance: bool,
    /// The recipe decided: the tensor may change, and no option named a type for it.
    pub by_recipe: bool,
}

impl PlannedTensor {
    /// A tensor that stays as it is.
    pub(crate) fn kept(tensor: &SourceTensor) -> Self {
        PlannedTensor {
            ty: tensor.ty,
            fallback_from: None,
            needs_importance: false,
            by_recipe: false,
        }
    }
}

/// A type for each tensor, parallel to the list given to [`plan`].
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// One entry per tensor.
    pub tensors: Vec<PlannedTensor>,
    /// Overrides that decide nothing.
    pub unused_overrides: Vec<UnusedOverride>,
}

/// An override that decides nothing, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnusedOverride {
    /// Its number.
    pub index: usize,
    /// Why.
    pub reason: Unused,
}

/// Why an override decides nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unused {
    /// It finds no tensor.
    NotFound,
    /// It finds only tensors whose type never changes.
    Kept,
    /// The recipe does not quantize, and such a recipe takes no overrides.
    Unquantized,
    /// For each of its tensors an earlier one decides; the number of that for the first of them.
    Earlier(usize),
    /// Another option decides for its tensors, or for those that no earlier one finds.
    Outranked,
}

/// Sorts tensors as they are written: those outside of blocks first, then block by block, by name within.
///
/// The mixes count tensors in this order.
pub fn sort_tensors<T>(tensors: &mut [T], name: impl Fn(&T) -> &str) {
    tensors.sort_by(|a, b| (block(name(a)), name(a)).cmp(&(block(name(b)), name(b))));
}

/// The `N` of a name that starts with `blk.N.`
fn block(name: &str) -> Option<u64> {
    name.strip_prefix("blk.")?.split_once('.')?.0.parse().ok()
}

/// Plans a type for each tensor. `tensors` must be in the order of [`sort_tensors`].
///
/// # Errors
/// [`ConvertError::NoFallback`], [`ConvertError::NoLayer`].
pub fn plan(
    recipe: &'static Recipe,
    model: &ModelFacts,
    tensors: &[SourceTensor],
    options: &PlanOptions,
) -> Result<Plan> {
    let kinds: Vec<TensorKind> = tensors
        .iter()
        .map(|tensor| TensorKind::of(&tensor.name))
        .collect();
    let mut planner = Planner {
        recipe,
        model,
        options,
        has_output: kinds.contains(&TensorKind::Output),
        n_values: kinds
            .iter()
            .filter(|kind| **kind == TensorKind::Value)
            .count() as u64,
        value_index: 0,
        feed_forward_index: [0; 3],
        used: vec![false; options.tensor_types.len()],
    };
    let planned: Result<Vec<_>> = tensors
        .iter()
        .zip(kinds)
        .map(|(tensor, kind)| planner.tensor(tensor, kind))
        .collect();
    let unused = planner
        .used
        .iter()
        .enumerate()
        .filter(|(_, used)| !**used)
        .map(|(index, _)| UnusedOverride {
            index,
            reason: why_unused(index, recipe, model, tensors, options),
        });
    Ok(Plan {
        tensors: planned?,
        unused_overrides: unused.collect(),
    })
}

/// Why the override of a number decides nothing.
fn why_unused(
    index: usize,
    recipe: &Recipe,
    model: &ModelFacts,
    tensors: &[SourceTensor],
    options: &PlanOptions,
) -> Unused {
    let finds = |index: usize, tensor: &SourceTensor| {
        let entry = &options.tensor_types[index];
        entry.pattern.is_match(&tensor.name)
    };
    let found = |tensor: &&SourceTensor| finds(index, tensor);
    if !tensors.iter().any(|tensor| found(&tensor)) {
        return Unused::NotFound;
    }
    let changing = |tensor: &&SourceTensor| may_change(model, &tensor.name, tensor.written_dims());
    let mut changing = tensors.iter().filter(found).filter(changing).peekable();
    if changing.peek().is_none() {
        return Unused::Kept;
    }
    if !recipe.default.is_quantized() {
        return Unused::Unquantized;
    }
    let earlier = |tensor: &SourceTensor| {
        let kind = TensorKind::of(&tensor.name);
        let outranked =
            options.keeps(kind) || options.type_by_kind(&tensor.name, kind, true).is_some();
        (0..index).find(|&earlier| !outranked && finds(earlier, tensor))
    };
    let earlier: Option<Vec<usize>> = changing.map(earlier).collect();
    match earlier.as_deref() {
        Some([first, ..]) => Unused::Earlier(*first),
        _ => Unused::Outranked,
    }
}

struct Planner<'a> {
    recipe: &'static Recipe,
    model: &'a ModelFacts,
    options: &'a PlanOptions,
    /// Without an output matrix, the token embedding is the output.
    has_output: bool,
    n_values: u64,
    /// Values seen so far.
    value_index: u64,
    /// Gate, up and down projections seen so far.
    feed_forward_index: [u64; 3],
    /// Overrides that decided the type of a tensor.
    used: Vec<bool>,
}

impl Planner<'_> {
    fn tensor(&mut self, tensor: &SourceTensor, kind: TensorKind) -> Result<PlannedTensor> {
        let dims = tensor.written_dims();
        let kept = !may_change(self.model, &tensor.name, dims) || self.options.keeps(kind);
        if kept {
            return Ok(PlannedTensor::kept(tensor));
        }
        let (wanted, by_recipe) = match self.named(tensor, kind) {
            Some(ty) => (ty, false),
            None => (self.wanted(tensor, kind)?, true),
        };
        let ty = if wanted.is_quantized() {
            fit_rows(&tensor.name, dims[0], wanted)?
        } else {
            wanted
        };
        Ok(PlannedTensor {
            ty,
            fallback_from: (ty != wanted).then_some(wanted),
            needs_importance: self.needs_importance(kind, ty),
            by_recipe,
        })
    }

    /// The type that an option names for the tensor.
    fn named(&mut self, tensor: &SourceTensor, kind: TensorKind) -> Option<TensorType> {
        let patterns = &self.options.tensor_types;
        let found = patterns
            .iter()
            .position(|entry| entry.pattern.is_match(&tensor.name));
        let by_kind = self
            .options
            .type_by_kind(&tensor.name, kind, found.is_some());
        if by_kind.is_some() {
            return by_kind;
        }
        let index = found.filter(|_| self.recipe.default.is_quantized())?;
        self.used[index] = true;
        Some(patterns[index].ty)
    }

    /// The recipe's type, before the row length is looked at.
    fn wanted(&mut self, tensor: &SourceTensor, kind: TensorKind) -> Result<TensorType> {
        if self.options.pure || !self.recipe.default.is_quantized() {
            Ok(self.recipe.default)
        } else {
            self.mixed(tensor, kind)
        }
    }

    /// The type by the recipe's mix.
    fn mixed(&mut self, tensor: &SourceTensor, kind: TensorKind) -> Result<TensorType> {
        let (mix, default) = (self.recipe.mix, self.recipe.default);
        if needs_q8_0(self.model, &tensor.name) {
            return Ok(q::Q8_0);
        }
        if kind == TensorKind::Output || (kind == TensorKind::TokenEmbedding && !self.has_output) {
            return Ok(self.output(tensor));
        }
        let mut place = Place {
            model: self.model,
            has_importance: self.options.has_importance,
            index: 0,
            count: 0,
            n_matrices: tensor.dims.get(2).copied().unwrap_or(1),
            feed_forward: kind.is_feed_forward(),
        };
        if !mix.everything.is_empty() {
            return Ok(choose(mix.everything, &place, default));
        }
        let rule = match kind {
            TensorKind::TokenEmbedding => mix.token_embedding,
            TensorKind::Value => return Ok(self.value(place)),
            TensorKind::Key if !mix.very_low && self.model.n_experts == 8 => return Ok(q::Q8_0),
            TensorKind::Key => mix.key,
            TensorKind::Query => mix.query,
            TensorKind::AttentionOutput => mix.attention_output,
            TensorKind::Down => mix.down,
            TensorKind::Gate | TensorKind::Up => mix.gate_up,
            TensorKind::Other | TensorKind::Output => &[],
        };
        if kind.is_feed_forward() {
            (place.index, place.count) = (self.layer(tensor, kind)?, self.model.n_layers);
        }
        Ok(choose(rule, &place, default))
    }

    fn output(&self, tensor: &SourceTensor) -> TensorType {
        if let Some(ty) = self.options.output_tensor_type {
            return ty;
        }
        let fits = tensor.dims[0].is_multiple_of(self.recipe.default.block_len() as u64);
        if fits && !self.model.family().has_own_mix {
            self.recipe.mix.output
        } else {
            q::Q8_0
        }
    }

    fn value(&mut self, mut place: Place) -> TensorType {
        (place.index, place.count) = (self.value_index, self.n_values);
        self.value_index += 1;
        let (mix, default) = (self.recipe.mix, self.recipe.default);
        let ty = choose(mix.value, &place, default);
        if mix.very_low {
            return ty;
        }
        if self.model.n_experts == 8 {
            return q::Q8_0;
        }
        if self.model.has_valuable_values() && (ty == q::Q3_K || ty == q::Q4_K) {
            q::Q5_K
        } else {
            ty
        }
    }

    /// The layer of a feed-forward tensor: counted in a dense model, read from the name among experts.
    fn layer(&mut self, tensor: &SourceTensor, kind: TensorKind) -> Result<u64> {
        let seen = &mut self.feed_forward_index[match kind {
            TensorKind::Gate => 0,
            TensorKind::Up => 1,
            _ => 2,
        }];
        let counted = *seen;
        *seen += 1;
        if self.model.n_experts <= 1 || self.recipe.mix.very_low {
            return Ok(counted);
        }
        let n_layers = self.model.n_layers;
        let no_layer = || ConvertError::NoLayer {
            tensor: tensor.name.clone(),
            n_layers,
        };
        block(&tensor.name)
            .filter(|&layer| layer < n_layers)
            .ok_or_else(no_layer)
    }

    fn needs_importance(&self, kind: TensorKind, ty: TensorType) -> bool {
        let exempt = kind == TensorKind::TokenEmbedding || kind == TensorKind::Output;
        let by_recipe = needs_importance(ty) || self.recipe.mix.needs_importance(ty);
        // What the type itself refuses cannot be exempt.
        ty.needs_importance() || (by_recipe && !exempt)
    }
}

fn choose(rule: Rule, place: &Place, default: TensorType) -> TensorType {
    rule.iter()
        .find(|(when, _)| when(place))
        .map_or(default, |(_, ty)| *ty)
}

/// Whether a type has so few bits that it is garbage without an importance matrix.
pub(crate) fn needs_importance(ty: TensorType) -> bool {
    ty.needs_importance() || ty.policy().coarse
}

/// The type itself where rows divide into its blocks, else its fallback, else F16.
fn fit_rows(tensor: &str, row_len: u64, ty: TensorType) -> Result<TensorType> {
    let fits = |ty: TensorType| row_len.is_multiple_of(ty.block_len() as u64);
    if fits(ty) {
        return Ok(ty);
    }
    match ty.policy().fallback {
        Some(fallback) if fits(fallback) => Ok(fallback),
        None if ty.block_len() > 32 => Err(ConvertError::NoFallback {
            tensor: tensor.to_owned(),
            row_len,
            ty,
        }),
        _ => Ok(q::F16),
    }
}
