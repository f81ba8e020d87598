//! `execute_command`: what a command may reach and how its end is told. Walls and processes are the sandbox's matter.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use codelab_policy::Policy;
use codelab_protocol::ExecuteCommand;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{broadcast, oneshot};
use tokio_util::sync::CancellationToken;

use crate::error::Refusal;
use crate::options::{Bounds, Limits, Network, Options};
use crate::root::Root;
use crate::sandbox::git::settings::{self, Identity};
use crate::sandbox::git::{self, GitAccess};
use crate::sandbox::guard::{Change, Done};
use crate::sandbox::{
    Boundary, Ending, Finished, Job, Launcher, Meanwhile, Protected, Sandbox, environment, run, view,
};

/// Beneath the data folder.
const REMOVED: &str = "removed";
const GIT_SETTINGS: &str = "gitconfig";
/// Writes of protected paths that a command has not been told of yet.
const MAX_WRITES: usize = 1024;
/// Changes of protected paths that a result names.
const MAX_TOLD: usize = 20;

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
    identity: Identity,
    environment: Vec<String>,
    limits: Limits,
    bounds: Bounds,
    /// Tells running commands what tools write meanwhile.
    writes: broadcast::Sender<PathBuf>,
    running: Running,
}

/// The commands that run now, and the protected paths that were there before the first of them. A command must not take what
/// another one planted for the person's own.
#[derive(Default)]
struct Running {
    /// Held from the look at the workspace until a command has begun.
    known: tokio::sync::Mutex<Option<BTreeSet<PathBuf>>>,
    count: AtomicUsize,
}

impl Running {
    fn begin(&self) -> Counted<'_> {
        self.count.fetch_add(1, Ordering::SeqCst);
        Counted(&self.count)
    }
}

/// One command less when it is dropped.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Commands {
    pub fn new(options: Options, hidden: Vec<PathBuf>) -> Self {
        let readable = view::readable(&options);
        let Options { sandbox, launcher, network, writable, environment, limits, bounds, policy, home, .. } = options;
        let home = home.map(|home| home.canonicalize().unwrap_or(home)).filter(|home| home.parent().is_some());
        Self {
            removed_to: options.data_dir.unwrap_or_else(std::env::temp_dir).join(REMOVED),
            identity: Identity::of_person(home.as_deref()),
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
            writes: broadcast::channel(MAX_WRITES).0,
            running: Running::default(),
        }
    }

    /// A protected path is about to be written by a tool; `path` is relative to the root. Blocks while a command begins.
    pub fn announce_write(&self, path: PathBuf) {
        if let Some(known) = self.running.known.blocking_lock().as_mut() {
            known.extend(path.ancestors().map(Path::to_owned));
        }
        // Without commands nobody listens.
        let _ = self.writes.send(path);
    }

    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Where nothing is behind a wall, nothing is guarded either: every command asks.
    fn guarded(&self, root: &Root, access: GitAccess) -> std::io::Result<(Boundary, Protected)> {
        let absolute = |paths: Vec<PathBuf>| paths.into_iter().map(|path| root.path().join(path)).collect();
        let mut boundary = Boundary {
            readable: self.readable.clone(),
            hidden: self.hidden.clone(),
            home: self.home.clone(),
            network: self.network,
            ..Boundary::default()
        };
        let mut protected = Protected {
            root: root.path().to_owned(),
            patterns: self.patterns.clone(),
            git: access,
            removed_to: self.removed_to.clone(),
            ..Protected::default()
        };
        if self.sandbox.is_none() {
            return Ok((boundary, protected));
        }
        let git = git::protect(root.dir(), root.path(), access)?;
        protected.named = settings::places(root.path());
        if git.covered.is_empty() {
            protected.left_out.push(PathBuf::from(".git"));
        }
        match (&self.sandbox, access) {
            (_, GitAccess::Read) | (Sandbox::Landlock, GitAccess::Write) => boundary.readable.extend(git.elsewhere),
            (Sandbox::Bwrap { .. } | Sandbox::None, GitAccess::Write) => boundary.writable.extend(git.elsewhere),
        }
        match (&self.sandbox, access) {
            // Landlock cannot say "all but": the few parts are compared instead, and only git runs.
            (Sandbox::Landlock, GitAccess::Write) => protected.named.extend(git.read_only),
            (Sandbox::Landlock, GitAccess::Read) => boundary.read_only = absolute(git.read_only),
            (Sandbox::Bwrap { .. } | Sandbox::None, _) => {
                boundary.pinned = absolute(git.pinned);
                boundary.read_only = absolute(git.read_only);
                boundary.covered = absolute(git.covered);
            }
        }
        // Whoever develops CodeLab with CodeLab: the next command starts this program outside the wall.
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
    policy.protected_patterns().filter(|pattern| !built_in.contains(pattern)).map(str::to_owned).collect()
}

/// A command that is ready to run, and the folder for its temporary files.
pub(crate) struct Prepared {
    job: Job,
    timeout_seconds: u64,
    scratch: TempDir,
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
) -> Result<Prepared, Refusal> {
    if call.command.contains('\0') {
        return Err(Refusal::NotStarted("it contains a NUL character".to_owned()));
    }
    let (_, folder) = root.folder(call.cwd.as_deref().unwrap_or("."))?;
    if !root.is_in_place() {
        return Err(Refusal::NotStarted("the workspace was moved or replaced".to_owned()));
    }
    let is_git = approved == Approved::Yes && codelab_policy::git_only(&call.command).is_some();
    let access = if is_git { GitAccess::Write } else { GitAccess::Read };
    let scratch = scratch(root, commands)?;
    let (mut boundary, protected) = commands
        .guarded(root, access)
        .map_err(|error| Refusal::NotStarted(format!("the repository cannot be protected: {error}")))?;
    boundary.writable.extend([root.path().to_owned(), scratch.path().to_owned()]);
    boundary.writable.extend(commands.writable.iter().cloned());
    let git = settings::environment(&scratch.path().join(GIT_SETTINGS), access);
    let job = Job {
        sandbox: commands.sandbox.clone(),
        boundary,
        protected,
        bounds: commands.bounds,
        command: call.command.clone(),
        folder: root.path().join(folder),
        environment: environment::scrubbed(&commands.environment, scratch.path(), git),
    };
    let timeout_seconds = call.timeout_seconds.unwrap_or(commands.limits.command_timeout_seconds);
    let timeout_seconds = timeout_seconds.min(commands.limits.command_timeout_max_seconds);
    Ok(Prepared { job, timeout_seconds, scratch })
}

/// A folder for temporary files, with the settings that git has for a person's.
fn scratch(root: &Root, commands: &Commands) -> Result<TempDir, Refusal> {
    let failed = |source| Refusal::Io { what: "a folder for temporary files".to_owned(), source };
    let scratch = tempfile::Builder::new().prefix("codelab-").tempdir().map_err(failed)?;
    let settings = commands.identity.settings(root.path());
    std::fs::write(scratch.path().join(GIT_SETTINGS), settings).map_err(failed)?;
    Ok(scratch)
}

/// What git would run of the workspace's own accord, if the command runs git at all.
pub(crate) fn programs_of_git(root: &Root, command: &str) -> Vec<String> {
    if codelab_policy::runs_git(command) { settings::programs(root.dir(), root.path()) } else { Vec::new() }
}

pub(crate) async fn execute(commands: &Commands, prepared: Prepared, cancel: &CancellationToken) -> Value {
    let Prepared { mut job, timeout_seconds, scratch } = prepared;
    let time_limit = Duration::from_secs(timeout_seconds);
    let finished = {
        let mut known = commands.running.known.lock().await;
        if commands.running.count.load(Ordering::SeqCst) == 0 {
            *known = None;
        }
        let _counted = commands.running.begin();
        job.protected.known = known.clone();
        let (started, has_started) = oneshot::channel();
        let meanwhile = Meanwhile { started, allowed: commands.writes.subscribe() };
        let running = run(&commands.launcher, &job, time_limit, cancel, &commands.limits, meanwhile);
        let learn = async move {
            if let Ok(found) = has_started.await {
                known.get_or_insert(found);
            }
        };
        tokio::join!(running, learn).0
    };
    // However much the command left there.
    tokio::task::spawn_blocking(move || drop(scratch));
    result(commands, finished, timeout_seconds)
}

fn result(commands: &Commands, finished: Finished, timeout_seconds: u64) -> Value {
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
        error = commands.sandbox.explain(&finished.stderr, &commands.bounds);
    }
    if let Some(limit) = finished.limited {
        error = Some(format!("{limit}; everything it started was ended"));
    }
    let is_clean = finished.changes.is_empty();
    if !is_clean {
        let told: Vec<String> = finished.changes.iter().take(MAX_TOLD).map(tell).collect();
        let more = finished.changes.len() - told.len();
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        error = Some(format!("the command changed what only a person may change: {}{more}", told.join("; ")));
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

fn tell(change: &Change) -> String {
    let path = change.path.display();
    match &change.done {
        Done::Removed(to) => format!("{path} was moved to {}", to.display()),
        Done::PutBack => format!("{path} was put back"),
        Done::Failed(error) => format!("{path} could not be put back: {error}"),
    }
}
