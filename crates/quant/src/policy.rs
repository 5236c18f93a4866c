//! What quantization of a whole model makes of a tensor type.

use crate::registry::TensorType;

/// What there is to know about a type beside its bytes, when tensors are to be given types.
#[derive(Debug)]
pub struct Policy {
    /// The type that stands in where rows do not divide into blocks. Without one, long blocks refuse such a row.
    pub fallback: Option<TensorType>,
    /// So few bits that the result is garbage without an importance matrix, though the encoder works without.
    pub coarse: bool,
    /// Which programs read it.
    pub readers: Readers,
    /// Whether it is open to a choice of types by size.
    pub by_size: BySize,
    /// Whether a KV cache may have it: rows are encoded as they come, without importance, and decoded often.
    pub for_cache: bool,
    /// The recipe of its own name, where that has no exceptions but the output matrix.
    pub recipe: Option<OwnRecipe>,
}

/// Which rows a choice of types by size may give a type. Rows have to divide into its blocks in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BySize {
    /// None.
    Never,
    /// Those that do not divide into super-blocks.
    ShortRows,
    /// All.
    AnyRows,
}

/// Which programs read a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// All in use.
    All,
    /// gristmill, and the build of llama.cpp that `check` speaks of, but not all older ones.
    Newest,
    /// gristmill alone: not even that build.
    Unreleased,
}

/// The recipe that gives all matrices one type.
#[derive(Clone, Copy, Debug)]
pub struct OwnRecipe {
    /// `general.file_type` of the result.
    pub file_type: u32,
    /// The upper-case name of the command line.
    pub name: &'static str,
    /// One line: what it is good for.
    pub help: &'static str,
}

impl Policy {
    /// No fallback, no recipe, not open to a choice by size.
    pub const NONE: Policy = Policy {
        fallback: None,
        coarse: false,
        readers: Readers::All,
        by_size: BySize::Never,
        for_cache: false,
        recipe: None,
    };
}
