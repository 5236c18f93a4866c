//! Tokens to expressions.

use std::collections::HashMap;

use super::token::{Token, TokenKind};
use super::{
    Arguments, Constant, ConstantIndex, Expression, ExpressionKind, Filter, MAX_NESTING, NameIndex,
    Program,
};
use crate::error::{Result, TemplateError};

/// The operators of two values, the loosest first; each row binds equally.
const BINARY: [&[&str]; 3] = [&["+", "-"], &["~"], &["*", "/", "//", "%"]];
const COMPARISONS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];
/// Words that no test takes for its argument.
const WORDS: [&str; 7] = ["and", "or", "not", "else", "if", "is", "in"];

/// The state of reading a template.
pub(super) struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// Loops around the present place, in the present macro.
    pub loops: usize,
    pub program: Program,
    names: HashMap<String, NameIndex>,
    texts: HashMap<String, ConstantIndex>,
}

impl Parser {
    pub fn new(tokens: Vec<Token>) -> Self {
        Parser {
            tokens,
            at: 0,
            depth: 0,
            loops: 0,
            program: Program::default(),
            names: HashMap::new(),
            texts: HashMap::new(),
        }
    }

    // Tokens.

    pub fn peek(&self) -> &TokenKind {
        // the last token is the end, and nothing goes past it
        &self.tokens[self.at.min(self.tokens.len() - 1)].kind
    }

    fn peek_second(&self) -> &TokenKind {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].kind
    }

    pub fn line(&self) -> usize {
        self.tokens[self.at.min(self.tokens.len() - 1)].line
    }

    pub fn next(&mut self) -> TokenKind {
        let kind = self.peek().clone();
        self.at += 1;
        kind
    }

    pub fn error(&self, message: impl Into<String>) -> TemplateError {
        TemplateError::Syntax {
            line: self.line(),
            message: message.into(),
        }
    }

    pub fn unexpected(&self, wanted: &str) -> TemplateError {
        self.error(format!("{} instead of {wanted}", self.peek().describe()))
    }

    pub fn is_operator(&self, operator: &str) -> bool {
        matches!(self.peek(), TokenKind::Operator(found) if *found == operator)
    }

    pub fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), TokenKind::Name(found) if found == word)
    }

    pub fn skip_operator(&mut self, operator: &str) -> bool {
        let found = self.is_operator(operator);
        self.at += usize::from(found);
        found
    }

    pub fn skip_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    pub fn expect_operator(&mut self, operator: &str) -> Result<()> {
        match self.skip_operator(operator) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("'{operator}'"))),
        }
    }

    pub fn expect_name(&mut self) -> Result<String> {
        match self.peek() {
            TokenKind::Name(name) => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    /// Runs a part that may contain itself, and refuses to go on too deep.
    pub fn nested<T>(&mut self, part: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(self.too_deep());
        }
        let result = part(self);
        self.depth -= 1;
        result
    }

    fn too_deep(&self) -> TemplateError {
        TemplateError::Depth {
            line: self.line(),
            what: "expressions and blocks are",
            limit: MAX_NESTING,
        }
    }

    // Tables.

    pub fn name(&mut self, name: &str) -> NameIndex {
        if let Some(&index) = self.names.get(name) {
            return index;
        }
        let index = self.program.names.len();
        self.program.names.push(name.to_owned());
        self.names.insert(name.to_owned(), index);
        index
    }

    pub fn constant(&mut self, constant: Constant) -> ConstantIndex {
        let index = self.program.constants.len();
        if let Constant::Text(text) = &constant {
            if let Some(&index) = self.texts.get(text) {
                return index;
            }
            self.texts.insert(text.clone(), index);
        }
        self.program.constants.push(constant);
        index
    }

    /// An expression above others; a chain of operators is as deep as it is long.
    fn above(&self, line: usize, kind: ExpressionKind, parts: &[usize]) -> Result<Expression> {
        let depth = 1 + parts.iter().max().copied().unwrap_or(0);
        if depth > MAX_NESTING {
            return Err(self.too_deep());
        }
        Ok(Expression { line, depth, kind })
    }

    // Expressions.

    /// A whole expression, conditionals included.
    pub fn expression(&mut self) -> Result<Expression> {
        self.nested(|parser| {
            let mut value = parser.or()?;
            while parser.is_word("if") {
                let line = parser.line();
                parser.at += 1;
                let condition = parser.or()?;
                let otherwise = match parser.skip_word("else") {
                    true => Some(parser.expression()?),
                    false => None,
                };
                let depths = [
                    value.depth,
                    condition.depth,
                    otherwise.as_ref().map_or(0, |other| other.depth),
                ];
                let kind = ExpressionKind::Conditional {
                    condition: Box::new(condition),
                    value: Box::new(value),
                    otherwise: otherwise.map(Box::new),
                };
                value = parser.above(line, kind, &depths)?;
            }
            Ok(value)
        })
    }

    /// An expression, or several with commas between them, which are a tuple.
    pub fn tuple(&mut self, conditional: bool) -> Result<Expression> {
        let line = self.line();
        let read = |parser: &mut Self| match conditional {
            true => parser.expression(),
            false => parser.or(),
        };
        let first = read(self)?;
        if !self.is_operator(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.skip_operator(",") {
            if self.at_end_of_tuple() {
                break;
            }
            items.push(read(self)?);
        }
        self.sequence(line, items, true)
    }

    fn at_end_of_tuple(&self) -> bool {
        match self.peek() {
            TokenKind::EmitEnd | TokenKind::TagEnd | TokenKind::End => true,
            TokenKind::Operator(operator) => matches!(*operator, ")" | "]" | "="),
            TokenKind::Name(name) => matches!(name.as_str(), "in" | "if" | "recursive"),
            _ => false,
        }
    }

    fn sequence(&self, line: usize, items: Vec<Expression>, tuple: bool) -> Result<Expression> {
        let depths: Vec<_> = items.iter().map(|item| item.depth).collect();
        let kind = match tuple {
            true => ExpressionKind::Tuple(items),
            false => ExpressionKind::List(items),
        };
        self.above(line, kind, &depths)
    }

    pub fn or(&mut self) -> Result<Expression> {
        self.chain("or", Self::and, ExpressionKind::Or)
    }

    fn and(&mut self) -> Result<Expression> {
        self.chain("and", Self::not, ExpressionKind::And)
    }

    /// Operands with a word between, from the left.
    fn chain(
        &mut self,
        word: &str,
        operand: fn(&mut Self) -> Result<Expression>,
        kind: fn(Box<Expression>, Box<Expression>) -> ExpressionKind,
    ) -> Result<Expression> {
        let mut left = operand(self)?;
        while self.is_word(word) {
            let line = self.line();
            self.at += 1;
            let right = operand(self)?;
            let depths = [left.depth, right.depth];
            left = self.above(line, kind(Box::new(left), Box::new(right)), &depths)?;
        }
        Ok(left)
    }

    fn not(&mut self) -> Result<Expression> {
        if !self.is_word("not") {
            return self.comparison();
        }
        let line = self.line();
        self.at += 1;
        let value = self.nested(Self::not)?;
        let depth = value.depth;
        self.above(line, ExpressionKind::Not(Box::new(value)), &[depth])
    }

    fn comparison(&mut self) -> Result<Expression> {
        let line = self.line();
        let first = self.binary(0)?;
        let mut rest = Vec::new();
        loop {
            let operator = match self.peek() {
                TokenKind::Operator(operator) if COMPARISONS.contains(operator) => *operator,
                TokenKind::Name(name) if name == "in" => "in",
                TokenKind::Name(name)
                    if name == "not"
                        && matches!(self.peek_second(), TokenKind::Name(name) if name == "in") =>
                {
                    self.at += 1;
                    "not in"
                }
                _ => break,
            };
            self.at += 1;
            rest.push((operator, self.binary(0)?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        let mut depths: Vec<_> = rest.iter().map(|(_, value)| value.depth).collect();
        depths.push(first.depth);
        self.above(
            line,
            ExpressionKind::Compare(Box::new(first), rest),
            &depths,
        )
    }

    /// Operators from a row of [`BINARY`] on.
    fn binary(&mut self, row: usize) -> Result<Expression> {
        let Some(operators) = BINARY.get(row) else {
            return self.power();
        };
        let mut left = self.binary(row + 1)?;
        while let TokenKind::Operator(operator) = *self.peek() {
            if !operators.contains(&operator) {
                break;
            }
            left = self.operation(operator, left, |parser| parser.binary(row + 1))?;
        }
        Ok(left)
    }

    fn power(&mut self) -> Result<Expression> {
        let mut left = self.unary(true)?;
        while self.is_operator("**") {
            left = self.operation("**", left, |parser| parser.unary(true))?;
        }
        Ok(left)
    }

    fn operation(
        &mut self,
        operator: &'static str,
        left: Expression,
        right: impl FnOnce(&mut Self) -> Result<Expression>,
    ) -> Result<Expression> {
        let line = self.line();
        self.at += 1;
        let right = right(self)?;
        let depths = [left.depth, right.depth];
        let kind = ExpressionKind::Binary(operator, Box::new(left), Box::new(right));
        self.above(line, kind, &depths)
    }

    fn unary(&mut self, filters: bool) -> Result<Expression> {
        let line = self.line();
        let mut value = if self.is_operator("-") || self.is_operator("+") {
            let negative = self.is_operator("-");
            self.at += 1;
            let value = self.nested(|parser| parser.unary(false))?;
            let depth = value.depth;
            let kind = match negative {
                true => ExpressionKind::Negative(Box::new(value)),
                false => ExpressionKind::Positive(Box::new(value)),
            };
            self.above(line, kind, &[depth])?
        } else {
            self.primary()?
        };
        value = self.postfix(value)?;
        if filters {
            value = self.filters_and_tests(value)?;
        }
        Ok(value)
    }

    fn primary(&mut self) -> Result<Expression> {
        let line = self.line();
        let kind = match self.peek().clone() {
            TokenKind::Name(name) => {
                self.at += 1;
                let constant = match name.as_str() {
                    "true" | "True" => Some(Constant::Bool(true)),
                    "false" | "False" => Some(Constant::Bool(false)),
                    "none" | "None" => Some(Constant::None),
                    _ => None,
                };
                match constant {
                    Some(constant) => ExpressionKind::Constant(self.constant(constant)),
                    None => ExpressionKind::Name(self.name(&name)),
                }
            }
            TokenKind::Text(mut text) => {
                self.at += 1;
                // strings side by side are one
                while let TokenKind::Text(more) = self.peek() {
                    text.push_str(more);
                    self.at += 1;
                }
                ExpressionKind::Constant(self.constant(Constant::Text(text)))
            }
            TokenKind::Integer(n) => {
                self.at += 1;
                ExpressionKind::Constant(self.constant(Constant::Integer(n)))
            }
            TokenKind::Float(x) => {
                self.at += 1;
                ExpressionKind::Constant(self.constant(Constant::Float(x)))
            }
            TokenKind::Operator("(") => return self.nested(Self::parentheses),
            TokenKind::Operator("[") => return self.nested(Self::list),
            TokenKind::Operator("{") => return self.nested(Self::map),
            _ => return Err(self.unexpected("a value")),
        };
        self.above(line, kind, &[])
    }

    fn parentheses(&mut self) -> Result<Expression> {
        let line = self.line();
        self.at += 1;
        if self.skip_operator(")") {
            return self.sequence(line, Vec::new(), true);
        }
        let value = self.tuple(true)?;
        self.expect_operator(")")?;
        Ok(value)
    }

    fn list(&mut self) -> Result<Expression> {
        let line = self.line();
        self.at += 1;
        let mut items = Vec::new();
        while !self.skip_operator("]") {
            if !items.is_empty() {
                self.expect_operator(",")?;
                if self.skip_operator("]") {
                    break;
                }
            }
            items.push(self.expression()?);
        }
        self.sequence(line, items, false)
    }

    fn map(&mut self) -> Result<Expression> {
        let line = self.line();
        self.at += 1;
        let mut entries = Vec::new();
        while !self.skip_operator("}") {
            if !entries.is_empty() {
                self.expect_operator(",")?;
                if self.skip_operator("}") {
                    break;
                }
            }
            let key = self.expression()?;
            self.expect_operator(":")?;
            entries.push((key, self.expression()?));
        }
        let depths: Vec<_> = entries
            .iter()
            .map(|(key, value)| key.depth.max(value.depth))
            .collect();
        self.above(line, ExpressionKind::Map(entries), &depths)
    }

    fn call(&mut self, called: Expression) -> Result<(ExpressionKind, usize)> {
        let (arguments, inner) = self.nested(Self::arguments)?;
        Ok((ExpressionKind::Call(Box::new(called), arguments), inner))
    }

    fn postfix(&mut self, mut value: Expression) -> Result<Expression> {
        loop {
            let line = self.line();
            let depth = value.depth;
            let (kind, inner) = if self.skip_operator(".") {
                let key = match self.next() {
                    TokenKind::Name(name) => self.constant(Constant::Text(name)),
                    TokenKind::Integer(n) => {
                        let index = self.constant(Constant::Integer(n));
                        let index = self.above(line, ExpressionKind::Constant(index), &[])?;
                        let kind = ExpressionKind::Item(Box::new(value), Box::new(index));
                        value = self.above(line, kind, &[depth])?;
                        continue;
                    }
                    _ => {
                        self.at -= 1;
                        return Err(self.unexpected("the name of an attribute"));
                    }
                };
                (ExpressionKind::Attribute(Box::new(value), key), 0)
            } else if self.skip_operator("[") {
                self.nested(|parser| parser.subscript(value))?
            } else if self.is_operator("(") {
                self.call(value)?
            } else {
                return Ok(value);
            };
            value = self.above(line, kind, &[depth, inner])?;
        }
    }

    /// What stands between brackets, and how deep it is.
    fn subscript(&mut self, value: Expression) -> Result<(ExpressionKind, usize)> {
        let mut parts = [None, None, None];
        let mut part = 0;
        let mut depth = 0;
        loop {
            if self.skip_operator(":") {
                part += 1;
                if part > 2 {
                    return Err(self.error("a slice has three parts at most"));
                }
            } else if self.skip_operator("]") {
                break;
            } else if parts[part].is_none() {
                let expression = match part {
                    0 => self.tuple(true)?,
                    _ => self.expression()?,
                };
                depth = depth.max(expression.depth);
                parts[part] = Some(expression);
            } else {
                return Err(self.unexpected("']'"));
            }
        }
        let value = Box::new(value);
        let kind = match (part, parts) {
            (0, [Some(index), ..]) => ExpressionKind::Item(value, Box::new(index)),
            (0, _) => return Err(self.error("brackets are empty")),
            (_, parts) => ExpressionKind::Slice(value, Box::new(parts)),
        };
        Ok((kind, depth))
    }

    /// Arguments in parentheses, and how deep they are.
    pub fn arguments(&mut self) -> Result<(Arguments, usize)> {
        self.expect_operator("(")?;
        let mut arguments = Arguments::default();
        let mut depth = 0;
        let mut first = true;
        while !self.skip_operator(")") {
            if !std::mem::take(&mut first) {
                self.expect_operator(",")?;
                if self.skip_operator(")") {
                    break;
                }
            }
            let unpacked = self.skip_operator("*");
            let unpacked_named = !unpacked && self.skip_operator("**");
            let name = match (self.peek(), self.peek_second()) {
                (TokenKind::Name(name), TokenKind::Operator("=")) => Some(name.clone()),
                _ => None,
            };
            self.at += 2 * usize::from(name.is_some());
            let value = self.expression()?;
            depth = depth.max(value.depth);
            match name {
                Some(name) => {
                    let name = self.constant(Constant::Text(name));
                    arguments.named.push((name, value));
                }
                None if unpacked => arguments.unpacked = Some(Box::new(value)),
                None if unpacked_named => arguments.unpacked_named = Some(Box::new(value)),
                None if arguments.named.is_empty() => arguments.positional.push(value),
                None => return Err(self.error("an argument without a name follows named ones")),
            }
        }
        Ok((arguments, depth))
    }

    fn filters_and_tests(&mut self, mut value: Expression) -> Result<Expression> {
        loop {
            let line = self.line();
            let depth = value.depth;
            let (kind, inner) = if self.skip_operator("|") {
                let (filter, inner) = self.filter()?;
                let kind = ExpressionKind::Filter(Box::new(value), Box::new(filter));
                (kind, inner)
            } else if self.skip_word("is") {
                self.nested(|parser| parser.test(value))?
            } else if self.is_operator("(") {
                self.call(value)?
            } else {
                return Ok(value);
            };
            value = self.above(line, kind, &[depth, inner])?;
        }
    }

    /// The name of a filter or test, dots included.
    fn dotted_name(&mut self) -> Result<String> {
        let mut name = self.expect_name()?;
        while self.skip_operator(".") {
            name.push('.');
            name.push_str(&self.expect_name()?);
        }
        Ok(name)
    }

    /// A filter behind its bar, and how deep its arguments are.
    pub fn filter(&mut self) -> Result<(Filter, usize)> {
        let line = self.line();
        let name = self.dotted_name()?;
        let (arguments, depth) = match self.is_operator("(") {
            true => self.nested(Self::arguments)?,
            false => (Arguments::default(), 0),
        };
        let filter = Filter {
            line,
            name,
            arguments,
        };
        Ok((filter, depth))
    }

    fn test(&mut self, value: Expression) -> Result<(ExpressionKind, usize)> {
        let negated = self.skip_word("not");
        let name = self.dotted_name()?;
        let takes_argument = match self.peek() {
            TokenKind::Name(word) => !WORDS.contains(&word.as_str()),
            TokenKind::Text(_) | TokenKind::Integer(_) | TokenKind::Float(_) => true,
            TokenKind::Operator(operator) => matches!(*operator, "[" | "{"),
            _ => false,
        };
        let (arguments, depth) = if self.is_operator("(") {
            self.arguments()?
        } else if takes_argument {
            let argument = self.primary()?;
            let argument = self.postfix(argument)?;
            let depth = argument.depth;
            let arguments = Arguments {
                positional: vec![argument],
                ..Arguments::default()
            };
            (arguments, depth)
        } else {
            (Arguments::default(), 0)
        };
        let kind = ExpressionKind::Test {
            value: Box::new(value),
            name,
            arguments,
            negated,
        };
        Ok((kind, depth))
    }
}
