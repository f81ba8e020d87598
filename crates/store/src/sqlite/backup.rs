//! Backs up an SQLite database, also while it is in use, and restores one that is not in use.

use std::fs::File;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::error::translate;
use super::lock::{DatabaseLock, beside, private_file};
use super::{Sqlite, absolute, check_version};
use crate::{StoreError, migrate};

impl Sqlite {
    /// A consistent copy of everything acknowledged so far, on the disk when this returns. Refuses
    /// to overwrite.
    pub async fn backup(&self, target: PathBuf) -> Result<(), StoreError> {
        let Some(path) = self.path().map(Path::to_owned) else {
            return self
                .with_connection(move |connection| copy(connection, &target))
                .await;
        };
        // A separate connection, so that a long copy does not block readers.
        let task = tokio::task::spawn_blocking(move || copy(&open_source(&path)?, &target));
        task.await.unwrap_or_else(|_| Err(StoreError::stopped()))
    }
}

/// Facts about the restored database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// The audit log was never sealed with a key.
    pub is_from_before_the_key: bool,
}

/// Replaces the database `to` by `from`. `from` is checked first and not changed. `to` must not be
/// in use. Blocks on the disk.
pub fn restore_sqlite(from: &Path, to: &Path) -> Result<Restored, StoreError> {
    check_version()?;
    let (from, to) = (absolute(from)?, absolute(to)?);
    if !from.exists() {
        return Err(StoreError::Invalid(format!(
            "there is no backup {}",
            from.display()
        )));
    }
    let _lock = DatabaseLock::take(&to)?;
    let source = open_source(&from)?;
    check_whole(&source)?;
    let restored = Restored {
        is_from_before_the_key: !is_sealed(&source)?,
    };
    let fresh = beside(&to, ".restoring");
    remove_if_there(&fresh)?;
    copy(&source, &fresh)?;
    retire(&to)?;
    std::fs::rename(&fresh, &to)
        .map_err(|error| StoreError::io("cannot put the backup in place", &error))?;
    sync_folder_of(&to)?;
    Ok(restored)
}

fn is_sealed(source: &Connection) -> Result<bool, StoreError> {
    let table = "SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name = 'audit_seals'";
    let count = |sql| {
        source
            .query_row(sql, [], |row| row.get::<_, u32>(0))
            .map_err(translate)
    };
    Ok(count(table)? > 0 && count("SELECT COUNT(*) FROM audit_seals")? > 0)
}

fn open_source(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags).map_err(translate)
}

fn check_whole(source: &Connection) -> Result<(), StoreError> {
    let verdict: String = source
        .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
        .map_err(translate)?;
    if verdict != "ok" {
        return Err(StoreError::Corrupt(
            "the backup fails its integrity check".to_owned(),
        ));
    }
    let version = migrate::sqlite_version(source).map_err(translate)?;
    match migrate::check_current(version, migrate::SQLITE) {
        // The server upgrades it at its next start.
        Ok(()) | Err(StoreError::TooOld { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The copy gets its final name only when it is complete.
fn copy(source: &Connection, target: &Path) -> Result<(), StoreError> {
    let target = absolute(target)?;
    if target.exists() {
        return Err(StoreError::Invalid(format!(
            "{} exists already",
            target.display()
        )));
    }
    let partial = beside(&target, ".partial");
    remove_if_there(&partial)?;
    let copied = copy_to(source, &partial, &target);
    let removed = remove_if_there(&partial);
    copied.and(removed)?;
    sync_folder_of(&target)
}

fn copy_to(source: &Connection, partial: &Path, target: &Path) -> Result<(), StoreError> {
    let failed = |error: &std::io::Error| StoreError::io("cannot write the copy", error);
    let name = partial
        .to_str()
        .ok_or_else(|| StoreError::Invalid("the path of the copy is not text".to_owned()))?;
    let file = private_file()
        .create_new(true)
        .write(true)
        .open(partial)
        .map_err(|error| failed(&error))?;
    source
        .execute("VACUUM INTO $1", [name])
        .map_err(translate)?;
    file.sync_all().map_err(|error| failed(&error))?;
    // Unlike a rename, a link never replaces a file that was created meanwhile. Some file systems
    // have no links.
    match std::fs::hard_link(partial, target) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            std::fs::rename(partial, target)
        }
        linked => linked,
    }
    .map_err(|error| failed(&error))
}

/// Empties the log of the database that will be replaced, so that it is never applied to the new
/// one.
fn retire(database: &Path) -> Result<(), StoreError> {
    if database.exists() {
        // A database that cannot be opened has nothing to keep.
        if let Ok(old) = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE) {
            let _ = old.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
    }
    remove_if_there(&beside(database, "-wal"))?;
    remove_if_there(&beside(database, "-shm"))
}

fn remove_if_there(path: &Path) -> Result<(), StoreError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(StoreError::io(
            &format!("cannot remove {}", path.display()),
            &error,
        )),
        _ => Ok(()),
    }
}

/// A new file name is durable only after its folder is synced.
fn sync_folder_of(path: &Path) -> Result<(), StoreError> {
    let Some(folder) = path.parent() else {
        return Ok(());
    };
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| StoreError::io("cannot sync the folder", &error))
}
