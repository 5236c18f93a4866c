//! Output types, and which type each tensor gets.

use crate::ConvertError;
use crate::checkpoint::Checkpoint;
use crate::recipe::Recipe;
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
    /// quantization of the result give, in one step.
    Recipe(&'static Recipe),
}

/// One type for all matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uniform {
    /// Name on the command line.
    pub name: &'static str,
    /// The type.
    pub ty: TensorType,
    /// `general.file_type`.
    pub file_type: u32,
}

/// The types that conversion knows by itself.
pub const UNIFORM: &[Uniform] = &[
    Uniform {
        name: "bf16",
        ty: BF16,
        file_type: 32,
    },
    Uniform {
        name: "f16",
        ty: F16,
        file_type: 1,
    },
    Uniform {
        name: "f32",
        ty: F32,
        file_type: 0,
    },
    Uniform {
        name: "q8_0",
        ty: Q8_0,
        file_type: 7,
    },
];

impl OutputType {
    /// The output type of this name, in any case.
    ///
    /// # Errors
    /// `UnknownOutputType` with all names.
    pub fn parse(name: &str) -> Result<Self, ConvertError> {
        if name.eq_ignore_ascii_case("auto") {
            return Ok(OutputType::Auto);
        }
        let uniform = UNIFORM
            .iter()
            .find(|uniform| uniform.name.eq_ignore_ascii_case(name));
        if let Some(uniform) = uniform {
            return Ok(OutputType::Uniform(*uniform));
        }
        let unknown = |_| ConvertError::UnknownOutputType {
            name: name.to_owned(),
            known: Self::names().join(", "),
        };
        Recipe::from_name(name)
            .map(OutputType::Recipe)
            .map_err(unknown)
    }

    /// All names.
    pub fn names() -> Vec<&'static str> {
        let uniform = UNIFORM.iter().map(|uniform| uniform.name);
        let is_uniform = |name: &str| {
            UNIFORM
                .iter()
                .any(|uniform| uniform.name.eq_ignore_ascii_case(name))
        };
        let recipes = Recipe::available().map(|recipe| recipe.name);
        std::iter::once("auto")
            .chain(uniform)
            .chain(recipes.filter(|name| !is_uniform(name)))
            .collect()
    }

    /// The type that a checkpoint is converted to; with a recipe, before the recipe is applied.
    pub fn resolve(self, checkpoint: &Checkpoint) -> Uniform {
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
            _ => resolved.name,
        }
    }
}

/// The output type that keeps a checkpoint's element type.
pub(crate) fn float(dtype: Dtype) -> Uniform {
    let [bf16, f16, f32, _] = [UNIFORM[0], UNIFORM[1], UNIFORM[2], UNIFORM[3]];
    match dtype {
        Dtype::BF16 => bf16,
        Dtype::F16 => f16,
        _ => f32,
    }
}

impl Uniform {
    /// The type of a tensor: vectors, norms and biases are small and sensitive, and stay F32; rows that are no whole number
    /// of blocks become F16.
    pub(crate) fn type_of(self, name: &str, dims: &[u64]) -> TensorType {
        if dims.len() <= 1 || name.ends_with("_norm.weight") || !name.ends_with(".weight") {
            F32
        } else if dims[0].is_multiple_of(self.ty.block_len() as u64) {
            self.ty
        } else {
            F16
        }
    }
}
