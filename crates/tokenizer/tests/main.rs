//! Tests of the tokenizer through its public functions, most of them against the reference's results.

#[path = "main/bad_input.rs"]
mod bad_input;
#[path = "main/cases.rs"]
mod cases;
#[path = "main/golden.rs"]
mod golden;
#[path = "main/long_runs.rs"]
mod long_runs;
#[path = "main/oracle.rs"]
mod oracle;
#[path = "main/pre.rs"]
mod pre;
