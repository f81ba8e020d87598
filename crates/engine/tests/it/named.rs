//! Tools of MCP servers, for scripts and lives.

use std::collections::BTreeMap;
use std::sync::Arc;

use codelab_engine::{NamedTool, NamedTools};
use codelab_protocol::{
    Digest, McpCall, McpPermission, McpPlace, McpToolId, ToolSpec, offered_name,
};
use serde_json::value::RawValue;

/// `git/log@client git/push@server=allow db/drop=off`; other words are other definitions.
pub fn named_tools(text: &str) -> NamedTools {
    let mut off = BTreeMap::new();
    let mut tools = Vec::new();
    for word in text.split_whitespace() {
        let (path, permission) = word.split_once('=').unwrap_or((word, "ask"));
        let (path, place) = path.split_once('@').unwrap_or((path, "client"));
        let (server, tool) = path.split_once('/').unwrap();
        let server = server.parse().unwrap();
        let name = offered_name(&server, tool);
        let permission = match permission {
            "ask" => McpPermission::Ask,
            "allow" => McpPermission::Allow,
            "forbid" => McpPermission::Forbid,
            "off" => {
                off.insert(name, "its definition changed".to_owned());
                continue;
            }
            other => panic!("no permission {other}"),
        };
        tools.push(NamedTool {
            call: McpCall {
                id: McpToolId {
                    server,
                    tool: tool.to_owned(),
                    definition: Digest::of_bytes(word.as_bytes()),
                },
                runs_at: match place {
                    "server" => McpPlace::Server,
                    _ => McpPlace::Client,
                },
                description: String::new(),
                hints: BTreeMap::new(),
            },
            permission,
            spec: Arc::new(ToolSpec {
                name,
                description: format!("{tool} of {path}"),
                parameters: RawValue::from_string("{}".to_owned()).unwrap(),
            }),
        });
    }
    NamedTools::new(tools, off)
}
