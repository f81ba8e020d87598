//! Continues what an earlier version left open, until nothing waits, and then sends a new message.

use std::collections::BTreeSet;

use codelab_client::Method;
use codelab_testkit::eventually;
use serde_json::{Value, json};

use crate::lab::{Caller, Lab, find};
use crate::make::CLIENT;
use crate::read::Known;
use crate::script;

const ANSWERED: &str = "this";
const ENDS: [&str; 3] = ["completed", "failed", "cancelled"];

/// Decides, answers and delivers until the session is idle.
pub async fn finish(lab: &Lab, session: &Known) {
    let label = session.note.label.as_str();
    let mut delivered = BTreeSet::new();
    let mut answered = BTreeSet::new();
    eventually("nothing waits in the session", async || {
        let state = if session.is_runtime() {
            runtime_step(lab, session, &mut delivered, &mut answered).await
        } else {
            project_step(lab, session, &mut delivered, &mut answered).await
        };
        match state {
            None => Ok(()),
            Some(state) => Err((label.to_owned(), state)),
        }
    })
    .await;
}

/// A message to a session that is idle is answered as in a new one.
pub async fn say_hello(lab: &Lab, session: &Known) {
    let label = &session.note.label;
    let before = session.events(lab).await.len();
    let id = &session.note.session_id;
    let (path, body) = if session.is_runtime() {
        let body = json!({"session_id": id, "message": "Hello again"});
        ("/agent/message/stream".to_owned(), body)
    } else {
        let body = json!({"content": "Hello again", "target_agent": "coder"});
        (format!("/my/chat/{id}/message/"), body)
    };
    let answer = lab.post(&session.caller, &path, body).await;
    assert_eq!(status_of(&answer), "completed", "{label}: {answer}");
    let messages = session.messages(lab).await;
    let last = messages.last().expect("an answer");
    assert_eq!(last["content"], script::ANSWER, "{label}");
    assert!(session.events(lab).await.len() > before, "{label}");
}

/// What still waits in a session of the runtime realm, after one round of deciding and delivering.
async fn runtime_step(
    lab: &Lab,
    session: &Known,
    delivered: &mut BTreeSet<String>,
    answered: &mut BTreeSet<String>,
) -> Option<Value> {
    let id = &session.note.session_id;
    let stream = "/agent/message/stream";
    let path = format!("/sessions/{id}/pending-approvals");
    let pending = lab.get(&session.caller, &path).await;
    for approval in list(&pending, "pending_approvals") {
        let body = json!({"session_id": id, "message_type": "hitl_decision",
            "tool_call_id": approval["call_id"], "hitl_decision": {"decision": "APPROVE"}});
        lab.post(&session.caller, stream, body).await;
    }
    for frame in session.events(lab).await {
        let call = call_of(&frame);
        match frame["data"]["type"].as_str().unwrap() {
            "tool_call" if !delivered.contains(&call) => {
                let body = json!({"session_id": id, "message_type": "tool_result",
                    "tool_call_id": call, "tool_result": result()});
                let (status, _) = lab.ask(&session.caller, Method::POST, stream, body).await;
                if status == 200 {
                    delivered.insert(call);
                }
            }
            "question" if !answered.contains(&call) => {
                let body = json!({"session_id": id, "message": ANSWERED});
                lab.post(&session.caller, stream, body).await;
                answered.insert(call);
            }
            _ => {}
        }
    }
    let path = format!("/sessions/{id}/events?follow=false");
    let frames = lab.get(&session.caller, &path).await;
    let status = status_of(&frames);
    let is_new = session.note.status.is_none() && status.is_empty();
    (!is_new && !ENDS.contains(&status.as_str())).then(|| json!(status))
}

/// The same for a session of a project.
async fn project_step(
    lab: &Lab,
    session: &Known,
    delivered: &mut BTreeSet<String>,
    answered: &mut BTreeSet<String>,
) -> Option<Value> {
    let id = &session.note.session_id;
    let path = format!("/my/chat/{id}/approvals/");
    let open = lab.get(&session.caller, &path).await;
    for approval in list(&open, "approvals") {
        let path = format!("{path}{}/decision/", approval["call_id"].as_str().unwrap());
        let decision = decision(&session.note.label, approval);
        lab.post(&session.caller, &path, decision).await;
    }
    for frame in session.events(lab).await {
        let call = call_of(&frame);
        match frame["data"]["type"].as_str().unwrap() {
            "tool_call" if !delivered.contains(&call) => {
                let is_done = deliver(lab, session, &call).await;
                delivered.extend(is_done.then_some(call));
            }
            "question" if !answered.contains(&call) => {
                let path = format!("/my/chat/{id}/questions/{call}/answer/");
                let body = json!({"answer": ANSWERED});
                let (status, answer) = lab.ask(&session.caller, Method::POST, &path, body).await;
                // 409: it was answered before.
                assert!(status < 300 || status == 409, "{call}: {answer}");
                answered.insert(call);
            }
            _ => {}
        }
    }
    let path = format!("/my/chat/sessions/{id}");
    let detail = lab.get(&session.caller, &path).await;
    let waits = detail["busy"] == true || detail["queued"] != 0;
    waits.then(|| json!([detail["status"], detail["queued"], open]))
}

/// Claims a call and posts its result. False while the call may not be run, or when it has ended.
async fn deliver(lab: &Lab, session: &Known, call: &str) -> bool {
    let base = format!("/my/chat/{}/tool_calls/{call}", session.note.session_id);
    let claim = json!({"client_id": CLIENT});
    let path = format!("{base}/claim/");
    let (status, _) = lab.ask(&session.caller, Method::POST, &path, claim).await;
    if status != 200 {
        return false;
    }
    let body = json!({"client_id": CLIENT, "result": result()});
    lab.post(&session.caller, &format!("{base}/result/"), body)
        .await;
    true
}

/// Each kind of decision is made on some session.
fn decision(label: &str, approval: &Value) -> Value {
    match (label, approval["kind"].as_str().unwrap()) {
        (_, "budget") => json!({"decision": "edit", "modified_args": {"budget_tokens": null}}),
        ("approval", _) => {
            let arguments = json!({"path": "other.txt", "content": "edited"});
            json!({"decision": "edit", "modified_args": arguments})
        }
        ("other-user", _) => json!({"decision": "reject", "feedback": "Not now."}),
        _ => json!({"decision": "approve", "digest": approval["digest"]}),
    }
}

/// A claim that was stored keeps other clients away.
pub async fn check_claim(lab: &Lab, session: &Known) {
    let events = session.events(lab).await;
    let call = events
        .iter()
        .find(|frame| frame["data"]["type"] == "tool_call");
    let call = call_of(call.expect("a tool call"));
    let path = format!(
        "/my/chat/{}/tool_calls/{call}/claim/",
        session.note.session_id
    );
    let claim = json!({"client_id": "another"});
    let (status, answer) = lab.ask(&session.caller, Method::POST, &path, claim).await;
    assert_eq!(
        (status, &answer["error_code"]),
        (409, &json!("TOOL_CALL_CLAIMED")),
        "{answer}"
    );
}

pub async fn cancel(lab: &Lab, session: &Known) {
    let path = format!("/my/chat/{}/cancel/", session.note.session_id);
    let answer = lab.post(&session.caller, &path, Value::Null).await;
    assert_eq!(answer["cancelled"], true, "{}", session.note.label);
}

/// Runs the failed tasks of a session's plan again, up to the end.
pub async fn retry(lab: &Lab, session: &Known) {
    let path = format!("/my/chat/{}/plans/", session.note.session_id);
    let plan = lab.get(&session.caller, &path).await["plans"][0].clone();
    assert_eq!(plan["status"], "partial", "{plan}");
    let again = format!("{path}{}/retry/", plan["plan_id"].as_str().unwrap());
    lab.post(&session.caller, &again, Value::Null).await;
    finish(lab, session).await;
    let plan = lab.get(&session.caller, &path).await["plans"][0].clone();
    assert_eq!(plan["status"], "completed", "{plan}");
}

/// A write that a person allowed for the rest of the session is not asked about.
pub async fn check_remembered(lab: &Lab, session: &Known) {
    let id = &session.note.session_id;
    let text = format!("Please {}", script::WRITE);
    let (path, body) = if session.is_runtime() {
        let body = json!({"session_id": id, "message": text});
        ("/agent/message/stream".to_owned(), body)
    } else {
        let body = json!({"content": text, "target_agent": "coder"});
        (format!("/my/chat/{id}/message/"), body)
    };
    let answer = lab.post(&session.caller, &path, body).await;
    assert_eq!(
        status_of(&answer),
        "awaiting_tool_result",
        "{}: {answer}",
        session.note.label
    );
    finish(lab, session).await;
}

/// What the earlier version stored beside sessions: a soft-deleted one, an agent out of service and
/// its memory, a pinned agent.
pub async fn check_the_rest(lab: &Lab, sessions: &[Known]) {
    lab.post(
        &Caller::Internal,
        "/sessions/rt-deleted/restore",
        Value::Null,
    )
    .await;
    let restored = sessions
        .iter()
        .find(|known| known.note.label == "rt-deleted");
    say_hello(lab, restored.expect("a deleted session")).await;
    let current = lab
        .get(&Caller::Internal, "/agents/rt-pinned/current")
        .await;
    assert_eq!(current["current_agent"], "architect", "{current}");

    let first = sessions.iter().find(|known| known.note.label == "idle");
    let user = &first.expect("a session of the first user").caller;
    let projects = lab.get(user, "/my/projects/").await;
    let project = list(&projects, "projects")
        .iter()
        .find(|project| project["name"] == "Upgrade");
    let project = &project.expect("the project")["project_id"];
    let agents = format!("/my/projects/{project}/agents/");
    let found = lab.get(user, &agents).await;
    let agent = list(&found, "agents")
        .iter()
        .find(|agent| agent["name"] == "agent_reviewer");
    let agent = agent.expect("the custom agent").clone();
    assert_eq!(agent["concurrency_limit"], 2, "{agent}");
    let base = format!("{agents}{}", agent["agent_id"].as_str().unwrap());
    eventually("the agent remembers", async || {
        let query = json!({"query": "which Rust does the build need"});
        let path = format!("{base}/context/search/");
        let found = lab.post(user, &path, query).await;
        if found.to_string().contains("The build needs Rust 1.95.") {
            Ok(())
        } else {
            Err(found)
        }
    })
    .await;
    let made = lab
        .post(user, "/my/chat/sessions/", json!({"project_id": project}))
        .await;
    let path = format!("/my/chat/{}/message/", made["session_id"].as_str().unwrap());
    let body = json!({"content": "Hello", "target_agent": "agent_reviewer"});
    let (status, answer) = lab.ask(user, Method::POST, &path, body).await;
    assert_eq!(status, 503, "the agent is out of service: {answer}");
}

/// How a turn stands: in the JSON of an answer, or in the last frame of a stream.
fn status_of(answer: &Value) -> String {
    let status = match answer {
        Value::Array(frames) => frames.last().map(|frame| &frame["data"]["status"]),
        answer => Some(&answer["status"]),
    };
    let text = status.and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

fn call_of(frame: &Value) -> String {
    let call = find(frame, "call_id");
    call.and_then(|call| Some(call.as_str()?.to_owned()))
        .unwrap_or_default()
}

fn result() -> Value {
    json!({"success": true, "content": "fn main() {}", "size": 12, "exit_code": 0, "stdout": "", "stderr": ""})
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[][..], Vec::as_slice)
}
