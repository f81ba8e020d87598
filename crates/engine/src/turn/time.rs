//! Time: working time and deadlines, what expires, what a restart changes.

use codelab_protocol::{
    AgentName, CallOutcome, ErrorCode, ErrorData, ModelFailureKind, ModelFallback, ModelWaiting,
    SessionKind, TaskOrigin, Timestamp,
};

use super::thread::LostCall;
use super::{OpenCall, REFUSED, Thread, ThreadPhase, Turn, TurnWork, error_data};
use crate::output::Output;
use crate::session::Transition;
use crate::world::{MAX_ATTEMPTS, RECOVERY_GRACE_SECONDS};
use crate::{
    Approval, CallStatus, CallerAnswer, Downtime, Effect, Lane, ModelCallId, Session, orchestrator,
};

impl Thread {
    /// When the thread is due, if nothing comes before.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        match &self.phase {
            ThreadPhase::AwaitingApproval { approval, .. }
            | ThreadPhase::AwaitingBudget { approval, .. } => approval.expires_at,
            ThreadPhase::AwaitingResult {
                claim: Some(claim), ..
            } => Some(claim.until),
            ThreadPhase::AwaitingResult { deadline, .. } => Some(*deadline),
            ThreadPhase::Thinking { .. } => [self.work_ends(), self.silence_ends()]
                .into_iter()
                .flatten()
                .min(),
            // The MCP client has a limit of its own.
            ThreadPhase::Calling { .. }
            | ThreadPhase::AwaitingAnswer { .. }
            | ThreadPhase::AwaitingRoom
            | ThreadPhase::Routing { .. }
            | ThreadPhase::Queued => None,
        }
    }

    /// When its working time is used up.
    fn work_ends(&self) -> Option<Timestamp> {
        let left = self.limit_ms?.saturating_sub(self.worked_ms);
        Some(self.since?.plus_millis(left as i64))
    }

    /// When its model has been silent for too long. While the clock of its work is stopped, nobody
    /// expects to hear anything.
    fn silence_ends(&self) -> Option<Timestamp> {
        let heard = self.heard?.max(self.since?);
        Some(heard.plus_millis(self.silence_ms? as i64))
    }
}

impl Output {
    pub(crate) fn move_approval(&mut self, approval: &mut Approval, down: Downtime) {
        if let Some(expires_at) = approval.expires_at {
            let expires_at = moved(expires_at, down);
            approval.expires_at = Some(expires_at);
            self.push(Effect::ApprovalMoved {
                call_id: approval.call_id.clone(),
                expires_at,
            });
        }
    }
}

impl Session {
    /// Whether the turn's work is a workflow.
    pub(crate) fn in_workflow(&self) -> bool {
        matches!(&self.turn, Some(turn) if matches!(turn.work, TurnWork::Workflow(_)))
    }
}

impl Transition<'_, '_> {
    /// A model call that has not begun is not work: the thread's clock stops until it begins.
    pub(crate) fn call_waits(&mut self, call: ModelCallId, waits: bool) -> CallerAnswer {
        let wanted = |turn: &Turn| {
            turn.threads()
                .any(|thread| thread.model_call() == Some(call))
        };
        // Nobody awaits the call any more.
        if !self.session.turn.as_ref().is_some_and(wanted) {
            return CallerAnswer::Nothing;
        }
        let Some(mut thread) = self.session.take_thread(call.lane) else {
            never!("a thread that awaits a model call is not in its turn");
            return CallerAnswer::Nothing;
        };
        match (waits, thread.since) {
            (true, Some(since)) => {
                thread.worked_ms += self.world.now.millis_since(since).max(0) as u64;
                thread.since = None;
                self.output.mark_changed();
            }
            // Only a thread that holds a slot works against a clock.
            (false, None) if thread.slot.is_some() => {
                thread.since = Some(self.world.now);
                self.output.mark_changed();
            }
            // The clock is stopped or runs already.
            (true, None) | (false, Some(_)) | (false, None) => {}
        }
        self.session.put(thread);
        CallerAnswer::Nothing
    }

    /// The thread's clock stops while the model's server keeps it waiting.
    pub(crate) fn model_waits(
        &mut self,
        call: ModelCallId,
        ms: u64,
        kind: ModelFailureKind,
    ) -> CallerAnswer {
        // The turn can have ended while its model call was under way.
        let Some((agent, origin)) = self.maker_of(call) else {
            return CallerAnswer::Nothing;
        };
        let until = i64::try_from(ms).map_or(self.world.now, |ms| self.world.now.plus_millis(ms));
        self.view().show_model_waiting(
            call.turn,
            ModelWaiting {
                kind,
                until,
                agent,
                origin,
            },
        );
        let Some(turn) = &mut self.session.turn else {
            return CallerAnswer::Nothing;
        };
        let waits = |thread: &&mut Thread| thread.model_call() == Some(call);
        if let Some(thread) = turn.threads_mut().into_iter().find(waits)
            && let Some(since) = thread.since
        {
            let ms = i64::try_from(ms).unwrap_or(i64::MAX);
            thread.since = Some(since.plus_millis(ms));
            // Nothing is to be heard before the wait is over.
            thread.heard = Some(self.world.now.plus_millis(ms));
            self.output.mark_changed();
        }
        CallerAnswer::Nothing
    }

    /// Another model is asked; that is said, because it may answer differently and cost more.
    pub(crate) fn model_fell_back(
        &mut self,
        call: ModelCallId,
        (from, to): (String, String),
        kind: ModelFailureKind,
    ) -> CallerAnswer {
        if let Some((agent, origin)) = self.maker_of(call) {
            let fallback = ModelFallback {
                from,
                to,
                kind,
                agent,
                origin,
            };
            self.view().show_model_fallback(call.turn, fallback);
            let now = self.world.now;
            self.model_heard(call, now);
        }
        CallerAnswer::Nothing
    }

    /// Who makes a model call that is awaited: the agent, and the task that it works for.
    fn maker_of(&self, call: ModelCallId) -> Option<(AgentName, TaskOrigin)> {
        let turn = self.session.turn.as_ref()?;
        let is_it = |thread: &&Thread| thread.model_call() == Some(call);
        if let Some(thread) = turn.threads().find(is_it) {
            let agent = match &thread.phase {
                ThreadPhase::Routing { .. } => orchestrator(),
                _ => thread.agent.clone(),
            };
            return Some((agent, self.session.origin(thread)));
        }
        let own = turn.workflow()?.model_call(turn.id)?;
        (own == call).then(|| (orchestrator(), TaskOrigin::default()))
    }

    /// The model was heard at that time, so it is not silent.
    pub(crate) fn model_heard(&mut self, call: ModelCallId, at: Timestamp) -> CallerAnswer {
        // The turn can have ended while its model call was under way.
        let Some(turn) = &mut self.session.turn else {
            return CallerAnswer::Nothing;
        };
        let is_it = |thread: &&mut Thread| thread.model_call() == Some(call);
        if let Some(thread) = turn.threads_mut().into_iter().find(is_it)
            && thread.silence_ms.is_some()
            && thread.heard.is_none_or(|heard| heard < at)
        {
            thread.heard = Some(at);
            self.output.mark_changed();
        }
        CallerAnswer::Nothing
    }

    /// Expires what is due: an approval nobody gave, a result that never came, work that takes too
    /// long.
    pub(crate) fn tick(&mut self) -> CallerAnswer {
        let now = self.world.now;
        if self
            .session
            .next_deadline()
            .is_none_or(|deadline| deadline > now)
        {
            return CallerAnswer::Nothing;
        }
        self.rewind_due();
        self.plan_expired();
        let is_due = |thread: &&Thread| thread.deadline().is_some_and(|deadline| deadline <= now);
        let ends_turn =
            |thread: &Thread| matches!(thread.phase, ThreadPhase::AwaitingBudget { .. });
        let mut due: Vec<(bool, Lane)> = self
            .session
            .turn
            .iter()
            .flat_map(|turn| turn.threads().filter(is_due))
            .map(|thread| (!ends_turn(thread), thread.lane))
            .collect();
        // Threads that end the whole turn come first, so that no other one starts work that is
        // cancelled at once.
        due.sort();
        for (_, lane) in due {
            // One that ended may have ended the turn, and the others with it.
            if self
                .session
                .turn
                .as_ref()
                .is_some_and(|turn| turn.threads().any(|t| t.lane == lane && is_due(&t)))
                && let Some(thread) = self.session.take_thread(lane)
            {
                self.expired(thread);
            }
        }
        CallerAnswer::Nothing
    }

    fn expired(&mut self, thread: Thread) {
        match thread.phase.clone() {
            ThreadPhase::AwaitingApproval { .. } => self.approval_expired(thread),
            ThreadPhase::AwaitingBudget { .. } => self.budget_expired(thread),
            ThreadPhase::AwaitingResult { claim: Some(_), .. } => self.lease_lapsed(thread),
            ThreadPhase::AwaitingResult { call, .. } => {
                let seconds = self.world.limits.tool_result_timeout_seconds;
                let (message, outcome) = match self.session.kind {
                    SessionKind::Runtime => (
                        format!(
                            "No result for {} came within {seconds} seconds. It may or may not have run: look before you repeat it",
                            call.tool.name()
                        ),
                        CallOutcome::Unknown,
                    ),
                    SessionKind::Project => (
                        format!(
                            "No client took {} within {seconds} seconds, so it did not run",
                            call.tool.name()
                        ),
                        CallOutcome::Expired,
                    ),
                };
                let error = error_data(ErrorCode::TaskTimeout, &message);
                self.call_expired(thread, &call, CallStatus::TimedOut, outcome, error);
            }
            ThreadPhase::Thinking { .. } => {
                let now = self.world.now;
                let error = if thread.work_ends().is_some_and(|end| end <= now) {
                    let seconds = thread.limit_ms.unwrap_or_default() / 1000;
                    let message =
                        format!("{} worked longer than its {seconds} seconds", thread.agent);
                    error_data(ErrorCode::TaskTimeout, &message)
                } else {
                    silent(&thread)
                };
                self.fail_thread(thread, error);
            }
            ThreadPhase::Routing { .. }
            | ThreadPhase::Queued
            | ThreadPhase::Calling { .. }
            | ThreadPhase::AwaitingRoom
            | ThreadPhase::AwaitingAnswer { .. } => self.session.put(thread),
        }
    }

    /// A call that will not be answered: the model and the person are told, the thread goes on.
    pub(crate) fn call_expired(
        &mut self,
        thread: Thread,
        call: &OpenCall,
        status: CallStatus,
        outcome: CallOutcome,
        mut error: ErrorData,
    ) {
        error
            .details
            .insert("call_id".to_owned(), call.call_id.as_str().into());
        error
            .details
            .insert("tool_name".to_owned(), call.tool.name().into());
        self.output.close_call(&call.call_id, status);
        self.view().show_closed(&thread, &call.call_id, outcome);
        self.session.note_error(&error.message);
        let told = format!("{REFUSED}{}: {}", error.error_code.as_str(), error.message);
        self.tool_message(&thread, &call.call_id, &call.tool.name(), told);
        self.view().show_error(&thread, error);
        self.next_call(thread);
    }

    /// A server took the session over. The time without an owner does not count. The turn's own
    /// model call is repeated; a task that was in a model call is marked failed and can be retried.
    pub(crate) fn recovered(&mut self, down: Downtime, epoch: u64) -> CallerAnswer {
        self.session.epoch = epoch;
        self.output.mark_changed();
        let lanes: Vec<Lane> = self
            .session
            .turn
            .iter()
            .flat_map(|turn| turn.threads())
            .map(Thread::lane)
            .collect();
        // It can end the turn; the next one's threads have lost nothing.
        self.workflow_recovered(down);
        for lane in lanes {
            if let Some(thread) = self.session.take_thread(lane) {
                self.thread_recovered(thread, down);
            }
        }
        self.rewind_recovered(down, moved);
        self.summary_recovered();
        CallerAnswer::Nothing
    }

    fn thread_recovered(&mut self, mut thread: Thread, down: Downtime) {
        thread.reserved = None;
        // The clock of a call that was lost starts anew with it.
        thread.since = None;
        match &mut thread.phase {
            ThreadPhase::Thinking { .. } if thread.lane != Lane::OWN => {
                // Not the agent's failure.
                self.leave(&mut thread, None);
                let message = "The server stopped while this task was running";
                return self.fail_thread(thread, error_data(ErrorCode::LlmError, message));
            }
            ThreadPhase::Thinking { attempt, .. } | ThreadPhase::Routing { attempt, .. }
                if *attempt >= MAX_ATTEMPTS =>
            {
                self.leave(&mut thread, None);
                let message = "The server stopped each time this answer was awaited";
                return self.fail_thread(thread, error_data(ErrorCode::LlmError, message));
            }
            ThreadPhase::Thinking {
                message_id,
                attempt,
            } => {
                thread.lost = Some(LostCall {
                    message_id: message_id.clone(),
                    attempt: *attempt + 1,
                });
                // The step counts when it is made.
                thread.steps = thread.steps.saturating_sub(1);
                thread.slot = None;
                return self.work(thread);
            }
            ThreadPhase::Routing { attempt, .. } => {
                *attempt += 1;
                self.call_model(&thread, None);
            }
            ThreadPhase::Queued | ThreadPhase::AwaitingRoom => {
                thread.slot = None;
                return self.work(thread);
            }
            ThreadPhase::AwaitingResult {
                deadline, claim, ..
            } => {
                *deadline = moved(*deadline, down);
                if let Some(claim) = claim {
                    claim.until = moved(claim.until, down);
                }
            }
            ThreadPhase::AwaitingApproval { approval, .. }
            | ThreadPhase::AwaitingBudget { approval, .. } => {
                self.output.move_approval(approval, down);
            }
            ThreadPhase::Calling { .. } => return self.named_call_recovered(thread),
            ThreadPhase::AwaitingAnswer { .. } => {}
        }
        self.session.put(thread);
    }
}

/// The kind says whose silence it was: the same code stands for tool calls that nobody ran.
fn silent(thread: &Thread) -> ErrorData {
    let seconds = thread.silence_ms.unwrap_or_default() / 1000;
    let message = format!(
        "The model of {} was silent for {seconds} seconds (limits.direct_timeout_seconds)",
        thread.agent
    );
    let mut error = error_data(ErrorCode::TaskTimeout, &message);
    error.details.insert("kind".to_owned(), "timeout".into());
    error
}

/// Moves a deadline by the time without a server. Whoever comes back with the server gets at least
/// a short grace.
fn moved(deadline: Timestamp, down: Downtime) -> Timestamp {
    deadline
        .plus_millis(down.ms.max(0))
        .max(down.back_at.plus_seconds(RECOVERY_GRACE_SECONDS))
}
