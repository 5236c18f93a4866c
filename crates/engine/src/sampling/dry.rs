//! DRY ("don't repeat yourself"): lowers the logits of tokens that would lengthen a repetition.

use std::collections::{HashMap, VecDeque};

use super::{
    Candidates, Domain, Parameter, Place, Sampler, SamplerKind, SamplingOptions, Vocabulary,
};

pub(super) static KIND: SamplerKind = SamplerKind {
    name: "dry",
    place: Place::Named('d'),
    help: "lowers the logits of tokens that would lengthen a repetition",
    keeps_best: false,
    parameters: &[&MULTIPLIER, &BASE, &ALLOWED_LENGTH, &LAST_N],
    build,
};

pub(super) static MULTIPLIER: Parameter = Parameter {
    flag: "dry-multiplier",
    aliases: &[],
    value_name: "N",
    help: "DRY penalty of the shortest repetition that is not allowed; 0 is off",
    key: None,
    domain: Domain::Float {
        default: 0.0,
        rule: "of at least 0; 0 is off",
        holds: |n| n >= 0.0,
    },
};

pub(super) static BASE: Parameter = Parameter {
    flag: "dry-base",
    aliases: &[],
    value_name: "N",
    help: "By how much the DRY penalty grows with each token of the repetition",
    key: None,
    domain: Domain::Float {
        default: 1.75,
        rule: "of at least 1",
        holds: |base| base >= 1.0,
    },
};

pub(super) static ALLOWED_LENGTH: Parameter = Parameter {
    flag: "dry-allowed-length",
    aliases: &[],
    value_name: "N",
    help: "Repetitions of fewer tokens cost nothing",
    key: None,
    domain: Domain::Whole {
        default: 2,
        range: 0..=i32::MAX,
    },
};

pub(super) static LAST_N: Parameter = Parameter {
    flag: "dry-penalty-last-n",
    aliases: &[],
    value_name: "N",
    help: "Last tokens that DRY looks for repetitions in; 0 turns it off",
    key: None,
    domain: Domain::Whole {
        default: 64,
        range: 0..=i32::MAX,
    },
};

/// Breakers count up to this length, in bytes and in tokens behind the first.
const BREAKER_BYTES_MAX: usize = 40;
const BREAKER_TOKENS_MAX: usize = 20;

/// A logit can be lowered by this and still be a number.
const PENALTY_MAX: f32 = 1e30;

struct Dry {
    multiplier: f32,
    base: f32,
    allowed_length: usize,
    n_last: usize,
    /// Of each token that a breaker may begin in, what may follow it.
    breakers: HashMap<u32, Vec<Vec<u32>>>,
    /// The newest token first.
    last: VecDeque<u32>,
}

fn build(options: &SamplingOptions, vocabulary: &dyn Vocabulary) -> Option<Box<dyn Sampler>> {
    let multiplier = options.float(&MULTIPLIER);
    // No number that the two take is negative.
    let n_last = options.whole(&LAST_N).unsigned_abs() as usize;
    let allowed_length = options.whole(&ALLOWED_LENGTH).unsigned_abs() as usize;
    (multiplier > 0.0 && n_last > 0).then(|| {
        let mut breakers = HashMap::new();
        for breaker in &options.sequence_breakers {
            add_breaker(vocabulary, breaker, &mut breakers);
        }
        Box::new(Dry {
            multiplier,
            base: options.float(&BASE),
            allowed_length,
            n_last,
            breakers,
            last: VecDeque::new(),
        }) as Box<dyn Sampler>
    })
}

/// Finds the tokens that a text may begin in, somewhere between their first and last byte.
fn add_breaker(
    vocabulary: &dyn Vocabulary,
    breaker: &[u8],
    breakers: &mut HashMap<u32, Vec<Vec<u32>>>,
) {
    let breaker = &breaker[..breaker.len().min(BREAKER_BYTES_MAX)];
    // What follows a token that ends with so many bytes of the text.
    let tails: Vec<Vec<u32>> = (0..=breaker.len())
        .map(|n_bytes| {
            let mut tail = vocabulary.encode(&breaker[n_bytes..]);
            tail.truncate(BREAKER_TOKENS_MAX);
            tail
        })
        .collect();
    if breaker.is_empty() {
        return;
    }
    for id in 0..vocabulary.n_tokens() as u32 {
        let piece = vocabulary.piece(id);
        let found: Vec<&Vec<u32>> = if piece.windows(breaker.len()).any(|part| part == breaker) {
            vec![&tails[breaker.len()]]
        } else {
            let lengths = 1..breaker.len().min(piece.len() + 1);
            lengths
                .filter(|&n_bytes| piece.ends_with(&breaker[..n_bytes]))
                .map(|n_bytes| &tails[n_bytes])
                .collect()
        };
        for tail in found {
            let known: &mut Vec<Vec<u32>> = breakers.entry(id).or_default();
            if !known.contains(tail) {
                known.push(tail.clone());
            }
        }
    }
}

impl Dry {
    /// How many of the newest tokens stand behind the last breaker; all where there is none.
    fn n_unbroken(&self) -> usize {
        for (index, id) in self.last.iter().enumerate() {
            let follows = |tail: &&Vec<u32>| {
                // The tail stands between this token and the newest, in order of time.
                let newer = self.last.iter().take(index).rev();
                tail.len() <= index && newer.zip(*tail).all(|(newer, id)| newer == id)
            };
            let tails = self.breakers.get(id).into_iter().flatten();
            if let Some(longest) = tails.filter(follows).map(Vec::len).max() {
                return index - longest;
            }
        }
        self.last.len()
    }

    /// Of each place how many of the newest tokens stand there too, the newest last (the Z function).
    fn repeats(&self) -> Vec<usize> {
        let (last, n) = (&self.last, self.last.len());
        let mut repeats = vec![0; n];
        let (mut start, mut end) = (0, 0);
        for place in 1..n {
            let mut length = match place < end {
                true => repeats[place - start].min(end - place),
                false => 0,
            };
            while place + length < n && last[length] == last[place + length] {
                length += 1;
            }
            if place + length > end {
                (start, end) = (place, place + length);
            }
            repeats[place] = length;
        }
        repeats
    }

    fn penalty(&self, length: usize) -> f32 {
        let exponent = (length - self.allowed_length) as f32;
        (self.multiplier * self.base.powf(exponent)).min(PENALTY_MAX)
    }
}

impl Sampler for Dry {
    fn apply(&mut self, candidates: &mut Candidates) {
        let n_unbroken = self.n_unbroken();
        if self.last.len() <= self.allowed_length || n_unbroken < self.allowed_length {
            return;
        }
        // The token behind each repetition would lengthen it.
        let mut longest: HashMap<u32, usize> = HashMap::new();
        for (place, length) in self.repeats().into_iter().enumerate().skip(1) {
            let length = length.min(n_unbroken);
            if length >= self.allowed_length {
                let known = longest.entry(self.last[place - 1]).or_default();
                *known = length.max(*known);
            }
        }
        for (id, length) in longest {
            let breaks = |tails: &Vec<Vec<u32>>| tails.iter().any(Vec::is_empty);
            if !self.breakers.get(&id).is_some_and(breaks) {
                let penalty = self.penalty(length);
                candidates.update(id, |logit| logit - penalty);
            }
        }
    }

    fn accept(&mut self, id: u32) {
        self.last.truncate(self.n_last - 1);
        self.last.push_front(id);
    }

    fn reset(&mut self) {
        self.last.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Plain;
    use super::*;

    /// Tokens that are the letters from `a` on.
    struct Letters;

    impl Vocabulary for Letters {
        fn n_tokens(&self) -> usize {
            26
        }

        fn piece(&self, id: u32) -> &[u8] {
            let letters: &[u8; 26] = b"abcdefghijklmnopqrstuvwxyz";
            &letters[id as usize..=id as usize]
        }

        fn encode(&self, text: &[u8]) -> Vec<u32> {
            text.iter().map(|letter| u32::from(letter - b'a')).collect()
        }
    }

    fn options(breakers: &[&str]) -> SamplingOptions {
        let breakers = breakers.iter().map(|text| text.as_bytes().to_vec());
        SamplingOptions {
            sequence_breakers: breakers.collect(),
            ..SamplingOptions::default()
        }
        .with(&MULTIPLIER, 0.5)
        .with(&BASE, 2.0)
    }

    /// The letters that are penalized after a text, and by how much.
    fn penalized(options: &SamplingOptions, text: &str) -> Vec<(char, f32)> {
        let mut stage = build(options, &Letters).unwrap();
        for id in Letters.encode(text.as_bytes()) {
            stage.accept(id);
        }
        let mut candidates = Candidates::default();
        candidates.fill(&[0.0; 26]);
        stage.apply(&mut candidates);
        let items = candidates.items().iter();
        let lowered = items.filter(|candidate| candidate.logit != 0.0);
        lowered
            .map(|candidate| {
                let letter = Letters.piece(candidate.id)[0] as char;
                (letter, -candidate.logit)
            })
            .collect()
    }

    #[test]
    fn the_penalty_grows_with_the_repetition() {
        let plain = options(&[]);
        // abc came before and c followed, bc before y: lengths 3 and 2, of which 2 are allowed.
        assert_eq!(penalized(&plain, "abccbcyabc"), [('c', 1.0), ('y', 0.5)]);
        assert_eq!(penalized(&plain, "abcde"), []);
        let longer = plain.clone().with(&ALLOWED_LENGTH, 3);
        assert_eq!(penalized(&longer, "abccbcyabc"), [('c', 0.5)]);
        let short = plain.with(&LAST_N, 6);
        assert_eq!(penalized(&short, "abccbcyabc"), [('y', 0.5)]);
    }

    #[test]
    fn a_breaker_ends_a_repetition_and_is_none() {
        let text = "abcdxabcd";
        // abcd, then x: length 4.
        assert_eq!(penalized(&options(&[]), text), [('x', 2.0)]);
        // Behind b there are two tokens, behind c one.
        assert_eq!(penalized(&options(&["b"]), text), [('x', 0.5)]);
        assert_eq!(penalized(&options(&["c"]), text), []);
        // One of several tokens counts as a whole: bc as c, bd not at all.
        assert_eq!(penalized(&options(&["bc"]), text), []);
        assert_eq!(penalized(&options(&["bd"]), text), [('x', 2.0)]);
        assert_eq!(penalized(&options(&["x"]), text), []);
    }

    #[test]
    fn the_longest_repetition_costs_a_number() {
        let mut stage = build(&options(&[]).with(&BASE, 1e30), &Plain(1)).unwrap();
        (0..60).for_each(|_| stage.accept(0));
        let mut candidates = Candidates::default();
        candidates.fill(&[0.0]);
        stage.apply(&mut candidates);
        assert_eq!(candidates.items()[0].logit, -PENALTY_MAX);
    }
}
