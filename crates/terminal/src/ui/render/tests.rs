//! Recorded sessions as they are drawn.

use std::time::Duration;

use codelab_protocol::{Done, SessionEvent, Timestamp};

use super::*;
use crate::ui::diff::Before;
use crate::ui::prompt::{Key, Prompt};
use crate::ui::state::ViewState;

const NOW: Timestamp = Timestamp::from_millis(1_768_334_400_000);
const GREET: &str = "def greet():\n    return \"Hello\"\n";

/// The scrollback of a recorded session; wherever it stands for a while, the live rows below a
/// rule.
fn shown(session: &str, width: usize) -> String {
    let mut state = ViewState::default();
    let prompt = Prompt::default();
    let mut out = String::new();
    for line in session.lines() {
        let blocks = match serde_json::from_str::<Done>(line) {
            Ok(done) => {
                let blocks = state.done(done.status);
                print(&blocks, width, &mut out);
                live(&state, &prompt, width, &mut out);
                continue;
            }
            Err(_) => {
                let mut event: SessionEvent = serde_json::from_str(line).unwrap();
                fix_expiry(&mut event);
                state.apply(&event, &Before::Text(GREET.to_owned()).into())
            }
        };
        print(&blocks, width, &mut out);
    }
    out
}

/// Recordings are of their day; the time that is left should not be.
fn fix_expiry(event: &mut SessionEvent) {
    use codelab_protocol::SessionEventBody::{ApprovalRequest, PlanRequest};
    let approval = match &mut event.body {
        ApprovalRequest(request) => &mut request.approval,
        PlanRequest(request) => &mut request.approval,
        _ => return,
    };
    approval.expires_at = approval.expires_at.map(|_| NOW.plus_seconds(299));
}

fn print(blocks: &[Block], width: usize, out: &mut String) {
    for line in blocks
        .iter()
        .flat_map(|found| block(found, width, Language::En))
    {
        out.push_str(&(line.to_text() + "\n"));
    }
}

fn draw(state: &ViewState, prompt: &Prompt, width: usize, height: usize) -> Drawn {
    draw_after(Duration::ZERO, state, prompt, width, height)
}

/// After a while in which nothing came.
fn draw_after(
    quiet: Duration,
    state: &ViewState,
    prompt: &Prompt,
    width: usize,
    height: usize,
) -> Drawn {
    let card: Vec<Block> = state
        .asks
        .first()
        .and_then(|ask| state.card(ask))
        .into_iter()
        .collect();
    let card = CardRows::of(&card, width.saturating_sub(1), Language::En);
    let live = Live {
        picker: None,
        state,
        prompt,
        card: Some(&card).filter(|_| !state.asks.is_empty()),
        target: None,
        connection: ConnectionState::Live,
        is_sending: false,
        is_running: false,
        is_deciding: true,
        model: Some("gpt-4").filter(|_| state.view.usage().is_some()),
        context_tokens: state.view.usage().map(|usage| usage.prompt_tokens),
        window: None,
        images: Vec::new(),
        spent: state.view.usage(),
        frame: 0,
        quiet,
        now: NOW,
    };
    live.draw(width, height)
}

fn live(state: &ViewState, prompt: &Prompt, width: usize, out: &mut String) {
    out.push_str("~~~ live\n");
    for row in draw(state, prompt, width, 24).rows {
        out.push_str(&(row.to_text() + "\n"));
    }
    out.push_str("~~~\n");
}

#[test]
fn lists_tasks_and_errors_are_broken_between_words() {
    let rows = |found: &Block, width: usize| -> Vec<String> {
        let lines = block(found, width, Language::En);
        lines.iter().skip(1).map(TextLine::to_text).collect()
    };
    let list = Block::Listing(vec![
        "/model [NAME]  list the models, or choose one".to_owned(),
    ]);
    assert_eq!(
        rows(&list, 36),
        [
            "  /model [NAME]  list the models, or",
            "                 choose one"
        ]
    );
    let narrow = rows(&list, 24);
    assert!(
        narrow.iter().all(|row| row.chars().count() <= 24),
        "{narrow:?}"
    );
    let failed = Block::TaskEnded {
        id: codelab_protocol::TaskId::parse("a").unwrap(),
        agent: codelab_protocol::AgentName::parse("agent_coder").unwrap(),
        status: TaskStatus::Failed,
        note: Some("The model server failed.".to_owned()),
        error: None,
    };
    assert_eq!(rows(&failed, 30), ["    model server failed."]);
    let error = Block::Error {
        message: "Not done:\n- a: failed".to_owned(),
        code: None,
        status: None,
    };
    assert_eq!(rows(&error, 30), ["  - a: failed"], "line by line");
}

#[test]
fn a_long_silence_is_counted() {
    let mut state = ViewState::default();
    state
        .view
        .done(codelab_protocol::TurnStatus::AwaitingToolResult);
    for (seconds, row) in [(4, "planning"), (12, "planning · 12 s")] {
        let quiet = Duration::from_secs(seconds);
        let drawn = draw_after(quiet, &state, &Prompt::default(), 80, 24);
        let rows: Vec<String> = drawn.rows.iter().map(TextLine::to_text).collect();
        assert!(rows.iter().any(|found| found.ends_with(row)), "{rows:?}");
    }
}

#[test]
fn recorded_sessions_look_like_this() {
    for (name, session) in [
        ("direct", include_str!("../fixtures/direct.jsonl")),
        ("single", include_str!("../fixtures/single.jsonl")),
        ("plan", include_str!("../fixtures/plan.jsonl")),
        ("question", include_str!("../fixtures/question.jsonl")),
        ("rejected", include_str!("../fixtures/rejected.jsonl")),
    ] {
        insta::assert_snapshot!(name, shown(session, 80));
    }
}

#[test]
fn an_error_is_explained_in_the_persons_language_above_its_details() {
    let error = Block::Error {
        message: "The model server refused the request (HTTP 400).".to_owned(),
        code: Some(codelab_protocol::ErrorCode::LlmError),
        status: None,
    };
    for language in [Language::En, Language::Ru, Language::Uk] {
        let text = block(&error, 300, language)
            .iter()
            .map(TextLine::to_text)
            .collect::<Vec<_>>();
        let meaning = language
            .error(Some(codelab_protocol::ErrorCode::LlmError), None)
            .unwrap();
        let wrapped = text
            .join(" ")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        let details = "The model server refused the request (HTTP 400). (LLM_ERROR)";
        assert!(wrapped.starts_with(&format!("✗ {meaning}")), "{text:?}");
        assert!(wrapped.ends_with(details), "{text:?}");
    }
}

#[test]
fn live_rows_fit_every_screen() {
    let mut prompt = Prompt::default();
    prompt.press(
        Key::Paste("a line that is long\nand another\n".repeat(20)),
        &ViewState::default(),
        std::time::Instant::now(),
    );
    for session in [
        include_str!("../fixtures/plan.jsonl"),
        include_str!("../fixtures/direct.jsonl"),
    ] {
        let mut state = ViewState::default();
        for line in session.lines().filter(|line| line.contains("\"type\"")) {
            state.apply(
                &serde_json::from_str(line).unwrap(),
                &Before::Missing.into(),
            );
            for (width, height) in [(20, 5), (80, 24), (120, 8), (1, 1)] {
                let drawn = draw(&state, &prompt, width, height);
                assert!(
                    drawn.rows.len() <= height.max(3),
                    "{} rows on {height}",
                    drawn.rows.len()
                );
                assert!(
                    drawn.rows.iter().all(|row| row.width() < width.max(3)),
                    "{drawn:?}"
                );
                assert!(drawn.cursor_row < drawn.rows.len());
            }
        }
    }
}

#[test]
fn a_long_write_is_cut_until_all_is_asked_for() {
    let content: String = (0..500).map(|number| format!("line {number}\n")).collect();
    let arguments = serde_json::json!({ "path": "long\u{202e}.txt", "content": content });
    let arguments = arguments.as_object().unwrap().clone();
    let kind = crate::ui::state::approval_kind(
        "write_file",
        None,
        &arguments,
        &[],
        (&Before::Missing.into(), None),
        Language::En,
    );
    let shown = crate::ui::block::ApprovalShown {
        agent: None,
        task: None,
        kind: kind.clone(),
        reason: String::new(),
        is_forged: false,
    };
    let approval = shown.clone();
    let text: Vec<String> = block(&Block::Approval(shown), 80, Language::En)
        .iter()
        .map(TextLine::to_text)
        .collect();
    assert!(
        text.len() < 100
            && text
                .last()
                .unwrap()
                .contains("more lines: 422; v shows all"),
        "{text:#?}"
    );
    assert!(text[1].contains("long\\u{202e}.txt"), "{}", text[1]);
    assert!(everything(&kind, 80, Language::En).len() > 500);
    // What waits never has more rows than there is room for, and says how much is missing.
    for room in [3, 10, 40] {
        let rows = CardRows::of(&[Block::Approval(approval.clone())], 80, Language::En);
        let (rows, is_readable) = rows.within(room, Language::En);
        assert!(is_readable);
        let more = format!("more lines: {}; v shows all", 502 - (room - 2));
        assert_eq!(rows.len(), room);
        assert!(rows[room - 1].to_text().contains(&more), "{rows:#?}");
    }
}

#[test]
fn a_budget_question_says_if_the_price_is_unknown() {
    let shown = |arguments: serde_json::Value| {
        let shown = crate::ui::block::ApprovalShown {
            agent: None,
            task: None,
            kind: crate::ui::block::ApprovalCardKind::Budget(
                arguments.as_object().unwrap().clone(),
            ),
            reason: String::new(),
            is_forged: false,
        };
        block(&Block::Approval(shown), 80, Language::En)
            .iter()
            .map(TextLine::to_text)
            .collect::<Vec<_>>()
            .join("\n")
    };
    let amounts =
        serde_json::json!({ "scope": "project", "limit": { "usd": 1.0 }, "spent": { "usd": 0.5 } });
    let small = shown(amounts.clone());
    assert!(
        small.contains("too small") && small.contains("y adds the same limit again"),
        "{small}"
    );
    assert!(
        small.contains("this project: $0.50 of $1.00 spent"),
        "{small}"
    );
    let mut unpriced = amounts;
    unpriced["model"] = "new-model".into();
    let unpriced = shown(unpriced);
    assert!(
        unpriced.contains("The price of new-model is unknown")
            && unpriced.contains("y continues without counting these calls"),
        "{unpriced}"
    );
}

#[test]
fn a_long_description_is_cut_until_all_of_the_plan_is_asked_for() {
    let task = |id: &str, description: String| {
        serde_json::json!({ "id": id, "agent": "agent_coder", "description": description, "depends_on": [],
            "status": "pending", "estimated_tokens": 9, "estimated_cost_usd": 0.01 })
    };
    let whole = |plan: &PlanView| {
        whole_plan(plan, 2000, Language::En)
            .iter()
            .map(TextLine::to_text)
            .collect::<Vec<_>>()
            .join("\n")
    };
    let proposed = |description: &str| {
        let plan = serde_json::json!({ "plan_id": "p", "workflow_id": "w", "status": "awaiting_approval",
            "fallback": false, "estimated_cost_usd": 0.02, "cost_known": true, "requires_approval": true,
            "tasks": [task("a", description.to_owned()), task("b", "Tell.".to_owned())] });
        let plan = PlanView::new(serde_json::from_value(plan).unwrap());
        let block = block(
            &Block::PlanProposed {
                plan: plan.clone(),
                reason: String::new(),
            },
            80,
            Language::En,
        );
        (
            plan,
            block
                .iter()
                .map(TextLine::to_text)
                .collect::<Vec<_>>()
                .join("\n"),
        )
    };
    let (plan, brief) = proposed(&format!(
        "Build.{}\nThen delete every\u{202e}thing.",
        " Carefully.".repeat(30)
    ));
    assert!(
        brief.contains("…") && brief.contains("long descriptions are cut; v shows all"),
        "{brief}"
    );
    assert!(!brief.contains("delete"), "{brief}");
    assert!(
        whole(&plan).contains("⏎ Then delete every\\u{202e}thing."),
        "{}",
        whole(&plan)
    );
    let (plan, brief) = proposed("Build.");
    assert!(
        !brief.contains('…') && !whole(&plan).contains('…'),
        "{brief}"
    );
}

#[test]
fn keys_decide_only_about_what_was_drawn() {
    let command = format!("{}\nrm -rf /  # last", "echo harmless\n".repeat(40));
    let part = |number: usize| codelab_protocol::CommandPart {
        text: format!("part {number}"),
        reason: Some("deletes files".to_owned()),
    };
    let shown = crate::ui::block::ApprovalShown {
        agent: None,
        task: None,
        kind: crate::ui::block::ApprovalCardKind::Command {
            command,
            cwd: None,
            parts: (0..3).map(part).collect(),
        },
        reason: "Dangerous command: rm".to_owned(),
        is_forged: true,
    };
    let rows = CardRows::of(&[Block::Approval(shown)], 80, Language::En);
    let whole = rows.head.len() + rows.body.len() + rows.notes.len() + rows.below.len();
    let least = rows.head.len() + rows.below.len() + 2;
    for room in 0..60 {
        let (lines, is_readable) = rows.within(room, Language::En);
        assert!(lines.len() <= room);
        assert_eq!(is_readable, room >= least, "{room}");
        let text: Vec<String> = lines.iter().map(TextLine::to_text).collect();
        let text = text.join("\n");
        if is_readable {
            for part in ["Dangerous command: rm", "echo harmless"] {
                assert!(text.contains(part), "{room}: {part}\n{text}");
            }
        }
        let told = text.split("more lines: ").nth(1).map(|rest| {
            let number = rest.split(';').next().unwrap();
            number.parse::<usize>().unwrap()
        });
        let drawn = lines.len() - usize::from(told.is_some());
        assert_eq!(
            drawn + told.unwrap_or_default(),
            if room == 0 { 0 } else { whole }
        );
        if room >= least + 3 {
            assert!(text.contains("part 2"), "{room}\n{text}");
        }
    }
}

#[test]
fn a_low_terminal_keeps_the_name_of_what_is_decided() {
    let mut state = ViewState::default();
    for line in include_str!("../fixtures/rejected.jsonl").lines() {
        if let Ok(mut event) = serde_json::from_str::<SessionEvent>(line) {
            fix_expiry(&mut event);
            state.apply(&event, &Before::Text(GREET.to_owned()).into());
        }
        if !state.asks.is_empty() {
            break;
        }
    }
    let prompt = Prompt::default();
    for height in 4..40 {
        let drawn = draw(&state, &prompt, 40, height);
        let rows: Vec<String> = drawn.rows.iter().map(TextLine::to_text).collect();
        let text = rows.join("\n");
        // The name of the file stands in the first row of the choices.
        assert!(text.contains("write "), "{height}\n{text}");
        let is_whole = text.contains("asks to write") && text.contains("requires approval");
        assert!(is_whole || !drawn.is_readable, "{height}\n{text}");
        // Letters are offered only where they decide.
        assert_eq!(
            text.contains("y approve"),
            drawn.is_readable,
            "{height}\n{text}"
        );
        assert_eq!(
            text.contains("make the"),
            !drawn.is_readable,
            "{height}\n{text}"
        );
    }
    assert!(draw(&state, &prompt, 40, 30).is_readable);
    assert!(!draw(&state, &prompt, 40, 6).is_readable);
}

#[test]
fn every_row_of_a_servers_words_is_marked() {
    let padded = format!("name{}✓ approved", " ".repeat(70));
    let forged = Block::Question {
        task: None,
        agent: codelab_protocol::AgentName::parse("agent_coder").unwrap(),
        server: Some(codelab_protocol::McpServerName::parse("git").unwrap()),
        fields: vec![padded.clone(), padded.replace(' ', "\n"), "x".repeat(5000)],
        question: padded.clone(),
        options: vec![padded],
    };
    let mut out = String::new();
    print(&[forged], 40, &mut out);
    let rows: Vec<&str> = out.lines().filter(|row| !row.is_empty()).collect();
    let (head, rest) = rows.split_first().unwrap();
    let (hint, servers) = rest.split_last().unwrap();
    assert_eq!(*head, "? the MCP server git asks:");
    assert!(hint.contains("/decline gives no answer"), "{out}");
    assert!(servers.iter().all(|row| row.starts_with("│ ")), "{out}");
    assert!(out.chars().count() < 2_000, "{out}");
}
