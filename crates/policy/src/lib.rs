//! What needs a person: approval rules, the analysis of shell commands, protected paths. Pure: no
//! input or output, no clock, no file system. Paths and commands are judged by their text alone,
//! and what cannot be judged asks.

mod paths;
mod shell;
mod visible;

use std::sync::Arc;

use codelab_protocol::{CommandPart, McpToolId, ToolArguments, WriteFile};
use serde::{Deserialize, Serialize};

use crate::paths::{Location, ProtectedPaths, WorkspacePrefix};
use crate::shell::Floor;
use crate::visible::has_hidden;

pub use crate::shell::{is_git_only, operands, runs_git};
pub use crate::visible::visible;

/// The rules that decide which tool calls ask. The default has the built-in rules. Rules can be
/// added and never removed.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    protected: Arc<ProtectedPaths>,
    floor: Arc<Floor>,
    root: Option<WorkspacePrefix>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    Ask(Ask),
}

/// A question to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The reason, as text for the person.
    pub reason: String,
    /// The simple commands of a shell line, each with the reason why it asks.
    pub parts: Vec<CommandPart>,
    /// What a remembered approval would cover. Without it the call always asks.
    pub remember: Option<RememberKey>,
}

/// What a person can allow for the rest of a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RememberKey {
    FileWrites,
    /// Exactly this command in exactly this folder, as a JSON array of both.
    Command(String),
    /// This tool of an MCP server with any arguments, as long as its definition stays the same.
    McpTool(McpToolId),
}

/// A pattern that is not a regular expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is not a usable pattern: {reason}")]
pub struct InvalidPattern {
    pub pattern: String,
    pub reason: String,
}

/// Whether a write contains invisible characters, or text that looks different from what the
/// machine reads. Windows line ends do not count.
fn writes_hidden(write: &WriteFile) -> bool {
    let edits = write.edits.iter().flatten().map(|edit| &edit.new);
    write
        .content
        .iter()
        .chain(edits)
        .any(|text| has_hidden(&text.replace("\r\n", "\n")))
}

impl Policy {
    /// Protects one more path. A component may contain `*` for any run of characters. The pattern
    /// matches anywhere in a path.
    #[must_use]
    pub fn protect(mut self, pattern: &str) -> Self {
        Arc::make_mut(&mut self.protected).add(pattern);
        self
    }

    /// The same rules for a workspace with a known root: absolute paths beneath it are inside.
    /// Without a root, or with one that is not a folder of its own (`/`, `/home`), every absolute
    /// path is outside.
    #[must_use]
    pub fn in_workspace(&self, root: &str) -> Self {
        Self {
            root: WorkspacePrefix::new(root),
            ..self.clone()
        }
    }

    /// Asks for every command that matches the regular expression. Case does not matter.
    pub fn ask_for(mut self, pattern: &str) -> Result<Self, InvalidPattern> {
        Arc::make_mut(&mut self.floor)
            .add(pattern)
            .map_err(|error| InvalidPattern {
                pattern: pattern.to_owned(),
                reason: error.to_string(),
            })?;
        Ok(self)
    }

    /// Whether writing this path always asks, whatever a person allowed before.
    pub fn protects(&self, path: &str) -> bool {
        Location::of(path).is_protected(&self.protected)
    }

    /// Whether a shell may write this path without asking: judged by its name, nothing executes the
    /// file.
    pub fn is_plain_data(&self, path: &str) -> bool {
        Location::of(path).is_plain_data()
    }

    /// Whether a folder of this name can hold a protected file although the name alone is not
    /// protected, as with `.vscode`. A symbolic link of such a name counts as well.
    pub fn may_hold_protected(&self, path: &str) -> bool {
        Location::of(path).ends_like_protected(&self.protected)
    }

    /// The protected patterns, built-in and added. `/` separates components, `*` matches any run of
    /// characters, and case does not matter. Each pattern matches anywhere in a path, with
    /// everything beneath it.
    pub fn protected_patterns(&self) -> impl Iterator<Item = &str> {
        self.protected.patterns()
    }

    pub fn review(&self, arguments: &ToolArguments) -> Verdict {
        match arguments {
            ToolArguments::WriteFile(write) => self.review_write(write),
            ToolArguments::CreateDirectory { path } => self.review_directory(path),
            ToolArguments::ExecuteCommand(call) => shell::review(self, call),
            ToolArguments::RewindFiles(_) => Verdict::Ask(Ask {
                reason: "Taking back what tools wrote requires approval".to_owned(),
                parts: Vec::new(),
                remember: None,
            }),
            ToolArguments::ReadFile(_)
            | ToolArguments::ListFiles(_)
            | ToolArguments::SearchInCode(_)
            | ToolArguments::AttemptCompletion { .. }
            | ToolArguments::AskFollowupQuestion { .. }
            | ToolArguments::SwitchMode(_)
            | ToolArguments::Echo { .. }
            | ToolArguments::Calculator { .. }
            | ToolArguments::SearchTools { .. }
            | ToolArguments::UseSkill { .. } => Verdict::Allow,
        }
    }

    /// Nobody here knows what the tool of an MCP server does, so each call asks. What the server says
    /// about its tool changes nothing.
    pub fn review_mcp(&self, tool: &McpToolId) -> Ask {
        let (server, name) = (&tool.server, visible(&tool.tool));
        Ask {
            reason: format!("The tool {name} of the MCP server {server} requires approval"),
            parts: Vec::new(),
            remember: Some(RememberKey::McpTool(tool.clone())),
        }
    }

    fn review_write(&self, write: &WriteFile) -> Verdict {
        const REASON: &str = "File modification requires approval";
        let location = Location::of(&write.path);
        let shown = visible(&write.path);
        let special = if location.is_protected(&self.protected) {
            Some(format!("{REASON}: {shown} is protected"))
        } else if location.climbs || location.is_system() {
            Some(format!("{REASON}: {shown} is outside the workspace"))
        } else if has_hidden(&write.path) {
            Some(format!(
                "{REASON}: the path {shown} holds hidden characters"
            ))
        } else if writes_hidden(write) {
            Some(format!("{REASON}: the new text holds hidden characters"))
        } else {
            None
        };
        let remember = special.is_none().then_some(RememberKey::FileWrites);
        ask(special.unwrap_or_else(|| REASON.to_owned()), remember)
    }

    fn review_directory(&self, path: &str) -> Verdict {
        const REASON: &str = "Creating system directory requires approval";
        let location = Location::of(path);
        let shown = visible(path);
        if location.is_protected(&self.protected) {
            ask(
                format!("Creating a directory at {shown} requires approval: it is protected"),
                None,
            )
        } else if location.is_system() {
            ask(REASON.to_owned(), None)
        } else if location.climbs {
            ask(
                format!("Creating a directory outside the workspace requires approval: {shown}"),
                None,
            )
        } else if has_hidden(path) {
            ask(
                format!("Creating a directory requires approval: {shown} holds hidden characters"),
                None,
            )
        } else {
            Verdict::Allow
        }
    }
}

fn ask(reason: String, remember: Option<RememberKey>) -> Verdict {
    Verdict::Ask(Ask {
        reason,
        parts: Vec::new(),
        remember,
    })
}
