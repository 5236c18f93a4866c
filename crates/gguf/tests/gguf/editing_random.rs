//! Random edits of random files, against the same edits of a plain list of entries.

use std::fs;

use gristmill_gguf::edit::{Edit, EditOptions, Editor, RESERVED_KEY};
use gristmill_gguf::{Array, File, Metadata, TensorPlan, Value, WriteOptions, Writer};
use proptest::prelude::*;

/// Few enough that edits meet entries.
const N_KEYS: usize = 12;

fn key(index: usize) -> String {
    // Keys of different lengths, so that places shift.
    format!("k{}.{}", "x".repeat(index % 5), index)
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u8>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<i16>().prop_map(|n| Value::from(f32::from(n) / 8.0)),
        "[ -~\u{2581}]{0,80}".prop_map(Value::from),
        proptest::collection::vec(any::<u16>(), 0..20).prop_map(Value::from),
        proptest::collection::vec(any::<bool>(), 0..9).prop_map(Value::from),
        proptest::collection::vec("[a-z]{0,9}", 0..9)
            .prop_map(|strings| Value::from(Array::from(strings))),
    ]
}

/// An edit of a key that may or may not be there; whether it can be made is the question.
fn edit() -> impl Strategy<Value = Edit> {
    let index = 0..N_KEYS;
    prop_oneof![
        (index.clone(), value()).prop_map(|(index, value)| Edit::Set {
            key: key(index),
            value
        }),
        (index.clone(), value()).prop_map(|(index, value)| Edit::Add {
            key: key(index),
            value
        }),
        (index.clone(), index.clone()).prop_map(|(from, to)| Edit::Rename {
            from: key(from),
            to: key(to)
        }),
        index.prop_map(|index| Edit::Remove { key: key(index) }),
    ]
}

/// What an edit does to a list; false where it cannot be made.
fn expected(entries: &mut Vec<(String, Value)>, edit: &Edit) -> bool {
    let place = |entries: &[(String, Value)], key: &str| entries.iter().position(|(k, _)| k == key);
    match edit {
        Edit::Set { key, value } | Edit::Add { key, value } => match place(entries, key) {
            Some(place) if matches!(edit, Edit::Set { .. }) => entries[place].1 = value.clone(),
            Some(_) => return false,
            None => entries.push((key.clone(), value.clone())),
        },
        Edit::Rename { from, to } => match (place(entries, from), place(entries, to)) {
            (Some(place), None) => entries[place].0.clone_from(to),
            _ => return false,
        },
        Edit::Remove { key } => match place(entries, key) {
            Some(place) => drop(entries.remove(place)),
            None => return false,
        },
    }
    true
}

fn names(edit: &Edit) -> Vec<&String> {
    match edit {
        Edit::Set { key, .. } | Edit::Add { key, .. } | Edit::Remove { key } => vec![key],
        Edit::Rename { from, to } => vec![from, to],
    }
}

fn entries_of(file: &File) -> Vec<(String, Value)> {
    let entries = file
        .metadata()
        .iter()
        .map(|(key, value)| (key.to_owned(), value.clone()));
    entries.filter(|(key, _)| key != RESERVED_KEY).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn edits_of_a_file_are_edits_of_its_entries(
        values in proptest::collection::vec(value(), 0..N_KEYS),
        reserve in prop_oneof![Just(0u64), 1u64..300],
        rounds in proptest::collection::vec(proptest::collection::vec(edit(), 1..5), 1..5),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        let mut metadata = Metadata::new();
        for (index, value) in values.into_iter().enumerate() {
            metadata.set(key(index), value);
        }
        let tensor = TensorPlan { name: "w".into(), dims: vec![32], ty: gristmill_quant::F32 };
        let options = WriteOptions { reserve, ..WriteOptions::default() };
        let mut writer = Writer::create(&path, &metadata, &[tensor], &options).unwrap();
        writer.write(&[5; 128]).unwrap();
        writer.finish().unwrap();
        let force = EditOptions { force: true, ..EditOptions::default() };
        for edits in rounds {
            let before = fs::read(&path).unwrap();
            let mut entries = entries_of(&File::open(&path).unwrap());
            let keys: Vec<&String> = edits.iter().flat_map(names).collect();
            let distinct: std::collections::HashSet<&&String> = keys.iter().collect();
            let possible = edits.iter().all(|edit| expected(&mut entries, edit))
                && distinct.len() == keys.len();
            let plan = Editor::open(&path).unwrap().plan(&edits, &force);
            prop_assert_eq!(plan.is_ok(), possible, "{:?}", plan);
            let Ok(plan) = plan else {
                prop_assert_eq!(fs::read(&path).unwrap(), before);
                continue;
            };
            plan.apply(&mut |_| ()).unwrap();
            let file = File::open(&path).unwrap();
            prop_assert_eq!(entries_of(&file), entries);
            prop_assert_eq!(file.data(file.tensor("w").unwrap()), [5; 128]);
            prop_assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }
}
