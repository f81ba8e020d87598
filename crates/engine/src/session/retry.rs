//! Running a turn again that failed or that a person stopped.

use codelab_protocol::{
    AgentName, CallerContext, ErrorCode, Message, MessageId, Plan, PlanId, SessionKind, TurnId,
    TurnStatus,
};
use serde::{Deserialize, Serialize};

use super::{QueuedMessage, Session, Transition};
use crate::turn::Turn;
use crate::{CallerAnswer, EventRange, Refusal};

/// The last turn, if it did not end well. The next message forgets it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EndedTurn {
    pub turn: TurnId,
    /// The user's message that it answered.
    pub message_id: MessageId,
    /// The agent that was called directly; none where the request was planned.
    pub agent: Option<AgentName>,
    /// The plan, if there was one.
    pub plan: Option<PlanId>,
    /// Nobody decided about the plan in time, so a person can ask for it again.
    pub plan_expired: bool,
}

/// A turn that ran an earlier one again, so that a request that is sent twice finds it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RetriedTurn {
    /// Of the turn that did not end well.
    pub message_id: MessageId,
    pub span: EventRange,
}

/// What the store knows of the turn that is to run again.
#[derive(Debug, Clone)]
pub struct RetriedRequest {
    /// The session's last turn, when the store was asked.
    pub turn: TurnId,
    pub message: Option<Message>,
    pub plan: Option<Plan>,
}

impl Session {
    /// The last turn, if it failed or was stopped.
    pub fn ended_turn(&self) -> Option<&EndedTurn> {
        self.ended.as_ref()
    }

    pub(crate) fn note_end(&mut self, turn: &Turn, status: TurnStatus) {
        let has_failed = matches!(status, TurnStatus::Failed | TurnStatus::Cancelled);
        let plan = turn
            .workflow()
            .filter(|workflow| !workflow.tasks.is_empty());
        let ended = EndedTurn {
            turn: turn.id,
            message_id: turn.message_id.clone(),
            agent: turn.called.clone(),
            plan: plan.map(|workflow| workflow.plan_id.clone()),
            plan_expired: false,
        };
        self.ended = Some(ended).filter(|_| has_failed && self.kind == SessionKind::Project);
    }

    /// The turn that already does what is asked: a second click, or a request that is sent again.
    fn retried(&self, named: Option<&MessageId>) -> Option<EventRange> {
        let retried = self.retried.as_ref()?;
        let turn = Some(retried.span.turn);
        // One that failed as well can be run once more.
        if self.ended.as_ref().map(|ended| ended.turn) == turn {
            return None;
        }
        let runs = self.turn.as_ref().map(|turn| turn.id) == turn;
        let is_it = named.map_or(runs, |named| *named == retried.message_id);
        is_it.then_some(retried.span)
    }
}

impl Transition<'_, '_> {
    /// `named`: the user's message whose turn is meant; absent: the last one.
    pub(super) fn retry_turn(
        &mut self,
        named: Option<&MessageId>,
        request: Option<RetriedRequest>,
        caller: CallerContext,
    ) -> Result<CallerAnswer, Refusal> {
        if let Some(span) = self.session.retried(named) {
            return Ok(CallerAnswer::Repeat(span));
        }
        if !self.session.is_idle() {
            let why = "The session is busy; retry when its turn has ended";
            return Err(Refusal::new(ErrorCode::Conflict, why));
        }
        let ended = self.session.ended.clone();
        let is_meant = |(ended, request): &(EndedTurn, RetriedRequest)| {
            request.turn == ended.turn && named.is_none_or(|named| *named == ended.message_id)
        };
        let Some((ended, request)) = ended.zip(request).filter(is_meant) else {
            let why = "The last turn neither failed nor was stopped, so there is nothing to retry";
            return Err(Refusal::new(ErrorCode::Conflict, why));
        };
        let answer = self.run_again(&ended, request, caller)?;
        if let CallerAnswer::Span(span) = answer {
            self.session.retried = Some(RetriedTurn {
                message_id: ended.message_id,
                span,
            });
        }
        Ok(answer)
    }

    /// What a plan had done is not done twice. Anything else begins anew, with the same words.
    fn run_again(
        &mut self,
        ended: &EndedTurn,
        request: RetriedRequest,
        caller: CallerContext,
    ) -> Result<CallerAnswer, Refusal> {
        let (text, attachments) = request
            .message
            .map(|message| (message.content, message.attachments))
            .unzip();
        if let Some(plan) = request.plan {
            let asked = text.as_deref().unwrap_or_default();
            match self.retry_plan(plan, asked, Some(ended.message_id.clone())) {
                // None of its tasks may run this way, so the request is planned once more.
                Err(refusal) if refusal.code == ErrorCode::Conflict => {}
                answer => return answer,
            }
        }
        if let Some(agent) = &ended.agent {
            self.world.team.known_agent(agent)?;
            self.free_agent(agent)?;
        }
        let Some(text) = text else {
            let why = "The request of the last turn is not stored any more";
            return Err(Refusal::new(ErrorCode::Conflict, why));
        };
        let span = EventRange {
            turn: self.session.new_turn_id(),
            after_seq: self.session.last_seq,
        };
        let is_planned = ended.agent.is_none();
        let waiting = QueuedMessage {
            turn: span.turn,
            message_id: self.world.ids.message_id(),
            workflow_id: is_planned.then(|| self.world.ids.workflow_id()),
            text,
            agent: ended.agent.clone(),
            caller,
            retries: Some(ended.message_id.clone()),
            // The session has their content already.
            attachments: attachments.unwrap_or_default(),
        };
        self.begin_turn(waiting);
        Ok(CallerAnswer::Span(span))
    }
}
