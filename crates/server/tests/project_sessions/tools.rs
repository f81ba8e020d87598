//! Tool calls and the clients that run them: claims, leases, results.

use std::time::Duration;

use codelab_testkit::{Reply, TestServer, eventually, skipped_through_another};
use serde_json::{Value, json};

use crate::kit::{Person, Session, server, server_with};

/// A session that waits for `read_file` to be run; the call's id.
async fn reading(server: &TestServer) -> (Session, String) {
    let session = Person::new(server, 1).session().await;
    let call = read(server, &session).await;
    (session, call)
}

async fn read(server: &TestServer, session: &Session) -> String {
    server
        .model
        .reply(Reply::tool_call("read_file", json!({ "path": "notes.md" })));
    let answer = session.call("coder", "read").await.expect(200);
    assert_eq!(answer["status"], "awaiting_tool_result", "{answer:#}");
    answer["pending"]["call_id"].as_str().unwrap().to_owned()
}

fn content() -> Value {
    json!({ "success": true, "content": "hello", "size": 5 })
}

#[tokio::test]
async fn a_client_claims_runs_and_answers() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let session = me.session().await;
    let attach = json!({ "client_id": "laptop", "workspace": "/home/me/shop", "sandbox": "bwrap" });
    let attached = me
        .post(
            &format!("/my/projects/{}/clients/", session.project),
            attach,
        )
        .await
        .expect(201);
    assert_eq!(
        (&attached["client_id"], &attached["present"]),
        (&json!("laptop"), &json!(true))
    );
    let clients = format!("/my/projects/{}/clients/", session.project);
    let listed = me.get(&clients).await.expect(200);
    assert_eq!(
        (&listed["total"], &listed["clients"]),
        (&json!(1), &json!([attached]))
    );
    let stranger = Person::new(&server, 2).get(&clients).await;
    stranger.refused(404, "PROJECT_NOT_FOUND");
    let call = read(&server, &session).await;
    let shown = session.log().await.one("tool_call").clone();
    assert_eq!(
        (&shown["client_attached"], &shown["requires_approval"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(
        (
            &shown["tool_call"]["name"],
            &shown["tool_call"]["arguments"]
        ),
        (&json!("read_file"), &json!({ "path": "notes.md" }))
    );
    assert_eq!(
        (&shown["user_id"], &shown["agent"]),
        (&json!(1), &json!("agent_coder"))
    );
    assert_eq!(
        session.claim(&call, "laptop").await.expect(200),
        json!({ "claimed": true, "lease_seconds": 30 })
    );
    assert_eq!(
        session.claim(&call, "laptop").await.expect(200)["claimed"],
        true,
        "claiming again renews the lease"
    );
    let accepted = session.result(&call, "laptop", content()).await.expect(200);
    assert_eq!(
        (&accepted["call_id"], &accepted["duplicate"]),
        (&json!(call), &json!(false))
    );
    session.wait_for("task_completed", |_| true).await;
    assert_eq!(
        session.result(&call, "laptop", content()).await.expect(200)["duplicate"],
        true
    );
    session
        .result(&call, "laptop", json!("other"))
        .await
        .refused(409, "CONFLICT");
    session
        .claim(&call, "laptop")
        .await
        .refused(409, "CONFLICT");
    let log = session.log().await;
    assert_eq!(log.one("tool_result")["result"], content());
    let asked = server.model.requests().pop().unwrap();
    assert_eq!(
        asked.body["messages"].as_array().unwrap().last().unwrap()["role"],
        "tool"
    );
    assert!(asked.message(-1).as_str().unwrap().contains("hello"));
    let tool = session.messages("?role=tool").await;
    assert_eq!(
        (tool.len(), &tool[0]["tool_call_id"], &tool[0]["name"]),
        (1, &json!(call), &json!("read_file"))
    );
}

/// Absolute paths beneath the workspace do not ask, once a client has said where that is.
#[tokio::test]
async fn a_command_may_name_the_folder_that_is_attached() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let run = async |session: &Session, command: &str| {
        server.model.reply(Reply::tool_call(
            "execute_command",
            json!({ "command": command }),
        ));
        session.call("coder", "look").await.expect(200)["status"].clone()
    };
    let session = me.session().await;
    assert_eq!(
        run(&session, "cat /home/me/shop/a.txt").await,
        "awaiting_approval",
        "nobody is attached"
    );
    let attach = json!({ "client_id": "laptop", "workspace": "/home/me/shop", "sandbox": "bwrap" });
    me.post(
        &format!("/my/projects/{}/clients/", session.project),
        attach,
    )
    .await
    .expect(201);
    for (command, status) in [
        ("cat /home/me/shop/a.txt", "awaiting_tool_result"),
        ("cat /home/me/shopping/a.txt", "awaiting_approval"),
        ("cat /home/me/shop/../a.txt", "awaiting_approval"),
        ("cat /etc/passwd", "awaiting_approval"),
    ] {
        assert_eq!(run(&me.session().await, command).await, status, "{command}");
    }
}

#[tokio::test]
async fn an_error_of_the_client_goes_to_the_model() {
    let server = server().await;
    let (session, call) = reading(&server).await;
    session.claim(&call, "laptop").await.expect(200);
    let path = session.path(&format!("tool_calls/{call}/result/"));
    session
        .post(&path, json!({ "client_id": "laptop" }))
        .await
        .refused(422, "MISSING_REQUIRED_FIELD");
    session
        .post(
            &path,
            json!({ "client_id": "laptop", "result": 1, "error": "x" }),
        )
        .await
        .refused(422, "VALIDATION_ERROR");
    session
        .post(&path, json!({ "result": 1 }))
        .await
        .refused(422, "MISSING_REQUIRED_FIELD");
    session
        .post(
            &path,
            json!({ "client_id": "laptop", "error": "no such file" }),
        )
        .await
        .expect(200);
    session.wait_for("task_completed", |_| true).await;
    assert!(
        server
            .model
            .requests()
            .pop()
            .unwrap()
            .message(-1)
            .as_str()
            .unwrap()
            .contains("no such file")
    );
}

#[tokio::test]
async fn one_client_runs_a_call_and_the_session_stays_with_it() {
    let server = server().await;
    let (session, call) = reading(&server).await;
    assert_eq!(
        session.log().await.one("tool_call")["client_attached"],
        false,
        "nobody is there yet"
    );
    session
        .result(&call, "laptop", content())
        .await
        .refused(409, "TOOL_CALL_CLAIMED");
    session.claim(&call, "laptop").await.expect(200);
    session
        .claim(&call, "desktop")
        .await
        .refused(409, "TOOL_CALL_CLAIMED");
    session
        .result(&call, "desktop", content())
        .await
        .refused(409, "TOOL_CALL_CLAIMED");
    session.result(&call, "laptop", content()).await.expect(200);
    session.wait_for("task_completed", |_| true).await;
    // The next call of the session is in the same folder.
    let next = read(&server, &session).await;
    session
        .claim(&next, "desktop")
        .await
        .refused(409, "TOOL_CALL_CLAIMED");
    let clients = format!("/my/projects/{}/clients/laptop", session.project);
    session.ask("DELETE", &clients, None).await.expect(204);
    session
        .ask("DELETE", &clients, None)
        .await
        .refused(404, "NOT_FOUND");
    session.claim(&next, "desktop").await.expect(200);
    session
        .result(&next, "desktop", content())
        .await
        .expect(200);
    // Another session of the project may have another tool runner.
    let other = session.session().await;
    let elsewhere = read(&server, &other).await;
    other.claim(&elsewhere, "third").await.expect(200);
    for unknown in ["nope", "a%20b"] {
        session
            .claim(unknown, "laptop")
            .await
            .refused(404, "TOOL_CALL_NOT_FOUND");
        session
            .result(unknown, "laptop", content())
            .await
            .refused(404, "TOOL_CALL_NOT_FOUND");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_an_unknown_outcome() {
    let server = server().await;
    let (session, call) = reading(&server).await;
    session.claim(&call, "laptop").await.expect(200);
    server
        .model
        .reply(Reply::text("I do not know whether it ran."));
    session
        .ask(
            "DELETE",
            &format!("/my/projects/{}/clients/laptop", session.project),
            None,
        )
        .await
        .expect(204);
    session.wait_for("task_completed", |_| true).await;
    let log = session.log().await;
    assert_eq!(log.one("tool_call_closed")["outcome"], "unknown");
    let asked = server.model.requests().pop().unwrap();
    assert!(
        asked
            .message(-1)
            .as_str()
            .unwrap()
            .contains("may or may not have run"),
        "{}",
        asked.message(-1)
    );
    // What still comes from its holder is shown and told, once.
    session
        .result(&call, "desktop", content())
        .await
        .refused(409, "CONFLICT");
    session.result(&call, "laptop", content()).await.expect(200);
    let late = session
        .wait_for("tool_result", |data| data["call_id"] == call.as_str())
        .await
        .data;
    assert_eq!((&late["late"], &late["result"]), (&json!(true), &content()));
    assert_eq!(
        session.result(&call, "laptop", content()).await.expect(200)["duplicate"],
        true
    );
    session.call("coder", "and now?").await.expect(200);
    let asked = server.model.requests().pop().unwrap();
    let told = asked.body["messages"].to_string();
    assert!(
        told.contains("Late result of read_file") && told.contains("hello"),
        "{told}"
    );
}

/// The lease is half a minute; nothing in the world makes it shorter.
#[tokio::test]
async fn a_lease_that_lapses_closes_the_call() {
    let server = server().await;
    let (session, call) = reading(&server).await;
    session.claim(&call, "laptop").await.expect(200);
    server.model.reply(Reply::text("Nobody knows."));
    let closed = session.wait_for("tool_call_closed", |_| true).await.data;
    assert_eq!(
        (&closed["call_id"], &closed["outcome"]),
        (&json!(call), &json!("unknown"))
    );
    session
        .wait_for("task_completed", |data| data["response"] == "Nobody knows.")
        .await;
    session
        .claim(&call, "laptop")
        .await
        .refused(409, "CONFLICT");
    session.result(&call, "laptop", content()).await.expect(200);
    assert_eq!(session.log().await.one("tool_result")["late"], true);
}

#[tokio::test]
async fn a_call_that_nobody_takes_never_ran() {
    let server = server_with(&[("CODELAB_LIMITS__TOOL_RESULT_TIMEOUT_SECONDS", "1")]).await;
    let (session, call) = reading(&server).await;
    server.model.reply(Reply::text("Nobody came."));
    session
        .wait_for("task_completed", |data| data["response"] == "Nobody came.")
        .await;
    let log = session.log().await;
    assert_eq!(log.one("tool_call_closed")["outcome"], "expired");
    assert_eq!(log.one("error")["error_code"], "TASK_TIMEOUT");
    assert!(
        server
            .model
            .requests()
            .pop()
            .unwrap()
            .message(-1)
            .as_str()
            .unwrap()
            .contains("did not run")
    );
    session
        .claim(&call, "laptop")
        .await
        .refused(409, "CONFLICT");
    session
        .result(&call, "laptop", content())
        .await
        .refused(409, "CONFLICT");
}

#[tokio::test]
async fn a_cancelled_call_is_not_run_any_more() {
    let server = server().await;
    let (session, call) = reading(&server).await;
    session.claim(&call, "laptop").await.expect(200);
    session.cancel().await.expect(200);
    assert_eq!(
        session.log().await.one("tool_call_closed")["outcome"],
        "cancelled"
    );
    session
        .claim(&call, "laptop")
        .await
        .refused(409, "CONFLICT");
    session
        .result(&call, "laptop", content())
        .await
        .refused(409, "CONFLICT");
}

#[tokio::test]
async fn a_claim_survives_a_restart() {
    let mut server = server().await;
    let (session, call) = reading(&server).await;
    session.claim(&call, "laptop").await.expect(200);
    server.restart().await;
    let session = session.seen_by(&Person::new(&server, 1));
    session
        .claim(&call, "desktop")
        .await
        .refused(409, "TOOL_CALL_CLAIMED");
    session.result(&call, "laptop", content()).await.expect(200);
    session.wait_for("task_completed", |_| true).await;
    assert_eq!(session.log().await.one("tool_result").get("late"), None);
}

/// The session is bound to a client whose calls have ended; a restart does not free it for another
/// folder.
#[tokio::test]
async fn a_session_stays_with_its_client_after_a_restart() {
    let mut server = server().await;
    let (session, call) = reading(&server).await;
    session.claim(&call, "laptop").await.expect(200);
    session.result(&call, "laptop", content()).await.expect(200);
    session.wait_for("task_completed", |_| true).await;
    server.restart().await;
    let session = session.seen_by(&Person::new(&server, 1));
    let clients = format!("/my/projects/{}/clients/", session.project);
    let desktop = json!({ "client_id": "desktop", "workspace": "/elsewhere", "sandbox": "none" });
    session.post(&clients, desktop).await.expect(201);
    let call = read(&server, &session).await;
    session
        .claim(&call, "desktop")
        .await
        .refused(409, "TOOL_CALL_CLAIMED");
    session.claim(&call, "laptop").await.expect(200);
    session.result(&call, "laptop", content()).await.expect(200);
    let mut events = session.follow(0).await;
    events.until("task_completed", |_| true).await;
    events.until("task_completed", |_| true).await;

    // It lets go after another restart, of which it has not heard: it is unknown, but the session
    // is free.
    server.restart().await;
    let session = session.seen_by(&Person::new(&server, 1));
    session
        .ask("DELETE", &format!("{clients}laptop/"), None)
        .await
        .refused(404, "NOT_FOUND");
    let call = read(&server, &session).await;
    session.claim(&call, "desktop").await.expect(200);
}

#[tokio::test]
async fn wrong_clients_are_refused() {
    let server = server().await;
    let (session, call) = reading(&server).await;
    let clients = format!("/my/projects/{}/clients/", session.project);
    for (body, code) in [
        (json!({}), "MISSING_REQUIRED_FIELD"),
        (
            json!({ "client_id": "a b", "sandbox": "none" }),
            "VALIDATION_ERROR",
        ),
        (
            json!({ "client_id": "x", "sandbox": "chroot" }),
            "VALIDATION_ERROR",
        ),
        (
            json!({ "client_id": "x", "sandbox": "none", "workspace": "y".repeat(4097) }),
            "VALIDATION_ERROR",
        ),
    ] {
        let answer = session.post(&clients, body.clone()).await;
        answer.refused(422, code);
        if body["sandbox"] == "chroot" {
            let detail = answer.body["detail"].as_str().unwrap();
            for allowed in ["bwrap+landlock", "bwrap", "landlock", "none"] {
                assert!(detail.contains(&format!("`{allowed}`")), "{detail}");
            }
        }
    }
    for body in [
        json!({ "client_id": "" }),
        json!({ "client_id": 3 }),
        json!({ "client_id": "a/b" }),
    ] {
        session
            .post(&session.path(&format!("tool_calls/{call}/claim/")), body)
            .await
            .refused(422, "VALIDATION_ERROR");
    }
    session
        .post(
            "/my/projects/999999/clients/",
            json!({ "client_id": "x", "sandbox": "none" }),
        )
        .await
        .refused(404, "PROJECT_NOT_FOUND");
}

/// Two clients race for one call a thousand times: exactly one wins, and only its result counts.
#[tokio::test(flavor = "multi_thread")]
async fn two_clients_race_and_exactly_one_runs_the_call() {
    const TRIES: usize = 1000;
    const LANES: usize = 8;
    let server = server().await;
    let call = Reply::tool_call("read_file", json!({ "path": "notes.md" }));
    server.model.on(
        |body| {
            body["messages"]
                .as_array()
                .is_some_and(|all| all.last().unwrap()["role"] == "user")
        },
        call,
    );
    let me = Person::new(&server, 1);
    let mut lanes = Vec::new();
    for _ in 0..LANES {
        let me = me.clone();
        lanes.push(tokio::spawn(async move {
            let mut winners = [0, 0];
            for _ in 0..TRIES / LANES {
                let session = me.session().await;
                let asked = session.call("coder", "read").await.expect(200);
                let call = asked["pending"]["call_id"].as_str().unwrap();
                let run = async |client: &str| {
                    let claimed = session.claim(call, client).await;
                    if claimed.status != 200 {
                        claimed.refused(409, "TOOL_CALL_CLAIMED");
                        session
                            .result(call, client, json!(client))
                            .await
                            .refused(409, "TOOL_CALL_CLAIMED");
                        return false;
                    }
                    true
                };
                let (one, two) = tokio::join!(run("one"), run("two"));
                assert!(one != two, "one: {one}, two: {two}");
                let winner = if one { "one" } else { "two" };
                session
                    .result(call, winner, json!(winner))
                    .await
                    .expect(200);
                winners[usize::from(two)] += 1;
            }
            winners
        }));
    }
    let mut total = [0, 0];
    for lane in lanes {
        let winners = lane.await.unwrap();
        total = [total[0] + winners[0], total[1] + winners[1]];
    }
    assert_eq!(total[0] + total[1], TRIES);
    assert!(total[0] > 0 && total[1] > 0, "there was a race: {total:?}");
}

#[tokio::test]
async fn a_stranger_that_hangs_up_and_is_refused_is_not_attached() {
    if skipped_through_another("it opens the SQLite file") {
        return;
    }
    let server = server().await;
    let (session, _) = reading(&server).await;
    let lock = rusqlite::Connection::open(server.data_dir().join("codelab.db")).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    // The session is busy with the first until the database is free, or refuses; the second waits
    // behind it.
    let wait = |session: Session| tokio::spawn(async move { session.call("coder", "wait").await });
    let ask = |session: Session| {
        tokio::spawn(async move { session.claim("call-of-nobody", "stranger").await })
    };
    let (mut busy, mut claim) = (wait(session.clone()), ask(session.clone()));
    let space = format!("/my/projects/{}/worker-space/", session.project);
    let attached = async |number: u64| {
        let found = session.get(&space).await.expect(200)["attached_clients"]
            .as_u64()
            .unwrap();
        if found == number { Ok(()) } else { Err(found) }
    };
    eventually("it asks", async || {
        if busy.is_finished() {
            busy = wait(session.clone());
        }
        if claim.is_finished() {
            claim = ask(session.clone());
        }
        attached(1).await
    })
    .await;
    claim.abort();
    lock.execute_batch("ROLLBACK").unwrap();
    // Before a client that sends nothing for a minute counts as gone.
    let goes = eventually("it is forgotten", async || attached(0).await);
    tokio::time::timeout(Duration::from_secs(30), goes)
        .await
        .expect("a stranger stays attached");
    busy.abort();
}
