//! The journal's file: appended and synced line by line, rewritten beside itself and renamed,
//! locked while open.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::JournalError;
use super::record::JournalRecord;

const NAME: &str = "calls.journal";
const LOCK_NAME: &str = "calls.lock";
/// Beyond this a file is not the journal's own.
const MAX_READ_BYTES: u64 = 4 * 1024 * 1024 * 1024;

pub(super) struct JournalFile {
    folder: PathBuf,
    path: PathBuf,
    file: File,
    size_bytes: u64,
    compacted_bytes: u64,
    /// The lock is a file of its own, because the journal is replaced when it is compacted.
    lock: File,
}

impl Drop for JournalFile {
    fn drop(&mut self) {
        // A process that is being started meanwhile holds a copy of the handle for a moment, and
        // with it the lock.
        if let Err(error) = self.lock.unlock() {
            tracing::warn!(%error, "the journal's lock was not released");
        }
    }
}

impl JournalFile {
    pub fn open(folder: &Path) -> Result<(Self, Vec<JournalRecord>), JournalError> {
        let path = folder.join(NAME);
        let failed = |source| JournalError::Io {
            path: path.clone(),
            source,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed)?;
        let lock = private()
            .truncate(false)
            .open(folder.join(LOCK_NAME))
            .map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(JournalError::InUse { path }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let mut file = private().truncate(false).open(&path).map_err(failed)?;
        let mut bytes = Vec::new();
        Read::by_ref(&mut file)
            .take(MAX_READ_BYTES)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        let (records, whole_bytes) = read(&bytes).map_err(|line| JournalError::Damaged {
            path: path.clone(),
            line,
        })?;
        file.set_len(whole_bytes).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        let file = Self {
            folder: folder.to_owned(),
            path: path.clone(),
            file,
            size_bytes: whole_bytes,
            compacted_bytes: 0,
            lock,
        };
        Ok((file, records))
    }

    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub fn compacted_bytes(&self) -> u64 {
        self.compacted_bytes
    }

    pub fn append(&mut self, record: &JournalRecord) -> Result<(), JournalError> {
        let written = record.to_line().map_err(io::Error::other).and_then(|line| {
            self.file.write_all(line.as_bytes())?;
            self.file.sync_data()?;
            Ok(line.len() as u64)
        });
        self.size_bytes += written.map_err(|source| self.failed(source))?;
        Ok(())
    }

    /// Replaces the file's content in one step: a crash leaves the old one or the new one.
    pub fn rewrite(
        &mut self,
        records: impl Iterator<Item = JournalRecord>,
    ) -> Result<(), JournalError> {
        let temporary = self.folder.join(format!("{NAME}.new"));
        let written = private()
            .truncate(true)
            .open(&temporary)
            .and_then(|mut file| {
                let mut size_bytes = 0;
                for record in records {
                    let line = record.to_line().map_err(io::Error::other)?;
                    file.write_all(line.as_bytes())?;
                    size_bytes += line.len() as u64;
                }
                file.sync_all()?;
                fs::rename(&temporary, &self.path)?;
                File::open(&self.folder)?.sync_all()?;
                Ok((file, size_bytes))
            });
        let (file, size_bytes) = written.map_err(|source| self.failed(source))?;
        (self.file, self.size_bytes, self.compacted_bytes) = (file, size_bytes, size_bytes);
        Ok(())
    }

    fn failed(&self, source: io::Error) -> JournalError {
        JournalError::Io {
            path: self.path.clone(),
            source,
        }
    }
}

/// Results hold what files hold: nobody else reads them.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    options
}

/// The records and how many bytes they take; or the number of a damaged line that is not the last.
fn read(bytes: &[u8]) -> Result<(Vec<JournalRecord>, u64), usize> {
    let mut records = Vec::new();
    let mut whole_bytes = 0;
    let mut rest = bytes;
    while !rest.is_empty() {
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            break;
        };
        let (line, following) = (&rest[..end], &rest[end + 1..]);
        match std::str::from_utf8(line)
            .ok()
            .and_then(JournalRecord::from_line)
        {
            Some(record) => records.push(record),
            // Blocks of a file may reach the disk out of order, so a torn end can have its newline.
            None if following.is_empty() => break,
            None => return Err(records.len() + 1),
        }
        whole_bytes += end as u64 + 1;
        rest = following;
    }
    Ok((records, whole_bytes))
}
