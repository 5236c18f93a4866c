//! Templates by name, for models that carry none. A name of the reference means what it means there.

mod turns;

use super::ChatTemplate;
use turns::Turns;

/// A template that can be asked for by name.
pub struct BuiltinTemplate {
    /// Name in `--chat-template`.
    pub name: &'static str,
    form: Form,
}

/// How a template is written down.
enum Form {
    /// As Jinja, in parts.
    Jinja(&'static [&'static str]),
    /// As a frame per role.
    Turns(Turns),
}

impl BuiltinTemplate {
    /// The Jinja text.
    pub fn source(&self) -> String {
        match &self.form {
            Form::Jinja(parts) => parts.concat(),
            Form::Turns(turns) => turns.jinja(self.name),
        }
    }
}

/// The template of a name, compiled.
pub fn builtin(name: &str) -> Option<ChatTemplate> {
    let template = BUILTIN_TEMPLATES
        .iter()
        .find(|template| template.name == name)?;
    ChatTemplate::new(&template.source()).ok()
}

const fn frames(
    name: &'static str,
    start: &'static str,
    roles: &'static [(&'static str, &'static str)],
    others: Option<&'static str>,
    answer: &'static str,
) -> BuiltinTemplate {
    let turns = Turns {
        start,
        roles,
        others,
        answer,
    };
    BuiltinTemplate {
        name,
        form: Form::Turns(turns),
    }
}

const fn jinja(name: &'static str, parts: &'static [&'static str]) -> BuiltinTemplate {
    BuiltinTemplate {
        name,
        form: Form::Jinja(parts),
    }
}

/// Every template, by name.
#[rustfmt::skip] // a table: one template after another, a line for each of its parts
pub static BUILTIN_TEMPLATES: &[BuiltinTemplate] = &[
    frames("bailing", "", &[
        ("user", "<role>HUMAN</role>{text}"),
    ], Some("<role>{ROLE}</role>{text}"), "<role>ASSISTANT</role>"),
    frames("bailing-think", "", &[
        ("user", "<role>HUMAN</role>{text}"),
    ], Some("<role>{ROLE}</role>{text}"), "<role>ASSISTANT</role><think>"),
    jinja("bailing2", &[include_str!("bailing2.jinja")]),
    frames("chatglm3", "[gMASK]sop", &[], Some("<|{role}|>\n {text}"), "<|assistant|>"),
    frames("chatglm4", "[gMASK]<sop>", &[], Some("<|{role}|>\n{text}"), "<|assistant|>\n"),
    frames("chatml", "", &[], Some("<|im_start|>{role}\n{text}<|im_end|>\n"), "<|im_start|>assistant\n"),
    frames("command-r", "", &[
        ("system", "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>{trimmed}<|END_OF_TURN_TOKEN|>"),
        ("user", "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>{trimmed}<|END_OF_TURN_TOKEN|>"),
        ("assistant", "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{trimmed}<|END_OF_TURN_TOKEN|>"),
    ], None, "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"),
    frames("deepseek", "", &[
        ("system", "{text}"),
        ("user", "### Instruction:\n{text}\n"),
        ("assistant", "### Response:\n{text}\n<|EOT|>\n"),
    ], None, "### Response:\n"),
    frames("deepseek-ocr", "", &[], Some("{text}"), ""),
    frames("deepseek2", "", &[
        ("system", "{text}\n\n"),
        ("user", "User: {text}\n\n"),
        ("assistant", "Assistant: {text}<｜end▁of▁sentence｜>"),
    ], None, "Assistant:"),
    frames("deepseek3", "", &[
        ("system", "{text}\n\n"),
        ("user", "<｜User｜>{text}"),
        ("assistant", "<｜Assistant｜>{text}<｜end▁of▁sentence｜>"),
    ], None, "<｜Assistant｜>"),
    frames("exaone-moe", "", &[], Some("<|{role}|>\n{trimmed}<|endofturn|>\n"), "<|assistant|>\n"),
    frames("exaone3", "", &[
        ("system", "[|system|]{trimmed}[|endofturn|]\n"),
        ("user", "[|user|]{trimmed}\n"),
        ("assistant", "[|assistant|]{trimmed}[|endofturn|]\n"),
    ], None, "[|assistant|]"),
    frames("exaone4", "", &[
        ("system", "[|system|]{trimmed}[|endofturn|]\n"),
        ("user", "[|user|]{trimmed}\n"),
        ("assistant", "[|assistant|]{trimmed}[|endofturn|]\n"),
        ("tool", "[|tool|]{trimmed}[|endofturn|]\n"),
    ], None, "[|assistant|]"),
    frames("falcon3", "", &[], Some("<|{role}|>\n{text}\n"), "<|assistant|>\n"),
    jinja("gemma", &[include_str!("gemma.jinja")]),
    jinja("gigachat", &[include_str!("gigachat.jinja")]),
    frames("glmedge", "", &[], Some("<|{role}|>\n{text}"), "<|assistant|>"),
    frames("gpt-oss", "", &[
        ("assistant", "<|start|>assistant<|message|>{text}<|return|>"),
    ], Some("<|start|>{role}<|message|>{text}<|end|>"), "<|start|>assistant"),
    frames("granite", "", &[
        ("assistant_tool_call", "<|start_of_role|>{role}<|end_of_role|><|tool_call|>{text}<|end_of_text|>\n"),
    ], Some("<|start_of_role|>{role}<|end_of_role|>{text}<|end_of_text|>\n"), "<|start_of_role|>assistant<|end_of_role|>"),
    frames("granite-4.0", "", &[
        ("assistant_tool_call", "<|start_of_role|>assistant<|end_of_role|><|tool_call|>{text}<|end_of_text|>\n"),
    ], Some("<|start_of_role|>{role}<|end_of_role|>{text}<|end_of_text|>\n"), "<|start_of_role|>assistant<|end_of_role|>"),
    frames("granite-4.1", "", &[
        ("assistant_tool_call", "<|start_of_role|>assistant<|end_of_role|><|tool_call|>{text}<|end_of_text|>\n"),
    ], Some("<|start_of_role|>{role}<|end_of_role|>{text}<|end_of_text|>\n"), "<|start_of_role|>assistant<|end_of_role|>"),
    frames("grok-2", "", &[
        ("system", "System: {trimmed}<|separator|>\n\n"),
        ("user", "Human: {trimmed}<|separator|>\n\n"),
        ("assistant", "Assistant: {text}<|separator|>\n\n"),
    ], None, "Assistant:"),
    jinja("hunyuan-dense", &[include_str!("hunyuan.jinja")]),
    frames("hunyuan-moe", "", &[
        ("system", "<|startoftext|>{text}<|extra_4|>"),
        ("assistant", "{text}<|eos|>"),
    ], Some("<|startoftext|>{text}<|extra_0|>"), ""),
    frames("hunyuan-vl", "<｜hy_begin▁of▁sentence｜>", &[
        ("system", "{text}<｜hy_place▁holder▁no▁3｜>"),
        ("user", "{text}<｜hy_User｜>"),
        ("assistant", "{text}<｜hy_Assistant｜>"),
    ], None, ""),
    frames("kimi-k2", "", &[
        ("system", "<|im_system|>system<|im_middle|>{text}<|im_end|>"),
        ("user", "<|im_user|>user<|im_middle|>{text}<|im_end|>"),
        ("assistant", "<|im_assistant|>assistant<|im_middle|>{text}<|im_end|>"),
        ("tool", "<|im_system|>tool<|im_middle|>{text}<|im_end|>"),
    ], None, "<|im_assistant|>assistant<|im_middle|>"),
    jinja("llama2", &["{%- set has_system, turn, trims = false, '', false %}", include_str!("llama2.jinja")]),
    jinja("llama2-sys", &["{%- set has_system, turn, trims = true, '', false %}", include_str!("llama2.jinja")]),
    jinja("llama2-sys-bos", &["{%- set has_system, turn, trims = true, '<s>', false %}", include_str!("llama2.jinja")]),
    jinja("llama2-sys-strip", &["{%- set has_system, turn, trims = true, '', true %}", include_str!("llama2.jinja")]),
    frames("llama3", "", &[], Some("<|start_header_id|>{role}<|end_header_id|>\n\n{trimmed}<|eot_id|>"), "<|start_header_id|>assistant<|end_header_id|>\n\n"),
    frames("llama4", "", &[], Some("<|header_start|>{role}<|header_end|>\n\n{trimmed}<|eot|>"), "<|header_start|>assistant<|header_end|>\n\n"),
    frames("megrez", "", &[], Some("<|role_start|>{role}<|role_end|>{text}<|turn_end|>"), "<|role_start|>assistant<|role_end|>"),
    frames("minicpm", "", &[
        ("user", "<用户>{trimmed}<AI>"),
    ], Some("{trimmed}"), ""),
    jinja("mistral-v1", &["{%- set outer, inner, trims = ' ', ' ', false %}", include_str!("mistral.jinja")]),
    jinja("mistral-v3", &["{%- set outer, inner, trims = '', ' ', true %}", include_str!("mistral.jinja")]),
    jinja("mistral-v3-tekken", &["{%- set outer, inner, trims = '', '', false %}", include_str!("mistral.jinja")]),
    frames("mistral-v7", "", &[
        ("system", "[SYSTEM_PROMPT] {text}[/SYSTEM_PROMPT]"),
        ("user", "[INST] {text}[/INST]"),
    ], Some(" {text}</s>"), ""),
    frames("mistral-v7-tekken", "", &[
        ("system", "[SYSTEM_PROMPT]{text}[/SYSTEM_PROMPT]"),
        ("user", "[INST]{text}[/INST]"),
    ], Some("{text}</s>"), ""),
    jinja("monarch", &[include_str!("monarch.jinja")]),
    frames("openchat", "", &[
        ("system", "{text}<|end_of_turn|>"),
    ], Some("GPT4 Correct {Role}: {text}<|end_of_turn|>"), "GPT4 Correct Assistant:"),
    jinja("orion", &[include_str!("orion.jinja")]),
    jinja("pangu-embedded", &[include_str!("pangu-embedded.jinja")]),
    frames("phi3", "", &[], Some("<|{role}|>\n{text}<|end|>\n"), "<|assistant|>\n"),
    frames("phi4", "", &[], Some("<|im_start|>{role}<|im_sep|>{text}<|im_end|>"), "<|im_start|>assistant<|im_sep|>"),
    jinja("rwkv-world", &[include_str!("rwkv-world.jinja")]),
    frames("seed_oss", "", &[
        ("assistant", "<seed:bos>assistant\n{trimmed}<seed:eos>"),
    ], Some("<seed:bos>{role}\n{text}<seed:eos>"), "<seed:bos>assistant\n"),
    frames("smolvlm", "<|im_start|>", &[
        ("system", "{text}\n\n"),
        ("user", "User: {text}<end_of_utterance>\n"),
    ], Some("Assistant: {text}<end_of_utterance>\n"), "Assistant:"),
    frames("solar-open", "", &[], Some("<|begin|>{role}<|content|>{text}<|end|>"), "<|begin|>assistant"),
    frames("vicuna", "", &[
        ("system", "{text}\n\n"),
        ("user", "USER: {text}\n"),
        ("assistant", "ASSISTANT: {text}</s>\n"),
    ], None, "ASSISTANT:"),
    frames("vicuna-orca", "", &[
        ("system", "SYSTEM: {text}\n"),
        ("user", "USER: {text}\n"),
        ("assistant", "ASSISTANT: {text}</s>\n"),
    ], None, "ASSISTANT:"),
    frames("yandex", "", &[
        ("system", ""),
        ("user", " Пользователь: {text}\n\n"),
        ("assistant", " Ассистент: {text}\n\n"),
    ], None, " Ассистент:[SEP]"),
    frames("zephyr", "", &[], Some("<|{role}|>\n{text}<|endoftext|>\n"), "<|assistant|>\n"),
];
