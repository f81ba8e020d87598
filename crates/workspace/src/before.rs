//! What writes replaced, kept so that a person can take them back.
//!
//! A folder in the client's data folder holds the earlier content of files by its SHA-256, a record
//! for each call that wrote, and the plan of each rewind. Everything is on disk before the write that
//! it is about. Nothing here depends on git, and nothing but what calls wrote is ever looked at, so a
//! large workspace costs no more than a small one.

mod keep;
mod objects;
mod place;
mod plan;
mod record;
mod rewind;
mod room;
mod steps;
mod swap;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};

use crate::failpoint::ClientFailpoint;

pub(crate) use keep::{Keeping, folders_beneath};
pub(crate) use place::WorkspaceFiles;
pub(crate) use rewind::{Changed, RewindError};

const OBJECTS: &str = "objects";
const CALLS: &str = "calls";
const REWINDS: &str = "rewinds";
const LOCK: &str = "lock";
const TIDY_PAUSE: Duration = Duration::from_secs(60 * 60);
/// Bytes of a digest that name a session's folder or a call's file.
const NAME_BYTES: usize = 16;

/// How much is kept, and for how long. What is oldest is dropped first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BeforeLimits {
    pub total_bytes: u64,
    /// A larger file is written all the same, and cannot be rewound.
    pub object_bytes: u64,
    pub age: Duration,
    pub records: usize,
}

impl Default for BeforeLimits {
    fn default() -> Self {
        Self {
            total_bytes: 1024 * 1024 * 1024,
            object_bytes: 64 * 1024 * 1024,
            age: Duration::from_secs(30 * 24 * 60 * 60),
            records: 50_000,
        }
    }
}

/// The before-images of one workspace. Several processes can use the same folder.
pub(crate) struct BeforeStore {
    folder: PathBuf,
    limits: BeforeLimits,
    /// Bytes of all objects, as far as this process knows.
    stored_bytes: AtomicU64,
    /// The time of the last record, so that no two have the same.
    last_at: AtomicU64,
    /// Nanoseconds since 1970.
    tidied_at: AtomicU64,
    failpoint: ClientFailpoint,
}

impl BeforeStore {
    pub fn open(
        folder: &Path,
        limits: BeforeLimits,
        failpoint: ClientFailpoint,
    ) -> io::Result<Self> {
        for name in [OBJECTS, CALLS, REWINDS] {
            create_private(&folder.join(name))?;
        }
        let store = Self {
            folder: folder.to_owned(),
            limits,
            stored_bytes: AtomicU64::new(0),
            last_at: AtomicU64::new(0),
            tidied_at: AtomicU64::new(0),
            failpoint,
        };
        store.tidy_up()?;
        store.tidied_at.store(store.next_at(), Ordering::Relaxed);
        Ok(store)
    }

    /// A client can run for months.
    fn tidy_up_sometimes(&self) {
        let (now, last) = (self.next_at(), self.tidied_at.load(Ordering::Relaxed));
        let pause = u64::try_from(TIDY_PAUSE.as_nanos()).unwrap_or(u64::MAX);
        let is_time = now.saturating_sub(last) >= pause;
        let ordering = Ordering::Relaxed;
        if is_time
            && self
                .tidied_at
                .compare_exchange(last, now, ordering, ordering)
                .is_ok()
            && let Err(error) = self.tidy_up()
        {
            tracing::warn!(%error, "old contents of files could not be removed");
        }
    }

    /// Nanoseconds since 1970, later than any that was given before.
    fn next_at(&self) -> u64 {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| {
                u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
            });
        let later = |last: u64| Some(now.max(last + 1));
        let before = self
            .last_at
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
        now.max(before.unwrap_or(0) + 1)
    }

    /// Held while something is added, so that what nobody refers to yet is not taken for garbage.
    fn shared_lock(&self) -> io::Result<File> {
        let lock = self.lock_file()?;
        lock.lock_shared()?;
        Ok(lock)
    }

    fn lock_file(&self) -> io::Result<File> {
        private_file().truncate(false).open(self.folder.join(LOCK))
    }

    fn session_folder(&self, kind: &str, session: &str) -> PathBuf {
        self.folder.join(kind).join(short_name(session))
    }
}

fn short_name(text: &str) -> String {
    hex::encode(&Sha256::digest(text.as_bytes())[..NAME_BYTES])
}

fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    options
}

fn create_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn sync_dir(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// A file that is there as a whole or not at all, and on disk.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path
        .parent()
        .ok_or_else(|| io::Error::other("a file of the store has no folder"))?;
    if !folder.exists() {
        create_private(folder)?;
        folder.parent().map_or(Ok(()), sync_dir)?;
    }
    let temporary = folder.join(temporary_name()?);
    let written = private_file()
        .create_new(true)
        .open(&temporary)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&temporary, path)?;
            sync_dir(folder)
        });
    if written.is_err() {
        // It is found and removed later if this fails as well.
        let _ = fs::remove_file(&temporary);
    }
    written
}

const TEMPORARY: &str = "tmp-";

fn temporary_name() -> io::Result<String> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    Ok(format!("{TEMPORARY}{}", hex::encode(random)))
}
