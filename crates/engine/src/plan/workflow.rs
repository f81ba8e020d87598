//! The workflow of the current turn, as a step finds it, changes it and writes it down.

use codelab_protocol::{PlanId, PlanStatus, TaskStatus, TurnId};

use super::{TaskState, Workflow, WorkflowPhase};
use crate::prompt::tokens_of_text;
use crate::session::Transition;
use crate::turn::TurnWork;
use crate::{Effect, Session};

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
}

impl Transition<'_, '_> {
    /// The plan as it stands is part of each commit that changes it.
    pub(crate) fn save_changed_plan(&mut self, before: Option<(PlanId, Vec<TaskStatus>)>) {
        let now = self.session.task_statuses();
        if now.is_some() && now != before {
            self.save_plan(None);
        }
    }

    pub(super) fn save_plan(&mut self, ended: Option<PlanStatus>) {
        let Some((turn, workflow)) = self.workflow() else {
            return;
        };
        let plan = Box::new(workflow.plan(ended));
        if ended.is_some() {
            self.note_plan(&plan);
        }
        self.effects.push(Effect::PlanSaved { turn, plan });
    }

    pub(super) fn workflow(&self) -> Option<(TurnId, &Workflow)> {
        let turn = self.session.turn.as_ref()?;
        Some((turn.id, turn.workflow()?))
    }

    pub(crate) fn workflow_phase(&self) -> Option<WorkflowPhase> {
        self.workflow().map(|(_, workflow)| workflow.phase.clone())
    }

    /// The size of what a joined answer is made of, by the estimate.
    pub(crate) fn workflow_result_tokens(&self) -> u64 {
        let results = self
            .workflow()
            .map(|(_, workflow)| workflow.handed_on(|_| true))
            .unwrap_or_default();
        results.iter().map(|result| tokens_of_text(result)).sum()
    }

    pub(super) fn workflow_mut_with_turn(&mut self) -> Option<(TurnId, &mut Workflow)> {
        let turn = self.session.turn.as_mut()?;
        match &mut turn.work {
            TurnWork::Workflow(workflow) => Some((turn.id, workflow)),
            TurnWork::Thread(_) => None,
        }
    }

    pub(super) fn workflow_mut(&mut self) -> Option<&mut Workflow> {
        self.workflow_mut_with_turn().map(|(_, workflow)| workflow)
    }

    pub(super) fn set_workflow(&mut self, workflow: Workflow) {
        if let Some(turn) = &mut self.session.turn {
            turn.work = TurnWork::Workflow(Box::new(workflow));
        }
    }

    pub(super) fn set_phase(&mut self, phase: WorkflowPhase) {
        if let Some(workflow) = self.workflow_mut() {
            workflow.phase = phase;
        }
        self.changed = true;
    }
}
