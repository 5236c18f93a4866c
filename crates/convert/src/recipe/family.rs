//! What the mixes know of single families of models, by `general.architecture`: one table, since files of architectures
//! that cannot be run or converted here are quantized all the same.

/// What sets a family apart.
pub(super) struct Family {
    architecture: &'static str,
    /// The sizes whose attention values are worth more bits, by number of layers.
    pub valuable_values: Option<Layers>,
    /// Whether the mixes have exceptions of their own for it, and its output matrix takes eight bits.
    pub has_own_mix: bool,
    /// Whether projections of the attention are stacked as experts are.
    pub stacks_projections: bool,
    /// Parts of names of tensors that stay as they are.
    pub kept_parts: &'static [&'static str],
    /// Parts of names of tensors that never get less than eight bits.
    pub eight_bit_parts: &'static [&'static str],
}

/// A size of a family.
pub(super) struct Layers {
    /// Its number of layers.
    pub n_layers: u64,
    /// Whether it is only meant where query heads share key and value heads.
    pub with_shared_heads: bool,
}

impl Layers {
    const fn of(n_layers: u64) -> Option<Layers> {
        Some(Layers {
            n_layers,
            with_shared_heads: false,
        })
    }
}

/// A family that nothing sets apart.
const USUAL: Family = Family {
    architecture: "",
    valuable_values: None,
    has_own_mix: false,
    stacks_projections: false,
    kept_parts: &[],
    eight_bit_parts: &[],
};

static FAMILIES: &[Family] = &[
    Family {
        architecture: "bailingmoe3",
        stacks_projections: true,
        ..USUAL
    },
    Family {
        architecture: "deci",
        valuable_values: Layers::of(80),
        ..USUAL
    },
    Family {
        architecture: "falcon",
        has_own_mix: true,
        ..USUAL
    },
    Family {
        architecture: "glm5-next",
        kept_parts: &[
            "hc_",
            "indexer.attn_q_b",
            "indexer.attn_k",
            "indexer.proj",
            "indexer_compressor_gate",
            "indexer_compressor_ape",
            "ssm_f_a.weight",
            "ssm_f_b.weight",
            "ssm_g_a.weight",
            "ssm_g_b.weight",
            "ssm_beta.weight",
            "attn_kv_a_mqa.weight",
            "attn_k_b.weight",
            "attn_v_b.weight",
        ],
        eight_bit_parts: &["attn_q_a", "attn_q_b", "nextn.eh_proj"],
        ..USUAL
    },
    Family {
        architecture: "jais2",
        valuable_values: Layers::of(68),
        ..USUAL
    },
    Family {
        architecture: "llama",
        valuable_values: Some(Layers {
            n_layers: 80,
            with_shared_heads: true,
        }),
        ..USUAL
    },
    Family {
        architecture: "olmo",
        valuable_values: Layers::of(80),
        ..USUAL
    },
    Family {
        architecture: "qwen2",
        valuable_values: Layers::of(80),
        ..USUAL
    },
];

/// The family of an architecture.
pub(super) fn family(architecture: &str) -> &'static Family {
    let known = FAMILIES
        .iter()
        .find(|family| family.architecture == architecture);
    known.unwrap_or(&USUAL)
}
