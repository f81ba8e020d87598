//! What the stream of all of a user's sessions reads: which sessions have news, and their events.
//!
//! As in `sessions`, every query checks the user, because a session's key is no permission.

use codelab_protocol::Timestamp;

use super::UserStore;
use super::sessions::{my_sessions, of_my_session};
use crate::columns::Columns;
use crate::row::{SessionLogRow, StoredEvent};
use crate::store::pages::{MAX_PART_BYTES, SizedList};
use crate::store::read::event;
use crate::{SessionKey, StoreError};

// The signs keep planners from walking all sessions by their key instead of the user's.
const LOGS_SINCE: &str = my_sessions!(
    "id, session_id, first_seq, last_seq, last_event_at",
    "user_id = $1",
    " AND last_event_at >= $2 AND +id > $3 ORDER BY +id LIMIT $4"
);
const LOG: &str = my_sessions!(
    "id, session_id, first_seq, last_seq, last_event_at",
    "id = $1 AND user_id = $2",
    ""
);

macro_rules! list_events {
    ($select:literal) => {
        concat!(
            "SELECT ",
            $select,
            " FROM events",
            of_my_session!(" AND seq > $3 AND seq <= $4 ORDER BY seq LIMIT $5")
        )
    };
}
const EVENTS: SizedList<StoredEvent> = SizedList {
    sizes: list_events!("CAST(OCTET_LENGTH(body) AS BIGINT)"),
    rows: list_events!("seq, turn, kind, settled, created_at, body"),
    decode: event,
};
// Walks back from the newest event, so it reads only what happened since.
const LAST_SEQ_AT: &str = concat!(
    "SELECT seq FROM events",
    of_my_session!(" AND seq <= $3 AND created_at <= $4 ORDER BY seq DESC LIMIT 1")
);

impl UserStore {
    /// A page of the user's sessions whose newest event happened at this time or later, by key.
    /// `after` is the last key of the page before.
    pub async fn logs_since(
        &self,
        since: Timestamp,
        after: Option<SessionKey>,
        limit: u64,
    ) -> Result<Vec<SessionLogRow>, StoreError> {
        let after = after.map_or(0, SessionKey::get);
        let params = vec![self.user.into(), since.into(), after.into(), limit.into()];
        self.store.read(LOGS_SINCE, params, log_row).await
    }

    /// `None` if the user has no such session.
    pub async fn log(&self, key: SessionKey) -> Result<Option<SessionLogRow>, StoreError> {
        self.store
            .read_one(LOG, self.of(key).to_vec(), log_row)
            .await
    }

    /// The stored events after one number and up to another, in order. At most `limit`, and at most
    /// one page, but at least one if there is one.
    pub async fn events(
        &self,
        key: SessionKey,
        after_seq: u64,
        up_to_seq: u64,
        limit: u64,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let span = [after_seq.into(), up_to_seq.into()];
        let which = self.of(key).into_iter().chain(span).collect();
        self.store
            .read_sized(EVENTS, which, limit, None, MAX_PART_BYTES)
            .await
    }

    /// The last event up to this number that had happened by this time, if it is still stored.
    pub async fn last_seq_at(
        &self,
        key: SessionKey,
        up_to_seq: u64,
        at: Timestamp,
    ) -> Result<Option<u64>, StoreError> {
        let until = [up_to_seq.into(), at.into()];
        let params = self.of(key).into_iter().chain(until).collect();
        self.store
            .read_one(LAST_SEQ_AT, params, |row| row.count())
            .await
    }
}

fn log_row(row: &mut Columns<'_>) -> Result<SessionLogRow, StoreError> {
    Ok(SessionLogRow {
        key: SessionKey::from_raw(row.int()?),
        session_id: row.id()?,
        first_seq: row.count()?,
        last_seq: row.count()?,
        last_event_at: row.optional_time()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::query_plan::{assert_uses, empty};

    #[test]
    fn sqlite_finds_rows_by_the_intended_index() {
        let connection = empty();
        let events = "SEARCH events USING INDEX sqlite_autoindex_events_1 (session_key=? AND seq";
        for (sql, index) in [
            (LOGS_SINCE, "sessions_by_user (user_id=?)"),
            (LOG, "SEARCH sessions USING INTEGER PRIMARY KEY (rowid=?)"),
            (EVENTS.rows, events),
            (EVENTS.sizes, events),
            (LAST_SEQ_AT, events),
        ] {
            assert_uses(&connection, sql, index);
        }
    }
}
