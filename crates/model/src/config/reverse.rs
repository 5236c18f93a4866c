//! The way back: a `config.json` from which a file's metadata would come again.
//!
//! Entries that are made by a plain rule go back by that rule; what [`Rule::With`] makes is known by its key. The result is
//! then converted once more and compared, so that whatever does not come back is known by name.

use super::{Config, Rule, fact};
use crate::arch::{AttentionScale, Class};
use crate::tensors::{Slot, SpecSource, tensor_specs};
use crate::{Hyperparameters, ModelError, Pooling};
use gristmill_gguf::{Metadata, Value as Entry};
use serde_json::{Map, Value, json};

/// A configuration, and what it could not say.
#[derive(Clone, Debug)]
pub struct Reversed {
    /// `config.json`.
    pub values: Map<String, Value>,
    /// What conversion would not give back, a sentence each.
    pub lost: Vec<String>,
}

/// What is said of an entry that the file leaves out.
const ADDED: &str = "would be there, which the file leaves out";

/// What the way back needs to know of a model.
pub struct ReverseSource<'a> {
    /// The file's metadata.
    pub metadata: &'a Metadata,
    /// What a loader reads in it.
    pub hparams: &'a Hyperparameters,
    /// The values of a small tensor, where the file has it.
    pub values: &'a dyn Fn(&str) -> Option<Vec<f32>>,
    /// Whether the file has a tensor.
    pub has: &'a dyn Fn(&str) -> bool,
}

impl ReverseSource<'_> {
    /// The configuration of the class that gives back the most; of several, the first.
    ///
    /// # Errors
    /// An architecture without a class.
    pub fn reverse(&self) -> Result<Reversed, ModelError> {
        let architecture = self.hparams.architecture;
        let has_experts = self.integer("expert_used_count").is_some();
        let mut classes: Vec<&Class> = architecture.classes.iter().collect();
        classes.sort_by_key(|class| routes(class) != has_experts);
        let candidates = classes.into_iter().map(|class| {
            let values = self.configuration(class);
            let lost = self.lost(&values);
            Reversed { values, lost }
        });
        // An entry more says what a loader assumes without it.
        let is_loss = |text: &&String| !text.ends_with(ADDED);
        let best = candidates.min_by_key(|reversed| reversed.lost.iter().filter(is_loss).count());
        best.ok_or_else(|| ModelError::UnknownArchitecture {
            name: architecture.name.to_owned(),
            supported: crate::arch::names().join(", "),
        })
    }

    fn entry(&self, suffix: &str) -> Option<&Entry> {
        let name = self.hparams.architecture.name;
        self.metadata.get(&format!("{name}.{suffix}"))
    }

    fn integer(&self, suffix: &str) -> Option<u64> {
        u64::try_from(self.entry(suffix)?.as_integer()?).ok()
    }

    fn float(&self, suffix: &str) -> Option<f32> {
        match self.entry(suffix)? {
            Entry::F32(value) => Some(*value),
            _ => None,
        }
    }

    fn configuration(&self, class: &Class) -> Map<String, Value> {
        let hparams = self.hparams;
        let architecture = hparams.architecture;
        let mut values = Map::new();
        values.insert("architectures".into(), json!([class.name]));
        // A decoder beside other parts has a configuration of its own; what stands beside an encoder are heads for it.
        let has_other_parts = hparams.causal
            && (architecture.text_part).is_some_and(|part| !part.other_prefixes.is_empty());
        values.insert(
            "model_type".into(),
            model_type(class.name, has_other_parts).into(),
        );
        values.insert("vocab_size".into(), hparams.n_vocab.into());
        for rule in architecture.rules() {
            let (from, value) = match *rule {
                Rule::U32 { key, from } => (from, self.integer(key).map(Value::from)),
                Rule::F32 { key, from } | Rule::F32Unless0 { key, from } => {
                    (from, self.float(key).and_then(number))
                }
                Rule::FileType | Rule::With(_) => continue,
            };
            if let Some(value) = value {
                values.insert(stated_name(class, from).into(), value);
            }
        }
        if architecture.has(Slot::Output) {
            let tied = !(self.has)(Slot::Output.name());
            values.insert("tie_word_embeddings".into(), tied.into());
        }
        // What the class takes for granted otherwise, and graphs know one way only.
        for fact in class.facts {
            let fact::Otherwise::Refuse(expected) = fact.otherwise else {
                continue;
            };
            if let (true, Ok(expected @ Value::Bool(_))) =
                (class.knows(fact.key), serde_json::from_str(expected))
            {
                values.insert(fact.key.into(), expected);
            }
        }
        let labels = format!("{}.classifier.output_labels", architecture.name);
        if let Ok(Some(labels)) = self.metadata.strings(&labels) {
            let label = |(id, label)| (format!("{id}"), String::from_utf8_lossy(label).into());
            let labels: Map<String, Value> = (0..).zip(labels.iter()).map(label).collect();
            values.insert("id2label".into(), labels.into());
        }
        self.attention(class, &mut values);
        self.rotation(class, &mut values);
        self.windows(class, &mut values);
        self.causality(&mut values);
        values
    }

    /// Whether tokens see later ones, unless the class says it already.
    fn causality(&self, values: &mut Map<String, Value>) {
        let Some(entry @ Entry::Bool(causal)) = self.entry("attention.causal") else {
            return;
        };
        let key = format!("{}.attention.causal", self.hparams.architecture.name);
        let is_said = |(_, again): (Config, Metadata)| again.get(&key) == Some(entry);
        if !self.converted(values).is_ok_and(is_said) {
            values.insert("is_causal".into(), (*causal).into());
        }
    }

    /// Lengths of heads, biases, and what scales the products of queries and keys.
    fn attention(&self, class: &Class, values: &mut Map<String, Value>) {
        let hparams = self.hparams;
        if let Some(length) = self.integer("attention.key_length") {
            values.insert("head_dim".into(), length.into());
        }
        for (name, tensor) in [
            ("attention_bias", "blk.0.attn_q.bias"),
            ("mlp_bias", "blk.0.ffn_gate.bias"),
        ] {
            if (self.has)(tensor) {
                values.insert(name.into(), true.into());
            }
        }
        let divisor = match hparams.architecture.choices.attention_scale {
            AttentionScale::WidthAt { n_layers } if n_layers == hparams.n_layers() => {
                let n_head = hparams.layers.first().map_or(1, |layer| layer.n_head);
                hparams.n_embd / n_head.max(1)
            }
            _ => hparams.key_length,
        };
        let key = fact::QUERY_SCALE.key;
        if class.facts.iter().any(|fact| fact.key == key) {
            values.insert(key.into(), divisor.into());
        }
    }

    fn rotation(&self, class: &Class, values: &mut Map<String, Value>) {
        let hparams = self.hparams;
        if let Some(base) = self.float("rope.freq_base").and_then(number) {
            values.insert("rope_theta".into(), base);
        }
        if let Some(base) = self.float("rope.freq_base_swa").and_then(number) {
            values.insert("rope_local_base_freq".into(), base);
        }
        if hparams.n_rot != hparams.key_length && hparams.rotates {
            let share = hparams.n_rot as f64 / hparams.key_length as f64;
            values.insert("partial_rotary_factor".into(), share.into());
        }
        let original = self.integer("rope.scaling.original_context_length");
        let lists = [
            ("long_factor", Slot::RopeFactorsLong),
            ("short_factor", Slot::RopeFactorsShort),
        ];
        let lists = lists.map(|(name, slot)| {
            let factors = (self.values)(slot.name())?;
            Some((
                name,
                factors
                    .into_iter()
                    .map(number)
                    .collect::<Option<Vec<Value>>>()?,
            ))
        });
        if let [Some(long), Some(short)] = lists {
            let mut scaling = Map::from_iter([("type".to_owned(), json!("longrope"))]);
            for (name, factors) in [long, short] {
                scaling.insert(name.to_owned(), factors.into());
            }
            values.insert("rope_scaling".into(), scaling.into());
            values.insert("original_max_position_embeddings".into(), json!(original));
            return;
        }
        let key = "original_max_position_embeddings";
        if let Some(original) = original.filter(|_| class.knows(key)) {
            values.insert(key.into(), original.into());
        }
        let kind = self.entry("rope.scaling.type").and_then(Entry::as_text);
        let scaling = match kind.and_then(|kind| kind.to_str()) {
            Some("linear") => {
                Some(json!({ "rope_type": "linear", "factor": self.scaling("factor") }))
            }
            Some("yarn") => Some(self.yarn(original)),
            _ => self.divisors(values),
        };
        if let Some(scaling) = scaling {
            values.insert("rope_scaling".into(), scaling);
        }
    }

    fn scaling(&self, suffix: &str) -> Option<Value> {
        self.float(&format!("rope.scaling.{suffix}"))
            .and_then(number)
    }

    fn yarn(&self, original: Option<u64>) -> Value {
        let mut yarn = Map::new();
        yarn.insert("rope_type".into(), json!("yarn"));
        for (name, suffix) in [
            ("factor", "factor"),
            ("extrapolation_factor", "yarn_ext_factor"),
            ("attention_factor", "yarn_attn_factor"),
            ("beta_fast", "yarn_beta_fast"),
            ("beta_slow", "yarn_beta_slow"),
        ] {
            if let Some(value) = self.scaling(suffix) {
                yarn.insert(name.into(), value);
            }
        }
        if let Some(original) = original {
            yarn.insert("original_max_position_embeddings".into(), original.into());
        }
        yarn.into()
    }

    /// The numbers that the divisors of Llama 3 were computed from, where they are the published ones with some factor and
    /// some original context.
    fn divisors(&self, values: &Map<String, Value>) -> Option<Value> {
        let stated = (self.values)(Slot::RopeFreqs.name())?;
        let factor = stated.iter().copied().fold(1.0, f32::max);
        let contexts = (6..=20).map(|power| 1u64 << power);
        // The usual one first.
        let contexts = std::iter::once(8192).chain(contexts);
        let candidates = contexts.map(|context| {
            json!({
                "rope_type": "llama3",
                "factor": number(factor),
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": context,
            })
        });
        let gives_back = |candidate: &Value| {
            let mut values = values.clone();
            values.insert("rope_scaling".into(), candidate.clone());
            let config = Config::from_value(values.into()).ok();
            config.is_some_and(|config| {
                self.computed(&config, Slot::RopeFreqs).as_ref() == Some(&stated)
            })
        };
        candidates.into_iter().find(gives_back)
    }

    /// A tensor that conversion computes.
    fn computed(&self, config: &Config, slot: Slot) -> Option<Vec<f32>> {
        let specs = tensor_specs(self.hparams).into_iter();
        let mut computed =
            specs
                .filter(|spec| spec.slot == slot)
                .filter_map(|spec| match spec.source {
                    SpecSource::Computed(compute) => Some(compute),
                    _ => None,
                });
        computed.next()?(config, self.hparams).ok().flatten()
    }

    fn windows(&self, class: &Class, values: &mut Map<String, Value>) {
        let hparams = self.hparams;
        let window = self.integer("attention.sliding_window");
        if let Some(window) = window {
            let window = Some(window).filter(|&window| window > 0);
            values.insert("sliding_window".into(), json!(window));
        }
        let is_fact = |key: &str| class.facts.iter().any(|fact| fact.key == key);
        if window.is_none() && is_fact("sliding_window") {
            // The class may have one where nothing is said.
            values.insert("sliding_window".into(), Value::Null);
        }
        let knows_windows = window.is_some() || class.knows("sliding_window");
        if hparams.architecture.choices.window.is_some() && knows_windows {
            let kinds = hparams.layers.iter().map(|layer| match layer.windowed {
                true => "sliding_attention",
                false => "full_attention",
            });
            values.insert("layer_types".into(), kinds.collect());
        }
    }

    /// What conversion makes of a configuration.
    fn converted(&self, values: &Map<String, Value>) -> Result<(Config, Metadata), ModelError> {
        let mut config = Config::from_value(values.clone().into())?;
        // It stands in files of its own; that of a classifier comes with its class.
        let pooling = self.hparams.pooling;
        config.pooling =
            pooling.filter(|pooling| !matches!(pooling, Pooling::None | Pooling::Rank));
        let mut metadata = Metadata::new();
        config.write_metadata(0, &mut metadata)?;
        Ok((config, metadata))
    }

    /// What converting this configuration would give otherwise.
    fn lost(&self, values: &Map<String, Value>) -> Vec<String> {
        let (config, again) = match self.converted(values) {
            Ok(converted) => converted,
            Err(error) => return vec![error.to_string()],
        };
        let prefix = format!("{}.", self.hparams.architecture.name);
        let mut lost = Vec::new();
        for (key, value) in self
            .metadata
            .iter()
            .filter(|(key, _)| key.starts_with(&prefix))
        {
            match again.get(key) {
                Some(found) if found == value => {}
                Some(_) => lost.push(format!("{key} comes back with another value")),
                None => lost.push(format!("{key} does not come back")),
            }
        }
        for (key, _) in again.iter().filter(|(key, _)| key.starts_with(&prefix)) {
            if !self.metadata.contains(key) {
                lost.push(format!("{key} {ADDED}"));
            }
        }
        for spec in tensor_specs(self.hparams) {
            let SpecSource::Computed(_) = spec.source else {
                continue;
            };
            if self.computed(&config, spec.slot) != (self.values)(&spec.name) {
                lost.push(format!("tensor {} does not come back as it is", spec.name));
            }
        }
        lost
    }
}

/// Whether models of a class have experts.
fn routes(class: &Class) -> bool {
    class.knows("num_experts_per_tok")
}

/// The name by which a class states an entry: one that it has a default for, else the first.
fn stated_name(class: &Class, from: &[&'static str]) -> &'static str {
    let own = from.iter().find(|name| class.knows(name));
    own.or(from.first()).copied().unwrap_or_default()
}

/// The name of a class's configuration: its own in small letters, words apart; of a part of a larger model, with `_text`.
fn model_type(class: &str, has_other_parts: bool) -> String {
    let end = ["For", "LMHead", "Model"]
        .iter()
        .filter_map(|end| class.find(end))
        .min();
    let name = &class[..end.unwrap_or(class.len())];
    let mut out = String::new();
    let mut before = 'A';
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !before.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
        before = letter;
    }
    match has_other_parts {
        true => out + "_text",
        false => out,
    }
}

/// A number with the fewest digits that give it back.
fn number(value: f32) -> Option<Value> {
    let shortest: f64 = value.to_string().parse().ok()?;
    serde_json::Number::from_f64(shortest).map(Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names in `transformers` 4.57.
    #[test]
    fn configurations_have_the_names_of_their_classes() {
        for (class, name) in [
            ("LlamaForCausalLM", "llama"),
            ("GPT2LMHeadModel", "gpt2"),
            ("Qwen3MoeForCausalLM", "qwen3_moe"),
            ("Starcoder2ForCausalLM", "starcoder2"),
            ("BertModel", "bert"),
        ] {
            assert_eq!(model_type(class, false), name);
        }
        assert_eq!(model_type("Gemma3ForCausalLM", true), "gemma3_text");
    }

    #[test]
    fn numbers_come_back() {
        for value in [1e-5f32, 0.1, 10000.0, 3.7, f32::MIN_POSITIVE] {
            let again = number(value).and_then(|value| value.as_f64()).unwrap();
            assert_eq!(again as f32, value);
        }
        assert_eq!(number(1e-6).unwrap().to_string(), "1e-6");
        assert_eq!(number(f32::NAN), None);
    }
}
