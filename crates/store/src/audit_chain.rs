//! The chain that makes the audit log tell when it was changed: pure functions over rows.
//!
//! Each row's hash covers the hash before it, the session's name and every field but the arguments, which stand there
//! by their digests, so that a purge can blank them and the chain still holds.

use codelab_protocol::{Digest, SessionId, arguments_digest};
use serde_json::json;

use crate::Realm;
use crate::row::{AuditHead, AuditRecord, AuditRow};

/// What the first row of every chain follows.
pub fn genesis() -> AuditHead {
    AuditHead { count: 0, head: Digest::of_bytes(b"codelab audit chain") }
}

/// The next row of a chain; the head after it is `head_of` that row.
pub fn append(head: &AuditHead, realm: Realm, session_id: &SessionId, record: AuditRecord) -> AuditRow {
    let ord = head.count + 1;
    let hash = audit_hash(&head.head, realm, session_id, ord, &record);
    AuditRow { ord, record, hash }
}

pub fn head_of(row: &AuditRow) -> AuditHead {
    AuditHead { count: row.ord, head: row.hash.clone() }
}

pub fn audit_hash(prev: &Digest, realm: Realm, session_id: &SessionId, ord: u64, record: &AuditRecord) -> Digest {
    Digest::of_json(&json!({
        "prev": prev,
        "realm": realm.as_str(),
        "session_id": session_id,
        "ord": ord,
        "call_id": record.call_id,
        "tool_name": record.tool_name,
        "original_digest": record.original_digest,
        "modified_digest": record.modified_digest,
        "decision": record.decision,
        "decided_by": record.decided_by,
        "reason": record.reason,
        "timestamp_ms": record.timestamp.as_millis(),
    }))
}

/// The first place where a chain does not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the audit log is broken at row {ord}: {why}")]
pub struct BrokenAt {
    pub ord: u64,
    pub why: Break,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Break {
    #[error("a row is missing")]
    Missing,
    #[error("the row or one before it was changed")]
    Hash,
    #[error("the proposed arguments were changed")]
    OriginalArguments,
    #[error("the executed arguments were changed")]
    ModifiedArguments,
    #[error("the end of the log was cut off")]
    TailCut,
    #[error("the log has rows that were never counted")]
    NotCounted,
    #[error("the record of the log's end is gone")]
    HeadMissing,
    #[error("the record of the log's end was changed")]
    Head,
}

/// A chain that is followed from its first row.
pub struct Chain<'a> {
    realm: Realm,
    session_id: &'a SessionId,
    end: AuditHead,
}

impl<'a> Chain<'a> {
    pub fn new(realm: Realm, session_id: &'a SessionId) -> Self {
        Self { realm, session_id, end: genesis() }
    }

    /// The rows that come next, in order.
    pub fn follow(&mut self, rows: &[AuditRow]) -> Result<(), BrokenAt> {
        for row in rows {
            let ord = self.end.count + 1;
            let broken = |why| Err(BrokenAt { ord, why });
            if row.ord != ord {
                return broken(Break::Missing);
            }
            if row.hash != audit_hash(&self.end.head, self.realm, self.session_id, ord, &row.record) {
                return broken(Break::Hash);
            }
            check_arguments(&row.record).or_else(broken)?;
            self.end = head_of(row);
        }
        Ok(())
    }

    /// Whether these were all rows, by the head that is kept apart from them.
    pub fn ends_at(self, head: Option<&AuditHead>) -> Result<AuditHead, BrokenAt> {
        let ord = self.end.count;
        let why = match head {
            None if ord == 0 => return Ok(self.end),
            None => Break::HeadMissing,
            Some(head) if head.count > ord => Break::TailCut,
            Some(head) if head.count < ord => Break::NotCounted,
            Some(head) if head.head != self.end.head => Break::Head,
            Some(_) => return Ok(self.end),
        };
        Err(BrokenAt { ord: if why == Break::TailCut { ord + 1 } else { ord }, why })
    }
}

/// Arguments that are still there must be those whose digest is in the chain.
fn check_arguments(record: &AuditRecord) -> Result<(), Break> {
    let digest_of = |arguments| arguments_digest(&record.tool_name, arguments);
    if record.original_args.as_ref().is_some_and(|arguments| digest_of(arguments) != record.original_digest) {
        return Err(Break::OriginalArguments);
    }
    let modified = record.modified_args.as_ref();
    if modified.is_some_and(|arguments| Some(digest_of(arguments)) != record.modified_digest) {
        return Err(Break::ModifiedArguments);
    }
    Ok(())
}
