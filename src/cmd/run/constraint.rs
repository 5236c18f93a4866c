//! Flags of constrained output.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use gristmill_engine::constraint::{Constraint, ConstraintCompiler, ConstraintSource};
use gristmill_tokenizer::Tokenizer;

#[derive(clap::Args)]
#[command(next_help_heading = "Constrained output")]
#[group(multiple = false)]
pub struct ConstraintFlags {
    /// Hold the answer to a grammar in GBNF
    #[arg(long, value_name = "GBNF", allow_hyphen_values = true)]
    grammar: Option<String>,
    /// The same from a file
    #[arg(long, value_name = "FILE")]
    grammar_file: Option<PathBuf>,
    /// Hold the answer to a JSON Schema; {} is any object
    #[arg(long, short, value_name = "SCHEMA")]
    json_schema: Option<String>,
    /// The same from a file
    #[arg(long, value_name = "FILE")]
    json_schema_file: Option<PathBuf>,
    /// Hold the answer to a regular expression, from its first to its last character
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    regex: Option<String>,
    /// Hold the answer to a grammar in Lark, whose rule `start` is the answer
    #[arg(long, value_name = "LARK", allow_hyphen_values = true)]
    lark: Option<String>,
    /// The same from a file
    #[arg(long, value_name = "FILE")]
    lark_file: Option<PathBuf>,
}

/// What an answer is held to, and where that was said.
pub struct Asked {
    source: ConstraintSource,
    origin: String,
}

type Form = fn(String) -> ConstraintSource;

impl ConstraintFlags {
    /// What is asked for; a file is read.
    pub fn asked(&self) -> anyhow::Result<Option<Asked>> {
        let given: [(&str, &Option<String>, Form); 4] = [
            ("--grammar", &self.grammar, ConstraintSource::grammar),
            (
                "--json-schema",
                &self.json_schema,
                ConstraintSource::JsonSchema,
            ),
            ("--regex", &self.regex, ConstraintSource::Regex),
            ("--lark", &self.lark, ConstraintSource::Lark),
        ];
        for (flag, text, form) in given {
            if let Some(text) = text {
                let (source, origin) = (form(text.clone()), flag.to_owned());
                return Ok(Some(Asked { source, origin }));
            }
        }
        let files: [(&Option<PathBuf>, Form); 3] = [
            (&self.grammar_file, ConstraintSource::grammar),
            (&self.json_schema_file, ConstraintSource::JsonSchema),
            (&self.lark_file, ConstraintSource::Lark),
        ];
        for (path, form) in files {
            if let Some(path) = path {
                let source = form(super::command::read_text(path)?);
                let origin = path.display().to_string();
                return Ok(Some(Asked { source, origin }));
            }
        }
        Ok(None)
    }
}

impl Asked {
    /// Compiles it for a model's vocabulary.
    pub fn compiled(&self, tokenizer: &Arc<Tokenizer>) -> anyhow::Result<Constraint> {
        let compiler = ConstraintCompiler::new(tokenizer)?;
        let constraint = compiler.compile(&self.source);
        constraint.with_context(|| self.origin.clone())
    }
}
