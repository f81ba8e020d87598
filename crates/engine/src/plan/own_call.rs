//! The model calls of a workflow itself: the plan, its repair, and the joined answer. Each sets
//! aside what it may take.

use codelab_protocol::{ModelFailure, ModelOutput, SessionEventBody, TurnId};

use super::WorkflowPhase;
use crate::prompt::without_middle;
use crate::session::Transition;
use crate::turn::{BudgetQuestion, Reservation, Reserved};
use crate::world::MAX_REQUEST_BYTES;
use crate::{AgentSpending, Approval, Effect, Lane, ModelCall, Purpose, orchestrator};

impl Transition<'_, '_> {
    /// Makes the call that this phase waits for, now or when there is room for it. Where a person
    /// would have to be asked, only a first plan is worth that.
    pub(crate) fn own_call(&mut self, next: WorkflowPhase) {
        match self.set_aside_own(&next) {
            Reservation::Granted(granted) => {
                self.set_phase(next);
                self.call_planner(granted.max_tokens);
            }
            Reservation::Waits => self.set_phase(WorkflowPhase::AwaitingRoom {
                next: Box::new(next),
            }),
            Reservation::Asks(question) => match next {
                WorkflowPhase::Planning {
                    repair: None,
                    attempt,
                } => self.ask_before_planning(&question, attempt),
                WorkflowPhase::Joining { message_id, .. } => self.finish_concatenated(message_id),
                // Too little is left to repair the plan. The fallback plan gets the rest.
                WorkflowPhase::Planning {
                    repair: Some(_), ..
                } => self.fall_back(),
                WorkflowPhase::AwaitingBudget { .. }
                | WorkflowPhase::AwaitingRoom { .. }
                | WorkflowPhase::AwaitingApproval { .. }
                | WorkflowPhase::Running => {
                    never!("a workflow makes no model call in this phase");
                }
            },
        }
    }

    fn set_aside_own(&mut self, next: &WorkflowPhase) -> Reservation {
        let mut funds = self.funds();
        let size = funds.own_size(next);
        let room = funds.set_aside(Lane::OWN, &orchestrator(), size);
        if let (Reservation::Granted(Reserved { spending, .. }), Some(workflow)) =
            (&room, self.session.workflow_mut())
        {
            workflow.reserved = Some(*spending);
        }
        room
    }

    fn ask_before_planning(&mut self, question: &BudgetQuestion, attempt: u32) {
        let Some((turn, _)) = self.session.workflow() else {
            never!("a budget question before planning without a workflow");
            return;
        };
        let approval = self.budget_approval(question);
        self.show_own_approval(turn, &approval);
        self.set_phase(WorkflowPhase::AwaitingBudget {
            approval,
            scope: question.scope,
            why: question.why,
            attempt,
        });
    }

    pub(crate) fn show_own_approval(&mut self, turn: TurnId, approval: &Approval) {
        let shown = codelab_protocol::ApprovalRequest {
            approval: approval.info(),
            agent: None,
            origin: Default::default(),
        };
        self.log()
            .event(turn, SessionEventBody::ApprovalRequest(Box::new(shown)));
    }

    fn call_planner(&mut self, max_tokens: Option<u32>) {
        let Some((turn, workflow)) = self.session.workflow() else {
            never!("the planner is called without a workflow");
            return;
        };
        let (Some(id), Some(asked)) = (workflow.model_call(turn), &self.session.turn) else {
            never!("the planner is called in a phase that has no call");
            return;
        };
        let purpose = match &workflow.phase {
            WorkflowPhase::Planning { repair, .. } => Purpose::Plan {
                repair: repair.clone(),
            },
            WorkflowPhase::Joining { message_id, .. } => {
                let results = workflow.handed_on(|_| true);
                let steered: Vec<&str> = self.session.steered_by().collect();
                let mut request = asked.request.clone();
                if !steered.is_empty() {
                    request.push_str("\n\nWhile the agents worked, the user added:\n\n");
                    let added = steered.join("\n\n");
                    request.push_str(&without_middle(&added, MAX_REQUEST_BYTES));
                }
                Purpose::Join {
                    message_id: message_id.clone(),
                    request,
                    results,
                }
            }
            WorkflowPhase::AwaitingBudget { .. }
            | WorkflowPhase::AwaitingRoom { .. }
            | WorkflowPhase::AwaitingApproval { .. }
            | WorkflowPhase::Running => {
                never!("a workflow makes no model call in this phase");
                return;
            }
        };
        self.output.push(Effect::CallModel(ModelCall {
            id,
            agent: orchestrator(),
            purpose,
            max_tokens,
            recall: None,
        }));
    }

    /// The workflow's own model call ended: a plan, or the joined answer.
    pub(crate) fn workflow_answered(&mut self, outcome: Result<ModelOutput, ModelFailure>) {
        let Some((turn, workflow)) = self.session.workflow_mut_with_turn() else {
            never!("the planner answered without a workflow");
            return;
        };
        let phase = workflow.phase.clone();
        let usage = outcome
            .as_ref()
            .ok()
            .and_then(|output| output.usage.clone());
        workflow.reserved = None;
        if let Some(usage) = usage.clone() {
            let before = workflow.usage.take();
            workflow.usage =
                Some(before.map_or_else(|| usage.clone(), |sum| sum.plus(usage.clone())));
            self.spent(AgentSpending {
                agent: orchestrator(),
                turn,
                task: None,
                usage,
            });
        }
        self.space_spends(Lane::OWN, usage.as_ref());
        match phase {
            WorkflowPhase::Planning { repair, .. } => self.planned(repair.is_some(), outcome),
            WorkflowPhase::Joining { message_id, .. } => self.joined(message_id, outcome),
            WorkflowPhase::AwaitingBudget { .. }
            | WorkflowPhase::AwaitingRoom { .. }
            | WorkflowPhase::AwaitingApproval { .. }
            | WorkflowPhase::Running => {
                never!("a workflow awaits no model call in this phase");
            }
        }
    }
}
