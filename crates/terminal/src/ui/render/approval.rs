//! Approvals: what would run, with nothing hidden.

use codelab_policy::visible;
use codelab_protocol::{McpCall, Tool};
use serde_json::{Map, Value};

use crate::{Language, McpText, Text};

use super::card::CardRows;
use super::{AGENT, BAD, call::task_mark};
use crate::ui::block::{ApprovalCardKind, ApprovalShown};
use crate::ui::plan::{dollars, short};
use crate::ui::text::{BOLD, Colour, DIM, Style, TextLine, fitting, folded, wrap};

/// Before the rest of a line that is longer than a row. It stands where a difference has its sign
/// and where nothing else stands, so that no text can pass for another line.
pub(super) const GOES_ON: &str = "  ↪ ";

pub fn lines(shown: &ApprovalShown, width: usize, language: Language) -> Vec<TextLine> {
    let mut rows = CardRows::default();
    add_rows(shown, width, language, &mut rows);
    rows.within(usize::MAX, language).0
}

pub fn add_rows(shown: &ApprovalShown, width: usize, language: Language, rows: &mut CardRows) {
    rows.head.extend(fitting(&head(shown, language), width));
    rows.body.extend(body(&shown.kind, width, language));
    rows.notes.extend(notes(&shown.kind, width, language));
    if !shown.reason.is_empty() {
        let reason = TextLine::styled(&format!("  {}", language.reason(&shown.reason)), DIM);
        rows.below.extend(fitting(&reason, width));
    }
    if shown.is_forged {
        let warning = language.text(Text::Forged);
        rows.below.extend(wrap(
            &TextLine::styled(warning, BAD.bold()),
            width,
            &TextLine::plain("  "),
            &TextLine::plain("  "),
        ));
    }
}

/// Without any cut.
pub fn everything(kind: &ApprovalCardKind, width: usize, language: Language) -> Vec<TextLine> {
    let mut lines = body(kind, width, language);
    lines.extend(notes(kind, width, language));
    lines
}

/// What an approval is about, in a few words.
pub fn name(
    tool: &str,
    mcp: Option<&McpCall>,
    arguments: &Map<String, Value>,
    language: Language,
) -> String {
    let one_row = |text: &str| {
        visible(text)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    if let Some(mcp) = mcp {
        let values = [mcp.id.server.as_str(), &one_row(&mcp.id.tool)];
        return language.with(McpText::Use, &values);
    }
    match Tool::parse(tool) {
        Some(Tool::WriteFile) => {
            language.with(Text::LocalWrite, &[&one_row(text(arguments, "path"))])
        }
        Some(Tool::ExecuteCommand) => format!("$ {}", one_row(text(arguments, "command"))),
        _ => language.with(Text::LocalUse, &[&one_row(tool)]),
    }
}

fn head(shown: &ApprovalShown, language: Language) -> TextLine {
    let mut line = TextLine::styled("? ", AGENT);
    line.extend(task_mark(shown.task.as_ref()));
    let who = shown.agent.as_ref().map(short);
    line = match who {
        Some(agent) => line
            .with(agent, AGENT)
            .with(&format!(" {} ", language.text(Text::Asks)), BOLD),
        None => line.with(&format!("{} ", language.text(Text::MachineAsks)), BOLD),
    };
    let path = |arguments: &Map<String, Value>| visible(text(arguments, "path"));
    let is_agent = who.is_some();
    let verb = |agent: Text, local: Text, what: &str| {
        language.with(if is_agent { agent } else { local }, &[what])
    };
    match &shown.kind {
        ApprovalCardKind::Write { arguments, diff } => {
            let (added, removed) = diff
                .as_ref()
                .map_or((0, 0), |diff| (diff.added, diff.removed));
            let line = line.with(
                &verb(Text::ToWrite, Text::LocalWrite, &path(arguments)),
                BOLD,
            );
            line.with(&format!("  +{added}"), Style::colour(Colour::Green))
                .with(&format!(" −{removed}"), Style::colour(Colour::Red))
        }
        ApprovalCardKind::Command { .. } => line.with(&verb(Text::ToRun, Text::LocalRun, ""), BOLD),
        ApprovalCardKind::Budget(arguments) => {
            let title = match unpriced_model(arguments) {
                Some(model) => language.with(Text::PriceUnknown, &[&visible(model)]),
                None => language.text(Text::BudgetTooSmall).to_owned(),
            };
            TextLine::styled("? ", AGENT).with(&title, BOLD)
        }
        ApprovalCardKind::Named { mcp, .. } => {
            let text = if is_agent {
                McpText::ToUse
            } else {
                McpText::Use
            };
            let values = [mcp.id.server.as_str(), &in_one_row(&mcp.id.tool)];
            line.with(&language.with(text, &values), BOLD)
        }
        ApprovalCardKind::Tool { name, .. } => {
            line.with(&verb(Text::ToUse, Text::LocalUse, name), BOLD)
        }
    }
}

/// What would happen, row by row.
fn body(kind: &ApprovalCardKind, width: usize, language: Language) -> Vec<TextLine> {
    let lines = match kind {
        ApprovalCardKind::Write { arguments, diff } => match diff {
            Some(diff) => diff.lines.iter().map(indented).collect(),
            None => json(arguments),
        },
        ApprovalCardKind::Command { command, .. } => visible(command)
            .split('\n')
            .map(|row| TextLine::styled(&format!("    {row}"), BOLD))
            .collect(),
        ApprovalCardKind::Budget(arguments) => budget(arguments, language),
        ApprovalCardKind::Named { arguments, .. } | ApprovalCardKind::Tool { arguments, .. } => {
            json(arguments)
        }
    };
    let rest = TextLine::styled(GOES_ON, DIM);
    lines
        .iter()
        .flat_map(|line| folded(line, width, &rest))
        .collect()
}

/// What the policy says about a command, and where it would run; what a server says about its tool.
fn notes(kind: &ApprovalCardKind, width: usize, language: Language) -> Vec<TextLine> {
    let (cwd, parts) = match kind {
        ApprovalCardKind::Command { cwd, parts, .. } => (cwd, parts),
        ApprovalCardKind::Named { mcp, .. } => return server_says(mcp, width, language),
        ApprovalCardKind::Write { .. }
        | ApprovalCardKind::Budget(_)
        | ApprovalCardKind::Tool { .. } => return Vec::new(),
    };
    let mut lines = Vec::new();
    if let Some(cwd) = cwd {
        let folder = language.with(Text::InFolder, &[&visible(cwd)]);
        let folder = TextLine::styled(&format!("  {folder}"), DIM);
        lines.extend(fitting(&folder, width));
    }
    for part in parts.iter().filter(|part| part.reason.is_some()) {
        let reason = language.reason(part.reason.as_deref().unwrap_or_default());
        let row = TextLine::styled(
            &part.text.lines().collect::<Vec<_>>().join(" ⏎ "),
            Style::PLAIN,
        )
        .with(&format!("  {reason}"), DIM);
        lines.extend(wrap(
            &row,
            width,
            &TextLine::styled("  · ", DIM),
            &TextLine::plain("    "),
        ));
    }
    lines
}

/// The server's own words. Every row of them is marked, so that none can pass for one of ours.
fn server_says(mcp: &McpCall, width: usize, language: Language) -> Vec<TextLine> {
    let mut lines = Vec::new();
    if !mcp.description.is_empty() {
        let head = TextLine::styled(&format!("  {}", language.text(McpText::Describes)), DIM);
        lines.extend(fitting(&head, width));
        let mark = TextLine::styled("  │ ", DIM);
        for row in visible(&mcp.description).lines() {
            lines.extend(wrap(&TextLine::plain(row), width, &mark, &mark));
        }
    }
    if !mcp.hints.is_empty() {
        let hint = |(name, value): (&String, &bool)| format!("{}={value}", in_one_row(name));
        let hints: Vec<String> = mcp.hints.iter().map(hint).collect();
        let hints = language.with(McpText::Hints, &[&hints.join(", ")]);
        lines.extend(fitting(
            &TextLine::styled(&format!("  {hints}"), DIM),
            width,
        ));
    }
    lines
}

/// Nothing hidden, and in one row.
fn in_one_row(text: &str) -> String {
    visible(text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

fn budget(arguments: &Map<String, Value>, language: Language) -> Vec<TextLine> {
    let amount = |of: &str, unit: &str| arguments.get(of).and_then(|amounts| amounts.get(unit));
    let usd = |of: &str| amount(of, "usd").and_then(Value::as_f64).map(dollars);
    let tokens = |of: &str| {
        amount(of, "tokens")
            .and_then(Value::as_u64)
            .map(|tokens| language.grouped(tokens))
    };
    let scope = language.text(match text(arguments, "scope") {
        "project" => Text::ThisProject,
        _ => Text::ThisSession,
    });
    let mut lines = Vec::new();
    if let (Some(limit), Some(spent)) = (usd("limit"), usd("spent")) {
        let spent = language.with(Text::SpentDollars, &[&spent, &limit]);
        lines.push(TextLine::plain(&format!("  {scope}: {spent}")));
    }
    if let (Some(limit), Some(spent)) = (tokens("limit"), tokens("spent")) {
        let spent = language.with(Text::SpentTokens, &[&spent, &limit]);
        lines.push(TextLine::plain(&format!("  {scope}: {spent}")));
    }
    let keys = match unpriced_model(arguments) {
        Some(_) => Text::UnpricedKeys,
        None => Text::BudgetKeys,
    };
    lines.push(TextLine::styled(&format!("  {}", language.text(keys)), DIM));
    lines
}

/// Set if the approval is about a model whose price is unknown.
fn unpriced_model(arguments: &Map<String, Value>) -> Option<&str> {
    arguments.get("model").and_then(Value::as_str)
}

fn json(arguments: &Map<String, Value>) -> Vec<TextLine> {
    let text = serde_json::to_string_pretty(arguments).unwrap_or_default();
    text.lines()
        .map(|row| TextLine::plain(&format!("    {row}")))
        .collect()
}

fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> &'a str {
    arguments
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn indented(line: &TextLine) -> TextLine {
    let mut out = TextLine::plain("  ");
    out.extend(line.clone());
    out
}
