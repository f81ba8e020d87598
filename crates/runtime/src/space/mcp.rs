//! The MCP servers of a project: those that clients run and report, and those that this server
//! calls itself. Which of their tools agents can be offered follows from what people accepted.
//!
//! What a server says is never believed: the first definition of a tool counts, another one waits
//! for a person.

mod authorization;
mod changes;
mod live;
mod remote;
mod reports;
mod shown;
mod trust;

use std::sync::Arc;
use std::time::Duration;

use codelab_engine::NamedTools;
use codelab_mcp::{CallOptions, McpCallEnd, McpLimits};
use codelab_protocol::{ClientId, McpPermission, McpToolId};
use codelab_store::StoreError;
use codelab_transport::NetworkOptions;
use serde_json::{Map, Value};
use tokio::time::timeout;

pub use self::authorization::{NotAuthorized, ProviderAnswer, state_hash};
pub use self::changes::McpChange;
pub(super) use self::live::SpaceMcp;
pub use self::reports::ReportRefused;
pub(super) use self::reports::Reported;

use self::live::{Loaded, read_trust};
use self::remote::RemoteView;
use self::trust::SeenServer;
use super::{Space, lock};

/// MCP servers of one project that this server calls.
pub const MAX_MCP_SERVERS: usize = 32;
/// How long a turn's first model call waits for servers that are starting.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// How MCP servers of projects are called.
#[derive(Debug, Clone, Default)]
pub struct McpOptions {
    pub network: NetworkOptions,
    /// Whether addresses of this machine and of private networks may be called.
    pub allow_private: bool,
    pub limits: McpLimits,
}

impl Space {
    /// The tools of MCP servers that a session can be offered now. `bound` is the client that the
    /// session's calls go to. Cheap while nothing changes. Before the servers were read for the
    /// first time there is none; [`Space::tools_ready`] waits for that.
    pub(crate) fn named_tools(&self, bound: Option<&ClientId>) -> Arc<NamedTools> {
        self.mcp.load_soon();
        let version = self.mcp.version();
        let client = lock(&self.clients).mcp_client(bound);
        self.mcp.remembered(version, client, |client, published| {
            let servers = self.seen_by(&published.remotes, client);
            published.trust.named_tools(&servers)
        })
    }

    /// Whether the project's servers were read.
    pub(crate) fn knows_tools(&self) -> bool {
        self.mcp.is_published()
    }

    /// Waits until no server is starting, but not long. Whatever was not seen before is accepted
    /// then.
    pub(crate) async fn tools_ready(&self) {
        let ready = async {
            let mut changed = self.mcp.subscribe();
            loop {
                changed.borrow_and_update();
                if !self.is_mcp_starting().await? || changed.changed().await.is_err() {
                    return Ok::<(), StoreError>(());
                }
            }
        };
        if timeout(READY_WITHIN, ready).await.is_err() {
            tracing::info!(project = %self.key.project, "a turn begins without some MCP servers, which are still starting");
        }
        if let Err(error) = self.settle_mcp().await {
            tracing::warn!(project = %self.key.project, %error, "MCP servers of the project could not be read");
        }
    }

    async fn is_mcp_starting(&self) -> Result<bool, StoreError> {
        let is_client_starting = {
            let clients = lock(&self.clients);
            let present = clients.mcp_clients();
            let mut reports = present.iter().filter_map(|id| clients.mcp_report(id));
            reports.any(Reported::is_starting)
        };
        if is_client_starting {
            return Ok(true);
        }
        let loaded = self.mcp.loaded().await?;
        let mut remotes = loaded.iter().flat_map(|loaded| loaded.remotes.values());
        Ok(remotes.any(|remote| remote.view.is_starting()))
    }

    /// Accepts what nobody saw before, of all servers.
    async fn settle_mcp(&self) -> Result<(), StoreError> {
        let clients = lock(&self.clients).mcp_clients();
        let mut loaded = self.mcp.loaded().await?;
        let Some(loaded) = loaded.as_mut() else {
            return Ok(());
        };
        let views = loaded.views();
        for client in std::iter::once(None).chain(clients.iter().map(Some)) {
            let servers = self.seen_by(&views, client);
            self.mcp.settle(loaded, &servers).await?;
        }
        Ok(())
    }

    /// Calls a tool of a server that this server calls itself.
    pub(crate) async fn call_named(
        &self,
        id: &McpToolId,
        arguments: Map<String, Value>,
        options: CallOptions,
    ) -> McpCallEnd {
        let handle = match self.mcp.loaded().await {
            Err(error) => Err(format!("The call was not made: {error}")),
            Ok(loaded) => callable(loaded.as_ref(), id),
        };
        match handle {
            Ok(handle) => {
                handle
                    .call(&id.tool, &id.definition, arguments, options)
                    .await
            }
            Err(why) => McpCallEnd::Refused(why),
        }
    }

    /// What a session sees whose client this is.
    fn seen_by(&self, remotes: &[RemoteView], client: Option<&ClientId>) -> Vec<SeenServer> {
        let mut servers: Vec<SeenServer> = remotes.iter().map(RemoteView::seen).collect();
        let clients = lock(&self.clients);
        let reported = client.and_then(|client| Some((client, clients.mcp_report(client)?)));
        if let Some((client, report)) = reported {
            let is_taken = |name: &_| remotes.iter().any(|remote| remote.name == *name);
            servers.extend(report.seen(client, is_taken));
        }
        servers
    }
}

/// The server of a call, if the call may still be made.
fn callable(
    loaded: Option<&Loaded>,
    id: &McpToolId,
) -> Result<Arc<codelab_mcp::ServerHandle>, String> {
    let loaded = loaded.ok_or("The project is gone")?;
    let Some(remote) = loaded.remotes.get(&id.server) else {
        let server = &id.server;
        return Err(format!("The project has no server named {server} any more"));
    };
    if !loaded.trust.has_accepted(id) {
        return Err("The definition of this tool is not accepted any more".to_owned());
    }
    match loaded.trust.permission(&id.server, &id.tool) {
        McpPermission::Forbid => return Err("A person forbade this tool".to_owned()),
        McpPermission::Ask | McpPermission::Allow => {}
    }
    let handle = remote.handle.clone();
    handle.ok_or_else(|| "The server cannot be used now".to_owned())
}
