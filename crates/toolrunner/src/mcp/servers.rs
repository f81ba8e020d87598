//! The servers of one tool runner: starts them, tells CodeLab's server how they are doing and what
//! they offer, and ends them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use codelab_client::{Backoff, ClientError};
use codelab_mcp::{McpLauncher, McpLimits, Place, ServerConfig, ServerHandle, ServerState};
use codelab_policy::visible;
use codelab_protocol::{
    Digest, MAX_MCP_REPORT_BYTES, McpReport, McpServerName, McpStatus, ReportedMcpServer,
};
use codelab_transport::NetworkOptions;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::{ConfiguredServer, McpSource, Redaction, RunnerMcpOptions};
use crate::{RunnerState, ToolRunnerEvent, lock};

/// Definitions in one report. A server whose tools would pass it is reported without them. Names and
/// errors need room too.
const MAX_DEFINITION_BYTES: usize = MAX_MCP_REPORT_BYTES - (256 << 10);
/// Of an error, what is reported.
const MAX_ERROR_CHARS: usize = 2000;
/// Servers often change together, so a report waits for the others.
const REPORT_PAUSE: Duration = Duration::from_millis(50);
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(crate) struct RunnerServers {
    running: BTreeMap<McpServerName, RunningServer>,
    /// Servers that cannot be started, with the reason.
    refused: Vec<ReportedMcpServer>,
    /// The report that CodeLab's server has.
    sent: Mutex<Option<Digest>>,
    changed: Notify,
}

pub(crate) struct RunningServer {
    pub handle: Arc<ServerHandle>,
    pub redaction: Redaction,
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
        let mut servers = Self::default();
        for ConfiguredServer {
            name,
            source,
            config,
        } in options.servers
        {
            let config = match config {
                Ok(config) => config,
                Err(reason) => {
                    servers.refused.push(ReportedMcpServer {
                        name,
                        status: McpStatus::Failed,
                        error: Some(reason),
                        tools: Vec::new(),
                    });
                    continue;
                }
            };
            let redaction = Redaction::of(&config);
            let (launcher, network) = (&options.launcher, &options.network);
            let handle = start_server(&name, source, config, launcher, network, workspace);
            let handle = Arc::new(handle);
            servers
                .running
                .insert(name, RunningServer { handle, redaction });
        }
        servers
    }

    pub fn is_empty(&self) -> bool {
        self.running.is_empty() && self.refused.is_empty()
    }

    pub fn get(&self, name: &McpServerName) -> Option<&RunningServer> {
        self.running.get(name)
    }

    /// Whether this tool runner was told to run the server, started or not.
    pub fn knows(&self, name: &McpServerName) -> bool {
        self.running.contains_key(name) || self.refused.iter().any(|server| server.name == *name)
    }

    /// Why a server that is known cannot be called at all.
    pub fn refusal(&self, name: &McpServerName) -> Option<&str> {
        let server = self.refused.iter().find(|server| server.name == *name)?;
        server.error.as_deref()
    }

    pub fn report(&self) -> McpReport {
        let mut room = MAX_DEFINITION_BYTES;
        let mut servers = self.refused.clone();
        for (name, server) in &self.running {
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
        let mut ends = tokio::task::JoinSet::new();
        for server in self.running.values() {
            let handle = Arc::clone(&server.handle);
            ends.spawn(async move { handle.stop().await });
        }
        let ended = async { while ends.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_TIMEOUT, ended).await.is_err() {
            tracing::warn!("an MCP server did not end in time, its processes are killed");
        }
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
        for server in &self.mcp.refused {
            self.emit(ToolRunnerEvent::McpServer {
                name: server.name.clone(),
                status: server.status,
                tools: 0,
                error: server.error.clone(),
            });
        }
        for (name, server) in &self.mcp.running {
            let watched = watch_server(Arc::clone(self), name.clone(), server.handle.watch());
            self.spawn_until_stopped(watched);
        }
        self.spawn_until_stopped(report_changes(Arc::clone(self)));
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
    mut state: watch::Receiver<ServerState>,
) {
    let mut shown = McpStatus::Starting;
    loop {
        let now = state.borrow_and_update().clone();
        if now.status != shown {
            shown = now.status;
            let server = shared.mcp.get(&name);
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
