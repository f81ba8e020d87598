//! The wall around commands: bubblewrap with Landlock inside, or one of the two, or none. Where
//! there is a wall, seccomp belongs to it.
//!
//! Every command runs beneath a process of its own, this program started again ([`sandbox_exec`]),
//! which puts up the wall, runs the command and ends everything the command started when it is
//! over, or when this program is gone.

mod boundary;
mod bwrap;
mod cgroup;
mod enter;
pub(crate) mod environment;
pub(crate) mod git;
pub(crate) mod guard;
#[cfg(target_os = "linux")]
mod landlock;
mod processes;
mod run;
#[cfg(target_os = "linux")]
mod seccomp;
pub(crate) mod secrets;
mod supervisor;
pub(crate) mod view;
mod watch;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use codelab_protocol::SandboxKind;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::options::{Bounds, WorkspaceLimits};

pub(crate) use boundary::{Boundary, SupervisorJob};
pub(crate) use guard::GuardedPaths;
pub(crate) use run::{CommandEnd, Finished, run};
pub use supervisor::sandbox_exec;

const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
const BWRAP_NAMES: [&str; 3] = [
    "/usr/bin/bwrap",
    "/usr/local/bin/bwrap",
    "/run/current-system/sw/bin/bwrap",
];

/// How programs tell of a wall they met.
const DENIED: [&str; 6] = [
    "Permission denied",
    "Operation not permitted",
    "Read-only file system",
    "Device or resource busy",
    "cross-device link",
    "os error 13",
];

/// How shells tell that the kernel refused another process, before the supervisor saw that there
/// are too many.
const CROWDED: &str = "fork: retry: Resource temporarily unavailable";

/// What stands between a command and the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sandbox {
    Bwrap {
        program: PathBuf,
        /// From version 0.8 it can forbid further namespaces and bound the size of temporary
        /// folders.
        is_recent: bool,
        /// Commands are restricted by Landlock inside as well.
        with_landlock: bool,
    },
    Landlock,
    None,
}

/// How this program starts itself again to run a command: the program and the arguments that lead
/// to [`sandbox_exec`].
#[derive(Debug, Clone)]
pub struct Launcher {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

/// Which sandbox was found, and why the better ones were not taken.
#[derive(Debug, Clone)]
pub struct Detection {
    pub sandbox: Sandbox,
    pub refused: Vec<String>,
}

impl Launcher {
    /// This very program with the given arguments, such as `sandbox-exec`.
    pub fn current<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> io::Result<Self> {
        Ok(Self {
            program: std::env::current_exe()?,
            arguments: arguments.into_iter().map(Into::into).collect(),
        })
    }
}

impl Sandbox {
    /// What a server is told.
    pub fn kind(&self) -> SandboxKind {
        match self {
            Self::Bwrap {
                with_landlock: true,
                ..
            } => SandboxKind::BwrapAndLandlock,
            Self::Bwrap {
                with_landlock: false,
                ..
            } => SandboxKind::Bwrap,
            Self::Landlock => SandboxKind::Landlock,
            Self::None => SandboxKind::None,
        }
    }

    pub fn as_str(&self) -> &'static str {
        self.kind().as_str()
    }

    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// Tries each sandbox for real, the strongest first: what is installed or announced need not
    /// work.
    pub async fn detect(launcher: &Launcher) -> Detection {
        let mut refused = Vec::new();
        let bwrap = BWRAP_NAMES
            .map(Path::new)
            .into_iter()
            .find(|path| path.exists());
        match bwrap {
            Some(program) => {
                for (with_landlock, is_recent) in
                    [(true, true), (true, false), (false, true), (false, false)]
                {
                    let sandbox = Self::Bwrap {
                        program: program.to_owned(),
                        is_recent,
                        with_landlock,
                    };
                    match sandbox.probe(launcher).await {
                        Ok(()) => return Detection { sandbox, refused },
                        Err(reason) => refused.push(format!("{}: {reason}", sandbox.as_str())),
                    }
                }
            }
            None => refused.push("bwrap: not installed".to_owned()),
        }
        match Self::Landlock.probe(launcher).await {
            Ok(()) => Detection {
                sandbox: Self::Landlock,
                refused,
            },
            Err(reason) => {
                refused.push(format!("landlock: {reason}"));
                Detection {
                    sandbox: Self::None,
                    refused,
                }
            }
        }
    }

    /// Whether a command behind this wall runs, and is really kept from writing beside the one
    /// folder it was given.
    pub async fn probe(&self, launcher: &Launcher) -> Result<(), String> {
        let inside = tempfile::tempdir().map_err(|error| error.to_string())?;
        let outside = tempfile::tempdir().map_err(|error| error.to_string())?;
        let job = SupervisorJob {
            sandbox: self.clone(),
            boundary: Boundary {
                readable: view::system(),
                writable: vec![inside.path().to_owned()],
                ..Boundary::default()
            },
            protected: GuardedPaths {
                root: inside.path().to_owned(),
                baselines: outside.path().join("guard"),
                ..GuardedPaths::default()
            },
            bounds: Bounds::default(),
            command: format!("echo a >a && ! echo b >'{}/b'", outside.path().display()),
            folder: inside.path().to_owned(),
            environment: Vec::new(),
        };
        let finished = run(
            launcher,
            &job,
            PROBE_TIMEOUT,
            &CancellationToken::new(),
            &WorkspaceLimits::default(),
        )
        .await;
        match finished.ending {
            CommandEnd::Exited(0)
                if inside.path().join("a").exists() && !outside.path().join("b").exists() =>
            {
                Ok(())
            }
            CommandEnd::NotStarted(reason) => Err(reason),
            CommandEnd::Exited(_) if !finished.stderr.trim().is_empty() => {
                Err(finished.stderr.trim().to_owned())
            }
            ending => Err(format!(
                "a trial command ended otherwise than expected: {ending:?}"
            )),
        }
    }

    /// What a failed command may have met, for a model that cannot know the wall.
    pub(crate) fn explain(&self, stderr: &str, bounds: &Bounds) -> Option<String> {
        if stderr.contains(CROWDED) {
            return Some(bounds.processes_passed());
        }
        let is_denied = DENIED.iter().any(|text| stderr.contains(text));
        match self {
            Self::Landlock if is_denied => Some(
                "the sandbox lets commands change what is in the workspace, but not create or replace entries of its \
                 top folder while it holds a repository, nor change .git; create them with write_file or \
                 create_directory first"
                    .to_owned(),
            ),
            Self::Bwrap { .. } if is_denied => Some(
                "the sandbox lets commands write only in the workspace, and there not to .git nor to files that editors, \
                 hooks and CI run; a git command by itself may write .git once a person approved it"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}
