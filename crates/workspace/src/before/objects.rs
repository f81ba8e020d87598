//! The content of files by its SHA-256.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use sha2::{Digest as _, Sha256};

use super::record::Content;
use super::{BeforeStore, OBJECTS, create_private, private_file, sync_dir, temporary_name};

const BUFFER_BYTES: usize = 64 * 1024;
/// Characters of a hash that name the folder of its object.
const FOLDER_CHARS: usize = 2;

/// Why content is not kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotKept {
    #[error("the file has {size} bytes, and at most {max_bytes} are kept of one file")]
    TooLarge { size: u64, max_bytes: u64 },
    #[error("there is no room: at most {0} bytes are kept")]
    Full(u64),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl BeforeStore {
    pub(super) fn object_path(&self, hash: &str) -> PathBuf {
        let (folder, rest) = hash.split_at_checked(FOLDER_CHARS).unwrap_or((hash, ""));
        self.folder.join(OBJECTS).join(folder).join(rest)
    }

    /// Makes room before anything is locked: dropping what is old waits for whoever adds.
    pub(super) fn room_for(&self, size: u64) -> Result<(), NotKept> {
        let max_bytes = self.limits.object_bytes;
        if size > max_bytes {
            return Err(NotKept::TooLarge { size, max_bytes });
        }
        let total = self.limits.total_bytes;
        if self
            .stored_bytes
            .load(Ordering::Relaxed)
            .saturating_add(size)
            > total
        {
            self.drop_oldest(size)?;
        }
        match self
            .stored_bytes
            .load(Ordering::Relaxed)
            .saturating_add(size)
            > total
        {
            true => Err(NotKept::Full(total)),
            false => Ok(()),
        }
    }

    /// Keeps the content on disk. The caller has made room and holds the lock.
    pub(super) fn put(&self, content: &mut impl Read) -> Result<Content, NotKept> {
        let folder = self.folder.join(OBJECTS);
        let temporary = folder.join(temporary_name()?);
        let file = private_file().create_new(true).open(&temporary)?;
        let kept = self.fill(file, content).and_then(|content| {
            let place = self.object_path(&content.hash);
            if place.exists() {
                fs::remove_file(&temporary)?;
                return Ok(content);
            }
            if let Some(parent) = place.parent().filter(|parent| !parent.exists()) {
                create_private(parent)?;
                sync_dir(&folder)?;
            }
            fs::rename(&temporary, &place)?;
            place.parent().map_or(Ok(()), sync_dir)?;
            self.stored_bytes.fetch_add(content.size, Ordering::Relaxed);
            Ok(content)
        });
        if kept.is_err() {
            // It is found and removed later if this fails as well.
            let _ = fs::remove_file(&temporary);
        }
        kept
    }

    fn fill(&self, mut file: File, content: &mut impl Read) -> Result<Content, NotKept> {
        let max_bytes = self.limits.object_bytes;
        let mut digest = Sha256::new();
        let (mut size, mut buffer) = (0, vec![0; BUFFER_BYTES]);
        loop {
            let read = content.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            size += read as u64;
            if size > max_bytes {
                return Err(NotKept::TooLarge { size, max_bytes });
            }
            digest.update(&buffer[..read]);
            file.write_all(&buffer[..read])?;
        }
        file.sync_all()?;
        Ok(Content {
            hash: hex::encode(digest.finalize()),
            size,
        })
    }

    /// The kept content; `None` if it was dropped, or is not what its name says.
    pub(super) fn get(&self, content: &Content) -> Option<Vec<u8>> {
        let bytes = fs::read(self.object_path(&content.hash)).ok()?;
        (hex::encode(Sha256::digest(&bytes)) == content.hash).then_some(bytes)
    }
}
