//! Tools of MCP servers: reads their configuration, starts or reaches them, lists their tools and
//! calls them.
//!
//! What lives here: the two transports (a process on standard input and output, streamable HTTP),
//! the bounds on everything a server says, and authorization at HTTP servers. What must never: who
//! may call a tool, and what a model sees of it. A server is never trusted: whatever it sends is
//! bounded while it is read.

mod call;
mod client;
mod config;
mod connection;
mod failure;
mod guard;
mod handle;
mod http;
mod limits;
pub mod oauth;
mod perform;
mod process;
mod redact;
mod result;
mod tools;
mod values;

pub use call::{CallEvent, CallOptions, ElicitReply, McpCallEnd};
pub use config::{HttpConfig, McpConfig, McpConfigError, ServerConfig, StdioConfig, UnsetVariable};
pub use failure::visible;
pub use handle::{McpLauncher, Place, ServerHandle, ServerState};
pub use limits::McpLimits;
pub use process::supervise;
pub use redact::Redaction;
