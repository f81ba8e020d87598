//! One agent's loop: a model step, the tool calls it asks for, the next step.

use std::collections::VecDeque;

use codelab_protocol::{
    AgentName, AgentStatus, CallId, CalledTool, ClientId, Digest, ErrorCode, ErrorData, FileBase,
    McpServerName, MessageId, SessionKind, Timestamp, TurnId, TurnStatus, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Reservation, error_data};
use crate::prompt::session_facts;
use crate::session::Transition;
use crate::space::Slot;
use crate::{
    AgentClosed, Approval, BudgetScope, BudgetWhy, CallerAnswer, Lane, ModelCallId, Session,
    Spending,
};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Thread {
    pub(crate) turn: TurnId,
    pub(crate) lane: Lane,
    pub(crate) agent: AgentName,
    pub phase: ThreadPhase,
    pub(crate) steps: u32,
    pub(crate) switches: u32,
    pub(crate) last_call: Option<Digest>,
    pub(crate) repeats: u32,
    /// Calls of the last answer that still wait for their turn, where several run in sequence.
    pub(crate) waiting_calls: VecDeque<PlannedCall>,
    /// The agent at which it holds a slot, or waits for one. Stored under its former name.
    #[serde(rename = "place")]
    pub(crate) slot: Option<AgentName>,
    /// The agent that took the work on. It ends it also when it takes no new work.
    #[serde(default)]
    pub(crate) accepted_by: Option<AgentName>,
    /// How long it may work; absent for a session of the runtime kind.
    pub(crate) limit_ms: Option<u64>,
    /// Working time before `since`; waiting for somebody outside does not count.
    pub(crate) worked_ms: u64,
    pub(crate) since: Option<Timestamp>,
    /// How long its model may say nothing; absent where only working time counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) silence_ms: Option<u64>,
    /// When something was last heard of its model call, or when the call began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) heard: Option<Timestamp>,
    /// What the model call under way may cost.
    pub(crate) reserved: Option<Spending>,
    /// A model call that a crash took, to be made again.
    pub(crate) lost: Option<LostCall>,
    /// The task was shown to have started.
    pub(crate) started: bool,
    pub(crate) usage: Option<Usage>,
    /// The last assistant message.
    pub(crate) answer_id: Option<MessageId>,
    /// The agent's first step.
    pub(crate) begins_with: u32,
    /// What the agent was reminded of.
    pub(crate) recalled: Vec<String>,
    /// What had happened in the session when the agent began; absent before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) facts: Option<Vec<String>>,
    /// What the last model call read, as it was reported.
    #[serde(default)]
    pub(crate) prompt_tokens: Option<u64>,
    /// What the agent of a project said last, for the answer of a turn that is stopped; its
    /// beginning.
    #[serde(default)]
    pub(crate) said: Option<String>,
    /// What the person should know about the last answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
    /// Tools of MCP servers that the agent found by searching; newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) found_tools: Vec<String>,
    /// How much of what steered its plan the task was told.
    #[serde(default, skip_serializing_if = "is_none_heard")]
    pub(crate) heard_steers: usize,
}

/// The call keeps its message: what was shown of it is replaced.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LostCall {
    pub message_id: MessageId,
    /// The one to make.
    pub attempt: u32,
}

/// What a thread waits for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum ThreadPhase {
    /// The model says which agent fits.
    Routing { text: String, attempt: u32 },
    /// All slots of the agent are in use.
    Queued,
    /// The agent's model works on the next step.
    Thinking { message_id: MessageId, attempt: u32 },
    /// A client runs a tool.
    AwaitingResult {
        call: OpenCall,
        deadline: Timestamp,
        claim: Option<CallClaim>,
    },
    /// The server itself calls a tool of an MCP server.
    Calling {
        call: OpenCall,
        /// Whether the call was made. A server that stops leaves it to the next one.
        begun: bool,
    },
    /// A person decides about a tool call.
    AwaitingApproval {
        call: OpenCall,
        approval: Box<Approval>,
    },
    /// A person answers a question.
    AwaitingAnswer {
        call_id: CallId,
        asked_seq: u64,
        /// Its beginning.
        #[serde(default)]
        question: String,
        #[serde(default)]
        asked_at: Option<Timestamp>,
    },
    /// The budget has no room for the next call before others end.
    AwaitingRoom,
    /// A person decides whether more may be spent.
    AwaitingBudget {
        approval: Box<Approval>,
        scope: BudgetScope,
        #[serde(default)]
        why: BudgetWhy,
    },
}

/// A client that said it runs the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallClaim {
    pub client_id: ClientId,
    pub until: Timestamp,
}

/// A tool call that has not ended. `arguments` are the ones that run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OpenCall {
    pub call_id: CallId,
    pub tool: CalledTool,
    pub arguments: Map<String, Value>,
    /// A person changed the arguments, and the model must hear of it.
    pub edited: bool,
    /// What the MCP server that runs the call asks a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) elicitation: Option<Box<Elicitation>>,
    /// How often it has asked.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) elicited: u32,
    /// Its newest question, whether it is open or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_question: Option<CallId>,
    /// What a person agreed to replace; absent where nobody said.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "codelab_protocol::given"
    )]
    pub(crate) base: Option<FileBase>,
    /// How often its client wanted a person to see it again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) asked_again: u32,
}

impl OpenCall {
    pub(crate) fn new(call_id: CallId, tool: CalledTool, arguments: Map<String, Value>) -> Self {
        Self {
            call_id,
            tool,
            arguments,
            edited: false,
            elicitation: None,
            elicited: 0,
            last_question: None,
            base: None,
            asked_again: 0,
        }
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn is_none_heard(count: &usize) -> bool {
    *count == 0
}

/// An open question of an MCP server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Elicitation {
    pub question_id: CallId,
    pub asked_at: Timestamp,
    /// Its beginning.
    pub question: String,
    pub server: McpServerName,
    pub requested_schema: Map<String, Value>,
}

/// A call the model asked for; its arguments may be anything.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PlannedCall {
    pub call_id: CallId,
    pub name: String,
    pub arguments: Result<Map<String, Value>, String>,
}

impl ThreadPhase {
    /// The status of a thread that waits for someone outside.
    pub fn suspended(&self) -> Option<TurnStatus> {
        match self {
            Self::Routing { .. } | Self::Queued | Self::Thinking { .. } | Self::AwaitingRoom => {
                None
            }
            Self::AwaitingResult { call, .. } | Self::Calling { call, .. }
                if call.elicitation.is_some() =>
            {
                Some(TurnStatus::AwaitingAnswer)
            }
            Self::Calling { .. } => None,
            Self::AwaitingResult { .. } => Some(TurnStatus::AwaitingToolResult),
            Self::AwaitingApproval { .. } | Self::AwaitingBudget { .. } => {
                Some(TurnStatus::AwaitingApproval)
            }
            Self::AwaitingAnswer { .. } => Some(TurnStatus::AwaitingAnswer),
        }
    }

    pub fn approval(&self) -> Option<&Approval> {
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

    /// What an MCP server asks a person in this phase.
    pub(crate) fn elicitation(&self) -> Option<&Elicitation> {
        match self {
            Self::AwaitingResult { call, .. } | Self::Calling { call, .. } => {
                call.elicitation.as_deref()
            }
            Self::Routing { .. }
            | Self::Queued
            | Self::Thinking { .. }
            | Self::AwaitingApproval { .. }
            | Self::AwaitingAnswer { .. }
            | Self::AwaitingRoom
            | Self::AwaitingBudget { .. } => None,
        }
    }

    /// The call, approval or question that somebody outside ends.
    pub fn call_id(&self) -> Option<&CallId> {
        match self {
            Self::AwaitingResult { call, .. }
            | Self::Calling { call, .. }
            | Self::AwaitingApproval { call, .. } => Some(&call.call_id),
            Self::AwaitingAnswer { call_id, .. } => Some(call_id),
            Self::AwaitingBudget { approval, .. } => Some(&approval.call_id),
            Self::Routing { .. } | Self::Queued | Self::Thinking { .. } | Self::AwaitingRoom => {
                None
            }
        }
    }
}

impl Thread {
    pub(crate) fn new(turn: TurnId, lane: Lane, agent: AgentName, limit_ms: Option<u64>) -> Self {
        Self {
            turn,
            lane,
            agent,
            phase: ThreadPhase::Queued,
            steps: 0,
            switches: 0,
            last_call: None,
            repeats: 0,
            waiting_calls: VecDeque::new(),
            slot: None,
            accepted_by: None,
            limit_ms,
            worked_ms: 0,
            since: None,
            silence_ms: None,
            heard: None,
            reserved: None,
            lost: None,
            started: false,
            usage: None,
            answer_id: None,
            begins_with: 1,
            recalled: Vec::new(),
            facts: None,
            prompt_tokens: None,
            said: None,
            warnings: Vec::new(),
            found_tools: Vec::new(),
            heard_steers: 0,
        }
    }

    /// Tools of MCP servers that the agent found by searching.
    pub(crate) fn found_tools(&self) -> &[String] {
        &self.found_tools
    }

    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub(crate) fn said(&self) -> Option<&str> {
        self.said.as_deref()
    }

    pub fn lane(&self) -> Lane {
        self.lane
    }

    pub fn agent(&self) -> &AgentName {
        &self.agent
    }

    pub(crate) fn steps(&self) -> u32 {
        self.steps
    }

    pub(crate) fn usage(&self) -> Option<Usage> {
        self.usage.clone()
    }

    pub(crate) fn answer_id(&self) -> Option<MessageId> {
        self.answer_id.clone()
    }

    pub(crate) fn known_facts(&self) -> Option<&[String]> {
        self.facts.as_deref()
    }

    /// What the agent was reminded of when it began.
    pub fn recalled(&self) -> &[String] {
        &self.recalled
    }

    /// The model call that must be under way.
    pub fn model_call(&self) -> Option<ModelCallId> {
        let (step, attempt) = match self.phase {
            ThreadPhase::Routing { attempt, .. } => (0, attempt),
            ThreadPhase::Thinking { attempt, .. } => (self.steps, attempt),
            ThreadPhase::Queued
            | ThreadPhase::AwaitingResult { .. }
            | ThreadPhase::Calling { .. }
            | ThreadPhase::AwaitingApproval { .. }
            | ThreadPhase::AwaitingAnswer { .. }
            | ThreadPhase::AwaitingRoom
            | ThreadPhase::AwaitingBudget { .. } => return None,
        };
        Some(ModelCallId {
            turn: self.turn,
            lane: self.lane,
            step,
            attempt,
        })
    }

    /// The message that the model call under way will become.
    pub fn awaited(&self) -> Option<&MessageId> {
        match &self.phase {
            ThreadPhase::Thinking { message_id, .. } => Some(message_id),
            ThreadPhase::Routing { .. }
            | ThreadPhase::Queued
            | ThreadPhase::AwaitingResult { .. }
            | ThreadPhase::Calling { .. }
            | ThreadPhase::AwaitingApproval { .. }
            | ThreadPhase::AwaitingAnswer { .. }
            | ThreadPhase::AwaitingRoom
            | ThreadPhase::AwaitingBudget { .. } => None,
        }
    }
}

impl Session {
    fn take_queued(&mut self, lane: Lane) -> Option<Thread> {
        let waits =
            |thread: &Thread| thread.lane == lane && matches!(thread.phase, ThreadPhase::Queued);
        let queued = self.turn.as_ref()?.threads().any(waits);
        if queued { self.take_thread(lane) } else { None }
    }
}

impl Transition<'_, '_> {
    /// Gets the thread a slot at its agent, then starts its next model step.
    pub(crate) fn work(&mut self, mut thread: Thread) {
        if self.waits_for_restart(&thread) {
            return self.postpone(thread);
        }
        if self.session.kind == SessionKind::Runtime || thread.slot.as_ref() == Some(&thread.agent)
        {
            return self.think(thread);
        }
        self.leave(&mut thread, None);
        // An agent can leave the project while its work waits.
        if self.world.team.get(&thread.agent).is_none() {
            let message = format!("Agent not found: {}", thread.agent);
            return self.fail_thread(thread, error_data(ErrorCode::AgentNotFound, &message));
        }
        match self.enter(&thread) {
            Slot::Granted(status) => self.slot_taken(thread, status),
            Slot::Queued => {
                thread.accepted_by = Some(thread.agent.clone());
                thread.slot = Some(thread.agent.clone());
                thread.phase = ThreadPhase::Queued;
                self.view().show_status(&thread, AgentStatus::Busy);
                self.session.put(thread);
            }
            Slot::Closed(closed) => self.fail_thread(thread, unavailable(closed)),
        }
    }

    fn slot_taken(&mut self, mut thread: Thread, status: AgentStatus) {
        thread.accepted_by = Some(thread.agent.clone());
        thread.slot = Some(thread.agent.clone());
        thread.since = Some(self.world.now);
        self.view().show_status(&thread, status);
        if !std::mem::replace(&mut thread.started, true) {
            self.started(&thread);
        }
        self.think(thread);
    }

    /// A thread has the slot that it waited for.
    pub(crate) fn slot_granted(&mut self, lane: Lane, status: AgentStatus) -> CallerAnswer {
        match self.session.take_queued(lane) {
            Some(thread) if self.waits_for_restart(&thread) => self.postpone(thread),
            Some(thread) => self.slot_taken(thread, status),
            None => {}
        }
        CallerAnswer::Nothing
    }

    /// The server stops, so the task's model call would not be made. The task must not be stored as
    /// calling the model, because it would fail after the restart.
    fn waits_for_restart(&self, thread: &Thread) -> bool {
        self.world.stopping && thread.lane != Lane::OWN
    }

    /// The thread asks for a slot when the server is back.
    fn postpone(&mut self, mut thread: Thread) {
        self.leave(&mut thread, None);
        thread.phase = ThreadPhase::Queued;
        self.session.put(thread);
    }

    /// The agent stopped taking work while a thread waited for a slot.
    pub(crate) fn slot_lost(&mut self, lane: Lane, closed: AgentClosed) -> CallerAnswer {
        if let Some(mut thread) = self.session.take_queued(lane) {
            thread.slot = None;
            self.fail_thread(thread, unavailable(closed));
        }
        CallerAnswer::Nothing
    }

    /// Starts the agent's next model step.
    pub(crate) fn think(&mut self, mut thread: Thread) {
        if thread.steps >= self.world.limits.steps {
            let limit = self.world.limits.steps;
            let mut error = error_data(
                ErrorCode::StepLimit,
                &format!("The turn reached its limit of {limit} steps"),
            );
            error.details.insert("steps".to_owned(), limit.into());
            return self.fail_thread(thread, error);
        }
        self.tell_steers(&mut thread);
        let max_tokens = match self.set_aside_step(&mut thread) {
            Reservation::Granted(granted) => granted.max_tokens,
            Reservation::Waits => return self.await_room(thread),
            Reservation::Asks(question) => return self.ask_for_budget(thread, question),
        };
        thread.steps += 1;
        if thread.steps == thread.begins_with {
            thread.facts = Some(session_facts(self.session));
        }
        let LostCall {
            message_id,
            attempt,
        } = match thread.lost.take() {
            Some(lost) => lost,
            None => LostCall {
                message_id: self.world.ids.message_id(),
                attempt: 0,
            },
        };
        thread.phase = ThreadPhase::Thinking {
            message_id,
            attempt,
        };
        thread.heard = Some(self.world.now);
        self.call_model(&thread, max_tokens);
        self.session.put(thread);
    }

    /// Lets the thread wait for somebody outside: it works no more, so it needs no slot.
    pub(crate) fn suspend(&mut self, mut thread: Thread, phase: ThreadPhase) {
        self.leave(&mut thread, None);
        thread.phase = phase;
        if thread.lane == Lane::OWN
            && let Some(status) = thread.phase.suspended()
        {
            self.output.settle(status);
        }
        self.session.put(thread);
    }
}

fn unavailable(closed: AgentClosed) -> ErrorData {
    let mut error = error_data(closed.code, &closed.why);
    error.details.insert(
        "retry_after_seconds".to_owned(),
        closed.retry_after_seconds.into(),
    );
    error
}
