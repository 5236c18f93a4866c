//! The entry that keeps a header at its length.

use crate::value::{Text, Value};

/// The entry that holds room for later edits: a string of spaces (or, where even an empty string
/// would be too long, a number), which no reader has a use for.
pub const RESERVED_KEY: &str = "gristmill.reserved";

/// Length and bytes of the key, and the type.
const ENTRY_BYTES: u64 = 8 + RESERVED_KEY.len() as u64 + 4;
/// The least that an entry with a string takes.
const STRING_ENTRY_BYTES: u64 = ENTRY_BYTES + 8;
/// What an entry with a number of one byte takes.
const NUMBER_ENTRY_BYTES: u64 = ENTRY_BYTES + 1;

/// A reserve of `n` bytes.
pub(crate) fn spaces(n: u64) -> Value {
    Value::String(Text::from_bytes(vec![b' '; n as usize]))
}

/// The room in a reserve, in bytes.
pub(super) fn room(value: &Value) -> u64 {
    value.as_text().map_or(0, |text| text.len() as u64)
}

/// What fills the bytes between the end of a header and the start of the data.
#[derive(Debug, PartialEq)]
pub(super) enum Fill {
    /// Padding alone.
    Padding,
    /// A reserve, and padding.
    Reserve(Value),
}

impl Fill {
    pub(super) fn room(&self) -> u64 {
        match self {
            Fill::Padding => 0,
            Fill::Reserve(value) => room(value),
        }
    }

    pub(super) fn is_padding(&self) -> bool {
        matches!(self, Fill::Padding)
    }
}

/// How a `gap` between the other entries and the directory on one side, and the data on the other,
/// is filled so that the data keeps its place. `None` where that cannot be. As much as possible goes
/// into the reserve if there is one already (`had_reserve`) or if padding alone does not do.
pub(super) fn fill(gap: u64, alignment: u64, had_reserve: bool) -> Option<Fill> {
    let padding_does = gap < alignment;
    if gap >= STRING_ENTRY_BYTES && (had_reserve || !padding_does) {
        let n = gap - STRING_ENTRY_BYTES;
        return (n <= crate::limits::STRING_BYTES).then(|| Fill::Reserve(spaces(n)));
    }
    if padding_does {
        return Some(Fill::Padding);
    }
    let left = gap.checked_sub(NUMBER_ENTRY_BYTES)?;
    (left < alignment).then_some(Fill::Reserve(Value::U8(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gap_of_the_default_alignment_can_be_filled() {
        for gap in 0..500 {
            for had_reserve in [false, true] {
                let filled = fill(gap, 32, had_reserve).unwrap_or_else(|| panic!("{gap}"));
                let bytes = match &filled {
                    Fill::Padding => 0,
                    Fill::Reserve(Value::U8(_)) => 31,
                    Fill::Reserve(value) => 38 + room(value),
                };
                assert!(bytes <= gap && gap - bytes < 32, "{gap}: {filled:?}");
            }
        }
    }

    #[test]
    fn a_gap_without_a_filling_is_told() {
        assert_eq!(fill(16, 8, false), None);
        assert_eq!(fill(7, 8, false), Some(Fill::Padding));
        assert_eq!(fill(31, 8, false), Some(Fill::Reserve(Value::U8(0))));
        assert_eq!(fill(1 << 40, 32, true), None);
    }
}
