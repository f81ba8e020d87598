//! What a rewind would take back.

use codelab_protocol::{CallId, MessageId, TurnId};

use super::Store;
use super::read::{message, message_bytes, message_columns};
use crate::columns::Columns;
use crate::row::StoredMessage;
use crate::statement::Param;
use crate::{SessionKey, StoreError};

const MESSAGE: &str = concat!(
    "SELECT ",
    message_columns!(),
    " FROM messages WHERE session_key = $1 AND message_id = $2 LIMIT 1"
);
const SIZE: &str = concat!(
    "SELECT COUNT(*), CAST(COALESCE(SUM(",
    message_bytes!(),
    "), 0) AS BIGINT) FROM messages WHERE session_key = $1 AND rewound IS NULL AND turn >= $2 AND turn < $3"
);
const CALLS: &str = "SELECT call_id, tool_name, did FROM tool_calls WHERE session_key = $1 AND turn >= $2 \
     AND (did IS NOT NULL OR (status IN ('unknown', 'cancelled') AND tool_name IN ('write_file', 'create_directory'))) \
     ORDER BY turn, call_id LIMIT $3";

/// How much of a session's own history is in a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistorySize {
    pub messages: u64,
    pub bytes: u64,
}

/// A tool call that changed something, or may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RanCallRow {
    pub call_id: CallId,
    pub tool_name: String,
    /// `None` if nobody knows whether it ran.
    pub did: Option<String>,
}

impl Store {
    /// A message of the session's own history.
    pub async fn message(
        &self,
        key: SessionKey,
        id: &MessageId,
    ) -> Result<Option<StoredMessage>, StoreError> {
        let params = vec![key.into(), Param::text(id.as_str())];
        self.read_one(MESSAGE, params, message).await
    }

    /// Of the turns `from` to before `until`, without what a rewind has taken back.
    pub async fn history_size(
        &self,
        key: SessionKey,
        from: TurnId,
        until: TurnId,
    ) -> Result<HistorySize, StoreError> {
        let params = vec![key.into(), from.0.into(), until.0.into()];
        let size = self.read_one(SIZE, params, |row: &mut Columns<'_>| {
            Ok(HistorySize {
                messages: row.count()?,
                bytes: row.count()?,
            })
        });
        let none = HistorySize {
            messages: 0,
            bytes: 0,
        };
        Ok(size.await?.unwrap_or(none))
    }

    /// What tool calls did from this turn on, at most `limit` of them.
    pub async fn ran_calls(
        &self,
        key: SessionKey,
        from: TurnId,
        limit: u64,
    ) -> Result<Vec<RanCallRow>, StoreError> {
        let params = vec![key.into(), from.0.into(), limit.into()];
        self.read(CALLS, params, |row: &mut Columns<'_>| {
            Ok(RanCallRow {
                call_id: row.id()?,
                tool_name: row.string()?,
                did: row.optional_string()?,
            })
        })
        .await
    }
}
