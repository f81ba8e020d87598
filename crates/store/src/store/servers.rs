//! Leases of servers, owners of sessions, and sessions that wait for an owner.

use codelab_protocol::{SessionKind, Timestamp};

use super::Store;
use crate::columns::Columns;
use crate::row::SessionRef;
use crate::statement::{Expect, Param, Stmt};
use crate::{Epoch, SessionKey, StoreError};

const REGISTER: &str = "INSERT INTO servers (server_id, started_at, lease_expires_at) VALUES ($1, $2, $3) \
     ON CONFLICT (server_id) DO UPDATE SET started_at = excluded.started_at, \
     lease_expires_at = excluded.lease_expires_at";
const RENEW: &str = "UPDATE servers SET lease_expires_at = $1 WHERE server_id = $2";
// Changes nothing, but goes through every step of a write.
const PROBE: &str = "UPDATE servers SET lease_expires_at = lease_expires_at WHERE server_id = $1";
const END: &str =
    "UPDATE servers SET lease_expires_at = $1 WHERE server_id = $2 AND lease_expires_at > $1";
const END_ALL: &str = "UPDATE servers SET lease_expires_at = $1 WHERE lease_expires_at > $1";
const LEASE: &str = "SELECT lease_expires_at FROM servers WHERE server_id = $1";
const LEASES_AFTER: &str = "SELECT started_at, lease_expires_at FROM servers WHERE lease_expires_at > $1 ORDER BY started_at";

// Leases tell how long there was no server. Deadlines of sessions without a living owner need that:
// each needs the lease of its owner and all leases that ended later.
const REMOVE_DEAD: &str = "DELETE FROM servers WHERE lease_expires_at < $1 \
     AND NOT EXISTS (SELECT 1 FROM sessions JOIN servers AS owners ON owners.server_id = sessions.owner \
     WHERE sessions.wake_at IS NOT NULL AND sessions.deleted_at IS NULL \
     AND owners.lease_expires_at <= servers.lease_expires_at) \
     AND NOT EXISTS (SELECT 1 FROM sessions JOIN servers AS owners ON owners.server_id = sessions.owner \
     WHERE sessions.running = 1 AND sessions.deleted_at IS NULL \
     AND owners.lease_expires_at <= servers.lease_expires_at)";

// Claims a session that has no owner, that is ours, or whose owner's lease lapsed or is gone.
const CLAIM: &str = "UPDATE sessions SET owner = $1, epoch = epoch + 1 WHERE id = $2 AND (owner IS NULL OR owner = $1 \
     OR NOT EXISTS (SELECT 1 FROM servers WHERE server_id = sessions.owner AND lease_expires_at > $3)) \
     RETURNING epoch";
const EXISTS: &str = "SELECT id FROM sessions WHERE id = $1";

const DUE: &str = "SELECT id, realm, session_id FROM sessions WHERE wake_at <= $1 AND deleted_at IS NULL \
     AND (owner IS NULL OR owner = $2 \
     OR NOT EXISTS (SELECT 1 FROM servers WHERE server_id = sessions.owner AND lease_expires_at > $3)) \
     ORDER BY wake_at, id LIMIT $4";
const RUNNING: &str = "SELECT id, realm, session_id FROM sessions WHERE running = 1 AND id > $1 \
     AND deleted_at IS NULL AND (owner IS NULL OR owner = $2 \
     OR NOT EXISTS (SELECT 1 FROM servers WHERE server_id = sessions.owner AND lease_expires_at > $3)) \
     ORDER BY id LIMIT $4";

impl Store {
    pub async fn register_server(
        &self,
        server_id: &str,
        now: Timestamp,
        lease_until: Timestamp,
    ) -> Result<(), StoreError> {
        let params = vec![Param::text(server_id), now.into(), lease_until.into()];
        self.write(None, vec![Stmt::one(REGISTER, params)])
            .await
            .map(drop)
    }

    /// `Conflict` if the server is no longer registered.
    pub async fn renew_lease(
        &self,
        server_id: &str,
        lease_until: Timestamp,
    ) -> Result<(), StoreError> {
        let params = vec![lease_until.into(), Param::text(server_id)];
        self.write(None, vec![Stmt::one(RENEW, params)])
            .await
            .map(drop)
    }

    /// Whether writes work now. Runs the same write as a lease renewal, without its effect.
    pub async fn probe(&self, server_id: &str) -> Result<(), StoreError> {
        self.write(None, vec![Stmt::any(PROBE, vec![Param::text(server_id)])])
            .await
            .map(drop)
    }

    /// Other servers can claim its sessions at once. The row tells since when.
    pub async fn end_lease(&self, server_id: &str, now: Timestamp) -> Result<(), StoreError> {
        self.write(
            None,
            vec![Stmt::any(END, vec![now.into(), Param::text(server_id)])],
        )
        .await
        .map(drop)
    }

    /// Removes servers whose lease ended before `until` and that no session's deadline needs.
    /// Returns their number.
    pub async fn remove_dead_servers(&self, until: Timestamp) -> Result<u64, StoreError> {
        Ok(self
            .write(None, vec![Stmt::any(REMOVE_DEAD, vec![until.into()])])
            .await?
            .rows)
    }

    /// Only for an embedded database, which one process uses. Other servers with a lease in it have
    /// ended, or run on the original of this copy.
    pub async fn end_every_lease(&self, now: Timestamp) -> Result<(), StoreError> {
        self.write(None, vec![Stmt::any(END_ALL, vec![now.into()])])
            .await
            .map(drop)
    }

    /// The end of a server's lease. `None` if it never existed.
    pub async fn server_lease(&self, server_id: &str) -> Result<Option<Timestamp>, StoreError> {
        self.read_one(LEASE, vec![Param::text(server_id)], |row| row.time())
            .await
    }

    /// Start and end of each server's life whose lease ended after `since` or still runs, sorted by
    /// start.
    pub async fn leases_after(
        &self,
        since: Timestamp,
    ) -> Result<Vec<(Timestamp, Timestamp)>, StoreError> {
        self.read(LEASES_AFTER, vec![since.into()], |row| {
            Ok((row.time()?, row.time()?))
        })
        .await
    }

    /// Makes `server_id` the owner and returns the new epoch, so that commits of earlier owners
    /// fail. `None` if a living server owns it.
    pub async fn claim_session(
        &self,
        key: SessionKey,
        server_id: &str,
        now: Timestamp,
    ) -> Result<Option<Epoch>, StoreError> {
        let params = vec![Param::text(server_id), key.into(), now.into()];
        let claim = Stmt {
            sql: CLAIM,
            params,
            expect: Expect::Number,
        };
        let written = self.write(Some(key), vec![claim]).await?;
        if let Some(epoch) = written.number {
            let epoch = u64::try_from(epoch)
                .map_err(|_| StoreError::Corrupt("an epoch is negative".to_owned()))?;
            return Ok(Some(Epoch(epoch)));
        }
        match self
            .read_one(EXISTS, vec![key.into()], |row| row.int())
            .await?
        {
            Some(_) => Ok(None),
            None => Err(StoreError::NotFound),
        }
    }

    /// Sessions whose deadline is at or before `until`, earliest first, unless a living other
    /// server owns them.
    pub async fn due_sessions(
        &self,
        until: Timestamp,
        server_id: &str,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<SessionRef>, StoreError> {
        let params = vec![
            until.into(),
            Param::text(server_id),
            now.into(),
            (limit as u64).into(),
        ];
        self.read(DUE, params, session_ref).await
    }

    /// Sessions that were running when their owner stopped, sorted by key. `after` is the last key
    /// of the page before.
    pub async fn running_sessions(
        &self,
        after: Option<SessionKey>,
        server_id: &str,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<SessionRef>, StoreError> {
        let after = after.map_or(0, SessionKey::get);
        let params = vec![
            after.into(),
            Param::text(server_id),
            now.into(),
            (limit as u64).into(),
        ];
        self.read(RUNNING, params, session_ref).await
    }
}

fn session_ref(row: &mut Columns<'_>) -> Result<SessionRef, StoreError> {
    Ok(SessionRef {
        key: SessionKey::from_raw(row.int()?),
        kind: row.parsed(SessionKind::parse)?,
        session_id: row.id()?,
    })
}
