//! The Chat on its way from one owner to the next.

use codelab_protocol::Timestamp;

use super::Store;
use crate::StoreError;
use crate::statement::Stmt;

/// A larger hand-over is refused. Whoever saves it shortens it before.
pub const MAX_CHAT_HANDOVER_BYTES: usize = 8 * 1024 * 1024;
/// Attempts to take the row while others take or replace it.
const TAKE_ATTEMPTS: usize = 3;

const REMOVE_ALL: &str = "DELETE FROM chat_handovers";
const SAVE: &str = "INSERT INTO chat_handovers (saved_at, body) VALUES ($1, $2)";
const NEWEST: &str = "SELECT id, body FROM chat_handovers ORDER BY id DESC LIMIT 1";
const REMOVE: &str = "DELETE FROM chat_handovers WHERE id = $1";

impl Store {
    /// Keeps the Chat for its next owner. An earlier hand-over that nobody took does not count any
    /// more.
    pub async fn save_chat_handover(&self, json: String, now: Timestamp) -> Result<(), StoreError> {
        if json.len() > MAX_CHAT_HANDOVER_BYTES {
            return Err(StoreError::Invalid(format!(
                "a hand-over of the Chat is larger than {MAX_CHAT_HANDOVER_BYTES} bytes"
            )));
        }
        let stmts = vec![
            Stmt::any(REMOVE_ALL, vec![]),
            Stmt::one(SAVE, vec![now.into(), json.into()]),
        ];
        self.erase(None, stmts).await
    }

    /// Takes the newest hand-over away. A row never changes, and only the caller that removes it
    /// gets it.
    pub async fn take_chat_handover(&self) -> Result<Option<String>, StoreError> {
        let mut taken = None;
        for _ in 0..TAKE_ATTEMPTS {
            let newest = self
                .read_one(NEWEST, vec![], |row| Ok((row.int()?, row.string()?)))
                .await?;
            let Some((id, json)) = newest else {
                return Ok(taken);
            };
            match self
                .erase(None, vec![Stmt::one(REMOVE, vec![id.into()])])
                .await
            {
                Ok(()) => return Ok(Some(json)),
                // Another server was faster.
                Err(StoreError::Conflict) => {}
                // It is ours if it turns out to be gone: only the owner of the Chat takes it.
                Err(StoreError::Unknown) => taken = Some(json),
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::Unknown)
    }
}
