//! A disk that is soon full.

use std::path::Path;
use std::process::{Command, Stdio};

/// A small disk at a folder of its own, gone at the end.
pub struct SmallDisk<'a>(&'a Path);

impl SmallDisk<'_> {
    /// Makes the folder and mounts a disk of so many MiB there; says so loudly where this process may not.
    pub fn mount(path: &Path, mib: u32) -> Option<SmallDisk<'_>> {
        std::fs::create_dir(path).expect("a folder can be made");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"])
            .arg(path)
            .stderr(Stdio::null())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(SmallDisk(path));
        }
        println!("SKIPPED: a small disk cannot be mounted here, so a full one was not tried");
        None
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0).status();
        let gone = unmounted.is_ok_and(|status| status.success());
        assert!(
            gone || std::thread::panicking(),
            "the disk stays mounted at {}",
            self.0.display()
        );
    }
}
