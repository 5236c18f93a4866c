//! What a row of logits says about the token that came.

/// The prediction of one token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Natural logarithm of the probability that the model gave the token.
    pub log_probability: f64,
    /// The largest logit.
    pub max: f32,
    /// The first token that has it.
    pub best: usize,
    /// Logarithm of the sum of `exp(logit - max)`.
    pub log_sum: f64,
}

impl Score {
    /// Of a row of logits and the token behind it; none where they are no numbers. Negative infinity is a token that cannot be, and
    /// no prediction where it is the token that came.
    pub fn of(logits: &[f32], next: u32) -> Option<Score> {
        let (mut max, mut best) = (f32::NEG_INFINITY, 0);
        for (id, &logit) in logits.iter().enumerate() {
            if logit > max {
                (max, best) = (logit, id);
            }
        }
        let sum: f64 = logits.iter().map(|&x| f64::from((x - max).exp())).sum();
        let log_sum = sum.ln();
        let log_probability = f64::from(logits.get(next as usize)? - max) - log_sum;
        log_probability.is_finite().then_some(Score {
            log_probability,
            max,
            best,
            log_sum,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_the_logarithm_of_a_probability() {
        let score = Score::of(&[0.0, 3.0f32.ln(), f32::NEG_INFINITY], 1).unwrap();
        assert!(
            (score.log_probability - 0.75f64.ln()).abs() < 1e-7,
            "{score:?}"
        );
        assert_eq!(score.best, 1);
        let far = Score::of(&[1e30, 0.0], 1).unwrap();
        assert_eq!(far.log_probability, -f64::from(1e30f32));
    }

    #[test]
    fn what_is_no_number_is_no_score() {
        assert_eq!(Score::of(&[f32::NAN, 1.0], 1), None);
        assert_eq!(Score::of(&[1.0, f32::NAN], 0), None);
        assert_eq!(Score::of(&[f32::INFINITY, 1.0], 1), None);
        assert_eq!(Score::of(&[f32::NEG_INFINITY, 1.0], 0), None);
        assert_eq!(Score::of(&[f32::NEG_INFINITY; 2], 0), None);
        assert_eq!(Score::of(&[1.0, 1.0], 2), None);
    }
}
