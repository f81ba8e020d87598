//! Request and response bodies of the runtime API.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    AgentName, AllowedTool, ApprovalKind, AuditDecision, CallId, CalledTool, ClientMessageId,
    CommandPart, DecisionChoice, Digest, MaybeKnown, McpCall, Message, SessionId, Timestamp,
    TurnStatus, UserId, arguments_digest,
};

/// Body of `POST /agent/message/stream`. What each `message_type` needs is checked after parsing,
/// so that a missing field has its own code.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AgentStreamRequest {
    pub session_id: SessionId,
    /// `user_message` (default), `tool_result`, `switch_agent` or `hitl_decision`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<MessageType>)]
    pub message_type: Option<MaybeKnown<MessageType>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool_call_id: Option<CallId>,
    /// A text or any JSON.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool_result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hitl_decision: Option<HitlDecision>,
    /// A repeat of the same id returns the first one's stream and never starts a second turn.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_message_id: Option<ClientMessageId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub context: Option<CallerContext>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageType {
    UserMessage,
    ToolResult,
    SwitchAgent,
    HitlDecision,
}

/// A person's decision about an approval.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HitlDecision {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<DecisionChoice>)]
    pub decision: Option<MaybeKnown<DecisionChoice>>,
    /// The new arguments, for EDIT.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<Object>)]
    pub modified_args: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub feedback: Option<String>,
    /// With APPROVE: later calls of the same kind pass for the rest of the session.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub remember: Option<bool>,
    /// The digest that was shown; a wrong one is refused.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub digest: Option<String>,
    /// What the write would replace, as it was shown: the `base` of the preview. It is refused if
    /// the file changed since. Absent: the latest preview counts.
    #[serde(
        skip_serializing_if = "Option::is_none",
        default,
        deserialize_with = "crate::given"
    )]
    #[schema(value_type = Option<crate::FileBase>, required = false)]
    pub base: Option<crate::FileBase>,
}

/// Who is behind a runtime call, for prompts and the audit log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CallerContext {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user_id: Option<UserId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timezone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub household_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub locale: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    Healthy,
    Degraded,
    Unhealthy,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Health {
    pub status: HealthStatus,
    pub version: String,
    pub multi_agent_mode: bool,
    pub registered_agents: Vec<AgentName>,
    /// What the status is made of, by name.
    pub checks: BTreeMap<String, HealthCheck>,
    /// The servers of the installation; absent where this one is alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterHealth>,
}

/// What a server knows of the installation that it is part of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ClusterHealth {
    /// This server.
    pub server: String,
    /// All that can be given work.
    pub servers: Vec<ClusterServer>,
    /// What this server owns.
    pub owned: ClusterOwned,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ClusterServer {
    pub server: String,
    /// Shown only to callers with the internal key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ClusterOwned {
    pub projects: usize,
    /// Sessions of the runtime API that are in memory.
    pub sessions: usize,
    pub chat: bool,
}

/// The process answers; nothing more is said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Alive {
    #[schema(inline)]
    pub status: AliveStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AliveStatus {
    Alive,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct HealthCheck {
    pub status: HealthStatus,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detail: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AgentList {
    pub agents: Vec<AgentInfo>,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AgentInfo {
    pub agent_type: AgentName,
    pub description: String,
    pub allowed_tools: Vec<AllowedTool>,
    pub file_restrictions: Option<Vec<String>>,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CurrentAgent {
    pub session_id: SessionId,
    pub current_agent: AgentName,
    pub switch_count: u64,
    pub last_switch_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionList {
    pub sessions: Vec<SessionInfo>,
    pub total: u64,
    pub limit: u64,
    pub offset: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionInfo {
    pub session_id: SessionId,
    pub title: Option<String>,
    pub created_at: Timestamp,
    pub last_activity: Timestamp,
    pub is_active: bool,
    pub message_count: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CreateSession {
    pub session_id: SessionId,
    /// Appended to each agent's own prompt.
    #[serde(default)]
    pub system_prompt: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionCreated {
    pub session_id: SessionId,
    pub created_at: Timestamp,
    #[schema(inline)]
    pub status: CreatedStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CreatedStatus {
    Created,
}

/// Answer of an action on a session.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionAck {
    pub session_id: SessionId,
    /// What the action did.
    pub status: AckStatus,
    pub current_agent: AgentName,
    /// How the running turn stands, if there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub turn: Option<TurnStatus>,
    pub queued: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AckStatus {
    Reset,
    Cancelled,
    /// There was nothing to cancel.
    Idle,
    Restored,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SessionHistory {
    pub session_id: SessionId,
    pub messages: Vec<Message>,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PendingApprovals {
    pub session_id: SessionId,
    pub pending_approvals: Vec<ApprovalInfo>,
}

/// A durable question to a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ApprovalInfo {
    pub call_id: CallId,
    pub kind: ApprovalKind,
    pub tool_name: String,
    #[schema(value_type = Object)]
    pub arguments: Map<String, Value>,
    pub digest: Digest,
    /// Present for a tool of an MCP server. The digest covers its server, name and definition then.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mcp: Option<Box<McpCall>>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub parts: Vec<CommandPart>,
    pub reason: String,
    pub created_at: Timestamp,
    /// Absent when approvals never expire.
    pub expires_at: Option<Timestamp>,
    pub timeout_seconds: u64,
    /// What a write would do to the file as it is now, once the client that would run it has told.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub preview: Option<Box<crate::FilePreview>>,
}

impl ApprovalInfo {
    /// Whether the digest is the one of what is shown.
    pub fn shows_what_runs(&self) -> bool {
        let digest = match &self.mcp {
            Some(mcp) => CalledTool::Named(mcp.clone()).digest(&self.arguments),
            None => arguments_digest(&self.tool_name, &self.arguments),
        };
        digest == self.digest
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AgentHistory {
    pub session_id: SessionId,
    pub switches: Vec<SwitchEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SwitchEntry {
    pub from_agent: AgentName,
    pub to_agent: AgentName,
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub confidence: Option<String>,
    pub timestamp: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AuditList {
    pub session_id: SessionId,
    pub audit: Vec<AuditEntry>,
    /// Whether the chain of hashes is whole.
    pub verified: bool,
}

/// One decision. A purge blanks the arguments and keeps the row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AuditEntry {
    pub call_id: CallId,
    pub tool_name: String,
    #[schema(value_type = Option<Object>)]
    pub original_args: Option<Map<String, Value>>,
    #[schema(value_type = Option<Object>)]
    pub modified_args: Option<Map<String, Value>>,
    #[schema(value_type = AuditDecision)]
    pub decision: MaybeKnown<AuditDecision>,
    pub decided_by: String,
    pub reason: Option<String>,
    pub timestamp: Timestamp,
    pub hash: Digest,
}
