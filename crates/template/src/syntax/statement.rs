//! Tokens to statements.

use super::expression::Parser;
use super::lexer::tokens;
use super::token::TokenKind;
use super::{Constant, Expression, Filter, Loop, Macro, Program, Statement, StatementKind, Target};
use crate::error::Result;

/// Tags of Jinja that load other templates, which a chat template has none of.
const LOADING: [&str; 4] = ["include", "import", "from", "extends"];

/// Reads a template.
///
/// Errors: with the line of what is not understood.
pub(crate) fn parse(source: &str) -> Result<Program> {
    let mut source = source.replace("\r\n", "\n").replace('\r', "\n");
    if source.ends_with('\n') {
        source.pop(); // as Jinja does
    }
    let mut parser = Parser::new(tokens(&source)?);
    let (body, end) = parser.block(&[])?;
    debug_assert!(end.is_empty());
    parser.program.body = body;
    Ok(parser.program)
}

impl Parser {
    /// Statements up to one of the end tags, whose name is consumed and given.
    fn block(&mut self, ends: &[&'static str]) -> Result<(Vec<Statement>, &'static str)> {
        self.nested(|parser| parser.statements(ends))
    }

    fn statements(&mut self, ends: &[&'static str]) -> Result<(Vec<Statement>, &'static str)> {
        let mut statements = Vec::new();
        loop {
            let line = self.line();
            match self.next() {
                TokenKind::Data(text) => {
                    let text = self.constant(Constant::Text(text));
                    let kind = StatementKind::Text(text);
                    statements.push(Statement { line, kind });
                }
                TokenKind::EmitStart => {
                    let kind = StatementKind::Emit(self.tuple(true)?);
                    self.require(TokenKind::EmitEnd, "'}}'")?;
                    statements.push(Statement { line, kind });
                }
                TokenKind::TagStart => {
                    let word = self.expect_name()?;
                    if let Some(end) = ends.iter().find(|&&end| end == word) {
                        return Ok((statements, end));
                    }
                    let kind = self.tag(&word)?;
                    statements.push(Statement { line, kind });
                }
                _ if ends.is_empty() => return Ok((statements, "")),
                _ => {
                    let ends = ends.join("' or '");
                    return Err(self.error(format!("the template ends before '{ends}'")));
                }
            }
        }
    }

    fn require(&mut self, kind: TokenKind, wanted: &str) -> Result<()> {
        if *self.peek() != kind {
            return Err(self.unexpected(wanted));
        }
        self.next();
        Ok(())
    }

    fn tag_end(&mut self) -> Result<()> {
        self.require(TokenKind::TagEnd, "'%}'")
    }

    /// A body up to its only end tag.
    fn body(&mut self, end: &'static str) -> Result<Vec<Statement>> {
        self.tag_end()?;
        let (body, _) = self.block(&[end])?;
        self.tag_end()?;
        Ok(body)
    }

    fn tag(&mut self, word: &str) -> Result<StatementKind> {
        Ok(match word {
            "if" => self.condition()?,
            "for" => self.for_loop()?,
            "set" => self.set()?,
            "macro" => self.macro_definition()?,
            "call" => self.call_block()?,
            "filter" => {
                let filters = self.filters()?;
                StatementKind::FilterBlock {
                    filters,
                    body: self.body("endfilter")?,
                }
            }
            "with" => self.with()?,
            // marks the assistant's text for training
            "generation" => StatementKind::With(Vec::new(), self.body("endgeneration")?),
            "autoescape" => {
                self.expression()?;
                StatementKind::With(Vec::new(), self.body("endautoescape")?)
            }
            "block" => {
                let name = self.expect_name()?;
                self.tag_end()?;
                let (body, _) = self.block(&["endblock"])?;
                self.skip_word(&name);
                self.tag_end()?;
                StatementKind::With(Vec::new(), body)
            }
            "do" => {
                let expression = self.tuple(true)?;
                self.tag_end()?;
                StatementKind::Do(expression)
            }
            "break" | "continue" if self.loops == 0 => {
                return Err(self.error(format!("'{word}' outside a loop")));
            }
            "break" => {
                self.tag_end()?;
                StatementKind::Break
            }
            "continue" => {
                self.tag_end()?;
                StatementKind::Continue
            }
            word if LOADING.contains(&word) => {
                let message = format!("'{word}' is not possible: a chat template stands alone");
                return Err(self.error(message));
            }
            word => return Err(self.error(format!("the tag '{word}' is unknown"))),
        })
    }

    fn condition(&mut self) -> Result<StatementKind> {
        let mut branches = Vec::new();
        let mut otherwise = Vec::new();
        let mut end = "elif";
        while end == "elif" {
            let condition = self.tuple(true)?;
            self.tag_end()?;
            let (body, next) = self.block(&["elif", "else", "endif"])?;
            branches.push((condition, body));
            end = next;
        }
        if end == "else" {
            self.tag_end()?;
            (otherwise, _) = self.block(&["endif"])?;
        }
        self.tag_end()?;
        Ok(StatementKind::If {
            branches,
            otherwise,
        })
    }

    fn for_loop(&mut self) -> Result<StatementKind> {
        let target = self.target(false)?;
        if !self.skip_word("in") {
            return Err(self.unexpected("'in'"));
        }
        let over = self.tuple(false)?;
        let condition = match self.skip_word("if") {
            true => Some(self.expression()?),
            false => None,
        };
        let recursive = self.skip_word("recursive");
        self.tag_end()?;
        self.loops += 1;
        let (body, end) = self.block(&["else", "endfor"])?;
        self.loops -= 1;
        let mut otherwise = Vec::new();
        if end == "else" {
            self.tag_end()?;
            (otherwise, _) = self.block(&["endfor"])?;
        }
        self.tag_end()?;
        Ok(StatementKind::For(Box::new(Loop {
            target,
            over,
            condition,
            recursive,
            body,
            otherwise,
        })))
    }

    /// What is assigned to; attributes of namespaces where `attributes`.
    fn target(&mut self, attributes: bool) -> Result<Target> {
        let mut targets = Vec::new();
        let mut tuple = false;
        loop {
            let target = if self.skip_operator("(") {
                let target = self.nested(|parser| parser.target(attributes))?;
                self.expect_operator(")")?;
                target
            } else {
                self.single_target(attributes)?
            };
            targets.push(target);
            if !self.skip_operator(",") {
                break;
            }
            tuple = true;
            if self.is_word("in") || self.is_operator("=") {
                break;
            }
        }
        match (targets.pop(), tuple) {
            (Some(target), false) => Ok(target),
            (last, _) => {
                targets.extend(last);
                Ok(Target::Tuple(targets))
            }
        }
    }

    fn single_target(&mut self, attributes: bool) -> Result<Target> {
        let name = self.expect_name()?;
        if matches!(
            name.as_str(),
            "true" | "True" | "false" | "False" | "none" | "None"
        ) {
            return Err(self.error(format!("'{name}' cannot be assigned to")));
        }
        let name = self.name(&name);
        if attributes && self.skip_operator(".") {
            let attribute = self.expect_name()?;
            let attribute = self.constant(Constant::Text(attribute));
            return Ok(Target::Attribute(name, attribute));
        }
        Ok(Target::Name(name))
    }

    fn set(&mut self) -> Result<StatementKind> {
        let target = self.target(true)?;
        if self.skip_operator("=") {
            let value = self.tuple(true)?;
            self.tag_end()?;
            return Ok(StatementKind::Set(target, value));
        }
        let filters = match self.skip_operator("|") {
            true => self.filters()?,
            false => Vec::new(),
        };
        let body = self.body("endset")?;
        Ok(StatementKind::SetBlock {
            target,
            filters,
            body,
        })
    }

    /// Filters with bars between them.
    fn filters(&mut self) -> Result<Vec<Filter>> {
        let mut filters = vec![self.filter()?.0];
        while self.skip_operator("|") {
            filters.push(self.filter()?.0);
        }
        Ok(filters)
    }

    fn parameters(&mut self) -> Result<Vec<(usize, Option<Expression>)>> {
        self.expect_operator("(")?;
        let mut parameters = Vec::new();
        while !self.skip_operator(")") {
            if !parameters.is_empty() {
                self.expect_operator(",")?;
                if self.skip_operator(")") {
                    break;
                }
            }
            let name = self.expect_name()?;
            let name = self.name(&name);
            let default = match self.skip_operator("=") {
                true => Some(self.expression()?),
                false => None,
            };
            parameters.push((name, default));
        }
        Ok(parameters)
    }

    fn macro_definition(&mut self) -> Result<StatementKind> {
        let name = self.expect_name()?;
        let parameters = self.parameters()?;
        let loops = std::mem::take(&mut self.loops);
        self.tag_end()?;
        let (body, _) = self.block(&["endmacro"])?;
        self.skip_word(&name);
        self.tag_end()?;
        self.loops = loops;
        let variable = self.name(&name);
        self.program.macros.push(Macro {
            name,
            parameters,
            body,
        });
        Ok(StatementKind::Macro(
            variable,
            self.program.macros.len() - 1,
        ))
    }

    fn call_block(&mut self) -> Result<StatementKind> {
        let parameters = match self.is_operator("(") {
            true => self.parameters()?,
            false => Vec::new(),
        };
        let call = self.expression()?;
        let loops = std::mem::take(&mut self.loops);
        let body = self.body("endcall")?;
        self.loops = loops;
        self.program.macros.push(Macro {
            name: "caller".into(),
            parameters,
            body,
        });
        let body = self.program.macros.len() - 1;
        Ok(StatementKind::CallBlock { call, body })
    }

    fn with(&mut self) -> Result<StatementKind> {
        let mut assignments = Vec::new();
        while *self.peek() != TokenKind::TagEnd {
            if !assignments.is_empty() {
                self.expect_operator(",")?;
            }
            let target = self.single_target(false)?;
            self.expect_operator("=")?;
            assignments.push((target, self.expression()?));
        }
        Ok(StatementKind::With(assignments, self.body("endwith")?))
    }
}
