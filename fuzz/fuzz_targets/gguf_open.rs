//! Any bytes as a GGUF file: an error with a message, or a file of which everything can be asked.

#![no_main]

use std::path::Path;

use gristmill_gguf::{File, Model, Summary};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match File::from_bytes(bytes, Path::new("fuzz.gguf")) {
        Err(error) => {
            assert!(error.to_string().contains("fuzz.gguf"));
            let _ = error.hint();
        }
        Ok(file) => look_at(file),
    }
});

fn look_at(file: File) {
    assert!(file.data_offset() >= file.directory_end());
    for (key, value) in file.metadata().iter() {
        assert!(!key.is_empty());
        assert!(!format!("{value:?}").is_empty());
        // Getters may refuse, with the key in the message.
        let refusals = [
            file.metadata().u32(key).err(),
            file.metadata().f32(key).err(),
            file.metadata().str(key).err(),
            file.metadata().strings(key).err(),
            file.metadata().i32s(key).err(),
        ];
        for refusal in refusals.into_iter().flatten() {
            assert!(refusal.to_string().contains("must be"));
        }
    }
    for tensor in file.tensors() {
        assert_eq!(file.data(tensor).len() as u64, tensor.bytes);
        assert!(tensor.n_elements() > 0);
        // The last byte is there, so the first is.
        std::hint::black_box(file.data(tensor).last());
    }
    if let Ok(model) = Model::of_file(file) {
        let _ = model.require_weights();
        let summary = Summary::of(&model);
        assert_eq!(summary.n_tensors(), model.tensors().len());
        let _ = (summary.bits_per_weight(), format!("{summary:?}"));
    }
}
