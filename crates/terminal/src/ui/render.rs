//! Blocks as styled lines, for the scrollback. Widths in, lines out; no terminal.

mod approval;
mod call;
mod live;

use codelab_protocol::{ApprovalOutcome, PlanStatus, TaskStatus, Usage};

use super::block::Block;
use super::markdown::{self, MarkdownPiece};
use super::plan::{Drawing, PlanView, dollars, short, sign};
use super::text::{BOLD, Colour, DIM, Style, TextLine, wrap};

pub use approval::everything;
pub use live::{ConnectionState, Drawn, Live};

const AGENT: Style = Style::colour(Colour::Magenta).bold();
const GOOD: Style = Style::colour(Colour::Green);
const BAD: Style = Style::colour(Colour::Red);
/// Longer lines of text are hard to read, however wide the screen is.
const MAX_TEXT_COLUMNS: usize = 100;

/// The lines of a block, with the blank line that sets it apart from what came before.
pub fn block(block: &Block, width: usize) -> Vec<TextLine> {
    let text_width = width.min(MAX_TEXT_COLUMNS);
    match block {
        Block::User(text) => apart(said(text, "› ", text_width)),
        Block::Answered(text) => said(text, "› ", text_width),
        Block::Answer { agent, piece } => answer(agent.as_ref().map(short), piece, text_width),
        Block::AnswerRestarted => vec![quiet("the model began its answer again:")],
        Block::AnswerCut => vec![quiet("the answer ends here")],
        Block::Call(end) => call::lines(end, width),
        Block::Approval(shown) => apart(approval::lines(shown, text_width)),
        Block::PlanProposed { plan, reason } => {
            let mut lines = apart(plan_lines(plan, Drawing::Brief { frame: 0 }, width));
            if plan.is_cut() {
                lines.push(TextLine::styled(
                    "  … long descriptions are cut; v shows all",
                    BOLD,
                ));
            }
            lines.push(quiet(reason));
            lines
        }
        Block::Plan(plan) => apart(plan_lines(plan, Drawing::Brief { frame: 0 }, width)),
        Block::Routed { agent, is_fallback } => {
            let why = if *is_fallback {
                " (chosen by keywords: the planner gave no plan)"
            } else {
                ""
            };
            vec![
                TextLine::styled("  → ", DIM)
                    .with(short(agent), AGENT)
                    .with(why, DIM),
            ]
        }
        Block::TaskEnded {
            id,
            agent,
            status,
            note,
        } => {
            let (sign, style) = sign(*status, 0);
            let what = match status {
                TaskStatus::Failed => " failed",
                TaskStatus::Skipped => " skipped",
                _ => " done",
            };
            let line = TextLine::styled("  ", DIM)
                .with(sign, style)
                .with(&format!(" {id}"), BOLD)
                .with(what, Style::PLAIN);
            let note = note
                .as_deref()
                .map(|note| format!(" · {note}"))
                .unwrap_or_default();
            vec![line.with(&format!("  {}{note}", short(agent)), DIM)]
        }
        Block::PlanEnded { status, can_retry } => plan_ended(*status, *can_retry),
        Block::Decided {
            decision,
            by,
            reason,
        } => vec![decided(*decision, by, reason.as_deref())],
        Block::Question {
            agent,
            question,
            options,
        } => {
            let head = TextLine::styled("? ", AGENT)
                .with(short(agent), AGENT)
                .with(" asks", BOLD);
            let mut lines = vec![head];
            lines.extend(markdown::lines(question, text_width));
            for (number, option) in options.iter().enumerate() {
                lines.push(
                    TextLine::styled(&format!("  {}. ", number + 1), DIM)
                        .with(option, Style::PLAIN),
                );
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
        Block::Queued { position } => vec![quiet(&format!("queued, number {position} in the row"))],
        Block::Error { message, code } => {
            let code = code
                .map(|code| format!(" ({})", code.as_str()))
                .unwrap_or_default();
            let text = TextLine::plain(message).with(&code, DIM);
            wrap(
                &text,
                text_width,
                &TextLine::styled("✗ ", BAD.bold()),
                &TextLine::plain("  "),
            )
        }
        Block::Spent(usage) => vec![quiet(&spent(*usage))],
        Block::Cancelled => vec![TextLine::styled("⊘ cancelled", BOLD)],
        Block::Notice(text) => wrap(
            &TextLine::styled(text, DIM),
            text_width,
            &TextLine::plain("  "),
            &TextLine::plain("  "),
        ),
        Block::Listing(rows) => apart(
            rows.iter()
                .map(|row| TextLine::plain(&format!("  {row}")))
                .collect(),
        ),
    }
}

fn apart(mut lines: Vec<TextLine>) -> Vec<TextLine> {
    lines.insert(0, TextLine::new());
    lines
}

fn quiet(text: &str) -> TextLine {
    TextLine::styled(&format!("  {text}"), DIM)
}

fn said(text: &str, mark: &str, width: usize) -> Vec<TextLine> {
    let (first, rest) = (TextLine::styled(mark, BOLD), TextLine::plain("  "));
    let rows = text.lines().enumerate().flat_map(|(index, row)| {
        wrap(
            &TextLine::styled(row, BOLD),
            width,
            if index == 0 { &first } else { &rest },
            &rest,
        )
    });
    rows.collect()
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
pub fn whole_plan(plan: &PlanView, width: usize) -> Vec<TextLine> {
    apart(plan_lines(plan, Drawing::Whole, width))
}

fn plan_lines(plan: &PlanView, drawing: Drawing, width: usize) -> Vec<TextLine> {
    let mut lines = vec![plan.heading()];
    for row in plan.tree(drawing) {
        lines.extend(wrap(
            &row,
            width,
            &TextLine::new(),
            &TextLine::plain("        "),
        ));
    }
    if plan.plan.fallback {
        lines.push(quiet(
            "The planner gave no usable plan; the agent was chosen by keywords.",
        ));
    }
    lines
}

fn plan_ended(status: PlanStatus, can_retry: bool) -> Vec<TextLine> {
    let what = match status {
        PlanStatus::Partial => "the plan is done in part",
        PlanStatus::Failed => "the plan failed",
        PlanStatus::Cancelled => "the plan was cancelled",
        PlanStatus::Completed | PlanStatus::Running | PlanStatus::AwaitingApproval => {
            "the plan is done"
        }
    };
    let line = TextLine::styled("✗ ", BAD.bold()).with(what, Style::PLAIN);
    vec![if can_retry {
        line.with("; /retry runs what failed again", DIM)
    } else {
        line
    }]
}

fn decided(decision: ApprovalOutcome, by: &str, reason: Option<&str>) -> TextLine {
    let (sign, style, word) = match decision {
        ApprovalOutcome::Approved => ("✓", GOOD, "approved"),
        ApprovalOutcome::Edited => ("✓", GOOD, "approved with your changes"),
        ApprovalOutcome::Rejected => ("✗", BAD, "rejected"),
        ApprovalOutcome::Expired => ("✗", BAD, "nobody answered in time: rejected"),
        ApprovalOutcome::Cancelled => ("⊘", DIM, "no longer asked"),
    };
    let line = TextLine::styled("  ", DIM)
        .with(sign, style)
        .with(&format!(" {word}"), Style::PLAIN);
    // Anything but a person's number is a rule or a clock, which is worth a word.
    let is_person = by.chars().all(|c| c.is_ascii_digit());
    let by = if is_person || matches!(by, "timeout" | "cancel") {
        String::new()
    } else {
        format!(" by {by}")
    };
    // Why it was asked was told when it was.
    let reason = reason
        .filter(|_| decision == ApprovalOutcome::Rejected)
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    line.with(&format!("{by}{reason}"), DIM)
}

/// Tokens and dollars, in a row.
pub fn spent(usage: Usage) -> String {
    let cost = usage.cost_usd.map_or("cost not known".to_owned(), dollars);
    format!("{} tokens · {cost}", grouped(usage.total_tokens))
}

/// 12345 as 12,345.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
#[path = "render/tests.rs"]
mod tests;
