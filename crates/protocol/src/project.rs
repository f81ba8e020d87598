//! Request and response bodies of users: projects, their agents, logging in.

use serde::{Deserialize, Serialize};

use crate::{AgentId, AgentName, AllowedTool, Patch, ProjectId, Timestamp, UserId};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Project {
    pub project_id: ProjectId,
    pub name: String,
    pub description: Option<String>,
    /// What the project may spend; absent = no limit.
    pub budget_usd: Option<f64>,
    pub budget_tokens: Option<u64>,
    /// New sessions without a project belong to this one.
    pub is_default: bool,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProjectList {
    pub projects: Vec<Project>,
    pub total: u64,
    pub limit: u64,
    pub offset: u64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CreateProject {
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_length = 10000)]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(minimum = 0)]
    pub budget_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub budget_tokens: Option<u64>,
}

/// What is absent stays; `null` clears a description or a budget.
#[derive(Debug, Clone, Default, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ChangeProject {
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = String, required = false, min_length = 1, max_length = 200)]
    pub name: Patch<String>,
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = Option<String>, required = false, max_length = 10000)]
    pub description: Patch<String>,
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = Option<f64>, required = false, minimum = 0)]
    pub budget_usd: Patch<f64>,
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = Option<u64>, required = false)]
    pub budget_tokens: Patch<u64>,
}

/// An agent of a project.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProjectAgent {
    pub agent_id: AgentId,
    pub name: AgentName,
    pub role: String,
    pub description: String,
    /// The model that will be called, before `model_map` and `LLM_MODEL_OVERRIDE`.
    pub model: String,
    /// Whether the model is the server's default, because nobody has chosen one.
    #[serde(default)]
    #[schema(required)]
    pub model_inherited: bool,
    /// Tried in order when a call fails before its first token. Empty: the server's own
    /// (`llm.fallback_models`).
    #[serde(default)]
    #[schema(required)]
    pub fallback_models: Vec<String>,
    /// Without it, the model's own default.
    pub temperature: Option<f64>,
    pub max_tokens: Option<u32>,
    pub system_prompt: String,
    pub allowed_tools: Vec<AllowedTool>,
    /// Regular expressions; only files that match one of them may be written. Absent = no
    /// restriction.
    pub file_restrictions: Option<Vec<String>>,
    pub concurrency_limit: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The answer to saving an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SavedAgent {
    #[serde(flatten)]
    pub agent: ProjectAgent,
    /// What was saved but may not work as written: unknown placeholders in the prompt, an unknown
    /// model.
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ProjectAgentList {
    pub agents: Vec<ProjectAgent>,
    pub total: u64,
    pub limit: u64,
    pub offset: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CreateAgent {
    /// Unique in the project.
    #[schema(pattern = "^[a-z0-9_]{1,64}$")]
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_length = 100)]
    pub role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_length = 2000)]
    pub description: Option<String>,
    /// Without it, the agent follows the server's default model.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(min_length = 1, max_length = 200)]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_items = 8)]
    pub fallback_models: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(minimum = 1, maximum = 200000)]
    pub max_tokens: Option<u32>,
    /// May use `{{messageHistory}}`, `{{userId}}`, `{{currentTime}}`, `{{timezone}}` and
    /// `{{householdId}}`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub system_prompt: Option<String>,
    /// Without it, the tools for reading and for finishing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub allowed_tools: Option<Vec<AllowedTool>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(max_items = 32)]
    pub file_restrictions: Option<Vec<String>>,
    /// How many tasks run at once; 4 if absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(minimum = 1, maximum = 64)]
    pub concurrency_limit: Option<u32>,
}

/// What is absent stays; `null` clears a temperature, a token limit, the fallback models or the file
/// restrictions. A model that is `null` follows the server's default again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ChangeAgent {
    /// The name cannot be changed; only the present one is accepted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = String, required = false, max_length = 100)]
    pub role: Patch<String>,
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = String, required = false, max_length = 2000)]
    pub description: Patch<String>,
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = Option<String>, required = false, min_length = 1, max_length = 200)]
    pub model: Patch<String>,
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = Option<Vec<String>>, required = false, max_items = 8)]
    pub fallback_models: Patch<Vec<String>>,
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = Option<f64>, required = false, minimum = 0, maximum = 2)]
    pub temperature: Patch<f64>,
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = Option<u32>, required = false, minimum = 1, maximum = 200000)]
    pub max_tokens: Patch<u32>,
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = String, required = false)]
    pub system_prompt: Patch<String>,
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = Vec<AllowedTool>, required = false)]
    pub allowed_tools: Patch<Vec<AllowedTool>>,
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = Option<Vec<String>>, required = false, max_items = 32)]
    pub file_restrictions: Patch<Vec<String>>,
    #[serde(skip_serializing_if = "Patch::is_absent", default)]
    #[schema(value_type = u32, required = false, minimum = 1, maximum = 64)]
    pub concurrency_limit: Patch<u32>,
}

/// The ticket of a login link.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Login {
    pub ticket: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct LoggedIn {
    pub user_id: UserId,
    pub expires_at: Timestamp,
}
