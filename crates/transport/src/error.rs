//! What can go wrong with a connection: what happened, why, and what to do about it.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

/// A setting with which no connection can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportConfigError {
    #[error("the CA file {} cannot be used: {reason}", path.display())]
    CaFile { path: PathBuf, reason: String },
    #[error("{variable} cannot be used: {reason}")]
    Proxy {
        variable: &'static str,
        reason: &'static str,
    },
    #[error("this system's certificate store cannot be used: {reason}")]
    SystemRoots { reason: String },
}

/// Why a request has no complete answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The server was not reached, so the request had no effect.
    #[error("{0}")]
    Connect(#[from] ConnectError),
    /// The connection broke after the request was sent. The request may have had an effect.
    #[error("the connection broke: {0}")]
    Cut(String),
    /// The server sent nothing for too long. The request may have had an effect.
    #[error("no answer within {} s", after.as_secs_f64())]
    Timeout { after: Duration },
    #[error("the answer is larger than {max_bytes} bytes")]
    TooLarge { max_bytes: usize },
}

/// Why there is no connection. Never holds a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    #[error("{address} cannot be reached: {reason}")]
    Unreachable { address: String, reason: String },
    /// The rule of the client forbids it; nothing was sent there.
    #[error("{address} is not called: {reason}, which is not allowed here")]
    Forbidden {
        address: String,
        reason: crate::NotPublic,
    },
    #[error("there is no connection to {address} after {} s", after.as_secs_f64())]
    Timeout { address: String, after: Duration },
    #[error("the certificate of {host} is not trusted: {reason}; {advice}")]
    Certificate {
        host: String,
        reason: String,
        advice: &'static str,
    },
    #[error(
        "{address} did not complete a TLS handshake: {reason}; if it does not use TLS, its address \
         starts with http://"
    )]
    Tls { address: String, reason: String },
    #[error("the proxy {proxy} cannot be reached: {reason}")]
    Proxy { proxy: String, reason: String },
    #[error(
        "the proxy {proxy} wants a valid user name and password (HTTP 407); write them into the \
         variable as http://user:password@host:port"
    )]
    ProxyCredentials { proxy: String },
    #[error(
        "the proxy {proxy} refused a connection to {address} (HTTP {status}); if the server needs \
         no proxy, add its name to NO_PROXY"
    )]
    ProxyRefused {
        proxy: String,
        address: String,
        status: u16,
    },
}

impl TransportError {
    pub(crate) fn of_request(error: &hyper_util::client::legacy::Error) -> Self {
        let mut cause: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(inner) = cause {
            if let Some(connect) = inner.downcast_ref::<ConnectError>() {
                return Self::Connect(connect.clone());
            }
            cause = inner.source();
        }
        Self::Cut(chain(error))
    }

    /// Whether the request certainly had no effect.
    pub fn is_connect(&self) -> bool {
        matches!(self, Self::Connect(_))
    }
}

/// An error with the causes below it, on one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.ends_with(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}
