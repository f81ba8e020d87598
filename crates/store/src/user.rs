//! Rows that belong to a user.

use codelab_protocol::{AgentId, AgentName, AllowedTool, Patch, ProjectId, Timestamp};

#[derive(Debug, Clone, PartialEq)]
pub struct ProjectRow {
    pub id: ProjectId,
    pub name: String,
    pub description: Option<String>,
    pub budget_micro_usd: Option<u64>,
    pub budget_tokens: Option<u64>,
    /// The part of the budget that approvals added since a person last set it.
    pub granted_micro_usd: u64,
    pub granted_tokens: u64,
    /// The project of sessions that name none. A user has at most one.
    pub is_default: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NewProject {
    pub name: String,
    pub description: Option<String>,
    pub budget_micro_usd: Option<u64>,
    pub budget_tokens: Option<u64>,
    /// Random. Distinguishes this creation from all others.
    pub nonce: String,
    /// Created with it, all or none.
    pub agents: Vec<NewAgent>,
}

/// The definition of an agent, without its project and times.
#[derive(Debug, Clone, PartialEq)]
pub struct NewAgent {
    pub agent_id: AgentId,
    pub name: AgentName,
    pub role: String,
    pub description: String,
    /// `None` follows the server's default.
    pub model: Option<String>,
    pub fallback_models: Vec<String>,
    /// `None` means the model's default.
    pub temperature: Option<f64>,
    pub max_tokens: Option<u32>,
    pub system_prompt: String,
    pub allowed_tools: Vec<AllowedTool>,
    pub file_restrictions: Vec<String>,
    pub concurrency_limit: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AgentRow {
    pub agent: NewAgent,
    /// Whether it accepts tasks. A person can take it out of service.
    pub registered: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Changes of a project. `Null` clears an optional field.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProjectChange {
    pub name: Option<String>,
    pub description: Patch<String>,
    pub budget_micro_usd: Patch<u64>,
    pub budget_tokens: Patch<u64>,
}

/// Changes of an agent. Its name never changes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentChange {
    pub role: Option<String>,
    pub description: Option<String>,
    /// `Null` follows the server's default.
    pub model: Patch<String>,
    pub fallback_models: Option<Vec<String>>,
    pub temperature: Patch<f64>,
    pub max_tokens: Patch<u32>,
    pub system_prompt: Option<String>,
    pub allowed_tools: Option<Vec<AllowedTool>>,
    pub file_restrictions: Option<Vec<String>>,
    pub concurrency_limit: Option<u32>,
}
