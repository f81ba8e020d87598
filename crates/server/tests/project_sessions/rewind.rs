//! Taking back what was done since a message: what people see, what clients are asked, and what
//! models are told afterwards.

use codelab_testkit::{Gate, Reply, TestServer};
use serde_json::{Value, json};

use crate::kit::{Answer, Person, Session, server};

async fn attach(session: &Session) {
    let clients = format!("/my/projects/{}/clients/", session.project);
    let laptop = json!({ "client_id": "laptop", "workspace": "/home/me/shop", "sandbox": "bwrap" });
    session.post(&clients, laptop).await.expect(201);
}

/// A turn that writes a file; the call's id.
async fn write(server: &TestServer, session: &Session, text: &str, path: &str) -> String {
    let arguments = json!({ "path": path, "content": "x" });
    server
        .model
        .reply(Reply::tool_call("write_file", arguments));
    let answer = session.call("coder", text).await.expect(200);
    let call = answer["pending"]["call_id"].as_str().unwrap().to_owned();
    let approve = json!({ "decision": "approve" });
    session.decide(&call, approve).await.expect(200);
    session.claim(&call, "laptop").await.expect(200);
    let after = last_id(session).await;
    let done = json!({ "success": true, "size": 1 });
    session.result(&call, "laptop", done).await.expect(200);
    let mut events = session.follow(after).await;
    events.until("task_completed", |_| true).await;
    call
}

async fn last_id(session: &Session) -> u64 {
    session.log().await.ids().last().copied().unwrap_or(0)
}

async fn messages(session: &Session) -> Vec<Value> {
    let list = session.get(&session.path("messages/?limit=100")).await;
    list.expect(200)["messages"].as_array().unwrap().clone()
}

async fn message_id(session: &Session, text: &str) -> String {
    let said = messages(session).await;
    let said = said.iter().find(|said| said["content"] == text).unwrap();
    said["message_id"].as_str().unwrap().to_owned()
}

async fn rewind(session: &Session, body: Value) -> Answer {
    session.post(&session.path("rewind/"), body).await
}

/// Asks for a rewind, and answers the client's call with this.
async fn rewind_with(session: &Session, body: Value, result: Value) -> (Value, Value) {
    let after = last_id(session).await;
    let asking = tokio::spawn({
        let session = session.clone();
        async move { rewind(&session, body).await.expect(200) }
    });
    let mut events = session.follow(after).await;
    let call = events.until("tool_call", |_| true).await.data;
    assert_eq!(call["tool_call"]["name"], "rewind_files", "{call:#}");
    assert_eq!(call["approved"], true);
    let id = call["tool_call"]["call_id"].as_str().unwrap();
    session.claim(id, "laptop").await.expect(200);
    session.result(id, "laptop", result).await.expect(200);
    (asking.await.unwrap(), call)
}

fn done(restored: &[&str]) -> Value {
    json!({ "success": true, "restored": restored, "left": [{ "path": "kept.txt", "reason": "changed" }], "not_covered": [] })
}

#[tokio::test]
async fn files_and_messages_go_back_and_forth() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    attach(&session).await;
    session.call("coder", "hello").await.expect(200);
    let call = write(&server, &session, "write the gateway", "a.txt").await;
    let to = message_id(&session, "write the gateway").await;

    let body = json!({ "to_message_id": to, "scope": "both" });
    let (rewound, asked) = rewind_with(&session, body, done(&["a.txt"])).await;
    assert_eq!(rewound["restored"], json!(["a.txt"]), "{rewound:#}");
    assert_eq!(rewound["left"][0]["path"], "kept.txt");
    assert_eq!(rewound["to_message_id"], json!(to));
    let wanted = &asked["tool_call"]["arguments"];
    assert_eq!(
        wanted["calls"],
        json!([{ "call_id": call, "path": "a.txt" }])
    );
    let id = rewound["rewind_id"].as_str().unwrap().to_owned();
    let event = session.log().await.one("rewound").clone();
    assert_eq!(event["rewind_id"], json!(id));
    let audit = session.get(&session.path("audit/")).await.expect(200);
    let rows = audit["audit"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["tool_name"] == "rewind_files")
        .unwrap();
    assert_eq!(
        (&row["decided_by"], &row["decision"]),
        (&json!("1"), &json!("APPROVE"))
    );

    let said = messages(&session).await;
    let (before, after) = said.split_at(2);
    assert!(before.iter().all(|said| said.get("rewound").is_none()));
    assert!(
        !after.is_empty() && after.iter().all(|said| said["rewound"] == json!(id)),
        "{said:#?}"
    );
    session.call("coder", "and now?").await.expect(200);
    let told = server.model.requests().last().unwrap().body.to_string();
    assert!(
        told.contains("hello") && !told.contains("write the gateway"),
        "{told}"
    );
    let found = session
        .get("/my/chat/sessions/?q=gateway")
        .await
        .expect(200);
    assert_eq!(found["total"], 0, "{found:#}");

    let (undone, asked) = rewind_with(&session, json!({ "undo": id }), done(&["a.txt"])).await;
    assert_eq!(asked["tool_call"]["arguments"], json!({ "undo": id }));
    assert_eq!(
        (&undone["undone"], &undone["rewind_id"]),
        (&json!(true), &json!(id))
    );
    assert!(
        messages(&session)
            .await
            .iter()
            .all(|said| said.get("rewound").is_none())
    );
    session.call("coder", "once more").await.expect(200);
    let told = server.model.requests().last().unwrap().body.to_string();
    assert!(told.contains("write the gateway"), "{told}");
    let found = session
        .get("/my/chat/sessions/?q=gateway")
        .await
        .expect(200);
    assert_eq!(found["total"], 1, "{found:#}");
    rewind(&session, json!({ "undo": id }))
        .await
        .refused(409, "REWIND_CONFLICT");
}

#[tokio::test]
async fn what_cannot_be_rewound_is_refused_with_a_reason() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    session.call("coder", "hello").await.expect(200);
    let to = message_id(&session, "hello").await;
    let both = json!({ "to_message_id": to, "scope": "both" });
    let refused = rewind(&session, both.clone()).await;
    refused.refused(409, "REWIND_CONFLICT");
    assert_eq!(refused.body["details"]["reason"], "no_client");
    let unknown = json!({ "to_message_id": "nobody", "scope": "conversation" });
    rewind(&session, unknown).await.refused(404, "NOT_FOUND");
    let answer = message_id(&session, "Done.").await;
    let not_mine = json!({ "to_message_id": answer, "scope": "conversation" });
    rewind(&session, not_mine)
        .await
        .refused(422, "VALIDATION_ERROR");
    rewind(&session, json!({ "undo": "never" }))
        .await
        .refused(404, "NOT_FOUND");
    rewind(&session, json!({ "to_message_id": to }))
        .await
        .refused(422, "MISSING_REQUIRED_FIELD");
    rewind(&session, json!({}))
        .await
        .refused(422, "MISSING_REQUIRED_FIELD");
    let gate = Gate::new();
    server.model.reply(Reply::text("late").hold(&gate));
    let mut turn = session.stream_call("coder", "think").await;
    turn.until("agent_status_changed", |_| true).await;
    let conversation = json!({ "to_message_id": to, "scope": "conversation" });
    let refused = rewind(&session, conversation.clone()).await;
    refused.refused(409, "REWIND_CONFLICT");
    assert_eq!(refused.body["details"]["reason"], "busy");
    gate.open();
    turn.until("task_completed", |_| true).await;
    rewind(&session, conversation.clone()).await.expect(200);
    let refused = rewind(&session, conversation).await;
    refused.refused(409, "REWIND_CONFLICT");
    assert_eq!(refused.body["details"]["reason"], "rewound");
}

#[tokio::test]
async fn while_files_go_back_messages_wait_and_a_second_rewind_is_refused() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    attach(&session).await;
    write(&server, &session, "write", "a.txt").await;
    let to = message_id(&session, "write").await;
    let body = json!({ "to_message_id": to, "scope": "files" });
    let after = last_id(&session).await;
    let asking = tokio::spawn({
        let (session, body) = (session.clone(), body.clone());
        async move { rewind(&session, body).await.expect(200) }
    });
    let mut events = session.follow(after).await;
    let call = events.until("tool_call", |_| true).await.data;
    let id = call["tool_call"]["call_id"].as_str().unwrap().to_owned();
    let refused = rewind(&session, body).await;
    refused.refused(409, "REWIND_CONFLICT");
    assert_eq!(refused.body["details"]["reason"], "rewinding");
    let queued = tokio::spawn({
        let session = session.clone();
        async move { session.call("coder", "next").await.expect(200) }
    });
    events.until("message_queued", |_| true).await;
    session.claim(&id, "laptop").await.expect(200);
    let failed = json!({ "success": false, "error": "the disk is full" });
    session.result(&id, "laptop", failed).await.expect(200);
    let rewound = asking.await.unwrap();
    assert_eq!(rewound["error"], "the disk is full", "{rewound:#}");
    assert_eq!(queued.await.unwrap()["status"], "completed");
}
