//! The tool runner: a client that is attached to one project and runs its tool calls in one folder,
//! each call at most once.
//!
//! It claims a call at the server, writes the claim to its journal, runs the call in the sandbox,
//! writes the result to the journal, and sends it. Only then does it forget the call. Calls that a
//! crash interrupted are reported at the next start and never run again.

mod brought;
mod call;
mod deliver;
mod folder;
mod follow;
mod mcp;
mod preview;
mod settle;
mod trust;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codelab_client::{Client, ClientError};
use codelab_policy::Policy;
use codelab_protocol::{
    ApproveMode, AttachClient, CallId, CalledTool, ClientId, CommandPart, McpServerName, McpStatus,
    ProjectId, SessionId, ToolCallChunk, UserId,
};
use codelab_workspace::{
    BeforeLimits, Bounds, CallKey, ClientFailpoint, Journal, JournalError, Launcher, Network,
    OpenError, ReadingAgent, Sandbox, Workspace, WorkspaceOptions,
};
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use brought::RunnerBrought;
use mcp::{Answers, RunnerServers};

pub use brought::{BroughtHandle, BroughtReader, BroughtState, WaitingFile};
pub use mcp::{
    AddError, ConfiguredServer, ConfiguredServers, McpNotice, McpSource, OwnConfig, Redaction,
    RunnerMcpOptions, start_server, what_starts,
};
pub use trust::{BroughtFile, TrustError, TrustState, TrustStore, kind_name};

/// Calls that run at once, each of another session. The calls of one session run one by one.
const MAX_PARALLEL_CALLS: usize = 8;
/// Events that wait to be shown. More are dropped, because they are for display only.
const MAX_EVENTS: usize = 256;
/// How long sending the last results may take when the tool runner stops. Results that were not
/// sent are sent at the next start.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct ToolRunnerOptions {
    pub client: Client,
    /// Identifies the server, for example its address. A result that is left for one server is
    /// never sent to another.
    pub server: String,
    /// The user of the client's token. A call for another user is refused.
    pub user_id: Option<UserId>,
    /// `None` means the user's default project.
    pub project: Option<ProjectId>,
    pub serves: ServedCalls,
    /// What passes without a question in the sessions that are served. `None`: what was chosen for
    /// each of them.
    pub approve: Option<ApproveMode>,
    pub workspace_root: PathBuf,
    /// CodeLab's own data folder. It holds the journal. Tools and commands cannot read it.
    pub data_dir: PathBuf,
    /// How this program starts itself again inside the sandbox.
    pub launcher: Launcher,
    /// Whether commands may use the network.
    pub network: Network,
    /// What needs an approval on this machine, whatever the server decided.
    pub policy: Policy,
    /// Resource limits of one command.
    pub bounds: Bounds,
    /// Folders that commands may read, in addition to the workspace and the known toolchains.
    pub readable: Vec<PathBuf>,
    /// More files that tools and commands may not read, such as the person's own `mcp.json`.
    pub hidden: Vec<PathBuf>,
    /// The person at this machine. Without one, calls that need an approval here are refused.
    pub ask: Option<mpsc::Sender<RunnerQuestion>>,
    /// The MCP servers that run with the tool runner.
    pub mcp: RunnerMcpOptions,
    /// For crash tests.
    pub failpoint: ClientFailpoint,
}

/// Whose calls the tool runner runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServedCalls {
    /// The calls of every session of the project. A tool runner that serves a session by name
    /// takes precedence.
    Project,
    /// Only the calls of sessions that were passed to [`ToolRunner::serve`].
    Named,
}

/// A tool call for which the client itself needs an approval. Dropping it refuses the call.
#[derive(Debug)]
pub struct RunnerQuestion {
    pub call: CallInfo,
    pub arguments: Map<String, Value>,
    pub reason: String,
    /// The simple commands of a shell line, each with the reason why it needs an approval.
    pub parts: Vec<CommandPart>,
    pub reply: oneshot::Sender<bool>,
}

/// Identifies a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallInfo {
    pub session_id: SessionId,
    pub call_id: CallId,
    pub tool: CalledTool,
}

/// Progress, for display.
#[derive(Debug, Clone)]
pub enum ToolRunnerEvent {
    Started {
        call: CallInfo,
        arguments: Map<String, Value>,
    },
    /// The call ran, with or without success.
    Finished {
        call: CallInfo,
        success: bool,
        error: Option<String>,
    },
    /// The call did not run. The server was told why.
    Refused {
        call: CallInfo,
        reason: String,
    },
    /// The call did not run: a person must see again what it would write.
    AskedAgain {
        call: CallInfo,
        reason: String,
    },
    /// The server closed the call before it ran, or while it was running.
    Closed {
        call: CallInfo,
    },
    /// An earlier process started this call and ended before the call did. It is not run again.
    Unknown {
        call: CallInfo,
    },
    /// The MCP server that works on a call says how far it is.
    Progress {
        call: CallInfo,
        progress: f64,
        total: Option<f64>,
        message: Option<String>,
    },
    /// An MCP server started, failed, or was stopped because nobody used it.
    McpServer {
        name: McpServerName,
        status: McpStatus,
        tools: usize,
        error: Option<String>,
    },
    /// The workspace brings something else now.
    Brought {
        /// Paths of contents that wait for a person since now.
        waiting: Vec<String>,
        /// Paths of contents that count since now.
        counted: Vec<String>,
    },
    Disconnected {
        reason: String,
    },
    Reconnected,
    /// The server refuses this client permanently. No more calls are run.
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
    #[error("another codelab process serves this folder for the same project: {0}")]
    InUse(PathBuf),
    #[error(transparent)]
    Journal(JournalError),
    #[error("{path}: {source}")]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("there is no default project; choose one with --project: {0}")]
    NoProject(String),
}

pub struct ToolRunner {
    shared: Arc<RunnerState>,
    events: mpsc::Receiver<ToolRunnerEvent>,
    /// Why stronger sandboxes are not used.
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
    /// Calls in progress, each with the token that stops it.
    running: Mutex<HashMap<CallKey, RunningCall>>,
    /// Approvals whose files are watched, each with the token that ends it.
    watched: Mutex<HashMap<CallKey, CancellationToken>>,
    serves: ServedCalls,
    approve: Option<ApproveMode>,
    /// Sessions that were told what passes.
    told: Mutex<HashSet<SessionId>>,
    /// Sessions that were passed to `serve`, and sessions with a claimed call.
    served: Mutex<HashSet<SessionId>>,
    /// One lock per agent of a session or task, so that its calls run one by one. Tasks of a plan run
    /// beside each other.
    lanes: Mutex<HashMap<ReadingAgent, Arc<tokio::sync::Mutex<()>>>>,
    /// A call could not be claimed for now. No event tells of it again, so the sessions' logs are
    /// read after the next reconnect.
    has_unclaimed: AtomicBool,
    mcp: RunnerServers,
    brought: RunnerBrought,
    /// What people answered to questions of MCP servers.
    answers: Arc<Answers>,
    failpoint: ClientFailpoint,
}

/// A call in progress.
struct RunningCall {
    stop: CancellationToken,
    /// It was offered once more meanwhile: a person may have approved what asked again.
    is_offered_again: bool,
}

impl ToolRunner {
    /// Attaches to the project, reports calls that an earlier process left, and runs calls until
    /// it is stopped.
    pub async fn start(options: ToolRunnerOptions) -> Result<Self, ToolRunnerError> {
        let ToolRunnerOptions {
            client,
            server,
            user_id,
            project,
            serves,
            approve,
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
            hidden,
            ask,
            mcp,
            failpoint,
            ..
        } = options;
        let project = match project {
            Some(project) => project,
            None => default_project(&client).await?,
        };
        let reader = BroughtReader::open(&workspace_root, &data_dir, &hidden)?;
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
                hidden,
                sandbox: detection.sandbox,
                ..WorkspaceOptions::new(launcher)
            },
        )?;
        let journals = folder::of(&data_dir, &server, project, workspace.root());
        let (journal, client_id) =
            folder::lock_free(&journals, serves)?.ok_or_else(|| in_use(&workspace))?;
        let keeper = (workspace.clone(), folder::before_images(&journals));
        let in_store = failpoint.clone();
        let opened = tokio::task::spawn_blocking(move || {
            let (workspace, folder) = keeper;
            workspace.keep_before_images(&folder, BeforeLimits::default(), in_store);
        });
        if let Err(error) = opened.await {
            tracing::warn!(%error, "opening the store of what writes replace failed, no write can be rewound");
        }
        let (sender, events) = mpsc::channel(MAX_EVENTS);
        let mcp = RunnerServers::start(mcp, workspace.root());
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
            watched: Mutex::default(),
            serves,
            approve,
            told: Mutex::default(),
            served: Mutex::default(),
            lanes: Mutex::default(),
            has_unclaimed: AtomicBool::new(false),
            mcp,
            brought: RunnerBrought::new(reader),
            answers: Arc::default(),
            failpoint,
        });
        shared.look_first().await;
        shared.attach().await?;
        if shared.settle().await? {
            shared.attach().await?;
        }
        if !shared.mcp.is_empty()
            && let Err(error) = shared.report_servers().await
        {
            tracing::warn!(%error, "report of the MCP servers not sent, it is sent again");
        }
        if let Err(error) = shared.report_brought().await {
            tracing::warn!(%error, "report of the workspace not sent, it is sent again");
        }
        shared.spawn_until_stopped(brought::follow(Arc::clone(&shared)));
        shared.follow_servers();
        shared.spawn_until_stopped(follow::stay_attached(Arc::clone(&shared)));
        shared.spawn_until_stopped(follow::follow(Arc::clone(&shared)));
        Ok(Self {
            shared,
            events,
            sandbox_refused: detection.refused,
        })
    }

    /// Runs the calls of this session, including calls that are already waiting.
    pub fn serve(&self, session: &SessionId) {
        if lock(&self.shared.served).insert(session.clone()) {
            let caught_up = follow::catch_up_with(Arc::clone(&self.shared), session.clone());
            self.shared.spawn_until_stopped(caught_up);
        }
    }

    pub fn project(&self) -> ProjectId {
        self.shared.project
    }

    pub fn client_id(&self) -> &ClientId {
        &self.shared.client_id
    }

    /// The folder in which calls run, with symbolic links resolved.
    pub fn workspace(&self) -> &std::path::Path {
        self.shared.workspace.root()
    }

    /// The same folder behind the same sandbox, for what the person themselves asks to see.
    pub fn sandboxed_workspace(&self) -> Workspace {
        self.shared.workspace.clone()
    }

    /// What the folder brings, and the person's word about it.
    pub fn brought_handle(&self) -> BroughtHandle {
        BroughtHandle(Arc::clone(&self.shared))
    }

    /// `bwrap+landlock`, `bwrap`, `landlock` or `none`.
    pub fn sandbox(&self) -> &'static str {
        self.shared.workspace.sandbox().as_str()
    }

    /// Why stronger sandboxes are not used, one line each.
    pub fn sandbox_refused(&self) -> &[String] {
        &self.sandbox_refused
    }

    /// The next event. Dropping the future loses nothing. Calls go on when nobody reads events.
    pub async fn next(&mut self) -> ToolRunnerEvent {
        match self.events.recv().await {
            Some(event) => event,
            // Cannot happen while `self` lives: it holds a sender.
            None => std::future::pending().await,
        }
    }

    /// Stops running calls, sends their results, and detaches from the project.
    pub async fn stop(self) {
        let shared = &self.shared;
        shared.stop.cancel();
        shared.tasks.close();
        let sent = tokio::time::timeout(STOP_TIMEOUT, async {
            shared.tasks.wait().await;
            shared
                .client
                .detach_client(shared.project, &shared.client_id)
                .await
        });
        // Servers end last: the calls that they work on end first.
        let sent = sent.await;
        shared.mcp.stop().await;
        match sent {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "detaching the tool runner failed"),
            Err(_) => tracing::warn!(
                timeout_ms = STOP_TIMEOUT.as_millis() as u64,
                "tool runner stopped before all results were sent, the rest is sent at the next start"
            ),
        }
    }
}

impl Drop for ToolRunner {
    /// Commands end with their tool runner, even if nobody called `stop`.
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

impl RunnerState {
    fn emit(&self, event: ToolRunnerEvent) {
        if self.events.try_send(event).is_err() {
            tracing::debug!("tool runner event dropped, the reader is too slow");
        }
    }

    fn spawn_until_stopped(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks
            .spawn(self.stop.clone().run_until_cancelled_owned(work));
    }

    async fn attach(&self) -> Result<(), ClientError> {
        let body = AttachClient {
            client_id: self.client_id.clone(),
            workspace: self.workspace.root().display().to_string(),
            sandbox: self.workspace.sandbox().kind(),
            mcp: Some(self.mcp.sent()),
            instructions: Some(self.brought.sent()),
        };
        let attached = self.client.attach_client(self.project, &body).await?;
        if attached.mcp_report_wanted {
            self.mcp.send_again();
        }
        if attached.instructions_report_wanted {
            self.brought.send_again();
        }
        Ok(())
    }

    /// Journal writes block until they are on disk, so they run on a blocking thread.
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
    /// The tool as people know it: of an MCP server with the server's name.
    pub fn label(&self) -> String {
        match &self.tool {
            CalledTool::BuiltIn(tool) => tool.as_str().to_owned(),
            CalledTool::Named(mcp) => format!("{}: {}", mcp.id.server, mcp.id.tool),
        }
    }

    fn of(key: &CallKey, tool: CalledTool) -> Self {
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

/// The tool of this call, if clients run it.
fn client_tool(call: &ToolCallChunk) -> Option<CalledTool> {
    call.tool()
        .filter(|tool| tool.side() == codelab_protocol::ToolSide::Client)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics between two changes under these locks, so a poisoned value is complete.
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
        let names = projects
            .iter()
            .map(|project| format!("{} ({})", project.project_id, project.name));
        ToolRunnerError::NoProject(names.collect::<Vec<_>>().join(", "))
    })
}
