//! A tool call in a row or a few: what it was, what came of it.

use codelab_protocol::{CallOutcome, McpCall, TaskId, Tool, ToolCall};
use serde_json::Value;

use crate::{CallText, Language, Text};

use super::{BAD, GOOD};
use crate::ui::block::{CallEnd, End};
use crate::ui::text::{BOLD, DIM, Style, TextLine};

/// The end of a command's output that is shown; the model sees the rest.
const MAX_OUTPUT_LINES: usize = 8;
const MAX_TITLE_CHARS: usize = 400;

pub fn lines(end: &CallEnd, width: usize, language: Language) -> Vec<TextLine> {
    let (is_good, note) = match &end.end {
        End::Result { value, is_late } => {
            let late = match is_late {
                true => format!(" · {}", language.text(CallText::LateResult)),
                false => String::new(),
            };
            (
                succeeded(value),
                format!("{}{late}", summary(&end.call, value, language)),
            )
        }
        End::Closed(outcome) => (false, outcome_text(*outcome, language).to_owned()),
    };
    let (sign, style) = if is_good { ("✓", GOOD) } else { ("✗", BAD) };
    let mut head = TextLine::styled("  ", DIM)
        .with(sign, style)
        .with(" ", Style::PLAIN);
    head.extend(task_mark(end.task.as_ref()));
    head.extend(title(&end.call, end.mcp.as_deref(), language));
    let room = width.saturating_sub(note.chars().count() + 3).max(20);
    let mut lines = vec![head.clipped(room).with(&format!(" · {note}"), DIM)];
    if let End::Result { value, .. } = &end.end {
        lines.extend(output(value, language));
    }
    lines
}

pub fn task_mark(task: Option<&TaskId>) -> TextLine {
    task.map(|task| TextLine::styled(&format!("[{task}] "), DIM))
        .unwrap_or_default()
}

/// The call as a person would say it.
pub fn title(call: &ToolCall, mcp: Option<&McpCall>, language: Language) -> TextLine {
    if let Some(mcp) = mcp {
        return named(mcp, call);
    }
    let text = |name: &str| {
        call.arguments
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let shown = |name: &str| {
        let text: String = text(name).chars().take(MAX_TITLE_CHARS).collect();
        text.lines().collect::<Vec<_>>().join(" ⏎ ")
    };
    let verb = |verb: CallText, what: &str| {
        TextLine::styled(language.text(verb), Style::PLAIN)
            .with(" ", Style::PLAIN)
            .with(what, BOLD)
    };
    match Tool::parse(&call.name) {
        Some(Tool::ReadFile) => {
            let line = |name: &str| {
                call.arguments
                    .get(name)
                    .and_then(Value::as_u64)
                    .map(|n| n.to_string())
            };
            let range = match (line("start_line"), line("end_line")) {
                (None, None) => String::new(),
                (start, end) => format!(
                    " {}–{}",
                    start.unwrap_or("1".into()),
                    end.unwrap_or("end".into())
                ),
            };
            verb(CallText::VerbRead, &shown("path")).with(&range, DIM)
        }
        Some(Tool::WriteFile) => verb(CallText::VerbWrite, &shown("path")),
        Some(Tool::ListFiles) => verb(CallText::VerbList, &shown("path")),
        Some(Tool::SearchInCode) => verb(CallText::VerbSearch, &shown("query")),
        Some(Tool::CreateDirectory) => verb(CallText::VerbMakeFolder, &shown("path")),
        Some(Tool::ExecuteCommand) => TextLine::plain("$ ").with(&shown("command"), BOLD),
        _ => TextLine::styled(&call.name, BOLD),
    }
}

/// The server, its tool and the arguments.
fn named(mcp: &McpCall, call: &ToolCall) -> TextLine {
    let arguments = match call.arguments.is_empty() {
        true => String::new(),
        false => Value::Object(call.arguments.clone()).to_string(),
    };
    let arguments: String = arguments.chars().take(MAX_TITLE_CHARS).collect();
    TextLine::plain(&format!("{}: ", mcp.id.server))
        .with(&mcp.id.tool, BOLD)
        .with(&format!(" {arguments}"), DIM)
}

fn succeeded(result: &Value) -> bool {
    result
        .get("success")
        .and_then(Value::as_bool)
        .unwrap_or_else(|| result.get("error").is_none())
}

fn summary(call: &ToolCall, result: &Value, language: Language) -> String {
    let count = |name: &str| {
        result
            .get(name)
            .and_then(Value::as_array)
            .map_or(0, Vec::len)
    };
    let plural = |count: usize, one: CallText, many: CallText| match count {
        1 => language.text(one).to_owned(),
        _ => language.with(many, &[&language.grouped(count as u64)]),
    };
    let cut = match result.get("truncated").and_then(Value::as_bool) {
        Some(true) => language.text(CallText::ResultCut),
        Some(false) | None => "",
    };
    let exit = result.get("exit_code").and_then(Value::as_i64);
    if let (false, None, Some(error)) = (
        succeeded(result),
        exit,
        result.get("error").and_then(Value::as_str),
    ) {
        return error.to_owned();
    }
    let told = match Tool::parse(&call.name) {
        Some(Tool::ReadFile) => {
            let lines = result
                .get("content")
                .and_then(Value::as_str)
                .map_or(0, |text| text.lines().count());
            plural(lines, CallText::OneLine, CallText::ManyLines)
        }
        Some(Tool::WriteFile) => {
            let size = result
                .get("size")
                .and_then(Value::as_u64)
                .unwrap_or_default();
            language.with(CallText::Bytes, &[&language.grouped(size)])
        }
        Some(Tool::ListFiles) => plural(count("files"), CallText::OneEntry, CallText::ManyEntries),
        Some(Tool::SearchInCode) => {
            plural(count("matches"), CallText::OneMatch, CallText::ManyMatches)
        }
        Some(Tool::ExecuteCommand) => match (exit, result.get("error").and_then(Value::as_str)) {
            (Some(code), None) => format!("exit {code}"),
            (Some(code), Some(error)) => format!("exit {code}: {error}"),
            (None, error) => error.unwrap_or("ended").to_owned(),
        },
        _ => language.text(Text::Completed).to_owned(),
    };
    format!("{told}{cut}")
}

fn output(result: &Value, language: Language) -> Vec<TextLine> {
    let text = |name: &str| result.get(name).and_then(Value::as_str).unwrap_or_default();
    let rows: Vec<&str> = text("stdout")
        .lines()
        .chain(text("stderr").lines())
        .collect();
    let skipped = rows.len().saturating_sub(MAX_OUTPUT_LINES);
    let mut lines = Vec::new();
    if skipped > 0 {
        lines.push(TextLine::styled(
            &format!(
                "    {}",
                language.with(Text::EarlierLines, &[&skipped.to_string()])
            ),
            DIM,
        ));
    }
    lines.extend(
        rows[skipped..]
            .iter()
            .map(|row| TextLine::styled(&format!("    {row}"), DIM)),
    );
    lines
}

fn outcome_text(outcome: CallOutcome, language: Language) -> &'static str {
    match outcome {
        CallOutcome::Completed => language.text(Text::Completed),
        CallOutcome::Rejected => language.text(Text::Rejected),
        CallOutcome::Cancelled => language.text(Text::Cancelled),
        CallOutcome::Expired => language.text(CallText::OutcomeExpired),
        CallOutcome::Unknown => language.text(CallText::OutcomeUnknown),
    }
}
