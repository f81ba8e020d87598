//! What a person allowed for the rest of a session, and can take back.

use serde::{Deserialize, Serialize};

use crate::{McpServerName, RememberedId};

/// Calls that pass without a question, because a person approved one with `remember`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Remembered {
    pub id: RememberedId,
    #[serde(flatten)]
    pub covers: RememberedCalls,
}

/// Which calls pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RememberedCalls {
    /// Writes of files in the workspace.
    FileWrites,
    /// Exactly this command in exactly this folder.
    Command {
        command: String,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        cwd: Option<String>,
    },
    /// This tool of an MCP server, with any arguments.
    McpTool { server: McpServerName, tool: String },
}

/// Oldest first; at most 100.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RememberedList {
    pub remembered: Vec<Remembered>,
}

/// A person took back what was remembered: such calls ask again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RememberedRevoked {
    #[serde(flatten)]
    pub remembered: Remembered,
    /// The user.
    pub revoked_by: String,
}
