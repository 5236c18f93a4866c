//! Packs values of known lifetimes into one arena.

use super::Location;
use crate::ComputeError;

/// Places start at multiples of 64 bytes, so that no two values share a cache line.
const ALIGNMENT: usize = 64 / size_of::<f32>();

/// Free gaps of an arena that grows at its end.
#[derive(Clone, Debug, Default)]
pub struct ArenaPacker {
    /// Free ranges below `len`, sorted by offset, never touching each other.
    gaps: Vec<Location>,
    len: usize,
}

impl ArenaPacker {
    /// Elements that the arena needs so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Gives `n` elements the smallest gap that holds them, else room at the end.
    pub fn place(&mut self, n: usize) -> Result<Location, ComputeError> {
        let too_large = ComputeError::TooLarge { what: "arena" };
        let Some(len) = n.checked_next_multiple_of(ALIGNMENT) else {
            return Err(too_large);
        };
        if len == 0 {
            return Ok(Location::default());
        }
        let fitting = (0..self.gaps.len())
            .filter(|&i| self.gaps[i].len >= len)
            .min_by_key(|&i| self.gaps[i].len);
        let offset = match fitting {
            Some(index) => {
                let gap = &mut self.gaps[index];
                let offset = gap.offset;
                gap.offset += len;
                gap.len -= len;
                if gap.len == 0 {
                    self.gaps.remove(index);
                }
                offset
            }
            None => {
                // A gap that reaches the end is used up first.
                let last = self.gaps.pop_if(|gap| gap.offset + gap.len == self.len);
                let offset = last.map_or(self.len, |gap| gap.offset);
                let end = offset
                    .checked_add(len)
                    .filter(|&end| end <= usize::MAX / size_of::<f32>());
                self.len = end.ok_or(too_large)?;
                offset
            }
        };
        Ok(Location { offset, len: n })
    }

    /// Takes a place back.
    pub fn release(&mut self, place: Location) {
        if place.len == 0 {
            return;
        }
        let mut gap = Location {
            offset: place.offset,
            len: place.len.next_multiple_of(ALIGNMENT),
        };
        let index = self.gaps.partition_point(|g| g.offset < gap.offset);
        if index < self.gaps.len() && self.gaps[index].offset == gap.offset + gap.len {
            gap.len += self.gaps.remove(index).len;
        }
        if index > 0 && self.gaps[index - 1].offset + self.gaps[index - 1].len == gap.offset {
            self.gaps[index - 1].len += gap.len;
        } else {
            self.gaps.insert(index, gap);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(packer: &mut ArenaPacker, len: usize) -> Location {
        packer.place(len).expect("fits")
    }

    #[test]
    fn gaps_are_reused_and_joined() {
        let mut packer = ArenaPacker::default();
        let [a, b, c] = [32, 16, 48].map(|len| place(&mut packer, len));
        assert_eq!(
            (a.offset, b.offset, c.offset, packer.len()),
            (0, 32, 48, 96)
        );
        packer.release(a);
        packer.release(b);
        // 48 elements fit only the joined gap.
        assert_eq!(place(&mut packer, 48).offset, 0);
        assert_eq!(packer.len(), 96);
    }

    #[test]
    fn a_gap_at_the_end_grows() {
        let mut packer = ArenaPacker::default();
        let a = place(&mut packer, 10);
        assert_eq!((a.len, packer.len()), (10, 16));
        packer.release(a);
        assert_eq!(place(&mut packer, 100).offset, 0);
        assert_eq!(packer.len(), 112);
    }

    #[test]
    fn the_smallest_fitting_gap_wins() {
        let mut packer = ArenaPacker::default();
        let places: Vec<_> = [64, 16, 32, 16]
            .into_iter()
            .map(|len| place(&mut packer, len))
            .collect();
        packer.release(places[0]);
        packer.release(places[2]);
        assert_eq!(place(&mut packer, 20).offset, places[2].offset);
    }

    #[test]
    fn nothing_needs_no_place() {
        let mut packer = ArenaPacker::default();
        assert_eq!(place(&mut packer, 0), Location::default());
        assert_eq!(packer.len(), 0);
        assert!(packer.place(usize::MAX).is_err());
    }
}
