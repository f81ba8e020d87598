//! What clients report about the MCP servers that they run. It counts while the client is there.

use std::sync::Arc;

use codelab_mcp::visible;
use codelab_protocol::{
    ClientId, Digest, MAX_MCP_REPORT_BYTES, McpPlace, McpReport, McpServerName, McpStatus,
    ReportedMcpServer,
};
use codelab_store::StoreError;

use super::remote::too_long;
use super::trust::{SeenServer, SeenTool};
use crate::space::{Space, lock};

/// Servers of one report.
const MAX_REPORTED_SERVERS: usize = 64;
/// Tools of one server.
const MAX_REPORTED_TOOLS: usize = 512;
/// The reports of all clients of a project together.
const MAX_REPORTS_BYTES: usize = 16 * 1024 * 1024;
/// What a client says is wrong with a server.
const MAX_ERROR_CHARS: usize = 2000;

/// Why a report was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportRefused {
    #[error("The client is not attached; attach it first")]
    Unknown,
    #[error(
        "A report has at most {MAX_REPORTED_SERVERS} servers with {MAX_REPORTED_TOOLS} tools each, \
         and {MAX_MCP_REPORT_BYTES} bytes"
    )]
    TooLarge,
    #[error("The report names the server {0} twice")]
    Twice(McpServerName),
    #[error("The clients of a project report at most {MAX_REPORTS_BYTES} bytes together")]
    Full,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The report of one client.
pub(in crate::space) struct Reported {
    pub digest: Digest,
    pub bytes: usize,
    servers: Vec<ReportedServer>,
}

struct ReportedServer {
    name: McpServerName,
    status: McpStatus,
    error: Option<String>,
    tools: Arc<[SeenTool]>,
}

impl Reported {
    fn new(report: McpReport) -> Result<Self, ReportRefused> {
        let bytes = serde_json::to_string(&report).map_or(usize::MAX, |json| json.len());
        let too_many = |server: &ReportedMcpServer| server.tools.len() > MAX_REPORTED_TOOLS;
        if bytes > MAX_MCP_REPORT_BYTES
            || report.servers.len() > MAX_REPORTED_SERVERS
            || report.servers.iter().any(too_many)
        {
            return Err(ReportRefused::TooLarge);
        }
        let digest = report.digest();
        let mut servers: Vec<ReportedServer> = Vec::with_capacity(report.servers.len());
        for server in report.servers {
            if servers.iter().any(|other| other.name == server.name) {
                return Err(ReportRefused::Twice(server.name));
            }
            let (tools, left_out) = SeenTool::all(&server.name, &server.tools);
            let error = server.error.map(|error| visible(&error, MAX_ERROR_CHARS));
            servers.push(ReportedServer {
                name: server.name,
                status: server.status,
                error: error.or_else(|| too_long(left_out)),
                tools,
            });
        }
        Ok(Self {
            digest,
            bytes,
            servers,
        })
    }

    pub fn is_starting(&self) -> bool {
        let mut servers = self.servers.iter();
        servers.any(|server| server.status == McpStatus::Starting)
    }

    /// The client's servers. One whose name the project's own has is not used.
    pub(super) fn seen(
        &self,
        client: &ClientId,
        is_taken: impl Fn(&McpServerName) -> bool,
    ) -> impl Iterator<Item = SeenServer> {
        self.servers.iter().map(move |server| SeenServer {
            name: server.name.clone(),
            runs_at: McpPlace::Client,
            client: Some(client.clone()),
            status: server.status,
            error: server.error.clone(),
            tools: Arc::clone(&server.tools),
            is_shadowed: is_taken(&server.name),
        })
    }
}

impl Space {
    /// Takes what a client says about the servers that it runs.
    pub async fn report_mcp(
        &self,
        client: &ClientId,
        report: McpReport,
    ) -> Result<(), ReportRefused> {
        let reported = Reported::new(report)?;
        {
            let mut clients = lock(&self.clients);
            if clients.bytes_reported_by_others(client) + reported.bytes > MAX_REPORTS_BYTES {
                return Err(ReportRefused::Full);
            }
            if !clients.keep_report(client, reported) {
                return Err(ReportRefused::Unknown);
            }
        }
        self.mcp.touch();
        let mut loaded = self.mcp.loaded().await?;
        if let Some(loaded) = loaded.as_mut() {
            let servers = self.seen_by(&loaded.views(), Some(client));
            self.mcp.settle(loaded, &servers).await?;
        }
        Ok(())
    }
}
