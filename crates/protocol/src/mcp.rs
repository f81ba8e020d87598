//! Tools of MCP servers: how they are named and identified, and the bodies about the servers of a
//! project.

mod elicitation;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use elicitation::{DECLINE, elicited_content, is_declined};

use crate::{ClientId, Digest, Patch, Timestamp};

/// The names of all MCP tools begin with it when they are offered to a model.
pub const MCP_PREFIX: &str = "mcp__";
/// Providers refuse longer names of tools.
const MAX_OFFERED_CHARS: usize = 64;
/// Hexadecimal digits that tell two names apart whose own characters do not fit.
const OFFERED_HASH_CHARS: usize = 8;
/// Characters kept of the end of a name that is too long.
const OFFERED_TAIL_CHARS: usize = 12;

/// The name of an MCP server, unique within a project.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, pattern = "^[A-Za-z0-9_-]{1,64}$")]
pub struct McpServerName(Arc<str>);

/// Why a text is not the name of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the name of an MCP server must be 1 to 64 characters of A-Z a-z 0-9 _ -")]
pub struct InvalidMcpName;

impl McpServerName {
    pub const MAX_LENGTH: usize = 64;

    pub fn parse(text: &str) -> Result<Self, InvalidMcpName> {
        let fits = !text.is_empty() && text.len() <= Self::MAX_LENGTH;
        if fits && text.bytes().all(is_offered) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidMcpName)
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the end of this name is visible in `mcp__{server}__{tool}`.
    fn has_visible_end(&self) -> bool {
        !self.0.contains("__") && !self.0.ends_with('_')
    }
}

impl TryFrom<String> for McpServerName {
    type Error = InvalidMcpName;
    fn try_from(text: String) -> Result<Self, InvalidMcpName> {
        Self::parse(&text)
    }
}

impl FromStr for McpServerName {
    type Err = InvalidMcpName;
    fn from_str(text: &str) -> Result<Self, InvalidMcpName> {
        Self::parse(text)
    }
}

impl From<McpServerName> for String {
    fn from(name: McpServerName) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl fmt::Display for McpServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A tool as its server describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ToolDefinition {
    /// The server's own name of the tool.
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub title: Option<String>,
    #[serde(default)]
    pub description: String,
    /// Its arguments as JSON Schema.
    #[schema(value_type = Object)]
    pub input_schema: Map<String, Value>,
    /// What the server says about the tool, such as `readOnlyHint`. It is shown and never believed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<Object>)]
    pub annotations: Option<Map<String, Value>>,
}

impl ToolDefinition {
    /// Changes with every word of the definition.
    pub fn digest(&self) -> Digest {
        Digest::of_json(&serde_json::json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "input_schema": self.input_schema,
            "annotations": self.annotations,
        }))
    }
}

/// One tool of an MCP server, with the definition that was shown to people and models.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
pub struct McpToolId {
    pub server: McpServerName,
    /// The server's own name of the tool.
    pub tool: String,
    /// The digest of its definition.
    pub definition: Digest,
}

impl McpToolId {
    /// SHA-256 of the RFC 8785 JSON of `{server, tool, definition, arguments}`.
    pub fn call_digest(&self, arguments: &Map<String, Value>) -> Digest {
        Digest::of_json(&serde_json::json!({
            "server": self.server,
            "tool": self.tool,
            "definition": self.definition,
            "arguments": arguments,
        }))
    }
}

/// The name under which models see a tool: `mcp__{server}__{tool}`. A name that is too long, has
/// other characters, or could be read as a tool of another server, has a hash in it.
pub fn offered_name(server: &McpServerName, tool: &str) -> String {
    let plain = format!("{MCP_PREFIX}{server}__{tool}");
    let is_plain = server.has_visible_end()
        && !tool.is_empty()
        && plain.len() <= MAX_OFFERED_CHARS
        && plain.bytes().all(is_offered);
    if is_plain {
        return plain;
    }
    let hash = Digest::of_json(&serde_json::json!([server, tool]));
    let clean: String = plain
        .chars()
        .map(|c| {
            if c.is_ascii() && is_offered(c as u8) {
                c
            } else {
                '_'
            }
        })
        .collect();
    let room = MAX_OFFERED_CHARS - OFFERED_HASH_CHARS - 2;
    let (head, tail) = match clean.len() > room {
        true => (
            &clean[..room - OFFERED_TAIL_CHARS],
            &clean[clean.len() - OFFERED_TAIL_CHARS..],
        ),
        false => (clean.as_str(), ""),
    };
    let short = &hash.as_str()[..OFFERED_HASH_CHARS];
    match tail {
        "" => format!("{head}_{short}"),
        tail => format!("{head}_{short}_{tail}"),
    }
}

fn is_offered(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Where a server runs.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum McpPlace {
    /// The tool runner started it in the workspace.
    Client,
    /// CodeLab's server calls it over HTTP.
    Server,
}

/// How a server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpStatus {
    /// The handshake is under way.
    Starting,
    Ready,
    /// `error` says why. It is tried again.
    Failed,
    /// Nobody used it for a while. The next call starts it.
    Idle,
    /// A person has to authorize CodeLab at the server first.
    Unauthorized,
}

/// What a tool runner says about one server that it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ReportedMcpServer {
    pub name: McpServerName,
    pub status: McpStatus,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    #[serde(default)]
    pub tools: Vec<ToolDefinition>,
}

/// Body of `PUT /my/projects/{project_id}/clients/{client_id}/mcp`: every server that the tool
/// runner runs. It replaces what was reported before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct McpReport {
    pub servers: Vec<ReportedMcpServer>,
}

/// One report of a tool runner, as JSON.
pub const MAX_MCP_REPORT_BYTES: usize = 2 * 1024 * 1024;

impl McpReport {
    pub fn digest(&self) -> Digest {
        Digest::of_json(&serde_json::json!(self.servers))
    }
}

/// What a person decided about a tool, for all sessions of a project.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum McpPermission {
    /// Every call asks.
    #[default]
    Ask,
    /// Calls pass, with any arguments.
    Allow,
    /// The tool is not offered.
    Forbid,
}

/// Whether agents can be offered a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpToolState {
    On,
    /// Its definition is not the one that was accepted. It is off until a person accepts it.
    Changed,
    /// Another tool would have the same name. Both are off.
    Collides,
    Forbidden,
}

/// One tool of a server, as people see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct McpTool {
    #[serde(flatten)]
    pub definition: ToolDefinition,
    /// The digest of the definition.
    pub digest: Digest,
    /// The name that models see.
    pub offered_as: String,
    pub state: McpToolState,
    pub permission: McpPermission,
    /// The definition that was accepted before, where the present one differs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub accepted: Option<ToolDefinition>,
}

/// A server whose tools the agents of a project can use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct McpServer {
    pub name: McpServerName,
    pub runs_at: McpPlace,
    /// Absent for a server that a tool runner runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub url: Option<String>,
    /// The names of the headers that are sent. Nobody can read their values.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub headers: Vec<String>,
    /// Whether CodeLab holds a token of the server's authorization.
    #[serde(default)]
    pub authorized: bool,
    /// The tool runner that runs it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_id: Option<ClientId>,
    pub status: McpStatus,
    /// What is wrong now.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    pub tools: Vec<McpTool>,
    /// Absent for a server that a tool runner runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub created_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct McpServerList {
    pub servers: Vec<McpServer>,
    pub total: u64,
    pub limit: u64,
    pub offset: u64,
}

/// Body of `POST /my/projects/{project_id}/mcp`.
#[derive(Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CreateMcpServer {
    pub name: McpServerName,
    #[schema(max_length = 2048)]
    pub url: String,
    /// Sent with every request. The values are stored encrypted and never shown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// Body of `PATCH /my/projects/{project_id}/mcp/{name}`. What is absent stays.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ChangeMcpServer {
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = String, required = false, max_length = 2048)]
    pub url: Patch<String>,
    /// Replaces all headers; `null` removes them.
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = Option<BTreeMap<String, String>>, required = false)]
    pub headers: Patch<BTreeMap<String, String>>,
}

/// Shows no value of a header.
impl fmt::Debug for CreateMcpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateMcpServer")
            .field("name", &self.name)
            .field("headers", &self.headers.keys())
            .finish_non_exhaustive()
    }
}

/// Shows nothing: an address can hold a key too.
impl fmt::Debug for ChangeMcpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeMcpServer").finish_non_exhaustive()
    }
}

/// Body of `POST …/mcp/{name}/accept`: the present definitions count from now on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AcceptMcpTools {
    /// Absent: all tools of the server that changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool: Option<String>,
    /// The digest of the definition that was shown. Needs `tool`. Another one is refused.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub digest: Option<Digest>,
}

/// Body of `POST …/mcp/{name}/permission`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PermitMcpTool {
    pub tool: String,
    pub permission: McpPermission,
}

/// Answer of `POST …/mcp/{name}/authorize`: where a person agrees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct McpAuthorization {
    pub url: String,
}

/// Body of `POST …/tool_calls/{call_id}/progress`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ReportProgress {
    pub client_id: ClientId,
    pub progress: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub total: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_length = 2000)]
    pub message: Option<String>,
}

/// Body of `POST …/tool_calls/{call_id}/elicit`: a server asks the person something while it runs
/// a call. The answer arrives as a message that `answers` the `call_id` in the response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ElicitAnswer {
    pub client_id: ClientId,
    /// Names the question within its call. A repeat with the same key does not ask again.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub question_key: Option<u32>,
    /// What the server asks.
    #[schema(max_length = 4000)]
    pub message: String,
    /// The fields of the answer as JSON Schema. One field is answered plainly, several with a JSON
    /// object.
    #[schema(value_type = Object)]
    pub requested_schema: Map<String, Value>,
}

/// Answer to [`ElicitAnswer`]: the id of the question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ElicitationAsked {
    pub call_id: crate::CallId,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(server: &str, tool: &str) -> String {
        offered_name(&McpServerName::parse(server).unwrap(), tool)
    }

    #[test]
    fn short_names_are_offered_as_they_are() {
        assert_eq!(name("git", "git_status"), "mcp__git__git_status");
        assert_eq!(name("a-b_c", "D-1"), "mcp__a-b_c__D-1");
    }

    #[test]
    fn other_names_keep_their_head_and_tail_around_a_hash() {
        let long = name("everything", &format!("a{}z", "x".repeat(80)));
        assert_eq!(long.len(), 64);
        assert!(long.starts_with("mcp__everything__ax") && long.ends_with("xxxz"));
        for (one, other) in [
            (("s", "a.b"), ("s", "a_b")),
            (("s", "a.b"), ("s", "a b")),
            (("s", "é"), ("s", "è")),
            (("a", "b__c"), ("a__b", "c")),
            (("a_", "b"), ("a", "_b")),
            (("s", ""), ("s", "_")),
        ] {
            assert_ne!(
                name(one.0, one.1),
                name(other.0, other.1),
                "{one:?} {other:?}"
            );
        }
        let shared = "x".repeat(70);
        assert_ne!(
            name("s", &format!("{shared}a{shared}")),
            name("s", &format!("{shared}b{shared}"))
        );
        for (server, tool) in [
            ("s", "файл"),
            ("a__b", "c"),
            (&"n".repeat(64), "t"),
            ("s", "a\u{1b}[2J"),
        ] {
            let offered = name(server, tool);
            assert!(
                offered.len() <= 64 && offered.bytes().all(is_offered),
                "{offered}"
            );
        }
    }

    #[test]
    fn a_digest_sees_every_part_of_a_definition() {
        let plain = ToolDefinition {
            name: "t".to_owned(),
            title: None,
            description: "d".to_owned(),
            input_schema: Map::new(),
            annotations: None,
        };
        let changed = [
            ToolDefinition {
                name: "u".to_owned(),
                ..plain.clone()
            },
            ToolDefinition {
                title: Some("d".to_owned()),
                ..plain.clone()
            },
            ToolDefinition {
                description: "e".to_owned(),
                ..plain.clone()
            },
            ToolDefinition {
                input_schema: Map::from_iter([("a".to_owned(), Value::Null)]),
                ..plain.clone()
            },
            ToolDefinition {
                annotations: Some(Map::new()),
                ..plain.clone()
            },
        ];
        for other in changed {
            assert_ne!(plain.digest(), other.digest(), "{other:?}");
        }
    }
}
