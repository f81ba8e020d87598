//! Allows one process per database, by an advisory lock on a file beside it. The system frees the
//! lock when the process ends.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use crate::StoreError;

/// The lock is held until this value is dropped.
#[derive(Debug)]
pub(crate) struct DatabaseLock(
    #[expect(dead_code, reason = "closing the file frees the lock")] File,
);

impl DatabaseLock {
    pub fn take(database: &Path) -> Result<Self, StoreError> {
        let path = beside(database, ".lock");
        let file = private_file()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|error| StoreError::io(&format!("cannot open {}", path.display()), &error))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(StoreError::Locked(database.to_owned())),
            Err(TryLockError::Error(error)) => {
                Err(StoreError::io("cannot lock the database", &error))
            }
        }
    }
}

/// `name.db` → `name.db.lock`
pub(crate) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(database);
    name.push(suffix);
    PathBuf::from(name)
}

/// Only the owner can read files created with these options.
pub(crate) fn private_file() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
