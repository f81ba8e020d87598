//! What a person allowed for the rest of a session: seen, and taken back.

use codelab_testkit::Reply;
use serde_json::{Value, json};

use crate::kit::{Person, Session, server};

fn write(path: &str) -> Reply {
    Reply::tool_call("write_file", json!({ "path": path, "content": "x" }))
}

/// The call that waits for an approval.
async fn asked(session: &Session, text: &str) -> String {
    let answer = session.call("coder", text).await.expect(200);
    assert_eq!(answer["status"], "awaiting_approval", "{answer:#}");
    answer["pending"]["call_id"].as_str().unwrap().to_owned()
}

async fn allow(session: &Session, call: &str) {
    let always = json!({ "decision": "approve", "remember": true });
    session.decide(call, always).await.expect(200);
    session.claim(call, "laptop").await.expect(200);
    let done = json!({ "success": true });
    session.result(call, "laptop", done).await.expect(200);
    session.wait_for("task_completed", |_| true).await;
}

async fn remembered(session: &Session) -> Vec<Value> {
    let list = session.get(&session.path("remembered/")).await.expect(200);
    list["remembered"].as_array().unwrap().clone()
}

#[tokio::test]
async fn what_was_allowed_is_listed_and_can_be_taken_back() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    assert_eq!(remembered(&session).await, Vec::<Value>::new());
    server.model.reply(write("a.txt"));
    let call = asked(&session, "write").await;
    allow(&session, &call).await;
    let command = json!({ "command": "npm install", "cwd": "web" });
    server
        .model
        .reply(Reply::tool_call("execute_command", command));
    let call = asked(&session, "install").await;
    let always = json!({ "decision": "approve", "remember": true });
    session.decide(&call, always).await.expect(200);
    session.cancel().await.expect(200);

    let rules = remembered(&session).await;
    let kinds: Vec<&str> = rules
        .iter()
        .filter_map(|rule| rule["kind"].as_str())
        .collect();
    assert_eq!(kinds, ["file_writes", "command"]);
    assert_eq!(
        (&rules[1]["command"], &rules[1]["cwd"]),
        (&json!("npm install"), &json!("web"))
    );

    let of = |rule: &Value| session.path(&format!("remembered/{}", rule["id"].as_str().unwrap()));
    let other = Person::new(&server, 2);
    other
        .ask("DELETE", &of(&rules[0]), None)
        .await
        .refused(404, "SESSION_NOT_FOUND");
    let gone = session.ask("DELETE", &of(&rules[0]), None).await;
    assert_eq!(gone.status, 204);
    assert_eq!(remembered(&session).await, [rules[1].clone()]);
    session
        .ask("DELETE", &of(&rules[0]), None)
        .await
        .refused(404, "NOT_FOUND");
    let revoked = session.wait_for("remembered_revoked", |_| true).await;
    assert_eq!(
        (&revoked.data["kind"], &revoked.data["revoked_by"]),
        (&json!("file_writes"), &json!("1"))
    );

    server.model.reply(write("b.txt"));
    asked(&session, "write once more").await;
}
