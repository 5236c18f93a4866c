//! Constructs of `transformers` that the template engine does not have.

/// Rewrites `{% generation %}` … `{% endgeneration %}`, which mark the assistant's text for training, to
/// blocks that change nothing; markers for trimming white space stay where they are, lines too.
pub(super) fn prepare(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        text.push_str(&rest[..start + 2]);
        rest = &rest[start + 2..];
        let Some(end) = rest.find("%}") else { break };
        let tag = &rest[..end];
        let name = tag.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        match name {
            "generation" => text.push_str(&tag.replacen("generation", "if true", 1)),
            "endgeneration" => text.push_str(&tag.replacen("endgeneration", "endif", 1)),
            _ => continue,
        }
        rest = &rest[end..];
    }
    text.push_str(rest);
    text
}
