//! What `codelab exec` prints: progress on standard error and the answer on standard output, or
//! every event as JSON.

use codelab_policy::visible;
use codelab_protocol::{CallOutcome, SessionEvent, SessionEventBody, SessionId};
use serde_json::json;

use super::super::tool_runner::{call_line, in_one_line};
use super::super::{note, say};
use super::run::ExecResult;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventPrinter {
    Json,
    Text,
}

impl EventPrinter {
    pub fn event(self, event: &SessionEvent) {
        match self {
            Self::Json => match serde_json::to_string(event) {
                Ok(line) => say(&line),
                Err(error) => note(&format!("an event could not be printed: {error}")),
            },
            Self::Text => {
                if let Some(line) = line_of(&event.body) {
                    note(&line);
                }
            }
        }
    }

    pub fn ending(self, session: &SessionId, ending: &ExecResult, exit_code: u8) {
        let ExecResult {
            status,
            response,
            error,
        } = ending;
        match self {
            Self::Json => say(&json!({
                "type": "result", "session_id": session, "status": status.as_str(), "exit_code": exit_code,
                "response": response, "error": error,
            })
            .to_string()),
            // An error was shown when it came.
            Self::Text => {
                if let Some(response) = response {
                    say(&visible_text(response));
                }
            }
        }
    }
}

/// A model's text, without anything that a terminal would take for an order.
fn visible_text(text: &str) -> String {
    text.lines().map(visible).collect::<Vec<_>>().join("\n")
}

fn line_of(body: &SessionEventBody) -> Option<String> {
    Some(match body {
        // The way back at the end of a turn is nobody's taking over.
        SessionEventBody::AgentSwitched(switch) if switch.to_agent.is_orchestrator() => {
            return None;
        }
        SessionEventBody::AgentSwitched(switch) => {
            format!(
                "{} takes over: {}",
                switch.to_agent,
                in_one_line(&switch.reason)
            )
        }
        SessionEventBody::TaskPlanCreated(plan) => {
            format!(
                "plan of {} tasks, about ${:.4}",
                plan.tasks.len(),
                plan.estimated_cost_usd
            )
        }
        SessionEventBody::PlanResolved(resolved) => format!("plan: {}", resolved.decision.as_str()),
        SessionEventBody::TaskStarted(task) => {
            format!(
                "{} ({}): {}",
                task.task_id,
                task.agent,
                in_one_line(&task.description)
            )
        }
        SessionEventBody::TaskFailed(task) => format!(
            "{} failed: {}",
            task.task_id,
            in_one_line(&task.error.message)
        ),
        SessionEventBody::TaskSkipped(task) => {
            format!("{} skipped because of {}", task.task_id, task.because_of)
        }
        SessionEventBody::ToolCall(call) => {
            call_line(&call.call.tool_call.name, &call.call.tool_call.arguments)
        }
        SessionEventBody::ApprovalRequest(asked) => {
            let call = call_line(&asked.approval.tool_name, &asked.approval.arguments);
            format!(
                "needs approval: {call} ({})",
                in_one_line(&asked.approval.reason)
            )
        }
        SessionEventBody::ApprovalResolved(resolved) => {
            format!("approval: {}", resolved.decision.as_str())
        }
        SessionEventBody::ToolCallClosed(closed) => match closed.outcome {
            CallOutcome::Unknown => "the outcome of the call is unknown".to_owned(),
            CallOutcome::Expired => "nobody took the call in time".to_owned(),
            CallOutcome::Completed | CallOutcome::Rejected | CallOutcome::Cancelled => return None,
        },
        SessionEventBody::Question(question) => format!(
            "{} asks: {}",
            question.agent,
            in_one_line(&question.question)
        ),
        SessionEventBody::Error(error) => format!("error: {}", in_one_line(&error.error.message)),
        _ => return None,
    })
}
