//! Tests of the tokenizer through its public functions, most of them against the reference's results.

#[path = "main/golden.rs"]
mod golden;
