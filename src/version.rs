//! What `--version` says.

use std::sync::OnceLock;

/// Version, commit, target, instruction set and backends, one per line after the first.
pub fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        format!(
            "{}\ncommit: {}\ntarget: {}\ninstruction set: {}\nbackends: cpu",
            env!("CARGO_PKG_VERSION"),
            commit(),
            env!("GRISTMILL_TARGET"),
            instruction_set(),
        )
    })
}

/// The commit that this binary was built from, `unknown` for a build outside Git.
pub fn commit() -> &'static str {
    env!("GRISTMILL_COMMIT")
}

fn instruction_set() -> String {
    match gristmill_kernels::select_isa() {
        Ok(isa) => isa.name().to_string(),
        Err(error) => format!("none ({error})"),
    }
}
