//! What a tool call changed, for whoever takes it back later.

use codelab_protocol::{CalledTool, Tool};
use serde_json::Value;

use super::{OpenCall, cut};
use crate::world::MAX_ABOUT_BYTES;

impl OpenCall {
    /// What the call changes, if it changes anything: a path, a command, or the tool of an MCP
    /// server, of which nobody here knows what it does.
    pub(crate) fn about(&self) -> Option<String> {
        let argument = |name: &str| self.arguments.get(name).and_then(Value::as_str);
        let about = match &self.tool {
            CalledTool::Named(mcp) => format!("{}: {}", mcp.id.server, mcp.id.tool),
            CalledTool::BuiltIn(Tool::WriteFile | Tool::CreateDirectory) => {
                argument("path")?.to_owned()
            }
            CalledTool::BuiltIn(Tool::ExecuteCommand) => argument("command")?.to_owned(),
            CalledTool::BuiltIn(_) => return None,
        };
        Some(cut(&about, MAX_ABOUT_BYTES).to_owned())
    }

    /// What it may have done, where nobody knows its end. What it wrote is known to the client.
    pub(super) fn may_have_done(&self) -> Option<String> {
        let is_write = self.tool.is(Tool::WriteFile) || self.tool.is(Tool::CreateDirectory);
        self.about().filter(|_| !is_write)
    }
}

/// Whether the call did anything. A command that failed, was stopped or got lost may have.
pub(super) fn has_done(tool: &CalledTool, result: &Value) -> bool {
    match tool {
        CalledTool::BuiltIn(Tool::ExecuteCommand) => {
            succeeded(result) || result.get("exit_code").is_some()
        }
        CalledTool::BuiltIn(_) => succeeded(result),
        CalledTool::Named(_) => true,
    }
}

fn succeeded(result: &Value) -> bool {
    result.get("success") != Some(&Value::Bool(false))
}
