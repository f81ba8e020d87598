//! Who owns what is live, and the sessions that wait for an owner.

use codelab_protocol::{ProjectId, SessionId, SessionKind, Timestamp};

use super::Store;
use crate::columns::Columns;
use crate::row::SessionRef;
use crate::statement::{Expect, Param, Stmt};
use crate::{Epoch, SessionKey, StoreError};

/// What one server owns beside the sessions of the runtime kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OwnedRow {
    /// The worker space of a project.
    Project(ProjectId),
    Chat,
}

/// Who owns something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerRow {
    pub epoch: Epoch,
    /// None if nobody does: it was never claimed, was handed over, or its server has ended.
    pub owner: Option<Ownership>,
    /// Of a session: its key, and when something was last asked of it.
    pub session: Option<(SessionKey, Timestamp)>,
}

/// A server that owns something and has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ownership {
    pub server_id: String,
    pub address: Option<String>,
    /// It gives this away: it is about to stop and does not work on it.
    pub given_away: bool,
}

// A project that does not exist has no owner.
const CLAIM_ROW: &str = "INSERT INTO owners (kind, number, owner, epoch) \
     SELECT CAST($1 AS TEXT), CAST($2 AS BIGINT), CAST($3 AS TEXT), 1 \
     WHERE $1 <> 'project' OR EXISTS (SELECT 1 FROM projects WHERE id = $2) ON CONFLICT (kind, number) DO UPDATE SET owner = excluded.owner, epoch = owners.epoch + 1 \
     WHERE owners.owner IS NULL OR owners.owner = excluded.owner \
     OR NOT EXISTS (SELECT 1 FROM servers WHERE server_id = owners.owner AND ended = 0) RETURNING epoch";
const RELEASE_ROW: &str =
    "UPDATE owners SET owner = NULL WHERE kind = $1 AND number = $2 AND owner = $3 AND epoch = $4";
const RELEASE_QUIET_PROJECTS: &str = "UPDATE owners SET owner = NULL WHERE owner = $1 AND kind = 'project' \
     AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.running = 1 AND sessions.project_id = owners.number)";
const OWNER_OF_ROW: &str = "SELECT owners.epoch, servers.server_id, servers.address, CAST(0 AS BIGINT), \
     CAST(NULL AS BIGINT), CAST(NULL AS BIGINT) FROM owners \
     LEFT JOIN servers ON servers.server_id = owners.owner AND servers.ended = 0 \
     WHERE owners.kind = $1 AND owners.number = $2";

// Of a draining server, what it does not work on is free.
macro_rules! claimable_session {
    ($me:literal) => {
        concat!(
            "(sessions.owner IS NULL OR sessions.owner = ",
            $me,
            " OR NOT EXISTS (SELECT 1 FROM servers WHERE server_id = sessions.owner AND ended = 0 \
             AND (draining = 0 OR sessions.running = 1)))"
        )
    };
}
const CLAIM: &str = concat!(
    "UPDATE sessions SET owner = $1, epoch = epoch + 1 WHERE id = $2 AND ",
    claimable_session!("$1"),
    " RETURNING epoch"
);
// The owner of a worker space owns its sessions, whoever had them before.
const CLAIM_IN_PROJECT: &str = "UPDATE sessions SET owner = $1, epoch = epoch + 1 WHERE id = $2 \
     AND EXISTS (SELECT 1 FROM owners WHERE kind = 'project' AND number = sessions.project_id AND owner = $1) \
     RETURNING epoch";
const RELEASE: &str = "UPDATE sessions SET owner = NULL WHERE id = $1 AND owner = $2";
const EXISTS: &str = "SELECT id FROM sessions WHERE id = $1";
const OWNER_OF_SESSION: &str = "SELECT sessions.epoch, servers.server_id, servers.address, \
     CAST(CASE WHEN servers.draining = 1 AND sessions.running = 0 THEN 1 ELSE 0 END AS BIGINT), \
     sessions.id, sessions.last_activity FROM sessions \
     LEFT JOIN servers ON servers.server_id = sessions.owner AND servers.ended = 0 \
     WHERE sessions.realm = 'runtime' AND sessions.session_id = $1";
const HAS_PROJECT: &str = "SELECT id FROM projects WHERE id = $1";
const PROJECT_OF: &str =
    "SELECT project_id FROM sessions WHERE realm = 'project' AND session_id = $1";

// For a server that is alone: whatever has no living owner is its own.
const DUE: &str = concat!(
    "SELECT id, realm, session_id, project_id, CAST(CASE WHEN owner = $1 THEN 1 ELSE 0 END AS BIGINT) FROM sessions \
     WHERE wake_at <= $2 AND deleted_at IS NULL AND ",
    claimable_session!("$1"),
    " ORDER BY wake_at, id LIMIT $3"
);
const RUNNING: &str = concat!(
    "SELECT id, realm, session_id, project_id, CAST(CASE WHEN owner = $1 THEN 1 ELSE 0 END AS BIGINT) FROM sessions \
     WHERE running = 1 AND id > $2 AND deleted_at IS NULL AND ",
    claimable_session!("$1"),
    " ORDER BY id LIMIT $3"
);

// Among several servers the owner of a project's session is that of its worker space.
macro_rules! among_servers {
    ($which:literal, $order:literal) => {
        concat!(
            "SELECT id, realm, session_id, project_id, CAST(CASE WHEN holder = $1 THEN 1 ELSE 0 END AS BIGINT) FROM \
             (SELECT sessions.id, sessions.realm, sessions.session_id, sessions.project_id, sessions.wake_at, \
             CASE WHEN sessions.project_id IS NULL THEN sessions.owner ELSE owners.owner END AS holder FROM sessions \
             LEFT JOIN owners ON owners.kind = 'project' AND owners.number = sessions.project_id WHERE ",
            $which,
            " AND sessions.deleted_at IS NULL) AS found WHERE (holder IS NULL OR holder = $1 \
             OR NOT EXISTS (SELECT 1 FROM servers WHERE server_id = holder AND ended = 0)) ",
            $order
        )
    };
}
const DUE_AMONG: &str = among_servers!("sessions.wake_at <= $2", "ORDER BY wake_at, id LIMIT $3");
const RUNNING_AMONG: &str = among_servers!(
    "sessions.running = 1 AND sessions.id > $2",
    "ORDER BY id LIMIT $3"
);

impl OwnedRow {
    fn kind(self) -> &'static str {
        match self {
            Self::Project(_) => "project",
            Self::Chat => "chat",
        }
    }

    fn key(self) -> [Param; 2] {
        let number = match self {
            Self::Project(project) => project.get(),
            Self::Chat => 0,
        };
        [self.kind().into(), number.into()]
    }
}

/// Which sessions of others a server looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// The server is alone.
    Alone,
    /// Worker spaces have owners.
    Among,
}

impl Store {
    /// Makes `server_id` the owner and returns the new epoch. `None` if a living server owns it, or
    /// if it is a project that does not exist.
    pub async fn claim_row(
        &self,
        row: OwnedRow,
        server_id: &str,
    ) -> Result<Option<Epoch>, StoreError> {
        let mut params = Vec::from(row.key());
        params.push(Param::text(server_id));
        let claim = Stmt {
            sql: CLAIM_ROW,
            params,
            expect: Expect::Number,
        };
        self.write(None, vec![claim])
            .await?
            .number
            .map(epoch)
            .transpose()
    }

    /// Nobody owns it any more, if `server_id` did and has not claimed it again since.
    pub async fn release_row(
        &self,
        row: OwnedRow,
        server_id: &str,
        epoch: Epoch,
    ) -> Result<(), StoreError> {
        let mut params = Vec::from(row.key());
        params.extend([Param::text(server_id), epoch.0.into()]);
        self.write(None, vec![Stmt::any(RELEASE_ROW, params)])
            .await
            .map(drop)
    }

    /// Nobody owns the worker spaces any more that `server_id` owned and where no turn runs.
    pub async fn release_quiet_projects(&self, server_id: &str) -> Result<(), StoreError> {
        let stmt = Stmt::any(RELEASE_QUIET_PROJECTS, vec![Param::text(server_id)]);
        self.write(None, vec![stmt]).await.map(drop)
    }

    /// `None` if it was never claimed.
    pub async fn owner_of_row(&self, row: OwnedRow) -> Result<Option<OwnerRow>, StoreError> {
        self.read_one(OWNER_OF_ROW, row.key().into(), owner_row)
            .await
    }

    /// Makes `server_id` the owner and returns the new epoch, so that commits of earlier owners
    /// fail. `None` if a living server owns it.
    pub async fn claim_session(
        &self,
        key: SessionKey,
        server_id: &str,
    ) -> Result<Option<Epoch>, StoreError> {
        self.claim_with(CLAIM, key, server_id).await
    }

    /// Claims a session of a project whose worker space this server owns.
    pub async fn claim_session_in_project(
        &self,
        key: SessionKey,
        server_id: &str,
    ) -> Result<Option<Epoch>, StoreError> {
        self.claim_with(CLAIM_IN_PROJECT, key, server_id).await
    }

    async fn claim_with(
        &self,
        sql: &'static str,
        key: SessionKey,
        server_id: &str,
    ) -> Result<Option<Epoch>, StoreError> {
        let params = vec![Param::text(server_id), key.into()];
        let claim = Stmt {
            sql,
            params,
            expect: Expect::Number,
        };
        let written = self.write(Some(key), vec![claim]).await?;
        if let Some(number) = written.number {
            return epoch(number).map(Some);
        }
        match self
            .read_one(EXISTS, vec![key.into()], |row| row.int())
            .await?
        {
            Some(_) => Ok(None),
            None => Err(StoreError::NotFound),
        }
    }

    /// Nobody owns the session any more, if `server_id` did.
    pub async fn release_session(
        &self,
        key: SessionKey,
        server_id: &str,
    ) -> Result<(), StoreError> {
        let params = vec![key.into(), Param::text(server_id)];
        self.write(Some(key), vec![Stmt::any(RELEASE, params)])
            .await
            .map(drop)
    }

    /// Who owns a session of the runtime kind. `None` if there is no such session.
    pub async fn owner_of_session(&self, id: &SessionId) -> Result<Option<OwnerRow>, StoreError> {
        self.read_one(OWNER_OF_SESSION, vec![Param::text(id.as_str())], owner_row)
            .await
    }

    /// The project that a session belongs to.
    pub async fn project_of_session(
        &self,
        id: &SessionId,
    ) -> Result<Option<ProjectId>, StoreError> {
        let found = self
            .read_one(PROJECT_OF, vec![Param::text(id.as_str())], |row| {
                row.optional_project()
            })
            .await?;
        Ok(found.flatten())
    }

    /// Whether there is a project of this number, whoever its user is.
    pub async fn has_project(&self, project: ProjectId) -> Result<bool, StoreError> {
        let found = self
            .read_one(HAS_PROJECT, vec![project.into()], |row| row.int())
            .await?;
        Ok(found.is_some())
    }

    /// Sessions with a deadline at or before `time` that this server may wake: its own, and those
    /// whose owner is gone.
    pub async fn due_sessions(
        &self,
        search: Search,
        time: Timestamp,
        server_id: &str,
        limit: usize,
    ) -> Result<Vec<SessionRef>, StoreError> {
        let sql = match search {
            Search::Alone => DUE,
            Search::Among => DUE_AMONG,
        };
        let params = vec![Param::text(server_id), time.into(), (limit as u64).into()];
        self.read(sql, params, session_ref).await
    }

    /// Sessions that were running when their owner stopped, sorted by key. `after` is the last key
    /// of the page before.
    pub async fn running_sessions(
        &self,
        search: Search,
        after: Option<SessionKey>,
        server_id: &str,
        limit: usize,
    ) -> Result<Vec<SessionRef>, StoreError> {
        let sql = match search {
            Search::Alone => RUNNING,
            Search::Among => RUNNING_AMONG,
        };
        let after = after.map_or(0, SessionKey::get);
        let params = vec![Param::text(server_id), after.into(), (limit as u64).into()];
        self.read(sql, params, session_ref).await
    }
}

fn epoch(number: i64) -> Result<Epoch, StoreError> {
    u64::try_from(number)
        .map(Epoch)
        .map_err(|_| StoreError::Corrupt("an epoch is negative".to_owned()))
}

fn owner_row(row: &mut Columns<'_>) -> Result<OwnerRow, StoreError> {
    let epoch = epoch(row.int()?)?;
    let (server_id, address) = (row.optional_string()?, row.optional_string()?);
    let given_away = row.optional_int()? == Some(1);
    let key = row.optional_int()?.map(SessionKey::from_raw);
    Ok(OwnerRow {
        epoch,
        session: key.zip(row.optional_time()?),
        owner: server_id.map(|server_id| Ownership {
            server_id,
            address,
            given_away,
        }),
    })
}

fn session_ref(row: &mut Columns<'_>) -> Result<SessionRef, StoreError> {
    Ok(SessionRef {
        key: SessionKey::from_raw(row.int()?),
        kind: row.parsed(SessionKind::parse)?,
        session_id: row.id()?,
        project_id: row.optional_project()?,
        is_mine: row.flag()?,
    })
}
