//! The MCP servers of a project that CodeLab's server calls. Their headers and tokens are stored
//! encrypted.

use codelab_protocol::{McpServerName, Timestamp};

use super::ProjectStore;
use super::projects::missing;
use crate::StoreError;
use crate::columns::Columns;
use crate::mcp::{McpServerChange, McpServerRow, NewMcpServer};
use crate::sealed::{self, Opened, SealedPlace, SecretHeaders, SecretText};
use crate::statement::{Expect, Param, Stmt};

macro_rules! select_servers {
    ($where:literal) => {
        concat!(
            "SELECT name, url, headers, tokens, created_at FROM mcp_servers WHERE project_id = $1 ",
            $where
        )
    };
}
const ALL: &str = select_servers!("ORDER BY name");
const ONE: &str = select_servers!("AND name = $2");
const INSERT: &str = "INSERT INTO mcp_servers (project_id, name, url, headers, created_at) \
     VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
const EXISTS: &str =
    "UPDATE mcp_servers SET created_at = created_at WHERE project_id = $1 AND name = $2";
const SET_URL: &str = "UPDATE mcp_servers SET url = $1 WHERE project_id = $2 AND name = $3";
const SET_HEADERS: &str = "UPDATE mcp_servers SET headers = $1 WHERE project_id = $2 AND name = $3";
const SET_TOKENS: &str = "UPDATE mcp_servers SET tokens = $1 WHERE project_id = $2 AND name = $3";
const DELETE: &str = "DELETE FROM mcp_servers WHERE project_id = $1 AND name = $2";
/// What was decided about a server of this name, whoever runs it.
const FORGET: [&str; 3] = [
    "DELETE FROM mcp_definitions WHERE project_id = $1 AND server = $2",
    "DELETE FROM mcp_permissions WHERE project_id = $1 AND server = $2",
    END_AUTHORIZATIONS,
];
const END_AUTHORIZATIONS: &str =
    "DELETE FROM mcp_authorizations WHERE project_id = $1 AND server = $2";

const HEADERS: &str = "mcp_servers.headers";
const TOKENS: &str = "mcp_servers.tokens";

struct StoredServer {
    name: McpServerName,
    url: String,
    headers: Option<Vec<u8>>,
    tokens: Option<Vec<u8>>,
    created_at: Timestamp,
}

impl ProjectStore {
    /// By their names. The caller bounds how many there are.
    pub async fn mcp_servers(&self) -> Result<Vec<McpServerRow>, StoreError> {
        let stored = self
            .store
            .read(ALL, vec![self.row.id.into()], stored)
            .await?;
        Ok(stored
            .into_iter()
            .map(|server| self.opened(server))
            .collect())
    }

    pub async fn mcp_server(
        &self,
        name: &McpServerName,
    ) -> Result<Option<McpServerRow>, StoreError> {
        let params = vec![self.row.id.into(), Param::text(name.as_str())];
        let stored = self.store.read_one(ONE, params, stored).await?;
        Ok(stored.map(|server| self.opened(server)))
    }

    /// What was decided about another server of this name does not count for this one.
    /// `AlreadyExists` when the project has a server of this name, `NotFound` when the project is
    /// gone.
    pub async fn create_mcp_server(
        &self,
        new: NewMcpServer,
        now: Timestamp,
    ) -> Result<McpServerRow, StoreError> {
        let headers = self.sealed_headers(&new.name, &new.headers)?;
        let insert = Stmt {
            sql: INSERT,
            params: vec![
                self.row.id.into(),
                Param::text(new.name.as_str()),
                Param::text(&new.url),
                headers,
                now.into(),
            ],
            expect: Expect::New,
        };
        let mut stmts = vec![self.fence(now), insert];
        stmts.extend(self.forgetting(&new.name));
        self.store.write(None, stmts).await.map_err(missing)?;
        Ok(McpServerRow {
            name: new.name,
            url: new.url,
            headers: match new.headers.is_empty() {
                true => Opened::Nothing,
                false => Opened::Value(new.headers),
            },
            tokens: Opened::Nothing,
            created_at: now,
        })
    }

    /// `NotFound` if there is no such server in this project.
    pub async fn change_mcp_server(
        &self,
        name: &McpServerName,
        change: McpServerChange,
        now: Timestamp,
    ) -> Result<McpServerRow, StoreError> {
        let at = || vec![self.row.id.into(), Param::text(name.as_str())];
        let mut stmts = vec![self.fence(now), Stmt::one(EXISTS, at())];
        let mut set = |sql, value: Param| {
            let params = [value].into_iter().chain(at()).collect();
            stmts.push(Stmt::one(sql, params));
        };
        if let Some(url) = change.url {
            set(SET_URL, url.into());
        }
        if let Some(headers) = &change.headers {
            set(SET_HEADERS, self.sealed_headers(name, headers)?);
        }
        if change.forget_tokens {
            set(SET_TOKENS, Param::Null);
            stmts.push(Stmt::any(END_AUTHORIZATIONS, at()));
        }
        // What is replaced can be a secret.
        self.store.erase(None, stmts).await.map_err(missing)?;
        self.mcp_server(name).await?.ok_or(StoreError::NotFound)
    }

    /// `None` forgets them. `NotFound` if there is no such server in this project.
    pub async fn set_mcp_tokens(
        &self,
        name: &McpServerName,
        tokens: Option<&SecretText>,
    ) -> Result<(), StoreError> {
        let sealed = tokens
            .map(|tokens| self.sealed(TOKENS, name, tokens.expose()))
            .transpose()?;
        let value = sealed.unwrap_or(Param::Null);
        let params = vec![value, self.row.id.into(), Param::text(name.as_str())];
        let stmts = vec![self.still_there(), Stmt::one(SET_TOKENS, params)];
        self.store.erase(None, stmts).await.map_err(missing)
    }

    /// Also forgets its tokens, and what was decided about its tools.
    pub async fn delete_mcp_server(&self, name: &McpServerName) -> Result<(), StoreError> {
        let params = vec![self.row.id.into(), Param::text(name.as_str())];
        let mut stmts = vec![self.still_there(), Stmt::one(DELETE, params)];
        stmts.extend(self.forgetting(name));
        self.store.erase(None, stmts).await.map_err(missing)
    }

    /// Forgets what was decided about the tools of a server that is not the project's own.
    pub async fn forget_mcp_server(&self, name: &McpServerName) -> Result<(), StoreError> {
        let mut stmts = vec![self.still_there()];
        stmts.extend(self.forgetting(name));
        self.store.erase(None, stmts).await.map_err(missing)
    }

    fn forgetting(&self, name: &McpServerName) -> impl Iterator<Item = Stmt> {
        let params = vec![self.row.id.into(), Param::text(name.as_str())];
        FORGET
            .into_iter()
            .map(move |sql| Stmt::any(sql, params.clone()))
    }

    fn sealed_headers(
        &self,
        name: &McpServerName,
        headers: &SecretHeaders,
    ) -> Result<Param, StoreError> {
        if headers.is_empty() {
            return Ok(Param::Null);
        }
        let json = serde_json::to_string(headers.expose())
            .map_err(|error| StoreError::Invalid(error.to_string()))?;
        self.sealed(HEADERS, name, &json)
    }

    fn sealed(
        &self,
        column: &'static str,
        name: &McpServerName,
        secret: &str,
    ) -> Result<Param, StoreError> {
        let project = self.row.id.to_string();
        let place = SealedPlace {
            column,
            row: &[&project, name.as_str()],
        };
        let sealed = sealed::seal(self.store.sealing_key(), &place, secret)?;
        Ok(Param::Bytes(sealed.into()))
    }

    fn opened(&self, server: StoredServer) -> McpServerRow {
        let project = self.row.id.to_string();
        let open = |column, stored: Option<Vec<u8>>| {
            let place = SealedPlace {
                column,
                row: &[&project, server.name.as_str()],
            };
            sealed::open(self.store.sealing_key(), &place, stored.as_deref())
        };
        let headers = match open(HEADERS, server.headers) {
            Opened::Nothing => Opened::Nothing,
            Opened::Unreadable => Opened::Unreadable,
            Opened::Value(json) => match serde_json::from_str(json.expose()) {
                Ok(headers) => Opened::Value(SecretHeaders::new(headers)),
                Err(_) => Opened::Unreadable,
            },
        };
        McpServerRow {
            headers,
            tokens: open(TOKENS, server.tokens),
            name: server.name,
            url: server.url,
            created_at: server.created_at,
        }
    }
}

fn stored(row: &mut Columns<'_>) -> Result<StoredServer, StoreError> {
    Ok(StoredServer {
        name: row.id()?,
        url: row.string()?,
        headers: row.optional_bytes()?,
        tokens: row.optional_bytes()?,
        created_at: row.time()?,
    })
}
