//! Which parts of a grammar become lexemes.
//!
//! Lexing takes the longest match. So where a lexeme may end and what follows could also go on as a lexeme that begins
//! alike, the text that ends there would be lost. Such lexemes are opened: their parts become lexemes of their own, down
//! to single characters, which are never greedy. What is compared are sets of characters, regardless of where in the
//! text the two stand, so more may be opened than must be, which costs time and no text.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use super::characters::Characters;
use super::parse::Rule;
use super::{Fault, Fragment};

/// Levels and parts that a lexeme may have.
const LEVELS_MAX: usize = 50;
const PARTS_MAX: usize = 5000;
/// Parts of a lexeme that may be empty: it is written with its first part not empty, and its second, and so on.
const OPTIONAL_PARTS_MAX: usize = 200;
/// More lexemes than this are not compared with each other.
const COMPARED_MAX: usize = 1000;
/// How often lexemes are opened and compared again before all of them are opened.
const ROUNDS_MAX: usize = 60;

/// Runs a step over all rules until it changes nothing, forth and back in turn, so that chains of rules take two rounds.
fn until_settled(n_rules: usize, mut step: impl FnMut(usize) -> bool) {
    let mut is_forth = true;
    loop {
        let mut changed = false;
        for index in 0..n_rules {
            changed |= step(if is_forth { index } else { n_rules - 1 - index });
        }
        if !changed {
            return;
        }
        is_forth = !is_forth;
    }
}

fn is_nullable(fragment: &Fragment, nullable: &[bool]) -> bool {
    match fragment {
        Fragment::Characters(_) | Fragment::Token { .. } => false,
        Fragment::Sequence(items) => items.iter().all(|item| is_nullable(item, nullable)),
        Fragment::Choice(items) => items.iter().any(|item| is_nullable(item, nullable)),
        Fragment::Repeat(item, min, _) => *min == 0 || is_nullable(item, nullable),
        Fragment::Rule(rule) => nullable[*rule],
    }
}

/// Which rules may stand for the empty text.
fn nullable_rules(rules: &[Rule]) -> Vec<bool> {
    let mut nullable = vec![false; rules.len()];
    until_settled(rules.len(), |rule| {
        let is_new = !nullable[rule] && is_nullable(&rules[rule].body, &nullable);
        nullable[rule] |= is_new;
        is_new
    });
    nullable
}

/// The rules that a fragment may begin with.
fn first_rules(fragment: &Fragment, nullable: &[bool], found: &mut Vec<usize>) {
    match fragment {
        Fragment::Characters(_) | Fragment::Token { .. } => {}
        Fragment::Rule(rule) => found.push(*rule),
        Fragment::Repeat(item, _, _) => first_rules(item, nullable, found),
        Fragment::Choice(items) => {
            let each = items.iter();
            each.for_each(|item| first_rules(item, nullable, found));
        }
        Fragment::Sequence(items) => {
            for item in items {
                first_rules(item, nullable, found);
                if !is_nullable(item, nullable) {
                    break;
                }
            }
        }
    }
}

/// Refuses a rule that begins with itself, also by way of others, as the reference does.
pub fn refuse_left_recursion(rules: &[Rule]) -> Result<(), Fault> {
    let nullable = nullable_rules(rules);
    let mut done = vec![false; rules.len()];
    for start in 0..rules.len() {
        // The rules from the start to where we are, and of each those that are still to be looked at.
        let mut path: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut on_path = HashSet::new();
        let mut next = Some(start).filter(|&start| !done[start]);
        loop {
            if let Some(rule) = next.take() {
                let mut first = Vec::new();
                first_rules(&rules[rule].body, &nullable, &mut first);
                on_path.insert(rule);
                path.push((rule, first));
            }
            let Some((rule, open)) = path.last_mut() else {
                break;
            };
            match open.pop() {
                Some(first) if on_path.contains(&first) => {
                    let Rule { name, at, .. } = &rules[first];
                    let message = format!("the rule `{name}` begins with itself (left recursion)");
                    return Err(Fault::at(*at, message));
                }
                Some(first) if done[first] => {}
                Some(first) => next = Some(first),
                None => {
                    done[*rule] = true;
                    on_path.remove(rule);
                    path.pop();
                }
            }
        }
    }
    Ok(())
}

/// What is known of a fragment without recursion.
#[derive(Clone, Default)]
struct Facts {
    /// Characters it may begin with.
    first: Characters,
    /// Characters that may stand behind its first.
    inner: Characters,
    /// Characters by which a whole text of it may go on to a longer one.
    after: Characters,
}

impl Facts {
    fn then(mut self, next: &Facts, is_empty: bool, is_next_empty: bool) -> Self {
        let is_ambiguous = self.after.meets(&next.first);
        self.inner.add(&next.inner);
        if !self.first.is_empty() {
            self.inner.add(&next.first);
        }
        if is_empty {
            self.first.add(&next.first);
        }
        if !is_next_empty {
            self.after = Characters::none();
        } else {
            self.after.add(&next.first);
        }
        self.after.add(&next.after);
        self.settled(is_ambiguous)
    }

    /// Where it is open how a text is divided, anything may follow.
    fn settled(mut self, is_ambiguous: bool) -> Self {
        if is_ambiguous {
            self.after = self.inner.clone();
        }
        self
    }
}

/// A lexeme: a fragment that is not empty.
struct Lexeme {
    fragment: Fragment,
    facts: Facts,
    /// The fragments it was made from, which may be empty.
    sources: Vec<Fragment>,
    /// Characters that may follow it.
    follow: Characters,
}

/// A part of a rule above the lexemes.
enum Node {
    Lexeme(usize),
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Repeat(Box<Node>, u32, Option<u32>),
    Rule(usize),
    Token { id: u32, is_negated: bool },
}

/// A grammar with its lexemes.
pub struct Lexemes<'a> {
    rules: &'a [Rule],
    nullable: Vec<bool>,
    /// Levels and parts of the rules that need no recursion.
    sizes: Vec<Option<(usize, usize)>>,
    opened: HashSet<Fragment>,
    /// Whether all lexemes are single characters.
    opens_all: bool,
    /// The rules above the lexemes, those that are reached from the root.
    bodies: HashMap<usize, Node>,
    lexemes: Vec<Lexeme>,
    numbers: HashMap<Fragment, usize>,
}

impl<'a> Lexemes<'a> {
    /// Finds the lexemes of a grammar.
    pub fn new(rules: &'a [Rule]) -> Self {
        let mut found = Lexemes {
            rules,
            nullable: nullable_rules(rules),
            sizes: vec![None; rules.len()],
            opened: HashSet::new(),
            opens_all: false,
            bodies: HashMap::new(),
            lexemes: Vec::new(),
            numbers: HashMap::new(),
        };
        until_settled(rules.len(), |rule| {
            let size = match found.sizes[rule] {
                Some(_) => None,
                None => found.size(&rules[rule].body),
            };
            found.sizes[rule] = found.sizes[rule].or(size);
            size.is_some()
        });
        for round in 0.. {
            found.build();
            let too_many = found.lexemes.len() > COMPARED_MAX || round > ROUNDS_MAX;
            if found.opens_all || !(too_many || found.open_greedy()) {
                break;
            }
            found.opens_all = too_many;
        }
        found
    }

    /// Levels and parts, where it may be a lexeme.
    fn size(&self, fragment: &Fragment) -> Option<(usize, usize)> {
        let (levels, parts) = match fragment {
            Fragment::Characters(_) => (0, 0),
            Fragment::Token { .. } => return None,
            Fragment::Rule(rule) => self.sizes[*rule]?,
            Fragment::Repeat(item, _, _) => self.size(item)?,
            Fragment::Sequence(items) | Fragment::Choice(items) => {
                let mut total = (0, 0);
                for item in items {
                    let (levels, parts) = self.size(item)?;
                    total = (levels.max(total.0), parts + total.1);
                }
                total
            }
        };
        let parts_max = match is_nullable(fragment, &self.nullable) {
            true => OPTIONAL_PARTS_MAX,
            false => PARTS_MAX,
        };
        Some((levels + 1, parts + 1)).filter(|size| size.0 <= LEVELS_MAX && size.1 <= parts_max)
    }

    /// What is left of a fragment without the empty text; nothing where that is all.
    fn not_empty(&self, fragment: &Fragment) -> Option<Fragment> {
        if !is_nullable(fragment, &self.nullable) {
            return Some(fragment.clone());
        }
        match fragment {
            Fragment::Sequence(items) => {
                let beginnings = items.iter().enumerate().filter_map(|(index, item)| {
                    let mut rest = vec![self.not_empty(item)?];
                    rest.extend_from_slice(&items[index + 1..]);
                    Some(Fragment::Sequence(rest))
                });
                Some(Fragment::Choice(beginnings.collect()))
            }
            Fragment::Choice(items) => {
                let items = items.iter().filter_map(|item| self.not_empty(item));
                Some(Fragment::Choice(items.collect()))
            }
            Fragment::Repeat(_, _, Some(0)) => None,
            Fragment::Repeat(item, _, max) => {
                let item = self.not_empty(item)?;
                Some(Fragment::repeat(item, 1, *max))
            }
            Fragment::Rule(rule) => self.not_empty(&self.rules[*rule].body),
            Fragment::Characters(_) | Fragment::Token { .. } => None,
        }
        .filter(|rest| !matches!(rest, Fragment::Choice(items) if items.is_empty()))
    }

    fn facts(&self, fragment: &Fragment) -> Facts {
        let nullable = |fragment: &Fragment| is_nullable(fragment, &self.nullable);
        match fragment {
            Fragment::Characters(characters) => Facts {
                first: characters.clone(),
                ..Facts::default()
            },
            // No lexeme has one.
            Fragment::Token { .. } => Facts::default(),
            Fragment::Rule(rule) => self.facts(&self.rules[*rule].body),
            Fragment::Sequence(items) => {
                let mut is_empty = true;
                items.iter().fold(Facts::default(), |facts, item| {
                    let facts = facts.then(&self.facts(item), is_empty, nullable(item));
                    is_empty &= nullable(item);
                    facts
                })
            }
            Fragment::Choice(items) => items.iter().fold(Facts::default(), |mut facts, item| {
                let other = self.facts(item);
                let is_ambiguous = facts.first.meets(&other.first);
                facts.first.add(&other.first);
                facts.inner.add(&other.inner);
                facts.after.add(&other.after);
                facts.settled(is_ambiguous)
            }),
            Fragment::Repeat(_, _, Some(0)) => Facts::default(),
            Fragment::Repeat(item, _, Some(1)) => self.facts(item),
            Fragment::Repeat(item, min, max) => {
                let mut facts = self.facts(item);
                let is_ambiguous = facts.after.meets(&facts.first);
                facts.inner.add(&facts.first.clone());
                if *max != Some(*min) || nullable(item) {
                    facts.after.add(&facts.first.clone());
                }
                facts.settled(is_ambiguous)
            }
        }
    }

    /// Whether a fragment may be a lexeme as it is.
    fn is_whole(&self, fragment: &Fragment) -> bool {
        let is_single = matches!(fragment, Fragment::Characters(_));
        is_single
            || (!self.opens_all && self.size(fragment).is_some() && !self.opened.contains(fragment))
    }

    fn build(&mut self) {
        self.bodies.clear();
        self.lexemes.clear();
        self.numbers.clear();
        let mut wanted = vec![0];
        while let Some(rule) = wanted.pop() {
            if !self.bodies.contains_key(&rule) {
                let body = match self.is_whole(&Fragment::Rule(rule)) {
                    true => self.lexeme(&Fragment::Rule(rule)),
                    false => self.node(&self.rules[rule].body, &mut wanted),
                };
                self.bodies.insert(rule, body);
            }
        }
    }

    fn node(&mut self, fragment: &Fragment, wanted: &mut Vec<usize>) -> Node {
        if self.is_whole(fragment) {
            return self.lexeme(fragment);
        }
        match fragment {
            Fragment::Characters(_) => self.lexeme(fragment),
            Fragment::Token { id, is_negated } => Node::Token {
                id: *id,
                is_negated: *is_negated,
            },
            Fragment::Rule(rule) => {
                wanted.push(*rule);
                Node::Rule(*rule)
            }
            Fragment::Repeat(_, _, Some(0)) => Node::Sequence(Vec::new()),
            Fragment::Repeat(item, min, max) => {
                Node::Repeat(Box::new(self.node(item, wanted)), *min, *max)
            }
            Fragment::Choice(items) => {
                let nodes = items.iter().map(|item| self.node(item, wanted));
                Node::Choice(nodes.collect())
            }
            Fragment::Sequence(items) => {
                let mut nodes = Vec::new();
                // Neighbours that may be lexemes are tried as one; an opened sequence has no such neighbours.
                let may_join = !self.opened.contains(fragment) && !self.opens_all;
                let is_whole = |item: &Fragment| may_join && self.size(item).is_some();
                let runs: Vec<&[Fragment]> =
                    items.chunk_by(|a, b| is_whole(a) && is_whole(b)).collect();
                for run in runs {
                    let joined = Fragment::Sequence(run.to_vec());
                    if run.len() > 1 && self.is_whole(&joined) {
                        nodes.push(self.lexeme(&joined));
                    } else {
                        nodes.extend(run.iter().map(|item| self.node(item, wanted)));
                    }
                }
                Node::Sequence(nodes)
            }
        }
    }

    /// The lexeme of a fragment, or none in its place where the fragment may be empty.
    fn lexeme(&mut self, source: &Fragment) -> Node {
        let Some(fragment) = self.not_empty(source) else {
            return Node::Sequence(Vec::new());
        };
        let next = self.lexemes.len();
        let number = *self.numbers.entry(fragment.clone()).or_insert(next);
        if number == next {
            self.lexemes.push(Lexeme {
                facts: self.facts(&fragment),
                fragment,
                sources: Vec::new(),
                follow: Characters::none(),
            });
        }
        self.lexemes[number].sources.push(source.clone());
        match is_nullable(source, &self.nullable) {
            true => Node::Choice(vec![Node::Sequence(Vec::new()), Node::Lexeme(number)]),
            false => Node::Lexeme(number),
        }
    }

    /// Opens the lexemes that are greedy for what others need; whether there was one.
    fn open_greedy(&mut self) -> bool {
        self.find_follow();
        let mut greedy = Vec::new();
        for (index, lexeme) in self.lexemes.iter().enumerate() {
            let is_greedy_for = |(other_index, other): (usize, &Lexeme)| {
                let goes_on = match index == other_index {
                    true => &lexeme.facts.after,
                    false => &lexeme.facts.inner,
                };
                goes_on.meets(&other.follow) && lexeme.facts.first.meets(&other.facts.first)
            };
            let is_single = matches!(lexeme.fragment, Fragment::Characters(_));
            if !is_single && self.lexemes.iter().enumerate().any(is_greedy_for) {
                greedy.extend_from_slice(&lexeme.sources);
            }
        }
        let found = !greedy.is_empty();
        self.opened.extend(greedy);
        found
    }

    fn is_node_nullable(&self, node: &Node) -> bool {
        match node {
            Node::Lexeme(_) | Node::Token { .. } => false,
            Node::Sequence(nodes) => nodes.iter().all(|node| self.is_node_nullable(node)),
            Node::Choice(nodes) => nodes.iter().any(|node| self.is_node_nullable(node)),
            Node::Repeat(node, min, _) => *min == 0 || self.is_node_nullable(node),
            Node::Rule(rule) => self.nullable[*rule],
        }
    }

    fn node_first(&self, node: &Node, first: &[Characters]) -> Characters {
        let mut found = Characters::none();
        match node {
            Node::Lexeme(number) => found.add(&self.lexemes[*number].facts.first),
            Node::Token { .. } => {}
            Node::Rule(rule) => found.add(&first[*rule]),
            Node::Repeat(node, _, _) => found = self.node_first(node, first),
            Node::Choice(nodes) => {
                let each = nodes.iter().map(|node| self.node_first(node, first));
                each.for_each(|first| found.add(&first));
            }
            Node::Sequence(nodes) => {
                for node in nodes {
                    found.add(&self.node_first(node, first));
                    if !self.is_node_nullable(node) {
                        break;
                    }
                }
            }
        }
        found
    }

    /// Finds the characters that may follow each lexeme.
    fn find_follow(&mut self) {
        let n_rules = self.rules.len();
        let mut first = vec![Characters::none(); n_rules];
        until_settled(n_rules, |rule| {
            let body = self.bodies.get(&rule);
            let found = body.map(|body| self.node_first(body, &first));
            let found = found.unwrap_or_default();
            let is_new = found != first[rule];
            first[rule] = found;
            is_new
        });
        let mut follow = Follow {
            grammar: self,
            first,
            rules: vec![Characters::none(); n_rules],
            lexemes: vec![Characters::none(); self.lexemes.len()],
        };
        until_settled(n_rules, |rule| {
            let behind = follow.rules[rule].clone();
            let body = follow.grammar.bodies.get(&rule);
            body.is_some_and(|body| follow.visit(body, &behind))
        });
        let found = follow.lexemes;
        for (lexeme, follow) in self.lexemes.iter_mut().zip(found) {
            lexeme.follow = follow;
        }
    }

    /// The grammar in Lark.
    pub fn lark(&self) -> String {
        let mut text = String::from("start: r0\n");
        let mut rules: Vec<_> = self.bodies.iter().collect();
        rules.sort_unstable_by_key(|(rule, _)| **rule);
        for (rule, body) in rules {
            // Writing to a string cannot fail.
            let _ = write!(text, "r{rule}: ");
            self.write_node(body, &mut text);
            text.push('\n');
        }
        text
    }

    fn write_node(&self, node: &Node, text: &mut String) {
        let mut list = |nodes: &[Node], between: &str| {
            text.push('(');
            for (index, node) in nodes.iter().enumerate() {
                text.push_str(if index > 0 { between } else { "" });
                self.write_node(node, text);
            }
            text.push(')');
        };
        match node {
            Node::Sequence(nodes) if nodes.is_empty() => text.push_str("\"\""),
            Node::Sequence(nodes) => list(nodes, " "),
            Node::Choice(nodes) => list(nodes, " | "),
            Node::Lexeme(number) => {
                text.push('/');
                self.write_regex(&self.lexemes[*number].fragment, text);
                text.push('/');
            }
            Node::Repeat(node, min, max) => {
                text.push('(');
                self.write_node(node, text);
                text.push(')');
                write_counts(*min, *max, text);
            }
            Node::Rule(rule) => {
                let _ = write!(text, "r{rule}");
            }
            Node::Token { id, is_negated } => {
                let sign = if *is_negated { "^" } else { "" };
                let _ = write!(text, "<[{sign}{id}]>");
            }
        }
    }

    fn write_regex(&self, fragment: &Fragment, regex: &mut String) {
        match fragment {
            Fragment::Characters(characters) => characters.write(regex),
            Fragment::Rule(rule) => self.write_regex(&self.rules[*rule].body, regex),
            Fragment::Sequence(items) | Fragment::Choice(items) => {
                let between = matches!(fragment, Fragment::Choice(_));
                regex.push_str("(?:");
                for (index, item) in items.iter().enumerate() {
                    regex.push_str(if between && index > 0 { "|" } else { "" });
                    self.write_regex(item, regex);
                }
                regex.push(')');
            }
            Fragment::Repeat(item, min, max) => {
                regex.push_str("(?:");
                self.write_regex(item, regex);
                regex.push(')');
                write_counts(*min, *max, regex);
            }
            // No lexeme has one.
            Fragment::Token { .. } => {}
        }
    }
}

/// The counts of a repetition, which Lark and regular expressions write alike.
fn write_counts(min: u32, max: Option<u32>, text: &mut String) {
    let _ = match (min, max) {
        (0, None) => write!(text, "*"),
        (1, None) => write!(text, "+"),
        (0, Some(1)) => write!(text, "?"),
        (min, None) => write!(text, "{{{min},}}"),
        (min, Some(max)) => write!(text, "{{{min},{max}}}"),
    };
}

/// What may follow rules and lexemes, as far as it is known.
struct Follow<'a> {
    grammar: &'a Lexemes<'a>,
    first: Vec<Characters>,
    rules: Vec<Characters>,
    lexemes: Vec<Characters>,
}

impl Follow<'_> {
    /// Notes what may follow the parts of a node that these characters may follow; whether a rule has new ones.
    fn visit(&mut self, node: &Node, behind: &Characters) -> bool {
        match node {
            Node::Lexeme(number) => {
                self.lexemes[*number].add(behind);
                false
            }
            Node::Token { .. } => false,
            Node::Rule(rule) => {
                let before = self.rules[*rule].clone();
                self.rules[*rule].add(behind);
                self.rules[*rule] != before
            }
            Node::Choice(nodes) => {
                let mut is_new = false;
                for node in nodes {
                    is_new |= self.visit(node, behind);
                }
                is_new
            }
            Node::Repeat(node, _, max) => {
                let mut behind = behind.clone();
                if *max != Some(1) {
                    behind.add(&self.grammar.node_first(node, &self.first));
                }
                self.visit(node, &behind)
            }
            Node::Sequence(nodes) => {
                let mut behind = behind.clone();
                let mut is_new = false;
                for node in nodes.iter().rev() {
                    is_new |= self.visit(node, &behind);
                    let mut before = self.grammar.node_first(node, &self.first);
                    if self.grammar.is_node_nullable(node) {
                        before.add(&behind);
                    }
                    behind = before;
                }
                is_new
            }
        }
    }
}
