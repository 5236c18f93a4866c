//! Every golden file opens, and written again is the same file, byte for byte.

use std::path::{Path, PathBuf};

use gristmill_gguf::{File, Model, TensorPlan, WriteOptions, Writer};

fn golden_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    if let Some(root) = gristmill_golden::folder("") {
        collect(&root, &mut files);
        files.sort();
        gristmill_golden::compared(files.len(), "golden files");
    }
    files
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "gguf")
        {
            files.push(path);
        }
    }
}

#[test]
fn every_golden_file_opens() {
    let files = golden_files();
    for path in &files {
        let model = Model::open(path).unwrap_or_else(|error| panic!("{error}"));
        for view in model.views() {
            assert_eq!(
                view.data.len() as u64,
                view.info.bytes,
                "{}: {}",
                path.display(),
                view.info.name
            );
        }
    }
    println!("{} golden files opened", files.len());
}

#[test]
fn golden_files_written_again_are_equal() {
    let folder = tempfile::tempdir().unwrap();
    let files = golden_files();
    for path in &files {
        let file = File::open(path).unwrap();
        let plan: Vec<TensorPlan> = file.tensors().iter().map(plan).collect();
        let copy = folder.path().join("copy.gguf");
        let options = WriteOptions {
            force: true,
            ..WriteOptions::default()
        };
        let mut writer = Writer::create(&copy, file.metadata(), &plan, &options).unwrap();
        let size = writer.size();
        for tensor in file.tensors() {
            writer
                .write_tensor(&tensor.name, file.data(tensor))
                .unwrap();
        }
        writer.finish().unwrap();
        let written = std::fs::read(&copy).unwrap();
        assert_eq!(size, written.len() as u64, "{}", path.display());
        assert!(
            written == file.bytes(),
            "{}: differs when written again",
            path.display()
        );
    }
    println!(
        "{} golden files written again, equal byte for byte",
        files.len()
    );
}

fn plan(tensor: &gristmill_gguf::TensorInfo) -> TensorPlan {
    TensorPlan {
        name: tensor.name.clone(),
        dims: tensor.dims.clone(),
        ty: tensor.ty,
    }
}
