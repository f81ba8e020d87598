//! A person's word: approvals of tool calls, questions, and the record of both.

use codelab_testkit::{Reply, TestServer};
use serde_json::{Value, json};

use crate::kit::{Chat, Person, is_planning, says, server, server_with, task, tasks};

/// A session whose agent wants to write a file; what waits.
async fn writing(server: &TestServer) -> (Chat, Value) {
    let chat = Person::new(server, 1).chat().await;
    let pending = write(server, &chat, "a.txt").await;
    (chat, pending)
}

async fn write(server: &TestServer, chat: &Chat, path: &str) -> Value {
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({ "path": path, "content": "x" }),
    ));
    let answer = chat.call("coder", "write").await.expect(200);
    assert_eq!(answer["status"], "awaiting_approval", "{answer:#}");
    answer["pending"].clone()
}

fn call_of(pending: &Value) -> &str {
    pending["call_id"].as_str().unwrap()
}

#[tokio::test]
async fn an_approval_binds_to_what_was_shown() {
    let server = server().await;
    let (chat, pending) = writing(&server).await;
    let call = call_of(&pending);
    chat.claim(call, "laptop").await.refused(409, "CONFLICT");
    chat.result(call, "laptop", json!(1))
        .await
        .refused(409, "CONFLICT");
    let wrong = json!({ "decision": "approve", "digest": "0".repeat(64) });
    chat.decide(call, wrong).await.refused(409, "CONFLICT");
    let right = json!({ "decision": "Approve", "digest": pending["digest"] });
    assert_eq!(
        chat.decide(call, right.clone()).await.expect(200)["status"],
        "awaiting_tool_result"
    );
    chat.decide(call, right).await.refused(409, "CONFLICT");
    let log = chat.log().await;
    let shown = log.one("tool_call");
    assert_eq!(
        (
            &shown["approved"],
            &shown["requires_approval"],
            &shown["digest"]
        ),
        (&json!(true), &json!(false), &pending["digest"])
    );
    let resolved = log.one("approval_resolved");
    assert_eq!(
        (
            &resolved["decision"],
            &resolved["decided_by"],
            &resolved["kind"]
        ),
        (&json!("approve"), &json!("1"), &json!("tool"))
    );
    assert!(log.place("approval_resolved", |_| true) < log.place("tool_call", |_| true));
    let audit = chat.get(&chat.path("audit/")).await.expect(200);
    assert_eq!(
        (&audit["session_id"], &audit["verified"]),
        (&json!(chat.id), &json!(true))
    );
    let row = &audit["audit"][0];
    assert_eq!(
        (&row["call_id"], &row["tool_name"], &row["decision"]),
        (&json!(call), &json!("write_file"), &json!("APPROVE"))
    );
    assert_eq!(
        (&row["original_args"]["path"], &row["decided_by"]),
        (&json!("a.txt"), &json!("1"))
    );
    assert!(row["hash"].is_string() && row["timestamp"].is_string());
}

#[tokio::test]
async fn an_edit_runs_what_the_person_wrote() {
    let server = server().await;
    let (chat, pending) = writing(&server).await;
    let call = call_of(&pending);
    chat.decide(call, json!({ "decision": "edit" }))
        .await
        .refused(422, "MISSING_REQUIRED_FIELD");
    let wrong = json!({ "decision": "edit", "modified_args": { "path": 3 } });
    chat.decide(call, wrong)
        .await
        .refused(422, "INVALID_TOOL_ARGUMENTS");
    chat.decide(call, json!({ "decision": "edit", "modified_args": [] }))
        .await
        .refused(422, "INVALID_DECISION");
    chat.decide(call, json!({ "decision": "perhaps" }))
        .await
        .refused(422, "INVALID_DECISION");
    let edited =
        json!({ "decision": "EDIT", "modified_args": { "path": "b.txt", "content": "y" } });
    chat.decide(call, edited).await.expect(200);
    let shown = chat.log().await.one("tool_call").clone();
    assert_eq!(
        shown["tool_call"]["arguments"],
        json!({ "path": "b.txt", "content": "y" })
    );
    assert_ne!(shown["digest"], pending["digest"]);
    chat.claim(call, "laptop").await.expect(200);
    chat.result(call, "laptop", json!({ "success": true }))
        .await
        .expect(200);
    chat.wait_for("task_completed", |_| true).await;
    let row = &chat.get(&chat.path("audit/")).await.expect(200)["audit"][0];
    assert_eq!(
        (&row["decision"], &row["modified_args"]["path"]),
        (&json!("EDIT"), &json!("b.txt"))
    );
}

#[tokio::test]
async fn a_rejection_goes_to_the_model_and_the_turn_goes_on() {
    let server = server().await;
    let (chat, pending) = writing(&server).await;
    server.model.reply(Reply::text("Then not."));
    chat.decide(
        call_of(&pending),
        json!({ "decision": "reject", "feedback": "wrong folder" }),
    )
    .await
    .expect(200);
    chat.wait_for("task_completed", |data| data["response"] == "Then not.")
        .await;
    assert!(
        server
            .model
            .requests()
            .pop()
            .unwrap()
            .message(-1)
            .as_str()
            .unwrap()
            .contains("wrong folder")
    );
    let log = chat.log().await;
    assert_eq!(log.one("tool_call_closed")["outcome"], "rejected");
    assert!(!log.kinds().contains(&"tool_call"));
    chat.claim(call_of(&pending), "laptop")
        .await
        .refused(409, "CONFLICT");
}

#[tokio::test]
async fn an_approval_that_nobody_decides_about_expires() {
    let server = server_with(&[("CODELAB_LIMITS__APPROVAL_TIMEOUT_SECONDS", "1")]).await;
    let (chat, pending) = writing(&server).await;
    server.model.reply(Reply::text("Nobody was there."));
    chat.wait_for("task_completed", |data| {
        data["response"] == "Nobody was there."
    })
    .await;
    let log = chat.log().await;
    assert_eq!(log.one("error")["error_code"], "HITL_TIMEOUT");
    assert_eq!(
        (
            &log.one("approval_resolved")["decision"],
            &log.one("approval_resolved")["decided_by"]
        ),
        (&json!("expired"), &json!("timeout"))
    );
    chat.decide(call_of(&pending), json!({ "decision": "approve" }))
        .await
        .refused(409, "CONFLICT");
    chat.decide("nope", json!({ "decision": "approve" }))
        .await
        .refused(404, "PENDING_APPROVAL_NOT_FOUND");
}

#[tokio::test]
async fn a_remembered_approval_is_not_asked_again() {
    let server = server().await;
    let (chat, pending) = writing(&server).await;
    let call = call_of(&pending);
    chat.decide(call, json!({ "decision": "approve", "remember": true }))
        .await
        .expect(200);
    chat.claim(call, "laptop").await.expect(200);
    chat.result(call, "laptop", json!({ "success": true }))
        .await
        .expect(200);
    chat.wait_for("task_completed", |_| true).await;
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({ "path": "b.txt", "content": "x" }),
    ));
    let second = chat.call("coder", "write").await.expect(200);
    assert_eq!(second["status"], "awaiting_tool_result", "{second:#}");
    let audit = chat.get(&chat.path("audit/")).await.expect(200);
    assert_eq!(
        (&audit["audit"][1]["decided_by"], &audit["verified"]),
        (&json!("remembered: file writes"), &json!(true))
    );
    write(&server, &chat.chat().await, "c.txt").await; // another session asks
}

#[tokio::test]
async fn all_that_waits_for_a_person_is_in_one_list() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let project = me.project(json!({ "name": "other" })).await;
    let chats = [
        me.chat().await,
        me.chat_with(json!({ "project_id": project })).await,
    ];
    let mut calls = Vec::new();
    for chat in &chats {
        calls.push(write(&server, chat, "a.txt").await["call_id"].clone());
    }
    let open = me.get("/my/approvals/").await.expect(200);
    assert_eq!(
        (&open["total"], &open["limit"], &open["offset"]),
        (&json!(2), &json!(100), &json!(0))
    );
    for (approval, (chat, call)) in open["approvals"]
        .as_array()
        .unwrap()
        .iter()
        .zip(chats.iter().zip(&calls))
    {
        assert_eq!(
            (&approval["session_id"], &approval["project_id"]),
            (&json!(chat.id), &json!(chat.project))
        );
        assert_eq!(
            (&approval["call_id"], &approval["kind"]),
            (call, &json!("tool"))
        );
    }
    let page = me.get("/my/approvals/?limit=1&offset=1").await.expect(200);
    assert_eq!(
        (&page["approvals"][0]["call_id"], &page["total"]),
        (&calls[1], &json!(2))
    );
    let here = chats[0].get(&chats[0].path("approvals/")).await.expect(200);
    assert_eq!(
        (&here["total"], &here["approvals"][0]["call_id"]),
        (&json!(1), &calls[0])
    );
    assert_eq!(
        Person::new(&server, 2)
            .get("/my/approvals/")
            .await
            .expect(200)["total"],
        0
    );
    chats[0].cancel().await.expect(200);
    assert_eq!(me.get("/my/approvals/").await.expect(200)["total"], 1);
}

#[tokio::test]
async fn a_question_is_answered_by_its_id_or_by_the_next_message() {
    let server = server().await;
    let chat = Person::new(&server, 1).chat().await;
    let ask = Reply::tool_call(
        "ask_followup_question",
        json!({ "question": "Which?", "options": ["a", "b"] }),
    );
    server.model.reply(ask.clone());
    let question = chat.call("coder", "choose").await.expect(200);
    let call = question["pending"]["call_id"].as_str().unwrap();
    assert_eq!(
        (
            &question["pending"]["options"],
            &question["pending"]["agent"]
        ),
        (&json!(["a", "b"]), &json!("agent_coder"))
    );
    let path = chat.path(&format!("questions/{call}/answer/"));
    chat.post(&path, json!({}))
        .await
        .refused(422, "MISSING_REQUIRED_FIELD");
    chat.post(&path, json!({ "answer": " " }))
        .await
        .refused(422, "MISSING_REQUIRED_FIELD");
    assert_eq!(
        (&chat.detail().await["asks"], &listed(&chat).await["asks"]),
        (&json!(true), &json!(true))
    );
    let answered = chat
        .post(&path, json!({ "answer": "the first" }))
        .await
        .expect(200);
    let request = server.model.requests().pop().unwrap();
    assert_eq!(request.message(-1), "the first");
    let told = request.body["messages"]
        .to_string()
        .matches("the first")
        .count();
    assert_eq!(
        told, 1,
        "the model hears the answer once: {}",
        request.body["messages"]
    );
    let said = chat.messages("?role=user").await.pop().unwrap();
    assert_eq!(
        (&said["content"], &said["answers"]),
        (&json!("the first"), &json!(call))
    );
    assert_eq!(
        (&said["message_id"], said.get("task_id")),
        (&answered["message_id"], None)
    );
    assert_eq!(
        (&answered["status"], &answered["mode"]),
        (&json!("completed"), &json!("direct")),
        "as any direct call"
    );
    assert_eq!(
        (&answered["response"], &answered["agent"]),
        (&json!("Done."), &json!("agent_coder"))
    );
    assert_eq!(
        (&chat.detail().await["asks"], &listed(&chat).await["asks"]),
        (&json!(false), &json!(false))
    );
    chat.post(&path, json!({ "answer": "again" }))
        .await
        .refused(409, "CONFLICT");
    chat.post(
        &chat.path("questions/nope/answer/"),
        json!({ "answer": "x" }),
    )
    .await
    .refused(404, "TOOL_CALL_NOT_FOUND");

    server.model.reply(ask.clone());
    chat.call("coder", "choose").await.expect(200);
    // A message for an agent is never an answer; one without is.
    let waiting = chat.stream_call("writer", "not an answer").await;
    let answered = chat
        .send(json!({ "content": "the second", "client_message_id": "answer-1" }))
        .await
        .expect(202);
    assert_eq!(
        (&answered["status"], &answered["mode"]),
        (&json!("answered"), &json!("direct")),
        "as the turn that asked"
    );
    assert_eq!(waiting.all().await.status(), "completed");
    let told = server
        .model
        .requests()
        .iter()
        .any(|request| request.message(-1) == "the second");
    assert!(told, "the model got the answer");
    let again = chat
        .send(json!({ "content": "the second", "client_message_id": "answer-1" }))
        .await
        .expect(202);
    assert_eq!(again, answered);
    let said = chat.messages("?role=user").await;
    let second: Vec<&Value> = said
        .iter()
        .filter(|message| message["content"] == "the second")
        .collect();
    assert_eq!(
        (second.len(), &second[0]["message_id"]),
        (1, &answered["message_id"])
    );

    server.model.reply(ask);
    chat.call("coder", "choose").await.expect(200);
    let seen = chat
        .stream(json!({ "content": "the third" }))
        .await
        .all()
        .await;
    assert_eq!(
        (seen.kinds()[0], seen.status()),
        ("message_created", "completed"),
        "the rest of the turn"
    );
    let space = chat
        .get(&format!("/my/projects/{}/worker-space/", chat.project))
        .await
        .expect(200);
    assert_eq!(
        (
            &space["direct_calls_count"],
            &space["orchestrated_calls_count"]
        ),
        (&json!(4), &json!(0)),
        "answers are no calls"
    );
}

/// The session as it stands in the list.
async fn listed(chat: &Chat) -> Value {
    let list = chat.get("/my/chat/sessions/").await.expect(200);
    list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|session| session["session_id"] == chat.id)
        .unwrap()
        .clone()
}

#[tokio::test]
async fn a_message_answers_the_oldest_question() {
    let server = server().await;
    let chat = Person::new(&server, 1).chat().await;
    server.model.on(
        is_planning,
        Reply::text(tasks(&[
            task("a", "coder", &[]),
            task("b", "writer", &["a"]),
            task("c", "writer", &["a"]),
        ])),
    );
    let question =
        |text: &str| Reply::tool_call("ask_followup_question", json!({ "question": text }));
    let fresh = |text: &'static str| {
        let said = says(text);
        move |body: &Value| {
            said(body) && body["messages"].as_array().unwrap().last().unwrap()["role"] == "user"
        }
    };
    server.model.on(fresh("Do b."), question("B?"));
    server.model.on(fresh("Do c."), question("C?"));
    let asked = chat.stream_plan("Build it").await.all().await;
    chat.decide_plan(
        asked.one("task_plan_created"),
        json!({ "decision": "approve" }),
    )
    .await
    .expect(200);
    let mut events = chat.follow(0).await;
    let first = events.until("question", |_| true).await.data;
    let second = events.until("question", |_| true).await.data;
    assert!(first["task_id"] != second["task_id"] && first["plan_id"] == second["plan_id"]);
    let accepted = chat
        .send(json!({ "content": "for the first" }))
        .await
        .expect(202);
    assert_eq!(
        (&accepted["mode"], &accepted["status"]),
        (&json!("orchestrated"), &json!("answered"))
    );
    assert!(accepted["workflow_id"].is_string(), "{accepted}");
    let said = chat.messages("?role=user").await.pop().unwrap();
    assert_eq!(
        (&said["message_id"], &said["answers"], &said["task_id"]),
        (
            &accepted["message_id"],
            &first["call_id"],
            &first["task_id"]
        )
    );
    let result = events.until("tool_result", |_| true).await.data;
    assert_eq!(
        (&result["call_id"], &result["task_id"], &result["result"]),
        (
            &first["call_id"],
            &first["task_id"],
            &json!("for the first")
        )
    );
    let path = format!("questions/{}/answer/", second["call_id"].as_str().unwrap());
    let seen = chat
        .open(
            "POST",
            &chat.path(&path),
            Some(json!({ "answer": "for the second" })),
            None,
        )
        .await
        .all()
        .await;
    let created = &seen.0[seen.place("message_created", |data| data["role"] == "user")].data;
    assert_eq!(
        (&created["answers"], &created["task_id"]),
        (&second["call_id"], &second["task_id"])
    );
    events
        .until("workflow_completed", |data| data["status"] == "completed")
        .await;
}

#[tokio::test]
async fn approvals_survive_a_restart() {
    let mut server = server().await;
    let (chat, pending) = writing(&server).await;
    server.restart().await;
    let chat = chat.seen_by(&Person::new(&server, 1));
    let open = chat.get(&chat.path("approvals/")).await.expect(200);
    assert_eq!(
        (
            &open["approvals"][0]["digest"],
            &open["approvals"][0]["call_id"]
        ),
        (&pending["digest"], &pending["call_id"])
    );
    chat.decide(
        call_of(&pending),
        json!({ "decision": "approve", "digest": pending["digest"] }),
    )
    .await
    .expect(200);
    assert_eq!(chat.log().await.one("tool_call")["approved"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_decisions_at_once_one_wins() {
    let server = server().await;
    for _ in 0..20 {
        let (chat, pending) = writing(&server).await;
        let call = call_of(&pending);
        let (yes, no) = tokio::join!(
            chat.decide(call, json!({ "decision": "approve" })),
            chat.decide(call, json!({ "decision": "reject" })),
        );
        let mut statuses = [yes.status, no.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409]);
        assert_eq!(
            chat.get(&chat.path("audit/")).await.expect(200)["audit"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
    }
}

#[tokio::test]
async fn after_a_restart_every_list_shows_when_an_approval_expires() {
    let mut server = server().await;
    let chats = [writing(&server).await.0, writing(&server).await.0];
    let before = Person::new(&server, 1)
        .get("/my/approvals/")
        .await
        .expect(200);
    server.restart().await;
    let person = Person::new(&server, 1);
    let all = person.get("/my/approvals/").await.expect(200);
    for (number, chat) in chats.iter().enumerate() {
        let of_session = person
            .get(&format!("/my/chat/{}/approvals/", chat.id))
            .await
            .expect(200);
        assert_eq!(all["approvals"][number], of_session["approvals"][0]);
        let shown = |list: &Value| {
            list["approvals"][number]["expires_at"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        assert!(
            shown(&all) > shown(&before),
            "the time without a server does not count"
        );
    }
}
