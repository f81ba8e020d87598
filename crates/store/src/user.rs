//! What belongs to a user, as the rest of CodeLab sees it.

use codelab_protocol::{AgentId, AgentName, Patch, ProjectId, Timestamp, Tool};

#[derive(Debug, Clone, PartialEq)]
pub struct ProjectRow {
    pub id: ProjectId,
    pub name: String,
    pub description: Option<String>,
    pub budget_micro_usd: Option<u64>,
    pub budget_tokens: Option<u64>,
    /// How much of the budget approvals added since a person last set it.
    pub granted_micro_usd: u64,
    pub granted_tokens: u64,
    /// Where sessions go that name no project; a user has at most one.
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
    /// Random; tells this creation from every other one.
    pub nonce: String,
    /// Created with it, all or none.
    pub agents: Vec<NewAgent>,
}

/// What an agent is, without its place and times.
#[derive(Debug, Clone, PartialEq)]
pub struct NewAgent {
    pub agent_id: AgentId,
    pub name: AgentName,
    pub role: String,
    pub description: String,
    pub model: String,
    /// The model's own default where absent.
    pub temperature: Option<f64>,
    pub max_tokens: Option<u32>,
    pub system_prompt: String,
    pub allowed_tools: Vec<Tool>,
    pub file_restrictions: Vec<String>,
    pub concurrency_limit: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AgentRow {
    pub agent: NewAgent,
    /// Whether it takes tasks; a person can take it out of service.
    pub registered: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// What changes in a project. `Null` clears what can be absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProjectChange {
    pub name: Option<String>,
    pub description: Patch<String>,
    pub budget_micro_usd: Patch<u64>,
    pub budget_tokens: Patch<u64>,
}

/// What changes in an agent; never its name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AgentChange {
    pub role: Option<String>,
    pub description: Option<String>,
    pub model: Option<String>,
    pub temperature: Patch<f64>,
    pub max_tokens: Patch<u32>,
    pub system_prompt: Option<String>,
    pub allowed_tools: Option<Vec<Tool>>,
    pub file_restrictions: Option<Vec<String>>,
    pub concurrency_limit: Option<u32>,
}
