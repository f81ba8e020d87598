//! A session in words, for the message of a failure: what was sent and acknowledged, and what is
//! found.

use std::fmt::Write as _;

use codelab_protocol::Chunk;

use crate::workload::found::Found;
use crate::workload::visit::Watched;

/// Longer texts are cut.
const MAX_LINE_CHARS: usize = 3_000;

pub fn session(watched: &Watched, now: Option<&Found>) -> String {
    let ledger = watched.ledger();
    let mut text = format!("--- {}: sent ---\n", watched.id);
    for sent in &ledger.messages {
        line(
            &mut text,
            format_args!(
                "{} {:?} {:?}",
                sent.plan.label, sent.plan.steps, sent.attempts
            ),
        );
    }
    for cancel in &ledger.cancels {
        line(&mut text, format_args!("{cancel:?}"));
    }
    for switch in &ledger.switches {
        line(&mut text, format_args!("{switch:?}"));
    }
    for (id, call) in &ledger.calls {
        line(
            &mut text,
            format_args!(
                "{id} {}: {:?} {:?}",
                call.tool, call.decisions, call.results
            ),
        );
    }
    text.push_str("--- seen ---\n");
    ledger
        .events
        .iter()
        .for_each(|(id, chunk)| event(&mut text, *id, chunk));
    if let Some(now) = now {
        text.push_str(&found(now));
    }
    text
}

pub fn found(found: &Found) -> String {
    let mut text = "--- found: events ---\n".to_owned();
    found
        .events
        .iter()
        .for_each(|(id, chunk)| event(&mut text, *id, chunk));
    text.push_str("--- found: history ---\n");
    for message in &found.history {
        let calls: Vec<&str> = message
            .tool_calls
            .iter()
            .map(|call| call.call_id.as_str())
            .collect();
        let (role, id) = (
            message.role.as_str(),
            message.tool_call_id.as_ref().map(|id| id.as_str()),
        );
        line(
            &mut text,
            format_args!("{role} {:?} {calls:?} {id:?}", message.content),
        );
    }
    text.push_str("--- found: audit ---\n");
    for row in &found.audit.audit {
        line(
            &mut text,
            format_args!(
                "{} {} by {}",
                row.call_id,
                row.decision.as_str(),
                row.decided_by
            ),
        );
    }
    text
}

fn event(text: &mut String, id: u64, chunk: &Chunk) {
    line(text, format_args!("{id} {}", serde_json::json!(chunk.body)));
}

fn line(text: &mut String, what: std::fmt::Arguments<'_>) {
    let mut line = String::new();
    let _cannot_fail = write!(line, "{what}");
    text.extend(line.chars().take(MAX_LINE_CHARS));
    text.push('\n');
}
