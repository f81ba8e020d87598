//! What events make of a session.

use codelab_policy::{Policy, RememberKey, Verdict};
use codelab_protocol::{
    CallOutcome, Done, FileBase, FilePreview, SessionEventBody, arguments_digest,
};
use serde_json::json;

use super::*;
use crate::ui::block::{CallEnd, End};

/// Without a number, so that the same event may be applied again.
pub(super) fn event(kind: &str, data: Value) -> SessionEvent {
    let whole = json!({ "type": kind, "data": data, "session_id": "s", "timestamp": "2026-01-13T20:00:00Z" });
    serde_json::from_value(whole).unwrap()
}

pub(super) fn delta(text: &str, attempt: u32, offset: usize) -> SessionEvent {
    let data = json!({ "content": text, "agent": "agent_coder", "message_id": "m2", "attempt": attempt, "offset": offset });
    event("message_delta", data)
}

pub(super) fn said(id: &str, role: &str, text: &str) -> SessionEvent {
    let data = json!({ "message_id": id, "role": role, "content": text, "agent_id": "agent_coder",
        "timestamp": "2026-01-13T20:00:00Z" });
    event("message_created", data)
}

fn sources(blocks: &[Block]) -> Vec<String> {
    let source = |block: &Block| match block {
        Block::Answer { piece, .. } => Some(piece.source.clone()),
        Block::AnswerRestarted => Some("(again)".to_owned()),
        Block::AnswerCut => Some("(cut)".to_owned()),
        Block::Error { message, .. } => Some(format!("error {message}")),
        Block::TurnError { error, .. } => Some(format!("error {}", error.message)),
        Block::Cancelled => Some("(cancelled)".to_owned()),
        _ => None,
    };
    blocks.iter().filter_map(source).collect()
}

pub(super) fn play(events: &[SessionEvent]) -> (ViewState, Vec<Block>) {
    let mut state = ViewState::default();
    let blocks = events
        .iter()
        .flat_map(|event| state.apply(event, &Before::Missing.into()))
        .collect();
    (state, blocks)
}

#[test]
fn an_answer_is_printed_once_however_it_arrives() {
    let user = said("m1", "user", "go");
    let whole = "One.\n\nTwo.";
    for (deltas, expected) in [
        (vec![], vec!["One.\n\nTwo."]),
        (vec![delta("One.", 0, 0)], vec!["One.\n\nTwo."]),
        (vec![delta("One.\n\nTw", 0, 0)], vec!["One.\n\n", "Two."]),
        (
            vec![delta("One.\n\n", 0, 0), delta("Two.", 0, 6)],
            vec!["One.\n\n", "Two."],
        ),
        (
            vec![delta("Other.\n\nX", 0, 0), delta("One.", 1, 0)],
            vec!["Other.\n\n", "(again)", "One.\n\nTwo."],
        ),
        (
            vec![delta("Other.\n\nX", 0, 0)],
            vec!["Other.\n\n", "(again)", "One.\n\nTwo."],
        ),
    ] {
        let mut events = vec![user.clone()];
        events.extend(deltas);
        events.push(said("m2", "assistant", whole));
        let copy = json!({ "agent": "agent_coder", "success": true, "response": whole, "message_id": "m2" });
        events.push(event("task_completed", copy));
        let (state, blocks) = play(&events);
        assert_eq!(sources(&blocks), expected);
        assert!(state.answer.is_none());
        let named = blocks
            .iter()
            .filter(|block| matches!(block, Block::Answer { agent: Some(_), .. }))
            .count();
        assert_eq!(
            named,
            1 + usize::from(expected.contains(&"(again)")),
            "each answer says once who speaks"
        );
    }
}

#[test]
fn a_turn_that_ends_early_says_so() {
    let (mut state, _) = play(&[said("m1", "user", "go"), delta("One.\n\nTw", 0, 0)]);
    assert!(state.is_working());
    let blocks = state.done(TurnStatus::Cancelled);
    assert_eq!(sources(&blocks), ["Tw", "(cut)", "(cancelled)"]);
    assert!(!state.is_working() && state.done(TurnStatus::Cancelled).is_empty());
}

#[test]
fn a_failure_is_told_once() {
    let mut failed = said("m2", "assistant", "The model cannot be reached.");
    let SessionEventBody::MessageCreated(created) = &mut failed.body else {
        panic!()
    };
    created.message.error = true;
    let told = event(
        "error",
        json!({ "message": "The model cannot be reached.", "error_code": "LLM_ERROR" }),
    );
    for events in [
        vec![said("m1", "user", "go"), failed.clone(), told],
        vec![said("m1", "user", "go"), failed],
    ] {
        let (mut state, mut blocks) = play(&events);
        blocks.extend(state.done(TurnStatus::Failed));
        assert_eq!(sources(&blocks), ["error The model cannot be reached."]);
    }
}

#[test]
fn a_failed_plan_repeats_nothing_that_was_told_of_its_tasks() {
    let task = |id: &str| {
        json!({ "id": id, "agent": "agent_coder", "description": "d", "depends_on": [],
            "status": "running", "estimated_tokens": 1, "estimated_cost_usd": 0.0 })
    };
    let plan = json!({ "plan_id": "p", "workflow_id": "w", "status": "running", "fallback": false,
        "estimated_cost_usd": 0.0, "cost_known": true, "requires_approval": false,
        "tasks": [task("a"), task("b")] });
    let error = json!({ "message": "It broke.", "error_code": "LLM_ERROR", "details": {} });
    let failed = json!({ "plan_id": "p", "task_id": "a", "agent": "agent_coder", "error": error });
    let mut answer = said(
        "m2",
        "assistant",
        "Not done:\n- a (agent_coder): failed: It broke.",
    );
    let SessionEventBody::MessageCreated(created) = &mut answer.body else {
        panic!()
    };
    created.message.error = true;
    let (mut state, mut blocks) = play(&[
        said("m1", "user", "go"),
        event("task_plan_created", plan),
        event("task_failed", failed),
        answer,
    ]);
    blocks.extend(state.done(TurnStatus::Failed));
    assert_eq!(sources(&blocks), [""; 0]);
    let told = |block: &Block| matches!(block, Block::TaskEnded { error: Some(error), .. } if error.message == "It broke.");
    assert!(blocks.iter().any(told), "{blocks:?}");
}

#[test]
fn a_partial_answer_is_told_once_with_its_end() {
    let cases = [
        (
            json!({ "partial": true, "reason": "stopped" }),
            "CANCELLED",
            TurnStatus::Cancelled,
            vec!["One.", "Tw", "(cut)", "(cancelled)"],
        ),
        (
            json!({ "partial": true, "reason": "failed", "error": true, "error_message": "broken" }),
            "LLM_ERROR",
            TurnStatus::Failed,
            vec!["One.", "Tw", "(cut)", "error broken"],
        ),
    ];
    for (fields, code, status, expected) in cases {
        let mut data = json!({ "message_id": "m2", "role": "assistant", "content": "One.\n\nTw",
            "agent_id": "agent_coder", "timestamp": "2026-01-13T20:00:00Z" });
        let fields = fields.as_object().unwrap().clone();
        data.as_object_mut().unwrap().extend(fields);
        let error = json!({ "message": "broken", "error_code": code });
        let (mut state, mut blocks) = play(&[
            said("m1", "user", "go"),
            delta("One.\n\nTw", 0, 0),
            event("message_created", data),
            event("error", error),
        ]);
        blocks.extend(state.done(status));
        let told: Vec<String> = sources(&blocks);
        let told: Vec<&str> = told.iter().map(|text| text.trim()).collect();
        assert_eq!(told, expected);
    }
}

#[test]
fn a_queued_message_is_shown_until_it_is_taken_back() {
    let queued = json!({ "message_id": "m3", "position": 1, "content": "then this" });
    let back = json!({ "message_id": "m3", "reason": "stopped" });
    let (state, blocks) = play(&[
        said("m1", "user", "go"),
        event("message_queued", queued),
        event("message_dequeued", back.clone()),
        event("message_dequeued", back),
    ]);
    let told: Vec<&str> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::Queued { text, .. } => Some(text.as_str()),
            Block::Dequeued(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(told, ["then this", "then this"]);
    assert!(state.view.queued().is_empty());
}

fn approval(call: &str, arguments: Value, digest_of: &Value) -> SessionEvent {
    let digest = arguments_digest("write_file", digest_of.as_object().unwrap());
    let data = json!({ "call_id": call, "kind": "tool", "tool_name": "write_file", "arguments": arguments,
        "digest": digest, "reason": "r", "created_at": "2026-01-13T20:00:00Z", "expires_at": null,
        "timeout_seconds": 300, "agent": "agent_coder" });
    event("approval_request", data)
}

#[test]
fn what_waits_is_kept_until_it_is_answered() {
    let arguments = json!({ "path": "a", "content": "x" });
    let question = json!({ "call_id": "q", "question": "Which?", "agent": "agent_coder" });
    let (mut state, _) = play(&[
        said("m1", "user", "go"),
        approval("c", arguments.clone(), &arguments),
        approval("c", arguments.clone(), &arguments),
        event("question", question),
    ]);
    let open = |state: &ViewState| {
        state
            .asks
            .iter()
            .map(|ask| ask.call_id().to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(open(&state), ["c", "q"], "a repeated event asks once");
    state.done(TurnStatus::AwaitingApproval);
    let resolved =
        json!({ "call_id": "c", "kind": "tool", "decision": "approve", "decided_by": "1" });
    state.apply(
        &event("approval_resolved", resolved),
        &Before::Missing.into(),
    );
    assert_eq!(open(&state), ["q"]);
    let answer = json!({ "call_id": "q", "tool_name": "ask_followup_question", "result": "this" });
    let blocks = state.apply(&event("tool_result", answer), &Before::Missing.into());
    assert_eq!(
        (open(&state).len(), blocks.last()),
        (0, Some(&Block::Answered("this".to_owned())))
    );
}

#[test]
fn what_waits_is_printed_above_its_decision_and_as_the_server_has_it_now() {
    let [one, two] = ["one", "two"].map(|text| json!({ "path": text, "content": text }));
    let (mut state, blocks) = play(&[
        said("m1", "user", "go"),
        approval("c", one.clone(), &one),
        approval("d", one.clone(), &one),
        approval("c", two.clone(), &two),
    ]);
    assert_eq!(blocks.len(), 1, "only the message: {blocks:?}");
    let PendingAsk::Approval(first) = &state.asks[0] else {
        panic!("{:?}", state.asks)
    };
    assert_eq!(
        first.approval.arguments["path"], "two",
        "a changed request replaces the old one"
    );
    // Decided here, confirmed later; the other is decided elsewhere and was never on the screen.
    state.answered(&CallId::parse("c").unwrap());
    for call in ["c", "d"] {
        let resolved =
            json!({ "call_id": call, "kind": "tool", "decision": "approve", "decided_by": "1" });
        let blocks = state.apply(
            &event("approval_resolved", resolved),
            &Before::Missing.into(),
        );
        let [Block::Approval(card), Block::Decided { .. }] = blocks.as_slice() else {
            panic!("{blocks:?}")
        };
        let ApprovalCardKind::Write { arguments, .. } = &card.kind else {
            panic!("{card:?}")
        };
        assert_eq!(arguments["path"], if call == "c" { "two" } else { "one" });
    }
    assert!(state.asks.is_empty());
}

#[test]
fn changed_arguments_are_noticed() {
    let (shown, signed) = (
        json!({ "path": "a", "content": "x" }),
        json!({ "path": "a", "content": "y" }),
    );
    for (digest_of, is_forged) in [(&shown, false), (&signed, true)] {
        let (state, blocks) = play(&[
            said("m1", "user", "go"),
            approval("c", shown.clone(), digest_of),
        ]);
        assert_eq!(
            blocks,
            [Block::User("go".to_owned())],
            "it waits in the live rows"
        );
        let Some(Block::Approval(approval)) = state.card(&state.asks[0]) else {
            panic!("{:?}", state.asks)
        };
        assert_eq!(
            (approval.is_forged, state.asks[0].is_forged()),
            (is_forged, is_forged)
        );
    }
}

#[test]
fn a_closed_call_says_what_became_of_it() {
    let call = json!({ "tool_call": { "call_id": "c", "name": "execute_command", "arguments": { "command": "ls" } },
        "requires_approval": false, "digest": "d", "agent": "agent_coder", "client_attached": true });
    let (mut state, _) = play(&[said("m1", "user", "go"), event("tool_call", call)]);
    let is_open = |state: &ViewState| {
        let call = state.view.call(&CallId::parse("c").unwrap()).unwrap();
        call.status.is_running()
    };
    assert!(is_open(&state));
    let closed = event(
        "tool_call_closed",
        json!({ "call_id": "c", "outcome": "unknown" }),
    );
    let blocks = state.apply(&closed, &Before::Missing.into());
    assert!(
        matches!(
            &blocks[..],
            [Block::Call(CallEnd {
                end: End::Closed(CallOutcome::Unknown),
                ..
            })]
        ),
        "{blocks:?}"
    );
    assert!(!is_open(&state) && state.apply(&closed, &Before::Missing.into()).is_empty());
    let late =
        json!({ "call_id": "c", "tool_name": "execute_command", "result": {}, "late": true });
    assert_eq!(
        state
            .apply(&event("tool_result", late), &Before::Missing.into())
            .len(),
        1,
        "a late result is shown"
    );
}

/// A line of a recorded session: an event, or how the turn stood.
fn recorded(line: &str) -> Result<SessionEvent, TurnStatus> {
    match serde_json::from_str::<Done>(line) {
        Ok(done) => Err(done.status),
        Err(_) => Ok(serde_json::from_str(line).unwrap()),
    }
}

#[test]
fn reading_a_session_again_gives_the_same_state() {
    for text in [
        include_str!("../fixtures/plan.jsonl"),
        include_str!("../fixtures/direct.jsonl"),
    ] {
        let mut live = ViewState::default();
        let mut again = ViewState::default();
        let (mut seen, mut seen_again) = (Vec::new(), Vec::new());
        for line in text.lines() {
            match recorded(line) {
                Ok(event) => {
                    seen.extend(live.apply(&event, &Before::Missing.into()));
                    // Deltas are never stored, so they are not there the second time.
                    if event.seq.is_some() {
                        seen_again.extend(again.apply(&event, &Before::Missing.into()));
                    }
                }
                Err(status) => {
                    seen.extend(live.done(status));
                    seen_again.extend(again.done(status));
                }
            }
        }
        assert_eq!(sources(&seen).concat(), sources(&seen_again).concat());
        assert!(!live.is_working() && live.asks.is_empty());
        assert_eq!(live.view.usage(), again.view.usage());
    }
}

#[test]
fn this_machines_questions_outlive_a_change_of_session() {
    let local = |call: usize| LocalAsk {
        session_id: SessionId::parse("s").unwrap(),
        call_id: CallId::parse(&format!("c{call}")).unwrap(),
        tool: Tool::ExecuteCommand.into(),
        arguments: Map::new(),
        reason: "no sandbox".to_owned(),
        parts: Vec::new(),
    };
    let question = |id: &str| {
        event(
            "question",
            json!({ "call_id": id, "question": "?", "options": [], "agent": "a" }),
        )
    };
    let (mut state, _) = play(&[said("m1", "user", "go"), question("old")]);
    assert!(state.ask_locally(local(1)));
    let (next, _) = play(&[question("new")]);
    state.become_session(next);
    let asked: Vec<&str> = state
        .asks
        .iter()
        .map(|ask| ask.call_id().as_str())
        .collect();
    assert_eq!(asked, ["c1", "new"]);
    state.become_session(ViewState::default());
    assert_eq!(state.asks, [PendingAsk::Local(local(1))]);
    assert!(!state.is_working());
    let shown = (1..=MAX_OPEN)
        .filter(|call| state.ask_locally(local(*call)))
        .count();
    assert_eq!(shown, MAX_OPEN - 1, "a question past the limit is refused");
}

#[test]
fn of_two_calls_with_one_id_only_the_first_waits_for_this_machines_person() {
    let local = |session: &str, command: &str| LocalAsk {
        session_id: SessionId::parse(session).unwrap(),
        call_id: CallId::parse("c").unwrap(),
        tool: Tool::ExecuteCommand.into(),
        arguments: json!({ "command": command }).as_object().unwrap().clone(),
        reason: "it deletes files".to_owned(),
        parts: Vec::new(),
    };
    let mut state = ViewState::default();
    assert!(state.ask_locally(local("one", "rm a.tmp")));
    assert!(!state.ask_locally(local("two", "rm -rf .")));
    assert_eq!(state.asks, [PendingAsk::Local(local("one", "rm a.tmp"))]);
}

#[test]
fn a_decision_that_failed_waits_behind_what_is_read() {
    let [old, new] = ["old", "new"].map(|text| json!({ "path": text, "content": text }));
    let (mut state, _) = play(&[
        said("m1", "user", "go"),
        approval("a", old.clone(), &old),
        approval("b", old.clone(), &old),
        approval("c", old.clone(), &old),
    ]);
    let local = PendingAsk::Local(LocalAsk {
        session_id: SessionId::parse("other").unwrap(),
        call_id: CallId::parse("c").unwrap(),
        tool: Tool::WriteFile.into(),
        arguments: old.as_object().unwrap().clone(),
        reason: "protected".to_owned(),
        parts: Vec::new(),
    });
    let PendingAsk::Local(ask) = &local else {
        unreachable!()
    };
    assert!(state.ask_locally(ask.clone()));
    let call = CallId::parse("a").unwrap();
    state.answered(&call);
    // The server changes the request before it refuses the decision about the old one.
    state.apply(&approval("a", new.clone(), &new), &Before::Missing.into());
    state.answered(&call);
    state.ask_again(&call);
    let path = |ask: &PendingAsk| match ask {
        PendingAsk::Approval(request) => {
            format!("{} {}", ask.call_id(), request.approval.arguments["path"])
        }
        _ => "here".to_owned(),
    };
    let paths = |state: &ViewState| state.asks.iter().map(path).collect::<Vec<_>>();
    assert_eq!(
        paths(&state),
        ["b \"old\"", "a \"new\"", "c \"old\"", "here"]
    );
    // The question of this machine about the same call is another one.
    state.apply(&approval("c", new.clone(), &new), &Before::Missing.into());
    state.answered(&CallId::parse("c").unwrap());
    assert_eq!(paths(&state), ["b \"old\"", "a \"new\"", "here"]);
    assert_eq!(state.asks[2], local);
    // What waits nowhere any more is not asked again.
    state.ask_again(&CallId::parse("gone").unwrap());
    assert_eq!(state.asks.len(), 3);
    // What the file holds is shown for this machine's question too.
    let now: ShownFile = Before::Text("now".to_owned()).into();
    state.reread(&CallId::parse("c").unwrap(), now.clone());
    let Some(Block::Approval(card)) = state.card(&local) else {
        panic!()
    };
    assert_eq!(card, ask.shown(&now, Language::En));
}

#[test]
fn always_is_offered_exactly_where_the_policy_remembers() {
    let write = |path: &str, content: &str| {
        let arguments = json!({ "path": path, "content": content });
        (Tool::WriteFile, arguments)
    };
    let run = |command: &str| (Tool::ExecuteCommand, json!({ "command": command }));
    for (tool, arguments) in [
        write("a.py", "x"),
        write(".git/hooks/pre-commit", "x"),
        write("/etc/passwd", "x"),
        write("a.py", "hidden \u{202e} text"),
        run("rm -rf build"),
        run("black ."),
        run("rm -rf .git/hooks"),
        run("echo 'not closed; rm -rf x"),
        run("rm \u{202e}x"),
        run("cat /etc/passwd"),
        (Tool::CreateDirectory, json!({ "path": "/etc/x" })),
    ] {
        let map = arguments.as_object().unwrap();
        let checked = tool.check(map).unwrap();
        let Verdict::Ask(ask) = Policy::default().review(&checked) else {
            panic!("{arguments} asks")
        };
        let whole = json!({ "call_id": "c", "kind": "tool", "tool_name": tool.as_str(),
            "arguments": map, "digest": arguments_digest(tool.as_str(), map), "reason": ask.reason,
            "parts": ask.parts, "created_at": "2026-01-13T20:00:00Z", "expires_at": null,
            "timeout_seconds": 0 });
        let approval: ApprovalInfo = serde_json::from_value(whole).unwrap();
        let expected = ask.remember.map(|key| match key {
            RememberKey::FileWrites => Grant::FileWrites,
            RememberKey::Command(_) => Grant::SameCommand,
            RememberKey::McpTool(_) => Grant::SameTool,
        });
        assert_eq!(Grant::of(&approval), expected, "{approval:?}");
    }
}

#[test]
fn a_write_is_shown_as_the_client_that_runs_it_sees_the_file() {
    let arguments = json!({ "path": "p", "content": "new\n" });
    let told = |base: FileBase, is_unread: bool| {
        let mut asked = approval("p", arguments.clone(), &arguments);
        let SessionEventBody::ApprovalRequest(request) = &mut asked.body else {
            panic!()
        };
        request.approval.preview = Some(Box::new(FilePreview {
            base,
            diff: "--- a/p\n+++ b/p\n@@ -1 +1 @@\n-there\n+new\n".to_owned(),
            is_unread,
            is_outdated: false,
            truncated: false,
            note: None,
        }));
        request.as_ref().clone()
    };
    let state = ViewState::default();
    let there = FileBase::of_bytes(b"there\n");
    let request = told(there.clone(), true);
    let text = |file: &ShownFile| {
        let ApprovalCardKind::Write { diff, .. } = state.shown(&request, file).kind else {
            panic!()
        };
        let lines = diff.unwrap().lines;
        lines
            .iter()
            .map(|line| line.to_text())
            .collect::<Vec<_>>()
            .join("\n")
    };
    // This folder has no such file, but the client that would write has one.
    let nothing = ShownFile {
        before: Before::Missing,
        base: Some(FileBase::Missing),
    };
    let shown = text(&nothing);
    assert!(
        shown.contains("-there") && !shown.contains("a new file"),
        "{shown}"
    );
    assert!(shown.contains("has not read this file"), "{shown}");
    assert!(shown.contains("not the one shown"), "{shown}");
    // The same file here: the whole of it can be shown.
    let here = ShownFile {
        before: Before::Text("there\n".to_owned()),
        base: Some(there),
    };
    assert!(text(&here).contains("-there"));
    assert!(!text(&here).contains("not the one shown"));
}
