//! `execute_command`: what a command may reach and how its end is told. Walls and processes are the
//! sandbox's matter.

use std::path::{Path, PathBuf};
use std::time::Duration;

use codelab_policy::Policy;
use codelab_protocol::ExecuteCommand;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::error::ToolRefusal;
use crate::options::{Bounds, Network, WorkspaceLimits, WorkspaceOptions};
use crate::root::Root;
use crate::sandbox::git::settings::{self, Committer};
use crate::sandbox::git::{self, GitAccess};
use crate::sandbox::guard::{Baseline, Change, GuardedChange, RecordLock, RemovedTo};
use crate::sandbox::{
    Boundary, CommandEnd, Finished, GuardedPaths, Launcher, Sandbox, SupervisorJob, environment,
    run, view,
};

/// Beneath the data folder.
const REMOVED: &str = "removed";
const BASELINES: &str = "baselines";
const GIT_SETTINGS: &str = "gitconfig";
/// Changes of protected paths that a result names.
const MAX_NAMED: usize = 20;

/// Everything commands have in common.
pub(crate) struct Commands {
    sandbox: Sandbox,
    launcher: Launcher,
    network: Network,
    readable: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    home: Option<PathBuf>,
    /// Patterns that are protected beyond the policy's own.
    patterns: Vec<String>,
    removed_to: PathBuf,
    baselines: PathBuf,
    identity: Committer,
    environment: Vec<String>,
    limits: WorkspaceLimits,
    bounds: Bounds,
}

impl Commands {
    pub fn new(options: WorkspaceOptions, hidden: Vec<PathBuf>) -> Self {
        let readable = view::readable(&options);
        let WorkspaceOptions {
            sandbox,
            launcher,
            network,
            writable,
            environment,
            limits,
            bounds,
            policy,
            home,
            ..
        } = options;
        let home = home
            .map(|home| home.canonicalize().unwrap_or(home))
            .filter(|home| home.parent().is_some());
        let own = options.data_dir.unwrap_or_else(|| {
            let user = rustix::process::geteuid().as_raw();
            std::env::temp_dir().join(format!("codelab-of-{user}"))
        });
        Self {
            removed_to: own.join(REMOVED),
            baselines: own.join(BASELINES),
            identity: Committer::of_person(home.as_deref()),
            patterns: added_patterns(&policy),
            sandbox,
            launcher,
            network,
            readable,
            hidden,
            writable,
            home,
            environment,
            limits,
            bounds,
        }
    }

    /// Held while a tool writes a file: no command begins or ends in between, and those that run
    /// are not taken for the writer.
    pub fn gate(&self, root: &Root) -> Result<Option<RecordLock>, ToolRefusal> {
        if self.sandbox.is_none() {
            return Ok(None);
        }
        let failed = |source| ToolRefusal::Io {
            what: "the record of protected paths".to_owned(),
            source,
        };
        Baseline::of(&self.baselines, root.path())
            .gate()
            .map(Some)
            .map_err(failed)
    }

    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Where nothing is behind a wall, nothing is guarded either: every command asks.
    fn guarded(&self, root: &Root, access: GitAccess) -> std::io::Result<(Boundary, GuardedPaths)> {
        let absolute = |paths: Vec<PathBuf>| {
            paths
                .into_iter()
                .map(|path| root.path().join(path))
                .collect()
        };
        let mut boundary = Boundary {
            readable: self.readable.clone(),
            hidden: self.hidden.clone(),
            home: self.home.clone(),
            network: self.network,
            ..Boundary::default()
        };
        let mut protected = GuardedPaths {
            root: root.path().to_owned(),
            patterns: self.patterns.clone(),
            left_out: root.private().to_vec(),
            git: access,
            removed_to: self.removed_to.clone(),
            baselines: self.baselines.clone(),
            ..GuardedPaths::default()
        };
        if self.sandbox.is_none() {
            return Ok((boundary, protected));
        }
        let git = git::protect(root.dir(), root.path(), access)?;
        protected.named = settings::places(root.path(), self.home.as_deref())?;
        match (&self.sandbox, access) {
            (_, GitAccess::Read) | (Sandbox::Landlock, GitAccess::Write) => {
                boundary.readable.extend(git.elsewhere)
            }
            (Sandbox::Bwrap { .. } | Sandbox::None, GitAccess::Write) => {
                boundary.writable.extend(git.elsewhere)
            }
        }
        match (&self.sandbox, access) {
            // Landlock cannot say "all but": the few parts are compared instead, and only git runs.
            (Sandbox::Landlock, GitAccess::Write) => {}
            (Sandbox::Landlock, GitAccess::Read) => boundary.read_only = absolute(git.read_only),
            (Sandbox::Bwrap { .. } | Sandbox::None, _) => {
                boundary.pinned = absolute(git.pinned);
                boundary.read_only = absolute(git.read_only);
                boundary.covered = absolute(git.covered);
            }
        }
        // Whoever develops CodeLab with CodeLab: the next command starts this program outside the
        // wall.
        if self.launcher.program.starts_with(root.path()) {
            boundary.read_only.push(self.launcher.program.clone());
        }
        Ok((boundary, protected))
    }
}

/// Every process of the sandbox knows the built-in ones.
fn added_patterns(policy: &Policy) -> Vec<String> {
    let built_in = Policy::default();
    let built_in: Vec<&str> = built_in.protected_patterns().collect();
    policy
        .protected_patterns()
        .filter(|pattern| !built_in.contains(pattern))
        .map(str::to_owned)
        .collect()
}

/// A command that is ready to run, and the folder for its temporary files.
pub(crate) struct PreparedCommand {
    job: SupervisorJob,
    timeout_seconds: u64,
    scratch: TempDir,
    /// Because of these the git folder stays read-only.
    programs: Vec<String>,
}

/// Whether a person has approved this very command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Approved {
    Yes,
    No,
}

/// Blocks on the file system.
pub(crate) fn prepare(
    root: &Root,
    commands: &Commands,
    call: &ExecuteCommand,
    approved: Approved,
) -> Result<PreparedCommand, ToolRefusal> {
    if call.command.contains('\0') {
        return Err(ToolRefusal::NotStarted(
            "it contains a NUL character".to_owned(),
        ));
    }
    let (_, folder) = root.folder(call.cwd.as_deref().unwrap_or("."))?;
    if !root.is_in_place() {
        return Err(ToolRefusal::NotStarted(
            "the workspace was moved or replaced".to_owned(),
        ));
    }
    let is_git = approved == Approved::Yes && codelab_policy::is_git_only(&call.command);
    // The approval did not name the programs that the repository's settings make git run.
    let programs = if is_git {
        settings::programs(root.dir(), root.path())
    } else {
        Vec::new()
    };
    let access = if is_git && programs.is_empty() {
        GitAccess::Write
    } else {
        GitAccess::Read
    };
    let scratch = scratch(root, commands)?;
    let (mut boundary, protected) = commands.guarded(root, access).map_err(|error| {
        ToolRefusal::NotStarted(format!("the repository cannot be protected: {error}"))
    })?;
    boundary
        .writable
        .extend([root.path().to_owned(), scratch.path().to_owned()]);
    boundary.writable.extend(commands.writable.iter().cloned());
    let git = settings::environment(&scratch.path().join(GIT_SETTINGS), access);
    let job = SupervisorJob {
        sandbox: commands.sandbox.clone(),
        boundary,
        protected,
        bounds: commands.bounds,
        command: call.command.clone(),
        folder: root.path().join(folder),
        environment: environment::scrubbed(&commands.environment, scratch.path(), git),
    };
    let timeout_seconds = call
        .timeout_seconds
        .unwrap_or(commands.limits.command_timeout_seconds);
    let timeout_seconds = timeout_seconds.min(commands.limits.command_timeout_max_seconds);
    Ok(PreparedCommand {
        job,
        timeout_seconds,
        scratch,
        programs,
    })
}

/// A folder for temporary files, with the settings that git has for a person's.
fn scratch(root: &Root, commands: &Commands) -> Result<TempDir, ToolRefusal> {
    let failed = |source| ToolRefusal::Io {
        what: "a folder for temporary files".to_owned(),
        source,
    };
    let scratch = tempfile::Builder::new()
        .prefix("codelab-")
        .tempdir()
        .map_err(failed)?;
    let settings = commands.identity.settings(root.path());
    std::fs::write(scratch.path().join(GIT_SETTINGS), settings).map_err(failed)?;
    Ok(scratch)
}

/// What git would run of the workspace's own accord, if the command runs git at all.
pub(crate) fn programs_of_git(root: &Root, command: &str) -> Vec<String> {
    if codelab_policy::runs_git(command) {
        programs_of_repositories(root)
    } else {
        Vec::new()
    }
}

pub(crate) fn programs_of_repositories(root: &Root) -> Vec<String> {
    settings::programs(root.dir(), root.path())
}

pub(crate) async fn execute(
    commands: &Commands,
    prepared: PreparedCommand,
    cancel: &CancellationToken,
) -> Value {
    let PreparedCommand {
        job,
        timeout_seconds,
        scratch,
        programs,
    } = prepared;
    let time_limit = Duration::from_secs(timeout_seconds);
    let finished = run(
        &commands.launcher,
        &job,
        time_limit,
        cancel,
        &commands.limits,
    )
    .await;
    // However much the command left there.
    tokio::task::spawn_blocking(move || drop(scratch));
    result(commands, finished, timeout_seconds, &programs)
}

fn result(
    commands: &Commands,
    finished: Finished,
    timeout_seconds: u64,
    programs: &[String],
) -> Value {
    let (exit_code, mut error) = match finished.ending {
        CommandEnd::Exited(code) => (Some(code), None),
        CommandEnd::Signalled(signal) => (
            Some(128 + signal),
            Some(format!("the command was ended by signal {signal}")),
        ),
        CommandEnd::TimedOut => (
            None,
            Some(format!(
                "the command was stopped after {timeout_seconds} s; everything it started was ended"
            )),
        ),
        CommandEnd::Cancelled => (None, Some("cancelled".to_owned())),
        CommandEnd::NotStarted(reason) => (None, Some(ToolRefusal::NotStarted(reason).to_string())),
        CommandEnd::Lost => (
            None,
            Some("the command's end was not seen: its outcome is unknown".to_owned()),
        ),
    };
    let is_success = exit_code == Some(0) && error.is_none();
    if error.is_none() && !is_success {
        error = explained(commands, &finished.stderr, programs);
    }
    if let Some(limit) = finished.limited {
        error = Some(limit);
    }
    if finished.is_not_compared {
        let known = error.map(|error| format!("{error}; ")).unwrap_or_default();
        error = Some(format!(
            "{known}protected paths were not compared, so that the command may have changed hooks, git's settings, or files of \
             editors and CI: look at them before you go on"
        ));
    }
    let changes = finished.compared.changes;
    if !changes.is_empty() {
        let named: Vec<String> = changes.iter().take(MAX_NAMED).map(described).collect();
        let more = changes.len() - named.len();
        let more = if more > 0 {
            format!("; and {more} more")
        } else {
            String::new()
        };
        error = Some(format!(
            "the command changed what only a person may change: {}{more}",
            named.join("; ")
        ));
    }
    let mut result = json!({
        "success": is_success && error.is_none(),
        "exit_code": exit_code,
        "stdout": finished.stdout,
        "stderr": finished.stderr,
    });
    if finished.is_truncated {
        result["truncated"] = json!(true);
    }
    if !finished.compared.warnings.is_empty() {
        result["warnings"] = json!(finished.compared.warnings);
    }
    if let Some(error) = error {
        result["error"] = json!(error);
    }
    result
}

fn explained(commands: &Commands, stderr: &str, programs: &[String]) -> Option<String> {
    if programs.is_empty() {
        return commands.sandbox.explain(stderr, &commands.bounds);
    }
    let named = programs.join(", ");
    Some(format!(
        "the git folder stayed read-only, because this repository's settings make git run programs ({named}): a person can run \
         the command outside the sandbox"
    ))
}

fn described(change: &Change) -> String {
    let path = &change.path;
    match &change.done {
        GuardedChange::Removed(RemovedTo::MovedTo(place)) => format!("{path} was moved to {place}"),
        GuardedChange::Removed(RemovedTo::Deleted) => {
            format!("{path} was deleted, since it was too much to be kept")
        }
        GuardedChange::PutBack(instead) => {
            let places: Vec<&str> = instead.iter().map(place_of).collect();
            let instead = if places.is_empty() {
                String::new()
            } else {
                format!(" (instead of it: {})", places.join(", "))
            };
            format!("{path} was put back{instead}")
        }
        GuardedChange::Failed(error) => format!("{path} could not be put back: {error}"),
    }
}

fn place_of(gone: &RemovedTo) -> &str {
    match gone {
        RemovedTo::MovedTo(place) => place,
        RemovedTo::Deleted => "deleted",
    }
}
