//! A small sound model, to plant faults in, and the bytes of whatever became of it.

use std::path::Path;

use gristmill_gguf::{Array, Metadata, Value};
use gristmill_measure::check::{Options, Report, check};
use gristmill_model::{architecture, random_model};

/// A file, not necessarily a sound one.
#[derive(Clone)]
pub struct Model {
    pub version: u32,
    pub entries: Vec<(Vec<u8>, Value)>,
    pub tensors: Vec<Tensor>,
    pub alignment: usize,
    /// Bytes between directory and data, where they are not zero.
    pub padding: u8,
    /// Behind the data.
    pub tail: Vec<u8>,
}

#[derive(Clone)]
pub struct Tensor {
    pub name: String,
    pub dims: Vec<u64>,
    pub ty: u32,
    pub data: Vec<u8>,
    /// In place of the one that follows from the tensors before.
    pub offset: Option<u64>,
}

pub const TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// The characters that stand for the 256 bytes, in the order of GPT-2's vocabulary.
fn byte_characters() -> Vec<char> {
    let printable = (0x21..=0x7e).chain(0xa1..=0xac).chain(0xae..=0xff);
    let printable: Vec<u32> = printable.collect();
    let others = (0u32..256).filter(|byte| !printable.contains(byte)).count() as u32;
    let all = printable.iter().copied().chain(0x100..0x100 + others);
    all.filter_map(char::from_u32).collect()
}

/// A vocabulary of byte-level BPE: all bytes, one merge, three control tokens.
fn vocabulary(metadata: &mut Metadata) -> usize {
    let mut tokens: Vec<String> = byte_characters().into_iter().map(String::from).collect();
    tokens.extend(["ab", "<|endoftext|>", "<|im_start|>", "<|im_end|>"].map(str::to_owned));
    let n_tokens = tokens.len();
    let types: Vec<i32> = (0..n_tokens)
        .map(|id| if id < n_tokens - 3 { 1 } else { 3 })
        .collect();
    metadata.set("tokenizer.ggml.model", "gpt2");
    metadata.set("tokenizer.ggml.pre", "gpt-2");
    metadata.set("tokenizer.ggml.tokens", tokens);
    metadata.set("tokenizer.ggml.token_type", types);
    metadata.set("tokenizer.ggml.merges", vec!["a b".to_owned()]);
    metadata.set("tokenizer.ggml.bos_token_id", 257u32);
    metadata.set("tokenizer.ggml.eos_token_id", 259u32);
    metadata.set("tokenizer.chat_template", TEMPLATE);
    n_tokens
}

/// A sound model of the architecture that most are of, in F32.
pub fn sound() -> Model {
    sound_of("llama")
}

/// A sound model of an architecture, in F32.
pub fn sound_of(name: &str) -> Model {
    let random = random_model(architecture(name).unwrap(), 1).unwrap();
    let mut metadata = random.metadata;
    metadata.set("general.file_type", 0u32);
    let n_tokens = vocabulary(&mut metadata) as u64;
    metadata.set(format!("{name}.vocab_size"), n_tokens as u32);
    let tensors = random.tensors.into_iter().map(|mut tensor| {
        if matches!(tensor.name.as_str(), "token_embd.weight" | "output.weight") {
            tensor.dims[1] = n_tokens;
        }
        let n_values = tensor.dims.iter().product::<u64>() as usize;
        let values = tensor.values.iter().cycle().take(n_values);
        Tensor {
            name: tensor.name,
            dims: tensor.dims,
            ty: 0,
            data: values.flat_map(|value| value.to_le_bytes()).collect(),
            offset: None,
        }
    });
    Model {
        version: 3,
        tensors: tensors.collect(),
        entries: metadata
            .iter()
            .map(|(key, value)| (key.as_bytes().to_vec(), value.clone()))
            .collect(),
        alignment: 32,
        padding: 0,
        tail: Vec::new(),
    }
}

impl Model {
    /// The same model without weights.
    pub fn vocabulary_only(mut self) -> Model {
        self.tensors.clear();
        self
    }

    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Model {
        let value = value.into();
        match self
            .entries
            .iter_mut()
            .find(|(known, _)| known == key.as_bytes())
        {
            Some((_, old)) => *old = value,
            None => self.entries.push((key.as_bytes().to_vec(), value)),
        }
        self
    }

    pub fn without(mut self, key: &str) -> Model {
        let n = self.entries.len();
        self.entries.retain(|(known, _)| known != key.as_bytes());
        assert_eq!(self.entries.len() + 1, n, "{key} was there");
        self
    }

    pub fn get(&self, key: &str) -> &Value {
        let mut entries = self.entries.iter();
        &entries
            .find(|(known, _)| known == key.as_bytes())
            .expect("the key is there")
            .1
    }

    pub fn tensor(&mut self, name: &str) -> &mut Tensor {
        let mut tensors = self.tensors.iter_mut();
        tensors
            .find(|tensor| tensor.name == name)
            .expect("the tensor is there")
    }

    /// The same model with a change to one tensor.
    pub fn with(mut self, name: &str, change: impl FnOnce(&mut Tensor)) -> Model {
        change(self.tensor(name));
        self
    }

    pub fn without_tensors(mut self, gone: impl Fn(&str) -> bool) -> Model {
        self.tensors.retain(|tensor| !gone(&tensor.name));
        self
    }

    pub fn and_tensor(mut self, name: &str, dims: &[u64], ty: u32, data: Vec<u8>) -> Model {
        self.tensors.push(Tensor {
            name: name.to_owned(),
            dims: dims.to_vec(),
            ty,
            data,
            offset: None,
        });
        self
    }

    /// Everything up to the end of the directory.
    pub fn head(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.entries.len() as u64).to_le_bytes());
        for (key, value) in &self.entries {
            string(key, &mut out);
            out.extend(value.value_type().id().to_le_bytes());
            encode(value, &mut out);
        }
        let mut next = 0;
        for tensor in &self.tensors {
            string(tensor.name.as_bytes(), &mut out);
            out.extend((tensor.dims.len() as u32).to_le_bytes());
            tensor
                .dims
                .iter()
                .for_each(|dim| out.extend(dim.to_le_bytes()));
            out.extend(tensor.ty.to_le_bytes());
            let offset = tensor.offset.unwrap_or(next);
            out.extend(offset.to_le_bytes());
            next = (offset + tensor.data.len() as u64).next_multiple_of(self.alignment as u64);
        }
        out
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.head();
        if self.tensors.is_empty() {
            out.extend(&self.tail);
            return out;
        }
        out.resize(out.len().next_multiple_of(self.alignment), self.padding);
        let start = out.len();
        for tensor in &self.tensors {
            if let Some(offset) = tensor.offset {
                out.resize(out.len().max(start + offset as usize), 0);
            }
            out.extend(&tensor.data);
            let n_bytes = (out.len() - start).next_multiple_of(self.alignment);
            out.resize(start + n_bytes, 0);
        }
        out.extend(&self.tail);
        out
    }
}

fn string(text: &[u8], out: &mut Vec<u8>) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text);
}

/// A value without its type.
fn encode(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::U8(value) => out.push(*value),
        Value::I8(value) => out.extend(value.to_le_bytes()),
        Value::U16(value) => out.extend(value.to_le_bytes()),
        Value::I16(value) => out.extend(value.to_le_bytes()),
        Value::U32(value) => out.extend(value.to_le_bytes()),
        Value::I32(value) => out.extend(value.to_le_bytes()),
        Value::U64(value) => out.extend(value.to_le_bytes()),
        Value::I64(value) => out.extend(value.to_le_bytes()),
        Value::F32(value) => out.extend(value.to_le_bytes()),
        Value::F64(value) => out.extend(value.to_le_bytes()),
        Value::Bool(value) => out.push(u8::from(*value)),
        Value::String(text) => string(text.as_bytes(), out),
        Value::Array(array) => elements(array, out),
    }
}

fn elements(array: &Array, out: &mut Vec<u8>) {
    out.extend(array.element_type().id().to_le_bytes());
    out.extend((array.len() as u64).to_le_bytes());
    array.iter().for_each(|item| encode(&item, out));
}

/// Checks a file, tensor data and all, without a list of hashes.
pub fn report(path: &Path) -> Report {
    let options = Options {
        quick: false,
        checksums: None,
        n_threads: 2,
        progress: &|_| (),
    };
    check(path, &options).expect("nothing was given beside the model")
}

/// The codes of what was found, in order, each once.
pub fn codes(report: &Report) -> Vec<&'static str> {
    let mut codes: Vec<&str> = report.findings.iter().map(|finding| finding.code).collect();
    codes.dedup();
    codes
}
