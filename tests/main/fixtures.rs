//! Files that are not the model somebody wanted, each small and made on the spot.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use gristmill_gguf::{File, Metadata, TensorPlan, Value, WriteOptions, Writer};
use gristmill_quant::{F32, TensorType};

use crate::harness::{Workplace, tiny};

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
pub fn other_kinds(place: &Workplace) -> Vec<&'static str> {
    let weight = ("blk.0.attn_q.weight", [4u64, 4], vec![0u8; 64]);
    type Entries = &'static [(&'static str, &'static str)];
    let cases: [(&str, Entries, bool); 5] = [
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
    for (name, entries, with_tensor) in cases {
        let mut metadata = Metadata::new();
        for (key, value) in entries {
            metadata.set(*key, Value::String((*value).into()));
        }
        let tensors = if with_tensor {
            vec![(weight.0, weight.1.to_vec(), weight.2.clone())]
        } else {
            Vec::new()
        };
        write_f32(&place.path(name), &metadata, &tensors);
    }
    cases.map(|(name, _, _)| name).to_vec()
}

fn write_f32(path: &Path, metadata: &Metadata, tensors: &[(&str, Vec<u64>, Vec<u8>)]) {
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
}

/// The embedded model as a BF16 file, converted once.
pub fn small_model() -> PathBuf {
    static MODEL: OnceLock<(Workplace, PathBuf)> = OnceLock::new();
    let (_, path) = MODEL.get_or_init(|| {
        let place = Workplace::new();
        let path = place.path("tiny.gguf");
        let (tiny, output) = (tiny(), path.to_string_lossy().to_string());
        let words = [
            "gristmill",
            "convert",
            &tiny.to_string_lossy(),
            "--outtype",
            "bf16",
            "--outfile",
            &output,
        ];
        let outcome = place.run_words(&words);
        assert!(outcome.starts_with("exit: 0"), "{outcome}");
        (place, path)
    });
    path.clone()
}

/// A place with the small model as `a.gguf`.
pub fn with_model() -> Workplace {
    let place = Workplace::new();
    std::fs::copy(small_model(), place.path("a.gguf")).expect("the model can be copied");
    place
}

/// A checkpoint folder and a BF16 file that take a while to convert and to quantize: the embedded model with more rows of
/// embeddings. Gives their paths.
pub fn large_model(place: &Workplace) -> (String, String) {
    let checkpoint = wide_checkpoint(place, 200_000);
    let model = place.path("large.gguf").to_string_lossy().to_string();
    let outcome = place.run_words(&[
        "gristmill",
        "convert",
        &checkpoint,
        "--outtype",
        "bf16",
        "--outfile",
        &model,
    ]);
    assert!(outcome.starts_with("exit: 0"), "{outcome}");
    (checkpoint, model)
}

/// The embedded model with `n_rows` rows of embeddings, as a checkpoint folder. Gives its path.
pub fn wide_checkpoint(place: &Workplace, n_rows: usize) -> String {
    let dir = place.path("large");
    std::fs::create_dir(&dir).expect("a folder can be made");
    for entry in std::fs::read_dir(tiny())
        .expect("the folder can be read")
        .flatten()
    {
        std::fs::copy(entry.path(), dir.join(entry.file_name())).expect("the file can be copied");
    }
    let config =
        std::fs::read_to_string(dir.join("config.json")).expect("the configuration can be read");
    let config = config.replace("\"vocab_size\": 1024", &format!("\"vocab_size\": {n_rows}"));
    std::fs::write(dir.join("config.json"), config).expect("the configuration can be written");
    widen(&dir.join("model.safetensors"), n_rows);
    dir.to_string_lossy().to_string()
}

/// The embedded model with its weights in F32, as a checkpoint folder.
pub fn tiny_in_f32(place: &Workplace) -> PathBuf {
    let dir = place.path("tiny-f32");
    std::fs::create_dir(&dir).expect("a folder can be made");
    for entry in std::fs::read_dir(tiny())
        .expect("the folder can be read")
        .flatten()
    {
        std::fs::copy(entry.path(), dir.join(entry.file_name())).expect("the file can be copied");
    }
    let path = dir.join("model.safetensors");
    let bytes = std::fs::read(&path).expect("the weights can be read");
    let tensors = safetensors::SafeTensors::deserialize(&bytes).expect("the weights are sound");
    // A bfloat16 is the upper half of a float32.
    let wide = |data: &[u8]| {
        data.chunks_exact(2)
            .flat_map(|half| [0, 0, half[0], half[1]])
            .collect::<Vec<u8>>()
    };
    let data: Vec<_> = tensors
        .tensors()
        .into_iter()
        .map(|(name, view)| (name, view.shape().to_vec(), wide(view.data())))
        .collect();
    let views = data.iter().map(|(name, shape, data)| {
        let view =
            safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.clone(), data);
        (name, view.expect("the shape fits"))
    });
    let written = safetensors::serialize(views, None).expect("the weights can be serialized");
    std::fs::write(&path, written).expect("the weights can be written");
    dir
}

/// Repeats the rows of the embeddings in a safetensors file until there are `n_rows`.
fn widen(path: &Path, n_rows: usize) {
    const EMBEDDINGS: &str = "model.embed_tokens.weight";
    let bytes = std::fs::read(path).expect("the weights can be read");
    let tensors = safetensors::SafeTensors::deserialize(&bytes).expect("the weights are sound");
    let embeddings = tensors.tensor(EMBEDDINGS).expect("there are embeddings");
    let row = embeddings.data().len() / embeddings.shape()[0];
    let data: Vec<u8> = embeddings
        .data()
        .iter()
        .copied()
        .cycle()
        .take(row * n_rows)
        .collect();
    let views = tensors.tensors().into_iter().map(|(name, view)| {
        let wide = name == EMBEDDINGS;
        let shape = if wide {
            vec![n_rows, view.shape()[1]]
        } else {
            view.shape().to_vec()
        };
        let data = if wide { data.as_slice() } else { view.data() };
        (
            name,
            safetensors::tensor::TensorView::new(view.dtype(), shape, data)
                .expect("the shape fits"),
        )
    });
    let written = safetensors::serialize(views, None).expect("the weights can be serialized");
    std::fs::write(path, written).expect("the weights can be written");
}

/// Changes the data of a tensor.
pub type EditData = fn(&mut [u8]);

/// What to do to a model file on its way to a copy.
#[derive(Default)]
pub struct Change {
    /// A tensor to leave out.
    pub without: Option<&'static str>,
    /// A tensor that loses the last of its rows.
    pub cut: Option<&'static str>,
    /// Metadata to leave out.
    pub unset: Vec<&'static str>,
    /// Metadata to set.
    pub set: Vec<(&'static str, Value)>,
    /// A tensor that becomes zeros of another type.
    pub retyped: Option<(&'static str, TensorType)>,
    /// A tensor whose data is changed.
    pub data: Option<(&'static str, EditData)>,
}

/// Copies a model file with a change.
pub fn changed(model: &Path, copy: &Path, change: &Change) {
    let file = File::open(model).expect("the model is valid");
    let mut metadata = file.metadata().clone();
    for key in &change.unset {
        metadata.remove(key);
    }
    for (key, value) in &change.set {
        metadata.set(*key, value.clone());
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
            ty: match change.retyped {
                Some((name, ty)) if name == info.name => ty,
                _ => info.ty,
            },
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
        let mut data = match plan.ty == info.ty {
            true => file.data(info)[..bytes as usize].to_vec(),
            false => vec![0; bytes as usize],
        };
        if let Some((name, edit)) = change.data
            && name == plan.name
        {
            edit(&mut data);
        }
        writer
            .write_tensor(&plan.name, &data)
            .expect("the tensor can be written");
    }
    writer.finish().expect("the file can be finished");
}

/// A tensor of a file in the making.
pub fn plan(name: &str, ty: TensorType, dims: &[u64]) -> TensorPlan {
    TensorPlan {
        name: name.to_owned(),
        dims: dims.to_vec(),
        ty,
    }
}

/// Writes a model whose tensors are all zero.
pub fn write_model(place: &Workplace, name: &str, metadata: &Metadata, plans: &[TensorPlan]) {
    let path = place.path(name);
    let mut writer = Writer::create(&path, metadata, plans, &WriteOptions::default())
        .expect("the folder is empty");
    for plan in plans {
        let n_bytes =
            gristmill_gguf::tensor_bytes(plan.ty, &plan.dims).expect("the shape is sound");
        writer
            .write(&vec![0; n_bytes as usize])
            .expect("it follows the plan");
    }
    writer.finish().expect("everything is written");
}

/// Writes `small.gguf`, a model of two tensors and few entries, for tests that show all of a file.
pub fn two_tensors(place: &Workplace) {
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", "llama");
    metadata.set("general.name", "Small\u{1b}[2J one");
    metadata.set("general.file_type", 0u32);
    metadata.set("llama.context_length", 64u32);
    let tokens: Vec<String> = (0..14).map(|id| format!("t{id}")).collect();
    metadata.set("tokenizer.ggml.tokens", tokens);
    let plans = [
        plan("token_embd.weight", F32, &[8, 14]),
        plan("output_norm.weight", F32, &[8]),
    ];
    write_model(place, "small.gguf", &metadata, &plans);
}
