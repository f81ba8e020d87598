//! The crate table of ARCHITECTURE.md, which also says which crate may use which.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use crate::repository::TextFile;

/// A row `| `name` | what it holds | `used`, `used` |`.
#[derive(Debug, PartialEq, Eq)]
pub struct CrateRow {
    pub name: String,
    pub uses: Vec<String>,
}

const HEADING: &str = "| crate |";

pub fn crates(document: &TextFile) -> Result<Vec<CrateRow>> {
    let mut lines = document.text.lines();
    let heading = lines.find(|line| line.starts_with(HEADING));
    let ruler = heading.and_then(|_| lines.next());
    ensure!(
        ruler.is_some(),
        "{}: no table that starts with {HEADING:?}",
        document.path
    );
    Ok(lines
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let mut cells = line.trim_matches('|').split('|');
            let name = quoted(cells.next().unwrap_or_default())
                .into_iter()
                .next()
                .unwrap_or_default();
            CrateRow {
                name,
                uses: quoted(cells.next_back().unwrap_or_default()),
            }
        })
        .collect())
}

pub fn compare(table: &[CrateRow], folders: &[String]) -> Vec<String> {
    let listed: BTreeSet<&str> = table.iter().map(|row| row.name.as_str()).collect();
    let existing: BTreeSet<&str> = folders.iter().map(String::as_str).collect();
    let missing = existing
        .difference(&listed)
        .map(|name| format!("crates/{name}: not in ARCHITECTURE.md's table"));
    let stale = listed
        .difference(&existing)
        .map(|name| format!("ARCHITECTURE.md: lists {name:?}, which is not there"));
    missing.chain(stale).collect()
}

/// The texts between backticks.
pub fn quoted(cell: &str) -> Vec<String> {
    cell.split('`')
        .enumerate()
        .filter(|(index, _)| index % 2 == 1)
        .map(|(_, name)| name.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "# Title\n\n| crate | holds | uses |\n|---|---|---|\n| `a` | the `x` | |\n\
                            | `b` | y | `a`, `c` |\n\n| other |\n|---|\n| `z` |\n";

    #[test]
    fn a_table_is_read_up_to_its_end() -> Result<()> {
        let rows = crates(&TextFile::new("ARCHITECTURE.md", DOCUMENT))?;
        let row = |name: &str, uses: &[&str]| CrateRow {
            name: name.to_owned(),
            uses: uses.iter().map(|&name| name.to_owned()).collect(),
        };
        assert_eq!(rows, [row("a", &[]), row("b", &["a", "c"])]);
        assert!(crates(&TextFile::new("ARCHITECTURE.md", "no table")).is_err());
        Ok(())
    }

    #[test]
    fn a_missing_and_a_stale_row_are_found() -> Result<()> {
        let rows = crates(&TextFile::new("ARCHITECTURE.md", DOCUMENT))?;
        let found = compare(&rows, &["a".to_owned(), "new".to_owned()]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("crates/new:") && found[1].contains("\"b\""),
            "{found:?}"
        );
        Ok(())
    }
}
