//! The audit log: rows by session, and all sessions that have one.

use codelab_protocol::{CallId, SessionId};

use super::Store;
use crate::columns::Columns;
use crate::row::{AuditHead, AuditRecord, AuditRow, AuditSession};
use crate::{Realm, SessionKey, StoreError};

const AUDIT: &str = "SELECT ord, call_id, tool_name, original_args, original_digest, modified_args, modified_digest, \
     decision, decided_by, reason, timestamp, hash FROM audit_logs WHERE session_key = $1 ORDER BY ord";
const HEAD: &str = "SELECT count, head FROM audit_heads WHERE session_key = $1";

// Rows whose head is gone are found as well: that is one of the things a check is for.
const SESSIONS: &str = "SELECT named.session_key, COALESCE(audit_heads.realm, sessions.realm), \
     COALESCE(audit_heads.session_id, sessions.session_id), audit_heads.count, audit_heads.head FROM (\
     SELECT session_key FROM audit_heads WHERE session_key > $1 \
     UNION SELECT session_key FROM audit_logs WHERE session_key > $1) AS named \
     LEFT JOIN audit_heads ON audit_heads.session_key = named.session_key \
     LEFT JOIN sessions ON sessions.id = named.session_key ORDER BY named.session_key LIMIT $2";

impl Store {
    /// In the order of the chain.
    pub async fn audit(&self, key: SessionKey) -> Result<Vec<AuditRow>, StoreError> {
        self.read(AUDIT, vec![key.into()], audit_row).await
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
        call_id: row.parsed(|text| CallId::parse(text).ok())?,
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
    let session_id = row.optional_parsed(|text| SessionId::parse(text).ok())?;
    let (count, head) = (row.optional_count()?, row.optional_digest()?);
    let head = count.zip(head).map(|(count, head)| AuditHead { count, head });
    Ok(AuditSession { key, name: realm.zip(session_id), head })
}
