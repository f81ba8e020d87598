//! The hash chain that makes changes of the audit log detectable: pure functions over rows and a
//! key.
//!
//! The hash of a row covers the hash before it, the session of the chain, and every field.
//! Arguments and reason are covered by their digests, so that a purge can remove them without
//! breaking the chain. The hash is an HMAC. The head, which says where the chain ends, has a seal
//! that is an HMAC too. Without the key nobody can change, remove or add a row without being
//! detected.
//!
//! Rows that are older than the key have plain hashes. They come first in their chain. Their head
//! was sealed at the upgrade, so later changes of these rows are detected as well.

use codelab_protocol::{Digest, SessionId, SessionKind, arguments_digest};
use serde_json::json;

use crate::SessionKey;
use crate::row::{AuditHead, AuditRecord, AuditRow};

mod key;

pub use key::AuditKey;

/// The session of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainOwner<'a> {
    pub key: SessionKey,
    pub kind: SessionKind,
    pub session_id: &'a SessionId,
}

/// The hash before the first row of every chain.
pub fn genesis() -> AuditHead {
    AuditHead {
        count: 0,
        head: Digest::of_bytes(b"codelab audit chain"),
        keyed_from: 1,
        is_sealed: true,
    }
}

/// The next row of a chain. `head_after` gives the head after it.
pub fn append(
    key: &AuditKey,
    head: &AuditHead,
    of: ChainOwner<'_>,
    record: AuditRecord,
) -> AuditRow {
    let ord = head.count + 1;
    let hash = keyed_hash(key, &head.head, of, ord, &record);
    AuditRow { ord, record, hash }
}

/// A chain without a seal stays without one when rows are added.
pub fn head_after(before: &AuditHead, row: &AuditRow) -> AuditHead {
    AuditHead {
        count: row.ord,
        head: row.hash.clone(),
        ..before.clone()
    }
}

/// Proves that this head was written with the key. `None` if the head before it had no seal.
pub fn seal(key: &AuditKey, of: ChainOwner<'_>, head: &AuditHead) -> Option<Digest> {
    head.is_sealed
        .then(|| seal_of(key, of, head.count, &head.head, head.keyed_from))
}

/// Seals a chain that is older than the key. Its rows so far have plain hashes, later rows have
/// keyed ones.
pub(crate) fn seal_old(
    key: &AuditKey,
    of: ChainOwner<'_>,
    count: u64,
    head: &Digest,
) -> (u64, Digest) {
    let keyed_from = count + 1;
    (keyed_from, seal_of(key, of, count, head, keyed_from))
}

/// A stored head. The last two fields are absent in a chain without a seal.
pub(crate) struct StoredHead {
    pub count: u64,
    pub head: Digest,
    pub keyed_from: Option<u64>,
    pub seal: Option<Digest>,
}

impl StoredHead {
    pub fn checked(self, key: &AuditKey, of: ChainOwner<'_>) -> AuditHead {
        let keyed_from = self.keyed_from.unwrap_or(self.count + 1);
        let expected = seal_of(key, of, self.count, &self.head, keyed_from);
        AuditHead {
            count: self.count,
            head: self.head,
            keyed_from,
            is_sealed: self.seal == Some(expected),
        }
    }
}

fn seal_of(
    key: &AuditKey,
    of: ChainOwner<'_>,
    count: u64,
    head: &Digest,
    keyed_from: u64,
) -> Digest {
    key.mac(&json!({
        "what": "head",
        "session_key": of.key.get(),
        "realm": of.kind.as_str(),
        "session_id": of.session_id,
        "count": count,
        "head": head,
        "keyed_from": keyed_from,
    }))
}

fn keyed_hash(
    key: &AuditKey,
    prev: &Digest,
    of: ChainOwner<'_>,
    ord: u64,
    record: &AuditRecord,
) -> Digest {
    key.mac(&json!({
        "what": "row",
        "prev": prev,
        "session_key": of.key.get(),
        "realm": of.kind.as_str(),
        "session_id": of.session_id,
        "ord": ord,
        "call_id": record.call_id,
        "tool_name": record.tool_name,
        "original_digest": record.original_digest,
        "modified_digest": record.modified_digest,
        "decision": record.decision,
        "decided_by": record.decided_by,
        "reason_digest": record.reason_digest,
        "timestamp_ms": record.timestamp.as_millis(),
    }))
}

/// The hash of rows that are older than the key.
pub fn plain_hash(prev: &Digest, of: ChainOwner<'_>, ord: u64, record: &AuditRecord) -> Digest {
    Digest::of_json(&json!({
        "prev": prev,
        "realm": of.kind.as_str(),
        "session_id": of.session_id,
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

/// The first error in a chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the audit log is broken at row {ord}: {why}")]
pub struct BrokenAt {
    pub ord: u64,
    pub why: ChainBreak,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChainBreak {
    #[error("a row is missing")]
    Missing,
    #[error("the row or one before it was changed")]
    Hash,
    #[error("the proposed arguments were changed")]
    OriginalArguments,
    #[error("the executed arguments were changed")]
    ModifiedArguments,
    #[error("its arguments or reason were removed, but its session is not deleted")]
    Blanked,
    #[error("the reason was changed")]
    Reason,
    #[error("the end of the log was cut off")]
    TailCut,
    #[error("the log has rows that were never counted")]
    NotCounted,
    #[error("the record of the log's end is gone")]
    HeadMissing,
    #[error("the record of the log's end was changed")]
    Head,
}

/// A valid chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    pub count: u64,
    /// The number of its first rows that are older than the key.
    pub unkeyed: u64,
}

/// Verifies a chain from its first row.
pub struct Chain<'a> {
    key: &'a AuditKey,
    of: ChainOwner<'a>,
    end: AuditHead,
}

impl<'a> Chain<'a> {
    /// `head` says which rows are keyed. `head` itself is verified at the end.
    pub fn new(key: &'a AuditKey, of: ChainOwner<'a>, head: Option<&AuditHead>) -> Self {
        let genesis = genesis();
        let keyed_from = head.map_or(genesis.keyed_from, |head| head.keyed_from);
        Self {
            key,
            of,
            end: AuditHead {
                keyed_from,
                ..genesis
            },
        }
    }

    /// Verifies the next rows, in order.
    pub fn follow(&mut self, rows: &[AuditRow]) -> Result<(), BrokenAt> {
        for row in rows {
            let ord = self.end.count + 1;
            let broken = |why| Err(BrokenAt { ord, why });
            if row.ord != ord {
                return broken(ChainBreak::Missing);
            }
            let is_keyed = ord >= self.end.keyed_from;
            let hash = match is_keyed {
                true => keyed_hash(self.key, &self.end.head, self.of, ord, &row.record),
                false => plain_hash(&self.end.head, self.of, ord, &row.record),
            };
            if row.hash != hash {
                return broken(ChainBreak::Hash);
            }
            check_texts(&row.record, is_keyed).or_else(broken)?;
            self.end = head_after(&self.end, row);
        }
        Ok(())
    }

    /// Checks against the stored head that no row is missing.
    pub fn ends_at(self, head: Option<&AuditHead>) -> Result<Verified, BrokenAt> {
        let (ord, keyed_from) = (self.end.count, self.end.keyed_from);
        let why = match head {
            None if ord == 0 => {
                return Ok(Verified {
                    count: 0,
                    unkeyed: 0,
                });
            }
            None => ChainBreak::HeadMissing,
            Some(head) if head.count > ord => ChainBreak::TailCut,
            Some(head) if head.count < ord => ChainBreak::NotCounted,
            Some(head) if head.head != self.end.head || head.keyed_from != keyed_from => {
                ChainBreak::Head
            }
            Some(head) if !head.is_sealed => ChainBreak::Head,
            Some(_) => {
                return Ok(Verified {
                    count: ord,
                    unkeyed: ord.min(keyed_from.saturating_sub(1)),
                });
            }
        };
        Err(BrokenAt {
            ord: if why == ChainBreak::TailCut {
                ord + 1
            } else {
                ord
            },
            why,
        })
    }
}

/// Whether texts are missing that the row has digests of. A purge removes them together with the
/// session.
pub(crate) fn is_blanked(record: &AuditRecord) -> bool {
    let is_gone = |text: bool, digest: bool| digest && !text;
    record.original_args.is_none()
        || is_gone(
            record.modified_args.is_some(),
            record.modified_digest.is_some(),
        )
        || is_gone(record.reason.is_some(), record.reason_digest.is_some())
}

/// Texts that are still there must match their digests in the chain.
fn check_texts(record: &AuditRecord, is_keyed: bool) -> Result<(), ChainBreak> {
    let digest_of = |arguments| arguments_digest(&record.tool_name, arguments);
    if record
        .original_args
        .as_ref()
        .is_some_and(|arguments| digest_of(arguments) != record.original_digest)
    {
        return Err(ChainBreak::OriginalArguments);
    }
    let modified = record.modified_args.as_ref();
    if modified.is_some_and(|arguments| Some(digest_of(arguments)) != record.modified_digest) {
        return Err(ChainBreak::ModifiedArguments);
    }
    let reason = record.reason.as_deref().map(AuditRecord::digest_of_reason);
    if is_keyed && reason.is_some() && reason != record.reason_digest {
        return Err(ChainBreak::Reason);
    }
    Ok(())
}
