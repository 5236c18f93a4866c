//! Stop strings, wherever the borders between tokens fall.

/// Watches a growing text for stop strings.
///
/// The result is the same for every way of cutting the text into pieces: the string that ends first wins,
/// of several that end together the longest, and the text before it is what comes out. What could be the
/// beginning of a stop string is held back until it is decided.
#[derive(Clone, Debug)]
pub struct StopMatcher {
    stops: Vec<String>,
    /// Text that is not yet known to be free of stop strings.
    held: String,
    matched: Option<usize>,
}

impl StopMatcher {
    /// A matcher for these strings; empty ones never match and are left out.
    pub fn new(stops: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let stops = stops
            .into_iter()
            .map(Into::into)
            .filter(|stop| !stop.is_empty())
            .collect();
        StopMatcher {
            stops,
            held: String::new(),
            matched: None,
        }
    }

    /// Takes the next piece of text and appends to `out` what is free of stop strings. Returns whether a
    /// stop string has been found; from then on nothing more comes out.
    pub fn push(&mut self, piece: &str, out: &mut String) -> bool {
        if self.matched.is_some() {
            return true;
        }
        if self.stops.is_empty() {
            out.push_str(piece);
            return false;
        }
        self.held.push_str(piece);
        let first = self.stops.iter().enumerate().filter_map(|(index, stop)| {
            let start = self.held.find(stop.as_str())?;
            Some((start + stop.len(), start, index))
        });
        if let Some((_, start, index)) = first.min() {
            out.push_str(&self.held[..start]);
            self.held.clear();
            self.matched = Some(index);
            return true;
        }
        let n_free = self.held.len() - self.undecided();
        out.push_str(&self.held[..n_free]);
        self.held.drain(..n_free);
        false
    }

    /// The length of the longest end of the held text that begins a stop string.
    fn undecided(&self) -> usize {
        let longest = self
            .stops
            .iter()
            .map(|stop| stop.len() - 1)
            .max()
            .unwrap_or(0);
        let from = self.held.len().saturating_sub(longest);
        let starts = (from..self.held.len()).filter(|&start| self.held.is_char_boundary(start));
        let is_open = |start: &usize| {
            self.stops
                .iter()
                .any(|stop| stop.starts_with(&self.held[*start..]))
        };
        starts
            .into_iter()
            .find(is_open)
            .map_or(0, |start| self.held.len() - start)
    }

    /// The end of the text: appends what was held back, unless a stop string was found.
    pub fn finish(&mut self, out: &mut String) {
        if self.matched.is_none() {
            out.push_str(&self.held);
        }
        self.held.clear();
    }

    /// The stop string that was found.
    pub fn matched(&self) -> Option<&str> {
        self.matched.map(|index| self.stops[index].as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (text before the stop, the stop) for every cut of the pieces that `pieces` is one of.
    fn run(pieces: &[&str], stops: &[&str]) -> (String, Option<String>) {
        let mut matcher = StopMatcher::new(stops.iter().copied());
        let mut out = String::new();
        for piece in pieces {
            if matcher.push(piece, &mut out) {
                break;
            }
        }
        matcher.finish(&mut out);
        (out, matcher.matched().map(str::to_owned))
    }

    #[track_caller]
    fn check(text: &str, stops: &[&str], before: &str, stop: Option<&str>) {
        let expected = (before.to_owned(), stop.map(str::to_owned));
        assert_eq!(run(&[text], stops), expected, "in one piece");
        let pieces: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(
            run(
                &pieces.iter().map(String::as_str).collect::<Vec<_>>(),
                stops
            ),
            expected,
            "by character"
        );
        for (cut, _) in text.char_indices() {
            assert_eq!(
                run(&[&text[..cut], &text[cut..]], stops),
                expected,
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn case_b66_across_tokens() {
        assert_eq!(
            run(&["ab", "c\nUs", "er", ":x"], &["\nUser:"]),
            ("abc".into(), Some("\nUser:".into()))
        );
        check("abc\nUser:x", &["\nUser:"], "abc", Some("\nUser:"));
    }

    #[test]
    fn case_b66_whole_overlapping_multibyte_empty_and_open() {
        check("stop", &["stop"], "", Some("stop"));
        check("xabcd", &["abcd", "bc"], "xa", Some("bc"));
        check("xaab", &["aab", "ab"], "x", Some("aab"));
        check("aaab", &["aab"], "a", Some("aab"));
        check("你好。世界", &["。世"], "你好", Some("。世"));
        check("你好。世界", &["。界"], "你好。世界", None);
        check("text", &[""], "text", None);
        check("text\nUse", &["\nUser:"], "text\nUse", None);
    }

    #[test]
    fn holds_back_only_what_can_still_match() {
        let mut matcher = StopMatcher::new(["\n\n"]);
        let mut out = String::new();
        assert!(!matcher.push("a\nb\n", &mut out));
        assert_eq!(out, "a\nb");
        assert!(!matcher.push("c", &mut out));
        assert_eq!(out, "a\nb\nc");
    }
}
