//! The part of a session's events that is about plans and their tasks.

use codelab_protocol::{
    Plan, PlanId, PlanStatus, SessionEventBody, TaskId, TaskOrigin, TaskStatus, Usage,
    WorkflowCompleted, WorkflowStatus,
};

use super::{PendingAsk, TurnView, ViewState};
use crate::ui::block::Block;
use crate::ui::plan::PlanView;

/// A failed task's error in one row.
const MAX_NOTE_CHARS: usize = 160;

impl ViewState {
    pub(super) fn plan_event(&mut self, body: &SessionEventBody, out: &mut Vec<Block>) {
        match body {
            SessionEventBody::TaskPlanCreated(plan) => self.planned(plan, out),
            SessionEventBody::PlanRequest(request) => {
                self.ask(PendingAsk::Plan(Box::new(request.clone())));
                if let Some(plan) = &self.plan {
                    out.push(Block::PlanProposed {
                        plan: plan.clone(),
                        reason: request.approval.reason.clone(),
                    });
                }
            }
            SessionEventBody::PlanResolved(resolved) => {
                self.asks.retain(
                    |ask| !matches!(ask, PendingAsk::Plan(request) if request.plan_id == resolved.plan_id),
                );
                if let Some(plan) = self.plan_of(&resolved.plan_id)
                    && !resolved.tasks.is_empty()
                {
                    plan.replace(&resolved.tasks);
                }
                out.push(Block::Decided {
                    decision: resolved.decision,
                    by: resolved.decided_by.clone(),
                    reason: resolved.reason.clone(),
                });
            }
            SessionEventBody::TaskStarted(task) => {
                self.progress(&task.plan_id, &task.task_id, TaskStatus::Running, None);
            }
            SessionEventBody::TaskProgress(task) => {
                self.progress(
                    &task.plan_id,
                    &task.task_id,
                    TaskStatus::Running,
                    Some(task.note.clone()),
                );
            }
            SessionEventBody::TaskCompleted(task) => {
                match (&task.origin.plan_id, &task.origin.task_id) {
                    (Some(plan), Some(id)) => {
                        self.task_ended(plan, id, TaskStatus::Completed, None, out)
                    }
                    _ => self.spend(task.usage, out),
                }
            }
            SessionEventBody::TaskFailed(task) => {
                let note = task.error.message.chars().take(MAX_NOTE_CHARS).collect();
                self.task_ended(
                    &task.plan_id,
                    &task.task_id,
                    TaskStatus::Failed,
                    Some(note),
                    out,
                );
            }
            SessionEventBody::TaskSkipped(task) => {
                let note = format!("because {} failed", task.because_of);
                self.task_ended(
                    &task.plan_id,
                    &task.task_id,
                    TaskStatus::Skipped,
                    Some(note),
                    out,
                );
            }
            SessionEventBody::WorkflowCompleted(completed) => self.plan_ended(completed, out),
            _ => {}
        }
    }

    fn planned(&mut self, plan: &Plan, out: &mut Vec<Block>) {
        let view = PlanView::new(plan.clone());
        if let ([task], PlanStatus::Running) = (plan.tasks.as_slice(), plan.status) {
            self.turn = TurnView::Working {
                agent: Some(task.agent.clone()),
            };
            out.push(Block::Routed {
                agent: task.agent.clone(),
                is_fallback: plan.fallback,
            });
        }
        self.plan = Some(view);
    }

    fn plan_ended(&mut self, completed: &WorkflowCompleted, out: &mut Vec<Block>) {
        let status = match completed.status {
            WorkflowStatus::Completed => PlanStatus::Completed,
            WorkflowStatus::Partial => PlanStatus::Partial,
            WorkflowStatus::Failed => PlanStatus::Failed,
            WorkflowStatus::Cancelled => PlanStatus::Cancelled,
        };
        if let Some(view) = self.plan_of(&completed.plan_id) {
            view.plan.status = status;
            let lost = |task: &codelab_protocol::Task| {
                matches!(task.status, TaskStatus::Failed | TaskStatus::Skipped)
            };
            let can_retry = view.plan.tasks.iter().any(lost);
            if status != PlanStatus::Completed {
                out.push(Block::PlanEnded { status, can_retry });
            }
        }
        self.spend(completed.usage, out);
    }

    fn spend(&mut self, usage: Option<Usage>, out: &mut Vec<Block>) {
        let Some(usage) = usage else { return };
        self.spent = match self.spent == Usage::default() {
            true => usage,
            false => self.spent.plus(usage),
        };
        out.push(Block::Spent(usage));
    }

    fn task_ended(
        &mut self,
        plan: &PlanId,
        id: &TaskId,
        status: TaskStatus,
        note: Option<String>,
        out: &mut Vec<Block>,
    ) {
        self.progress(plan, id, status, None);
        let Some(view) = self
            .plan_of(plan)
            .filter(|view| !view.is_single() || status == TaskStatus::Failed)
        else {
            return;
        };
        if let Some(task) = view.task(id) {
            out.push(Block::TaskEnded {
                id: id.clone(),
                agent: task.agent.clone(),
                status,
                note,
            });
        }
    }

    fn progress(&mut self, plan: &PlanId, id: &TaskId, status: TaskStatus, note: Option<String>) {
        if let Some(view) = self.plan_of(plan) {
            view.plan.status = PlanStatus::Running;
            view.set(id, status, note);
        }
    }

    /// A task that waits for the person.
    pub(super) fn waiting(&mut self, origin: &TaskOrigin) {
        if let (Some(plan), Some(id)) = (&origin.plan_id, &origin.task_id) {
            self.progress(
                plan,
                id,
                TaskStatus::Waiting,
                Some("waits for you".to_owned()),
            );
        }
    }

    pub(super) fn task_writes(&mut self, origin: &TaskOrigin) {
        if let (Some(plan), Some(id)) = (&origin.plan_id, &origin.task_id) {
            self.progress(plan, id, TaskStatus::Running, Some("writes".to_owned()));
        }
    }

    fn plan_of(&mut self, id: &PlanId) -> Option<&mut PlanView> {
        self.plan.as_mut().filter(|view| view.id() == id)
    }
}
