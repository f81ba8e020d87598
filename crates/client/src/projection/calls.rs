//! Tool calls, approvals of calls and budgets, and questions.

use codelab_protocol::{
    AgentQuestion, ApprovalKind, ApprovalOutcome, ApprovalPreview, ApprovalRequest,
    ApprovalResolved, CallId, CallOutcome, McpPlace, ToolCall, ToolCallClosed, ToolCallEvent,
    ToolProgress, ToolResultEvent,
};
use serde_json::{Map, Value};

use super::item::{
    BudgetView, CallView, DecisionView, QuestionStatus, QuestionView, SessionItem, ToolCallStatus,
};
use super::{SessionChange, SessionView};

impl SessionView {
    pub(super) fn tool_call(&mut self, event: &ToolCallEvent, changes: &mut Vec<SessionChange>) {
        self.task_waits_for_client(&event.origin, changes);
        let (call, id) = (&event.call.tool_call, &event.call.tool_call.call_id);
        let before = self.call(id);
        let status = match before.map(|before| &before.status) {
            Some(ToolCallStatus::AwaitingApproval(request)) if event.call.requires_approval => {
                ToolCallStatus::AwaitingApproval(request.clone())
            }
            _ if event.client_attached || runs_at_server(event) => ToolCallStatus::Running,
            _ => ToolCallStatus::AwaitingClient,
        };
        let view = CallView {
            call: call.clone(),
            mcp: event.call.mcp.clone(),
            agent: Some(event.call.agent.clone()),
            status,
            progress: None,
            proposed_arguments: before.and_then(|before| before.proposed_arguments.clone()),
            decision: before.and_then(|before| before.decision.clone()),
            origin: event.origin.clone(),
        };
        self.timeline.put_call(view);
        changes.push(SessionChange::Call(id.clone()));
    }

    pub(super) fn tool_result(
        &mut self,
        result: &ToolResultEvent,
        changes: &mut Vec<SessionChange>,
    ) {
        // The task did not wait for a late result: it continued without it, or has ended.
        if !result.late {
            self.task_goes_on(&result.origin, changes);
        }
        let id = &result.call_id;
        if self.answer_question(id, answer_text(&result.result), changes) {
            return;
        }
        if self.call(id).is_none() {
            self.timeline.put_call(CallView {
                call: ToolCall {
                    call_id: id.clone(),
                    name: result.tool_name.clone(),
                    arguments: Map::new(),
                },
                mcp: None,
                agent: None,
                status: ToolCallStatus::Proposed,
                progress: None,
                proposed_arguments: None,
                decision: None,
                origin: result.origin.clone(),
            });
        }
        self.timeline.change_call(id, |call| {
            call.status = ToolCallStatus::Finished {
                result: result.result.clone(),
                is_late: result.late,
            };
        });
        changes.push(SessionChange::Call(id.clone()));
    }

    /// Progress of a call that has ended says nothing any more.
    pub(super) fn tool_progress(
        &mut self,
        progress: &ToolProgress,
        changes: &mut Vec<SessionChange>,
    ) {
        let mut has_changed = false;
        self.timeline.change_call(&progress.call_id, |call| {
            has_changed = call.status.is_running() && call.progress.as_ref() != Some(progress);
            if has_changed {
                call.progress = Some(progress.clone());
            }
        });
        if has_changed {
            changes.push(SessionChange::Progress(progress.call_id.clone()));
        }
    }

    pub(super) fn tool_call_closed(
        &mut self,
        closed: &ToolCallClosed,
        changes: &mut Vec<SessionChange>,
    ) {
        let id = &closed.call_id;
        let asked = self.question(id).map(|view| &view.question.origin);
        let origin = self.call(id).map(|call| &call.origin).or(asked).cloned();
        if let Some(origin) = origin {
            self.task_goes_on(&origin, changes);
        }
        let mut has_changed = false;
        let is_call = self.timeline.change_call(id, |call| {
            // The result says more than that it came. The first end of a call counts.
            has_changed = closed.outcome != CallOutcome::Completed
                && (!call.status.is_end() || call.status == ToolCallStatus::NotRun);
            if has_changed {
                call.status = ToolCallStatus::Closed(closed.outcome);
            }
        });
        if has_changed {
            changes.push(SessionChange::Call(id.clone()));
        }
        if !is_call {
            self.end_question(
                id,
                |status| match status {
                    QuestionStatus::Open => Some(QuestionStatus::Closed),
                    QuestionStatus::Answered(_) | QuestionStatus::Closed => None,
                },
                changes,
            );
        }
    }

    pub(super) fn approval_request(
        &mut self,
        request: &ApprovalRequest,
        changes: &mut Vec<SessionChange>,
    ) {
        self.task_waits_for_person(&request.origin, changes);
        let approval = &request.approval;
        let id = &approval.call_id;
        if approval.kind == ApprovalKind::Budget {
            let is_known = self.change_budget(id, |budget| {
                budget.request = request.clone();
                budget.decision = None;
            });
            if !is_known {
                self.timeline.push(SessionItem::Budget(Box::new(BudgetView {
                    request: request.clone(),
                    decision: None,
                })));
            }
        } else {
            self.timeline.put_call(CallView {
                call: ToolCall {
                    call_id: id.clone(),
                    name: approval.tool_name.clone(),
                    arguments: approval.arguments.clone(),
                },
                mcp: approval.mcp.clone(),
                agent: request.agent.clone(),
                status: ToolCallStatus::AwaitingApproval(Box::new(request.clone())),
                progress: None,
                proposed_arguments: None,
                decision: None,
                origin: request.origin.clone(),
            });
        }
        changes.push(SessionChange::Waits(id.clone()));
    }

    /// The file is not what it was when the question was shown. Of a call that waits no longer, the
    /// preview says nothing any more.
    pub(super) fn approval_preview(
        &mut self,
        shown: &ApprovalPreview,
        changes: &mut Vec<SessionChange>,
    ) {
        let mut has_changed = false;
        self.timeline.change_call(&shown.call_id, |call| {
            if let ToolCallStatus::AwaitingApproval(request) = &mut call.status {
                let preview = Some(Box::new(shown.preview.clone()));
                has_changed = request.approval.preview != preview;
                request.approval.preview = preview;
            }
        });
        if has_changed {
            changes.push(SessionChange::Previewed(shown.call_id.clone()));
        }
    }

    pub(super) fn approval_resolved(
        &mut self,
        resolved: &ApprovalResolved,
        changes: &mut Vec<SessionChange>,
    ) {
        let id = &resolved.call_id;
        let decision = DecisionView {
            decision: resolved.decision,
            decided_by: resolved.decided_by.clone(),
            reason: resolved.reason.clone(),
        };
        let mut origin = None;
        let is_budget = self.change_budget(id, |budget| {
            budget.decision = Some(decision.clone());
            origin = Some(budget.request.origin.clone());
        });
        if !is_budget {
            self.timeline.change_call(id, |call| {
                decide(call, &decision, resolved);
                origin = Some(call.origin.clone());
            });
        }
        // An approved call has to run first. After a refused budget an event of its own ends the
        // task or the workflow.
        let goes_on = match resolved.decision {
            ApprovalOutcome::Approved | ApprovalOutcome::Edited => is_budget,
            ApprovalOutcome::Rejected | ApprovalOutcome::Expired | ApprovalOutcome::Cancelled => {
                !is_budget
            }
        };
        match origin {
            Some(origin) if goes_on => self.task_goes_on(&origin, changes),
            Some(origin) => self.task_was_answered(&origin),
            None => {}
        }
        changes.push(SessionChange::Resolved(id.clone(), decision));
    }

    pub(super) fn question_asked(
        &mut self,
        question: &AgentQuestion,
        changes: &mut Vec<SessionChange>,
    ) {
        self.task_waits_for_person(&question.origin, changes);
        let id = &question.call_id;
        // A question is also a tool call. People see it once, as a question.
        self.timeline
            .remove(|item| matches!(item, SessionItem::Call(call) if call.call.call_id == *id));
        let asked = QuestionView {
            question: question.clone(),
            status: QuestionStatus::Open,
        };
        let is_known = self.change_question(id, |view| *view = asked.clone());
        if !is_known {
            self.timeline.push(SessionItem::Question(asked));
        }
        changes.push(SessionChange::Waits(id.clone()));
    }

    /// Whether there is such a question.
    pub(super) fn answer_question(
        &mut self,
        id: &CallId,
        answer: String,
        changes: &mut Vec<SessionChange>,
    ) -> bool {
        self.end_question(
            id,
            |status| match status {
                QuestionStatus::Answered(known) if *known == answer => None,
                QuestionStatus::Open | QuestionStatus::Answered(_) | QuestionStatus::Closed => {
                    Some(QuestionStatus::Answered(answer))
                }
            },
            changes,
        )
    }

    /// Whether there is such a question. `end` is asked for its new status.
    fn end_question(
        &mut self,
        id: &CallId,
        end: impl FnOnce(&QuestionStatus) -> Option<QuestionStatus>,
        changes: &mut Vec<SessionChange>,
    ) -> bool {
        let mut has_changed = false;
        let is_question = self.change_question(id, |view| {
            if let Some(status) = end(&view.status) {
                view.status = status;
                has_changed = true;
            }
        });
        if has_changed {
            changes.push(SessionChange::QuestionEnded(id.clone()));
        }
        is_question
    }

    fn change_question(&mut self, id: &CallId, change: impl FnOnce(&mut QuestionView)) -> bool {
        self.timeline.change(
            |item| match item {
                SessionItem::Question(view) if view.question.call_id == *id => Some(view),
                _ => None,
            },
            change,
        )
    }

    fn change_budget(&mut self, id: &CallId, change: impl FnOnce(&mut BudgetView)) -> bool {
        self.timeline.change(
            |item| match item {
                SessionItem::Budget(view) if view.request.approval.call_id == *id => {
                    Some(view.as_mut())
                }
                _ => None,
            },
            change,
        )
    }
}

fn decide(call: &mut CallView, decision: &DecisionView, resolved: &ApprovalResolved) {
    call.decision = Some(decision.clone());
    call.status = match decision.decision {
        ApprovalOutcome::Approved => ToolCallStatus::Running,
        ApprovalOutcome::Edited => {
            if let Some(edited) = &resolved.modified_args {
                let proposed = std::mem::replace(&mut call.call.arguments, edited.clone());
                call.proposed_arguments = Some(proposed);
            }
            ToolCallStatus::Running
        }
        ApprovalOutcome::Expired => ToolCallStatus::Closed(CallOutcome::Expired),
        ApprovalOutcome::Cancelled => ToolCallStatus::Closed(CallOutcome::Cancelled),
        ApprovalOutcome::Rejected => ToolCallStatus::Closed(CallOutcome::Rejected),
    };
}

/// The answer to a question, as the person wrote it.
fn answer_text(result: &Value) -> String {
    let text = result.as_str().or_else(|| result.get("answer")?.as_str());
    text.map_or_else(|| result.to_string(), str::to_owned)
}

/// Whether the server itself calls the MCP server, so that no tool runner is needed.
fn runs_at_server(event: &ToolCallEvent) -> bool {
    let mcp = event.call.mcp.as_ref();
    mcp.is_some_and(|mcp| mcp.runs_at == McpPlace::Server)
}
