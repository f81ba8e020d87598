//! Errors of the store, by what a caller can do about them.
//!
//! A message never holds SQL, a driver's message or stored data, because drivers quote values.

use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The epoch changed, the session is deleted, or a row the commit relied on is not as expected.
    /// Nothing was written.
    #[error("the session has changed since it was read")]
    Conflict,
    /// A session of this name exists, deleted ones included. Nothing was written.
    #[error("the session exists already")]
    AlreadyExists,
    #[error("there is no such session")]
    NotFound,
    /// Nothing was written. Commits work again when there is space.
    #[error("the disk of the database is full")]
    DiskFull,
    /// The database cannot be reached right now. Nothing was written.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// The connection broke during the commit, so it may be stored or not. Reload the session to
    /// see.
    #[error("the connection broke during a commit, its outcome is unknown")]
    Unknown,
    #[error("the database {} is in use by another process", .0.display())]
    Locked(PathBuf),
    #[error(
        "the database has schema version {found}, this program knows only {known}: use a newer program"
    )]
    TooNew { found: i64, known: i64 },
    #[error(
        "the database has schema version {found}, this program needs {known}: start the server once to upgrade it"
    )]
    TooOld { found: i64, known: i64 },
    /// The store was opened for reading only. A database that refuses writes of all callers is
    /// `Unavailable`.
    #[error("the database was opened for reading only")]
    ReadOnly,
    /// This user asks for more than the database should do for one. It works for others.
    #[error("{0}")]
    Overloaded(&'static str),
    #[error("the database is damaged: {0}")]
    Corrupt(String),
    /// The request is wrong: a wrong address, a gap in the events.
    #[error("{0}")]
    Invalid(String),
    #[error("input/output error: {0}")]
    Io(String),
}

impl StoreError {
    pub(crate) fn io(what: &str, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::StorageFull => Self::DiskFull,
            _ => Self::Io(format!("{what}: {error}")),
        }
    }

    /// Whether the database does not work now, for any caller. The store logs that itself.
    pub fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::DiskFull | Self::Unavailable(_) | Self::Unknown | Self::Io(_)
        )
    }

    pub(crate) fn search_took_too_long() -> Self {
        Self::Overloaded("The search took too long; use fewer or longer words")
    }

    pub(crate) fn stopped() -> Self {
        Self::Unavailable("the store is closed".to_owned())
    }
}
