//! A database that is locked, damaged, or owned by somebody else.

use codelab_protocol::{ErrorCode, TurnStatus};
use codelab_testkit::{Reply, TestServer, message, skipped_through_another};
use futures_util::stream::{FuturesUnordered, StreamExt};
use rusqlite::Connection;
use serde_json::json;

use crate::raw::Request;

/// The codes that these tests provoke.
pub const CODES: &[ErrorCode] = &[
    ErrorCode::DbConnectionError,
    ErrorCode::DbReadError,
    ErrorCode::DbWriteError,
    ErrorCode::AgentUnavailable,
    ErrorCode::RateLimited,
];

/// Past what waits for one session at once.
const CROWD: usize = 300;

fn database(server: &TestServer) -> Connection {
    Connection::open(server.data_dir().join("codelab.db")).unwrap()
}

async fn start() -> TestServer {
    let server = TestServer::start().await;
    server.model.default_reply(Reply::text("Hello"));
    assert_eq!(
        server.say_to("s", "ask", "hello").await.status(),
        TurnStatus::Completed
    );
    server
}

fn say(server: &TestServer) -> Request {
    let body = json!({"session_id": "s", "message": "hello again"});
    Request::with_key(server, "POST", "/agent/message/stream").json(body.to_string())
}

/// The answer to one more message, in the shape of all errors, with nothing of the inside in it.
async fn refusal(server: &TestServer) -> (u16, String) {
    let answer = say(server).send(server).await;
    assert!(answer.status >= 400, "{}", answer.text());
    let text = answer.text().to_lowercase();
    for word in [
        "sqlite",
        "select",
        "update",
        "codelab.db",
        "epoch",
        "panicked",
    ] {
        assert!(!text.contains(word), "{text}");
    }
    assert_eq!(
        answer.header("retry-after").is_some(),
        answer.status == 503,
        "{text}"
    );
    answer.refusal()
}

#[tokio::test]
async fn a_locked_database_is_unavailable_until_it_is_free() {
    if skipped_through_another("it opens the SQLite file") {
        return;
    }
    let server = start().await;
    let lock = database(&server);
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(
        refusal(&server).await,
        (503, "DB_CONNECTION_ERROR".to_owned())
    );
    let health = Request::new(&server, "GET", "/health").send(&server).await;
    assert_eq!(
        (health.status, &health.json()["status"]),
        (200, &json!("unhealthy")),
        "{}",
        health.text()
    );
    assert_eq!(health.json()["checks"]["database"]["status"], "unhealthy");
    let ready = Request::new(&server, "GET", "/health/ready")
        .send(&server)
        .await;
    assert_eq!(ready.status, 503, "{}", ready.text());

    lock.execute_batch("ROLLBACK").unwrap();
    assert_eq!(
        server.say("s", "and now?").await.status(),
        TurnStatus::Completed
    );
    let history = server
        .client
        .history(&super::asked_session())
        .await
        .unwrap()
        .messages;
    assert_eq!(history.len(), 4, "nothing that was refused is kept");
}

#[tokio::test]
async fn a_crowd_at_one_session_is_turned_away() {
    let server = start().await;
    let lock = database(&server);
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut crowd: FuturesUnordered<_> = (0..CROWD)
        .map(|_| async { say(&server).send(&server).await })
        .collect();
    let first = crowd.next().await.unwrap();
    assert_eq!(first.refusal(), (429, "RATE_LIMITED".to_owned()));
    assert!(first.header("retry-after").is_some());
    lock.execute_batch("ROLLBACK").unwrap();
    while let Some(answer) = crowd.next().await {
        assert!(
            matches!(answer.status, 200 | 429 | 503),
            "{}",
            answer.text()
        );
    }
    assert_eq!(
        server.say("s", "and now?").await.status(),
        TurnStatus::Completed
    );
}

#[tokio::test]
async fn a_session_that_another_server_took_is_not_written() {
    if skipped_through_another("it opens the SQLite file") {
        return;
    }
    let server = start().await;
    database(&server)
        .execute("UPDATE sessions SET epoch = epoch + 1", [])
        .unwrap();
    assert_eq!(refusal(&server).await, (503, "DB_WRITE_ERROR".to_owned()));
}

/// Whatever the reason, what failed was a write.
#[tokio::test]
async fn a_write_that_the_database_refuses_is_a_write_error() {
    if skipped_through_another("it opens the SQLite file") {
        return;
    }
    let server = start().await;
    let trigger =
        "CREATE TRIGGER full BEFORE INSERT ON messages BEGIN SELECT RAISE(ABORT, 'no'); END";
    database(&server).execute_batch(trigger).unwrap();
    assert_eq!(refusal(&server).await, (503, "DB_WRITE_ERROR".to_owned()));
    database(&server)
        .execute_batch("DROP TRIGGER full")
        .unwrap();
    assert_eq!(
        server.say("s", "and now?").await.status(),
        TurnStatus::Completed
    );
}

#[tokio::test]
async fn a_damaged_session_is_a_read_error_and_leaves_the_others_alone() {
    if skipped_through_another("it opens the SQLite file") {
        return;
    }
    let mut server = start().await;
    server.say_to("other", "ask", "hello").await;
    server.stop().await;
    database(&server)
        .execute("UPDATE sessions SET state = '{' WHERE session_id = 's'", [])
        .unwrap();
    server.restart().await;
    assert_eq!(refusal(&server).await, (503, "DB_READ_ERROR".to_owned()));
    assert_eq!(
        server.say("other", "and you?").await.status(),
        TurnStatus::Completed
    );
}

#[tokio::test]
async fn a_session_of_another_living_server_is_unavailable() {
    if skipped_through_another("it opens the SQLite file") {
        return;
    }
    let mut server = start().await;
    server.stop().await;
    let other = database(&server);
    other
        .execute("UPDATE sessions SET owner = 'other'", [])
        .unwrap();
    server.restart().await;
    // After the start, which ends every lease it finds in an embedded database.
    other
        .execute(
            "INSERT INTO servers (server_id, started_at, lease_expires_at) VALUES ('other', 0, 9000000000000)",
            [],
        )
        .unwrap();
    assert_eq!(
        refusal(&server).await,
        (503, "AGENT_UNAVAILABLE".to_owned())
    );

    other
        .execute("UPDATE servers SET ended = 1 WHERE server_id = 'other'", [])
        .unwrap();
    let accepted = server.client.send(&message("s", "and now?")).await;
    assert!(accepted.is_ok(), "its server ended: {:?}", accepted.err());
}
