//! What a write would change, and what exactly it would replace.

use codelab_protocol::{FileBase, FilePreview, Tool, ToolArguments, WriteFile};
use codelab_workspace::Workspace;
use serde_json::{Map, Value};

use crate::{Language, Text};

use super::diff::Diff;
use super::files::{self, ShownFile};
use super::text::TextLine;

/// What a write would change, as a person is shown it.
pub struct WriteShown {
    /// Line by line and with nothing hidden.
    pub lines: Vec<String>,
    /// What it would replace; absent where nobody knows.
    pub base: Option<FileBase>,
}

/// The difference to the file as it is now. `None` for a call that writes no file. `told`: what the
/// client says that would run the call.
pub async fn write_preview(
    workspace: &Workspace,
    tool: &str,
    arguments: &Map<String, Value>,
    told: Option<&FilePreview>,
    language: Language,
) -> Option<WriteShown> {
    let Ok(ToolArguments::WriteFile(write)) = Tool::parse(tool)?.check(arguments) else {
        return None;
    };
    let here = files::before(workspace, &write.path, language).await;
    let (diff, base) = of_write(&write, &here, told, language);
    Some(WriteShown {
        lines: diff.lines.iter().map(TextLine::to_text).collect(),
        base,
    })
}

/// The difference to the file here, which is whole; to the file that a client told of, where that is
/// another one. Nobody knows whether that one is in another folder or has just changed, so it is said.
pub fn of_write(
    write: &WriteFile,
    here: &ShownFile,
    told: Option<&FilePreview>,
    language: Language,
) -> (Diff, Option<FileBase>) {
    let elsewhere = told.filter(|told| here.base.as_ref() != Some(&told.base));
    let (mut diff, base) = match elsewhere {
        Some(told) => {
            let diff = Diff::told(told, language);
            let diff = match here.base {
                Some(_) => diff.noted(language.text(Text::FileElsewhere)),
                None => diff,
            };
            (diff, Some(told.base.clone()))
        }
        None => (Diff::of(write, &here.before, language), here.base.clone()),
    };
    if let Some(told) = told {
        if told.is_outdated {
            diff = diff.noted(language.text(Text::FileOutdated));
        } else if told.is_unread {
            diff = diff.noted(language.text(Text::FileUnread));
        }
    }
    (diff, base)
}
