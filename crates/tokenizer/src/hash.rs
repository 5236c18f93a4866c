//! Hashing for the tables of the tokenizer, which look up short byte strings and pairs of numbers
//! millions of times per second.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// Builds hashers that start from a secret, so that no file can be written to make its entries collide.
#[derive(Clone, Debug)]
pub(crate) struct FastState {
    seed: u64,
}

impl Default for FastState {
    fn default() -> FastState {
        FastState {
            seed: RandomState::new().hash_one(0_u8),
        }
    }
}

impl BuildHasher for FastState {
    type Hasher = FastHasher;

    fn build_hasher(&self) -> FastHasher {
        FastHasher { state: self.seed }
    }
}

/// Mixes eight bytes at a time by a multiplication whose two halves are folded together.
pub(crate) struct FastHasher {
    state: u64,
}

/// An odd constant without regular bit patterns: the fraction of the golden ratio.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

impl FastHasher {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(MULTIPLIER);
        // The upper half of a multiple of a 64-bit number fits in 64 bits, the lower half is cut to it.
        self.state = (product as u64) ^ ((product >> 64) as u64) ^ word.rotate_left(23);
    }
}

impl Hasher for FastHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        last[7] = rest.len() as u8; // at most 7
        self.mix(u64::from_le_bytes(last));
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    fn write_usize(&mut self, _length: usize) {
        // Slices hash their length first; `write` covers it by the length of the last word.
    }

    fn finish(&self) -> u64 {
        let product = u128::from(self.state) * u128::from(MULTIPLIER);
        (product as u64) ^ ((product >> 64) as u64)
    }
}

/// Byte strings numbered in the order they were added, found again by their bytes. All bytes lie in
/// one buffer; the table holds numbers only.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextTable {
    bytes: Vec<u8>,
    /// Where text `i` ends in `bytes`.
    ends: Vec<usize>,
    /// Open addressing: number of a text plus one, or 0. The length is a power of two, at most half full.
    slots: Vec<u32>,
    state: FastState,
}

impl TextTable {
    /// A table with room for `n_texts` texts of `n_bytes` bytes together.
    pub(crate) fn with_capacity(n_texts: usize, n_bytes: usize) -> TextTable {
        TextTable {
            bytes: Vec::with_capacity(n_bytes),
            ends: Vec::with_capacity(n_texts),
            slots: vec![0; (2 * n_texts).next_power_of_two().max(8)],
            state: FastState::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The text with this number; empty if there is none.
    pub(crate) fn text(&self, number: usize) -> &[u8] {
        let Some(&end) = self.ends.get(number) else {
            return &[];
        };
        let start = if number == 0 {
            0
        } else {
            self.ends[number - 1]
        };
        &self.bytes[start..end]
    }

    /// The number of a text.
    pub(crate) fn find(&self, text: &[u8]) -> Option<u32> {
        self.slots.get(self.slot_of(text)?)?.checked_sub(1)
    }

    /// The number of a text, which is added if it is new; true if it was.
    pub(crate) fn add(&mut self, text: &[u8]) -> (u32, bool) {
        if 2 * (self.len() + 1) > self.slots.len() {
            self.grow();
        }
        // There is a slot, since the table is never full.
        let slot = self.slot_of(text).unwrap_or(0);
        if let Some(number) = self.slots[slot].checked_sub(1) {
            return (number, false);
        }
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
        // Callers add at most three texts per merge and one per token, counts below 2^31 in all.
        let number = self.ends.len() as u32;
        self.slots[slot] = number;
        (number - 1, true)
    }

    /// The slot that holds `text`, or the empty one where it would go.
    fn slot_of(&self, text: &[u8]) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = self.state.hash_one(text) as usize & mask;
        loop {
            match self.slots[slot].checked_sub(1) {
                Some(number) if self.text(number as usize) != text => slot = (slot + 1) & mask,
                _ => return Some(slot),
            }
        }
    }

    fn grow(&mut self) {
        self.slots = vec![0; (2 * self.slots.len()).max(8)];
        for number in 0..self.ends.len() {
            if let Some(slot) = self.slot_of(self.text(number)) {
                self.slots[slot] = number as u32 + 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_added() {
        let mut table = TextTable::default();
        let texts: Vec<String> = (0..1000)
            .map(|i| "x".repeat(i % 17) + &i.to_string())
            .collect();
        for (i, text) in texts.iter().enumerate() {
            assert_eq!(table.add(text.as_bytes()), (i as u32, true));
        }
        for (i, text) in texts.iter().enumerate() {
            assert_eq!(table.find(text.as_bytes()), Some(i as u32));
            assert_eq!(table.add(text.as_bytes()), (i as u32, false));
            assert_eq!(table.text(i), text.as_bytes());
        }
        assert_eq!(table.find(b"none"), None);
        assert_eq!(table.find(b""), None);
        assert_eq!(TextTable::default().find(b"none"), None);
    }

    #[test]
    fn zero_bytes_at_the_end_count() {
        let state = FastState::default();
        assert_ne!(state.hash_one(&b"a"[..]), state.hash_one(&b"a\0"[..]));
    }
}
