//! GBNF, the reference's grammars, as Lark.
//!
//! A GBNF grammar speaks of characters and has no tokens of its own, where Lark has lexemes, of which always the longest
//! match counts. So each part that needs no recursion may become one lexeme only where no text is lost by that;
//! `lexemes.rs` takes apart those that are greedy for what others need.

mod characters;
mod lexemes;
mod parse;

use characters::Characters;
pub use parse::FindToken;

/// What is wrong with a grammar, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Bytes before the place.
    pub at: usize,
    /// What is wrong there.
    pub message: String,
}

impl Fault {
    fn at(at: usize, message: String) -> Self {
        Fault { at, message }
    }
}

/// A part of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Fragment {
    /// One of these characters.
    Characters(Characters),
    /// All, one after another; nothing where there is none.
    Sequence(Vec<Fragment>),
    /// One of these.
    Choice(Vec<Fragment>),
    /// The same, so often.
    Repeat(Box<Fragment>, u32, Option<u32>),
    /// What a rule stands for.
    Rule(usize),
    /// This token, or any other.
    Token { id: u32, is_negated: bool },
}

impl Fragment {
    fn repeat(item: Fragment, min: u32, max: Option<u32>) -> Self {
        Fragment::Repeat(Box::new(item), min, max)
    }
}

/// A grammar as Lark, whose rule `start` is the grammar's `root`.
///
/// # Errors
/// What cannot be read, a rule that is missing or there twice, and a rule that begins with itself.
pub fn to_lark(text: &str, find_token: &FindToken<'_>) -> Result<String, Fault> {
    let rules = parse::parse(text, find_token)?;
    lexemes::refuse_left_recursion(&rules)?;
    Ok(lexemes::Lexemes::new(&rules).lark())
}

#[cfg(test)]
mod tests;
