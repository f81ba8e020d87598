//! What a person is asked to approve, as it would be run.

use codelab_policy::visible;
use codelab_protocol::{Tool, ToolArguments, WriteFile};
use serde_json::{Map, Value};

use super::{AGENT, BAD, call::task_mark};
use crate::chat::block::{ApprovalKind, ApprovalShown};
use crate::chat::diff::Diff;
use crate::chat::plan::{dollars, short};
use crate::chat::text::{BOLD, Colour, DIM, Line, Style, wrap};

/// More is cut from the scrollback until the person asks for all of it.
const MAX_SHOWN_LINES: usize = 80;

pub fn lines(shown: &ApprovalShown, width: usize) -> Vec<Line> {
    let mut lines = vec![head(shown)];
    let body = body(&shown.kind, width);
    let more = body.len().saturating_sub(MAX_SHOWN_LINES);
    lines.extend(body.into_iter().take(MAX_SHOWN_LINES));
    if more > 0 {
        lines.push(Line::styled(
            &format!("  … {more} more lines; v shows all"),
            BOLD,
        ));
    }
    if !shown.reason.is_empty() {
        lines.push(Line::styled(&format!("  {}", shown.reason), DIM));
    }
    if shown.is_forged {
        let warning = "This is not what the server's digest was made of. It can only be rejected.";
        lines.extend(wrap(
            &Line::styled(warning, BAD.bold()),
            width,
            &Line::plain("  "),
            &Line::plain("  "),
        ));
    }
    lines
}

/// Without any cut.
pub fn everything(kind: &ApprovalKind, width: usize) -> Vec<Line> {
    body(kind, width)
}

fn head(shown: &ApprovalShown) -> Line {
    let mut line = Line::styled("? ", AGENT);
    line.extend(task_mark(shown.task.as_ref()));
    let who = shown.agent.as_ref().map(short);
    line = match who {
        Some(agent) => line.with(agent, AGENT).with(" asks ", BOLD),
        None => line.with("This machine asks before it lets an agent ", BOLD),
    };
    let path = |arguments: &Map<String, Value>| visible(text(arguments, "path"));
    let to = if who.is_some() { "to " } else { "" };
    match &shown.kind {
        ApprovalKind::Write { arguments, before } => {
            let diff = write_of(arguments)
                .map(|write| Diff::of(&write, before))
                .unwrap_or_default();
            let line = line.with(&format!("{to}write {}", path(arguments)), BOLD);
            line.with(&format!("  +{}", diff.added), Style::colour(Colour::Green))
                .with(&format!(" −{}", diff.removed), Style::colour(Colour::Red))
        }
        ApprovalKind::Command { .. } => line.with(&format!("{to}run"), BOLD),
        ApprovalKind::Budget(_) => Line::styled("? ", AGENT).with("The budget is used up", BOLD),
        ApprovalKind::Tool { name, .. } => line.with(&format!("{to}use {name}"), BOLD),
    }
}

fn body(kind: &ApprovalKind, width: usize) -> Vec<Line> {
    match kind {
        ApprovalKind::Write { arguments, before } => match write_of(arguments) {
            Some(write) => Diff::of(&write, before)
                .lines
                .into_iter()
                .map(indented)
                .collect(),
            None => json(arguments),
        },
        ApprovalKind::Command {
            command,
            cwd,
            parts,
        } => {
            let mut lines: Vec<Line> = visible(command)
                .split('\n')
                .map(|row| Line::styled(&format!("    {row}"), BOLD))
                .collect();
            if let Some(cwd) = cwd {
                lines.push(Line::styled(&format!("  in {}", visible(cwd)), DIM));
            }
            for part in parts.iter().filter(|part| part.reason.is_some()) {
                let reason = part.reason.as_deref().unwrap_or_default();
                let row = Line::styled(
                    &part.text.lines().collect::<Vec<_>>().join(" ⏎ "),
                    Style::PLAIN,
                )
                .with(&format!("  {reason}"), DIM);
                lines.extend(wrap(
                    &row,
                    width,
                    &Line::styled("  · ", DIM),
                    &Line::plain("    "),
                ));
            }
            lines
        }
        ApprovalKind::Budget(arguments) => budget(arguments),
        ApprovalKind::Tool { arguments, .. } => json(arguments),
    }
}

fn budget(arguments: &Map<String, Value>) -> Vec<Line> {
    let amount = |of: &str, unit: &str| arguments.get(of).and_then(|amounts| amounts.get(unit));
    let usd = |of: &str| amount(of, "usd").and_then(Value::as_f64).map(dollars);
    let tokens = |of: &str| {
        amount(of, "tokens")
            .and_then(Value::as_u64)
            .map(super::grouped)
    };
    let scope = text(arguments, "scope");
    let mut lines = Vec::new();
    if let (Some(limit), Some(spent)) = (usd("limit"), usd("spent")) {
        lines.push(Line::plain(&format!(
            "  {spent} of {limit} spent for this {scope}"
        )));
    }
    if let (Some(limit), Some(spent)) = (tokens("limit"), tokens("spent")) {
        lines.push(Line::plain(&format!(
            "  {spent} of {limit} tokens spent for this {scope}"
        )));
    }
    lines.push(Line::styled(
        "  y allows as much again, e sets another limit, n ends the turn",
        DIM,
    ));
    lines
}

fn json(arguments: &Map<String, Value>) -> Vec<Line> {
    let text = serde_json::to_string_pretty(arguments).unwrap_or_default();
    text.lines()
        .map(|row| Line::plain(&format!("    {row}")))
        .collect()
}

fn write_of(arguments: &Map<String, Value>) -> Option<WriteFile> {
    match Tool::WriteFile.check(arguments) {
        Ok(ToolArguments::WriteFile(write)) => Some(write),
        _ => None,
    }
}

fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> &'a str {
    arguments
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn indented(line: Line) -> Line {
    let mut out = Line::plain("  ");
    out.extend(line);
    out
}
