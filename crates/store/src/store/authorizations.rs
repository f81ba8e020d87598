//! Authorizations at MCP servers that a person has begun. Each is found by its state, which is
//! stored as a hash, and used once.

use codelab_protocol::{Digest, McpServerName, ProjectId, Timestamp, UserId};

use super::{ProjectStore, Store};
use crate::StoreError;
use crate::mcp::McpAuthorizationRow;
use crate::sealed::{self, SealedPlace, SecretText};
use crate::statement::{Param, Stmt};

/// Of one server at a time; the oldest makes room.
const MAX_OPEN: u64 = 8;

const ADD: &str = "INSERT INTO mcp_authorizations (hash, user_id, project_id, server, pending, expires_at) \
     VALUES ($1, $2, $3, $4, $5, $6)";
const MAKE_ROOM: &str = "DELETE FROM mcp_authorizations WHERE project_id = $1 AND server = $2 \
     AND hash NOT IN (SELECT hash FROM mcp_authorizations WHERE project_id = $1 AND server = $2 \
     ORDER BY expires_at DESC, hash LIMIT $3)";
const FIND: &str = "SELECT user_id, project_id, server, pending FROM mcp_authorizations \
     WHERE hash = $1 AND expires_at > $2";
const PROJECT: &str =
    "SELECT project_id FROM mcp_authorizations WHERE hash = $1 AND expires_at > $2";
const TAKE: &str = "DELETE FROM mcp_authorizations WHERE hash = $1";
pub(super) const EXPIRED: &str = "DELETE FROM mcp_authorizations WHERE expires_at <= $1";

const PENDING: &str = "mcp_authorizations.pending";

struct StoredAuthorization {
    user_id: UserId,
    project_id: ProjectId,
    server: McpServerName,
    pending: Vec<u8>,
}

impl ProjectStore {
    pub async fn add_mcp_authorization(
        &self,
        hash: &Digest,
        server: &McpServerName,
        pending: &SecretText,
        expires_at: Timestamp,
    ) -> Result<(), StoreError> {
        let store = self.store();
        let row = [hash.as_str()];
        let sealed = sealed::seal(store.sealing_key(), &place(&row), pending.expose())?;
        let add = vec![
            hash.into(),
            self.user().into(),
            self.id().into(),
            Param::text(server.as_str()),
            Param::Bytes(sealed.into()),
            expires_at.into(),
        ];
        let room = vec![
            self.id().into(),
            Param::text(server.as_str()),
            MAX_OPEN.into(),
        ];
        let stmts = vec![
            self.still_there(),
            Stmt::one(ADD, add),
            Stmt::any(MAKE_ROOM, room),
        ];
        let added = store.write(None, stmts).await.map(drop);
        added.map_err(super::users::missing)
    }
}

impl Store {
    /// The project of an authorization that can still be finished.
    pub async fn project_of_mcp_authorization(
        &self,
        hash: &Digest,
        now: Timestamp,
    ) -> Result<Option<ProjectId>, StoreError> {
        let params = vec![hash.into(), now.into()];
        self.read_one(PROJECT, params, |row| row.project()).await
    }

    /// Uses it up. `None` for an unknown, used or expired one.
    pub async fn take_mcp_authorization(
        &self,
        hash: &Digest,
        now: Timestamp,
    ) -> Result<Option<McpAuthorizationRow>, StoreError> {
        let params = vec![hash.into(), now.into()];
        let found = self.read_one(FIND, params, |row| {
            Ok(StoredAuthorization {
                user_id: row.user()?,
                project_id: row.project()?,
                server: row.id()?,
                pending: row.bytes()?,
            })
        });
        let Some(found) = found.await? else {
            return Ok(None);
        };
        // Of several that found it, one removes it.
        match self
            .erase(None, vec![Stmt::one(TAKE, vec![hash.into()])])
            .await
        {
            Ok(()) => {}
            Err(StoreError::Conflict) => return Ok(None),
            Err(error) => return Err(error),
        }
        let (key, row) = (self.sealing_key(), [hash.as_str()]);
        Ok(Some(McpAuthorizationRow {
            user_id: found.user_id,
            project_id: found.project_id,
            server: found.server,
            pending: sealed::open(key, &place(&row), Some(&found.pending)),
        }))
    }
}

fn place<'a>(row: &'a [&'a str]) -> SealedPlace<'a> {
    SealedPlace {
        column: PENDING,
        row,
    }
}
