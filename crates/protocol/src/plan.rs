//! Plans: a graph of tasks, each for one agent.

use serde::{Deserialize, Serialize};

use crate::{AgentName, ErrorData, PlanId, TaskId, Usage, WorkflowId};

mod paths;

pub use paths::{MAX_PATH_BYTES, MAX_TASK_PATHS, TaskPath, paths_overlap};

/// A plan as people see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Plan {
    pub plan_id: PlanId,
    pub workflow_id: WorkflowId,
    pub status: PlanStatus,
    /// The planner's answer was not usable, so keywords chose one agent.
    pub fallback: bool,
    pub estimated_cost_usd: f64,
    /// Whether the price of every task's model is known; if not, the estimate covers only a part.
    pub cost_known: bool,
    pub requires_approval: bool,
    pub tasks: Vec<Task>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    AwaitingApproval,
    Running,
    Completed,
    /// Some tasks were completed, others were not.
    Partial,
    Failed,
    Cancelled,
}

impl PlanStatus {
    pub fn has_ended(self) -> bool {
        !matches!(self, Self::AwaitingApproval | Self::Running)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::AwaitingApproval => "awaiting_approval",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Partial => "partial",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Task {
    pub id: TaskId,
    pub agent: AgentName,
    pub description: String,
    pub depends_on: Vec<TaskId>,
    /// The files and folders that it will write, relative to the workspace. Tasks with a common one
    /// do not run at once.
    #[serde(default)]
    #[schema(required)]
    pub paths: Vec<String>,
    /// The tasks that it waits for only because they write the same files.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub waits_for: Vec<TaskId>,
    pub status: TaskStatus,
    pub estimated_tokens: u64,
    /// Absent when the price of the agent's model is not known.
    pub estimated_cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub result: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<ErrorData>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<Usage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Its predecessors have not finished, or the plan waits for a person.
    Pending,
    /// Waits for a free slot of its agent.
    Queued,
    Running,
    /// Waits for a person or a client.
    Waiting,
    Completed,
    Failed,
    /// A predecessor failed.
    Skipped,
    Cancelled,
}

impl TaskStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A task as the planner, or a person who edits the plan, writes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct PlannedTask {
    pub id: TaskId,
    pub agent: String,
    pub description: String,
    #[serde(default)]
    pub depends_on: Vec<TaskId>,
    /// The files and folders that it will write, relative to the workspace: at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub paths: Vec<String>,
    #[serde(default)]
    pub estimated_tokens: u64,
}
