//! Sizes on the command line.

/// Units, decimal as the reference's and binary.
const UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("B", 1),
    ("K", 1_000),
    ("KB", 1_000),
    ("M", 1_000_000),
    ("MB", 1_000_000),
    ("G", 1_000_000_000),
    ("GB", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// A number of bytes: `4G` is 4,000,000,000, `4GiB` is 4,294,967,296; without a unit it is bytes.
///
/// # Errors
/// What is wrong with it, for the parser's message.
pub fn parse(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err("there is no whole number in front, as in 8GiB or 300M".into());
    }
    if unit.starts_with(['.', ',']) {
        return Err(match whole(text) {
            Some(same) => format!("a size is a whole number, as in {same} for {text}"),
            None => "a size is a whole number".into(),
        });
    }
    let unit = unit.trim_start();
    let known = UNITS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let Some((_, factor)) = known else {
        return Err(format!(
            "{unit:?} is none of the units K, M, G, T (decimal), KiB, MiB, GiB, TiB"
        ));
    };
    let bytes = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(*factor));
    match bytes {
        Some(bytes) => Ok(bytes),
        None => Err("it does not fit in 64 bits".into()),
    }
}

/// The same, or with a fraction: `4.2GiB`.
///
/// # Errors
/// What is wrong with it, for the parser's message.
pub fn with_fraction(text: &str) -> Result<u64, String> {
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let end = text.find(|c| !is_digit(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if number.is_empty() {
        return Err("there is no number in front, as in 7.5GiB".into());
    }
    if !number.contains('.') {
        return parse(text);
    }
    let number: f64 = number
        .parse()
        .map_err(|_| format!("{number:?} is no number"))?;
    let unit = parse(&format!("1{unit}"))?;
    // A float that is too large becomes the largest size.
    Ok((number * unit as f64) as u64)
}

/// A size with a fraction, in the largest unit that does without one.
fn whole(text: &str) -> Option<String> {
    let end = text.find(|c: char| c.is_ascii_alphabetic() || c == ' ')?;
    let (number, unit) = (&text[..end], text[end..].trim_start());
    let (before, after) = number.split_once(['.', ','])?;
    let factor = |unit: &str| {
        let known = UNITS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit));
        known.map(|(_, factor)| u128::from(*factor))
    };
    let digits: u128 = format!("{before}{after}").parse().ok()?;
    let parts = 10u128.checked_pow(u32::try_from(after.len()).ok()?)?;
    let bytes = digits.checked_mul(factor(unit)?)?;
    let bytes = bytes.is_multiple_of(parts).then_some(bytes / parts)?;
    let fits = |(_, factor): &&(&str, u64)| bytes.is_multiple_of(u128::from(*factor));
    let (name, factor) = UNITS
        .iter()
        .filter(fits)
        .rev()
        .max_by_key(|(_, factor)| factor)?;
    Some(format!("{}{name}", bytes / u128::from(*factor)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_decimal_or_binary() {
        let good = [
            ("0", 0),
            ("7", 7),
            ("300M", 300_000_000),
            ("4G", 4_000_000_000),
            ("4g", 4_000_000_000),
            ("5GiB", 5 << 30),
            ("2 tib", 2 << 40),
            ("18446744073709551615", u64::MAX),
            // What it means is for the command to say.
            ("0", 0),
        ];
        for (text, bytes) in good {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "G",
            "1.5G",
            "-1G",
            "4X",
            "99999999999999999999",
            "99999999T",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn some_sizes_may_have_a_fraction() {
        let size = with_fraction;
        assert_eq!(size("4.5GiB"), Ok((9 << 30) / 2));
        assert_eq!(size("1.5 MB"), Ok(1_500_000));
        assert_eq!(size("300M"), Ok(300_000_000));
        for text in ["4.5.5G", "4.5X", "", "GiB", "-1G", "."] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_fraction_is_answered_with_the_same_size() {
        for (text, same) in [("1.5G", "1500M"), ("0.5 KiB", "512"), ("2.5MiB", "2560KiB")] {
            let error = parse(text).expect_err(text);
            assert!(
                error.ends_with(&format!("as in {same} for {text}")),
                "{error}"
            );
        }
        assert_eq!(parse("1.23456K"), Err("a size is a whole number".into()));
    }
}
