//! An edit of a file of 100 GB, of which only the header is real. A process of its own, since what
//! is counted is what the whole process writes.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::time::Instant;

use gristmill_gguf::edit::{Edit, EditOptions, Editor, Way};
use gristmill_gguf::{File, Metadata, TensorPlan, WriteOptions, Writer};

const GIB: u64 = 1 << 30;
const FILE_BYTES: u64 = 100 * 1_000_000_000;

/// Bytes that this process has handed to the system for writing.
fn written() -> u64 {
    let counters = fs::read_to_string("/proc/self/io").unwrap();
    let line = counters
        .lines()
        .find_map(|line| line.strip_prefix("wchar: "));
    line.unwrap().parse().unwrap()
}

/// The header of a model of 96 tensors of a little over 1 GB, with a vocabulary of 256,000 tokens;
/// the data is a hole.
fn sparse(path: &Path) {
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", "llama");
    metadata.set("general.name", "large");
    let tokens: Vec<String> = (0..256_000).map(|id| format!("token {id:07}")).collect();
    metadata.set("tokenizer.ggml.tokens", tokens);
    metadata.set("tokenizer.ggml.scores", vec![0f32; 256_000]);
    let n_elements = FILE_BYTES / 96 / 4 / 32 * 32;
    let tensors: Vec<TensorPlan> = (0..96)
        .map(|n| TensorPlan {
            name: format!("blk.{n}.w"),
            dims: vec![n_elements],
            ty: gristmill_quant::F32,
        })
        .collect();
    let options = WriteOptions {
        reserve: 64 << 10,
        ..WriteOptions::default()
    };
    // The writer asks for free space, which a hole does not need: a small twin gives the header.
    let small = path.with_extension("small");
    let twin: Vec<TensorPlan> = tensors
        .iter()
        .map(|tensor| TensorPlan {
            dims: vec![32],
            ..tensor.clone()
        })
        .collect();
    let mut writer = Writer::create(&small, &metadata, &twin, &options).unwrap();
    twin.iter().for_each(|_| writer.write(&[0; 128]).unwrap());
    writer.finish().unwrap();
    let twin = File::open(&small).unwrap();
    let start = twin.data_offset();
    let mut header = twin.bytes()[..start as usize].to_vec();
    // Dimension and offset are the last two numbers of a directory entry, with the type between.
    for (n, tensor) in tensors.iter().enumerate() {
        let at = header
            .windows(tensor.name.len() + 4)
            .rposition(|bytes| bytes == [tensor.name.as_bytes(), &[1, 0, 0, 0]].concat())
            .unwrap()
            + tensor.name.len()
            + 4;
        header[at..at + 8].copy_from_slice(&n_elements.to_le_bytes());
        let offset = n as u64 * n_elements * 4;
        header[at + 12..at + 20].copy_from_slice(&offset.to_le_bytes());
    }
    fs::write(path, header).unwrap();
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(start + 96 * n_elements * 4).unwrap();
    fs::remove_file(small).unwrap();
}

#[test]
fn an_edit_of_100_gb_that_fits_takes_no_time_and_writes_the_header_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.gguf");
    sparse(&path);
    let size = fs::metadata(&path).unwrap().len();
    assert!(size > 93 * GIB, "{size}");
    for (name, value) in [("small", "small"), ("template", &*"{{ m }}".repeat(8000))] {
        let edit = Edit::Set {
            key: format!("general.{name}"),
            value: value.into(),
        };
        let (start, before) = (Instant::now(), written());
        let plan = Editor::open(&path)
            .unwrap()
            .plan(&[edit], &EditOptions::default())
            .unwrap();
        assert_eq!(*plan.way(), Way::InPlace);
        let outcome = plan.apply(&mut |_| ()).unwrap();
        let (elapsed, n_bytes) = (start.elapsed(), written() - before);
        println!("{size} bytes, {name}: {elapsed:?}, {n_bytes} bytes written");
        assert!(
            n_bytes >= outcome.bytes_written && n_bytes < 64 << 20,
            "{n_bytes}"
        );
        assert!(elapsed.as_secs_f64() < 1.0, "{elapsed:?}");
        let file = File::open(&path).unwrap();
        assert_eq!((file.size(), file.tensors().len()), (size, 96));
        assert_eq!(
            file.metadata().str(&format!("general.{name}")).unwrap(),
            Some(value)
        );
    }
}
