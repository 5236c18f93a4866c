//! B03: a file that lies about its size costs no memory. A process of its own, since the measure is
//! the peak of the whole process.

#![cfg(target_os = "linux")]

#[path = "gguf/bytes.rs"]
#[allow(dead_code)]
mod bytes;

use bytes::Bytes;

/// The most memory this process ever had resident, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn b03_lies_cost_no_memory() {
    let counts = Bytes::counts;
    let mut lies = vec![
        counts(Some(1 << 62), None),
        counts(None, Some(1 << 63)),
        counts(Some(999_999), Some(0)),
    ];
    for element in 0..13 {
        lies.push(
            Bytes::new()
                .entry_array("k", element, 1 << 60, &[0; 64])
                .build(),
        );
        lies.push(
            Bytes::new()
                .entry_array("k", element, 99_999_999, &[0; 64])
                .build(),
        );
    }
    lies.push(
        Bytes::new()
            .entry("k", 8, &(200u64 << 20).to_le_bytes())
            .build(),
    );
    lies.push(
        Bytes::new()
            .tensor("w", &[1 << 40, 1 << 20], 0, 0)
            .data(&[0; 64])
            .build(),
    );
    let before = peak_kib();
    for bytes in &lies {
        assert!(bytes::open(bytes).is_err());
    }
    let grown = peak_kib() - before;
    println!("{} lies: peak memory grew by {grown} KiB", lies.len());
    assert!(grown < 4096, "{grown} KiB");
}
