//! One version in all files, and a fixture of every released one.

use crate::repository::TextFile;

const UNRELEASED: &str = " (unreleased)";
const FIXTURES: &str = "crates/cli/tests/upgrade";

/// The first `version = "…"` of a TOML file or `"version": "…"` of a JSON file.
pub fn version(file: &TextFile) -> Option<&str> {
    let rest = file.text.lines().find_map(|line| {
        let line = line.trim_start().trim_start_matches('"');
        line.strip_prefix("version")
    })?;
    rest.split('"').rev().nth(1)
}

/// Files that do not have the version of the first section of the changelog.
pub fn differing(changelog: &TextFile, files: &[TextFile]) -> Vec<String> {
    let wanted = sections(changelog).next().map(|(version, _)| version);
    let differs = files.iter().filter(|file| version(file) != wanted);
    differs
        .map(|file| {
            let found = version(file);
            let path = &file.path;
            format!("{path}: version {found:?}, but the changelog begins with {wanted:?}")
        })
        .collect()
}

/// Released versions whose data no test reads.
pub fn without_fixture(changelog: &TextFile, files: &[String]) -> Vec<String> {
    let released = sections(changelog).filter(|(_, is_released)| *is_released);
    let rows = released.map(|(version, _)| format!("{FIXTURES}/{version}/rows.sql"));
    rows.filter(|path| !files.contains(path))
        .map(|path| format!("{path}: missing; run scripts/fixture on the commit of the release"))
        .collect()
}

/// The versions of the changelog, newest first, and whether each is released.
fn sections(changelog: &TextFile) -> impl Iterator<Item = (&str, bool)> {
    let titles = changelog
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("## "));
    titles.map(|title| match title.strip_suffix(UNRELEASED) {
        Some(version) => (version, false),
        None => (title.split(' ').next().unwrap_or_default(), true),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changelog() -> TextFile {
        TextFile::new(
            "CHANGELOG.md",
            "# Changelog\n\n## 0.3.0 (unreleased)\n\n## 0.2.0 (2027-01-01)\n\n## 0.1.0\n",
        )
    }

    #[test]
    fn versions_that_differ_are_found() {
        let same = TextFile::new("Cargo.toml", "[package]\nversion = \"0.3.0\"\n");
        let other = TextFile::new(
            "package.json",
            "{\n  \"name\": \"x\",\n  \"version\": \"0.2.0\",\n}\n",
        );
        assert_eq!(
            (version(&same), version(&other)),
            (Some("0.3.0"), Some("0.2.0"))
        );
        let found = differing(&changelog(), &[same, other]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("package.json:"), "{found:?}");
    }

    #[test]
    fn a_release_without_a_fixture_is_found() {
        let files = [format!("{FIXTURES}/0.1.0/rows.sql")];
        let found = without_fixture(&changelog(), &files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("/0.2.0/"), "{found:?}");
    }
}
