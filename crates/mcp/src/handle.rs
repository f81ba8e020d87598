//! The handle of one server: what it offers now, calling its tools, and ending it.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use codelab_protocol::{Digest, McpServerName, McpStatus, ToolDefinition};
use codelab_transport::NetworkOptions;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio_util::sync::DropGuard;

use crate::call::{CallOptions, McpCallEnd};
use crate::config::ServerConfig;
use crate::limits::McpLimits;
use crate::oauth::Authorization;
use crate::perform::perform;

mod keeper;
mod shared;

use keeper::Keeper;
use shared::Shared;

/// How often a call that met a server's end before it was sent is tried again.
const CALL_ATTEMPTS: u32 = 2;

/// Where a server runs, and what is needed to come to it.
#[derive(Debug, Clone)]
pub enum Place {
    /// For a [`ServerConfig::Stdio`].
    Process {
        launcher: McpLauncher,
        /// Where it starts, and what it is told to work on.
        workspace: PathBuf,
    },
    /// For a [`ServerConfig::Http`].
    Network {
        network: NetworkOptions,
        /// Whether an address of this machine or a private network may be called.
        allow_private: bool,
        authorization: Option<Authorization>,
    },
}

/// How this program starts itself again to own the processes of a server: the program and the
/// arguments that lead to [`crate::supervise`].
#[derive(Debug, Clone)]
pub struct McpLauncher {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

impl McpLauncher {
    /// This very program with the given arguments, such as `mcp-exec`.
    pub fn current<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> io::Result<Self> {
        Ok(Self {
            program: std::env::current_exe()?,
            arguments: arguments.into_iter().map(Into::into).collect(),
        })
    }
}

/// How a server is doing, and what it offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerState {
    pub status: McpStatus,
    /// What is wrong now. Control characters are made visible.
    pub error: Option<String>,
    /// What it offered when it was heard last.
    pub tools: Arc<[ToolDefinition]>,
}

/// One server. Dropping the handle ends it too; [`ServerHandle::stop`] waits until it has ended.
pub struct ServerHandle {
    name: McpServerName,
    shared: Arc<Shared>,
    ended: watch::Receiver<bool>,
    _stop: DropGuard,
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.shared.state.borrow().status;
        f.debug_struct("ServerHandle")
            .field("name", &self.name)
            .field("status", &status)
            .finish_non_exhaustive()
    }
}

impl ServerHandle {
    /// Returns at once. A task starts the server, lists its tools, and starts it again when it
    /// failed. Must be called within a tokio runtime.
    pub fn start(
        name: McpServerName,
        config: ServerConfig,
        place: Place,
        limits: McpLimits,
    ) -> Self {
        let (state, _) = watch::channel(ServerState {
            status: McpStatus::Starting,
            error: None,
            tools: Arc::from([]),
        });
        let shared = Arc::new(Shared::new(state, limits));
        let (end, ended) = watch::channel(false);
        let keeper = Keeper::new(config, place, shared.clone());
        tokio::spawn(async move {
            keeper.run().await;
            end.send_replace(true);
        });
        Self {
            name,
            _stop: shared.stop.clone().drop_guard(),
            shared,
            ended,
        }
    }

    pub fn name(&self) -> &McpServerName {
        &self.name
    }

    pub fn watch(&self) -> watch::Receiver<ServerState> {
        self.shared.state.subscribe()
    }

    /// Calls a tool whose definition has this digest. If the server now describes the tool
    /// otherwise, nothing is sent. Dropping the future cancels the call.
    pub async fn call(
        &self,
        tool: &str,
        definition: &Digest,
        arguments: Map<String, Value>,
        options: CallOptions,
    ) -> McpCallEnd {
        let shared = &self.shared;
        let limits = &shared.limits;
        let Some(_used) = shared.begin_use() else {
            let max = limits.max_calls;
            return McpCallEnd::Refused(format!("the server works on {max} calls already"));
        };
        let mut attempts = 0..CALL_ATTEMPTS;
        loop {
            let live = tokio::select! {
                live = shared.connected() => live,
                () = options.stop.cancelled() => {
                    let text = "the call was cancelled before it was sent";
                    return McpCallEnd::Refused(text.to_owned());
                }
            };
            let live = match live {
                Ok(live) => live,
                Err(reason) => return McpCallEnd::Refused(reason),
            };
            if let Err(reason) = shared.check(tool, definition) {
                return McpCallEnd::Refused(reason);
            }
            let end = perform(&live, tool, arguments.clone(), &options, limits).await;
            shared.note_challenge(live.last_words.challenge());
            match end {
                McpCallEnd::Result(_) => shared.prove_useful(),
                // It ended between two calls, and nothing was sent.
                McpCallEnd::Refused(_) if live.is_over() && attempts.next().is_some() => continue,
                McpCallEnd::Refused(_) | McpCallEnd::Unknown(_) | McpCallEnd::Failed(_) => {}
            }
            return end;
        }
    }

    /// How an HTTP server said last that it wants an authorization, or another one than it got.
    pub fn challenge(&self) -> Option<String> {
        self.shared.challenge.borrow().clone()
    }

    /// Starts a server that failed or is idle again, without a call.
    pub fn wake(&self) {
        self.shared.wake.notify_one();
    }

    /// Ends the server and everything it started.
    pub async fn stop(&self) {
        self.shared.stop.cancel();
        let mut ended = self.ended.clone();
        // An error means that the task is gone, and with it the server.
        let _ = ended.wait_for(|ended| *ended).await;
    }
}
