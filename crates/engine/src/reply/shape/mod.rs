//! Forms that calls of several families have, each steered by a table.

pub mod named;
pub mod objects;
pub mod parameters;
pub mod python;
