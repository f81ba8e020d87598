//! How turns end early: what was streamed stays when a person stops one or when it fails.

use codelab_testkit::{Reply, TestServer};
use serde_json::{Value, json};

use crate::kit::{Person, Session, Stream, is_planning, says, server, server_with, task, tasks};

const ANSWER: &str = "The first half of a long answer that goes on and on";

/// A session whose answer stands in the middle, and what was streamed of it.
async fn half_said(server: &TestServer, reply: Reply) -> (Session, Stream, String) {
    let session = Person::new(server, 1).session().await;
    server.model.reply(reply);
    let mut stream = session.stream_call("coder", "Tell me").await;
    let mut shown = String::new();
    while !shown.starts_with("The first") {
        let delta = stream.until("message_delta", |_| true).await;
        shown.push_str(delta.data["content"].as_str().unwrap());
    }
    (session, stream, shown)
}

fn last(messages: &[Value]) -> &Value {
    messages.last().unwrap()
}

#[tokio::test]
async fn a_stop_keeps_what_was_streamed() {
    let server = server().await;
    let (session, stream, shown) =
        half_said(&server, Reply::text(ANSWER).hang_after_deltas(4)).await;
    session.cancel().await.expect(200);
    let seen = stream.all().await;
    assert_eq!(seen.status(), "cancelled");
    let said = session.messages("").await;
    assert_eq!(said.len(), 2, "{said:#?}");
    let kept = last(&said);
    let content = kept["content"].as_str().unwrap();
    assert!(
        content.starts_with(&shown) && ANSWER.starts_with(content),
        "{kept:#}"
    );
    assert_eq!(
        (
            &kept["role"],
            &kept["partial"],
            &kept["reason"],
            &kept["agent_id"]
        ),
        (
            &json!("assistant"),
            &json!(true),
            &json!("stopped"),
            &json!("agent_coder")
        )
    );
    assert_eq!((kept.get("error"), kept.get("error_message")), (None, None));
    // The event is the message, under the id that was streamed.
    let created = seen.all("message_created");
    assert_eq!(created[0]["message_id"], kept["message_id"]);
    assert_eq!(created[0]["reason"], "stopped");

    // The model knows that it was stopped there.
    session.call("coder", "Go on").await.expect(200);
    let asked = server.model.requests();
    let messages = asked.last().unwrap().body["messages"].to_string();
    assert!(
        messages.contains("A person stopped this answer before it was finished"),
        "{messages}"
    );
    let exported = session
        .file(&format!("/my/chat/sessions/{}/export/", session.id))
        .await
        .text()
        .await
        .unwrap();
    assert!(
        exported.contains("*Stopped before it was finished.*"),
        "{exported}"
    );
}

#[tokio::test]
async fn a_failure_leaves_one_message_with_what_was_streamed() {
    let server = server().await;
    let (session, stream, shown) =
        half_said(&server, Reply::text(ANSWER).cut_after_deltas(4)).await;
    let seen = stream.all().await;
    assert_eq!(seen.status(), "failed");
    let said = session.messages("").await;
    assert_eq!(said.len(), 2, "{said:#?}");
    let kept = last(&said);
    assert!(
        kept["content"].as_str().unwrap().starts_with(&shown),
        "{kept:#}"
    );
    assert_eq!(
        (&kept["partial"], &kept["reason"], &kept["error"]),
        (&json!(true), &json!("failed"), &json!(true))
    );
    assert_eq!(kept["error_message"], seen.one("error")["message"]);

    // Before the first word there is the error alone.
    server.model.reply(Reply::status(400, "no"));
    let failed = session.call("coder", "And now?").await.expect(502);
    let said = session.messages("").await;
    let kept = last(&said);
    assert_eq!(
        (&kept["content"], &kept["error"]),
        (&failed["error"], &json!(true))
    );
    for absent in ["partial", "reason", "error_message"] {
        assert_eq!(kept.get(absent), None, "{kept:#}");
    }
}

#[tokio::test]
async fn a_plan_keeps_what_its_tasks_had_said() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    server
        .model
        .on(is_planning, Reply::text(tasks(&[task("a", "writer", &[])])));
    server
        .model
        .on(says("Do a"), Reply::text(ANSWER).hang_after_deltas(4));
    let mut stream = session.stream_plan("Write it").await;
    stream.until("message_delta", |_| true).await;
    session.cancel().await.expect(200);
    stream.all().await;
    // A plan of one task speaks with its voice.
    let said = session.messages("").await;
    assert_eq!(
        (&last(&said)["reason"], &last(&said)["agent_id"]),
        (&json!("stopped"), &json!("agent_writer"))
    );
    let plan = session.plan().await;
    let path = format!(
        "plans/{}/tasks/a/messages/",
        plan["plan_id"].as_str().unwrap()
    );
    let thread = session.get(&session.path(&path)).await.expect(200);
    let thread = thread["messages"].as_array().unwrap();
    assert_eq!(
        (&last(thread)["reason"], &last(thread)["content"]),
        (&json!("stopped"), &last(&said)["content"])
    );
}

#[tokio::test]
async fn a_queue_that_is_emptied_says_so_in_the_log() {
    let server = server().await;
    let (session, stream, _) = half_said(&server, Reply::text(ANSWER).hang_after_deltas(4)).await;
    let first = session
        .send(json!({ "content": "Then this" }))
        .await
        .expect(202);
    let second = session
        .send(json!({ "content": "Then that" }))
        .await
        .expect(202);
    let log = session.log().await;
    let texts: Vec<_> = log
        .all("message_queued")
        .iter()
        .map(|data| data["content"].clone())
        .collect();
    assert_eq!(texts, ["Then this", "Then that"]);
    session
        .ask("POST", &session.path("cancel/?queue=drop"), None)
        .await
        .expect(200);
    stream.all().await;
    let log = session.log().await;
    let back = log.all("message_dequeued");
    let ids: Vec<_> = back.iter().map(|data| &data["message_id"]).collect();
    assert_eq!(ids, [&first["message_id"], &second["message_id"]]);
    assert!(
        back.iter().all(|data| data["reason"] == "stopped"),
        "{back:?}"
    );
    assert_eq!(
        log.all("error").len(),
        1,
        "only the turn that ran was stopped"
    );
    assert_eq!(session.messages("?role=user").await.len(), 1);
}

#[tokio::test]
async fn a_turn_that_failed_is_run_again_once() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let retry = session.path("retry/");
    session
        .post(&retry, json!({}))
        .await
        .refused(409, "CONFLICT");
    server.model.reply(Reply::status(400, "no"));
    let failed = session.call("coder", "Do it").await.expect(502);
    let named = json!({ "message_id": failed["message_id"] });
    let answer = session.post(&retry, named.clone()).await.expect(200);
    assert_eq!(
        (&answer["response"], &answer["agent"], &answer["success"]),
        (&json!("Done."), &json!("agent_coder"), &json!(true))
    );
    // A request that arrives twice gets the same answer.
    let repeated = session.post(&retry, named).await.expect(200);
    assert_eq!(repeated["message_id"], answer["message_id"]);
    session
        .post(&retry, json!({}))
        .await
        .refused(409, "CONFLICT");
    session
        .ask("POST", &retry, None)
        .await
        .refused(409, "CONFLICT");
    let said = session.messages("?role=user").await;
    assert_eq!(said.len(), 2, "{said:#?}");
    assert_eq!(
        (&said[1]["content"], &said[1]["retries"]),
        (&json!("Do it"), &failed["message_id"])
    );
    session
        .post(&retry, json!({ "message_id": "msg-unknown" }))
        .await
        .refused(409, "CONFLICT");
}

#[tokio::test]
async fn a_turn_that_was_stopped_is_run_again_and_none_without_its_agent() {
    let server = server().await;
    let (session, stream, _) = half_said(&server, Reply::text(ANSWER).hang_after_deltas(4)).await;
    let retry = session.path("retry/");
    session
        .post(&retry, json!({}))
        .await
        .refused(409, "CONFLICT");
    session.cancel().await.expect(200);
    stream.all().await;
    let answer = session.post(&retry, json!({})).await.expect(200);
    assert_eq!(answer["response"], "Done.");
    server.model.reply(Reply::status(400, "no"));
    session.call("coder", "Do it").await.expect(502);
    let path = format!("/my/projects/{}/agents/", session.project);
    let agents = session.get(&path).await.expect(200);
    let mut agents = agents["agents"].as_array().unwrap().iter();
    let coder = agents.find(|agent| agent["name"] == "agent_coder").unwrap();
    let path = format!("{path}{}/", coder["agent_id"].as_str().unwrap());
    session.ask("DELETE", &path, None).await.expect(204);
    session
        .post(&retry, json!({}))
        .await
        .refused(404, "AGENT_NOT_FOUND");
}

#[tokio::test]
async fn a_plan_that_was_stopped_runs_its_open_tasks_again() {
    let server = server().await;
    let session = Person::new(&server, 1).session().await;
    let planned = [task("a", "writer", &[]), task("b", "coder", &["a"])];
    server.model.on(is_planning, Reply::text(tasks(&planned)));
    server.model.on(says("Do a"), Reply::text("A."));
    server.model.on(says("Do b"), Reply::hang());
    let mut stream = session.stream_plan("Both").await;
    stream
        .until("task_started", |data| data["task_id"] == "b")
        .await;
    session.cancel().await.expect(200);
    stream.all().await;
    server.model.on(says("Do b"), Reply::text("B."));
    let again = session
        .post(&session.path("retry/"), json!({}))
        .await
        .expect(202);
    assert_eq!(
        (&again["mode"], &again["status"]),
        (&json!("orchestrated"), &json!("accepted"))
    );
    session
        .wait_for("workflow_completed", |data| data["status"] == "completed")
        .await;
    let log = session.log().await;
    let starts = log.all("task_started");
    let of_a = starts.iter().filter(|data| data["task_id"] == "a");
    assert_eq!(of_a.count(), 1, "a finished task is not repeated");
}

#[tokio::test]
async fn an_approval_gets_its_full_time_again() {
    let server = server_with(&[("CODELAB_LIMITS__APPROVAL_TIMEOUT_SECONDS", "60")]).await;
    let session = Person::new(&server, 1).session().await;
    let write = json!({ "path": "a", "content": "b" });
    server.model.reply(Reply::tool_call("write_file", write));
    let asked = session.call("coder", "Write").await.expect(200);
    let call = asked["pending"]["call_id"].as_str().unwrap().to_owned();
    let renew = session.path(&format!("approvals/{call}/renew/"));
    let renewed = session.ask("POST", &renew, None).await.expect(200);
    assert_eq!(renewed["call_id"], call.as_str());
    assert!(
        renewed["expires_at"].as_str() > asked["pending"]["expires_at"].as_str(),
        "{renewed:#}"
    );
    let listed = session.get(&session.path("approvals/")).await.expect(200);
    assert_eq!(listed["approvals"][0]["expires_at"], renewed["expires_at"]);
    let waiting = session.get("/my/waiting/").await.expect(200);
    assert_eq!(waiting["waiting"][0]["expires_at"], renewed["expires_at"]);
    // Readers learn it, and the turn still waits.
    let log = session.log().await;
    assert_eq!(
        log.all("approval_request").last().unwrap()["expires_at"],
        renewed["expires_at"]
    );
    assert_eq!(log.status(), "awaiting_approval");
    session
        .decide(&call, json!({ "decision": "reject" }))
        .await
        .expect(200);
    session
        .ask("POST", &renew, None)
        .await
        .refused(409, "CONFLICT");
    let unknown = session.path("approvals/call-unknown/renew/");
    session
        .ask("POST", &unknown, None)
        .await
        .refused(404, "PENDING_APPROVAL_NOT_FOUND");
}

#[tokio::test]
async fn a_plan_that_expired_waits_again_until_the_next_message() {
    let mut server = server_with(&[("CODELAB_LIMITS__APPROVAL_TIMEOUT_SECONDS", "3")]).await;
    let session = Person::new(&server, 1).session().await;
    let planned = [
        task("a", "coder", &[]),
        task("b", "writer", &[]),
        task("c", "writer", &[]),
    ];
    server.model.on(is_planning, Reply::text(tasks(&planned)));
    session
        .send(json!({ "content": "Build it" }))
        .await
        .expect(202);
    session
        .wait_for("plan_resolved", |data| data["decision"] == "expired")
        .await;
    let plan = session.plan().await;
    let id = plan["plan_id"].as_str().unwrap().to_owned();
    let renew = session.path(&format!("approvals/{id}/renew/"));
    // The stored state says so as well.
    server.restart().await;
    let session = session.seen_by(&Person::new(&server, 1));
    session.ask("POST", &renew, None).await.expect(200);
    let plan = session.plan().await;
    assert_eq!(
        (&plan["plan_id"], &plan["status"]),
        (&json!(id), &json!("awaiting_approval"))
    );
    session
        .decide_plan(&plan, json!({ "decision": "approve" }))
        .await
        .expect(200);
    session
        .wait_for("workflow_completed", |data| data["status"] == "completed")
        .await;
    session
        .ask("POST", &renew, None)
        .await
        .refused(409, "CONFLICT");
}
