//! Bodies about worker spaces: their metrics and health, their agents on the bus, attached clients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    AgentName, AgentStatus, ClientId, Digest, HealthCheck, HealthStatus, ProjectId, Timestamp,
    UserId,
};

/// `get_metrics` of a worker space.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SpaceMetrics {
    pub user_id: UserId,
    pub project_id: ProjectId,
    /// Whether the space is live; reading a cleaned one does not rebuild it.
    pub active: bool,
    pub active_agents: u64,
    pub cache_size: u64,
    pub total_tasks_processed: u64,
    pub active_tasks: u64,
    pub queued_tasks: u64,
    /// Seconds.
    pub uptime: f64,
    pub is_healthy: bool,
    pub direct_calls_count: u64,
    pub orchestrated_calls_count: u64,
    pub average_duration: AverageDuration,
    pub attached_clients: u64,
}

/// Seconds from a message to the end of its turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AverageDuration {
    pub direct: f64,
    pub orchestrated: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SpaceHealth {
    pub status: HealthStatus,
    /// What the status is made of, by name.
    pub checks: BTreeMap<String, HealthCheck>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AgentStatusInfo {
    pub agent: AgentName,
    pub status: AgentStatus,
    /// Whether it accepts tasks; a person can take an agent out of service.
    pub registered: bool,
}

/// What an agent did on this server since its worker space was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AgentMetrics {
    /// Failures too.
    pub tasks_processed: u64,
    pub tasks_failed: u64,
    /// Seconds per processed task.
    pub avg_processing_time: f64,
    pub last_activity: Option<Timestamp>,
    /// Failed of processed, 0 to 1.
    pub error_rate: f64,
    pub active: u64,
    pub queue_length: u64,
    pub concurrency_limit: u64,
}

/// Body of `POST /my/projects/{project_id}/clients`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AttachClient {
    pub client_id: ClientId,
    /// The folder it works in, as people should see it.
    #[serde(default)]
    #[schema(max_length = 4096)]
    pub workspace: String,
    pub sandbox: SandboxKind,
    /// The digest of the report about MCP servers that the server should have of this client.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mcp: Option<Digest>,
    /// The digest of the report about what its workspace brings that the server should have of this
    /// client.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instructions: Option<Digest>,
}

/// What keeps a client's commands within its workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxKind {
    #[serde(rename = "bwrap+landlock")]
    BwrapAndLandlock,
    Bwrap,
    Landlock,
    None,
}

impl SandboxKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BwrapAndLandlock => "bwrap+landlock",
            Self::Bwrap => "bwrap",
            Self::Landlock => "landlock",
            Self::None => "none",
        }
    }
}

/// A program that runs tools in a user's workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AttachedClient {
    pub client_id: ClientId,
    pub workspace: String,
    pub sandbox: SandboxKind,
    pub attached_at: Timestamp,
    /// It sent something within the last minute.
    pub present: bool,
    /// The server has another report about MCP servers than the client says, or none. The client
    /// sends it again.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub mcp_report_wanted: bool,
    /// The same for the report about what its workspace brings.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub instructions_report_wanted: bool,
    /// How many contents of its workspace wait for a person to trust them.
    #[serde(default)]
    pub waiting_contents: u64,
}

/// Body of `POST …/agents/{agent_id}/context`: something the agent should remember.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AddContext {
    pub text: String,
    /// `note` if absent.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none", default)]
    #[schema(max_length = 64)]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub success: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub task_id: Option<crate::TaskId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ContextAdded {
    pub id: String,
}

/// Body of `POST …/agents/{agent_id}/context/search`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SearchContext {
    pub query: String,
    /// 5 if absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(minimum = 1, maximum = 100)]
    pub top_k: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub filter: Option<ContextFilter>,
}

/// What is absent does not matter; both times are included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ContextFilter {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none", default)]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub success: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub until: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ContextHit {
    pub id: String,
    pub text: String,
    /// Compares within one answer only.
    pub score: f32,
    #[serde(rename = "type")]
    pub kind: String,
    pub success: bool,
    pub task_id: Option<crate::TaskId>,
    pub timestamp: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ContextResults {
    /// Best first.
    pub results: Vec<ContextHit>,
    /// The index is being rebuilt, so there may be more to find soon.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rebuilding: bool,
}

/// Something that an agent remembers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ContextInteraction {
    pub id: String,
    pub text: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// Absent if it was neither a success nor a failure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub success: Option<bool>,
    pub task_id: Option<crate::TaskId>,
    /// Absent if it did not come from a session.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session_id: Option<crate::SessionId>,
    /// What was given with it.
    #[serde(skip_serializing_if = "Map::is_empty", default)]
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
    pub timestamp: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ContextList {
    /// Newest first.
    pub interactions: Vec<ContextInteraction>,
    pub total: u64,
    pub limit: u64,
    pub offset: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ClientList {
    pub clients: Vec<AttachedClient>,
    pub total: u64,
    pub limit: u64,
    pub offset: u64,
}
