//! Templates that are a frame per role: one pattern for each, the text put in its place.

/// The frames of a template. In a pattern `{text}` is a message's text, `{trimmed}` the same without white space around
/// it, and `{role}`, `{Role}` and `{ROLE}` its role, as it is, capitalized and in capitals.
pub struct Turns {
    /// Before the first message.
    pub start: &'static str,
    /// Roles with a pattern of their own.
    pub roles: &'static [(&'static str, &'static str)],
    /// The pattern of every other role; without one a message of another role is refused.
    pub others: Option<&'static str>,
    /// The start of the answer.
    pub answer: &'static str,
}

/// What a frame is filled with.
const FILLINGS: &[(&str, &str)] = &[
    ("{text}", "message['content']"),
    ("{trimmed}", "message['content'] | trim"),
    ("{role}", "message['role']"),
    ("{Role}", "message['role'] | capitalize"),
    ("{ROLE}", "message['role'] | upper"),
];

impl Turns {
    /// The template as Jinja text; `name` is for its messages.
    pub fn jinja(&self, name: &str) -> String {
        let mut out = format!("{{{{- {} }}}}", literal(self.start));
        out.push_str("{%- for message in messages %}{%- if false %}");
        for (role, pattern) in self.roles {
            out.push_str(&format!("{{%- elif message['role'] == '{role}' %}}"));
            out.push_str(&expression(pattern));
        }
        out.push_str("{%- else %}");
        match self.others {
            Some(pattern) => out.push_str(&expression(pattern)),
            None => out.push_str(&format!(
                "{{{{- raise_exception('the template {name} has no role ' + message['role']) }}}}"
            )),
        }
        out.push_str("{%- endif %}{%- endfor %}{%- if add_generation_prompt %}");
        out.push_str(&format!(
            "{{{{- {} }}}}{{%- endif %}}",
            literal(self.answer)
        ));
        out
    }
}

/// A string of Jinja.
fn literal(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('\'', "\\'");
    format!("'{}'", text.replace('\n', "\\n"))
}

/// The expression that writes a pattern.
fn expression(pattern: &str) -> String {
    let mut out = String::from("{{- ''");
    let mut rest = pattern;
    let next = |text: &str| {
        let found = FILLINGS.iter().filter_map(|(mark, value)| {
            let at = text.find(mark)?;
            Some((at, at + mark.len(), *value))
        });
        found.min()
    };
    while let Some((start, end, value)) = next(rest) {
        out.push_str(&format!(" + {} + ({value})", literal(&rest[..start])));
        rest = &rest[end..];
    }
    out.push_str(&format!(" + {} }}}}", literal(rest)));
    out
}
