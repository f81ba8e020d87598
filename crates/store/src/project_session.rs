//! Rows that only project sessions have: plans, usage, interactions.

use codelab_protocol::{
    AgentName, ApprovalInfo, Plan, ProjectId, SessionId, TaskId, Timestamp, TurnId, Usage, UserId,
};
use serde_json::{Map, Value};

use crate::SessionKey;
use crate::row::SessionMarks;

/// A project session, as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectSessionRow {
    pub key: SessionKey,
    pub session_id: SessionId,
    pub project_id: ProjectId,
    pub title: Option<String>,
    pub created_at: Timestamp,
    pub last_activity: Timestamp,
    pub message_count: u64,
    /// A question of an agent waits for an answer.
    pub asks: bool,
    pub marks: SessionMarks,
}

/// What is absent stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionEdit {
    pub title: Option<String>,
    pub pinned: Option<bool>,
    pub archived: Option<bool>,
}

/// A project session whose turn may not be over, with its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedSession {
    pub key: SessionKey,
    pub session_id: SessionId,
    pub state: String,
}

/// A project session that waits for its user, with its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingSession {
    pub key: SessionKey,
    /// The server that owns it.
    pub owner: Option<String>,
    pub session_id: SessionId,
    pub project_id: ProjectId,
    pub title: Option<String>,
    pub state: String,
}

/// The current state of a plan. It replaces the stored plan with the same id.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanSaved {
    pub turn: TurnId,
    pub plan: Plan,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PlanRow {
    /// The message that the plan answers. Running the plan again does not change it.
    pub turn: TurnId,
    pub plan: Plan,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A plan, and the session that it was made in.
#[derive(Debug, Clone, PartialEq)]
pub struct ProjectPlanRow {
    pub session_id: SessionId,
    pub title: Option<String>,
    pub plan: Plan,
}

/// A pending question to the user, and where it was asked.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenApprovalRow {
    pub session_id: SessionId,
    pub project_id: ProjectId,
    /// The server that owns the session.
    pub owner: Option<String>,
    pub info: ApprovalInfo,
}

/// The usage of one model call. The session tells its user.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSpending {
    pub agent: AgentName,
    pub turn: TurnId,
    pub task: Option<TaskId>,
    pub usage: Usage,
    pub at: Timestamp,
}

/// The new limits of the session's project. `None` means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProjectBudget {
    pub budget_micro_usd: Option<u64>,
    pub budget_tokens: Option<u64>,
    /// How much of them approvals added since a person last set them.
    pub granted_micro_usd: u64,
    pub granted_tokens: u64,
    pub at: Timestamp,
}

/// The usage of several model calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageSum {
    pub calls: u64,
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    pub total_tokens: u64,
    /// The part of the prompts that came from the providers' caches.
    pub cached_tokens: u64,
    /// The part of the answers that the models spent on thinking.
    pub reasoning_tokens: u64,
    /// The sum of the known costs.
    pub cost_micro_usd: u64,
    /// Whether the costs of all calls are known.
    pub cost_known: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRows {
    pub total: UsageSum,
    pub by_project: Vec<ProjectUsageRow>,
    /// Sessions that still exist, newest activity first.
    pub by_session: Vec<SessionUsageRow>,
    pub by_agent: Vec<AgentUsageRow>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectUsageRow {
    pub project_id: ProjectId,
    pub usage: UsageSum,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionUsageRow {
    pub session_id: SessionId,
    pub project_id: ProjectId,
    pub title: Option<String>,
    pub usage: UsageSum,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentUsageRow {
    pub project_id: ProjectId,
    pub agent: AgentName,
    pub usage: UsageSum,
}

/// Names one interaction, here and in the agent's index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InteractionId(pub u64);

/// An interaction of an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct NewInteraction {
    pub agent: AgentName,
    /// The session's turn; `None` if it did not come from a session.
    pub turn: Option<TurnId>,
    pub task: Option<TaskId>,
    pub kind: String,
    /// `None` if it was neither a success nor a failure.
    pub success: Option<bool>,
    pub text: String,
    pub metadata: Map<String, Value>,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct InteractionRow {
    pub id: InteractionId,
    pub agent: AgentName,
    /// `None` if it did not come from a session.
    pub session_id: Option<SessionId>,
    pub task: Option<TaskId>,
    pub kind: String,
    pub success: Option<bool>,
    pub text: String,
    pub metadata: Map<String, Value>,
    pub created_at: Timestamp,
}

/// An interaction that the index of its agent does not hold yet.
#[derive(Debug, Clone, PartialEq)]
pub struct UnindexedInteraction {
    pub user_id: UserId,
    pub project_id: ProjectId,
    pub interaction: InteractionRow,
}

/// A deleted interaction: only what is needed to find it in the index of its agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasedInteraction {
    pub id: InteractionId,
    pub user_id: UserId,
    pub project_id: ProjectId,
    pub agent: AgentName,
}
