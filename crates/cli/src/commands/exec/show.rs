//! What `codelab exec` prints: progress on standard error and the answer on standard output, or
//! every event as JSON.

use std::iter;

use codelab_client::{
    SessionChange, SessionNote, SessionView, TaskNote, ToolCallStatus, WaitingItem,
};
use codelab_policy::visible;
use codelab_protocol::{
    ApprovalOutcome, CallId, CallOutcome, ErrorData, PlanId, SessionEvent, SessionEventBody,
    SessionId, Task, TaskId, TaskStatus, Timestamp, TurnStatus,
};
use codelab_terminal::{CallText, Language, McpText, Text};
use serde_json::{Map, json};

use super::super::tool_runner::{call_line, in_one_line, named_line};
use super::super::{note, say};
use super::run::ExecResult;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputFormat {
    Json,
    Text,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct EventPrinter {
    pub format: OutputFormat,
    pub language: Language,
    /// A person at this terminal is shown what waits, and asked.
    pub asks: bool,
}

impl EventPrinter {
    /// Tokens are left out; the message that they become has an event of its own.
    pub fn event(self, event: &SessionEvent) {
        if self.format == OutputFormat::Text
            || matches!(
                event.body,
                SessionEventBody::MessageDelta(_) | SessionEventBody::ReasoningDelta(_)
            )
        {
            return;
        }
        match serde_json::to_string(event) {
            Ok(line) => say(&line),
            Err(error) => note(&format!("an event could not be printed: {error}")),
        }
    }

    /// `at` is when it happened.
    pub fn change(self, change: &SessionChange, view: &SessionView, at: Timestamp) {
        if self.format == OutputFormat::Text {
            let lines = self.lines(change, view, at);
            lines.iter().for_each(|line| note(line));
        }
    }

    pub fn ending(self, session: &SessionId, ending: &ExecResult, exit_code: u8) {
        let ExecResult {
            status,
            response,
            error,
        } = ending;
        match self.format {
            OutputFormat::Json => say(&json!({
                "type": "result", "session_id": session, "status": status.as_str(), "exit_code": exit_code,
                "response": response, "error": error,
            })
            .to_string()),
            // An error was printed when it came.
            OutputFormat::Text => {
                if let Some(response) = response
                    && *status != TurnStatus::Failed
                {
                    say(&visible_text(response));
                }
            }
        }
    }

    fn lines(self, change: &SessionChange, view: &SessionView, at: Timestamp) -> Vec<String> {
        let language = self.language;
        match change {
            SessionChange::Note(SessionNote::AgentSwitched(switch)) => vec![language.with(
                Text::ExecTakesOver,
                &[switch.to_agent.as_str(), &in_one_line(&switch.reason)],
            )],
            SessionChange::PlanCreated(id) => self.plan(id, view),
            SessionChange::Resolved(_, decision) => {
                let word = language.text(outcome_text(decision.decision));
                vec![language.with(Text::ExecDecision, &[word])]
            }
            SessionChange::TaskStarted(plan, id) => task_started(plan, id, view),
            SessionChange::Task(plan, id) => self.task_ended(plan, id, view),
            SessionChange::Call(id) => self.call(id, view),
            SessionChange::Progress(id) => progress(id, view),
            // The question itself shows it.
            SessionChange::Waits(_) if self.asks => Vec::new(),
            SessionChange::Waits(id) => self.waits(id, view),
            SessionChange::Error(error) => self.error(&error.error),
            SessionChange::MessageStored(id) if view.repeats_its_task(id) => Vec::new(),
            SessionChange::MessageStored(id) => {
                let warnings = view.message(id).map(|message| message.warnings.as_slice());
                let line = |text: &String| language.with(Text::ExecWarning, &[&in_one_line(text)]);
                warnings.unwrap_or_default().iter().map(line).collect()
            }
            SessionChange::Note(SessionNote::ModelFallback(fallback)) => vec![language.with(
                Text::ModelFallback,
                &[
                    &fallback.from,
                    &language.failure(fallback.kind),
                    &fallback.to,
                ],
            )],
            SessionChange::Note(SessionNote::ModelWaiting(waiting)) => {
                vec![language.model_waiting(waiting, at)]
            }
            SessionChange::Note(
                SessionNote::HistoryCompacted(_)
                | SessionNote::CompactionFailed(_)
                | SessionNote::RememberedRevoked(_)
                | SessionNote::ApproveChanged(_)
                | SessionNote::Rewound(_)
                | SessionNote::Gap(_)
                | SessionNote::StartOver,
            )
            | SessionChange::StartedOver
            | SessionChange::TextChanged { .. }
            | SessionChange::ReasoningChanged(_)
            | SessionChange::MessageQueued { .. }
            | SessionChange::MessageDequeued(_)
            | SessionChange::QuestionEnded(_)
            | SessionChange::PlanEnded(_)
            | SessionChange::Used(_)
            | SessionChange::Previewed(_)
            | SessionChange::Stopped(_) => Vec::new(),
        }
    }

    fn plan(self, id: &PlanId, view: &SessionView) -> Vec<String> {
        let line = |plan: &codelab_protocol::Plan| {
            let dollars = format!("${:.4}", plan.estimated_cost_usd);
            let cost = match plan.cost_known {
                true => self.language.with(Text::CostAbout, &[&dollars]),
                false if plan.estimated_cost_usd > 0.0 => {
                    self.language.with(Text::CostAtLeast, &[&dollars])
                }
                false => self.language.text(Text::CostUnknown).to_owned(),
            };
            self.language
                .with(Text::ExecPlan, &[&plan.tasks.len().to_string(), &cost])
        };
        let Some(plan) = view.plan(id).map(|view| &view.plan) else {
            return Vec::new();
        };
        // Whoever decides about a plan sees all of it. Other tasks are told when they begin.
        let tasks = plan.tasks.iter().filter(|_| plan.requires_approval);
        iter::once(line(plan))
            .chain(tasks.map(planned_task))
            .collect()
    }

    fn task_ended(self, plan: &PlanId, id: &TaskId, view: &SessionView) -> Vec<String> {
        let Some(view) = view.plan(plan) else {
            return Vec::new();
        };
        let Some(task) = view.task(id) else {
            return Vec::new();
        };
        match (task.status, &task.error, view.notes.get(id)) {
            (TaskStatus::Failed, Some(error), _) => {
                let message = in_one_line(&error.message);
                let (meaning, details) = match self.language.turn_error(error) {
                    Some(meaning) => (meaning, Some(message)),
                    None => (message, None),
                };
                let values = [id.as_str(), &meaning];
                let failed = self.language.with(Text::ExecTaskFailed, &values);
                let details =
                    details.map(|details| self.language.with(Text::ExecDetails, &[&details]));
                iter::once(failed).chain(details).collect()
            }
            (TaskStatus::Skipped, _, Some(TaskNote::Because(failed))) => {
                let values = [id.as_str(), failed.as_str()];
                vec![self.language.with(Text::ExecTaskSkipped, &values)]
            }
            _ => Vec::new(),
        }
    }

    fn call(self, id: &CallId, view: &SessionView) -> Vec<String> {
        let Some(view) = view.call(id) else {
            return Vec::new();
        };
        match &view.status {
            ToolCallStatus::Running | ToolCallStatus::AwaitingClient => {
                vec![match &view.mcp {
                    Some(mcp) => named_line(mcp, &view.call.arguments),
                    None => call_line(&view.call.name, &view.call.arguments),
                }]
            }
            ToolCallStatus::Closed(CallOutcome::Unknown) => {
                vec![self.language.text(CallText::OutcomeUnknown).to_owned()]
            }
            ToolCallStatus::Closed(CallOutcome::Expired) => {
                vec![self.language.text(CallText::OutcomeExpired).to_owned()]
            }
            ToolCallStatus::Closed(
                CallOutcome::Completed | CallOutcome::Rejected | CallOutcome::Cancelled,
            )
            | ToolCallStatus::Proposed
            | ToolCallStatus::AwaitingApproval(_)
            | ToolCallStatus::Finished { .. }
            | ToolCallStatus::NotRun => Vec::new(),
        }
    }

    fn waits(self, id: &CallId, view: &SessionView) -> Vec<String> {
        match view.waits(id) {
            Some(WaitingItem::Approval(request)) => {
                let approval = &request.approval;
                let call = match &approval.mcp {
                    Some(mcp) => named_line(mcp, &approval.arguments),
                    None => call_line(&approval.tool_name, &approval.arguments),
                };
                let values = [
                    call.as_str(),
                    &in_one_line(&self.language.reason(&approval.reason)),
                ];
                vec![self.language.with(Text::ExecNeedsApproval, &values)]
            }
            Some(WaitingItem::Question(question)) => {
                let asks = in_one_line(&question.question);
                if let Some(server) = &question.server {
                    let who = self.language.with(McpText::Asks, &[server.as_str()]);
                    return vec![format!("{who} {asks}")];
                }
                let values = [question.agent.as_str(), &asks];
                vec![self.language.with(Text::ExecAsks, &values)]
            }
            // The plan itself was printed.
            Some(WaitingItem::Plan(_)) | None => Vec::new(),
        }
    }

    /// What the error means in the person's language, and below it what the server said.
    fn error(self, error: &ErrorData) -> Vec<String> {
        let message = in_one_line(&error.message);
        match self.language.turn_error(error) {
            Some(meaning) => vec![
                self.language.with(Text::ExecError, &[&meaning]),
                self.language.with(Text::ExecDetails, &[&message]),
            ],
            None => vec![self.language.with(Text::ExecError, &[&message])],
        }
    }
}

fn outcome_text(outcome: ApprovalOutcome) -> Text {
    match outcome {
        ApprovalOutcome::Approved => Text::Approved,
        ApprovalOutcome::Edited => Text::ApprovedEdited,
        ApprovalOutcome::Rejected => Text::Rejected,
        ApprovalOutcome::Expired => Text::DecisionExpired,
        ApprovalOutcome::Cancelled => Text::DecisionCancelled,
    }
}

/// How far a call is, in the words of its MCP server.
fn progress(id: &CallId, view: &SessionView) -> Vec<String> {
    let call = view.call(id);
    let told = call.and_then(|call| call.mcp.as_ref().zip(call.progress.as_ref()));
    let Some((mcp, progress)) = told else {
        return Vec::new();
    };
    let total = progress.total.map(|total| format!("/{total}"));
    let message = in_one_line(progress.message.as_deref().unwrap_or_default());
    let line = format!(
        "{} {}{} {message}",
        named_line(mcp, &Map::new()),
        progress.progress,
        total.unwrap_or_default()
    );
    vec![line.trim_end().to_owned()]
}

/// A task that has not begun.
fn planned_task(task: &Task) -> String {
    let after: Vec<&str> = task.depends_on.iter().map(TaskId::as_str).collect();
    let after = match after.is_empty() {
        true => String::new(),
        false => format!(" < {}", after.join(", ")),
    };
    let description = in_one_line(&task.description);
    format!("  {}{after} ({}): {description}", task.id, task.agent)
}

fn task_started(plan: &PlanId, id: &TaskId, view: &SessionView) -> Vec<String> {
    let task = view.plan(plan).and_then(|view| view.task(id));
    task.map(|task| format!("{id} ({}): {}", task.agent, in_one_line(&task.description)))
        .into_iter()
        .collect()
}

/// A model's text, without anything that a terminal would execute.
fn visible_text(text: &str) -> String {
    text.lines().map(visible).collect::<Vec<_>>().join("\n")
}
