//! Files that are something else than a GGUF model.

use std::path::Path;

use gristmill_gguf::{Error, File, Kind, Model};

use crate::bytes::{Bytes, F32, error, open};

fn refused(bytes: &[u8], message: &str) {
    let error = open(bytes).expect_err(message);
    let text = error.to_string();
    assert!(text.contains(message), "{text}");
    assert!(text.starts_with("test.gguf: "), "{text}");
    assert!(error.hint().is_some(), "no remedy for: {text}");
}

#[test]
fn b15_something_else_is_called_by_its_name() {
    refused(b"", "the file is empty (0 bytes)");
    refused(
        b"<!DOCTYPE html><html></html>",
        "is an HTML page (28 bytes)",
    );
    refused(b"\xef\xbb\xbf\n  <HTML lang=\"en\">", "is an HTML page");
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4081004224\n";
    refused(
        pointer,
        "is a Git LFS pointer (75 bytes) that stands for the real file of 4081004224 bytes",
    );
    refused(b"tjgg\x03\x00\x00\x00rest", "is a GGJT file");
    refused(b"fmgg\x01\x00\x00\x00", "is a GGMF file");
    refused(b"lmgg\x00\x7d\x00\x00", "is a GGML file");
    refused(b"algg\x01\x00\x00\x00", "is a GGLA file");
    refused(b"\x1f\x8b\x08\x00 and so on", "is a gzip archive");
    refused(b"PK\x03\x04\x14\x00 model.gguf", "is a zip archive");
    refused(b"\x28\xb5\x2f\xfd\x04", "is a zstd archive");
    refused(b"\xfd7zXZ\x00\x00", "is a xz archive");
    refused(b"BZh91AY&SY", "is a bzip2 archive");
    refused(b"7z\xbc\xaf\x27\x1c\x00", "is a 7z archive");
    refused(
        b"PK\x03\x04\x00\x00\x08\x08archive/data.pkl",
        "is a PyTorch checkpoint (zip archive)",
    );
    refused(
        b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.",
        "is a PyTorch checkpoint (pickle)",
    );
    let header = br#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let safetensors = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 4]].concat();
    refused(&safetensors, "is a safetensors file under another name");
    refused(
        b"just text",
        "is not a GGUF file: it starts with \"just\" instead of",
    );
    let mut tar = vec![b'n'; 300];
    tar[257..262].copy_from_slice(b"ustar");
    refused(&tar, "is a tar archive");
}

#[test]
fn a_cut_header_is_said_to_be_cut() {
    for length in 1..24 {
        let message = error(&Bytes::new().build()[..length]);
        assert!(
            message.contains("the file ends inside the header"),
            "{length}: {message}"
        );
    }
}

#[test]
fn paths_that_lead_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let absent = File::open(&folder.path().join("absent.gguf"));
    assert!(matches!(&absent, Err(error @ Error::NotFound { .. }) if error.hint().is_some()));
    let is_folder = File::open(folder.path());
    assert!(matches!(&is_folder, Err(error @ Error::IsFolder { .. }) if error.hint().is_some()));
    let empty = folder.path().join("empty.gguf");
    std::fs::write(&empty, b"").unwrap();
    assert!(matches!(File::open(&empty), Err(Error::Empty { .. })));
    #[cfg(unix)]
    assert!(matches!(
        File::open(Path::new("/dev/null")),
        Err(Error::NotRegular { .. })
    ));
    let through_a_file = File::open(&empty.join("below.gguf"));
    assert!(
        through_a_file
            .unwrap_err()
            .to_string()
            .contains("below.gguf")
    );
}

#[test]
fn a_file_opens_through_the_map_as_from_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    let bytes = crate::bytes::sample().build();
    std::fs::write(&path, &bytes).unwrap();
    let file = File::open(&path).unwrap();
    assert!(file.region().is_mapped());
    assert_eq!(file.bytes(), bytes);
    assert_eq!(file.tensors(), open(&bytes).unwrap().tensors());
}

#[test]
fn other_purposes_are_refused_one_by_one() {
    let with = |key: &str, value: &str| {
        let file = Bytes::new()
            .entry_string(key, value.as_bytes())
            .tensor("w", &[8], F32, 0)
            .data(&[0; 32]);
        Model::of_file(file.open().unwrap()).unwrap()
    };
    let cases = [
        (
            with("general.type", "imatrix"),
            Kind::Imatrix,
            "is an importance matrix (imatrix), not a model",
        ),
        (
            with("general.type", "adapter"),
            Kind::Adapter,
            "is an adapter (LoRA), not a model",
        ),
        (
            with("general.type", "mmproj"),
            Kind::Projector,
            "is a multimodal projector (mmproj), not a model",
        ),
        (
            with("general.architecture", "clip"),
            Kind::Projector,
            "is a multimodal projector",
        ),
        (
            with("general.architecture", "controlvector"),
            Kind::ControlVector,
            "is a control vector, not a model",
        ),
        (
            Model::of_file(
                Bytes::new()
                    .entry_string("general.architecture", b"llama")
                    .open()
                    .unwrap(),
            )
            .unwrap(),
            Kind::Vocabulary,
            "holds a vocabulary and no weights",
        ),
    ];
    for (model, kind, message) in cases {
        assert_eq!(model.kind(), kind);
        let error = model.require_weights().unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
        assert!(error.hint().is_some(), "{error}");
        assert_eq!(model.require_vocabulary().is_ok(), kind == Kind::Vocabulary);
    }
    let model = with("general.type", "model");
    assert_eq!(model.kind(), Kind::Model);
    assert!(model.require_weights().is_ok() && model.require_vocabulary().is_ok());
}
