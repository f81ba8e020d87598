//! Plans and their tasks.

use std::collections::BTreeMap;

use codelab_protocol::{
    AgentName, ApprovalOutcome, Plan, PlanId, PlanRequest, PlanResolved, PlanStatus, PlannedTask,
    Task, TaskCompleted, TaskFailed, TaskId, TaskOrigin, TaskProgress, TaskSkipped, TaskStarted,
    TaskStatus, WorkflowCompleted, WorkflowStatus,
};

use super::{DecisionView, SessionChange, SessionItem, SessionView};

#[derive(Debug, Clone, PartialEq)]
pub struct PlanView {
    pub plan: Plan,
    /// Present while the plan waits for the person.
    pub request: Option<PlanRequest>,
    /// What each task does or why it does not run.
    pub notes: BTreeMap<TaskId, TaskNote>,
    /// What the workflow answered.
    pub response: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskNote {
    /// Its agent writes an answer.
    Writes,
    /// What its last step did: `answer`, or the tools it called.
    Step(String),
    /// It waits for the person.
    WaitsForPerson,
    /// It was skipped, because this task failed.
    Because(TaskId),
}

impl PlanView {
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            request: None,
            notes: BTreeMap::new(),
            response: None,
        }
    }

    pub fn id(&self) -> &PlanId {
        &self.plan.plan_id
    }

    /// A plan with one task reads like an answer of one agent.
    pub fn is_single(&self) -> bool {
        self.plan.tasks.len() == 1
    }

    pub fn task(&self, id: &TaskId) -> Option<&Task> {
        self.plan.tasks.iter().find(|task| task.id == *id)
    }

    /// The tasks that this one waits for only because they write the same files. What the plan says
    /// itself is how it stood when it was made.
    pub fn waits_for(&self, task: &Task) -> Vec<TaskId> {
        self.plan.waits_for(task)
    }

    /// Whether it runs or waits for the person.
    pub fn is_open(&self) -> bool {
        matches!(
            self.plan.status,
            PlanStatus::AwaitingApproval | PlanStatus::Running
        )
    }

    /// The tasks as the person edited them. Costs are known only of tasks that were there before.
    fn replace(&mut self, tasks: &[PlannedTask]) {
        let old = std::mem::take(&mut self.plan.tasks);
        self.plan.tasks = tasks
            .iter()
            .filter_map(|planned| {
                let before = old.iter().find(|task| task.id == planned.id);
                let named = AgentName::parse(&planned.agent).ok();
                Some(Task {
                    id: planned.id.clone(),
                    agent: named.or_else(|| before.map(|task| task.agent.clone()))?,
                    description: planned.description.clone(),
                    depends_on: planned.depends_on.clone(),
                    paths: planned.paths.clone(),
                    waits_for: Vec::new(),
                    status: TaskStatus::Pending,
                    estimated_tokens: planned.estimated_tokens,
                    estimated_cost_usd: before.and_then(|task| task.estimated_cost_usd),
                    result: None,
                    error: None,
                    usage: None,
                })
            })
            .collect();
    }

    pub(super) fn weight_bytes(&self) -> usize {
        let task =
            |task: &Task| task.description.len() + task.result.as_ref().map_or(0, String::len);
        self.plan.tasks.iter().map(task).sum::<usize>()
            + self.response.as_ref().map_or(0, String::len)
    }
}

impl SessionView {
    pub(super) fn plan_created(&mut self, plan: &Plan, changes: &mut Vec<SessionChange>) {
        if let ([task], PlanStatus::Running) = (plan.tasks.as_slice(), plan.status) {
            self.agent = Some(task.agent.clone());
        }
        let view = PlanView::new(plan.clone());
        let is_known = self
            .timeline
            .change_plan(&plan.plan_id, |present| *present = view.clone());
        if !is_known {
            self.timeline.push(SessionItem::Plan(Box::new(view)));
        }
        changes.push(SessionChange::PlanCreated(plan.plan_id.clone()));
    }

    pub(super) fn plan_requested(
        &mut self,
        request: &PlanRequest,
        changes: &mut Vec<SessionChange>,
    ) {
        let is_known = self.timeline.change_plan(&request.plan_id, |view| {
            view.plan.status = PlanStatus::AwaitingApproval;
            view.request = Some(request.clone());
        });
        if is_known {
            changes.push(SessionChange::Waits(request.approval.call_id.clone()));
        }
    }

    pub(super) fn plan_resolved(
        &mut self,
        resolved: &PlanResolved,
        changes: &mut Vec<SessionChange>,
    ) {
        let mut call_id = None;
        self.timeline.change_plan(&resolved.plan_id, |view| {
            call_id = view.request.take().map(|request| request.approval.call_id);
            view.plan.status = match resolved.decision {
                ApprovalOutcome::Approved | ApprovalOutcome::Edited => PlanStatus::Running,
                ApprovalOutcome::Rejected
                | ApprovalOutcome::Expired
                | ApprovalOutcome::Cancelled => PlanStatus::Cancelled,
            };
            if !resolved.tasks.is_empty() {
                view.replace(&resolved.tasks);
            }
        });
        if let Some(call_id) = call_id {
            let decision = DecisionView {
                decision: resolved.decision,
                decided_by: resolved.decided_by.clone(),
                reason: resolved.reason.clone(),
            };
            changes.push(SessionChange::Resolved(call_id, decision));
        }
    }

    pub(super) fn task_started(&mut self, task: &TaskStarted, changes: &mut Vec<SessionChange>) {
        let (plan, id) = (&task.plan_id, &task.task_id);
        // A plan that is retried runs again.
        self.timeline
            .change_plan(plan, |view| view.plan.status = PlanStatus::Running);
        let mut started = Vec::new();
        self.change_task(plan, id, &mut started, |task, note| {
            task.status = TaskStatus::Running;
            (task.error, task.result) = (None, None);
            *note = None;
        });
        if !started.is_empty() {
            changes.push(SessionChange::TaskStarted(plan.clone(), id.clone()));
        }
    }

    pub(super) fn task_progress(&mut self, task: &TaskProgress, changes: &mut Vec<SessionChange>) {
        let step = TaskNote::Step(task.note.clone());
        self.change_task(&task.plan_id, &task.task_id, changes, |_, note| {
            *note = Some(step);
        });
    }

    pub(super) fn task_completed(
        &mut self,
        done: &TaskCompleted,
        changes: &mut Vec<SessionChange>,
    ) {
        let (Some(plan), Some(id)) = (&done.origin.plan_id, &done.origin.task_id) else {
            self.result.response = Some(done.response.clone());
            return self.add_usage(done.usage.clone(), changes);
        };
        self.change_task(plan, id, changes, |task, note| {
            task.status = match done.success {
                true => TaskStatus::Completed,
                false => TaskStatus::Failed,
            };
            task.result = Some(done.response.clone());
            task.usage.clone_from(&done.usage);
            *note = None;
        });
    }

    pub(super) fn task_failed(&mut self, failed: &TaskFailed, changes: &mut Vec<SessionChange>) {
        self.change_task(&failed.plan_id, &failed.task_id, changes, |task, note| {
            task.status = TaskStatus::Failed;
            task.error = Some(failed.error.clone());
            *note = None;
        });
    }

    pub(super) fn task_skipped(&mut self, skipped: &TaskSkipped, changes: &mut Vec<SessionChange>) {
        self.change_task(&skipped.plan_id, &skipped.task_id, changes, |task, note| {
            task.status = TaskStatus::Skipped;
            *note = Some(TaskNote::Because(skipped.because_of.clone()));
        });
    }

    pub(super) fn workflow_completed(
        &mut self,
        done: &WorkflowCompleted,
        changes: &mut Vec<SessionChange>,
    ) {
        let response = Some(done.response.clone()).filter(|text| !text.is_empty());
        let is_known = self.timeline.change_plan(&done.plan_id, |view| {
            view.request = None;
            view.response.clone_from(&response);
            view.plan.status = match done.status {
                WorkflowStatus::Completed => PlanStatus::Completed,
                WorkflowStatus::Partial => PlanStatus::Partial,
                WorkflowStatus::Failed => PlanStatus::Failed,
                WorkflowStatus::Cancelled => PlanStatus::Cancelled,
            };
            view.plan.tasks.iter_mut().for_each(stop);
        });
        self.result.workflow = Some(done.status);
        self.result.response = response;
        if is_known {
            changes.push(SessionChange::PlanEnded(done.plan_id.clone()));
        }
        self.add_usage(done.usage.clone(), changes);
    }

    /// An approval or a question of a task.
    pub(super) fn task_waits_for_person(
        &mut self,
        origin: &TaskOrigin,
        changes: &mut Vec<SessionChange>,
    ) {
        self.change_origin(origin, changes, |task, note| {
            task.status = TaskStatus::Waiting;
            *note = Some(TaskNote::WaitsForPerson);
        });
    }

    pub(super) fn task_waits_for_client(
        &mut self,
        origin: &TaskOrigin,
        changes: &mut Vec<SessionChange>,
    ) {
        self.change_origin(origin, changes, |task, _| task.status = TaskStatus::Waiting);
    }

    /// A task has what it waited for.
    pub(super) fn task_goes_on(&mut self, origin: &TaskOrigin, changes: &mut Vec<SessionChange>) {
        self.change_origin(origin, changes, |task, note| {
            // A task that has ended does not start again.
            if task.status == TaskStatus::Waiting {
                task.status = TaskStatus::Running;
            }
            note.take_if(|note| *note == TaskNote::WaitsForPerson);
        });
    }

    /// The person has decided; the tool call is still open.
    pub(super) fn task_was_answered(&mut self, origin: &TaskOrigin) {
        self.change_origin(origin, &mut Vec::new(), |_, note| {
            note.take_if(|note| *note == TaskNote::WaitsForPerson);
        });
    }

    pub(super) fn task_writes(&mut self, origin: &TaskOrigin) {
        self.change_origin(origin, &mut Vec::new(), |_, note| {
            *note = Some(TaskNote::Writes)
        });
    }

    fn change_origin(
        &mut self,
        origin: &TaskOrigin,
        changes: &mut Vec<SessionChange>,
        change: impl FnOnce(&mut Task, &mut Option<TaskNote>),
    ) {
        if let (Some(plan), Some(id)) = (&origin.plan_id, &origin.task_id) {
            self.change_task(plan, id, changes, change);
        }
    }

    fn change_task(
        &mut self,
        plan: &PlanId,
        id: &TaskId,
        changes: &mut Vec<SessionChange>,
        change: impl FnOnce(&mut Task, &mut Option<TaskNote>),
    ) {
        let mut has_changed = false;
        self.timeline.change_plan(plan, |view| {
            let mut note = view.notes.remove(id);
            if let Some(task) = view.plan.tasks.iter_mut().find(|task| task.id == *id) {
                let before = (task.status, note.clone());
                change(task, &mut note);
                has_changed = before != (task.status, note.clone());
            }
            if let Some(note) = note {
                view.notes.insert(id.clone(), note);
            }
        });
        if has_changed {
            changes.push(SessionChange::Task(plan.clone(), id.clone()));
        }
    }
}

/// No event of its own ends a task that was stopped with its workflow.
fn stop(task: &mut Task) {
    match task.status {
        TaskStatus::Completed
        | TaskStatus::Failed
        | TaskStatus::Skipped
        | TaskStatus::Cancelled => {}
        TaskStatus::Pending | TaskStatus::Queued | TaskStatus::Running | TaskStatus::Waiting => {
            task.status = TaskStatus::Cancelled;
        }
    }
}
