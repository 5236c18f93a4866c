//! Any text as a chat template: an error with a message, or a rendering, in bounded time and memory.

#![no_main]

use gristmill_engine::chat::{ChatTemplate, Message, RenderInput};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|source: &str| {
    let template = match ChatTemplate::new(source) {
        Ok(template) => template,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let mut input = RenderInput::new(&[
        Message::new("system", "Be kind."),
        Message::new("user", "Good morrow, {{ cousin }}"),
        Message::new("assistant", "<think>hm</think>Well met."),
    ]);
    input.bos_token = "<s>".to_owned();
    input.eos_token = "</s>".to_owned();
    let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let function =
        json!({ "name": "weather", "description": "The weather", "parameters": parameters });
    input.tools = Some(json!([{ "type": "function", "function": function }]));
    if let Err(error) = template.render(&input) {
        assert!(!error.to_string().is_empty());
    }
});
