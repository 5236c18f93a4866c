//! What the model would take under other recipes.

use gristmill_convert::recipe::{
    self, ModelFacts, PlanOptions, Recipe, SourceTensor, sort_tensors,
};
use gristmill_gguf::{self as gguf, tensor_bytes};

use super::Estimator;

/// The tensors of a model, to be planned.
pub(super) struct Tensors {
    /// None where the metadata does not tell what recipes ask for.
    facts: Option<ModelFacts>,
    tensors: Vec<SourceTensor>,
}

/// A recipe, and what weights are under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecipeEstimate {
    /// The recipe.
    pub recipe: &'static Recipe,
    /// Bytes of all tensors.
    pub weights: u64,
    /// Whether the result is garbage without an importance matrix.
    pub needs_importance: bool,
}

impl RecipeEstimate {
    /// Whether so few bits are left that the loss is plain: below three per weight.
    pub fn is_extreme(&self) -> bool {
        self.recipe.default.bits_per_weight() < 3.0
    }
}

impl Tensors {
    pub(super) fn of(file: &gguf::Model) -> Tensors {
        let tensors = file.tensors().iter().map(|tensor| SourceTensor {
            name: tensor.name.clone(),
            dims: tensor.dims.clone(),
            ty: tensor.ty,
        });
        let mut tensors: Vec<SourceTensor> = tensors.collect();
        sort_tensors(&mut tensors, |tensor| &tensor.name);
        Tensors {
            facts: ModelFacts::from_metadata(file.metadata()).ok(),
            tensors,
        }
    }

    fn under(&self, recipe: &'static Recipe) -> Option<RecipeEstimate> {
        let options = PlanOptions {
            has_importance: true,
            ..PlanOptions::default()
        };
        let plan = recipe::plan(recipe, self.facts.as_ref()?, &self.tensors, &options).ok()?;
        let planned = || self.tensors.iter().zip(&plan.tensors);
        // One for experts means another one where there are none.
        if !planned().any(|(_, planned)| planned.ty == recipe.default) {
            return None;
        }
        let bytes = planned().map(|(tensor, planned)| tensor_bytes(planned.ty, &tensor.dims).ok());
        Some(RecipeEstimate {
            recipe,
            weights: bytes.sum::<Option<u64>>()?,
            needs_importance: planned().any(|(_, planned)| planned.needs_importance),
        })
    }
}

impl Estimator {
    /// What the weights are under each recipe that can be written and means something here, the largest first.
    pub fn recipes(&self) -> Vec<RecipeEstimate> {
        let under = |recipe| self.tensors.under(recipe);
        let mut recipes: Vec<RecipeEstimate> = Recipe::available().filter_map(under).collect();
        recipes.sort_by_key(|recipe| std::cmp::Reverse(recipe.weights));
        recipes
    }
}
