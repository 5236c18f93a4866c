//! Special tokens by their text or id.

use gristmill_gguf::edit::{
    Edit, SPECIAL_TOKENS, TokenMatch, find_token, special_token_key, value_of,
};
use gristmill_gguf::{Value, ValueType};

use super::request::set;
use super::value::Target;
use crate::failure::Hint;

/// The key of a special token.
pub fn special_key(name: &str) -> Result<&'static str, String> {
    special_token_key(name).ok_or_else(|| {
        let names: Vec<&str> = SPECIAL_TOKENS.iter().map(|(name, _)| *name).collect();
        format!(
            "{name:?} is no special token; these are {}",
            names.join(", ")
        )
    })
}

/// An id from the command line.
pub fn id(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is no id of a token"))
}

/// An id in the integer type that the key has.
fn id_edit(key: &str, id: u32, target: Target) -> anyhow::Result<Edit> {
    let ty = target
        .metadata
        .get(key)
        .map(Value::value_type)
        .filter(|ty| ty.is_integer());
    let value = value_of(&id.to_string(), ty.unwrap_or(ValueType::U32));
    let value = value.map_err(|reason| target.error(format!("metadata key {key:?}: {reason}")))?;
    Ok(set(key, value))
}

/// Makes the token with this text the special token of this name.
pub fn by_text(name: &str, text: &str, target: Target) -> anyhow::Result<Edit> {
    let key = special_key(name).map_err(anyhow::Error::msg)?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let by_id = format!("--special-token-by-id {name} {text} takes it for an id");
    match find_token(target.metadata, text) {
        Some(TokenMatch::Found { id, n_others }) => {
            if is_number {
                say!("note: {text:?} is the text of token {id}; {by_id}");
            }
            if n_others > 0 {
                say!(
                    "warning: {} tokens are {text:?}; {name} becomes the first, {id}",
                    n_others + 1
                );
            }
            id_edit(key, id, target)
        }
        Some(TokenMatch::Absent { near, special }) => {
            let error = target.error(format!("no token of the vocabulary is {text:?}"));
            let list = |tokens: &[String]| {
                let quoted: Vec<String> = tokens.iter().map(|token| format!("{token:?}")).collect();
                quoted.join(", ")
            };
            Err(match (near.is_empty(), special.is_empty()) {
                _ if is_number => error.context(Hint::new(by_id)),
                (false, _) => error.context(Hint::new(format!("near it: {}", list(&near)))),
                (true, false) => {
                    error.context(Hint::new(format!("its special tokens: {}", list(&special))))
                }
                (true, true) => error,
            })
        }
        None => Err(target.error(format!("the file has no vocabulary to find {text:?} in"))),
    }
}

/// Makes the token with this id the special token of this name.
pub fn by_id(name: &str, text: &str, target: Target) -> anyhow::Result<Edit> {
    let key = special_key(name).map_err(anyhow::Error::msg)?;
    id_edit(key, id(text).map_err(anyhow::Error::msg)?, target)
}
