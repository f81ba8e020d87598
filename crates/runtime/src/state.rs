//! A stored session as the engine's value.

use codelab_engine::Session;
use codelab_store::{SessionRow, StoreError};

/// The state of a session as its row has it. A session that is in memory may be ahead of it.
pub fn state_of(row: &SessionRow) -> Result<Session, StoreError> {
    parse(&row.state)
}

pub(crate) fn parse(state: &str) -> Result<Session, StoreError> {
    serde_json::from_str(state).map_err(|error| {
        StoreError::Corrupt(format!("the state of a session cannot be read: {error}"))
    })
}
