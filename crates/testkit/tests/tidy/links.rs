//! Links between the Markdown files of the repository, and the paths that ARCHITECTURE.md names.

use std::collections::{BTreeMap, BTreeSet};

use crate::architecture::quoted;
use crate::repository::TextFile;

/// What a build makes: it is not in the repository.
const BUILT: [&str; 1] = ["web/dist"];

/// The files a link can lead to, and the headings of the Markdown files among them.
pub struct Targets {
    files: BTreeSet<String>,
    headings: BTreeMap<String, BTreeSet<String>>,
}

impl Targets {
    pub fn new(files: &[String], texts: &[TextFile]) -> Self {
        let documents = texts.iter().filter(|file| is_markdown(file));
        Self {
            files: files.iter().cloned().collect(),
            headings: documents
                .map(|file| (file.path.clone(), anchors(&file.text)))
                .collect(),
        }
    }

    /// Whether a file or a folder of the repository has this path.
    fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains(path)
            || self.files.iter().any(|file| file.starts_with(&folder))
    }
}

/// Links to files and headings that do not exist.
pub fn broken(file: &TextFile, targets: &Targets) -> Vec<String> {
    if !is_markdown(file) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in without_code(&file.text).lines().enumerate() {
        for link in links(line).filter(|link| !leads_away(link)) {
            if let Some(what) = problem(&file.path, link, targets) {
                findings.push(file.finding(index, format_args!("({link}) {what}")));
            }
        }
    }
    findings
}

/// Paths in backticks that lead to no file. `engine/src/turn.rs` means `crates/engine/src/turn.rs`.
pub fn missing_paths(document: &TextFile, crates: &[String], targets: &Targets) -> Vec<String> {
    let tops: BTreeSet<&str> = targets
        .files
        .iter()
        .filter_map(|file| file.split_once('/').map(|(top, _)| top))
        .collect();
    let mut findings = Vec::new();
    for (index, line) in document.text.lines().enumerate() {
        for path in quoted(line) {
            let Some((first, _)) = path.split_once('/') else {
                continue;
            };
            let is_plain = path
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
            let is_built = BUILT.contains(&path.as_str());
            if !is_plain || first.is_empty() || is_built {
                continue;
            }
            let is_there = if crates.iter().any(|name| name == first) {
                targets.has(&path) || targets.has(&format!("crates/{path}"))
            } else if tops.contains(first) {
                targets.has(&path)
            } else if path.ends_with(".rs") {
                let tail = format!("/{path}");
                targets.files.iter().any(|file| file.ends_with(&tail))
            } else {
                // A path of a data folder.
                true
            };
            if !is_there {
                findings.push(document.finding(index, format_args!("{path} does not exist")));
            }
        }
    }
    findings
}

fn problem(from: &str, link: &str, targets: &Targets) -> Option<String> {
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let path = match path {
        "" => from.to_owned(),
        path => match resolve(from, path) {
            Some(path) => path,
            None => return Some("leads out of the repository".to_owned()),
        },
    };
    if !targets.has(&path) {
        return Some("leads to no file".to_owned());
    }
    let headings = targets.headings.get(&path);
    let is_known = headings.is_none_or(|headings| headings.contains(anchor));
    (!anchor.is_empty() && !is_known).then(|| "leads to no heading of that file".to_owned())
}

/// The path from the root of the repository; `None` when it leads above it.
fn resolve(from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The targets of `[text](target)`, `src="target"` and `href="target"`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let ends = [("](", ')'), ("src=\"", '"'), ("href=\"", '"')];
    ends.into_iter().flat_map(move |(start, end)| {
        line.match_indices(start).filter_map(move |(at, _)| {
            let target = line[at + start.len()..].split(end).next()?;
            // A title may follow.
            target.split_whitespace().next()
        })
    })
}

fn leads_away(link: &str) -> bool {
    link.contains("://") || link.starts_with("mailto:") || link.starts_with("//")
}

/// Headings as GitHub names them: `## What it does!` is `what-it-does`, and a second one gets `-1`.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for line in without_fences(text).lines() {
        let heading = line.trim_start_matches('#');
        let level = line.len() - heading.len();
        if !(1..=6).contains(&level) || !heading.starts_with(' ') {
            continue;
        }
        let slug = slug(heading.trim());
        let numbered = (1..).map(|number| format!("{slug}-{number}"));
        let mut candidates = std::iter::once(slug.clone()).chain(numbered);
        if let Some(free) = candidates.find(|candidate| !anchors.contains(candidate)) {
            anchors.insert(free);
        }
    }
    anchors
}

fn slug(heading: &str) -> String {
    let mut plain = String::new();
    let mut rest = heading;
    // A link in a heading counts with its text alone.
    while let Some((before, after)) = rest.split_once("](") {
        plain.push_str(before);
        rest = after.split_once(')').map_or("", |(_, following)| following);
    }
    plain.push_str(rest);
    plain
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            c if c.is_alphanumeric() => c.to_lowercase().next(),
            _ => None,
        })
        .collect()
}

/// The text with fenced code blanked; lines stay where they were.
fn without_fences(text: &str) -> String {
    let mut is_code = false;
    let mut kept = String::with_capacity(text.len());
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if !is_code && !is_fence {
            kept.push_str(line);
        }
        kept.push('\n');
    }
    kept
}

/// Without fenced code and without what stands between backticks.
fn without_code(text: &str) -> String {
    let plain = |line: &str| -> String { line.split('`').step_by(2).collect() };
    without_fences(text)
        .lines()
        .fold(String::new(), |kept, line| kept + &plain(line) + "\n")
}

fn is_markdown(file: &TextFile) -> bool {
    file.path.ends_with(".md")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets() -> (Vec<TextFile>, Targets) {
        let guide = "# The guide\n\n## What it does!\n\n```\n# no heading\n```\n## What it does!\n";
        let texts = vec![TextFile::new("docs/guide.md", guide)];
        let files = [
            "docs/guide.md",
            "crates/engine/src/turn.rs",
            "docs/adr/1.md",
        ];
        let files: Vec<String> = files.iter().map(|&file| file.to_owned()).collect();
        let targets = Targets::new(&files, &texts);
        (texts, targets)
    }

    #[test]
    fn broken_links_are_found() {
        let (_, targets) = targets();
        for (line, is_broken) in [
            ("[a](docs/guide.md)", false),
            ("[a](docs/guide.md#what-it-does)", false),
            ("[a](docs/guide.md#what-it-does-1 \"title\")", false),
            ("[a](docs/guide.md#what-it-does-2)", true),
            ("[a](docs/guide.md#no-heading)", true),
            ("[a](docs/adr) [b](docs/adr/)", false),
            ("[a](docs/gone.md)", true),
            ("<img src=\"docs/gone.png\">", true),
            ("[a](../outside.md)", true),
            ("[a](https://example.org/x) `[b](gone.md)`", false),
            ("[a](#here)", false),
            ("[a](#there)", true),
        ] {
            let text = format!("# Here\n{line}\n");
            let mut targets_with_own = Targets::new(&[], &[TextFile::new("README.md", &*text)]);
            targets_with_own.files.extend(targets.files.clone());
            targets_with_own.files.insert("README.md".to_owned());
            targets_with_own.headings.extend(targets.headings.clone());
            let found = broken(&TextFile::new("README.md", text), &targets_with_own);
            assert_eq!(!found.is_empty(), is_broken, "{line}: {found:?}");
        }
    }

    #[test]
    fn links_are_resolved_from_the_folder_of_their_file() {
        assert_eq!(
            resolve("docs/adr/1.md", "../guide.md").unwrap(),
            "docs/guide.md"
        );
        assert_eq!(resolve("README.md", "./docs/").unwrap(), "docs");
        assert_eq!(resolve("README.md", "../x"), None);
    }

    #[test]
    fn paths_that_do_not_exist_are_found() {
        let (_, targets) = targets();
        let crates = ["engine".to_owned()];
        for (line, is_missing) in [
            ("`engine/src/turn.rs` and `engine/src`", false),
            ("`engine/src/gone.rs`", true),
            ("`docs/gone`", true),
            ("`src/turn.rs`", false),
            ("`tool/gone.rs`", true),
            ("`login-tickets/`, `/docs`, `a/*/b`, `web/dist`", false),
        ] {
            let document = TextFile::new("ARCHITECTURE.md", format!("\n{line}\n"));
            let found = missing_paths(&document, &crates, &targets);
            assert_eq!(!found.is_empty(), is_missing, "{line}: {found:?}");
        }
    }
}
