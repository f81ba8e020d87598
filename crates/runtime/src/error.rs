//! Why a request to the runtime got no answer.

use codelab_engine::Refusal;
use codelab_store::StoreError;

#[derive(Debug, Clone, thiserror::Error)]
pub enum RuntimeError {
    /// The engine said no; nothing changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("Session not found")]
    SessionNotFound,
    #[error("Session exists already")]
    SessionExists,
    /// More requests for one session, or more live sessions, than are accepted at once.
    #[error("Too many requests at once")]
    Busy,
    /// Another living server owns the session or the Chat.
    #[error("Another server serves this request; try again")]
    Elsewhere,
    #[error("The server is stopping")]
    Stopping,
    /// A commit failed; nothing was changed, or nobody knows.
    #[error(transparent)]
    NotStored(StoreError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RuntimeError {
    /// The database does not work at the moment, and has said so in the log.
    pub(crate) fn is_outage(&self) -> bool {
        matches!(self, Self::NotStored(error) | Self::Store(error) if error.is_outage())
    }

    /// What a session meets in its project: a project that was deleted took its sessions with it.
    pub(crate) fn of_project_session(error: StoreError) -> Self {
        match error {
            StoreError::NotFound => Self::SessionNotFound,
            error => error.into(),
        }
    }
}
