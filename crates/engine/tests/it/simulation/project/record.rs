//! What was committed in a life, and the promises it must keep.

use std::collections::{BTreeMap, BTreeSet};

use codelab_engine::{
    Applied, Approval, ApprovalOutcome, Budget, BudgetState, CallStatus, CallerAnswer, Effect,
    EventBody, EventRange, EventRecord, Input, Lane, MessageRecord, ModelCallId, Purpose, Session,
    Spending,
};
use codelab_protocol::{
    CallId, ClientId, Digest, FileBase, Role, SessionEventBody, TaskId, TaskOrigin, TurnId,
    TurnStatus,
};
use serde_json::{Map, Value};

use super::beside::{is_aside, wanted};
use super::workflows::Workflows;
use crate::it::kit::Stage;

mod asked;
pub(super) mod history;
mod rest;
mod said;
mod slots;
mod steered;

#[derive(Default)]
pub struct Record {
    last_seq: u64,
    messages: u64,
    /// Model calls under way, and every one that was ever made.
    models: BTreeMap<(TurnId, Lane), ModelCallId>,
    past_models: BTreeSet<(TurnId, Lane, u32, u32)>,
    made: Vec<ModelCallId>,
    /// Calls of assistant messages that have no result yet, with their thread.
    unanswered: BTreeMap<CallId, (TurnId, Option<TaskOrigin>)>,
    calls: BTreeMap<CallId, Call>,
    /// Calls that the server made; none is made twice.
    tools_made: BTreeSet<CallId>,
    approvals: BTreeMap<CallId, Asked>,
    /// The input is one that asks again.
    asks_again: bool,
    /// What was told to wait for a person.
    waiting: BTreeSet<CallId>,
    accepted: BTreeSet<TurnId>,
    begun: Vec<TurnId>,
    ended: BTreeMap<TurnId, TurnStatus>,
    workflows: Workflows,
    said: said::Said,
    pub(super) history: history::History,
    steered: steered::Steered,
    spent: u64,
    failed_in_step: BTreeSet<TaskId>,
    /// How many of them because the server stopped.
    stopped_in_step: usize,
}

#[derive(Default)]
struct Call {
    status: Option<CallStatus>,
    result: Option<(Digest, EventRange)>,
    dispatched: Option<Map<String, Value>>,
    holder: Option<ClientId>,
    results_shown: usize,
}

struct Asked {
    approval: Approval,
    status: Option<ApprovalOutcome>,
    modified: Option<Map<String, Value>>,
    audited: usize,
    /// What the last preview would replace.
    shows: Option<FileBase>,
    /// What the decision that approved it named.
    agreed: Option<FileBase>,
}

impl Record {
    pub fn commit(&mut self, input: &Input, applied: &Applied, session: &Session, stage: &Stage) {
        self.made.clear();
        self.failed_in_step.clear();
        self.asks_again = false;
        self.stopped_in_step = 0;
        self.said.step(input);
        self.history.step();
        self.taken(input, applied.answer);
        let lost = self.lose_calls(input, session);
        for effect in &applied.effects {
            self.effect(effect, stage);
        }
        if matches!(input, Input::Recovered { .. }) {
            self.recovered(&lost, session);
        }
        self.check_calls_made(input, session, stage);
        self.check_settled(&applied.effects, session);
        self.after(input, session, stage);
    }

    /// Who sent the input is told something that fits.
    fn taken(&mut self, input: &Input, answer: CallerAnswer) {
        match (input, answer) {
            (
                Input::UserMessage(_)
                | Input::RetryPlan { .. }
                | Input::Retry { .. }
                | Input::Rewind(_)
                | Input::Renew { .. },
                CallerAnswer::Span(span),
            ) => _ = self.accepted.insert(span.turn),
            (
                Input::Claim {
                    call_id, client_id, ..
                },
                CallerAnswer::Claimed,
            ) => {
                let call = self.calls.get_mut(call_id).unwrap();
                assert!(
                    call.dispatched.is_some() && call.status.is_none(),
                    "{call_id} cannot be run"
                );
                let holder = call.holder.replace(client_id.clone());
                assert!(
                    holder.is_none_or(|holder| holder == *client_id),
                    "two clients hold {call_id}"
                );
            }
            (
                Input::AskAgain {
                    call_id, client_id, ..
                },
                CallerAnswer::Span(_),
            ) => {
                let call = self.calls.get_mut(call_id).unwrap();
                assert_eq!(
                    call.holder.take().as_ref(),
                    Some(client_id),
                    "somebody else asks again"
                );
                assert!(call.status.is_none() && call.dispatched.take().is_some());
                self.asks_again = true;
            }
            (Input::Decision { call_id, base, .. }, _) => {
                if let Some(asked) = self.approvals.get_mut(call_id) {
                    asked.agreed = base.clone();
                }
            }
            (Input::ToolResult { client, .. }, CallerAnswer::Repeat(_)) => {
                assert!(client.is_some())
            }
            (
                Input::ToolResult {
                    call_id, client, ..
                },
                _,
            ) => {
                assert_eq!(
                    self.calls[call_id].holder, *client,
                    "a result from somebody else"
                );
            }
            _ => {}
        }
    }

    /// Calls whose outcome came, that a crash took, or that nobody wants any more.
    fn lose_calls(&mut self, input: &Input, session: &Session) -> Vec<ModelCallId> {
        if let Input::ModelFinished { call, .. } = input
            && self.models.get(&(call.turn, call.lane)) == Some(call)
        {
            self.models.remove(&(call.turn, call.lane));
        }
        if matches!(input, Input::Recovered { .. }) {
            return std::mem::take(&mut self.models).into_values().collect();
        }
        let wanted = wanted(session);
        self.models.retain(|_, call| wanted.contains(call));
        Vec::new()
    }

    fn effect(&mut self, effect: &Effect, stage: &Stage) {
        match effect {
            Effect::Event(event) => self.event(event),
            Effect::Message(message) => self.message(message, stage),
            Effect::CallOpened {
                call_id,
                turn,
                tool,
            } => {
                self.history.called(call_id, *turn, tool);
                assert!(
                    self.calls
                        .insert(call_id.clone(), Call::default())
                        .is_none(),
                    "{call_id} opened twice"
                );
            }
            Effect::CallClosed {
                call_id,
                status,
                result_digest,
                span,
                did: _,
            } => {
                self.history.closed(call_id);
                let call = self
                    .calls
                    .get_mut(call_id)
                    .expect("closed a call that was never opened");
                let late =
                    *status == CallStatus::Finished && call.status == Some(CallStatus::TimedOut);
                assert!(call.status.is_none() || late, "{call_id} closed twice");
                assert!(
                    !late || call.holder.is_some(),
                    "a late result of a call that nobody claimed"
                );
                call.status = Some(*status);
                call.result = result_digest.clone().zip(*span);
            }
            Effect::ApprovalOpened(approval) => {
                let before = self
                    .approvals
                    .insert(approval.call_id.clone(), Asked::new(approval));
                assert!(
                    before.is_none_or(|before| before.is_renewable() || self.asks_again),
                    "asked twice"
                );
            }
            Effect::ApprovalClosed { call_id, status } => {
                let asked = self
                    .approvals
                    .get_mut(call_id)
                    .expect("closed an approval that was never opened");
                assert_eq!(
                    asked.status.replace(*status),
                    None,
                    "{call_id} decided twice"
                );
            }
            Effect::Audit(row) => {
                if let Some(asked) = self.approvals.get_mut(&row.call_id) {
                    asked.audited += 1;
                    asked.modified = row.modified.clone();
                    assert_eq!(
                        asked.approval.arguments, row.original,
                        "the audit log shows other arguments"
                    );
                }
            }
            Effect::CallModel(call) => {
                let id = call.id;
                assert!(
                    !stage.stopping || id.lane == Lane::OWN,
                    "a task that begins while the server stops is lost"
                );
                assert!(
                    self.past_models
                        .insert((id.turn, id.lane, id.step, id.attempt)),
                    "{id:?} is made twice"
                );
                assert_eq!(
                    self.models.insert((id.turn, id.lane), id),
                    None,
                    "two calls of one thread"
                );
                self.made.push(id);
                if let Purpose::Step { origin, .. } = &call.purpose {
                    let thread = (id.turn, origin.task_id.is_some().then(|| origin.clone()));
                    let open = self.unanswered.values().any(|of| *of == thread);
                    assert!(
                        !open,
                        "the model is called before {:?} have results",
                        self.unanswered
                    );
                    assert!(id.step <= stage.limits.steps, "too many steps");
                    self.steered.step(id, origin);
                }
            }
            Effect::PlanSaved { plan, .. } => self.workflows.saved(plan),
            Effect::Spent(spent) => self.spent += spent.usage.total_tokens,
            Effect::ProjectBudget { budget, granted } => {
                assert_eq!(
                    (*budget, *granted),
                    (stage.space.budget, stage.space.granted)
                );
            }
            Effect::ApprovalPreviewed { call_id, preview } => {
                let asked = self.approvals.get_mut(call_id).expect("never asked");
                assert_eq!(
                    asked.status, None,
                    "{call_id} is shown after it was decided"
                );
                asked.shows = Some(preview.base.clone());
            }
            Effect::ApprovalMoved { .. } | Effect::InputAccepted { .. } | Effect::Title(_) => {}
            Effect::Switched(_) | Effect::Remember(_) | Effect::ForgetReasoning { .. } => {}
            Effect::HistoryHidden { rewind_id, from } => self.history.hide(rewind_id, *from),
            Effect::HistoryShown { rewind_id } => self.history.show(rewind_id),
            Effect::Attached(_) | Effect::Elicited { .. } => {}
            Effect::CallTool { call_id, .. } => {
                assert!(!stage.stopping && self.tools_made.insert(call_id.clone()));
            }
            // The space itself says what may be done to it.
            Effect::TakeSlot { .. }
            | Effect::QueueForSlot { .. }
            | Effect::LeaveSlot { .. }
            | Effect::AgentQueueFull { .. }
            | Effect::ReserveBudget { .. }
            | Effect::SpendBudget { .. } => {}
        }
    }

    pub fn waiting_messages(&self) -> Vec<codelab_protocol::MessageId> {
        self.steered.all_waiting()
    }

    fn event(&mut self, event: &EventRecord) {
        self.last_seq += 1;
        assert_eq!(event.seq, self.last_seq, "event numbers have a gap");
        let EventBody::Project(body) = &event.body else {
            panic!("an event of the runtime kind")
        };
        let is_late = matches!(body, SessionEventBody::ToolResult(result) if result.late);
        assert!(
            is_late || is_aside(body) || !self.ended.contains_key(&event.turn),
            "turn {} goes on after its end",
            event.turn
        );
        self.steered.event(event.turn, body);
        match body {
            SessionEventBody::Rewound(rewound) => self.history.told(rewound),
            // Also one that steered until its turn ended.
            SessionEventBody::MessageQueued(queued) if !queued.steers => {
                self.accepted.insert(event.turn);
            }
            SessionEventBody::MessageDequeued(_) => {
                self.accepted.insert(event.turn);
            }
            SessionEventBody::ToolCall(shown) => {
                self.dispatched(
                    &shown.call.tool_call.call_id,
                    &shown.call.tool_call.arguments,
                    shown.call.base.as_ref(),
                );
            }
            SessionEventBody::ToolResult(result) => {
                if let Some(call) = self.calls.get_mut(&result.call_id) {
                    call.results_shown += 1;
                    assert_eq!(call.results_shown, 1, "{} has two results", result.call_id);
                }
            }
            SessionEventBody::WaitingAdded(added) => {
                let is_new = self.waiting.insert(added.call_id.clone());
                assert!(is_new || self.said.is_renewal, "told twice");
            }
            SessionEventBody::WaitingRemoved(removed) => {
                assert!(self.waiting.remove(&removed.call_id), "never told");
            }
            SessionEventBody::TaskFailed(failed) => {
                self.failed_in_step.insert(failed.task_id.clone());
                self.stopped_in_step +=
                    usize::from(failed.error.message.starts_with("The server stopped"));
            }
            _ => {}
        }
        self.workflows.event(event.turn, body, event.settled);
        if let Some(status @ (TurnStatus::Completed | TurnStatus::Failed | TurnStatus::Cancelled)) =
            event.settled
        {
            assert_eq!(
                self.ended.insert(event.turn, status),
                None,
                "turn {} ended twice",
                event.turn
            );
            let of_plan = matches!(body, SessionEventBody::WorkflowCompleted(_));
            assert_eq!(
                of_plan,
                self.workflows.is_run(event.turn),
                "a workflow ends with its own event"
            );
        }
    }

    fn message(&mut self, record: &MessageRecord, stage: &Stage) {
        assert_eq!(record.ord, self.messages, "message numbers have a gap");
        self.said.message(&record.message, stage);
        self.steered.message(record);
        self.history.message(record);
        self.messages += 1;
        match (record.message.role, &record.message.tool_call_id) {
            // It answers a question of the turn that runs.
            (Role::User, _) if record.message.answers.is_some() => {
                assert!(
                    self.begun.last().is_none_or(|last| *last <= record.turn),
                    "an answer in an earlier turn"
                );
            }
            // It is for the turn that runs, after the results of its thread.
            (Role::User, _) if record.message.steered => {
                assert!(
                    !self.ended.contains_key(&record.turn),
                    "a turn that has ended is steered"
                );
            }
            (Role::User, _) if record.task.is_none() => {
                assert!(
                    self.begun.last().is_none_or(|last| *last < record.turn),
                    "messages changed their order"
                );
                self.begun.push(record.turn);
            }
            (Role::Assistant, _) => {
                let thread = (record.turn, record.task.clone());
                let calls = record
                    .message
                    .tool_calls
                    .iter()
                    .map(|call| (call.call_id.clone(), thread.clone()));
                self.unanswered.extend(calls);
            }
            (Role::Tool, Some(call_id)) => {
                let thread = self.unanswered.remove(call_id);
                let here = Some((record.turn, record.task.clone()));
                assert_eq!(
                    thread, here,
                    "{call_id} has a second result, or one in another thread"
                );
            }
            (Role::Tool, None) => assert!(record.message.content.starts_with("Late result")),
            (Role::User | Role::System, _) => {}
        }
    }

    /// A turn's own call is made again; a task that was in one has failed. Nothing else is
    /// repeated.
    fn recovered(&self, lost: &[ModelCallId], session: &Session) {
        for call in &self.made {
            let again = ModelCallId {
                attempt: call.attempt.saturating_sub(1),
                ..*call
            };
            // One that was lost before can have waited for room since.
            let was_made =
                self.past_models
                    .contains(&(again.turn, again.lane, again.step, again.attempt));
            assert!(
                call.attempt == 0 || was_made,
                "{call:?} repeats what was not lost"
            );
        }
        // A summary is made again as well.
        let lost: Vec<&ModelCallId> = lost
            .iter()
            .filter(|call| call.lane != Lane::ASIDE)
            .collect();
        let lost_tasks = lost.iter().filter(|call| call.lane != Lane::OWN).count();
        assert!(
            self.stopped_in_step <= lost_tasks,
            "a restart fails tasks that were not at work"
        );
        for call in lost {
            let turn = session.turn().filter(|turn| turn.id == call.turn);
            let again = ModelCallId {
                attempt: call.attempt + 1,
                ..*call
            };
            match call.lane.task() {
                None => {
                    let given_up = !wanted(session)
                        .iter()
                        .any(|now| now.turn == call.turn && now.lane == call.lane);
                    assert!(
                        self.made.contains(&again) || given_up,
                        "{call:?} is forgotten"
                    );
                }
                Some(index) => {
                    assert!(!self.made.contains(&again), "a task's call is repeated");
                    let workflow = turn.and_then(|turn| turn.workflow());
                    let task = workflow.map(|workflow| workflow.plan(None).tasks[index].id.clone());
                    assert!(
                        task.is_none_or(|task| self.failed_in_step.contains(&task)),
                        "a lost task goes on"
                    );
                }
            }
        }
    }

    /// What is spent and set aside stays within the limits; a call that a crash took was allowed
    /// before.
    fn check_calls_made(&self, input: &Input, session: &Session, stage: &Stage) {
        let fresh = self.made.iter().any(|call| call.attempt == 0);
        if fresh && !matches!(input, Input::Recovered { .. }) {
            let within = |budget: Budget, spent: Spending| {
                budget.tokens.is_none_or(|limit| spent.tokens <= limit)
            };
            assert!(
                within(session.budget(), session.spent()),
                "the session's budget is passed"
            );
            let BudgetState {
                budget,
                spent,
                reserved,
                ..
            } = stage.space.budget_state();
            assert!(
                within(budget, spent.plus(reserved)),
                "the project's budget is passed"
            );
        }
    }

    /// The last event says how the turn stands, and no other one does.
    fn check_settled(&self, effects: &[Effect], session: &Session) {
        let now = session.turn().map(|turn| (turn.id, turn.suspended()));
        let events = effects.iter().filter_map(|effect| match effect {
            Effect::Event(event) => Some(event),
            _ => None,
        });
        let mut last_of_turn = None;
        for event in events {
            let waits = event
                .settled
                .filter(|_| !self.ended.contains_key(&event.turn));
            if let Some(status) = waits {
                assert_eq!(
                    now,
                    Some((event.turn, Some(status))),
                    "event {} says how another turn waits",
                    event.seq
                );
            }
            // What is said to a turn that waits does not change how it stands.
            let is_late = match &event.body {
                EventBody::Project(SessionEventBody::ToolResult(result)) => result.late,
                EventBody::Project(SessionEventBody::MessageQueued(queued)) => queued.steers,
                EventBody::Project(_) | EventBody::Chunk(_) => false,
            };
            if now.is_some_and(|(turn, _)| turn == event.turn) && !is_late {
                last_of_turn = Some(event);
            }
        }
        if let (Some(event), Some((_, status))) = (last_of_turn, now) {
            assert_eq!(
                event.settled, status,
                "event {} does not say how the turn stands",
                event.seq
            );
        }
    }

    fn after(&self, input: &Input, session: &Session, stage: &Stage) {
        assert_eq!(session.last_seq(), self.last_seq);
        assert_eq!(session.message_count(), self.messages);
        let waiting = session.waiting().into_iter().map(|found| found.call_id);
        assert_eq!(waiting.collect::<BTreeSet<CallId>>(), self.waiting);
        assert_eq!(
            session.spent(),
            Spending {
                tokens: self.spent,
                usd: 0.0
            }
        );
        assert!(
            session.queued() <= stage.limits.queue_length + self.steered.queued(),
            "the queue is longer than its limit"
        );
        self.steered.agrees(session);
        self.history.agrees(session);
        let models: Vec<ModelCallId> = self.models.values().copied().collect();
        let wanted = wanted(session);
        assert!(
            models.len() == wanted.len() && models.iter().all(|call| wanted.contains(call)),
            "{models:?} are under way, {wanted:?} are wanted, after {input:?}"
        );
        let pending: BTreeSet<&CallId> = self
            .approvals
            .iter()
            .filter(|(_, asked)| asked.status.is_none())
            .map(|(id, _)| id)
            .collect();
        let shown: Vec<&CallId> = session
            .pending_approvals()
            .map(|approval| &approval.call_id)
            .collect();
        assert_eq!(shown.len(), pending.len(), "a question is shown twice");
        assert_eq!(
            pending,
            shown.into_iter().collect(),
            "the pending approvals differ"
        );
        self.check_slots(session, stage);
        if let Some(workflow) = session.turn().and_then(|turn| turn.workflow()) {
            self.workflows.agree(&workflow.plan(None));
        }
    }
}
