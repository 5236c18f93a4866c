//! The mixes: for each recipe the tensors that do not get its default type.
//!
//! A rule is a list of conditions with types; the first condition that holds decides, and where none holds
//! the default type stays. Source: `types.md` section 5.

use gristmill_quant as q;
use gristmill_quant::TensorType;

use super::plan::ModelFacts;

/// Where a tensor stands when its rule is asked.
pub(super) struct Place<'a> {
    pub model: &'a ModelFacts,
    /// An importance matrix is present.
    pub has_importance: bool,
    /// Number of the tensor among its kind, or its layer.
    pub index: u64,
    /// How many there are.
    pub count: u64,
    /// Matrices stacked in the tensor (experts).
    pub n_matrices: u64,
    /// The tensor is a gate, up or down projection.
    pub feed_forward: bool,
}

pub(super) type Rule = &'static [(fn(&Place) -> bool, TensorType)];

/// The exceptions of a recipe, by kind of tensor.
pub(super) struct Mix {
    /// The output matrix (and the token embedding that stands in for it), where its rows fit the default type.
    pub output: TensorType,
    /// A token embedding that is not also the output.
    pub token_embedding: Rule,
    /// Values of the attention, alone or fused with queries and keys.
    pub value: Rule,
    pub key: Rule,
    pub query: Rule,
    pub attention_output: Rule,
    pub down: Rule,
    /// Gate and up projection.
    pub gate_up: Rule,
    /// When not empty: every tensor but the output, whatever its kind.
    pub everything: Rule,
    /// Very few bits: no general upgrades for many experts or shared heads, and layers are counted, not read
    /// from names.
    pub very_low: bool,
    /// A type that is garbage without importance in this mix, though not in others.
    pub coarse: Option<TensorType>,
}

impl Mix {
    /// Whether a type is garbage without importance in this mix, though not in others.
    pub fn needs_importance(&self, ty: TensorType) -> bool {
        self.coarse == Some(ty)
    }
}

pub(super) static NONE: Mix = MIX;

const MIX: Mix = Mix {
    output: q::Q6_K,
    token_embedding: &[],
    value: &[],
    key: &[],
    query: &[],
    attention_output: &[],
    down: &[],
    gate_up: &[],
    everything: &[],
    very_low: false,
    coarse: None,
};

fn always(_: &Place) -> bool {
    true
}

/// Four or more query heads share a key and value head, so values are few and cheap to keep well.
fn shared_heads(at: &Place) -> bool {
    at.model.heads_per_kv_head() >= 4
}

fn shared_heads_or_experts(at: &Place) -> bool {
    shared_heads(at) || at.model.n_experts >= 4
}

fn eight_experts(at: &Place) -> bool {
    at.model.n_experts == 8
}

fn own_mix(at: &Place) -> bool {
    at.model.family().has_own_mix
}

fn no_importance(at: &Place) -> bool {
    !at.has_importance
}

fn first_two(at: &Place) -> bool {
    at.index < 2
}

fn first_four(at: &Place) -> bool {
    at.index < 4
}

fn first_eighth(at: &Place) -> bool {
    at.index < at.count / 8
}

fn first_sixteenth(at: &Place) -> bool {
    at.index < at.count / 16
}

fn middle(at: &Place) -> bool {
    at.index >= at.count / 8 && at.index < 7 * at.count / 8
}

/// The first and last eighth, and every third in between: where errors hurt most.
fn sensitive(at: &Place) -> bool {
    first_eighth(at) || at.index >= 7 * at.count / 8 || (at.index - at.count / 8) % 3 == 2
}

/// Experts in one tensor. In one family projections of the attention are stacked too.
fn stacked_experts(at: &Place) -> bool {
    at.n_matrices > 1 && (at.feed_forward || !at.model.family().stacks_projections)
}

fn early_with_importance(at: &Place) -> bool {
    at.has_importance && first_eighth(at)
}

fn early_without_importance(at: &Place) -> bool {
    no_importance(at) && first_eighth(at)
}

fn usual_mix(at: &Place) -> bool {
    !own_mix(at)
}

pub(super) static Q4_0: Mix = Mix {
    down: &[(early_with_importance, q::Q4_1)],
    ..MIX
};

pub(super) static Q5_0: Mix = Mix {
    down: &[(early_with_importance, q::Q5_1)],
    ..MIX
};

pub(super) static Q8_0: Mix = Mix {
    output: q::Q8_0,
    ..MIX
};

pub(super) static TERNARY: Mix = Mix {
    token_embedding: &[(always, q::Q4_K)],
    ..MIX
};

pub(super) static MXFP4_MOE: Mix = Mix {
    output: q::Q8_0,
    everything: &[(stacked_experts, q::MXFP4), (always, q::Q8_0)],
    ..MIX
};

pub(super) static Q2_K: Mix = Mix {
    value: &[(shared_heads, q::Q4_K), (always, q::Q3_K)],
    attention_output: &[
        (own_mix, q::Q2_K),
        (eight_experts, q::Q5_K),
        (always, q::Q3_K),
    ],
    down: &[(always, q::Q3_K)],
    ..MIX
};

pub(super) static Q2_K_S: Mix = Mix {
    value: &[(shared_heads, q::Q4_K)],
    down: &[(first_eighth, q::Q4_K)],
    coarse: Some(q::Q2_K),
    ..MIX
};

pub(super) static Q3_K_S: Mix = Mix {
    attention_output: FIVE_BITS_FOR_EIGHT_EXPERTS,
    ..MIX
};

pub(super) static Q3_K_M: Mix = Mix {
    value: &[(first_two, q::Q5_K), (always, q::Q4_K)],
    attention_output: &[
        (own_mix, q::Q3_K),
        (eight_experts, q::Q5_K),
        (always, q::Q4_K),
    ],
    down: &[
        (first_sixteenth, q::Q5_K),
        (usual_mix, q::Q4_K),
        (sensitive, q::Q4_K),
    ],
    ..MIX
};

pub(super) static Q3_K_L: Mix = Mix {
    value: &[(always, q::Q5_K)],
    attention_output: &[
        (own_mix, q::Q4_K),
        (eight_experts, q::Q3_K),
        (always, q::Q5_K),
    ],
    down: &[(own_mix, q::Q4_K), (always, q::Q5_K)],
    ..MIX
};

pub(super) static Q4_K_S: Mix = Mix {
    value: &[(first_four, q::Q5_K)],
    attention_output: FIVE_BITS_FOR_EIGHT_EXPERTS,
    down: &[(own_mix, q::Q4_K), (first_eighth, q::Q5_K)],
    ..MIX
};

pub(super) static Q4_K_M: Mix = Mix {
    value: &[(sensitive, q::Q6_K)],
    attention_output: FIVE_BITS_FOR_EIGHT_EXPERTS,
    down: &[
        (|at| own_mix(at) && first_sixteenth(at), q::Q6_K),
        (|at| own_mix(at) && sensitive(at), q::Q5_K),
        (|at| !own_mix(at) && sensitive(at), q::Q6_K),
    ],
    ..MIX
};

pub(super) static Q5_K_M: Mix = Mix {
    value: &[(sensitive, q::Q6_K)],
    down: &[(sensitive, q::Q6_K)],
    ..MIX
};

pub(super) static IQ4: Mix = Mix {
    value: &[(shared_heads, q::Q5_K)],
    attention_output: FIVE_BITS_FOR_EIGHT_EXPERTS,
    down: &[(early_without_importance, q::Q5_K)],
    ..MIX
};

pub(super) static IQ3_M: Mix = Mix {
    value: &[(always, q::Q4_K)],
    attention_output: &[
        (own_mix, q::IQ3_S),
        (eight_experts, q::Q5_K),
        (always, q::Q4_K),
    ],
    down: &[
        (first_eighth, q::Q4_K),
        (|at| eight_experts(at) && sensitive(at), q::Q4_K),
    ],
    ..MIX
};

pub(super) static IQ3_S: Mix = Mix {
    value: &[(shared_heads, q::Q4_K)],
    attention_output: FIVE_BITS_FOR_EIGHT_EXPERTS,
    ..MIX
};

pub(super) static IQ3_XS: Mix = Mix {
    value: &[(shared_heads, q::Q4_K)],
    key: &[(always, q::IQ3_XXS)],
    query: &[(always, q::IQ3_XXS)],
    attention_output: FIVE_BITS_FOR_EIGHT_EXPERTS,
    gate_up: &[(middle, q::IQ3_XXS)],
    ..MIX
};

pub(super) static IQ3_XXS: Mix = Mix {
    output: q::Q5_K,
    token_embedding: &[(always, q::IQ3_S)],
    value: &[
        (shared_heads, q::Q4_K),
        (no_importance, q::IQ3_S),
        (always, q::IQ3_XXS),
    ],
    key: &[(always, q::IQ2_S)],
    query: &[(always, q::IQ2_S)],
    attention_output: &[
        (own_mix, q::IQ3_XXS),
        (eight_experts, q::Q5_K),
        (always, q::IQ3_S),
    ],
    down: &[
        (early_without_importance, q::Q4_K),
        (no_importance, q::Q3_K),
    ],
    ..MIX
};

pub(super) static IQ2_S: Mix = Mix {
    output: q::Q5_K,
    token_embedding: &[(always, q::IQ3_S)],
    value: &[(shared_heads_or_experts, q::Q4_K), (always, q::IQ3_S)],
    key: &[(eight_experts, q::Q4_K)],
    attention_output: &[(eight_experts, q::Q5_K), (always, q::IQ3_S)],
    down: &[(first_eighth, q::IQ3_S)],
    very_low: true,
    ..MIX
};

pub(super) static IQ2_XXS: Mix = Mix {
    attention_output: &[(eight_experts, q::Q5_K)],
    ..IQ1
};

pub(super) static IQ1_S: Mix = IQ1;

const IQ1: Mix = Mix {
    output: q::Q5_K,
    token_embedding: &[(always, q::Q2_K)],
    value: &[(shared_heads_or_experts, q::Q4_K), (always, q::Q2_K)],
    key: &[(eight_experts, q::Q4_K)],
    attention_output: &[(eight_experts, q::Q5_K), (always, q::IQ2_XXS)],
    down: &[(first_eighth, q::Q2_K)],
    very_low: true,
    ..MIX
};

const FIVE_BITS_FOR_EIGHT_EXPERTS: Rule = &[(|at| !own_mix(at) && eight_experts(at), q::Q5_K)];
