//! The tool of a call: a built-in one, or one of an MCP server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Tool, ToolSide};
use crate::{Digest, McpPlace, McpToolId, arguments_digest, offered_name};

/// What people are told about the MCP tool of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct McpCall {
    #[serde(flatten)]
    pub id: McpToolId,
    pub runs_at: McpPlace,
    /// What the server says that the tool does; its beginning.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What the server says about the tool, such as `readOnlyHint`. It is shown and never believed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hints: BTreeMap<String, bool>,
}

/// The tool of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CalledTool {
    BuiltIn(Tool),
    Named(Box<McpCall>),
}

impl CalledTool {
    /// The tool of a call with this name. `mcp` is what the call says about an MCP tool. A name that
    /// is not the one of that tool is no tool.
    pub fn of_call(name: &str, mcp: Option<&McpCall>) -> Option<Self> {
        match mcp {
            None => Tool::of_call(name).map(Self::BuiltIn),
            Some(mcp) if offered_name(&mcp.id.server, &mcp.id.tool) == name => {
                Some(Self::Named(Box::new(mcp.clone())))
            }
            Some(_) => None,
        }
    }

    /// The name that models see.
    pub fn name(&self) -> String {
        match self {
            Self::BuiltIn(tool) => tool.as_str().to_owned(),
            Self::Named(mcp) => offered_name(&mcp.id.server, &mcp.id.tool),
        }
    }

    /// What a person approves: the tool with these arguments.
    pub fn digest(&self, arguments: &Map<String, Value>) -> Digest {
        match self {
            Self::BuiltIn(tool) => arguments_digest(tool.as_str(), arguments),
            Self::Named(mcp) => mcp.id.call_digest(arguments),
        }
    }

    pub fn side(&self) -> ToolSide {
        match self {
            Self::BuiltIn(tool) => tool.side(),
            Self::Named(mcp) => match mcp.runs_at {
                McpPlace::Client => ToolSide::Client,
                McpPlace::Server => ToolSide::Server,
            },
        }
    }

    pub fn mcp(&self) -> Option<&McpCall> {
        match self {
            Self::BuiltIn(_) => None,
            Self::Named(mcp) => Some(mcp),
        }
    }

    pub fn is(&self, tool: Tool) -> bool {
        *self == Self::BuiltIn(tool)
    }
}

impl From<Tool> for CalledTool {
    fn from(tool: Tool) -> Self {
        Self::BuiltIn(tool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{McpServerName, ToolDefinition};

    fn named() -> McpCall {
        let definition = ToolDefinition {
            name: "status".to_owned(),
            title: None,
            description: String::new(),
            input_schema: Map::new(),
            annotations: None,
        };
        McpCall {
            id: McpToolId {
                server: McpServerName::parse("git").unwrap(),
                tool: "status".to_owned(),
                definition: definition.digest(),
            },
            runs_at: McpPlace::Client,
            description: String::new(),
            hints: BTreeMap::new(),
        }
    }

    #[test]
    fn a_stored_tool_is_read_again() {
        for tool in [
            CalledTool::from(Tool::ReadFile),
            CalledTool::Named(Box::new(named())),
        ] {
            let stored = serde_json::to_value(&tool).unwrap();
            assert_eq!(serde_json::from_value::<CalledTool>(stored).unwrap(), tool);
        }
        let former: CalledTool = serde_json::from_value("write_file".into()).unwrap();
        assert!(former.is(Tool::WriteFile));
    }

    #[test]
    fn a_name_must_be_the_one_of_its_tool() {
        let mcp = named();
        assert!(CalledTool::of_call("mcp__git__status", Some(&mcp)).is_some());
        assert_eq!(CalledTool::of_call("mcp__git__log", Some(&mcp)), None);
        assert_eq!(CalledTool::of_call("read_file", Some(&mcp)), None);
        assert_eq!(CalledTool::of_call("mcp__git__status", None), None);
    }

    #[test]
    fn a_digest_covers_the_definition() {
        let (one, mut other) = (named(), named());
        other.id.definition = Digest::of_bytes(b"changed");
        let digest = |mcp: McpCall| CalledTool::Named(Box::new(mcp)).digest(&Map::new());
        assert_ne!(digest(one), digest(other));
    }
}
