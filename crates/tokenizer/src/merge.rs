//! The merge loop that both kinds of BPE share: of all neighbouring symbols the best pair is joined, the
//! leftmost of equals, until none can be.
//!
//! Short sequences are scanned for the best pair; long ones use a heap, so that time is n log n.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What two neighbouring symbols become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Merge {
    /// Lower merges first.
    pub rank: u32,
    /// The symbol of both together.
    pub symbol: u32,
}

/// A symbol over a span of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub symbol: u32,
    /// Where the symbol's text starts; it ends where the next part starts.
    pub start: usize,
}

/// Sequences longer than this use the heap.
const N_MOST_SCANNED: usize = 48;

/// Buffers of the merge loop, reused from word to word.
#[derive(Default)]
pub(crate) struct Merger {
    merges: Vec<Option<Merge>>,
    links: Vec<Link>,
    heap: BinaryHeap<Reverse<Candidate>>,
}

/// A part's neighbours in a list; `NONE` at the ends.
#[derive(Clone, Copy)]
struct Link {
    previous: usize,
    next: usize,
    /// False once the part was joined to the one before it.
    alive: bool,
}

const NONE: usize = usize::MAX;

/// A pair waiting to be merged. Ordered by rank, then by place.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    rank: u32,
    left: usize,
    right: usize,
    /// The symbols when the candidate was found: it is stale if one of them has changed.
    symbols: (u32, u32),
    joined: u32,
}

impl Merger {
    /// Merges `parts` in place. `merge_of(left, right, start, end)` is asked for two neighbours whose
    /// text together is `start..end`; `n_bytes` is where the last part ends.
    pub(crate) fn merge(
        &mut self,
        parts: &mut Vec<Part>,
        n_bytes: usize,
        merge_of: impl Fn(u32, u32, usize, usize) -> Option<Merge>,
    ) {
        if parts.len() <= N_MOST_SCANNED {
            self.scan(parts, n_bytes, merge_of);
        } else {
            self.queue(parts, n_bytes, merge_of);
        }
    }

    fn scan(
        &mut self,
        parts: &mut Vec<Part>,
        n_bytes: usize,
        merge_of: impl Fn(u32, u32, usize, usize) -> Option<Merge>,
    ) {
        let end_of = |parts: &[Part], i: usize| parts.get(i + 1).map_or(n_bytes, |part| part.start);
        // The merge of part `i` with the next one.
        let found = |parts: &[Part], i: usize| {
            let right = parts.get(i + 1)?;
            merge_of(
                parts[i].symbol,
                right.symbol,
                parts[i].start,
                end_of(parts, i + 1),
            )
        };
        self.merges.clear();
        self.merges
            .extend((0..parts.len()).map(|i| found(parts, i)));
        loop {
            let mut best: Option<(usize, Merge)> = None;
            for (i, merge) in self.merges.iter().enumerate() {
                if let Some(merge) = merge
                    && best.is_none_or(|(_, best)| merge.rank < best.rank)
                {
                    best = Some((i, *merge));
                }
            }
            let Some((i, merge)) = best else { return };
            parts[i].symbol = merge.symbol;
            parts.remove(i + 1);
            self.merges.remove(i + 1);
            self.merges[i] = found(parts, i);
            if i > 0 {
                self.merges[i - 1] = found(parts, i - 1);
            }
        }
    }

    fn queue(
        &mut self,
        parts: &mut Vec<Part>,
        n_bytes: usize,
        merge_of: impl Fn(u32, u32, usize, usize) -> Option<Merge>,
    ) {
        let n = parts.len();
        self.heap.clear();
        self.links.clear();
        self.links.extend((0..n).map(|i| Link {
            previous: if i == 0 { NONE } else { i - 1 },
            next: if i + 1 == n { NONE } else { i + 1 },
            alive: true,
        }));
        for i in 1..n {
            self.offer(parts, n_bytes, i - 1, i, &merge_of);
        }
        while let Some(Reverse(candidate)) = self.heap.pop() {
            let Candidate {
                left,
                right,
                symbols,
                joined,
                ..
            } = candidate;
            let alive = self.links[left].alive && self.links[right].alive;
            if !alive || (parts[left].symbol, parts[right].symbol) != symbols {
                continue;
            }
            parts[left].symbol = joined;
            self.links[right].alive = false;
            let next = self.links[right].next;
            self.links[left].next = next;
            let previous = self.links[left].previous;
            if next != NONE {
                self.links[next].previous = left;
                self.offer(parts, n_bytes, left, next, &merge_of);
            }
            if previous != NONE {
                self.offer(parts, n_bytes, previous, left, &merge_of);
            }
        }
        let mut i = 0;
        parts.retain(|_| {
            i += 1;
            self.links[i - 1].alive
        });
    }

    fn offer(
        &mut self,
        parts: &[Part],
        n_bytes: usize,
        left: usize,
        right: usize,
        merge_of: &impl Fn(u32, u32, usize, usize) -> Option<Merge>,
    ) {
        let after = self.links[right].next;
        let end = if after == NONE {
            n_bytes
        } else {
            parts[after].start
        };
        let symbols = (parts[left].symbol, parts[right].symbol);
        if let Some(merge) = merge_of(symbols.0, symbols.1, parts[left].start, end) {
            self.heap.push(Reverse(Candidate {
                rank: merge.rank,
                left,
                right,
                symbols,
                joined: merge.symbol,
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Merges of pairs of small numbers, made up but fixed.
    fn made_up(left: u32, right: u32) -> Option<Merge> {
        let mixed = left.wrapping_mul(2_654_435_761) ^ right.wrapping_mul(40_503);
        let symbol = (mixed >> 7) % 23;
        (!mixed.is_multiple_of(3)).then_some(Merge {
            rank: mixed % 11,
            symbol,
        })
    }

    #[test]
    fn both_loops_agree() {
        let mut state = 1_u32;
        for len in 0..200 {
            let parts: Vec<Part> = (0..len)
                .map(|start| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    Part {
                        symbol: (state >> 16) % 23,
                        start,
                    }
                })
                .collect();
            let mut merger = Merger::default();
            let (mut scanned, mut queued) = (parts.clone(), parts);
            merger.scan(&mut scanned, len, |left, right, _, _| made_up(left, right));
            merger.queue(&mut queued, len, |left, right, _, _| made_up(left, right));
            assert_eq!(scanned, queued, "{len} parts");
        }
    }

    #[test]
    fn spans_cover_both_parts() {
        let mut parts: Vec<Part> = (0..60).map(|start| Part { symbol: 1, start }).collect();
        Merger::default().merge(&mut parts, 60, |left, right, start, end| {
            assert_eq!((left + right) as usize, end - start);
            Some(Merge {
                rank: left + right,
                symbol: left + right,
            })
        });
        assert_eq!(
            parts,
            [Part {
                symbol: 60,
                start: 0
            }]
        );
    }
}
