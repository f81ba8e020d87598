//! The workflow of the current turn, as a step finds it, changes it and writes it down.

use codelab_protocol::{PlanId, PlanStatus, TaskStatus, TurnId};

use super::{TaskState, Workflow, WorkflowPhase};
use crate::output::EventLog;
use crate::prompt::tokens_of_text;
use crate::session::Transition;
use crate::turn::{Turn, TurnWork};
use crate::{Approval, BudgetScope, BudgetWhy, Effect, Session};

impl Session {
    /// How the tasks of the plan stand, if there is one.
    pub(crate) fn task_statuses(&self) -> Option<(PlanId, Vec<TaskStatus>)> {
        let workflow = self
            .turn
            .as_ref()?
            .workflow()
            .filter(|workflow| !workflow.tasks.is_empty())?;
        Some((
            workflow.plan_id.clone(),
            workflow.tasks.iter().map(TaskState::status).collect(),
        ))
    }

    /// The size of what a joined answer is made of, by the estimate.
    pub(crate) fn workflow_result_tokens(&self) -> u64 {
        let workflow = self.turn.as_ref().and_then(Turn::workflow);
        let results = workflow
            .map(|workflow| workflow.handed_on(|_| true))
            .unwrap_or_default();
        results.iter().map(|result| tokens_of_text(result)).sum()
    }

    /// The question that is open before there is a plan.
    pub(crate) fn planning_budget(&self) -> Option<(Box<Approval>, BudgetScope, BudgetWhy)> {
        match &self.turn.as_ref()?.workflow()?.phase {
            WorkflowPhase::AwaitingBudget {
                approval,
                scope,
                why,
                ..
            } => Some((approval.clone(), *scope, *why)),
            WorkflowPhase::AwaitingRoom { .. }
            | WorkflowPhase::Planning { .. }
            | WorkflowPhase::AwaitingApproval { .. }
            | WorkflowPhase::Running
            | WorkflowPhase::Joining { .. } => None,
        }
    }

    pub(super) fn workflow(&self) -> Option<(TurnId, &Workflow)> {
        let turn = self.turn.as_ref()?;
        Some((turn.id, turn.workflow()?))
    }

    pub(crate) fn workflow_phase(&self) -> Option<WorkflowPhase> {
        self.workflow().map(|(_, workflow)| workflow.phase.clone())
    }

    pub(super) fn workflow_mut_with_turn(&mut self) -> Option<(TurnId, &mut Workflow)> {
        let turn = self.turn.as_mut()?;
        match &mut turn.work {
            TurnWork::Workflow(workflow) => Some((turn.id, workflow)),
            TurnWork::Thread(_) => None,
        }
    }

    pub(super) fn workflow_mut(&mut self) -> Option<&mut Workflow> {
        self.workflow_mut_with_turn().map(|(_, workflow)| workflow)
    }

    pub(super) fn set_workflow(&mut self, workflow: Workflow) {
        match &mut self.turn {
            Some(turn) => turn.work = TurnWork::Workflow(Box::new(workflow)),
            None => never!("a workflow begins outside of a turn"),
        }
    }
}

impl Transition<'_, '_> {
    /// A commit that changes the plan stores it.
    pub(crate) fn save_changed_plan(&mut self, before: Option<(PlanId, Vec<TaskStatus>)>) {
        let now = self.session.task_statuses();
        if now.is_some() && now != before {
            self.save_plan(None);
        }
    }

    pub(super) fn save_plan(&mut self, ended: Option<PlanStatus>) {
        let Some((turn, workflow)) = self.session.workflow() else {
            never!("a plan is saved without a workflow");
            return;
        };
        let plan = Box::new(workflow.plan(ended));
        if ended.is_some() {
            self.note_plan(&plan);
        }
        self.output.push(Effect::PlanSaved { turn, plan });
    }

    /// The workflow and the events that it may add; nothing else of the session.
    pub(super) fn workflow_and_log(&mut self) -> Option<(TurnId, &mut Workflow, EventLog<'_>)> {
        let turn = self.session.turn.as_mut()?;
        let log = EventLog {
            last_seq: &mut self.session.last_seq,
            output: &mut self.output,
        };
        match &mut turn.work {
            TurnWork::Workflow(workflow) => Some((turn.id, workflow, log)),
            TurnWork::Thread(_) => None,
        }
    }

    pub(super) fn set_phase(&mut self, phase: WorkflowPhase) {
        match self.session.workflow_mut() {
            Some(workflow) => workflow.phase = phase,
            None => never!("the phase of a workflow changes that is not there"),
        }
        self.output.mark_changed();
    }
}
