use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::chat::{ChatTemplate, Clock, RenderInput};
use crate::tests::golden::{compared, golden, read_json};

fn tools() -> Value {
    let text = json!({"type": "string"});
    let weather =
        json!({"type": "object", "properties": {"city": text, "days": {"type": "integer"}}});
    let add = json!({"type": "object", "properties": {"a": {"type": "number"}, "note": text}});
    json!([
        {"type": "function", "function": {"name": "get_weather", "description": "w", "parameters": weather}},
        {"type": "function", "function": {"name": "add", "description": "a", "parameters": add}},
    ])
}

fn format_of(family: &str, form: ReasoningForm) -> ReplyFormat {
    let family = FAMILIES.iter().find(|known| known.name == family).unwrap();
    let shown = family.evidence[0].concat();
    let format = ReplyFormat::detect(&shown, Some(&tools()), form);
    assert_eq!(
        format.family(),
        family.name,
        "the evidence of another family comes before"
    );
    format
}

/// The events of a text that comes in these pieces, neighbours of a kind put together.
fn events(format: &ReplyFormat, prompt: &str, pieces: &[&str]) -> Vec<ReplyEvent> {
    let mut parser = ReplyParser::new(format.clone(), prompt, 0);
    let mut out = Vec::new();
    pieces.iter().for_each(|piece| parser.push(piece, &mut out));
    parser.finish(&mut out);
    let mut joined: Vec<ReplyEvent> = Vec::new();
    for event in out {
        match (joined.last_mut(), event) {
            (Some(ReplyEvent::Content(before)), ReplyEvent::Content(text))
            | (Some(ReplyEvent::Reasoning(before)), ReplyEvent::Reasoning(text))
            | (
                Some(ReplyEvent::Arguments { text: before, .. }),
                ReplyEvent::Arguments { text, .. },
            ) => {
                before.push_str(&text);
            }
            (_, event) => joined.push(event),
        }
    }
    joined
}

fn reply(format: &ReplyFormat, prompt: &str, text: &str) -> Reply {
    let mut reply = Reply::default();
    let events = events(format, prompt, &[text]);
    events.iter().for_each(|event| reply.take(event));
    reply
}

/// Names and arguments.
fn calls_of(reply: &Reply) -> Vec<(&str, Value)> {
    let calls = reply.calls.iter().map(|call| {
        let arguments = serde_json::from_str(&call.arguments).unwrap();
        (call.name.as_str(), arguments)
    });
    calls.collect()
}

/// Family, the prompt's end, and an answer that thinks "Hm.", says "Look:" and calls both functions.
const ANSWERS: &[(&str, &str, &str)] = &[
    (
        "hermes",
        "",
        "<think>\nHm.\n</think>\n\nLook:\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Pa\\\"ris\", \"days\": 2}}\n</tool_call>\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1.5, \"note\": \"7\"}}\n</tool_call>",
    ),
    (
        "qwen3-coder",
        "<think>\n",
        "Hm.\n</think>\n\nLook:\n<tool_call>\n<function=get_weather>\n<parameter=city>\nPa\"ris\n</parameter>\n<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=add>\n<parameter=a>\n1.5\n</parameter>\n<parameter=note>\n7\n</parameter>\n</function>\n</tool_call>",
    ),
    (
        "seed-oss",
        "",
        "<seed:think>Hm.</seed:think>Look:\n<seed:tool_call>\n<function=get_weather>\n<parameter=city>Pa\"ris</parameter>\n<parameter=days>2</parameter>\n</function>\n<function=add>\n<parameter=a>1.5</parameter>\n<parameter=note>7</parameter>\n</function>\n</seed:tool_call>",
    ),
    (
        "minimax-m2",
        "<think>\n",
        "Hm.\n</think>\n\nLook:\n\n<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Pa\"ris</parameter>\n<parameter name=\"days\">2</parameter>\n</invoke>\n<invoke name=\"add\">\n<parameter name=\"a\">1.5</parameter>\n<parameter name=\"note\">7</parameter>\n</invoke>\n</minimax:tool_call>",
    ),
    (
        "minimax-m3",
        "",
        "<mm:think>Hm.</mm:think>Look:]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"get_weather\">]<]minimax[>[<city>Pa\"ris]<]minimax[>[</city>]<]minimax[>[<days>2]<]minimax[>[</days>]<]minimax[>[</invoke>\n]<]minimax[>[<invoke name=\"add\">]<]minimax[>[<a>1.5]<]minimax[>[</a>]<]minimax[>[<note>7]<]minimax[>[</note>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
    ),
    (
        "deepseek-dsml",
        "<think>",
        "Hm.</think>Look:\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">Pa\"ris</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"false\">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name=\"add\">\n<｜DSML｜parameter name=\"a\" string=\"false\">1.5</｜DSML｜parameter>\n<｜DSML｜parameter name=\"note\" string=\"true\">7</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    ),
    (
        "deepseek",
        "<think>\n",
        "Hm.\n</think>\n\nLook:<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{\"city\": \"Pa\\\"ris\", \"days\": 2}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>add<｜tool▁sep｜>{\"a\": 1.5, \"note\": \"7\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    (
        "glm",
        "<think>",
        "Hm.</think>Look:\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Pa\"ris</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n<tool_call>add<arg_key>a</arg_key><arg_value>1.5</arg_value><arg_key>note</arg_key><arg_value>7</arg_value></tool_call>",
    ),
    (
        "hy3",
        "",
        "<think:opensource>Hm.</think:opensource>Look:<tool_calls:opensource>\n<tool_call:opensource>get_weather<tool_sep:opensource>\n<arg_key:opensource>city</arg_key:opensource>\n<arg_value:opensource>Pa\"ris</arg_value:opensource>\n<arg_key:opensource>days</arg_key:opensource>\n<arg_value:opensource>2</arg_value:opensource>\n</tool_call:opensource>\n<tool_call:opensource>add<tool_sep:opensource>\n<arg_key:opensource>a</arg_key:opensource>\n<arg_value:opensource>1.5</arg_value:opensource>\n<arg_key:opensource>note</arg_key:opensource>\n<arg_value:opensource>7</arg_value:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>",
    ),
    (
        "kimi-k2",
        "",
        "<think>Hm.</think>Look:<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{\"city\": \"Pa\\\"ris\", \"days\": 2}<|tool_call_end|><|tool_call_begin|>functions.add:1<|tool_call_argument_begin|>{\"a\": 1.5, \"note\": \"7\"}<|tool_call_end|><|tool_calls_section_end|>",
    ),
    (
        "kimi-k3",
        "<|open|>think<|sep|>",
        "Hm.<|close|>think<|sep|><|open|>response<|sep|>Look:<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool=\"get_weather\" index=\"1\"<|sep|><|open|>argument key=\"city\" type=\"string\"<|sep|>Pa\"ris<|close|>argument<|sep|><|open|>argument key=\"days\" type=\"number\"<|sep|>2<|close|>argument<|sep|><|close|>call<|sep|><|open|>call tool=\"add\" index=\"2\"<|sep|><|open|>argument key=\"a\" type=\"number\"<|sep|>1.5<|close|>argument<|sep|><|open|>argument key=\"note\" type=\"string\"<|sep|>7<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>",
    ),
    (
        "gpt-oss",
        "<|start|>assistant",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>Look:<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Pa\\\"ris\", \"days\": 2}<|call|><|start|>assistant to=functions.add<|channel|>commentary json<|message|>{\"a\": 1.5, \"note\": \"7\"}<|call|>",
    ),
    (
        "llm-jp",
        "<|start|>assistant",
        "<|channel|> analysis<|message|> Hm.<|end|><|start|>assistant<|channel|> commentary<|message|> Look:<|end|><|start|>assistant<|channel|> commentary to=functions.get_weather<|message|> {\"city\": \"Pa\\\"ris\", \"days\": 2}<|call|><|start|>assistant to=functions.add<|channel|> commentary<|message|>{\"a\": 1.5, \"note\": \"7\"}",
    ),
    (
        "muse",
        "<|start|>assistant",
        " to=self<|message|>Hm.<|eom|><|start|>assistant to=user<|message|>Look:<|eom|><|start|>assistant to=get_weather<|message|><atem:function_calls>\n<atem:invoke name=\"get_weather\">\n<atem:parameter name=\"city\">Pa\"ris</atem:parameter>\n<atem:parameter name=\"days\">2</atem:parameter>\n</atem:invoke>\n</atem:function_calls><|start|>assistant to=add<|message|><atem:function_calls>\n<atem:invoke name=\"add\">\n<atem:parameter name=\"a\">1.5</atem:parameter>\n<atem:parameter name=\"note\">7</atem:parameter>\n</atem:invoke>\n</atem:function_calls>",
    ),
    (
        "functionary",
        ">>>",
        "all\n<think>Hm.</think>Look:\n>>>get_weather\n{\"city\": \"Pa\\\"ris\", \"days\": 2}>>>add\n{\"a\": 1.5, \"note\": \"7\"}",
    ),
    (
        "functionary-tagged",
        "",
        "<think>Hm.</think>Look:<function=get_weather>{\"city\": \"Pa\\\"ris\", \"days\": 2}</function><function=add>{\"a\": 1.5, \"note\": \"7\"}</function>",
    ),
    (
        "solar",
        "<|begin|>assistant",
        "<|think|>Hm.<|end|><|begin|>assistant<|content|>Look:<|end|><|begin|>assistant<|tool_calls|><|tool_call:begin|>x1<|tool_call:name|>get_weather<|tool_call:args|>{\"city\": \"Pa\\\"ris\", \"days\": 2}<|tool_call:end|><|tool_call:begin|>x2<|tool_call:name|>add<|tool_call:args|>{\"a\": 1.5, \"note\": \"7\"}<|tool_call:end|><|calls|>",
    ),
    (
        "mistral-named",
        "",
        "[THINK]Hm.[/THINK]Look:[TOOL_CALLS]get_weather[CALL_ID]123456789[ARGS]{\"city\": \"Pa\\\"ris\", \"days\": 2}[TOOL_CALLS]add[ARGS]{\"a\": 1.5, \"note\": \"7\"}",
    ),
    (
        "mistral-list",
        "",
        "<think>Hm.</think>Look:[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Pa\\\"ris\", \"days\": 2}, \"id\": \"123456789\"}, {\"name\": \"add\", \"arguments\": {\"a\": 1.5, \"note\": \"7\"}}]",
    ),
    (
        "cohere",
        "",
        "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Look:<|END_RESPONSE|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": {\"city\": \"Pa\\\"ris\", \"days\": 2}},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"add\", \"parameters\": {\"a\": 1.5, \"note\": \"7\"}}\n]<|END_ACTION|>",
    ),
    (
        "command-r",
        "",
        "<think>Hm.</think>Look:\nAction:\n```json\n[\n    {\n        \"tool_name\": \"get_weather\",\n        \"parameters\": {\"city\": \"Pa\\\"ris\", \"days\": 2}\n    },\n    {\n        \"tool_name\": \"add\",\n        \"parameters\": {\"a\": 1.5, \"note\": \"7\"}\n    }\n]\n```",
    ),
    (
        "gigachat",
        "",
        "<think>Hm.</think>Look:<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Pa\\\"ris\", \"days\": 2}}<|message_sep|><|function_call|>{\"name\": \"add\", \"arguments\": {\"a\": 1.5, \"note\": \"7\"}}",
    ),
    (
        "apertus",
        "",
        "<|inner_prefix|>Hm.<|inner_suffix|>Look:<|tools_prefix|>[{\"get_weather\": {\"city\": \"Pa\\\"ris\", \"days\": 2}}, {\"add\": {\"a\": 1.5, \"note\": \"7\"}}]<|tools_suffix|>",
    ),
    (
        "firefunction",
        "",
        "<think>Hm.</think>Look: functools[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Pa\\\"ris\", \"days\": 2}}, {\"name\": \"add\", \"arguments\": \"{\\\"a\\\": 1.5, \\\"note\\\": \\\"7\\\"}\"}]",
    ),
    (
        "granite",
        "",
        "<think>Hm.</think>Look:<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Pa\\\"ris\", \"days\": 2}}, {\"name\": \"add\", \"arguments\": {\"a\": 1.5, \"note\": \"7\"}}]",
    ),
    (
        "nemotron",
        "<think>\n",
        "Hm.\n</think>\n\nLook:<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Pa\\\"ris\", \"days\": 2}}, {\"name\": \"add\", \"arguments\": {\"a\": 1.5, \"note\": \"7\"}}]</TOOLCALL>",
    ),
    (
        "tool-calls",
        "",
        "<think>Hm.</think>Look:<tool_calls>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Pa\\\"ris\", \"days\": 2}}\n{\"name\": \"add\", \"arguments\": {\"a\": 1.5, \"note\": \"7\"}}\n</tool_calls>",
    ),
    (
        "minicpm5",
        "",
        "<think>Hm.</think>Look:<function name=\"get_weather\"><param name=\"city\"><![CDATA[Pa\"ris]]></param><param name=\"days\">2</param></function><function name=\"add\"><param name=\"a\">1.5</param><param name=\"note\">7</param></function>",
    ),
    (
        "lfm2",
        "",
        "<think>Hm.</think>Look:<|tool_call_start|>[get_weather(city='Pa\"ris', days=2), add(a=1.5, note=\"7\")]<|tool_call_end|>",
    ),
    (
        "gemma4",
        "",
        "<|channel>thought\nHm.\n<channel|>Look:<|tool_call>call:get_weather{city:<|\"|>Pa\"ris<|\"|>,days:2}<tool_call|><|tool_call>call:add{a:1.5,note:<|\"|>7<|\"|>}<tool_call|>",
    ),
    (
        "python-tag",
        "",
        "<think>Hm.</think>Look: <|python_tag|>{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Pa\\\"ris\", \"days\": 2}}<|python_tag|>{\"type\": \"function\", \"name\": \"add\", \"parameters\": {\"a\": 1.5, \"note\": \"7\"}}",
    ),
];

/// What each family's answer is, given the marks of reasoning that it names here.
fn answer_of(family: &str, prompt: &str, text: &str) -> (ReplyFormat, Reply) {
    let mut format = format_of(family, ReasoningForm::Apart);
    let whole = format!("{prompt}{text}");
    if format.family.reasoning.is_none() {
        format.reasoning = Reasoning::of_template(&whole);
    }
    let reply = reply(&format, prompt, text);
    (format, reply)
}

#[test]
fn every_family_is_taken_apart() {
    let mut names: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
    let mut tried: Vec<&str> = ANSWERS.iter().map(|(family, ..)| *family).collect();
    names.sort_unstable();
    tried.sort_unstable();
    assert_eq!(names, tried);
    for (family, prompt, text) in ANSWERS {
        let (_, reply) = answer_of(family, prompt, text);
        assert_eq!(
            (reply.reasoning.as_str(), reply.content.as_str()),
            ("Hm.", "Look:"),
            "{family}: {reply:?}"
        );
        let weather = json!({"city": "Pa\"ris", "days": 2});
        let add = json!({"a": 1.5, "note": "7"});
        assert_eq!(
            calls_of(&reply),
            [("get_weather", weather), ("add", add)],
            "{family}: {reply:?}"
        );
        let ids: Vec<&str> = reply.calls.iter().map(|call| call.id.as_str()).collect();
        assert!(ids[0] != ids[1] && !ids[0].is_empty(), "{family}: {ids:?}");
    }
}

/// At every character, and in pieces of one.
#[test]
fn the_border_between_pieces_makes_no_difference() {
    for (family, prompt, text) in ANSWERS {
        let (format, _) = answer_of(family, prompt, text);
        let whole = events(&format, prompt, &[text]);
        for (at, _) in text.char_indices() {
            assert_eq!(
                events(&format, prompt, &[&text[..at], &text[at..]]),
                whole,
                "{family} cut at {at}"
            );
        }
        let pieces: Vec<String> = text.chars().map(String::from).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        assert_eq!(events(&format, prompt, &pieces), whole, "{family}");
    }
}

/// An answer that ends anywhere: calls that ended are calls, and the rest is content.
#[test]
fn what_is_cut_off_is_content() {
    for (family, prompt, text) in ANSWERS {
        let (format, whole) = answer_of(family, prompt, text);
        for (at, _) in text.char_indices() {
            let reply = reply(&format, prompt, &text[..at]);
            let n = reply.calls.len();
            assert_eq!(reply.calls, whole.calls[..n], "{family} cut at {at}");
            let said = text[..at].contains("get_weather") && n == 0;
            assert!(
                !said || reply.content.contains("get_weather"),
                "{family} cut at {at}: {reply:?}"
            );
        }
    }
}

#[test]
fn malformed_calls_are_content_and_nothing_is_lost() {
    for (family, text, content, n_calls) in [
        (
            "hermes",
            "A <tool_call>no</tool_call> B",
            "A <tool_call>no</tool_call> B",
            0,
        ),
        (
            "hermes",
            "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1,}}</tool_call>B",
            "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1,}}</tool_call>B",
            0,
        ),
        (
            "hermes",
            "<tool_call>{\"arguments\": {}}</tool_call>",
            "<tool_call>{\"arguments\": {}}</tool_call>",
            0,
        ),
        (
            "hermes",
            "<tool_call>{\"name\": \"add\", \"arguments\": {}} B",
            "B",
            1,
        ),
        (
            "mistral-list",
            "[TOOL_CALLS][{\"name\": \"add\", \"arguments\": {}}, {\"name\": 5}]",
            ", {\"name\": 5}]",
            1,
        ),
        (
            "python-tag",
            "{\"name\": \"unknown\", \"parameters\": {}}",
            "{\"name\": \"unknown\", \"parameters\": {}}",
            0,
        ),
        ("python-tag", "{\"rivers\": [1]}", "{\"rivers\": [1]}", 0),
        (
            "python-tag",
            "As JSON: {\"name\": \"add\", \"parameters\": {}}",
            "As JSON: {\"name\": \"add\", \"parameters\": {}}",
            0,
        ),
        ("functionary", "hello", "hello", 0),
        (
            "qwen3-coder",
            "<function=add>\n<parameter=a>1</parameter>\n<oops>",
            "<function=add>\n<parameter=a>1</parameter>\n<oops>",
            0,
        ),
        (
            "lfm2",
            "<|tool_call_start|>[add(a=__import__('os'))]<|tool_call_end|>",
            "<|tool_call_start|>[add(a=__import__('os'))]<|tool_call_end|>",
            0,
        ),
    ] {
        let prompt = if family == "functionary" { ">>>" } else { "" };
        let reply = reply(&format_of(family, ReasoningForm::Apart), prompt, text);
        assert_eq!(
            (reply.content.as_str(), reply.calls.len()),
            (content, n_calls),
            "{family}: {text}"
        );
    }
}

#[test]
fn case_b63_reasoning_has_a_field_of_its_own() {
    let format = |form| ReplyFormat::detect("…<think>…</think>", None, form);
    let text = "Hm.\n</think>\n\nYes.";
    let of = |form| {
        let reply = reply(&format(form), "<|im_start|>assistant\n<think>\n", text);
        (reply.reasoning, reply.content)
    };
    assert_eq!(of(ReasoningForm::Apart), ("Hm.".into(), "Yes.".into()));
    assert_eq!(of(ReasoningForm::Content), (String::new(), text.into()));
    assert_eq!(
        of(ReasoningForm::Both),
        ("Hm.".into(), "<think>Hm.</think>Yes.".into())
    );
    // the template closed it, so the answer is content from the start
    let closed = reply(
        &format(ReasoningForm::Apart),
        "<think>\n\n</think>\n\n",
        "Yes.",
    );
    assert_eq!(
        (closed.reasoning.as_str(), closed.content.as_str()),
        ("", "Yes.")
    );
    // it is never closed: all of it is reasoning
    let open = reply(&format(ReasoningForm::Apart), "<think>", "Hm. Hm.");
    assert_eq!(
        (open.reasoning.as_str(), open.content.as_str()),
        ("Hm. Hm.", "")
    );
    // behind content the mark is text
    let late = reply(
        &format(ReasoningForm::Apart),
        "",
        "Write <think> before </think>.",
    );
    assert_eq!(late.content, "Write <think> before </think>.");
}

/// Without tools no text is a call.
#[test]
fn without_tools_a_call_is_text() {
    let format = ReplyFormat::detect("<tool_call>", None, ReasoningForm::Apart);
    let text = "<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>";
    assert_eq!(reply(&format, "", text).content, text);
}

#[test]
fn arguments_come_as_they_are_written() {
    let format = format_of("hermes", ReasoningForm::Apart);
    let mut parser = ReplyParser::new(format, "", 7);
    let mut out = Vec::new();
    parser.push(
        "<tool_call>{\"name\": \"add\", \"arguments\": {\"note\": \"two\nli",
        &mut out,
    );
    let start = ReplyEvent::CallStart {
        index: 0,
        id: "call00007".into(),
        name: "add".into(),
    };
    let text = "{\"note\": \"two\\u000ali".to_owned();
    assert_eq!(out, [start, ReplyEvent::Arguments { index: 0, text }]);
}

/// Each piece of a call has what came before read again: a file as an argument must not cost its length squared.
#[test]
fn long_arguments_are_read_a_few_times_and_come_as_they_grow() {
    let n = 200_000;
    let argument = "x\u{e9} ".repeat(n / 4);
    for (family, before, after) in [
        (
            "hermes",
            "<tool_call>{\"name\": \"add\", \"arguments\": {\"note\": \"",
            "\"}}</tool_call>",
        ),
        (
            "qwen3-coder",
            "<tool_call>\n<function=add>\n<parameter=note>\n",
            "\n</parameter>\n</function>\n</tool_call>",
        ),
    ] {
        let format = format_of(family, ReasoningForm::Apart);
        let mut parser = ReplyParser::new(format, "", 0);
        let (mut out, mut reply) = (Vec::new(), Reply::default());
        let text = format!("{before}{argument}{after}Done.");
        let (mut at, mut largest) = (0, 0);
        while at < text.len() {
            let next = text.ceil_char_boundary(at + 4);
            parser.push(&text[at..next], &mut out);
            at = next;
            for event in out.drain(..) {
                if let (ReplyEvent::Arguments { text, .. }, true) = (&event, family == "hermes") {
                    largest = largest.max(text.len());
                }
                reply.take(&event);
            }
        }
        // With a sixteenth more each time, all readings together are 17 times the last one, and one more.
        assert!(
            parser.n_read < 20 * text.len(),
            "{family}: {}",
            parser.n_read
        );
        assert!(largest < n / 10, "{family}: {largest}");
        parser.finish(&mut out);
        out.iter().for_each(|event| reply.take(event));
        let [call] = &reply.calls[..] else {
            panic!("{family}: {} calls", reply.calls.len());
        };
        let value: Value = serde_json::from_str(&call.arguments).unwrap();
        assert_eq!(
            value["note"].as_str().map(str::trim),
            Some(argument.trim()),
            "{family}"
        );
        assert_eq!(reply.content, "Done.", "{family}");
    }
}

/// What a template writes for calls is read back as these calls.
#[test]
fn golden_templates_calls_are_read_back() {
    let Some(folder) = golden("templates") else {
        return;
    };
    let names = read_json(folder.join("names.json"));
    let mut n = 0;
    for name in names["templates"].as_array().unwrap() {
        let name = name.as_str().unwrap();
        let source = std::fs::read_to_string(folder.join(format!("jinja/{name}.jinja"))).unwrap();
        n += usize::from(is_read_back(name, &source));
    }
    compared(n, "templates whose calls are read back");
    assert_eq!(n, 10); // two of the twelve know no tools
}

fn is_read_back(name: &str, source: &str) -> bool {
    let template = ChatTemplate::new(source).unwrap();
    let user = json!({"role": "user", "content": "Weather?"});
    let arguments = json!({"city": "Par<is", "days": 2});
    let call = json!({"id": "123456789", "type": "function", "function": {"name": "get_weather", "arguments": arguments}});
    let assistant = json!({"role": "assistant", "content": "", "tool_calls": [call]});
    let mut input = RenderInput::new(&[]);
    input.tools = Some(tools());
    input.clock = Clock::Fixed(0);
    let mut rendered = |messages: Value, generates: bool| {
        input.messages = messages;
        input.add_generation_prompt = generates;
        template.render(&input).ok()
    };
    let Some(whole) = rendered(json!([user, assistant]), false) else {
        return false;
    };
    // where the prompt goes another way (into reasoning), the answer is what follows the user's message
    let prompts = [
        rendered(json!([user]), true),
        rendered(json!([user]), false),
    ];
    let mut prompts = prompts.into_iter().flatten();
    let Some(prompt) = prompts.find(|prompt| whole.starts_with(prompt)) else {
        return false;
    };
    let text = &whole[prompt.len()..];
    if !text.contains("get_weather") {
        return false;
    }
    let format = ReplyFormat::detect(source, input.tools.as_ref(), ReasoningForm::Apart);
    let reply = reply(&format, &prompt, text);
    assert_eq!(
        calls_of(&reply),
        [("get_weather", arguments)],
        "{name} ({}): {text:?}\n{reply:?}",
        format.family()
    );
    true
}

/// Marks of a family, parts of them, words and white space, in any order.
fn fragments(family: &'static Family) -> Vec<String> {
    let (_, _, answer) = ANSWERS
        .iter()
        .find(|(name, ..)| *name == family.name)
        .unwrap();
    let marks = [
        family.calls,
        family.first_calls,
        family.within,
        family.dropped,
    ];
    let marks = marks.into_iter().flatten().map(|mark| (*mark).to_owned());
    let mut all: Vec<String> = marks.collect();
    let parts = [
        "<think>",
        "</think>",
        "{",
        "}",
        "[",
        "]",
        "\"name\": \"add\"",
        "\"arguments\": {",
        ", ",
        "\n",
        " ",
        "add",
        "<",
        ">",
        "é",
    ];
    all.extend(parts.map(str::to_owned));
    all.push((*answer).to_owned());
    let middle = answer
        .char_indices()
        .map(|(at, _)| at)
        .nth(answer.chars().count() * 2 / 3)
        .unwrap();
    all.push(answer[..middle].to_owned());
    all.push(answer[middle..].to_owned());
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever an answer is, the border between pieces makes no difference, and every word of it comes out.
    #[test]
    fn no_text_is_lost_and_no_border_seen(
        family in 0..FAMILIES.len(),
        picks in prop::collection::vec((any::<prop::sample::Index>(), 0..3usize), 1..12),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let family = FAMILIES[family];
        let fragments = fragments(family);
        let mut text = String::new();
        let mut words = Vec::new();
        let mut has_half = false;
        for (index, (pick, word)) in picks.iter().enumerate() {
            let pick = pick.index(fragments.len());
            text.push_str(&fragments[pick]);
            has_half |= pick + 2 >= fragments.len();
            if *word == 0 {
                words.push(format!("word{index}"));
                text.push_str(&format!("word{index}"));
            }
        }
        let format = format_of(family.name, ReasoningForm::Apart);
        let whole = events(&format, "", &[&text]);
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len())).collect();
        at.retain(|&at| text.is_char_boundary(at));
        at.sort_unstable();
        at.push(text.len());
        let mut from = 0;
        let pieces: Vec<&str> = at.iter().map(|&to| { let piece = &text[from..to]; from = to; piece }).collect();
        prop_assert_eq!(&events(&format, "", &pieces), &whole, "{}: {:?}", family.name, text);
        let mut told = String::new();
        for event in &whole {
            match event {
                ReplyEvent::Reasoning(text) | ReplyEvent::Content(text) | ReplyEvent::Arguments { text, .. } => told.push_str(text),
                ReplyEvent::CallStart { id, name, .. } => told.push_str(&format!(" {id} {name} ")),
                _ => {}
            }
        }
        // in the middle of an answer a word may be part of a tag, or of an id that comes too late to count
        for word in words.into_iter().filter(|_| !has_half) {
            prop_assert!(told.contains(&word), "{}: {word} of {text:?} is not in {whole:?}", family.name);
        }
    }
}
