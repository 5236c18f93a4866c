//! Finds special and added tokens in a text, before anything else looks at it.
//!
//! The longest token takes its places first, wherever they are, then the next; a place is free if no
//! longer token overlaps it. One pass of an Aho-Corasick automaton, from the end of the text to its
//! start, gives the longest token that starts at each place, so that time is linear in the text however
//! many tokens there are and however they overlap.

use std::collections::HashMap;

use crate::hash::FastState;

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fragment {
    /// Bytes `start..end`, not empty, for the tokenizer proper.
    Text {
        /// First byte.
        start: usize,
        /// One past the last byte.
        end: usize,
    },
    /// A token found as such.
    Token(u32),
}

/// A token to look for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Special<'a> {
    pub id: u32,
    pub text: &'a [u8],
    /// White space before the token belongs to it.
    pub strip_left: bool,
    /// White space after the token belongs to it.
    pub strip_right: bool,
}

/// An automaton over the reversed texts of a set of tokens.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpecialFinder {
    /// Transitions of the trie.
    edges: HashMap<u64, u32, FastState>,
    /// The child of the root for each last byte of a token; 0 is none.
    from_root: Vec<u32>,
    nodes: Vec<Node>,
    tokens: Vec<FoundToken>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// The longest proper suffix of this node's string that is in the trie.
    fail: u32,
    /// The token that ends here, plus one; 0 is none.
    token: u32,
    /// The nearest node along `fail`, itself excluded, where a token ends; 0 is none.
    shorter: u32,
}

#[derive(Clone, Copy, Debug)]
struct FoundToken {
    id: u32,
    len: usize,
    strip_left: bool,
    strip_right: bool,
}

const ROOT: u32 = 0;

fn edge(node: u32, byte: u8) -> u64 {
    u64::from(node) << 8 | u64::from(byte)
}

impl SpecialFinder {
    /// An automaton for these tokens; those without text are left out.
    pub(crate) fn new<'a>(specials: impl IntoIterator<Item = Special<'a>>) -> SpecialFinder {
        let mut finder = SpecialFinder {
            from_root: vec![0; 256],
            ..SpecialFinder::default()
        };
        finder.nodes.push(Node::default());
        for special in specials
            .into_iter()
            .filter(|special| !special.text.is_empty())
        {
            finder.insert(special);
        }
        finder.link();
        finder
    }

    fn insert(&mut self, special: Special<'_>) {
        let mut node = ROOT;
        for &byte in special.text.iter().rev() {
            node = match self.edges.get(&edge(node, byte)) {
                Some(&next) => next,
                None => {
                    // Texts come from a file, which cannot have 2^32 bytes of tokens in memory as
                    // well; past that the token would simply not be found.
                    let Ok(next) = u32::try_from(self.nodes.len()) else {
                        return;
                    };
                    self.nodes.push(Node::default());
                    self.edges.insert(edge(node, byte), next);
                    if node == ROOT {
                        self.from_root[byte as usize] = next;
                    }
                    next
                }
            };
        }
        self.tokens.push(FoundToken {
            id: special.id,
            len: special.text.len(),
            strip_left: special.strip_left,
            strip_right: special.strip_right,
        });
        if self.nodes[node as usize].token == 0 {
            self.nodes[node as usize].token = self.tokens.len() as u32;
        }
    }

    /// Sets the `fail` and `shorter` links, nearer nodes first: children have greater depth, so edges are
    /// taken in order of depth.
    fn link(&mut self) {
        let mut children: Vec<(u32, u8, u32)> = self
            .edges
            .iter()
            .map(|(key, &child)| ((key >> 8) as u32, *key as u8, child))
            .collect();
        children.sort_unstable_by_key(|&(_, _, child)| child);
        let mut depth = vec![0_u32; self.nodes.len()];
        // A child is always made after its parent, so its number is higher.
        for &(parent, _, child) in &children {
            depth[child as usize] = depth[parent as usize] + 1;
        }
        children.sort_by_key(|&(_, _, child)| depth[child as usize]);
        for (parent, byte, child) in children {
            let fail = if parent == ROOT {
                ROOT
            } else {
                self.step(self.nodes[parent as usize].fail, byte)
            };
            let target = self.nodes[fail as usize];
            let node = &mut self.nodes[child as usize];
            node.fail = fail;
            node.shorter = if target.token != 0 {
                fail
            } else {
                target.shorter
            };
        }
    }

    fn step(&self, mut node: u32, byte: u8) -> u32 {
        loop {
            if node == ROOT {
                return self.from_root[byte as usize];
            }
            if let Some(&next) = self.edges.get(&edge(node, byte)) {
                return next;
            }
            node = self.nodes[node as usize].fail;
        }
    }

    /// Cuts a text at the tokens in it.
    #[cfg(test)]
    pub(crate) fn split(&self, text: &[u8]) -> Vec<Fragment> {
        self.split_guarded(text, &[])
    }

    /// Cuts a text at the tokens in it, but for those that would start at one of `plain_starts` (rising).
    pub(crate) fn split_guarded(&self, text: &[u8], plain_starts: &[usize]) -> Vec<Fragment> {
        let mut places = self.places(text);
        places.retain(|(at, _)| plain_starts.binary_search(at).is_err());
        if places.is_empty() {
            return if text.is_empty() {
                Vec::new()
            } else {
                vec![Fragment::Text {
                    start: 0,
                    end: text.len(),
                }]
            };
        }
        let taken = self.take(text, places);
        fragments(text.len(), taken)
    }

    /// Every place where a token starts, with the node of the longest one, in order.
    fn places(&self, text: &[u8]) -> Vec<(usize, u32)> {
        let mut places = Vec::new();
        if self.tokens.is_empty() {
            return places;
        }
        let mut node = ROOT;
        for (at, &byte) in text.iter().enumerate().rev() {
            node = self.step(node, byte);
            if node == ROOT {
                continue;
            }
            let state = self.nodes[node as usize];
            let found = if state.token != 0 {
                node
            } else {
                state.shorter
            };
            if found != ROOT {
                places.push((at, found));
            }
        }
        places.reverse();
        places
    }

    fn token_at(&self, node: u32) -> FoundToken {
        // Only nodes with a token are stored as places.
        self.tokens[self.nodes[node as usize].token as usize - 1]
    }

    /// Gives places to tokens, the longest first, and returns the spans taken with their tokens.
    fn take(&self, text: &[u8], places: Vec<(usize, u32)>) -> Vec<Span> {
        let mut taken = vec![false; text.len()];
        let mut spans = Vec::new();
        let mut by_length: std::collections::BTreeMap<usize, Vec<(usize, u32)>> =
            std::collections::BTreeMap::new();
        for (at, node) in places {
            by_length
                .entry(self.token_at(node).len)
                .or_default()
                .push((at, node));
        }
        while let Some((len, mut places)) = by_length.pop_last() {
            places.sort_unstable();
            for (at, node) in places {
                if taken[at] {
                    continue;
                }
                // Spans taken before are at least this long, so one that overlaps covers an end.
                if taken[at + len - 1] {
                    let shorter = self.nodes[node as usize].shorter;
                    if shorter != ROOT {
                        let len = self.token_at(shorter).len;
                        by_length.entry(len).or_default().push((at, shorter));
                    }
                    continue;
                }
                let span = strip(text, &taken, self.token_at(node), at);
                taken[span.start..span.end].fill(true);
                spans.push(span);
            }
        }
        spans.sort_unstable_by_key(|span| span.start);
        spans
    }
}

/// A token with the white space that it strips.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    end: usize,
    id: u32,
}

/// The span of a token at `at`, widened over free white space on the sides that it strips.
fn strip(text: &[u8], taken: &[bool], token: FoundToken, at: usize) -> Span {
    let mut span = Span {
        start: at,
        end: at + token.len,
        id: token.id,
    };
    let blank = |i: usize| !taken[i] && (text[i].is_ascii_whitespace() || text[i] == 0x0B);
    if token.strip_left {
        while span.start > 0 && blank(span.start - 1) {
            span.start -= 1;
        }
    }
    if token.strip_right {
        while span.end < text.len() && blank(span.end) {
            span.end += 1;
        }
    }
    span
}

fn fragments(n_bytes: usize, spans: Vec<Span>) -> Vec<Fragment> {
    let mut fragments = Vec::with_capacity(2 * spans.len() + 1);
    let mut at = 0;
    for span in spans {
        if at < span.start {
            fragments.push(Fragment::Text {
                start: at,
                end: span.start,
            });
        }
        fragments.push(Fragment::Token(span.id));
        at = span.end;
    }
    if at < n_bytes {
        fragments.push(Fragment::Text {
            start: at,
            end: n_bytes,
        });
    }
    fragments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finder(tokens: &[&'static str]) -> SpecialFinder {
        SpecialFinder::new(tokens.iter().enumerate().map(|(id, text)| Special {
            id: id as u32,
            text: text.as_bytes(),
            strip_left: false,
            strip_right: false,
        }))
    }

    fn show(finder: &SpecialFinder, text: &str) -> String {
        let parts = finder.split(text.as_bytes());
        let show = |part: &Fragment| match *part {
            Fragment::Text { start, end } => text[start..end].to_owned(),
            Fragment::Token(id) => format!("[{id}]"),
        };
        parts.iter().map(show).collect()
    }

    /// What the definition says, token by token: the slow form to compare with.
    fn slow(tokens: &[&'static str], text: &str) -> Vec<Fragment> {
        let mut order: Vec<usize> = (0..tokens.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(tokens[i].len()));
        let mut parts = vec![Fragment::Text {
            start: 0,
            end: text.len(),
        }];
        parts.retain(|_| !text.is_empty());
        for i in order {
            let mut next = Vec::new();
            for part in parts {
                let Fragment::Text { mut start, end } = part else {
                    next.push(part);
                    continue;
                };
                while let Some(found) = text[start..end].find(tokens[i]) {
                    if found > 0 {
                        next.push(Fragment::Text {
                            start,
                            end: start + found,
                        });
                    }
                    next.push(Fragment::Token(i as u32));
                    start += found + tokens[i].len();
                }
                if start < end {
                    next.push(Fragment::Text { start, end });
                }
            }
            parts = next;
        }
        parts
    }

    #[test]
    fn the_longest_token_goes_first_wherever_it_is() {
        assert_eq!(show(&finder(&["ab", "bcde"]), "abcde ab"), "a[1] [0]");
        assert_eq!(show(&finder(&["<s>", "<s>>"]), "x<s>><s>y"), "x[1][0]y");
        assert_eq!(
            show(&finder(&["\n", "\n\n", "\n\n\n"]), "\n\n\n\n\n\n\n\n"),
            "[2][2][1]"
        );
        assert_eq!(show(&finder(&[]), "abc"), "abc");
        assert_eq!(finder(&["a"]).split(b""), []);
    }

    #[test]
    fn agrees_with_the_definition_on_all_short_texts() {
        // Tokens of one length do not overlap each other here: their order is not defined.
        let sets: [&[&str]; 5] = [
            &["a", "ab", "abc", "bcab", "cabca"],
            &["aa", "a", "aaab"],
            &["ba", "aba", "b"],
            &["c", "bca", "abcabc", "ca"],
            &["abab", "bab", "ab"],
        ];
        for tokens in sets {
            let finder = finder(tokens);
            for n in 0..3_usize.pow(9) {
                let text: String = (0..9)
                    .map(|i| ['a', 'b', 'c'][n / 3_usize.pow(i) % 3])
                    .collect();
                assert_eq!(
                    finder.split(text.as_bytes()),
                    slow(tokens, &text),
                    "{tokens:?} {text}"
                );
            }
        }
    }

    #[test]
    fn strips_white_space_on_the_asked_sides() {
        let special = |id, text: &'static str, strip_left, strip_right| Special {
            id,
            text: text.as_bytes(),
            strip_left,
            strip_right,
        };
        let finder = SpecialFinder::new([
            special(0, "<left>", true, false),
            special(1, "<right>", false, true),
            special(2, "<no>", false, false),
        ]);
        assert_eq!(
            show(&finder, " a \t<left> b <right>\n c <no> d"),
            " a[0] b [1]c [2] d"
        );
        assert_eq!(show(&finder, "<right>  <left>"), "[1][0]");
    }

    #[test]
    fn long_runs_take_linear_time() {
        let tokens: Vec<String> = (1..200).map(|n| "\n".repeat(n)).collect();
        let finder = SpecialFinder::new(tokens.iter().enumerate().map(|(id, text)| Special {
            id: id as u32,
            text: text.as_bytes(),
            strip_left: false,
            strip_right: false,
        }));
        let parts = finder.split("\n".repeat(1_000_001).as_bytes());
        assert_eq!(parts.len(), 1_000_001_usize.div_ceil(199));
    }
}
