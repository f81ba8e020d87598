//! How a plan comes about: written by the model, mended once, or one task by keywords; then decided
//! by a person.

use codelab_protocol::{
    ErrorCode, ModelFailure, ModelOutput, PlanRequest, PlanResolved, PlannedTask, SessionEventBody,
    TurnId, WorkflowId, arguments_digest,
};
use serde_json::{Map, Value};

use super::{Repair, TaskState, Workflow, WorkflowPhase, fallback, graph};
use crate::output::EventLog;
use crate::session::Transition;
use crate::turn::{cut, error_data};
use crate::world::{MAX_REJECTION_BYTES, MAX_RESULT_BYTES, UNPRICED_PLAN_TOKENS};
use crate::{Approval, ApprovalKind, ApprovalOutcome, Decision, Refusal};

impl Transition<'_, '_> {
    pub(crate) fn begin_planning(&mut self, workflow_id: WorkflowId) {
        let workflow = Workflow {
            plan_id: self.world.ids.plan_id(),
            workflow_id,
            phase: WorkflowPhase::Planning {
                attempt: 0,
                repair: None,
            },
            fallback: false,
            requires_approval: false,
            tasks: Vec::new(),
            usage: None,
            reserved: None,
        };
        self.session.set_workflow(workflow);
        match self.world.team.specialists().next() {
            Some(_) => self.own_call(WorkflowPhase::Planning {
                attempt: 0,
                repair: None,
            }),
            None => self.nobody_to_plan_for(),
        }
    }

    fn nobody_to_plan_for(&mut self) {
        let Some((turn, _)) = self.session.workflow() else {
            never!("planning ended without a workflow");
            return;
        };
        let error = error_data(ErrorCode::AgentNotFound, "The project has no agents");
        self.session.note_error(&error.message);
        self.view().show_turn_error(turn, error.clone());
        let message_id = self.world.ids.message_id();
        self.finish_workflow(message_id, error.message, Vec::new());
    }

    pub(super) fn planned(&mut self, was_repair: bool, outcome: Result<ModelOutput, ModelFailure>) {
        // A planner that cannot be reached is not asked again: one agent takes the request.
        let Ok(output) = outcome else {
            return self.fall_back();
        };
        let tasks = super::parse_plan(&output.text)
            .and_then(|tasks| graph::checked(tasks, self.world.team, &self.space));
        match tasks {
            Ok(tasks) => self.plan_ready(tasks, false),
            Err(_) if was_repair => self.fall_back(),
            Err(error) => {
                let repair = Repair {
                    answer: cut(&output.text, MAX_RESULT_BYTES).to_owned(),
                    error,
                };
                self.own_call(WorkflowPhase::Planning {
                    attempt: 0,
                    repair: Some(repair),
                });
            }
        }
    }

    /// One agent takes the request as it is.
    pub(super) fn fall_back(&mut self) {
        let Some(turn) = &self.session.turn else {
            never!("planning fell back without a turn");
            return;
        };
        let request = turn.request.clone();
        let agent = fallback::agent(self.world.team, &request);
        match agent.and_then(|agent| graph::single(agent, request, &self.space)) {
            Some(task) => self.plan_ready(vec![task], true),
            None => self.nobody_to_plan_for(),
        }
    }

    fn plan_ready(&mut self, tasks: Vec<TaskState>, fallback: bool) {
        let limits = self.world.limits;
        let (many, dear) = (limits.plan_approval_tasks, limits.plan_approval_usd);
        self.session.rejected_plan = None;
        let Some(workflow) = self.session.workflow_mut() else {
            never!("a plan is ready without a workflow");
            return;
        };
        workflow.fallback = fallback;
        workflow.tasks = tasks;
        let reason = workflow.why_approved(many, dear);
        workflow.requires_approval = reason.is_some();
        workflow.phase = WorkflowPhase::Running;
        match reason {
            Some(reason) => self.ask_for_plan(reason),
            None => self.show_plan(),
        }
    }

    /// A plan that expired asks a person again.
    pub(crate) fn ask_again_for_plan(&mut self) {
        let limits = self.world.limits;
        let (many, dear) = (limits.plan_approval_tasks, limits.plan_approval_usd);
        let Some((_, workflow)) = self.session.workflow() else {
            never!("a plan is asked about again without a workflow");
            return;
        };
        let reason = workflow.why_approved(many, dear);
        // The limits can have changed since, but a person asked for it.
        self.ask_for_plan(reason.unwrap_or_else(|| workflow_size(workflow)));
    }

    pub(super) fn show_plan(&mut self) {
        match self.workflow_and_log() {
            Some((turn, workflow, mut log)) => workflow.show(turn, &mut log),
            None => never!("a plan is shown without a workflow"),
        }
    }

    fn ask_for_plan(&mut self, reason: String) {
        let Some((turn, workflow)) = self.session.workflow() else {
            never!("a plan is asked about without a workflow");
            return;
        };
        let (plan_id, call_id) = (workflow.plan_id.clone(), workflow.call_id());
        let arguments = plan_arguments(&workflow.tasks);
        let Some(call_id) = call_id else { return };
        let approval = self.open_approval(Approval {
            call_id,
            kind: ApprovalKind::Plan,
            tool: "plan".to_owned(),
            digest: arguments_digest("plan", &arguments),
            mcp: None,
            arguments,
            parts: Vec::new(),
            reason,
            remember: None,
            created_at: self.world.now,
            expires_at: None,
            timeout_seconds: 0,
            preview: None,
        });
        let request = PlanRequest {
            plan_id,
            approval: approval.info(),
        };
        self.set_phase(WorkflowPhase::AwaitingApproval { approval });
        self.show_plan();
        self.log()
            .event(turn, SessionEventBody::PlanRequest(request));
    }

    /// A person's word about the plan. An edit that cannot be run leaves it pending.
    pub(crate) fn decide_plan(
        &mut self,
        decision: Decision,
        decided_by: String,
    ) -> Result<(), Refusal> {
        let Some((_, workflow)) = self.session.workflow() else {
            never!("a plan is decided without a workflow");
            return Ok(());
        };
        let WorkflowPhase::AwaitingApproval { approval } = &workflow.phase else {
            never!("a plan is decided that waits for no approval");
            return Ok(());
        };
        let approval = approval.clone();
        match decision {
            Decision::Approve { .. } => {
                self.close_approval(
                    &approval,
                    ApprovalOutcome::Approved,
                    None,
                    decided_by.clone(),
                    None,
                );
                self.plan_resolved(ApprovalOutcome::Approved, decided_by, None, Vec::new());
                self.set_phase(WorkflowPhase::Running);
            }
            Decision::Edit { arguments } => {
                let tasks = self.edited_tasks(&arguments)?;
                let planned: Vec<PlannedTask> = tasks.iter().map(TaskState::planned).collect();
                let modified = Some(plan_arguments(&tasks));
                match self.session.workflow_mut() {
                    Some(workflow) => workflow.tasks = tasks,
                    None => never!("a plan is edited without a workflow"),
                }
                self.close_approval(
                    &approval,
                    ApprovalOutcome::Edited,
                    modified,
                    decided_by.clone(),
                    None,
                );
                self.plan_resolved(ApprovalOutcome::Edited, decided_by, None, planned);
                self.set_phase(WorkflowPhase::Running);
            }
            Decision::Reject { feedback } => {
                self.close_approval(
                    &approval,
                    ApprovalOutcome::Rejected,
                    None,
                    decided_by.clone(),
                    feedback.clone(),
                );
                let said = feedback.as_deref().map(str::trim);
                let said = said.filter(|said| !said.is_empty()).map(str::to_owned);
                self.plan_resolved(ApprovalOutcome::Rejected, decided_by, feedback, Vec::new());
                self.set_phase(WorkflowPhase::Running);
                self.end_workflow_early(error_data(ErrorCode::Cancelled, "The plan was rejected"));
                if let Some(said) = said {
                    self.session
                        .note_error(&format!("A person rejected the plan: {said}"));
                    let said = cut(&said, MAX_REJECTION_BYTES).to_owned();
                    self.session.rejected_plan = Some(said);
                }
            }
        }
        Ok(())
    }

    fn edited_tasks(&self, arguments: &Map<String, Value>) -> Result<Vec<TaskState>, Refusal> {
        let invalid = |why: String| {
            Refusal::new(
                ErrorCode::InvalidPlan,
                format!("The plan cannot be run: {why}"),
            )
        };
        let tasks = arguments
            .get("tasks")
            .cloned()
            .ok_or_else(|| invalid("tasks are missing".to_owned()))?;
        let tasks: Vec<PlannedTask> =
            serde_json::from_value(tasks).map_err(|error| invalid(error.to_string()))?;
        graph::checked(tasks, self.world.team, &self.space).map_err(invalid)
    }

    pub(super) fn plan_resolved(
        &mut self,
        decision: ApprovalOutcome,
        decided_by: String,
        reason: Option<String>,
        tasks: Vec<PlannedTask>,
    ) {
        let Some((turn, workflow, mut log)) = self.workflow_and_log() else {
            never!("a plan is resolved without a workflow");
            return;
        };
        let resolved = PlanResolved {
            plan_id: workflow.plan_id.clone(),
            decision,
            decided_by,
            reason,
            tasks,
        };
        log.event(turn, SessionEventBody::PlanResolved(resolved));
    }

    /// Nobody decided in time: the workflow ends.
    pub(crate) fn plan_expired(&mut self) {
        let now = self.world.now;
        // A direct call has no plan.
        let Some((_, workflow)) = self.session.workflow() else {
            return;
        };
        if workflow.deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        let Some(approval) = workflow.approval().cloned() else {
            never!("a deadline without an approval");
            return;
        };
        self.close_approval(
            &approval,
            ApprovalOutcome::Expired,
            None,
            "timeout".to_owned(),
            None,
        );
        if approval.kind == ApprovalKind::Plan {
            self.plan_resolved(
                ApprovalOutcome::Expired,
                "timeout".to_owned(),
                None,
                Vec::new(),
            );
        }
        self.set_phase(WorkflowPhase::Running);
        let message = format!(
            "Nobody decided about the {} in time",
            approval.kind.as_str()
        );
        let error = error_data(ErrorCode::HitlTimeout, &message);
        match approval.kind {
            ApprovalKind::Budget => self.stop_workflow(error),
            ApprovalKind::Plan | ApprovalKind::Tool => {
                self.end_workflow_early(error);
                // Absent where a message waited and its turn began.
                if let Some(ended) = &mut self.session.ended {
                    ended.plan_expired = true;
                }
            }
        }
    }

    /// A person allowed to spend more. If a request waited for that before it was planned, planning
    /// starts.
    pub(crate) fn planning_may_spend(&mut self) {
        if let Some(WorkflowPhase::AwaitingBudget { attempt, .. }) = self.session.workflow_phase() {
            let repair = None;
            self.own_call(WorkflowPhase::Planning { attempt, repair });
        }
    }
}

fn workflow_size(workflow: &Workflow) -> String {
    format!("The plan has {} tasks", workflow.tasks.len())
}

impl Workflow {
    /// Why a person is asked before the plan runs; none where nobody is.
    fn why_approved(&self, many: usize, dear: f64) -> Option<String> {
        let cost = self.estimated_cost_usd();
        if self.tasks.len() >= many {
            return Some(workflow_size(self));
        }
        if cost > dear {
            return Some(format!("The plan may cost ${cost:.2}"));
        }
        let tokens = self.unpriced_tokens()?;
        (tokens > UNPRICED_PLAN_TOKENS)
            .then(|| format!("The plan may use {tokens} tokens, and what they cost is not known"))
    }

    fn show(&self, turn: TurnId, log: &mut EventLog<'_>) {
        log.event(turn, SessionEventBody::TaskPlanCreated(self.plan(None)));
    }
}

fn plan_arguments(tasks: &[TaskState]) -> Map<String, Value> {
    let planned: Vec<PlannedTask> = tasks.iter().map(TaskState::planned).collect();
    let mut arguments = Map::new();
    arguments.insert(
        "tasks".to_owned(),
        serde_json::to_value(planned).unwrap_or_default(),
    );
    arguments
}
