//! Drafts from the text itself: what followed the last tokens where they stood before.

use std::collections::HashMap;

use super::Drafter;
use crate::error::EngineError;

/// Places of a key that are counted, the newest ones; and different continuations of them.
const PLACES_MAX: usize = 256;
const VALUES_MAX: usize = 4;

/// What becomes the draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupRule {
    /// The tokens behind the newest place of the key, the reference's `ngram-simple`.
    Newest,
    /// The same, as many as came true behind this key the last time: `ngram-map-k`.
    NewestLearning,
    /// The continuation that is at least twice as frequent as the others together, as much as came true of it the last time:
    /// `ngram-map-k4v`.
    MostFrequent,
    /// Token by token, each behind the newest place of the tokens before it: `ngram-mod`.
    TokenByToken,
}

/// How to look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookupOptions {
    /// What becomes the draft.
    pub rule: LookupRule,
    /// Tokens of the key, the last ones of the text; at least one.
    pub n_key: usize,
    /// Tokens of a draft at most.
    pub n_max: usize,
    /// Shorter drafts are none.
    pub n_min: usize,
    /// Places that the key must have had before.
    pub min_hits: usize,
}

/// Looks up the end of the text in what stands before it.
pub struct Lookup {
    options: LookupOptions,
    ids: Vec<u32>,
    /// Where the keys of each hash begin, rising. A token stands behind each.
    places: HashMap<u64, Vec<u32>>,
    /// How much came true of the last draft behind a key, or of one of its continuations.
    kept: HashMap<Vec<u32>, usize>,
    /// The key of the last draft there.
    last: Option<Vec<u32>>,
}

/// FNV-1a over whole tokens; equal keys are compared, so it only has to spread them.
fn hash(key: &[u32]) -> u64 {
    key.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &id| {
        (hash ^ u64::from(id)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Lookup {
    /// Begins with an empty text.
    pub fn new(options: LookupOptions) -> Self {
        Lookup {
            options: LookupOptions {
                n_key: options.n_key.max(1),
                min_hits: options.min_hits.max(1),
                ..options
            },
            ids: Vec::new(),
            places: HashMap::new(),
            kept: HashMap::new(),
            last: None,
        }
    }

    /// Keys of a text of `n` tokens that a token stands behind.
    fn n_places(&self, n: usize) -> usize {
        n.saturating_sub(self.options.n_key)
    }

    fn key_at(&self, place: usize) -> &[u32] {
        &self.ids[place..place + self.options.n_key]
    }

    /// Makes the text these tokens.
    fn update(&mut self, ids: &[u32]) {
        let pairs = self.ids.iter().zip(ids);
        let n_same = pairs.take_while(|(old, new)| old == new).count();
        for place in (self.n_places(n_same)..self.n_places(self.ids.len())).rev() {
            let hash = hash(self.key_at(place));
            if let Some(places) = self.places.get_mut(&hash) {
                places.pop();
            }
        }
        self.ids.truncate(n_same);
        self.ids.extend_from_slice(&ids[n_same..]);
        for place in self.n_places(n_same)..self.n_places(self.ids.len()) {
            let hash = hash(self.key_at(place));
            // a context has fewer positions than an i32 counts
            self.places.entry(hash).or_default().push(place as u32);
        }
    }

    /// Where a key stands, the newest place first.
    fn places<'a>(&'a self, key: &'a [u32]) -> impl Iterator<Item = usize> + 'a {
        let places = self.places.get(&hash(key)).into_iter().flatten().rev();
        let places = places.map(|&place| place as usize);
        places.filter(move |&place| self.key_at(place) == key)
    }

    /// What stands behind a place, and goes on in the draft itself where the text ends.
    fn behind(&self, place: usize, n: usize) -> Vec<u32> {
        let start = place + self.options.n_key;
        let mut draft: Vec<u32> = Vec::with_capacity(n);
        for at in start..start + n {
            let id = match self.ids.get(at) {
                Some(&id) => id,
                // a token stands behind each place, so this one is drafted before
                None => draft[at - self.ids.len()],
            };
            draft.push(id);
        }
        draft
    }

    /// The draft behind the newest place, as long as what came true behind this key.
    fn newest(&mut self, key: &[u32], n: usize, learns: bool) -> Vec<u32> {
        let Some(place) = self.places(key).next() else {
            return Vec::new();
        };
        let n = match learns {
            true => self.learned(key.to_vec(), n),
            false => n,
        };
        self.behind(place, n)
    }

    /// How long a draft of this name is to be.
    fn learned(&mut self, name: Vec<u32>, n: usize) -> usize {
        let kept = self.kept.get(&name).copied();
        self.last = Some(name);
        kept.map_or(n, |kept| n.min(kept))
    }

    fn most_frequent(&mut self, key: &[u32], n: usize) -> Vec<u32> {
        let n_value = self.options.n_max;
        let mut values: Vec<(usize, usize)> = Vec::new();
        for place in self.places(key).take(PLACES_MAX) {
            let start = place + self.options.n_key;
            let Some(value) = self.ids.get(start..start + n_value) else {
                continue;
            };
            let is_same = |&(known, _): &(usize, usize)| self.ids[known..known + n_value] == *value;
            match values.iter().position(is_same) {
                Some(known) => values[known].1 += 1,
                None if values.len() < VALUES_MAX => values.push((start, 1)),
                None => {}
            }
        }
        let total: usize = values.iter().map(|(_, count)| count).sum();
        let is_clear = |&&(_, count): &&(usize, usize)| count >= 2 * (total - count);
        let Some(&(start, _)) = values.iter().find(is_clear) else {
            return Vec::new();
        };
        let value = self.ids[start..start + n_value].to_vec();
        let n = self.learned([key, &value].concat(), n);
        value[..n.min(n_value)].to_vec()
    }

    fn token_by_token(&self, key: &[u32], n: usize) -> Vec<u32> {
        let n_key = key.len();
        let mut text = key.to_vec();
        while text.len() < n_key + n {
            let Some(place) = self.places(&text[text.len() - n_key..]).next() else {
                break;
            };
            text.push(self.ids[place + n_key]);
        }
        text.split_off(n_key)
    }
}

impl Drafter for Lookup {
    fn draft(&mut self, ids: &[u32], n_max: usize) -> Result<Vec<u32>, EngineError> {
        self.update(ids);
        self.last = None;
        let LookupOptions {
            rule,
            n_key,
            n_max: n_wanted,
            n_min,
            min_hits,
        } = self.options;
        let Some(start) = ids.len().checked_sub(n_key) else {
            return Ok(Vec::new());
        };
        let key = &ids[start..];
        let n = n_wanted.min(n_max);
        if self.places(key).take(min_hits).count() < min_hits {
            return Ok(Vec::new());
        }
        let mut draft = match rule {
            LookupRule::Newest => self.newest(key, n, false),
            LookupRule::NewestLearning => self.newest(key, n, true),
            LookupRule::MostFrequent => self.most_frequent(key, n),
            LookupRule::TokenByToken => self.token_by_token(key, n),
        };
        if draft.len() < n_min {
            draft.clear();
        }
        if draft.is_empty() {
            self.last = None;
        }
        Ok(draft)
    }

    fn kept(&mut self, n: usize) {
        if let Some(name) = self.last.take() {
            self.kept.insert(name, n);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(rule: LookupRule, n_key: usize, n_max: usize) -> Lookup {
        Lookup::new(LookupOptions {
            rule,
            n_key,
            n_max,
            n_min: 0,
            min_hits: 1,
        })
    }

    /// The end, its newest place before, and what stands there; and on into the draft where the text ends.
    #[test]
    fn the_newest_place_decides() {
        let mut newest = lookup(LookupRule::Newest, 2, 4);
        let mut draft = |ids: &[u32]| newest.draft(ids, 9).unwrap();
        assert_eq!(draft(&[1, 2, 3, 1, 2, 4, 5, 6, 7, 1, 2]), [4, 5, 6, 7]);
        assert_eq!(draft(&[1, 2, 3, 1, 2]), [3, 1, 2, 3]);
        assert_eq!(draft(&[8, 8, 8]), [8, 8, 8, 8]);
        assert!(draft(&[1, 2, 3]).is_empty());
        assert!(draft(&[1]).is_empty() && draft(&[]).is_empty());
        assert_eq!(newest.draft(&[1, 2, 3, 1, 2], 1).unwrap(), [3]);
    }

    /// What is no longer in the text is not found there, whatever stood in it before.
    #[test]
    fn a_text_that_changes_is_found_as_it_is() {
        let mut changing = lookup(LookupRule::Newest, 2, 3);
        let (mut text, mut random) = (Vec::new(), 7u32);
        for _ in 0..400 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let n_left = match random >> 28 {
                0 => text.len() * (random >> 20 & 0xff) as usize / 256,
                _ => text.len(),
            };
            text.truncate(n_left);
            text.extend([random >> 16 & 1, random >> 17 & 1, random >> 18 & 1]);
            let fresh = lookup(LookupRule::Newest, 2, 3).draft(&text, 3).unwrap();
            assert_eq!(changing.draft(&text, 3).unwrap(), fresh);
        }
    }

    #[test]
    fn a_key_that_disappoints_is_drafted_less() {
        let mut learning = lookup(LookupRule::NewestLearning, 1, 3);
        let text = [1, 2, 3, 4, 1];
        assert_eq!(learning.draft(&text, 9).unwrap(), [2, 3, 4]);
        learning.kept(2);
        assert_eq!(learning.draft(&text, 9).unwrap(), [2, 3]);
        learning.kept(0);
        assert!(learning.draft(&text, 9).unwrap().is_empty());
        // Another key is not the wiser.
        assert_eq!(learning.draft(&[1, 2, 3, 4, 1, 2], 9).unwrap(), [3, 4, 1]);
    }

    /// Behind 1 stands 2 3 twice and 4 5 once: twice as often. With another 4 5 it is not.
    #[test]
    fn the_most_frequent_continuation_must_be_clear() {
        let mut frequent = lookup(LookupRule::MostFrequent, 1, 2);
        let text = [1, 2, 3, 1, 4, 5, 1, 2, 3, 1];
        assert_eq!(frequent.draft(&text, 9).unwrap(), [2, 3]);
        let text = [1, 2, 3, 1, 4, 5, 1, 2, 3, 1, 4, 5, 1];
        assert!(frequent.draft(&text, 9).unwrap().is_empty());
        assert!(frequent.draft(&[1, 1], 9).unwrap().is_empty());
    }

    #[test]
    fn token_by_token_goes_from_place_to_place() {
        let mut hopping = lookup(LookupRule::TokenByToken, 2, 5);
        // 2 3 stands before 9 last, 3 9 before 7 alone, and nothing follows 9 7.
        let text = [1, 2, 3, 4, 2, 3, 9, 7, 1, 2];
        assert_eq!(hopping.draft(&text, 9).unwrap(), [3, 9, 7, 1, 2]);
        let mut long = Lookup::new(LookupOptions {
            n_min: 3,
            min_hits: 2,
            ..hopping.options
        });
        assert!(long.draft(&text, 9).unwrap().is_empty(), "1 2 stood once");
        assert_eq!(long.draft(&[5, 5, 5, 5], 9).unwrap(), [5; 5]);
        assert!(long.draft(&[6, 5, 6, 6, 5, 6, 8, 6, 5], 9).unwrap().len() >= 3);
    }
}
