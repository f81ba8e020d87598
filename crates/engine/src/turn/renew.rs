//! Renewal: a question to a person gets its full time again.

use codelab_protocol::{
    CallId, ErrorCode, Plan, PlanRequest, SessionEventBody, SessionKind, Timestamp,
};

use super::{Turn, TurnWork};
use crate::plan::WorkflowPhase;
use crate::session::Transition;
use crate::turn::ThreadPhase;
use crate::{Approval, ApprovalKind, CallerAnswer, Effect, Refusal, Session};

impl Session {
    /// The plan that expired with the last turn, if it can be asked about again.
    pub fn expired_plan(&self, call_id: &CallId) -> Option<&codelab_protocol::PlanId> {
        let ended = self.ended.as_ref().filter(|ended| ended.plan_expired)?;
        let plan = ended.plan.as_ref()?;
        (plan.as_str() == call_id.as_str() && self.is_idle()).then_some(plan)
    }

    /// Every place where the approval stands: tasks can share a question about the budget.
    pub(super) fn approvals_mut(&mut self, call_id: &CallId) -> Vec<&mut Box<Approval>> {
        let Some(turn) = &mut self.turn else {
            return Vec::new();
        };
        let mut found: Vec<&mut Box<Approval>> = match &mut turn.work {
            TurnWork::Thread(thread) => thread
                .iter_mut()
                .filter_map(|thread| thread.phase.approval_mut())
                .collect(),
            TurnWork::Workflow(workflow) => {
                let of_plan = match &mut workflow.phase {
                    WorkflowPhase::AwaitingApproval { approval }
                    | WorkflowPhase::AwaitingBudget { approval, .. } => Some(approval),
                    WorkflowPhase::AwaitingRoom { .. }
                    | WorkflowPhase::Planning { .. }
                    | WorkflowPhase::Running
                    | WorkflowPhase::Joining { .. } => None,
                };
                let tasks = workflow.tasks.iter_mut();
                let of_tasks = tasks.filter_map(|task| task.thread_mut()?.phase.approval_mut());
                of_plan.into_iter().chain(of_tasks).collect()
            }
        };
        found.retain(|approval| approval.call_id == *call_id);
        found
    }
}

impl ThreadPhase {
    fn approval_mut(&mut self) -> Option<&mut Box<Approval>> {
        match self {
            Self::AwaitingApproval { approval, .. } | Self::AwaitingBudget { approval, .. } => {
                Some(approval)
            }
            Self::Routing { .. }
            | Self::Queued
            | Self::Thinking { .. }
            | Self::AwaitingResult { .. }
            | Self::Calling { .. }
            | Self::AwaitingAnswer { .. }
            | Self::AwaitingRoom => None,
        }
    }
}

impl Transition<'_, '_> {
    /// `expired`: the plan as it was stored, where the last turn ended because nobody decided about
    /// it. `known`: the store knows the approval as decided, expired or cancelled.
    pub(crate) fn renew(
        &mut self,
        call_id: &CallId,
        expired: Option<(Plan, String)>,
        known: bool,
    ) -> Result<CallerAnswer, Refusal> {
        let seconds = self.world.limits.approval_timeout_seconds;
        let until = (seconds > 0).then(|| self.world.now.plus_seconds(seconds));
        let renewed = self.session.approvals_mut(call_id);
        if !renewed.is_empty() {
            for approval in renewed {
                (approval.expires_at, approval.timeout_seconds) = (until, seconds);
            }
            self.show_renewed(call_id, until);
            return Ok(CallerAnswer::Nothing);
        }
        let is_it =
            |(plan, _): &(Plan, String)| self.session.expired_plan(call_id) == Some(&plan.plan_id);
        match expired.filter(is_it) {
            Some((plan, request)) => self.reopen_plan(plan, &request),
            None => Err(super::approval::not_pending(call_id, known)),
        }
    }

    /// Readers learn the new time from the question itself, and the list of what waits as well.
    fn show_renewed(&mut self, call_id: &CallId, until: Option<Timestamp>) {
        // Without a limit it never expires, and nothing has to be moved.
        if let Some(expires_at) = until {
            self.output.push(Effect::ApprovalMoved {
                call_id: call_id.clone(),
                expires_at,
            });
        }
        if self.session.kind == SessionKind::Runtime {
            return;
        }
        let Some(turn) = &self.session.turn else {
            never!("an approval is renewed outside of a turn");
            return;
        };
        let (id, suspended) = (turn.id, turn.suspended());
        let Some(approval) = self
            .session
            .pending_approvals()
            .find(|approval| approval.call_id == *call_id)
            .cloned()
        else {
            never!("an approval is renewed that is not pending");
            return;
        };
        let asks = |turn: &Turn| {
            let mut threads = turn.threads();
            threads
                .find(|thread| thread.phase.approval().map(|a| &a.call_id) == Some(call_id))
                .cloned()
        };
        let plan = turn.workflow().map(|workflow| workflow.plan_id.clone());
        match (approval.kind, asks(turn), plan) {
            (ApprovalKind::Plan, _, Some(plan_id)) => {
                let request = PlanRequest {
                    plan_id,
                    approval: approval.info(),
                };
                self.log().event(id, SessionEventBody::PlanRequest(request));
            }
            (_, Some(thread), _) => self.view().show_approval(&thread, &approval, None),
            (_, None, _) => self.show_own_approval(id, &approval),
        }
        let waiting = self.session.waiting().into_iter();
        for waits in waiting.filter(|waits| waits.call_id == *call_id) {
            self.log().event(id, SessionEventBody::WaitingAdded(waits));
        }
        if let Some(status) = suspended {
            self.output.settle_turn(id, status);
        }
    }

    /// A plan that expired becomes pending again, in a turn of its own.
    fn reopen_plan(&mut self, plan: Plan, request: &str) -> Result<CallerAnswer, Refusal> {
        let Some(ended) = self.session.ended.clone() else {
            return Err(Refusal::new(
                ErrorCode::Conflict,
                "The session went on since the plan expired",
            ));
        };
        self.agents_are_there(&plan.tasks)?;
        let span = self.resume_plan(plan, request, Some(ended.message_id));
        self.ask_again_for_plan();
        Ok(CallerAnswer::Span(span))
    }
}
