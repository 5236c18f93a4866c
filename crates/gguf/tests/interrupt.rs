//! What a Ctrl-C handler asks for. A process of its own, since it ends all writing in the process.

use gristmill_gguf::{Error, Metadata, TensorPlan, WriteOptions, Writer, remove_partial_outputs};

#[test]
fn an_interrupt_removes_every_partial_output() {
    let folder = tempfile::tempdir().unwrap();
    let plan = [TensorPlan {
        name: "w".to_owned(),
        dims: vec![8],
        ty: gristmill_quant::F32,
    }];
    let create = |name: &str| {
        Writer::create(
            &folder.path().join(name),
            &Metadata::new(),
            &plan,
            &WriteOptions::default(),
        )
    };
    let n_files = || std::fs::read_dir(folder.path()).unwrap().count();

    let mut done = create("done.gguf").unwrap();
    done.write(&[0; 32]).unwrap();
    done.finish().unwrap();
    let mut complete = create("complete.gguf").unwrap();
    complete.write(&[0; 32]).unwrap();
    let begun = create("begun.gguf").unwrap();
    drop(create("dropped.gguf").unwrap());
    assert_eq!(n_files(), 3);

    assert_eq!(remove_partial_outputs(), 2);
    assert_eq!(n_files(), 1);
    assert!(matches!(complete.finish(), Err(Error::Interrupted { .. })));
    drop(begun);
    assert!(matches!(
        create("late.gguf"),
        Err(Error::Interrupted { .. })
    ));
    assert_eq!(n_files(), 1);
    assert!(folder.path().join("done.gguf").exists());
}
