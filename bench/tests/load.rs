//! The load harness works: every workload runs once, with small amounts, on the available database.
//! The measured values mean nothing here.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

/// One row each, whatever it says.
const ROWS: [&str; 19] = [
    "cold start to healthy",
    "resident memory, idle",
    "W1 plain turn, fresh session, C=1 ",
    "W1 plain turn, fresh session, C=16 ",
    "W1 plain turn, fresh session, C=16: own processor time for a turn",
    "W1 plain turn, fresh session, C=64 ",
    "W2 plain turn, 64 sessions with history, C=16 ",
    "W2 plain turn, 64 sessions with history, C=64 ",
    "W3 tool turn",
    "W5 a token each 15 ms, C=64: first token at P95",
    "W5 a token each 15 ms, C=64: own processor time for a turn",
    "W4 20 turns at once",
    "W4 memory for a turn in flight",
    "W6 memory for an idle event stream",
    "W6 100 events/s to 5 readers each, P99",
    "W7 plan of 10 tasks",
    "W8 memory search among 300",
    "turns/s on session number 200",
    "turns/s on message number 40 of one session",
];

/// The same for two servers.
const FORWARDED_ROWS: [&str; 7] = [
    "plain turn, C=1: a turn at P50",
    "plain turn, C=1: processor time for a turn",
    "plain turn, C=16: processor time for a turn",
    "plain turn, 200 a second: a turn at P50",
    "plain turn, 200 a second: processor time for a turn",
    "a token each 15 ms, 64 turns a second: a turn at P50",
    "a token each 15 ms, 64 turns a second: processor time for a turn",
];

#[test]
fn the_quick_form_fills_its_whole_table_on_both_databases() {
    let said = quick(&[]);
    // Whoever reads the figures must know which limits were off.
    assert!(
        said.contains("CODELAB_LIMITS__USER_REQUESTS_PER_SECOND=0"),
        "{said}"
    );
    for database in ["SQLite", "PostgreSQL"] {
        has_rows(&said, database, &ROWS);
    }
}

#[test]
fn the_quick_form_shows_what_forwarding_costs() {
    has_rows(&quick(&["--servers", "2"]), "PostgreSQL", &FORWARDED_ROWS);
}

/// What a quick run prints.
fn quick(arguments: &[&str]) -> String {
    let load = Path::new(env!("CARGO_BIN_EXE_load"));
    let program = load.with_file_name("codelab");
    assert!(
        program.is_file(),
        "{} is not built: cargo build --workspace",
        program.display()
    );
    let folder = tempfile::tempdir().unwrap();
    let run = Command::new(load)
        .args(["--quick", "--dir"])
        .arg(folder.path())
        .args(arguments)
        .output()
        .unwrap();
    let (said, complaints) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    assert!(run.status.success(), "{said}\n{complaints}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert!(left.is_empty(), "a run leaves nothing behind: {left:?}");
    said.into_owned()
}

fn has_rows(said: &str, database: &str, rows: &[&str]) {
    let table = said
        .split("\n\n")
        .find(|table| table.trim_start().starts_with(&format!("| {database} |")));
    let table = table.unwrap_or_else(|| panic!("no table for {database}: {said}"));
    for row in rows {
        assert!(
            table.contains(&format!("| {row}")),
            "{database} has no row {row:?}: {table}"
        );
    }
}
