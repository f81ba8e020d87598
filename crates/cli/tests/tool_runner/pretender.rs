//! A server that is not to be trusted: it offers whatever calls a test wants, and notes what comes
//! back.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{Path as Segments, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use codelab_protocol::arguments_digest;
use codelab_testkit::eventually;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::lab::{Lab, Process};

const TIME: &str = "2026-01-13T20:00:00.000Z";

#[derive(Clone)]
pub struct Pretender {
    events: broadcast::Sender<String>,
    results: Arc<Mutex<HashMap<String, Vec<Value>>>>,
    claims: Arc<Mutex<HashMap<String, usize>>>,
    /// What was asked about all sessions: their list, or their events after an id.
    asked: Arc<Mutex<Vec<String>>>,
}

/// Ends the stream of events instead of being sent.
const CUT: &str = "cut";
/// The stream cannot go on after an event of this session.
pub const FORGOTTEN: &str = "forgotten";

/// Short, so that a lease has to be renewed within a test.
const LEASE_SECONDS: u64 = 3;
/// Sessions whose names begin like this have details that are not what they should be; one of them
/// is listed.
pub const UNREADABLE: &str = "unreadable";
/// A call with this in its id can be claimed once and not kept.
pub const LOST: &str = "lost";

pub struct RunnerProcess {
    server: Pretender,
    pub process: Process,
}

impl RunnerProcess {
    /// `codelab work` for user 1, who trusts the wrong server.
    pub async fn start(lab: &Lab) -> Self {
        let server = Pretender {
            events: broadcast::channel(1024).0,
            results: Arc::default(),
            claims: Arc::default(),
            asked: Arc::default(),
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = router(server.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let token = format!("e30.{}.x", BASE64_URL_SAFE_NO_PAD.encode(r#"{"sub":1}"#));
        let workspace = lab.workspace.to_str().unwrap();
        let command = lab.codelab(&[
            "work",
            "--workspace",
            workspace,
            "--url",
            &url,
            "--token",
            &token,
            "--project",
            "1",
        ]);
        let process = Process::start(command, "working in ").await;
        let tool_runner = Self { server, process };
        eventually("the client listens", async || {
            match tool_runner.server.events.receiver_count() {
                0 => Err("nobody".to_owned()),
                _ => Ok(()),
            }
        })
        .await;
        tool_runner
    }

    pub fn offer(&self, call: &Value) {
        self.offer_in("s1", call);
    }

    pub fn offer_in(&self, session: &str, call: &Value) {
        let event = json!({"type": "tool_call", "session_id": session, "seq": 1, "timestamp": TIME, "data": call});
        self.server
            .events
            .send(format!(
                "id: {session}-id\nevent: tool_call\ndata: {event}\n\n"
            ))
            .unwrap();
    }

    /// Cuts the stream and waits until the client is back.
    pub async fn cut_stream(&self) {
        let streams = || -> usize {
            let asked = self.server.asked.lock().unwrap();
            asked.iter().filter(|asked| *asked != "sessions").count()
        };
        let before = streams();
        self.server.events.send(CUT.to_owned()).unwrap();
        eventually("the client is back", async || match streams() {
            now if now > before && self.server.events.receiver_count() > 0 => Ok(()),
            now => Err(now),
        })
        .await;
    }

    pub fn asked(&self) -> Vec<String> {
        self.server.asked.lock().unwrap().clone()
    }

    /// All results that were sent for a call, once there is one.
    pub async fn results(&self, call_id: &str) -> Vec<Value> {
        let mut found = Vec::new();
        eventually(call_id, async || {
            found = self
                .server
                .results
                .lock()
                .unwrap()
                .get(call_id)
                .cloned()
                .unwrap_or_default();
            if found.is_empty() {
                Err(self.process.said.lock().unwrap().join("\n"))
            } else {
                Ok(())
            }
        })
        .await;
        found
    }

    pub fn claims(&self, call_id: &str) -> usize {
        self.server
            .claims
            .lock()
            .unwrap()
            .get(call_id)
            .copied()
            .unwrap_or_default()
    }

    pub async fn run(&self, call: &Value) -> Value {
        self.offer(call);
        self.results(call["tool_call"]["call_id"].as_str().unwrap())
            .await
            .remove(0)
    }
}

/// A call as a server shows one that may be run.
pub fn call(id: &str, tool: &str, arguments: Value, is_approved: bool) -> Value {
    let digest = arguments_digest(tool, arguments.as_object().unwrap());
    json!({"tool_call": {"call_id": id, "name": tool, "arguments": arguments}, "requires_approval": false,
        "approved": is_approved, "digest": digest, "agent": "agent_coder", "user_id": 1, "client_attached": true})
}

fn router(server: Pretender) -> Router {
    Router::new()
        .route("/my/chat/sessions", get(sessions))
        .route("/my/chat/sessions/{session}", get(detail))
        .route("/my/projects/{project}/clients", post(attach))
        .route(
            "/my/projects/{project}/clients/{client}",
            delete(|| async { StatusCode::NO_CONTENT }),
        )
        .route("/my/events", get(events))
        .route("/my/chat/{session}/tool_calls/{call}/claim", post(claim))
        .route("/my/chat/{session}/tool_calls/{call}/result", post(result))
        .layer(axum::extract::DefaultBodyLimit::max(64 << 20))
        .with_state(server)
}

async fn sessions(State(server): State<Pretender>) -> Json<Value> {
    server.asked.lock().unwrap().push("sessions".to_owned());
    let session = json!({"session_id": UNREADABLE, "project_id": 1, "title": null, "created_at": TIME,
        "last_activity": TIME, "message_count": 0});
    Json(json!({"sessions": [session], "total": 1, "limit": 50, "offset": 0}))
}

async fn detail(Segments(session): Segments<String>) -> Json<Value> {
    if session.starts_with(UNREADABLE) {
        return Json(json!({}));
    }
    let usage = json!({"calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "cost_usd": 0.0,
        "cost_known": true});
    Json(
        json!({"session_id": session, "project_id": 1, "title": null, "created_at": TIME, "last_activity": TIME,
        "message_count": 0, "messages": [], "busy": true, "queued": 0, "budget_usd": null, "budget_tokens": null,
        "usage": usage}),
    )
}

async fn attach(Json(body): Json<Value>) -> (StatusCode, Json<Value>) {
    let mut attached = body;
    attached["attached_at"] = json!(TIME);
    attached["present"] = json!(true);
    (StatusCode::CREATED, Json(attached))
}

async fn claim(
    State(server): State<Pretender>,
    Segments((_, call)): Segments<(String, String)>,
) -> Response {
    let mut claims = server.claims.lock().unwrap();
    let count = claims.entry(call.clone()).or_default();
    *count += 1;
    if *count > 1 && call.contains(LOST) {
        let refusal = json!({"detail": "The call has ended already", "error_code": "CONFLICT", "details": {}});
        return (StatusCode::CONFLICT, Json(refusal)).into_response();
    }
    Json(json!({"claimed": true, "lease_seconds": LEASE_SECONDS})).into_response()
}

async fn result(
    State(server): State<Pretender>,
    Segments((_, call)): Segments<(String, String)>,
    Json(body): Json<Value>,
) -> Json<Value> {
    server
        .results
        .lock()
        .unwrap()
        .entry(call.clone())
        .or_default()
        .push(body["result"].clone());
    Json(json!({"call_id": call, "duplicate": false}))
}

async fn events(State(server): State<Pretender>, headers: HeaderMap) -> Response {
    let after = headers.get("last-event-id");
    let after = after.map_or("nothing", |id| id.to_str().unwrap());
    let asked = format!("events after {after}");
    server.asked.lock().unwrap().push(asked);
    if after.starts_with(FORGOTTEN) {
        let refusal = json!({"detail": "It is not an id of this stream", "error_code": "VALIDATION_ERROR", "details": {}});
        return (StatusCode::UNPROCESSABLE_ENTITY, Json(refusal)).into_response();
    }
    let stream =
        futures_util::stream::unfold(server.events.subscribe(), |mut receiver| async move {
            let frame = receiver.recv().await.ok().filter(|frame| frame != CUT)?;
            Some((Ok::<_, std::convert::Infallible>(frame), receiver))
        });
    (
        [(header::CONTENT_TYPE, "text/event-stream")],
        Body::from_stream(stream),
    )
        .into_response()
}

/// The lines of a corpus of commands, with `{{hex}}` replaced by the character it names.
pub fn corpus(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("##"));
    let unescaped = |line: &str| {
        let mut parts = line.split("{{");
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (hex, rest) = part.split_once("}}").unwrap();
            text.push(char::from_u32(u32::from_str_radix(hex, 16).unwrap()).unwrap());
            text.push_str(rest);
        }
        text
    };
    lines.map(unescaped).collect()
}
