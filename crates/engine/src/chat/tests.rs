use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::guard::Controls;
use super::*;
use crate::tests::golden::{compared, golden, read_json};

fn input_of_case(case: &Value) -> RenderInput {
    let mut extra = case.as_object().unwrap().clone();
    let messages = extra.shift_remove("messages").unwrap();
    let tools = extra.shift_remove("tools");
    let add_generation_prompt = extra
        .shift_remove("add_generation_prompt")
        .unwrap()
        .as_bool()
        .unwrap();
    RenderInput {
        messages,
        tools,
        add_generation_prompt,
        bos_token: "<s>".into(),
        eos_token: "</s>".into(),
        extra,
        clock: Clock::Fixed(1_736_944_245), // 2025-01-15 12:30:45
    }
}

#[test]
fn golden_templates() {
    let Some(folder) = golden("templates") else {
        return;
    };
    let cases = read_json(folder.join("cases.json"));
    let names = read_json(folder.join("names.json"));
    let mut n_compared = 0;
    let mut wrong = Vec::new();
    for name in names["templates"].as_array().unwrap() {
        let name = name.as_str().unwrap();
        let source = std::fs::read_to_string(folder.join(format!("jinja/{name}.jinja"))).unwrap();
        let template = ChatTemplate::new(&source).unwrap_or_else(|error| panic!("{name}: {error}"));
        let expected = read_json(folder.join(format!("expected/{name}.json")));
        for (case, expected) in expected.as_object().unwrap() {
            let result = template.render(&input_of_case(&cases["cases"][case]));
            n_compared += 1;
            let right = match (
                &result,
                expected["text"].as_str(),
                expected["raised_by_template"].as_bool(),
            ) {
                (Ok(text), Some(expected), _) => text == expected,
                (Err(EngineError::TemplateRefused { message }), None, Some(true)) => {
                    Some(message.as_str()) == expected["error"].as_str()
                }
                (_, None, Some(false)) => true, // Jinja2 itself fails here; both ways are right
                _ => false,
            };
            if !right {
                wrong.push(format!("{name} {case}: {result:?}\nexpected {expected}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {n_compared} differ\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
    assert_eq!(n_compared, 84);
    compared(n_compared, "rendered conversations");
}

/// The budget of a rendering grows with the conversation.
#[test]
fn many_tools_and_long_conversations_render() {
    let Some(folder) = golden("templates") else {
        return;
    };
    let cases = read_json(folder.join("cases.json"));
    let mut input = input_of_case(&cases["cases"]["tools"]);
    let tools = input.tools.as_mut().unwrap().as_array_mut().unwrap();
    *tools = std::iter::repeat_n(tools.clone(), 200).flatten().collect();
    let turns = (0..1000).map(|index| {
        let role = if index % 2 == 0 { "user" } else { "assistant" };
        json!({"role": role, "content": format!("Word {index}. ").repeat(20)})
    });
    input.messages = turns.collect();
    let names = read_json(folder.join("names.json"));
    for name in names["templates"].as_array().unwrap() {
        let name = name.as_str().unwrap();
        let source = std::fs::read_to_string(folder.join(format!("jinja/{name}.jinja"))).unwrap();
        let result = ChatTemplate::new(&source).unwrap().render(&input);
        assert!(
            !matches!(&result, Err(EngineError::TemplateRender { message, .. }) if message.contains("more than")),
            "{name}: {result:?}"
        );
    }
}

#[track_caller]
fn renders(source: &str, variables: Value, expected: &str) {
    let mut input = RenderInput::new(&[Message::new("user", "Hi")]);
    input.extra = variables.as_object().unwrap().clone();
    input.clock = Clock::Fixed(1_736_944_245);
    match ChatTemplate::new(source).and_then(|template| template.render(&input)) {
        Ok(text) => assert_eq!(text, expected, "{source}"),
        Err(error) => panic!("{source}: {error}"),
    }
}

/// The right values are what Jinja2 3.1.6 renders with blocks trimmed and loop controls.
#[test]
fn case_b59_language_features() {
    let list = json!({"x": [1, 2, 3, 4, 5], "s": " a,b ", "m": {"k": 1, "l": [true, null, 1.5]},
        "users": [{"n": "a", "on": true}, {"n": "b", "on": false}]});
    for (source, expected) in [
        (
            "{% set ns = namespace(n=0) %}{% for i in x %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
            "15",
        ),
        (
            "{% macro f(a, b='d') %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}{{ f(1, 2) }}",
            "1d12",
        ),
        (
            "{% macro f(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(*x[:3], b=4) }}",
            "1(2, 3){'b': 4}",
        ),
        (
            "{% for i in x %}{{ loop.previtem if not loop.first else '-' }}{{ i }}{% endfor %}",
            "-112233445",
        ),
        (
            "{% for i in x %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
            "13",
        ),
        (
            "{{ x[::-1] }}{{ x[1:4:2] }}{{ x[-2:] }}",
            "[5, 4, 3, 2, 1][2, 4][4, 5]",
        ),
        ("{{ m | tojson }}", r#"{"k": 1, "l": [true, null, 1.5]}"#),
        (
            "{{ m | tojson(indent=2) }}",
            "{\n  \"k\": 1,\n  \"l\": [\n    true,\n    null,\n    1.5\n  ]\n}",
        ),
        (
            "{{ m | tojson(separators=(',', ':')) }}",
            r#"{"k":1,"l":[true,null,1.5]}"#,
        ),
        (
            "{{ '<é\"\\n>' | tojson }}{{ [] | tojson(indent=2) }}",
            "\"<é\\\"\\n>\"[]",
        ),
        (
            "{{ users | selectattr('on') | map(attribute='n') | list }}",
            "['a']",
        ),
        (
            "{{ users | rejectattr('on') | map(attribute='n') | list }}",
            "['b']",
        ),
        (
            "{{ users | selectattr('n', 'equalto', 'b') | list | length }}",
            "1",
        ),
        (
            "{{ s.strip().split(',') }}{{ s.strip().startswith('a') }}",
            "['a', 'b']True",
        ),
        (
            "{{ m is mapping }}{{ m is iterable }}{{ m is string }}{{ s is string }}{{ y is defined }}",
            "TrueTrueFalseTrueFalse",
        ),
        (
            "{% for k, v in m.items() %}{{ k }}={{ v }};{% endfor %}",
            "k=1;l=[True, None, 1.5];",
        ),
        (
            "{{ strftime_now('%d %B %Y, %H:%M') }}",
            "15 January 2025, 12:30",
        ),
        (
            "a{% generation %}b{% endgeneration %}c{%- generation -%} d {%- endgeneration %}",
            "abcd",
        ),
        ("{%- if true -%}\n  a\n{%- endif %}\n  {# c #}\nb", "ab"),
        ("  {% if true %}\nx\n  {% endif %}\ny", "x\ny"),
        (
            "{{ 1 ~ 'a' ~ 2.0 }}{{ 'x' if false }}|{{ 7 // 2 }}{{ 7 % 4 }}{{ 2 ** 3 }}",
            "1a2.0|338",
        ),
        (
            "{{ 'a-b'.replace('-', '+').upper() }}{{ 'abc'.removeprefix('a') }}",
            "A+Bbc",
        ),
        (
            "{{ 'k=v'.partition('=')[2] }}{{ 'ab' in 'cab' }}{{ 'x' * 3 }}",
            "vTruexxx",
        ),
        (
            "{{ messages[0]['content'] }}{{ messages[0].role }}{{ messages | length }}",
            "Hiuser1",
        ),
        (
            "{{ tools is none }}{{ documents is none }}{{ none }}",
            "TrueTrueNone",
        ),
        (
            "{% set a %}block{% endset %}{{ a | trim | length }}{{ (x | first) + (x | last) }}",
            "56",
        ),
        (
            "{%- for c in 'ab' %}{{ loop.index0 }}{{ c }}{% endfor %}{{ dict(a=1)['a'] }}",
            "0a1b1",
        ),
        (
            "{{ 'A b'.title() }}{{ 'aXb'.split('X')[-1] }}{{ ['a','b'] | join('-') }}",
            "A Bba-b",
        ),
    ] {
        renders(source, list.clone(), expected);
    }
}

#[test]
fn case_b59_errors_name_line_and_feature() {
    let error = ChatTemplate::new("a\nb {% frobnicate x %}").unwrap_err();
    assert!(
        matches!(&error, EngineError::TemplateSyntax { line: 2, message } if message.contains("frobnicate")),
        "{error}"
    );
}

/// Conversations that a template forbids, and one that it does not: what it says of them is kept word for word.
#[test]
fn case_b58_the_templates_own_words() {
    let source = "{% if messages[0].role == 'system' %}{{ raise_exception('No system role, please: ' + messages[0].content) }}\
        {% endif %}{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}{{ raise_exception('Unknown role ' ~ m.role) }}\
        {% endif %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}\
        {{ m.content }}{% endfor %}";
    let template = ChatTemplate::new(source).unwrap();
    for (roles, expected) in [
        (&["user", "assistant", "user"][..], Ok("012")),
        (&["system", "user"], Err("No system role, please: 0")),
        (&["user", "user"], Err("Roles must alternate")),
        (&["assistant", "user"], Err("Roles must alternate")),
        (&["user", "assistant", "tool"], Err("Unknown role tool")),
    ] {
        let messages = roles.iter().enumerate();
        let messages = messages.map(|(index, role)| Message::new(*role, index.to_string()));
        let result = template.render(&RenderInput::new(&messages.collect::<Vec<_>>()));
        match (result, expected) {
            (Ok(text), Ok(expected)) => assert_eq!(text, expected),
            (Err(EngineError::TemplateRefused { message }), Err(expected)) => {
                assert_eq!(message, expected);
            }
            (result, _) => panic!("{roles:?}: {result:?}"),
        }
    }
}

#[test]
fn a_template_cannot_run_forever() {
    let source = "{% for a in range(10000) %}{% for b in range(10000) %}{% for c in range(10000) %}x{% endfor %}{% endfor %}{% endfor %}";
    let error = ChatTemplate::new(source)
        .unwrap()
        .render(&RenderInput::new(&[]))
        .unwrap_err();
    assert!(error.to_string().contains("too many steps"), "{error}");
}

/// What the reference writes for each of its names: three conversations, with an answer to follow and without.
#[test]
fn builtin_templates_write_what_the_reference_does() {
    assert!(BUILTIN_TEMPLATES.is_sorted_by_key(|template| template.name));
    let expected: BTreeMap<String, Vec<String>> =
        serde_json::from_str(include_str!("builtin/expected.json")).unwrap();
    let names: Vec<&str> = BUILTIN_TEMPLATES.iter().map(|item| item.name).collect();
    assert_eq!(names, expected.keys().collect::<Vec<_>>());
    let conversations = [
        json!([
            ["system", " Be brief. "],
            ["user", " Hi \n"],
            ["assistant", " Hello! "],
            ["user", "And?"]
        ]),
        json!([["user", "One"], ["assistant", "Two"], ["user", " Three"]]),
        json!([["user", "One"], ["assistant", "Two"]]),
    ];
    for (name, texts) in &expected {
        let template = builtin(name).unwrap();
        for (messages, expected) in conversations.iter().zip(texts) {
            let messages: Vec<(String, String)> = serde_json::from_value(messages.clone()).unwrap();
            let messages = messages
                .into_iter()
                .map(|(role, text)| Message::new(role, text));
            let messages: Vec<Message> = messages.collect();
            let mut input = RenderInput::new(&messages);
            input.add_generation_prompt = messages.last().unwrap().role == "user";
            assert_eq!(&template.render(&input).unwrap(), expected, "{name}");
        }
    }
}

#[test]
fn case_b48_content_is_marked_where_it_spells_a_control_token() {
    let controls = Controls::new(["<|im_start|>", "<|im_end|>", "|>"].map(str::as_bytes));
    let template = builtin("chatml").unwrap();
    let mut input = RenderInput::new(&[Message::new("user", "A<|im_end|>B \u{fdd0}")]);
    input.add_generation_prompt = false;
    let guarded = guarded(&template, &input, &controls).unwrap();
    assert_eq!(
        guarded.text,
        "<|im_start|>user\nA<|im_end|>B \u{fdd0}<|im_end|>\n"
    );
    assert_eq!(guarded.plain_starts, [18, 26]);
    assert_eq!(guarded.text, template.render(&input).unwrap());
}

#[test]
fn clock_formats_as_python_does() {
    let text = |seconds, format| Clock::Fixed(seconds).format(format);
    assert_eq!(
        text(0, "%Y-%m-%d %H:%M:%S %A %j"),
        "1970-01-01 00:00:00 Thursday 001"
    );
    assert_eq!(
        text(951_782_400, "%d %b %y %-d/%-m %j %I%p %u%w"),
        "29 Feb 00 29/2 060 12AM 22"
    );
    assert_eq!(
        text(1_735_646_400, "%F %T %j %a %e%%%Q"),
        "2024-12-31 12:00:00 366 Tue 31%%Q"
    );
    assert_eq!(text(-1, "%F %T"), "1969-12-31 23:59:59");
    assert_eq!(text(i64::MAX, "%Y"), "9999");
}
