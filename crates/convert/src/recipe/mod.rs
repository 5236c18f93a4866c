//! Recipes: which tensor of a model gets which type.
//!
//! A recipe is a name, a number in the file, a default type, and a `Mix`, the table of exceptions. One without exceptions
//! belongs to its type ([`gristmill_quant::OwnRecipe`]), the others have a line here. [`plan()`] applies a recipe to the
//! tensors of a model.

mod family;
mod mix;
mod plan;
mod tensor_kind;

use std::sync::LazyLock;

use gristmill_quant as q;
use gristmill_quant::TensorType;

use crate::error::{ConvertError, Result};

pub(crate) use plan::needs_importance;
pub use plan::{
    ModelFacts, Plan, PlanOptions, PlannedTensor, SourceTensor, TensorOverride, Unused,
    UnusedOverride, plan, sort_tensors, tensor_type,
};
pub use tensor_kind::TensorKind;

/// The name of the recipe that is none: every tensor is copied.
pub const COPY: &str = "COPY";

/// A named way to quantize a whole model.
#[derive(Clone, Copy)]
pub struct Recipe {
    /// `general.file_type` of the result.
    pub id: u32,
    /// The upper-case name of the command line.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// The type of every tensor that no rule names.
    pub default: TensorType,
    /// The exceptions.
    mix: &'static mix::Mix,
    /// One line: what it is good for.
    pub help: &'static str,
}

/// All recipes, those of the smallest types first.
pub static RECIPES: LazyLock<Vec<Recipe>> = LazyLock::new(|| {
    let own = TensorType::all().filter_map(Recipe::own);
    let mut recipes: Vec<Recipe> = MIXED.iter().copied().chain(own).collect();
    let bits = |recipe: &Recipe| recipe.default.bits_per_weight();
    recipes.sort_by(|a, b| bits(a).total_cmp(&bits(b)).then(a.id.cmp(&b.id)));
    recipes
});

/// The recipes with exceptions. To add one: its line here, its mix in `mix.rs`.
#[rustfmt::skip]
static MIXED: &[Recipe] = &[
    Recipe { id: 41, name: "Q2_0", aliases: &[], default: q::Q2_0, mix: &mix::TERNARY, help: "2.3 bits: for models trained with ternary weights" },
    Recipe { id: 2, name: "Q4_0", aliases: &[], default: q::Q4_0, mix: &mix::Q4_0, help: "4.5 bits: simple and fast, Q4_K_M loses less" },
    Recipe { id: 38, name: "MXFP4_MOE", aliases: &[], default: q::MXFP4, mix: &mix::MXFP4_MOE, help: "4.3 bits for experts, 8.5 for the rest" },
    Recipe { id: 8, name: "Q5_0", aliases: &[], default: q::Q5_0, mix: &mix::Q5_0, help: "5.5 bits: simple, Q5_K_M loses less" },
    Recipe { id: 19, name: "IQ2_XXS", aliases: &[], default: q::IQ2_XXS, mix: &mix::IQ2_XXS, help: "2.1 bits, needs an importance matrix" },
    Recipe { id: 20, name: "IQ2_XS", aliases: &[], default: q::IQ2_XS, mix: &mix::IQ2_XXS, help: "2.3 bits, needs an importance matrix" },
    Recipe { id: 28, name: "IQ2_S", aliases: &[], default: q::IQ2_XS, mix: &mix::IQ2_S, help: "2.5 bits, needs an importance matrix" },
    Recipe { id: 29, name: "IQ2_M", aliases: &[], default: q::IQ2_S, mix: &mix::IQ2_S, help: "2.7 bits, needs an importance matrix" },
    Recipe { id: 24, name: "IQ1_S", aliases: &[], default: q::IQ1_S, mix: &mix::IQ1_S, help: "1.6 bits, needs an importance matrix" },
    Recipe { id: 31, name: "IQ1_M", aliases: &[], default: q::IQ1_M, mix: &mix::IQ1_S, help: "1.8 bits, needs an importance matrix" },
    Recipe { id: 36, name: "TQ1_0", aliases: &[], default: q::TQ1_0, mix: &mix::TERNARY, help: "1.7 bits: for models trained with ternary weights" },
    Recipe { id: 37, name: "TQ2_0", aliases: &[], default: q::TQ2_0, mix: &mix::TERNARY, help: "2.1 bits: for models trained with ternary weights" },
    Recipe { id: 10, name: "Q2_K", aliases: &[], default: q::Q2_K, mix: &mix::Q2_K, help: "2.6 bits and more where it matters: very small, visible loss" },
    Recipe { id: 21, name: "Q2_K_S", aliases: &[], default: q::Q2_K, mix: &mix::Q2_K_S, help: "2.6 bits, needs an importance matrix" },
    Recipe { id: 23, name: "IQ3_XXS", aliases: &[], default: q::IQ3_XXS, mix: &mix::IQ3_XXS, help: "3.1 bits, needs an importance matrix" },
    Recipe { id: 26, name: "IQ3_S", aliases: &[], default: q::IQ3_S, mix: &mix::IQ3_S, help: "3.4 bits" },
    Recipe { id: 27, name: "IQ3_M", aliases: &[], default: q::IQ3_S, mix: &mix::IQ3_M, help: "3.7 bits" },
    Recipe { id: 22, name: "IQ3_XS", aliases: &[], default: q::IQ3_S, mix: &mix::IQ3_XS, help: "3.3 bits, needs an importance matrix" },
    Recipe { id: 11, name: "Q3_K_S", aliases: &[], default: q::Q3_K, mix: &mix::Q3_K_S, help: "3.4 bits: small, high loss" },
    Recipe { id: 12, name: "Q3_K_M", aliases: &["Q3_K"], default: q::Q3_K, mix: &mix::Q3_K_M, help: "3.4 bits, 4 to 5 where it matters" },
    Recipe { id: 13, name: "Q3_K_L", aliases: &[], default: q::Q3_K, mix: &mix::Q3_K_L, help: "3.4 bits, 5 where it matters" },
    Recipe { id: 25, name: "IQ4_NL", aliases: &[], default: q::IQ4_NL, mix: &mix::IQ4, help: "4.5 bits on an uneven grid" },
    Recipe { id: 30, name: "IQ4_XS", aliases: &[], default: q::IQ4_XS, mix: &mix::IQ4, help: "4.3 bits on an uneven grid" },
    Recipe { id: 14, name: "Q4_K_S", aliases: &[], default: q::Q4_K, mix: &mix::Q4_K_S, help: "4.5 bits, 5.5 in the first layers" },
    Recipe { id: 15, name: "Q4_K_M", aliases: &["Q4_K"], default: q::Q4_K, mix: &mix::Q4_K_M, help: "4.5 bits, 6.6 where it matters: the usual choice" },
    Recipe { id: 16, name: "Q5_K_S", aliases: &[], default: q::Q5_K, mix: &mix::NONE, help: "5.5 bits: little loss" },
    Recipe { id: 17, name: "Q5_K_M", aliases: &["Q5_K"], default: q::Q5_K, mix: &mix::Q5_K_M, help: "5.5 bits, 6.6 where it matters: very little loss" },
    Recipe { id: 7, name: "Q8_0", aliases: &[], default: q::Q8_0, mix: &mix::Q8_0, help: "8.5 bits: as good as the source" },
];

impl Recipe {
    /// The recipe that belongs to a type.
    fn own(ty: TensorType) -> Option<Recipe> {
        ty.policy().recipe.map(|own| Recipe {
            id: own.file_type,
            name: own.name,
            aliases: &[],
            default: ty,
            mix: &mix::NONE,
            help: own.help,
        })
    }

    /// The recipe of this name (any case), alias or number.
    ///
    /// # Errors
    /// [`ConvertError::UnknownRecipe`].
    pub fn from_name(name: &str) -> Result<&'static Recipe> {
        let names = |recipe: &&Recipe| {
            std::iter::once(&recipe.name)
                .chain(recipe.aliases)
                .any(|known| known.eq_ignore_ascii_case(name))
        };
        let by_name = RECIPES.iter().find(names);
        let found = by_name.or_else(|| name.parse().ok().and_then(Recipe::from_id));
        found.ok_or_else(|| ConvertError::UnknownRecipe {
            name: name.to_owned(),
        })
    }

    /// The recipe with this `general.file_type`.
    pub fn from_id(id: u32) -> Option<&'static Recipe> {
        RECIPES.iter().find(|recipe| recipe.id == id)
    }

    /// The recipe that a file is named after whose tensors are mostly of one type.
    pub fn of_type(ty: TensorType) -> Option<&'static Recipe> {
        let mut of_type = RECIPES.iter().filter(|recipe| recipe.default == ty);
        let named = |recipe: &&Recipe| {
            let mut names = std::iter::once(&recipe.name).chain(recipe.aliases);
            names.any(|name| name.eq_ignore_ascii_case(ty.name()))
        };
        let by_name = of_type.clone().find(named);
        by_name.or_else(|| of_type.next())
    }

    /// The recipes whose default type can be written, in the order of help.
    pub fn available() -> impl Iterator<Item = &'static Recipe> {
        RECIPES.iter().filter(|recipe| recipe.default.can_encode())
    }
}

impl PartialEq for Recipe {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Recipe {}

impl std::fmt::Debug for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name)
    }
}

#[cfg(test)]
mod tests;
