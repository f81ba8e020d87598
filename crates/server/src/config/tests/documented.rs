//! `docs/configuration.md` against the program: the same settings, environment variables and defaults, no more and no fewer.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::file::File;
use super::*;

const DOCUMENT: &str = include_str!("../../../../../docs/configuration.md");
const HEADING: &str = "| key | environment, flag | default | meaning |";
/// Settings under a name that the operator chooses. The document writes `<name>` for it, which is a
/// name like any other.
const NAMED_BY_OPERATORS: &str = "[model_map]\n\"<name>\" = \"wire\"\n\
    [prices.\"<model>\"]\ninput_per_million_usd = 1.0\noutput_per_million_usd = 2.0\n\
    [models.\"<model>\"]\nwindow = 1\n[providers.\"<name>\"]\nkind = \"openai\"\nurl = \"http://a\"\n";

/// A row of one of the document's tables.
struct Row {
    key: String,
    /// Variables first, then flags.
    names: Vec<String>,
    /// The value in `code`; none where the document says in words what happens without a value.
    default: Option<String>,
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut lines = DOCUMENT.lines();
    while lines.any(|line| line == HEADING) {
        // Skips the line of dashes below the heading.
        rows.extend(
            lines
                .by_ref()
                .skip(1)
                .take_while(|line| line.starts_with('|'))
                .map(row),
        );
    }
    rows
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
    let [key, names, default, meaning] = cells[..] else {
        panic!("not four cells: {line}")
    };
    assert!(
        meaning.trim().ends_with('.'),
        "the meaning is a sentence: {line}"
    );
    let key = coded(key)
        .pop()
        .unwrap_or_else(|| panic!("no key in {line}"));
    Row {
        key,
        names: coded(names),
        default: coded(default).pop(),
    }
}

/// What stands between backticks.
fn coded(cell: &str) -> Vec<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// What `codelab config show` would print.
fn shown(file: &str, environment: &[(&str, &str)]) -> Vec<ShownSetting> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.toml");
    std::fs::write(&path, file).unwrap();
    let flags = Flags {
        config: Some(path),
        ..Flags::default()
    };
    let environment = environment.iter().chain(&[("HOME", "~")]);
    Settings::explain(
        flags,
        environment.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    )
    .shown
}

/// A value as people write it; none where nothing is set.
fn written(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[test]
fn the_document_names_every_setting_once_and_no_other() {
    let documented: Vec<String> = rows().into_iter().map(|row| row.key).collect();
    let known: BTreeSet<String> = shown(NAMED_BY_OPERATORS, &[])
        .into_iter()
        .map(|setting| setting.name)
        .collect();
    let unique: BTreeSet<String> = documented.iter().cloned().collect();
    assert_eq!(
        unique.len(),
        documented.len(),
        "a setting has two rows: {documented:?}"
    );
    let missing: Vec<_> = known.difference(&unique).collect();
    let unknown: Vec<_> = unique.difference(&known).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "docs/configuration.md: missing {missing:?}, unknown {unknown:?}"
    );

    // A table that is empty by default is one whose names operators choose.
    let defaults = serde_json::to_value(File::default()).unwrap();
    for (table, value) in defaults.as_object().unwrap() {
        let is_open = value.as_object().is_some_and(|fields| fields.is_empty());
        let is_known = known
            .iter()
            .any(|name| name.starts_with(&format!("{table}.<")));
        assert_eq!(
            is_open, is_known,
            "{table}: NAMED_BY_OPERATORS in this test does not fit"
        );
    }
}

#[test]
fn the_document_tells_the_defaults() {
    let defaults: BTreeMap<String, Value> = shown("", &[])
        .into_iter()
        .map(|setting| (setting.name, setting.value))
        .collect();
    for row in rows() {
        let default = defaults.get(&row.key).and_then(written);
        assert_eq!(
            row.default, default,
            "docs/configuration.md: the default of {}",
            row.key
        );
    }
}

#[test]
fn the_document_tells_the_variables() {
    for row in rows() {
        let (variables, flags): (Vec<_>, Vec<_>) =
            row.names.iter().partition(|name| !name.starts_with("--"));
        assert!(
            !variables.is_empty(),
            "docs/configuration.md: {} has no variable",
            row.key
        );
        for variable in variables {
            // A number, a text or a list: whichever the setting takes.
            let source = [
                "1", "true", "text", "[]", "reject", "off", "HS256", "openai",
            ]
            .into_iter()
            .find_map(|value| {
                let all = shown(NAMED_BY_OPERATORS, &[(variable, value)]);
                all.into_iter()
                    .find(|setting| setting.name == row.key)
                    .map(|setting| setting.source)
            });
            let expected = Source::Environment(variable.clone());
            assert_eq!(
                source,
                Some(expected),
                "docs/configuration.md: {variable} does not set {}",
                row.key
            );
        }
        let known_flags: &[&str] = match row.key.as_str() {
            "addr" => &["--addr"],
            "data_dir" => &["--data-dir"],
            _ => &[],
        };
        assert_eq!(
            flags, known_flags,
            "docs/configuration.md: the flags of {}",
            row.key
        );
    }
}
