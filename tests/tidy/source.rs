//! A Rust file as the rules see it: code with comments and literals blanked out, comments by line, and which lines
//! are test code.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// One Rust file.
pub struct Source {
    /// Path relative to the workspace root, with `/`.
    pub path: String,
    /// The text as it stands.
    pub text: String,
    /// The text; comments and the insides of literals are spaces, so that braces and words count.
    pub code: String,
    /// The comment text of every line, empty where it has none.
    pub comments: Vec<String>,
    /// Every literal with its place in `code`, without quotes.
    pub literals: Vec<(usize, String)>,
    /// Byte ranges of `code` under `#[cfg(test)]`; the whole file for test files.
    test_code: Vec<Range<usize>>,
}

/// A function with a body.
pub struct Function {
    /// Its name.
    pub name: String,
    /// Line of `fn`, from 1.
    pub line: usize,
    /// Lines from `fn` to the closing brace.
    pub n_lines: usize,
    /// Bytes between its braces.
    pub body: Range<usize>,
    /// Whether it is test code.
    pub is_test: bool,
}

impl Source {
    /// Reads the text of a file.
    pub fn new(path: &str, text: &str) -> Self {
        let (code, comments, literals) = blank(text);
        let is_test_file = path
            .split('/')
            .any(|part| matches!(part, "tests" | "tests.rs" | "examples" | "benches" | "fuzz"));
        let test_code = if is_test_file {
            std::iter::once(0..code.len()).collect()
        } else {
            test_modules(&code)
        };
        Source {
            path: path.into(),
            text: text.into(),
            code,
            comments,
            literals,
            test_code,
        }
    }

    /// Whether the byte at `at` is test code.
    pub fn is_test(&self, at: usize) -> bool {
        self.test_code.iter().any(|range| range.contains(&at))
    }

    /// Line of a byte, from 1.
    pub fn line(&self, at: usize) -> usize {
        self.code[..at].matches('\n').count() + 1
    }

    /// Start of every occurrence of `word` that is a word of its own.
    pub fn words(&self, word: &str) -> Vec<usize> {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let found = self.code.match_indices(word).filter(|(at, _)| {
            let before = self.code[..*at].chars().next_back();
            let after = self.code[at + word.len()..].chars().next();
            let open = word.ends_with(is_word);
            !(before.is_some_and(is_word) && word.starts_with(is_word)
                || open && after.is_some_and(is_word))
        });
        found.map(|(at, _)| at).collect()
    }

    /// Whether a comment containing `text` stands on this line or directly above it: on the lines before, back to the
    /// end of the statement before (at most `reach` lines).
    pub fn has_comment(&self, line: usize, text: &str, reach: usize) -> bool {
        let lines: Vec<&str> = self.code.lines().collect();
        for back in 0..=reach.min(line - 1) {
            let index = line - 1 - back;
            // Documentation says what an item is, not why this line holds.
            let comment = self.comments[index].trim_start();
            if comment.contains(text) && !comment.starts_with("///") && !comment.starts_with("//!")
            {
                return true;
            }
            let code = lines[index].trim_end();
            if back > 0 && (code.ends_with(';') || code.trim() == "}") {
                return false;
            }
        }
        false
    }

    /// Every function with a body.
    pub fn functions(&self) -> Vec<Function> {
        let mut functions = Vec::new();
        for at in self.words("fn") {
            let after = self.code[at + 2..].trim_start();
            let name: String = after
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            // `fn(…)` without a name is a type.
            let body = body_start(&self.code, at).filter(|_| !name.is_empty());
            let braces = body.and_then(|open| Some((open, matching_brace(&self.code, open)?)));
            let Some((open, close)) = braces else {
                continue;
            };
            let n_lines = self.line(close) - self.line(at) + 1;
            functions.push(Function {
                is_test: self.is_test(at),
                name,
                line: self.line(at),
                n_lines,
                body: open + 1..close,
            });
        }
        functions
    }
}

/// All Rust files of the workspace.
pub fn sources(root: &Path) -> Vec<Source> {
    let mut paths = Vec::new();
    for folder in ["src", "crates", "tests", "benches", "fuzz"] {
        collect(&root.join(folder), &mut paths);
    }
    paths.sort();
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).expect("a source file is readable UTF-8");
        let relative = path
            .strip_prefix(root)
            .expect("the path was made from the root");
        Source::new(&relative.to_string_lossy().replace('\\', "/"), &text)
    };
    paths.iter().map(read).collect()
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
}

/// The text with comments and literals blanked, the comments by line, and the literals by place.
fn blank(text: &str) -> (String, Vec<String>, Vec<(usize, String)>) {
    let mut code = String::with_capacity(text.len());
    let mut comments = vec![String::new(); text.lines().count() + 1];
    let mut literals = Vec::new();
    let mut line = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (n, kind) = token(rest, code.chars().next_back());
        let (piece, after) = rest.split_at(n);
        if matches!(kind, Kind::Literal) {
            let inner = piece
                .trim_start_matches(['b', 'c', 'r', '#'])
                .trim_end_matches('#');
            let inner = inner
                .strip_prefix('"')
                .and_then(|inner| inner.strip_suffix('"'));
            literals.extend(inner.map(|inner| (code.len(), inner.to_owned())));
        }
        for c in piece.chars() {
            if c == '\n' {
                line += 1;
                code.push('\n');
            } else {
                if matches!(kind, Kind::Comment) {
                    comments[line].push(c);
                }
                match kind {
                    Kind::Code => code.push(c),
                    Kind::Comment | Kind::Literal => code.push_str(&" ".repeat(c.len_utf8())),
                }
            }
        }
        rest = after;
    }
    (code, comments, literals)
}

enum Kind {
    /// One character of code.
    Code,
    Comment,
    Literal,
}

/// Length and kind of the token that `rest` starts with; code comes one character at a time.
fn token(rest: &str, before: Option<char>) -> (usize, Kind) {
    let first = rest.chars().next().map_or(1, char::len_utf8);
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), Kind::Comment);
    }
    if rest.starts_with("/*") {
        return (block_comment(rest), Kind::Comment);
    }
    if rest.starts_with('"') {
        return (string(rest, 1), Kind::Literal);
    }
    if !in_word {
        let prefix = ["br", "cr", "r"]
            .into_iter()
            .find(|prefix| rest.starts_with(prefix));
        if let Some(n) = prefix.and_then(|prefix| raw_string(rest, prefix.len())) {
            return (n, Kind::Literal);
        }
    }
    match character(rest) {
        Some(n) => (n, Kind::Literal),
        None => (first, Kind::Code),
    }
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let bytes = rest.as_bytes();
    let mut at = 0;
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn string(rest: &str, start: usize) -> usize {
    let bytes = rest.as_bytes();
    let mut at = start;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_string(rest: &str, prefix: usize) -> Option<usize> {
    let hashes = rest[prefix..]
        .bytes()
        .take_while(|byte| *byte == b'#')
        .count();
    let body = prefix + hashes + 1;
    if rest.as_bytes().get(prefix + hashes) != Some(&b'"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    Some(
        rest[body..]
            .find(&end)
            .map_or(rest.len(), |at| body + at + end.len()),
    )
}

/// Length of a character literal; lifetimes are code.
fn character(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('\'')?;
    if let Some(escaped) = inner.strip_prefix('\\') {
        let skip = escaped.chars().next()?.len_utf8();
        return Some(2 + skip + escaped[skip..].find('\'')? + 1);
    }
    let c = inner.chars().next()?;
    inner[c.len_utf8()..]
        .starts_with('\'')
        .then_some(2 + c.len_utf8())
}

fn test_modules(code: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    for (at, attribute) in code.match_indices("#[cfg(test)]") {
        let start = at + attribute.len();
        let end = match code[start..].find(['{', ';']) {
            Some(n) if code.as_bytes()[start + n] == b'{' => matching_brace(code, start + n),
            Some(n) => Some(start + n),
            None => None,
        };
        ranges.push(at..end.unwrap_or(code.len()));
    }
    ranges
}

/// The `{` of the body of the function whose `fn` stands at `at`; none for a declaration without body.
fn body_start(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0;
    for (offset, byte) in code[at..].bytes().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(at + offset),
            b';' if depth == 0 => return None,
            _ if depth < 0 => return None,
            _ => {}
        }
    }
    None
}

fn matching_brace(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0;
    for (offset, byte) in code[open..].bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return Some(open + offset);
        }
    }
    None
}
