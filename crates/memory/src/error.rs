//! Errors of memory, by what a caller can do about them. They tell nothing about the engines.

use codelab_transport::TransportConfigError;

use crate::CollectionName;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// The engine, or this one collection, cannot be used now. Callers continue without memory. A
    /// later call may succeed. A rebuild replaces a broken collection.
    #[error("memory is unavailable: {reason}")]
    Unavailable { reason: String },
    /// The collection does not exist, or another version of the text analysis wrote it. Create it
    /// first.
    #[error("there is no memory {collection}")]
    NotFound { collection: CollectionName },
    #[error("{reason}")]
    Invalid { reason: String },
}

impl MemoryError {
    pub(crate) fn unavailable(reason: impl ToString) -> Self {
        Self::Unavailable {
            reason: reason.to_string(),
        }
    }
}

/// Why a server cannot be used with these options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    #[error(
        "the address must be http://host[:port][/path] or https://…, without user, query or fragment"
    )]
    Url,
    #[error("the key holds characters that a header cannot carry")]
    Key,
    #[error("{0}")]
    Network(#[from] TransportConfigError),
}
