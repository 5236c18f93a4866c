//! Repeat, presence and frequency penalties over the last tokens.

use std::collections::VecDeque;

use super::{
    Candidates, Domain, Parameter, Place, Sampler, SamplerKind, SamplingOptions, Vocabulary,
};

pub(super) static KIND: SamplerKind = SamplerKind {
    name: "penalties",
    place: Place::Named('e'),
    help: "lowers the logits of the last tokens (repeat, presence and frequency penalty)",
    keeps_best: false,
    parameters: &[&LAST_N, &REPEAT, &PRESENCE, &FREQUENCY],
    build,
};

pub(super) static LAST_N: Parameter = Parameter {
    flag: "repeat-last-n",
    aliases: &[],
    value_name: "N",
    help: "Last tokens that the penalties see; 0 turns them off, -1 takes all",
    key: Some("penalty_last_n"),
    domain: Domain::Whole {
        default: 64,
        range: -1..=i32::MAX,
    },
};

pub(super) static REPEAT: Parameter = Parameter {
    flag: "repeat-penalty",
    aliases: &[],
    value_name: "N",
    help: "Penalty on repeated tokens; 1 is off",
    key: Some("penalty_repeat"),
    domain: Domain::Float {
        default: 1.0,
        rule: "above 0; 1 is off",
        holds: |n| n > 0.0 && (1.0 / n).is_finite(),
    },
};

pub(super) static PRESENCE: Parameter = Parameter {
    flag: "presence-penalty",
    aliases: &[],
    value_name: "N",
    help: "Penalty on tokens that occurred; 0 is off",
    key: None,
    domain: Domain::Float {
        default: 0.0,
        rule: "",
        holds: |_| true,
    },
};

pub(super) static FREQUENCY: Parameter = Parameter {
    flag: "frequency-penalty",
    aliases: &[],
    value_name: "N",
    help: "Penalty per occurrence; 0 is off",
    key: None,
    domain: Domain::Float {
        default: 0.0,
        rule: "",
        holds: |_| true,
    },
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

fn build(options: &SamplingOptions, _: &dyn Vocabulary) -> Option<Box<dyn Sampler>> {
    let repeat = options.float(&REPEAT);
    let presence = options.float(&PRESENCE);
    let frequency = options.float(&FREQUENCY);
    // -1, the one number below 0, takes all.
    let n_last = usize::try_from(options.whole(&LAST_N)).unwrap_or(usize::MAX);
    let neutral = repeat == 1.0 && presence == 0.0 && frequency == 0.0;
    (!neutral && n_last > 0).then(|| {
        Box::new(Penalties {
            repeat,
            presence,
            frequency,
            n_last,
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
