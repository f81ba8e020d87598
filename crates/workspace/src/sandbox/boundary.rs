//! What a command may reach, and the requests that carry it to the processes that put up the wall.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Sandbox;
use super::guard::{Comparison, GuardedPaths};
use crate::options::{Bounds, Network};

/// What a command may reach. Paths are absolute, contain no symbolic links, and are those outside
/// the sandbox.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Boundary {
    /// May be read with everything beneath, except what is `hidden`. Nothing else may be read.
    pub readable: Vec<PathBuf>,
    pub writable: Vec<PathBuf>,
    /// Folders beneath a writable one that may be written but not moved away: they hold something
    /// read-only.
    pub pinned: Vec<PathBuf>,
    pub read_only: Vec<PathBuf>,
    /// Folders that do not exist yet and must not be created. Bubblewrap covers each with an empty
    /// folder; the last command to end removes these again.
    pub covered: Vec<PathBuf>,
    pub hidden: Vec<PathBuf>,
    /// Bubblewrap puts an empty folder here. Its content ends with the command.
    pub home: Option<PathBuf>,
    pub network: Network,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SupervisorJob {
    pub sandbox: Sandbox,
    pub boundary: Boundary,
    pub protected: GuardedPaths,
    pub bounds: Bounds,
    pub command: String,
    pub folder: PathBuf,
    /// The whole environment of the command.
    pub environment: Vec<(String, String)>,
}

/// What a start of this program as `sandbox-exec` is for: one JSON line on its standard input.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// Run a command and stay until everything it started has ended.
    Supervise(Box<SupervisorJob>),
    /// Give up rights and become the command.
    Enter(Box<CommandSetup>),
}

/// What the process that becomes the command needs to know.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CommandSetup {
    pub rights: Rights,
    pub bounds: Bounds,
    pub command: String,
    pub folder: PathBuf,
    pub environment: Vec<(String, String)>,
}

/// What the process itself gives up; bubblewrap has changed its view of the machine before that.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Rights {
    All,
    InsideBwrap {
        writable: Vec<PathBuf>,
        with_landlock: bool,
        network: Network,
    },
    LandlockOnly(Boundary),
}

/// What the supervising process says back, one JSON line each.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SupervisorReport {
    Started,
    NotStarted(String),
    /// Which limit the command passed; before its end is told.
    Limited(String),
    /// Everything that the command started has ended; protected paths are compared now.
    Comparing,
    /// What was put back; before the end is told.
    Compared(Comparison),
    Exited(i32),
    Signalled(i32),
}

/// The longest request.
pub(super) const MAX_REQUEST_BYTES: u64 = 16 * 1024 * 1024;

/// How an error of a process that could not become the command begins, and its exit code. Commands
/// can imitate both; they gain nothing but a wrong message about themselves.
pub(super) const ENTER_FAILED: &str = "sandbox-exec: ";
pub(super) const ENTER_FAILED_CODE: u8 = 125;
