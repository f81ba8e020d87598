//! The person's side of files: what a write would replace, and texts changed in an editor of their
//! choice.

use std::process::Stdio;

use codelab_protocol::{FileBase, NewAttachment, ReadFile, ToolArguments};
use codelab_workspace::{Call, FileNow, Workspace};
use serde_json::Value;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use crate::{Language, Text};

use super::diff::Before;
use super::kept;

/// A longer file is not compared.
const MAX_SHOWN_BYTES: usize = 1024 * 1024;
const DEFAULT_EDITOR: &str = "vi";

/// A file as `read_file` gives it.
pub enum FileRead {
    Content {
        text: String,
    },
    Image(NewAttachment),
    Missing,
    /// And why, if that is known.
    Refused(Option<String>),
}

/// By the rules of `read_file`. `workspace` is one of its own: looking must not count as the model
/// having read.
pub async fn read(workspace: &Workspace, path: &str) -> FileRead {
    let arguments = ToolArguments::ReadFile(ReadFile {
        path: path.to_owned(),
        start_line: None,
        end_line: None,
    });
    let call = Call {
        user_id: None,
        arguments: &arguments,
        is_approved: false,
        reader: None,
        base: None,
        key: None,
    };
    let result = workspace.run(call, CancellationToken::new()).await;
    let text = |name: &str| result.get(name).and_then(Value::as_str);
    let image = result.get("image").cloned();
    if let Some(image) = image.and_then(|image| serde_json::from_value(image).ok()) {
        return FileRead::Image(image);
    }
    match (text("content"), text("error")) {
        (Some(content), _) => FileRead::Content {
            text: content.to_owned(),
        },
        (None, Some(error)) if error.ends_with("does not exist") => FileRead::Missing,
        (None, error) => FileRead::Refused(error.map(str::to_owned)),
    }
}

/// The file that a write is about, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownFile {
    pub before: Before,
    /// What exactly that is; absent where nobody knows.
    pub base: Option<FileBase>,
}

impl From<Before> for ShownFile {
    fn from(before: Before) -> Self {
        Self { before, base: None }
    }
}

/// What the file holds now.
pub async fn before(workspace: &Workspace, path: &str, language: Language) -> ShownFile {
    let unknown = |text: Text| Before::Unknown(language.text(text).to_owned());
    match workspace.file_now(path).await {
        Ok(FileNow { base, text }) => ShownFile {
            before: match (text, &base) {
                (_, FileBase::Missing) => Before::Missing,
                (Some(text), _) if text.len() > MAX_SHOWN_BYTES => unknown(Text::FileTooLarge),
                (Some(text), _) => Before::Text(text),
                (None, _) => unknown(Text::FileUnreadable),
            },
            base: Some(base),
        },
        Err(why) => Before::Unknown(why).into(),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum EditError {
    #[error("the editor could not be started: {0}")]
    Io(#[from] std::io::Error),
    /// And what the person wrote before, if anything.
    #[error("the editor ended with an error; nothing was changed")]
    Failed(Option<Vec<u8>>),
    #[error("the text is not UTF-8; nothing was changed")]
    NotText(Vec<u8>),
    #[error("editing needs a terminal")]
    NoTerminal,
}

impl EditError {
    /// The error in the person's language.
    pub fn told(&self, language: Language) -> String {
        match self {
            Self::Io(error) => language.with(Text::EditorNotStarted, &[&error.to_string()]),
            Self::Failed(_) => language.text(Text::EditorFailed).to_owned(),
            Self::NotText(_) => language.text(Text::EditedNotUtf8).to_owned(),
            Self::NoTerminal => language.text(Text::EditingNeedsTerminal).to_owned(),
        }
    }

    /// What the person wrote all the same.
    pub fn left(&self) -> Option<&[u8]> {
        match self {
            Self::Failed(left) => left.as_deref(),
            Self::NotText(left) => Some(left),
            Self::Io(_) | Self::NoTerminal => None,
        }
    }
}

/// The text as the person left it in `$VISUAL` or `$EDITOR`. `name` gives the file its ending, so
/// that the editor knows the language.
pub async fn edited(text: &str, name: &str) -> Result<String, EditError> {
    let folder = tempfile::tempdir()?;
    let ending = kept::ending(name).unwrap_or(".txt".to_owned());
    let path = folder.path().join(format!("codelab{ending}"));
    tokio::fs::write(&path, text).await?;
    let chosen = ["VISUAL", "EDITOR"]
        .into_iter()
        .filter_map(|name| std::env::var(name).ok());
    let editor = chosen
        .into_iter()
        .find(|value| !value.trim().is_empty())
        .unwrap_or(DEFAULT_EDITOR.to_owned());
    // The setting is a command line and not a path: `code --wait` must work.
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$1\""))
        .arg("sh")
        .arg(&path)
        .stdin(Stdio::inherit())
        .status()
        .await?;
    let written = tokio::fs::read(&path).await;
    if !status.success() {
        let left = written.ok().filter(|left| left != text.as_bytes());
        return Err(EditError::Failed(left));
    }
    String::from_utf8(written?).map_err(|error| EditError::NotText(error.into_bytes()))
}
