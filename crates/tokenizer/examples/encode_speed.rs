//! How fast vocabularies load and encode: `cargo run --release -p gristmill-tokenizer --example encode_speed -- TEXT VOCABULARY.gguf…`

use std::path::Path;
use std::time::Instant;

use gristmill_gguf::Model;
use gristmill_tokenizer::{EncodeOptions, Tokenizer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(text) = arguments.next() else {
        return Err("usage: encode_speed TEXT VOCABULARY.gguf…".into());
    };
    let text = std::fs::read(text)?;
    for path in arguments {
        let start = Instant::now();
        let model = Model::open(Path::new(&path))?;
        let tokenizer = Tokenizer::from_metadata(model.metadata())?;
        let loaded = start.elapsed();
        let start = Instant::now();
        let n_ids = tokenizer.encode(&text, EncodeOptions::default()).len();
        let speed = text.len() as f64 / 1e6 / start.elapsed().as_secs_f64();
        println!("{path}: load {loaded:.0?}, encode {speed:.1} MB/s, {n_ids} ids");
    }
    Ok(())
}
