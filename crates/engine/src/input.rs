//! What can happen to a session, and why it may be refused.

use codelab_protocol::{
    AgentName, AgentStatus, ApproveMode, AttachedFile, CallId, CallerContext, ClientId,
    ClientMessageId, Delivery, Digest, ErrorCode, FileBase, FilePreview, MessageId, ModelFailure,
    ModelFailureKind, ModelOutput, Plan, RememberedId, Timestamp,
};
use serde_json::{Map, Value};

use crate::{AgentClosed, Fork, Lane, ModelCallId, RetriedRequest, RewindInput};

/// What a person wants of a message that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitingWish {
    Deliver(Delivery),
    TakeBack,
}

#[derive(Debug, Clone)]
pub enum Input {
    UserMessage(UserMessage),
    /// The caller chooses the agent; `orchestrator` takes an earlier choice back.
    SwitchAgent {
        agent: AgentName,
    },
    /// Answers a question by its id.
    Answer {
        call_id: CallId,
        text: String,
        known: Option<KnownCall>,
    },
    ToolResult {
        call_id: CallId,
        result: Value,
        /// Who ran it; absent for a session of the runtime kind.
        client: Option<ClientId>,
        /// What the store knows of a call that the current turn does not hold.
        known: Option<KnownCall>,
        /// The images that the tool gave, where `result` only names them.
        images: Vec<AttachedFile>,
    },
    /// A call of an MCP server's tool that the server made has ended.
    ToolEnded {
        call_id: CallId,
        end: ToolEnd,
    },
    /// An MCP server asks the person something while it runs a call.
    Elicit {
        /// The tool call.
        call_id: CallId,
        /// The id of the question.
        question_id: CallId,
        /// The client that runs the call; absent: the server itself.
        client: Option<ClientId>,
        message: String,
        requested_schema: Map<String, Value>,
    },
    Decision {
        call_id: CallId,
        decision: Decision,
        /// Must be the digest that was shown, where the decision carries one.
        digest: Option<Digest>,
        /// What the write would replace, as it was shown.
        base: Option<FileBase>,
        decided_by: String,
        /// The store knows the approval as decided, expired or cancelled.
        known: bool,
    },
    /// A client says that it runs the call, or still does.
    Claim {
        call_id: CallId,
        client_id: ClientId,
        /// The client that the session is bound to has not been seen for a while.
        bound_is_gone: bool,
        /// What the client is about to run, where it says so.
        version: Option<CallVersion>,
        known: Option<KnownCall>,
    },
    /// A client says what a write that waits for a person would do to the file as it is now.
    Preview {
        call_id: CallId,
        client_id: ClientId,
        preview: FilePreview,
        /// The result, where it is certain without writing.
        certain: Option<Value>,
        /// Whether the client may speak for the session: nobody else holds it.
        standing: ClientStanding,
        /// The store knows the approval as decided, expired or cancelled.
        known: bool,
    },
    /// The client that claimed a write found that a person must see it again. Nothing was written.
    AskAgain {
        call_id: CallId,
        client_id: ClientId,
        reason: String,
        preview: FilePreview,
        known: Option<KnownCall>,
    },
    /// A client lets go of the session.
    ClientGone {
        client_id: ClientId,
    },
    ModelFinished {
        call: ModelCallId,
        outcome: Result<ModelOutput, ModelFailure>,
        /// What the agent was reminded of for this call.
        recalled: Vec<String>,
    },
    /// A model call waits, because its user has too many at once (`waits`), or begins after that wait.
    CallWaits {
        call: ModelCallId,
        waits: bool,
    },
    /// The model's server announced when it can be asked again, and the call waits for that; this
    /// is nobody's work.
    ModelWaits {
        call: ModelCallId,
        ms: u64,
        kind: ModelFailureKind,
    },
    /// The model `from` cannot answer now, and `to` is asked instead.
    ModelFellBack {
        call: ModelCallId,
        from: String,
        to: String,
        kind: ModelFailureKind,
    },
    /// The model of this call was last heard then: a piece of its answer, its reasoning or a tool
    /// call.
    ModelHeard {
        call: ModelCallId,
        at: Timestamp,
    },
    /// A thread has the slot that it waited for.
    SlotGranted {
        lane: Lane,
        status: AgentStatus,
    },
    /// The agent stopped taking work while a thread waited for a slot.
    SlotLost {
        lane: Lane,
        closed: AgentClosed,
    },
    /// More may be left of the project's budget than a call that waits for room saw.
    RoomChanged,
    /// The agent leaves the project: what it has on the way is cancelled.
    AgentGone {
        agent: AgentName,
    },
    /// Runs the tasks of an ended plan again that did not end well.
    RetryPlan {
        plan: Box<Plan>,
        /// What the plan was made for.
        request: String,
        message_id: Option<MessageId>,
        /// The message was taken back.
        is_rewound: bool,
    },
    /// Runs the last turn again, if it failed or was stopped.
    Retry {
        /// The user's message whose turn is meant; absent: the last one.
        message_id: Option<MessageId>,
        /// Absent where the last turn ended well.
        request: Option<Box<RetriedRequest>>,
        caller: CallerContext,
    },
    /// A person wants to decide later: the approval gets its full time again.
    Renew {
        call_id: CallId,
        /// The plan as it was stored and what it was made for, where it expired with the last turn.
        expired: Option<Box<(Plan, String)>>,
        /// The store knows the approval as decided, expired or cancelled.
        known: bool,
    },
    /// Time has passed; expires what is due.
    Tick,
    /// The owner of this epoch took the session over from one that stopped, or lost the model call
    /// it was in.
    Recovered {
        down: Downtime,
        epoch: u64,
    },
    Cancel {
        drop_queue: bool,
    },
    Reset,
    /// The first input of a session that begins with the history of another one.
    Fork(Box<Fork>),
    /// A person wants the history summed up now.
    Compact,
    /// A person takes back what was done since a message, or gives it back.
    Rewind(Box<RewindInput>),
    /// A person changes what happens to a message that waits.
    ChangeWaiting {
        message_id: MessageId,
        wish: WaitingWish,
    },
    /// A person takes back what was remembered.
    Revoke {
        id: RememberedId,
        revoked_by: String,
    },
    /// A person chooses the model for the agents of this session; absent: each agent's own.
    ChooseModel {
        model: Option<String>,
    },
    /// A person chooses what passes without a question.
    ChooseApprove {
        mode: ApproveMode,
    },
    /// A person chooses whom messages go to that name nobody; absent: they are planned.
    ChooseAgent {
        agent: Option<AgentName>,
    },
}

/// How long no server was there since the owner before stopped, and since when one is there again.
/// It does not depend on when the session is looked at first, so neither do the deadlines that it
/// moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Downtime {
    pub ms: i64,
    pub back_at: Timestamp,
}

#[derive(Debug, Clone)]
pub struct UserMessage {
    pub text: String,
    /// Pins this agent in a session of the runtime kind, calls it directly in a project.
    pub agent: Option<AgentName>,
    pub client_message_id: Option<ClientMessageId>,
    pub caller: CallerContext,
    /// The state keeps only what they are called; their content goes into the store.
    pub attachments: Vec<AttachedFile>,
    /// What happens to it while a turn of a project's session runs.
    pub delivery: Delivery,
}

/// How a tool call that the server made has ended.
#[derive(Debug, Clone)]
pub enum ToolEnd {
    Result {
        result: Value,
        /// The images that the tool gave, where `result` only names them.
        images: Vec<AttachedFile>,
    },
    /// It was sent, and nobody knows what became of it.
    Unknown(String),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    Approve { remember: bool },
    Edit { arguments: Map<String, Value> },
    Reject { feedback: Option<String> },
}

/// Which version of a call a client is about to run: people can change a call that asks again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallVersion {
    pub digest: Digest,
    pub base: Option<FileBase>,
}

/// How a client that shows something stands to the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientStanding {
    /// The client that the session is bound to has not been seen for a while.
    pub bound_is_gone: bool,
    /// The client that sent the last preview has not been seen for a while.
    pub other_is_gone: bool,
}

/// A tool call that is no longer open.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownCall {
    pub result_digest: Option<Digest>,
    /// The span of events that answered its result.
    pub span: Option<crate::EventRange>,
}

/// The detail that names the agent.
const AGENT: &str = "agent";

/// Why an input was not accepted. The session is unchanged.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub code: ErrorCode,
    pub message: String,
    pub details: Map<String, Value>,
}

impl Refusal {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            details: Map::new(),
        }
    }

    /// The agent that the input names takes no work.
    pub(crate) fn of_agent(agent: &AgentName, closed: AgentClosed) -> Self {
        Self::new(closed.code, closed.why)
            .with(AGENT, agent.as_str())
            .with("retry_after_seconds", closed.retry_after_seconds)
    }

    /// Whether it was refused because the queue of the agent that it names is full.
    pub fn is_agent_queue_full(&self) -> bool {
        self.code == ErrorCode::QueueFull && self.details.contains_key(AGENT)
    }

    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }
}
