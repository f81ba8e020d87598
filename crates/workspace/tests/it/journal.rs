//! The journal after crashes: a complete record counts, a torn one does not, and nothing runs
//! twice.

use std::fs;

use codelab_protocol::{CallId, Digest, SessionId, Tool};
use codelab_workspace::{CallKey, Journal, JournalClaim, JournalError};
use serde_json::json;

fn key(call: &str) -> CallKey {
    CallKey {
        session_id: SessionId::parse("s").unwrap(),
        call_id: CallId::parse(call).unwrap(),
    }
}

fn claim() -> JournalClaim {
    JournalClaim {
        tool: Tool::ExecuteCommand.into(),
        digest: Digest::of_bytes(b"x"),
    }
}

fn names(calls: &[codelab_workspace::UnfinishedCall]) -> Vec<&str> {
    calls.iter().map(|call| call.key.call_id.as_str()).collect()
}

#[test]
fn a_restart_finds_every_call_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    for call in ["claimed", "started", "finished", "acknowledged"] {
        journal.claim(&key(call), claim()).unwrap();
    }
    for call in ["started", "finished", "acknowledged"] {
        journal.start(&key(call)).unwrap();
    }
    for call in ["finished", "acknowledged"] {
        journal
            .finish(&key(call), json!({"success": true, "stdout": "ж\n"}))
            .unwrap();
    }
    journal.acknowledge(&key("acknowledged")).unwrap();
    assert!(
        journal.unknown().is_empty(),
        "what this process started is not unknown to it"
    );
    drop(journal);
    // Twice, because opening the journal rewrites the file.
    for _ in 0..2 {
        let journal = Journal::open(folder.path()).unwrap();
        assert_eq!(names(&journal.unknown()), ["started"]);
        assert_eq!(names(&journal.unstarted()), ["claimed"]);
        assert_eq!(
            journal.unsent(),
            [(key("finished"), json!({"success": true, "stdout": "ж\n"}))]
        );
        assert_eq!(journal.unknown()[0].claim, claim());
        for call in ["claimed", "started", "finished", "acknowledged"] {
            assert!(
                matches!(
                    journal.claim(&key(call), claim()),
                    Err(JournalError::Known { .. })
                ),
                "{call}"
            );
        }
        for call in ["started", "finished", "acknowledged"] {
            assert!(
                matches!(
                    journal.start(&key(call)),
                    Err(JournalError::OutOfOrder { .. })
                ),
                "{call} would run twice"
            );
        }
        assert!(
            journal.finish(&key("started"), json!(1)).is_err(),
            "nobody saw it finish"
        );
    }
    let journal = Journal::open(folder.path()).unwrap();
    journal.acknowledge(&key("started")).unwrap();
    journal.acknowledge(&key("finished")).unwrap();
    drop(journal);
    let journal = Journal::open(folder.path()).unwrap();
    assert!(journal.unknown().is_empty() && journal.unsent().is_empty());
}

#[test]
fn a_crash_at_every_byte_leaves_a_readable_journal() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    journal.claim(&key("a"), claim()).unwrap();
    journal.start(&key("a")).unwrap();
    journal.finish(&key("a"), json!({"success": true})).unwrap();
    drop(journal);
    let whole = fs::read(folder.path().join("calls.journal")).unwrap();
    let ends: Vec<usize> = whole
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at + 1)
        .collect();
    assert_eq!(ends.len(), 3);
    for length in 0..=whole.len() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("calls.journal"), &whole[..length]).unwrap();
        let journal = Journal::open(folder.path()).unwrap();
        let found = (
            journal.unstarted().len(),
            journal.unknown().len(),
            journal.unsent().len(),
        );
        let expected = match ends.iter().filter(|end| **end <= length).count() {
            0 => (0, 0, 0),
            1 => (1, 0, 0),
            2 => (0, 1, 0),
            _ => (0, 0, 1),
        };
        assert_eq!(found, expected, "cut to {length} bytes");
        // New records can be added.
        journal.claim(&key("b"), claim()).unwrap();
        drop(journal);
        assert!(
            names(&Journal::open(folder.path()).unwrap().unstarted()).contains(&"b"),
            "cut to {length} bytes"
        );
    }
}

#[test]
fn damage_is_told_and_not_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.journal");
    let journal = Journal::open(folder.path()).unwrap();
    journal.claim(&key("a"), claim()).unwrap();
    journal.start(&key("a")).unwrap();
    drop(journal);
    let mut bytes = fs::read(&path).unwrap();
    bytes[30] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(matches!(
        Journal::open(folder.path()),
        Err(JournalError::Damaged { line: 1, .. })
    ));
}

#[test]
fn two_processes_do_not_share_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let first = Journal::open(folder.path()).unwrap();
    assert!(matches!(
        Journal::open(folder.path()),
        Err(JournalError::InUse { .. })
    ));
    drop(first);
    Journal::open(folder.path()).unwrap();
}

#[test]
fn the_journal_stays_small() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    for number in 0..1000 {
        journal
            .claim(&key(&format!("open-{number}")), claim())
            .unwrap();
    }
    assert!(matches!(
        journal.claim(&key("one-more"), claim()),
        Err(JournalError::Full)
    ));
    for number in 0..1000 {
        journal
            .acknowledge(&key(&format!("open-{number}")))
            .unwrap();
    }
    for number in 0..100 {
        let key = key(&format!("next-{number}"));
        journal.claim(&key, claim()).unwrap();
        journal.start(&key).unwrap();
        journal.finish(&key, json!("x".repeat(10_000))).unwrap();
        journal.acknowledge(&key).unwrap();
    }
    drop(journal);
    let journal = Journal::open(folder.path()).unwrap();
    assert!(
        fs::metadata(folder.path().join("calls.journal"))
            .unwrap()
            .len()
            < 1024 * 1024
    );
    assert!(
        journal.claim(&key("next-99"), claim()).is_err(),
        "the latest are remembered"
    );
    assert!(
        journal.claim(&key("open-0"), claim()).is_ok(),
        "the oldest are not"
    );
}

#[test]
fn a_large_backlog_is_rewritten_while_it_grows() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    for number in 0..80 {
        let key = key(&format!("{number}"));
        journal.claim(&key, claim()).unwrap();
        journal.start(&key).unwrap();
        journal
            .finish(&key, json!("x".repeat(1024 * 1024)))
            .unwrap();
        journal.acknowledge(&key).unwrap();
    }
    assert!(
        fs::metadata(folder.path().join("calls.journal"))
            .unwrap()
            .len()
            < 40 * 1024 * 1024
    );
}

#[test]
fn a_released_call_can_be_claimed_again_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path()).unwrap();
    for name in ["claimed", "started"] {
        journal.claim(&key(name), claim()).unwrap();
    }
    journal.start(&key("started")).unwrap();
    for name in ["claimed", "started"] {
        journal.release(&key(name)).unwrap();
        assert!(!journal.knows(&key(name)), "{name}");
    }
    assert!(journal.release(&key("claimed")).is_err(), "it is gone");
    drop(journal);
    let journal = Journal::open(folder.path()).unwrap();
    assert!(journal.unknown().is_empty() && journal.unstarted().is_empty());
    journal.claim(&key("started"), claim()).unwrap();
    journal.start(&key("started")).unwrap();
    journal
        .finish(&key("started"), json!({"success": true}))
        .unwrap();
    assert!(journal.release(&key("started")).is_err(), "it has run");
}
