//! From text to a tree: tokens, expressions, statements.

mod expression;
mod lexer;
mod statement;
mod token;
mod tree;

pub(crate) use statement::parse;
pub(crate) use tree::*;

/// How deep expressions and statements may be nested.
pub(crate) const MAX_NESTING: usize = 100;
