//! Scanners shared by the pre-tokenizers. Each reads its text once from left to right, so that time
//! is linear and the stack constant on any input.

use crate::unicode::{
    Char, Class, LETTER, LOWER, MARK, NUMBER, PUNCTUATION, SPACE, SYMBOL, UPPER, char_at, skip_in,
    skip_out,
};

/// Takes the pieces of a text, in order; none is empty and together they are the text.
pub(crate) type Sink<'a> = dyn FnMut(&[u8]) + 'a;

/// Hands the parts of `text` to the sink: wherever `run` returns an end greater than its position, the
/// run is a piece by itself, and so is the text between two runs.
pub(crate) fn isolate(
    text: &[u8],
    sink: &mut Sink<'_>,
    run: impl Fn(&[u8], usize, Char) -> Option<usize>,
) {
    let mut start = 0;
    let mut at = 0;
    while let Some(c) = char_at(text, at) {
        match run(text, at, c) {
            Some(end) => {
                if start < at {
                    sink(&text[start..at]);
                }
                sink(&text[at..end]);
                start = end;
                at = end;
            }
            None => at += c.len,
        }
    }
    if start < text.len() {
        sink(&text[start..]);
    }
}

/// The expression that `ByteLevel` in `tokenizer.json` stands for.
pub const GPT2_PATTERN: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// The expression that `Punctuation` with contiguous runs in `tokenizer.json` stands for.
pub const PUNCTUATION_PATTERN: &str = r"[\p{P}\$\+<=>\^~\|`]+";

/// Isolated CJK ideographs and what lies between them and the Cyrillic block, as DeepSeek writes it.
pub(crate) const CJK_PATTERN: &str = "[一-龥ࠀ-一가-퟿]+";

/// True if a sorted list of inclusive ranges holds `code`.
pub(crate) fn in_ranges(ranges: &[(u32, u32)], code: u32) -> bool {
    let n_before = ranges.partition_point(|&(start, _)| start <= code);
    n_before > 0 && code <= ranges[n_before - 1].1
}

/// `X+` isolated.
pub(crate) fn runs_of(text: &[u8], sink: &mut Sink<'_>, in_class: impl Fn(Char) -> bool) {
    isolate(text, sink, |text, at, c| {
        in_class(c).then(|| run_end(text, at, &in_class))
    });
}

/// `\s?X+` isolated, where X holds no white space.
pub(crate) fn spaced_runs(text: &[u8], sink: &mut Sink<'_>, in_class: impl Fn(Char) -> bool) {
    isolate(text, sink, |text, at, c| {
        let start = if c.is(SPACE) { at + c.len } else { at };
        let end = run_end(text, start, &in_class);
        (end > start).then_some(end)
    });
}

fn run_end(text: &[u8], mut at: usize, in_class: impl Fn(Char) -> bool) -> usize {
    while let Some(c) = char_at(text, at) {
        if !in_class(c) {
            break;
        }
        at += c.len;
    }
    at
}

/// [`CJK_PATTERN`] isolated.
pub(crate) fn cjk_runs(text: &[u8], sink: &mut Sink<'_>) {
    static CJK: &[(u32, u32)] = &[(0x0800, 0x4E00), (0x4E00, 0x9FA5), (0xAC00, 0xD7FF)];
    runs_of(text, sink, |c| in_ranges(CJK, c.code));
}

/// [`PUNCTUATION_PATTERN`] isolated.
pub(crate) fn punctuation_runs(text: &[u8], sink: &mut Sink<'_>) {
    runs_of(text, sink, is_ascii_symbol_or_punctuation);
}

/// The same without the backtick, as in the default pre-tokenizer.
pub(crate) fn punctuation_runs_but_backtick(text: &[u8], sink: &mut Sink<'_>) {
    runs_of(text, sink, |c| {
        is_ascii_symbol_or_punctuation(c) && c.code != u32::from(b'`')
    });
}

fn is_ascii_symbol_or_punctuation(c: Char) -> bool {
    c.is(PUNCTUATION) || (c.code < 128 && c.is(SYMBOL))
}

/// ` ?[^(\s|.,!?…。，、।۔،)]+` isolated.
pub(crate) fn sentence_words(text: &[u8], sink: &mut Sink<'_>) {
    let in_word = |c: Char| !c.is(SPACE) && !is_sentence_mark(c.code);
    isolate(text, sink, |text, at, c| {
        let start = if c.code == u32::from(b' ') {
            at + 1
        } else {
            at
        };
        let end = run_end(text, start, in_word);
        (end > start).then_some(end)
    });
}

fn is_sentence_mark(code: u32) -> bool {
    char::from_u32(code).is_some_and(|c| "(|.,!?…。，、।۔،)".contains(c))
}

/// `\p{N}` isolated: every number is a piece.
pub(crate) fn single_numbers(text: &[u8], sink: &mut Sink<'_>) {
    isolate(text, sink, |_, at, c| c.is(NUMBER).then_some(at + c.len));
}

/// `\p{N}+` isolated.
pub(crate) fn number_runs(text: &[u8], sink: &mut Sink<'_>) {
    isolate(text, sink, |text, at, c| {
        c.is(NUMBER).then(|| skip_in(text, at, NUMBER))
    });
}

/// `\p{N}{1,3}` isolated.
pub(crate) fn numbers_by_three(text: &[u8], sink: &mut Sink<'_>) {
    isolate(text, sink, |text, at, c| {
        c.is(NUMBER).then(|| numbers_end(text, at, 3))
    });
}

/// `[0-9][0-9][0-9]` isolated.
pub(crate) fn three_digits(text: &[u8], sink: &mut Sink<'_>) {
    isolate(text, sink, |text, at, _| {
        let digits = text.get(at..at + 3)?;
        digits.iter().all(u8::is_ascii_digit).then_some(at + 3)
    });
}

/// Runs of numbers, cut into threes counted from the right: 1234567 is 1, 234, 567.
pub(crate) fn numbers_by_three_from_right(text: &[u8], sink: &mut Sink<'_>) {
    number_runs(text, &mut |piece| {
        if !char_at(piece, 0).is_some_and(|c| c.is(NUMBER)) {
            return sink(piece);
        }
        let n_first = count(piece) % 3;
        let mut start = numbers_end(piece, 0, n_first);
        if start > 0 {
            sink(&piece[..start]);
        }
        while start < piece.len() {
            let end = numbers_end(piece, start, 3);
            sink(&piece[start..end]);
            start = end;
        }
    });
}

fn count(text: &[u8]) -> usize {
    let mut at = 0;
    let mut n_chars = 0;
    while let Some(c) = char_at(text, at) {
        at += c.len;
        n_chars += 1;
    }
    n_chars
}

/// `[\r\n]` isolated: every line break is a piece.
pub(crate) fn single_line_breaks(text: &[u8], sink: &mut Sink<'_>) {
    isolate(text, sink, |_, at, c| {
        is_line_break(c).then_some(at + c.len)
    });
}

/// `[^\n]+|[\n]+`.
pub(crate) fn lines(text: &[u8], sink: &mut Sink<'_>) {
    isolate(text, sink, |text, at, c| {
        (c.code == 10).then(|| skip_newlines(text, at))
    });
}

fn skip_newlines(text: &[u8], mut at: usize) -> usize {
    while text.get(at) == Some(&b'\n') {
        at += 1;
    }
    at
}

/// The end of at most `n_most` numbers from `at` on.
fn numbers_end(text: &[u8], mut at: usize, n_most: usize) -> usize {
    for _ in 0..n_most {
        match char_at(text, at) {
            Some(c) if c.is(NUMBER) => at += c.len,
            _ => break,
        }
    }
    at
}

/// GPT-2: `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
pub(crate) fn gpt2(text: &[u8], sink: &mut Sink<'_>) {
    let mut at = 0;
    while let Some(c) = char_at(text, at) {
        let end = gpt2_end(text, at, c);
        sink(&text[at..end]);
        at = end;
    }
}

fn gpt2_end(text: &[u8], at: usize, c: Char) -> usize {
    if let Some(len) = contraction(text, at, false) {
        return at + len;
    }
    let (body, body_class) = after_space(text, at, c);
    for class in [LETTER, NUMBER] {
        if body_class & class != 0 {
            return skip_in(text, body, class);
        }
    }
    if body_class & SPACE == 0 {
        return skip_out(text, body, SPACE | LETTER | NUMBER);
    }
    space_end(text, at)
}

/// ` ?X`: where X starts and its class. A space that nothing follows counts as a space.
fn after_space(text: &[u8], at: usize, c: Char) -> (usize, Class) {
    if c.code != u32::from(b' ') {
        return (at, c.class());
    }
    match char_at(text, at + 1) {
        Some(next) => (at + 1, next.class()),
        None => (at, SPACE),
    }
}

/// `\s+(?!\S)|\s+`: the run of white space from `at` on, less its last character when something
/// follows the run and it is not that character alone.
fn space_end(text: &[u8], at: usize) -> usize {
    let mut end = at;
    let mut last = at;
    while let Some(c) = char_at(text, end) {
        if !c.is(SPACE) {
            return if last > at { last } else { end };
        }
        last = end;
        end += c.len;
    }
    end
}

/// `\s*[\r\n]+`: the end of the last line break in the run of white space from `at` on.
fn line_break_end(text: &[u8], at: usize) -> Option<usize> {
    let mut end = at;
    let mut found = None;
    while let Some(c) = char_at(text, end) {
        if !c.is(SPACE) {
            break;
        }
        end += c.len;
        if is_line_break(c) {
            found = Some(end);
        }
    }
    found
}

fn is_line_break(c: Char) -> bool {
    c.code == 10 || c.code == 13
}

/// Length of an English contraction (`'s 't 'm 'd 're 've 'll`) at `at`.
pub(crate) fn contraction(text: &[u8], at: usize, any_case: bool) -> Option<usize> {
    if text.get(at) != Some(&b'\'') {
        return None;
    }
    let fold = |byte: u8| {
        if any_case {
            byte.to_ascii_lowercase()
        } else {
            byte
        }
    };
    let first = fold(*text.get(at + 1)?);
    if matches!(first, b's' | b't' | b'm' | b'd') {
        return Some(2);
    }
    let second = fold(*text.get(at + 2)?);
    matches!((first, second), (b'r', b'e') | (b'v', b'e') | (b'l', b'l')).then_some(3)
}

/// The choices of the family of patterns that began with cl100k:
/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`.
pub(crate) struct Cl100k {
    /// Contractions are words of their own.
    pub contractions: bool,
    /// Numbers in one piece, at most.
    pub n_numbers: usize,
    /// Combining marks belong to words: `[\p{L}\p{M}]+`.
    pub marks: bool,
    /// Line breaks after punctuation belong to it: `[\r\n]*`; else punctuation contains none.
    pub line_breaks_after_punctuation: bool,
}

impl Cl100k {
    /// The pattern of Llama 3.
    pub(crate) const LLAMA3: Cl100k = Cl100k {
        contractions: true,
        n_numbers: 3,
        marks: false,
        line_breaks_after_punctuation: true,
    };
    /// The pattern of Qwen 2: numbers stand alone.
    pub(crate) const QWEN2: Cl100k = Cl100k {
        n_numbers: 1,
        ..Cl100k::LLAMA3
    };

    /// Hands the words of `text` to the sink.
    pub(crate) fn split(&self, text: &[u8], sink: &mut Sink<'_>) {
        let mut at = 0;
        while let Some(c) = char_at(text, at) {
            let end = self.word_end(text, at, c);
            sink(&text[at..end]);
            at = end;
        }
    }

    fn word_end(&self, text: &[u8], at: usize, c: Char) -> usize {
        if self.contractions
            && let Some(len) = contraction(text, at, true)
        {
            return at + len;
        }
        let letters = if self.marks { LETTER | MARK } else { LETTER };
        let class = c.class();
        if class & letters != 0 {
            return skip_in(text, at, letters);
        }
        if class & NUMBER != 0 {
            return numbers_end(text, at, self.n_numbers);
        }
        if !is_line_break(c) {
            let next = at + c.len;
            if char_at(text, next).is_some_and(|next| next.is(letters)) {
                return skip_in(text, next, letters);
            }
        }
        let (body, body_class) = after_space(text, at, c);
        if body_class & (SPACE | letters | NUMBER) == 0 {
            let end = skip_out(text, body, SPACE | letters | NUMBER);
            return if self.line_breaks_after_punctuation {
                skip_line_breaks(text, end)
            } else {
                end
            };
        }
        line_break_end(text, at).unwrap_or_else(|| space_end(text, at))
    }
}

fn skip_line_breaks(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b'\r' | b'\n')) {
        at += 1;
    }
    at
}

/// The choices of the family of case-aware patterns that began with o200k:
/// `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|…)?|…`.
pub(crate) struct O200k {
    /// A contraction may end a word.
    pub contractions: bool,
    /// Numbers in one piece, at most.
    pub n_numbers: usize,
    /// A slash, like a line break, belongs to the punctuation before it: `[\r\n/]*`.
    pub slashes: bool,
    /// Characters that words exclude and that form pieces of their own.
    pub apart: fn(u32) -> bool,
}

impl O200k {
    /// The pattern of GPT-4o.
    pub(crate) const GPT4O: O200k = O200k {
        contractions: true,
        n_numbers: 3,
        slashes: true,
        apart: |_| false,
    };

    /// Hands the words of `text` to the sink.
    pub(crate) fn split(&self, text: &[u8], sink: &mut Sink<'_>) {
        let mut at = 0;
        while let Some(c) = char_at(text, at) {
            let end = self.word_end(text, at, c);
            sink(&text[at..end]);
            at = end;
        }
    }

    fn word_end(&self, text: &[u8], at: usize, c: Char) -> usize {
        if (self.apart)(c.code) {
            return self.apart_end(text, at);
        }
        if let Some(end) = self.cased_word_end(text, at, c) {
            let len = if self.contractions {
                contraction(text, end, true)
            } else {
                None
            };
            return end + len.unwrap_or(0);
        }
        if c.is(NUMBER) {
            return numbers_end(text, at, self.n_numbers);
        }
        let (body, body_class) = after_space(text, at, c);
        if body_class & (SPACE | LETTER | NUMBER) == 0 {
            let mut end = skip_out(text, body, SPACE | LETTER | NUMBER);
            while matches!(text.get(end), Some(b'\r' | b'\n'))
                || (self.slashes && text.get(end) == Some(&b'/'))
            {
                end += 1;
            }
            return end;
        }
        line_break_end(text, at).unwrap_or_else(|| space_end(text, at))
    }

    fn apart_end(&self, text: &[u8], mut at: usize) -> usize {
        while let Some(c) = char_at(text, at) {
            if !(self.apart)(c.code) {
                break;
            }
            at += c.len;
        }
        at
    }

    /// `X?U*W+|X?U+W*`, where X is neither letter, number nor line break, U any letter or mark but lower
    /// case, W any but upper case. The order is the pattern's: both forms of the first alternative, with
    /// and without X, come before the second.
    fn cased_word_end(&self, text: &[u8], at: usize, c: Char) -> Option<usize> {
        let optional = !c.is(LETTER | NUMBER) && !is_line_break(c);
        let after = optional.then(|| self.cased_run(text, at + c.len));
        let here = self.cased_run(text, at);
        after
            .and_then(|run| run.lower)
            .or(here.lower)
            .or(after.and_then(|run| run.upper))
            .or(here.upper)
    }

    fn cased_run(&self, text: &[u8], at: usize) -> CasedRun {
        let mut end = at;
        // Where `U*W+` ends if no W follows the run of U and characters have to be given back to `W+`.
        let mut given_back = None;
        while let Some(c) = char_at(text, end) {
            let class = c.class();
            if class & (LETTER | MARK) == 0 || class & LOWER != 0 || (self.apart)(c.code) {
                break;
            }
            end += c.len;
            if class & UPPER == 0 {
                given_back = Some(end);
            }
        }
        let tail = self.skip_not_upper(text, end);
        CasedRun {
            lower: (tail > end).then_some(tail).or(given_back),
            upper: (end > at).then_some(tail),
        }
    }

    fn skip_not_upper(&self, text: &[u8], mut at: usize) -> usize {
        while let Some(c) = char_at(text, at) {
            let class = c.class();
            if class & (LETTER | MARK) == 0 || class & UPPER != 0 || (self.apart)(c.code) {
                break;
            }
            at += c.len;
        }
        at
    }
}

/// Where the two forms of a case-aware word end.
#[derive(Clone, Copy)]
struct CasedRun {
    /// `U*W+`.
    lower: Option<usize>,
    /// `U+W*`.
    upper: Option<usize>,
}

/// `[!-~ punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
/// the last stage of DeepSeek 3 and its kin. Numbers that no earlier stage took, and other characters,
/// form the pieces between matches.
pub(crate) fn mixed_punctuation(text: &[u8], sink: &mut Sink<'_>) {
    isolate(text, sink, mixed_punctuation_end);
}

fn mixed_punctuation_end(text: &[u8], at: usize, c: Char) -> Option<usize> {
    let next = at + c.len;
    let ascii = u8::try_from(c.code).unwrap_or(0);
    if ascii.is_ascii_punctuation() && text.get(next).is_some_and(u8::is_ascii_alphabetic) {
        let rest = &text[next..];
        let len = rest
            .iter()
            .take_while(|byte| byte.is_ascii_alphabetic())
            .count();
        return Some(next + len);
    }
    let class = c.class();
    let optional = class & (LETTER | PUNCTUATION | SYMBOL) == 0 && !is_line_break(c);
    if optional && char_at(text, next).is_some_and(|next| next.is(LETTER | MARK)) {
        return Some(skip_in(text, next, LETTER | MARK));
    }
    if class & (LETTER | MARK) != 0 {
        return Some(skip_in(text, at, LETTER | MARK));
    }
    let (body, body_class) = after_space(text, at, c);
    if body_class & (PUNCTUATION | SYMBOL) != 0 {
        return Some(skip_line_breaks(
            text,
            skip_in(text, body, PUNCTUATION | SYMBOL),
        ));
    }
    if class & SPACE != 0 {
        return Some(line_break_end(text, at).unwrap_or_else(|| space_end(text, at)));
    }
    None
}
