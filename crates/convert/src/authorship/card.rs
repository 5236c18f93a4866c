//! The front matter of a model card: the part of YAML that such cards use.
//!
//! Scalars (plain, quoted, block), lists and maps in block or flow form, comments. Anchors, tags and multi-line plain
//! scalars are not used there; what cannot be read is skipped, for a card must never stop a conversion.

/// A value of the front matter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Yaml {
    /// `null`, `~` or nothing.
    Null,
    /// Any scalar, as text.
    Text(String),
    /// A list.
    List(Vec<Yaml>),
    /// A map, in order.
    Map(Vec<(String, Yaml)>),
}

/// Deepest nesting that is followed.
const DEPTH_MAX: usize = 32;

impl Yaml {
    /// A value of a map.
    pub fn get(&self, key: &str) -> Option<&Yaml> {
        match self {
            Yaml::Map(entries) => entries
                .iter()
                .rev()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match self {
            Yaml::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The texts of a list, or of a scalar alone.
    pub fn texts(&self) -> Vec<String> {
        match self {
            Yaml::Text(text) => vec![text.clone()],
            Yaml::List(items) => items
                .iter()
                .filter_map(|item| item.text().map(str::to_owned))
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// The front matter of a card: what stands between two lines of three dashes at its start.
pub(super) fn front_matter(card: &str) -> Option<Yaml> {
    let mut lines = card.lines();
    if lines.next()?.trim_end_matches('\u{feff}') != "---" {
        return None;
    }
    let lines: Vec<Line> = lines
        .take_while(|line| *line != "---")
        .filter_map(Line::new)
        .collect();
    let mut reader = Reader {
        lines,
        next: 0,
        all_close: true,
    };
    let map = reader.block(0, 0);
    matches!(map, Yaml::Map(_)).then_some(map)
}

/// A line with something on it.
struct Line {
    indent: usize,
    text: String,
}

impl Line {
    fn new(line: &str) -> Option<Self> {
        let line = line.replace('\t', "  ");
        let text = line.trim_start_matches(' ');
        (!text.trim().is_empty() && !text.starts_with('#')).then(|| Line {
            indent: line.len() - text.len(),
            text: text.trim_end().to_owned(),
        })
    }
}

struct Reader {
    lines: Vec<Line>,
    next: usize,
    /// Whether every bracket so far was closed. After one that was not, lists are looked for on single lines only, so that
    /// no card is searched to its end again and again.
    all_close: bool,
}

impl Reader {
    fn peek(&self) -> Option<&Line> {
        self.lines.get(self.next)
    }

    /// A list or map whose lines are indented by at least `indent`.
    fn block(&mut self, indent: usize, depth: usize) -> Yaml {
        let Some(first) = self.peek().filter(|line| line.indent >= indent) else {
            return Yaml::Null;
        };
        let indent = first.indent;
        if depth > DEPTH_MAX {
            self.skip_deeper(indent);
            return Yaml::Null;
        }
        if is_item(&first.text) {
            self.list(indent, depth)
        } else {
            self.map(indent, depth)
        }
    }

    fn list(&mut self, indent: usize, depth: usize) -> Yaml {
        let mut items = Vec::new();
        while let Some(line) = self.lines.get_mut(self.next) {
            if line.indent != indent || !is_item(&line.text) {
                break;
            }
            // What follows the dash is a block of its own that begins where its text begins.
            let rest = line.text[1..].trim_start();
            let inner = indent + line.text.len() - rest.len();
            let rest = rest.to_owned();
            items.push(if rest.is_empty() {
                self.next += 1;
                self.block(indent + 1, depth + 1)
            } else if is_item(&rest) || split_key(&rest).is_some() {
                *line = Line {
                    indent: inner,
                    text: rest,
                };
                self.block(inner, depth + 1)
            } else {
                self.next += 1;
                self.scalar(&rest, indent)
            });
        }
        Yaml::List(items)
    }

    fn map(&mut self, indent: usize, depth: usize) -> Yaml {
        let mut entries = Vec::new();
        while let Some(line) = self.peek().filter(|line| line.indent >= indent) {
            let key = split_key(&line.text).filter(|_| line.indent == indent);
            let Some((key, rest)) = key.map(|(key, rest)| (key, rest.to_owned())) else {
                // Nothing that can be read: go on with the next line.
                self.next += 1;
                continue;
            };
            self.next += 1;
            let value = if rest.is_empty() {
                // A list may stand at the indent of its key.
                let at_same = self
                    .peek()
                    .is_some_and(|next| next.indent == indent && is_item(&next.text));
                self.block(if at_same { indent } else { indent + 1 }, depth + 1)
            } else {
                self.scalar(&rest, indent)
            };
            entries.push((key, value));
        }
        Yaml::Map(entries)
    }

    /// A value that begins on the line of its key or dash, which is indented by `indent`.
    fn scalar(&mut self, text: &str, indent: usize) -> Yaml {
        if text.starts_with(['|', '>']) {
            let folded = text.starts_with('>');
            let mut lines = Vec::new();
            while let Some(line) = self.peek().filter(|line| line.indent > indent) {
                lines.push(line.text.clone());
                self.next += 1;
            }
            return Yaml::Text(lines.join(if folded { " " } else { "\n" }));
        }
        if text.starts_with('[') {
            let list = self.flow_list(text);
            self.skip_deeper(indent + 1);
            return list;
        }
        self.skip_deeper(indent + 1);
        flow_scalar(text.trim())
    }

    /// A list in brackets, which begins with `text` and may end on a later line.
    fn flow_list(&mut self, text: &str) -> Yaml {
        let mut scan = FlowScan::default();
        let mut closed = scan.line(text);
        let mut n_lines = 0;
        while !closed && self.all_close {
            let Some(line) = self.lines.get(self.next + n_lines) else {
                self.all_close = false;
                break;
            };
            closed = scan.line(&line.text);
            n_lines += 1;
        }
        if closed {
            self.next += n_lines;
        } else {
            scan = FlowScan::default();
            scan.line(text);
            scan.end_item();
        }
        Yaml::List(scan.items.iter().map(|item| flow_scalar(item)).collect())
    }

    fn skip_deeper(&mut self, indent: usize) {
        while self.peek().is_some_and(|line| line.indent >= indent) {
            self.next += 1;
        }
    }
}

fn is_item(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

/// `key: rest`, where the line is one.
fn split_key(text: &str) -> Option<(String, &str)> {
    if text.starts_with(['[', '{', '|', '>']) {
        return None;
    }
    let (key, rest) = match text.chars().next()? {
        quote @ ('"' | '\'') => {
            let end = text[1..].find(quote)? + 1;
            (&text[1..end], text[end + 1..].strip_prefix(':')?)
        }
        _ => {
            let colon = text
                .find(": ")
                .or_else(|| text.strip_suffix(':').map(str::len))?;
            (&text[..colon], &text[colon + 1..])
        }
    };
    let rest = rest.trim_start();
    Some((
        key.trim().to_owned(),
        if rest.starts_with('#') { "" } else { rest },
    ))
}

/// Reads a list in brackets, line by line. Lists and maps inside it are items of their own text.
#[derive(Default)]
struct FlowScan {
    items: Vec<String>,
    item: String,
    /// Brackets and braces that are open.
    depth: usize,
    quote: Option<char>,
}

impl FlowScan {
    /// Whether the list ends on this line.
    fn line(&mut self, line: &str) -> bool {
        let mut before = ' ';
        for char in line.chars() {
            match (self.quote, char) {
                (Some(open), _) => {
                    let escaped = open == '"' && before == '\\';
                    if open == char && !escaped {
                        self.quote = None;
                    }
                    self.item.push(char);
                    // What is escaped escapes nothing.
                    before = if escaped { ' ' } else { char };
                    continue;
                }
                (None, '#') if before == ' ' => break,
                // Elsewhere it is an apostrophe; after another one, half of a quoted one.
                (None, '"' | '\'')
                    if self.item.trim().is_empty()
                        || self.depth > 1
                        || (before == '\'' && char == before) =>
                {
                    self.quote = Some(char);
                    self.item.push(char);
                }
                (None, '[' | '{') => {
                    self.depth += 1;
                    if self.depth > 1 {
                        self.item.push(char);
                    }
                }
                (None, ']') if self.depth <= 1 => {
                    self.end_item();
                    return true;
                }
                (None, ']' | '}') if self.depth > 1 => {
                    self.depth -= 1;
                    self.item.push(char);
                }
                (None, ',') if self.depth == 1 => self.end_item(),
                (None, char) => self.item.push(char),
            }
            before = char;
        }
        self.item.push(' ');
        false
    }

    fn end_item(&mut self) {
        let item = self.item.trim();
        if !item.is_empty() {
            self.items.push(item.to_owned());
        }
        self.item.clear();
    }
}

fn flow_scalar(text: &str) -> Yaml {
    if let Some(inner) = text.strip_prefix('"') {
        return Yaml::Text(unescape(inner));
    }
    if let Some(inner) = text.strip_prefix('\'') {
        let end = inner
            .replace("''", "\u{0}\u{0}")
            .find('\'')
            .unwrap_or(inner.len());
        return Yaml::Text(inner[..end].replace("''", "'"));
    }
    let text = text.split_once(" #").map_or(text, |(text, _)| text).trim();
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Yaml::Null,
        text => Yaml::Text(text.to_owned()),
    }
}

/// The text up to the closing quote.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '"' => break,
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some(other) => out.push(other),
                None => break,
            },
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(card: &str, key: &str) -> Vec<String> {
        front_matter(card)
            .unwrap()
            .get(key)
            .map(Yaml::texts)
            .unwrap_or_default()
    }

    #[test]
    fn a_card_as_they_are_written() {
        let card = "---\nlicense: apache-2.0 # as ever\nlanguage:\n- en\n- \"no\"\ntags: [a, 'b, c', \"d\"]\n\
            base_model:\n  - org/One\n  - org/Two\nname: 'It''s'\nempty:\nmodel-index:\n- name: x\n  results:\n  - task:\n\
            \x20     type: text\n    metrics: [1, 2]\n- name: y\ndescription: >\n  one\n  two\nlast: \"a \\\"b\\\"\"\n---\nlicense: mit\n";
        assert_eq!(texts(card, "license"), ["apache-2.0"]);
        assert_eq!(texts(card, "language"), ["en", "no"]);
        assert_eq!(texts(card, "tags"), ["a", "b, c", "d"]);
        assert_eq!(texts(card, "base_model"), ["org/One", "org/Two"]);
        assert_eq!(texts(card, "name"), ["It's"]);
        assert_eq!(texts(card, "description"), ["one two"]);
        assert_eq!(texts(card, "last"), ["a \"b\""]);
        let map = front_matter(card).unwrap();
        assert_eq!(map.get("empty"), Some(&Yaml::Null));
        let Some(Yaml::List(index)) = map.get("model-index") else {
            panic!("{map:?}")
        };
        assert_eq!(index.len(), 2);
        assert_eq!(index[1].get("name"), Some(&Yaml::Text("y".to_owned())));
    }

    #[test]
    fn a_list_in_brackets_may_take_several_lines() {
        let card = "---\ntags: [\n  one, # the first\n  'two, and ] ''more'', yes',\n  \"t\\\"h]ree\",\nit's,\n  [a, b]\n]\n\
            language: [en] # not [de]\nlast: [\n  never closed,\nlicense: mit\nmore: [x,\n  y]\n---\n";
        let all = [
            "one",
            "two, and ] 'more', yes",
            "t\"h]ree",
            "it's",
            "[a, b]",
        ];
        assert_eq!(texts(card, "tags"), all);
        assert_eq!(texts(card, "language"), ["en"]);
        assert_eq!(texts(card, "license"), ["mit"]);
        assert_eq!(texts(card, "more"), ["x"]);
    }

    #[test]
    fn brackets_that_are_never_closed_are_looked_for_once() {
        let card = format!("---\nlicense: mit\n{}---\n", "k: [\n".repeat(200_000));
        let begin = std::time::Instant::now();
        assert_eq!(texts(&card, "license"), ["mit"]);
        assert!(begin.elapsed() < std::time::Duration::from_secs(5));
    }

    #[test]
    fn what_is_no_front_matter_is_none() {
        assert_eq!(front_matter(""), None);
        assert_eq!(front_matter("# Title\n---\nlicense: mit\n---\n"), None);
        assert_eq!(front_matter("---\n---\n"), None);
        assert_eq!(front_matter("---\n- a\n---\n"), None);
    }

    #[test]
    fn hostile_cards_end() {
        let deep: String = (0..5000)
            .map(|depth| format!("{}a:\n", " ".repeat(depth)))
            .collect();
        front_matter(&format!("---\n{deep}---\n")).unwrap();
        let dashes = format!("---\nk:\n {}x\n---\n", "- ".repeat(5000));
        front_matter(&dashes).unwrap();
        for odd in [
            "a: '",
            "a: \"\\",
            "a: [",
            "'",
            "\"",
            "- :",
            ":",
            ": x",
            "a: |",
            "a:\n   b\n  c: d",
            "a: ''''",
        ] {
            front_matter(&format!("---\n{odd}\n---\n"));
        }
    }
}
