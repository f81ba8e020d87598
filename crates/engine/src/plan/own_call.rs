//! The model calls of a workflow itself: the plan, its repair, and the joined answer. Each sets
//! aside what it may take.

use codelab_protocol::{ModelFailure, ModelOutput, SessionEventBody, TurnId};

use super::WorkflowPhase;
use crate::session::Transition;
use crate::turn::{BudgetQuestion, Reservation, Reserved};
use crate::{AgentSpending, Approval, Effect, Lane, ModelCall, Purpose, orchestrator};

impl Transition<'_, '_> {
    /// Makes the call that this phase waits for, now or when there is room for it. Where a person
    /// would have to be asked, only a first plan is worth that.
    pub(crate) fn own_call(&mut self, next: WorkflowPhase) {
        match self.set_aside_own(&next) {
            Reservation::Taken(taken) => {
                self.set_phase(next);
                self.call_planner(taken.max_tokens);
            }
            Reservation::Waits => self.set_phase(WorkflowPhase::AwaitingRoom {
                next: Box::new(next),
            }),
            Reservation::Asks(question) => match next {
                WorkflowPhase::Planning { repair: None, .. } => self.ask_before_planning(&question),
                WorkflowPhase::Joining { message_id, .. } => self.finish_concatenated(message_id),
                // What is left is for the work itself.
                _ => self.fall_back(),
            },
        }
    }

    fn set_aside_own(&mut self, next: &WorkflowPhase) -> Reservation {
        let room = self.set_aside(Lane::OWN, &orchestrator(), self.own_size(next));
        if let (Reservation::Taken(Reserved { spending, .. }), Some(workflow)) =
            (&room, self.workflow_mut())
        {
            workflow.reserved = Some(*spending);
        }
        room
    }

    fn ask_before_planning(&mut self, question: &BudgetQuestion) {
        let Some((turn, _)) = self.workflow() else {
            return;
        };
        let approval = self.budget_approval(question);
        self.show_own_approval(turn, &approval);
        self.set_phase(WorkflowPhase::AwaitingBudget {
            approval,
            scope: question.scope,
            why: question.why,
        });
    }

    fn show_own_approval(&mut self, turn: TurnId, approval: &Approval) {
        let shown = codelab_protocol::ApprovalRequest {
            approval: approval.info(),
            agent: None,
            origin: Default::default(),
        };
        self.event(turn, SessionEventBody::ApprovalRequest(Box::new(shown)));
    }

    fn call_planner(&mut self, max_tokens: Option<u32>) {
        let Some((turn, workflow)) = self.workflow() else {
            return;
        };
        let (Some(id), Some(asked)) = (workflow.model_call(turn), &self.session.turn) else {
            return;
        };
        let purpose = match &workflow.phase {
            WorkflowPhase::Planning { repair, .. } => Purpose::Plan {
                repair: repair.clone(),
            },
            WorkflowPhase::Joining { message_id, .. } => {
                let results = workflow.handed_on(|_| true);
                Purpose::Join {
                    message_id: message_id.clone(),
                    request: asked.request.clone(),
                    results,
                }
            }
            _ => return,
        };
        self.effects.push(Effect::CallModel(ModelCall {
            id,
            agent: orchestrator(),
            purpose,
            max_tokens,
        }));
    }

    /// The workflow's own model call ended: a plan, or the joined answer.
    pub(crate) fn workflow_answered(&mut self, outcome: Result<ModelOutput, ModelFailure>) {
        let Some((turn, workflow)) = self.workflow_mut_with_turn() else {
            return;
        };
        let phase = workflow.phase.clone();
        let usage = outcome.as_ref().ok().and_then(|output| output.usage);
        workflow.reserved = None;
        if let Some(usage) = usage {
            workflow.usage = Some(workflow.usage.map_or(usage, |before| before.plus(usage)));
            self.spent(AgentSpending {
                agent: orchestrator(),
                turn,
                task: None,
                usage,
            });
        }
        self.space_spends(Lane::OWN, usage);
        match phase {
            WorkflowPhase::Planning { repair, .. } => self.planned(repair.is_some(), outcome),
            WorkflowPhase::Joining { message_id, .. } => self.joined(message_id, outcome),
            _ => {}
        }
    }
}
