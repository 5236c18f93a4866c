//! Repeat, presence and frequency penalties over the last tokens.

use std::collections::VecDeque;

use super::{Candidates, Sampler, SamplerKind, SamplingOptions};

pub(super) static KIND: SamplerKind = SamplerKind {
    name: "penalties",
    letter: 'e',
    help: "lowers the logits of the last tokens (repeat, presence and frequency penalty)",
    keeps_best: false,
    build,
};

struct Penalties {
    repeat: f32,
    presence: f32,
    frequency: f32,
    n_last: usize,
    last: VecDeque<u32>,
    /// The distinct ids of `last` and how often each occurs.
    counts: Vec<(u32, u32)>,
}

fn build(options: &SamplingOptions) -> Option<Box<dyn Sampler>> {
    let neutral = options.repeat_penalty == 1.0
        && options.presence_penalty == 0.0
        && options.frequency_penalty == 0.0;
    (!neutral && options.repeat_last_n > 0).then(|| {
        Box::new(Penalties {
            repeat: options.repeat_penalty,
            presence: options.presence_penalty,
            frequency: options.frequency_penalty,
            n_last: options.repeat_last_n,
            last: VecDeque::new(),
            counts: Vec::new(),
        }) as Box<dyn Sampler>
    })
}

impl Sampler for Penalties {
    fn apply(&mut self, candidates: &mut Candidates) {
        for &(id, count) in &self.counts {
            candidates.update(id, |logit| {
                // dividing a negative logit would make the token more probable
                let scaled = if logit <= 0.0 {
                    logit * self.repeat
                } else {
                    logit / self.repeat
                };
                scaled - (count as f32 * self.frequency + self.presence)
            });
        }
    }

    fn accept(&mut self, id: u32) {
        if self.last.len() == self.n_last
            && let Some(oldest) = self.last.pop_front()
            && let Some(index) = self.counts.iter().position(|&(seen, _)| seen == oldest)
        {
            self.counts[index].1 -= 1;
            if self.counts[index].1 == 0 {
                self.counts.swap_remove(index);
            }
        }
        self.last.push_back(id);
        match self.counts.iter_mut().find(|(seen, _)| *seen == id) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((id, 1)),
        }
    }

    fn reset(&mut self) {
        self.last.clear();
        self.counts.clear();
    }
}
