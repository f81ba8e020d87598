//! A person's word: approvals of tool calls, questions, and the record of both.

use codelab_testkit::{Reply, TestServer, skipped_through_another};
use serde_json::{Value, json};

use crate::kit::{Person, Session, is_planning, says, server, server_with, task, tasks};

/// A session whose agent wants to write a file; what waits.
async fn writing(server: &TestServer) -> (Session, Value) {
    let session = Person::new(server, 1).session().await;
    let pending = write(server, &session, "a.txt").await;
    (session, pending)
}

async fn write(server: &TestServer, session: &Session, path: &str) -> Value {
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({ "path": path, "content": "x" }),
    ));
    let answer = session.call("coder", "write").await.expect(200);
    assert_eq!(answer["status"], "awaiting_approval", "{answer:#}");
    answer["pending"].clone()
}

fn call_of(pending: &Value) -> &str {
    pending["call_id"].as_str().unwrap()
}

#[tokio::test]
async fn an_approval_binds_to_what_was_shown() {
    let server = server().await;
    let (session, pending) = writing(&server).await;
    let call = call_of(&pending);
    session.claim(call, "laptop").await.refused(409, "CONFLICT");
    session
        .result(call, "laptop", json!(1))
        .await
        .refused(409, "CONFLICT");
    let wrong = json!({ "decision": "approve", "digest": "0".repeat(64) });
    session.decide(call, wrong).await.refused(409, "CONFLICT");
    let right = json!({ "decision": "Approve", "digest": pending["digest"] });
    assert_eq!(
        session.decide(call, right.clone()).await.expect(200)["status"],
        "awaiting_tool_result"
    );
    session.decide(call, right).await.refused(409, "CONFLICT");
    let log = session.log().await;
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
    assert!(log.index("approval_resolved", |_| true) < log.index("tool_call", |_| true));
    let audit = session.get(&session.path("audit/")).await.expect(200);
    assert_eq!(
        (&audit["session_id"], &audit["verified"]),
        (&json!(session.id), &json!(true))
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
    let (session, pending) = writing(&server).await;
    let call = call_of(&pending);
    session
        .decide(call, json!({ "decision": "edit" }))
        .await
        .refused(422, "MISSING_REQUIRED_FIELD");
    let wrong = json!({ "decision": "edit", "modified_args": { "path": 3 } });
    session
        .decide(call, wrong)
        .await
        .refused(422, "INVALID_TOOL_ARGUMENTS");
    session
        .decide(call, json!({ "decision": "edit", "modified_args": [] }))
        .await
        .refused(422, "INVALID_DECISION");
    session
        .decide(call, json!({ "decision": "perhaps" }))
        .await
        .refused(422, "INVALID_DECISION");
    let edited =
        json!({ "decision": "EDIT", "modified_args": { "path": "b.txt", "content": "y" } });
    session.decide(call, edited).await.expect(200);
    let shown = session.log().await.one("tool_call").clone();
    assert_eq!(
        shown["tool_call"]["arguments"],
        json!({ "path": "b.txt", "content": "y" })
    );
    assert_ne!(shown["digest"], pending["digest"]);
    session.claim(call, "laptop").await.expect(200);
    session
        .result(call, "laptop", json!({ "success": true }))
        .await
        .expect(200);
    session.wait_for("task_completed", |_| true).await;
    let row = &session.get(&session.path("audit/")).await.expect(200)["audit"][0];
    assert_eq!(
        (&row["decision"], &row["modified_args"]["path"]),
        (&json!("EDIT"), &json!("b.txt"))
    );
}

#[tokio::test]
async fn a_rejection_goes_to_the_model_and_the_turn_goes_on() {
    let server = server().await;
    let (session, pending) = writing(&server).await;
    server.model.reply(Reply::text("Then not."));
    session
        .decide(
            call_of(&pending),
            json!({ "decision": "reject", "feedback": "wrong folder" }),
        )
        .await
        .expect(200);
    session
        .wait_for("task_completed", |data| data["response"] == "Then not.")
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
    let log = session.log().await;
    assert_eq!(log.one("tool_call_closed")["outcome"], "rejected");
    assert!(!log.kinds().contains(&"tool_call"));
    session
        .claim(call_of(&pending), "laptop")
        .await
        .refused(409, "CONFLICT");
}

#[tokio::test]
async fn an_approval_that_nobody_decides_about_expires() {
    let server = server_with(&[("CODELAB_LIMITS__APPROVAL_TIMEOUT_SECONDS", "1")]).await;
    let (session, pending) = writing(&server).await;
    server.model.reply(Reply::text("Nobody was there."));
    session
        .wait_for("task_completed", |data| {
            data["response"] == "Nobody was there."
        })
        .await;
    let log = session.log().await;
    assert_eq!(log.one("error")["error_code"], "HITL_TIMEOUT");
    assert_eq!(
        (
            &log.one("approval_resolved")["decision"],
            &log.one("approval_resolved")["decided_by"]
        ),
        (&json!("expired"), &json!("timeout"))
    );
    session
        .decide(call_of(&pending), json!({ "decision": "approve" }))
        .await
        .refused(409, "CONFLICT");
    session
        .decide("nope", json!({ "decision": "approve" }))
        .await
        .refused(404, "PENDING_APPROVAL_NOT_FOUND");
}

#[tokio::test]
async fn a_remembered_approval_is_not_asked_again() {
    let server = server().await;
    let (session, pending) = writing(&server).await;
    let call = call_of(&pending);
    session
        .decide(call, json!({ "decision": "approve", "remember": true }))
        .await
        .expect(200);
    session.claim(call, "laptop").await.expect(200);
    session
        .result(call, "laptop", json!({ "success": true }))
        .await
        .expect(200);
    session.wait_for("task_completed", |_| true).await;
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({ "path": "b.txt", "content": "x" }),
    ));
    let second = session.call("coder", "write").await.expect(200);
    assert_eq!(second["status"], "awaiting_tool_result", "{second:#}");
    let audit = session.get(&session.path("audit/")).await.expect(200);
    assert_eq!(
        (&audit["audit"][1]["decided_by"], &audit["verified"]),
        (&json!("remembered: file writes"), &json!(true))
    );
    write(&server, &session.session().await, "c.txt").await; // another session asks
}

#[tokio::test]
async fn all_that_waits_for_a_person_is_in_one_list() {
    let server = server().await;
    let me = Person::new(&server, 1);
    let project = me.project(json!({ "name": "other" })).await;
    let sessions = [
        me.session().await,
        me.session_with(json!({ "project_id": project })).await,
    ];
    let mut calls = Vec::new();
    for session in &sessions {
        calls.push(write(&server, session, "a.txt").await["call_id"].clone());
    }
    let open = me.get("/my/approvals/").await.expect(200);
    assert_eq!(
        (&open["total"], &open["limit"], &open["offset"]),
        (&json!(2), &json!(100), &json!(0))
    );
    for (approval, (session, call)) in open["approvals"]
        .as_array()
        .unwrap()
        .iter()
        .zip(sessions.iter().zip(&calls))
    {
        assert_eq!(
            (&approval["session_id"], &approval["project_id"]),
            (&json!(session.id), &json!(session.project))
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
    let here = sessions[0]
        .get(&sessions[0].path("approvals/"))
        .await
        .expect(200);
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
    sessions[0].cancel().await.expect(200);
    assert_eq!(me.get("/my/approvals/").await.expect(200)["total"], 1);
}

#[tokio::test]
async fn a_question_is_answered_by_its_id_or_by_the_next_message() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let ask = Reply::tool_call(
        "ask_followup_question",
        json!({ "question": "Which?", "options": ["a", "b"] }),
    );
    server.model.reply(ask.clone());
    let question = session.call("coder", "choose").await.expect(200);
    let call = question["pending"]["call_id"].as_str().unwrap();
    assert_eq!(
        (
            &question["pending"]["options"],
            &question["pending"]["agent"]
        ),
        (&json!(["a", "b"]), &json!("agent_coder"))
    );
    let path = session.path(&format!("questions/{call}/answer/"));
    session
        .post(&path, json!({}))
        .await
        .refused(422, "MISSING_REQUIRED_FIELD");
    session
        .post(&path, json!({ "answer": " " }))
        .await
        .refused(422, "MISSING_REQUIRED_FIELD");
    assert_eq!(
        (
            &session.detail().await["asks"],
            &listed(&session).await["asks"]
        ),
        (&json!(true), &json!(true))
    );
    let answered = session
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
    let said = session.messages("?role=user").await.pop().unwrap();
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
        (
            &session.detail().await["asks"],
            &listed(&session).await["asks"]
        ),
        (&json!(false), &json!(false))
    );
    session
        .post(&path, json!({ "answer": "again" }))
        .await
        .refused(409, "CONFLICT");
    session
        .post(
            &session.path("questions/nope/answer/"),
            json!({ "answer": "x" }),
        )
        .await
        .refused(404, "TOOL_CALL_NOT_FOUND");

    server.model.reply(ask.clone());
    session.call("coder", "choose").await.expect(200);
    // A message for an agent is never an answer; one without is.
    let waiting = session.stream_call("writer", "not an answer").await;
    let answered = session
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
    let again = session
        .send(json!({ "content": "the second", "client_message_id": "answer-1" }))
        .await
        .expect(202);
    assert_eq!(again, answered);
    let said = session.messages("?role=user").await;
    let second: Vec<&Value> = said
        .iter()
        .filter(|message| message["content"] == "the second")
        .collect();
    assert_eq!(
        (second.len(), &second[0]["message_id"]),
        (1, &answered["message_id"])
    );

    server.model.reply(ask);
    session.call("coder", "choose").await.expect(200);
    let seen = session
        .stream(json!({ "content": "the third" }))
        .await
        .all()
        .await;
    assert_eq!(
        (seen.kinds()[0], seen.status()),
        ("message_created", "completed"),
        "the rest of the turn"
    );
    let space = session
        .get(&format!("/my/projects/{}/worker-space/", session.project))
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
async fn listed(session: &Session) -> Value {
    let list = session.get("/my/chat/sessions/").await.expect(200);
    list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|listed| listed["session_id"] == session.id)
        .unwrap()
        .clone()
}

#[tokio::test]
async fn a_message_answers_the_oldest_question() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
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
    let asked = session.stream_plan("Build it").await.all().await;
    session
        .decide_plan(
            asked.one("task_plan_created"),
            json!({ "decision": "approve" }),
        )
        .await
        .expect(200);
    let mut events = session.follow(0).await;
    let first = events.until("question", |_| true).await.data;
    let second = events.until("question", |_| true).await.data;
    assert!(first["task_id"] != second["task_id"] && first["plan_id"] == second["plan_id"]);
    let accepted = session
        .send(json!({ "content": "for the first" }))
        .await
        .expect(202);
    assert_eq!(
        (&accepted["mode"], &accepted["status"]),
        (&json!("orchestrated"), &json!("answered"))
    );
    assert!(accepted["workflow_id"].is_string(), "{accepted}");
    let said = session.messages("?role=user").await.pop().unwrap();
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
    let seen = session
        .open(
            "POST",
            &session.path(&path),
            Some(json!({ "answer": "for the second" })),
            None,
        )
        .await
        .all()
        .await;
    let created = &seen.0[seen.index("message_created", |data| data["role"] == "user")].data;
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
    let (session, pending) = writing(&server).await;
    server.restart().await;
    let session = session.seen_by(&Person::new(&server, 1));
    let open = session.get(&session.path("approvals/")).await.expect(200);
    assert_eq!(
        (
            &open["approvals"][0]["digest"],
            &open["approvals"][0]["call_id"]
        ),
        (&pending["digest"], &pending["call_id"])
    );
    session
        .decide(
            call_of(&pending),
            json!({ "decision": "approve", "digest": pending["digest"] }),
        )
        .await
        .expect(200);
    assert_eq!(session.log().await.one("tool_call")["approved"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_decisions_at_once_one_wins() {
    let server = server().await;
    for _ in 0..20 {
        let (session, pending) = writing(&server).await;
        let call = call_of(&pending);
        let (yes, no) = tokio::join!(
            session.decide(call, json!({ "decision": "approve" })),
            session.decide(call, json!({ "decision": "reject" })),
        );
        let mut statuses = [yes.status, no.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409]);
        assert_eq!(
            session.get(&session.path("audit/")).await.expect(200)["audit"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
    }
}

#[tokio::test]
async fn after_a_restart_every_list_shows_when_an_approval_expires() {
    if skipped_through_another("the list does not wake sessions of another server") {
        return;
    }
    let mut server = server().await;
    let sessions = [writing(&server).await.0, writing(&server).await.0];
    let before = Person::new(&server, 1)
        .get("/my/approvals/")
        .await
        .expect(200);
    server.restart().await;
    let person = Person::new(&server, 1);
    let all = person.get("/my/approvals/").await.expect(200);
    for (number, session) in sessions.iter().enumerate() {
        let of_session = person
            .get(&format!("/my/chat/{}/approvals/", session.id))
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
