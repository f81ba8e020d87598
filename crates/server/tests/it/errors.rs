//! Every error code: provoked over HTTP, or named as one that this API cannot produce.

mod database;
mod input;
mod model;

use std::collections::BTreeSet;

use codelab_protocol::{CallId, ErrorCode, ErrorData, TurnStatus};
use codelab_testkit::{EventData, Reply, SeenEvents, TestServer};
use serde_json::{Value, json};

use crate::raw::Request;

/// Codes that only later parts of CodeLab can answer with, and why this API does not.
const NOT_BY_THIS_API: &[(ErrorCode, &str)] = &[
    (
        ErrorCode::ClassificationFailed,
        "keywords choose the agent where the model cannot",
    ),
    (
        ErrorCode::ToolCallClaimed,
        "calls are claimed in the chat API",
    ),
    (
        ErrorCode::OwnerUnreachable,
        "one server alone owns everything; tests of src/cluster have several",
    ),
    (
        ErrorCode::RewindConflict,
        "rewinds are part of the chat API",
    ),
    (ErrorCode::InvalidPlan, "plans are part of the chat API"),
    (ErrorCode::PlanNotFound, "plans are part of the chat API"),
    (
        ErrorCode::ProjectNotFound,
        "projects are part of the project API",
    ),
    (
        ErrorCode::Unauthorized,
        "a bad internal key has a body of its own, without a code",
    ),
];

type Answered = (ErrorCode, u16, fn(&Prepared) -> Request);

/// Codes answered with a status, before a stream starts.
const ANSWERS: &[Answered] = &[
    (ErrorCode::InvalidMessageType, 422, |p| {
        p.send(json!({"session_id": "s", "message_type": "shout"}))
    }),
    (ErrorCode::MissingRequiredField, 422, |p| {
        p.send(json!({"session_id": "s"}))
    }),
    (ErrorCode::ValidationError, 422, |p| p.send(json!([]))),
    (ErrorCode::SessionNotFound, 404, |p| {
        p.get("/sessions/nobody/history")
    }),
    (ErrorCode::SessionNotFound, 404, |p| {
        p.send(tool_result("nobody", "c", json!("x")))
    }),
    (ErrorCode::SessionNotFound, 404, |p| {
        p.send(decision("nobody", "c", json!({"decision": "APPROVE"})))
    }),
    (ErrorCode::SessionCreationFailed, 409, |p| {
        p.post("/sessions", json!({"session_id": ASKED}))
    }),
    (ErrorCode::AgentNotFound, 404, |p| {
        p.send(json!({"session_id": "s", "message": "x", "agent_type": "chef"}))
    }),
    (ErrorCode::AgentNotFound, 404, |p| {
        p.send(
            json!({"session_id": "s", "message_type": "switch_agent", "agent_type": "no agent!"}),
        )
    }),
    (ErrorCode::PendingApprovalNotFound, 404, |p| {
        p.send(decision(ASKED, "unknown", json!({"decision": "APPROVE"})))
    }),
    (ErrorCode::InvalidDecision, 422, |p| {
        p.decide(json!({"decision": "PERHAPS"}))
    }),
    (ErrorCode::InvalidDecision, 422, |p| {
        p.decide(json!({"decision": "EDIT", "modified_args": [1]}))
    }),
    (ErrorCode::InvalidToolArguments, 422, |p| {
        p.decide(json!({"decision": "EDIT", "modified_args": {"path": 1}}))
    }),
    (ErrorCode::FileRestrictionError, 422, |p| {
        p.decide(json!({"decision": "EDIT", "modified_args": {"path": "a.py", "content": "1"}}))
    }),
    (ErrorCode::ToolCallNotFound, 404, |p| {
        p.send(tool_result(ASKED, "unknown", json!("x")))
    }),
    (ErrorCode::Conflict, 409, |p| {
        p.send(tool_result(
            ASKED,
            p.call.as_str(),
            json!("not approved yet"),
        ))
    }),
    (ErrorCode::Conflict, 409, |p| {
        p.decide(json!({"decision": "APPROVE", "digest": "0".repeat(64)}))
    }),
    (ErrorCode::QueueFull, 429, |p| {
        p.send(json!({"session_id": ASKED, "message": "one more"}))
    }),
    (ErrorCode::Forbidden, 403, |p| {
        p.get("/sessions").with("Origin", "http://evil.example")
    }),
    (ErrorCode::NotFound, 404, |p| p.get("/nothing/here")),
    (ErrorCode::PayloadTooLarge, 413, |p| {
        p.send(json!({"session_id": "s", "message": "x".repeat(BODY_BYTES)}))
    }),
];

type Settings = &'static [(&'static str, &'static str)];
type Shown = (
    ErrorCode,
    Settings,
    &'static str,
    fn() -> Vec<Reply>,
    TurnStatus,
);

/// Codes that a running turn shows as an `error` chunk: settings, the agent, what the model says,
/// and how the turn then stands.
const CHUNKS: &[Shown] = &[
    (
        ErrorCode::ToolValidationError,
        &[],
        "ask",
        || then_done(write("a.md")),
        TurnStatus::Completed,
    ),
    (
        ErrorCode::ToolValidationError,
        &[],
        "coder",
        || then_done(call("no_such_tool")),
        TurnStatus::Completed,
    ),
    (
        ErrorCode::FileRestrictionError,
        &[],
        "architect",
        || then_done(write("a.py")),
        TurnStatus::Completed,
    ),
    (
        ErrorCode::InvalidToolArguments,
        &[],
        "coder",
        || then_done(call("read_file")),
        TurnStatus::Completed,
    ),
    (
        ErrorCode::MultipleToolCalls,
        &[],
        "coder",
        || then_done(two_calls()),
        TurnStatus::Completed,
    ),
    (
        ErrorCode::AgentNotFound,
        &[],
        "coder",
        || then_done(switch_mode("chef")),
        TurnStatus::Completed,
    ),
    (
        ErrorCode::AgentSwitchFailed,
        &[("CODELAB_LIMITS__SWITCHES", "1")],
        "coder",
        || vec![switch_mode("debug"), switch_mode("coder")],
        TurnStatus::Failed,
    ),
    (
        ErrorCode::StepLimit,
        &[("CODELAB_LIMITS__STEPS", "2")],
        "coder",
        || vec![echo("1"), echo("2"), echo("3")],
        TurnStatus::Failed,
    ),
    (
        ErrorCode::StepLimit,
        &[],
        "coder",
        || vec![echo("1"), echo("1"), echo("1"), echo("1")],
        TurnStatus::Failed,
    ),
    (
        ErrorCode::LlmError,
        &[],
        "coder",
        || vec![Reply::status(400, "{}")],
        TurnStatus::Failed,
    ),
    (
        ErrorCode::LlmTimeout,
        &[("CODELAB_LIMITS__MODEL_TIMEOUT_SECONDS", "1")],
        "coder",
        || vec![Reply::hang()],
        TurnStatus::Failed,
    ),
    (
        ErrorCode::LlmProxyUnavailable,
        &[("LLM_PROXY_URL", model::NOBODY)],
        "coder",
        Vec::new,
        TurnStatus::Failed,
    ),
];

/// Codes of a turn that somebody let wait, or ended.
const LATER: &[ErrorCode] = &[
    ErrorCode::HitlTimeout,
    ErrorCode::TaskTimeout,
    ErrorCode::Cancelled,
];

const ASKED: &str = "asked";
const BODY_BYTES: usize = 20_000;

#[test]
fn every_code_is_provoked_or_explained() {
    let names = |codes: &mut dyn Iterator<Item = ErrorCode>| {
        codes.map(ErrorCode::as_str).collect::<BTreeSet<_>>()
    };
    let provoked = names(
        &mut (ANSWERS.iter().map(|row| row.0))
            .chain(CHUNKS.iter().map(|row| row.0))
            .chain(LATER.iter().copied())
            .chain(database::CODES.iter().copied()),
    );
    let explained = names(&mut NOT_BY_THIS_API.iter().map(|row| row.0));
    let all = names(&mut ErrorCode::ALL.iter().copied());
    let both: Vec<_> = provoked.intersection(&explained).collect();
    assert!(
        both.is_empty(),
        "provoked, so this API can produce them: {both:?}"
    );
    let covered: BTreeSet<_> = provoked.union(&explained).copied().collect();
    assert_eq!(covered, all);
}

#[tokio::test]
async fn codes_known_before_a_stream_have_their_status() {
    let prepared = Prepared::start().await;
    let mut wrong = Vec::new();
    for (code, status, request) in ANSWERS {
        let request = request(&prepared);
        let answer = request.send(&prepared.server).await;
        if answer.refusal() != (*status, code.as_str().to_owned()) {
            wrong.push(format!(
                "{} {}: {} {}",
                code.as_str(),
                request.target,
                answer.status,
                answer.text()
            ));
        }
        let waits = matches!(answer.status, 429 | 503);
        assert_eq!(
            answer.header("retry-after").is_some(),
            waits,
            "{}",
            code.as_str()
        );
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // None of that has decided anything.
    let pending = prepared
        .get("/sessions/asked/pending-approvals")
        .send(&prepared.server)
        .await
        .json();
    assert_eq!(
        pending["pending_approvals"][0]["call_id"],
        prepared.call.as_str()
    );
}

#[tokio::test]
async fn codes_of_a_running_turn_come_as_error_chunks() {
    for (code, settings, agent, replies, status) in CHUNKS {
        let server = TestServer::with(settings).await;
        replies()
            .into_iter()
            .for_each(|reply| server.model.reply(reply));
        let seen = server.say_to("s", agent, "go on").await;
        let named = format!("error {}", code.as_str());
        assert!(seen.story().contains(&named), "{named}: {:?}", seen.story());
        assert_eq!(seen.status(), *status, "{named}");
        assert_shape(seen.error(), *code);
    }
}

#[tokio::test]
async fn waiting_too_long_is_an_error_chunk_and_the_turn_goes_on() {
    let cases = [
        (
            ErrorCode::HitlTimeout,
            "CODELAB_LIMITS__APPROVAL_TIMEOUT_SECONDS",
            write("a.py"),
        ),
        (
            ErrorCode::TaskTimeout,
            "CODELAB_LIMITS__TOOL_RESULT_TIMEOUT_SECONDS",
            read("a.py"),
        ),
    ];
    for (code, setting, reply) in cases {
        let server = TestServer::with(&[(setting, "1")]).await;
        server.model.reply(reply);
        server.model.reply(Reply::text("I go on without it"));
        let asked = server.say_to("s", "coder", "go on").await;
        let after = asked.ids().last().copied();
        let session = asked_session();
        let mut stream = server.client.events(&session, after, true).await.unwrap();
        let seen = SeenEvents::until(&mut stream, |event| match &event.data {
            EventData::Done(done) => {
                matches!(done.status, TurnStatus::Completed | TurnStatus::Failed)
            }
            _ => false,
        })
        .await;
        assert_eq!(seen.status(), TurnStatus::Completed, "{:?}", seen.story());
        assert_shape(seen.error(), code);
        let told = server.client.history(&session).await.unwrap().messages;
        let told = told
            .iter()
            .find(|message| message.tool_call_id.is_some())
            .unwrap();
        assert!(
            told.content.contains(code.as_str()),
            "the model is told: {told:?}"
        );
        let late = server
            .refused(&codelab_testkit::tool_result(
                "s",
                &asked.call_id(),
                json!("late"),
            ))
            .await;
        assert_eq!(late, (409, "CONFLICT".to_owned()));
    }
}

#[tokio::test]
async fn a_cancelled_turn_says_so() {
    let server = TestServer::start().await;
    server.model.reply(write("a.py"));
    let asked = server.say_to("s", "coder", "go on").await;
    server.client.cancel(&asked_session(), false).await.unwrap();
    let log = Request::with_key(&server, "GET", "/sessions/s/events?follow=false")
        .send(&server)
        .await
        .text();
    assert!(
        log.contains("event: error\n") && log.contains("\"error_code\":\"CANCELLED\""),
        "{log}"
    );
    let decide = codelab_testkit::hitl_decision("s", &asked.call_id(), approve());
    assert_eq!(server.refused(&decide).await, (409, "CONFLICT".to_owned()));
}

/// A server with a session that waits for a decision about a Markdown file.
struct Prepared {
    server: TestServer,
    call: CallId,
}

impl Prepared {
    async fn start() -> Self {
        let body_bytes = BODY_BYTES.to_string();
        let server = TestServer::with(&[
            ("CODELAB_LIMITS__QUEUE_LENGTH", "0"),
            ("CODELAB_LIMITS__BODY_BYTES", &body_bytes),
        ])
        .await;
        server.model.reply(write("plan.md"));
        let call = server
            .say_to(ASKED, "architect", "write it down")
            .await
            .call_id();
        Self { server, call }
    }

    fn get(&self, target: &str) -> Request {
        Request::with_key(&self.server, "GET", target)
    }

    fn post(&self, target: &str, body: Value) -> Request {
        Request::with_key(&self.server, "POST", target).json(body.to_string())
    }

    fn send(&self, body: Value) -> Request {
        self.post("/agent/message/stream", body)
    }

    fn decide(&self, given: Value) -> Request {
        self.send(decision(ASKED, self.call.as_str(), given))
    }
}

fn decision(session: &str, call: &str, given: Value) -> Value {
    json!({"session_id": session, "message_type": "hitl_decision", "tool_call_id": call, "hitl_decision": given})
}

fn tool_result(session: &str, call: &str, result: Value) -> Value {
    json!({"session_id": session, "message_type": "tool_result", "tool_call_id": call, "tool_result": result})
}

#[track_caller]
fn assert_shape(error: &ErrorData, code: ErrorCode) {
    assert_eq!(error.error_code, code);
    assert!(!error.message.trim().is_empty());
    let chunk = serde_json::to_value(error).unwrap();
    assert!(chunk["details"].is_object(), "{chunk}");
}

fn asked_session() -> codelab_protocol::SessionId {
    codelab_protocol::SessionId::parse("s").unwrap()
}

fn approve() -> codelab_protocol::HitlDecision {
    codelab_protocol::HitlDecision {
        decision: Some(codelab_protocol::DecisionChoice::Approve.into()),
        ..Default::default()
    }
}

fn write(path: &str) -> Reply {
    Reply::tool_call("write_file", json!({"path": path, "content": "1"}))
}

fn read(path: &str) -> Reply {
    Reply::tool_call("read_file", json!({"path": path}))
}

fn echo(text: &str) -> Reply {
    Reply::tool_call("echo", json!({"text": text}))
}

fn switch_mode(agent: &str) -> Reply {
    Reply::tool_call(
        "switch_mode",
        json!({"agent": agent, "reason": "better there"}),
    )
}

/// A call without any argument.
fn call(tool: &str) -> Reply {
    Reply::tool_call(tool, json!({}))
}

fn two_calls() -> Reply {
    Reply::tool_calls(vec![
        ("read_file", json!({"path": "a"})),
        ("read_file", json!({"path": "b"})),
    ])
}

fn then_done(first: Reply) -> Vec<Reply> {
    vec![first, Reply::text("Done")]
}
