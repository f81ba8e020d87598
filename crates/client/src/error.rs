//! What can go wrong between the caller and the server, by what the caller can do about it.

use codelab_protocol::{ErrorBody, ErrorCode};

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server refused. `body` is there when the answer was the API's own error body.
    #[error("the server answered {status}: {}", .body.as_ref().map_or(.text.as_str(), |body| body.detail.as_str()))]
    Status {
        status: u16,
        body: Option<Box<ErrorBody>>,
        text: String,
        retry_after_seconds: Option<u64>,
    },
    /// The server was not reached; the request had no effect.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection broke after the request was sent, or a stream ended without `done`. What was
    /// asked for may have happened.
    #[error("the answer was cut off: {0}")]
    Cut(String),
    /// No answer, or a silent stream. What was asked for may have happened.
    #[error("timed out after {after_ms} ms")]
    Timeout { after_ms: u64 },
    /// The request could not be built, or the answer is not what the API promises.
    #[error("{0}")]
    Invalid(String),
}

impl ClientError {
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    pub fn error_code(&self) -> Option<ErrorCode> {
        match self {
            Self::Status {
                body: Some(body), ..
            } => body.error_code,
            _ => None,
        }
    }

    /// A text among the details of the API's own error body.
    pub fn detail(&self, name: &str) -> Option<&str> {
        match self {
            Self::Status {
                body: Some(body), ..
            } => body.details.get(name)?.as_str(),
            _ => None,
        }
    }

    /// Whether reading again later may succeed. Says nothing about repeating a request with
    /// effects.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Status { status, .. } => {
                matches!(status, 408 | 429 | 500 | 502 | 503 | 504 | 507)
            }
            Self::Connect(_) | Self::Cut(_) | Self::Timeout { .. } => true,
            Self::Invalid(_) => false,
        }
    }
}
