//! What can go wrong, as far as a caller can decide something about it.
//!
//! A message never carries SQL, a driver's own text or stored data: drivers quote values in theirs.

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
    /// Nothing was written; later commits work again once there is space.
    #[error("the disk of the database is full")]
    DiskFull,
    /// The database cannot be reached right now. Nothing was written.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// The connection broke during the commit: it may or may not be stored. Reload and look.
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
    /// The caller wanted only to read. A database that takes no writes from anybody is
    /// `Unavailable`.
    #[error("the database was opened for reading only")]
    ReadOnly,
    #[error("the database is damaged: {0}")]
    Corrupt(String),
    /// The caller asked for something that cannot be: a wrong address, a gap in the events.
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

    /// The database does not work at the moment, for this caller or any other. It says so in the
    /// log by itself.
    pub fn is_outage(&self) -> bool {
        matches!(
            self,
            Self::DiskFull | Self::Unavailable(_) | Self::Unknown | Self::Io(_)
        )
    }

    pub(crate) fn stopped() -> Self {
        Self::Unavailable("the store is closed".to_owned())
    }
}
