//! What a client decides about its workspace, and the limits of every tool.

use std::path::PathBuf;

use codelab_policy::Policy;
use codelab_protocol::UserId;

use crate::sandbox::{Launcher, Sandbox};

#[derive(Debug, Clone)]
pub struct WorkspaceOptions {
    /// The user this client works for; a call for somebody else is refused.
    pub user_id: Option<UserId>,
    /// CodeLab's own data folder: neither tools nor commands may read it.
    pub data_dir: Option<PathBuf>,
    /// The home folder whose credentials are hidden.
    pub home: Option<PathBuf>,
    /// More files and folders that tools and commands may not read.
    pub hidden: Vec<PathBuf>,
    /// Folders beside the workspace and the known toolchains that commands may read.
    pub readable: Vec<PathBuf>,
    /// Folders beside the workspace that commands may write, such as a package cache.
    pub writable: Vec<PathBuf>,
    pub network: Network,
    /// Environment variables that commands get beyond the built-in list.
    pub environment: Vec<String>,
    pub sandbox: Sandbox,
    /// How this program starts itself again to run a command.
    pub launcher: Launcher,
    pub policy: Policy,
    pub limits: WorkspaceLimits,
    /// What one command may use.
    pub bounds: Bounds,
}

/// Whether commands reach other machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    #[default]
    Off,
    On,
}

#[derive(Debug, Clone)]
pub struct WorkspaceLimits {
    /// What one `read_file` returns at most.
    pub read_bytes: usize,
    /// The largest file that `write_file` writes or changes.
    pub write_bytes: u64,
    pub listed_files: usize,
    pub matches: usize,
    /// Longer lines are cut in search results.
    pub match_text_bytes: usize,
    /// Kept of a command's output, per stream, from its start and from its end.
    pub output_head_bytes: usize,
    pub output_tail_bytes: usize,
    /// Where a call names no timeout.
    pub command_timeout_seconds: u64,
    pub command_timeout_max_seconds: u64,
}

impl WorkspaceOptions {
    /// No sandbox and no user until they are set; the home folder is the process's own.
    pub fn new(launcher: Launcher) -> Self {
        Self {
            user_id: None,
            data_dir: None,
            home: std::env::home_dir(),
            hidden: Vec::new(),
            readable: Vec::new(),
            writable: Vec::new(),
            network: Network::default(),
            environment: Vec::new(),
            sandbox: Sandbox::None,
            launcher,
            policy: Policy::default(),
            limits: WorkspaceLimits::default(),
            bounds: Bounds::default(),
        }
    }
}

/// What a command and everything it starts may use together; `file_bytes` is for each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Bounds {
    pub memory_bytes: u64,
    pub processes: u64,
    pub file_bytes: u64,
    pub written_bytes: u64,
    pub cpu_seconds: u64,
}

const GIB: u64 = 1024 * 1024 * 1024;

impl Default for Bounds {
    fn default() -> Self {
        Self {
            memory_bytes: (machine_memory_bytes() / 2).min(4 * GIB),
            processes: 1024,
            file_bytes: 4 * GIB,
            written_bytes: 10 * GIB,
            cpu_seconds: 600,
        }
    }
}

/// What a model and a person are told when a command passes a limit.
impl Bounds {
    pub(crate) fn memory_passed(&self) -> String {
        format!(
            "the command used more than {} of memory (sandbox.memory_bytes)",
            size(self.memory_bytes)
        )
    }

    pub(crate) fn processes_passed(&self) -> String {
        format!(
            "the command had more than {} processes (sandbox.processes)",
            self.processes
        )
    }

    pub(crate) fn file_passed(&self) -> String {
        format!(
            "the command wrote a file of more than {} (sandbox.file_bytes)",
            size(self.file_bytes)
        )
    }

    pub(crate) fn written_passed(&self) -> String {
        format!(
            "the command wrote more than {} in all (sandbox.written_bytes)",
            size(self.written_bytes)
        )
    }

    pub(crate) fn cpu_passed(&self) -> String {
        format!(
            "the command used more than {} s of processor time (sandbox.cpu_seconds)",
            self.cpu_seconds
        )
    }
}

fn size(bytes: u64) -> String {
    const MIB: u64 = 1024 * 1024;
    match bytes {
        GIB.. => format!("{:.1} GiB", bytes as f64 / GIB as f64),
        MIB.. => format!("{} MiB", bytes / MIB),
        _ => format!("{bytes} bytes"),
    }
}

/// Where the machine does not tell, half of it counts as the limit itself.
fn machine_memory_bytes() -> u64 {
    let told = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = told.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.map_or(8 * GIB, |kilobytes| kilobytes.saturating_mul(1024))
}

impl Default for WorkspaceLimits {
    fn default() -> Self {
        Self {
            read_bytes: 1024 * 1024,
            write_bytes: 16 * 1024 * 1024,
            listed_files: 2000,
            matches: 500,
            match_text_bytes: 500,
            output_head_bytes: 32 * 1024,
            output_tail_bytes: 32 * 1024,
            command_timeout_seconds: 120,
            command_timeout_max_seconds: 3600,
        }
    }
}
