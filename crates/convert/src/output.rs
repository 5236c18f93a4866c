//! Output types, and which type each tensor gets.

use crate::ConvertError;
use crate::checkpoint::Checkpoint;
use crate::recipe::{RECIPES, Recipe};
use gristmill_model::Slot;
use gristmill_quant::{BF16, F16, F32, Q8_0, TensorType};
use safetensors::Dtype;

/// What a conversion writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputType {
    /// The 16-bit type that loses least.
    Auto,
    /// One type for all matrices.
    Uniform(Uniform),
    /// A recipe, applied to the checkpoint's own float type: what conversion to that type and
    /// quantization of the result give, in one step. Weights that adapters change are F32 before it.
    Recipe(&'static Recipe),
}

/// One type for all matrices. Name and number are those of the recipe that has no exceptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uniform(TensorType);

/// The types that conversion knows by itself.
const UNIFORM: [Uniform; 4] = [Uniform(BF16), Uniform(F16), Uniform(F32), Uniform(Q8_0)];

impl OutputType {
    /// The output type of this name, in any case.
    ///
    /// # Errors
    /// `UnknownOutputType`.
    pub fn parse(name: &str) -> Result<Self, ConvertError> {
        if name.eq_ignore_ascii_case("auto") {
            return Ok(OutputType::Auto);
        }
        let uniform = UNIFORM
            .iter()
            .find(|uniform| uniform.name().eq_ignore_ascii_case(name));
        if let Some(uniform) = uniform {
            return Ok(OutputType::Uniform(*uniform));
        }
        let unknown = |_| ConvertError::UnknownOutputType {
            name: name.to_owned(),
            known: UNIFORM.map(Uniform::name).join(", "),
        };
        Recipe::from_name(name)
            .map(OutputType::Recipe)
            .map_err(unknown)
    }

    /// The type that a checkpoint is converted to; with a recipe, before the recipe is applied.
    pub(crate) fn resolve(self, checkpoint: &Checkpoint) -> Uniform {
        match self {
            OutputType::Uniform(uniform) => uniform,
            OutputType::Auto => float(checkpoint.half_dtype()),
            OutputType::Recipe(_) => float(checkpoint.float_dtype()),
        }
    }

    /// The name of the result's type, for files and reports.
    pub(crate) fn label(self, resolved: Uniform) -> &'static str {
        match self {
            OutputType::Recipe(recipe) => recipe.name,
            _ => resolved.name(),
        }
    }
}

/// The float type of this name, in any case; none for `auto`.
///
/// # Errors
/// What names there are, for the parser's message.
pub fn float_type(name: &str) -> Result<Option<TensorType>, String> {
    if name.eq_ignore_ascii_case("auto") {
        return Ok(None);
    }
    let floats = UNIFORM.map(Uniform::ty).into_iter();
    let floats: Vec<TensorType> = floats.filter(|ty| !ty.is_quantized()).collect();
    let mut found = floats.iter();
    let found = found.find(|ty| ty.name().eq_ignore_ascii_case(name));
    let names: Vec<&str> = floats.iter().map(|ty| ty.name()).collect();
    found
        .map(|ty| Some(*ty))
        .ok_or_else(|| format!("it must be one of auto, {}", names.join(", ")))
}

/// The output type that keeps a checkpoint's element type.
pub(crate) fn float(dtype: Dtype) -> Uniform {
    Uniform(match dtype {
        Dtype::BF16 => BF16,
        Dtype::F16 => F16,
        _ => F32,
    })
}

impl Uniform {
    /// Blocks of 8 bits.
    pub(crate) const Q8_0: Self = Self(Q8_0);

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// The type.
    pub fn ty(self) -> TensorType {
        self.0
    }

    /// `general.file_type`.
    pub fn file_type(self) -> u32 {
        let named = |recipe: &&Recipe| recipe.name.eq_ignore_ascii_case(self.name());
        // Each has its recipe, as the test below holds.
        RECIPES.iter().find(named).map_or(0, |recipe| recipe.id)
    }

    /// The type of a tensor: vectors, norms, biases, routers, positions and token types are small and sensitive, and stay F32; rows that are no whole number
    /// of blocks become F16.
    pub(crate) fn type_of(self, name: &str, dims: &[u64]) -> TensorType {
        let is_small = dims.len() <= 1
            || name.ends_with("_norm.weight")
            || name == Slot::PositionEmbd.name()
            || name == Slot::TokenTypes.name()
            || name.ends_with(Slot::FfnGateInp.name())
            || ![".weight", ".lora_a", ".lora_b"]
                .iter()
                .any(|ending| name.ends_with(ending));
        if is_small {
            F32
        } else if dims[0].is_multiple_of(self.0.block_len() as u64) {
            self.0
        } else {
            F16
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are those of the reference's file types.
    #[test]
    fn every_uniform_type_has_its_recipe() {
        let numbers = UNIFORM.map(|uniform| (uniform.name(), uniform.file_type()));
        assert_eq!(numbers, [("bf16", 32), ("f16", 1), ("f32", 0), ("q8_0", 7)]);
    }
}
