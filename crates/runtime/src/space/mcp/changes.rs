//! What people change about the MCP servers of a project: the servers themselves, what is accepted
//! of them and who may use it.
//!
//! Changes run to their end in tasks of their own: a caller that hangs up between the database and
//! the running server must not leave the old one in use.

use codelab_engine::Refusal;
use codelab_mcp::oauth::OAuthTokens;
use codelab_protocol::{
    AcceptMcpTools, ErrorCode, McpServer, McpServerName, McpStatus, Patch, PermitMcpTool,
};
use codelab_store::{
    Acceptance, McpServerChange, McpServerRow, NewDefinition, NewMcpServer, Opened, ProjectStore,
    SecretHeaders, StoreError,
};
use tokio::time::timeout;

use super::remote::secret;
use super::trust::SeenServer;
use super::{Loaded, MAX_MCP_SERVERS, read_trust};
use crate::RuntimeError;
use crate::clock::now;
use crate::runtime::{Runtime, whole};
use crate::space::{Space, SpaceKey, lock};

/// A change of a server. What is absent stays.
#[derive(Debug, Default)]
pub struct McpChange {
    pub url: Option<String>,
    pub headers: Patch<SecretHeaders>,
}

impl Runtime {
    pub async fn create_mcp_server(
        &self,
        project: ProjectStore,
        new: NewMcpServer,
    ) -> Result<McpServer, RuntimeError> {
        let space = self.space(SpaceKey::of(&project));
        whole(async move { space.create_mcp_server(new).await }).await?
    }

    pub async fn change_mcp_server(
        &self,
        project: ProjectStore,
        name: McpServerName,
        change: McpChange,
    ) -> Result<McpServer, RuntimeError> {
        let space = self.space(SpaceKey::of(&project));
        whole(async move { space.change_mcp_server(&name, change).await }).await?
    }

    /// Forgets the server, its tokens, and what was decided about its tools. Of a server that a
    /// client runs, only what was decided.
    pub async fn delete_mcp_server(
        &self,
        project: ProjectStore,
        name: McpServerName,
    ) -> Result<(), RuntimeError> {
        let space = self.space(SpaceKey::of(&project));
        whole(async move { space.delete_mcp_server(&name).await }).await?
    }

    pub async fn accept_mcp_tools(
        &self,
        project: ProjectStore,
        name: McpServerName,
        what: AcceptMcpTools,
    ) -> Result<McpServer, RuntimeError> {
        let space = self.space(SpaceKey::of(&project));
        whole(async move { space.accept_mcp_tools(&name, what).await }).await?
    }

    pub async fn permit_mcp_tool(
        &self,
        project: ProjectStore,
        name: McpServerName,
        what: PermitMcpTool,
    ) -> Result<McpServer, RuntimeError> {
        let space = self.space(SpaceKey::of(&project));
        whole(async move { space.permit_mcp_tool(&name, what).await }).await?
    }

    /// Connects anew, and says what came of it.
    pub async fn test_mcp_server(
        &self,
        project: ProjectStore,
        name: McpServerName,
    ) -> Result<McpServer, RuntimeError> {
        let space = self.space(SpaceKey::of(&project));
        whole(async move { space.test_mcp_server(&name).await }).await?
    }

    /// `NotFound` unless it is a server of the project itself.
    pub async fn forget_mcp_tokens(
        &self,
        project: ProjectStore,
        name: McpServerName,
    ) -> Result<(), RuntimeError> {
        let space = self.space(SpaceKey::of(&project));
        whole(async move { space.forget_mcp_tokens(&name).await }).await?
    }
}

impl Space {
    async fn create_mcp_server(&self, new: NewMcpServer) -> Result<McpServer, RuntimeError> {
        let mut loaded = self.mcp.loaded().await?;
        let (loaded, rows) = opened(&mut loaded)?;
        let name = new.name.clone();
        if loaded.remotes.contains_key(&name) {
            let why = format!("The project already has an MCP server named {name}");
            return Err(conflict(why).into());
        }
        if loaded.remotes.len() >= MAX_MCP_SERVERS {
            let why = format!("A project has at most {MAX_MCP_SERVERS} MCP servers");
            return Err(conflict(why).into());
        }
        let row = rows.create_mcp_server(new, now()).await;
        let row = row.map_err(RuntimeError::NotStored)?;
        loaded.trust = read_trust(&rows).await?;
        drop(self.mcp.start(loaded, row));
        tracing::info!(project = %self.key.project, server = %name, "MCP server added");
        self.after_change(loaded, &name).await
    }

    async fn change_mcp_server(
        &self,
        name: &McpServerName,
        change: McpChange,
    ) -> Result<McpServer, RuntimeError> {
        let mut loaded = self.mcp.loaded().await?;
        let (loaded, rows) = opened(&mut loaded)?;
        let present = &loaded.remotes.get(name).ok_or_else(not_found)?.row;
        let moves = change
            .url
            .as_ref()
            .is_some_and(|url| origin(url) != origin(&present.url));
        let change = checked(present, change)?;
        let changed = rows.change_mcp_server(name, change, now()).await;
        let row = changed.map_err(RuntimeError::NotStored)?;
        if moves {
            // What was allowed was allowed to another server.
            let forgotten = rows.forget_mcp_server(name).await;
            forgotten.map_err(RuntimeError::NotStored)?;
            loaded.trust = read_trust(&rows).await?;
        }
        let before = self.mcp.start(loaded, row);
        let shown = self.after_change(loaded, name).await;
        if let Some(before) = before {
            before.stop().await;
        }
        shown
    }

    async fn delete_mcp_server(&self, name: &McpServerName) -> Result<(), RuntimeError> {
        let mut loaded = self.mcp.loaded().await?;
        let (loaded, rows) = opened(&mut loaded)?;
        let is_own = loaded.remotes.contains_key(name);
        if !is_own && !loaded.trust.knows_server(name) {
            return Err(not_found());
        }
        let deleted = match is_own {
            true => rows.delete_mcp_server(name).await,
            false => rows.forget_mcp_server(name).await,
        };
        deleted.map_err(RuntimeError::NotStored)?;
        let before = loaded.remotes.remove(name);
        loaded.trust = read_trust(&rows).await?;
        self.mcp.publish(loaded);
        if let Some(before) = before {
            before.stop().await;
        }
        tracing::info!(project = %self.key.project, server = %name, "MCP server deleted");
        Ok(())
    }

    async fn accept_mcp_tools(
        &self,
        name: &McpServerName,
        what: AcceptMcpTools,
    ) -> Result<McpServer, RuntimeError> {
        let mut loaded = self.mcp.loaded().await?;
        let (loaded, rows) = opened(&mut loaded)?;
        let servers = self.all_named(loaded, name);
        if servers.is_empty() {
            return Err(not_found());
        }
        let new = accepted(&servers, &what)?;
        let accepted = rows.accept_definitions(new, Acceptance::Decided, now());
        accepted.await.map_err(RuntimeError::NotStored)?;
        loaded.trust = read_trust(&rows).await?;
        self.after_change(loaded, name).await
    }

    async fn permit_mcp_tool(
        &self,
        name: &McpServerName,
        what: PermitMcpTool,
    ) -> Result<McpServer, RuntimeError> {
        let mut loaded = self.mcp.loaded().await?;
        let (loaded, rows) = opened(&mut loaded)?;
        let servers = self.all_named(loaded, name);
        if servers.is_empty() {
            return Err(not_found());
        }
        if !has_tool(&servers, &what.tool) && !loaded.trust.knows(name, &what.tool) {
            return Err(no_such_tool(&what.tool).into());
        }
        let set = rows.set_mcp_permission(name, &what.tool, what.permission);
        set.await.map_err(RuntimeError::NotStored)?;
        loaded.trust = read_trust(&rows).await?;
        self.after_change(loaded, name).await
    }

    async fn test_mcp_server(&self, name: &McpServerName) -> Result<McpServer, RuntimeError> {
        let (before, connecting) = {
            let mut loaded = self.mcp.loaded().await?;
            let (loaded, rows) = opened(&mut loaded)?;
            if !loaded.remotes.contains_key(name) {
                // A client runs it, and tries it by itself.
                let shown = self.shown_one(loaded, name).await?;
                return shown.ok_or_else(not_found);
            }
            let row = rows.mcp_server(name).await?.ok_or_else(not_found)?;
            let before = self.mcp.start(loaded, row);
            let connecting = loaded
                .remotes
                .get(name)
                .and_then(|remote| remote.view.watch());
            self.mcp.publish(loaded);
            (before, connecting)
        };
        if let Some(before) = before {
            before.stop().await;
        }
        if let Some(mut state) = connecting {
            let limits = &self.mcp.options.limits;
            let within = limits.handshake_timeout + limits.list_timeout;
            let settled = state.wait_for(|state| state.status != McpStatus::Starting);
            // What it says after that time is all there is to say.
            let _ = timeout(within, settled).await;
        }
        let shown = self.mcp_server(name).await?;
        shown.ok_or_else(not_found)
    }

    async fn forget_mcp_tokens(&self, name: &McpServerName) -> Result<(), RuntimeError> {
        let change = McpServerChange {
            forget_tokens: true,
            ..McpServerChange::default()
        };
        let mut loaded = self.mcp.loaded().await?;
        let (loaded, rows) = opened(&mut loaded)?;
        if !loaded.remotes.contains_key(name) {
            return Err(not_found());
        }
        let changed = rows.change_mcp_server(name, change, now()).await;
        let row = changed.map_err(RuntimeError::NotStored)?;
        let before = self.mcp.start(loaded, row);
        self.mcp.publish(loaded);
        if let Some(before) = before {
            before.stop().await;
        }
        Ok(())
    }

    /// Keeps new tokens of a server, unless it has another address by now.
    pub(super) async fn keep_mcp_tokens(
        &self,
        name: &McpServerName,
        url: &str,
        tokens: &OAuthTokens,
    ) -> Result<(), RuntimeError> {
        let mut loaded = self.mcp.loaded().await?;
        let (loaded, rows) = opened(&mut loaded)?;
        let remote = loaded.remotes.get(name).ok_or_else(not_found)?;
        if remote.row.url != url {
            let why = "The server's address was changed meanwhile; authorize it again";
            return Err(conflict(why.to_owned()).into());
        }
        let secret = secret(tokens)?;
        let set = rows.set_mcp_tokens(name, Some(&secret)).await;
        set.map_err(RuntimeError::NotStored)?;
        let row = McpServerRow {
            tokens: Opened::Value(secret),
            ..remote.row.clone()
        };
        let before = self.mcp.start(loaded, row);
        self.mcp.publish(loaded);
        if let Some(before) = before {
            before.stop().await;
        }
        Ok(())
    }

    /// The row of a server of the project itself.
    pub(super) async fn own_mcp_server(
        &self,
        name: &McpServerName,
    ) -> Result<McpServerRow, RuntimeError> {
        let mut loaded = self.mcp.loaded().await?;
        let (loaded, _) = opened(&mut loaded)?;
        let remote = loaded.remotes.get(name).ok_or_else(not_found)?;
        Ok(remote.row.clone())
    }

    async fn after_change(
        &self,
        loaded: &mut Loaded,
        name: &McpServerName,
    ) -> Result<McpServer, RuntimeError> {
        self.mcp.publish(loaded);
        let shown = self.shown_one(loaded, name).await?;
        shown.ok_or_else(not_found)
    }

    /// The server of this name that counts: the project's own, or those of all clients, newest first.
    fn all_named(&self, loaded: &Loaded, name: &McpServerName) -> Vec<SeenServer> {
        if let Some(remote) = loaded.remotes.get(name) {
            return vec![remote.view.seen()];
        }
        let clients = lock(&self.clients);
        let newest_first = clients.mcp_clients();
        let reports = newest_first
            .iter()
            .filter_map(|client| Some((client, clients.mcp_report(client)?)));
        reports
            .flat_map(|(client, report)| report.seen(client, |_| false))
            .filter(|server| server.name == *name)
            .collect()
    }
}

/// The definitions that a person accepts.
fn accepted(
    servers: &[SeenServer],
    what: &AcceptMcpTools,
) -> Result<Vec<NewDefinition>, RuntimeError> {
    let of = |server: &SeenServer, definition: &codelab_protocol::ToolDefinition| NewDefinition {
        server: server.name.clone(),
        definition: definition.clone(),
    };
    let Some(name) = &what.tool else {
        let newest = servers.iter().take(1);
        let tools = newest.flat_map(|server| server.tools.iter().map(move |tool| (server, tool)));
        return Ok(tools
            .map(|(server, tool)| of(server, &tool.definition))
            .collect());
    };
    if !has_tool(servers, name) {
        return Err(no_such_tool(name).into());
    }
    let mut tools = servers
        .iter()
        .flat_map(|server| server.tools.iter().map(move |tool| (server, tool)))
        .filter(|(_, tool)| tool.definition.name == *name);
    let shown = |(_, tool): &(_, &super::trust::SeenTool)| {
        what.digest
            .as_ref()
            .is_none_or(|digest| *digest == tool.digest)
    };
    match tools.find(shown) {
        Some((server, tool)) => Ok(vec![of(server, &tool.definition)]),
        None => {
            let why =
                format!("The definition of {name} is not the one that was shown; look at it again");
            Err(conflict(why).into())
        }
    }
}

fn has_tool(servers: &[SeenServer], name: &str) -> bool {
    let mut tools = servers.iter().flat_map(|server| server.tools.iter());
    tools.any(|tool| tool.definition.name == name)
}

/// Neither tokens nor headers may reach another host than the one they were given for.
fn checked(present: &McpServerRow, change: McpChange) -> Result<McpServerChange, RuntimeError> {
    let url = change.url.filter(|url| *url != present.url);
    let headers = match change.headers {
        Patch::Absent => None,
        Patch::Null => Some(SecretHeaders::default()),
        Patch::Value(headers) => Some(headers),
    };
    let moves = url
        .as_ref()
        .is_some_and(|url| origin(url) != origin(&present.url));
    if moves && headers.is_none() && present.headers != Opened::Nothing {
        let why = "headers must be sent again, or null, because the address is of another host";
        let refusal = Refusal::new(ErrorCode::ValidationError, why).with("field", "headers");
        return Err(refusal.into());
    }
    Ok(McpServerChange {
        forget_tokens: url.is_some(),
        url,
        headers,
    })
}

/// Scheme, host and port.
fn origin(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    format!("{scheme}://{host}").to_lowercase()
}

fn opened(loaded: &mut Option<Loaded>) -> Result<(&mut Loaded, ProjectStore), RuntimeError> {
    let loaded = loaded.as_mut().ok_or_else(not_found)?;
    let rows = loaded.rows.clone();
    Ok((loaded, rows))
}

pub(super) fn not_found() -> RuntimeError {
    RuntimeError::Store(StoreError::NotFound)
}

fn no_such_tool(tool: &str) -> Refusal {
    let shown: String = tool.chars().filter(|c| !c.is_control()).take(100).collect();
    let why = format!("The server has no tool named {shown}");
    Refusal::new(ErrorCode::NotFound, why).with("field", "tool")
}

pub(super) fn conflict(why: String) -> Refusal {
    Refusal::new(ErrorCode::Conflict, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_stay_with_their_host() {
        let row = McpServerRow {
            name: McpServerName::parse("s").unwrap(),
            url: "https://one.example/mcp".to_owned(),
            headers: Opened::Value(SecretHeaders::new(
                [("X-Key".to_owned(), "k".to_owned())].into(),
            )),
            tokens: Opened::Nothing,
            created_at: now(),
        };
        let change = |url: &str, headers| {
            let change = McpChange {
                url: Some(url.to_owned()),
                headers,
            };
            checked(&row, change).map(|change| (change.url.is_some(), change.forget_tokens))
        };
        let kept = change("https://one.example/mcp", Patch::Absent).unwrap();
        assert_eq!(kept, (false, false));
        let moved = change("https://ONE.example/other?x=/", Patch::Absent).unwrap();
        assert_eq!(moved, (true, true));
        for elsewhere in [
            "https://two.example/mcp",
            "http://one.example/mcp",
            "https://one.example:8443/mcp",
        ] {
            assert!(change(elsewhere, Patch::Absent).is_err(), "{elsewhere}");
            assert_eq!(change(elsewhere, Patch::Null).unwrap(), (true, true));
        }
    }
}
