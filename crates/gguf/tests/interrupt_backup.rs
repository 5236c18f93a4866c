//! Ctrl-C while an edit waits for the lock. A process of its own, since it ends all writing in the process.

use std::path::Path;
use std::time::Duration;

use gristmill_gguf::edit::{Edit, EditOptions, Editor, Way};
use gristmill_gguf::{Error, Metadata, TensorPlan, WriteOptions, Writer, remove_partial_outputs};

fn model(path: &Path) {
    let plan = [TensorPlan {
        name: "w".to_owned(),
        dims: vec![8],
        ty: gristmill_quant::F32,
    }];
    let mut metadata = Metadata::new();
    metadata.set("general.name", "old");
    let mut writer = Writer::create(path, &metadata, &plan, &WriteOptions::default()).unwrap();
    writer.write(&[1; 32]).unwrap();
    writer.finish().unwrap();
}

#[test]
fn a_backup_goes_with_the_edit_that_was_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    model(&path);
    let bytes = std::fs::read(&path).unwrap();
    let backup = folder.path().join("m.gguf.bak");
    let set = Edit::Set {
        key: "general.name".to_owned(),
        value: "new".into(),
    };
    let options = EditOptions {
        backup: true,
        ..EditOptions::default()
    };
    let plan = Editor::open(&path).unwrap().plan(&[set], &options).unwrap();
    assert_eq!(plan.way(), &Way::InPlace);
    // Somebody reads the file for long, so that the edit has made its copy and waits.
    let reader = std::fs::File::open(&path).unwrap();
    reader.lock_shared().unwrap();
    std::thread::scope(|scope| {
        let edit = scope.spawn(|| plan.apply(&mut |_| {}));
        while !backup.exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(50));
        remove_partial_outputs();
        assert!(!backup.exists(), "the backup stays");
        reader.unlock().unwrap();
        assert!(matches!(edit.join(), Ok(Err(Error::Interrupted { .. }))));
    });
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
