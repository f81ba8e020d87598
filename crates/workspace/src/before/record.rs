//! What is remembered of each call that wrote.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use codelab_protocol::{CallId, SessionId};
use serde::{Deserialize, Serialize};

use super::{BeforeStore, CALLS, short_name, write_whole};
use crate::journal::CallKey;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Content {
    pub hash: String,
    pub size: u64,
}

/// What is at a path. Links are never followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum PathState {
    Absent,
    File {
        #[serde(flatten)]
        content: Content,
        /// Unknown where the process ended before it could say.
        mode: Option<u32>,
    },
    Folder {
        mode: Option<u32>,
    },
    /// A link, a device or a pipe. No tool makes one, so it is somebody else's.
    Other,
}

impl PathState {
    /// Whether it is the same to whoever looks at it.
    pub fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::File { content, mode },
                Self::File {
                    content: others,
                    mode: its,
                },
            ) => content == others && (mode.is_none() || its.is_none() || mode == its),
            (Self::Folder { .. }, Self::Folder { .. }) | (Self::Absent, Self::Absent) => true,
            _ => false,
        }
    }

    pub fn content(&self) -> Option<&Content> {
        match self {
            Self::File { content, .. } => Some(content),
            Self::Absent | Self::Folder { .. } | Self::Other => None,
        }
    }
}

/// What a call replaced, or why nothing is kept of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EarlierState {
    Kept(PathState),
    NotKept(String),
}

/// One call that wrote, as it was about to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct WriteRecord {
    pub session_id: SessionId,
    pub call_id: CallId,
    /// Nanoseconds since 1970. Later calls have larger ones.
    pub at: u64,
    /// From the root, without links.
    pub path: PathBuf,
    pub before: EarlierState,
    pub after: PathState,
    /// Folders that did not exist before it, the outermost first.
    #[serde(default)]
    pub created: Vec<PathBuf>,
}

impl BeforeStore {
    pub(super) fn record_path(&self, key: &CallKey) -> PathBuf {
        let name = format!("{}.json", short_name(key.call_id.as_str()));
        self.session_folder(CALLS, key.session_id.as_str())
            .join(name)
    }

    pub(super) fn save(&self, record: &WriteRecord) -> io::Result<()> {
        let key = CallKey {
            session_id: record.session_id.clone(),
            call_id: record.call_id.clone(),
        };
        let text = serde_json::to_vec(record).map_err(io::Error::other)?;
        write_whole(&self.record_path(&key), &text)
    }

    pub(super) fn record(&self, key: &CallKey) -> Option<WriteRecord> {
        read_json(&self.record_path(key)).filter(|record: &WriteRecord| {
            record.session_id == key.session_id && record.call_id == key.call_id
        })
    }

    pub(super) fn forget(&self, key: &CallKey) {
        if let Err(error) = fs::remove_file(self.record_path(key))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(%error, "the record of a write that did not happen was not removed");
        }
    }
}

/// `None` if there is none, or if it is damaged: then nothing is known.
pub(super) fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    let text = fs::read(path).ok()?;
    serde_json::from_slice(&text)
        .inspect_err(|error| tracing::warn!(%error, "a record of what writes replaced is damaged"))
        .ok()
}
