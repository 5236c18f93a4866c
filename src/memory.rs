//! The machine's free memory, so that a context that cannot fit is refused with the numbers in place of a killed process.

use gristmill_engine::{LoadOptions, Model};

use crate::failure::Hint;

/// Refuses a context whose KV cache exceeds the memory that is available; one that nobody asked for is made to fit.
pub fn fit_context(model: &Model, options: &mut LoadOptions) -> anyhow::Result<()> {
    let needed = model.cache_bytes(options)?;
    let Some(available) = available_bytes().filter(|&available| needed > available) else {
        return Ok(());
    };
    let n_fit = model.longest_context(options, available);
    let Some(n_ctx) = options.n_ctx else {
        options.n_ctx = Some(n_fit);
        return Ok(());
    };
    Err(anyhow::anyhow!(
        "a context of {n_ctx} tokens needs {needed} bytes for its KV cache, and {available} bytes of memory are available"
    )
    .context(Hint::new(format!(
        "give a shorter one: {n_fit} tokens would fit"
    ))))
}

/// What the process holds, in bytes.
pub struct Usage {
    /// Pages of files that are in memory: what was read of mapped weights, and the program.
    pub files: u64,
    /// Memory of its own.
    pub anonymous: u64,
    /// What is kept from being swapped out.
    pub locked: u64,
}

/// What the process holds now, where the system tells.
pub fn usage() -> Option<Usage> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let bytes = |name: &str| kibibytes_of(&text, name)?.checked_mul(1024);
    Some(Usage {
        files: bytes("RssFile:")?,
        anonymous: bytes("RssAnon:")?,
        locked: bytes("VmLck:")?,
    })
}

/// Bytes that can be had without pushing others out, where the system tells.
fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let machine = available_of(&text)?;
    let limit = |name: &str| -> Option<u64> {
        let path = format!("/sys/fs/cgroup/memory.{name}");
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    // A container may have less than its machine. Its page cache counts as used but can be had back, so only the
    // limit itself is compared.
    Some(limit("max").map_or(machine, |max| machine.min(max)))
}

/// The line `MemAvailable: N kB` of `/proc/meminfo`.
fn available_of(meminfo: &str) -> Option<u64> {
    kibibytes_of(meminfo, "MemAvailable:")?.checked_mul(1024)
}

/// The number of a line `NAME N kB`.
fn kibibytes_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_read() {
        let text = "MemTotal:       24689764 kB\nMemFree: 1 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(available_of(text), Some(2 << 20));
        assert_eq!(
            available_of("MemAvailable: 18446744073709551615 kB\n"),
            None
        );
        assert_eq!(available_of("MemTotal: 1 kB\n"), None);
    }
}
