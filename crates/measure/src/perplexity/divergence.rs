//! How far the predictions of a model are from those that a file holds of its base.
//!
//! The figures, their names and their error bars are the reference's, but that no position's divergence is below 0. Let `p` be the base's probability of a token and `q` the
//! model's: the Kullback-Leibler divergence of a position is the sum of `p ln(p / q)` over the vocabulary, without tokens below
//! `e^-16`; `Δp` is `q - p` of the token that came.

use std::sync::Arc;

use gristmill_engine::Model;

use super::logits_file::{BaseRows, LogitsReader};
use super::windows::{Row, Windows};
use super::{Options, Progress, Score, not_numbers};
use crate::error::MeasureError;

/// Below this many positions no error is told of a mean, and no covariance.
const N_FOR_ERRORS: usize = 10;
/// Tokens that the base holds for less likely, as a logarithm, do not count.
const LOG_PROBABILITY_MIN: f32 = -16.0;

/// A figure and its standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// The figure.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
}

/// Values of all positions, in ascending order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spread(Vec<f32>);

impl Spread {
    fn of(mut values: Vec<f32>) -> Spread {
        values.sort_by(f32::total_cmp);
        Spread(values)
    }

    /// The value that this share of the positions does not exceed, between two of them by how near it lies; 0 where there is none.
    pub fn percentile(&self, share: f64) -> f64 {
        let Some(last) = self.0.len().checked_sub(1) else {
            return 0.0;
        };
        let place = share.clamp(0.0, 1.0) * last as f64;
        let below = place as usize;
        let above = (below + 1).min(last);
        let rest = place - below as f64;
        (1.0 - rest) * f64::from(self.0[below]) + rest * f64::from(self.0[above])
    }
}

/// What is known of a model beside its base.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Divergence {
    /// Positions that were compared.
    pub n_scored: usize,
    /// The model's perplexity.
    pub ppl: Interval,
    /// The base's.
    pub ppl_base: Interval,
    /// Correlation of the two negative log-likelihoods, from -1 to 1.
    pub correlation: f64,
    /// Logarithm of the ratio of the perplexities.
    pub ln_ratio: Interval,
    /// Ratio of the perplexities.
    pub ratio: Interval,
    /// Difference of the perplexities.
    pub difference: Interval,
    /// Mean Kullback-Leibler divergence, in nats.
    pub kld: Interval,
    /// Mean Δp.
    pub delta_p: Interval,
    /// Root of the mean square of Δp.
    pub delta_p_rms: Interval,
    /// Share of the positions where both hold the same token for the likeliest.
    pub same_top: Interval,
    /// Divergences of all positions; empty while the work goes on.
    pub kld_spread: Spread,
    /// Δp of all positions; empty while the work goes on.
    pub delta_p_spread: Spread,
}

/// What one position adds.
struct Compared {
    nll: f64,
    nll_base: f64,
    kld: f64,
    delta_p: f64,
    same_top: bool,
}

impl Compared {
    /// Of a row of the model's logits and the base's; none where one of them is no prediction.
    fn of(row: &Row<'_>, base: &BaseRows) -> Option<Compared> {
        let score = Score::of(row.logits, row.next)?;
        let log_total = f64::from(score.max) + score.log_sum;
        let mut kld = 0.0;
        let (mut best, mut best_base) = (f32::NEG_INFINITY, 0);
        let mut log_base = f32::NAN;
        for (id, (log_p, &logit)) in base
            .log_probabilities(row.number)
            .zip(row.logits)
            .enumerate()
        {
            if log_p > best {
                (best, best_base) = (log_p, id);
            }
            if id == row.next as usize {
                log_base = log_p;
            }
            if log_p > LOG_PROBABILITY_MIN {
                let log_ratio = f64::from(log_p) - (f64::from(logit) - log_total);
                kld += f64::from(log_p.exp()) * log_ratio;
            }
        }
        let nll_base = -f64::from(log_base);
        let found = Compared {
            nll: -score.log_probability,
            nll_base,
            // Less than nothing is the rounding of the file's 16 bits.
            kld: kld.max(0.0),
            delta_p: score.log_probability.exp() - (-nll_base).exp(),
            same_top: score.best == best_base,
        };
        (kld.is_finite() && nll_base.is_finite()).then_some(found)
    }
}

/// Sums over positions, in the order of the text.
#[derive(Clone, Debug, Default)]
struct Sums {
    count: usize,
    nll: [f64; 2],
    nll_base: [f64; 2],
    nll_nll_base: f64,
    kld: [f64; 2],
    delta_p: [f64; 2],
    delta_p4: f64,
    n_same_top: usize,
}

impl Sums {
    fn add(&mut self, one: &Compared) {
        let square = one.delta_p * one.delta_p;
        self.count += 1;
        for (sums, value) in [
            (&mut self.nll, one.nll),
            (&mut self.nll_base, one.nll_base),
            (&mut self.kld, one.kld),
            (&mut self.delta_p, one.delta_p),
        ] {
            sums[0] += value;
            sums[1] += value * value;
        }
        self.nll_nll_base += one.nll * one.nll_base;
        self.delta_p4 += square * square;
        self.n_same_top += usize::from(one.same_top);
    }

    fn mean(&self, [sum, squares]: [f64; 2]) -> Interval {
        let n = self.count as f64;
        let value = sum / n;
        let variance = squares / n - value * value;
        let has_error = variance > 0.0 && self.count > N_FOR_ERRORS;
        Interval {
            value,
            error: if has_error {
                (variance / (n - 1.0)).sqrt()
            } else {
                0.0
            },
        }
    }

    /// Of the means of both negative log-likelihoods.
    fn covariance(&self) -> f64 {
        if self.count < N_FOR_ERRORS {
            return 0.0;
        }
        let n = self.count as f64;
        (self.nll_nll_base / n - (self.nll[0] / n) * (self.nll_base[0] / n)) / (n - 1.0)
    }

    fn divergence(&self) -> Divergence {
        let (nll, nll_base) = (self.mean(self.nll), self.mean(self.nll_base));
        let covariance = self.covariance();
        let of_log = |log: Interval| Interval {
            value: log.value.exp(),
            error: log.value.exp() * log.error,
        };
        // Rounding can make a variance of nearly nothing less than that.
        let root = |variance: f64| variance.max(0.0).sqrt();
        let ratio = Interval {
            value: nll.value - nll_base.value,
            error: root(nll.error.powi(2) + nll_base.error.powi(2) - 2.0 * covariance),
        };
        let (ppl, ppl_base) = (of_log(nll), of_log(nll_base));
        let ppl_covariance = ppl.value * ppl_base.value * covariance;
        let square = self.mean([self.delta_p[1], self.delta_p4]);
        let same_top = self.n_same_top as f64 / self.count as f64;
        let rest = (self.count as f64 - 1.0).max(1.0);
        let errors = nll.error * nll_base.error;
        Divergence {
            n_scored: self.count,
            ppl,
            ppl_base,
            correlation: if errors > 0.0 {
                covariance / errors
            } else {
                1.0
            },
            ln_ratio: ratio,
            ratio: of_log(ratio),
            difference: Interval {
                value: ppl.value - ppl_base.value,
                error: root(ppl.error.powi(2) + ppl_base.error.powi(2) - 2.0 * ppl_covariance),
            },
            kld: self.mean(self.kld),
            delta_p: self.mean(self.delta_p),
            delta_p_rms: Interval {
                value: square.value.sqrt(),
                error: match square.value > 0.0 {
                    true => 0.5 / square.value.sqrt() * square.error,
                    false => 0.0,
                },
            },
            same_top: Interval {
                value: same_top,
                error: (same_top * (1.0 - same_top) / rest).sqrt(),
            },
            ..Divergence::default()
        }
    }
}

/// Holds a model's predictions against its base's, whose file tells the windows; `each` is told after every window.
///
/// # Errors
/// A vocabulary of another size, predictions that are no numbers, what the engine and the disk report.
pub fn divergence(
    model: &Arc<Model>,
    base: &mut LogitsReader,
    options: &Options,
    each: &mut dyn FnMut(Progress<Divergence>) -> Result<(), MeasureError>,
) -> Result<Divergence, MeasureError> {
    if base.n_vocab() != model.n_vocab() {
        return Err(MeasureError::LogitsFile {
            path: base.path().to_owned(),
            reason: format!(
                "it is of a vocabulary of {} tokens, and the model has {}",
                base.n_vocab(),
                model.n_vocab()
            ),
        });
    }
    let n_ctx = base.n_ctx();
    let n_chunks = options.n_chunks.unwrap_or(usize::MAX).min(base.n_chunks());
    let options = Options {
        n_ctx,
        ..options.clone()
    };
    let mut windows = Windows::new(model, &options)?;
    let mut sums = Sums::default();
    let (mut klds, mut delta_ps) = (Vec::new(), Vec::new());
    let ids = base.ids()[..n_chunks * n_ctx].to_vec();
    let mut n_done = 0;
    for group in ids.chunks(n_ctx * windows.n_at_once()) {
        let rows = base.read(group.len() / n_ctx)?;
        let compared = windows.compute(group, &|row: Row<'_>| Compared::of(&row, &rows))?;
        for window in compared.chunks(windows.n_scored()) {
            for (index, one) in window.iter().enumerate() {
                let one = one
                    .as_ref()
                    .ok_or_else(|| not_numbers(model, n_done, n_ctx / 2 + index))?;
                sums.add(one);
                klds.push(one.kld as f32);
                delta_ps.push(one.delta_p as f32);
            }
            n_done += 1;
            each(Progress {
                n_done,
                n_chunks,
                value: sums.divergence(),
            })?;
        }
    }
    Ok(Divergence {
        kld_spread: Spread::of(klds),
        delta_p_spread: Spread::of(delta_ps),
        ..sums.divergence()
    })
}
