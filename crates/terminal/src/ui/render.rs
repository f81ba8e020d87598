//! Blocks as styled lines, for the scrollback. Widths in, lines out; no terminal.

mod approval;
mod call;
mod card;
mod live;

use codelab_client::PlanView;
use codelab_policy::visible;
use codelab_protocol::{ApprovalOutcome, ErrorCode, PlanStatus, TaskId, TaskStatus, Usage};

use crate::texts::{CallText, CommandText};
use crate::{Language, McpText, Text};

use super::block::Block;
use super::diff::patch_style;
use super::markdown::{self, MarkdownPiece};
use super::plan::{Drawing, PlanDrawing, dollars, short, sign};
use super::state::Grant;
use super::text::{BOLD, Colour, DIM, Style, TextLine, folded, wrap};

use approval::GOES_ON;
pub use approval::{everything, name};
pub use card::CardRows;
pub use live::{ConnectionState, Drawn, Live, time_left};

/// A queued message in a row of its own.
/// The names of the fields that a server asks for.
const MAX_FIELDS_CHARS: usize = 400;
const MAX_QUEUED_CHARS: usize = 100;
const AGENT: Style = Style::colour(Colour::Magenta).bold();
const GOOD: Style = Style::colour(Colour::Green);
const BAD: Style = Style::colour(Colour::Red);
/// Longer lines of text are hard to read, however wide the screen is.
const MAX_TEXT_COLUMNS: usize = 100;
/// Below the sign of a decision or of a task.
const DECISION_INDENT: usize = 4;
/// Of a message of the person's.
const MAX_SAID_ROWS: usize = 40;

/// The lines of a block, with the blank line that sets it apart from what came before.
pub fn block(block: &Block, width: usize, language: Language) -> Vec<TextLine> {
    let text_width = width.min(MAX_TEXT_COLUMNS);
    match block {
        Block::User(text) => apart(said(text, "› ", text_width, language)),
        Block::Answered(text) => said(text, "› ", text_width, language),
        Block::Answer { agent, piece } => answer(agent.as_ref().map(short), piece, text_width),
        Block::AnswerRestarted => vec![quiet(language.text(Text::AnswerRestarted))],
        Block::AnswerCut => vec![quiet(language.text(Text::AnswerCut))],
        Block::Call(end) => call::lines(end, width, language),
        Block::Approval(shown) => apart(approval::lines(shown, text_width, language)),
        Block::PlanProposed { plan, reason } => {
            let drawing = Drawing::Brief { frame: 0 };
            let mut lines = apart(plan_rows(plan, drawing, width, language));
            lines.extend(plan_notes(plan, reason, language));
            lines
        }
        Block::Plan(plan) => apart(plan_lines(
            plan,
            Drawing::Brief { frame: 0 },
            width,
            language,
        )),
        Block::Routed { agent, is_fallback } => {
            let why = if *is_fallback {
                format!(" {}", language.text(Text::ChosenByKeywords))
            } else {
                String::new()
            };
            vec![
                TextLine::styled("  → ", DIM)
                    .with(short(agent), AGENT)
                    .with(&why, DIM),
            ]
        }
        Block::TaskEnded {
            id,
            agent,
            status,
            note,
            error,
        } => {
            let (sign, style) = sign(*status, 0);
            let what = match status {
                TaskStatus::Failed => Text::TaskFailed,
                TaskStatus::Skipped => Text::TaskSkipped,
                TaskStatus::Cancelled => Text::Cancelled,
                TaskStatus::Completed
                | TaskStatus::Pending
                | TaskStatus::Queued
                | TaskStatus::Running
                | TaskStatus::Waiting => Text::Completed,
            };
            let line = TextLine::styled("  ", DIM)
                .with(sign, style)
                .with(&format!(" {id}"), BOLD)
                .with(&format!(" {}", language.text(what)), Style::PLAIN);
            let note = note
                .as_deref()
                .map(|note| format!(" · {note}"))
                .unwrap_or_default();
            let line = line.with(&format!("  {}{note}", short(agent)), DIM);
            let mut lines = fitting_below(&line, text_width, DECISION_INDENT);
            if let Some(error) = error {
                let indent = TextLine::plain(&" ".repeat(DECISION_INDENT));
                let meaning = language.turn_error(error);
                let marks = (&indent, &indent);
                let code = Some(error.error_code);
                lines.extend(explained(&error.message, code, meaning, text_width, marks));
            }
            lines
        }
        Block::PlanEnded { status, can_retry } => plan_ended(*status, *can_retry, language),
        Block::Decided {
            decision,
            granted,
            by,
            reason,
        } => {
            let line = decided(*decision, *granted, by, reason.as_deref(), language);
            fitting_below(&line, text_width, DECISION_INDENT)
        }
        Block::Question {
            agent,
            task,
            server,
            fields,
            question,
            options,
        } => {
            let mut head = TextLine::styled("? ", AGENT);
            head.extend(call::task_mark(task.as_ref()));
            let head = match server {
                Some(server) => head.with(&language.with(McpText::Asks, &[server.as_str()]), BOLD),
                None => head
                    .with(short(agent), AGENT)
                    .with(&format!(" {}", language.text(Text::Asks)), BOLD),
            };
            let mut lines = vec![head];
            match server {
                Some(_) => lines.extend(of_server(question, fields, options, text_width, language)),
                None => {
                    lines.extend(markdown::lines(question, text_width));
                    lines.extend(numbered(options, &TextLine::plain("  "), text_width));
                }
            }
            apart(lines)
        }
        Block::Switched { from, to, reason } => {
            let line = TextLine::styled("  ", DIM)
                .with(short(from), DIM)
                .with(" → ", DIM)
                .with(short(to), AGENT);
            vec![line.with(&format!("  {reason}"), DIM)]
        }
        Block::Queued {
            position,
            text,
            steers,
        } => {
            let (position, text) = (position.to_string(), in_one_row(text));
            vec![quiet(&match steers {
                true => language.with(CommandText::Steers, &[&text]),
                false => language.with(Text::QueuedAt, &[&position, &text]),
            })]
        }
        Block::Dequeued(text) => {
            vec![quiet(&language.with(Text::TakenBack, &[&in_one_row(text)]))]
        }
        Block::Error {
            message,
            code,
            status,
        } => {
            let marks = (&failed_mark(None), &TextLine::plain("  "));
            let meaning = language.error(*code, *status);
            explained(message, *code, meaning, text_width, marks)
        }
        Block::TurnError { error, task } => {
            let marks = (&failed_mark(task.as_ref()), &TextLine::plain("  "));
            let (code, meaning) = (Some(error.error_code), language.turn_error(error));
            explained(&error.message, code, meaning, text_width, marks)
        }
        Block::Spent(usage) => vec![quiet(&spent(usage, language))],
        Block::Cancelled => {
            let text = language.text(Text::Cancelled);
            vec![TextLine::styled(&format!("⊘ {text}"), BOLD)]
        }
        Block::Notice(text) => wrap(
            &TextLine::styled(text, DIM),
            text_width,
            &TextLine::plain("  "),
            &TextLine::plain("  "),
        ),
        Block::Patch(rows) => apart(
            rows.iter()
                .map(|row| TextLine::plain("  ").with(row, patch_style(row)))
                .flat_map(|row| folded(&row, width, &TextLine::styled(GOES_ON, DIM)))
                .collect(),
        ),
        Block::Listing(rows) => apart(
            rows.iter()
                .flat_map(|row| listed(&format!("  {row}"), width))
                .collect(),
        ),
    }
}

fn failed_mark(task: Option<&TaskId>) -> TextLine {
    let mut mark = TextLine::styled("✗ ", BAD.bold());
    mark.extend(call::task_mark(task));
    mark
}

/// What an error means in the person's language, and below it what the server said. `mark` stands
/// before the first row, `indent` before the others.
fn explained(
    message: &str,
    code: Option<ErrorCode>,
    meaning: Option<String>,
    width: usize,
    (mark, indent): (&TextLine, &TextLine),
) -> Vec<TextLine> {
    let code_name = code
        .map(|code| format!(" ({})", code.as_str()))
        .unwrap_or_default();
    let Some(meaning) = meaning else {
        return paragraphs(message, &code_name, Style::PLAIN, width, (mark, indent));
    };
    let mut lines = wrap(&TextLine::plain(&meaning), width, mark, indent);
    lines.extend(paragraphs(
        message,
        &code_name,
        DIM,
        width,
        (indent, indent),
    ));
    lines
}

/// The lines of a message, each broken where it must. The code stands behind the last one.
fn paragraphs(
    message: &str,
    code: &str,
    style: Style,
    width: usize,
    (first, indent): (&TextLine, &TextLine),
) -> Vec<TextLine> {
    let mut rows: Vec<TextLine> = message
        .lines()
        .map(|row| TextLine::styled(row, style))
        .collect();
    match rows.last_mut() {
        Some(last) => last.extend(TextLine::styled(code, DIM)),
        None => rows.push(TextLine::styled(code, DIM)),
    }
    let rows = rows.iter().enumerate();
    rows.flat_map(|(index, row)| {
        let start = if index == 0 { first } else { indent };
        wrap(row, width, start, indent)
    })
    .collect()
}

fn apart(mut lines: Vec<TextLine>) -> Vec<TextLine> {
    lines.insert(0, TextLine::new());
    lines
}

fn in_one_row(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let row = words.join(" ");
    match row.char_indices().nth(MAX_QUEUED_CHARS) {
        Some((end, _)) => format!("{}…", &row[..end]),
        None => row,
    }
}

fn quiet(text: &str) -> TextLine {
    TextLine::styled(&format!("  {text}"), DIM)
}

fn said(text: &str, mark: &str, width: usize, language: Language) -> Vec<TextLine> {
    let (first, rest) = (TextLine::styled(mark, BOLD), TextLine::plain("  "));
    let rows = text.lines().enumerate().flat_map(|(index, row)| {
        wrap(
            &TextLine::styled(row, BOLD),
            width,
            if index == 0 { &first } else { &rest },
            &rest,
        )
    });
    let mut rows: Vec<TextLine> = rows.collect();
    // Files that go along are as long as they are.
    let hidden = rows.len().saturating_sub(MAX_SAID_ROWS);
    if hidden > 0 {
        rows.truncate(MAX_SAID_ROWS);
        let more = language.with(CommandText::LinesLeftOut, &[&hidden.to_string()]);
        rows.push(quiet(&more));
    }
    rows
}

fn answer(agent: Option<&str>, piece: &MarkdownPiece, width: usize) -> Vec<TextLine> {
    let mut lines = Vec::new();
    let text = markdown::lines(&piece.source, width);
    if text.is_empty() {
        return lines;
    }
    if let Some(agent) = agent {
        lines.extend([TextLine::new(), TextLine::styled(agent, AGENT)]);
    } else if !piece.continues {
        lines.push(TextLine::new());
    }
    lines.extend(text);
    lines
}

/// A plan without any cut.
pub fn whole_plan(plan: &PlanView, width: usize, language: Language) -> Vec<TextLine> {
    apart(plan_lines(plan, Drawing::Whole, width, language))
}

fn plan_lines(
    view: &PlanView,
    drawing: Drawing,
    width: usize,
    language: Language,
) -> Vec<TextLine> {
    let mut lines = plan_rows(view, drawing, width, language);
    lines.extend(by_keywords(view, language));
    lines
}

/// How a plan came to be that no planner made.
fn by_keywords(view: &PlanView, language: Language) -> Option<TextLine> {
    let is_fallback = view.plan.fallback;
    is_fallback.then(|| quiet(language.text(Text::PlanByKeywords)))
}

/// What a person must know about a plan that waits.
fn plan_notes(view: &PlanView, reason: &str, language: Language) -> Vec<TextLine> {
    let mut lines: Vec<TextLine> = by_keywords(view, language).into_iter().collect();
    if (PlanDrawing { view, language }).is_cut() {
        let cut = format!("  {}", language.text(Text::DescriptionsCut));
        lines.push(TextLine::styled(&cut, BOLD));
    }
    lines.push(quiet(&language.reason(reason)));
    lines
}

fn plan_rows(view: &PlanView, drawing: Drawing, width: usize, language: Language) -> Vec<TextLine> {
    let plan = PlanDrawing { view, language };
    let mut lines = vec![plan.heading()];
    for row in plan.tree(drawing) {
        lines.extend(wrap(
            &row,
            width,
            &TextLine::new(),
            &TextLine::plain("        "),
        ));
    }
    lines
}

fn plan_ended(status: PlanStatus, can_retry: bool, language: Language) -> Vec<TextLine> {
    let what = match status {
        PlanStatus::Partial => Text::PlanPartial,
        PlanStatus::Failed => Text::PlanFailed,
        PlanStatus::Cancelled => Text::PlanCancelled,
        PlanStatus::Completed | PlanStatus::Running | PlanStatus::AwaitingApproval => {
            Text::PlanCompleted
        }
    };
    let line = TextLine::styled("✗ ", BAD.bold()).with(language.text(what), Style::PLAIN);
    vec![if can_retry {
        line.with(language.text(Text::RetryHint), DIM)
    } else {
        line
    }]
}

fn decided(
    decision: ApprovalOutcome,
    granted: Option<Grant>,
    by: &str,
    reason: Option<&str>,
    language: Language,
) -> TextLine {
    let (sign, style, word) = match decision {
        ApprovalOutcome::Approved => ("✓", GOOD, approved(granted, language)),
        ApprovalOutcome::Edited => ("✓", GOOD, language.text(Text::ApprovedEdited)),
        ApprovalOutcome::Rejected => ("✗", BAD, language.text(Text::Rejected)),
        ApprovalOutcome::Expired => ("✗", BAD, language.text(Text::DecisionExpired)),
        ApprovalOutcome::Cancelled => ("⊘", DIM, language.text(Text::DecisionCancelled)),
    };
    let line = TextLine::styled("  ", DIM)
        .with(sign, style)
        .with(&format!(" {word}"), Style::PLAIN);
    // A number is a person. Anything else is a rule, and its name is shown.
    let is_person = by.chars().all(|c| c.is_ascii_digit());
    let by = if is_person || matches!(by, "timeout" | "cancel") {
        String::new()
    } else {
        language.with(Text::DecidedBy, &[by])
    };
    // The reason of the request was printed with the request.
    let reason = reason
        .filter(|_| decision == ApprovalOutcome::Rejected)
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    line.with(&format!("{by}{reason}"), DIM)
}

/// A question of a server, and how it is answered. Every row with the server's words is marked, so
/// that none looks like ours.
fn of_server(
    question: &str,
    fields: &[String],
    options: &[String],
    width: usize,
    language: Language,
) -> Vec<TextLine> {
    let mark = TextLine::styled("│ ", DIM);
    let quoted = |line: &str| wrap(&TextLine::plain(&visible(line)), width, &mark, &mark);
    let mut lines: Vec<TextLine> = question.lines().flat_map(quoted).collect();
    if !fields.is_empty() {
        let names = fields.join(", ");
        let shown: String = names.chars().take(MAX_FIELDS_CHARS).collect();
        lines.extend(quoted(&format!("({})", shown.replace('\n', " "))));
    }
    lines.extend(numbered(options, &mark, width));
    let hint = match fields {
        [] | [_] => language.text(McpText::MayDecline),
        _ => language.text(McpText::AnswerFields),
    };
    lines.push(quiet(hint));
    lines
}

/// The answers to choose from.
fn numbered(options: &[String], start: &TextLine, width: usize) -> Vec<TextLine> {
    let row = |(index, option): (usize, &String)| {
        let first = start.clone().with(&format!("{}. ", index + 1), DIM);
        let rest = start.clone().with("   ", DIM);
        let option = visible(option).replace('\n', " ");
        wrap(&TextLine::plain(&option), width, &first, &rest)
    };
    options.iter().enumerate().flat_map(row).collect()
}

fn approved(granted: Option<Grant>, language: Language) -> &'static str {
    match granted {
        None => language.text(Text::Approved),
        Some(Grant::FileWrites) => language.text(CallText::GrantedWrites),
        Some(Grant::SameCommand) => language.text(CallText::GrantedCommand),
        Some(Grant::SameTool) => language.text(McpText::Granted),
    }
}

/// A row of a list. What does not fit goes on below its second column.
fn listed(row: &str, width: usize) -> Vec<TextLine> {
    let start = row.len() - row.trim_start().len();
    let gap = row[start..].find("  ").map(|gap| &row[..start + gap]);
    let column = gap.map_or(start, |first| {
        let behind = &row[first.len()..];
        let spaces = behind.len() - behind.trim_start().len();
        first.chars().count() + spaces
    });
    let indent = if column * 2 > width { start } else { column };
    fitting_below(&TextLine::plain(row), width, indent)
}

/// A line as rows that fit. The rows below the first one are indented.
fn fitting_below(line: &TextLine, width: usize, indent: usize) -> Vec<TextLine> {
    let rest = TextLine::plain(&" ".repeat(indent.min(width / 2)));
    wrap(line, width, &TextLine::new(), &rest)
}

/// Tokens and dollars, in a row.
pub fn spent(usage: &Usage, language: Language) -> String {
    let cost = usage
        .cost_usd
        .map_or(language.text(Text::CostUnknown).to_owned(), dollars);
    let tokens = language.with(Text::Tokens, &[&language.grouped(usage.total_tokens)]);
    format!("{tokens} · {cost}")
}

#[cfg(test)]
#[path = "render/tests.rs"]
mod tests;
