//! What should happen: rows to commit together, then model calls to start or stop.

use codelab_policy::RememberKey;
use codelab_protocol::{
    AgentName, ApprovalInfo, ApprovalKind, ApprovalOutcome, AttachedFile, AuditDecision, CallId,
    ChunkBody, ClientId, ClientMessageId, CommandPart, Digest, FilePreview, McpCall, McpToolId,
    Message, MessageId, Plan, SessionEventBody, TaskId, TaskOrigin, Timestamp, TurnId, TurnStatus,
    Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Budget, Lane, Repair, Spending, ThreadEnd};

/// The outcome of an accepted input.
#[derive(Debug, Default)]
pub struct Applied {
    pub effects: Vec<Effect>,
    /// What the caller who sent the input is shown.
    pub answer: CallerAnswer,
    /// Whether there is anything to commit; the state can change without any other effect.
    pub changed: bool,
}

/// Which events answer a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CallerAnswer {
    /// Nobody waits, or there is nothing to show.
    #[default]
    Nothing,
    /// The turn's events from there on, until it settles.
    Span(EventRange),
    /// The message answered a question of the turn; its events from there on.
    Answered(EventRange),
    /// The turn has this status, and the input did not change it.
    Now(TurnStatus),
    /// The same input came before; its events.
    Repeat(EventRange),
    /// The call is the client's until its lease lapses.
    Claimed,
}

/// The events of one turn after a number, until the turn settles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRange {
    pub turn: TurnId,
    pub after_seq: u64,
}

#[derive(Debug, Clone)]
pub enum Effect {
    Event(EventRecord),
    Message(MessageRecord),
    /// The content of a file that a message of the session names.
    Attached(AttachedFile),
    /// The turn is over, so no provider gets its reasoning back.
    ForgetReasoning {
        turn: TurnId,
    },
    Switched(SwitchRecord),
    ApprovalOpened(Approval),
    ApprovalClosed {
        call_id: CallId,
        status: ApprovalOutcome,
    },
    ApprovalMoved {
        call_id: CallId,
        expires_at: Timestamp,
    },
    ApprovalPreviewed {
        call_id: CallId,
        preview: FilePreview,
    },
    CallOpened {
        call_id: CallId,
        turn: TurnId,
        tool: String,
    },
    CallClosed {
        call_id: CallId,
        status: CallStatus,
        result_digest: Option<Digest>,
        span: Option<EventRange>,
    },
    /// The caller's own id of a message, so that a repeat finds its span.
    InputAccepted {
        client_message_id: ClientMessageId,
        span: EventRange,
    },
    Audit(DecisionRecord),
    Title(String),
    /// The plan as it is now.
    PlanSaved {
        turn: TurnId,
        plan: Box<Plan>,
    },
    /// A thread takes a free slot at the agent. `begun`: the agent accepted the work before, so it
    /// takes it also when it takes no new work.
    TakeSlot {
        lane: Lane,
        agent: AgentName,
        begun: bool,
    },
    /// A thread queues for a slot at the agent; `Input::SlotGranted` or `Input::SlotLost` follows.
    QueueForSlot {
        lane: Lane,
        agent: AgentName,
        begun: bool,
    },
    /// A thread gives its slot back, or leaves the queue for one, whichever it has there, so that no
    /// grant follows. What was set aside for it is free again.
    LeaveSlot {
        lane: Lane,
        agent: AgentName,
        /// Absent for a thread that only waits for somebody.
        ended: Option<ThreadEnd>,
    },
    /// Accepted work was refused, because the agent's queue is full.
    AgentQueueFull {
        agent: AgentName,
    },
    /// Sets aside what the lane's next model call may cost the project, until `SpendBudget`.
    ReserveBudget {
        lane: Lane,
        spending: Spending,
    },
    /// The lane's model call ended and used this of the project's budget; what was set aside for it
    /// is free again.
    SpendBudget {
        lane: Lane,
        used: Spending,
    },
    /// What a model call used, in a project, for the books.
    Spent(AgentSpending),
    /// The project's limits from now on.
    ProjectBudget {
        budget: Budget,
        /// How much of it approvals added.
        granted: Spending,
    },
    /// What an agent will be able to remember.
    Remember(Interaction),
    /// A call of an MCP server's tool that the server makes; `Input::ToolEnded` follows. Which calls
    /// are still wanted, the session says: [`crate::Session::tool_calls`].
    CallTool {
        call_id: CallId,
        tool: McpToolId,
        arguments: Map<String, Value>,
    },
    /// A person answered the question of an MCP server that the server itself calls.
    Elicited {
        /// The tool call in which the server asked.
        call_id: CallId,
        /// What it gets; absent: the person declined.
        content: Option<Map<String, Value>>,
    },
    /// The call to make. Which calls are still wanted, the session says:
    /// [`crate::Session::model_calls`].
    CallModel(ModelCall),
}

impl Effect {
    /// The event that it shows, if it shows one.
    pub(crate) fn as_event_mut(&mut self) -> Option<&mut EventRecord> {
        if let Self::Event(event) = self {
            Some(event)
        } else {
            None
        }
    }
}

/// What a model call used, and for whom.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentSpending {
    pub agent: AgentName,
    pub turn: TurnId,
    pub task: Option<TaskId>,
    pub usage: Usage,
}

/// A piece of an agent's past.
#[derive(Debug, Clone, PartialEq)]
pub struct Interaction {
    pub agent: AgentName,
    pub task: Option<TaskId>,
    pub success: bool,
    pub text: String,
}

/// An event of either kind of session.
#[derive(Debug, Clone)]
pub enum EventBody {
    Chunk(ChunkBody),
    Project(SessionEventBody),
}

impl From<ChunkBody> for EventBody {
    fn from(body: ChunkBody) -> Self {
        Self::Chunk(body)
    }
}

impl From<SessionEventBody> for EventBody {
    fn from(body: SessionEventBody) -> Self {
        Self::Project(body)
    }
}

#[derive(Debug, Clone)]
pub struct EventRecord {
    pub seq: u64,
    pub turn: TurnId,
    pub body: EventBody,
    /// Set on the last event before the turn ends or suspends.
    pub settled: Option<TurnStatus>,
}

#[derive(Debug, Clone)]
pub struct MessageRecord {
    pub ord: u64,
    pub turn: TurnId,
    /// Whose thread it belongs to; none for the session's own history.
    pub task: Option<TaskOrigin>,
    pub message: Message,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SwitchRecord {
    pub ord: u64,
    pub from: AgentName,
    pub to: AgentName,
    pub reason: String,
    pub confidence: Option<String>,
    pub at: Timestamp,
}

/// An open question to a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    pub call_id: CallId,
    pub kind: ApprovalKind,
    pub tool: String,
    pub arguments: Map<String, Value>,
    pub digest: Digest,
    /// Present for a tool of an MCP server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp: Option<Box<McpCall>>,
    pub parts: Vec<CommandPart>,
    pub reason: String,
    pub remember: Option<RememberKey>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub timeout_seconds: u64,
    /// What the write would do to the file as it is now, as the client says that would run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Box<ShownPreview>>,
}

/// The latest preview of an approval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShownPreview {
    pub preview: FilePreview,
    /// Two clients of one session would show two folders.
    pub client_id: ClientId,
    /// How many there were.
    pub count: u32,
}

impl Approval {
    /// The question as people see it.
    pub fn info(&self) -> ApprovalInfo {
        ApprovalInfo {
            call_id: self.call_id.clone(),
            kind: self.kind,
            tool_name: self.tool.clone(),
            arguments: self.arguments.clone(),
            digest: self.digest.clone(),
            mcp: self.mcp.clone(),
            parts: self.parts.clone(),
            reason: self.reason.clone(),
            created_at: self.created_at,
            expires_at: self.expires_at,
            timeout_seconds: self.timeout_seconds,
            preview: self
                .preview
                .as_ref()
                .map(|shown| Box::new(shown.preview.clone())),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallStatus {
    Finished,
    Rejected,
    TimedOut,
    Cancelled,
}

/// One decision about a tool call, for the audit log.
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionRecord {
    pub call_id: CallId,
    pub tool: String,
    pub original: Map<String, Value>,
    pub modified: Option<Map<String, Value>>,
    pub decision: AuditDecision,
    pub decided_by: String,
    pub reason: Option<String>,
    pub at: Timestamp,
}

/// Names one model call of a session; an outcome for any other one is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelCallId {
    pub turn: TurnId,
    pub lane: Lane,
    /// 0 is the classification, steps count from 1. A workflow's own calls are 1 (plan), 2 (repair)
    /// and 3 (join).
    pub step: u32,
    /// Grows when the call is made again after a crash.
    pub attempt: u32,
}

#[derive(Debug, Clone)]
pub struct ModelCall {
    pub id: ModelCallId,
    pub agent: AgentName,
    pub purpose: Purpose,
    /// The longest answer that a budget has room for; absent where none bounds it.
    pub max_tokens: Option<u32>,
    /// Set where the agent begins with this call: its memory is searched first, and what was found is
    /// part of the prompt and of the call's outcome.
    pub recall: Option<RecallAbout>,
}

/// What an agent's memory is searched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecallAbout {
    /// The message that the turn answers.
    Request(MessageId),
    /// What the task's thread was told at its start.
    Task(TaskOrigin),
}

#[derive(Debug, Clone)]
pub enum Purpose {
    Classify {
        text: String,
    },
    /// One step of the agent's loop; the answer will have this id.
    Step {
        message_id: MessageId,
        origin: TaskOrigin,
    },
    /// A summary of the session's own messages of these numbers.
    Summarize {
        from: u64,
        before: u64,
    },
    /// A plan for the turn's message, or a better one than the last.
    Plan {
        repair: Option<Repair>,
    },
    /// One answer from the tasks' results.
    Join {
        message_id: MessageId,
        /// What the user asked for.
        request: String,
        results: Vec<String>,
    },
}
