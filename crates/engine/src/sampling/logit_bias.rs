//! What is added to logits before all stages, and the forms in which it is asked for.

use serde_json::Value;

use super::Vocabulary;
use crate::error::EngineError;

/// What is added to the logits of a token, or of all tokens of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct LogitBias {
    /// Which tokens.
    pub tokens: BiasedTokens,
    /// A number, or negative infinity, which forbids the tokens.
    pub bias: f32,
}

/// The tokens of a bias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BiasedTokens {
    /// One.
    Id(u32),
    /// Each of those that a text has, which may be several.
    Text(String),
}

/// What a bias in words or JSON must look like.
const EXPECTED: &str = "a token id, a sign and a number, as in 15043+1, 15043-0.5 or 15043-inf, or JSON such as \
    {\"15043\": -100} or [[\"cat\", -5], [15043, false]]";

impl LogitBias {
    /// The bias of one token.
    pub fn of_token(id: u32, bias: f32) -> Self {
        let tokens = BiasedTokens::Id(id);
        LogitBias { tokens, bias }
    }

    /// Reads `ID+BIAS` or `ID-BIAS`, or JSON.
    ///
    /// # Errors
    /// Another form, or a bias that is not a number.
    pub fn parse(text: &str) -> Result<Vec<Self>, EngineError> {
        let text = text.trim();
        if text.starts_with(['{', '[']) {
            let value: Value = serde_json::from_str(text).map_err(|_| refused(text))?;
            return LogitBias::from_json(&value);
        }
        let signed = || {
            let at = text.find(['+', '-'])?;
            let (id, bias) = text.split_at(at);
            let bias = number(bias.trim().parse().ok()?)?;
            Some(LogitBias::of_token(id.trim().parse().ok()?, bias))
        };
        signed().map(|bias| vec![bias]).ok_or_else(|| refused(text))
    }

    /// Reads an object of tokens and biases, or a list of pairs of them. A token is an id or a text (in an object a text
    /// of digits is an id); a bias is a number, or `false` to forbid.
    ///
    /// # Errors
    /// Anything else in there, with its words.
    pub fn from_json(value: &Value) -> Result<Vec<Self>, EngineError> {
        let pair = |token: Option<BiasedTokens>, bias: &Value, entry: &Value| {
            let bias = match bias {
                Value::Bool(false) => Some(f32::NEG_INFINITY),
                bias => bias.as_f64().and_then(|bias| number(bias as f32)),
            };
            let pair = token.zip(bias);
            pair.map(|(tokens, bias)| LogitBias { tokens, bias })
                .ok_or_else(|| refused(&entry.to_string()))
        };
        match value {
            Value::Object(entries) => {
                let biases = entries.iter().map(|(token, bias)| {
                    let entry = Value::Array(vec![token.clone().into(), bias.clone()]);
                    pair(key(token), bias, &entry)
                });
                biases.collect()
            }
            Value::Array(entries) => {
                let biases = entries.iter().map(|entry| match entry.as_array() {
                    Some(found) if found.len() == 2 => pair(token(&found[0]), &found[1], entry),
                    _ => Err(refused(&entry.to_string())),
                });
                biases.collect()
            }
            other => Err(refused(&other.to_string())),
        }
    }

    /// The ids that it changes, all of which the vocabulary has.
    pub(super) fn ids(&self, vocabulary: &dyn Vocabulary) -> Result<Vec<u32>, EngineError> {
        let n_vocab = vocabulary.n_tokens();
        let ids = match &self.tokens {
            BiasedTokens::Id(id) => vec![*id],
            BiasedTokens::Text(text) => match vocabulary.encode(text.as_bytes()) {
                none if none.is_empty() => return Err(refused(text)),
                ids => ids,
            },
        };
        match ids.iter().find(|&&id| id as usize >= n_vocab) {
            Some(&id) => Err(EngineError::BiasOutOfRange { id, n_vocab }),
            None => Ok(ids),
        }
    }
}

/// A bias that can be added.
fn number(bias: f32) -> Option<f32> {
    (bias < f32::INFINITY).then_some(bias)
}

fn token(value: &Value) -> Option<BiasedTokens> {
    match value {
        Value::String(text) if !text.is_empty() => Some(BiasedTokens::Text(text.clone())),
        value => u32::try_from(value.as_u64()?).ok().map(BiasedTokens::Id),
    }
}

fn key(text: &str) -> Option<BiasedTokens> {
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse().ok().map(BiasedTokens::Id),
        false => Some(BiasedTokens::Text(text.to_owned())),
    }
}

fn refused(found: &str) -> EngineError {
    EngineError::BadLogitBias {
        found: found.to_owned(),
        expected: EXPECTED,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Plain;
    use super::*;

    #[test]
    fn case_b71_all_forms_are_read() {
        let id = LogitBias::of_token;
        let text = |text: &str, bias| LogitBias {
            tokens: BiasedTokens::Text(text.into()),
            bias,
        };
        let forbidden = f32::NEG_INFINITY;
        for (form, expected) in [
            ("15043+1", vec![id(15043, 1.0)]),
            ("3-0.5", vec![id(3, -0.5)]),
            ("3-inf", vec![id(3, forbidden)]),
            (r#"{"15":-100}"#, vec![id(15, -100.0)]),
            ("[[15,false]]", vec![id(15, forbidden)]),
            (r#"[["cat",-5]]"#, vec![text("cat", -5.0)]),
            (r#"[["15",1],[2,0.5]]"#, vec![text("15", 1.0), id(2, 0.5)]),
            (
                r#"{"cat":false,"2":1}"#,
                vec![text("cat", forbidden), id(2, 1.0)],
            ),
            ("[]", vec![]),
        ] {
            assert_eq!(LogitBias::parse(form).unwrap(), expected, "{form}");
        }
        for form in [
            "3",
            "x+1",
            "3+y",
            "3+inf",
            "3+nan",
            "-1+2",
            "",
            "{",
            "[15]",
            "[[15]]",
            "[[15,true]]",
            "[[1.5,1]]",
            "[[-1,1]]",
            r#"[["",1]]"#,
            r#"{"15":null}"#,
            r#"{"99999999999":1}"#,
            "[[1,1e99]]",
        ] {
            let error = LogitBias::parse(form).unwrap_err();
            assert!(matches!(error, EngineError::BadLogitBias { .. }), "{form}");
        }
    }

    #[test]
    fn case_b71_a_token_that_does_not_exist_is_refused() {
        let ids = |bias: LogitBias| bias.ids(&Plain(4));
        assert_eq!(ids(LogitBias::of_token(3, 1.0)).unwrap(), [3]);
        let error = ids(LogitBias::of_token(4, 1.0)).unwrap_err();
        assert!(matches!(
            error,
            EngineError::BiasOutOfRange { id: 4, n_vocab: 4 }
        ));
    }
}
