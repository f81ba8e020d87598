//! The cases of `tests/projection`, which the web page's reducer passes as well, and the limits.

use std::path::Path;

use codelab_protocol::RememberedCalls;
use serde_json::{Value, json};

use super::timeline::{MAX_BYTES, MAX_ITEMS};
use super::*;

/// A line of a case: an event, or one of the two things that are not of the log.
fn apply(view: &mut SessionView, line: &Value) {
    match line["type"].as_str().unwrap() {
        "done" => {
            let status = TurnStatus::parse(line["data"]["status"].as_str().unwrap()).unwrap();
            view.done(status);
        }
        "connected" => view.reconnected(),
        _ => match serde_json::from_value::<SessionEvent>(line.clone()) {
            Ok(event) => _ = view.apply(&event),
            Err(_) => view.skip(line["seq"].as_u64().unwrap()),
        },
    }
}

/// The view in the format of the cases.
fn described(view: &SessionView) -> Value {
    let all = |describe: fn(&SessionItem) -> Option<Value>| -> Vec<Value> {
        view.items().filter_map(describe).collect()
    };
    let status = match view.turn() {
        TurnState::Idle => "idle",
        TurnState::Working => "working",
        TurnState::Stopped(status) => status.as_str(),
    };
    let waiting_messages = |steers: bool| -> Vec<&MessageId> {
        let of_kind = view
            .queued()
            .iter()
            .filter(|queued| queued.steers == steers);
        of_kind.map(|queued| &queued.message_id).collect()
    };
    let mut turn = json!({"status": status, "queued": waiting_messages(false)});
    let steering = waiting_messages(true);
    if !steering.is_empty() {
        turn["steering"] = json!(steering);
    }
    if view.is_compacting() {
        turn["compacting"] = true.into();
    }
    json!({
        "messages": all(message), "tool_calls": all(call), "questions": all(question),
        "plans": all(plan), "waiting": view.waiting().map(waiting).collect::<Vec<_>>(),
        "errors": all(error), "notes": all(note),
        "turn": turn, "last_seq": view.last_seq(),
    })
}

fn with_origin(mut value: Value, origin: &TaskOrigin) -> Option<Value> {
    value["plan_id"] = json!(origin.plan_id);
    value["task_id"] = json!(origin.task_id);
    Some(value)
}

fn message(item: &SessionItem) -> Option<Value> {
    let SessionItem::Message(view) = item else {
        return None;
    };
    if view.text.is_empty() && view.reasoning.is_empty() {
        return None;
    }
    let status = match view.status {
        MessageStatus::Streaming { .. } => "streaming",
        MessageStatus::Complete => "complete",
        MessageStatus::Error => "error",
        MessageStatus::Stopped => "stopped",
        MessageStatus::Failed => "failed",
    };
    let mut value = json!({ "message_id": view.message_id, "role": view.role, "agent": view.agent,
        "text": view.text, "status": status });
    if view.steered {
        value["steered"] = true.into();
    }
    if !view.reasoning.is_empty() {
        value["reasoning"] = json!(view.reasoning);
    }
    with_origin(value, &view.origin)
}

fn call(item: &SessionItem) -> Option<Value> {
    let SessionItem::Call(view) = item else {
        return None;
    };
    let (result, late) = match &view.status {
        ToolCallStatus::Finished { result, is_late } => (result.clone(), *is_late),
        _ => (Value::Null, false),
    };
    let decision = view.decision.as_ref().map(|decision| &decision.decision);
    let mut value = json!({ "call_id": view.call.call_id, "tool": view.call.name, "agent": view.agent,
        "status": view.status.as_str(), "arguments": view.call.arguments,
        "proposed_arguments": view.proposed_arguments, "decision": decision, "result": result, "late": late });
    if let Some(mcp) = &view.mcp {
        value["mcp"] =
            json!({ "server": mcp.id.server, "tool": mcp.id.tool, "runs_at": mcp.runs_at });
    }
    let told = view.progress.as_ref().filter(|_| view.status.is_running());
    if let Some(told) = told {
        value["progress"] =
            json!({ "progress": told.progress, "total": told.total, "message": told.message });
    }
    if let ToolCallStatus::AwaitingApproval(request) = &view.status
        && let Some(shown) = &request.approval.preview
    {
        value["preview"] = json!({ "base": shown.base, "diff": shown.diff,
            "unread": shown.is_unread, "outdated": shown.is_outdated });
    }
    with_origin(value, &view.origin)
}

fn question(item: &SessionItem) -> Option<Value> {
    let SessionItem::Question(view) = item else {
        return None;
    };
    let (status, answer) = match &view.status {
        QuestionStatus::Open => ("open", None),
        QuestionStatus::Answered(answer) => ("answered", Some(answer)),
        QuestionStatus::Closed => ("closed", None),
    };
    let asked = &view.question;
    let mut value = json!({ "call_id": asked.call_id, "agent": asked.agent, "question": asked.question,
        "options": asked.options, "status": status, "answer": answer });
    if let Some(server) = &asked.server {
        value["server"] = json!(server);
        value["requested_schema"] = json!(asked.requested_schema);
    }
    with_origin(value, &asked.origin)
}

fn plan(item: &SessionItem) -> Option<Value> {
    let SessionItem::Plan(view) = item else {
        return None;
    };
    let task = |task: &codelab_protocol::Task| {
        let mut value = json!({ "id": task.id, "agent": task.agent, "description": task.description,
            "depends_on": task.depends_on, "status": task.status, "result": task.result,
            "error_code": task.error.as_ref().map(|error| error.error_code) });
        if !task.paths.is_empty() {
            value["paths"] = json!(task.paths);
            value["waits_for"] = json!(view.waits_for(task));
        }
        value
    };
    Some(
        json!({ "plan_id": view.id(), "status": view.plan.status, "response": view.response,
        "tasks": view.plan.tasks.iter().map(task).collect::<Vec<_>>() }),
    )
}

fn waiting(item: WaitingItem<'_>) -> Value {
    let own = TaskOrigin::default();
    let (kind, agent, origin, text) = match item {
        WaitingItem::Approval(request) => {
            let approval = &request.approval;
            (
                json!(approval.kind),
                request.agent.as_ref(),
                &request.origin,
                &approval.reason,
            )
        }
        WaitingItem::Plan(request) => (json!("plan"), None, &own, &request.approval.reason),
        WaitingItem::Question(asked) => (
            json!("question"),
            Some(&asked.agent),
            &asked.origin,
            &asked.question,
        ),
    };
    let value = json!({ "kind": kind, "call_id": item.call_id(), "agent": agent, "text": text });
    with_origin(value, origin).unwrap()
}

fn error(item: &SessionItem) -> Option<Value> {
    let SessionItem::Error(error) = item else {
        return None;
    };
    let value = json!({ "error_code": error.error.error_code, "message": error.error.message });
    with_origin(value, &error.origin)
}

fn note(item: &SessionItem) -> Option<Value> {
    let SessionItem::Note(note) = item else {
        return None;
    };
    Some(match note {
        SessionNote::AgentSwitched(switch) => json!({ "kind": "agent_switched",
            "from": switch.from_agent, "to": switch.to_agent, "reason": switch.reason }),
        SessionNote::HistoryCompacted(compacted) => json!({ "kind": "history_compacted",
            "messages": compacted.messages, "summary": compacted.summary }),
        SessionNote::CompactionFailed(error) => json!({ "kind": "compaction_failed",
            "error_code": error.error_code, "message": error.message }),
        SessionNote::Rewound(rewound) => json!({ "kind": "rewound", "rewind_id": rewound.rewind_id,
            "to_message_id": rewound.to_message_id, "restored": rewound.restored, "undone": rewound.undone }),
        SessionNote::ApproveChanged(mode) => json!({ "kind": "approve_changed", "approve": mode }),
        SessionNote::RememberedRevoked(revoked) => {
            let mut value =
                json!({ "kind": "remembered_revoked", "command": null, "by": revoked.revoked_by });
            match &revoked.remembered.covers {
                RememberedCalls::FileWrites => {}
                RememberedCalls::Command { command, .. } => value["command"] = json!(command),
                RememberedCalls::McpTool { server, tool } => {
                    value["server"] = json!(server);
                    value["tool"] = json!(tool);
                }
            }
            value
        }
        SessionNote::ModelFallback(fallback) => json!({ "kind": "model_fallback",
            "from": fallback.from, "to": fallback.to, "failure": fallback.kind }),
        SessionNote::ModelWaiting(waiting) => json!({ "kind": "model_waiting",
            "until": waiting.until, "failure": waiting.kind }),
        SessionNote::Gap(gap) => json!({ "kind": "gap", "from": gap.from, "to": gap.to }),
        SessionNote::StartOver => json!({ "kind": "start_over" }),
    })
}

#[test]
fn every_case_gives_the_same_view_as_the_page() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/projection");
    let (mut cases, mut wrong) = (0, Vec::new());
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        cases += 1;
        let case: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let mut view = SessionView::default();
        for line in case["events"].as_array().unwrap() {
            apply(&mut view, line);
        }
        let (seen, expected) = (described(&view), &case["expected"]);
        let fields = expected.as_object().unwrap().keys();
        let differing = fields.filter(|field| seen[*field] != expected[*field]);
        wrong.extend(differing.map(|field| {
            let (seen, expected) = (&seen[field], &expected[field]);
            format!(
                "{}: {field}\n  seen     {seen}\n  expected {expected}",
                case["name"]
            )
        }));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases > 30, "{cases} cases");
}

fn event(seq: usize, kind: &str, data: Value) -> SessionEvent {
    serde_json::from_value(
        json!({ "type": kind, "data": data, "session_id": "s", "seq": seq,
        "timestamp": "2026-01-13T20:00:00Z" }),
    )
    .unwrap()
}

fn stored(seq: usize, content: &str) -> SessionEvent {
    let message = json!({ "message_id": format!("m{seq}"), "role": "assistant", "content": content,
        "agent_id": "agent_coder", "timestamp": "2026-01-13T20:00:00Z" });
    event(seq, "message_created", message)
}

#[test]
fn a_long_session_keeps_what_is_newest_and_what_waits() {
    let mut view = SessionView::default();
    let asked = json!({ "call_id": "q", "question": "Which?", "agent": "agent_coder" });
    view.apply(&event(1, "question", asked));
    for seq in 2..3 * MAX_ITEMS {
        view.apply(&stored(seq, "text"));
    }
    assert_eq!(view.items().count(), MAX_ITEMS);
    assert_eq!(view.waiting().count(), 1, "the question is still open");
    let newest = format!("m{}", 3 * MAX_ITEMS - 1);
    assert!(view.message(&MessageId::parse(&newest).unwrap()).is_some());

    let large = "x".repeat(MAX_BYTES / 4);
    for seq in 3 * MAX_ITEMS..3 * MAX_ITEMS + 20 {
        view.apply(&stored(seq, &large));
    }
    let bytes: usize = view.items().map(SessionItem::weight_bytes).sum();
    assert!(bytes <= MAX_BYTES, "{bytes} bytes");
    assert_eq!(view.waiting().count(), 1, "the question is still open");
}

#[test]
fn a_repeated_text_changes_nothing_up_to_its_end() {
    let delta = |text: &str, attempt: u32, offset: usize| {
        let data = json!({ "content": text, "agent": "agent_coder", "message_id": "m",
            "attempt": attempt, "offset": offset });
        let mut event = event(1, "message_delta", data);
        event.seq = None;
        event
    };
    let mut view = SessionView::default();
    let mut from = |event: &SessionEvent| match view.apply(event).as_slice() {
        [] => None,
        [SessionChange::TextChanged { from_bytes, .. }] => Some(*from_bytes),
        changes => panic!("{changes:?}"),
    };
    for (text, attempt, offset, expected) in [
        ("При", 0, 0, Some(0)),
        ("вет", 0, 6, Some(6)),
        ("Привет!", 0, 0, Some(12)),
        ("x", 0, 99, None),
        ("inside a character", 0, 3, None),
        ("Да", 1, 0, Some(0)),
        ("late", 0, 4, None),
    ] {
        assert_eq!(from(&delta(text, attempt, offset)), expected, "{text}");
    }
}
