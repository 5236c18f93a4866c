//! JSON Schemas, driven through the engine: the JSON-Schema-Test-Suite, where `GRISTMILL_JSON_SCHEMA_SUITE` names the folder
//! `tests` of it, and random ones. Ignored unless asked for, as downloaded models are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gristmill_engine::constraint::{Constraint, ConstraintCompiler, ConstraintSource};
use gristmill_engine::sampling::{LogitBias, Rng, SamplingOptions, parameter};
use gristmill_engine::{
    GenerateOptions, Limit, Listener, LoadOptions, Model, Session, StopReason, raw_prompt,
};
use gristmill_gguf::File;
use gristmill_tokenizer::EncodeOptions;
use serde_json::{Value, json};

use crate::fixtures::small_model;
use crate::harness::Workplace;

/// An answer may have so many tokens.
const TOKENS_MAX: usize = 400;

/// A model of random weights, with the vocabulary of the small one, and a compiler for it.
struct Machine {
    model: Arc<Model>,
    compiler: ConstraintCompiler,
    bias: Vec<LogitBias>,
    _place: Workplace,
}

/// Writes random numbers over the weights of a file in BF16, and over its norms in F32.
fn random_weights(from: &Path, to: &Path) {
    let mut bytes = std::fs::read(from).expect("the model can be read");
    let file = File::open(from).expect("the model can be opened");
    let mut rng = Rng::new(5);
    for tensor in file.tensors() {
        let start = (file.data_offset() + tensor.offset) as usize;
        let width = (tensor.bytes / tensor.n_elements()) as usize;
        for number in bytes[start..start + tensor.bytes as usize].chunks_exact_mut(width) {
            let random = ((rng.next_unit() - 0.5) as f32).to_le_bytes();
            number.copy_from_slice(&random[4 - width..]);
        }
    }
    std::fs::write(to, bytes).expect("the copy can be written");
}

impl Machine {
    /// By the draft, objects may have properties that the schema does not name.
    fn new(by_draft: bool) -> Self {
        let place = Workplace::new();
        random_weights(&small_model(), &place.path("random.gguf"));
        let file = gristmill_gguf::Model::open(&place.path("random.gguf")).expect("it is a model");
        let model = Model::load(file, &LoadOptions::default()).expect("it can be loaded");
        let tokenizer = model.tokenizer();
        let mut compiler = ConstraintCompiler::new(tokenizer).expect("the vocabulary is small");
        compiler.allow_unnamed_properties(by_draft);
        // Strings and lists that random draws would hardly ever end.
        let ends = (0..tokenizer.n_tokens() as u32)
            .filter(|&id| matches!(tokenizer.piece(id, false), b"\"" | b"}" | b"]"));
        let bias = ends.map(|id| LogitBias::of_token(id, 6.0)).collect();
        Machine {
            model,
            compiler,
            bias,
            _place: place,
        }
    }

    fn compile(&self, schema: &Value) -> Result<Constraint, String> {
        let source = ConstraintSource::JsonSchema(schema.to_string());
        let compiled = self.compiler.compile(&source);
        compiled.map_err(|error| error.to_string())
    }

    /// Whether one of the orders of its keys makes a value a text of the constraint.
    fn accepts(&self, constraint: &Constraint, value: &Value) -> bool {
        orders(value).iter().any(|value| {
            let text = value.to_string();
            let ids = self
                .model
                .tokenizer()
                .encode(text, EncodeOptions::default());
            constraint.is_text(&ids).unwrap_or(false)
        })
    }

    /// What the model says under a constraint, unless it is cut off; and the time of each token.
    fn answer(&self, constraint: &Constraint, seed: u32) -> (Option<String>, Duration, usize) {
        let options = LoadOptions {
            n_ctx: Some(TOKENS_MAX + 8),
            ..LoadOptions::default()
        };
        let mut session =
            Session::new(self.model.clone(), &options).expect("a session can be made");
        let prompt = raw_prompt(self.model.tokenizer(), b"A");
        let mut sampling = SamplingOptions {
            seed,
            logit_bias: self.bias.clone(),
            ..SamplingOptions::default()
        };
        for (name, number) in [
            ("temp", 1.0),
            ("top_k", 0.0),
            ("top_p", 1.0),
            ("min_p", 0.0),
        ] {
            let parameter = parameter(name).expect("it is one");
            sampling.values.set(parameter, number).expect("it takes it");
        }
        let generate = GenerateOptions {
            limit: Limit::Tokens(TOKENS_MAX),
            sampling,
            constraint: Some(constraint.clone()),
            ..GenerateOptions::default()
        };
        let mut listener = Listener {
            on_text: &mut |_| {},
            on_step: &mut |_| {},
            on_prompt: &mut |_, _| {},
            interrupted: &|| false,
        };
        let start = Instant::now();
        let answer = session.generate(&prompt, &generate, &mut listener);
        let answer = answer.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let time = start
            .elapsed()
            .saturating_sub(answer.timings.prompt + answer.timings.decode);
        let is_cut = matches!(answer.reason, StopReason::Limit | StopReason::ContextFull);
        ((!is_cut).then_some(answer.text), time, answer.ids.len())
    }
}

/// A value with its keys in all orders, where there are few.
fn orders(value: &Value) -> Vec<Value> {
    let Value::Object(entries) = value else {
        return vec![value.clone()];
    };
    let mut orders: Vec<Vec<&String>> = vec![Vec::new()];
    for key in entries.keys() {
        let longer = orders.iter().flat_map(|order| {
            (0..=order.len()).map(move |place| {
                let mut order = order.clone();
                order.insert(place, key);
                order
            })
        });
        orders = longer.take(720).collect();
    }
    let values = orders.into_iter().map(|order| {
        let entries = order
            .into_iter()
            .map(|key| (key.clone(), entries[key].clone()));
        Value::Object(entries.collect())
    });
    values.collect()
}

/// What is told of the answers to a set of schemas.
#[derive(Default)]
struct Answers {
    n: usize,
    n_cut: usize,
    /// Numbers such as 1E999.
    n_too_large: usize,
    n_tokens: usize,
    time: Duration,
    invalid: Vec<String>,
}

impl Answers {
    fn add(&mut self, machine: &Machine, constraint: &Constraint, schema: &Value, seed: u32) {
        let (answer, time, n_tokens) = machine.answer(constraint, seed);
        self.n += 1;
        self.time += time;
        self.n_tokens += n_tokens;
        let Some(answer) = answer else {
            self.n_cut += 1;
            return;
        };
        let value: Value = match serde_json::from_str(&answer) {
            Ok(value) => value,
            // Good JSON, that this reader has no number for.
            Err(error) if error.to_string().starts_with("number out of range") => {
                self.n_too_large += 1;
                return;
            }
            Err(_) => return self.invalid.push(format!("{schema}\n    {answer}")),
        };
        // A schema that the validator itself refuses says nothing about the answer.
        let Ok(validator) = jsonschema::validator_for(schema) else {
            return;
        };
        if !validator.is_valid(&value) {
            self.invalid.push(format!("{schema}\n    {answer}"));
        }
    }

    fn tell(&self) {
        println!(
            "{} answers, {} of them cut off, {} with too large numbers, {} invalid, {} tokens, {:.0} us each for mask and draw",
            self.n,
            self.n_cut,
            self.n_too_large,
            self.invalid.len(),
            self.n_tokens,
            self.time.as_secs_f64() * 1e6 / self.n_tokens.max(1) as f64
        );
        self.invalid
            .iter()
            .for_each(|invalid| println!("invalid: {invalid}"));
    }
}

fn suite() -> Vec<(String, Value)> {
    let folder = std::env::var_os("GRISTMILL_JSON_SCHEMA_SUITE")
        .expect("GRISTMILL_JSON_SCHEMA_SUITE names the folder `tests` of the suite");
    let folder = PathBuf::from(folder).join("draft2020-12");
    let files = std::fs::read_dir(folder).expect("the suite can be read");
    let paths = files.map(|file| file.expect("the suite can be read").path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.is_file()).collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).expect("the suite can be read");
        let name = path.file_stem().expect("it has a name").to_string_lossy();
        (
            name.into_owned(),
            serde_json::from_str(&text).expect("it is JSON"),
        )
    };
    paths.iter().map(read).collect()
}

/// Why a valid instance is not accepted, where that is meant so.
fn known_difference(file: &str, test: &Value) -> Option<&'static str> {
    let is_valid = test["valid"] == true;
    let has_float = test["data"].to_string().contains(".0");
    match file {
        "format" if is_valid => Some("a format is asserted, where the suite takes it for a remark"),
        "const" | "enum" | "type" if is_valid && has_float => {
            Some("a whole number is written without a fraction, where the suite takes 1.0 for 1")
        }
        _ => None,
    }
}

#[test]
#[ignore = "needs the suite that .ci/run downloads"]
fn real_suite_of_schemas_is_kept_or_refused_by_name() {
    let machine = Machine::new(true);
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    let (mut n_kept, mut n_right, mut wrong) = (0, 0, Vec::new());
    let mut explained: BTreeMap<&str, usize> = BTreeMap::new();
    let mut answers = Answers::default();
    for (name, groups) in suite() {
        for group in groups.as_array().expect("it is a list") {
            let schema = &group["schema"];
            let constraint = match machine.compile(schema) {
                Ok(constraint) => constraint,
                Err(error) => {
                    *refused.entry(error).or_default() += 1;
                    continue;
                }
            };
            n_kept += 1;
            for test in group["tests"].as_array().expect("it is a list") {
                let accepted = machine.accepts(&constraint, &test["data"]);
                if test["valid"] == accepted {
                    n_right += 1;
                } else if let Some(reason) = known_difference(&name, test) {
                    *explained.entry(reason).or_default() += 1;
                } else {
                    wrong.push(format!(
                        "{name} | {} | {} | {} | {schema} | {}",
                        group["description"], test["description"], test["valid"], test["data"]
                    ));
                }
            }
            for seed in 0..3 {
                answers.add(&machine, &constraint, schema, seed);
            }
        }
    }
    for (error, n) in &refused {
        println!("refused {n}: {error}");
    }
    for (reason, n) in &explained {
        println!("{n} valid instances not accepted: {reason}");
    }
    wrong.iter().for_each(|wrong| println!("wrong: {wrong}"));
    println!(
        "{n_kept} schemas kept, {n_right} instances right, {} wrong",
        wrong.len()
    );
    answers.tell();
    assert!(answers.n_cut * 20 <= answers.n, "too many are cut off");
    assert_eq!(answers.invalid.len(), 0);
    assert_eq!(wrong.len(), 0);
}

/// A random schema; some have keywords that are not supported, and some have no text.
fn random_schema(rng: &mut Rng, depth: usize) -> Value {
    let mut below = |n: u64| rng.next_u64() % n;
    let n = below(20);
    let kind = if depth == 0 { below(7) } else { below(16) };
    let mut schema = match kind {
        0 => json!({"type": "string", "maxLength": n}),
        1 => json!({"type": "integer", "minimum": -(n as i64), "maximum": 100}),
        2 => json!({"type": "number", "exclusiveMinimum": 0, "maximum": n + 1}),
        3 => json!({"enum": ["é", n, null, {"a": [n]}]}),
        4 => json!({"const": format!("c\"{n}")}),
        5 => json!({"type": ["boolean", "null"]}),
        6 => json!({"type": "string", "pattern": format!("^[a-c]{{1,{}}}x?$", n + 1)}),
        7 | 8 => {
            json!({"type": "array", "items": random_schema(rng, depth - 1), "maxItems": n % 5})
        }
        9 => {
            json!({"prefixItems": [random_schema(rng, depth - 1), random_schema(rng, depth - 1)], "items": false, "type": "array"})
        }
        10 => json!({"anyOf": [random_schema(rng, depth - 1), random_schema(rng, depth - 1)]}),
        11 => json!({"allOf": [random_schema(rng, depth - 1), random_schema(rng, depth - 1)]}),
        12 => json!({"oneOf": [random_schema(rng, depth - 1), random_schema(rng, depth - 1)]}),
        13 => json!({"$ref": "#/$defs/d", "$defs": {"d": random_schema(rng, depth - 1)}}),
        _ => {
            let a = random_schema(rng, depth - 1);
            let b = random_schema(rng, depth - 1);
            json!({
                "type": "object", "properties": {"a": a, "b b": b}, "required": ["a"],
                "additionalProperties": n % 2 == 0,
            })
        }
    };
    let odd: [(&str, Value); 8] = [
        ("not", json!({"type": "null"})),
        ("uniqueItems", json!(true)),
        ("minItems", json!(3)),
        ("multipleOf", json!(0.5)),
        ("format", json!("date")),
        ("maxProperties", json!(1)),
        ("minLength", json!(4)),
        ("frobnicate", json!(1)),
    ];
    let chance = rng.next_u64() % 60;
    if let Some((key, value)) = odd.get(chance as usize) {
        schema[*key] = value.clone();
    }
    schema
}

#[test]
#[ignore = "takes minutes"]
fn real_random_schemas_are_kept_or_refused() {
    let machine = Machine::new(false);
    let mut rng = Rng::new(20);
    let mut answers = Answers::default();
    let (mut n_refused, mut compile_max) = (0, Duration::ZERO);
    for seed in 0..2000 {
        let schema = random_schema(&mut rng, 3);
        let start = Instant::now();
        let compiled = machine.compile(&schema);
        compile_max = compile_max.max(start.elapsed());
        match compiled {
            Ok(constraint) => answers.add(&machine, &constraint, &schema, seed),
            Err(error) => {
                n_refused += 1;
                assert!(!error.contains("cannot read it"), "{schema}: {error}");
            }
        }
    }
    println!("2000 random schemas, {n_refused} refused, compiled in at most {compile_max:?}");
    answers.tell();
    assert!(answers.n_cut * 20 <= answers.n, "too many are cut off");
    assert_eq!(answers.invalid.len(), 0);
}
