//! The smoke test: a file is loaded and continues a prompt greedily.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use gristmill_engine::sampling::SamplingOptions;
use gristmill_engine::{
    Answer, GenerateOptions, Limit, Listener, LoadOptions, LoadReport, Model, Session, raw_prompt,
};

use crate::PipelineError;

/// What the model continues: every vocabulary has it, and it says nothing of the answer.
const PROMPT: &str = "The";

/// Tokens of the answer.
const N_TOKENS: usize = 32;

/// A file that loaded and spoke.
pub struct SmokeTest {
    /// The loaded model.
    pub model: Arc<Model>,
    /// What loading told.
    pub report: LoadReport,
    /// What it said.
    pub answer: Answer,
}

/// Loads a file and lets it continue a prompt.
///
/// Errors: a file that does not load, logits that no token can be picked from, an empty answer.
pub fn smoke_test(path: &Path, n_threads: Option<usize>) -> Result<SmokeTest, PipelineError> {
    let model = Model::load(
        gristmill_gguf::Model::open(path)?,
        &LoadOptions {
            n_threads,
            ..Default::default()
        },
    )?;
    let prompt = raw_prompt(model.tokenizer(), PROMPT.as_bytes());
    let n_context = model.hyperparameters().n_context_train;
    let n_ctx = Some((prompt.len() + N_TOKENS).min(n_context.max(1)));
    let options = LoadOptions {
        n_threads,
        n_ctx,
        ..Default::default()
    };
    let mut session = Session::new(model.clone(), &options)?;
    let report = LoadReport::new(session.context(), options.cache);
    let generate = GenerateOptions {
        limit: Limit::Tokens(N_TOKENS),
        sampling: SamplingOptions::greedy(),
        ..Default::default()
    };
    let mut listener = Listener {
        on_text: &mut |_| (),
        on_step: &mut |_| {},
        on_prompt: &mut |_, _| (),
        interrupted: &|| false,
    };
    let answer = session.generate(&prompt, &generate, &mut listener)?;
    if answer.ids.is_empty() {
        return Err(PipelineError::Silent { path: path.into() });
    }
    Ok(SmokeTest {
        model,
        report,
        answer,
    })
}

impl SmokeTest {
    /// The test as a report.
    pub fn log(&self) -> String {
        let mut log = String::new();
        let lines = [
            ("architecture", self.report.architecture.to_string()),
            ("parameters", self.report.n_parameters.to_string()),
            ("file bytes", self.report.file_bytes.to_string()),
            (
                "context of the training",
                self.report.n_context_train.to_string(),
            ),
            ("tokenizer", self.report.tokenizer.clone()),
            (
                "backend",
                format!(
                    "{}, {}, {} threads",
                    self.report.backend, self.report.isa, self.report.n_threads
                ),
            ),
            ("prompt", PROMPT.to_string()),
            ("ids", format!("{:?}", self.answer.ids)),
            ("ended", self.answer.reason.word().to_string()),
            ("answer", self.answer.text.clone()),
        ];
        for (name, value) in lines {
            // Writing to a string cannot fail.
            let _ = writeln!(log, "{name}: {value}");
        }
        log
    }
}
