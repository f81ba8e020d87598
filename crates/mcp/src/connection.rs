//! One connection to a server: from the start to the list of its tools, and its end.

use std::sync::Arc;
use std::time::Duration;

use codelab_protocol::ToolDefinition;
use rmcp::model::{ProtocolVersion, SubscriptionFilter};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, RoleClient, RunningService,
    ServiceError, Subscription,
};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::client::{McpClient, OpenCalls};
use crate::config::ServerConfig;
use crate::failure::{LastWords, visible};
use crate::guard::GuardedTransport;
use crate::handle::Place;
use crate::http::{self, McpHttpFailure};
use crate::limits::McpLimits;
use crate::process::ServerProcess;
use crate::tools;

const MAX_ERROR_CHARS: usize = 1_000;
/// The end of a connection: pending sends, and the session of an HTTP server.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// Why there is no connection.
#[derive(Debug)]
pub enum NoConnection {
    /// A person has to authorize first.
    Unauthorized {
        reason: String,
        challenge: Option<String>,
    },
    Failed(String),
}

/// A server that answers.
pub struct Connection {
    service: RunningService<RoleClient, McpClient>,
    process: Option<ServerProcess>,
    subscription: Option<Subscription>,
    pub live: Arc<LiveServer>,
    tools_changed: Arc<Notify>,
    closing: CancellationToken,
    /// Nothing comes from the server any more.
    ended: CancellationToken,
}

/// What a call needs of a connection.
pub struct LiveServer {
    pub peer: Peer<RoleClient>,
    pub calls: Arc<OpenCalls>,
    pub last_words: Arc<LastWords>,
}

impl LiveServer {
    /// Whether nothing can be sent any more.
    pub fn is_over(&self) -> bool {
        self.peer.is_transport_closed() || self.last_words.broken.is_cancelled()
    }
}

/// What a server offers now, and what people should know about it.
pub struct Listed {
    pub tools: Arc<[ToolDefinition]>,
    pub problem: Option<String>,
}

/// What happened to a connection.
pub enum Happened {
    ToolsChanged,
    Closed,
}

impl Connection {
    /// Starts or reaches the server, within the time for it.
    pub async fn open(
        config: &ServerConfig,
        place: &Place,
        limits: &McpLimits,
        stop: &CancellationToken,
    ) -> Result<Self, NoConnection> {
        let last_words = Arc::new(LastWords::new(crate::Redaction::of(config)));
        match (config, place) {
            (
                ServerConfig::Stdio(config),
                Place::Process {
                    launcher,
                    workspace,
                },
            ) => {
                let max = limits.max_message_bytes;
                let started =
                    ServerProcess::start(config, launcher, workspace, max, &last_words).await;
                let (process, transport) = started
                    .map_err(|error| NoConnection::Failed(format!("it does not start: {error}")))?;
                let workspace = Some(workspace.clone());
                let opened = handshake(transport, workspace, limits, stop, &last_words).await;
                match opened {
                    Ok(connection) => Ok(Self {
                        process: Some(process),
                        ..connection
                    }),
                    Err(error) => {
                        process.stop().await;
                        Err(said(error, &last_words))
                    }
                }
            }
            (
                ServerConfig::Http(config),
                Place::Network {
                    network,
                    allow_private,
                    authorization,
                },
            ) => {
                let transport = http::transport(
                    config,
                    network,
                    *allow_private,
                    authorization.clone(),
                    limits,
                    &last_words,
                )
                .map_err(NoConnection::Failed)?;
                handshake(transport, None, limits, stop, &last_words)
                    .await
                    .map_err(|error| said(error, &last_words))
            }
            (ServerConfig::Stdio(_), Place::Network { .. }) => Err(NoConnection::Failed(
                "it is a program, which is started on a client only".to_owned(),
            )),
            (ServerConfig::Http(_), Place::Process { .. }) => Err(NoConnection::Failed(
                "it is reached over HTTP, and is not a program".to_owned(),
            )),
        }
    }

    /// Asks what the server offers, and follows changes.
    pub async fn list(&self, limits: &McpLimits) -> Result<Listed, NoConnection> {
        let listed = timeout(limits.list_timeout, tools::list(&self.live.peer, limits)).await;
        let offer = match listed {
            Ok(Ok(offer)) => offer,
            Ok(Err(error)) => return Err(no_list(&error, &self.live.last_words)),
            Err(_) => {
                let seconds = limits.list_timeout.as_secs_f64();
                let text = format!("it did not list its tools within {seconds} s");
                return Err(NoConnection::Failed(self.live.last_words.explain(&text)));
            }
        };
        let problems = offer.problems.join("; ");
        Ok(Listed {
            tools: offer.tools.into(),
            problem: (!problems.is_empty()).then_some(problems),
        })
    }

    /// Servers of the newest protocol tell of changes only to whoever subscribed.
    pub async fn subscribe(&mut self, limits: &McpLimits) {
        let Some(info) = self.live.peer.peer_info() else {
            return;
        };
        let tells = info
            .capabilities
            .tools
            .as_ref()
            .and_then(|tools| tools.list_changed);
        if info.protocol_version.has_initialize() || tells != Some(true) {
            return;
        }
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        if let Ok(Ok(subscription)) =
            timeout(limits.list_timeout, self.live.peer.listen(filter)).await
        {
            self.subscription = Some(subscription);
        }
    }

    /// Waits for the next thing that happens. Dropping the future loses nothing.
    pub async fn happens(&mut self) -> Happened {
        let process_ended = async {
            match &mut self.process {
                Some(process) => process.ended().await,
                None => std::future::pending().await,
            }
        };
        let told = async {
            match &mut self.subscription {
                Some(subscription) => subscription.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.tools_changed.notified() => Happened::ToolsChanged,
            () = self.live.last_words.broken.cancelled() => Happened::Closed,
            () = process_ended => Happened::Closed,
            () = self.ended.cancelled() => Happened::Closed,
            told = told => match told {
                Ok(Some(_)) => Happened::ToolsChanged,
                Ok(None) | Err(_) => {
                    self.subscription = None;
                    Happened::ToolsChanged
                }
            },
        }
    }

    /// Ends the connection, and the server if it is ours.
    pub async fn close(mut self) {
        self.closing.cancel();
        self.subscription = None;
        let closing = self.service.close_with_timeout(CLOSE_TIMEOUT);
        match self.process {
            // The process ends at once; what it left unsaid is lost anyway.
            Some(process) => {
                let _ = tokio::join!(closing, process.stop());
            }
            None => {
                let _ = closing.await;
            }
        }
    }
}

async fn handshake<T: Transport<RoleClient> + 'static>(
    transport: T,
    workspace: Option<std::path::PathBuf>,
    limits: &McpLimits,
    stop: &CancellationToken,
    last_words: &Arc<LastWords>,
) -> Result<Connection, NoConnection> {
    let calls = Arc::new(OpenCalls::default());
    let tools_changed = Arc::new(Notify::new());
    let closing = CancellationToken::new();
    let client = McpClient {
        calls: calls.clone(),
        tools_changed: tools_changed.clone(),
        workspace,
        closing: closing.clone(),
    };
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    };
    let ended = CancellationToken::new();
    let transport = GuardedTransport::new(transport, ended.clone());
    let serving = client.serve_with_lifecycle(transport, lifecycle);
    let served = tokio::select! {
        served = timeout(limits.handshake_timeout, serving) => served,
        () = stop.cancelled() => return Err(NoConnection::Failed("it was stopped".to_owned())),
    };
    let service = match served {
        Ok(Ok(service)) => service,
        Ok(Err(error)) => return Err(not_initialized(&error)),
        Err(_) => {
            let seconds = limits.handshake_timeout.as_secs_f64();
            let text = format!("it did not answer the handshake within {seconds} s");
            return Err(NoConnection::Failed(text));
        }
    };
    let live = Arc::new(LiveServer {
        peer: service.peer().clone(),
        calls,
        last_words: last_words.clone(),
    });
    Ok(Connection {
        service,
        process: None,
        subscription: None,
        live,
        tools_changed,
        closing,
        ended,
    })
}

/// With the server's last words.
fn said(error: NoConnection, last_words: &LastWords) -> NoConnection {
    match error {
        NoConnection::Failed(text) => NoConnection::Failed(last_words.explain(&text)),
        NoConnection::Unauthorized { reason, .. } => NoConnection::Unauthorized {
            reason,
            challenge: last_words.challenge(),
        },
    }
}

fn not_initialized(error: &ClientInitializeError) -> NoConnection {
    match error {
        ClientInitializeError::TransportError { error, .. } => {
            let (text, is_unauthorized) = transport_text(error.error.as_ref());
            match is_unauthorized {
                true => NoConnection::Unauthorized {
                    reason: text,
                    challenge: None,
                },
                false => NoConnection::Failed(text),
            }
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => not_initialized(fallback),
        ClientInitializeError::ConnectionClosed(_) => {
            NoConnection::Failed("it ended during the handshake".to_owned())
        }
        ClientInitializeError::JsonRpcError(error) => {
            let said = visible(&error.message, MAX_ERROR_CHARS);
            NoConnection::Failed(format!("it refused the handshake: {said}"))
        }
        ClientInitializeError::NoCompatibleProtocolVersion {
            server_supported, ..
        } => {
            let versions: Vec<&str> = server_supported.iter().map(|v| v.as_str()).collect();
            let versions = visible(&versions.join(", "), MAX_ERROR_CHARS);
            NoConnection::Failed(format!(
                "it speaks only protocol versions that CodeLab does not know: {versions}"
            ))
        }
        _ => NoConnection::Failed("it answered the handshake with nonsense".to_owned()),
    }
}

fn no_list(error: &ServiceError, last_words: &LastWords) -> NoConnection {
    let text = match error {
        ServiceError::McpError(error) => {
            let said = visible(&error.message, MAX_ERROR_CHARS);
            format!("it does not list its tools: {said}")
        }
        ServiceError::TransportSend(error) => match transport_text(error.error.as_ref()) {
            (reason, true) => {
                return NoConnection::Unauthorized {
                    reason,
                    challenge: last_words.challenge(),
                };
            }
            (text, false) => text,
        },
        ServiceError::UnexpectedResponse => "it lists its tools in nonsense".to_owned(),
        _ => "it ended while it listed its tools".to_owned(),
    };
    NoConnection::Failed(last_words.explain(&text))
}

/// What happened on the way, and whether a person has to authorize first.
pub fn transport_text(error: &(dyn std::error::Error + 'static)) -> (String, bool) {
    match error.downcast_ref::<StreamableHttpError<McpHttpFailure>>() {
        Some(StreamableHttpError::AuthRequired(_)) => (
            "the server wants to know who calls (HTTP 401); authorize CodeLab there, or give it a \
             header with a key"
                .to_owned(),
            true,
        ),
        Some(StreamableHttpError::InsufficientScope(_)) => (
            "the server refuses what CodeLab was authorized for (HTTP 403); authorize it again"
                .to_owned(),
            true,
        ),
        Some(StreamableHttpError::Client(failure)) => (failure.to_string(), false),
        Some(other) => (visible(&other.to_string(), MAX_ERROR_CHARS), false),
        None => (visible(&error.to_string(), MAX_ERROR_CHARS), false),
    }
}

/// Whether a request that was not sent certainly had no effect.
pub fn had_no_effect(error: &(dyn std::error::Error + 'static)) -> bool {
    match error.downcast_ref::<StreamableHttpError<McpHttpFailure>>() {
        Some(StreamableHttpError::Client(failure)) => failure.had_no_effect(),
        Some(
            StreamableHttpError::AuthRequired(_)
            | StreamableHttpError::InsufficientScope(_)
            | StreamableHttpError::SessionExpired,
        ) => true,
        Some(_) | None => false,
    }
}
