//! Which tools an agent may use, as people write it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::PartialSchema;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use super::Tool;
use crate::{MCP_PREFIX, McpServerName, offered_name};

/// An entry of `allowed_tools`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum AllowedTool {
    BuiltIn(Tool),
    /// `mcp__*`: every tool of every MCP server.
    AllMcp,
    /// `mcp__{server}__*`: every tool of one server.
    McpServer(McpServerName),
    /// One tool by the name that models see.
    McpTool(String),
}

impl PartialSchema for AllowedTool {
    fn schema() -> RefOr<Schema> {
        let names: Vec<&str> = Tool::ALL.into_iter().map(Tool::as_str).collect();
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some(
                "A built-in tool, `mcp__*`, `mcp__SERVER__*`, or the name of an MCP server's tool.",
            ))
            .pattern(Some(format!(
                "^({}|mcp__([*]|[A-Za-z0-9_-]{{1,64}}__[*]|[A-Za-z0-9_-]{{1,59}}))$",
                names.join("|")
            )))
            .into()
    }
}

impl utoipa::ToSchema for AllowedTool {}

/// Why a text names no tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown tool {0}: it must be a built-in tool, mcp__*, mcp__SERVER__* or the name of an MCP tool"
)]
pub struct UnknownTool(String);

const ALL_MCP: &str = "mcp__*";
const ALL_OF_SERVER: &str = "__*";
/// Models see no longer names.
const MAX_NAME_BYTES: usize = 64;

impl AllowedTool {
    /// Whether it lets an agent use this tool of an MCP server.
    pub fn allows(&self, server: &McpServerName, tool: &str) -> bool {
        match self {
            Self::BuiltIn(_) => false,
            Self::AllMcp => true,
            Self::McpServer(allowed) => allowed == server,
            Self::McpTool(name) => *name == offered_name(server, tool),
        }
    }

    pub fn built_in(&self) -> Option<Tool> {
        match self {
            Self::BuiltIn(tool) => Some(*tool),
            Self::AllMcp | Self::McpServer(_) | Self::McpTool(_) => None,
        }
    }
}

impl From<Tool> for AllowedTool {
    fn from(tool: Tool) -> Self {
        Self::BuiltIn(tool)
    }
}

impl FromStr for AllowedTool {
    type Err = UnknownTool;
    fn from_str(text: &str) -> Result<Self, UnknownTool> {
        let unknown = || UnknownTool(text.chars().take(MAX_NAME_BYTES).collect());
        if let Some(tool) = Tool::parse(text) {
            return Ok(Self::BuiltIn(tool));
        }
        if text == ALL_MCP {
            return Ok(Self::AllMcp);
        }
        let rest = text.strip_prefix(MCP_PREFIX).ok_or_else(unknown)?;
        if let Some(server) = rest.strip_suffix(ALL_OF_SERVER) {
            let server = McpServerName::parse(server).map_err(|_| unknown())?;
            return Ok(Self::McpServer(server));
        }
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        match text.len() <= MAX_NAME_BYTES && !rest.is_empty() && rest.bytes().all(is_name) {
            true => Ok(Self::McpTool(text.to_owned())),
            false => Err(unknown()),
        }
    }
}

impl TryFrom<String> for AllowedTool {
    type Error = UnknownTool;
    fn try_from(text: String) -> Result<Self, UnknownTool> {
        text.parse()
    }
}

impl From<AllowedTool> for String {
    fn from(allowed: AllowedTool) -> Self {
        allowed.to_string()
    }
}

impl fmt::Display for AllowedTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(tool) => f.write_str(tool.as_str()),
            Self::AllMcp => f.write_str(ALL_MCP),
            Self::McpServer(server) => write!(f, "{MCP_PREFIX}{server}{ALL_OF_SERVER}"),
            Self::McpTool(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_written_as_it_is_read() {
        for text in ["read_file", "mcp__*", "mcp__git__*", "mcp__git__git_status"] {
            let allowed: AllowedTool = text.parse().unwrap();
            assert_eq!(allowed.to_string(), text);
            assert_eq!(serde_json::to_value(&allowed).unwrap(), text);
        }
        let long = format!("mcp__{}", "x".repeat(60));
        for text in [
            "fly",
            "",
            "mcp__",
            "mcp__a b__*",
            "mcp____*",
            "mcp__a.b",
            &long,
        ] {
            assert!(text.parse::<AllowedTool>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_pattern_allows_its_server_only() {
        let server = |name: &str| McpServerName::parse(name).unwrap();
        let (git, other) = (server("git"), server("git__x"));
        let cases = [
            ("mcp__*", [true, true, true]),
            ("mcp__git__*", [true, true, false]),
            ("mcp__git__status", [true, false, false]),
            ("read_file", [false, false, false]),
        ];
        for (text, expected) in cases {
            let allowed: AllowedTool = text.parse().unwrap();
            let found = [
                allowed.allows(&git, "status"),
                allowed.allows(&git, "log"),
                allowed.allows(&other, "status"),
            ];
            assert_eq!(found, expected, "{text}");
        }
    }
}
