//! What can go wrong with a loaded model.

use gristmill_compute::ComputeError;
use gristmill_kernels::KernelError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A stage name that neither [`crate::sampling::SAMPLERS`] nor the reference has.
    #[error("there is no sampler '{name}'")]
    UnknownSampler {
        /// The name as given.
        name: String,
    },
    /// A stage of the reference that [`crate::sampling::SAMPLERS`] does not have.
    #[error("sampler '{name}' is not supported yet")]
    UnsupportedSampler {
        /// The name as given.
        name: String,
    },
    /// A sampling parameter outside its range.
    #[error("sampling parameter {name} cannot be {value}")]
    BadSamplingValue {
        /// Name of the parameter.
        name: String,
        /// The value given.
        value: f64,
        /// What it must be.
        expected: String,
    },
    /// A draft model whose ids mean something else.
    #[error("{draft} cannot draft for {target}, since its vocabulary differs: {difference}")]
    DraftVocabulary {
        /// The file of the model that drafts.
        draft: String,
        /// The file of the model that answers.
        target: String,
        /// The first difference.
        difference: String,
    },
    /// A draft model that failed in the middle of an answer, which goes on without it.
    #[error("{draft} drafts no more: {source}")]
    DraftFailed {
        /// The file of the model that drafts.
        draft: String,
        /// What went wrong there.
        source: Box<EngineError>,
    },
    /// Drafts where a batch changes the bits.
    #[error(
        "no drafts with --arithmetic llama.cpp: its results depend on the batch, and a draft would change answers"
    )]
    DraftArithmetic,
    /// A logit bias for a token that does not exist.
    #[error("logit bias for token {id}, but the vocabulary has {n_vocab} tokens")]
    BiasOutOfRange {
        /// Token id.
        id: u32,
        /// Size of the vocabulary.
        n_vocab: usize,
    },
    /// A logit bias in a form that means nothing.
    #[error("{found} is no logit bias")]
    BadLogitBias {
        /// The words of it.
        found: String,
        /// What it must be.
        expected: &'static str,
    },
    /// A constraint that cannot be read, and where.
    #[error("{kind}, line {line}, column {column}: {message}")]
    Grammar {
        /// What it is written in.
        kind: &'static str,
        /// Line, from 1.
        line: usize,
        /// Character in the line, from 1.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// A constraint that cannot be read or is not supported.
    #[error("{kind}: {message}")]
    Constraint {
        /// What it is written in.
        kind: &'static str,
        /// What is wrong.
        message: String,
    },
    /// A vocabulary that no constraint can be compiled for.
    #[error("the vocabulary of {n_vocab} tokens has too long or too many ones for constraints")]
    ConstraintVocabulary {
        /// Tokens of the vocabulary.
        n_vocab: usize,
    },
    /// The constraint allows no token here, or became too large.
    #[error("no token of the vocabulary keeps to the constraint here: {message}")]
    ConstraintStuck {
        /// What stopped it.
        message: String,
    },
    /// All tokens that the constraint allows have the logit negative infinity.
    #[error("no token can be chosen: the {n_allowed} that keep to the constraint are forbidden")]
    ConstraintForbidden {
        /// How many there are.
        n_allowed: usize,
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
    /// A logit that is no number one could compare with another engine's.
    #[error("position {position}: the logit of token {id} is {value}")]
    LogitNotFinite {
        /// Position of the token whose logits these are, from 0.
        position: usize,
        /// The token that has this logit.
        id: usize,
        /// The logit.
        value: f32,
    },
    /// Scores were asked of a model without a classifier.
    #[error("the model has no classifier, so it gives no scores")]
    NoClassifier,
    /// A text without a token.
    #[error("it has no tokens, so there is nothing to embed")]
    NothingToEmbed,
    /// A text that is longer than what can be seen as a whole.
    #[error("it has {n_tokens} tokens, but at most {n_ctx} can be embedded")]
    TooLongToEmbed {
        /// Tokens of the text.
        n_tokens: usize,
        /// Positions of the context.
        n_ctx: usize,
        /// The most that the model allows.
        n_ctx_max: usize,
    },
    /// A query that leaves no room for a document.
    #[error(
        "the query takes {n_tokens} tokens with those of the model, so that none of a document fits into {n_ctx}"
    )]
    QueryTooLong {
        /// Tokens of an empty document with this query.
        n_tokens: usize,
        /// Positions of the context.
        n_ctx: usize,
        /// The most that the model allows.
        n_ctx_max: usize,
    },
    /// A vector with an element that is no number.
    #[error("the model gave a vector with the value {value}")]
    VectorNotFinite {
        /// The first such value.
        value: f32,
    },
    /// One of several texts cannot be embedded.
    #[error("text {index}: {source}")]
    Item {
        /// Its number, from 0.
        index: usize,
        /// Why not.
        source: Box<EngineError>,
    },
    /// A tensor of a type that its place in the model cannot have.
    #[error("tensor `{name}` has type {ty}, {reason}")]
    TensorType {
        /// Name of the tensor.
        name: String,
        /// Name of the type.
        ty: &'static str,
        /// What stands against it.
        reason: &'static str,
    },
    /// A weight that is no number.
    #[error("tensor `{name}` holds NaN or infinity")]
    TensorValues {
        /// Name of the tensor.
        name: String,
    },
    /// Every token has the logit negative infinity.
    #[error("no token can be chosen: every logit is negative infinity")]
    NoCandidates,
    /// The file is not what was hoped for, or damaged.
    #[error(transparent)]
    Gguf(#[from] gristmill_gguf::Error),
    /// The file describes no model that can be run.
    #[error(transparent)]
    Model(#[from] gristmill_model::ModelError),
    /// The file's vocabulary cannot be used.
    #[error(transparent)]
    Tokenizer(#[from] gristmill_tokenizer::TokenizerError),
    /// A graph or a device failed.
    #[error(transparent)]
    Compute(#[from] gristmill_compute::ComputeError),
    /// The instruction set asked for is not there.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A tensor that lies where this machine cannot address it.
    #[error("tensor {name} lies beyond what this machine can address")]
    TensorPlace {
        /// Name of the tensor.
        name: String,
    },
    /// A file that is no adapter of the kind asked for.
    #[error("{expected} is needed, and this is {found}")]
    NotAnAdapter {
        /// What was asked for, with its article.
        expected: &'static str,
        /// What the file is, with its article.
        found: &'static str,
    },
    /// An adapter that counts only behind certain tokens of a text.
    #[error(
        "an activated adapter (aLoRA), which counts only from the tokens {tokens:?} on; such are not supported yet"
    )]
    ActivatedAdapter {
        /// The tokens.
        tokens: Vec<u32>,
    },
    /// A tensor of a control vector that cannot be used.
    #[error("tensor `{name}`: {reason}")]
    Direction {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A control vector that would change nothing.
    #[error("the control vector changes nothing: {reason}")]
    NoDirection {
        /// Why.
        reason: &'static str,
    },
    /// Directions that are no numbers once they are multiplied and added.
    #[error("the directions of layer {layer}, times their factors, are not finite")]
    DirectionSum {
        /// The layer.
        layer: usize,
    },
    /// Layers behind which no control vector can be added.
    #[error("layers {first} to {last} are no range within the model's, 1 to {n_layers}")]
    ControlLayers {
        /// First layer asked for.
        first: usize,
        /// Last layer asked for.
        last: usize,
        /// The last that there is.
        n_layers: usize,
    },
    /// An adapter that was loaded for another model.
    #[error("the adapter was loaded for another model")]
    ForeignAdapter,
    /// A type that a KV cache cannot have.
    #[error("the KV cache cannot have the type {ty}")]
    CacheType {
        /// Name of the type.
        ty: &'static str,
    },
    /// Heads that no whole blocks of the cache's type hold.
    #[error(
        "the KV cache cannot have the type {ty} for {what}: heads of {head_dim} elements are no whole number of its blocks of {block_len}"
    )]
    CacheHeads {
        /// `keys` or `values`.
        what: &'static str,
        /// Name of the type.
        ty: &'static str,
        /// Elements of a head.
        head_dim: usize,
        /// Elements of a block.
        block_len: usize,
    },
    /// A context length of zero, or more positions than can be numbered or than the model has embeddings of.
    #[error("a context of {n_ctx} tokens is not possible: it must have from 1 to {max}")]
    ContextLength {
        /// The length asked for.
        n_ctx: usize,
        /// The longest.
        max: usize,
    },
    /// The pages of the cache are in use.
    #[error(
        "the KV cache is full: {needed} more pages of {page_len} tokens are needed and {free} are free"
    )]
    CacheFull {
        /// Pages needed.
        needed: usize,
        /// Pages free.
        free: usize,
        /// Positions per page.
        page_len: usize,
    },
    /// A sequence cannot grow beyond the context.
    #[error("{n_new} tokens after {n_past} do not fit the context of {n_ctx}")]
    ContextFull {
        /// Tokens of the sequence.
        n_past: usize,
        /// Tokens to add.
        n_new: usize,
        /// Positions of the context.
        n_ctx: usize,
        /// Positions that a context of this model can have.
        n_ctx_max: usize,
    },
    /// A prompt that leaves no room for an answer.
    #[error("the prompt has {n_prompt} tokens, but the context holds {n_ctx}, the answer included")]
    PromptTooLong {
        /// Tokens of the prompt.
        n_prompt: usize,
        /// Positions of the context.
        n_ctx: usize,
        /// Positions that a context of this model can have.
        n_ctx_max: usize,
    },
    /// A text that cannot fit the context, whatever it says.
    #[error(
        "a text of {n_bytes} bytes has at least {n_tokens_min} tokens, but the context holds {n_ctx}, the answer included"
    )]
    TextTooLong {
        /// Bytes of the text.
        n_bytes: usize,
        /// The fewest tokens that it can have.
        n_tokens_min: usize,
        /// Positions of the context.
        n_ctx: usize,
        /// Positions that a context of this model can have.
        n_ctx_max: usize,
    },
    /// More tokens at once than the model was made for.
    #[error("{n_tokens} tokens are more than the model's context of {n_context_train} ({key})")]
    BeyondTraining {
        /// Tokens given.
        n_tokens: usize,
        /// Context length of the training.
        n_context_train: usize,
        /// The metadata key that says so.
        key: String,
    },
    /// A prompt without a token.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// A number of tokens that means nothing.
    #[error("{n} is no number of tokens to generate")]
    Limit {
        /// The number.
        n: i64,
    },
    /// A number of tokens to keep that means nothing.
    #[error("{n} is no number of tokens to keep")]
    Keep {
        /// The number.
        n: i64,
    },
    /// So many tokens of the prompt to keep, a BOS among them, that a full context could not be shifted.
    #[error("{n_keep} tokens to keep leave no room to shift a context of {n_ctx}")]
    KeepTooLarge {
        /// Tokens to keep.
        n_keep: usize,
        /// Positions of the context.
        n_ctx: usize,
    },
    /// A token id that the vocabulary does not have.
    #[error("token {id} does not exist: the vocabulary has {n_vocab} tokens")]
    TokenOutOfRange {
        /// Token id.
        id: u32,
        /// Size of the vocabulary.
        n_vocab: usize,
    },
    /// A saved state of another model or cache.
    #[error("a saved state of {bytes} bytes does not fit this cache")]
    SavedState {
        /// Bytes of the state.
        bytes: usize,
    },
    /// A saved session that cannot be loaded or saved.
    #[error(transparent)]
    SavedSession(#[from] crate::saved::SavedSessionError),
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

const SHORTER: &str = "give a shorter context with -c";

fn compute_hint(error: &ComputeError) -> Option<&'static str> {
    match error {
        ComputeError::OutOfMemory { .. } => Some(SHORTER),
        ComputeError::Unsupported { .. } => {
            Some("leave out --arithmetic: gristmill's own knows every type")
        }
        _ => None,
    }
}

impl EngineError {
    /// Whether the model gave something that is no number.
    pub fn is_of_numbers(&self) -> bool {
        match self {
            EngineError::BadLogits { .. }
            | EngineError::LogitNotFinite { .. }
            | EngineError::VectorNotFinite { .. } => true,
            EngineError::Item { source, .. } => source.is_of_numbers(),
            _ => false,
        }
    }

    /// Whether what did not fit the context would fit a longer one, as far as the model can have it.
    pub fn fits_longer_context(&self) -> bool {
        let (n_needed, n_ctx_max) = match *self {
            EngineError::ContextFull {
                n_past,
                n_new,
                n_ctx_max,
                ..
            } => (n_past.saturating_add(n_new), n_ctx_max),
            // The answer needs a place too.
            EngineError::PromptTooLong {
                n_prompt,
                n_ctx_max,
                ..
            } => (n_prompt.saturating_add(1), n_ctx_max),
            EngineError::TextTooLong {
                n_tokens_min,
                n_ctx_max,
                ..
            } => (n_tokens_min.saturating_add(1), n_ctx_max),
            _ => return false,
        };
        n_needed <= n_ctx_max
    }

    fn room_hint(&self, n_ctx_max: usize) -> String {
        match self.fits_longer_context() {
            true => "give a longer context with -c, or a shorter prompt".into(),
            false => {
                format!(
                    "give a shorter prompt: no context of this model is longer than {n_ctx_max}"
                )
            }
        }
    }

    /// The remedies of what concerns the past.
    fn past_hint(&self) -> Option<String> {
        match self {
            EngineError::CacheType { .. } => Some(format!("give one of {}", cache_types(1 << 10))),
            EngineError::CacheHeads { what, head_dim, .. } => {
                let flag = if *what == "keys" { "-ctk" } else { "-ctv" };
                Some(format!(
                    "give one of {} with {flag}",
                    cache_types(*head_dim)
                ))
            }
            EngineError::Keep { .. } => Some("give a number, or -1 for the whole prompt".into()),
            EngineError::KeepTooLarge { n_ctx, .. } => Some(format!(
                "keep fewer than {} tokens with --keep, BOS included, or give a longer context with -c",
                n_ctx.saturating_sub(2)
            )),
            EngineError::CacheFull { .. } => {
                Some("give a longer context with -c, or end sequences that are done with".into())
            }
            EngineError::SavedState { .. } => Some(
                "restore it where model, context and cache types are those it was saved with"
                    .into(),
            ),
            _ => None,
        }
    }

    /// Remedies in the same words whatever the numbers are.
    fn fixed_hint(&self) -> Option<&'static str> {
        Some(match self {
            EngineError::Limit { .. } => {
                "give a number, -1 for no limit, or -2 to fill the context"
            }
            EngineError::TemplateRefused { .. } => {
                "change the messages, or give another template with --chat-template or --chat-template-file"
            }
            EngineError::TensorPlace { .. } => "use a machine with 64 bits",
            EngineError::Grammar { .. } | EngineError::Constraint { .. } => {
                "docs/structured-output.md tells what each form of constraint may have"
            }
            EngineError::ConstraintVocabulary { .. } => {
                "generate without a constraint, or with another model"
            }
            EngineError::ConstraintStuck { .. } => {
                "give a constraint that allows more, or a simpler one"
            }
            EngineError::ConstraintForbidden { .. } => {
                "give fewer negative logit biases, or a constraint that allows more"
            }
            EngineError::DraftVocabulary { .. } => {
                "draft with a smaller model of the same family, or with --spec-type ngram-simple, which needs no model"
            }
            EngineError::DraftFailed { .. } => {
                "leave the draft model out; `gristmill check FILE` names tensors that are damaged"
            }
            EngineError::DraftArithmetic => {
                "leave out --arithmetic, or --spec-type and the draft model"
            }
            EngineError::NoClassifier => {
                "use a reranker, or another pooling (mean, cls, last, none)"
            }
            EngineError::NothingToEmbed => "leave it out, or give it a text",
            EngineError::TooLongToEmbed {
                n_ctx, n_ctx_max, ..
            } if n_ctx < n_ctx_max => {
                "cut it off with --truncate, or give a longer context with -c"
            }
            EngineError::TooLongToEmbed { .. } => {
                "cut it off with --truncate, or split it: the model sees no more at once"
            }
            EngineError::QueryTooLong {
                n_ctx, n_ctx_max, ..
            } if n_ctx < n_ctx_max => "shorten the query, or give a longer context with -c",
            EngineError::QueryTooLong { .. } => "shorten the query: the model sees no more at once",
            _ => return None,
        })
    }

    /// The same, of the text of this number.
    pub(crate) fn of_item(self, index: usize) -> Self {
        let source = Box::new(self);
        EngineError::Item { index, source }
    }

    /// What to do about it, where a remedy is known: one sentence for a `hint:` line.
    pub fn hint(&self) -> Option<String> {
        match self {
            EngineError::Gguf(error) => error.hint().map(str::to_owned),
            EngineError::Model(error) => error.hint().map(str::to_owned),
            EngineError::Tokenizer(error) => error.hint().map(str::to_owned),
            EngineError::SavedSession(error) => error.hint(),
            EngineError::PromptTooLong { n_ctx_max, .. }
            | EngineError::TextTooLong { n_ctx_max, .. }
            | EngineError::ContextFull { n_ctx_max, .. } => Some(self.room_hint(*n_ctx_max)),
            EngineError::BeyondTraining {
                n_context_train, ..
            } => Some(format!(
                "give at most {n_context_train} tokens at once; further positions mean nothing to the model"
            )),
            EngineError::BiasOutOfRange { n_vocab, .. } => Some(format!(
                "--logit-bias takes ids from 0 to {}; `gristmill tokenize` shows those of a text",
                n_vocab.saturating_sub(1)
            )),
            EngineError::BadLogitBias { expected, .. } => Some(format!("give {expected}")),
            EngineError::TokenOutOfRange { n_vocab, .. } => Some(format!(
                "ids go from 0 to {}; `gristmill tokenize` shows those of a text",
                n_vocab.saturating_sub(1)
            )),
            EngineError::BadSamplingValue { expected, .. } => Some(format!("give {expected}")),
            EngineError::ContextLength { .. } => Some(SHORTER.into()),
            EngineError::Compute(error) => compute_hint(error).map(str::to_owned),
            EngineError::TensorValues { .. }
            | EngineError::BadLogits { .. }
            | EngineError::LogitNotFinite { .. }
            | EngineError::VectorNotFinite { .. } => Some(
                "the weights are damaged or hold values out of range: `gristmill check FILE` names the tensors; or compare the file's hash with its source".into(),
            ),
            EngineError::Item { source, .. } => source.hint(),
            EngineError::NoCandidates => {
                Some("give fewer negative logit biases, or check the file with `gristmill check FILE`".into())
            }
            EngineError::TensorType { .. } => Some(
                "convert the model again, or update gristmill if the file is of a newer program".into(),
            ),
            EngineError::EmptyPrompt => Some("give a text with at least one token".into()),
            EngineError::UnknownSampler { .. } | EngineError::UnsupportedSampler { .. } => {
                Some(crate::sampling::supported_samplers())
            }
            EngineError::TemplateSyntax { .. } | EngineError::TemplateRender { .. } => {
                Some("give another template with --chat-template or --chat-template-file".into())
            }
            EngineError::Kernel(
                KernelError::UnknownIsa { .. } | KernelError::UnsupportedIsa { .. },
            ) => Some("leave GRISTMILL_ISA unset: the fastest instruction set that is there is taken".into()),
            // What none of these knows is a fault of this program.
            _ => self.past_hint().or_else(|| {
                let fixed = self.fixed_hint().or_else(|| self.adapter_hint());
                fixed.map(str::to_owned)
            }),
        }
    }

    /// The remedy for a file beside the model.
    fn adapter_hint(&self) -> Option<&'static str> {
        Some(match self {
            EngineError::NotAnAdapter { .. } => {
                "--lora takes what `gristmill convert-lora` writes, --control-vector a file of directions"
            }
            EngineError::ActivatedAdapter { .. } => {
                "use an adapter that counts everywhere; applied to all of a text, this one gives other answers"
            }
            EngineError::Direction { .. } => "make the control vector again, with this model",
            EngineError::NoDirection { .. } => {
                "make the control vector again, with this model, or leave it out"
            }
            EngineError::DirectionSum { .. } => "give smaller factors with --control-vector-scaled",
            EngineError::ControlLayers { .. } => {
                "give the first and then the last layer with --control-vector-layer-range; 0 is for those of the model"
            }
            _ => return None,
        })
    }
}

/// The types that a cache with heads of `head_dim` elements may have.
fn cache_types(head_dim: usize) -> String {
    let types = gristmill_quant::TensorType::for_cache();
    let names: Vec<&str> = types
        .filter(|ty| head_dim.is_multiple_of(ty.block_len()))
        .map(|ty| ty.name())
        .collect();
    names.join(", ")
}
