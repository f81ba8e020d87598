//! What a project trusts of MCP servers: accepted definitions, and what people decided about tools.

use codelab_protocol::{McpPermission, McpServerName, Timestamp, ToolDefinition};

use super::ProjectStore;
use super::projects::missing;
use crate::StoreError;
use crate::mcp::{Acceptance, AcceptedDefinition, McpPermissionRow, NewDefinition};
use crate::statement::{Param, Stmt};

/// Accepted definitions of one tool; the oldest makes room.
pub const MAX_DEFINITIONS_OF_TOOL: u64 = 16;

const DEFINITIONS: &str = "SELECT server, tool, digest, CAST(OCTET_LENGTH(definition) AS BIGINT) FROM mcp_definitions \
     WHERE project_id = $1 ORDER BY server, tool, accepted_at, digest";
const NEWEST: &str = "SELECT definition FROM mcp_definitions \
     WHERE project_id = $1 AND server = $2 AND tool = $3 ORDER BY accepted_at DESC, digest LIMIT 1";
const ACCEPT_FIRST: &str = "INSERT INTO mcp_definitions (project_id, server, tool, digest, definition, accepted_at) \
     SELECT CAST($1 AS BIGINT), CAST($2 AS TEXT), CAST($3 AS TEXT), CAST($4 AS TEXT), CAST($5 AS TEXT), \
     CAST($6 AS BIGINT) WHERE NOT EXISTS \
     (SELECT 1 FROM mcp_definitions WHERE project_id = $1 AND server = $2 AND tool = $3)";
const ACCEPT: &str = "INSERT INTO mcp_definitions (project_id, server, tool, digest, definition, accepted_at) \
     VALUES ($1, $2, $3, $4, $5, $6) \
     ON CONFLICT (project_id, server, tool, digest) DO UPDATE SET accepted_at = excluded.accepted_at";
const MAKE_ROOM: &str = "DELETE FROM mcp_definitions WHERE project_id = $1 AND server = $2 AND tool = $3 \
     AND digest NOT IN (SELECT digest FROM mcp_definitions WHERE project_id = $1 AND server = $2 AND tool = $3 \
     ORDER BY accepted_at DESC, digest LIMIT $4)";
const PERMISSIONS: &str = "SELECT server, tool, permission FROM mcp_permissions WHERE project_id = $1 \
     ORDER BY server, tool";
const SET_PERMISSION: &str = "INSERT INTO mcp_permissions (project_id, server, tool, permission) \
     VALUES ($1, $2, $3, $4) \
     ON CONFLICT (project_id, server, tool) DO UPDATE SET permission = excluded.permission";
const REMOVE_PERMISSION: &str =
    "DELETE FROM mcp_permissions WHERE project_id = $1 AND server = $2 AND tool = $3";
const STILL_THERE: &str =
    "UPDATE projects SET updated_at = updated_at WHERE id = $1 AND user_id = $2";

impl ProjectStore {
    /// Of each tool, the newest comes last. The caller bounds how many there are.
    pub async fn accepted_definitions(&self) -> Result<Vec<AcceptedDefinition>, StoreError> {
        self.store
            .read(DEFINITIONS, vec![self.row.id.into()], |row| {
                Ok(AcceptedDefinition {
                    server: row.id()?,
                    tool: row.string()?,
                    digest: row.digest()?,
                    bytes: row.count()?,
                })
            })
            .await
    }

    /// The definition of a tool that was accepted last.
    pub async fn accepted_definition(
        &self,
        server: &McpServerName,
        tool: &str,
    ) -> Result<Option<ToolDefinition>, StoreError> {
        let params = self.tool(server, tool);
        self.store
            .read_one(NEWEST, params, |row| row.json::<ToolDefinition>())
            .await
    }

    pub async fn accept_definitions(
        &self,
        definitions: Vec<NewDefinition>,
        why: Acceptance,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut stmts = vec![self.still_there()];
        for NewDefinition { server, definition } in definitions {
            let json = serde_json::to_string(&definition)
                .map_err(|error| StoreError::Invalid(error.to_string()))?;
            let mut params = self.tool(&server, &definition.name);
            params.extend([(&definition.digest()).into(), json.into(), now.into()]);
            match why {
                Acceptance::FirstSeen => stmts.push(Stmt::any(ACCEPT_FIRST, params)),
                Acceptance::Decided => {
                    stmts.push(Stmt::any(ACCEPT, params));
                    let mut params = self.tool(&server, &definition.name);
                    params.push(MAX_DEFINITIONS_OF_TOOL.into());
                    stmts.push(Stmt::any(MAKE_ROOM, params));
                }
            }
        }
        self.store
            .write(None, stmts)
            .await
            .map(drop)
            .map_err(missing)
    }

    /// Tools that are not named ask.
    pub async fn mcp_permissions(&self) -> Result<Vec<McpPermissionRow>, StoreError> {
        self.store
            .read(PERMISSIONS, vec![self.row.id.into()], |row| {
                Ok(McpPermissionRow {
                    server: row.id()?,
                    tool: row.string()?,
                    permission: row.parsed(|text| match text {
                        "allow" => Some(McpPermission::Allow),
                        "forbid" => Some(McpPermission::Forbid),
                        _ => None,
                    })?,
                })
            })
            .await
    }

    pub async fn set_mcp_permission(
        &self,
        server: &McpServerName,
        tool: &str,
        permission: McpPermission,
    ) -> Result<(), StoreError> {
        let mut params = self.tool(server, tool);
        let word = match permission {
            McpPermission::Ask => None,
            McpPermission::Allow => Some("allow"),
            McpPermission::Forbid => Some("forbid"),
        };
        let set = match word {
            None => Stmt::any(REMOVE_PERMISSION, params),
            Some(word) => {
                params.push(word.into());
                Stmt::any(SET_PERMISSION, params)
            }
        };
        self.store
            .write(None, vec![self.still_there(), set])
            .await
            .map(drop)
            .map_err(missing)
    }

    fn tool(&self, server: &McpServerName, tool: &str) -> Vec<Param> {
        vec![
            self.row.id.into(),
            Param::text(server.as_str()),
            Param::text(tool),
        ]
    }

    /// Like the fence, but nothing about the project itself changes.
    pub(in crate::store) fn still_there(&self) -> Stmt {
        Stmt::one(STILL_THERE, vec![self.row.id.into(), self.user.into()])
    }
}
