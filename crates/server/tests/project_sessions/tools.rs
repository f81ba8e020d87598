//! Tool calls and the clients that run them: claims, leases, results.

use std::time::Duration;

use codelab_testkit::{Reply, TestServer, eventually};
use serde_json::{Value, json};

use crate::kit::{Chat, Person, server, server_with};

/// A session that waits for `read_file` to be run; the call's id.
async fn reading(server: &TestServer) -> (Chat, String) {
    let chat = Person::new(server, 1).chat().await;
    let call = read(server, &chat).await;
    (chat, call)
}

async fn read(server: &TestServer, chat: &Chat) -> String {
    server
        .model
        .reply(Reply::tool_call("read_file", json!({ "path": "notes.md" })));
    let answer = chat.call("coder", "read").await.expect(200);
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
    let chat = me.chat().await;
    let attach = json!({ "client_id": "laptop", "workspace": "/home/me/shop", "sandbox": "bwrap" });
    let attached = me
        .post(&format!("/my/projects/{}/clients/", chat.project), attach)
        .await
        .expect(201);
    assert_eq!(
        (&attached["client_id"], &attached["present"]),
        (&json!("laptop"), &json!(true))
    );
    let call = read(&server, &chat).await;
    let shown = chat.log().await.one("tool_call").clone();
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
        chat.claim(&call, "laptop").await.expect(200),
        json!({ "claimed": true, "lease_seconds": 30 })
    );
    assert_eq!(
        chat.claim(&call, "laptop").await.expect(200)["claimed"],
        true,
        "claiming again renews the lease"
    );
    let taken = chat.result(&call, "laptop", content()).await.expect(200);
    assert_eq!(
        (&taken["call_id"], &taken["duplicate"]),
        (&json!(call), &json!(false))
    );
    chat.wait_for("task_completed", |_| true).await;
    assert_eq!(
        chat.result(&call, "laptop", content()).await.expect(200)["duplicate"],
        true
    );
    chat.result(&call, "laptop", json!("other"))
        .await
        .refused(409, "CONFLICT");
    chat.claim(&call, "laptop").await.refused(409, "CONFLICT");
    let log = chat.log().await;
    assert_eq!(log.one("tool_result")["result"], content());
    let asked = server.model.requests().pop().unwrap();
    assert_eq!(
        asked.body["messages"].as_array().unwrap().last().unwrap()["role"],
        "tool"
    );
    assert!(asked.message(-1).as_str().unwrap().contains("hello"));
    let tool = chat.messages("?role=tool").await;
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
    let run = async |chat: &Chat, command: &str| {
        server.model.reply(Reply::tool_call(
            "execute_command",
            json!({ "command": command }),
        ));
        chat.call("coder", "look").await.expect(200)["status"].clone()
    };
    let chat = me.chat().await;
    assert_eq!(
        run(&chat, "cat /home/me/shop/a.txt").await,
        "awaiting_approval",
        "nobody is attached"
    );
    let attach = json!({ "client_id": "laptop", "workspace": "/home/me/shop", "sandbox": "bwrap" });
    me.post(&format!("/my/projects/{}/clients/", chat.project), attach)
        .await
        .expect(201);
    for (command, status) in [
        ("cat /home/me/shop/a.txt", "awaiting_tool_result"),
        ("cat /home/me/shopping/a.txt", "awaiting_approval"),
        ("cat /home/me/shop/../a.txt", "awaiting_approval"),
        ("cat /etc/passwd", "awaiting_approval"),
    ] {
        assert_eq!(run(&me.chat().await, command).await, status, "{command}");
    }
}

#[tokio::test]
async fn an_error_of_the_client_goes_to_the_model() {
    let server = server().await;
    let (chat, call) = reading(&server).await;
    chat.claim(&call, "laptop").await.expect(200);
    let path = chat.path(&format!("tool_calls/{call}/result/"));
    chat.post(&path, json!({ "client_id": "laptop" }))
        .await
        .refused(422, "MISSING_REQUIRED_FIELD");
    chat.post(
        &path,
        json!({ "client_id": "laptop", "result": 1, "error": "x" }),
    )
    .await
    .refused(422, "VALIDATION_ERROR");
    chat.post(&path, json!({ "result": 1 }))
        .await
        .refused(422, "MISSING_REQUIRED_FIELD");
    chat.post(
        &path,
        json!({ "client_id": "laptop", "error": "no such file" }),
    )
    .await
    .expect(200);
    chat.wait_for("task_completed", |_| true).await;
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
    let (chat, call) = reading(&server).await;
    assert_eq!(
        chat.log().await.one("tool_call")["client_attached"],
        false,
        "nobody is there yet"
    );
    chat.result(&call, "laptop", content())
        .await
        .refused(409, "TOOL_CALL_CLAIMED");
    chat.claim(&call, "laptop").await.expect(200);
    chat.claim(&call, "desktop")
        .await
        .refused(409, "TOOL_CALL_CLAIMED");
    chat.result(&call, "desktop", content())
        .await
        .refused(409, "TOOL_CALL_CLAIMED");
    chat.result(&call, "laptop", content()).await.expect(200);
    chat.wait_for("task_completed", |_| true).await;
    // The next call of the session is in the same folder.
    let next = read(&server, &chat).await;
    chat.claim(&next, "desktop")
        .await
        .refused(409, "TOOL_CALL_CLAIMED");
    let clients = format!("/my/projects/{}/clients/laptop", chat.project);
    chat.ask("DELETE", &clients, None).await.expect(204);
    chat.ask("DELETE", &clients, None)
        .await
        .refused(404, "NOT_FOUND");
    chat.claim(&next, "desktop").await.expect(200);
    chat.result(&next, "desktop", content()).await.expect(200);
    // Another session of the project may have other hands.
    let other = chat.chat().await;
    let elsewhere = read(&server, &other).await;
    other.claim(&elsewhere, "third").await.expect(200);
    for unknown in ["nope", "a%20b"] {
        chat.claim(unknown, "laptop")
            .await
            .refused(404, "TOOL_CALL_NOT_FOUND");
        chat.result(unknown, "laptop", content())
            .await
            .refused(404, "TOOL_CALL_NOT_FOUND");
    }
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_an_unknown_outcome() {
    let server = server().await;
    let (chat, call) = reading(&server).await;
    chat.claim(&call, "laptop").await.expect(200);
    server
        .model
        .reply(Reply::text("I do not know whether it ran."));
    chat.ask(
        "DELETE",
        &format!("/my/projects/{}/clients/laptop", chat.project),
        None,
    )
    .await
    .expect(204);
    chat.wait_for("task_completed", |_| true).await;
    let log = chat.log().await;
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
    chat.result(&call, "desktop", content())
        .await
        .refused(409, "CONFLICT");
    chat.result(&call, "laptop", content()).await.expect(200);
    let late = chat
        .wait_for("tool_result", |data| data["call_id"] == call.as_str())
        .await
        .data;
    assert_eq!((&late["late"], &late["result"]), (&json!(true), &content()));
    assert_eq!(
        chat.result(&call, "laptop", content()).await.expect(200)["duplicate"],
        true
    );
    chat.call("coder", "and now?").await.expect(200);
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
    let (chat, call) = reading(&server).await;
    chat.claim(&call, "laptop").await.expect(200);
    server.model.reply(Reply::text("Nobody knows."));
    let closed = chat.wait_for("tool_call_closed", |_| true).await.data;
    assert_eq!(
        (&closed["call_id"], &closed["outcome"]),
        (&json!(call), &json!("unknown"))
    );
    chat.wait_for("task_completed", |data| data["response"] == "Nobody knows.")
        .await;
    chat.claim(&call, "laptop").await.refused(409, "CONFLICT");
    chat.result(&call, "laptop", content()).await.expect(200);
    assert_eq!(chat.log().await.one("tool_result")["late"], true);
}

#[tokio::test]
async fn a_call_that_nobody_takes_never_ran() {
    let server = server_with(&[("CODELAB_LIMITS__TOOL_RESULT_TIMEOUT_SECONDS", "1")]).await;
    let (chat, call) = reading(&server).await;
    server.model.reply(Reply::text("Nobody came."));
    chat.wait_for("task_completed", |data| data["response"] == "Nobody came.")
        .await;
    let log = chat.log().await;
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
    chat.claim(&call, "laptop").await.refused(409, "CONFLICT");
    chat.result(&call, "laptop", content())
        .await
        .refused(409, "CONFLICT");
}

#[tokio::test]
async fn a_cancelled_call_is_not_run_any_more() {
    let server = server().await;
    let (chat, call) = reading(&server).await;
    chat.claim(&call, "laptop").await.expect(200);
    chat.cancel().await.expect(200);
    assert_eq!(
        chat.log().await.one("tool_call_closed")["outcome"],
        "cancelled"
    );
    chat.claim(&call, "laptop").await.refused(409, "CONFLICT");
    chat.result(&call, "laptop", content())
        .await
        .refused(409, "CONFLICT");
}

#[tokio::test]
async fn a_claim_survives_a_restart() {
    let mut server = server().await;
    let (chat, call) = reading(&server).await;
    chat.claim(&call, "laptop").await.expect(200);
    server.restart().await;
    let chat = chat.seen_by(&Person::new(&server, 1));
    chat.claim(&call, "desktop")
        .await
        .refused(409, "TOOL_CALL_CLAIMED");
    chat.result(&call, "laptop", content()).await.expect(200);
    chat.wait_for("task_completed", |_| true).await;
    assert_eq!(chat.log().await.one("tool_result").get("late"), None);
}

/// The session is bound to a client whose calls have ended; a restart does not free it for another
/// folder.
#[tokio::test]
async fn a_session_stays_with_its_client_after_a_restart() {
    let mut server = server().await;
    let (chat, call) = reading(&server).await;
    chat.claim(&call, "laptop").await.expect(200);
    chat.result(&call, "laptop", content()).await.expect(200);
    chat.wait_for("task_completed", |_| true).await;
    server.restart().await;
    let chat = chat.seen_by(&Person::new(&server, 1));
    let clients = format!("/my/projects/{}/clients/", chat.project);
    let desktop = json!({ "client_id": "desktop", "workspace": "/elsewhere", "sandbox": "none" });
    chat.post(&clients, desktop).await.expect(201);
    let call = read(&server, &chat).await;
    chat.claim(&call, "desktop")
        .await
        .refused(409, "TOOL_CALL_CLAIMED");
    chat.claim(&call, "laptop").await.expect(200);
    chat.result(&call, "laptop", content()).await.expect(200);
    let mut events = chat.follow(0).await;
    events.until("task_completed", |_| true).await;
    events.until("task_completed", |_| true).await;

    // It lets go after another restart, of which it has not heard: it is unknown, but the session
    // is free.
    server.restart().await;
    let chat = chat.seen_by(&Person::new(&server, 1));
    chat.ask("DELETE", &format!("{clients}laptop/"), None)
        .await
        .refused(404, "NOT_FOUND");
    let call = read(&server, &chat).await;
    chat.claim(&call, "desktop").await.expect(200);
}

#[tokio::test]
async fn wrong_clients_are_refused() {
    let server = server().await;
    let (chat, call) = reading(&server).await;
    let clients = format!("/my/projects/{}/clients/", chat.project);
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
        chat.post(&clients, body).await.refused(422, code);
    }
    for body in [
        json!({ "client_id": "" }),
        json!({ "client_id": 3 }),
        json!({ "client_id": "a/b" }),
    ] {
        chat.post(&chat.path(&format!("tool_calls/{call}/claim/")), body)
            .await
            .refused(422, "VALIDATION_ERROR");
    }
    chat.post(
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
                let chat = me.chat().await;
                let asked = chat.call("coder", "read").await.expect(200);
                let call = asked["pending"]["call_id"].as_str().unwrap();
                let run = async |client: &str| {
                    let claimed = chat.claim(call, client).await;
                    if claimed.status != 200 {
                        claimed.refused(409, "TOOL_CALL_CLAIMED");
                        chat.result(call, client, json!(client))
                            .await
                            .refused(409, "TOOL_CALL_CLAIMED");
                        return false;
                    }
                    true
                };
                let (one, two) = tokio::join!(run("one"), run("two"));
                assert!(one != two, "one: {one}, two: {two}");
                let winner = if one { "one" } else { "two" };
                chat.result(call, winner, json!(winner)).await.expect(200);
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
    let server = server().await;
    let (chat, _) = reading(&server).await;
    let lock = rusqlite::Connection::open(server.data_dir().join("codelab.db")).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    // The session is busy with the first until the database is free, or refuses; the second waits
    // behind it.
    let wait = |chat: Chat| tokio::spawn(async move { chat.call("coder", "wait").await });
    let ask =
        |chat: Chat| tokio::spawn(async move { chat.claim("call-of-nobody", "stranger").await });
    let (mut busy, mut claim) = (wait(chat.clone()), ask(chat.clone()));
    let space = format!("/my/projects/{}/worker-space/", chat.project);
    let attached = async |number: u64| {
        let found = chat.get(&space).await.expect(200)["attached_clients"]
            .as_u64()
            .unwrap();
        if found == number { Ok(()) } else { Err(found) }
    };
    eventually("it asks", async || {
        if busy.is_finished() {
            busy = wait(chat.clone());
        }
        if claim.is_finished() {
            claim = ask(chat.clone());
        }
        attached(1).await
    })
    .await;
    claim.abort();
    lock.execute_batch("ROLLBACK").unwrap();
    // Sooner than whoever was not heard of for a minute is taken for gone.
    let goes = eventually("it is forgotten", async || attached(0).await);
    tokio::time::timeout(Duration::from_secs(30), goes)
        .await
        .expect("a stranger stays attached");
    busy.abort();
}
