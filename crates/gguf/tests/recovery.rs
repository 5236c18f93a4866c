//! A process that recovers files as it opens them, shards included. A process of its own, since it
//! says so once for all.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use gristmill_gguf::edit::{Recovered, Recovery, recover_on_open};
use gristmill_gguf::{Error, Metadata, Model, TensorPlan, WriteOptions, Writer};
use sha2::{Digest as _, Sha256};

static TOLD: Mutex<Vec<Recovery>> = Mutex::new(Vec::new());

fn shard(path: &Path, number: u16) -> u64 {
    let mut metadata = Metadata::new();
    metadata.set("split.no", number);
    metadata.set("split.count", 2u16);
    metadata.set("x.name", "as it was");
    let plan = [TensorPlan {
        name: format!("w{number}"),
        dims: vec![64],
        ty: gristmill_quant::F32,
    }];
    let mut writer = Writer::create(path, &metadata, &plan, &WriteOptions::default()).unwrap();
    writer.write(&[number as u8; 256]).unwrap();
    let start = writer.size() - 256;
    writer.finish().unwrap();
    start
}

/// Leaves a file as a kill in the midst of an edit does. The undo file is put together from its
/// description, not with the code that reads it.
fn cut(path: &Path, start: u64) {
    let mut bytes = fs::read(path).unwrap();
    let (header, data) = bytes.split_at(start as usize);
    let mut undo = b"GMILLUND\x01\0\0\0\0\0\0\0".to_vec();
    undo.extend((bytes.len() as u64).to_le_bytes());
    undo.extend(start.to_le_bytes());
    undo.extend(Sha256::digest(header));
    undo.extend([0; 32]);
    // Less than the sampled length: the data is at once its first and its last bytes.
    undo.extend(Sha256::digest([data, data].concat()));
    undo.extend(Sha256::digest(&undo));
    undo.extend(header);
    fs::write(
        path.with_file_name("set-00002-of-00002.gguf.edit-undo"),
        undo,
    )
    .unwrap();
    bytes[..4].copy_from_slice(b"UNDO");
    bytes[40..50].fill(b'?');
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_set_opens_once_the_shard_that_was_being_edited_is_restored() {
    let folder = tempfile::tempdir().unwrap();
    let first = folder.path().join("set-00001-of-00002.gguf");
    let second = folder.path().join("set-00002-of-00002.gguf");
    shard(&first, 0);
    let start = shard(&second, 1);
    let before = fs::read(&second).unwrap();

    cut(&second, start);
    let error = Model::open(&first).unwrap_err();
    assert!(
        matches!(&error, Error::UnfinishedEdit { path, .. } if *path == second),
        "{error}"
    );

    recover_on_open(|recovery| TOLD.lock().unwrap().push(recovery.clone()));
    let model = Model::open(&first).unwrap();
    assert_eq!(model.tensors().len(), 2);
    assert_eq!(fs::read(&second).unwrap(), before);
    let told = std::mem::take(&mut *TOLD.lock().unwrap());
    assert_eq!(told.len(), 1);
    assert_eq!(
        (told[0].state, &told[0].path),
        (Recovered::Restored, &second)
    );
    assert!(!told[0].undo.exists());
    assert!(
        told[0].to_string().contains("is again as it was"),
        "{}",
        told[0]
    );

    // By many at once: one of them restores, all of them read.
    cut(&second, start);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(Model::open(&second).unwrap().tensors().len(), 2));
        }
    });
    assert_eq!(fs::read(&second).unwrap(), before);
    assert_eq!(TOLD.lock().unwrap().len(), 1);

    // What cannot be restored is refused.
    cut(&second, start);
    fs::write(&told[0].undo, b"GMILLUND, or so it says").unwrap();
    assert!(matches!(Model::open(&first), Err(Error::HeaderLost { .. })));
}
