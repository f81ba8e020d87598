//! What is kept of one protected path, to compare it and to put it back.

use std::path::PathBuf;

use cap_std::fs::{Metadata, MetadataExt as _};
use serde::{Deserialize, Serialize};

use super::{MAX_FILE_BYTES, identity};

/// Device and number of a file or folder: the same name with another one is another thing.
pub(in super::super) type FileIdentity = (u64, u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Kept {
    File {
        /// Without one only the content counts.
        stamp: Option<Stamp>,
        content: Option<Vec<u8>>,
        mode: u32,
    },
    Link(PathBuf),
    /// What is in it is listed by itself.
    Folder {
        /// Without one every mode is right.
        mode: Option<u32>,
    },
    /// A pipe, a socket, a device.
    Other,
}

/// A file with the same stamp has the same content: the kernel sets the last field at every change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in super::super) struct Stamp {
    identity: FileIdentity,
    pub(super) size: u64,
    changed: (i64, i64),
    /// How many names the file has. Through another name it can be changed past every wall.
    #[serde(default = "one_name")]
    names: u64,
}

/// Records of earlier versions do not say.
fn one_name() -> u64 {
    1
}

impl Kept {
    /// What a tool wrote.
    pub(in super::super) fn written(content: Vec<u8>, mode: u32) -> Self {
        let is_kept = content.len() as u64 <= MAX_FILE_BYTES;
        Self::File {
            stamp: None,
            content: is_kept.then_some(content),
            mode,
        }
    }

    /// Hard links, and the name itself.
    pub(in super::super) fn names(&self) -> u64 {
        match self {
            Self::File {
                stamp: Some(stamp), ..
            } => stamp.names,
            Self::File { stamp: None, .. } | Self::Link(_) | Self::Folder { .. } | Self::Other => 1,
        }
    }

    pub(in super::super) fn is_same_as(&self, before: &Self) -> bool {
        match (self, before) {
            (
                Self::File {
                    stamp,
                    mode,
                    content,
                },
                Self::File {
                    stamp: old_stamp,
                    mode: old_mode,
                    content: old,
                },
            ) => {
                let has_same_stamp = stamp.is_some() && stamp == old_stamp;
                mode & 0o7777 == old_mode & 0o7777
                    && self.names() <= before.names()
                    && (has_same_stamp || (content.is_some() && content == old))
            }
            (
                Self::Folder { mode: Some(mode) },
                Self::Folder {
                    mode: Some(old_mode),
                },
            ) => mode & 0o7777 == old_mode & 0o7777,
            (Self::Folder { .. }, Self::Folder { .. }) => true,
            (now, before) => now == before,
        }
    }

    /// Of two files: the same one, as long as before. Only its content may have changed.
    pub(in super::super) fn may_be_same_as(&self, before: &Self) -> bool {
        match (self, before) {
            (
                Self::File {
                    stamp: Some(now), ..
                },
                Self::File {
                    stamp: Some(old), ..
                },
            ) => (now.identity, now.size) == (old.identity, old.size),
            _ => false,
        }
    }
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            identity: identity(metadata),
            size: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            names: metadata.nlink(),
        }
    }
}
