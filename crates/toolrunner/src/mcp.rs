//! MCP servers on this machine: which ones are configured, starting them, telling CodeLab's server
//! about them, and calling their tools.

mod call;
mod elicit;
mod own;
mod servers;
mod sources;

use codelab_mcp::McpLauncher;
use codelab_transport::NetworkOptions;

pub use codelab_mcp::Redaction;
pub use own::{AddError, OwnConfig};
pub use servers::start_server;
pub use sources::{ConfiguredServer, ConfiguredServers, McpNotice, McpSource, what_starts};

pub(crate) use elicit::Answers;
pub(crate) use servers::RunnerServers;

/// The servers of a tool runner, and what is needed to start them.
#[derive(Debug)]
pub struct RunnerMcpOptions {
    pub servers: Vec<ConfiguredServer>,
    /// The person's own configuration. What it names, no workspace starts.
    pub own: Option<OwnConfig>,
    /// The values of variables that a configuration names.
    pub variable: fn(&str) -> Option<String>,
    /// How this program starts itself again to own the processes of a server.
    pub launcher: McpLauncher,
    /// Certificates and proxies for servers that are reached over HTTP.
    pub network: NetworkOptions,
}
