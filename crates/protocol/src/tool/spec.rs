//! What the model is told about each tool.

use std::sync::{Arc, LazyLock};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Tool;
use crate::ToolSpec;

impl Tool {
    /// What the model is told about the tool. Made once: every model call offers several.
    pub fn spec(self) -> Arc<ToolSpec> {
        static SPECS: LazyLock<[Arc<ToolSpec>; Tool::ALL.len()]> =
            LazyLock::new(|| Tool::ALL.map(|tool| Arc::new(tool.described())));
        let described = SPECS.get(self as usize).map(Arc::clone);
        described.unwrap_or_else(|| Arc::new(self.described()))
    }

    fn described(self) -> ToolSpec {
        let (description, properties, required): (_, Value, &[&str]) = match self {
            Self::ReadFile => (
                "Read a text file or an image (PNG, JPEG, GIF, WebP) of the workspace. Give start_line and end_line (from 1, \
                 inclusive) for a part of a text.",
                json!({"path": PATH.to_value(), "start_line": integer(1), "end_line": integer(1)}),
                &["path"],
            ),
            Self::WriteFile => (
                "Create or replace a file with content, or change it with edits: each old text must occur exactly \
                 once and is replaced by new. A person may have to approve.",
                json!({
                    "path": PATH.to_value(),
                    "content": {"type": "string", "description": "The whole new content"},
                    "edits": {"type": "array", "items": {"type": "object", "properties": {
                        "old": {"type": "string"}, "new": {"type": "string"}}, "required": ["old", "new"]}},
                    "create_dirs": {"type": "boolean", "description": "Create missing parent folders"},
                }),
                &["path"],
            ),
            Self::ListFiles => (
                "List the files of a folder of the workspace.",
                json!({
                    "path": PATH.to_value(),
                    "recursive": {"type": "boolean"},
                    "pattern": {"type": "string", "description": "A glob such as *.py"},
                }),
                &["path"],
            ),
            Self::SearchInCode => (
                "Search the workspace's files for a text, or a regular expression when regex is true.",
                json!({
                    "query": {"type": "string"},
                    "path": PATH.to_value(),
                    "pattern": {"type": "string", "description": "A glob of files to search"},
                    "regex": {"type": "boolean"},
                }),
                &["query"],
            ),
            Self::CreateDirectory => (
                "Create a folder in the workspace, with its parents.",
                json!({"path": PATH.to_value()}),
                &["path"],
            ),
            Self::ExecuteCommand => (
                "Run a shell command in the workspace and get its exit code and output. Dangerous commands wait for a \
                 person.",
                json!({
                    "command": {"type": "string"},
                    "cwd": {"type": "string", "description": "Folder to run in, relative to the workspace"},
                    "timeout_seconds": integer(1),
                }),
                &["command"],
            ),
            Self::AttemptCompletion => (
                "Finish the task. Give the result for the user.",
                json!({"result": {"type": "string"}}),
                &["result"],
            ),
            Self::AskFollowupQuestion => (
                "Ask the user a question that you need answered to go on.",
                json!({
                    "question": {"type": "string"},
                    "options": {"type": "array", "items": {"type": "string"}, "description": "Suggested answers"},
                }),
                &["question"],
            ),
            Self::SwitchMode => (
                "Hand the task over to another agent of the team.",
                json!({
                    "agent": {"type": "string", "description": "The agent's name"},
                    "reason": {"type": "string", "description": "Why that agent should go on"},
                }),
                &["agent", "reason"],
            ),
            Self::Echo => (
                "Return a text unchanged.",
                json!({"text": {"type": "string"}}),
                &["text"],
            ),
            Self::Calculator => (
                "Evaluate an arithmetic expression with + - * / % ^ and parentheses.",
                json!({"expression": {"type": "string"}}),
                &["expression"],
            ),
            Self::SearchTools => (
                "Find more tools: those of the connected MCP servers are not all listed here. Say in a few words what you \
                 want to do. The tools that are found can be called from your next step on.",
                json!({"query": {"type": "string", "description": "What the tool should do, or its name"}}),
                &["query"],
            ),
            Self::UseSkill => (
                "Get the whole text of a skill from the list of skills, and the folder of its files. Use it when the \
                 skill's description fits the task. It gives no permissions.",
                json!({"name": {"type": "string", "description": "The skill's name, as the list has it"}}),
                &["name"],
            ),
            Self::RewindFiles => (
                "Take back what tool calls wrote. Only people ask for it.",
                json!({}),
                &[],
            ),
        };
        let parameters = json!({"type": "object", "properties": properties, "required": required});
        let parameters = RawValue::from_string(parameters.to_string())
            .unwrap_or_else(|_| RawValue::NULL.to_owned());
        ToolSpec {
            name: self.as_str().to_owned(),
            description: description.to_owned(),
            parameters,
        }
    }
}

struct Property(&'static str);

const PATH: Property = Property("Path relative to the workspace");

impl Property {
    fn to_value(&self) -> Value {
        json!({"type": "string", "description": self.0})
    }
}

fn integer(minimum: u64) -> Value {
    json!({"type": "integer", "minimum": minimum})
}
