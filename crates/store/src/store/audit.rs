//! The audit log: rows by session, and all sessions that have one.

use codelab_protocol::SessionId;

use super::Store;
use super::pages::{MAX_PART_BYTES, MAX_PART_ROWS, SizedList};
use crate::audit_chain::{BrokenAt, Chain};
use crate::columns::Columns;
use crate::row::{AuditHead, AuditRecord, AuditRow, AuditSession};
use crate::statement::Param;
use crate::{Realm, SessionKey, StoreError};

const AUDIT: &str = "SELECT ord, call_id, tool_name, original_args, original_digest, modified_args, modified_digest, \
     decision, decided_by, reason, timestamp, hash FROM audit_logs WHERE session_key = $1 AND ord > $2 \
     ORDER BY ord LIMIT $3";
const AUDIT_SIZES: &str = "SELECT CAST(COALESCE(OCTET_LENGTH(original_args), 0) + COALESCE(OCTET_LENGTH(modified_args), 0) \
     + COALESCE(OCTET_LENGTH(reason), 0) AS BIGINT) FROM audit_logs WHERE session_key = $1 AND ord > $2 \
     ORDER BY ord LIMIT $3";
const HEAD: &str = "SELECT count, head FROM audit_heads WHERE session_key = $1";

// Rows whose head is gone are found as well: that is one of the things a check is for.
const SESSIONS: &str = "SELECT named.session_key, COALESCE(audit_heads.realm, sessions.realm), \
     COALESCE(audit_heads.session_id, sessions.session_id) FROM (\
     SELECT session_key FROM audit_heads WHERE session_key > $1 \
     UNION SELECT session_key FROM audit_logs WHERE session_key > $1) AS named \
     LEFT JOIN audit_heads ON audit_heads.session_key = named.session_key \
     LEFT JOIN sessions ON sessions.id = named.session_key ORDER BY named.session_key LIMIT $2";

impl Store {
    /// The next part of the chain after this row, or its first part, in order; nothing at its end.
    pub async fn audit(&self, key: SessionKey, after_ord: Option<u64>) -> Result<Vec<AuditRow>, StoreError> {
        // A row that somebody put before the first one is to be seen too.
        let after = after_ord.map_or(Param::Int(i64::MIN), Param::from);
        let list = SizedList { sizes: AUDIT_SIZES, rows: AUDIT, decode: audit_row };
        self.read_sized(list, vec![key.into(), after], MAX_PART_ROWS, None, MAX_PART_BYTES).await
    }

    /// Follows the whole chain to its head, or to where it does not hold. Decisions may be written meanwhile.
    pub async fn verify_audit(
        &self,
        key: SessionKey,
        realm: Realm,
        session_id: &SessionId,
    ) -> Result<Result<AuditHead, BrokenAt>, StoreError> {
        let (mut chain, mut after) = (Chain::new(realm, session_id), None);
        loop {
            // Read before the rows: where none is left, it counts those that were followed.
            let head = self.audit_head(key).await?;
            let rows = self.audit(key, after).await?;
            let Some(last) = rows.last() else { return Ok(chain.ends_at(head.as_ref())) };
            after = Some(last.ord);
            if let Err(broken) = chain.follow(&rows) {
                return Ok(Err(broken));
            }
        }
    }

    pub async fn audit_head(&self, key: SessionKey) -> Result<Option<AuditHead>, StoreError> {
        self.read_one(HEAD, vec![key.into()], |row| Ok(AuditHead { count: row.count()?, head: row.digest()? })).await
    }

    /// A page of the sessions that have an audit log, purged ones included, by key; `after` pages on.
    pub async fn audit_sessions(
        &self,
        after: Option<SessionKey>,
        limit: usize,
    ) -> Result<Vec<AuditSession>, StoreError> {
        let after = after.map_or(0, SessionKey::get);
        self.read(SESSIONS, vec![after.into(), (limit as u64).into()], audit_session).await
    }
}

fn audit_row(row: &mut Columns<'_>) -> Result<AuditRow, StoreError> {
    let ord = row.count()?;
    let record = AuditRecord {
        call_id: row.id()?,
        tool_name: row.string()?,
        original_args: row.optional_json()?,
        original_digest: row.digest()?,
        modified_args: row.optional_json()?,
        modified_digest: row.optional_digest()?,
        decision: row.string()?,
        decided_by: row.string()?,
        reason: row.optional_string()?,
        timestamp: row.time()?,
    };
    Ok(AuditRow { ord, record, hash: row.digest()? })
}

fn audit_session(row: &mut Columns<'_>) -> Result<AuditSession, StoreError> {
    let key = SessionKey::from_raw(row.int()?);
    let realm = row.optional_parsed(Realm::parse)?;
    let session_id = row.optional_id()?;
    Ok(AuditSession { key, name: realm.zip(session_id) })
}
