//! One name, one type: two public types of one name make a reader look twice.

use std::collections::BTreeMap;

use crate::repository::TextFile;
use crate::source::code_only;

/// Keywords before the name of a type.
const KINDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// Names that two crates may both use, with the reason.
const SHARED: [(&str, &str); 0] = [];

/// A type that other modules can see.
pub struct PublicType {
    pub name: String,
    /// `path:line`.
    pub at: String,
}

/// The types of a file in some `src` folder that are `pub`, in any form: `pub(crate)` counts too.
pub fn public(file: &TextFile) -> Vec<PublicType> {
    declared(file)
        .into_iter()
        .filter(|(is_public, _)| *is_public)
        .map(|(_, found)| found)
        .collect()
}

/// The names of all types of a file: private ones too, and those that a macro of the file declares
/// from a line `Name, …`.
pub fn names(file: &TextFile) -> Vec<String> {
    let mut names: Vec<String> = declared(file)
        .into_iter()
        .map(|(_, found)| found.name)
        .collect();
    if file.is_rust() && file.text.contains("macro_rules!") {
        let heads = file.text.lines().filter_map(|line| line.split_once(','));
        let words = heads.map(|(head, _)| head.trim());
        let is_name = |word: &&str| {
            word.starts_with(char::is_uppercase) && word.chars().all(char::is_alphanumeric)
        };
        names.extend(words.filter(is_name).map(str::to_owned));
    }
    names
}

pub fn twice(types: Vec<PublicType>) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for found in types {
        places.entry(found.name).or_default().push(found.at);
    }
    let is_shared = |name: &str| SHARED.iter().any(|(shared, _)| *shared == name);
    places
        .into_iter()
        .filter(|(name, places)| places.len() > 1 && !is_shared(name))
        .map(|(name, places)| format!("{name} is the name of several types: {}", places.join(", ")))
        .collect()
}

fn declared(file: &TextFile) -> Vec<(bool, PublicType)> {
    if !file.is_rust() || !file.path.contains("/src/") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (index, line) in code_only(&file.text).lines().enumerate() {
        let line = line.trim_start();
        let (is_public, item) = match line.strip_prefix("pub") {
            Some(rest) => (true, after_scope(rest)),
            None => (false, line),
        };
        let Some((kind, rest)) = item.trim_start().split_once(' ') else {
            continue;
        };
        let name: String = rest
            .trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        if KINDS.contains(&kind) && !name.is_empty() {
            let at = format!("{}:{}", file.path, index + 1);
            found.push((is_public, PublicType { name, at }));
        }
    }
    found
}

/// What follows `pub`, without `(crate)`, `(super)` or `(in …)`.
fn after_scope(rest: &str) -> &str {
    match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')').map_or("", |(_, item)| item),
        None => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_type_of_a_name_is_found() {
        let first = "pub struct Answer;\nstruct Step;\n// pub struct Queue;\n";
        let second = "pub(in super::super) enum Answer {}\n    pub(crate) type Step<T> = Vec<T>;\nimpl Queue {}\n";
        let file = |path: &str, text: &str| public(&TextFile::new(path, text));
        let both = || {
            let first = file("crates/a/src/lib.rs", first);
            first
                .into_iter()
                .chain(file("crates/b/src/x.rs", second))
                .collect()
        };
        let found = twice(both());
        assert_eq!(
            found,
            ["Answer is the name of several types: crates/a/src/lib.rs:1, crates/b/src/x.rs:1"]
        );
        assert!(file("crates/a/tests/x.rs", first).is_empty(), "tests may");
        assert!(twice(file("crates/a/src/lib.rs", first)).is_empty());
    }

    #[test]
    fn private_types_have_names_too() {
        let file = TextFile::new("crates/a/src/x.rs", "struct Inner;\npub trait Outer {}\n");
        assert_eq!(names(&file), ["Inner", "Outer"]);
        let made = "macro_rules! id { () => {} }\nid!(\n    UserId, \"a number\"\n);\n";
        assert_eq!(
            names(&TextFile::new("crates/a/src/id.rs", made)),
            ["UserId"]
        );
    }
}
