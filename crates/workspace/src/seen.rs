//! What files looked like when they were last read or written, so that a write can tell that
//! somebody else was there.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use cap_fs_ext::MetadataExt;
use cap_std::fs::File;
use sha2::{Digest as _, Sha256};

/// The oldest are forgotten first. A write to a forgotten file is not checked.
const MAX_FILES: usize = 4096;

/// Larger files are told apart by their metadata alone.
pub(crate) const MAX_HASHED_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fingerprint {
    Content([u8; 32]),
    Metadata {
        size: u64,
        modified: Option<SystemTime>,
        inode: u64,
    },
}

#[derive(Default)]
pub(crate) struct SeenFiles(Mutex<Files>);

#[derive(Default)]
struct Files {
    fingerprints: HashMap<PathBuf, Fingerprint>,
    order: VecDeque<PathBuf>,
}

impl Fingerprint {
    pub fn of_content(bytes: &[u8]) -> Self {
        Self::Content(Sha256::digest(bytes).into())
    }

    /// Leaves the file at its start.
    pub fn of_file(file: &mut File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        if metadata.len() > MAX_HASHED_BYTES {
            let modified = metadata
                .modified()
                .ok()
                .map(cap_std::time::SystemTime::into_std);
            return Ok(Self::Metadata {
                size: metadata.len(),
                modified,
                inode: metadata.ino(),
            });
        }
        let mut bytes = Vec::new();
        file.rewind()?;
        Read::by_ref(file)
            .take(MAX_HASHED_BYTES + 1)
            .read_to_end(&mut bytes)?;
        file.rewind()?;
        Ok(Self::of_content(&bytes))
    }
}

impl SeenFiles {
    pub fn remember(&self, real: &Path, fingerprint: Fingerprint) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if files
            .fingerprints
            .insert(real.to_owned(), fingerprint)
            .is_none()
        {
            files.order.push_back(real.to_owned());
        }
        if files.order.len() > MAX_FILES
            && let Some(oldest) = files.order.pop_front()
        {
            files.fingerprints.remove(&oldest);
        }
    }

    /// Whether the file was seen, and looked otherwise.
    pub fn differs(&self, real: &Path, now: &Fingerprint) -> bool {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.fingerprints.get(real).is_some_and(|seen| seen != now)
    }
}
