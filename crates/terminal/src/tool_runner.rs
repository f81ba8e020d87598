//! The hands: a client attached to one project that runs its tool calls in one folder, each at most
//! once.
//!
//! A call is claimed at the server, noted in the journal, run behind the sandbox, noted again,
//! sent, and only then forgotten. What a crash left behind is reported at the next start and never
//! run again.

mod call;
mod deliver;
mod folder;
mod follow;
mod settle;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codelab_client::{Client, ClientError};
use codelab_policy::Policy;
use codelab_protocol::{
    AttachClient, CallId, ClientId, CommandPart, ProjectId, SessionId, Tool, ToolCall, UserId,
};
use codelab_workspace::{
    Bounds, CallKey, Journal, JournalError, Launcher, Network, OpenError, Sandbox, Workspace,
    WorkspaceOptions,
};
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Calls of different sessions that run at once; those of one session run one after the other.
const MAX_PARALLEL_CALLS: usize = 8;
/// Events that wait to be shown; more are dropped, since they are for the eye only.
const MAX_EVENTS: usize = 256;
/// How long results may take to reach the server when the hands stop; what did not is sent at the
/// next start.
const STOPPING: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct ToolRunnerOptions {
    pub client: Client,
    /// What tells this server from others, such as its address: what is left for one is never sent
    /// to another.
    pub server: String,
    /// Whom the client's token is for; a call for somebody else is refused.
    pub user_id: Option<UserId>,
    /// The user's default project where absent.
    pub project: Option<ProjectId>,
    pub serves: ServedCalls,
    pub workspace_root: PathBuf,
    /// CodeLab's own data folder, where the journal is kept; tools and commands cannot read it.
    pub data_dir: PathBuf,
    /// How this program starts itself again to run a command.
    pub launcher: Launcher,
    /// Whether commands reach other machines.
    pub network: Network,
    /// What asks here, whatever the server decided.
    pub policy: Policy,
    /// What one command may use.
    pub bounds: Bounds,
    /// Folders that commands may read beside the workspace and the known toolchains.
    pub readable: Vec<PathBuf>,
    /// Who is asked at this machine. With nobody there, what would ask is refused.
    pub ask: Option<mpsc::Sender<RunnerQuestion>>,
}

/// Whose calls the hands take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedCalls {
    /// Those of every session of the project. Hands that serve a session of their own come first.
    Project,
    /// Those of the sessions named with [`Hands::serve`] only.
    Named,
}

/// A tool call that the client itself wants a person to see. Dropping it refuses the call.
#[derive(Debug)]
pub struct RunnerQuestion {
    pub call: CallInfo,
    pub arguments: Map<String, Value>,
    pub reason: String,
    /// The simple commands of a shell line, each with why it asks.
    pub parts: Vec<CommandPart>,
    pub reply: oneshot::Sender<bool>,
}

/// Which call something is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallInfo {
    pub session_id: SessionId,
    pub call_id: CallId,
    pub tool: Tool,
}

/// What happens, for display.
#[derive(Debug, Clone)]
pub enum ToolRunnerEvent {
    Started {
        call: CallInfo,
        arguments: Map<String, Value>,
    },
    /// It ran, well or not.
    Finished {
        call: CallInfo,
        success: bool,
        error: Option<String>,
    },
    /// It did not run, and the server was told why.
    Refused {
        call: CallInfo,
        reason: String,
    },
    /// The server closed the call before it could run, or while it did.
    Closed {
        call: CallInfo,
    },
    /// An earlier process started this call and did not live to see its end. It is not run again.
    Unknown {
        call: CallInfo,
    },
    Disconnected {
        reason: String,
    },
    Reconnected,
    /// The server refuses for good; nothing more is run.
    Ended {
        reason: String,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum ToolRunnerError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Workspace(#[from] OpenError),
    #[error("another codelab works in this folder for the same project: {0}")]
    InUse(PathBuf),
    #[error(transparent)]
    Journal(JournalError),
    #[error("{path}: {source}")]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("there is no default project; name one of: {0}")]
    NoProject(String),
}

pub struct ToolRunner {
    shared: Arc<RunnerState>,
    events: mpsc::Receiver<ToolRunnerEvent>,
    /// Why stronger sandboxes were not taken.
    sandbox_refused: Vec<String>,
}

pub(crate) struct RunnerState {
    client: Client,
    client_id: ClientId,
    project: ProjectId,
    user_id: Option<UserId>,
    workspace: Workspace,
    journal: Arc<Journal>,
    events: mpsc::Sender<ToolRunnerEvent>,
    ask: Option<mpsc::Sender<RunnerQuestion>>,
    stop: CancellationToken,
    tasks: TaskTracker,
    slots: Semaphore,
    /// Calls that are being worked on, and what stops each.
    running: Mutex<HashMap<CallKey, CancellationToken>>,
    serves: ServedCalls,
    /// Sessions that were named, and those that a call was claimed for.
    served: Mutex<HashSet<SessionId>>,
    /// One call at a time per session.
    lanes: Mutex<HashMap<SessionId, Arc<tokio::sync::Mutex<()>>>>,
}

impl ToolRunner {
    /// Reports what an earlier process left, attaches, and works until it is stopped.
    pub async fn start(options: ToolRunnerOptions) -> Result<Self, ToolRunnerError> {
        let ToolRunnerOptions {
            client,
            server,
            user_id,
            project,
            serves,
            ..
        } = options;
        let ToolRunnerOptions {
            workspace_root,
            data_dir,
            launcher,
            network,
            policy,
            bounds,
            readable,
            ask,
            ..
        } = options;
        let project = match project {
            Some(project) => project,
            None => default_project(&client).await?,
        };
        let detection = Sandbox::detect(&launcher).await;
        let workspace = Workspace::open(
            &workspace_root,
            WorkspaceOptions {
                user_id,
                data_dir: Some(data_dir.clone()),
                network,
                policy,
                bounds,
                readable,
                sandbox: detection.sandbox,
                ..WorkspaceOptions::new(launcher)
            },
        )?;
        let slot = folder::of(&data_dir, &server, project, workspace.root());
        let (journal, client_id) =
            folder::take(&slot, serves)?.ok_or_else(|| in_use(&workspace))?;
        let (sender, events) = mpsc::channel(MAX_EVENTS);
        let shared = Arc::new(RunnerState {
            client,
            client_id,
            project,
            user_id,
            workspace,
            journal: Arc::new(journal),
            events: sender,
            ask,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            slots: Semaphore::new(MAX_PARALLEL_CALLS),
            running: Mutex::default(),
            serves,
            served: Mutex::default(),
            lanes: Mutex::default(),
        });
        shared.attach().await?;
        if shared.settle().await? {
            shared.attach().await?;
        }
        shared.tasks.spawn(
            shared
                .stop
                .clone()
                .run_until_cancelled_owned(follow::stay_attached(Arc::clone(&shared))),
        );
        shared.tasks.spawn(
            shared
                .stop
                .clone()
                .run_until_cancelled_owned(follow::follow(Arc::clone(&shared))),
        );
        Ok(Self {
            shared,
            events,
            sandbox_refused: detection.refused,
        })
    }

    /// Takes the calls of this session, also those that wait already.
    pub fn serve(&self, session: &SessionId) {
        if lock(&self.shared.served).insert(session.clone()) {
            let caught_up = follow::catch_up_with(Arc::clone(&self.shared), session.clone());
            self.shared.tasks.spawn(
                self.shared
                    .stop
                    .clone()
                    .run_until_cancelled_owned(caught_up),
            );
        }
    }

    pub fn project(&self) -> ProjectId {
        self.shared.project
    }

    pub fn client_id(&self) -> &ClientId {
        &self.shared.client_id
    }

    /// The folder it works in, without symbolic links.
    pub fn workspace(&self) -> &std::path::Path {
        self.shared.workspace.root()
    }

    /// `bwrap+landlock`, `bwrap`, `landlock` or `none`.
    pub fn sandbox(&self) -> &'static str {
        self.shared.workspace.sandbox().as_str()
    }

    /// Why stronger sandboxes were not taken, one line each.
    pub fn sandbox_refused(&self) -> &[String] {
        &self.sandbox_refused
    }

    /// What happens next. Dropping the future loses nothing. What nobody reads is dropped, the work
    /// goes on.
    pub async fn next(&mut self) -> ToolRunnerEvent {
        match self.events.recv().await {
            Some(event) => event,
            // The sender is this value's own.
            None => std::future::pending().await,
        }
    }

    /// Stops what runs, sends its results, lets go of the project.
    pub async fn stop(self) {
        let shared = &self.shared;
        shared.stop.cancel();
        shared.tasks.close();
        let sent = tokio::time::timeout(STOPPING, async {
            shared.tasks.wait().await;
            shared
                .client
                .detach_client(shared.project, &shared.client_id)
                .await
        });
        match sent.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the client could not be detached"),
            Err(_) => tracing::warn!(
                "the server did not take everything in time; the rest is sent at the next start"
            ),
        }
    }
}

impl Drop for ToolRunner {
    /// Commands do not outlive their hands, also when nobody waited for them to stop.
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

impl RunnerState {
    fn tell(&self, event: ToolRunnerEvent) {
        if self.events.try_send(event).is_err() {
            tracing::debug!("an event of the hands was not shown");
        }
    }

    async fn attach(&self) -> Result<(), ClientError> {
        let body = AttachClient {
            client_id: self.client_id.clone(),
            workspace: self.workspace.root().display().to_string(),
            sandbox: self.workspace.sandbox().kind(),
        };
        self.client
            .attach_client(self.project, &body)
            .await
            .map(|_| ())
    }

    /// Journal steps wait for the disk.
    async fn on_disk<T: Send + 'static>(
        &self,
        step: impl FnOnce(&Journal) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let journal = Arc::clone(&self.journal);
        tokio::task::spawn_blocking(move || step(&journal))
            .await
            .unwrap_or(Err(JournalError::Broken))
    }
}

impl CallInfo {
    fn of(key: &CallKey, tool: Tool) -> Self {
        Self {
            session_id: key.session_id.clone(),
            call_id: key.call_id.clone(),
            tool,
        }
    }

    fn key(&self) -> CallKey {
        CallKey {
            session_id: self.session_id.clone(),
            call_id: self.call_id.clone(),
        }
    }
}

/// The tool of a call that a client runs.
fn client_tool(call: &ToolCall) -> Option<Tool> {
    Tool::parse(&call.name).filter(|tool| tool.side() == codelab_protocol::ToolSide::Client)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that holds these locks can leave them half-changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn in_use(workspace: &Workspace) -> ToolRunnerError {
    ToolRunnerError::InUse(workspace.root().to_owned())
}

async fn default_project(client: &Client) -> Result<ProjectId, ToolRunnerError> {
    let projects = client.projects().await?;
    let default = projects
        .iter()
        .find(|project| project.is_default)
        .map(|project| project.project_id);
    default.ok_or_else(|| {
        let named = projects
            .iter()
            .map(|project| format!("{} ({})", project.project_id, project.name));
        ToolRunnerError::NoProject(named.collect::<Vec<_>>().join(", "))
    })
}
