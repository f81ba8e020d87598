//! Which of our crates may use which, and which third-party crates are refused.

use std::collections::{BTreeMap, BTreeSet};

use crate::architecture::CrateRow;
use crate::metadata::{DependencyKind, Metadata};

/// Crates that exist for tests, and the crates whose tests may use them.
const TEST_CRATES: [&str; 2] = ["fakemodel", "testkit"];
const TESTED_WITH_THEM: [&str; 6] = ["server", "cli", "bench", "llm", "runtime", "transport"];

/// Crates that only decide or hold data, and crates with which they could do I/O: sockets,
/// databases, timers.
const DECIDING: [&str; 3] = ["protocol", "policy", "engine"];
const IO: [&str; 9] = [
    "tokio",
    "mio",
    "hyper",
    "axum",
    "reqwest",
    "rusqlite",
    "tokio-postgres",
    "codelab-llm",
    "codelab-store",
];

/// A second TLS stack, which would need the system's OpenSSL.
const BANNED: [&str; 3] = ["openssl", "openssl-sys", "native-tls"];

/// Crates whose types meet across libraries, or that cost much to build: two of them are a mistake.
const ONCE: [&str; 6] = ["tokio", "hyper", "axum", "rustls", "rusqlite", "serde"];

/// A crate may use the crates that its row names, and what those may use.
pub fn direction(metadata: &Metadata, table: &[CrateRow]) -> Vec<String> {
    let rows: BTreeMap<&str, &CrateRow> =
        table.iter().map(|row| (row.name.as_str(), row)).collect();
    let mut findings = Vec::new();
    for (package, folder) in metadata.ours() {
        if !rows.contains_key(folder) {
            findings.push(format!(
                "crates/{folder}/Cargo.toml: the crate has no row in ARCHITECTURE.md"
            ));
            continue;
        }
        let allowed = reachable(&rows, folder);
        for dependency in &package.dependencies {
            let Some(used) = metadata.packages[dependency.package].folder.as_deref() else {
                continue;
            };
            let for_tests = dependency.kind == DependencyKind::Development
                && TEST_CRATES.contains(&used)
                && TESTED_WITH_THEM.contains(&folder);
            if !allowed.contains(used) && !for_tests {
                findings.push(format!(
                    "crates/{folder}/Cargo.toml: {folder} may not use {used} (ARCHITECTURE.md)"
                ));
            }
        }
    }
    findings
}

pub fn io_reached(metadata: &Metadata) -> Vec<String> {
    let deciding = metadata
        .ours()
        .filter(|(_, folder)| DECIDING.contains(folder));
    deciding
        .flat_map(|(package, folder)| {
            let linked = metadata.linked_into(package);
            let reached = IO.iter().filter(move |&&name| linked.contains(name));
            reached.map(move |name| {
                format!("crates/{folder}/Cargo.toml: {folder} reaches {name}, it only decides")
            })
        })
        .collect()
}

pub fn banned(metadata: &Metadata) -> Vec<String> {
    let names = metadata
        .packages
        .iter()
        .map(|package| package.name.as_str());
    names
        .filter(|name| BANNED.contains(name))
        .map(|name| format!("Cargo.lock: {name} is banned"))
        .collect()
}

pub fn duplicates(metadata: &Metadata) -> Vec<String> {
    let mut lines: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in &metadata.packages {
        if ONCE.contains(&package.name.as_str()) {
            lines
                .entry(&package.name)
                .or_default()
                .insert(compatible_line(&package.version));
        }
    }
    let twice = lines.into_iter().filter(|(_, versions)| versions.len() > 1);
    twice
        .map(|(name, versions)| format!("Cargo.lock: {name} comes more than once: {versions:?}"))
        .collect()
}

fn reachable<'a>(rows: &BTreeMap<&str, &'a CrateRow>, start: &str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![start];
    while let Some(name) = open.pop() {
        for used in rows.get(name).into_iter().flat_map(|row| &row.uses) {
            if seen.insert(used.as_str()) {
                open.push(used);
            }
        }
    }
    seen
}

/// The part of a version that a compatible update keeps: `1` of 1.2.3, `0.8` of 0.8.1, all of
/// 0.0.3.
fn compatible_line(version: &str) -> &str {
    let is_changed = |part: &str| part != "0";
    let Some(first) = version.split('.').position(is_changed) else {
        return version;
    };
    version
        .match_indices('.')
        .nth(first)
        .map_or(version, |(end, _)| &version[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::sample;
    use DependencyKind::{Build, Development, Normal};

    fn table(rows: &[(&str, &[&str])]) -> Vec<CrateRow> {
        let row = |&(name, uses): &(&str, &[&str])| CrateRow {
            name: name.to_owned(),
            uses: uses.iter().map(|&used| used.to_owned()).collect(),
        };
        rows.iter().map(row).collect()
    }

    #[test]
    fn only_the_table_s_direction_is_allowed() {
        let table = table(&[
            ("protocol", &[]),
            ("engine", &["protocol"]),
            ("runtime", &["engine"]),
            ("server", &["runtime"]),
            ("testkit", &["server"]),
        ]);
        let names = [
            "codelab-protocol",
            "codelab-engine",
            "codelab-runtime",
            "codelab-server",
            "codelab-testkit",
            "serde",
        ];
        let cases = [
            ("codelab-server", "codelab-runtime", Normal, true),
            ("codelab-server", "codelab-protocol", Normal, true),
            ("codelab-protocol", "serde", Normal, true),
            ("codelab-engine", "codelab-runtime", Normal, false),
            ("codelab-engine", "codelab-runtime", Build, false),
            ("codelab-engine", "codelab-runtime", Development, false),
            ("codelab-server", "codelab-testkit", Development, true),
            ("codelab-server", "codelab-testkit", Normal, false),
            ("codelab-engine", "codelab-testkit", Development, false),
        ];
        for (from, to, kind, is_allowed) in cases {
            let found = direction(&sample(&names, &[(from, to, kind)]), &table);
            assert_eq!(
                found.is_empty(),
                is_allowed,
                "{from} -> {to} {kind:?}: {found:?}"
            );
        }
        let found = direction(&sample(&["codelab-unknown"], &[]), &table);
        assert_eq!(
            found,
            ["crates/unknown/Cargo.toml: the crate has no row in ARCHITECTURE.md"]
        );
    }

    #[test]
    fn io_is_found_through_other_crates_but_not_through_their_tests() {
        let names = ["codelab-engine", "codelab-server", "middle", "tokio"];
        let found = io_reached(&sample(
            &names,
            &[
                ("codelab-engine", "middle", Normal),
                ("middle", "tokio", Normal),
            ],
        ));
        assert_eq!(
            found,
            ["crates/engine/Cargo.toml: engine reaches tokio, it only decides"]
        );
        let allowed = [
            ("codelab-engine", "middle", Normal),
            ("middle", "tokio", Development),
        ];
        assert!(io_reached(&sample(&names, &allowed)).is_empty());
        assert!(io_reached(&sample(&names, &[("codelab-server", "tokio", Normal)])).is_empty());
    }

    #[test]
    fn a_banned_crate_is_found() {
        assert_eq!(
            banned(&sample(&["serde", "native-tls"], &[])),
            ["Cargo.lock: native-tls is banned"]
        );
    }

    #[test]
    fn two_incompatible_versions_are_found() {
        for (first, second, is_refused) in [
            ("1.2.3", "1.9.0", false),
            ("1.2.3", "2.0.0", true),
            ("0.7.1", "0.8.0", true),
            ("0.8.0", "0.8.9", false),
            ("0.0.3", "0.0.4", true),
        ] {
            let mut metadata = sample(&["axum", "axum"], &[]);
            metadata.packages[0].version = first.to_owned();
            metadata.packages[1].version = second.to_owned();
            assert_eq!(
                !duplicates(&metadata).is_empty(),
                is_refused,
                "{first} and {second}"
            );
        }
    }
}
