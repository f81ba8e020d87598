//! Tab: finishes the name of a command or of a file.

use codelab_protocol::{ListFiles, ToolArguments};
use codelab_workspace::{Call, Workspace};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// More are not listed.
pub const MAX_CHOICES: usize = 60;

/// What Tab makes of a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TabCompletion {
    /// The text with as much added as all candidates have in common.
    pub text: Option<String>,
    /// Shown if nothing could be added.
    pub choices: Vec<String>,
}

/// What is being named at the end of a text, which is where the cursor stands.
#[derive(Debug, PartialEq, Eq)]
pub enum Unfinished<'a> {
    Command(&'a str),
    File(&'a str),
    /// A file whose name stands in quotes, because it has spaces.
    QuotedFile(&'a str),
}

impl<'a> Unfinished<'a> {
    pub fn of(text: &'a str) -> Option<Self> {
        if let Some(path) = open_quote(text) {
            return Some(Self::QuotedFile(path));
        }
        let word = text.rsplit(char::is_whitespace).next().unwrap_or_default();
        if let Some(path) = word.strip_prefix('@') {
            return Some(Self::File(path));
        }
        let name = text.strip_prefix('/')?;
        let is_name = name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        is_name.then_some(Self::Command(name))
    }
}

/// What stands behind `@"` if no quote closes it.
fn open_quote(text: &str) -> Option<&str> {
    let at = text.rfind("@\"")?;
    let is_start = text[..at]
        .chars()
        .next_back()
        .is_none_or(char::is_whitespace);
    let path = &text[at + 2..];
    (is_start && !path.contains(['"', '\n'])).then_some(path)
}

/// Candidates that end with a slash are folders, in which the name goes on.
pub fn complete(text: &str, written: &str, candidates: &[String]) -> TabCompletion {
    let fitting: Vec<&String> = candidates
        .iter()
        .filter(|candidate| candidate.starts_with(written))
        .collect();
    let Some(first) = fitting.first() else {
        return TabCompletion::default();
    };
    let common = fitting.iter().fold(first.as_str(), |common, other| {
        let length = common
            .char_indices()
            .zip(other.chars())
            .find(|((_, a), b)| a != b)
            .map_or(common.len().min(other.len()), |((at, _), _)| at);
        &common[..length]
    });
    let start = &text[..text.len() - written.len()];
    let is_whole = fitting.len() == 1 && !common.ends_with('/');
    let is_quoted = start.ends_with('"');
    let has_spaces = common.contains(char::is_whitespace);
    let quote = if has_spaces && !is_quoted { "\"" } else { "" };
    let end = match (is_whole, is_quoted || has_spaces) {
        (true, true) => "\" ",
        (true, false) => " ",
        (false, _) => "",
    };
    let finished = format!("{start}{quote}{common}{end}");
    match finished == text {
        true => TabCompletion {
            text: None,
            choices: fitting.into_iter().take(MAX_CHOICES).cloned().collect(),
        },
        false => TabCompletion {
            text: Some(finished),
            choices: Vec::new(),
        },
    }
}

/// The files and folders whose path may go on like this. What agents cannot list is left out.
pub async fn files(workspace: &Workspace, written: &str) -> Vec<String> {
    let folder = written.rfind('/').map_or("", |at| &written[..=at]);
    let arguments = ToolArguments::ListFiles(ListFiles {
        path: if folder.is_empty() { "." } else { folder }.to_owned(),
        recursive: false,
        pattern: None,
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
    let entry = |entry: &Value| {
        let path = entry.get("path")?.as_str()?;
        let name = path.rsplit('/').next()?;
        // A quote would end the name.
        if name.contains('"') {
            return None;
        }
        let end = match entry.get("type")?.as_str()? {
            "directory" => "/",
            _ => "",
        };
        Some(format!("{folder}{name}{end}"))
    };
    let files = result.get("files").and_then(Value::as_array);
    let mut files: Vec<String> = files.into_iter().flatten().filter_map(entry).collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_candidates_have_in_common_is_added() {
        let candidates = [
            "model",
            "mode",
            "new",
            "src/",
            "src/a.rs",
            "src/ab.rs",
            "docs/my notes.txt",
        ];
        let candidates = candidates.map(str::to_owned);
        for (text, unfinished, expected) in [
            ("/n", Unfinished::Command("n"), Ok("/new ")),
            ("/m", Unfinished::Command("m"), Ok("/mode")),
            ("/mode", Unfinished::Command("mode"), Err(2)),
            ("/x", Unfinished::Command("x"), Err(0)),
            ("see @src/a", Unfinished::File("src/a"), Err(2)),
            (
                "see @docs/m",
                Unfinished::File("docs/m"),
                Ok("see @\"docs/my notes.txt\" "),
            ),
            (
                "see @\"docs/my n",
                Unfinished::QuotedFile("docs/my n"),
                Ok("see @\"docs/my notes.txt\" "),
            ),
            (
                "see @src/ab",
                Unfinished::File("src/ab"),
                Ok("see @src/ab.rs "),
            ),
        ] {
            assert_eq!(Unfinished::of(text).as_ref(), Some(&unfinished), "{text}");
            let (Unfinished::Command(written)
            | Unfinished::File(written)
            | Unfinished::QuotedFile(written)) = unfinished;
            let found = complete(text, written, &candidates);
            let found = match &found.text {
                Some(text) => Ok(text.as_str()),
                None => Err(found.choices.len()),
            };
            assert_eq!(found, expected, "{text}");
        }
        for text in ["", "hello", "/etc/ho", "/model gpt", "a@b", "@\"a b\" c"] {
            assert_eq!(Unfinished::of(text), None, "{text}");
        }
    }
}
