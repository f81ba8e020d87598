//! Words that are refused in names: those that name nothing, and those that only this project used.

use crate::repository::TextFile;
use crate::source::code_only;

const BANNED: [&str; 9] = [
    "manager",
    "managers",
    "helper",
    "helpers",
    "util",
    "utils",
    "utilities",
    "legacy",
    "v2",
];

/// Keywords before the name of an item.
const ITEMS: [&str; 9] = [
    "struct", "enum", "trait", "fn", "mod", "type", "union", "const", "static",
];

/// Words that only this project used, and the field's word for each.
const PRIVATE: [(&str, &str); 9] = [
    ("hands", "tool runner"),
    ("crew", "team snapshot"),
    ("birth", "new session"),
    ("unborn", "new session"),
    ("setback", "attempt error"),
    ("patience", "deadline"),
    ("realm", "session kind"),
    ("realms", "session kinds"),
    ("outside", "command"),
];
/// Ordinary English in a sentence, such as the name of a test. They are refused as the name of a
/// type or a module, and as the whole name of a function.
const ORDINARY_IN_SENTENCES: [&str; 1] = ["outside"];

pub fn banned_in_source(file: &TextFile) -> Vec<String> {
    each_item(file, |_, identifier| {
        let word = words(identifier).find_map(banned)?;
        Some(format!("{identifier} says {word:?}, which names nothing"))
    })
}

/// Types, modules and functions named by a word that a reader would not search for.
pub fn private_in_source(file: &TextFile) -> Vec<String> {
    each_item(file, |kind, identifier| {
        if matches!(kind, "const" | "static") {
            return None;
        }
        let is_sentence = kind == "fn" && identifier.contains('_');
        let (word, instead) = words(identifier).find_map(private)?;
        let is_ordinary = is_sentence && ORDINARY_IN_SENTENCES.contains(&word);
        (!is_ordinary).then(|| format!("{identifier} says {word:?}; the field says {instead:?}"))
    })
}

/// Calls `check` with the kind and the name of each item of a Rust file.
fn each_item(file: &TextFile, check: impl Fn(&str, &str) -> Option<String>) -> Vec<String> {
    if !file.is_rust() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in code_only(&file.text).lines().enumerate() {
        let identifiers = line
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| !word.is_empty());
        let mut before = "";
        for identifier in identifiers {
            if ITEMS.contains(&before)
                && let Some(finding) = check(before, identifier)
            {
                findings.push(file.finding(index, finding));
            }
            before = identifier;
        }
    }
    findings
}

pub fn banned_in_path(path: &str) -> Option<String> {
    let word = words(path).find_map(banned)?;
    Some(format!(
        "{path}: the name says {word:?}, which names nothing"
    ))
}

fn banned(word: String) -> Option<&'static str> {
    BANNED.iter().find(|&&banned| banned == word).copied()
}

fn private(word: String) -> Option<(&'static str, &'static str)> {
    PRIVATE
        .iter()
        .find(|(private, _)| *private == word)
        .copied()
}

/// The words of a name in snake_case, kebab-case, CamelCase or a path, in lower case.
fn words(name: &str) -> impl Iterator<Item = String> {
    let mut spaced = String::with_capacity(name.len() * 2);
    let mut was_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && was_lower {
            spaced.push(' ');
        }
        was_lower = c.is_lowercase() || c.is_ascii_digit();
        spaced.extend(c.to_lowercase());
    }
    let words: Vec<String> = spaced
        .split(|c: char| !c.is_alphanumeric())
        .map(str::to_owned)
        .collect();
    words.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_every_case() {
        for (name, expected) in [
            ("SessionManager", Some("manager")),
            ("HelperFunctions", Some("helper")),
            ("string_utils", Some("utils")),
            ("apply_v2", Some("v2")),
            ("TurnV2", Some("v2")),
            ("LEGACY_LIMIT", Some("legacy")),
            ("crates/x/src/util.rs", Some("util")),
            ("web/src/date-helpers.ts", Some("helpers")),
            ("utility", None),
            ("management", None),
            ("Http2", None),
            ("futures_util", Some("util")),
        ] {
            assert_eq!(words(name).find_map(banned), expected, "{name}");
        }
    }

    #[test]
    fn only_names_of_items_count() {
        let bad = "pub struct Session;\nimpl X {\n    async fn run_helper(&self) {}\n}\npub(crate) mod utils;\n";
        let found = banned_in_source(&TextFile::new("a.rs", bad));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("a.rs:3: run_helper") && found[1].starts_with("a.rs:5: utils"),
            "{found:?}"
        );

        let good = "use futures_util::Stream; // no struct Manager\nconst TEXT: &str = \"struct Manager\";\n";
        assert!(banned_in_source(&TextFile::new("a.rs", good)).is_empty());
        assert!(banned_in_source(&TextFile::new("a.md", bad)).is_empty());
    }
    #[test]
    fn private_words_are_found() {
        for (line, is_refused) in [
            ("pub struct Hands;", true),
            ("enum NextPatience {}", true),
            ("mod setback;", true),
            ("fn realm_of() {}", true),
            ("fn outside() {}", true),
            ("struct Outside;", true),
            ("fn nothing_outside_is_read() {}", false),
            ("let realm = 1; // struct Realm", false),
            ("struct Handshake;", false),
        ] {
            let found = private_in_source(&TextFile::new("a.rs", line));
            assert_eq!(!found.is_empty(), is_refused, "{line}: {found:?}");
        }
    }
}
