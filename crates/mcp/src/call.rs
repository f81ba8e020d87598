//! One call of a tool: what the caller gives, what it hears meanwhile, and how the call ends.

use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// What a call needs besides its arguments.
#[derive(Debug, Clone)]
pub struct CallOptions {
    /// Cancels the call: the server is told, and the call ends as unknown.
    pub stop: CancellationToken,
    /// What happens during the call. Progress is dropped while the channel is full; a question is
    /// declined when nobody receives.
    pub asks: mpsc::Sender<CallEvent>,
}

/// What a server says while it works on a call.
#[derive(Debug)]
pub enum CallEvent {
    Progress {
        progress: f64,
        total: Option<f64>,
        /// At most 2,000 characters, without control characters.
        message: Option<String>,
    },
    /// The server asks the person. A dropped `reply` declines.
    Elicit {
        /// At most 4,000 characters, without control characters.
        message: String,
        /// The fields of the answer as JSON Schema.
        requested_schema: Map<String, Value>,
        reply: oneshot::Sender<ElicitReply>,
    },
}

/// The person's answer to a server's question.
#[derive(Clone, PartialEq)]
pub enum ElicitReply {
    Accept(Map<String, Value>),
    Decline,
    Cancel,
}

/// Shows no answer: a person may have typed a secret.
impl std::fmt::Debug for ElicitReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Accept(_) => "Accept(…)",
            Self::Decline => "Decline",
            Self::Cancel => "Cancel",
        })
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub enum McpCallEnd {
    /// The server answered: `{success, content, structured?, images?, error?}`. A tool that failed
    /// has `success: false`.
    Result(Value),
    /// Nothing was sent to the server.
    Refused(String),
    /// The call was sent, and nobody knows whether it had an effect.
    Unknown(String),
    /// The server refused the call or answered nonsense.
    Failed(String),
}
