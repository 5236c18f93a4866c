//! The tensors of a model: slots with their GGUF names and shapes, and the rows of an architecture's tensor table.

use crate::config::Config;
use crate::{Hyperparameters, ModelError};
use gristmill_compute::Tensor;

/// An extent of a tensor, named by what gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dim {
    /// `n_embd`
    Embedding,
    /// `n_vocab`
    Vocabulary,
    /// `n_head * key_length`
    Queries,
    /// `n_head_kv * key_length`
    Keys,
    /// `n_head_kv * value_length`
    Values,
    /// `n_head * value_length`
    AttentionOutput,
    /// `key_length`
    KeyHead,
    /// `Queries`, `Keys` and `Values` one after the other
    QueriesKeysValues,
    /// `n_context_train`
    Positions,
    /// `n_ff`
    FeedForward,
    /// `2 * n_ff`
    GateAndUp,
    /// Number of experts; 1 without any
    Experts,
    /// Width of an expert's feed-forward part
    ExpertFeedForward,
    /// `n_rot / 2`
    RotaryPairs,
    /// `n_token_types`
    TokenTypes,
    /// `n_labels`
    Labels,
}

impl Dim {
    /// The extent in a model, at a layer (ignored where all layers agree).
    pub fn extent(self, hparams: &Hyperparameters, layer: usize) -> u64 {
        let at = hparams.layers.get(layer).copied().unwrap_or_default();
        let extent = match self {
            Dim::Embedding => hparams.n_embd,
            Dim::Vocabulary => hparams.n_vocab,
            Dim::Queries => at.n_head * hparams.key_length,
            Dim::Keys => at.n_head_kv * hparams.key_length,
            Dim::Values => at.n_head_kv * hparams.value_length,
            Dim::AttentionOutput => at.n_head * hparams.value_length,
            Dim::KeyHead => hparams.key_length,
            Dim::QueriesKeysValues => {
                at.n_head * hparams.key_length
                    + at.n_head_kv * (hparams.key_length + hparams.value_length)
            }
            Dim::Positions => hparams.n_context_train,
            Dim::FeedForward => at.n_ff,
            Dim::GateAndUp => 2 * at.n_ff,
            Dim::Experts => hparams.experts.map_or(1, |experts| experts.n_experts),
            Dim::ExpertFeedForward => {
                let stated = hparams.experts.and_then(|experts| experts.n_ff);
                stated.unwrap_or(at.n_ff)
            }
            Dim::RotaryPairs => hparams.n_rot / 2,
            Dim::TokenTypes => hparams.n_token_types,
            Dim::Labels => hparams.n_labels,
        };
        extent as u64
    }
}

/// Defines every slot once: field and variant, GGUF name, shape.
macro_rules! slots {
    (
        model { $($(#[$model_doc:meta])* $model_field:ident $model_slot:ident $model_name:literal [$($model_dim:ident),+];)+ }
        block { $($(#[$block_doc:meta])* $block_field:ident $block_slot:ident $block_name:literal [$($block_dim:ident),+];)+ }
    ) => {
        /// A place for a tensor in a model or in each of its blocks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Slot {
            $($(#[$model_doc])* $model_slot,)+
            $($(#[$block_doc])* $block_slot,)+
        }

        impl Slot {
            /// The GGUF name; in a block without its `blk.N.` prefix.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Slot::$model_slot => $model_name,)+
                    $(Slot::$block_slot => $block_name,)+
                }
            }

            /// The shape, contiguous dimension first.
            pub const fn shape(self) -> &'static [Dim] {
                match self {
                    $(Slot::$model_slot => &[$(Dim::$model_dim),+],)+
                    $(Slot::$block_slot => &[$(Dim::$block_dim),+],)+
                }
            }

            /// Whether each block has one.
            pub const fn in_block(self) -> bool {
                match self {
                    $(Slot::$model_slot => false,)+
                    $(Slot::$block_slot => true,)+
                }
            }
        }

        /// Handles of a model's tensors; those that the file lacks are `None`.
        #[derive(Clone, Debug, Default)]
        pub struct Weights {
            $($(#[$model_doc])* pub $model_field: Option<Tensor>,)+
            /// The tensors of each block.
            pub blocks: Vec<BlockWeights>,
        }

        /// Handles of a block's tensors; those that the file lacks are `None`.
        #[derive(Clone, Debug, Default)]
        pub struct BlockWeights {
            $($(#[$block_doc])* pub $block_field: Option<Tensor>,)+
        }

        impl Weights {
            /// Puts a tensor into its slot. A block that does not exist is ignored.
            pub(crate) fn place(&mut self, slot: Slot, layer: Option<usize>, tensor: Tensor) {
                let block = layer.and_then(|layer| self.blocks.get_mut(layer));
                match (slot, block) {
                    $((Slot::$model_slot, _) => self.$model_field = Some(tensor),)+
                    $((Slot::$block_slot, Some(block)) => block.$block_field = Some(tensor),)+
                    (_, None) => {}
                }
            }
        }
    };
}

slots! {
    model {
        /// Token embeddings, `[n_embd, n_vocab]`.
        token_embd TokenEmbd "token_embd.weight" [Embedding, Vocabulary];
        /// Embeddings of positions, `[n_embd, n_context_train]`.
        position_embd PositionEmbd "position_embd.weight" [Embedding, Positions];
        /// Embeddings of token types, `[n_embd, n_token_types]`.
        token_types TokenTypes "token_types.weight" [Embedding, TokenTypes];
        /// Norm of the embeddings, `[n_embd]`.
        token_embd_norm TokenEmbdNorm "token_embd_norm.weight" [Embedding];
        /// Bias of that norm, `[n_embd]`.
        token_embd_norm_bias TokenEmbdNormBias "token_embd_norm.bias" [Embedding];
        /// First matrix of a classifier, `[n_embd, n_embd]`.
        cls Cls "cls.weight" [Embedding, Embedding];
        /// Its bias, `[n_embd]`.
        cls_bias ClsBias "cls.bias" [Embedding];
        /// Last matrix of a classifier, `[n_embd, n_labels]`.
        cls_output ClsOutput "cls.output.weight" [Embedding, Labels];
        /// Its bias, `[n_labels]`.
        cls_output_bias ClsOutputBias "cls.output.bias" [Labels];
        /// Norm before the output projection, `[n_embd]`.
        output_norm OutputNorm "output_norm.weight" [Embedding];
        /// Bias of that norm, `[n_embd]`.
        output_norm_bias OutputNormBias "output_norm.bias" [Embedding];
        /// Output projection, `[n_embd, n_vocab]`; without it the embeddings serve.
        output Output "output.weight" [Embedding, Vocabulary];
        /// Bias of the logits, `[n_vocab]`.
        output_bias OutputBias "output.bias" [Vocabulary];
        /// Divisors of the rotary frequencies, `[n_rot / 2]`.
        rope_freqs RopeFreqs "rope_freqs.weight" [RotaryPairs];
        /// Their divisors in contexts longer than the original one, `[n_rot / 2]`.
        rope_factors_long RopeFactorsLong "rope_factors_long.weight" [RotaryPairs];
        /// Their divisors in other contexts, `[n_rot / 2]`.
        rope_factors_short RopeFactorsShort "rope_factors_short.weight" [RotaryPairs];
    }
    block {
        /// Norm before attention, `[n_embd]`.
        attn_norm AttnNorm "attn_norm.weight" [Embedding];
        /// Bias of that norm, `[n_embd]`.
        attn_norm_bias AttnNormBias "attn_norm.bias" [Embedding];
        /// Query, key and value projections in one matrix, in this order.
        attn_qkv AttnQkv "attn_qkv.weight" [Embedding, QueriesKeysValues];
        /// Their biases.
        attn_qkv_bias AttnQkvBias "attn_qkv.bias" [QueriesKeysValues];
        /// Query projection, `[n_embd, n_head * key_length]`.
        attn_q AttnQ "attn_q.weight" [Embedding, Queries];
        /// Query bias, `[n_head * key_length]`.
        attn_q_bias AttnQBias "attn_q.bias" [Queries];
        /// Key projection, `[n_embd, n_head_kv * key_length]`.
        attn_k AttnK "attn_k.weight" [Embedding, Keys];
        /// Key bias, `[n_head_kv * key_length]`.
        attn_k_bias AttnKBias "attn_k.bias" [Keys];
        /// Value projection, `[n_embd, n_head_kv * value_length]`.
        attn_v AttnV "attn_v.weight" [Embedding, Values];
        /// Value bias, `[n_head_kv * value_length]`.
        attn_v_bias AttnVBias "attn_v.bias" [Values];
        /// Norm of each query head, `[key_length]`.
        attn_q_norm AttnQNorm "attn_q_norm.weight" [KeyHead];
        /// Norm of each key head, `[key_length]`.
        attn_k_norm AttnKNorm "attn_k_norm.weight" [KeyHead];
        /// Norm of a token's queries, all heads together, `[n_head * key_length]`.
        attn_queries_norm AttnQueriesNorm "attn_q_norm.weight" [Queries];
        /// Norm of a token's keys, all heads together, `[n_head_kv * key_length]`.
        attn_keys_norm AttnKeysNorm "attn_k_norm.weight" [Keys];
        /// Output projection of attention, `[n_head * value_length, n_embd]`.
        attn_output AttnOutput "attn_output.weight" [AttentionOutput, Embedding];
        /// Bias of the output projection, `[n_embd]`.
        attn_output_bias AttnOutputBias "attn_output.bias" [Embedding];
        /// Norm of the residual stream behind attention, `[n_embd]`.
        attn_output_norm AttnOutputNorm "attn_output_norm.weight" [Embedding];
        /// Bias of that norm, `[n_embd]`.
        attn_output_norm_bias AttnOutputNormBias "attn_output_norm.bias" [Embedding];
        /// Norm of the attention's result before it joins the residual, `[n_embd]`.
        post_attention_norm PostAttentionNorm "post_attention_norm.weight" [Embedding];
        /// Norm before the feed-forward part, `[n_embd]`.
        ffn_norm FfnNorm "ffn_norm.weight" [Embedding];
        /// Bias of that norm, `[n_embd]`.
        ffn_norm_bias FfnNormBias "ffn_norm.bias" [Embedding];
        /// Gate projection, `[n_embd, n_ff]`; without it the feed-forward part has no gate.
        ffn_gate FfnGate "ffn_gate.weight" [Embedding, FeedForward];
        /// Gate bias, `[n_ff]`.
        ffn_gate_bias FfnGateBias "ffn_gate.bias" [FeedForward];
        /// Gate and up projections in one matrix, in this order, `[n_embd, 2 * n_ff]`.
        ffn_gate_up FfnGateUp "ffn_up.weight" [Embedding, GateAndUp];
        /// Up projection, `[n_embd, n_ff]`.
        ffn_up FfnUp "ffn_up.weight" [Embedding, FeedForward];
        /// Up bias, `[n_ff]`.
        ffn_up_bias FfnUpBias "ffn_up.bias" [FeedForward];
        /// Down projection, `[n_ff, n_embd]`.
        ffn_down FfnDown "ffn_down.weight" [FeedForward, Embedding];
        /// Down bias, `[n_embd]`.
        ffn_down_bias FfnDownBias "ffn_down.bias" [Embedding];
        /// Norm of the residual stream behind the feed-forward part, `[n_embd]`.
        layer_output_norm LayerOutputNorm "layer_output_norm.weight" [Embedding];
        /// Bias of that norm, `[n_embd]`.
        layer_output_norm_bias LayerOutputNormBias "layer_output_norm.bias" [Embedding];
        /// The router's weights, `[n_embd, n_experts]`.
        ffn_gate_inp FfnGateInp "ffn_gate_inp.weight" [Embedding, Experts];
        /// Gate projections of all experts, `[n_embd, n_ff, n_experts]`.
        ffn_gate_exps FfnGateExps "ffn_gate_exps.weight" [Embedding, ExpertFeedForward, Experts];
        /// Up projections of all experts, `[n_embd, n_ff, n_experts]`.
        ffn_up_exps FfnUpExps "ffn_up_exps.weight" [Embedding, ExpertFeedForward, Experts];
        /// Down projections of all experts, `[n_ff, n_embd, n_experts]`.
        ffn_down_exps FfnDownExps "ffn_down_exps.weight" [ExpertFeedForward, Embedding, Experts];
        /// Norm of the feed-forward result before it joins the residual, `[n_embd]`.
        post_ffw_norm PostFfwNorm "post_ffw_norm.weight" [Embedding];
    }
}

/// Whether a tensor is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Its absence is an error.
    Required,
    /// It may be there.
    Optional,
    /// Not in this model or layer.
    Absent,
}

/// Which head count a transform goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heads {
    /// `n_head`
    Query,
    /// `n_head_kv`
    KeyValue,
}

/// What conversion does to a checkpoint's tensor, as a table row states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    /// Values are copied.
    None,
    /// 1 is added to each value: norms stored as their distance from 1.
    AddOne,
    /// Only the first rows that the vocabulary has are kept.
    FirstRows,
    /// The matrix is stored the other way round: inputs by outputs.
    Transposed,
    /// Rows of each head go from half-split to pairwise order of the rotary dimensions.
    HalvesToPairs(Heads),
}

/// Where the values of a tensor come from.
#[derive(Clone, Copy)]
pub enum Source {
    /// A tensor of the checkpoint; `{}` stands for the layer.
    Checkpoint(&'static str),
    /// A tensor for each expert, one after the other.
    Experts(ExpertSource),
    /// Computed from the configuration; `None` where the model has no such tensor.
    Computed(Compute),
}

/// Where the weights of a layer's experts are in a checkpoint: apart, or several in one tensor. `{}` stands for the layer.
#[derive(Clone, Copy, Debug)]
pub struct ExpertSource {
    /// The tensor of one expert; `{expert}` stands for its number.
    pub apart: &'static str,
    /// Tensors that have those of all experts one after the other, with the part of each expert's rows that is meant. Some
    /// writers put `.weight` behind these names.
    pub together: &'static [(&'static str, ExpertPart)],
}

/// Which of an expert's rows are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpertPart {
    /// All.
    Whole,
    /// The first half, where gate and up projections are one.
    FirstHalf,
    /// The second half.
    SecondHalf,
}

/// Computes a tensor's values from the configuration.
pub type Compute = fn(&Config, &Hyperparameters) -> Result<Option<Vec<f32>>, ModelError>;

/// A row of an architecture's tensor table.
#[derive(Clone, Copy)]
pub struct TensorRow {
    /// Its place in the model.
    pub slot: Slot,
    /// Where its values come from at conversion.
    pub source: Source,
    /// What is done to them.
    pub transform: Transform,
    /// Whether it is there, by hyperparameters and layer.
    pub presence: fn(&Hyperparameters, usize) -> Presence,
}

fn required(_: &Hyperparameters, _: usize) -> Presence {
    Presence::Required
}

fn optional(_: &Hyperparameters, _: usize) -> Presence {
    Presence::Optional
}

/// A required tensor that is copied from the checkpoint's `name`.
pub const fn row(slot: Slot, name: &'static str) -> TensorRow {
    TensorRow {
        slot,
        source: Source::Checkpoint(name),
        transform: Transform::None,
        presence: required,
    }
}

/// The weights of all experts, where there are any.
pub(crate) const fn expert_row(
    slot: Slot,
    apart: &'static str,
    together: &'static [(&'static str, ExpertPart)],
) -> TensorRow {
    TensorRow {
        source: Source::Experts(ExpertSource { apart, together }),
        ..row(slot, "").present(with_experts)
    }
}

/// There where the feed-forward part is divided among experts.
pub(crate) fn with_experts(hparams: &Hyperparameters, _: usize) -> Presence {
    match hparams.experts {
        Some(_) => Presence::Required,
        None => Presence::Absent,
    }
}

/// There where it is not.
pub(crate) fn without_experts(hparams: &Hyperparameters, _: usize) -> Presence {
    match hparams.experts {
        Some(_) => Presence::Absent,
        None => Presence::Required,
    }
}

/// An optional tensor that is computed from the configuration.
pub const fn computed(slot: Slot, compute: Compute) -> TensorRow {
    TensorRow {
        slot,
        source: Source::Computed(compute),
        transform: Transform::None,
        presence: optional,
    }
}

impl TensorRow {
    /// The same row for a tensor that may be missing.
    pub const fn optional(self) -> TensorRow {
        TensorRow {
            presence: optional,
            ..self
        }
    }

    /// The same row for a tensor whose presence follows from the model.
    pub const fn present(self, presence: fn(&Hyperparameters, usize) -> Presence) -> TensorRow {
        TensorRow { presence, ..self }
    }

    /// The same row with a transform.
    pub const fn transformed(self, transform: Transform) -> TensorRow {
        TensorRow { transform, ..self }
    }
}

/// A tensor of one model: a row of the table, at a layer, with everything filled in.
#[derive(Clone, Debug)]
pub struct TensorSpec {
    /// Its place in the model.
    pub slot: Slot,
    /// The block it belongs to.
    pub layer: Option<usize>,
    /// Name in GGUF.
    pub name: String,
    /// Shape, contiguous dimension first.
    pub dims: Vec<u64>,
    /// Where its values come from at conversion.
    pub source: SpecSource,
    /// What is done to them.
    pub transform: RowTransform,
    /// Whether its absence is an error.
    pub required: bool,
}

/// [`Source`] of one tensor.
#[derive(Clone, Debug)]
pub enum SpecSource {
    /// The tensor of this name in the checkpoint.
    Checkpoint(String),
    /// A tensor for each expert; the layer is filled in.
    Experts(ExpertNames),
    /// Computed from the configuration.
    Computed(Compute),
}

/// [`ExpertSource`] of one layer.
#[derive(Clone, Debug)]
pub struct ExpertNames {
    /// The tensor of each expert.
    pub apart: Vec<String>,
    /// Tensors that have those of all experts.
    pub together: Vec<(String, ExpertPart)>,
}

/// [`Transform`] with its numbers filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowTransform {
    /// Values are copied.
    None,
    /// 1 is added to each value.
    AddOne,
    /// Rows beyond the spec's are dropped.
    FirstRows,
    /// Rows are the columns of the checkpoint's matrix.
    Transposed,
    /// Within each of `n_heads` equal groups of rows, row `pair * 2 + half` is taken from `half * (rows / 2) + pair`.
    HalvesToPairs {
        /// Number of groups.
        n_heads: usize,
    },
}

/// Every tensor a model has or may have, blocks in order between the model's own in table order.
pub fn tensor_specs(hparams: &Hyperparameters) -> Vec<TensorSpec> {
    let rows = || hparams.architecture.tensors.iter().copied().flatten();
    let of_model = rows()
        .filter(|row| !row.slot.in_block())
        .filter_map(|row| row.spec(hparams, None));
    let of_blocks = (0..hparams.layers.len()).flat_map(|layer| {
        rows()
            .filter(|row| row.slot.in_block())
            .filter_map(move |row| row.spec(hparams, Some(layer)))
    });
    of_model.chain(of_blocks).collect()
}

impl Slot {
    /// Whether its rows are looked up: an adapter's pair for it is `[rank, n_rows]` and `[rank, n_embd]`. Embeddings can
    /// be the output projection too, with which they are multiplied.
    pub fn is_table(self) -> bool {
        matches!(
            self,
            Slot::TokenEmbd | Slot::PositionEmbd | Slot::TokenTypes
        )
    }
}

impl ExpertSource {
    fn names(&self, hparams: &Hyperparameters, layer: usize) -> ExpertNames {
        let n_experts = hparams.experts.map_or(0, |experts| experts.n_experts);
        let of_layer = |name: &str| name.replace("{}", &layer.to_string());
        let apart = of_layer(self.apart);
        ExpertNames {
            apart: (0..n_experts)
                .map(|expert| apart.replace("{expert}", &expert.to_string()))
                .collect(),
            together: self
                .together
                .iter()
                .map(|(name, part)| (of_layer(name), *part))
                .collect(),
        }
    }
}

impl TensorRow {
    fn spec(&self, hparams: &Hyperparameters, layer: Option<usize>) -> Option<TensorSpec> {
        let at = layer.unwrap_or(0);
        let presence = (self.presence)(hparams, at);
        let heads = hparams.layers.get(at).copied().unwrap_or_default();
        let name = match layer {
            Some(layer) => format!("blk.{layer}.{}", self.slot.name()),
            None => self.slot.name().to_owned(),
        };
        (presence != Presence::Absent).then(|| TensorSpec {
            slot: self.slot,
            layer,
            name,
            dims: self
                .slot
                .shape()
                .iter()
                .map(|dim| dim.extent(hparams, at))
                .collect(),
            source: match self.source {
                Source::Checkpoint(name) => {
                    SpecSource::Checkpoint(name.replace("{}", &at.to_string()))
                }
                Source::Experts(source) => SpecSource::Experts(source.names(hparams, at)),
                Source::Computed(compute) => SpecSource::Computed(compute),
            },
            transform: match self.transform {
                Transform::None => RowTransform::None,
                Transform::AddOne => RowTransform::AddOne,
                Transform::FirstRows => RowTransform::FirstRows,
                Transform::Transposed => RowTransform::Transposed,
                Transform::HalvesToPairs(Heads::Query) => RowTransform::HalvesToPairs {
                    n_heads: heads.n_head,
                },
                Transform::HalvesToPairs(Heads::KeyValue) => RowTransform::HalvesToPairs {
                    n_heads: heads.n_head_kv,
                },
            },
            required: presence == Presence::Required,
        })
    }
}
