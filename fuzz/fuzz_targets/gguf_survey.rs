//! Any bytes as a file to look for faults in: the faults that opening it would end at, all with messages, and of the rest
//! everything can be asked.

#![no_main]

use gristmill_fuzz::folder;
use gristmill_gguf::File;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let path = folder().join("fuzz.gguf");
    std::fs::write(&path, bytes).expect("the folder is ours");
    let survey = File::survey(&path);
    for fault in &survey.faults {
        assert!(fault.to_string().contains("fuzz.gguf"), "{fault}");
        let _ = fault.hint();
    }
    let opened = File::open_stored(&path);
    assert_eq!(opened.is_ok(), survey.faults.is_empty(), "{opened:?}");
    if let Err(first) = opened {
        assert_eq!(first.to_string(), survey.faults[0].to_string());
    }
    let Some(file) = survey.file else { return };
    for tensor in file.tensors() {
        assert_eq!(file.data(tensor).len() as u64, tensor.bytes);
        std::hint::black_box(file.data(tensor).last());
    }
    for (key, value) in file.metadata().iter() {
        assert!(!format!("{key}{value:?}").is_empty());
    }
});
