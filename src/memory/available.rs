//! How much memory can be had.

use std::path::Path;

/// Stands for what the system tells.
const VARIABLE: &str = "GRISTMILL_MEMORY";

/// Bytes that can be had without pushing others out, where the system tells: of the machine, or of the control group that
/// this process is in, where that has less. `GRISTMILL_MEMORY` is taken in place of it.
///
/// # Errors
/// That variable is no size.
pub fn available_bytes() -> anyhow::Result<Option<u64>> {
    let Some(named) = std::env::var_os(VARIABLE).filter(|named| !named.is_empty()) else {
        return Ok(of_system());
    };
    let size = crate::sizes::with_fraction(&named.to_string_lossy());
    size.map(Some)
        .map_err(|reason| anyhow::anyhow!("{VARIABLE} of the environment is no size: {reason}"))
}

fn of_system() -> Option<u64> {
    let machine = available_of(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = available_in_groups(Path::new("/sys/fs/cgroup"), &groups);
    Some(group.map_or(machine, |group| machine.min(group)))
}

/// The line `MemAvailable: N kB` of `/proc/meminfo`.
fn available_of(meminfo: &str) -> Option<u64> {
    super::kibibytes_of(meminfo, "MemAvailable:")?.checked_mul(1024)
}

/// What the strictest of the groups leaves; `groups` is `/proc/self/cgroup`, with lines `ID:CONTROLLERS:PATH`.
fn available_in_groups(root: &Path, groups: &str) -> Option<u64> {
    let of_line = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (root, files) = match controllers {
            "" => (root.to_owned(), &VERSION_2),
            list if list.split(',').any(|name| name == "memory") => {
                (root.join("memory"), &VERSION_1)
            }
            _ => return None,
        };
        // A group has no more than those around it. In a container the outer part of the path may not be there.
        let folders = Path::new(path).ancestors();
        folders
            .map(|folder| root.join(folder.strip_prefix("/").unwrap_or(folder)))
            .filter_map(|folder| files.available(&folder))
            .min()
    };
    groups.lines().filter_map(of_line).min()
}

/// The files of a group.
struct GroupFiles {
    limit: &'static str,
    used: &'static str,
    /// Names in `memory.stat` of what counts as used and can be had back.
    cached: [&'static str; 2],
}

const VERSION_2: GroupFiles = GroupFiles {
    limit: "memory.max",
    used: "memory.current",
    cached: ["active_file ", "inactive_file "],
};

const VERSION_1: GroupFiles = GroupFiles {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cached: ["total_active_file ", "total_inactive_file "],
};

impl GroupFiles {
    /// What a group's limit leaves; none without a limit.
    fn available(&self, folder: &Path) -> Option<u64> {
        let text = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
        let number = |name: &str| text(name)?.trim().parse::<u64>().ok();
        let limit = number(self.limit)?;
        let stat = text("memory.stat").unwrap_or_default();
        let cached = self.cached.map(|name| {
            let value = stat.lines().find_map(|line| line.strip_prefix(name));
            value
                .and_then(|value| value.trim().parse().ok())
                .unwrap_or(0)
        });
        let used = number(self.used).unwrap_or(0);
        let kept = cached.into_iter().fold(used, u64::saturating_sub);
        Some(limit.saturating_sub(kept))
    }
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

    /// The formats are those of Linux' documentation of control groups.
    #[test]
    fn the_strictest_group_counts_and_cached_files_can_be_had_back() {
        let root = tempfile::tempdir().expect("a folder can be made");
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().expect("it is in a folder"))
                .expect("a folder can be made");
            std::fs::write(path, text).expect("a file can be written");
        };
        let available = |groups: &str| available_in_groups(root.path(), groups);
        assert_eq!(available("0::/\n"), None);
        write("a/memory.max", "1000\n");
        write("a/memory.current", "700\n");
        write(
            "a/memory.stat",
            "anon 5\ninactive_file 300\nactive_file 100\n",
        );
        write("a/b/memory.max", "max\n");
        assert_eq!(available("0::/a/b\n"), Some(700));
        write("a/b/memory.max", "650\n");
        assert_eq!(available("0::/a/b\n"), Some(650));
        write("memory/c/memory.limit_in_bytes", "400\n");
        write("memory/c/memory.usage_in_bytes", "100\n");
        assert_eq!(available("5:cpu,memory:/c\n0::/a/b\n"), Some(300));
        assert_eq!(available("5:cpu:/c\n"), None);
    }
}
