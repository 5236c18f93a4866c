//! Sets of characters.

use std::fmt::Write as _;

/// Characters by their code points: ranges in rising order that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Characters(Vec<(u32, u32)>);

/// The code points that are no characters.
const SURROGATES: (u32, u32) = (0xd800, 0xdfff);

impl Characters {
    /// No character.
    pub fn none() -> Self {
        Characters::default()
    }

    /// Those of some ranges, both ends included.
    pub fn of(ranges: impl IntoIterator<Item = (char, char)>) -> Self {
        let ranges = ranges.into_iter();
        Characters::united(ranges.map(|(from, to)| (u32::from(from), u32::from(to))))
    }

    fn united(ranges: impl Iterator<Item = (u32, u32)>) -> Self {
        let mut ranges: Vec<(u32, u32)> = ranges.collect();
        ranges.sort_unstable();
        let mut united: Vec<(u32, u32)> = Vec::new();
        for (from, to) in ranges {
            match united.last_mut() {
                Some((_, last)) if from <= last.saturating_add(1) => *last = to.max(*last),
                _ => united.push((from, to)),
            }
        }
        Characters(united)
    }

    /// All other characters.
    pub fn negated(&self) -> Self {
        let mut others = Vec::new();
        let mut next = 0;
        let taken = Characters::united(self.0.iter().copied().chain([SURROGATES]));
        for (from, to) in taken.0 {
            if from > next {
                others.push((next, from - 1));
            }
            next = to + 1;
        }
        if next <= u32::from(char::MAX) {
            others.push((next, u32::from(char::MAX)));
        }
        Characters(others)
    }

    /// Adds the characters of another set.
    pub fn add(&mut self, other: &Characters) {
        if !other.0.is_empty() {
            *self = Characters::united(self.0.iter().chain(&other.0).copied());
        }
    }

    /// Whether the two have a character in common.
    pub fn meets(&self, other: &Characters) -> bool {
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(&&(from, to)), Some(&&(other_from, other_to))) =
            (ours.peek(), theirs.peek())
        {
            if from <= other_to && other_from <= to {
                return true;
            }
            if to < other_to {
                ours.next();
            } else {
                theirs.next();
            }
        }
        false
    }

    /// Writes the set as a class of a regular expression.
    pub fn write(&self, regex: &mut String) {
        regex.push('[');
        for (from, to) in &self.0 {
            // Writing to a string cannot fail.
            let _ = match from == to {
                true => write!(regex, "\\x{{{from:X}}}"),
                false => write!(regex, "\\x{{{from:X}}}-\\x{{{to:X}}}"),
            };
        }
        regex.push(']');
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_united_negated_and_compared() {
        let mut letters = Characters::of([('c', 'd'), ('a', 'b'), ('x', 'z')]);
        assert_eq!(letters, Characters(vec![(97, 100), (120, 122)]));
        let others = letters.negated();
        assert_eq!(
            others,
            Characters(vec![
                (0, 96),
                (101, 119),
                (123, 0xd7ff),
                (0xe000, 0x10_ffff)
            ])
        );
        assert_eq!(others.negated(), letters);
        assert!(!letters.meets(&others));
        assert!(letters.meets(&Characters::of([('d', 'x')])));
        assert!(!letters.meets(&Characters::of([('e', 'w')])));
        letters.add(&others);
        assert_eq!(letters, Characters::none().negated());
        let mut regex = String::new();
        Characters::of([('/', '/'), ('a', 'c')]).write(&mut regex);
        assert_eq!(regex, r"[\x{2F}\x{61}-\x{63}]");
    }
}
