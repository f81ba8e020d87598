//! The servers of the installation and their leases.
//!
//! A server owns things for as long as its row has not ended. Its lease says whether it is alive.
//! Others end the row of a server whose lease has lapsed, and with it everything it owned.

use codelab_protocol::Timestamp;

use super::Store;
use super::clock::{TimedSql, timed_sql};
use crate::StoreError;
use crate::columns::Columns;
use crate::statement::{Param, Stmt};

/// A server that joins the installation.
#[derive(Debug, Clone, Copy)]
pub struct NewServer<'a> {
    pub server_id: &'a str,
    /// Where the others reach it; none if it is to be the only one.
    pub address: Option<&'a str>,
    /// Must be the same for all servers with an address.
    pub fingerprint: Option<&'a str>,
    pub lease_ms: u64,
}

/// A server whose row has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRow {
    pub server_id: String,
    pub address: Option<String>,
    pub draining: bool,
    /// Its lease is over. It may still come back and renew it, until somebody ends its row.
    pub lapsed: bool,
    pub lease_expires_at: Timestamp,
}

// Two servers that start at the same moment are looked at one after the other.
const ONE_AT_A_TIME: &str = "UPDATE installation SET value = value WHERE name = 'joining'";

// The fingerprint of the first server counts while any server with an address lives.
const AGREE: TimedSql = timed_sql!(
    "INSERT INTO installation (name, value) VALUES ('fingerprint', $1) ON CONFLICT (name) DO UPDATE \
     SET value = excluded.value WHERE installation.value = excluded.value OR NOT EXISTS \
     (SELECT 1 FROM servers WHERE ended = 0 AND address IS NOT NULL AND lease_expires_at > ",
    ["2"],
    ")"
);
const FINGERPRINT: &str = "SELECT value FROM installation WHERE name = 'fingerprint'";

// A server without an address is the only one, and an address belongs to one server.
const JOIN: TimedSql = timed_sql!(
    "INSERT INTO servers (server_id, address, started_at, lease_expires_at) \
     SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), ",
    ["3"],
    ", ",
    ["3"],
    " + $4 WHERE NOT EXISTS (SELECT 1 FROM servers WHERE ended = 0 AND lease_expires_at > ",
    ["3"],
    " AND (address IS NULL OR $2 IS NULL OR address = $2))"
);

// A server that lives cannot share the installation with whoever is in its way, and such a one could
// still renew its lease. `FOR UPDATE` as in `FENCE`.
const END_IN_THE_WAY: TimedSql = TimedSql {
    postgres: "WITH lapsed AS (SELECT server_id FROM servers WHERE ended = 0 \
         AND lease_expires_at <= COALESCE($1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) \
         AND (address IS NULL OR CAST($2 AS TEXT) IS NULL OR address = $2 OR NOT EXISTS (SELECT 1 \
         FROM installation WHERE name = 'fingerprint' AND value = $3)) FOR UPDATE) \
         UPDATE servers SET ended = 1 FROM lapsed WHERE servers.server_id = lapsed.server_id",
    sqlite: "UPDATE servers SET ended = 1 WHERE ended = 0 AND lease_expires_at <= $1 \
         AND (address IS NULL OR $2 IS NULL OR address = $2 OR NOT EXISTS (SELECT 1 \
         FROM installation WHERE name = 'fingerprint' AND value = $3))",
};

const RENEW: TimedSql = timed_sql!(
    "UPDATE servers SET lease_expires_at = ",
    ["1"],
    " + $2 WHERE server_id = $3 AND ended = 0"
);
// Changes nothing, but goes through every step of a write.
const PROBE: &str = "UPDATE servers SET lease_expires_at = lease_expires_at WHERE server_id = $1";
const DRAIN: &str = "UPDATE servers SET draining = 1 WHERE server_id = $1";
const END: TimedSql = timed_sql!(
    "UPDATE servers SET ended = 1, lease_expires_at = CASE WHEN lease_expires_at > ",
    ["1"],
    " THEN ",
    ["1"],
    " ELSE lease_expires_at END WHERE (server_id = $2 OR server_id LIKE CAST($2 AS TEXT) || '-%') \
     AND ended = 0"
);
const END_ALL: TimedSql = timed_sql!(
    "UPDATE servers SET ended = 1, lease_expires_at = CASE WHEN lease_expires_at > ",
    ["1"],
    " THEN ",
    ["1"],
    " ELSE lease_expires_at END WHERE ended = 0"
);
const LIVING: TimedSql = timed_sql!(
    "SELECT server_id, address, draining, CAST(CASE WHEN lease_expires_at > ",
    ["1"],
    " THEN 0 ELSE 1 END AS BIGINT), lease_expires_at FROM servers WHERE ended = 0 ORDER BY server_id"
);
const LEASE: &str = "SELECT lease_expires_at FROM servers WHERE server_id = $1";
const LEASES_AFTER: &str = "SELECT started_at, lease_expires_at FROM servers WHERE lease_expires_at > $1 ORDER BY started_at";

// Waits for no transaction of a lapsed server: the next look finds its row free, because the
// database ends transactions that are idle. `FOR UPDATE` shuts out the lock that every transaction
// of a server takes on its own row first.
//
// This may be executed long after it was sent. So the lease must be the very one that was seen to have
// lapsed, and the lease of whoever asks must still run.
const FENCE: TimedSql = TimedSql {
    postgres: "WITH lapsed AS (SELECT server_id FROM servers WHERE ended = 0 AND server_id = $1 \
         AND lease_expires_at = $2 AND EXISTS (SELECT 1 FROM servers WHERE server_id = $3 AND ended = 0 \
         AND lease_expires_at > COALESCE($4, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)) \
         FOR UPDATE SKIP LOCKED) \
         UPDATE servers SET ended = 1 FROM lapsed WHERE servers.server_id = lapsed.server_id",
    sqlite: "UPDATE servers SET ended = 1 WHERE ended = 0 AND server_id = $1 AND lease_expires_at = $2 \
         AND EXISTS (SELECT 1 FROM servers WHERE server_id = $3 AND ended = 0 AND lease_expires_at > $4)",
};

// Leases tell how long there was no server. Deadlines of sessions without a living owner need that:
// each needs the lease of its owner and all leases that ended later.
const REMOVE_DEAD: &str = "DELETE FROM servers WHERE ended = 1 AND lease_expires_at < $1 \
     AND NOT EXISTS (SELECT 1 FROM sessions JOIN servers AS owners ON owners.server_id = sessions.owner \
     WHERE sessions.wake_at IS NOT NULL AND sessions.deleted_at IS NULL \
     AND owners.lease_expires_at <= servers.lease_expires_at) \
     AND NOT EXISTS (SELECT 1 FROM sessions JOIN servers AS owners ON owners.server_id = sessions.owner \
     WHERE sessions.running = 1 AND sessions.deleted_at IS NULL \
     AND owners.lease_expires_at <= servers.lease_expires_at)";

/// Times of leases come from the clock of the database, which is the same for all servers; `at`
/// replaces it where somebody needs another time.
impl Store {
    /// Adds a server whose lease begins now, and ends those in its way whose lease has lapsed.
    /// `Conflict` if a server that lives now does not allow
    /// it: [`Store::servers`] and [`Store::fingerprint`] tell why.
    pub async fn join(
        &self,
        server: &NewServer<'_>,
        at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let in_the_way = vec![
            self.clock(at),
            Param::optional_text(server.address),
            Param::optional_text(server.fingerprint),
        ];
        let mut stmts = vec![
            Stmt::one(ONE_AT_A_TIME, vec![]),
            Stmt::any(self.timed(END_IN_THE_WAY), in_the_way),
        ];
        if let Some(fingerprint) = server.fingerprint {
            let params = vec![Param::text(fingerprint), self.clock(at)];
            stmts.push(Stmt::one(self.timed(AGREE), params));
        }
        let params = vec![
            Param::text(server.server_id),
            Param::optional_text(server.address),
            self.clock(at),
            server.lease_ms.into(),
        ];
        stmts.push(Stmt::one(self.timed(JOIN), params));
        self.write_as_anyone(stmts).await.map(drop)
    }

    /// What the servers with an address agreed on.
    pub async fn fingerprint(&self) -> Result<Option<String>, StoreError> {
        self.read_one(FINGERPRINT, vec![], |row| row.string()).await
    }

    /// `Conflict` if others have ended the server's row.
    pub async fn renew_lease(
        &self,
        server_id: &str,
        lease_ms: u64,
        at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let params = vec![self.clock(at), lease_ms.into(), Param::text(server_id)];
        self.write_as_anyone(vec![Stmt::one(self.timed(RENEW), params)])
            .await
            .map(drop)
    }

    /// Whether writes work now. A write like any other, without an effect.
    pub async fn probe(&self, server_id: &str) -> Result<(), StoreError> {
        self.write(None, vec![Stmt::any(PROBE, vec![Param::text(server_id)])])
            .await
            .map(drop)
    }

    /// The server takes nothing new; what it does not work on is free.
    pub async fn drain(&self, server_id: &str) -> Result<(), StoreError> {
        self.write_as_anyone(vec![Stmt::any(DRAIN, vec![Param::text(server_id)])])
            .await
            .map(drop)
    }

    /// Others can claim at once what it owned. The row tells since when. Ends the rows as well under
    /// which the same process joined again: their names begin with this one and `-`.
    pub async fn end_server(
        &self,
        server_id: &str,
        at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let params = vec![self.clock(at), Param::text(server_id)];
        self.write_as_anyone(vec![Stmt::any(self.timed(END), params)])
            .await
            .map(drop)
    }

    /// Only for an embedded database, which one process uses. Other servers in it have ended, or
    /// run on the original of this copy.
    pub async fn end_every_server(&self, at: Option<Timestamp>) -> Result<(), StoreError> {
        let stmt = Stmt::any(self.timed(END_ALL), vec![self.clock(at)]);
        self.write_as_anyone(vec![stmt]).await.map(drop)
    }

    /// Ends the row of another server that was seen with a lapsed lease. From then on it cannot
    /// write any more. False if it has renewed its lease meanwhile, if somebody else ended it, or if
    /// the lease of `server_id`, who asks, does not run.
    pub async fn fence(
        &self,
        server_id: &str,
        lapsed: &ServerRow,
        at: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let params = vec![
            Param::text(&lapsed.server_id),
            lapsed.lease_expires_at.into(),
            Param::text(server_id),
            self.clock(at),
        ];
        let fenced = self
            .write_as_anyone(vec![Stmt::any(self.timed(FENCE), params)])
            .await?;
        Ok(fenced.rows == 1)
    }

    /// All servers that have not ended.
    pub async fn servers(&self, at: Option<Timestamp>) -> Result<Vec<ServerRow>, StoreError> {
        let params = vec![self.clock(at)];
        self.read(self.timed(LIVING), params, server_row).await
    }

    /// Removes servers whose lease ended before `until` and that no session's deadline needs.
    /// Returns their number.
    pub async fn remove_dead_servers(&self, until: Timestamp) -> Result<u64, StoreError> {
        Ok(self
            .write(None, vec![Stmt::any(REMOVE_DEAD, vec![until.into()])])
            .await?
            .rows)
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
}

fn server_row(row: &mut Columns<'_>) -> Result<ServerRow, StoreError> {
    Ok(ServerRow {
        server_id: row.string()?,
        address: row.optional_string()?,
        draining: row.flag()?,
        lapsed: row.flag()?,
        lease_expires_at: row.time()?,
    })
}
