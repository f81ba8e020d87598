//! Request and response bodies of a project's sessions.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    AgentName, AgentQuestion, ApprovalInfo, ApprovalRequest, ApproveMode, CallId, ClientId,
    ClientMessageId, DecisionChoice, Digest, MaybeKnown, Message, MessageId, NewAttachment, Patch,
    Plan, PlannedTask, ProjectId, SessionId, Timestamp, ToolCallEvent, TurnStatus, Usage,
    WorkflowId,
};

/// Body of `POST /my/chat/sessions`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CreateProjectSession {
    /// Without it, the user's default project.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub project_id: Option<ProjectId>,
    /// Without it, the first line of the first message.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_length = 200)]
    pub title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(minimum = 0)]
    pub budget_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub budget_tokens: Option<u64>,
}

/// What is absent stays. At least one field is given.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ChangeProjectSession {
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = String, required = false, min_length = 1, max_length = 200)]
    pub title: Patch<String>,
    /// The model for the agents of this session; `null` = each agent's own.
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = Option<String>, required = false, min_length = 1, max_length = 200)]
    pub model: Patch<String>,
    /// The agent that messages without `target_agent` go to, by id or name; `null` = they are
    /// planned.
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = Option<String>, required = false, min_length = 1, max_length = 200)]
    pub agent: Patch<String>,
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = bool, required = false)]
    pub pinned: Patch<bool>,
    /// Lists leave archived sessions out.
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = bool, required = false)]
    pub archived: Patch<bool>,
    /// What passes without a question.
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = ApproveMode, required = false)]
    pub approve: Patch<ApproveMode>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProjectSession {
    pub session_id: SessionId,
    pub project_id: ProjectId,
    pub title: Option<String>,
    pub created_at: Timestamp,
    pub last_activity: Timestamp,
    pub message_count: u64,
    /// A question of an agent waits for an answer.
    #[serde(default)]
    pub asks: bool,
    /// The model that was chosen for this session. Lists leave it out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model: Option<String>,
    /// The agent that messages without `target_agent` go to. Lists leave it out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Option<AgentName>,
    /// What passes without a question. Lists leave it out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approve: Option<ApproveMode>,
    /// A summary that a person asked for is being written. Lists leave it out.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub compacting: bool,
    /// The session whose history this one began with. Lists leave it out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub forked_from: Option<ForkedFrom>,
    #[serde(default)]
    #[schema(required)]
    pub pinned: bool,
    #[serde(default)]
    #[schema(required)]
    pub archived: bool,
    /// Plain text of a message or of the title, where the words of a search were found. Only
    /// searches have it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub snippet: Option<String>,
}

/// A session with its newest messages and its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProjectSessionDetail {
    #[serde(flatten)]
    pub session: ProjectSession,
    /// The newest ones, oldest first.
    pub messages: Vec<Message>,
    /// What the current turn waits for. Absent while it works, and when there is no turn.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<TurnStatus>,
    pub busy: bool,
    pub queued: u64,
    pub budget_usd: Option<f64>,
    pub budget_tokens: Option<u64>,
    pub usage: UsageTotal,
}

/// A whole session, to keep or to read elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ExportedSession {
    pub session: ProjectSession,
    /// Oldest first.
    pub messages: Vec<Message>,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProjectSessionList {
    pub sessions: Vec<ProjectSession>,
    pub total: u64,
    pub limit: u64,
    pub offset: u64,
}

/// Body of `POST /my/chat/{session_id}/message`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SendMessage {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = true, nullable = false)]
    pub content: Option<String>,
    /// An agent's id, its name, or its name without the `agent_` prefix. Absent: the request is
    /// planned.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(min_length = 1)]
    pub target_agent: Option<String>,
    /// A repeat of the same id returns the first one's answer and never starts a second turn.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_message_id: Option<ClientMessageId>,
    /// Files for the agents: images, and texts in UTF-8.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(max_items = 8)]
    pub attachments: Vec<NewAttachment>,
    /// What happens to it while another turn runs. Otherwise it makes no difference.
    #[serde(skip_serializing_if = "Delivery::is_queue", default)]
    #[schema(required = false)]
    pub delivery: Delivery,
}

/// What happens to a message while another turn runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// It waits until that turn has ended.
    #[default]
    Queue,
    /// The agents that work now are told it after their next tool results.
    Steer,
}

impl Delivery {
    pub fn is_queue(&self) -> bool {
        *self == Self::Queue
    }
}

/// Body of `PATCH /my/chat/{session_id}/queue/{message_id}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ChangeDelivery {
    pub delivery: Delivery,
}

/// Body of `POST /my/chat/{session_id}/fork`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ForkSession {
    /// The last message of the history that the new session gets: the user's or an agent's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = true, nullable = false)]
    pub at_message_id: Option<MessageId>,
}

/// Where a session's history comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ForkedFrom {
    /// It may have been deleted since.
    pub session_id: SessionId,
    /// The last message that was copied, by its id there.
    pub message_id: MessageId,
}

/// Body of `POST /my/chat/{session_id}/retry`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RetryTurn {
    /// The user's message whose turn is run again; absent: the last one. With it, a request that is
    /// sent twice runs the turn once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message_id: Option<MessageId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageMode {
    Direct,
    Orchestrated,
}

/// The message is durable and will be worked on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessageAccepted {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message_id: Option<MessageId>,
    pub mode: MessageMode,
    pub status: AcceptedStatus,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub workflow_id: Option<WorkflowId>,
    /// Its position in the queue: 1 is next. 0 when it has begun and waits for a slot of its agent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub position: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AcceptedStatus {
    Accepted,
    Queued,
    /// It answered an open question.
    Answered,
    /// The agents that work now are told it after their next tool results.
    Steering,
}

/// The result of a direct call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DirectAnswer {
    /// The user's message.
    pub message_id: MessageId,
    /// The assistant's message, once there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub response_message_id: Option<MessageId>,
    pub mode: MessageMode,
    pub agent: AgentName,
    pub status: TurnStatus,
    pub success: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub response: Option<String>,
    /// What the agent recalled from its memory.
    #[serde(default)]
    pub context: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<Usage>,
    /// What the person should know about the answer: that it was cut, or that another model gave
    /// it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
    /// What the call waits for: the data of the event that asked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pending: Option<PendingData>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error_type: Option<DirectErrorType>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error_code: Option<crate::ErrorCode>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<String>,
    /// What is known about the failure, such as a model error's `kind`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<Object>)]
    pub details: Option<Map<String, Value>>,
}

/// What a direct call waits for: a tool's result, a decision or an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum PendingData {
    ToolCall(Box<PendingToolCall>),
    Approval(Box<ApprovalRequest>),
    Question(Box<AgentQuestion>),
}

/// A tool call that waits for its result. Its id stands where approvals and questions have theirs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PendingToolCall {
    #[serde(flatten)]
    pub event: ToolCallEvent,
    pub call_id: CallId,
}

/// Why a direct call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DirectErrorType {
    Timeout,
    Execution,
    Unavailable,
    Cancelled,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct MessageList {
    pub messages: Vec<Message>,
    pub total: u64,
    pub limit: u64,
    pub offset: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PlanList {
    pub plans: Vec<Plan>,
    pub total: u64,
    pub limit: u64,
    pub offset: u64,
}

/// A plan, and the session that it was made in.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProjectPlan {
    pub session_id: SessionId,
    /// The session's title.
    pub title: Option<String>,
    #[serde(flatten)]
    pub plan: Plan,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProjectPlanList {
    /// Newest first.
    pub plans: Vec<ProjectPlan>,
    pub total: u64,
    pub limit: u64,
    pub offset: u64,
}

/// A person's decision about a plan.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PlanDecision {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = DecisionChoice, required = true)]
    pub decision: Option<MaybeKnown<DecisionChoice>>,
    /// The tasks as they should run, for `edit`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<Vec<PlannedTask>>)]
    pub tasks: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub feedback: Option<String>,
    /// The digest that was shown; a wrong one is refused.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub digest: Option<String>,
}

/// An open approval and where it waits.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OpenApproval {
    pub session_id: SessionId,
    pub project_id: ProjectId,
    #[serde(flatten)]
    pub approval: ApprovalInfo,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ApprovalList {
    pub approvals: Vec<OpenApproval>,
    pub total: u64,
    pub limit: u64,
    pub offset: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ClaimCall {
    pub client_id: ClientId,
    /// The digest of the call that the client is about to run. If a person approved another version
    /// since, the claim is refused. Absent: not compared.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub digest: Option<Digest>,
    /// With a digest: the `base` of that call. Compared as well.
    #[serde(
        skip_serializing_if = "Option::is_none",
        default,
        deserialize_with = "crate::given"
    )]
    #[schema(value_type = Option<crate::FileBase>, required = false)]
    pub base: Option<crate::FileBase>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CallClaimed {
    pub claimed: bool,
    /// Claim again before the lease ends to keep the call.
    pub lease_seconds: u64,
}

/// Body of a tool call's result: one of `result` and `error`.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CallResult {
    pub client_id: ClientId,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ResultAck {
    pub call_id: CallId,
    /// The same result was received before.
    pub duplicate: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AnswerQuestion {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(required = true, nullable = false)]
    pub answer: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProjectSessionAck {
    pub session_id: SessionId,
    /// What the turn waits for now. Absent while it works, and when it is over.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<TurnStatus>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProjectSessionCancelled {
    pub session_id: SessionId,
    /// Whether there was a turn to cancel.
    pub cancelled: bool,
    pub queued: u64,
}

/// Tokens and dollars of many model calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UsageTotal {
    pub calls: u64,
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    pub total_tokens: u64,
    /// The part of `prompt_tokens` that came from the providers' caches.
    #[serde(default)]
    #[schema(required)]
    pub cached_tokens: u64,
    /// The part of `completion_tokens` that the models spent on thinking.
    #[serde(default)]
    #[schema(required)]
    pub reasoning_tokens: u64,
    /// The sum of the calls whose price is known.
    pub cost_usd: f64,
    /// Whether the price of every call is known.
    pub cost_known: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct UsageReport {
    pub total: UsageTotal,
    pub projects: Vec<ProjectUsage>,
    /// The sessions with the newest activity.
    pub sessions: Vec<SessionUsage>,
    pub agents: Vec<AgentUsage>,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProjectUsage {
    pub project_id: ProjectId,
    pub usage: UsageTotal,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionUsage {
    pub session_id: SessionId,
    pub project_id: ProjectId,
    pub title: Option<String>,
    pub usage: UsageTotal,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AgentUsage {
    pub project_id: ProjectId,
    pub agent: AgentName,
    pub usage: UsageTotal,
}
