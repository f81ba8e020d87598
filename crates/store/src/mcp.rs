//! Rows about the MCP servers of a project.

use codelab_protocol::{
    Digest, McpPermission, McpServerName, ProjectId, Timestamp, ToolDefinition, UserId,
};

use crate::sealed::{Opened, SecretHeaders, SecretText};

/// Debug output shows no address, because an address can hold a key too.
#[derive(Clone, PartialEq, Eq)]
pub struct NewMcpServer {
    pub name: McpServerName,
    pub url: String,
    pub headers: SecretHeaders,
}

#[derive(Clone, PartialEq, Eq)]
pub struct McpServerRow {
    pub name: McpServerName,
    pub url: String,
    pub headers: Opened<SecretHeaders>,
    pub tokens: Opened<SecretText>,
    pub created_at: Timestamp,
}

/// What is `None` stays.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct McpServerChange {
    pub url: Option<String>,
    pub headers: Option<SecretHeaders>,
    /// Tokens of another address must not be sent to this one. Authorizations that a person has
    /// begun end too.
    pub forget_tokens: bool,
}

/// That a definition of a tool counts as accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedDefinition {
    pub server: McpServerName,
    pub tool: String,
    pub digest: Digest,
    /// Of the stored definition.
    pub bytes: u64,
}

/// Why a definition is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceptance {
    /// It is the first one of its tool. Where the tool has one already, nothing changes.
    FirstSeen,
    /// A person said so.
    Decided,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDefinition {
    pub server: McpServerName,
    pub definition: ToolDefinition,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpPermissionRow {
    pub server: McpServerName,
    pub tool: String,
    pub permission: McpPermission,
}

/// An authorization that a person has begun, for whom and for what.
#[derive(Clone, PartialEq, Eq)]
pub struct McpAuthorizationRow {
    pub user_id: UserId,
    pub project_id: ProjectId,
    pub server: McpServerName,
    pub pending: Opened<SecretText>,
}

impl std::fmt::Debug for NewMcpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewMcpServer")
            .field("name", &self.name)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for McpServerRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpServerRow")
            .field("name", &self.name)
            .field("headers", &self.headers)
            .field("tokens", &self.tokens)
            .field("created_at", &self.created_at)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for McpAuthorizationRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpAuthorizationRow")
            .field("user_id", &self.user_id)
            .field("project_id", &self.project_id)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}
