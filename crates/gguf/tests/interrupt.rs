//! What a Ctrl-C handler asks for. A process of its own, since it ends all writing in the process.

use gristmill_gguf::{
    Error, Metadata, PartialPath, TensorPlan, WriteOptions, Writer, remove_partial_outputs,
};

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

    let reports = PartialPath::create_folder(&folder.path().join("reports")).unwrap();
    let report = PartialPath::write(&reports.path().join("report.txt"), b"so far").unwrap();
    let shared = PartialPath::create_folder(&folder.path().join("shared")).unwrap();
    std::fs::write(shared.path().join("note.txt"), "of somebody else").unwrap();
    let candidate = PartialPath::reserve(&folder.path().join("candidate")).unwrap();
    std::fs::write(candidate.path(), "done by another").unwrap();
    assert!(PartialPath::reserve(candidate.path()).is_err());
    assert_eq!(n_files(), 6);

    // The two models, the report in its folder, and the candidate; not a folder that others write to.
    assert_eq!(remove_partial_outputs(), 5);
    assert_eq!(n_files(), 2);
    assert!(folder.path().join("shared/note.txt").exists());
    assert!(matches!(
        candidate.rename(&folder.path().join("named"), true),
        Err(Error::Interrupted { .. })
    ));
    drop((report, reports));
    std::fs::remove_dir_all(folder.path().join("shared")).unwrap();
    drop(shared);
    assert!(matches!(complete.finish(), Err(Error::Interrupted { .. })));
    drop(begun);
    assert!(matches!(
        create("late.gguf"),
        Err(Error::Interrupted { .. })
    ));
    assert_eq!(n_files(), 1);
    assert!(folder.path().join("done.gguf").exists());
}
