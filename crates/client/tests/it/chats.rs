//! A user's own API: each call goes to its route, and a session's events are read in their own
//! dialect.

use codelab_client::{Backoff, ClientError, EventData, FollowUntil, ResumingEvents, SendOutcome};
use codelab_protocol::{
    AddContext, AgentId, AttachClient, CallId, CallResult, ClientId, CreateProject,
    CreateProjectSession, ErrorCode, HitlDecision, PlanDecision, PlanId, ProjectId, Role,
    SearchContext, SendMessage, SessionEvent, SessionEventBody, SessionId, TaskId, TurnStatus,
};
use serde_json::{Value, json};

use crate::scripted::{Answer, Server, open_stream, plain, whole_stream};

const TIME: &str = "2026-01-13T20:00:00.000Z";
const QUICK: Backoff = Backoff {
    first_delay_ms: 1,
    max_delay_ms: 4,
    attempts: 20,
    max_retry_after_ms: 1,
};

fn session() -> SessionId {
    SessionId::parse("s:1").unwrap()
}

fn list(name: &str) -> Value {
    json!({name: [], "total": 0, "limit": 1, "offset": 0})
}

fn body_for(line: &str) -> Value {
    let chat = json!({"session_id": "s:1", "project_id": 3, "title": null, "created_at": TIME, "last_activity": TIME,
        "message_count": 0});
    let plan = json!({"plan_id": "p1", "workflow_id": "w1", "status": "running", "fallback": false,
        "estimated_cost_usd": 0.0, "cost_known": true, "requires_approval": true, "tasks": []});
    let usage = json!({"calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "cost_usd": 0.0,
        "cost_known": true});
    let project = json!({"project_id": 3, "name": "x", "description": null, "budget_usd": null, "budget_tokens": null,
        "is_default": true, "created_at": TIME, "updated_at": TIME});
    match line.split('?').next().unwrap() {
        "GET /my/chat/sessions" => list("sessions"),
        "POST /my/chat/sessions" | "PATCH /my/chat/sessions/s:1" => chat,
        "GET /my/chat/sessions/s:1" => {
            let mut detail = chat;
            detail["messages"] = json!([]);
            detail["busy"] = json!(false);
            detail["queued"] = json!(0);
            detail["usage"] = usage;
            detail
        }
        "DELETE /my/chat/sessions/s:1" | "DELETE /my/projects/3/clients/c1" => Value::Null,
        "GET /my/chat/s:1/messages" | "GET /my/chat/s:1/plans/p1/tasks/t1/messages" => {
            list("messages")
        }
        "POST /my/chat/s:1/cancel" => json!({"session_id": "s:1", "cancelled": true, "queued": 0}),
        "GET /my/chat/s:1/plans" => list("plans"),
        "GET /my/chat/s:1/plans/p1"
        | "POST /my/chat/s:1/plans/p1/decision"
        | "POST /my/chat/s:1/plans/p1/retry" => plan,
        "GET /my/chat/s:1/approvals" | "GET /my/approvals" => list("approvals"),
        "POST /my/chat/s:1/approvals/k1/decision" => {
            json!({"session_id": "s:1", "status": "awaiting_tool_result"})
        }
        "GET /my/chat/s:1/audit" => json!({"session_id": "s:1", "audit": [], "verified": true}),
        "GET /my/usage" => json!({"total": usage, "projects": [], "sessions": [], "agents": []}),
        "POST /my/projects" | "GET /my/projects/3" => project,
        "POST /my/projects/3/clients" => {
            json!({"client_id": "c1", "workspace": "/w", "sandbox": "none", "attached_at": TIME, "present": true})
        }
        "POST /my/chat/s:1/tool_calls/k1/claim" => json!({"claimed": true, "lease_seconds": 30}),
        "POST /my/chat/s:1/tool_calls/k1/result" => json!({"call_id": "k1", "duplicate": true}),
        "POST /my/projects/3/agents/a1/context/search" => json!({"results": []}),
        "POST /my/projects/3/agents/a1/context" => json!({"id": "9"}),
        other => panic!("unexpected request {other}"),
    }
}

#[tokio::test]
async fn every_call_goes_to_its_route() {
    let server = Server::start(|request| {
        if request
            .line
            .starts_with("POST /my/chat/s:1/questions/k1/answer")
        {
            return Answer::Keep(whole_stream(&[
                b"event: done\ndata: {\"status\":\"completed\"}\n\n",
            ]));
        }
        Answer::Keep(plain("200 OK", "", &body_for(&request.line).to_string()))
    })
    .await;
    let client = server.client();
    let (id, plan, call) = (
        session(),
        PlanId::parse("p1").unwrap(),
        CallId::parse("k1").unwrap(),
    );
    let (project, agent) = (ProjectId::new(3).unwrap(), AgentId::parse("a1").unwrap());
    let tool_runner = ClientId::parse("c1").unwrap();
    client.project_sessions(None, None, None).await.unwrap();
    client
        .project_sessions(Some(project), Some(5), Some(10))
        .await
        .unwrap();
    assert_eq!(
        client
            .create_project_session(&CreateProjectSession::default())
            .await
            .unwrap()
            .session_id,
        id
    );
    assert!(!client.project_session(&id).await.unwrap().busy);
    client.rename_project_session(&id, "New").await.unwrap();
    client.delete_project_session(&id).await.unwrap();
    client
        .project_session_messages(&id, Some(Role::User), Some(2), None)
        .await
        .unwrap();
    assert!(
        client
            .cancel_project_session(&id, false)
            .await
            .unwrap()
            .cancelled
    );
    client.cancel_project_session(&id, true).await.unwrap();
    client.plans(&id, 5, 10).await.unwrap();
    assert!(client.newest_plan(&id).await.unwrap().is_none());
    client.plan(&id, &plan).await.unwrap();
    let approve = PlanDecision {
        decision: Some(codelab_protocol::DecisionChoice::Approve.into()),
        ..PlanDecision::default()
    };
    assert_eq!(
        client
            .decide_plan(&id, &plan, &approve)
            .await
            .unwrap()
            .plan_id,
        plan
    );
    client.retry_plan(&id, &plan).await.unwrap();
    client
        .task_messages(&id, &plan, &TaskId::parse("t1").unwrap(), 1000, 0)
        .await
        .unwrap();
    client
        .project_session_approvals(&id, 1000, 0)
        .await
        .unwrap();
    client.my_approvals(1000, 0).await.unwrap();
    let reject = HitlDecision {
        decision: Some(codelab_protocol::DecisionChoice::Reject.into()),
        ..HitlDecision::default()
    };
    client.decide(&id, &call, &reject).await.unwrap();
    let answered = client
        .answer_question(&id, &call, "42")
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    assert!(
        matches!(&answered[..], [done] if matches!(done.data, EventData::Done(_))),
        "{answered:?}"
    );
    assert!(client.project_session_audit(&id).await.unwrap().verified);
    client.usage(None).await.unwrap();
    client.usage(Some(project)).await.unwrap();
    client
        .create_project(&CreateProject {
            name: "x".into(),
            ..CreateProject::default()
        })
        .await
        .unwrap();
    client.project(project).await.unwrap();
    let attach = AttachClient {
        client_id: tool_runner.clone(),
        workspace: "/w".into(),
        sandbox: codelab_protocol::SandboxKind::None,
        mcp: None,
        instructions: None,
    };
    assert!(
        client
            .attach_client(project, &attach)
            .await
            .unwrap()
            .present
    );
    client.detach_client(project, &tool_runner).await.unwrap();
    assert_eq!(
        client
            .claim_call(&id, &call, &tool_runner)
            .await
            .unwrap()
            .lease_seconds,
        30
    );
    let result = CallResult {
        client_id: tool_runner,
        result: Some(json!({"success": true})),
        error: None,
    };
    assert!(
        client
            .send_result(&id, &call, &result)
            .await
            .unwrap()
            .duplicate
    );
    let search = SearchContext {
        query: "q".into(),
        top_k: None,
        filter: None,
    };
    client
        .search_context(project, &agent, &search)
        .await
        .unwrap();
    let note = AddContext {
        text: "n".into(),
        kind: None,
        success: None,
        task_id: None,
        metadata: None,
    };
    assert_eq!(
        client.add_context(project, &agent, &note).await.unwrap().id,
        "9"
    );

    let requests = server.requests();
    let with_query: Vec<&str> = requests
        .iter()
        .map(|request| request.line.as_str())
        .filter(|line| line.contains('?'))
        .collect();
    let expected = [
        "GET /my/chat/sessions?project_id=3&limit=5&offset=10",
        "GET /my/chat/s:1/messages?limit=2&role=user",
        "POST /my/chat/s:1/cancel?queue=drop",
        "GET /my/chat/s:1/plans?limit=5&offset=10",
        "GET /my/chat/s:1/plans?limit=1&offset=0",
        "GET /my/chat/s:1/plans/p1/tasks/t1/messages?limit=1000&offset=0",
        "GET /my/chat/s:1/approvals?limit=1000&offset=0",
        "GET /my/approvals?limit=1000&offset=0",
        "GET /my/usage?project_id=3",
    ];
    assert_eq!(with_query, expected);
    let sent = |path: &str| {
        requests
            .iter()
            .find(|request| request.line.ends_with(path))
            .unwrap()
            .body
            .as_str()
    };
    assert_eq!(sent("plans/p1/decision"), r#"{"decision":"approve"}"#);
    assert_eq!(sent("k1/answer"), r#"{"answer":"42"}"#);
    assert_eq!(
        sent("k1/result"),
        r#"{"client_id":"c1","result":{"success":true}}"#
    );
}

#[tokio::test]
async fn a_message_is_answered_accepted_or_refused() {
    let answered = json!({"message_id": "m1", "mode": "direct", "agent": "agent_coder", "status": "failed",
        "success": false, "error": "No", "error_type": "timeout", "error_code": "LLM_TIMEOUT", "detail": "No"});
    let accepted = json!({"message_id": "m1", "mode": "orchestrated", "status": "accepted", "workflow_id": "w1"});
    let refused = json!({"detail": "Queue is full", "error_code": "QUEUE_FULL", "details": {}});
    let message = SendMessage {
        content: Some("hi".into()),
        ..SendMessage::default()
    };
    for (status, body) in [("200 OK", &answered), ("504 Gateway Timeout", &answered)] {
        let server = Server::always(plain(status, "", &body.to_string())).await;
        let sent = server
            .client()
            .send_project_message(&session(), &message)
            .await
            .unwrap();
        let SendOutcome::Answered(answer) = sent else {
            panic!("{status}: {sent:?}")
        };
        assert_eq!(
            (answer.success, answer.error_code),
            (false, Some(ErrorCode::LlmTimeout))
        );
    }
    let server = Server::always(plain("202 Accepted", "", &accepted.to_string())).await;
    assert!(matches!(
        server
            .client()
            .send_project_message(&session(), &message)
            .await,
        Ok(SendOutcome::Accepted(_))
    ));
    let server = Server::always(plain("429 Too Many Requests", "", &refused.to_string())).await;
    let error = server
        .client()
        .send_project_message(&session(), &message)
        .await
        .unwrap_err();
    assert_eq!(
        (error.status(), error.error_code()),
        (Some(429), Some(ErrorCode::QueueFull))
    );
    let server = Server::always(plain("200 OK", "", "{}")).await;
    assert!(matches!(
        server
            .client()
            .send_project_message(&session(), &message)
            .await,
        Err(ClientError::Invalid(_))
    ));
}

fn event(seq: Option<u64>, kind: &str, data: Value) -> String {
    let id = seq.map(|seq| format!("id: {seq}\n")).unwrap_or_default();
    let data =
        json!({"type": kind, "session_id": "s:1", "seq": seq, "timestamp": TIME, "data": data});
    format!("{id}event: {kind}\ndata: {data}\n\n")
}

fn delta(offset: usize, content: &str) -> String {
    let data = json!({"content": content, "agent": "agent_coder", "message_id": "m2", "attempt": 1, "offset": offset});
    event(None, "message_delta", data)
}

fn closed(seq: u64) -> String {
    event(
        Some(seq),
        "tool_call_closed",
        json!({"call_id": "k1", "outcome": "unknown"}),
    )
}

const DONE: &str = "event: done\ndata: {\"status\":\"completed\"}\n\n";

#[tokio::test]
async fn a_sessions_events_resume_in_their_own_dialect() {
    // `error` and `tool_call` are types of both dialects; these must not be taken for the other's.
    let error = event(
        Some(3),
        "error",
        json!({"message": "x", "error_code": "LLM_ERROR", "details": {}}),
    );
    let answer =
        json!({"message_id": "m2", "role": "assistant", "content": "Hello", "timestamp": TIME});
    let connections = [
        [closed(2), delta(0, "Hel")].concat(),
        [delta(0, "Hel"), delta(3, "lo"), closed(2), error.clone()].concat(),
        [
            delta(0, "Hello"),
            event(Some(4), "message_created", answer),
            DONE.to_owned(),
        ]
        .concat(),
    ];
    let mut connections = connections.into_iter();
    let server =
        Server::start(move |_| Answer::Cut(open_stream(&[connections.next().unwrap().as_bytes()])))
            .await;
    let mut reader: ResumingEvents<SessionEvent> =
        ResumingEvents::new(server.client(), session(), Some(1), FollowUntil::Done)
            .with_backoff(QUICK);
    let (mut text, mut kinds) = (String::new(), Vec::new());
    while let Some(event) = reader.next().await {
        match event.unwrap().data {
            EventData::Chunk(SessionEvent {
                body: SessionEventBody::MessageDelta(delta),
                ..
            }) => text += &delta.content,
            EventData::Chunk(event) => kinds.push((event.seq.unwrap(), event.body.kind())),
            EventData::Done(done) => assert_eq!(done.status, TurnStatus::Completed),
            EventData::Other(other) => panic!("{other}"),
        }
    }
    assert_eq!(text, "Hello");
    assert_eq!(
        kinds,
        [
            (2, "tool_call_closed"),
            (3, "error"),
            (4, "message_created")
        ]
    );
    let requests = server.requests();
    assert!(
        requests
            .iter()
            .all(|request| request.line == "GET /my/chat/s:1/events")
    );
    let places: Vec<_> = requests
        .iter()
        .map(|request| request.header("last-event-id").unwrap())
        .collect();
    assert_eq!(places, ["1", "2", "3"]);
}

#[tokio::test]
async fn streams_of_a_message_and_of_all_sessions() {
    let server = Server::start(|request| {
        let body = [closed(2), DONE.to_owned()].concat();
        match request.line.as_str() {
            "POST /my/chat/s:1/message" => Answer::Keep(whole_stream(&[body.as_bytes()])),
            "GET /my/events" => {
                let opaque = closed(7).replace("id: 7", "id: AQ-_x");
                Answer::Keep(whole_stream(&[b"id: first\n\n", opaque.as_bytes()]))
            }
            other => panic!("{other}"),
        }
    })
    .await;
    let message = SendMessage {
        content: Some("hi".into()),
        ..SendMessage::default()
    };
    let events = server
        .client()
        .stream_project_message(&session(), &message)
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    assert!(matches!(&events[0].data, EventData::Chunk(event) if event.seq == Some(2)));
    assert!(matches!(&events[1].data, EventData::Done(_)));
    let mut all = server.client().user_events(Some("before")).await.unwrap();
    assert_eq!(all.last_id(), None);
    let event = all.next().await.unwrap().unwrap();
    assert!(matches!(&event.data, EventData::Chunk(event) if event.seq == Some(7)));
    assert_eq!((event.id, all.last_id()), (None, Some("AQ-_x")));
    assert!(all.next().await.is_none());
    let places = server.requests();
    assert_eq!(places[1].header("last-event-id"), Some("before"));
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.header("accept") == Some("text/event-stream"))
    );
}
