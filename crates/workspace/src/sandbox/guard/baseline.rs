//! What the protected paths of a workspace were like when no command ran: one record on disk for
//! each workspace. Every command that runs at the same time, whichever client started it, is
//! compared with the same record. So none of them takes what another one planted for the person's
//! own.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::find::{FileIdentity, FoundPaths, Kept};
use super::git::GitAccess;

/// Locked while the record is made, changed or compared with.
const GATE: &str = "gate";
/// Every running command has a share of its lock.
const RUNNING: &str = "running";
const RECORD: &str = "record.json";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BaselineRecord {
    pub found: FoundPaths,
    /// Which git folder or file the root has.
    pub git: Option<FileIdentity>,
    /// One of the commands may write the git folder.
    pub is_git_writable: bool,
    /// More than one command was compared with it, or will be.
    pub is_shared: bool,
}

/// The place of one workspace's record.
#[derive(Debug, Clone)]
pub(crate) struct Baseline {
    folder: PathBuf,
}

/// Nobody else begins, ends or changes the record until this is dropped.
pub(crate) struct RecordLock {
    _lock: File,
    folder: PathBuf,
}

/// A command's share; it ends with the process that holds it.
pub(super) struct Running(File);

impl Baseline {
    /// `place` holds the records of all workspaces.
    pub fn of(place: &Path, root: &Path) -> Self {
        use std::os::unix::ffi::OsStrExt;
        Self {
            folder: place.join(hex::encode(
                &Sha256::digest(root.as_os_str().as_bytes())[..16],
            )),
        }
    }

    /// Waits for whoever begins or ends a command in this workspace.
    pub fn gate(&self) -> io::Result<RecordLock> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        let metadata = fs::symlink_metadata(&self.folder)?;
        let is_own = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
        if !is_own || metadata.mode() & 0o022 != 0 {
            return Err(io::Error::other(format!(
                "{} belongs to somebody else",
                self.folder.display()
            )));
        }
        let lock = open(&self.folder.join(GATE))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(RecordLock {
            _lock: lock,
            folder: self.folder.clone(),
        })
    }
}

impl RecordLock {
    /// The record that this command is compared with; where no other command runs, `look` makes a
    /// new one. The last part is a record that nobody was compared with, because a command's
    /// supervisor was ended.
    pub(super) fn begin(
        &self,
        access: GitAccess,
        look: impl FnOnce() -> io::Result<(FoundPaths, Option<FileIdentity>)>,
    ) -> io::Result<(Running, BaselineRecord, Option<BaselineRecord>)> {
        let running = Running(open(&self.folder.join(RUNNING))?);
        let is_git_writable = access == GitAccess::Write;
        let (record, left) = if running.is_last() {
            let (found, git) = look()?;
            // One that cannot be understood is of another version of this program.
            let left = self.record().unwrap_or_default();
            (
                BaselineRecord {
                    found,
                    git,
                    is_git_writable,
                    is_shared: false,
                },
                left,
            )
        } else {
            let record = self.record()?;
            let missing = || {
                io::Error::other(
                    "the record of protected paths is missing while another command runs",
                )
            };
            let mut record = record.ok_or_else(missing)?;
            record.is_shared = true;
            record.is_git_writable |= is_git_writable;
            (record, None)
        };
        self.store(&record)?;
        flock(&running.0, FlockOperation::LockShared)?;
        Ok((running, record, left))
    }

    /// A tool wrote this with a person's approval, so that no command changed it. `path` is
    /// relative to the root.
    pub(crate) fn add_written(
        &self,
        path: &Path,
        content: Option<Vec<u8>>,
        mode: u32,
        is_protected: impl Fn(&Path) -> bool,
    ) -> io::Result<()> {
        let Some(mut record) = self.record()? else {
            return Ok(());
        };
        let is_part = |path: &Path| {
            record
                .found
                .outermost
                .iter()
                .any(|top| path.starts_with(top))
                || is_protected(path)
        };
        let folders = path
            .ancestors()
            .skip(1)
            .filter(|above| !above.as_os_str().is_empty() && is_part(above));
        let mut entries: Vec<(PathBuf, Kept)> = folders
            .map(|above| (above.to_owned(), Kept::Folder { mode: None }))
            .collect();
        if is_part(path) {
            let kept = content.map_or(Kept::Folder { mode: None }, |content| {
                Kept::written(content, mode)
            });
            entries.push((path.to_owned(), kept));
        }
        if entries.is_empty() {
            return Ok(());
        }
        record.found.entries.extend(entries);
        self.store(&record)
    }

    /// A tool removed this path, so no command is to be blamed for it.
    pub(crate) fn add_removed(&self, path: &Path) -> io::Result<()> {
        let Some(mut record) = self.record()? else {
            return Ok(());
        };
        match record.found.entries.remove(path) {
            Some(_) => self.store(&record),
            None => Ok(()),
        }
    }

    pub(super) fn record(&self) -> io::Result<Option<BaselineRecord>> {
        match fs::read(self.folder.join(RECORD)) {
            Ok(text) => Ok(Some(
                serde_json::from_slice(&text).map_err(io::Error::other)?,
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn store(&self, record: &BaselineRecord) -> io::Result<()> {
        let text = serde_json::to_vec(record).map_err(io::Error::other)?;
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        io::Write::write_all(&mut file, &text)?;
        file.persist(self.folder.join(RECORD))
            .map_err(|error| error.error)?;
        Ok(())
    }

    pub(super) fn forget(&self) {
        // One that stays is told of when the next command begins.
        let _ = fs::remove_file(self.folder.join(RECORD));
    }
}

impl Running {
    /// Whether no other command has a share; then this one has the whole. Only with the gate: in
    /// between it may have nothing.
    pub fn is_last(&self) -> bool {
        flock(&self.0, FlockOperation::NonBlockingLockExclusive).is_ok()
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}
