//! How memory fails: what a caller can decide upon, and nothing of the engines.

use crate::CollectionName;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// The engine, or this one collection, cannot be used now. Work goes on without memory; a later
    /// call may succeed, and a rebuild replaces a collection that is broken.
    #[error("memory is unavailable: {reason}")]
    Unavailable { reason: String },
    /// The collection does not exist, or was written by another analysis of words: create it first.
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

/// Why a server cannot be addressed as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    #[error(
        "the address must be http://host[:port][/path] or https://…, without user, query or fragment"
    )]
    Url,
    #[error("the key holds characters that a header cannot carry")]
    Key,
    #[error("the system's certificates cannot be read: {reason}")]
    Certificates { reason: String },
}
