//! Tokens.

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    /// Text between tags, white space already trimmed.
    Data(String),
    /// `{{`
    EmitStart,
    /// `}}`
    EmitEnd,
    /// `{%`
    TagStart,
    /// `%}`
    TagEnd,
    Name(String),
    Integer(i128),
    Float(f64),
    Text(String),
    Operator(&'static str),
    End,
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub line: usize,
    pub kind: TokenKind,
}

impl TokenKind {
    /// What an error calls it.
    pub fn describe(&self) -> String {
        match self {
            TokenKind::Data(_) => "text".into(),
            TokenKind::EmitStart => "'{{'".into(),
            TokenKind::EmitEnd => "'}}'".into(),
            TokenKind::TagStart => "'{%'".into(),
            TokenKind::TagEnd => "'%}'".into(),
            TokenKind::Name(name) => format!("'{name}'"),
            TokenKind::Integer(n) => format!("'{n}'"),
            TokenKind::Float(x) => format!("'{x}'"),
            TokenKind::Text(_) => "a string".into(),
            TokenKind::Operator(operator) => format!("'{operator}'"),
            TokenKind::End => "the end of the template".into(),
        }
    }
}
