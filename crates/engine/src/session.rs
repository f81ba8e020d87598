//! A session's whole state, and the one way to change it.

mod fork;
mod messages;
mod parts;
mod pending;
mod remembered;
mod retry;
mod rewind;
mod steer;
mod waiting;

use std::collections::{BTreeSet, VecDeque};

use codelab_policy::RememberKey;
use codelab_protocol::{
    AgentName, ApproveMode, CallerContext, ClientId, ErrorCode, ForkedFrom, Message, SessionId,
    SessionKind, SwitchAgent, TaskOrigin, Timestamp, TurnId,
};
use serde::{Deserialize, Serialize};

pub use self::fork::Fork;
pub(crate) use self::parts::{MessageSize, QueuedMessage};
pub use self::retry::{EndedTurn, RetriedRequest};
pub use self::rewind::{RanCall, RewindInput, RewindWish, RewoundPart};
pub(crate) use self::steer::ToldMessage;
pub(crate) use self::waiting::in_one_line;
use crate::compaction::Compaction;
use crate::output::{EventLog, Output};
use crate::space::WorkingSpace;
use crate::turn::{Funds, LateCall, Turn, View};
use crate::{
    Applied, Budget, CallerAnswer, Effect, Input, MessageRecord, Refusal, Spending, SwitchRecord,
    Team, World, orchestrator,
};

/// Everything the engine knows of a session. Its size does not grow with the history.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Session {
    pub(crate) id: SessionId,
    pub(crate) kind: SessionKind,
    /// The owner that applied the last recovery; an older one in the store means that a recovery is
    /// due.
    pub(crate) epoch: u64,
    pub(crate) current: AgentName,
    /// The caller's explicit choice; it outlives turns.
    pub(crate) pinned: Option<AgentName>,
    /// Why the next return home happens, when the caller asked for it during a turn.
    pub(crate) requested: bool,
    pub(crate) turn: Option<Turn>,
    pub(crate) queue: VecDeque<QueuedMessage>,
    /// Messages for the turn that runs: its next model step hears them. Empty without a turn.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub(crate) steers: VecDeque<QueuedMessage>,
    pub(crate) last_turn: u64,
    pub(crate) last_seq: u64,
    pub(crate) message_count: u64,
    pub(crate) switch_count: u64,
    pub(crate) last_switch: Option<SwitchRecord>,
    pub(crate) remembered: VecDeque<RememberKey>,
    pub(crate) last_error: Option<String>,
    pub(crate) modified_files: VecDeque<String>,
    /// Folders with instructions of their own beneath which the session's calls worked.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) touched: BTreeSet<String>,
    pub(crate) caller: CallerContext,
    /// The client that runs this session's tools: two folders never mix.
    pub(crate) bound: Option<ClientId>,
    pub(crate) late: VecDeque<LateCall>,
    pub(crate) budget: Budget,
    /// How much of the budget approvals added; the rest is what a person set.
    #[serde(default)]
    pub(crate) granted: Spending,
    pub(crate) spent: Spending,
    /// A person said that models without a price may be used although there is a limit in dollars.
    #[serde(default)]
    pub(crate) unpriced_allowed: bool,
    /// The sizes of the newest messages of the session's own history, for the size of the next
    /// prompt.
    #[serde(default)]
    pub(crate) said: VecDeque<MessageSize>,
    pub(crate) compaction: Compaction,
    /// Messages of the session's own history when its last turn began.
    #[serde(default)]
    pub(crate) last_began_at: Option<u64>,
    /// The model that a person chose for this session; absent: each agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// Whom messages of a project's session go to that name nobody; absent: they are planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chosen: Option<AgentName>,
    /// What passes without a question, as a person chose.
    #[serde(default, skip_serializing_if = "ApproveMode::is_ask")]
    pub(crate) approve: ApproveMode,
    /// The last turn, if it did not end well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<EndedTurn>,
    /// Why a person rejected the last plan, until there is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rejected_plan: Option<String>,
    /// The last turn that was run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retried: Option<retry::RetriedTurn>,
    /// The session whose history this one began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) forked_from: Option<ForkedFrom>,
    /// The last turn that was copied from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) forked_turn: Option<TurnId>,
    /// A rewind whose files the client takes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rewind: Option<Box<rewind::OpenRewind>>,
    /// Rewinds that ended, the oldest first.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub(crate) rewinds: VecDeque<rewind::RewindRecord>,
}

impl Session {
    /// A session that its first owner makes.
    pub fn new(id: SessionId, kind: SessionKind, budget: Budget, epoch: u64) -> Self {
        Self {
            id,
            kind,
            epoch,
            current: orchestrator(),
            pinned: None,
            requested: false,
            turn: None,
            queue: VecDeque::new(),
            steers: VecDeque::new(),
            last_turn: 0,
            last_seq: 0,
            message_count: 0,
            switch_count: 0,
            last_switch: None,
            remembered: VecDeque::new(),
            last_error: None,
            modified_files: VecDeque::new(),
            touched: BTreeSet::new(),
            caller: CallerContext::default(),
            bound: None,
            late: VecDeque::new(),
            budget,
            granted: Spending::default(),
            spent: Spending::default(),
            unpriced_allowed: false,
            said: VecDeque::new(),
            compaction: Compaction::default(),
            last_began_at: None,
            model: None,
            chosen: None,
            approve: ApproveMode::default(),
            ended: None,
            rejected_plan: None,
            retried: None,
            forked_from: None,
            forked_turn: None,
            rewind: None,
            rewinds: VecDeque::new(),
        }
    }

    /// Takes one input. After an error nothing has changed.
    pub fn apply(&mut self, input: Input, world: &mut World<'_>) -> Result<Applied, Refusal> {
        let shown = self.task_statuses();
        let waiting = self.waiting_ids();
        let waited = self.suspended().is_some();
        let space = WorkingSpace::new(std::mem::take(&mut world.space));
        let mut step = Transition {
            session: self,
            world,
            space,
            output: Output::default(),
        };
        let answer = match input {
            Input::UserMessage(message) => step.user_message(message)?,
            Input::SwitchAgent { agent } => step.switch_requested(agent)?,
            Input::Answer {
                call_id,
                text,
                known,
            } => step.answer(call_id, text, known)?,
            Input::ToolResult {
                call_id,
                result,
                client,
                known,
                images,
            } => step.tool_result(call_id, result, client, known, images)?,
            Input::ToolEnded { call_id, end } => step.named_call_ended(&call_id, end),
            Input::Elicit {
                call_id,
                question_id,
                client,
                message,
                requested_schema,
            } => step.elicit(
                &call_id,
                question_id,
                client.as_ref(),
                (message, requested_schema),
            )?,
            Input::Claim {
                call_id,
                client_id,
                bound_is_gone,
                version,
                known,
            } => step.claim((call_id, version), client_id, bound_is_gone, known)?,
            Input::Preview {
                call_id,
                client_id,
                preview,
                certain,
                standing,
                known,
            } => step.preview(&call_id, client_id, (preview, certain), (standing, known))?,
            Input::AskAgain {
                call_id,
                client_id,
                reason,
                preview,
                known,
            } => step.ask_again(&call_id, client_id, (reason, preview), known)?,
            Input::ClientGone { client_id } => step.client_gone(&client_id),
            Input::Decision {
                call_id,
                decision,
                digest,
                base,
                decided_by,
                known,
            } => step.decision(call_id, decision, (digest, base), decided_by, known)?,
            Input::ModelFinished {
                call,
                outcome,
                recalled,
            } => step.model_finished(call, outcome, recalled),
            Input::CallWaits { call, waits } => step.call_waits(call, waits),
            Input::ModelWaits { call, ms, kind } => step.model_waits(call, ms, kind),
            Input::ModelFellBack {
                call,
                from,
                to,
                kind,
            } => step.model_fell_back(call, (from, to), kind),
            Input::ModelHeard { call, at } => step.model_heard(call, at),
            Input::SlotGranted { lane, status } => step.slot_granted(lane, status),
            Input::SlotLost { lane, closed } => step.slot_lost(lane, closed),
            // Looked at after every input.
            Input::RoomChanged => CallerAnswer::Nothing,
            Input::AgentGone { agent } => step.agent_gone(&agent),
            Input::RetryPlan {
                plan,
                request,
                message_id,
                is_rewound,
            } => step.retry_stored_plan(*plan, &request, message_id, is_rewound)?,
            Input::Retry {
                message_id,
                request,
                caller,
            } => step.retry_turn(message_id.as_ref(), request.map(|request| *request), caller)?,
            Input::Renew {
                call_id,
                expired,
                known,
            } => step.renew(&call_id, expired.map(|expired| *expired), known)?,
            Input::Tick => step.tick(),
            Input::Recovered { down, epoch } => step.recovered(down, epoch),
            Input::Cancel { drop_queue } => step.cancel(drop_queue),
            Input::Reset => step.reset(),
            Input::Compact => step.compact()?,
            Input::Fork(fork) => step.fork(*fork),
            Input::Rewind(rewind) => step.rewind(*rewind)?,
            Input::ChangeWaiting { message_id, wish } => step.change_waiting(&message_id, wish)?,
            Input::Revoke { id, revoked_by } => step.revoke(&id, revoked_by)?,
            Input::ChooseAgent { agent } => {
                if let Some(agent) = &agent {
                    step.world.team.known_agent(agent)?;
                }
                step.session.chosen = agent;
                step.output.mark_changed();
                CallerAnswer::Nothing
            }
            Input::ChooseApprove { mode } => step.choose_approve(mode),
            Input::ChooseModel { model } => {
                step.session.model = model;
                step.output.mark_changed();
                CallerAnswer::Nothing
            }
        };
        step.give_room();
        step.advance_workflow();
        step.save_changed_plan(shown);
        // One that waits for people waits on, whatever is said to it meanwhile.
        if !waited || !matches!(answer, CallerAnswer::Steers(_)) {
            step.settle_workflow();
        }
        step.tell_waiting(&waiting);
        Ok(step.output.finish(answer))
    }

    pub fn id(&self) -> &SessionId {
        &self.id
    }

    pub fn kind(&self) -> SessionKind {
        self.kind
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    pub fn current_agent(&self) -> &AgentName {
        &self.current
    }

    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// The model that a person chose for this session.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Whom messages go to that name nobody.
    pub fn chosen_agent(&self) -> Option<&AgentName> {
        self.chosen.as_ref()
    }

    /// What passes without a question.
    pub fn approve_mode(&self) -> ApproveMode {
        self.approve
    }

    pub fn message_count(&self) -> u64 {
        self.message_count
    }

    pub fn switch_count(&self) -> u64 {
        self.switch_count
    }

    pub fn last_switch(&self) -> Option<&SwitchRecord> {
        self.last_switch.as_ref()
    }

    /// Why a person rejected the last plan.
    pub fn rejected_plan(&self) -> Option<&str> {
        self.rejected_plan.as_deref()
    }

    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_deref()
    }

    pub fn modified_files(&self) -> impl Iterator<Item = &str> {
        self.modified_files.iter().map(String::as_str)
    }

    pub fn caller(&self) -> &CallerContext {
        &self.caller
    }

    pub fn turn(&self) -> Option<&Turn> {
        self.turn.as_ref()
    }

    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    pub fn bound_client(&self) -> Option<&ClientId> {
        self.bound.as_ref()
    }

    pub fn budget(&self) -> Budget {
        self.budget
    }

    pub fn spent(&self) -> Spending {
        self.spent
    }

    /// When `Input::Tick` is due next.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let turn = self.turn.as_ref();
        let of_plan = turn.and_then(|turn| turn.workflow()?.deadline());
        let of_rewind = self.rewind.as_ref().map(|open| open.next_deadline());
        turn.into_iter()
            .flat_map(Turn::threads)
            .filter_map(|thread| thread.deadline())
            .chain(of_plan)
            .chain(of_rewind)
            .min()
    }
}

/// One input on its way through the session: the state, the world, and what was decided so far.
/// What needs less gets less: [`EventLog`], [`View`], [`Funds`], or the workflow alone.
pub(crate) struct Transition<'a, 'w> {
    pub session: &'a mut Session,
    pub world: &'a mut World<'w>,
    /// The worker space with what the step has decided so far.
    pub space: WorkingSpace,
    pub output: Output,
}

impl Session {
    /// Keeps the agent that the caller chose for later turns. Choosing the orchestrator ends that.
    pub(crate) fn pin(&mut self, agent: &AgentName) {
        self.pinned = (*agent != orchestrator()).then(|| agent.clone());
    }

    pub(crate) fn new_turn_id(&mut self) -> TurnId {
        self.last_turn += 1;
        TurnId(self.last_turn)
    }
}

impl Team {
    fn known_agent(&self, agent: &AgentName) -> Result<(), Refusal> {
        if self.get(agent).is_some() {
            return Ok(());
        }
        Err(Refusal::new(
            ErrorCode::AgentNotFound,
            format!("Agent not found: {agent}"),
        )
        .with("agent", agent.as_str()))
    }
}

impl Transition<'_, '_> {
    pub(crate) fn log(&mut self) -> EventLog<'_> {
        EventLog {
            last_seq: &mut self.session.last_seq,
            output: &mut self.output,
        }
    }

    /// What people see of the turn.
    pub(crate) fn view(&mut self) -> View<'_> {
        let session = &mut *self.session;
        View {
            kind: session.kind,
            turn: session.turn.as_ref(),
            last_turn: TurnId(session.last_turn),
            now: self.world.now,
            client_attached: self.space.client_attached,
            log: EventLog {
                last_seq: &mut session.last_seq,
                output: &mut self.output,
            },
        }
    }

    /// Asks what a model call may take of the budgets. It reads the session, and changes only the
    /// worker space.
    pub(crate) fn funds(&mut self) -> Funds<'_> {
        Funds {
            session: self.session,
            team: self.world.team,
            limits: &self.world.limits.prompt,
            space: &mut self.space,
            output: &mut self.output,
        }
    }

    /// A workflow waits as a whole once none of its tasks can go on by itself.
    fn settle_workflow(&mut self) {
        // A direct call says for itself that it waits.
        let Some(turn) = self
            .session
            .turn
            .as_ref()
            .filter(|turn| turn.workflow().is_some())
        else {
            return;
        };
        let (id, Some(status)) = (turn.id, turn.suspended()) else {
            return;
        };
        self.output.settle_turn(id, status);
    }

    /// `task`: whose thread the message belongs to; none for the session's own history.
    pub(crate) fn message(&mut self, turn: TurnId, task: Option<TaskOrigin>, message: Message) {
        let ord = self.session.message_count;
        self.session.message_count += 1;
        if task.is_none() {
            self.session.count_said(&message);
        }
        self.count_for_room(turn, task.as_ref(), &message);
        self.output.push(Effect::Message(MessageRecord {
            ord,
            turn,
            task,
            message,
        }));
    }

    pub(crate) fn switch(
        &mut self,
        turn: TurnId,
        to: AgentName,
        reason: String,
        confidence: Option<String>,
    ) {
        let from = std::mem::replace(&mut self.session.current, to.clone());
        let at = self.world.now;
        let record = SwitchRecord {
            ord: self.session.switch_count,
            from: from.clone(),
            to: to.clone(),
            reason: reason.clone(),
            confidence: confidence.clone(),
            at,
        };
        self.session.switch_count += 1;
        self.session.last_switch = Some(record.clone());
        self.output.push(Effect::Switched(record));
        let body = SwitchAgent {
            from_agent: from,
            to_agent: to,
            reason,
            confidence,
            timestamp: at,
        };
        self.view().show_switch(turn, body);
    }

    /// Back to the agent that takes the next message: the pinned one, else the orchestrator.
    pub(crate) fn return_home(&mut self, turn: TurnId, reason: &str) {
        let requested = std::mem::take(&mut self.session.requested);
        // A pinned agent can have left the team since.
        self.session.pinned = self
            .session
            .pinned
            .take()
            .filter(|agent| self.world.team.get(agent).is_some());
        let home = self.session.pinned.clone().unwrap_or_else(orchestrator);
        if home != self.session.current {
            let reason = if requested { REQUESTED } else { reason };
            self.switch(turn, home, reason.to_owned(), None);
        }
    }
}

pub(crate) const REQUESTED: &str = "requested";
