//! The events of a project's session, as they are stored and streamed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    AgentName, ApprovalInfo, ApprovalKind, ApprovalOutcome, ApprovalPreview, ApproveMode,
    Attachment, CallId, ErrorData, Gap, McpServerName, Message, MessageId, ModelFailureKind, Plan,
    PlanId, PlannedTask, RememberedRevoked, Rewound, SessionId, SwitchAgent, TaskId, Timestamp,
    ToolCallChunk, Usage, Waiting, WaitingRemoved, WorkflowId,
};

/// One event of a session's log: `{"type", "session_id", "seq", "timestamp", "data"}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionEvent {
    #[serde(flatten)]
    pub body: SessionEventBody,
    pub session_id: SessionId,
    /// Absent in events that are not stored.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seq: Option<u64>,
    pub timestamp: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum SessionEventBody {
    MessageCreated(Box<MessageCreated>),
    /// Tokens as they arrive; ephemeral, never stored, without a number.
    MessageDelta(MessageDelta),
    /// What the model thinks, as it arrives; ephemeral as well. It is no part of the answer's text.
    ReasoningDelta(MessageDelta),
    MessageQueued(MessageQueued),
    /// A queued message was taken back: it will not be said.
    MessageDequeued(MessageDequeued),
    DirectAgentCall(DirectAgentCall),
    AgentStatusChanged(AgentStatusChanged),
    AgentSwitched(SwitchAgent),
    TaskPlanCreated(Plan),
    /// A plan waits for a person.
    PlanRequest(PlanRequest),
    PlanResolved(PlanResolved),
    TaskStarted(TaskStarted),
    TaskProgress(TaskProgress),
    TaskCompleted(TaskCompleted),
    TaskFailed(TaskFailed),
    TaskSkipped(TaskSkipped),
    WorkflowCompleted(WorkflowCompleted),
    ToolCall(Box<ToolCallEvent>),
    ToolResult(ToolResultEvent),
    /// How far a call is; ephemeral, never stored, without a number.
    ToolProgress(ToolProgress),
    /// The call has ended or will not run any more. A client that runs it stops.
    ToolCallClosed(ToolCallClosed),
    ApprovalRequest(Box<ApprovalRequest>),
    /// What a call that waits would write, as the file is now.
    ApprovalPreview(Box<ApprovalPreview>),
    ApprovalResolved(ApprovalResolved),
    Question(AgentQuestion),
    Error(TurnError),
    /// A person wants the history summed up, and the model is asked to.
    HistoryCompacting(HistoryCompacting),
    HistoryCompacted(HistoryCompacted),
    /// The summary that a person asked for could not be written.
    CompactionFailed(ErrorData),
    RememberedRevoked(RememberedRevoked),
    /// What passes without a question in this session is another thing now.
    ApproveChanged(ApproveChanged),
    /// A person took back files, messages or both, or gave them back.
    Rewound(Box<Rewound>),
    ModelFallback(ModelFallback),
    ModelWaiting(ModelWaiting),
    /// Something begins to wait for a person.
    WaitingAdded(Waiting),
    /// It was decided or answered, it expired, or its turn ended.
    WaitingRemoved(WaitingRemoved),
    /// These event numbers were pruned and can no longer be read; never stored itself.
    Gap(Gap),
}

/// The task that something belongs to; empty for a session's own turn.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskOrigin {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub plan_id: Option<PlanId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub task_id: Option<TaskId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessageCreated {
    /// Before the message, which has a `task_id` as well: a reader fills the fields in this order.
    /// In an event the origin says which task an answer is for, and the message's own is absent.
    #[serde(flatten)]
    pub origin: TaskOrigin,
    #[serde(flatten)]
    pub message: Message,
    /// The workflow that a user message starts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub workflow_id: Option<WorkflowId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ApproveChanged {
    pub approve: ApproveMode,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessageDelta {
    pub content: String,
    pub agent: AgentName,
    pub message_id: MessageId,
    /// A higher attempt replaces what was shown for this message.
    pub attempt: u32,
    /// Where `content` starts, in bytes of the message's UTF-8 text.
    pub offset: u64,
    #[serde(flatten)]
    pub origin: TaskOrigin,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessageQueued {
    pub message_id: MessageId,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub workflow_id: Option<WorkflowId>,
    /// 1 = next.
    pub position: u64,
    /// It waits for the next tool results of the turn that runs, not for its end. An event without
    /// it, for the same message, says that the turn ended before.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub steers: bool,
    /// What it says. Absent in events of earlier versions.
    #[serde(default)]
    pub content: String,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub attachments: Vec<Attachment>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessageDequeued {
    pub message_id: MessageId,
    pub reason: DequeueReason,
}

/// Why a queued message was taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DequeueReason {
    /// A person emptied the queue.
    Stopped,
    /// A person took this message back.
    TakenBack,
    /// It steers the turn that runs instead. A `message_queued` with `steers` follows.
    Steers,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DirectAgentCall {
    pub agent: AgentName,
    /// The user message that is answered.
    pub message_id: MessageId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AgentStatusChanged {
    pub agent: AgentName,
    pub status: AgentStatus,
    #[serde(flatten)]
    pub origin: TaskOrigin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    Idle,
    Processing,
    /// At its concurrency limit.
    Busy,
    /// Failed several times in a row, or was taken out of service by a person.
    Error,
}

impl AgentStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Processing => "processing",
            Self::Busy => "busy",
            Self::Error => "error",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PlanRequest {
    pub plan_id: PlanId,
    #[serde(flatten)]
    pub approval: ApprovalInfo,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PlanResolved {
    pub plan_id: PlanId,
    pub decision: ApprovalOutcome,
    pub decided_by: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The tasks as they will run, after an edit.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tasks: Vec<PlannedTask>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskStarted {
    pub plan_id: PlanId,
    pub task_id: TaskId,
    pub agent: AgentName,
    pub description: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskProgress {
    pub plan_id: PlanId,
    pub task_id: TaskId,
    pub agent: AgentName,
    /// Model steps so far.
    pub step: u32,
    /// What the step did: `answer`, or the tools it calls.
    pub note: String,
    pub tasks_done: u64,
    pub tasks_total: u64,
}

/// A direct call or a task of a plan that ended well.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskCompleted {
    #[serde(flatten)]
    pub origin: TaskOrigin,
    pub agent: AgentName,
    pub success: bool,
    pub response: String,
    /// The assistant message that holds the answer.
    pub message_id: MessageId,
    /// What the agent recalled from its memory.
    #[serde(default)]
    pub context: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<Usage>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskFailed {
    pub plan_id: PlanId,
    pub task_id: TaskId,
    pub agent: AgentName,
    pub error: ErrorData,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TaskSkipped {
    pub plan_id: PlanId,
    pub task_id: TaskId,
    pub agent: AgentName,
    /// The failed task that this one depends on.
    pub because_of: TaskId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct WorkflowCompleted {
    pub plan_id: PlanId,
    pub workflow_id: WorkflowId,
    pub status: WorkflowStatus,
    pub response: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message_id: Option<MessageId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<Usage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkflowStatus {
    Completed,
    Partial,
    Failed,
    Cancelled,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ToolCallEvent {
    #[serde(flatten)]
    pub call: ToolCallChunk,
    /// Whether a client is attached that can run it.
    pub client_attached: bool,
    #[serde(flatten)]
    pub origin: TaskOrigin,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ToolResultEvent {
    pub call_id: CallId,
    pub tool_name: String,
    pub result: Value,
    /// The result came after the call was closed.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub late: bool,
    #[serde(flatten)]
    pub origin: TaskOrigin,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ToolProgress {
    pub call_id: CallId,
    pub progress: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub total: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ToolCallClosed {
    pub call_id: CallId,
    pub outcome: CallOutcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallOutcome {
    Completed,
    Rejected,
    Cancelled,
    /// Nobody claimed it in time; it never ran.
    Expired,
    /// It was claimed and no result came: it may or may not have run.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ApprovalRequest {
    #[serde(flatten)]
    pub approval: ApprovalInfo,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Option<AgentName>,
    #[serde(flatten)]
    pub origin: TaskOrigin,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ApprovalResolved {
    pub call_id: CallId,
    /// Never `plan`: a plan has an event of its own.
    pub kind: ApprovalKind,
    pub decision: ApprovalOutcome,
    pub decided_by: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The arguments as they will run, after an edit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<Object>)]
    pub modified_args: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AgentQuestion {
    pub call_id: CallId,
    pub question: String,
    /// The MCP server that asks, where it is not the agent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server: Option<McpServerName>,
    /// The fields of the answer as JSON Schema, where a server asks. One field is answered plainly,
    /// several with a JSON object. `/decline` gives no answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<Object>)]
    pub requested_schema: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub options: Vec<String>,
    pub agent: AgentName,
    #[serde(flatten)]
    pub origin: TaskOrigin,
}

impl AgentQuestion {
    /// What a person's text means: a number stands for the option it numbers.
    pub fn chosen<'a>(&'a self, text: &'a str) -> &'a str {
        let number = text.trim().parse::<usize>().ok();
        let option = number.and_then(|number| self.options.get(number.checked_sub(1)?));
        option.map_or(text, String::as_str)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TurnError {
    #[serde(flatten)]
    pub error: ErrorData,
    #[serde(flatten)]
    pub origin: TaskOrigin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HistoryCompacting {
    /// How many messages the summary will stand for.
    pub messages: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HistoryCompacted {
    /// How many messages the summary stands for.
    pub messages: u64,
    pub summary: String,
}

/// A model cannot answer now, so another one is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ModelFallback {
    /// Names as in the settings.
    pub from: String,
    pub to: String,
    /// Why `from` cannot answer.
    pub kind: ModelFailureKind,
    pub agent: AgentName,
    #[serde(flatten)]
    pub origin: TaskOrigin,
}

/// The model's server said when it can be asked again, and the call waits for that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ModelWaiting {
    pub kind: ModelFailureKind,
    pub until: Timestamp,
    pub agent: AgentName,
    #[serde(flatten)]
    pub origin: TaskOrigin,
}

impl SessionEventBody {
    /// The `type` of the event on the wire.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::MessageCreated(_) => "message_created",
            Self::MessageDelta(_) => "message_delta",
            Self::ReasoningDelta(_) => "reasoning_delta",
            Self::MessageQueued(_) => "message_queued",
            Self::MessageDequeued(_) => "message_dequeued",
            Self::DirectAgentCall(_) => "direct_agent_call",
            Self::AgentStatusChanged(_) => "agent_status_changed",
            Self::AgentSwitched(_) => "agent_switched",
            Self::TaskPlanCreated(_) => "task_plan_created",
            Self::PlanRequest(_) => "plan_request",
            Self::PlanResolved(_) => "plan_resolved",
            Self::TaskStarted(_) => "task_started",
            Self::TaskProgress(_) => "task_progress",
            Self::TaskCompleted(_) => "task_completed",
            Self::TaskFailed(_) => "task_failed",
            Self::TaskSkipped(_) => "task_skipped",
            Self::WorkflowCompleted(_) => "workflow_completed",
            Self::ToolCall(_) => "tool_call",
            Self::ToolResult(_) => "tool_result",
            Self::ToolProgress(_) => "tool_progress",
            Self::ToolCallClosed(_) => "tool_call_closed",
            Self::ApprovalRequest(_) => "approval_request",
            Self::ApprovalPreview(_) => "approval_preview",
            Self::ApprovalResolved(_) => "approval_resolved",
            Self::Question(_) => "question",
            Self::Error(_) => "error",
            Self::HistoryCompacting(_) => "history_compacting",
            Self::HistoryCompacted(_) => "history_compacted",
            Self::CompactionFailed(_) => "compaction_failed",
            Self::RememberedRevoked(_) => "remembered_revoked",
            Self::ApproveChanged(_) => "approve_changed",
            Self::Rewound(_) => "rewound",
            Self::ModelFallback(_) => "model_fallback",
            Self::ModelWaiting(_) => "model_waiting",
            Self::WaitingAdded(_) => "waiting_added",
            Self::WaitingRemoved(_) => "waiting_removed",
            Self::Gap(_) => "gap",
        }
    }
}
