//! Tests of the built binary: one helper runs it and shows exit code, output and errors, which inline snapshots hold.

#[path = "main/adapter_faults.rs"]
mod adapter_faults;
#[path = "main/adapters.rs"]
mod adapters;
#[path = "main/advice.rs"]
mod advice;
#[path = "main/arguments.rs"]
mod arguments;
#[path = "../crates/gguf/tests/gguf/bytes.rs"]
#[allow(dead_code)]
mod bytes;
#[path = "main/chat.rs"]
mod chat;
#[path = "main/check.rs"]
mod check;
#[path = "main/checkpoints.rs"]
mod checkpoints;
#[path = "main/constraint.rs"]
mod constraint;
#[path = "main/containers.rs"]
mod containers;
#[path = "main/context.rs"]
mod context;
#[path = "main/edit.rs"]
mod edit;
#[path = "main/edit_advice.rs"]
mod edit_advice;
#[path = "main/effects.rs"]
mod effects;
#[path = "main/embed.rs"]
mod embed;
#[path = "main/estimate.rs"]
mod estimate;
#[path = "main/export.rs"]
mod export;
#[path = "main/feature.rs"]
mod feature;
#[path = "main/fixtures.rs"]
mod fixtures;
#[path = "main/flag_table.rs"]
mod flag_table;
#[path = "main/flags.rs"]
mod flags;
#[path = "main/golden.rs"]
mod golden;
#[path = "main/harness.rs"]
mod harness;
#[path = "main/hashing.rs"]
mod hashing;
#[path = "main/hub.rs"]
mod hub;
// The tests of the crate plant faults that these do not.
#[allow(dead_code)]
#[path = "../crates/hub/tests/main/server.rs"]
mod hub_server;
#[path = "main/importance.rs"]
mod importance;
#[path = "main/inspect.rs"]
mod inspect;
#[path = "main/interrupted.rs"]
mod interrupted;
#[cfg(target_os = "linux")]
#[path = "main/keys.rs"]
mod keys;
#[path = "main/known_holes.rs"]
mod known_holes;
#[path = "main/loading.rs"]
mod loading;
#[path = "main/messages.rs"]
mod messages;
#[path = "main/perplexity.rs"]
mod perplexity;
#[path = "main/pipeline.rs"]
mod pipeline;
#[path = "main/quantize.rs"]
mod quantize;
#[path = "main/real.rs"]
mod real;
#[path = "main/real_schemas.rs"]
mod real_schemas;
#[path = "main/recipes.rs"]
mod recipes;
#[path = "main/regression.rs"]
mod regression;
#[path = "main/replaced.rs"]
mod replaced;
#[path = "main/run.rs"]
mod run;
#[path = "main/sampling.rs"]
mod sampling;
#[path = "main/sets.rs"]
mod sets;
#[path = "main/signals.rs"]
mod signals;
#[path = "../crates/gguf/tests/gguf/small_disk.rs"]
mod small_disk;
#[path = "main/speculative.rs"]
mod speculative;
#[path = "main/terminal.rs"]
mod terminal;
