//! Facts of `config.json` that no metadata key holds, since graphs know one way only: what they may be, so that none is
//! lost without a word.

use super::{Config, kind};
use crate::ModelError;
use crate::arch::AttentionScale;
use serde_json::Value;

/// A fact that is not written, and what it may be. A configuration that does not state it agrees; `null` is a value like
/// others.
#[derive(Clone, Copy)]
pub struct Fact {
    /// Its key in the configuration.
    pub key: &'static str,
    /// Whether a value changes nothing.
    pub holds: fn(&Config, &Value) -> bool,
    /// What becomes of any other value.
    pub otherwise: Otherwise,
}

impl Fact {
    /// A switch that must be off.
    pub(crate) const fn off(key: &'static str) -> Self {
        Fact {
            key,
            holds: |_, value| is_off(value),
            otherwise: Otherwise::Refuse("false"),
        }
    }

    /// A switch that must be on.
    pub(crate) const fn on(key: &'static str) -> Self {
        Fact {
            key,
            holds: |_, value| *value == Value::Bool(true),
            otherwise: Otherwise::Refuse("true"),
        }
    }
}

/// What becomes of a configuration that states another fact.
#[derive(Clone, Copy, Debug)]
pub enum Otherwise {
    /// The model would compute something else: an error that names what is expected.
    Refuse(&'static str),
    /// The model is the same up to some length of text, and the reference converts it: a warning that says what is lost.
    Warn(&'static str),
}

/// The gate activation of Llama and what descends from it.
pub(crate) const SILU: Fact = Fact {
    key: "hidden_act",
    holds: |_, value| matches!(value.as_str(), Some("silu" | "swish")),
    otherwise: Otherwise::Refuse("silu"),
};

/// Gemma's gate activation; both names stand for the same formula.
pub(crate) const GELU_TANH: Fact = Fact {
    key: "hidden_activation",
    holds: |_, value| matches!(value.as_str(), Some("gelu_pytorch_tanh" | "gelu_new")),
    otherwise: Otherwise::Refuse("gelu_pytorch_tanh"),
};

/// Heads are rotated whole.
pub(crate) const WHOLE_HEADS: Fact = Fact {
    key: "partial_rotary_factor",
    holds: |_, value| value.is_null() || value.as_f64() == Some(1.0),
    otherwise: Otherwise::Refuse("1"),
};

/// A sliding window of all layers, which matters beyond its length.
pub(crate) const NO_WINDOW: Fact = Fact {
    key: "sliding_window",
    holds: |config, _| window_covers_context(config),
    otherwise: Otherwise::Warn(WINDOW_LOST),
};

/// The same, where a switch turns it on.
pub(crate) const NO_WINDOW_SWITCHED_ON: Fact = Fact {
    key: "use_sliding_window",
    holds: |config, value| is_off(value) || window_covers_context(config),
    otherwise: Otherwise::Warn(WINDOW_LOST),
};

const WINDOW_LOST: &str = "the architecture has no windows, so beyond that length attention reaches further back than in training";

/// Attention has no biases.
pub(crate) const NO_ATTENTION_BIAS: Fact = Fact::off("attention_bias");

/// Scores of attention are not capped.
pub(crate) const NO_ATTENTION_CAP: Fact = Fact {
    key: "attn_logit_softcapping",
    holds: |_, value| value.is_null(),
    otherwise: Otherwise::Refuse("null"),
};

/// Queries are scaled as the architecture says.
pub(crate) const QUERY_SCALE: Fact = Fact {
    key: "query_pre_attn_scalar",
    holds: |config, value| value.as_f64() == attention_divisor(config),
    otherwise: Otherwise::Refuse("the length of a head (in the 27B model, the width per head)"),
};

/// A token sees no later one.
pub(crate) const ONE_DIRECTION: Fact = Fact::off("use_bidirectional_attention");

/// Whether a switch is off: to the authors' code `null` counts as false.
fn is_off(value: &Value) -> bool {
    matches!(value, Value::Bool(false) | Value::Null)
}

/// The number under the root that products of queries and keys are divided by, where the configuration has it all.
fn attention_divisor(config: &Config) -> Option<f64> {
    let integer = |key| config.integer(key).ok().flatten();
    let n_layers = integer("num_hidden_layers")? as usize;
    let divisor = match config.architecture.choices.attention_scale {
        AttentionScale::WidthAt { n_layers: wide } if wide == n_layers => {
            config.width_per_head().ok().flatten()?
        }
        _ => integer("head_dim")?,
    };
    Some(f64::from(divisor))
}

fn window_covers_context(config: &Config) -> bool {
    let length = |key| config.get(key).and_then(Value::as_u64);
    match (length("sliding_window"), length("max_position_embeddings")) {
        (Some(window), Some(context)) => window >= context,
        (window, _) => window.is_none(),
    }
}

/// Refuses what the architecture's graph would compute otherwise.
///
/// # Errors
/// `UnsupportedConfig` for the first such fact.
pub(super) fn check(config: &Config) -> Result<(), ModelError> {
    for fact in config.class.facts {
        if let (Otherwise::Refuse(expected), Some(value)) = (fact.otherwise, fact.against(config)) {
            return Err(config.unsupported(fact.key, &kind(value), expected));
        }
    }
    Ok(())
}

/// What gets lost, a sentence each.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let lost = config.class.facts.iter().filter_map(|fact| {
        let (Otherwise::Warn(loss), Some(value)) = (fact.otherwise, fact.against(config)) else {
            return None;
        };
        Some(format!(
            "config.json: `{}` is {}: {loss}",
            fact.key,
            kind(value)
        ))
    });
    lost.collect()
}

impl Fact {
    /// The value that this fact does not allow, among all keys or the parameters of rotary embeddings.
    fn against<'a>(&self, config: &'a Config) -> Option<&'a Value> {
        let in_rope = config.rope().get(self.key);
        let mut stated = config.values.get(self.key).into_iter().chain(in_rope);
        stated.find(|value| !(self.holds)(config, value))
    }
}
