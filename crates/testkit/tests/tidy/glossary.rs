//! docs/glossary.md: the words that must be explained there, and the code that its rows name.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use crate::architecture::quoted;
use crate::repository::TextFile;

const HEADING: &str = "| word |";

/// The field's words for what CodeLab does. A reader looks for these first.
const REQUIRED: [&str; 13] = [
    "session",
    "turn",
    "tool call",
    "tool runner",
    "slot",
    "command",
    "accepted",
    "deadline",
    "lease",
    "owner",
    "forward",
    "snapshot",
    "projection",
];

/// A row `| word | meaning | `Name`, `Name` |`.
#[derive(Debug, PartialEq, Eq)]
pub struct GlossaryRow {
    pub line_index: usize,
    pub word: String,
    pub in_code: Vec<String>,
}

/// What a row may name.
pub struct KnownCode {
    /// Types of any crate, private ones included.
    pub types: BTreeSet<String>,
    /// Paths of all files of the repository.
    pub files: Vec<String>,
    /// All source text: settings and tables are named there.
    pub text: String,
}

pub fn rows(document: &TextFile) -> Result<Vec<GlossaryRow>> {
    let mut lines = document.text.lines().enumerate();
    let heading = lines.find(|(_, line)| line.starts_with(HEADING));
    let ruler = heading.and_then(|_| lines.next());
    ensure!(
        ruler.is_some(),
        "{}: no table that starts with {HEADING:?}",
        document.path
    );
    let table = lines.take_while(|(_, line)| line.starts_with('|'));
    Ok(table
        .map(|(line_index, line)| {
            let mut cells = line.trim_matches('|').split('|');
            GlossaryRow {
                line_index,
                word: cells.next().unwrap_or_default().trim().to_owned(),
                in_code: quoted(cells.next_back().unwrap_or_default()),
            }
        })
        .collect())
}

pub fn missing_words(document: &TextFile, rows: &[GlossaryRow]) -> Vec<String> {
    let is_missing = |word: &str| !rows.iter().any(|row| row.word == word);
    let missing = REQUIRED.into_iter().filter(|word| is_missing(word));
    missing
        .map(|word| format!("{}: no row for {word:?}", document.path))
        .collect()
}

pub fn unknown_code(document: &TextFile, rows: &[GlossaryRow], known: &KnownCode) -> Vec<String> {
    let mut findings = Vec::new();
    for row in rows {
        for name in row.in_code.iter().filter(|name| !known.has(name)) {
            findings.push(document.finding(
                row.line_index,
                format_args!("{:?} names {name}, which is not in the code", row.word),
            ));
        }
    }
    findings
}

impl KnownCode {
    /// `Type`, a crate, `crate::module`, or a name such as `INTERNAL_API_KEY` that stands in the
    /// source.
    fn has(&self, name: &str) -> bool {
        if let Some((outer, inner)) = name.split_once("::") {
            let inner = inner.replace("::", "/");
            return self
                .types
                .contains(name.rsplit(':').next().unwrap_or_default())
                || self.files.iter().any(|file| is_module(file, outer, &inner));
        }
        let is_type = name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
        if is_type {
            return self.types.contains(name);
        }
        let folder = format!("crates/{name}/");
        self.files.iter().any(|file| file.starts_with(&folder)) || self.text.contains(name)
    }
}

/// Whether the file is `inner.rs` beneath a crate or a module `outer`.
fn is_module(file: &str, outer: &str, inner: &str) -> bool {
    file.strip_suffix(&format!("/{inner}.rs"))
        .is_some_and(|folder| folder.split('/').any(|part| part == outer))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "# Glossary\n\n| word | meaning | in code |\n|---|---|---|\n\
        | slot | Room for `one` task. | `Slot` |\n\
        | owner | One task. | `runtime::owner`, `Gone` |\n\
        | key | A key. | `API_KEY`, `engine::gone` |\n";

    #[test]
    fn names_that_are_not_in_the_code_are_found() -> Result<()> {
        let document = TextFile::new("docs/glossary.md", DOCUMENT);
        let rows = rows(&document)?;
        assert_eq!(rows[0].in_code, ["Slot"]);
        let known = KnownCode {
            types: BTreeSet::from(["Slot".to_owned()]),
            files: vec!["crates/runtime/src/owner.rs".to_owned()],
            text: "const API_KEY: &str".to_owned(),
        };
        let found = unknown_code(&document, &rows, &known);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("docs/glossary.md:6:") && found[0].contains("Gone"));
        assert!(found[1].contains("engine::gone"));
        Ok(())
    }

    #[test]
    fn a_word_without_a_row_is_found() -> Result<()> {
        let document = TextFile::new("docs/glossary.md", DOCUMENT);
        let found = missing_words(&document, &rows(&document)?);
        assert_eq!(found.len(), REQUIRED.len() - 2, "{found:?}");
        assert!(super::rows(&TextFile::new("docs/glossary.md", "no table")).is_err());
        Ok(())
    }
}
