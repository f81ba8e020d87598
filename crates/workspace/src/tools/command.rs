//! `execute_command`: what a command may reach and how its end is told. Walls and processes are the sandbox's matter.

use std::path::PathBuf;
use std::time::Duration;

use codelab_protocol::ExecuteCommand;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::error::Refusal;
use crate::options::{Limits, Network, Options};
use crate::root::Root;
use crate::sandbox::git::Protection;
use crate::sandbox::{Boundary, Ending, Finished, Job, Launcher, Sandbox, environment, git, run};

/// Everything commands have in common.
pub(crate) struct Commands {
    sandbox: Sandbox,
    launcher: Launcher,
    network: Network,
    hidden: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    environment: Vec<String>,
    limits: Limits,
}

impl Commands {
    pub fn new(options: Options, hidden: Vec<PathBuf>) -> Self {
        let Options { sandbox, launcher, network, writable, environment, limits, .. } = options;
        Self { sandbox, launcher, network, hidden, writable, environment, limits }
    }

    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }
}

/// A command that is ready to run, and the folder for its temporary files.
pub(crate) struct Prepared {
    job: Job,
    timeout_seconds: u64,
    scratch: TempDir,
}

/// Blocks on the file system.
pub(crate) fn prepare(root: &Root, commands: &Commands, call: &ExecuteCommand) -> Result<Prepared, Refusal> {
    if call.command.contains('\0') {
        return Err(Refusal::NotStarted("it contains a NUL character".to_owned()));
    }
    let (_, folder) = root.folder(call.cwd.as_deref().unwrap_or("."))?;
    if !root.is_in_place() {
        return Err(Refusal::NotStarted("the workspace was moved or replaced".to_owned()));
    }
    let what = "a folder for temporary files";
    let scratch = tempfile::Builder::new().prefix("codelab-").tempdir();
    let scratch = scratch.map_err(|source| Refusal::Io { what: what.to_owned(), source })?;
    let protection = match commands.sandbox {
        Sandbox::None => Protection::default(),
        Sandbox::Bwrap { .. } | Sandbox::Landlock => git::protect(root.dir(), root.path())
            .map_err(|error| Refusal::NotStarted(format!("the repository cannot be protected: {error}")))?,
    };
    let mut writable = vec![root.path().to_owned(), scratch.path().to_owned()];
    writable.extend(commands.writable.iter().cloned());
    let job = Job {
        sandbox: commands.sandbox.clone(),
        boundary: Boundary {
            writable,
            pinned: protection.pinned,
            read_only: protection.read_only,
            hidden: commands.hidden.clone(),
            network: commands.network,
        },
        command: call.command.clone(),
        folder: root.path().join(folder),
        swept: protection.absent,
        environment: environment::scrubbed(&commands.environment, scratch.path()),
    };
    let timeout_seconds = call.timeout_seconds.unwrap_or(commands.limits.command_timeout_seconds);
    let timeout_seconds = timeout_seconds.min(commands.limits.command_timeout_max_seconds);
    Ok(Prepared { job, timeout_seconds, scratch })
}

pub(crate) async fn execute(commands: &Commands, prepared: Prepared, cancel: &CancellationToken) -> Value {
    let Prepared { job, timeout_seconds, scratch } = prepared;
    let time_limit = Duration::from_secs(timeout_seconds);
    let finished = run(&commands.launcher, &job, time_limit, cancel, &commands.limits).await;
    // However much the command left there.
    tokio::task::spawn_blocking(move || drop(scratch));
    result(&commands.sandbox, finished, timeout_seconds)
}

fn result(sandbox: &Sandbox, finished: Finished, timeout_seconds: u64) -> Value {
    let (exit_code, mut error) = match finished.ending {
        Ending::Exited(code) => (Some(code), None),
        Ending::Signalled(signal) => (Some(128 + signal), Some(format!("the command was ended by signal {signal}"))),
        Ending::TimedOut => {
            (None, Some(format!("the command was stopped after {timeout_seconds} s; everything it started was ended")))
        }
        Ending::Cancelled => (None, Some("cancelled".to_owned())),
        Ending::NotStarted(reason) => (None, Some(Refusal::NotStarted(reason).to_string())),
        Ending::Lost => (None, Some("the command's end was not seen: its outcome is unknown".to_owned())),
    };
    let is_success = exit_code == Some(0) && error.is_none();
    if error.is_none() && !is_success {
        error = sandbox.explain(&finished.stderr);
    }
    let is_clean = finished.removed.is_empty();
    if !is_clean {
        let removed: Vec<String> = finished.removed.iter().map(|path| path.display().to_string()).collect();
        let removed = removed.join(", ");
        error = Some(format!("removed, because it would make git read another configuration: {removed}"));
    }
    let mut result = json!({
        "success": is_success && is_clean,
        "exit_code": exit_code,
        "stdout": finished.stdout,
        "stderr": finished.stderr,
    });
    if finished.is_truncated {
        result["truncated"] = json!(true);
    }
    if let Some(error) = error {
        result["error"] = json!(error);
    }
    result
}
