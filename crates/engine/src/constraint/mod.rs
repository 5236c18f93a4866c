//! Answers held to a grammar: which tokens may come next, so that the text keeps to it.
//!
//! A [`ConstraintSource`] is compiled once for a vocabulary into a [`Constraint`], from which each answer starts. At
//! every step the tokens that keep to it are found by a walk through the tree of the vocabulary's bytes; the samplers
//! see no others. The end of generation is allowed where the grammar may end. Control tokens are never a grammar's text.

mod closed;
mod gbnf;
mod place;
mod schema;
mod state;
mod vocabulary;

use std::sync::Arc;

use gristmill_tokenizer::{EncodeOptions, Tokenizer};
use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::toktrie::SimpleVob;
use llguidance::{Matcher, ParserFactory, panic_utils};

use crate::error::EngineError;
pub(crate) use state::ConstraintState;

/// What an answer is held to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstraintSource {
    /// A grammar in the reference's notation, whose rule `root` is the text.
    Gbnf(String),
    /// A JSON Schema, by the rules of draft 2020-12 or the one it names. As for the reference, `{}` is any object, and an object
    /// that names its properties has no others where it does not speak of `additionalProperties`; see
    /// [`ConstraintCompiler::allow_unnamed_properties`].
    JsonSchema(String),
    /// A regular expression that the whole text matches.
    Regex(String),
    /// A grammar in Lark, as `llguidance` understands it, whose rule `start` is the text.
    Lark(String),
}

impl ConstraintSource {
    /// A GBNF grammar; as for the reference, one in Lark where the text begins with `%llguidance`.
    pub fn grammar(text: String) -> Self {
        match text.starts_with("%llguidance") {
            true => ConstraintSource::Lark(text),
            false => ConstraintSource::Gbnf(text),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            ConstraintSource::Gbnf(_) => "GBNF grammar",
            ConstraintSource::JsonSchema(_) => "JSON Schema",
            ConstraintSource::Regex(_) => "regular expression",
            ConstraintSource::Lark(_) => "Lark grammar",
        }
    }
}

/// White space between the tokens of JSON, as the reference has it: a model that would go on with it for ever cannot.
const JSON_SPACE: &str = r" |\n[ \t]{0,20}";
/// Longer sources are refused.
const SOURCE_BYTES_MAX: usize = 1 << 20;
/// Rules of a Lark grammar, and parentheses within each other: the parser calls itself for each.
const LARK_RULES_MAX: usize = 20_000;
const LARK_DEPTH_MAX: usize = 1000;
/// Room for these calls.
const STACK_BYTES: usize = 256 << 20;

/// Compiles constraints for one vocabulary.
pub struct ConstraintCompiler {
    tokenizer: Arc<Tokenizer>,
    factory: ParserFactory,
    has_unnamed_properties: bool,
}

/// A compiled constraint, from which any number of answers may start.
#[derive(Clone)]
pub struct Constraint {
    matcher: Matcher,
}

impl std::fmt::Debug for Constraint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Constraint").finish_non_exhaustive()
    }
}

impl Constraint {
    /// Whether these tokens are a whole text: each is allowed at its place, and the end behind the last.
    ///
    /// # Errors
    /// A constraint that becomes too large on the way.
    pub fn is_text(&self, ids: &[u32]) -> Result<bool, EngineError> {
        let mut matcher = self.matcher.deep_clone();
        for &id in ids {
            if matcher.is_stopped() || !allows(&allowed_tokens(&mut matcher)?, id) {
                return Ok(false);
            }
            let taken = matcher.consume_tokens(&[id]);
            taken.map_err(|error| stuck(&error.to_string()))?;
        }
        if matcher.is_stopped() {
            return Ok(!matcher.is_error());
        }
        let is_whole = matcher.is_accepting();
        is_whole.map_err(|error| stuck(&error.to_string()))
    }
}

/// The tokens that may come next.
fn allowed_tokens(matcher: &mut Matcher) -> Result<SimpleVob, EngineError> {
    let allowed = matcher.compute_mask_or_eos();
    allowed.map_err(|error| stuck(&error.to_string()))
}

/// Whether a token is among these; one outside the vocabulary never is.
fn allows(allowed: &SimpleVob, id: u32) -> bool {
    (id as usize) < allowed.len() && allowed.is_allowed(id)
}

fn stuck(error: &str) -> EngineError {
    EngineError::ConstraintStuck {
        message: first_line(error),
    }
}

impl ConstraintCompiler {
    /// Builds the tree of the vocabulary's bytes.
    ///
    /// # Errors
    /// A vocabulary that is too large for it.
    pub fn new(tokenizer: &Arc<Tokenizer>) -> Result<Self, EngineError> {
        let factory = panic_utils::catch_unwind(std::panic::AssertUnwindSafe(|| {
            vocabulary::environment(tokenizer)
                .map(|environment| ParserFactory::new_simple(&environment))
                .transpose()
        }));
        let mut factory = factory
            .ok()
            .flatten()
            .ok_or(EngineError::ConstraintVocabulary {
                n_vocab: tokenizer.n_tokens(),
            })?;
        factory.quiet();
        *factory.limits_mut() = ParserLimits {
            verbose_errors: false,
            ..ParserLimits::default()
        };
        Ok(ConstraintCompiler {
            tokenizer: Arc::clone(tokenizer),
            factory,
            has_unnamed_properties: false,
        })
    }

    /// Whether objects of a JSON Schema may have properties that it does not name where `additionalProperties` is absent, as the
    /// drafts say and the reference does not: not so, unless it is set.
    pub fn allow_unnamed_properties(&mut self, allowed: bool) {
        self.has_unnamed_properties = allowed;
    }

    /// Compiles a constraint.
    ///
    /// # Errors
    /// What cannot be read, with its place where that is known; what is not supported, by name; what is too large.
    pub fn compile(&self, source: &ConstraintSource) -> Result<Constraint, EngineError> {
        let grammar = self.grammar(source)?;
        let refused = |message: String| EngineError::Constraint {
            kind: source.kind(),
            message,
        };
        let parse = || {
            let matcher = Matcher::new(self.factory.create_parser(grammar));
            let refusal = matcher.get_error().map(|error| unread(source, &error));
            let refusal = refusal.map(|refusal| self.placed(source, refusal));
            (matcher, refusal)
        };
        let matcher = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            let thread = thread.spawn_scoped(scope, parse);
            let joined = thread.map(|thread| thread.join());
            joined.map_err(|error| refused(format!("no memory to read it: {error}")))
        })?;
        let (matcher, refusal) = matcher.map_err(|_| refused("it cannot be read".into()))?;
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let first = allowed_tokens(&mut matcher.clone());
        first.map_err(|_| refused("no text keeps to it".into()))?;
        Ok(Constraint { matcher })
    }

    /// An error with the part of the schema that it is about.
    fn placed(&self, source: &ConstraintSource, error: EngineError) -> EngineError {
        let (EngineError::Constraint { kind, message }, ConstraintSource::JsonSchema(text)) =
            (&error, source)
        else {
            return error;
        };
        if text.len() > place::SOURCE_BYTES_MAX {
            return error;
        }
        let Ok(schema) = serde_json::from_str(text) else {
            return error;
        };
        let at = place::of_fault(&schema, &error.to_string(), |part| {
            // What leads out of the whole may lead back to itself in a part.
            if schema::endless_reference(part).is_some() {
                return None;
            }
            let grammar = TopLevelGrammar::from_json_schema(part.clone());
            let matcher = Matcher::new(self.factory.create_parser(grammar));
            let refusal = matcher.get_error()?;
            Some(unread(source, &refusal).to_string())
        });
        let types = match message.starts_with("Invalid type: ") {
            true => " (types are object, array, string, number, integer, boolean and null)",
            false => "",
        };
        let at = match at.is_empty() {
            true => String::new(),
            false => format!(", at {at}"),
        };
        EngineError::Constraint {
            kind,
            message: format!("{message}{at}{types}"),
        }
    }

    fn grammar(&self, source: &ConstraintSource) -> Result<TopLevelGrammar, EngineError> {
        let (ConstraintSource::Gbnf(text)
        | ConstraintSource::JsonSchema(text)
        | ConstraintSource::Regex(text)
        | ConstraintSource::Lark(text)) = source;
        let kind = source.kind();
        if text.len() > SOURCE_BYTES_MAX {
            let message = format!(
                "it has {} bytes, and {SOURCE_BYTES_MAX} are the most",
                text.len()
            );
            return Err(EngineError::Constraint { kind, message });
        }
        match source {
            ConstraintSource::Gbnf(text) => {
                let lark = gbnf::to_lark(text, &|text| self.token(text));
                let lark = lark.map_err(|fault| at(kind, text, fault.at, fault.message))?;
                check_lark(kind, &lark)?;
                Ok(TopLevelGrammar::from_lark(lark))
            }
            ConstraintSource::Lark(text) => {
                check_lark(kind, text)?;
                Ok(TopLevelGrammar::from_lark(text.clone()))
            }
            ConstraintSource::Regex(text) => Ok(TopLevelGrammar::from_regex(text)),
            ConstraintSource::JsonSchema(text) => {
                let schema = serde_json::from_str(text);
                let schema: serde_json::Value = schema.map_err(|error| EngineError::Grammar {
                    kind,
                    line: error.line(),
                    column: error.column(),
                    message: json_fault(&error),
                })?;
                if let Some(reference) = schema::endless_reference(&schema) {
                    let message = format!("$ref {reference:?} leads back to itself without an end");
                    return Err(EngineError::Constraint { kind, message });
                }
                Ok(TopLevelGrammar::from_json_schema(self.json_form(schema)))
            }
        }
    }

    /// A schema as the compiler shall read it.
    fn json_form(&self, mut schema: serde_json::Value) -> serde_json::Value {
        if !self.has_unnamed_properties {
            closed::close(&mut schema);
        }
        let mut keys = match schema {
            serde_json::Value::Object(keys) if keys.is_empty() => {
                serde_json::Map::from_iter([("type".into(), "object".into())])
            }
            serde_json::Value::Object(keys) => keys,
            // `true` and `false`, which have no place for options.
            schema => serde_json::Map::from_iter([("allOf".into(), serde_json::json!([schema]))]),
        };
        let options = keys
            .entry("x-guidance")
            .or_insert_with(|| serde_json::json!({}));
        if let Some(options) = options.as_object_mut() {
            let own = options.contains_key("whitespace_flexible");
            if !own && !options.contains_key("whitespace_pattern") {
                options.insert("whitespace_pattern".into(), JSON_SPACE.into());
            }
        }
        serde_json::Value::Object(keys)
    }

    /// The one token that a text is, control tokens included.
    fn token(&self, text: &str) -> Option<u32> {
        let options = EncodeOptions {
            parse_special: true,
            ..EncodeOptions::default()
        };
        match self.tokenizer.encode(text, options)[..] {
            [id] => Some(id),
            _ => None,
        }
    }
}

/// A fault in JSON without its place, which is told apart.
fn json_fault(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((message, _)) => message.to_owned(),
        None => text,
    }
}

/// What the parser says of a source, with its place where it says it too.
fn unread(source: &ConstraintSource, error: &str) -> EngineError {
    let kind = source.kind();
    let message = first_line(error);
    let message = message.replace("Unimplemented keys:", "keywords that are not supported:");
    let split = || {
        let (place, message) = message.split_once("): ")?;
        let place = place.strip_prefix("at ").unwrap_or(place);
        let (line, column) = place.split_once('(')?;
        let message = message.to_owned();
        Some((line.parse().ok()?, column.parse().ok()?, message))
    };
    let placed = split();
    // A regular expression is told of in more lines.
    let reason = error
        .lines()
        .find_map(|line| line.trim().strip_prefix("error: "));
    if let (ConstraintSource::Regex(text), Some(reason)) = (source, reason)
        && let Some(column) = place::of_sign(text, error)
    {
        return EngineError::Grammar {
            kind,
            line: 1,
            column,
            message: reason.to_owned(),
        };
    }
    match (placed, source) {
        (Some((line, column, message)), ConstraintSource::Lark(_)) => EngineError::Grammar {
            kind,
            line,
            column,
            message: reason.map_or(message, str::to_owned),
        },
        (placed, _) => EngineError::Constraint {
            kind,
            message: match (reason, placed) {
                (Some(reason), _) => reason.to_owned(),
                (None, Some((_, _, message))) => message,
                (None, None) => message,
            },
        },
    }
}

/// The parser's messages go on with what it was doing.
fn first_line(message: &str) -> String {
    let mut lines = message.lines().filter(|line| !line.trim().is_empty());
    match lines.next() {
        Some(line) if !line.starts_with("panic") => line.to_owned(),
        _ => "the parser of constraints cannot read it".to_owned(),
    }
}

/// An error at a place of a text.
fn at(kind: &'static str, text: &str, at: usize, message: String) -> EngineError {
    let before = &text[..at.min(text.len())];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    EngineError::Grammar {
        kind,
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        message,
    }
}

/// Refuses what the parser would call itself for too often.
fn check_lark(kind: &'static str, text: &str) -> Result<(), EngineError> {
    let mut depth = 0usize;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > LARK_DEPTH_MAX {
            let message = format!("more than {LARK_DEPTH_MAX} groups within each other");
            return Err(at(kind, text, index, message));
        }
    }
    let n_rules = text.lines().filter(|line| line.contains(':')).count();
    if n_rules > LARK_RULES_MAX {
        let message = format!("it has {n_rules} rules, and {LARK_RULES_MAX} are the most");
        return Err(EngineError::Constraint { kind, message });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
