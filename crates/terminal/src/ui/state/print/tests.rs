//! What a person reads for the events of a session.

use codelab_protocol::{SessionEvent, SessionEventBody};
use serde_json::{Value, json};

use super::super::tests::{delta, event, play, said};
use super::*;
use crate::Language;
use crate::ui::render;

const WIDTH: usize = 90;

fn read(blocks: &[Block], language: Language) -> Vec<String> {
    let lines = blocks
        .iter()
        .flat_map(|block| render::block(block, WIDTH, language));
    let rows = lines.map(|line| line.to_text().trim_end().to_owned());
    rows.filter(|row| !row.is_empty()).collect()
}

fn task(id: &str, usage: Option<u64>) -> Value {
    let usage = usage.map(
        |tokens| json!({ "prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens }),
    );
    json!({ "id": id, "agent": "agent_coder", "description": "d", "depends_on": [], "paths": [],
        "status": "running", "estimated_tokens": 1, "estimated_cost_usd": null, "usage": usage })
}

fn plan(tasks: &[Value]) -> SessionEvent {
    let plan = json!({ "plan_id": "p", "workflow_id": "w", "status": "running", "fallback": false,
        "estimated_cost_usd": 0.0, "cost_known": true, "requires_approval": false, "tasks": tasks });
    event("task_plan_created", plan)
}

fn with(mut event: SessionEvent, warnings: &[&str], task: Option<&str>) -> SessionEvent {
    let SessionEventBody::MessageCreated(created) = &mut event.body else {
        panic!()
    };
    created.message.warnings = warnings.iter().map(|text| (*text).to_owned()).collect();
    if let Some(task) = task {
        created.origin = TaskOrigin {
            plan_id: PlanId::parse("p").ok(),
            task_id: TaskId::parse(task).ok(),
        };
    }
    event
}

#[test]
fn what_was_approved_after_a_change_is_shown() {
    let arguments = json!({ "path": "a.txt", "content": "proposed\n" });
    let digest = codelab_protocol::arguments_digest("write_file", arguments.as_object().unwrap());
    let request = json!({ "call_id": "c", "kind": "tool", "tool_name": "write_file", "arguments": arguments,
        "digest": digest, "reason": "File modification requires approval", "agent": "agent_coder",
        "created_at": "2026-01-13T20:00:00Z", "expires_at": null, "timeout_seconds": 300 });
    let call = json!({ "call_id": "c", "name": "write_file", "arguments": arguments });
    let mut calls = said("m2", "assistant", "");
    let SessionEventBody::MessageCreated(created) = &mut calls.body else {
        panic!()
    };
    created.message.tool_calls = serde_json::from_value(json!([call])).unwrap();
    let resolved = json!({ "call_id": "c", "kind": "tool", "decision": "edit", "decided_by": "1",
        "modified_args": { "path": "a.txt", "content": "changed\n" } });
    let (_, blocks) = play(&[
        said("m1", "user", "go"),
        calls,
        event("approval_request", request),
        event("approval_resolved", resolved),
    ]);
    let rows = read(&blocks, Language::En).join("\n");
    assert!(
        rows.contains("+changed") && !rows.contains("proposed"),
        "{rows}"
    );
    assert!(rows.contains("✓ approved with your changes"), "{rows}");
    assert!(!rows.contains("digest"), "{rows}");
}

#[test]
fn a_failed_task_is_explained_in_the_persons_language_and_to_its_end() {
    let long = format!("The model server said: {}", "word ".repeat(60).trim_end());
    let error =
        json!({ "message": long, "error_code": "LLM_ERROR", "details": { "kind": "wrong_key" } });
    let failed = json!({ "plan_id": "p", "task_id": "a", "agent": "agent_coder", "error": error });
    let error = json!({ "message": "Odd.", "error_code": "TOOL_VALIDATION_ERROR", "details": {},
        "plan_id": "p", "task_id": "b" });
    let (_, blocks) = play(&[
        said("m1", "user", "go"),
        plan(&[task("a", None), task("b", None)]),
        event("task_failed", failed),
        event("error", error),
    ]);
    for (language, failed, headline) in [
        (Language::En, "✗ a failed", "key"),
        (Language::Ru, "✗ a ошибка", "ключ"),
        (Language::Uk, "✗ a помилка", "ключ"),
    ] {
        let rows = read(&blocks, language).join("\n");
        let words = rows.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [failed, headline, &format!("{long} (LLM_ERROR)"), "✗ [b] "] {
            assert!(words.contains(part), "{part}\n{rows}");
        }
    }
}

#[test]
fn a_warning_is_told_once_and_names_its_task() {
    let cut = "The answer was cut short";
    let answer = |id: &str, text: &str| said(id, "assistant", text);
    let only = [
        said("m1", "user", "go"),
        plan(&[task("a", None)]),
        with(answer("m2", "Half"), &[cut], Some("a")),
        with(answer("m3", "Half"), &[cut], None),
    ];
    let several = [
        said("m1", "user", "go"),
        plan(&[task("a", None), task("b", None)]),
        with(answer("m2", "Half"), &[cut], Some("a")),
        with(answer("m3", "Both"), &[], None),
    ];
    for (events, expected) in [
        (&only, "  The answer was cut short"),
        (&several, "  [a] The answer was cut short"),
    ] {
        let rows = read(&play(events).1, Language::En);
        let told: Vec<&String> = rows.iter().filter(|row| row.contains(cut)).collect();
        assert_eq!(told, [expected], "{rows:?}");
    }
}

#[test]
fn a_plan_that_runs_again_tells_only_what_that_used() {
    let completed = |tokens: u64| {
        let usage =
            json!({ "prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens });
        event(
            "workflow_completed",
            json!({ "plan_id": "p", "workflow_id": "w", "status": "partial", "response": "", "usage": usage }),
        )
    };
    let spent = |blocks: &[Block]| -> Vec<String> {
        let rows = read(blocks, Language::En).into_iter();
        rows.filter(|row| row.contains("tokens")).collect()
    };
    let again = [task("a", Some(700)), task("b", Some(53))];
    let first = [said("m1", "user", "go"), plan(&[task("a", None)])];
    let (mut state, _) = play(&first);
    let mut next =
        |event: SessionEvent| state.apply(&event, &crate::ui::diff::Before::Missing.into());
    assert_eq!(
        spent(&next(completed(753))),
        ["  753 tokens · price unknown"]
    );
    next(plan(&again));
    assert_eq!(spent(&next(completed(753))), [""; 0]);
    next(plan(&again));
    assert_eq!(
        spent(&next(completed(853))),
        ["  100 tokens · price unknown"]
    );
}

#[test]
fn what_was_thought_stands_above_the_answer() {
    let thought = json!({ "content": "Let me see.", "agent": "agent_coder", "message_id": "m2",
        "attempt": 0, "offset": 0 });
    let (_, blocks) = play(&[
        said("m1", "user", "go"),
        event("reasoning_delta", thought),
        delta("One.\n\nTwo.\n\nTh", 0, 0),
        said("m2", "assistant", "One.\n\nTwo.\n\nThree."),
    ]);
    let rows = read(&blocks, Language::En);
    let thought = rows.iter().position(|row| row.contains("thought for"));
    let first = rows.iter().position(|row| row.contains("One."));
    assert!(thought.is_some() && thought < first, "{rows:?}");
    assert_eq!(rows.join("\n").matches("thought for").count(), 1);
}

#[test]
fn a_cut_is_behind_a_word_and_marked() {
    assert_eq!(beginning("short", 10), "short");
    assert_eq!(beginning("resulted in 2026 words", 14), "resulted in…");
    assert_eq!(beginning("unbroken", 4), "unbr…");
}
