//! The audit log as a chain: whole, tampered with, and after a purge.

use codelab_protocol::{SessionKind, arguments_digest};
use codelab_store::audit_chain::{self, AuditKey, BrokenAt, ChainBreak, ChainOwner, Verified};
use codelab_store::{
    AuditAppended, AuditHead, AuditRecord, AuditRow, AuditSealed, Commit, SessionKey, Store,
    StoreError,
};
use serde_json::json;

use crate::harness::{FIRST, Harness, at, audit_key, call, id};

fn record(n: u64) -> AuditRecord {
    let arguments = |text: &str| json!({"path": text}).as_object().unwrap().clone();
    let reason = (n == 3).then(|| "because\0".to_owned());
    let (original, modified) = (
        arguments("a.py"),
        n.is_multiple_of(2).then(|| arguments("b.py")),
    );
    AuditRecord {
        call_id: call(&format!("c{n}")),
        tool_name: "write_file".to_owned(),
        original_digest: arguments_digest("write_file", &original),
        original_args: Some(original),
        modified_digest: modified
            .as_ref()
            .map(|modified| arguments_digest("write_file", modified)),
        modified_args: modified,
        decision: "APPROVE".to_owned(),
        decided_by: "7".to_owned(),
        reason_digest: reason.as_deref().map(AuditRecord::digest_of_reason),
        reason,
        timestamp: at(n as i64),
    }
}

fn with_chain<T>(key: SessionKey, name: &str, work: impl FnOnce(ChainOwner<'_>) -> T) -> T {
    work(ChainOwner {
        key,
        kind: SessionKind::Runtime,
        session_id: &id(name),
    })
}

fn appended(
    key: SessionKey,
    name: &str,
    head: &AuditHead,
    records: Vec<AuditRecord>,
) -> AuditAppended {
    with_chain(key, name, |of| {
        let (mut rows, mut head) = (Vec::new(), head.clone());
        for record in records {
            let row = audit_chain::append(&audit_key(), &head, of, record);
            head = audit_chain::head_after(&head, &row);
            rows.push(row);
        }
        let seal = audit_chain::seal(&audit_key(), of, &head);
        AuditAppended {
            kind: SessionKind::Runtime,
            session_id: id(name),
            rows,
            head,
            seal,
        }
    })
}

fn records(head: &AuditHead, count: u64) -> Vec<AuditRecord> {
    (1..=count).map(|n| record(head.count + n)).collect()
}

async fn head_of(store: &Store, name: &str, key: SessionKey) -> Option<AuditHead> {
    let session_id = id(name);
    store
        .audit_head(ChainOwner {
            key,
            kind: SessionKind::Runtime,
            session_id: &session_id,
        })
        .await
        .unwrap()
}

async fn decide(harness: &Harness, name: &str, key: SessionKey, count: u64) {
    let head = head_of(&harness.store, name, key)
        .await
        .unwrap_or_else(audit_chain::genesis);
    let mut commit = Commit::new(key, FIRST);
    commit.audit = Some(appended(key, name, &head, records(&head, count)));
    harness.store.commit(commit).await.unwrap();
}

/// Two commits: the second one follows the stored head.
async fn session_with_log(harness: &Harness, name: &str) -> SessionKey {
    let key = harness.session(name).await;
    for count in [1, 3] {
        decide(harness, name, key, count).await;
    }
    key
}

/// Four decisions as they were stored before the key existed.
async fn session_with_old_log(harness: &Harness, name: &str) -> SessionKey {
    let key = harness.session(name).await;
    let mut head = audit_chain::genesis();
    let rows: Vec<AuditRow> = (1..=4)
        .map(|ord| {
            with_chain(key, name, |of| {
                let record = AuditRecord {
                    decision: "approve".to_owned(),
                    reason_digest: None,
                    ..record(ord)
                };
                let hash = audit_chain::plain_hash(&head.head, of, ord, &record);
                let row = AuditRow { ord, record, hash };
                head = audit_chain::head_after(&head, &row);
                row
            })
        })
        .collect();
    let mut commit = Commit::new(key, FIRST);
    commit.audit = Some(AuditAppended {
        kind: SessionKind::Runtime,
        session_id: id(name),
        rows,
        head,
        seal: None,
    });
    harness.store.commit(commit).await.unwrap();
    harness
        .tamper(&format!(
            "UPDATE audit_heads SET keyed_from = NULL WHERE session_key = {key}"
        ))
        .await;
    key
}

async fn verified(store: &Store, name: &str, key: SessionKey) -> Result<Verified, BrokenAt> {
    let session_id = id(name);
    store
        .verify_audit(ChainOwner {
            key,
            kind: SessionKind::Runtime,
            session_id: &session_id,
        })
        .await
        .unwrap()
}

async fn verify(harness: &Harness, name: &str, key: SessionKey) -> Result<(), BrokenAt> {
    verified(&harness.store, name, key).await.map(drop)
}

pub async fn a_whole_log_verifies_and_outlives_its_session(harness: Harness) -> Harness {
    let silent = harness.session("silent").await;
    let (first, second) = (
        session_with_log(&harness, "one").await,
        session_with_log(&harness, "two").await,
    );
    verify(&harness, "silent", silent).await.unwrap();
    verify(&harness, "one", first).await.unwrap();
    let rows = harness.store.audit(first, None).await.unwrap();
    assert_eq!(
        rows.iter()
            .map(|row| row.record.clone())
            .collect::<Vec<_>>(),
        (1..=4).map(record).collect::<Vec<_>>()
    );

    harness.store.purge(first).await.unwrap();
    verify(&harness, "one", first).await.unwrap();
    let rows = harness.store.audit(first, None).await.unwrap();
    assert!(
        rows.iter()
            .all(|row| row.record.original_args.is_none() && row.record.modified_args.is_none())
    );
    assert!(
        rows.iter().all(|row| row.record.reason.is_none()),
        "what people wrote is gone"
    );

    let mut named = Vec::new();
    let mut after = None;
    while let [session] = harness
        .store
        .audit_sessions(after, 1)
        .await
        .unwrap()
        .as_slice()
    {
        after = Some(session.key);
        named.push((session.key, session.name.clone().unwrap().1.to_string()));
    }
    let mut expected = vec![(first, "one".to_owned()), (second, "two".to_owned())];
    expected.sort();
    assert_eq!(named, expected);
    harness
}

const CUT: &str = "DELETE FROM audit_logs WHERE session_key = $key AND ord = 4; UPDATE audit_heads SET count = 3, \
     head = (SELECT hash FROM audit_logs WHERE session_key = $key AND ord = 3) WHERE session_key = $key";

pub async fn every_kind_of_tampering_is_seen(harness: Harness) -> Harness {
    let set = |change: &str, ord: u64| {
        format!("UPDATE audit_logs SET {change} WHERE session_key = $key AND ord = {ord}")
    };
    let cases = [
        (set("decision = 'REJECT'", 2), 2, ChainBreak::Hash),
        (set("decided_by = '8'", 1), 1, ChainBreak::Hash),
        (set("tool_name = 'read_file'", 1), 1, ChainBreak::Hash),
        (set("call_id = 'c9'", 4), 4, ChainBreak::Hash),
        (set("reason_digest = NULL", 3), 3, ChainBreak::Hash),
        (set("reason = 'so'", 3), 3, ChainBreak::Reason),
        (set("reason = 'so'", 1), 1, ChainBreak::Reason),
        (set("timestamp = timestamp + 1", 4), 4, ChainBreak::Hash),
        (
            set("original_digest = modified_digest", 2),
            2,
            ChainBreak::Hash,
        ),
        (set("modified_digest = NULL", 2), 2, ChainBreak::Hash),
        (set("hash = original_digest", 2), 2, ChainBreak::Hash),
        (
            set("original_args = '{\"path\":\"evil\"}'", 2),
            2,
            ChainBreak::OriginalArguments,
        ),
        (
            set("modified_args = '{\"path\":\"evil\"}'", 2),
            2,
            ChainBreak::ModifiedArguments,
        ),
        (
            set("modified_args = '{}'", 1),
            1,
            ChainBreak::ModifiedArguments,
        ),
        (set("original_args = NULL", 3), 3, ChainBreak::Blanked),
        (set("modified_args = NULL", 2), 2, ChainBreak::Blanked),
        (
            set(
                "original_args = NULL, modified_args = NULL, reason = NULL",
                1,
            ),
            1,
            ChainBreak::Blanked,
        ),
        (
            "DELETE FROM audit_logs WHERE session_key = $key AND ord = 2".to_owned(),
            2,
            ChainBreak::Missing,
        ),
        (
            "DELETE FROM audit_logs WHERE session_key = $key AND ord = 1".to_owned(),
            1,
            ChainBreak::Missing,
        ),
        (set("ord = 0", 4), 1, ChainBreak::Missing),
        (
            "DELETE FROM audit_logs WHERE session_key = $key AND ord = 4".to_owned(),
            4,
            ChainBreak::TailCut,
        ),
        (
            "DELETE FROM audit_logs WHERE session_key = $key".to_owned(),
            1,
            ChainBreak::TailCut,
        ),
        (
            "UPDATE audit_heads SET count = 3 WHERE session_key = $key".to_owned(),
            4,
            ChainBreak::NotCounted,
        ),
        (
            "UPDATE audit_heads SET head = 'x' WHERE session_key = $key".to_owned(),
            4,
            ChainBreak::Head,
        ),
        (
            "DELETE FROM audit_heads WHERE session_key = $key".to_owned(),
            4,
            ChainBreak::HeadMissing,
        ),
        (
            "UPDATE audit_heads SET seal = NULL WHERE session_key = $key".to_owned(),
            4,
            ChainBreak::Head,
        ),
        (
            "UPDATE audit_heads SET seal = head WHERE session_key = $key".to_owned(),
            4,
            ChainBreak::Head,
        ),
        // Cut off, with everything that can be computed without the key.
        (CUT.to_owned(), 3, ChainBreak::Head),
        // As if all of it was from before the key existed.
        (
            "UPDATE audit_heads SET keyed_from = 5 WHERE session_key = $key".to_owned(),
            1,
            ChainBreak::Hash,
        ),
    ];
    for (n, (sql, ord, why)) in cases.into_iter().enumerate() {
        let name = format!("t{n}");
        let key = session_with_log(&harness, &name).await;
        verify(&harness, &name, key).await.unwrap();
        harness.tamper(&sql.replace("$key", &key.to_string())).await;
        assert_eq!(
            verify(&harness, &name, key).await,
            Err(BrokenAt { ord, why }),
            "{sql}"
        );
        // A check of the whole database reaches this session, whatever was removed.
        let listed = harness.store.audit_sessions(None, 100).await.unwrap();
        assert!(
            listed
                .iter()
                .any(|session| session.key == key && session.name.is_some()),
            "{sql}"
        );
    }
    // A complete log under another name is not that session's log.
    let key = session_with_log(&harness, "own").await;
    assert_eq!(
        verify(&harness, "foreign", key).await,
        Err(BrokenAt {
            ord: 1,
            why: ChainBreak::Hash
        })
    );
    harness
}

pub async fn a_long_log_is_read_in_parts(harness: Harness) -> Harness {
    let key = harness.session("long").await;
    let reason = "r".repeat(40_000);
    let reason_digest = Some(AuditRecord::digest_of_reason(&reason));
    let long = |n| AuditRecord {
        reason: Some(reason.clone()),
        reason_digest: reason_digest.clone(),
        ..record(n)
    };
    let mut commit = Commit::new(key, FIRST);
    commit.audit = Some(appended(
        key,
        "long",
        &audit_chain::genesis(),
        (1..=5).map(long).collect(),
    ));
    harness.store.commit(commit).await.unwrap();
    let first: Vec<_> = harness
        .store
        .audit(key, None)
        .await
        .unwrap()
        .iter()
        .map(|row| row.ord)
        .collect();
    assert_eq!(first, [1, 2], "no more than fit");
    verify(&harness, "long", key).await.unwrap();
    harness
        .tamper(&format!(
            "UPDATE audit_logs SET reason = 'x' WHERE session_key = {key} AND ord = 5"
        ))
        .await;
    assert_eq!(
        verify(&harness, "long", key).await,
        Err(BrokenAt {
            ord: 5,
            why: ChainBreak::Reason
        })
    );
    harness
}

pub async fn two_writers_cannot_fork_the_chain(harness: Harness) -> Harness {
    let key = session_with_log(&harness, "forked").await;
    for (claimed, count) in [(0, 1), (3, 1), (5, 1)] {
        let mut head = head_of(&harness.store, "forked", key).await.unwrap();
        head.count = claimed;
        let mut commit = Commit::new(key, FIRST);
        commit.audit = Some(appended(key, "forked", &head, records(&head, count)));
        assert_eq!(
            harness.store.commit(commit).await,
            Err(StoreError::Conflict),
            "{claimed}"
        );
    }
    verify(&harness, "forked", key).await.unwrap();
    harness
}

pub async fn chains_from_before_the_key_are_sealed_once(harness: Harness) -> Harness {
    let store = &harness.store;
    let (old, plain) = (
        session_with_old_log(&harness, "old").await,
        session_with_old_log(&harness, "plain").await,
    );
    assert_eq!(store.audit_sealed().await.unwrap(), None);
    assert_eq!(
        verify(&harness, "old", old).await,
        Err(BrokenAt {
            ord: 4,
            why: ChainBreak::Head
        }),
        "not sealed yet"
    );
    assert_eq!(
        store.seal_audit(false, at(9)).await.unwrap(),
        AuditSealed::Now { chains: 2 }
    );
    assert_eq!(
        store.seal_audit(false, at(10)).await.unwrap(),
        AuditSealed::Before
    );
    decide(&harness, "old", old, 2).await;
    assert_eq!(
        verified(store, "old", old).await,
        Ok(Verified {
            count: 6,
            unkeyed: 4
        })
    );
    assert_eq!(
        verified(store, "plain", plain).await,
        Ok(Verified {
            count: 4,
            unkeyed: 4
        })
    );
    let new = session_with_log(&harness, "new").await;
    assert_eq!(
        verified(store, "new", new).await,
        Ok(Verified {
            count: 4,
            unkeyed: 0
        })
    );

    // Anybody can compute their plain hashes, but the seal, or the first keyed row, covers the last
    // of them.
    for (name, key, ord, why) in [
        ("old", old, 5, ChainBreak::Hash),
        ("plain", plain, 4, ChainBreak::Head),
    ] {
        let (mut head, mut forged) = (audit_chain::genesis(), String::new());
        for row in store.audit(key, None).await.unwrap().into_iter().take(4) {
            let record = AuditRecord {
                decided_by: "somebody".to_owned(),
                ..row.record
            };
            let hash = with_chain(key, name, |of| {
                audit_chain::plain_hash(&head.head, of, row.ord, &record)
            });
            let change = format!("decided_by = 'somebody', hash = '{hash}'");
            forged += &format!(
                "UPDATE audit_logs SET {change} WHERE session_key = {key} AND ord = {}; ",
                row.ord
            );
            head = audit_chain::head_after(
                &head,
                &AuditRow {
                    ord: row.ord,
                    record,
                    hash,
                },
            );
        }
        if name == "plain" {
            forged += &format!(
                "UPDATE audit_heads SET head = '{}' WHERE session_key = {key}",
                head.head
            );
        }
        harness.tamper(&forged).await;
        assert_eq!(
            verify(&harness, name, key).await,
            Err(BrokenAt { ord, why }),
            "{name}"
        );
    }
    harness
}

/// An attacker with write access makes the database look as if the upgrade had not happened yet.
pub async fn an_installation_that_has_sealed_does_not_seal_again(harness: Harness) -> Harness {
    let store = &harness.store;
    assert_eq!(
        store.seal_audit(false, at(1)).await.unwrap(),
        AuditSealed::Now { chains: 0 }
    );
    let key = session_with_old_log(&harness, "forged").await;
    harness.tamper("DELETE FROM audit_seals").await;
    assert_eq!(
        store.seal_audit(true, at(2)).await.unwrap(),
        AuditSealed::NotAgain
    );
    assert_eq!(store.audit_sealed().await.unwrap(), None);
    // Rows that are added to it prove nothing about it.
    decide(&harness, "forged", key, 1).await;
    assert!(verify(&harness, "forged", key).await.is_err());
    harness
}

pub async fn another_key_verifies_nothing_and_is_known(harness: Harness) -> Harness {
    harness.store.seal_audit(false, at(1)).await.unwrap();
    let key = session_with_log(&harness, "keyed").await;
    let with = |audit_key| {
        Store::open_read_only(codelab_store::StoreOptions {
            audit_key,
            ..harness.options.clone()
        })
    };
    let other = with(Some(AuditKey::new(&[9; AuditKey::BYTES])))
        .await
        .unwrap();
    assert_eq!(
        other.audit_sealed().await.unwrap(),
        Some(AuditSealed::WithAnotherKey)
    );
    assert_eq!(
        verified(&other, "keyed", key).await,
        Err(BrokenAt {
            ord: 1,
            why: ChainBreak::Hash
        })
    );
    other.close().await;
    let none = with(None).await.unwrap();
    let session_id = id("keyed");
    let of = ChainOwner {
        key,
        kind: SessionKind::Runtime,
        session_id: &session_id,
    };
    assert!(matches!(
        none.verify_audit(of).await,
        Err(StoreError::Invalid(_))
    ));
    none.close().await;
    verify(&harness, "keyed", key).await.unwrap();
    harness
}
