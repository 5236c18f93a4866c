//! `adapter_config.json`: what PEFT says of an adapter.

use super::AdapterError;
use crate::ConvertError;
use crate::small_file::read_json;
use regex::Regex;
use serde_json::Value;
use std::path::Path;

/// Name of the file.
pub(super) const FILE: &str = "adapter_config.json";

/// What a missing `lora_alpha` means: PEFT's default.
const DEFAULT_ALPHA: f64 = 8.0;

/// Ways to begin that take something away from the base, which the adapter then does not fit.
const CHANGED_BASES: &[&str] = &["pissa", "olora", "corda", "loftq", "lora_ga"];

/// How an adapter is to be applied.
#[derive(Debug)]
pub(super) struct AdapterConfig {
    alpha: f64,
    /// The alphas of some modules, by patterns of their names; the first that fits counts.
    alphas: Vec<(Regex, f64)>,
    /// Whether scales go by the root of the rank.
    is_rank_stabilized: bool,
    /// The base model: a folder or a name on the hub.
    pub base: Option<String>,
    /// The token ids from which an activated adapter begins to count.
    pub invocation_tokens: Vec<u32>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

impl AdapterConfig {
    /// Reads the file of a folder.
    ///
    /// # Errors
    /// No such file, damaged JSON, a kind of adapter that a GGUF file cannot hold.
    pub fn read(folder: &Path) -> Result<Self, ConvertError> {
        let path = folder.join(FILE);
        let stated: Option<Value> = read_json(&path)?;
        let stated = stated.ok_or_else(|| AdapterError::NoConfig {
            path: folder.to_owned(),
        })?;
        Self::of(&stated, &path)
    }

    fn of(stated: &Value, path: &Path) -> Result<Self, ConvertError> {
        let wrong = |key: &str, expected: &str| ConvertError::Json {
            path: path.to_owned(),
            reason: format!("`{key}` is {}: must be {expected}", stated[key]),
        };
        check_kind(stated, path)?;
        let mut warnings = warnings(stated, path);
        let alpha = match stated.get("lora_alpha") {
            Some(alpha) => alpha
                .as_f64()
                .ok_or_else(|| wrong("lora_alpha", "a number"))?,
            None => {
                warnings.push(format!(
                    "{}: no `lora_alpha`; PEFT takes {DEFAULT_ALPHA} then, and so does this file",
                    path.display()
                ));
                DEFAULT_ALPHA
            }
        };
        let patterns = stated.get("alpha_pattern").and_then(Value::as_object);
        let pattern = |(name, alpha): (&String, &Value)| {
            let regex = Regex::new(&format!(r"^(.*\.)?({name})$")).ok()?;
            Some((regex, alpha.as_f64()?))
        };
        let alphas: Option<Vec<_>> = patterns.into_iter().flatten().map(pattern).collect();
        let alphas =
            alphas.ok_or_else(|| wrong("alpha_pattern", "regular expressions with numbers"))?;
        // GGUF holds it as an f32.
        let own = alphas.iter().map(|(_, alpha)| ("alpha_pattern", *alpha));
        for (key, alpha) in own.chain([("lora_alpha", alpha)]) {
            match alpha as f32 {
                0.0 => {
                    let path = path.to_owned();
                    return Err(AdapterError::NoEffect { path, key }.into());
                }
                alpha if !alpha.is_finite() => return Err(wrong(key, "a number that f32 holds")),
                _ => {}
            }
        }
        let id = |id: &Value| u32::try_from(id.as_u64()?).ok();
        let invocation = stated.get("alora_invocation_tokens");
        let invocation = invocation.filter(|tokens| !tokens.is_null());
        let tokens = invocation.map(|tokens| tokens.as_array()?.iter().map(id).collect());
        let expected = "a list of token ids";
        Ok(Self {
            alpha,
            alphas,
            is_rank_stabilized: stated["use_rslora"].as_bool().unwrap_or(false),
            base: stated["base_model_name_or_path"]
                .as_str()
                .filter(|name| !name.is_empty())
                .map(str::to_owned),
            invocation_tokens: tokens
                .unwrap_or(Some(Vec::new()))
                .ok_or_else(|| wrong("alora_invocation_tokens", expected))?,
            warnings,
        })
    }

    /// The alpha of a module: its scale times its rank.
    pub fn alpha_of(&self, module: &str, rank: usize) -> f64 {
        let own = self.alphas.iter().find(|(name, _)| name.is_match(module));
        let alpha = own.map_or(self.alpha, |(_, alpha)| *alpha);
        match self.is_rank_stabilized {
            true => alpha * (rank as f64).sqrt(),
            false => alpha,
        }
    }
}

/// Refuses what is no low-rank adapter, or more than one.
fn check_kind(stated: &Value, path: &Path) -> Result<(), AdapterError> {
    let is_empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        _ => false,
    };
    let kind = &stated["peft_type"];
    let is_lora = kind
        .as_str()
        .is_none_or(|kind| kind.eq_ignore_ascii_case("lora"));
    let bias = &stated["bias"];
    let only_string = is_empty(&stated["alora_invocation_tokens"])
        && stated["invocation_string"]
            .as_str()
            .is_some_and(|text| !text.is_empty());
    let refused = [
        ("peft_type", is_lora),
        ("use_dora", is_empty(&stated["use_dora"])),
        ("lora_bias", is_empty(&stated["lora_bias"])),
        ("bias", bias.is_null() || bias == "none"),
        ("layer_replication", is_empty(&stated["layer_replication"])),
        ("target_parameters", is_empty(&stated["target_parameters"])),
        ("invocation_string", !only_string),
    ];
    match refused.into_iter().find(|(_, is_fine)| !is_fine) {
        Some((key, _)) => Err(AdapterError::Unsupported {
            path: path.to_owned(),
            key,
            found: stated[key].to_string(),
        }),
        None => Ok(()),
    }
}

fn warnings(stated: &Value, path: &Path) -> Vec<String> {
    let begun = stated["init_lora_weights"].as_str().unwrap_or_default();
    let begun = begun.to_ascii_lowercase();
    let changes_base = CHANGED_BASES.iter().any(|name| begun.starts_with(name));
    let warning = changes_base.then(|| {
        format!(
            "{}: `init_lora_weights` is {begun}: the adapter fits the base that training left, not the original one",
            path.display()
        )
    });
    warning.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<AdapterConfig, ConvertError> {
        let stated = serde_json::from_str(text).unwrap();
        AdapterConfig::of(&stated, Path::new(FILE))
    }

    /// Case B97. The scale is `alpha / r`, with rank stabilization `alpha / sqrt(r)`, by PEFT's definition.
    #[test]
    fn b97_scales_of_all_forms() {
        let scale = |text: &str, module: &str, rank: usize| {
            config(text).unwrap().alpha_of(module, rank) / rank as f64
        };
        let plain = r#"{"peft_type": "LORA", "lora_alpha": 16}"#;
        assert_eq!(scale(plain, "model.layers.0.mlp.up_proj", 8), 2.0);
        let stabilized = r#"{"peft_type": "LORA", "lora_alpha": 16, "use_rslora": true}"#;
        assert_eq!(scale(stabilized, "x", 16), 4.0);
        let patterns =
            r#"{"lora_alpha": 16, "alpha_pattern": {"q_proj": 4, "layers.1.mlp.*": 32}}"#;
        assert_eq!(scale(patterns, "model.layers.1.self_attn.q_proj", 4), 1.0);
        assert_eq!(scale(patterns, "model.layers.1.mlp.up_proj", 4), 8.0);
        assert_eq!(scale(patterns, "model.layers.0.xq_proj", 4), 4.0);
        let silent = config("{}").unwrap();
        assert_eq!(silent.alpha_of("x", 8), 8.0);
        assert_eq!(silent.warnings.len(), 1);
    }

    #[test]
    fn other_kinds_are_refused_by_key() {
        for (key, value) in [
            ("peft_type", "\"LOHA\""),
            ("use_dora", "true"),
            ("lora_bias", "true"),
            ("bias", "\"all\""),
            ("layer_replication", "[[0, 4]]"),
            ("target_parameters", "[\"mlp.experts.gate_up_proj\"]"),
            ("invocation_string", "\"<|start_of_role|>\""),
        ] {
            let message = config(&format!("{{\"lora_alpha\": 1, \"{key}\": {value}}}"))
                .unwrap_err()
                .to_string();
            let start = format!("adapter_config.json: `{key}` is ");
            assert!(message.starts_with(&start), "{message}");
        }
        for wrong in [
            r#"{"lora_alpha": null}"#,
            r#"{"lora_alpha": 1, "alpha_pattern": {"(": 1}}"#,
            r#"{"lora_alpha": 1, "alora_invocation_tokens": [-1]}"#,
            r#"{"lora_alpha": 1e39}"#,
            r#"{"lora_alpha": 1, "alpha_pattern": {"k_proj": 1e39}}"#,
        ] {
            assert!(
                matches!(config(wrong), Err(ConvertError::Json { .. })),
                "{wrong}"
            );
        }
        let activated = config(r#"{"lora_alpha": 1, "alora_invocation_tokens": [5, 6]}"#);
        assert_eq!(activated.unwrap().invocation_tokens, [5, 6]);
        let residual = config(r#"{"lora_alpha": 1, "init_lora_weights": "pissa_niter_4"}"#);
        assert_eq!(residual.unwrap().warnings.len(), 1);
    }
}
