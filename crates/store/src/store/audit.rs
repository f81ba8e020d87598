//! The audit log: rows of a session, all sessions with a log, and the seal on logs that are older
//! than the key.

use codelab_protocol::{Digest, SessionId, SessionKind, Timestamp};

use super::Store;
use super::pages::{MAX_PART_BYTES, MAX_PART_ROWS, SizedList};
use crate::audit_chain::{
    self, AuditKey, BrokenAt, Chain, ChainBreak, ChainOwner, StoredHead, Verified,
};
use crate::columns::Columns;
use crate::inspect::SEALED_AT;
use crate::row::{AuditHead, AuditRecord, AuditRow, AuditSession};
use crate::statement::{Param, Stmt};
use crate::{SessionKey, StoreError};

const AUDIT: &str = "SELECT ord, call_id, tool_name, original_args, original_digest, modified_args, modified_digest, \
     decision, decided_by, reason, reason_digest, timestamp, hash FROM audit_logs WHERE session_key = $1 AND ord > $2 \
     ORDER BY ord LIMIT $3";
const AUDIT_SIZES: &str = "SELECT CAST(COALESCE(OCTET_LENGTH(original_args), 0) + COALESCE(OCTET_LENGTH(modified_args), 0) \
     + COALESCE(OCTET_LENGTH(reason), 0) AS BIGINT) FROM audit_logs WHERE session_key = $1 AND ord > $2 \
     ORDER BY ord LIMIT $3";
const SESSION_EXISTS: &str = "SELECT id FROM sessions WHERE id = $1";
const HEAD: &str = "SELECT count, head, keyed_from, seal FROM audit_heads WHERE session_key = $1";

const UNSEALED: &str = "SELECT session_key, realm, session_id, count, head FROM audit_heads \
     WHERE seal IS NULL AND session_key > $1 ORDER BY session_key LIMIT $2";
const SEAL: &str =
    "UPDATE audit_heads SET keyed_from = $1, seal = $2 WHERE session_key = $3 AND seal IS NULL";
const ALL_SEALED: &str =
    "INSERT INTO audit_seals (id, sealed_at, seal) VALUES (1, $1, $2) ON CONFLICT DO NOTHING";
/// Heads that are sealed in one write.
const SEALED_AT_ONCE: u64 = 200;

// Also finds rows without a head, because a check must report them.
const SESSIONS: &str = "SELECT named.session_key, COALESCE(audit_heads.realm, sessions.realm), \
     COALESCE(audit_heads.session_id, sessions.session_id) FROM (\
     SELECT session_key FROM audit_heads WHERE session_key > $1 \
     UNION SELECT session_key FROM audit_logs WHERE session_key > $1) AS named \
     LEFT JOIN audit_heads ON audit_heads.session_key = named.session_key \
     LEFT JOIN sessions ON sessions.id = named.session_key ORDER BY named.session_key LIMIT $2";

/// The result of sealing the chains that are older than the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditSealed {
    /// This many were sealed now. From now on a chain without a seal is invalid.
    Now {
        chains: u64,
    },
    Before,
    /// They were sealed before with another key, so this key cannot verify them.
    WithAnotherKey,
    /// There are chains without a seal, although this installation has sealed all before. Nothing
    /// was changed.
    NotAgain,
}

impl Store {
    /// The next part of the chain after this row, or its first part, in order. Empty at the end.
    pub async fn audit(
        &self,
        key: SessionKey,
        after_ord: Option<u64>,
    ) -> Result<Vec<AuditRow>, StoreError> {
        // Also reads a forged row before the first one, so that the check sees it.
        let after = after_ord.map_or(Param::Int(i64::MIN), Param::from);
        let list = SizedList {
            sizes: AUDIT_SIZES,
            rows: AUDIT,
            decode: audit_row,
        };
        self.read_sized(
            list,
            vec![key.into(), after],
            MAX_PART_ROWS,
            None,
            MAX_PART_BYTES,
        )
        .await
    }

    /// Verifies the whole chain, up to its head or the first error. Decisions may be written
    /// meanwhile.
    pub async fn verify_audit(
        &self,
        of: ChainOwner<'_>,
    ) -> Result<Result<Verified, BrokenAt>, StoreError> {
        // Which rows are keyed never changes.
        let mut chain = Chain::new(self.audit_key()?, of, self.audit_head(of).await?.as_ref());
        let mut after = None;
        loop {
            // The head is read before the rows. When no row is left, it counts the verified rows.
            let head = self.audit_head(of).await?;
            let rows = self.audit(of.key, after).await?;
            let Some(last) = rows.last() else {
                return Ok(chain.ends_at(head.as_ref()));
            };
            after = Some(last.ord);
            if let Err(broken) = chain.follow(&rows) {
                return Ok(Err(broken));
            }
            if let Some(row) = rows.iter().find(|row| audit_chain::is_blanked(&row.record))
                && !self
                    .read(SESSION_EXISTS, vec![of.key.into()], |_| Ok(()))
                    .await?
                    .is_empty()
            {
                return Ok(Err(BrokenAt {
                    ord: row.ord,
                    why: ChainBreak::Blanked,
                }));
            }
        }
    }

    pub async fn audit_head(&self, of: ChainOwner<'_>) -> Result<Option<AuditHead>, StoreError> {
        let stored = self
            .read_one(HEAD, vec![of.key.into()], stored_head)
            .await?;
        let key = self.audit_key()?;
        Ok(stored.map(|stored| stored.checked(key, of)))
    }

    /// The key that this store was opened with.
    pub fn audit_key(&self) -> Result<&AuditKey, StoreError> {
        let missing = || {
            StoreError::Invalid("the store was opened without the key of the audit log".to_owned())
        };
        self.audit_key.as_ref().ok_or_else(missing)
    }

    /// Whether the chains that are older than the key are sealed with this store's key.
    pub async fn audit_sealed(&self) -> Result<Option<AuditSealed>, StoreError> {
        let Some((sealed_at, seal)) = self
            .read_one(SEALED_AT, vec![], |row| Ok((row.time()?, row.digest()?)))
            .await?
        else {
            return Ok(None);
        };
        let is_ours = seal == self.audit_key()?.seal_of_upgrade(sealed_at);
        Ok(Some(if is_ours {
            AuditSealed::Before
        } else {
            AuditSealed::WithAnotherKey
        }))
    }

    /// Seals the chains that are older than the key, once. An attacker with access to the database
    /// could pretend that this was never done. So `was_done` must come from outside the database.
    pub async fn seal_audit(
        &self,
        was_done: bool,
        now: Timestamp,
    ) -> Result<AuditSealed, StoreError> {
        if let Some(sealed) = self.audit_sealed().await? {
            return Ok(sealed);
        }
        let (mut chains, mut after) = (0, 0);
        loop {
            let old = self
                .read(
                    UNSEALED,
                    vec![after.into(), SEALED_AT_ONCE.into()],
                    old_head,
                )
                .await?;
            let Some(last) = old.last() else { break };
            if was_done {
                return Ok(AuditSealed::NotAgain);
            }
            after = last.key.get();
            chains += old.len() as u64;
            let key = self.audit_key()?;
            self.write(None, old.iter().map(|head| head.sealed(key)).collect())
                .await?;
        }
        let seal = self.audit_key()?.seal_of_upgrade(now);
        self.write(
            None,
            vec![Stmt::any(ALL_SEALED, vec![now.into(), (&seal).into()])],
        )
        .await?;
        Ok(AuditSealed::Now { chains })
    }

    /// A page of the sessions that have an audit log, purged ones included, by key; `after` pages
    /// on.
    pub async fn audit_sessions(
        &self,
        after: Option<SessionKey>,
        limit: usize,
    ) -> Result<Vec<AuditSession>, StoreError> {
        let after = after.map_or(0, SessionKey::get);
        self.read(
            SESSIONS,
            vec![after.into(), (limit as u64).into()],
            audit_session,
        )
        .await
    }
}

fn stored_head(row: &mut Columns<'_>) -> Result<StoredHead, StoreError> {
    let (count, head) = (row.count()?, row.digest()?);
    Ok(StoredHead {
        count,
        head,
        keyed_from: row.optional_count()?,
        seal: row.optional_digest()?,
    })
}

/// The head of a chain that is older than the key.
struct OldHead {
    key: SessionKey,
    kind: SessionKind,
    session_id: SessionId,
    count: u64,
    head: Digest,
}

impl OldHead {
    fn sealed(&self, key: &AuditKey) -> Stmt {
        let of = ChainOwner {
            key: self.key,
            kind: self.kind,
            session_id: &self.session_id,
        };
        let (keyed_from, seal) = audit_chain::seal_old(key, of, self.count, &self.head);
        Stmt::any(
            SEAL,
            vec![keyed_from.into(), (&seal).into(), self.key.into()],
        )
    }
}

fn old_head(row: &mut Columns<'_>) -> Result<OldHead, StoreError> {
    Ok(OldHead {
        key: SessionKey::from_raw(row.int()?),
        kind: row.parsed(SessionKind::parse)?,
        session_id: row.id()?,
        count: row.count()?,
        head: row.digest()?,
    })
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
        reason_digest: row.optional_digest()?,
        timestamp: row.time()?,
    };
    Ok(AuditRow {
        ord,
        record,
        hash: row.digest()?,
    })
}

fn audit_session(row: &mut Columns<'_>) -> Result<AuditSession, StoreError> {
    let key = SessionKey::from_raw(row.int()?);
    let kind = row.optional_parsed(SessionKind::parse)?;
    let session_id = row.optional_id()?;
    Ok(AuditSession {
        key,
        name: kind.zip(session_id),
    })
}
