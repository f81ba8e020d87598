//! The audit log and its key: what `codelab audit verify` sees, and what an upgrade makes of
//! decisions from before the key.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use codelab_fakemodel::Reply;
use codelab_server::{Flags, MasterKey, Settings};
use codelab_store::audit_chain::{self, ChainOwner};
use codelab_store::{AuditRecord, AuditRow, DatabaseUrl, Store, StoreOptions};
use rusqlite::Connection;
use serde_json::json;

use crate::lab::{Lab, to_coder};
use crate::process::{ran, refused, run};

/// A lab with decisions in two sessions.
async fn decided() -> Lab {
    let lab = Lab::start().await;
    lab.model.default_reply(Reply::text("Noted."));
    lab.model.on(
        |body| {
            body["messages"]
                .as_array()
                .is_some_and(|all| all.last().is_some_and(|last| last["role"] == "user"))
        },
        Reply::tool_call("write_file", json!({"path": "a.txt", "content": "x"})),
    );
    for session in ["one", "one", "two"] {
        decide(&lab, session).await;
    }
    lab
}

async fn decide(lab: &Lab, session: &str) {
    let asked = lab.send(&to_coder(session, "write it")).await;
    lab.approve(session, &asked.call_id()).await;
    lab.client()
        .cancel(&codelab_testkit::id(session), true)
        .await
        .unwrap();
}

fn database(lab: &Lab) -> Connection {
    Connection::open(lab.data_dir().join("codelab.db")).unwrap()
}

async fn verify(lab: &Lab, settings: &[(String, String)]) -> (bool, String) {
    let output = run(
        &[
            "audit",
            "verify",
            "--data-dir",
            lab.data_dir().to_str().unwrap(),
        ],
        settings,
    )
    .await;
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said)
}

#[tokio::test]
async fn decisions_are_chained_with_a_key_outside_the_database() {
    let mut lab = decided().await;
    let whole = (
        true,
        "audit log whole: 3 decisions in 2 sessions\n".to_owned(),
    );
    assert_eq!(verify(&lab, &[]).await, whole, "while the server runs");
    let rows = lab
        .client()
        .audit(&codelab_testkit::id("one"))
        .await
        .unwrap();
    assert!(
        rows.verified
            && rows
                .audit
                .iter()
                .all(|row| row.decision.as_str() == "APPROVE"),
        "{rows:?}"
    );
    let key_file = lab.data_dir().join("master.key");
    assert_eq!(
        std::fs::metadata(&key_file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let key = std::fs::read_to_string(&key_file).unwrap();
    assert!(
        key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "it can be guessed"
    );

    let backup = lab.home().join("backup.db");
    let said = ran(
        &[
            "backup",
            backup.to_str().unwrap(),
            "--data-dir",
            lab.data_dir().to_str().unwrap(),
        ],
        &[],
    )
    .await;
    assert!(
        said.contains("the master key is not in it") && said.contains("master.key"),
        "{said}"
    );
    let (copy, needle) = (std::fs::read(&backup).unwrap(), key.as_bytes());
    assert!(!copy.windows(needle.len()).any(|part| part == needle));

    // With everything that somebody can compute who has only the database.
    lab.kill().await;
    let cut = "DELETE FROM audit_logs WHERE ord = 2; UPDATE audit_heads SET count = 1, \
         head = (SELECT hash FROM audit_logs WHERE session_key = audit_heads.session_key AND ord = 1) WHERE count = 2";
    database(&lab).execute_batch(cut).unwrap();
    let (is_whole, said) = verify(&lab, &[]).await;
    assert!(
        !is_whole && said.contains("session one: the audit log is broken at row 1"),
        "{said}"
    );
    assert!(said.contains("broken: 1 of 2 sessions"), "{said}");
    lab.boot().await;
    let verified = async |session| {
        lab.client()
            .audit(&codelab_testkit::id(session))
            .await
            .unwrap()
            .verified
    };
    assert_eq!(
        (verified("one").await, verified("two").await),
        (false, true)
    );

    // The key itself, given instead of its file, and another one.
    lab.kill().await;
    std::fs::remove_file(&key_file).unwrap();
    let (_, said) = verify(&lab, &[]).await;
    assert!(
        said.contains("the master key is missing") && said.contains("master.key"),
        "{said}"
    );
    let given = |key: &str| [("CODELAB_MASTER_KEY".to_owned(), key.to_owned())];
    let (_, said) = verify(&lab, &given(&key)).await;
    assert!(said.contains("broken: 1 of 2 sessions"), "{said}");
    let (is_whole, said) = verify(&lab, &given("another")).await;
    assert!(
        !is_whole && said.contains("another master key") && said.contains("broken: 2 of 2"),
        "{said}"
    );
    lab.settings.extend(given(&key));
    lab.boot().await;
    assert!(
        !key_file.exists(),
        "a key that was given is written nowhere"
    );
}

/// Makes every chain what it was before there was a key: plain hashes over lower-case decisions,
/// and no seal.
async fn take_the_key_away(lab: &Lab) {
    let flags = Flags {
        data_dir: Some(lab.data_dir().to_owned()),
        ..Flags::default()
    };
    let settings = Settings::load(flags, std::iter::empty()).unwrap();
    let audit_key = Some(MasterKey::find(&settings).unwrap().unwrap().audit_key());
    let url = DatabaseUrl::SqliteFile(lab.data_dir().join("codelab.db"));
    let store = Store::open_read_only(StoreOptions {
        audit_key,
        ..StoreOptions::new(url)
    })
    .await
    .unwrap();
    let database = database(lab);
    for session in store.audit_sessions(None, 100).await.unwrap() {
        let (kind, session_id) = session.name.unwrap();
        let of = ChainOwner {
            key: session.key,
            kind,
            session_id: &session_id,
        };
        let mut head = audit_chain::genesis();
        for row in store.audit(session.key, None).await.unwrap() {
            let decision = row.record.decision.to_lowercase();
            let record = AuditRecord {
                decision: decision.clone(),
                reason_digest: None,
                ..row.record
            };
            let hash = audit_chain::plain_hash(&head.head, of, row.ord, &record);
            database
                .execute(
                    "UPDATE audit_logs SET decision = ?1, reason_digest = NULL, hash = ?2 \
                     WHERE session_key = ?3 AND ord = ?4",
                    (decision, hash.as_str(), session.key.get(), row.ord as i64),
                )
                .unwrap();
            head = audit_chain::head_after(
                &head,
                &AuditRow {
                    ord: row.ord,
                    record,
                    hash,
                },
            );
        }
        let change = "UPDATE audit_heads SET head = ?1, keyed_from = NULL, seal = NULL WHERE session_key = ?2";
        database
            .execute(change, (head.head.as_str(), session.key.get()))
            .unwrap();
    }
    database.execute("DELETE FROM audit_seals", []).unwrap();
    store.close().await;
}

#[tokio::test]
async fn decisions_from_before_the_key_are_sealed_once_and_named() {
    let mut lab = decided().await;
    lab.kill().await;
    let (sealed, old) = (
        lab.data_dir().join("audit-sealed"),
        lab.home().join("old.db"),
    );
    assert!(sealed.exists());
    take_the_key_away(&lab).await;
    let folder = lab.data_dir().to_str().unwrap().to_owned();
    ran(
        &["backup", old.to_str().unwrap(), "--data-dir", &folder],
        &[],
    )
    .await;

    // Somebody who writes to the database cannot have it sealed again.
    let complaint = refused(
        &["serve", "--addr", "127.0.0.1:0", "--data-dir", &folder],
        &lab.settings,
    )
    .await;
    assert!(
        complaint.contains("without the seal") && complaint.contains("audit-sealed"),
        "{complaint}"
    );
    let (_, said) = verify(&lab, &[]).await;
    assert!(
        said.contains("not sealed with the master key yet"),
        "{said}"
    );

    // A person who puts a backup from before the key back can.
    ran(
        &["restore", old.to_str().unwrap(), "--data-dir", &folder],
        &[],
    )
    .await;
    lab.boot().await;
    let audit = lab
        .client()
        .audit(&codelab_testkit::id("one"))
        .await
        .unwrap();
    assert!(
        audit.verified
            && audit
                .audit
                .iter()
                .all(|row| row.decision.as_str() == "APPROVE"),
        "{audit:?}"
    );
    decide(&lab, "one").await;
    let (is_whole, said) = verify(&lab, &[]).await;
    assert!(is_whole, "{said}");
    for line in [
        "session one: its first 2 decisions are unkeyed, from before there was a master key",
        "session two: its first 1 decisions are unkeyed, from before there was a master key",
        "audit log whole: 4 decisions in 2 sessions, 3 decisions unkeyed",
    ] {
        assert!(said.lines().any(|said| said == line), "{line}\n{said}");
    }

    // They can be changed no more than the others.
    lab.kill().await;
    database(&lab)
        .execute(
            "UPDATE audit_logs SET decided_by = 'somebody' WHERE ord = 1",
            [],
        )
        .unwrap();
    let (is_whole, said) = verify(&lab, &[]).await;
    assert!(
        !is_whole && said.contains("broken: 2 of 2 sessions"),
        "{said}"
    );
    assert!(Path::new(&sealed).exists());
}
