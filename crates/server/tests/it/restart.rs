//! The server stops and comes back on the same data: nothing that was accepted is lost, nothing
//! happens twice.

mod downtime;
mod model_calls;

use std::time::{SystemTime, UNIX_EPOCH};

use codelab_protocol::{
    AgentStreamRequest, ClientMessageId, HitlDecision, Role, Timestamp, TurnStatus,
};
use codelab_testkit::{
    Asked, Reply, SeenEvents, TestServer, hitl_decision, id, message, tool_result,
};
use serde_json::{Value, json};

async fn asked_to_write(server: &TestServer, session: &str, path: &str) -> SeenEvents {
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": path, "content": "x"}),
    ));
    let seen = server.say_to(session, "coder", "write").await;
    assert_eq!(seen.status(), TurnStatus::AwaitingApproval);
    seen
}

fn decided(decision: &str) -> HitlDecision {
    HitlDecision {
        decision: Some(codelab_protocol::MaybeKnown::of(decision)),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_pending_approval_survives_and_can_be_decided() {
    let mut server = TestServer::start().await;
    let asked = asked_to_write(&server, "approval", "a.py").await;
    let [before] = server.pending("approval").await.try_into().unwrap();
    server.restart().await;
    server.restart().await;
    let [after] = server.pending("approval").await.try_into().unwrap();
    assert_eq!(after.call_id, asked.call_id());
    assert_eq!(
        (&after.digest, &after.arguments, &after.reason),
        (&before.digest, &before.arguments, &before.reason)
    );
    assert_eq!(after.created_at, before.created_at);
    assert!(
        after.expires_at >= before.expires_at,
        "the time without a server does not count"
    );

    let decision = HitlDecision {
        digest: Some(before.digest.as_str().to_owned()),
        ..decided("APPROVE")
    };
    let approved = server.decide("approval", &asked.call_id(), decision).await;
    assert_eq!(
        (approved.story(), approved.status()),
        (
            vec!["tool_call write_file".to_owned()],
            TurnStatus::AwaitingToolResult
        )
    );
    assert_eq!(
        approved.ids(),
        [asked.ids().last().unwrap() + 1],
        "the log goes on where it was"
    );
    server.model.reply(Reply::text("Written."));
    let done = server
        .result("approval", &asked.call_id(), json!("ok"))
        .await;
    assert_eq!(
        (done.story(), done.status()),
        (
            vec![
                "assistant_message coder".to_owned(),
                "completion".to_owned()
            ],
            TurnStatus::Completed
        )
    );
    assert_eq!(
        server.steps().pop().unwrap().roles(),
        ["system", "user", "assistant", "tool"]
    );
    let audit = server.audit("approval").await;
    assert_eq!((audit.audit.len(), audit.verified), (1, true));
}

#[tokio::test]
async fn a_decision_before_the_restart_is_still_the_only_one() {
    let mut server = TestServer::start().await;
    let asked = asked_to_write(&server, "decided", "a.py").await;
    server.approve("decided", &asked.call_id()).await;
    server.model.reply(Reply::text("Written."));
    let done = server
        .result("decided", &asked.call_id(), json!("ok"))
        .await;
    server.restart().await;
    let again = server
        .refused(&hitl_decision(
            "decided",
            &asked.call_id(),
            decided("REJECT"),
        ))
        .await;
    assert_eq!(again, (409, "CONFLICT".to_owned()));
    let repeat = server
        .result("decided", &asked.call_id(), json!("ok"))
        .await;
    assert_eq!(
        (repeat.ids(), repeat.story()),
        (done.ids(), done.story()),
        "a repeated result has the same stream"
    );
    let other = server
        .refused(&tool_result("decided", &asked.call_id(), json!("no")))
        .await;
    assert_eq!(other, (409, "CONFLICT".to_owned()));
}

#[tokio::test]
async fn an_open_approval_has_at_least_30_seconds_after_a_restart() {
    let mut server = TestServer::with(&[("CODELAB_LIMITS__APPROVAL_TIMEOUT_SECONDS", "20")]).await;
    asked_to_write(&server, "grace", "a.py").await;
    server.stop().await;
    let stopped_at_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis() as i64;
    server.restart().await;
    let [approval] = server.pending("grace").await.try_into().unwrap();
    let expires_at = approval.expires_at.unwrap();
    let left_ms = expires_at.millis_since(Timestamp::from_millis(stopped_at_ms));
    assert!(left_ms >= 30_000, "{left_ms} ms");
}

#[tokio::test]
async fn an_approval_that_never_expires_still_does_not() {
    let mut server = TestServer::with(&[("CODELAB_LIMITS__APPROVAL_TIMEOUT_SECONDS", "0")]).await;
    let asked = asked_to_write(&server, "never", "a.py").await;
    server.restart().await;
    let [approval] = server.pending("never").await.try_into().unwrap();
    assert_eq!((approval.expires_at, approval.timeout_seconds), (None, 0));
    assert_eq!(
        server.approve("never", &asked.call_id()).await.status(),
        TurnStatus::AwaitingToolResult
    );
}

#[tokio::test]
async fn an_open_question_survives_and_the_next_message_answers_it() {
    let mut server = TestServer::start().await;
    server.model.reply(Reply::tool_call(
        "ask_followup_question",
        json!({"question": "Which?"}),
    ));
    let asked = server.say_to("question", "coder", "sort").await;
    server.restart().await;
    server.model.reply(Reply::text("Sorted."));
    let answered = server.say("question", "the first").await;
    assert_eq!(
        (answered.story(), answered.status()),
        (
            vec![
                "assistant_message coder".to_owned(),
                "completion".to_owned()
            ],
            TurnStatus::Completed
        )
    );
    let told = server.steps().pop().unwrap().wire_message(-1).clone();
    let call = &asked.question().call_id;
    assert_eq!(
        told,
        json!({"role": "tool", "tool_call_id": call, "content": "the first"})
    );
}

#[tokio::test]
async fn a_call_that_runs_at_the_client_survives_and_takes_its_result() {
    let mut server = TestServer::start().await;
    server
        .model
        .reply(Reply::tool_call("read_file", json!({"path": "a.py"})));
    let reading = server.say_to("result", "coder", "read").await;
    server.restart().await;
    let mut events = server
        .follow("result", *reading.ids().last().unwrap())
        .await;
    server.model.reply(Reply::text("Read."));
    let done = server
        .result(
            "result",
            &reading.call_id(),
            json!({"success": true, "content": "x"}),
        )
        .await;
    assert_eq!(done.story(), ["assistant_message coder", "completion"]);
    assert_eq!(SeenEvents::until_done(&mut events).await.ids(), done.ids());
}

#[tokio::test]
async fn waiting_messages_keep_their_order_and_run() {
    let mut server = TestServer::start().await;
    let asked = asked_to_write(&server, "queue", "a.py").await;
    for text in ["second", "third", "fourth"] {
        drop(server.open(&message("queue", text)).await);
    }
    server.restart().await;
    let mut events = server.follow("queue", *asked.ids().last().unwrap()).await;
    for answer in [
        "Rejected.",
        "To the second.",
        "To the third.",
        "To the fourth.",
    ] {
        server.model.reply(Reply::text(answer));
    }
    server
        .decide("queue", &asked.call_id(), decided("REJECT"))
        .await;
    let mut answers = Vec::new();
    for _ in 0..4 {
        let seen = SeenEvents::until_done(&mut events).await;
        assert_eq!(seen.status(), TurnStatus::Completed);
        answers.push(seen.answer().content.clone());
    }
    assert_eq!(
        answers,
        [
            "Rejected.",
            "To the second.",
            "To the third.",
            "To the fourth."
        ]
    );
    let history = server.history("queue").await;
    let said: Vec<&str> = history
        .iter()
        .filter(|message| message.role == Role::User)
        .map(|message| message.content.as_str())
        .collect();
    assert_eq!(said, ["write", "second", "third", "fourth"]);
}

#[tokio::test]
async fn what_was_remembered_is_remembered_still() {
    let mut server = TestServer::start().await;
    let asked = asked_to_write(&server, "remember", "a.py").await;
    let remember = HitlDecision {
        remember: Some(true),
        ..decided("APPROVE")
    };
    server.decide("remember", &asked.call_id(), remember).await;
    server.restart().await;
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": "b.py", "content": "y"}),
    ));
    let next = server
        .result("remember", &asked.call_id(), json!("ok"))
        .await;
    assert_eq!(
        (next.story(), next.tool_call().approved),
        (vec!["tool_call write_file".to_owned()], true)
    );
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": ".git/hooks/pre-commit", "content": "y"}),
    ));
    let hook = server
        .result("remember", &next.call_id(), json!("ok"))
        .await;
    assert_eq!(hook.story(), ["tool_call write_file?"]);
    let audit = server.audit("remember").await;
    assert_eq!((audit.audit.len(), audit.verified), (2, true));
}

#[tokio::test]
async fn everything_that_can_be_read_is_the_same_after_a_restart() {
    let mut server = TestServer::start().await;
    server.model.route_to("debug");
    server.model.reply(Reply::tool_call(
        "switch_mode",
        json!({"agent": "coder", "reason": "fix"}),
    ));
    server.model.reply(Reply::tool_call(
        "write_file",
        json!({"path": "a.py", "content": "x"}),
    ));
    let asked = server.say("same", "There is an error").await;
    let modified_args = Some(json!({"path": "b.py", "content": "y"}));
    let edit = HitlDecision {
        modified_args,
        ..decided("EDIT")
    };
    server.decide("same", &asked.call_id(), edit).await;
    server
        .model
        .reply(Reply::text_with_usage("Fixed.", 100, 20));
    server
        .result("same", &asked.call_id(), json!({"success": true}))
        .await;
    server.switch("pinned", "architect").await;
    server
        .client
        .delete_session(&id("pinned"), false)
        .await
        .unwrap();

    let before = everything(&server).await;
    server.restart().await;
    assert_eq!(everything(&server).await, before);
    assert!(
        before.iter().all(|(_, body)| !body.is_null()),
        "{before:#?}"
    );
    assert_eq!(server.history("same").await.len(), 6);
    assert!(server.audit("same").await.verified);
    server.client.restore(&id("pinned")).await.unwrap();
    assert_eq!(server.current_agent("pinned").await, "architect");
    server.model.reply(Reply::text("Planned."));
    assert_eq!(
        server.say("pinned", "write code").await.story(),
        ["assistant_message architect", "completion"]
    );
}

async fn everything(server: &TestServer) -> Vec<(&'static str, Value)> {
    let mut all = Vec::new();
    for path in [
        "/sessions",
        "/sessions/same/history",
        "/sessions/same/agent-history",
        "/sessions/same/audit",
        "/sessions/same/pending-approvals",
        "/agents/same/current",
    ] {
        all.push((
            path,
            server
                .http(codelab_testkit::Method::GET, path, None)
                .await
                .1,
        ));
    }
    all.push((
        "events",
        json!(format!("{:?}", server.log("same").await.events)),
    ));
    all
}

#[tokio::test]
async fn the_same_message_sent_again_after_a_restart_is_no_second_turn() {
    let mut server = TestServer::start().await;
    let request = AgentStreamRequest {
        client_message_id: Some(ClientMessageId::parse("m-1").unwrap()),
        agent_type: Some("coder".to_owned()),
        ..message("again", "hello")
    };
    server.model.reply(Reply::text("Hi."));
    let first = server.send(&request).await;
    server.restart().await;
    let again = server.send(&request).await;
    assert_eq!(
        (again.ids(), again.story(), again.status()),
        (first.ids(), first.story(), first.status())
    );
    assert_eq!(
        (
            server.model.request_count(),
            server.history("again").await.len()
        ),
        (1, 2)
    );
}

#[tokio::test]
async fn the_model_is_sent_the_same_past_after_a_restart() {
    let mut server = TestServer::start().await;
    let mut sent = Vec::new();
    for session in ["kept", "reloaded"] {
        server.model.default_reply(Reply::text("An answer."));
        for number in 0..7 {
            server
                .say_to(session, "coder", &format!("message {number}"))
                .await;
        }
        server
            .model
            .reply(Reply::tool_call("read_file", json!({"path": "a.py"})));
        let reading = server.say(session, "read").await;
        if session == "reloaded" {
            server.restart().await;
        }
        server
            .result(session, &reading.call_id(), json!("x = 1"))
            .await;
        server.say(session, "and now?").await;
        let steps = server.steps();
        let [after_result, next] = &steps[steps.len() - 2..] else {
            panic!("two steps were made")
        };
        sent.push([contents(&after_result.body), contents(&next.body)]);
    }
    assert_eq!(sent[0], sent[1]);
    assert_eq!(
        sent[0][1].len(),
        13,
        "the prompt, ten messages, the facts, and what was said now"
    );
}

fn contents(body: &Value) -> Vec<(Value, Value)> {
    let messages = body["messages"].as_array().unwrap().iter();
    messages
        .map(|message| (message["role"].clone(), message["content"].clone()))
        .collect()
}

#[tokio::test]
async fn a_turn_that_was_cancelled_stays_cancelled() {
    let mut server = TestServer::start().await;
    let asked = asked_to_write(&server, "cancelled", "a.py").await;
    server.client.cancel(&id("cancelled"), true).await.unwrap();
    server.restart().await;
    assert!(server.pending("cancelled").await.is_empty());
    let late = server
        .refused(&tool_result("cancelled", &asked.call_id(), json!("ok")))
        .await;
    assert_eq!(late, (409, "CONFLICT".to_owned()));
    server.model.reply(Reply::text("Yes?"));
    assert_eq!(
        server.say("cancelled", "hello").await.status(),
        TurnStatus::Completed
    );
    assert_eq!(server.model.request_count(), 2, "nothing was started again");
}
