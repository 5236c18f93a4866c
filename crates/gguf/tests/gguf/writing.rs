//! Outputs that appear whole or not at all, and what they must not overwrite.

use std::fs;
use std::path::{Path, PathBuf};

use gristmill_gguf::{Error, File, Metadata, TensorPlan, WriteOptions, Writer};

use crate::bytes::{Bytes, open, sample};
use crate::small_disk::SmallDisk;

fn plan(name: &str, dims: &[u64]) -> TensorPlan {
    TensorPlan {
        name: name.to_owned(),
        dims: dims.to_vec(),
        ty: gristmill_quant::F32,
    }
}

fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn create(path: &Path, tensors: &[TensorPlan], options: &WriteOptions) -> Result<Writer, Error> {
    Writer::create(path, &Metadata::new(), tensors, options)
}

#[test]
fn b12_writing_again_keeps_every_type_and_the_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy.gguf");
    let original = sample().open().unwrap();
    let mut metadata = original.metadata().clone();
    metadata.set("general.architecture", "gemma");
    let tensors: Vec<TensorPlan> = original
        .tensors()
        .iter()
        .map(|info| TensorPlan {
            name: info.name.clone(),
            dims: info.dims.clone(),
            ty: info.ty,
        })
        .collect();
    let mut writer = Writer::create(&path, &metadata, &tensors, &WriteOptions::default()).unwrap();
    for tensor in original.tensors() {
        writer
            .write_tensor(&tensor.name, original.data(tensor))
            .unwrap();
    }
    writer.finish().unwrap();
    let copy = File::open(&path).unwrap();
    for ((key, value), (key_before, value_before)) in
        copy.metadata().iter().zip(original.metadata().iter())
    {
        assert_eq!(key, key_before);
        if key != "general.architecture" {
            assert_eq!(value, value_before, "{key}");
        }
    }
    assert_eq!(copy.metadata().len(), original.metadata().len());
    for (after, before) in copy.tensors().iter().zip(original.tensors()) {
        assert_eq!((after, copy.data(after)), (before, original.data(before)));
    }
}

#[test]
fn b13_invalid_text_is_written_as_it_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy.gguf");
    let bytes = Bytes::new().entry_string("odd", b"x\xff\xa1");
    let tokens = bytes.string(b"\xa1");
    let bytes = bytes
        .entry_array("tokenizer.ggml.tokens", 8, 1, &tokens)
        .build();
    let file = open(&bytes).unwrap();
    Writer::create(&path, file.metadata(), &[], &WriteOptions::default())
        .unwrap()
        .finish()
        .unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn b14_names_that_loaders_refuse_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.gguf");
    for (length, good) in [(63, true), (64, false), (74, false)] {
        let result = create(
            &path,
            &[plan(&"n".repeat(length), &[8])],
            &WriteOptions::default(),
        );
        match result {
            Ok(_) => assert!(good, "{length}"),
            Err(error) => assert!(
                !good && error.to_string().contains(&format!("{length} bytes")),
                "{error}"
            ),
        }
    }
    let long = WriteOptions {
        long_names: true,
        ..WriteOptions::default()
    };
    let beyond = create(&path, &[plan(&"n".repeat(65), &[8])], &long);
    assert!(matches!(beyond, Err(Error::BadPlan { .. })));
    let mut writer = create(&path, &[plan(&"n".repeat(64), &[8])], &long).unwrap();
    writer.write(&[0; 32]).unwrap();
    writer.finish().unwrap();
    assert_eq!(File::open(&path).unwrap().tensors()[0].name.len(), 64);
}

#[test]
fn nothing_is_there_until_it_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.gguf");
    let mut writer = create(
        &path,
        &[plan("w", &[16]), plan("v", &[1])],
        &WriteOptions::default(),
    )
    .unwrap();
    writer.write(&[1; 40]).unwrap();
    assert!(!path.exists());
    assert_eq!(entries(folder.path()).len(), 1);
    assert_eq!(writer.next_tensor(), Some(("w", 24)));
    writer.write(&[1; 24]).unwrap();
    assert_eq!(writer.next_tensor(), Some(("v", 4)));
    writer.write(&[2; 4]).unwrap();
    assert_eq!(writer.next_tensor(), None);
    writer.write(&[]).unwrap();
    let size = writer.size();
    writer.finish().unwrap();
    assert_eq!(entries(folder.path()), ["out.gguf"]);
    assert_eq!(fs::metadata(&path).unwrap().len(), size);
    let file = File::open(&path).unwrap();
    assert_eq!(file.data(file.tensor("v").unwrap()), [2; 4]);
}

#[test]
fn an_abandoned_output_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.gguf");
    let mut writer = create(&path, &[plan("w", &[16])], &WriteOptions::default()).unwrap();
    writer.write(&[1; 40]).unwrap();
    drop(writer);
    assert!(entries(folder.path()).is_empty());

    let mut writer = create(&path, &[plan("w", &[16])], &WriteOptions::default()).unwrap();
    let error = writer.write(&[1; 65]).unwrap_err().to_string();
    assert!(
        error.contains("65 bytes for tensor \"w\", of which 64 are missing"),
        "{error}"
    );
    assert!(writer.write_tensor("v", &[0; 64]).is_err());
    let error = writer.finish().unwrap_err().to_string();
    assert!(
        error.contains("64 bytes of tensor \"w\" are missing"),
        "{error}"
    );
    assert!(entries(folder.path()).is_empty());
}

#[test]
fn an_existing_output_is_kept_without_force() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.gguf");
    fs::write(&path, b"precious").unwrap();
    let error = create(&path, &[], &WriteOptions::default()).unwrap_err();
    assert!(matches!(error, Error::OutputExists { .. }) && error.hint().is_some());
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    let force = WriteOptions {
        force: true,
        ..WriteOptions::default()
    };
    create(&path, &[], &force).unwrap().finish().unwrap();
    assert_eq!(entries(folder.path()), ["out.gguf"]);
    assert!(File::open(&path).is_ok());

    // It appeared meanwhile.
    let late = folder.path().join("late.gguf");
    let writer = create(&late, &[], &WriteOptions::default()).unwrap();
    fs::write(&late, b"precious").unwrap();
    assert!(matches!(writer.finish(), Err(Error::OutputExists { .. })));
    assert_eq!(fs::read(&late).unwrap(), b"precious");
}

#[test]
fn b40_an_input_is_never_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("a.gguf");
    fs::write(&input, sample().build()).unwrap();
    let hard = folder.path().join("hard.gguf");
    fs::hard_link(&input, &hard).unwrap();
    let mut outputs: Vec<PathBuf> =
        vec![input.clone(), folder.path().join(".").join("a.gguf"), hard];
    #[cfg(unix)]
    {
        let soft = folder.path().join("soft.gguf");
        std::os::unix::fs::symlink(&input, &soft).unwrap();
        outputs.push(soft);
    }
    let before = fs::read(&input).unwrap();
    for force in [false, true] {
        let options = WriteOptions {
            force,
            inputs: vec![input.clone()],
            ..WriteOptions::default()
        };
        for output in &outputs {
            let error = create(output, &[plan("w", &[8])], &options).unwrap_err();
            assert!(matches!(error, Error::OutputIsInput { .. }), "{error}");
            assert!(error.hint().is_some());
        }
    }
    assert_eq!(fs::read(&input).unwrap(), before);
}

#[test]
fn b41_folder_and_space_are_checked_first() {
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("absent").join("out.gguf");
    let error = create(&absent, &[], &WriteOptions::default()).unwrap_err();
    assert!(
        matches!(error, Error::NoFolder { .. }) && error.hint().is_some(),
        "{error}"
    );

    let huge = create(
        &folder.path().join("out.gguf"),
        &[plan("w", &[1 << 60])],
        &WriteOptions::default(),
    );
    #[cfg(unix)]
    assert!(matches!(huge, Err(Error::NoSpace { needed, .. }) if needed >= 1 << 62));
    drop(huge);
    let over = create(
        &folder.path().join("out.gguf"),
        &[plan("w", &[1 << 61])],
        &WriteOptions::default(),
    );
    assert!(matches!(over, Err(Error::BadPlan { .. })));
    assert!(matches!(
        create(folder.path(), &[], &WriteOptions::default()),
        Err(Error::OutputIsFolder { .. })
    ));
    assert!(entries(folder.path()).is_empty());
}

#[test]
fn plans_that_no_reader_would_take() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.gguf");
    let options = WriteOptions::default();
    for (tensors, reason) in [
        (
            vec![plan("w", &[8]), plan("w", &[8])],
            "taken by another tensor",
        ),
        (vec![plan("", &[8])], "no name"),
        (vec![plan("w", &[])], "0 dimensions"),
        (vec![plan("w", &[1, 1, 1, 1, 1])], "5 dimensions"),
        (vec![plan("w", &[8, 0])], "is zero"),
    ] {
        let error = create(&path, &tensors, &options).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    for (key, value) in [("", 1u32), ("caf\u{e9}", 1)] {
        let mut metadata = Metadata::new();
        metadata.set(key, value);
        assert!(matches!(
            Writer::create(&path, &metadata, &[], &options),
            Err(Error::BadEntry { .. })
        ));
    }
    let mut metadata = Metadata::new();
    metadata.set("general.alignment", 12u32);
    assert!(matches!(
        Writer::create(&path, &metadata, &[], &options),
        Err(Error::BadAlignment { .. })
    ));
    metadata.set("general.alignment", 64u32);
    let mut writer = Writer::create(
        &path,
        &metadata,
        &[plan("a", &[8]), plan("b", &[8])],
        &options,
    )
    .unwrap();
    writer.write_tensor("a", &[1; 32]).unwrap();
    writer.write_tensor("b", &[2; 32]).unwrap();
    writer.finish().unwrap();
    let file = File::open(&path).unwrap();
    assert_eq!(
        (file.alignment(), file.tensors()[1].offset, file.size() % 64),
        (64, 64, 0)
    );
}

#[test]
fn b41_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    let Some(_mounted) = SmallDisk::mount(&disk, 1) else {
        return;
    };
    let path = disk.join("out.gguf");
    let large = create(&path, &[plan("w", &[1 << 19])], &WriteOptions::default());
    assert!(
        matches!(&large, Err(Error::NoSpace { available, .. }) if *available <= 1 << 20),
        "{large:?}"
    );
    // Somebody else takes the space after the check.
    let mut writer = create(&path, &[plan("w", &[1 << 17])], &WriteOptions::default()).unwrap();
    let other = disk.join("other");
    fs::write(&other, vec![0; 700 << 10]).unwrap();
    let error = writer
        .write(&[0; 4 << 17])
        .and_then(|()| writer.finish())
        .unwrap_err();
    assert!(
        error.to_string().contains("No space left on device"),
        "{error}"
    );
    assert_eq!(entries(&disk), ["other"]);
    fs::remove_file(&other).unwrap();
}
