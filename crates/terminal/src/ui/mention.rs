//! `@file` in a message: the file's content goes along as a named block. Files are read by the same
//! rules as `read_file`: beneath the workspace only, and nothing that holds credentials.

use std::fmt::Write as _;

use codelab_protocol::{ReadFile, ToolArguments};
use codelab_workspace::{Call, Workspace};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::Language;
use crate::texts::CommandText;

const MAX_FILES: usize = 16;
/// Of all files of a message together.
const MAX_BYTES: usize = 512 << 10;
/// What may stand behind a path without being a part of it.
const PUNCTUATION: [char; 8] = [',', '.', ';', ':', '!', '?', ')', '\''];
const MIN_FENCE: usize = 3;

/// A message with the files that it names.
#[derive(Debug, PartialEq, Eq)]
pub struct ExpandedMessage {
    pub text: String,
    /// Named, but not there: the message says so as it was written.
    pub missing: Vec<String>,
}

/// Adds the content of each named file. `Err` says why the message cannot be sent like this.
pub async fn expand(
    workspace: &Workspace,
    text: String,
    language: Language,
) -> Result<ExpandedMessage, String> {
    let paths = mentioned(&text);
    if paths.len() > MAX_FILES {
        return Err(language.with(CommandText::TooManyFiles, &[&MAX_FILES.to_string()]));
    }
    let (mut blocks, mut missing) = (String::new(), Vec::new());
    for path in paths {
        match read(workspace, &path).await {
            FileRead::Content { text, is_cut } => {
                block(&path, &text, is_cut, language, &mut blocks);
            }
            FileRead::Missing => missing.push(path),
            FileRead::Refused(why) => {
                return Err(language.with(CommandText::FileNotSent, &[&path, &why]));
            }
        }
        if blocks.len() > MAX_BYTES {
            let limit = (MAX_BYTES >> 10).to_string();
            return Err(language.with(CommandText::FilesTooLarge, &[&limit]));
        }
    }
    Ok(ExpandedMessage {
        text: text + &blocks,
        missing,
    })
}

enum FileRead {
    Content { text: String, is_cut: bool },
    Missing,
    Refused(String),
}

async fn read(workspace: &Workspace, path: &str) -> FileRead {
    let arguments = ToolArguments::ReadFile(ReadFile {
        path: path.to_owned(),
        start_line: None,
        end_line: None,
    });
    let call = Call {
        user_id: None,
        arguments: &arguments,
        is_approved: false,
    };
    let result = workspace.run(call, CancellationToken::new()).await;
    let text = |name: &str| result.get(name).and_then(Value::as_str);
    match (text("content"), text("error")) {
        (Some(content), _) => FileRead::Content {
            text: content.to_owned(),
            is_cut: result.get("truncated") == Some(&Value::Bool(true)),
        },
        (None, Some(error)) if error.ends_with("does not exist") => FileRead::Missing,
        (None, error) => FileRead::Refused(error.unwrap_or_default().to_owned()),
    }
}

/// A block of code whose fence is longer than any in the file, so that nothing of the file can end
/// it.
fn block(path: &str, content: &str, is_cut: bool, language: Language, out: &mut String) {
    let longest = content
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let fence = "`".repeat(MIN_FENCE.max(longest + 1));
    let end = if content.ends_with('\n') { "" } else { "\n" };
    // Writing into a string cannot fail.
    let _ = write!(out, "\n\nFile `{path}`:\n\n{fence}\n{content}{end}{fence}");
    if is_cut {
        let _ = write!(out, "\n\n({})", language.text(CommandText::FileCut));
    }
}

/// The paths that a message names with `@`, each once. One with spaces stands in quotes.
pub fn mentioned(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (at, _) in text.match_indices('@') {
        let is_start = text[..at]
            .chars()
            .next_back()
            .is_none_or(|c| c.is_whitespace() || c == '(');
        if !is_start {
            continue;
        }
        let rest = &text[at + 1..];
        let path = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next().unwrap_or_default(),
            None => {
                let word = rest.split(char::is_whitespace).next().unwrap_or_default();
                word.trim_end_matches(PUNCTUATION)
            }
        };
        if !path.is_empty() && !found.iter().any(|known| known == path) {
            found.push(path.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_an_at_sign_before_a_word() {
        for (text, expected) in [
            ("what does @src/a.rs do?", vec!["src/a.rs"]),
            ("@a.md, (@b.md) and @a.md.", vec!["a.md", "b.md"]),
            ("@\"my notes.txt\" please", vec!["my notes.txt"]),
            ("mail me@example.org", vec![]),
            ("@", vec![]),
        ] {
            assert_eq!(mentioned(text), expected, "{text}");
        }
    }

    #[test]
    fn nothing_in_a_file_ends_its_block() {
        let mut out = String::new();
        block("a.md", "```\nrm\n````", false, Language::En, &mut out);
        assert_eq!(out, "\n\nFile `a.md`:\n\n`````\n```\nrm\n````\n`````");
    }
}
