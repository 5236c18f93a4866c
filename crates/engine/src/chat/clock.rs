//! The date that templates ask for.

use std::time::{SystemTime, UNIX_EPOCH};

/// The time that `strftime_now` sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The present, in universal time: the same conversation gives the same text on every machine of a day.
    Now,
    /// A fixed time, in seconds since 1970.
    Fixed(i64),
}

const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

struct Moment {
    year: i64,
    /// From 1.
    month: i64,
    day: i64,
    /// From 1.
    day_of_year: i64,
    /// Sunday is 0.
    weekday: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

impl Moment {
    /// The proleptic Gregorian date, counted in years that start in March so that the leap day comes last.
    fn new(seconds: i64) -> Self {
        let days = seconds.div_euclid(86_400);
        let time = seconds.rem_euclid(86_400);
        let shifted = days + 719_468; // days since 0000-03-01
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let march_day = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * march_day + 2) / 153;
        let month = if march_month < 10 {
            march_month + 3
        } else {
            march_month - 9
        };
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        let leap = i64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
        let day_of_year = if month <= 2 {
            march_day - 305
        } else {
            march_day + 60 + leap
        };
        Moment {
            year,
            month,
            day: march_day - (153 * march_month + 2) / 5 + 1,
            day_of_year,
            weekday: (days + 4).rem_euclid(7),
            hour: time / 3_600,
            minute: time / 60 % 60,
            second: time % 60,
        }
    }
}

impl Clock {
    /// Formats the time by a `strftime` format; directives it does not know stay as they are.
    pub fn format(self, format: &str) -> String {
        let seconds = match self {
            Clock::Fixed(seconds) => seconds.clamp(-62_135_596_800, 253_402_300_799), // years 1 to 9999
            Clock::Now => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |passed| passed.as_secs() as i64),
        };
        let moment = Moment::new(seconds);
        let mut text = String::new();
        let mut chars = format.chars();
        while let Some(character) = chars.next() {
            if character != '%' {
                text.push(character);
                continue;
            }
            let mut directive = chars.next();
            let padded = directive != Some('-'); // %-d: no padding
            if !padded {
                directive = chars.next();
            }
            match directive.and_then(|directive| moment.field(directive, padded)) {
                Some(field) => text.push_str(&field),
                None => {
                    text.push_str(if padded { "%" } else { "%-" });
                    text.extend(directive);
                }
            }
        }
        text
    }
}

impl Moment {
    fn field(&self, directive: char, padded: bool) -> Option<String> {
        let number = |value: i64, width: usize| match padded {
            true => format!("{value:0width$}"),
            false => value.to_string(),
        };
        let weekday = WEEKDAYS[self.weekday as usize];
        let month = MONTHS[(self.month - 1) as usize];
        let hour_12 = (self.hour + 11) % 12 + 1;
        Some(match directive {
            'Y' => number(self.year, 4),
            'y' => number(self.year % 100, 2),
            'm' => number(self.month, 2),
            'd' => number(self.day, 2),
            'e' => format!("{:2}", self.day),
            'j' => number(self.day_of_year, 3),
            'H' => number(self.hour, 2),
            'I' => number(hour_12, 2),
            'M' => number(self.minute, 2),
            'S' => number(self.second, 2),
            'f' => "000000".into(),
            'p' => if self.hour < 12 { "AM" } else { "PM" }.into(),
            'A' => weekday.into(),
            'a' => weekday[..3].into(),
            'B' => month.into(),
            'b' | 'h' => month[..3].into(),
            'w' => self.weekday.to_string(),
            'u' => ((self.weekday + 6) % 7 + 1).to_string(),
            'F' => format!("{:04}-{:02}-{:02}", self.year, self.month, self.day),
            'T' | 'X' => format!("{:02}:{:02}:{:02}", self.hour, self.minute, self.second),
            'D' | 'x' => format!("{:02}/{:02}/{:02}", self.month, self.day, self.year % 100),
            'R' => format!("{:02}:{:02}", self.hour, self.minute),
            'Z' => "UTC".into(),
            'z' => "+0000".into(),
            'n' => "\n".into(),
            't' => "\t".into(),
            '%' => "%".into(),
            _ => return None,
        })
    }
}
