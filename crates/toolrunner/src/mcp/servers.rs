//! The servers of one tool runner: starts them, tells CodeLab's server how they are doing and what
//! they offer, and ends them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use codelab_client::{Backoff, ClientError};
use codelab_mcp::{McpLauncher, McpLimits, Place, ServerConfig, ServerHandle, ServerState};
use codelab_policy::visible;
use codelab_protocol::{
    Digest, MAX_MCP_REPORT_BYTES, McpReport, McpServerName, McpStatus, ReportedMcpServer,
};
use codelab_transport::NetworkOptions;
use codelab_workspace::FoundText;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::{
    ConfiguredServer, ConfiguredServers, McpSource, OwnConfig, Redaction, RunnerMcpOptions,
};
use crate::{RunnerState, ToolRunnerEvent, lock};

/// Definitions in one report. A server whose tools would pass it is reported without them. Names and
/// errors need room too.
const MAX_DEFINITION_BYTES: usize = MAX_MCP_REPORT_BYTES - (256 << 10);
/// Of an error, what is reported.
const MAX_ERROR_CHARS: usize = 2000;
/// Servers often change together, so a report waits for the others.
const REPORT_PAUSE: Duration = Duration::from_millis(50);
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The servers that run, and what is needed to start those that a person trusts later.
pub(crate) struct RunnerServers {
    running: Mutex<BTreeMap<McpServerName, Arc<RunningServer>>>,
    /// Servers that cannot be started, with the reason.
    refused: Mutex<Vec<(McpSource, ReportedMcpServer)>>,
    /// The content of the workspace's file whose servers run.
    taken_up: Mutex<Option<FoundText>>,
    own: Option<OwnConfig>,
    variable: fn(&str) -> Option<String>,
    launcher: McpLauncher,
    network: NetworkOptions,
    workspace: PathBuf,
    /// The report that CodeLab's server has.
    sent: Mutex<Option<Digest>>,
    changed: Notify,
}

pub(crate) struct RunningServer {
    pub handle: ServerHandle,
    pub redaction: Redaction,
    source: McpSource,
}

/// Starts a server. Returns at once.
pub fn start_server(
    name: &McpServerName,
    source: McpSource,
    config: ServerConfig,
    launcher: &McpLauncher,
    network: &NetworkOptions,
    workspace: &Path,
) -> ServerHandle {
    let place = match &config {
        ServerConfig::Stdio(_) => Place::Process {
            launcher: launcher.clone(),
            workspace: workspace.to_owned(),
        },
        // A person's own servers may be on this machine. A repository's may not look for any here.
        ServerConfig::Http(_) => Place::Network {
            network: network.clone(),
            allow_private: source == McpSource::Own,
            authorization: None,
        },
    };
    ServerHandle::start(name.clone(), config, place, McpLimits::default())
}

impl RunnerServers {
    pub fn start(options: RunnerMcpOptions, workspace: &Path) -> Self {
        let RunnerMcpOptions {
            servers,
            own,
            variable,
            launcher,
            network,
        } = options;
        let all = Self {
            running: Mutex::default(),
            refused: Mutex::default(),
            taken_up: Mutex::default(),
            own,
            variable,
            launcher,
            network,
            workspace: workspace.to_owned(),
            sent: Mutex::default(),
            changed: Notify::new(),
        };
        for server in servers {
            all.add(server);
        }
        all
    }

    fn add(&self, server: ConfiguredServer) {
        let ConfiguredServer {
            name,
            source,
            config,
        } = server;
        let config = match config {
            Ok(config) => config,
            Err(reason) => {
                let refused = ReportedMcpServer {
                    name,
                    status: McpStatus::Failed,
                    error: Some(reason),
                    tools: Vec::new(),
                };
                return lock(&self.refused).push((source, refused));
            }
        };
        let redaction = Redaction::of(&config);
        let (launcher, network) = (&self.launcher, &self.network);
        let handle = start_server(&name, source, config, launcher, network, &self.workspace);
        let running = RunningServer {
            handle,
            redaction,
            source,
        };
        lock(&self.running).insert(name, Arc::new(running));
    }

    /// Takes away what the workspace's file said before.
    fn remove_of_workspace(&self) -> Vec<Arc<RunningServer>> {
        lock(&self.refused).retain(|(source, _)| *source == McpSource::Own);
        let mut running = lock(&self.running);
        let (own, theirs) = std::mem::take(&mut *running)
            .into_iter()
            .partition(|(_, server)| server.source == McpSource::Own);
        *running = own;
        let theirs: BTreeMap<McpServerName, Arc<RunningServer>> = theirs;
        theirs.into_values().collect()
    }

    /// The servers of this content run.
    pub fn note_taken_up(&self, file: Option<&FoundText>) {
        *lock(&self.taken_up) = file.cloned();
    }

    pub fn is_empty(&self) -> bool {
        lock(&self.running).is_empty() && lock(&self.refused).is_empty()
    }

    pub fn get(&self, name: &McpServerName) -> Option<Arc<RunningServer>> {
        lock(&self.running).get(name).cloned()
    }

    /// Whether this tool runner was told to run the server, started or not.
    pub fn knows(&self, name: &McpServerName) -> bool {
        self.get(name).is_some() || self.refusal(name).is_some()
    }

    /// Why a server that is known cannot be called at all.
    pub fn refusal(&self, name: &McpServerName) -> Option<String> {
        let refused = lock(&self.refused);
        let mut refused = refused.iter().map(|(_, server)| server);
        refused.find(|server| server.name == *name)?.error.clone()
    }

    pub fn report(&self) -> McpReport {
        let mut room = MAX_DEFINITION_BYTES;
        let refused = lock(&self.refused);
        let refused = refused.iter().map(|(_, server)| server.clone());
        let mut servers: Vec<ReportedMcpServer> = refused.collect();
        for (name, server) in lock(&self.running).iter() {
            let state = server.handle.watch().borrow().clone();
            servers.push(server.report(name, &state, &mut room));
        }
        servers.sort_by(|one, other| one.name.cmp(&other.name));
        McpReport { servers }
    }

    /// The digest of the report that CodeLab's server should have from this tool runner.
    pub fn sent(&self) -> Digest {
        let sent = lock(&self.sent).clone();
        sent.unwrap_or_else(|| McpReport::default().digest())
    }

    /// CodeLab's server has another report than the one that was sent, or none.
    pub fn send_again(&self) {
        *lock(&self.sent) = None;
        self.changed.notify_one();
    }

    /// Ends all servers and everything they started.
    pub async fn stop(&self) {
        let running = lock(&self.running).values().cloned().collect();
        stop(running).await;
    }
}

async fn stop(servers: Vec<Arc<RunningServer>>) {
    let mut ends = tokio::task::JoinSet::new();
    for server in servers {
        ends.spawn(async move { server.handle.stop().await });
    }
    let ended = async { while ends.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP_TIMEOUT, ended).await.is_err() {
        tracing::warn!("an MCP server did not end in time, its processes are killed");
    }
}

impl RunningServer {
    fn report(
        &self,
        name: &McpServerName,
        state: &ServerState,
        room: &mut usize,
    ) -> ReportedMcpServer {
        let mut reported = ReportedMcpServer {
            name: name.clone(),
            status: state.status,
            error: state.error.as_deref().map(|error| self.clean(error)),
            tools: state.tools.to_vec(),
        };
        let bytes = serde_json::to_vec(&reported.tools).map_or(usize::MAX, |json| json.len());
        match room.checked_sub(bytes) {
            Some(left) => *room = left,
            None => {
                reported.tools.clear();
                reported.status = McpStatus::Failed;
                reported.error = Some(format!(
                    "the tools of all servers together have more than {MAX_DEFINITION_BYTES} bytes of \
                     definitions; those of this server are left out"
                ));
            }
        }
        reported
    }

    /// Of an error, what people see.
    pub fn clean(&self, error: &str) -> String {
        let clean = visible(&self.redaction.hide(error));
        match clean.char_indices().nth(MAX_ERROR_CHARS) {
            Some((end, _)) => format!("{}…", &clean[..end]),
            None => clean,
        }
    }
}

impl RunnerState {
    /// Tells of every server's changes, here and at CodeLab's server, until the tool runner stops.
    pub(crate) fn follow_servers(self: &Arc<Self>) {
        self.follow_those(|_| true);
        self.spawn_until_stopped(report_changes(Arc::clone(self)));
    }

    fn follow_those(self: &Arc<Self>, is_wanted: impl Fn(McpSource) -> bool) {
        let refused = lock(&self.mcp.refused).clone();
        for (_, server) in refused.into_iter().filter(|(source, _)| is_wanted(*source)) {
            self.emit(ToolRunnerEvent::McpServer {
                name: server.name,
                status: server.status,
                tools: 0,
                error: server.error,
            });
        }
        let running = lock(&self.mcp.running).clone();
        for (name, server) in running {
            if is_wanted(server.source) {
                let (state, server) = (server.handle.watch(), Arc::downgrade(&server));
                let watched = watch_server(Arc::clone(self), name, server, state);
                self.spawn_until_stopped(watched);
            }
        }
    }

    /// A person trusted this content of the workspace's file: its servers start. Those of a content
    /// that was trusted before end.
    pub(crate) async fn take_up_servers(self: &Arc<Self>, file: &FoundText) {
        let before = lock(&self.mcp.taken_up).replace(file.clone());
        if before.as_ref() == Some(file) {
            return;
        }
        let ended = self.mcp.remove_of_workspace();
        let (own, variable) = (self.mcp.own.clone(), self.mcp.variable);
        let content = file.content.clone();
        let read = move || ConfiguredServers::of_workspace(own.as_ref(), &content, variable);
        let Ok(found) = tokio::task::spawn_blocking(read).await else {
            return;
        };
        for notice in &found.notices {
            tracing::warn!(
                ?notice,
                "something of the workspace's MCP servers does not count"
            );
        }
        stop(ended).await;
        let is_own = |name: &McpServerName| self.mcp.knows(name);
        let new = found.servers.into_iter();
        let new: Vec<ConfiguredServer> = new.filter(|server| !is_own(&server.name)).collect();
        new.into_iter().for_each(|server| self.mcp.add(server));
        self.follow_those(|source| source == McpSource::Workspace);
        self.mcp.changed.notify_one();
    }

    /// Sends what is known now, so that a turn that begins next waits for servers that start.
    pub(crate) async fn report_servers(&self) -> Result<(), ClientError> {
        let report = self.mcp.report();
        let digest = report.digest();
        if *lock(&self.mcp.sent) == Some(digest.clone()) {
            return Ok(());
        }
        self.client
            .report_mcp(self.project, &self.client_id, &report)
            .await?;
        *lock(&self.mcp.sent) = Some(digest);
        Ok(())
    }
}

async fn watch_server(
    shared: Arc<RunnerState>,
    name: McpServerName,
    server: Weak<RunningServer>,
    mut state: watch::Receiver<ServerState>,
) {
    let mut shown = McpStatus::Starting;
    loop {
        let now = state.borrow_and_update().clone();
        if now.status != shown {
            shown = now.status;
            let server = server.upgrade();
            let error = now.error.as_deref();
            shared.emit(ToolRunnerEvent::McpServer {
                name: name.clone(),
                status: now.status,
                tools: now.tools.len(),
                error: server.zip(error).map(|(server, error)| server.clean(error)),
            });
        }
        shared.mcp.changed.notify_one();
        if state.changed().await.is_err() {
            return;
        }
    }
}

async fn report_changes(shared: Arc<RunnerState>) {
    let mut failures = 0;
    loop {
        shared.mcp.changed.notified().await;
        sleep(REPORT_PAUSE).await;
        while let Err(error) = shared.report_servers().await {
            if !error.is_passing() {
                // The client is not attached, or the server does not know MCP. The next time that
                // it attaches, the server says whether it wants the report.
                tracing::debug!(%error, "report of the MCP servers refused");
                break;
            }
            sleep(Backoff::default().delay(failures)).await;
            failures = failures.saturating_add(1);
        }
        failures = 0;
    }
}
