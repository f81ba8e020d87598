//! What a write would replace: told by clients, shown to people, bound by decisions, asked again.

use codelab_testkit::Reply;
use serde_json::{Value, json};

use crate::kit::{Answer, Person, Session, server};

const ONE: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const TWO: &str = "2222222222222222222222222222222222222222222222222222222222222222";

async fn write(server: &codelab_testkit::TestServer, session: &Session) -> String {
    let call = json!({ "path": "a.txt", "content": "x" });
    server.model.reply(Reply::tool_call("write_file", call));
    let answer = session.call("coder", "write").await.expect(200);
    answer["pending"]["call_id"].as_str().unwrap().to_owned()
}

fn preview(base: &Value) -> Value {
    json!({ "base": base, "diff": "-a\n+x\n", "is_unread": true })
}

async fn show(session: &Session, call: &str, client: &str, base: Value) -> Answer {
    let mut body = preview(&base);
    body["client_id"] = json!(client);
    let path = session.path(&format!("approvals/{call}/preview/"));
    session.ask("PUT", &path, Some(body)).await
}

async fn ask_again(session: &Session, call: &str, client: &str, base: Value) -> Answer {
    let body = json!({ "client_id": client, "reason": "it changed", "preview": preview(&base) });
    let path = session.path(&format!("tool_calls/{call}/ask_again/"));
    session.post(&path, body).await
}

async fn open(session: &Session) -> Value {
    let mine = session.get("/my/approvals/").await.expect(200);
    let of_session = session.get(&session.path("approvals/")).await.expect(200);
    assert_eq!(mine["approvals"], of_session["approvals"]);
    of_session["approvals"][0].clone()
}

#[tokio::test]
async fn a_preview_is_shown_and_binds_the_decision() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let call = write(&server, &session).await;
    show(&session, &call, "laptop", json!(null))
        .await
        .expect(200);
    assert_eq!(open(&session).await["preview"]["base"], json!(null));
    show(&session, &call, "laptop", json!(ONE))
        .await
        .expect(200);
    show(&session, &call, "laptop", json!(ONE))
        .await
        .expect(200);
    show(&session, &call, "desktop", json!(TWO))
        .await
        .refused(409, "TOOL_CALL_CLAIMED");
    let shown = &open(&session).await["preview"];
    assert_eq!(
        (&shown["base"], &shown["diff"], &shown["is_unread"]),
        (&json!(ONE), &json!("-a\n+x\n"), &json!(true))
    );
    let log = session.log().await;
    let events = log.all("approval_preview");
    assert_eq!(events.len(), 2, "a repeat is not told again");
    assert_eq!(
        (&events[1]["call_id"], &events[1]["base"]),
        (&json!(call), &json!(ONE))
    );
    for stale in [json!(null), json!(TWO)] {
        let decision = json!({ "decision": "approve", "base": stale });
        let refused = session.decide(&call, decision).await;
        refused.refused(409, "CONFLICT");
    }
    let decision = json!({ "decision": "approve", "base": ONE });
    session.decide(&call, decision).await.expect(200);
    assert_eq!(session.log().await.one("tool_call")["base"], ONE);
    show(&session, &call, "laptop", json!(TWO))
        .await
        .refused(409, "CONFLICT");
}

#[tokio::test]
async fn a_write_is_asked_about_again_by_the_client_that_holds_it() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let call = write(&server, &session).await;
    ask_again(&session, &call, "laptop", json!(ONE))
        .await
        .expect(200);
    session
        .decide(&call, json!({ "decision": "approve" }))
        .await
        .expect(200);
    assert_eq!(
        session.log().await.one("tool_call")["base"],
        Value::Null,
        "nobody named anything"
    );
    ask_again(&session, &call, "laptop", json!(ONE))
        .await
        .refused(409, "TOOL_CALL_CLAIMED");
    session.claim(&call, "laptop").await.expect(200);
    ask_again(&session, &call, "desktop", json!(ONE))
        .await
        .refused(409, "TOOL_CALL_CLAIMED");
    let asked = ask_again(&session, &call, "laptop", json!(ONE))
        .await
        .expect(200);
    assert_eq!(asked["status"], "awaiting_approval");
    // The answer was lost, and the client sends it again.
    ask_again(&session, &call, "laptop", json!(ONE))
        .await
        .expect(200);
    let approval = open(&session).await;
    assert_eq!(
        (
            &approval["call_id"],
            &approval["reason"],
            &approval["preview"]["base"]
        ),
        (&json!(call), &json!("it changed"), &json!(ONE))
    );
    session
        .claim(&call, "laptop")
        .await
        .refused(409, "CONFLICT");
    session
        .result(&call, "laptop", json!({ "success": true }))
        .await
        .refused(409, "CONFLICT");
    session
        .decide(&call, json!({ "decision": "approve" }))
        .await
        .expect(200);
    let digest = approval["digest"].clone();
    let path = session.path(&format!("tool_calls/{call}/claim/"));
    for (base, status) in [(json!(null), 409), (json!(TWO), 409), (json!(ONE), 200)] {
        let version = json!({ "client_id": "laptop", "digest": digest, "base": base });
        session.post(&path, version).await.expect(status);
    }
    session
        .result(&call, "laptop", json!({ "success": true }))
        .await
        .expect(200);
    session.wait_for("task_completed", |_| true).await;
    let audit = session.get(&session.path("audit/")).await.expect(200);
    assert_eq!(
        (&audit["verified"], audit["audit"].as_array().unwrap().len()),
        (&json!(true), 2)
    );
}

#[tokio::test]
async fn an_edited_write_that_asks_again_shows_what_was_edited() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let call = write(&server, &session).await;
    let edited = json!({ "path": "b.txt", "content": "y" });
    let edit = json!({ "decision": "edit", "modified_args": edited });
    session.decide(&call, edit).await.expect(200);
    session.claim(&call, "laptop").await.expect(200);
    ask_again(&session, &call, "laptop", json!(ONE))
        .await
        .expect(200);
    let approval = open(&session).await;
    assert_eq!(approval["arguments"], edited);
    let right = json!({ "decision": "approve", "digest": approval["digest"], "base": ONE });
    session.decide(&call, right).await.expect(200);
}

#[tokio::test]
async fn nobody_else_says_what_a_write_would_do() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let call = write(&server, &session).await;
    let stranger = session.seen_by(&Person::new(&server, 2));
    show(&stranger, &call, "laptop", json!(ONE))
        .await
        .refused(404, "SESSION_NOT_FOUND");
    ask_again(&stranger, &call, "laptop", json!(ONE))
        .await
        .refused(404, "SESSION_NOT_FOUND");
    show(&session, "call-unknown", "laptop", json!(ONE))
        .await
        .refused(404, "PENDING_APPROVAL_NOT_FOUND");
    ask_again(&session, "call-unknown", "laptop", json!(ONE))
        .await
        .refused(404, "TOOL_CALL_NOT_FOUND");
    for body in [
        json!({ "client_id": "laptop", "diff": "" }),
        json!({ "client_id": "laptop", "base": "short", "diff": "" }),
        json!({ "base": null, "diff": "" }),
    ] {
        let path = session.path(&format!("approvals/{call}/preview/"));
        session.ask("PUT", &path, Some(body)).await.expect(422);
    }
    assert_eq!(open(&session).await["preview"], Value::Null);
    let long = json!({ "client_id": "laptop", "base": null, "diff": "x".repeat(100_000) });
    let path = session.path(&format!("approvals/{call}/preview/"));
    session.ask("PUT", &path, Some(long)).await.expect(200);
    let shown = &open(&session).await["preview"];
    assert_eq!(shown["truncated"], true);
    assert!(shown["diff"].as_str().unwrap().len() <= 32 * 1024);
}

#[tokio::test]
async fn the_mode_of_a_session_lets_writes_pass_and_nothing_else() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    assert_eq!(session.detail().await["approve"], "ask");
    let path = format!("/my/chat/sessions/{}", session.id);
    let change = |body| session.ask("PATCH", &path, Some(body));
    change(json!({ "approve": "all" })).await.expect(422);
    change(json!({ "approve": null })).await.expect(422);
    let changed = change(json!({ "approve": "edits" })).await.expect(200);
    assert_eq!(changed["approve"], "edits");
    assert_eq!(session.detail().await["approve"], "edits");
    let call = json!({ "path": "a.txt", "content": "x" });
    server.model.reply(Reply::tool_call("write_file", call));
    let answer = session.call("coder", "write").await.expect(200);
    assert_eq!(answer["status"], "awaiting_tool_result", "{answer:#}");
    let audit = session.get(&session.path("audit/")).await.expect(200);
    assert_eq!(audit["audit"][0]["decided_by"], "mode:edits");
    session.cancel().await.expect(200);
    for (tool, arguments) in [
        (
            "write_file",
            json!({ "path": ".git/hooks/x", "content": "x" }),
        ),
        ("execute_command", json!({ "command": "cargo fmt" })),
        ("execute_command", json!({ "command": "rm -rf build" })),
    ] {
        server
            .model
            .reply(Reply::tool_call(tool, arguments.clone()));
        let answer = session.call("coder", "go on").await.expect(200);
        assert_eq!(
            answer["status"], "awaiting_approval",
            "{arguments}: {answer:#}"
        );
        session.cancel().await.expect(200);
    }
    let other = Person::new(&server, 2);
    let foreign = other
        .ask("PATCH", &path, Some(json!({ "approve": "edits" })))
        .await;
    foreign.refused(404, "SESSION_NOT_FOUND");
}
