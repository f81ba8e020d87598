//! The audit log as a chain: whole, tampered with, and after a purge.

use codelab_protocol::arguments_digest;
use codelab_store::audit_chain::{self, Break, BrokenAt};
use codelab_store::{AuditAppended, AuditHead, AuditRecord, Commit, Realm, SessionKey, StoreError};
use serde_json::json;

use crate::harness::{FIRST, Harness, at, call, id};

fn record(n: u64) -> AuditRecord {
    let arguments = |text: &str| json!({"path": text}).as_object().unwrap().clone();
    let (original, modified) = (arguments("a.py"), n.is_multiple_of(2).then(|| arguments("b.py")));
    AuditRecord {
        call_id: call(&format!("c{n}")),
        tool_name: "write_file".to_owned(),
        original_digest: arguments_digest("write_file", &original),
        original_args: Some(original),
        modified_digest: modified.as_ref().map(|modified| arguments_digest("write_file", modified)),
        modified_args: modified,
        decision: "approve".to_owned(),
        decided_by: "7".to_owned(),
        reason: (n == 3).then(|| "because\0".to_owned()),
        timestamp: at(n as i64),
    }
}

fn appended(name: &str, head: &AuditHead, count: u64) -> AuditAppended {
    let (mut rows, mut head) = (Vec::new(), head.clone());
    for _ in 0..count {
        rows.push(audit_chain::append(&head, Realm::Runtime, &id(name), record(head.count + 1)));
        head = audit_chain::head_of(rows.last().unwrap());
    }
    AuditAppended { realm: Realm::Runtime, session_id: id(name), rows, head }
}

/// Two commits: the second one follows the stored head.
async fn session_with_log(harness: &Harness, name: &str) -> SessionKey {
    let key = harness.session(name).await;
    for count in [1, 3] {
        let head = harness.store.audit_head(key).await.unwrap().unwrap_or_else(audit_chain::genesis);
        let mut commit = Commit::new(key, FIRST);
        commit.audit = Some(appended(name, &head, count));
        harness.store.commit(commit).await.unwrap();
    }
    key
}

async fn verify(harness: &Harness, name: &str, key: SessionKey) -> Result<(), BrokenAt> {
    harness.store.verify_audit(key, Realm::Runtime, &id(name)).await.unwrap().map(drop)
}

pub async fn a_whole_log_verifies_and_outlives_its_session(harness: Harness) -> Harness {
    let silent = harness.session("silent").await;
    let (first, second) = (session_with_log(&harness, "one").await, session_with_log(&harness, "two").await);
    verify(&harness, "silent", silent).await.unwrap();
    verify(&harness, "one", first).await.unwrap();
    let rows = harness.store.audit(first, None).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.record.clone()).collect::<Vec<_>>(), (1..=4).map(record).collect::<Vec<_>>());

    harness.store.purge(first).await.unwrap();
    verify(&harness, "one", first).await.unwrap();
    let rows = harness.store.audit(first, None).await.unwrap();
    assert!(rows.iter().all(|row| row.record.original_args.is_none() && row.record.modified_args.is_none()));

    let mut named = Vec::new();
    let mut after = None;
    while let [session] = harness.store.audit_sessions(after, 1).await.unwrap().as_slice() {
        after = Some(session.key);
        named.push((session.key, session.name.clone().unwrap().1.to_string()));
    }
    let mut expected = vec![(first, "one".to_owned()), (second, "two".to_owned())];
    expected.sort();
    assert_eq!(named, expected);
    harness
}

pub async fn every_kind_of_tampering_is_seen(harness: Harness) -> Harness {
    let set =
        |change: &str, ord: u64| format!("UPDATE audit_logs SET {change} WHERE session_key = $key AND ord = {ord}");
    let cases = [
        (set("decision = 'reject'", 2), 2, Break::Hash),
        (set("decided_by = '8'", 1), 1, Break::Hash),
        (set("tool_name = 'read_file'", 1), 1, Break::Hash),
        (set("call_id = 'c9'", 4), 4, Break::Hash),
        (set("reason = NULL", 3), 3, Break::Hash),
        (set("reason = 'so'", 1), 1, Break::Hash),
        (set("timestamp = timestamp + 1", 4), 4, Break::Hash),
        (set("original_digest = modified_digest", 2), 2, Break::Hash),
        (set("modified_digest = NULL", 2), 2, Break::Hash),
        (set("hash = original_digest", 2), 2, Break::Hash),
        (set("original_args = '{\"path\":\"evil\"}'", 2), 2, Break::OriginalArguments),
        (set("modified_args = '{\"path\":\"evil\"}'", 2), 2, Break::ModifiedArguments),
        (set("modified_args = '{}'", 1), 1, Break::ModifiedArguments),
        ("DELETE FROM audit_logs WHERE session_key = $key AND ord = 2".to_owned(), 2, Break::Missing),
        ("DELETE FROM audit_logs WHERE session_key = $key AND ord = 1".to_owned(), 1, Break::Missing),
        (set("ord = 0", 4), 1, Break::Missing),
        ("DELETE FROM audit_logs WHERE session_key = $key AND ord = 4".to_owned(), 4, Break::TailCut),
        ("DELETE FROM audit_logs WHERE session_key = $key".to_owned(), 1, Break::TailCut),
        ("UPDATE audit_heads SET count = 3 WHERE session_key = $key".to_owned(), 4, Break::NotCounted),
        ("UPDATE audit_heads SET head = 'x' WHERE session_key = $key".to_owned(), 4, Break::Head),
        ("DELETE FROM audit_heads WHERE session_key = $key".to_owned(), 4, Break::HeadMissing),
    ];
    for (n, (sql, ord, why)) in cases.into_iter().enumerate() {
        let name = format!("t{n}");
        let key = session_with_log(&harness, &name).await;
        verify(&harness, &name, key).await.unwrap();
        harness.tamper(&sql.replace("$key", &key.to_string())).await;
        assert_eq!(verify(&harness, &name, key).await, Err(BrokenAt { ord, why }), "{sql}");
        // A check of the whole database comes past this session whatever was removed.
        let listed = harness.store.audit_sessions(None, 100).await.unwrap();
        assert!(listed.iter().any(|session| session.key == key && session.name.is_some()), "{sql}");
    }
    // A whole log under another name is not that session's log.
    let key = session_with_log(&harness, "own").await;
    assert_eq!(verify(&harness, "foreign", key).await, Err(BrokenAt { ord: 1, why: Break::Hash }));
    harness
}

pub async fn a_long_log_is_read_in_parts(harness: Harness) -> Harness {
    let key = harness.session("long").await;
    let (mut rows, mut head) = (Vec::new(), audit_chain::genesis());
    for n in 1..=5 {
        let record = AuditRecord { reason: Some("r".repeat(40_000)), ..record(n) };
        rows.push(audit_chain::append(&head, Realm::Runtime, &id("long"), record));
        head = audit_chain::head_of(rows.last().unwrap());
    }
    let mut commit = Commit::new(key, FIRST);
    commit.audit = Some(AuditAppended { realm: Realm::Runtime, session_id: id("long"), rows, head });
    harness.store.commit(commit).await.unwrap();
    let first: Vec<_> = harness.store.audit(key, None).await.unwrap().iter().map(|row| row.ord).collect();
    assert_eq!(first, [1, 2], "no more than fit");
    verify(&harness, "long", key).await.unwrap();
    harness.tamper(&format!("UPDATE audit_logs SET reason = 'x' WHERE session_key = {key} AND ord = 5")).await;
    assert_eq!(verify(&harness, "long", key).await, Err(BrokenAt { ord: 5, why: Break::Hash }));
    harness
}

pub async fn two_writers_cannot_fork_the_chain(harness: Harness) -> Harness {
    let key = session_with_log(&harness, "forked").await;
    for (claimed, count) in [(0, 1), (3, 1), (5, 1)] {
        let mut head = harness.store.audit_head(key).await.unwrap().unwrap();
        head.count = claimed;
        let mut commit = Commit::new(key, FIRST);
        commit.audit = Some(appended("forked", &head, count));
        assert_eq!(harness.store.commit(commit).await, Err(StoreError::Conflict), "{claimed}");
    }
    verify(&harness, "forked", key).await.unwrap();
    harness
}
