//! Deletes, restores and purges sessions, and prunes events.

use codelab_protocol::Timestamp;

use super::Store;
use crate::statement::Stmt;
use crate::{SessionKey, StoreError};

const SOFT_DELETE: &str =
    "UPDATE sessions SET deleted_at = $1, is_active = 0 WHERE id = $2 AND deleted_at IS NULL";
const SOFT_DELETE_IDLE: &str = "UPDATE sessions SET deleted_at = $1, is_active = 0 \
     WHERE id = $2 AND deleted_at IS NULL AND last_activity < $3 AND running = 0";
const RESTORE: &str =
    "UPDATE sessions SET deleted_at = NULL, is_active = 1 WHERE id = $1 AND deleted_at IS NOT NULL";

/// Removes arguments and reasons. Rows that are older than the key keep their reason, because it is
/// part of their hash.
macro_rules! blank_audit {
    () => {
        "UPDATE audit_logs SET original_args = NULL, modified_args = NULL, \
         reason = CASE WHEN reason_digest IS NULL THEN reason END WHERE "
    };
}
pub(super) use blank_audit;

/// Records for the indexes which interactions will be deleted.
macro_rules! note_erased {
    ($which:literal) => {
        concat!(
            "INSERT INTO memory_erasures (id, user_id, project_id, agent) \
             SELECT id, user_id, project_id, agent FROM interactions WHERE ",
            $which,
            " ON CONFLICT DO NOTHING"
        )
    };
}
pub(super) use note_erased;

/// Deletes the files that only these sessions refer to. The rows are locked first, as they are by a
/// commit that adds a reference: so none is deleted that another session is just about to get.
macro_rules! delete_attachments {
    ($which:literal) => {
        [
            concat!(
                "UPDATE attachments SET size = size WHERE digest IN \
                 (SELECT digest FROM session_attachments WHERE session_key IN (",
                $which,
                "))"
            ),
            concat!(
                "DELETE FROM attachments WHERE digest IN \
                 (SELECT digest FROM session_attachments WHERE session_key IN (",
                $which,
                ")) AND NOT EXISTS (SELECT 1 FROM session_attachments AS other \
                 WHERE other.digest = attachments.digest AND other.session_key NOT IN (",
                $which,
                "))"
            ),
            concat!(
                "DELETE FROM session_attachments WHERE session_key IN (",
                $which,
                ")"
            ),
        ]
    };
}
pub(super) use delete_attachments;

const PURGE_ATTACHMENTS: [&str; 3] = delete_attachments!("$1");

// The session's own row is deleted first. From then on no commit can add anything.
const PURGE: [&str; 14] = [
    "DELETE FROM sessions WHERE id = $1",
    "DELETE FROM events WHERE session_key = $1",
    "DELETE FROM messages WHERE session_key = $1",
    "DELETE FROM session_texts WHERE session_key = $1",
    "DELETE FROM task_messages WHERE session_key = $1",
    "DELETE FROM plans WHERE session_key = $1",
    note_erased!("session_key = $1"),
    "DELETE FROM interactions WHERE session_key = $1",
    "DELETE FROM agent_contexts WHERE session_key = $1",
    "DELETE FROM agent_switches WHERE session_key = $1",
    "DELETE FROM pending_approvals WHERE session_key = $1",
    "DELETE FROM tool_calls WHERE session_key = $1",
    "DELETE FROM inputs WHERE session_key = $1",
    concat!(blank_audit!(), "session_key = $1"),
];

// Only runtime sessions. Users delete their project sessions themselves, and that cannot be undone.
const IDLE_SINCE: &str = "SELECT id FROM sessions WHERE realm = 'runtime' AND last_activity < $1 \
     AND deleted_at IS NULL AND running = 0 AND id > $2 ORDER BY id LIMIT $3";

// The oldest event that is kept, or the number after the newest event.
const FIRST_TO_KEEP: &str = "SELECT COALESCE((SELECT MIN(seq) FROM events WHERE session_key = $1 \
     AND created_at >= $2), last_seq + 1) FROM sessions WHERE id = $1";
const MOVE_FIRST: &str = "UPDATE sessions SET first_seq = $1 WHERE id = $2 AND first_seq < $1";
const PRUNE: &str = "DELETE FROM events WHERE session_key = $1 AND seq < $2";
const PRUNABLE: &str = "SELECT sessions.id FROM sessions JOIN events ON events.session_key = sessions.id \
     AND events.seq = sessions.first_seq WHERE events.created_at < $1 AND sessions.id > $2 \
     ORDER BY sessions.id LIMIT $3";

impl Store {
    /// `NotFound` if there is none or it is already deleted.
    pub async fn soft_delete(&self, key: SessionKey, now: Timestamp) -> Result<(), StoreError> {
        let stmt = Stmt::one(SOFT_DELETE, vec![now.into(), key.into()]);
        self.write(Some(key), vec![stmt])
            .await
            .map(drop)
            .map_err(missing)
    }

    /// `NotFound` when there is none or it is not deleted.
    pub async fn restore(&self, key: SessionKey) -> Result<(), StoreError> {
        self.write(Some(key), vec![Stmt::one(RESTORE, vec![key.into()])])
            .await
            .map(drop)
            .map_err(missing)
    }

    /// Deletes the session's rows for good, soft-deleted or not. The audit log stays without
    /// arguments and reasons, and the usage stays.
    pub async fn purge(&self, key: SessionKey) -> Result<(), StoreError> {
        let mut stmts: Vec<_> = PURGE
            .iter()
            .chain(&PURGE_ATTACHMENTS)
            .map(|sql| Stmt::any(sql, vec![key.into()]))
            .collect();
        stmts[0].expect = crate::statement::Expect::One;
        self.erase(Some(key), stmts).await.map_err(missing)
    }

    /// Runtime sessions without activity since `before` that are neither running nor deleted,
    /// sorted by key. `after` is the last key of the page before.
    pub async fn idle_sessions(
        &self,
        before: Timestamp,
        after: Option<SessionKey>,
        limit: usize,
    ) -> Result<Vec<SessionKey>, StoreError> {
        let params = vec![
            before.into(),
            after.map_or(0, SessionKey::get).into(),
            (limit as u64).into(),
        ];
        self.read(IDLE_SINCE, params, |row| {
            row.int().map(SessionKey::from_raw)
        })
        .await
    }

    /// Soft-deletes up to `limit` runtime sessions without activity since `before`, and returns
    /// them.
    pub async fn cleanup_older_than(
        &self,
        before: Timestamp,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<SessionKey>, StoreError> {
        let mut cleaned = Vec::new();
        for key in self.idle_sessions(before, None, limit).await? {
            // The statement checks again, because the session may have become active meanwhile.
            let stmt = Stmt::any(
                SOFT_DELETE_IDLE,
                vec![now.into(), key.into(), before.into()],
            );
            if self.write(Some(key), vec![stmt]).await?.rows == 1 {
                cleaned.push(key);
            }
        }
        Ok(cleaned)
    }

    /// Removes a session's events that are older than `older_than`, up to the first younger one.
    /// Returns their number.
    pub async fn prune_events(
        &self,
        key: SessionKey,
        older_than: Timestamp,
    ) -> Result<u64, StoreError> {
        let params = vec![key.into(), older_than.into()];
        // This is read first. Events stored meanwhile have higher numbers and stay.
        let Some(first) = self
            .read_one(FIRST_TO_KEEP, params, |row| row.count())
            .await?
        else {
            return Err(StoreError::NotFound);
        };
        let stmts = vec![
            Stmt::any(MOVE_FIRST, vec![first.into(), key.into()]),
            Stmt::any(PRUNE, vec![key.into(), first.into()]),
        ];
        Ok(self.write(Some(key), stmts).await?.rows)
    }

    /// Sessions that have events from before `older_than`, by key; `after` pages on.
    pub async fn prunable_sessions(
        &self,
        older_than: Timestamp,
        after: Option<SessionKey>,
        limit: usize,
    ) -> Result<Vec<SessionKey>, StoreError> {
        let params = vec![
            older_than.into(),
            after.map_or(0, SessionKey::get).into(),
            (limit as u64).into(),
        ];
        self.read(PRUNABLE, params, |row| row.int().map(SessionKey::from_raw))
            .await
    }
}

fn missing(error: StoreError) -> StoreError {
    if error == StoreError::Conflict {
        StoreError::NotFound
    } else {
        error
    }
}
