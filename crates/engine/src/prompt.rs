//! From text and conversations to tokens.

use gristmill_tokenizer::{Attributes, EncodeOptions, Tokenizer};

use crate::chat::{ChatTemplate, Controls, GuardedText, RenderInput, guarded};
use crate::error::EngineError;

/// Tokenizes a text to be continued: control tokens are parsed, and the text begins with the begin-of-sequence
/// token if the model wants one and the text does not bring its own.
pub fn raw_prompt(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let options = EncodeOptions {
        add_special: false,
        parse_special: true,
    };
    with_one_bos(tokenizer, tokenizer.encode(text, options))
}

/// A conversation as text and tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatPrompt {
    /// What the template made.
    pub text: String,
    /// The tokens.
    pub ids: Vec<u32>,
}

/// Renders a conversation and tokenizes it. Control tokens are parsed in what the template writes, but not in
/// what the messages say, unless `parse_content` asks for it. There is exactly one begin-of-sequence token at the
/// start of a model that wants one, whether the template writes it or not.
///
/// Errors: as [`ChatTemplate::render`].
pub fn chat_prompt(
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    input: &RenderInput,
    parse_content: bool,
) -> Result<ChatPrompt, EngineError> {
    let mut input = input.clone();
    let text = |id: Option<u32>| {
        id.map_or(String::new(), |id| {
            String::from_utf8_lossy(tokenizer.text(id)).into_owned()
        })
    };
    input.bos_token = text(tokenizer.bos());
    input.eos_token = text(tokenizer.eos());
    let rendered = match parse_content {
        true => GuardedText {
            text: template.render(&input)?,
            plain_starts: Vec::new(),
        },
        false => guarded(template, &input, &controls(tokenizer))?,
    };
    let options = EncodeOptions {
        add_special: false,
        parse_special: true,
    };
    let ids = tokenizer.encode(&rendered.text, options);
    Ok(ChatPrompt {
        text: rendered.text,
        ids: with_one_bos(tokenizer, ids),
    })
}

/// The texts that are only tokens where control tokens are parsed.
fn controls(tokenizer: &Tokenizer) -> Controls {
    let ids = (0..tokenizer.n_tokens() as u32)
        .filter(|&id| tokenizer.attributes(id).has(Attributes::CONTROL));
    Controls::new(ids.map(|id| tokenizer.piece(id, true)))
}

fn with_one_bos(tokenizer: &Tokenizer, mut ids: Vec<u32>) -> Vec<u32> {
    if let (true, Some(bos)) = (tokenizer.add_bos(), tokenizer.bos())
        && ids.first() != Some(&bos)
    {
        ids.insert(0, bos);
    }
    ids
}
