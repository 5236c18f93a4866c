//! Who may read the header and who may change it, among processes that ask.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// An edit in place takes far less than a second; whoever holds the lock for longer is stuck.
#[cfg(not(test))]
const PATIENCE: Duration = Duration::from_secs(5);
#[cfg(test)]
const PATIENCE: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(5);

/// A file that nobody changes as long as this lives.
#[derive(Debug)]
pub(crate) struct Settled(File);

impl Settled {
    /// Lets other readers read, and keeps editors out.
    pub(super) fn lock(file: File, path: &Path) -> Result<Settled> {
        wait(path, || file.try_lock_shared())?;
        Ok(Settled(file))
    }

    pub(crate) fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for Settled {
    fn drop(&mut self) {
        // A map keeps the open file, and the lock with it, so closing it would not do. Where there
        // are no locks there is nothing to undo.
        let _ = self.0.unlock();
    }
}

/// Keeps everybody out until `file` is closed. False where the file system has no locks.
pub(super) fn to_write(file: &File, path: &Path) -> Result<bool> {
    wait(path, || file.try_lock())
}

fn wait(path: &Path, lock: impl Fn() -> Result<(), TryLockError>) -> Result<bool> {
    let start = Instant::now();
    loop {
        match lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if start.elapsed() < PATIENCE => {
                std::thread::sleep(PAUSE);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Busy {
                    path: path.to_owned(),
                });
            }
            // Some network file systems have none.
            Err(TryLockError::Error(_)) => return Ok(false),
        }
    }
}
