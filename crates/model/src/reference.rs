//! What the reference loads.

use gristmill_gguf::ValueType;

/// Names of the architectures that the reference (llama.cpp b11434) loads, sorted. Files of those that
/// [`crate::ARCHITECTURES`] does not have can be quantized and checked all the same.
#[rustfmt::skip]
pub const REFERENCE_ARCHITECTURES: &[&str] = &[
    "afmoe", "apertus", "arcee", "arctic", "arwkv7", "baichuan", "bailingmoe", "bailingmoe2", "bailingmoe3", "bert",
    "bitnet", "bloom", "chameleon", "chatglm", "clef", "codeshell", "cogvlm", "cohere2", "cohere2moe", "command-r",
    "dbrx", "deci", "deepseek", "deepseek2", "deepseek2-ocr", "deepseek32", "deepseek4", "dflash", "dots1",
    "dots3note", "dream", "eagle3", "ernie4_5", "ernie4_5-moe", "eurobert", "exaone", "exaone-moe", "exaone4",
    "falcon", "falcon-h1", "gemma", "gemma-embedding", "gemma2", "gemma3", "gemma3n", "gemma4", "gemma4-assistant",
    "glm-dsa", "glm4", "glm4moe", "glm5-next", "gpt-oss", "gpt2", "gptj", "gptneox", "granite", "granite_swa",
    "granitehybrid", "granitemoe", "graniteswitch", "grok", "grovemoe", "hrm_text", "hunyuan-dense", "hunyuan-moe",
    "hunyuan_vl", "hy_v3", "hy_v4", "internlm2", "jais", "jais2", "jamba", "jina-bert-v2", "jina-bert-v3",
    "kimi-k3", "kimi-linear", "laguna", "lfm2", "lfm2moe", "llada", "llada-moe", "llama", "llama-embed", "llama4",
    "maincoder", "mamba", "mamba2", "maple", "mellum", "mimo2", "minicpm", "minicpm3", "minimax-01", "minimax-m2",
    "minimax-m3", "mistral3", "mistral4", "modern-bert", "mpt", "muse-glimmer", "nanbeige", "nemotron",
    "nemotron_h", "nemotron_h_moe", "neo-bert", "nomic-bert", "nomic-bert-moe", "olmo", "olmo2", "olmoe", "openelm",
    "orion", "paddleocr", "pangu-embedded", "phi2", "phi3", "phimoe", "plamo", "plamo2", "plamo3", "plm",
    "pockettts", "qwen", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen35", "qwen35moe", "qwen3moe", "qwen3next",
    "qwen3tts", "qwen3vl", "qwen3vlmoe", "qwen4exp", "refact", "rnd1", "rwkv6", "rwkv6qwen2", "rwkv7", "seed_oss",
    "smallthinker", "smollm3", "spark2_5", "stablelm", "starcoder", "starcoder2", "step35", "t5", "t5encoder",
    "talkie", "wavtokenizer-dec", "xverse",
];

/// Keys below an architecture's prefix that the reference reads with one type only.
#[rustfmt::skip]
pub const REFERENCE_KEY_TYPES: &[(&str, ValueType)] = &[
    ("attention.causal", ValueType::Bool),
    ("attention.key_length", ValueType::U32),
    ("attention.key_length_swa", ValueType::U32),
    ("attention.layer_norm_epsilon", ValueType::F32),
    ("attention.layer_norm_rms_epsilon", ValueType::F32),
    ("attention.scale", ValueType::F32),
    ("attention.sliding_window", ValueType::U32),
    ("attention.value_length", ValueType::U32),
    ("attention.value_length_swa", ValueType::U32),
    ("attn_logit_softcapping", ValueType::F32),
    ("block_count", ValueType::U32),
    ("classifier.pooling_type", ValueType::U32),
    ("context_length", ValueType::U32),
    ("embedding_length", ValueType::U32),
    ("embedding_length_out", ValueType::U32),
    ("expert_count", ValueType::U32),
    ("expert_group_count", ValueType::U32),
    ("expert_group_used_count", ValueType::U32),
    ("final_logit_softcapping", ValueType::F32),
    ("nextn_predict_layers", ValueType::U32),
    ("pooling_type", ValueType::U32),
    ("rope.dimension_count", ValueType::U32),
    ("rope.dimension_count_swa", ValueType::U32),
    ("rope.freq_base", ValueType::F32),
    ("rope.freq_base_swa", ValueType::F32),
    ("rope.scale_linear", ValueType::F32),
    ("rope.scaling.alpha", ValueType::F32),
    ("rope.scaling.attn_factor", ValueType::F32),
    ("rope.scaling.factor", ValueType::F32),
    ("rope.scaling.finetuned", ValueType::Bool),
    ("rope.scaling.original_context_length", ValueType::U32),
    ("rope.scaling.type", ValueType::String),
    ("vocab_size", ValueType::U32),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_sorted_and_hold_our_own() {
        assert!(REFERENCE_ARCHITECTURES.is_sorted());
        for architecture in crate::ARCHITECTURES {
            let name = architecture.name;
            assert!(REFERENCE_ARCHITECTURES.contains(&name), "{name}");
        }
    }
}
