//! What a write would change, as a unified diff.

use std::time::Duration;

use codelab_policy::visible;
use codelab_protocol::{FileBase, FileEdit, FilePreview, WriteFile};
use similar::{ChangeTag, TextDiff};

use crate::{Language, Text};

use super::text::{BOLD, Colour, DIM, Style, TextLine};

const CONTEXT_LINES: usize = 3;
/// A diff that is not minimal is better than one that is awaited.
const DEADLINE: Duration = Duration::from_millis(300);
const ADDED: Style = Style::colour(Colour::Green);
const REMOVED: Style = Style::colour(Colour::Red);

/// How a line of a unified diff looks.
pub fn patch_style(line: &str) -> Style {
    match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => BOLD,
        [b'+', ..] => ADDED,
        [b'-', ..] => REMOVED,
        [b'@', b'@', ..] => DIM,
        [b'd', b'i', b'f', b'f', b' ', ..] => BOLD,
        _ => Style::PLAIN,
    }
}

/// The file as it is before the write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    Missing,
    Text(String),
    /// It cannot be shown, and why.
    Unknown(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    pub lines: Vec<TextLine>,
    pub added: usize,
    pub removed: usize,
}

impl Diff {
    pub fn of(write: &WriteFile, before: &Before, language: Language) -> Self {
        match (before, &write.content, &write.edits) {
            (Before::Text(old), Some(new), _) => Self::between(old, new, language),
            (Before::Text(old), None, Some(edits)) => match apply(old, edits) {
                Some(new) => Self::between(old, &new, language),
                None => Self::of_edits(edits, language.text(Text::EditMisfit)),
            },
            (Before::Missing, Some(new), _) => {
                Self::between("", new, language).noted(language.text(Text::NewFile))
            }
            (Before::Unknown(why), Some(new), _) => Self::between("", new, language).noted(why),
            (Before::Missing, None, Some(edits)) => {
                Self::of_edits(edits, language.text(Text::NoFileYet))
            }
            (Before::Unknown(why), None, Some(edits)) => Self::of_edits(edits, why),
            (_, None, None) => Self::default(),
        }
    }

    /// As the client says that would run the write.
    pub fn told(preview: &FilePreview, language: Language) -> Self {
        let mut shown = Self::default();
        // The two lines with names say nothing that the card does not.
        let lines = preview.diff.lines();
        let lines = lines.skip_while(|line| line.starts_with("--- ") || line.starts_with("+++ "));
        for line in lines {
            let style = patch_style(line);
            shown.added += usize::from(style == ADDED);
            shown.removed += usize::from(style == REMOVED);
            shown.lines.push(TextLine::styled(&visible(line), style));
        }
        if preview.truncated {
            let rest = format!("({})", language.text(Text::DiffCut));
            shown.lines.push(TextLine::styled(&rest, BOLD.dim()));
        }
        match (&preview.note, &preview.base) {
            (Some(note), _) => shown.noted(&visible(note)),
            (None, FileBase::Missing) => shown.noted(language.text(Text::NewFile)),
            (None, FileBase::Content(_)) if shown.lines.is_empty() => {
                shown.noted(language.text(Text::NothingChanges))
            }
            (None, FileBase::Content(_)) => shown,
        }
    }

    fn between(old: &str, new: &str, language: Language) -> Self {
        let mut shown = Self::default();
        let diff = TextDiff::configure().timeout(DEADLINE).diff_lines(old, new);
        for group in diff.grouped_ops(CONTEXT_LINES) {
            if let (Some(first), Some(last)) = (group.first(), group.last()) {
                let (old, new) = (
                    first.old_range().start..last.old_range().end,
                    first.new_range().start..last.new_range().end,
                );
                let head = format!(
                    "@@ -{},{} +{},{} @@",
                    old.start + 1,
                    old.len(),
                    new.start + 1,
                    new.len()
                );
                shown.lines.push(TextLine::styled(&head, DIM));
            }
            for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
                shown.push(change.tag(), change.value());
                if change.missing_newline() {
                    let note = format!("\\ {}", language.text(Text::NoNewline));
                    shown.lines.push(TextLine::styled(&note, DIM));
                }
            }
        }
        if shown.lines.is_empty() {
            return shown.noted(language.text(Text::NothingChanges));
        }
        shown
    }

    /// Each edit by itself, where the file cannot be seen.
    fn of_edits(edits: &[FileEdit], note: &str) -> Self {
        let mut shown = Self::default();
        for edit in edits {
            shown.lines.push(TextLine::styled("@@ @@", DIM));
            edit.old
                .lines()
                .for_each(|line| shown.push(ChangeTag::Delete, line));
            edit.new
                .lines()
                .for_each(|line| shown.push(ChangeTag::Insert, line));
        }
        shown.noted(note)
    }

    fn push(&mut self, tag: ChangeTag, text: &str) {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let (sign, style) = match tag {
            ChangeTag::Delete => ("-", REMOVED),
            ChangeTag::Insert => ("+", ADDED),
            ChangeTag::Equal => (" ", Style::PLAIN),
        };
        match tag {
            ChangeTag::Delete => self.removed += 1,
            ChangeTag::Insert => self.added += 1,
            ChangeTag::Equal => {}
        }
        self.lines
            .push(TextLine::styled(sign, style).with(&visible(text), style));
    }

    pub fn noted(mut self, note: &str) -> Self {
        self.lines
            .insert(0, TextLine::styled(&format!("({note})"), BOLD.dim()));
        self
    }
}

/// The file after the edits, if each of them fits exactly once, as the tool demands.
pub fn apply(old: &str, edits: &[FileEdit]) -> Option<String> {
    let mut text = old.to_owned();
    for edit in edits {
        if text.matches(&edit.old).count() != 1 {
            return None;
        }
        text = text.replacen(&edit.old, &edit.new, 1);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(write: &WriteFile, before: &Before) -> String {
        let diff = Diff::of(write, before, Language::En);
        let lines: Vec<String> = diff.lines.iter().map(TextLine::to_text).collect();
        format!("{}\n+{} -{}", lines.join("\n"), diff.added, diff.removed)
    }

    fn content(text: &str) -> WriteFile {
        WriteFile {
            path: "a".to_owned(),
            content: Some(text.to_owned()),
            edits: None,
            create_dirs: false,
        }
    }

    fn edits(pairs: &[(&str, &str)]) -> WriteFile {
        let edits = pairs.iter().map(|(old, new)| FileEdit {
            old: (*old).to_owned(),
            new: (*new).to_owned(),
        });
        WriteFile {
            path: "a".to_owned(),
            content: None,
            edits: Some(edits.collect()),
            create_dirs: false,
        }
    }

    #[test]
    fn a_write_is_shown_as_what_it_changes() {
        let text = |text: &str| Before::Text(text.to_owned());
        let unknown = Before::Unknown("it is not text".to_owned());
        for (write, before, expected) in [
            (
                content("a\nB\nc\n"),
                text("a\nb\nc\n"),
                "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n+1 -1",
            ),
            (
                content("x\n"),
                Before::Missing,
                "(a new file)\n@@ -1,0 +1,1 @@\n+x\n+1 -0",
            ),
            (content("x\n"), text("x\n"), "(nothing changes)\n+0 -0"),
            (
                content("x"),
                text("x\n"),
                "@@ -1,1 +1,1 @@\n-x\n+x\n\\ no newline at the end\n+1 -1",
            ),
            (
                edits(&[("b", "bb")]),
                text("a\nb\nc\n"),
                "@@ -1,3 +1,3 @@\n a\n-b\n+bb\n c\n+1 -1",
            ),
            (
                edits(&[("q", "r")]),
                text("a\n"),
                "(an edit does not fit the file as it is now)\n@@ @@\n-q\n+r\n+1 -1",
            ),
            (
                edits(&[("q", "r")]),
                unknown.clone(),
                "(it is not text)\n@@ @@\n-q\n+r\n+1 -1",
            ),
            (
                content("x\n"),
                unknown,
                "(it is not text)\n@@ -1,0 +1,1 @@\n+x\n+1 -0",
            ),
            (
                content("\u{1b}[2J\r\n"),
                Before::Missing,
                "(a new file)\n@@ -1,0 +1,1 @@\n+\\u{1b}[2J\\u{d}\n+1 -0",
            ),
        ] {
            assert_eq!(shown(&write, &before), expected);
        }
    }
}
