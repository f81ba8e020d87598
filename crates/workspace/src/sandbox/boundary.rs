//! What a command may reach, and the job that carries it to the process that puts up the wall.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Sandbox;
use crate::options::Network;

/// Absolute paths without links. Everything may be read but `hidden`, nothing written but `writable`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Boundary {
    pub writable: Vec<PathBuf>,
    /// Folders beneath a writable one that may be written but not moved away: they hold something read-only.
    pub pinned: Vec<PathBuf>,
    pub read_only: Vec<PathBuf>,
    pub hidden: Vec<PathBuf>,
    pub network: Network,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub sandbox: Sandbox,
    pub boundary: Boundary,
    pub command: String,
    pub folder: PathBuf,
    /// What is not there before the command and must not be there after it.
    pub swept: Vec<PathBuf>,
    /// The whole environment of the command.
    pub environment: Vec<(String, String)>,
}

/// What the supervising process says back, one JSON line each.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    Started,
    NotStarted(String),
    /// What was swept away; before the end is told.
    Removed(Vec<PathBuf>),
    Exited(i32),
    Signalled(i32),
}

/// The longest job line.
pub(super) const MAX_JOB_BYTES: u64 = 16 * 1024 * 1024;
