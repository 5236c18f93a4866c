//! Files that are not the model somebody wanted, each small and made on the spot.

use std::path::{Path, PathBuf};

use gristmill_gguf::{File, Metadata, TensorPlan, Value, WriteOptions, Writer};

use crate::harness::Workplace;

/// Files that no command can take for a GGUF model, by name.
pub fn wrong_kinds() -> Vec<(&'static str, Vec<u8>)> {
    let mut newer = b"GGUF".to_vec();
    newer.extend(4u32.to_le_bytes());
    newer.extend([0; 16]);
    let safetensors = br#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let mut renamed = (safetensors.len() as u64).to_le_bytes().to_vec();
    renamed.extend(safetensors);
    renamed.extend([0; 4]);
    vec![
        ("empty.gguf", Vec::new()),
        (
            "ggjt.gguf",
            [b"tjgg".as_slice(), &[3, 0, 0, 0], &[0; 64]].concat(),
        ),
        ("ggml.gguf", [b"lmgg".as_slice(), &[0; 64]].concat()),
        ("gzip.gguf", [&[0x1f, 0x8b, 8, 0][..], &[0; 64]].concat()),
        ("newer.gguf", newer),
        (
            "page.gguf",
            b"<!DOCTYPE html>\n<html><title>Sign in</title></html>".to_vec(),
        ),
        (
            "pointer.gguf",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4920733920\n"
                .to_vec(),
        ),
        ("safetensors.gguf", renamed),
        ("zip.gguf", [b"PK\x03\x04".as_slice(), &[0; 64]].concat()),
    ]
}

/// Good GGUF files of another kind, by name: an adapter, a control vector, an importance matrix, a projector, a vocabulary.
pub fn other_kinds(place: &Workplace) -> Vec<PathBuf> {
    let weight = ("blk.0.attn_q.weight", [4u64, 4], vec![0u8; 64]);
    let cases: [(&str, &[(&str, &str)], bool); 5] = [
        (
            "adapter.gguf",
            &[
                ("general.type", "adapter"),
                ("general.architecture", "llama"),
            ],
            true,
        ),
        (
            "control.gguf",
            &[("general.architecture", "controlvector")],
            true,
        ),
        ("imatrix.gguf", &[("general.type", "imatrix")], true),
        (
            "mmproj.gguf",
            &[("general.type", "mmproj"), ("general.architecture", "clip")],
            true,
        ),
        (
            "vocabulary.gguf",
            &[("general.type", "model"), ("general.architecture", "llama")],
            false,
        ),
    ];
    let write = |(name, entries, with_tensor): (&str, &[(&str, &str)], bool)| {
        let mut metadata = Metadata::new();
        for (key, value) in entries {
            metadata.set(*key, Value::String((*value).into()));
        }
        let tensors = if with_tensor {
            vec![(weight.0, weight.1.to_vec(), weight.2.clone())]
        } else {
            Vec::new()
        };
        write_f32(&place.path(name), &metadata, &tensors)
    };
    cases.into_iter().map(write).collect()
}

fn write_f32(path: &Path, metadata: &Metadata, tensors: &[(&str, Vec<u64>, Vec<u8>)]) -> PathBuf {
    let plan = |(name, dims, _): &(&str, Vec<u64>, Vec<u8>)| TensorPlan {
        name: (*name).into(),
        dims: dims.clone(),
        ty: gristmill_quant::F32,
    };
    let plans: Vec<TensorPlan> = tensors.iter().map(plan).collect();
    let mut writer = Writer::create(path, metadata, &plans, &WriteOptions::default())
        .expect("the file can be begun");
    for (name, _, data) in tensors {
        writer
            .write_tensor(name, data)
            .expect("the tensor can be written");
    }
    writer.finish().expect("the file can be finished");
    path.to_owned()
}

/// What to do to a model file on its way to a copy.
#[derive(Default)]
pub struct Change {
    /// A tensor to leave out.
    pub without: Option<&'static str>,
    /// A tensor that loses the last of its rows.
    pub cut: Option<&'static str>,
    /// Metadata to set.
    pub set: Option<(&'static str, &'static str)>,
}

/// Copies a model file with a change.
pub fn changed(model: &Path, copy: &Path, change: &Change) {
    let file = File::open(model).expect("the model is valid");
    let mut metadata = file.metadata().clone();
    if let Some((key, value)) = change.set {
        metadata.set(key, Value::String(value.into()));
    }
    let kept: Vec<_> = file
        .tensors()
        .iter()
        .filter(|info| change.without != Some(info.name.as_str()))
        .collect();
    let plan = |info: &&gristmill_gguf::TensorInfo| {
        let mut dims = info.dims.clone();
        if change.cut == Some(info.name.as_str()) {
            *dims.last_mut().expect("a tensor has dimensions") -= 1;
        }
        TensorPlan {
            name: info.name.clone(),
            dims,
            ty: info.ty,
        }
    };
    let plans: Vec<TensorPlan> = kept.iter().map(plan).collect();
    let mut writer = Writer::create(copy, &metadata, &plans, &WriteOptions::default())
        .expect("the file can be begun");
    for (info, plan) in kept.iter().zip(&plans) {
        let n_rows: u64 = plan.dims[1..].iter().product();
        let bytes = plan
            .ty
            .row_bytes(plan.dims[0])
            .expect("a row has whole blocks")
            * n_rows;
        writer
            .write_tensor(&plan.name, &file.data(info)[..bytes as usize])
            .expect("the tensor can be written");
    }
    writer.finish().expect("the file can be finished");
}
