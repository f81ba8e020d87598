//! What a write would change, for commands that have no screen of their own.

use codelab_protocol::{Tool, ToolArguments};
use codelab_workspace::Workspace;
use serde_json::{Map, Value};

use crate::Language;

use super::diff::Diff;
use super::files;
use super::text::TextLine;

/// The difference to the file as it is now, line by line and with nothing hidden. `None` for a call
/// that writes no file.
pub async fn write_preview(
    workspace: &Workspace,
    tool: &str,
    arguments: &Map<String, Value>,
    language: Language,
) -> Option<Vec<String>> {
    let Ok(ToolArguments::WriteFile(write)) = Tool::parse(tool)?.check(arguments) else {
        return None;
    };
    let before = files::before(workspace, &write.path, language).await;
    let diff = Diff::of(&write, &before, language);
    Some(diff.lines.iter().map(TextLine::to_text).collect())
}
