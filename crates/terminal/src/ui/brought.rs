//! What the folder brings, as rows for the screen, and the request of `/init`. Everything that a file
//! says is made visible, and stands behind a bar.

use codelab_policy::visible;
use codelab_protocol::{BroughtKind, Digest};
use codelab_toolrunner::{BroughtState, WaitingFile};

use crate::Language;
use crate::texts::FolderText;

/// Digits of a digest in a list. `/trust` shows all.
const SHORT_DIGEST: usize = 12;
/// Paths that one notice names.
const MAX_NAMED: usize = 5;
/// Files of a skill that are named.
const MAX_PARTS: usize = 40;

/// What `/init` asks an agent for.
pub const INIT: &str = "\
Look at this repository and write a first AGENTS.md in its root: short notes for coding agents who will work here. \
Read the README, the manifests, the build and test scripts and a few source files first. Write down only what you \
found there: what the project is, the commands to build, test (also a single test), lint and run it, where things \
are, the conventions that the code follows, and what an agent must not do. Leave out what every agent knows, and \
anything you are not sure of. At most 60 lines of Markdown. Write it with write_file, then say in two sentences what \
you could not find out.";

/// The same where there is one.
pub const IMPROVE: &str = "\
This repository has an AGENTS.md in its root, or a CLAUDE.md in its place. Read it, compare it with the repository \
(manifests, scripts, sources), and improve it: correct what is wrong, add commands and conventions that are missing, \
remove what is obvious or outdated. Keep what people wrote on purpose. At most 60 lines more than now. Change the \
file with write_file, then say in two sentences what you changed and why.";

pub fn kind(kind: BroughtKind, language: Language) -> &'static str {
    language.text(match kind {
        BroughtKind::McpServers => FolderText::KindMcpServers,
        BroughtKind::Instructions => FolderText::KindInstructions,
        BroughtKind::Skill => FolderText::KindSkill,
        BroughtKind::Command => FolderText::KindCommand,
    })
}

/// Some paths in one line.
pub fn named(paths: &[String], language: Language) -> String {
    let shown = paths.iter().take(MAX_NAMED).map(|path| visible(path));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match paths.len().checked_sub(MAX_NAMED) {
        None | Some(0) => shown,
        Some(more) => language.with(FolderText::AndMore, &[&shown, &more.to_string()]),
    }
}

/// A content that waits, whole.
pub fn shown(waiting: &WaitingFile, language: Language) -> Vec<String> {
    let file = &waiting.file;
    let state = match waiting.is_changed {
        true => FolderText::IsChanged,
        false => FolderText::IsNew,
    };
    let mut rows = vec![
        format!(
            "{} ({}): {}",
            visible(&file.path),
            kind(file.kind, language),
            language.text(state)
        ),
        format!("SHA-256 {}", file.digest),
    ];
    let content = file.content.lines();
    rows.extend(content.map(|line| format!("│ {}", visible(line))));
    let parts: Vec<String> = file.parts.iter().map(|part| part.path.clone()).collect();
    if parts.len() > 1 {
        let mut named = parts
            .iter()
            .take(MAX_PARTS)
            .map(|part| visible(part))
            .collect::<Vec<_>>()
            .join(", ");
        if parts.len() > MAX_PARTS {
            let more = (parts.len() - MAX_PARTS).to_string();
            named = language.with(FolderText::AndMore, &[&named, &more]);
        }
        rows.push(language.with(FolderText::SkillParts, &[&named]));
    }
    rows
}

/// What `/instructions` lists.
pub fn listed(state: &BroughtState, language: Language) -> Vec<String> {
    let mut rows = Vec::new();
    let section = |rows: &mut Vec<String>, head: FolderText, lines: Vec<String>| {
        if !lines.is_empty() {
            rows.push(language.text(head).to_owned());
            rows.extend(lines.into_iter().map(|line| format!("  {line}")));
        }
    };
    let told = state.instructions.iter().map(|file| {
        let when = match file.path.rsplit_once('/') {
            None => language.text(FolderText::ToldAlways).to_owned(),
            Some((folder, _)) => language.with(FolderText::ToldBeneath, &[&visible(folder)]),
        };
        let about = about(file.content.len(), &file.digest, language);
        format!("{}  {about}  {when}", visible(&file.path))
    });
    section(&mut rows, FolderText::Told, told.collect());
    let skills = state.skills.iter().map(|skill| {
        let about = about(skill.text.content.len(), &skill.digest, language);
        let description = visible(&skill.description).replace('\n', " ");
        format!("{}  {about}  {description}", skill.name)
    });
    section(&mut rows, FolderText::SkillsTold, skills.collect());
    let commands = state.commands.iter().map(|file| {
        let about = about(file.content.len(), &file.digest, language);
        format!("{}  {about}", visible(&file.path))
    });
    section(&mut rows, FolderText::CommandsHere, commands.collect());
    let waiting = state.waiting.iter().map(|waiting| {
        let file = &waiting.file;
        let about = about(file.content.len(), &file.digest, language);
        format!(
            "{}  {about}  {}",
            visible(&file.path),
            kind(file.kind, language)
        )
    });
    section(&mut rows, FolderText::WaitingHere, waiting.collect());
    let passed_over = state.notices.iter();
    rows.extend(
        passed_over.map(|notice| language.with(FolderText::PassedOver, &[&visible(notice)])),
    );
    if rows.is_empty() {
        rows.push(language.text(FolderText::NothingTold).to_owned());
    }
    rows
}

fn about(bytes: usize, digest: &Digest, language: Language) -> String {
    let digest = digest.as_str();
    let short = digest.get(..SHORT_DIGEST).unwrap_or(digest);
    format!("{} B  {short}", language.grouped(bytes as u64))
}

/// An answer to the question whether a content is trusted; `None` for anything else.
pub fn answer(text: &str) -> Option<bool> {
    match text.trim().to_lowercase().as_str() {
        "y" | "yes" | "н" | "да" | "так" => Some(true),
        "n" | "no" | "т" | "нет" | "ні" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use codelab_toolrunner::BroughtFile;

    use super::*;

    fn waiting(content: &str) -> WaitingFile {
        WaitingFile {
            file: BroughtFile {
                kind: BroughtKind::Instructions,
                path: "AGENTS.md".to_owned(),
                content: content.to_owned(),
                digest: Digest::of_bytes(content.as_bytes()),
                parts: Vec::new(),
            },
            is_changed: false,
        }
    }

    #[test]
    fn nothing_of_a_content_is_hidden_or_passes_for_a_row_of_ours() {
        let rows = shown(
            &waiting("a\u{202e}b\u{1b}[2J\nSHA-256 0000\n"),
            Language::En,
        );
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[2], "│ a\\u{202e}b\\u{1b}[2J");
        assert_eq!(rows[3], "│ SHA-256 0000");
    }

    #[test]
    fn the_list_names_what_is_told_and_what_waits() {
        let state = BroughtState {
            waiting: vec![waiting("x")],
            notices: vec!["b is a link".to_owned()],
            ..BroughtState::default()
        };
        let rows = listed(&state, Language::En).join("\n");
        assert!(
            rows.contains("AGENTS.md  1 B") && rows.contains("b is a link"),
            "{rows}"
        );
        assert!(listed(&BroughtState::default(), Language::En)[0].contains("/init"));
        assert!(!INIT.contains('@') && !IMPROVE.contains('@'));
    }
}
