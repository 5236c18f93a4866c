//! `general.file_type`: the recipe that a file says it was made by.
//!
//! It is a label for the whole file. What each tensor really is stands in the tensor directory.

use gristmill_quant::TensorType;

/// Added to the number by tools that guessed it from the most frequent type.
const GUESSED: u32 = 1024;

/// Number, command-line name, and the words that loaders print, where no type has it as its own recipe or other words are
/// printed than its name.
static FILE_TYPES: &[(u32, &str, &str)] = &[
    (0, "F32", "all F32"),
    (2, "Q4_0", "Q4_0"),
    (7, "Q8_0", "Q8_0"),
    (8, "Q5_0", "Q5_0"),
    (10, "Q2_K", "Q2_K - Medium"),
    (11, "Q3_K_S", "Q3_K - Small"),
    (12, "Q3_K_M", "Q3_K - Medium"),
    (13, "Q3_K_L", "Q3_K - Large"),
    (14, "Q4_K_S", "Q4_K - Small"),
    (15, "Q4_K_M", "Q4_K - Medium"),
    (16, "Q5_K_S", "Q5_K - Small"),
    (17, "Q5_K_M", "Q5_K - Medium"),
    (19, "IQ2_XXS", "IQ2_XXS - 2.0625 bpw"),
    (20, "IQ2_XS", "IQ2_XS - 2.3125 bpw"),
    (21, "Q2_K_S", "Q2_K - Small"),
    (22, "IQ3_XS", "IQ3_XS - 3.3 bpw"),
    (23, "IQ3_XXS", "IQ3_XXS - 3.0625 bpw"),
    (24, "IQ1_S", "IQ1_S - 1.5625 bpw"),
    (25, "IQ4_NL", "IQ4_NL - 4.5 bpw"),
    (26, "IQ3_S", "IQ3_S - 3.4375 bpw"),
    (27, "IQ3_M", "IQ3_S mix - 3.66 bpw"),
    (28, "IQ2_S", "IQ2_S - 2.5 bpw"),
    (29, "IQ2_M", "IQ2_M - 2.7 bpw"),
    (30, "IQ4_XS", "IQ4_XS - 4.25 bpw"),
    (31, "IQ1_M", "IQ1_M - 1.75 bpw"),
    (36, "TQ1_0", "TQ1_0 - 1.69 bpw ternary"),
    (37, "TQ2_0", "TQ2_0 - 2.06 bpw ternary"),
    (38, "MXFP4_MOE", "MXFP4 MoE"),
    (39, "NVFP4", "NVFP4"),
    (41, "Q2_0", "Q2_0"),
];

/// The recipe that `general.file_type` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileType {
    /// The number in the file.
    pub id: u32,
    /// The name on command lines (`Q4_K_M`); `None` for a number that is not known.
    pub name: Option<&'static str>,
    /// What loaders print (`Q4_K - Medium`).
    pub label: Option<&'static str>,
    /// Whether the number was guessed from the most frequent type.
    pub guessed: bool,
}

impl FileType {
    /// The recipe with this number.
    pub fn from_id(id: u32) -> FileType {
        let guessed = id & GUESSED != 0;
        let number = id & !GUESSED;
        let listed = FILE_TYPES.iter().find(|entry| entry.0 == number).copied();
        let own = |ty: TensorType| {
            let recipe = ty.policy().recipe.filter(|own| own.file_type == number)?;
            Some((number, recipe.name, recipe.name))
        };
        let entry = listed.or_else(|| TensorType::all().find_map(own));
        FileType {
            id,
            name: entry.map(|entry| entry.1),
            label: entry.map(|entry| entry.2),
            guessed,
        }
    }
}
