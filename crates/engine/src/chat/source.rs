//! Constructs of `transformers` that the template engine does not have.

/// Rewrites `{% generation %}` … `{% endgeneration %}`, which mark the assistant's text for training, to
/// blocks that change nothing; markers for trimming white space stay where they are, lines too.
pub(super) fn prepare(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(end) = rest.find("%}") {
        let (before, after) = rest.split_at(end);
        // Of several openings before one end, only the last can begin a tag of one word: every byte is looked at once.
        let (kept, tag) = before.split_at(before.rfind("{%").map_or(end, |start| start + 2));
        text.push_str(kept);
        let name = tag.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        match name {
            "generation" => text.push_str(&tag.replacen("generation", "if true", 1)),
            "endgeneration" => text.push_str(&tag.replacen("endgeneration", "endif", 1)),
            _ => text.push_str(tag),
        }
        text.push_str("%}");
        rest = &after[2..];
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::prepare;
    use std::time::{Duration, Instant};

    #[test]
    fn marks_of_the_assistants_text_become_blocks_that_change_nothing() {
        for (source, expected) in [
            (
                "a{%- generation -%}b{% endgeneration %}c",
                "a{%- if true -%}b{% endif %}c",
            ),
            ("{# {% #}{% generation %}", "{# {% #}{% if true %}"),
            (
                "{% set generation = 1 %}{%}%}{%",
                "{% set generation = 1 %}{%}%}{%",
            ),
            ("generation %}", "generation %}"),
        ] {
            assert_eq!(prepare(source), expected);
        }
    }

    /// One search to the end for each opening would be 2^36 steps here.
    #[test]
    fn many_openings_before_one_end_take_no_longer_than_their_bytes() {
        let opened = "{%".repeat(1 << 19);
        let far = format!("{opened}{}%}}", " ".repeat(1 << 19));
        let begin = Instant::now();
        assert_eq!(prepare(&opened), opened);
        assert_eq!(prepare(&far), far);
        assert!(begin.elapsed() < Duration::from_secs(5));
    }
}
