//! Messages of a conversation, in the form that templates and saved conversations share.

use serde_json::{Map, Value, json};

use crate::reply::Reply;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool` or what else the template knows.
    pub role: String,
    /// The text.
    pub content: String,
    /// What else templates read: `reasoning_content`, `tool_calls`, `tool_call_id`, `name` and the like.
    pub extra: Map<String, Value>,
}

impl Message {
    /// A message of a role.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Message {
            role: role.into(),
            content: content.into(),
            extra: Map::new(),
        }
    }

    /// What a model answered.
    pub fn answer(reply: &Reply) -> Self {
        let mut message = Message::new("assistant", reply.content.clone());
        if !reply.reasoning.is_empty() {
            let reasoning = reply.reasoning.as_str().into();
            message.extra.insert("reasoning_content".into(), reasoning);
        }
        if !reply.calls.is_empty() {
            let calls = reply.calls.iter().map(|call| {
                let function = json!({"name": call.name, "arguments": call.arguments});
                json!({"id": call.id, "type": "function", "function": function})
            });
            message.extra.insert("tool_calls".into(), calls.collect());
        }
        message
    }

    /// What a tool answered to a call.
    pub fn result(call: &Value, text: impl Into<String>) -> Self {
        let mut message = Message::new("tool", text);
        let id = call.get("id").cloned().unwrap_or_default();
        let name = call.pointer("/function/name").cloned().unwrap_or_default();
        message.extra.insert("tool_call_id".into(), id);
        message.extra.insert("name".into(), name);
        message
    }

    /// The calls of an answer.
    pub fn calls(&self) -> impl Iterator<Item = &Value> {
        let calls = self.extra.get("tool_calls").and_then(Value::as_array);
        calls.into_iter().flatten()
    }

    /// The message as JSON.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("role".into(), self.role.as_str().into());
        object.insert("content".into(), self.content.as_str().into());
        object.extend(self.extra.clone());
        Value::Object(object)
    }

    /// The message as templates take it: the arguments of calls are objects there, not text.
    pub fn for_template(&self) -> Value {
        let mut message = self.to_json();
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten() {
            let arguments = call.pointer_mut("/function/arguments");
            if let Some(arguments) = arguments
                && let Some(object) = arguments
                    .as_str()
                    .and_then(|text| serde_json::from_str(text).ok())
            {
                *arguments = object;
            }
        }
        message
    }

    /// Reads a message. Content may be absent beside calls, and may be a list of texts.
    ///
    /// Errors: what is wrong with it, in words.
    pub fn from_json(value: &Value) -> Result<Self, String> {
        let object = value.as_object().ok_or("a message must be an object")?;
        let mut extra = object.clone();
        let role = extra.shift_remove("role");
        let role = role.as_ref().and_then(Value::as_str);
        let role = role.ok_or("a message must have a `role`, which is text")?;
        let content = match extra.shift_remove("content") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text,
            Some(Value::Array(parts)) => {
                let texts = parts
                    .iter()
                    .map(|part| part.get("text").and_then(Value::as_str));
                let texts: Option<Vec<&str>> = texts.collect();
                texts
                    .ok_or("the parts of a content must be texts")?
                    .concat()
            }
            Some(_) => return Err("the `content` of a message must be text".into()),
        };
        Ok(Message {
            role: role.to_owned(),
            content,
            extra,
        })
    }
}
