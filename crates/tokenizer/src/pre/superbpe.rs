//! SuperBPE: only numbers are cut, by three from the right.

use super::{Name, PreTokenizer};
use crate::scan::numbers_by_three_from_right;

pub(super) static PRE: PreTokenizer = PreTokenizer {
    names: &[Name::new("superbpe").keep_spaces()],
    patterns: &[&[r"\p{N}+", r"(?=(\d{3})+(?!\d))"]],
    stages: &[numbers_by_three_from_right],
};
