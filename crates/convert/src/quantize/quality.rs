//! What a change of type cost: squared errors, summed row by row so that the sums do not depend on how rows were cut
//! into pieces.

/// Sums of squares over the elements of a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quality {
    /// Of the differences between the values before and after.
    pub error: f64,
    /// Of the values before.
    pub signal: f64,
    /// Of the differences, each weighted with the importance of its column; without importance data every weight is 1.
    pub weighted_error: f64,
    /// Of the values before, weighted alike.
    pub weighted_signal: f64,
}

impl Quality {
    /// Compares the values of one row before and after.
    pub(super) fn of_row(before: &[f32], after: &[f32], weights: Option<&[f32]>) -> Quality {
        let mut sums = Quality::default();
        for (column, (before, after)) in before.iter().zip(after).enumerate() {
            let (before, after) = (f64::from(*before), f64::from(*after));
            let weight = weights.and_then(|weights| weights.get(column));
            let weight = f64::from(weight.copied().unwrap_or(1.0));
            let (error, signal) = ((before - after) * (before - after), before * before);
            sums.error += error;
            sums.signal += signal;
            sums.weighted_error += weight * error;
            sums.weighted_signal += weight * signal;
        }
        sums
    }

    /// Adds the sums of another row or tensor.
    pub fn add(&mut self, other: &Quality) {
        self.error += other.error;
        self.signal += other.signal;
        self.weighted_error += other.weighted_error;
        self.weighted_signal += other.weighted_signal;
    }

    /// Length of the difference over length of the values: 0 for equal ones, 1 where all is lost.
    pub fn relative_error(&self) -> f64 {
        ratio(self.error, self.signal)
    }

    /// The same with the importance of columns.
    pub fn weighted_relative_error(&self) -> f64 {
        ratio(self.weighted_error, self.weighted_signal)
    }

    /// As a line of a journal: the bits of the four sums.
    pub(super) fn to_note(self) -> String {
        let sums = [
            self.error,
            self.signal,
            self.weighted_error,
            self.weighted_signal,
        ];
        sums.map(|sum| format!("{:016x}", sum.to_bits())).join(" ")
    }

    /// Reads [`Quality::to_note`].
    pub(super) fn from_note(note: &str) -> Option<Quality> {
        let mut sums = note
            .split(' ')
            .map(|word| u64::from_str_radix(word, 16).map(f64::from_bits));
        let mut next = || sums.next()?.ok();
        Some(Quality {
            error: next()?,
            signal: next()?,
            weighted_error: next()?,
            weighted_signal: next()?,
        })
    }
}

fn ratio(error: f64, signal: f64) -> f64 {
    if error == 0.0 {
        0.0
    } else {
        (error / signal).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_relative_to_the_values() {
        let quality = Quality::of_row(&[3.0, 4.0], &[3.0, 3.0], Some(&[1.0, 0.25]));
        assert_eq!(quality.relative_error(), 0.2);
        assert_eq!(quality.weighted_relative_error(), (0.25f64 / 13.0).sqrt());
        assert_eq!(Quality::from_note(&quality.to_note()), Some(quality));
        assert_eq!(Quality::from_note("0 1 2"), None);
        assert_eq!(Quality::default().relative_error(), 0.0);
    }
}
