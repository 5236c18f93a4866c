//! What can go wrong with a loaded model.

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A stage name that [`crate::sampling::SAMPLERS`] does not have.
    #[error("unknown sampler '{name}'")]
    UnknownSampler {
        /// The name as given.
        name: String,
    },
    /// A sampling parameter outside its range.
    #[error("sampling parameter {name} cannot be {value}")]
    BadSamplingValue {
        /// Name of the parameter.
        name: &'static str,
        /// The value given.
        value: f32,
    },
    /// A logit bias for a token that does not exist.
    #[error("logit bias for token {id}, but the vocabulary has {n_vocab} tokens")]
    BiasOutOfRange {
        /// Token id.
        id: u32,
        /// Size of the vocabulary.
        n_vocab: usize,
    },
    /// The model gave logits that no token can be chosen from.
    #[error(
        "the model gave invalid logits: {n_nan} not a number and {n_infinite} infinite of {n_vocab}"
    )]
    BadLogits {
        /// How many are not a number.
        n_nan: usize,
        /// How many are positive infinity.
        n_infinite: usize,
        /// Number of logits.
        n_vocab: usize,
    },
    /// Every token has the logit negative infinity.
    #[error("no token can be chosen: every logit is negative infinity")]
    NoCandidates,
    /// A chat template that cannot be parsed.
    #[error("chat template, line {line}: {message}")]
    TemplateSyntax {
        /// Line in the template, from 1; 0 if unknown.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// The template itself refused the conversation.
    #[error("the chat template refuses this conversation: {message}")]
    TemplateRefused {
        /// The template's own words.
        message: String,
    },
    /// Rendering a template failed.
    #[error("chat template, line {line}: {message}")]
    TemplateRender {
        /// Line in the template, from 1; 0 if unknown.
        line: usize,
        /// What went wrong.
        message: String,
    },
}
