//! `@file` in a message: the file's content goes along as a named block, and an image as an
//! attachment. Files are read by the same
//! rules as `read_file`: beneath the workspace only, and nothing that holds credentials.

use std::fmt::Write as _;

use codelab_protocol::{MAX_ATTACHMENTS, MIN_FENCE, NewAttachment, fence};
use codelab_workspace::Workspace;

use crate::Language;
use crate::texts::{CallText, CommandText};

use super::files::{self, FileRead};
use super::paste::PastedImages;

const MAX_FILES: usize = 16;
/// Words of a message that are looked up. More are plain text.
const MAX_MENTIONS: usize = 256;
/// Of all images of a message together. In base64 they have 7 MiB, and the server's limit for a
/// request is higher.
const MAX_IMAGES_BYTES: usize = 5376 << 10;
/// Of all files of a message together.
const MAX_BYTES: usize = 512 << 10;
/// What may stand behind a path without being a part of it.
const PUNCTUATION: [char; 8] = [',', '.', ';', ':', '!', '?', ')', '\''];
/// Before and behind the path of a block.
const BLOCK_START: &str = "\n\nFile `";
const BLOCK_HEAD_END: &str = "`:\n\n";

/// A message with the files that it names.
#[derive(Debug, PartialEq, Eq)]
pub struct ExpandedMessage {
    pub text: String,
    /// What went along, and its size.
    pub sent: Vec<String>,
    pub images: Vec<NewAttachment>,
}

/// Adds the content of each named file. `Err` says why the message cannot be sent like this.
pub async fn expand(
    workspace: &Workspace,
    text: String,
    pasted: &PastedImages,
    language: Language,
) -> Result<ExpandedMessage, String> {
    let mut paths = mentioned(&text);
    paths.truncate(MAX_MENTIONS);
    let (mut blocks, mut sent) = (String::new(), Vec::new());
    let (mut images, mut in_images) = (Vec::new(), 0);
    for path in paths {
        let read = match pasted.read(&path).await {
            Some(read) => read,
            None => files::read(workspace, &path).await,
        };
        match read {
            FileRead::Content { text, .. } => {
                block(&path, &text, &mut blocks);
                sent.push(format!("{path} ({})", size(text.len(), language)));
            }
            FileRead::Image(image) => {
                // In base64, four characters stand for three bytes.
                let bytes = image.data.trim_end_matches('=').len() * 3 / 4;
                sent.push(format!("{path} ({})", size(bytes, language)));
                in_images += bytes;
                images.push(image);
            }
            // A word such as `@Override` is no file.
            FileRead::Missing if path.contains(['/', '.']) => {
                return Err(language.with(CommandText::FileMissing, &[&path]));
            }
            FileRead::Missing => {}
            FileRead::Refused(why) => {
                let why = why.unwrap_or_default();
                return Err(language.with(CommandText::FileNotSent, &[&path, &why]));
            }
        }
        // What `read_file` cuts is larger than this.
        if blocks.len() > MAX_BYTES {
            let limit = (MAX_BYTES >> 10).to_string();
            return Err(language.with(CommandText::FilesTooLarge, &[&limit]));
        }
        if in_images > MAX_IMAGES_BYTES {
            let limit = (MAX_IMAGES_BYTES >> 10).to_string();
            return Err(language.with(CommandText::FilesTooLarge, &[&limit]));
        }
        if images.len() > MAX_ATTACHMENTS {
            return Err(language.with(CommandText::TooManyImages, &[&MAX_ATTACHMENTS.to_string()]));
        }
        if sent.len() > MAX_FILES {
            return Err(language.with(CommandText::TooManyFiles, &[&MAX_FILES.to_string()]));
        }
    }
    Ok(ExpandedMessage {
        text: text + &blocks,
        sent,
        images,
    })
}

fn size(bytes: usize, language: Language) -> String {
    match bytes {
        0..1024 => language.with(CallText::Bytes, &[&bytes.to_string()]),
        _ => format!("{} KiB", bytes.div_ceil(1 << 10)),
    }
}

/// A message as the person wrote it, without the files that went along. They are in it by name.
pub fn without_files(text: &str) -> &str {
    let starts = text.match_indices(BLOCK_START).map(|(at, _)| at);
    let is_rest = |at: &usize| is_blocks(&text[*at..], text);
    starts
        .into_iter()
        .find(is_rest)
        .map_or(text, |at| &text[..at])
}

/// Whether a text is blocks of files that the message names, and nothing else.
fn is_blocks(mut rest: &str, message: &str) -> bool {
    while !rest.is_empty() {
        let Some(next) = behind_block(rest, message) else {
            return false;
        };
        rest = next;
    }
    true
}

/// What stands behind the first block.
fn behind_block<'a>(text: &'a str, message: &str) -> Option<&'a str> {
    let (path, rest) = text.strip_prefix(BLOCK_START)?.split_once(BLOCK_HEAD_END)?;
    let is_named = [format!("@{path}"), format!("@\"{path}\"")]
        .iter()
        .any(|name| message.contains(name));
    let fence_length = rest.len() - rest.trim_start_matches('`').len();
    if !is_named || fence_length < MIN_FENCE {
        return None;
    }
    let (fence, content) = rest.split_at(fence_length);
    let content = content.strip_prefix('\n')?;
    if let Some(rest) = content.strip_prefix(fence) {
        return Some(rest);
    }
    let end = format!("\n{fence}");
    content.split_once(&end).map(|(_, rest)| rest)
}

/// A block of code whose fence is longer than any in the file, so that nothing of the file can end
/// it.
fn block(path: &str, content: &str, out: &mut String) {
    let fence = fence(content);
    let end = if content.ends_with('\n') { "" } else { "\n" };
    // Writing into a string cannot fail.
    let _ = write!(
        out,
        "{BLOCK_START}{path}{BLOCK_HEAD_END}{fence}\n{content}{end}{fence}"
    );
}

/// How a message names this path.
pub fn name(path: &str) -> String {
    let is_word = !path.contains(char::is_whitespace) && !path.ends_with(PUNCTUATION);
    match is_word {
        true => format!("@{path}"),
        false => format!("@\"{path}\""),
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
        block("a.md", "```\nrm\n````", &mut out);
        assert_eq!(out, "\n\nFile `a.md`:\n\n`````\n```\nrm\n````\n`````");
    }

    #[test]
    fn a_message_is_shown_without_the_files_that_went_along() {
        let said = "Compare @a.md and @\"my notes.txt\"";
        let mut whole = said.to_owned();
        block("a.md", "\n\nFile `a.md`:\n\n```\nx\n```", &mut whole);
        block("my notes.txt", "", &mut whole);
        assert_eq!(without_files(&whole), said);
        // A text that only looks like it is shown as it is.
        for text in [
            "plain",
            "x\n\nFile `a.md`:\n\n```\ny\n```",
            "@a.md\n\nFile `a.md`:\n\n```\ny\n``` and more",
            "@a.md\n\nFile `a.md`:\n\n```\nwithout an end",
        ] {
            assert_eq!(without_files(text), text);
        }
    }

    #[tokio::test]
    async fn only_files_that_are_there_count() {
        let folder = tempfile::tempdir().unwrap();
        let launcher = codelab_workspace::Launcher::current(["sandbox-exec"]).unwrap();
        let options = codelab_workspace::WorkspaceOptions::new(launcher);
        let workspace = Workspace::open(folder.path(), options).unwrap();
        std::fs::write(folder.path().join("a.rs"), "x".repeat(1500)).unwrap();
        let none = PastedImages::default();
        let words: String = (0..40).map(|number| format!("@Word{number} ")).collect();
        std::fs::write(folder.path().join("empty.rs"), "").unwrap();
        let text = format!("{words} @a.rs @empty.rs");
        let expanded = expand(&workspace, text.clone(), &none, Language::En)
            .await
            .unwrap();
        assert_eq!(expanded.sent, ["a.rs (2 KiB)", "empty.rs (0 bytes)"]);
        assert_eq!(without_files(&expanded.text), text);
        assert_eq!(expanded.images, []);
        let mistyped = expand(&workspace, "@a.rs @b.rs".to_owned(), &none, Language::En).await;
        let refused = mistyped.unwrap_err();
        assert!(refused.contains("no file b.rs"), "{refused}");
        let png = b"\x89PNG\r\n\x1a\nrest";
        std::fs::write(folder.path().join("a.png"), png).unwrap();
        let text = "what is in @a.png?".to_owned();
        let expanded = expand(&workspace, text.clone(), &none, Language::En)
            .await
            .unwrap();
        assert_eq!(expanded.text, text);
        assert_eq!(expanded.sent, ["a.png (12 bytes)"]);
        let image = NewAttachment::new("a.png", "image/png", png);
        assert_eq!(expanded.images, [image]);
        let names: Vec<String> = (0..=MAX_FILES)
            .map(|number| format!("{number}.rs"))
            .collect();
        for name in &names {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        let text = format!("@{}", names.join(" @"));
        let refused = expand(&workspace, text, &none, Language::En)
            .await
            .unwrap_err();
        assert!(refused.contains("at most 16 files"), "{refused}");
    }
}
