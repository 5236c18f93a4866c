//! BERT: an encoder, whose tokens see each other in both directions. It gives embeddings, and scores where it has a
//! classifier.

use super::{Architecture, Choices, Class, LLAMA_CHOICES, Norm, TextPart, TokenizerHabit};
use crate::config::{self, Config, Entries, Fact, Fallback, Otherwise, Rule};
use crate::tensors::{Presence, Slot, TensorRow, row};
use crate::{Hyperparameters, ModelError, Pooling};
use gristmill_compute::Activation;
use serde_json::Value;

pub static BERT: Architecture = Architecture {
    name: "bert",
    classes: &[
        Class {
            name: "BertModel",
            defaults: &[DEFAULTS],
            facts: FACTS,
        },
        Class {
            name: "BertForMaskedLM",
            defaults: &[DEFAULTS],
            facts: FACTS,
        },
        Class {
            name: CLASSIFIER,
            defaults: &[DEFAULTS],
            facts: FACTS,
        },
    ],
    tensor_metadata: &[],
    metadata: &[
        config::SIZES,
        config::HEADS,
        &[
            Rule::With(both_directions),
            Rule::With(pooling),
            Rule::With(labels),
        ],
    ],
    tokenizer: TokenizerHabit::PLAIN,
    text_part: Some(TextPart {
        infix: "bert.",
        // What predicts masked words and next sentences.
        other_prefixes: &["cls."],
    }),
    tensors: &[ROWS],
    choices: Choices {
        rope_style: None,
        norm: Norm::Layer,
        activation: Activation::GeluErf,
        ..LLAMA_CHOICES
    },
};

/// The class whose pooled row goes through a classifier.
const CLASSIFIER: &str = "BertForSequenceClassification";

const DEFAULTS: &[(&str, Fallback)] = &[
    ("vocab_size", Fallback::Integer(30522)),
    ("hidden_size", Fallback::Integer(768)),
    ("num_hidden_layers", Fallback::Integer(12)),
    ("num_attention_heads", Fallback::Integer(12)),
    ("intermediate_size", Fallback::Integer(3072)),
    ("max_position_embeddings", Fallback::Integer(512)),
    ("type_vocab_size", Fallback::Integer(2)),
    ("layer_norm_eps", Fallback::Float(1e-12)),
];

/// A norm stands behind each addition to the residual stream, and one behind the embeddings.
const ROWS: &[TensorRow] = &[
    row(Slot::TokenEmbd, "embeddings.word_embeddings.weight"),
    row(Slot::TokenTypes, "embeddings.token_type_embeddings.weight").optional(),
    row(Slot::PositionEmbd, "embeddings.position_embeddings.weight"),
    row(Slot::TokenEmbdNorm, "embeddings.LayerNorm.weight"),
    row(Slot::TokenEmbdNormBias, "embeddings.LayerNorm.bias"),
    row(Slot::Cls, "pooler.dense.weight").present(with_classifier),
    row(Slot::ClsBias, "pooler.dense.bias").present(with_classifier),
    row(Slot::ClsOutput, "classifier.weight").present(with_classifier),
    row(Slot::ClsOutputBias, "classifier.bias").present(with_classifier),
    row(Slot::AttnQ, "encoder.layer.{}.attention.self.query.weight"),
    row(
        Slot::AttnQBias,
        "encoder.layer.{}.attention.self.query.bias",
    )
    .optional(),
    row(Slot::AttnK, "encoder.layer.{}.attention.self.key.weight"),
    row(Slot::AttnKBias, "encoder.layer.{}.attention.self.key.bias").optional(),
    row(Slot::AttnV, "encoder.layer.{}.attention.self.value.weight"),
    row(
        Slot::AttnVBias,
        "encoder.layer.{}.attention.self.value.bias",
    )
    .optional(),
    row(
        Slot::AttnOutput,
        "encoder.layer.{}.attention.output.dense.weight",
    ),
    row(
        Slot::AttnOutputBias,
        "encoder.layer.{}.attention.output.dense.bias",
    )
    .optional(),
    row(
        Slot::AttnOutputNorm,
        "encoder.layer.{}.attention.output.LayerNorm.weight",
    ),
    row(
        Slot::AttnOutputNormBias,
        "encoder.layer.{}.attention.output.LayerNorm.bias",
    ),
    row(Slot::FfnUp, "encoder.layer.{}.intermediate.dense.weight"),
    row(Slot::FfnUpBias, "encoder.layer.{}.intermediate.dense.bias").optional(),
    row(Slot::FfnDown, "encoder.layer.{}.output.dense.weight"),
    row(Slot::FfnDownBias, "encoder.layer.{}.output.dense.bias").optional(),
    row(
        Slot::LayerOutputNorm,
        "encoder.layer.{}.output.LayerNorm.weight",
    ),
    row(
        Slot::LayerOutputNormBias,
        "encoder.layer.{}.output.LayerNorm.bias",
    ),
];

/// Without a classifier nothing comes behind the last layer: embeddings are made without the pooler.
fn with_classifier(hparams: &Hyperparameters, _: usize) -> Presence {
    match hparams.has_labels || hparams.pooling == Some(Pooling::Rank) {
        true => Presence::Optional,
        false => Presence::Absent,
    }
}

/// What the configuration may say that becomes no metadata.
const FACTS: &[Fact] = &[
    Fact {
        key: "hidden_act",
        holds: |_, value| value.as_str() == Some("gelu"),
        otherwise: Otherwise::Refuse("gelu"),
    },
    Fact {
        key: "position_embedding_type",
        holds: |_, value| value.as_str() == Some("absolute"),
        otherwise: Otherwise::Refuse("absolute"),
    },
    Fact::off("is_decoder"),
    Fact::off("add_cross_attention"),
];

fn both_directions(_: &Config, entries: &mut Entries<'_>) -> Result<(), ModelError> {
    entries.set("attention.causal", false);
    Ok(())
}

/// What the folder says about pooling; a classifier has a way of its own.
fn pooling(config: &Config, entries: &mut Entries<'_>) -> Result<(), ModelError> {
    let pooling = match config.class.name {
        CLASSIFIER => Some(Pooling::Rank),
        _ => config.pooling,
    };
    if let Some(pooling) = pooling {
        entries.set("pooling_type", pooling.number());
    }
    Ok(())
}

/// The names of the classifier's results, in the order of its rows. Without names there are two, as the class has it.
fn labels(config: &Config, entries: &mut Entries<'_>) -> Result<(), ModelError> {
    if config.class.name != CLASSIFIER {
        return Ok(());
    }
    let named = config.get("id2label").and_then(Value::as_object);
    let mut labels: Vec<(u32, String)> = named
        .into_iter()
        .flatten()
        .filter_map(|(id, label)| Some((id.parse().ok()?, label.as_str()?.to_owned())))
        .collect();
    labels.sort();
    let mut labels: Vec<String> = labels.into_iter().map(|(_, label)| label).collect();
    if labels.is_empty() {
        labels = vec!["LABEL_0".to_owned(), "LABEL_1".to_owned()];
    }
    entries.set("classifier.output_labels", labels);
    Ok(())
}
