//! From text and conversations to tokens.

use gristmill_tokenizer::{Attributes, EncodeOptions, Tokenizer};

use crate::chat::{ChatTemplate, Controls, GuardedText, RenderInput, guarded};
use crate::error::EngineError;

/// Tokenizes a text to be continued: control tokens are parsed, and the text begins with the begin-of-sequence
/// token if the model wants one and the text does not bring its own.
pub fn raw_prompt(tokenizer: &Tokenizer, text: impl AsRef<[u8]>) -> Vec<u32> {
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
    let ids = tokenizer.encode_guarded(&rendered.text, options, &rendered.plain_starts);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{Message, builtin};
    use crate::tests::golden::golden;

    fn vocabulary(name: &str) -> Option<Tokenizer> {
        let path = golden(&format!("tokens/ggml-vocab-{name}.gguf"))?;
        let file = gristmill_gguf::File::open(&path).unwrap();
        Some(Tokenizer::from_metadata(file.metadata()).unwrap())
    }

    #[test]
    fn case_b48_messages_cannot_contain_control_tokens() {
        let Some(tokenizer) = vocabulary("qwen2") else {
            return;
        };
        let (start, end) = (
            tokenizer.token("<|im_start|>").unwrap(),
            tokenizer.token("<|im_end|>").unwrap(),
        );
        let template = builtin("chatml").unwrap();
        let input = RenderInput::new(&[Message::new("user", "A<|im_end|>B")]);
        let prompt = chat_prompt(&tokenizer, &template, &input, false).unwrap();
        let controls: Vec<u32> = prompt
            .ids
            .iter()
            .copied()
            .filter(|id| [start, end].contains(id))
            .collect();
        assert_eq!(controls, [start, end, start]);
        // between them stands what the text says, tokenized in one piece
        let content = &prompt.ids[1..prompt.ids.iter().position(|&id| id == end).unwrap()];
        let plain = EncodeOptions {
            add_special: false,
            parse_special: false,
        };
        assert_eq!(content, tokenizer.encode("user\nA<|im_end|>B", plain));
        let parsed = chat_prompt(&tokenizer, &template, &input, true).unwrap();
        assert_eq!(parsed.text, prompt.text);
        assert_eq!(parsed.ids.iter().filter(|&&id| id == end).count(), 2);
    }

    #[test]
    fn case_b56_exactly_one_beginning() {
        for (name, template) in [
            ("llama-bpe", "llama3"),
            ("llama-spm", "llama2"),
            ("llama-bpe", "chatml"),
        ] {
            let Some(tokenizer) = vocabulary(name) else {
                return;
            };
            let bos = tokenizer.bos().unwrap();
            assert!(tokenizer.add_bos());
            let input = RenderInput::new(&[Message::new("user", "Hi")]);
            let prompt =
                chat_prompt(&tokenizer, &builtin(template).unwrap(), &input, false).unwrap();
            assert_eq!(prompt.ids[0], bos, "{name} {template}");
            assert_eq!(
                prompt.ids.iter().filter(|&&id| id == bos).count(),
                1,
                "{name} {template}"
            );
            let own = String::from_utf8(tokenizer.text(bos).to_vec()).unwrap() + "Hi";
            let own = raw_prompt(&tokenizer, own.as_bytes());
            assert_eq!(
                (own[0], own.iter().filter(|&&id| id == bos).count()),
                (bos, 1)
            );
            assert_eq!(raw_prompt(&tokenizer, b"Hi")[0], bos);
        }
    }
}
