//! Words that name nothing: one noun per concept, and none of these.

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

/// What stands before the name of an item.
const ITEMS: [&str; 9] = [
    "struct", "enum", "trait", "fn", "mod", "type", "union", "const", "static",
];

pub fn banned_in_source(file: &TextFile) -> Vec<String> {
    if !file.is_rust() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in code_only(&file.text).lines().enumerate() {
        let mut identifiers = line
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .filter(|word| !word.is_empty());
        let mut before = "";
        for identifier in identifiers.by_ref() {
            if ITEMS.contains(&before)
                && let Some(word) = banned_word(identifier)
            {
                findings.push(file.finding(
                    index,
                    format_args!("{identifier} says {word:?}, which names nothing"),
                ));
            }
            before = identifier;
        }
    }
    findings
}

pub fn banned_in_path(path: &str) -> Option<String> {
    banned_word(path).map(|word| format!("{path}: the name says {word:?}, which names nothing"))
}

/// The first banned word in a name in snake_case, kebab-case, CamelCase or a path.
fn banned_word(name: &str) -> Option<&'static str> {
    let mut spaced = String::with_capacity(name.len() * 2);
    let mut was_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && was_lower {
            spaced.push(' ');
        }
        was_lower = c.is_lowercase() || c.is_ascii_digit();
        spaced.extend(c.to_lowercase());
    }
    let mut words = spaced.split(|c: char| !c.is_alphanumeric());
    words.find_map(|word| BANNED.iter().find(|&&banned| banned == word).copied())
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
            assert_eq!(banned_word(name), expected, "{name}");
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
}
