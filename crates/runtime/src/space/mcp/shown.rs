//! The MCP servers of a project as people see them.

use codelab_protocol::{ClientId, McpServer, McpServerName, McpTool, McpToolState};
use codelab_store::{McpServerRow, Opened, StoreError};

use super::Loaded;
use super::trust::{SeenServer, Standing, complaint};
use crate::space::{Space, lock};

impl Space {
    /// The project's own servers by name, then those that present clients run.
    pub async fn mcp_servers(&self) -> Result<Vec<McpServer>, StoreError> {
        let mut loaded = self.mcp.loaded().await?;
        match loaded.as_mut() {
            Some(loaded) => self.shown(loaded, None).await,
            None => Ok(Vec::new()),
        }
    }

    /// The project's own server of this name, else the one of the newest client that runs one.
    pub async fn mcp_server(&self, name: &McpServerName) -> Result<Option<McpServer>, StoreError> {
        let mut loaded = self.mcp.loaded().await?;
        match loaded.as_mut() {
            Some(loaded) => self.shown_one(loaded, name).await,
            None => Ok(None),
        }
    }

    pub(super) async fn shown_one(
        &self,
        loaded: &mut Loaded,
        name: &McpServerName,
    ) -> Result<Option<McpServer>, StoreError> {
        let shown = self.shown(loaded, Some(name)).await?;
        Ok(shown.into_iter().next())
    }

    async fn shown(
        &self,
        loaded: &mut Loaded,
        only: Option<&McpServerName>,
    ) -> Result<Vec<McpServer>, StoreError> {
        // The newest first: it is the one that sessions without a client see.
        let clients = lock(&self.clients).mcp_clients();
        let mut shown = Vec::new();
        let newest = clients.first();
        let seen = self.seen_by(&loaded.views(), newest);
        self.mcp.settle(loaded, &seen).await?;
        self.show(loaded, &seen, only, None, &mut shown).await?;
        let mut by_clients = Vec::new();
        for client in &clients {
            let seen = self.seen_by(&loaded.views(), Some(client));
            self.mcp.settle(loaded, &seen).await?;
            self.show(loaded, &seen, only, Some(client), &mut by_clients)
                .await?;
        }
        shown.append(&mut by_clients);
        Ok(shown)
    }

    /// Those of a client, or the project's own.
    async fn show(
        &self,
        loaded: &Loaded,
        seen: &[SeenServer],
        only: Option<&McpServerName>,
        client: Option<&ClientId>,
        into: &mut Vec<McpServer>,
    ) -> Result<(), StoreError> {
        let judged = loaded.trust.judge(seen);
        let wanted = |server: &SeenServer| {
            server.client.as_ref() == client && only.is_none_or(|name| *name == server.name)
        };
        for (server, standings) in seen.iter().zip(&judged) {
            if wanted(server) {
                into.push(one(loaded, server, standings).await?);
            }
        }
        Ok(())
    }
}

async fn one(
    loaded: &Loaded,
    server: &SeenServer,
    standings: &[Standing],
) -> Result<McpServer, StoreError> {
    let mut tools = Vec::with_capacity(server.tools.len());
    for (tool, standing) in server.tools.iter().zip(standings) {
        let state = standing.shown();
        let accepted = match state {
            McpToolState::Changed => {
                let rows = &loaded.rows;
                rows.accepted_definition(&server.name, &tool.definition.name)
                    .await?
            }
            McpToolState::On | McpToolState::Collides | McpToolState::Forbidden => None,
        };
        tools.push(McpTool {
            definition: tool.definition.clone(),
            digest: tool.digest.clone(),
            offered_as: tool.offered_as.clone(),
            state,
            permission: loaded.trust.permission(&server.name, &tool.definition.name),
            accepted,
        });
    }
    let remote = match &server.client {
        Some(_) => None,
        None => loaded.remotes.get(&server.name),
    };
    let row = remote.map(|remote| &remote.row);
    Ok(McpServer {
        name: server.name.clone(),
        runs_at: server.runs_at,
        url: row.map(|row| row.url.clone()),
        headers: row.map(header_names).unwrap_or_default(),
        authorized: row.is_some_and(|row| matches!(row.tokens, Opened::Value(_))),
        client_id: server.client.clone(),
        status: server.status,
        error: error(server, standings),
        tools,
        created_at: row.map(|row| row.created_at),
    })
}

/// What is wrong now, the most important first.
fn error(server: &SeenServer, standings: &[Standing]) -> Option<String> {
    let own = server.error.clone().filter(|_| !server.is_shadowed);
    own.or_else(|| complaint(server, standings))
}

fn header_names(row: &McpServerRow) -> Vec<String> {
    match &row.headers {
        Opened::Value(headers) => headers.names().map(str::to_owned).collect(),
        Opened::Nothing | Opened::Unreadable => Vec::new(),
    }
}
