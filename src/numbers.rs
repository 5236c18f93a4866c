//! Numbers on the command line: every flag states its range, and what lies outside is wrong usage, whose message names
//! the flag and the range.

use std::fmt::Display;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Most threads that can be asked for, as in the reference.
const THREADS_MAX: i64 = 512;

/// A whole number within a range.
pub fn whole(range: RangeInclusive<i64>) -> impl Fn(&str) -> Result<i64, String> + Clone {
    within(range)
}

/// A count within a range.
pub fn count(range: RangeInclusive<usize>) -> impl Fn(&str) -> Result<usize, String> + Clone {
    within(range)
}

/// A number within a range.
pub fn real(range: RangeInclusive<f32>) -> impl Fn(&str) -> Result<f32, String> + Clone {
    of_kind("number", range)
}

fn within<N: FromStr + PartialOrd + Display + Clone>(
    range: RangeInclusive<N>,
) -> impl Fn(&str) -> Result<N, String> + Clone {
    of_kind("whole number", range)
}

fn of_kind<N: FromStr + PartialOrd + Display + Clone>(
    kind: &'static str,
    range: RangeInclusive<N>,
) -> impl Fn(&str) -> Result<N, String> + Clone {
    move |text| {
        let number: Option<N> = text.trim().parse().ok();
        let number = number.filter(|number| range.contains(number));
        let (start, end) = (range.start(), range.end());
        number.ok_or_else(|| format!("it must be a {kind} from {start} to {end}"))
    }
}

/// A number of threads; 0 and less leave it to the machine, as in the reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Threads(Option<NonZeroUsize>);

impl Threads {
    /// The number that was asked for, if there was one.
    pub fn asked(self) -> Option<usize> {
        self.0.map(NonZeroUsize::get)
    }

    /// As libraries take it that read 0 as "one per processor".
    pub fn or_zero(self) -> usize {
        self.asked().unwrap_or(0)
    }
}

/// A number of threads from the command line.
pub fn threads(text: &str) -> Result<Threads, String> {
    let number: Option<i64> = text.trim().parse().ok();
    match number {
        Some(number) if number <= THREADS_MAX => Ok(Threads(
            usize::try_from(number).ok().and_then(NonZeroUsize::new),
        )),
        _ => Err(format!(
            "it must be a whole number up to {THREADS_MAX}; 0 or less takes one thread per processor"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_named_where_they_are_left() {
        let seed = whole(-1..=9);
        assert_eq!((seed("-1"), seed(" 9 ")), (Ok(-1), Ok(9)));
        for text in ["-2", "10", "1.5", "x", "", "99999999999999999999"] {
            let message = seed(text).expect_err("it is outside");
            assert_eq!(message, "it must be a whole number from -1 to 9", "{text}");
        }
        assert!(count(1..=2)("-1").is_err() && count(1..=2)("2") == Ok(2));
        let share = real(-1.0..=2.5);
        assert_eq!((share("-1"), share("0.25")), (Ok(-1.0), Ok(0.25)));
        for text in ["-1.5", "2.6", "nan", "inf", "x"] {
            let message = share(text).expect_err("it is outside");
            assert_eq!(message, "it must be a number from -1 to 2.5", "{text}");
        }
    }

    #[test]
    fn threads_have_a_limit_and_a_default() {
        for text in ["0", "-1", "-5", "-9999999999"] {
            assert_eq!(threads(text), Ok(Threads(None)), "{text}");
        }
        assert_eq!(threads("512").map(Threads::asked), Ok(Some(512)));
        assert!(threads("513").is_err() && threads("100000").is_err() && threads("x").is_err());
    }
}
