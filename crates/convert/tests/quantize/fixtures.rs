//! Small models, and how they are quantized.

use std::path::{Path, PathBuf};

use gristmill_convert::ConvertError;
use gristmill_convert::quantize::{Importance, QuantizeOptions, QuantizeReport, quantize};
use gristmill_convert::recipe::Recipe;
use gristmill_gguf::{Imatrix, ImatrixEntry, Metadata, TensorPlan, Value, WriteOptions, Writer};
use gristmill_quant::{F32, TensorType};
use sha2::{Digest, Sha256};

pub fn recipe(name: &str) -> &'static Recipe {
    Recipe::from_name(name).expect("it is registered")
}

/// What the models here lack on purpose is told of each time, and left out of the warnings.
pub fn run(options: &QuantizeOptions) -> Result<QuantizeReport, ConvertError> {
    let mut report = quantize(options, &mut |_| ())?;
    let is_of_model = |warning: &String| warning.starts_with("the output will not load: ");
    report.warnings.retain(|warning| !is_of_model(warning));
    Ok(report)
}

pub fn sha256(data: &[u8]) -> String {
    Sha256::digest(data)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// What a llama's metadata must have.
pub fn describe(metadata: &mut Metadata) {
    metadata.set("general.architecture", "llama");
    for (key, value) in [
        ("vocab_size", 40u32),
        ("context_length", 64),
        ("embedding_length", 256),
        ("feed_forward_length", 512),
        ("attention.head_count", 4),
    ] {
        metadata.set(format!("llama.{key}"), value);
    }
    metadata.set("llama.attention.layer_norm_rms_epsilon", 1e-5f32);
    metadata.set("llama.block_count", 1u32);
}

/// A small model: a token embedding, an attention matrix of awkward row length, a norm.
pub fn small_model(folder: &Path, ty: TensorType) -> PathBuf {
    let path = folder.join(format!("small-{ty}.gguf"));
    let mut metadata = Metadata::new();
    describe(&mut metadata);
    metadata.set("general.file_type", 0u32);
    metadata.set("split.no", Value::U16(0));
    metadata.set("split.count", Value::U16(1));
    metadata.set("split.tensors.count", Value::I32(3));
    let tensors = [
        ("token_embd.weight", vec![256, 40], ty),
        (
            "blk.0.attn_q.weight",
            vec![if ty.block_len() > 1 { 256 } else { 160 }, 300],
            ty,
        ),
        ("output_norm.weight", vec![256], F32),
    ];
    let plans = tensors.map(|(name, dims, ty)| TensorPlan {
        name: name.to_owned(),
        dims,
        ty,
    });
    let mut writer = Writer::create(&path, &metadata, &plans, &WriteOptions::default())
        .expect("the folder is writable");
    for plan in &plans {
        let n: u64 = plan.dims.iter().product();
        let values: Vec<f32> = (0..n)
            .map(|i| ((i * 7919 % 1009) as f32 - 504.0) / 300.0)
            .collect();
        let mut data = vec![0; plan.ty.row_bytes(n).expect("whole blocks") as usize];
        plan.ty
            .encode(&values, values.len(), None, &mut data)
            .expect("the buffers fit");
        writer
            .write_tensor(&plan.name, &data)
            .expect("it is its turn");
    }
    writer.finish().expect("the disk has room");
    path
}

/// A llama with one tensor, the query weights of its first layer in rows of 256.
pub fn write_query(path: &Path, values: &[f32]) {
    let mut metadata = Metadata::new();
    describe(&mut metadata);
    let plan = TensorPlan {
        name: QUERY.to_owned(),
        dims: vec![256, values.len() as u64 / 256],
        ty: F32,
    };
    let mut writer =
        Writer::create(path, &metadata, &[plan], &WriteOptions::default()).expect("it is writable");
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    writer.write(&bytes).expect("it fits");
    writer.finish().expect("the disk has room");
}

pub const QUERY: &str = "blk.0.attn_q.weight";

/// An importance matrix of weights for tensors.
pub fn importance(entries: &[(&str, Vec<f32>)]) -> Importance {
    let mut imatrix = Imatrix::default();
    for (name, weights) in entries {
        let entry = ImatrixEntry::new(weights.clone(), vec![1.0], None);
        imatrix.insert(*name, entry.expect("weights are finite"));
    }
    Importance::new("test.imatrix", imatrix)
}
