//! A session as Markdown, made of its events: what was said, also by the agents of single tasks, the
//! tool calls, what was proposed, and how it was decided.

use std::collections::HashMap;

use codelab_protocol::{
    Role, SessionEvent, SessionEventBody, Timestamp, Tool, ToolArguments, ToolCall, TurnStatus,
    fence,
};

use serde_json::Value;

use crate::texts::CommandText;
use crate::{Language, Text};

use super::block::{ApprovalCardKind, ApprovalShown, Block, CallEnd, End};
use super::diff::{self, Before, Diff};
use super::plan::short;
use super::render;
use super::state::ViewState;
use super::text::TextLine;

/// Of lines that are no prose. Whoever reads the file breaks them.
const COLUMNS: usize = 1000;
/// The date and the minutes.
const TIME_CHARS: usize = 16;

/// Files whose content is followed. For more of them it is not known what a write replaced.
const MAX_KNOWN_FILES: usize = 256;
/// Of all of them together.
const MAX_KNOWN_BYTES: usize = 64 << 20;

pub struct Transcript {
    state: ViewState,
    /// Files as agents read or wrote them last. The log does not say what a file held otherwise.
    known: HashMap<String, String>,
    known_bytes: usize,
    unknown: Before,
}

impl Transcript {
    pub fn new(language: Language) -> Self {
        let unknown = language.text(CommandText::ContentNotKept).to_owned();
        Self {
            state: ViewState::new(language),
            known: HashMap::new(),
            known_bytes: 0,
            unknown: Before::Unknown(unknown),
        }
    }

    fn language(&self) -> Language {
        self.state.language
    }

    /// What the event adds to the file.
    pub fn event(&mut self, event: &SessionEvent) -> String {
        let own = self.task_answer(event);
        let before = match &event.body {
            SessionEventBody::ApprovalRequest(request) => {
                let arguments = &request.approval.arguments;
                self.before(arguments.get("path").and_then(Value::as_str))
            }
            _ => self.unknown.clone(),
        };
        let blocks = self.state.apply(event, &before.into());
        let mut out = String::new();
        // The answer of a task that is one of several stands nowhere else.
        let is_told = blocks
            .iter()
            .any(|block| matches!(block, Block::Answer { .. }));
        if let Some(answer) = own.filter(|_| !is_told) {
            out.push_str(&answer);
        }
        for block in &blocks {
            out.push_str(&self.block(block, event.timestamp));
            if let Block::Call(end) = block {
                self.learn(end);
            }
        }
        out
    }

    fn before(&self, path: Option<&str>) -> Before {
        let known = path.and_then(|path| self.known.get(path));
        known.map_or(self.unknown.clone(), |text| Before::Text(text.clone()))
    }

    /// Takes over what a file holds after a call.
    fn learn(&mut self, end: &CallEnd) {
        let End::Result { value, .. } = &end.end else {
            return;
        };
        let is_whole = value.get("truncated") != Some(&Value::Bool(true));
        let arguments = Tool::parse(&end.call.name).map(|tool| tool.check(&end.call.arguments));
        let (path, content) = match arguments {
            Some(Ok(ToolArguments::ReadFile(read)))
                if read.start_line.is_none() && read.end_line.is_none() && is_whole =>
            {
                let content = value.get("content").and_then(Value::as_str);
                (read.path, content.map(str::to_owned))
            }
            Some(Ok(ToolArguments::WriteFile(write))) if value.get("error").is_none() => {
                let content = match (&write.content, self.known.get(&write.path)) {
                    (Some(content), _) => Some(content.clone()),
                    (None, Some(old)) => diff::apply(old, write.edits.as_deref().unwrap_or(&[])),
                    (None, None) => None,
                };
                (write.path, content)
            }
            _ => return,
        };
        let old = self.known.remove(&path).map_or(0, |old| old.len());
        self.known_bytes -= old;
        if let Some(content) = content
            && self.known.len() < MAX_KNOWN_FILES
            && self.known_bytes + content.len() <= MAX_KNOWN_BYTES
        {
            self.known_bytes += content.len();
            self.known.insert(path, content);
        }
    }

    /// The turn paused or ended here.
    pub fn done(&mut self, status: TurnStatus) -> String {
        let blocks = self.state.done(status);
        let lines = blocks.iter().map(|block| self.quoted(block));
        lines.collect()
    }

    pub fn skip(&mut self, seq: u64) {
        self.state.skip(seq);
    }

    fn task_answer(&self, event: &SessionEvent) -> Option<String> {
        let SessionEventBody::MessageCreated(created) = &event.body else {
            return None;
        };
        let (message, task) = (&created.message, created.origin.task_id.as_ref()?);
        let is_text = message.role == Role::Assistant && !message.content.trim().is_empty();
        let agent = message.agent_id.as_ref().map_or("", |agent| short(agent));
        let heading = format!("{agent} ({task})");
        is_text.then(|| said(&heading, event.timestamp, &message.content))
    }

    fn block(&self, block: &Block, at: Timestamp) -> String {
        match block {
            Block::User(text) => said(self.language().text(CommandText::You), at, text),
            Block::Answer { agent, piece } => {
                let agent = agent.as_ref().map_or("", |agent| short(agent));
                said(agent, at, &piece.source)
            }
            Block::Approval(shown) => self.approval(shown),
            Block::Call(end) => self.call(end),
            // Tokens are told by `/cost`.
            Block::Spent(_) => String::new(),
            other => self.quoted(other),
        }
    }

    /// What was proposed. Its decision follows.
    fn approval(&self, shown: &ApprovalShown) -> String {
        let language = self.language();
        let lines = render::block(&Block::Approval(shown.clone()), COLUMNS, language);
        let mut rows = lines.iter().filter(|row| !row.is_blank());
        let head = rows.next().map(TextLine::to_text).unwrap_or_default();
        let (kind, body): (_, Vec<String>) = match &shown.kind {
            ApprovalCardKind::Write {
                diff: Some(diff), ..
            } => ("diff", rows_of(diff)),
            ApprovalCardKind::Write { .. }
            | ApprovalCardKind::Command { .. }
            | ApprovalCardKind::Budget(_)
            | ApprovalCardKind::Named { .. }
            | ApprovalCardKind::Tool { .. } => ("", rows.map(|row| row.to_text()).collect()),
        };
        format!("\n**{}**\n{}", head.trim(), fenced(kind, &body.join("\n")))
    }

    /// A call that is over. A write that nobody was asked about shows what it wrote.
    fn call(&self, end: &CallEnd) -> String {
        let lines = render::block(&Block::Call(end.clone()), COLUMNS, self.language());
        let mut rows = lines.iter().map(TextLine::to_text);
        let head = rows.next().unwrap_or_default();
        let output: Vec<String> = rows.collect();
        let mut out = format!("\n- {}\n", head.trim());
        if !self.was_asked(&end.call)
            && let Some(written) = self.written(&end.call)
        {
            out.push_str(&fenced("diff", &written));
        }
        if !output.is_empty() {
            out.push_str(&fenced("", &output.join("\n")));
        }
        out
    }

    fn was_asked(&self, call: &ToolCall) -> bool {
        let view = self.state.view.call(&call.call_id);
        view.is_some_and(|view| view.decision.is_some())
    }

    fn written(&self, call: &ToolCall) -> Option<String> {
        let tool = Tool::parse(&call.name)?;
        let Ok(ToolArguments::WriteFile(write)) = tool.check(&call.arguments) else {
            return None;
        };
        let before = self.before(Some(&write.path));
        let diff = Diff::of(&write, &before, self.language());
        Some(rows_of(&diff).join("\n"))
    }

    fn quoted(&self, block: &Block) -> String {
        let lines = render::block(block, COLUMNS, self.language());
        let rows = lines.iter().filter(|row| !row.is_blank());
        let rows: String = rows
            .map(|row| format!("> {}  \n", row.to_text().trim()))
            .collect();
        match rows.is_empty() {
            true => rows,
            false => format!("\n{rows}"),
        }
    }
}

fn rows_of(diff: &Diff) -> Vec<String> {
    diff.lines.iter().map(TextLine::to_text).collect()
}

fn said(who: &str, at: Timestamp, text: &str) -> String {
    let time = at.to_string();
    let time = time.get(..TIME_CHARS).unwrap_or(&time).replace('T', " ");
    format!("\n## {who}\n\n*{time} UTC*\n\n{}\n", text.trim())
}

fn fenced(kind: &str, content: &str) -> String {
    let fence = fence(content);
    format!("\n{fence}{kind}\n{content}\n{fence}\n")
}

/// The first line of the file.
pub fn heading(title: Option<&str>, language: Language) -> String {
    let title = title.unwrap_or(language.text(Text::Untitled));
    format!("# {}\n", title.lines().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use codelab_protocol::Done;

    use super::*;

    fn exported(session: &str) -> String {
        let mut transcript = Transcript::new(Language::En);
        let mut out = String::new();
        for line in session.lines() {
            out.push_str(&match serde_json::from_str::<Done>(line) {
                Ok(done) => transcript.done(done.status),
                Err(_) => transcript.event(&serde_json::from_str(line).unwrap()),
            });
        }
        out
    }

    #[test]
    fn a_session_is_written_with_its_calls_proposals_and_decisions() {
        for (session, parts) in [
            (
                include_str!("fixtures/direct.jsonl"),
                &[
                    "## You",
                    "\n- ✓ read ",
                    "**? coder asks to write",
                    "```diff",
                    "\n-    return \"Hello\"",
                    "> ✓ approved",
                ][..],
            ),
            (
                include_str!("fixtures/rejected.jsonl"),
                &["**? coder asks to", "> ✗ rejected"],
            ),
            (
                include_str!("fixtures/plan.jsonl"),
                &["Plan", "> ✓ approved", "## analyzer (read)"],
            ),
            (include_str!("fixtures/question.jsonl"), &["coder asks"]),
        ] {
            let text = exported(session);
            for part in parts {
                assert!(text.contains(part), "{part}\n{text}");
            }
        }
    }
}
