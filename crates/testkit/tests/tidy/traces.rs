//! Traces of the machine on which a change was written: its paths, and where it got its packages.
//!
//! Patterns are written in pieces, so that this file does not match its own patterns.

use crate::repository::TextFile;

/// Folders in which build machines keep their clones.
const WORK_PATHS: [&str; 3] = [
    concat!("/work", "/"),
    concat!("/builds", "/"),
    concat!("/check", "/"),
];
const HOME_PATHS: [&str; 3] = [
    concat!("/home", "/"),
    concat!("/root", "/"),
    concat!("/Users", "/"),
];

/// Names of people in examples.
const EXAMPLE_PEOPLE: [&str; 4] = ["user", "alice", "bob", "me"];

/// Hostile commands name home folders and other package sources on purpose.
const HOSTILE: &str = "crates/policy/";

const CONFLICT_MARKERS: [&str; 2] = [concat!("<<<", "<<<<"), concat!(">>>", ">>>>")];

/// Settings that make a package client use another source.
const PACKAGE_SETTINGS: [&str; 5] = [
    concat!("sparse", "+http"),
    concat!("replace", "-with"),
    concat!("index", "-url"),
    concat!("find", "-links"),
    concat!("registry", " = \"http"),
];

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
const NPM: &str = "https://registry.npmjs.org/";

pub fn machine_paths(file: &TextFile) -> Vec<String> {
    let homes = if file.path.starts_with(HOSTILE) {
        &[]
    } else {
        &HOME_PATHS[..]
    };
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let work = WORK_PATHS.iter().filter(|pattern| line.contains(**pattern));
        let homes = homes.iter().filter(|pattern| names_a_home(line, pattern));
        for pattern in work.chain(homes) {
            findings.push(file.finding(index, format_args!("a path of one machine: {pattern}…")));
        }
    }
    findings
}

/// Lines that git leaves in a file after a merge conflict.
pub fn conflict_markers(file: &TextFile) -> Vec<String> {
    let is_marker = |line: &str| {
        CONFLICT_MARKERS
            .iter()
            .any(|marker| line.starts_with(marker))
    };
    let marked = file
        .text
        .lines()
        .enumerate()
        .filter(|(_, line)| is_marker(line));
    marked
        .map(|(index, _)| file.finding(index, format_args!("a conflict that nobody settled")))
        .collect()
}

pub fn package_sources(file: &TextFile) -> Vec<String> {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let source = match name {
            "Cargo.lock" => line
                .strip_prefix("source = ")
                .filter(|source| source.trim_matches('"') != CRATES_IO),
            "package-lock.json" => line
                .trim_start()
                .strip_prefix("\"resolved\": ")
                .filter(|source| !source.trim_start_matches('"').starts_with(NPM)),
            _ if file.path.starts_with(HOSTILE) => None,
            _ => PACKAGE_SETTINGS
                .into_iter()
                .find(|setting| line.contains(setting)),
        };
        if let Some(source) = source {
            findings.push(file.finding(
                index,
                format_args!("packages from a private place: {source}"),
            ));
        }
    }
    findings
}

/// A home folder counts if a path starts with it, and not inside a longer path or an address. Those
/// of the people in examples do not count.
fn names_a_home(line: &str, pattern: &str) -> bool {
    line.match_indices(pattern).any(|(at, _)| {
        let is_inside = line[..at]
            .ends_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}'));
        let rest = &line[at + pattern.len()..];
        let person = rest
            .split(|c: char| !c.is_alphanumeric())
            .next()
            .unwrap_or_default();
        !is_inside && !EXAMPLE_PEOPLE.contains(&person)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_machine_are_found() {
        let [home, root, _] = HOME_PATHS;
        for (path, line, is_refused) in [
            ("a.md", format!("see {}x", WORK_PATHS[0]), true),
            ("a.rs", format!("\"{}1\"", WORK_PATHS[1]), true),
            ("a.sh", format!("cd {home}someone/code"), true),
            ("a.sh", format!("cd {home}user/code"), false),
            ("a.sh", format!("cd {home}username/code"), true),
            ("a.sh", format!("cd {home}user/a {home}someone"), true),
            ("a.md", format!("GET https://example.org{home}page"), false),
            ("a.toml", format!("{root}.cargo"), true),
            (
                "crates/policy/tests/x.txt",
                format!("rm -rf {root}.ssh"),
                false,
            ),
            (
                "crates/policy/tests/x.txt",
                format!("rm -rf {}", WORK_PATHS[0]),
                true,
            ),
            ("a.md", "the workspace's main folder".to_owned(), false),
        ] {
            let found = machine_paths(&TextFile::new(path, format!("first\n{line}\n")));
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
    fn conflicts_are_found() {
        let [ours, theirs] = CONFLICT_MARKERS;
        for (line, is_refused) in [
            (format!("{ours} HEAD"), true),
            (format!("{theirs} branch"), true),
            (format!("see {ours}"), false),
            ("<<EOF".to_owned(), false),
            ("=======".to_owned(), false),
        ] {
            let found = conflict_markers(&TextFile::new("a.md", format!("first\n{line}\n")));
            assert_eq!(!found.is_empty(), is_refused, "{line}: {found:?}");
        }
    }

    #[test]
    fn private_package_sources_are_found() {
        for (path, line, is_refused) in [
            ("Cargo.lock", format!("source = \"{CRATES_IO}\""), false),
            (
                "Cargo.lock",
                "source = \"registry+https://mirror.example/index\"".to_owned(),
                true,
            ),
            (
                "Cargo.lock",
                "source = \"git+https://example.org/x#abc\"".to_owned(),
                true,
            ),
            (
                "web/package-lock.json",
                format!("  \"resolved\": \"{NPM}x/-/x-1.0.0.tgz\","),
                false,
            ),
            (
                "web/package-lock.json",
                "  \"resolved\": \"http://10.0.0.1/x.tgz\",".to_owned(),
                true,
            ),
            (
                ".cargo/config.toml",
                format!("{} = \"mirror\"", PACKAGE_SETTINGS[1]),
                true,
            ),
            (
                "pip.conf",
                format!("{} = http://10.0.0.1", PACKAGE_SETTINGS[2]),
                true,
            ),
            ("README.md", "cargo build".to_owned(), false),
        ] {
            let found = package_sources(&TextFile::new(path, line.clone()));
            assert_eq!(!found.is_empty(), is_refused, "{path}: {line}: {found:?}");
        }
    }
}
