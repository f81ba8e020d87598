//! Deadlines stand still while there is no server, and only then: whenever a session is looked at
//! first afterwards.

use codelab_testkit::{TestServer, eventually, skipped_through_another};
use rusqlite::Connection;

use super::asked_to_write;

fn database(server: &TestServer) -> Connection {
    Connection::open(server.data_dir().join("codelab.db")).unwrap()
}

/// Comes back as if it had been away for an hour.
async fn come_back(server: &mut TestServer) {
    server.stop().await;
    database(server)
        .execute_batch("UPDATE servers SET lease_expires_at = lease_expires_at - 3600000")
        .unwrap();
    server.restart().await;
}

async fn expires_ms(server: &TestServer, session: &str) -> i64 {
    let [approval] = server.pending(session).await.try_into().unwrap();
    approval.expires_at.unwrap().as_millis()
}

#[tokio::test]
async fn the_time_of_the_new_server_counts() {
    if skipped_through_another("it opens the SQLite file") {
        return;
    }
    let mut server = TestServer::start().await;
    asked_to_write(&server, "first", "a.py").await;
    asked_to_write(&server, "last", "a.py").await;
    let before = [
        expires_ms(&server, "first").await,
        expires_ms(&server, "last").await,
    ];
    come_back(&mut server).await;
    let first = expires_ms(&server, "first").await;
    // Whatever the new server does meanwhile takes some of its time.
    asked_to_write(&server, "meanwhile", "a.py").await;
    let last = expires_ms(&server, "last").await;
    assert!(first - before[0] > 3_600_000, "{} ms", first - before[0]);
    assert_eq!(last - before[1], first - before[0]);
}

#[tokio::test]
async fn a_recovery_that_is_not_stored_at_once_forgets_no_downtime() {
    if skipped_through_another("it opens the SQLite file") {
        return;
    }
    let mut server = TestServer::start().await;
    asked_to_write(&server, "first", "a.py").await;
    asked_to_write(&server, "refused", "a.py").await;
    let before = [
        expires_ms(&server, "first").await,
        expires_ms(&server, "refused").await,
    ];
    come_back(&mut server).await;
    let moved = expires_ms(&server, "first").await - before[0];

    let refuses = "CREATE TRIGGER refuses BEFORE UPDATE OF expires_at ON pending_approvals \
                   BEGIN SELECT RAISE(ABORT, 'not now'); END";
    database(&server).execute_batch(refuses).unwrap();
    server
        .client
        .pending_approvals(&codelab_testkit::id("refused"))
        .await
        .unwrap_err();
    database(&server)
        .execute_batch("DROP TRIGGER refuses")
        .unwrap();
    let after = eventually("the approval has moved", async || {
        let expires = expires_ms(&server, "refused").await;
        if expires == before[1] {
            Err(expires)
        } else {
            Ok(expires)
        }
    });
    assert_eq!(after.await - before[1], moved);
}

const TWO_DAYS_MS: i64 = 2 * 24 * 3_600_000;

fn servers(server: &TestServer) -> i64 {
    database(server)
        .query_row("SELECT COUNT(*) FROM servers", [], |row| row.get(0))
        .unwrap()
}

/// A server leaves a row, which tells since when it is gone. It stays as long as a deadline needs
/// it, and no longer.
#[tokio::test]
async fn servers_that_are_long_gone_leave_no_row() {
    if skipped_through_another("it opens the SQLite file") {
        return;
    }
    let mut server = TestServer::start().await;
    asked_to_write(&server, "waiting", "a.py").await;
    let before = expires_ms(&server, "waiting").await;
    server.stop().await;
    let long_ago =
        format!("UPDATE servers SET lease_expires_at = lease_expires_at - {TWO_DAYS_MS}");
    database(&server).execute_batch(&long_ago).unwrap();
    server.restart().await;
    assert!(
        expires_ms(&server, "waiting").await - before > TWO_DAYS_MS,
        "its row was needed"
    );
    server.restart().await;
    eventually("the first server's row is gone", async || {
        match servers(&server) {
            2 => Ok(()),
            rows => Err(rows),
        }
    })
    .await;
}
