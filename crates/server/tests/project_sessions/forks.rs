//! Forks: a new session with the history of another one.

use codelab_protocol::{Digest, NewAttachment};
use codelab_testkit::{Reply, TestServer};
use serde_json::{Value, json};

use crate::kit::{Person, Session, is_planning, server, server_with, task, tasks};

async fn fork(session: &Session, at: &Value) -> Session {
    let body = json!({ "at_message_id": at });
    let made = session.post(&session.path("fork/"), body).await.expect(201);
    assert_eq!(made["forked_from"]["message_id"], *at);
    assert_eq!(made["forked_from"]["session_id"], session.id);
    assert_eq!(made["project_id"], session.project);
    session.other(made["session_id"].as_str().unwrap())
}

fn contents(messages: &[Value]) -> Vec<&str> {
    let texts = messages.iter();
    texts.map(|m| m["content"].as_str().unwrap()).collect()
}

/// What the model was last asked, without what comes before the history.
fn last_asked(server: &TestServer) -> Vec<Value> {
    let request = server.model.requests().pop().unwrap().body;
    let messages = request["messages"].as_array().unwrap();
    let said = messages.iter().filter(|said| said["role"] != "system");
    said.cloned().collect()
}

async fn patch(session: &Session, body: Value) {
    let path = format!("/my/chat/sessions/{}", session.id);
    session.ask("PATCH", &path, Some(body)).await.expect(200);
}

#[tokio::test]
async fn a_fork_has_the_history_up_to_its_message_and_goes_its_own_way() {
    let mut server = server().await;
    let me = Person::new(&server, 1);
    let session = me
        .session_with(json!({ "title": "Zebras", "budget_tokens": 90000 }))
        .await;
    patch(&session, json!({ "model": "gpt-4o", "agent": "coder" })).await;
    let image = json!(NewAttachment::new(
        "a.png",
        "image/png",
        b"\x89PNG\r\n\x1a\nx"
    ));
    let digest = Digest::of_bytes(b"\x89PNG\r\n\x1a\nx");
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({ "path": "x", "content": "y" }),
    ));
    let body = json!({ "content": "draw giraffes", "attachments": [image] });
    let first = session.send(body).await.expect(200);
    let call = first["pending"]["call_id"].as_str().unwrap();
    let approve = json!({ "decision": "approve", "remember": true });
    session.decide(call, approve).await.expect(200);
    session.claim(call, "laptop").await.expect(200);
    session
        .result(call, "laptop", json!({ "success": true }))
        .await
        .expect(200);
    session.wait_for("task_completed", |_| true).await;
    server.model.reply(Reply::text("Later."));
    session.call("coder", "and then").await.expect(200);
    let original = session.messages("").await;
    let at = original[3]["message_id"].clone();

    let copy = fork(&session, &at).await;
    let copied = copy.messages("").await;
    assert_eq!(contents(&copied), contents(&original[..4]));
    for (copied, original) in copied.iter().zip(&original) {
        assert_ne!(copied["message_id"], original["message_id"]);
        for field in [
            "role",
            "tool_calls",
            "tool_call_id",
            "agent_id",
            "timestamp",
            "attachments",
        ] {
            assert_eq!(copied[field], original[field], "{field}");
        }
    }
    let detail = copy.detail().await;
    assert_eq!(
        (&detail["title"], &detail["model"], &detail["agent"]),
        (
            &json!("Zebras (fork)"),
            &json!("gpt-4o"),
            &json!("agent_coder")
        )
    );
    assert_eq!(
        (
            &detail["budget_tokens"],
            &detail["usage"]["calls"],
            &detail["busy"],
            &detail["message_count"]
        ),
        (&json!(90000), &json!(0), &json!(false), &json!(4))
    );
    let remembered = copy.get(&copy.path("remembered/")).await.expect(200);
    assert_eq!(remembered["remembered"], json!([]), "it asks again");
    // Whoever follows events sees the same.
    let log = copy.log().await;
    assert_eq!(
        log.kinds(),
        [
            "message_created",
            "message_created",
            "tool_result",
            "message_created"
        ]
    );
    assert_eq!(log.all("message_created")[0]["content"], "draw giraffes");
    assert_eq!(log.one("tool_result")["result"], json!({ "success": true }));

    // The model sees in the fork what it saw there, the file included.
    server.restart().await;
    let (session, copy) = {
        let me = Person::new(&server, 1);
        (session.seen_by(&me), copy.seen_by(&me))
    };
    copy.call("coder", "and then").await.expect(200);
    let in_fork = last_asked(&server);
    let requests = server.model.requests();
    let in_original = requests
        .iter()
        .rev()
        .skip(1)
        .find(|request| request.body.to_string().contains("and then"))
        .unwrap();
    let said = in_original.body["messages"].as_array().unwrap();
    let said: Vec<&Value> = said
        .iter()
        .filter(|said| said["role"] != "system")
        .collect();
    assert_eq!(in_fork.iter().collect::<Vec<_>>(), said);

    // Words are found in both; the original can go.
    let found = copy.get("/my/chat/sessions/?q=giraffes").await.expect(200);
    assert_eq!(found["total"], 2);
    let path = format!("/my/chat/sessions/{}", session.id);
    assert_eq!(session.ask("DELETE", &path, None).await.status, 204);
    let image = copy.path(&format!("attachments/{digest}"));
    assert_eq!(copy.file(&image).await.status(), 200);
    let again = fork(&copy, &copy.messages("").await[0]["message_id"]).await;
    assert_eq!(contents(&again.messages("").await), ["draw giraffes"]);
    assert_eq!(again.detail().await["title"], "Zebras (fork)");
}

#[tokio::test]
async fn a_running_turn_is_copied_as_far_as_it_is_stored() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let reads = vec![
        ("read_file", json!({ "path": "a" })),
        ("read_file", json!({ "path": "b" })),
    ];
    server.model.reply(Reply::tool_calls(reads));
    let answer = session.call("coder", "read").await.expect(200);
    let call = answer["pending"]["call_id"].as_str().unwrap();
    session.claim(call, "laptop").await.expect(200);
    session
        .result(call, "laptop", json!({ "success": true }))
        .await
        .expect(200);
    session
        .send(json!({ "content": "waits" }))
        .await
        .expect(202);
    session
        .send(json!({ "content": "steers", "delivery": "steer" }))
        .await
        .expect(202);
    let said = session.messages("").await;
    let copy = fork(&session, &said[1]["message_id"]).await;
    let copied = copy.messages("").await;
    let roles: Vec<&Value> = copied.iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool"]);
    assert_eq!(
        copied[3]["content"],
        "This call had not ended when the session was forked."
    );
    let detail = copy.detail().await;
    assert_eq!(
        (&detail["busy"], &detail["queued"]),
        (&json!(false), &json!(0))
    );
    copy.call("coder", "go on").await.expect(200);
    assert_eq!(last_asked(&server).len(), 5);
    assert_eq!(session.detail().await["busy"], true, "the original goes on");
}

#[tokio::test]
async fn a_fork_after_a_plan_has_its_answer_and_not_its_threads() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server
        .model
        .on(is_planning, Reply::text(tasks(&[task("a", "writer", &[])])));
    session
        .send(json!({ "content": "plan it" }))
        .await
        .expect(202);
    session.wait_for("workflow_completed", |_| true).await;
    let said = session.messages("").await;
    let copy = fork(&session, &said.last().unwrap()["message_id"]).await;
    assert_eq!(contents(&copy.messages("").await), ["plan it", "Done."]);
    assert_eq!(copy.get(&copy.path("plans/")).await.expect(200)["total"], 0);
    assert_eq!(
        copy.log().await.kinds(),
        ["message_created", "message_created"]
    );
    copy.call("coder", "next").await.expect(200);
    let exported = copy
        .get(&format!(
            "/my/chat/sessions/{}/export/?format=json",
            copy.id
        ))
        .await
        .expect(200);
    assert_eq!(exported["session"]["forked_from"]["session_id"], session.id);
}

#[tokio::test]
async fn a_summary_goes_along_only_where_it_covers_nothing_later() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    for text in ["one", "two"] {
        session.call("coder", text).await.expect(200);
    }
    server.model.reply(Reply::text("They counted."));
    session
        .ask("POST", &session.path("compact/"), None)
        .await
        .expect(200);
    session.wait_for("history_compacted", |_| true).await;
    session.call("coder", "three").await.expect(200);
    let said = session.messages("").await;

    let whole = fork(&session, &said.last().unwrap()["message_id"]).await;
    assert_eq!(
        whole.log().await.one("history_compacted")["summary"],
        "They counted."
    );
    whole.call("coder", "four").await.expect(200);
    let request = server.model.requests().pop().unwrap().body.to_string();
    assert!(request.contains("They counted."), "{request}");
    assert!(
        !request.contains("\"two\""),
        "the summary stands for it: {request}"
    );

    let early = fork(&session, &said[1]["message_id"]).await;
    early.call("coder", "four").await.expect(200);
    let request = server.model.requests().pop().unwrap().body.to_string();
    assert!(!request.contains("They counted."), "{request}");
    assert!(request.contains("\"one\""), "{request}");
}

#[tokio::test]
async fn what_a_rewind_took_back_is_not_part_of_a_fork() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server.model.reply(Reply::text("First."));
    session.call("coder", "one").await.expect(200);
    server.model.reply(Reply::text("Second."));
    session.call("coder", "two giraffes").await.expect(200);
    let taken_back = session.messages("").await[2]["message_id"].clone();
    let body = json!({ "to_message_id": taken_back, "scope": "conversation" });
    let path = session.path("rewind/");
    let rewound = session.post(&path, body).await.expect(200);
    server.model.reply(Reply::text("Third."));
    session.call("coder", "three").await.expect(200);
    let said = session.messages("").await;
    let all = [
        "one",
        "First.",
        "two giraffes",
        "Second.",
        "three",
        "Third.",
    ];
    assert_eq!(contents(&said), all, "the original lists everything");

    let copy = fork(&session, &said[5]["message_id"]).await;
    let kept = ["one", "First.", "three", "Third."];
    let copied = copy.messages("").await;
    assert_eq!(contents(&copied), kept);
    assert!(copied.iter().all(|said| said.get("rewound").is_none()));
    let log = copy.log().await;
    let shown = log.all("message_created");
    let shown: Vec<&str> = shown
        .iter()
        .filter_map(|shown| shown["content"].as_str())
        .collect();
    assert_eq!(shown, kept);
    copy.call("coder", "four").await.expect(200);
    let told = Value::from(last_asked(&server)).to_string();
    assert!(
        !told.contains("giraffes") && told.contains("Third."),
        "{told}"
    );
    let found = copy.get("/my/chat/sessions/?q=giraffes").await.expect(200);
    assert_eq!(found["total"], 0, "{found:#}");

    // Not at what was taken back, neither the user's message nor the answer.
    for place in [2, 3] {
        let body = json!({ "at_message_id": said[place]["message_id"] });
        let refused = session.post(&session.path("fork/"), body).await;
        refused.refused(422, "VALIDATION_ERROR");
        assert_eq!(refused.body["details"]["field"], "at_message_id");
    }
    let undo = json!({ "undo": rewound["rewind_id"] });
    session.post(&path, undo).await.expect(200);
    let whole = fork(&session, &said[5]["message_id"]).await;
    assert_eq!(contents(&whole.messages("").await), all);
    let early = fork(&session, &said[3]["message_id"]).await;
    assert_eq!(contents(&early.messages("").await), all[..4]);
    assert_eq!(copy.messages("").await.len(), 6, "a fork goes its own way");
}

#[tokio::test]
async fn what_cannot_be_forked_is_refused() {
    let server = server_with(&[("CODELAB_LIMITS__USER_SESSIONS_PER_MINUTE", "2")]).await;
    let session = Person::new(&server, 1).session().await;
    server
        .model
        .reply(Reply::tool_call("read_file", json!({ "path": "a" })));
    let answer = session.call("coder", "read").await.expect(200);
    let call = answer["pending"]["call_id"].as_str().unwrap();
    session.claim(call, "laptop").await.expect(200);
    session
        .result(call, "laptop", json!({ "success": true }))
        .await
        .expect(200);
    session.wait_for("task_completed", |_| true).await;
    let said = session.messages("").await;
    let ask = |at: Value| {
        let session = session.clone();
        async move {
            session
                .post(&session.path("fork/"), json!({ "at_message_id": at }))
                .await
        }
    };
    session
        .post(&session.path("fork/"), json!({}))
        .await
        .refused(422, "MISSING_REQUIRED_FIELD");
    let other = session.seen_by(&Person::new(&server, 2));
    let body = json!({ "at_message_id": said[0]["message_id"] });
    other
        .post(&other.path("fork/"), body)
        .await
        .refused(404, "SESSION_NOT_FOUND");
    ask(said[0]["message_id"].clone()).await.expect(201);
    ask(said[0]["message_id"].clone())
        .await
        .refused(429, "RATE_LIMITED");
}

#[tokio::test]
async fn an_unknown_message_and_a_tools_message_are_no_places_to_fork() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server
        .model
        .reply(Reply::tool_call("read_file", json!({ "path": "a" })));
    let answer = session.call("coder", "read").await.expect(200);
    let call = answer["pending"]["call_id"].as_str().unwrap();
    session.claim(call, "laptop").await.expect(200);
    session
        .result(call, "laptop", json!({ "success": true }))
        .await
        .expect(200);
    session.wait_for("task_completed", |_| true).await;
    let said = session.messages("").await;
    let path = session.path("fork/");
    let at = |id: &Value| json!({ "at_message_id": id });
    session
        .post(&path, at(&json!("unknown")))
        .await
        .refused(404, "NOT_FOUND");
    session
        .post(&path, at(&said[2]["message_id"]))
        .await
        .refused(422, "VALIDATION_ERROR");
}
