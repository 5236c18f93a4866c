//! The flag that chooses whose arithmetic a model is computed in.

use gristmill_engine::Arithmetic;

/// Shared by the commands that run a model.
#[derive(clap::Args)]
pub struct ArithmeticFlag {
    /// Whose order of additions and roundings: llama.cpp follows that program (build b11549 on AVX2) operation by operation, for
    /// comparing token by token; slower
    #[arg(
        long,
        value_name = "gristmill|llama.cpp",
        default_value = "gristmill",
        hide_default_value = true,
        hide_possible_values = true
    )]
    arithmetic: Named,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Named {
    Gristmill,
    #[value(name = "llama.cpp")]
    LlamaCpp,
}

impl ArithmeticFlag {
    pub fn get(&self) -> Arithmetic {
        match self.arithmetic {
            Named::Gristmill => Arithmetic::Own,
            Named::LlamaCpp => Arithmetic::LlamaCpp,
        }
    }
}
