//! Rules on source files: their length, their first line, and no unfinished work in them.

use crate::repository::TextFile;

const MAX_LINES: usize = 600;
const TYPED: [&str; 3] = [".rs", ".ts", ".tsx"];

// In pieces, so that this file does not match its own patterns.
const UNFINISHED_MACROS: [&str; 2] = [concat!("to", "do!"), concat!("unimple", "mented!")];
const SWITCHED_OFF: [&str; 1] = [concat!("#[ig", "nore")];
const NOTES: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

pub fn too_long(file: &TextFile) -> Vec<String> {
    let lines = file.text.lines().count();
    if lines <= MAX_LINES || !is_typed(file) {
        return Vec::new();
    }
    vec![file.finding(
        MAX_LINES,
        format_args!("{lines} lines, at most {MAX_LINES}: split it by concept"),
    )]
}

pub fn without_module_doc(file: &TextFile) -> Vec<String> {
    let mut findings = Vec::new();
    if !file.is_rust() {
        return findings;
    }
    if !file.text.starts_with("//! ") {
        findings.push(file.finding(0, "does not begin with `//!` and what lives here"));
    }
    if file.path.ends_with("/mod.rs") {
        findings.push(file.finding(0, "is called mod.rs: put `foo.rs` beside `foo/`"));
    }
    findings
}

pub fn unfinished(file: &TextFile) -> Vec<String> {
    let mut findings = Vec::new();
    if !is_typed(file) {
        return findings;
    }
    let code = if file.is_rust() {
        code_only(&file.text)
    } else {
        String::new()
    };
    for (index, line) in code.lines().enumerate() {
        let compact: String = line.split_whitespace().collect();
        for pattern in UNFINISHED_MACROS.iter().chain(&SWITCHED_OFF) {
            if has_word(&compact, pattern) {
                findings.push(
                    file.finding(index, format_args!("unfinished or switched off: {pattern}")),
                );
            }
        }
    }
    for (index, line) in file.text.lines().enumerate() {
        for note in NOTES {
            if has_word(line, note) {
                findings
                    .push(file.finding(index, format_args!("a note of unfinished work: {note}")));
            }
        }
    }
    findings
}

/// The server answers users, so it reads a project's session through its user and never by its id
/// alone.
pub fn ownerless_session(file: &TextFile) -> Vec<String> {
    if !file.path.starts_with("crates/server/src/") {
        return Vec::new();
    }
    let code = code_only(&file.text);
    let named = code
        .lines()
        .enumerate()
        .filter(|(_, line)| line.contains("SessionKind::Project"));
    named
        .map(|(index, _)| {
            file.finding(
                index,
                "a project's session without its user: use `Store::of`",
            )
        })
        .collect()
}

pub fn lints_not_inherited(manifest: &TextFile) -> Vec<String> {
    let mut lines = manifest.text.lines().map(str::trim);
    let inherits = lines.any(|line| line == "[lints]") && lines.next() == Some("workspace = true");
    if inherits {
        Vec::new()
    } else {
        vec![manifest.finding(0, "no `[lints]` with `workspace = true`")]
    }
}

/// Rust source with comments and the contents of literals replaced by spaces. Lines keep their
/// numbers.
pub fn code_only(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let after_word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let blanked = blanked_bytes(rest, after_word);
        let (taken, following) = rest.split_at(blanked.unwrap_or(next.len_utf8()));
        if blanked.is_some() {
            code.extend(taken.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        } else {
            code.push_str(taken);
        }
        rest = following;
    }
    code
}

/// The length of the comment or literal that `text` starts with.
fn blanked_bytes(text: &str, after_word: bool) -> Option<usize> {
    match text.as_bytes() {
        [b'/', b'/', ..] => Some(text.find('\n').unwrap_or(text.len())),
        [b'/', b'*', ..] => Some(block_comment_bytes(text)),
        [b'"', ..] => Some(quoted_bytes(text, '"')),
        [b'\'', b'\\', ..] => Some(quoted_bytes(text, '\'')),
        // A character literal, unless it is a lifetime.
        [b'\'', ..] => {
            let mut characters = text.char_indices();
            matches!(characters.nth(2), Some((_, '\''))).then(|| quoted_bytes(text, '\''))
        }
        [b'r', ..] if !after_word => raw_bytes(text, 1),
        [b'b' | b'c', b'r', ..] if !after_word => raw_bytes(text, 2),
        _ => None,
    }
}

/// Block comments nest.
fn block_comment_bytes(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while let Some(found) = text[at..].find(['/', '*']) {
        at += found;
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

fn quoted_bytes(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().filter(|(at, _)| *at > 0) {
        if is_escaped {
            is_escaped = false;
        } else if c == '\\' {
            is_escaped = true;
        } else if c == quote {
            return at + 1;
        }
    }
    text.len()
}

/// `r"…"`, `r#"…"#` and so on; `None` for a raw identifier.
fn raw_bytes(text: &str, prefix_bytes: usize) -> Option<usize> {
    let body = text[prefix_bytes..].trim_start_matches('#');
    let hashes = text.len() - prefix_bytes - body.len();
    let inside = body.strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(
        inside
            .find(&end)
            .map_or(text.len(), |at| text.len() - inside.len() + at + end.len()),
    )
}

fn is_typed(file: &TextFile) -> bool {
    TYPED.iter().any(|ending| file.path.ends_with(ending))
}

/// Whether `word` occurs and is not a part of a longer word.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let is_tail = line[..at].ends_with(is_part);
        let is_head = word.ends_with(is_part) && line[at + word.len()..].starts_with(is_part);
        !is_tail && !is_head
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        for (source, expected) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d\n */ e", "a               \n    e"),
            ("f(\"x\\\"y\", z)", "f(      , z)"),
            ("f(r#\"a\"b\"#, z)", "f(        , z)"),
            ("f(br\"a\", z)", "f(     , z)"),
            (
                "fn f<'a>(c: &'a str, d: '\"', e: '\\'') {}",
                "fn f<'a>(c: &'a str, d:    , e:     ) {}",
            ),
            ("let r#type = for\"x\";", "let r#type = for   ;"),
            ("\"open", "     "),
            ("/* open", "       "),
        ] {
            assert_eq!(code_only(source), expected, "{source}");
        }
    }

    #[test]
    fn a_long_file_is_found() {
        let lines = |count: usize| "x\n".repeat(count);
        assert!(too_long(&TextFile::new("a.rs", lines(MAX_LINES))).is_empty());
        assert_eq!(
            too_long(&TextFile::new("a.rs", lines(MAX_LINES + 1))).len(),
            1
        );
        assert_eq!(
            too_long(&TextFile::new("a.tsx", lines(MAX_LINES + 1))).len(),
            1
        );
        assert!(too_long(&TextFile::new("Cargo.lock", lines(MAX_LINES + 1))).is_empty());
    }

    #[test]
    fn a_session_without_its_user_is_found() {
        let asks = "store.session(SessionKind::Project, &id)";
        assert_eq!(
            ownerless_session(&TextFile::new("crates/server/src/a.rs", asks)).len(),
            1
        );
        assert!(
            ownerless_session(&TextFile::new(
                "crates/server/src/a.rs",
                "SessionKind::Runtime // SessionKind::Project"
            ))
            .is_empty()
        );
        assert!(ownerless_session(&TextFile::new("crates/runtime/src/a.rs", asks)).is_empty());
    }

    #[test]
    fn a_module_without_its_first_line_is_found() {
        assert!(without_module_doc(&TextFile::new("a/b.rs", "//! What lives here.\n")).is_empty());
        assert_eq!(
            without_module_doc(&TextFile::new("a/b.rs", "use std::fs;\n")).len(),
            1
        );
        assert_eq!(without_module_doc(&TextFile::new("a/b.rs", "")).len(), 1);
        assert_eq!(
            without_module_doc(&TextFile::new("a/mod.rs", "//! Doc.\n")).len(),
            1
        );
        assert!(without_module_doc(&TextFile::new("a/b.ts", "x")).is_empty());
    }

    #[test]
    fn unfinished_work_is_found() {
        let [unfinished_macro, other_macro] = UNFINISHED_MACROS;
        let [off] = SWITCHED_OFF;
        let [note, _] = NOTES;
        for (path, line, is_refused) in [
            ("a.rs", format!("{unfinished_macro}()"), true),
            ("a.rs", format!("{other_macro}(\"later\")"), true),
            ("a.rs", format!("{off}]"), true),
            ("a.rs", format!("{off} = \"slow\"]"), true),
            ("a.rs", format!("// {note}: finish"), true),
            ("a.ts", format!("// {note}: finish"), true),
            ("a.rs", format!("my_{unfinished_macro}()"), false),
            ("a.rs", format!("// no {unfinished_macro}() here"), false),
            ("a.rs", format!("let x = \"{off}]\";"), false),
            ("a.rs", format!("let {note}S = 1;"), false),
            ("a.md", format!("{note} list"), false),
        ] {
            let found = unfinished(&TextFile::new(path, format!("\n{line}\n")));
            assert_eq!(!found.is_empty(), is_refused, "{path}: {line}: {found:?}");
            assert!(
                found
                    .iter()
                    .all(|finding| finding.starts_with(&format!("{path}:2: "))),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_crate_without_the_workspace_lints_is_found() {
        let manifest = |text: &str| TextFile::new("crates/x/Cargo.toml", text);
        assert!(
            lints_not_inherited(&manifest("[package]\n\n[lints]\nworkspace = true\n")).is_empty()
        );
        assert_eq!(
            lints_not_inherited(&manifest("[package]\nname = \"x\"\n")).len(),
            1
        );
        assert_eq!(
            lints_not_inherited(&manifest("[lints]\nclippy = {}\nworkspace = true")).len(),
            1
        );
    }
}
